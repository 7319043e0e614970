"""Groups by several columns are what groups by one column of all combinations would be."""

from itertools import product

import pandas as pd
import pytest
from share import cases

import vestry
from vestry.errors import InvalidParameter
from vestry.model.request import Request, averaged_model, groups_of
from vestry.privacy.guarantee import Guarantee
from vestry.privacy.neighbours import Neighbours, Unit
from vestry.schema.domain import Interval, Levels
from vestry.schema.private import reveal
from vestry.schema.table_schema import TableSchema

WARDS, SEXES = ("A", "B"), ("f", "m", "x")
SEPARATE = {"ward": Levels(*WARDS), "sex": Levels(*SEXES), "yes": Levels("n", "y"), "days": Interval(0, 10)}
JOINED = {**SEPARATE, "both": Levels(*(f"{ward}, {sex}" for ward in WARDS for sex in SEXES))}
FRAME = pd.DataFrame(
    [
        {"id": f"p{at % 7}", "ward": WARDS[at % 2], "sex": SEXES[at % 3], "yes": "ny"[at % 5 == 0], "days": at % 11}
        for at in range(40)
    ]
)
FRAME["both"] = FRAME["ward"] + ", " + FRAME["sex"]
MODELS = {
    "proportion": lambda by: vestry.BetaBernoulli("yes", success="y", by=by),
    "categories": lambda by: vestry.DirichletCategorical("yes", by=by),
    "mean": lambda by: vestry.NormalMean("days", variance=4.0, prior=(5.0, 9.0), by=by),
    "rate": lambda by: vestry.GammaPoisson("days", by=by),
}
CASES = list(product(MODELS, ["replace", "add-remove"], ["row", "person=id,rows=3"]))


@pytest.mark.parametrize(("name", "neighbours", "unit"), cases(CASES, quick=[("proportion", "replace", "row")]))
def test_two_columns_are_as_one_of_their_combinations(name, neighbours, unit):
    make, found = MODELS[name], []
    for by in (("ward", "sex"), "both"):
        table = vestry.Table(FRAME, JOINED, unit=unit, neighbours=neighbours, max_rows=1000)
        schema = TableSchema(JOINED, Unit.parse(unit), Neighbours.parse(neighbours), 1000)
        model = averaged_model(make(by), schema.unit, None, of_draws=False)
        prepared = Request(model, Guarantee.parse("epsilon=1"), "laplace").prepare(schema, None)
        sums = reveal(prepared.collect(table, row_key="k"))
        found.append((prepared.mechanism, prepared.groups, prepared.labels, None if unit != "row" else sums))
    assert found[0] == found[1]


def test_a_list_of_one_column_is_that_column():
    one, listed = (vestry.BetaBernoulli("yes", success="y", by=by) for by in ("ward", ("ward",)))
    assert one.to_dict() == listed.to_dict()
    assert one.question() == listed.question() == "The probability that yes is y, by ward"
    both = vestry.BetaBernoulli("yes", success="y", by=("ward", "sex"))
    assert both.question() == "The probability that yes is y, by ward and sex"
    assert both.to_dict()["by"] == ["ward", "sex"]


def test_groups_that_would_have_one_name_are_refused():
    domains = {"a": Levels("x", "x, y"), "b": Levels("y, z", "z")}
    with pytest.raises(InvalidParameter, match="by must be columns whose levels tell the groups apart"):
        groups_of(domains, ("a", "b"))


def test_a_release_by_two_columns_is_read_by_its_groups(tmp_path):
    ledger = vestry.Ledger.create(
        str(tmp_path / "d.ledger"), dataset="d", unit="row", neighbours="add-remove", budget="epsilon=1"
    )
    table = vestry.Table(FRAME, SEPARATE, neighbours="add-remove")
    model = vestry.BetaBernoulli("yes", success="y", by=("ward", "sex"))
    posterior = vestry.release(model, table, guarantee="epsilon=1", ledger=ledger, path=tmp_path / "release.json")
    assert list(posterior.distributions) == [f"{ward}, {sex}" for ward in WARDS for sex in SEXES]
    assert posterior.by == vestry.open_release(tmp_path / "release.json").by == "ward, sex"
    assert posterior.contrast("A, f", "B, f", draws=50).index[0][0] == "A, f - B, f"
