"""`vestry init`: a new study, ready to run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from vestry.cli.output import Json, emit, examples
from vestry.errors import InvalidParameter

EXAMPLES = examples(
    "vestry init readmissions",
    "cd readmissions && vestry check study.toml",
    "vestry init clinic --from patients.parquet",
    "vestry init clinic --from patients.csv --header",
    "vestry init clinic --from dictionary.csv",
)

STUDY = """\
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


def init(
    folder: Annotated[Path, Argument(metavar="DIR", help="A new or empty folder; with --from one without study.toml.")],
    source: Annotated[
        str | None,
        Option("--from", metavar="FILE", help="Begin from a data dictionary, or from a table's names and types."),
    ] = None,
    header: Annotated[
        bool, Option("--header", help="The first line of a CSV file holds the columns' names, and not a record.")
    ] = False,
    json: Json = False,
) -> None:
    """Create a study: a commented study file, fictional example data and an empty ledger.

    With --from the study file is for your own table, and there is no example. FILE is the table itself (a file or an
    address, as data in a study file): its columns' names and types are used, never a value. Of a CSV file say by
    --header that its first line holds names: a record there would be shown. Or FILE is a data dictionary: a CSV file
    with the columns name, type (levels, number, count, date, person), levels (divided by ;), and optionally low, high,
    missing, unit, description. What is not known is left as a line that begins with # and says what to declare. The
    ledger is made once the file is complete: vestry check prints the command.
    """
    if source is not None:
        _init_from(folder, source, header=header, as_json=json)
        return
    if header:
        raise InvalidParameter("--header", "alone", "given with --from", "--from FILE beside it")
    from vestry.ledger import Ledger
    from vestry.study import Study

    try:
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise InvalidParameter("a new study's folder", str(folder), "new or empty", "another name")
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "study.toml").write_text(STUDY, encoding="utf-8")
        (folder / "patients.csv").write_text(_patients(), encoding="utf-8")
    except OSError as error:
        raise InvalidParameter(
            "a new study's folder", str(folder), f"writable ({error.strerror})", "another name"
        ) from None
    config = Study.open(folder / "study.toml").config
    Ledger.create(
        folder / config.ledger,
        dataset=config.name,
        unit=config.schema.unit,
        neighbours=config.schema.neighbours,
        budget=config.budget,
    )
    text = (
        f"A study in {folder}: study.toml, patients.csv (fictional) and patients.ledger.\n"
        "It protects single rows. If a person may have several, see the lines above unit in study.toml.\n"
        f"Next: cd {folder} && vestry check study.toml"
    )
    emit({"folder": str(folder), "study": str(folder / "study.toml")}, text, as_json=json)


def _init_from(folder: Path, source: str, *, header: bool, as_json: bool) -> None:
    """Write a study file for a table, and say what is to be completed."""
    from vestry.study.study_template import template_from

    file = folder / "study.toml"
    if file.exists():
        raise InvalidParameter("a new study's folder", str(folder), "without a study.toml", "another name")
    template = template_from(source, folder, header=header)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file.write_text(template.text, encoding="utf-8")
    except OSError as error:
        allowed = f"writable ({error.strerror})"
        raise InvalidParameter("a new study's folder", str(folder), allowed, "another name") from None
    record = {"study": str(file), "columns": template.columns, "declared": template.declared}
    text = (
        f"{file}: {template.declared} of {template.columns} columns are declared; no value was read.\n"
        "Complete the lines that begin with # under [columns], and take the # away.\n"
        f"Next: vestry check {file} --data"
    )
    emit(record, text, as_json=as_json)


def _patients() -> str:
    """Make up 2,000 patients: post-processing of nothing."""
    import numpy as np

    rng = np.random.default_rng(2026)
    ward = rng.choice(list("ABCD"), 2000)
    chance = np.select([ward == "A", ward == "B", ward == "C"], [0.28, 0.12, 0.15], 0.18)
    readmitted = np.where(rng.random(2000) < chance, "yes", "no")
    stay = np.round(rng.gamma(2.5, 4.0, 2000), 1)
    person = rng.integers(1, 1201, 2000)
    rows = (f"{p},{w},{r},{s}" for p, w, r, s in zip(person, ward, readmitted, stay, strict=True))
    return "patient_id,ward,readmitted,stay_days\n" + "\n".join(rows) + "\n"
