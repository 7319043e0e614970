"""A study of fictional patients, to begin with."""

from __future__ import annotations

EXAMPLE = """\
# A study: a table, what its columns may contain, whose privacy is protected, a budget, and what is asked.
# Check it:    vestry check study.toml
# Compare:     vestry plan study.toml
# Run it:      vestry release study.toml

[study]
name = "readmissions"
# The first page of the report: what it is called, who issues it, whom to ask, and why the data are used.
title = "Readmissions after discharge"
issuer = "Quality office, Example Hospital"
contact = "quality@hospital.example"
purpose = "To see in which wards patients come back"
# date = 2026-01-31               # of the report; the day of the last charge if omitted
data = "patients.csv"             # a path (.parquet, .csv, .arrow), or duckdb://, postgresql:// or pyspark://
# "row" hides one row: what it keeps to epsilon, five rows of one person keep to five epsilon. If persons may have
# several rows, protect the person. At most three rows of each count here, and all of them are hidden together:
#     unit = { person = "patient_id", rows = 3 }
# The ledger owns the unit: name a new one below before the first release, and check prints the command that makes it.
unit = "row"
neighbours = "add-remove"         # or "replace"
budget = { epsilon = 1.0, delta = 1e-6 }
ledger = "patients.ledger"
expected_rows = 2000              # a guess at the number of records: check, plan and "auto" go by it

[columns]                         # nothing is learnt from the data: say what each column may contain
readmitted = { levels = ["no", "yes"] }
ward       = { levels = ["A", "B", "C", "D"], missing = "drop" }
stay_days  = { interval = [0, 60], missing = { value = 0 } }

[release.readmission]
model = "beta-bernoulli"
column = "readmitted"
success = "yes"
by = "ward"
prior = [1, 1]
spend = { epsilon = 0.3 }

[release.stay]
model = "normal-mean"
column = "stay_days"
variance = 50
prior = [10, 100]
spend = { epsilon = 0.2 }
"""


def example_records() -> str:
    """Return 2,000 made-up patients as CSV: post-processing of nothing."""
    import numpy as np

    rng = np.random.default_rng(2026)
    ward = rng.choice(list("ABCD"), 2000)
    chance = np.select([ward == "A", ward == "B", ward == "C"], [0.28, 0.12, 0.15], 0.18)
    readmitted = np.where(rng.random(2000) < chance, "yes", "no")
    stay = np.round(rng.gamma(2.5, 4.0, 2000), 1)
    person = rng.integers(1, 1201, 2000)
    rows = (f"{p},{w},{r},{s}" for p, w, r, s in zip(person, ward, readmitted, stay, strict=True))
    return "patient_id,ward,readmitted,stay_days\n" + "\n".join(rows) + "\n"
