"""Histograms and quantiles in a study: checked, planned, released and reported."""

import numpy as np
import pandas as pd
import pytest

from vestry.errors import StudyFileError
from vestry.ledger import Ledger
from vestry.model.request import Request
from vestry.planning import compare_mechanisms
from vestry.privacy.guarantee import Guarantee
from vestry.privacy.neighbours import Neighbours, Unit
from vestry.schema.domain import Interval
from vestry.schema.table_schema import TableSchema
from vestry.study import Study
from vestry.tables.quantiles import Quantiles

STUDY = """\
[study]
name = "ages"
data = "ages.csv"
unit = "row"
neighbours = "add-remove"
budget = { epsilon = 3.0 }
ledger = "ages.ledger"
expected_rows = 500

[columns]
age = { interval = [0, 100], missing = "drop" }
day = { interval = [2024-01-01, 2024-12-31] }
ward = { levels = ["A", "B"] }

[release.spread]
model = "histogram"
column = "age"
bins = [0, 20, 50, 100]
by = "ward"
spend = { epsilon = 1.0 }

[release.middle]
model = "quantile"
column = "age"
quantiles = [0.25, 0.5]
bins = 10
spend = { epsilon = 1.0 }

[release.dates]
model = "quantile"
column = "day"
bins = [2024-01-01, 2024-07-01, 2024-12-31]
spend = { epsilon = 1.0 }
"""


def opened(folder, text: str = STUDY) -> Study:
    (folder / "study.toml").write_text(text)
    return Study.open(folder / "study.toml")


@pytest.mark.long
def test_a_study_of_numbers_in_bins_runs(tmp_path):
    days = pd.Timestamp("2024-08-01") + pd.to_timedelta(np.arange(500) % 60, "D")
    rows = {"age": np.arange(500) % 110 - 5, "day": days.strftime("%Y-%m-%d"), "ward": ["A", "B"] * 250}
    pd.DataFrame(rows).to_csv(tmp_path / "ages.csv", index=False)
    Ledger.create(
        str(tmp_path / "ages.ledger"), dataset="ages", unit="row", neighbours="add-remove", budget="epsilon=3"
    )
    study = opened(tmp_path)
    assert list(study.check().index) == ["spread", "middle", "dates"]
    assert len(study.plan()) == 3
    study.release()
    page = (tmp_path / "report.html").read_text()
    assert "The distribution of age, by ward" in page
    assert "The 0.25-quantile and median of age" in page
    assert "Mean probability of each bin, divided by the width of its bin" in page
    assert "interval of each quantile, from edge to edge of bins" in page
    assert "90%: 2024-07-01 to 2024-12-31" in page
    assert "noise summed out, to the edges of bins: conservative" in (tmp_path / "report.csv").read_text()


FAULTS = {
    "bins = 10": ("bins = 1", "release.middle.bins: bins must be a whole number from 2"),
    "quantiles = [0.25, 0.5]": ("quantiles = [0.25, 1.5]", "release.middle.quantiles: quantiles must be"),
    "bins = [0, 20, 50, 100]": ("bins = [0, 20, 50]", "release.spread.bins: bins must be three edges or more"),
}


@pytest.mark.parametrize("old", FAULTS)
def test_a_fault_points_at_its_key(old, tmp_path):
    new, sentence = FAULTS[old]
    with pytest.raises(StudyFileError, match=sentence):
        opened(tmp_path, STUDY.replace(old, new))


def planned(bins: int, epsilon: float):
    schema = TableSchema({"age": Interval(0, 100)}, Unit(), Neighbours.parse("add-remove"))
    request = Request(Quantiles("age", bins=bins), Guarantee.parse(f"epsilon={epsilon}"), "laplace")
    (found,) = compare_mechanisms(request, schema, expected_rows=1000)
    return found


def test_a_plan_says_what_precision_the_bins_allow():
    coarse, fine = planned(5, 1), planned(100, 1)
    assert coarse.width >= 20
    assert coarse.note == "bins are 20 wide, and no interval is shorter; narrower bins would give shorter ones"
    assert fine.note == ""
    assert fine.width < coarse.width
    assert planned(100, 0.05).width > 2 * fine.width
    assert coarse.what == "interval of the quantile"
