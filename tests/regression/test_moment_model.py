"""Linear regression by noisy moments in studies: sums, the default method, what follows from a release, refusals."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from regression.test_regression_model import ledger, patients, study
from share import cases
from study.fault_study import vestry

from vestry import Interval, Ledger, Levels, LinearRegression, Study, Table, open_release, release
from vestry.audit.builtin import audit_shipped
from vestry.errors import InvalidParameter, NoInterval, StudyFileError
from vestry.model.request import Request
from vestry.noise import SystemNoise
from vestry.privacy.guarantee import Guarantee
from vestry.privacy.neighbours import Adjacency, Neighbours, Unit
from vestry.regression.moment_reader import MomentReader, NoPosterior
from vestry.regression.moments import Moments
from vestry.releases import NoisyStatistics
from vestry.schema.design_matrix import HALF
from vestry.schema.private import reveal
from vestry.schema.statistics import SumQuery
from vestry.schema.table_schema import TableSchema

LINEAR = 'model = "linear"\noutcome = "stay"\npredictors = ["age", "ward"]\n'
MUCH = "spend = { epsilon = 100, delta = 1e-6 }\n"
COLUMNS = {"age": Interval(18, 98), "stay": Interval(0, 60), "ward": Levels("A", "B", "C"), "sex": Levels("f", "m")}


def records(n: int = 700) -> pd.DataFrame:
    rng = np.random.default_rng(4)
    return patients(n).assign(sex=rng.choice(["f", "m"], n))


def by_hand(frame: pd.DataFrame) -> dict[str, int]:
    """Sum every product of the columns, record by record, in whole numbers of units."""
    found: dict[str, int] = {}

    def add(name: str, value: float) -> None:
        found[name] = found.get(name, 0) + int(np.floor(value * HALF + 0.5))

    for row in frame.itertuples():
        age, stay = (row.age - 58) / 40, (row.stay - 30) / 30
        marks = {"ward[B]": row.ward == "B", "ward[C]": row.ward == "C", "sex[m]": row.sex == "m"}
        add("count", 1)
        for name, value in {"age": age, "stay": stay, "age * age": age**2, "age * stay": age * stay,
                            "stay * stay": stay**2, **marks}.items():  # fmt: skip
            add(name, float(value))
        for name, mark in marks.items():
            add(f"age * {name}", age * mark)
            add(f"stay * {name}", stay * mark)
        add("ward[B] * sex[m]", float(marks["ward[B]"] and marks["sex[m]"]))
        add("ward[C] * sex[m]", float(marks["ward[C]"] and marks["sex[m]"]))
    return found


@pytest.mark.parametrize("unit", cases(["row", "person=id,rows=2"], quick=["person=id,rows=2"]))
def test_the_query_sums_every_product_once(unit):
    frame = records(60)
    frame["id"] = np.arange(60)
    moments = Moments.of(("age", "ward", "sex", "stay"), COLUMNS)
    table = Table(frame, COLUMNS, unit=unit, neighbours="add-remove")
    query = SumQuery((), moments.terms(count=True))
    table.check(query)
    found = dict(zip(moments.names, reveal(table.collect(query, row_key="k")), strict=True))
    expected = by_hand(frame)
    assert set(found) == set(expected)
    # Products are rounded after a division in another order: half a unit may fall the other way.
    assert {name: abs(found[name] - expected[name]) <= 3 for name in found} == dict.fromkeys(found, True)
    assert found["ward[B] * sex[m]"] == ((frame.ward == "B") & (frame.sex == "m")).sum() * HALF


def least_squares(frame: pd.DataFrame) -> np.ndarray:
    x = np.column_stack([frame.age, frame.ward == "B", frame.ward == "C", np.ones(len(frame))])
    return np.linalg.lstsq(x, frame.stay, rcond=None)[0]


@pytest.fixture(scope="module")
def released(tmp_path_factory):
    folder = tmp_path_factory.mktemp("moments")
    path = study(folder, LINEAR + MUCH + "prior_precision = 0.0001\n", "replace")
    ledger(folder, "replace")
    (outcome,) = Study.open(path).release()
    return folder, path, outcome


@pytest.mark.long
def test_with_next_to_no_noise_it_is_least_squares(released):
    _, _, outcome = released
    means = outcome.posterior.summary()["mean"].to_numpy()
    sds = outcome.posterior.summary()["sd"].to_numpy()
    assert np.abs(means[:4] - least_squares(patients())) == pytest.approx(np.zeros(4), abs=6 * sds[:4].max())
    assert means[4] == pytest.approx(3, abs=0.6)
    assert 0 < means[5] < 1
    assert outcome.posterior.parameters[:2] == ("coefficient[age]", "coefficient[ward[B]]")


@pytest.mark.long
def test_what_follows_is_free(released):
    folder, path, outcome = released
    again = open_release(folder / "odds" / "release.json")
    fewer = again.posterior(predictors=["age"])
    assert fewer.parameters == ("coefficient[age]", "coefficient[intercept]", "residual sd", "R squared")
    assert again.posterior(outcome="age", predictors=["stay"]).reader.features == ("stay", "intercept")
    assert again.posterior(prior=(1e6,)).summary()["mean"].iloc[0] == pytest.approx(0, abs=0.1)
    posterior = outcome.posterior
    contrast = posterior.contrast("ward[C]", "ward[B]")
    assert contrast["mean"].iloc[0] == pytest.approx(8, abs=1.5)
    assert contrast["prob_positive"].iloc[0] > 0.99
    at = posterior.predict_at([{"age": 58, "ward": "C"}, {"age": 58, "ward": "A"}])
    assert at["mean"].iloc[0] == pytest.approx(18, abs=1)
    assert (at["new_high"] - at["new_low"] > at["high"] - at["low"]).all()
    many = posterior.predict_at(pd.DataFrame({"ward": ["C", "A"], "age": [58, 58], "other": [1, 2]}, index=["p", "q"]))
    assert many["mean"].tolist() == pytest.approx(at["mean"].tolist())
    assert many["sd"].tolist() == pytest.approx(at["sd"].tolist())
    assert (many["new_sd"] > many["sd"]).all()
    assert list(many.index) == ["p", "q"]
    compared = posterior.compare(["age", "ward"], ["age"], [])
    assert compared["probability"].iloc[0] == pytest.approx(1)
    with pytest.raises(InvalidParameter, match="one of those released"):
        again.posterior(predictors=["height"])
    with pytest.raises(InvalidParameter, match="one of age, ward"):
        posterior.predict_at({"age": 58, "ward": "A", "height": 3})
    with pytest.raises(InvalidParameter, match="a level of ward must be one of A, B, C"):
        posterior.predict_at({"age": 58, "ward": "D"})
    assert "residual sd" in (folder / "report.html").read_text()
    told = vestry("posterior", folder / "odds" / "release.json", "--predictors", "age", "--json")
    assert [row["parameter"] for row in json.loads(told.out)["rows"]] == list(fewer.parameters)
    refused = vestry("posterior", folder / "odds" / "release.json", "--outcome", "ward")
    assert (refused.code, "a number, or of two levels" in refused.err) == (2, True)
    assert (folder / "odds" / "posterior.nc").exists()
    (once_more,) = Study.open(path).release()
    assert once_more.done == "released before, free"


@pytest.mark.parametrize(
    ("keys", "method"),
    [
        ("", "moments"),
        ("threshold = 3\n", "posterior"),
        ("draws = 2\n", "posterior"),
        ('loss = "pseudo-huber"\n', "posterior"),
        ("intercept = false\n", "posterior"),
        ('method = "output"\n', "output"),
        ("prior_precision = 2\n", "moments"),
        ('mechanism = "gaussian"\n', "moments"),
        ('mechanism = "posterior"\n', "posterior"),
    ],
)
def test_the_method_where_none_is_named(tmp_path, keys, method):
    path = study(tmp_path, LINEAR + MUCH + keys)
    assert Study.open(path).config.release("odds").request.model.chosen == method


@pytest.mark.parametrize(
    ("keys", "reason"),
    [
        ("threshold = 3\n", "threshold must be omitted for the method moments"),
        ("radius = 1\n", "radius must be omitted"),
        ('loss = "pseudo-huber"\n', "loss must be omitted"),
        ("intercept = false\n", "intercept must be true"),
        ("regularisation = 2\n", "regularisation must be omitted"),
        ("draws = 3\n", "draws must be omitted"),
    ],
)
def test_what_belongs_to_rows_is_refused(tmp_path, keys, reason):
    path = study(tmp_path, LINEAR + MUCH + 'method = "moments"\n' + keys)
    with pytest.raises(StudyFileError, match=reason):
        Study.open(path)


@pytest.mark.long
def test_where_the_noise_hides_the_predictors_there_is_no_interval(tmp_path):
    """`plan` says so beforehand, the release says so, and what was paid for is there."""
    text = LINEAR + "spend = { epsilon = 0.05, delta = 1e-6 }\n"
    path = study(tmp_path, text, "replace", patients(300))
    ledger(tmp_path, "replace")
    opened = Study.open(path)
    note = opened.plan()["note"].iloc[0]
    assert "the noise hides the Gram matrix of the predictors" in note
    assert "with columns of levels no way to sample it was shown to be right" in note
    (outcome,) = opened.release()
    assert outcome.summary == []
    with pytest.raises(NoInterval, match="the noise hides the Gram matrix"):
        outcome.posterior.summary()
    assert "There is no interval, because the noise hides" in (tmp_path / "report.html").read_text()
    told = vestry("release", path)
    assert "there is no interval, because the noise hides" in told.out
    refused = vestry("posterior", tmp_path / "odds" / "release.json")
    assert (refused.code, "there is no interval" in refused.err) == (2, True)
    assert (tmp_path / "odds" / "release.json").exists()


def test_a_private_count_is_not_sampled():
    """What was not measured is refused."""
    moments = Moments.of(("age", "stay"), COLUMNS)
    layout = moments.layout(Adjacency("add-remove"))
    values = tuple(round(share * 200 * HALF) for share in (0.1, 0.0, 0.3, 0.05, 0.2, 1.0))
    noisy = NoisyStatistics(
        layout.names, values, "discrete-gaussian", 40.0 * HALF, layout.grid, None, layout.count_grid
    )
    found = MomentReader(moments, "stay", ("age",), 1.0).noise_aware(noisy)
    assert isinstance(found, NoPosterior)
    assert "not measured where the number of records is private" in found.reason


def test_check_writes_the_noise_in_records(tmp_path):
    """Of four columns and the count nine entries may move by 1: at epsilon 1 the scale is 9 records."""
    path = study(tmp_path, LINEAR + "spend = { epsilon = 1 }\n")
    assert Study.open(path).format_parameter("odds", "scale", Study.open(path).check()["value"].iloc[0]) == (
        "scale 9 in units of records"
    )


def test_plan_and_release_from_python(tmp_path):
    frame = records()
    table = Table(frame, COLUMNS, neighbours="add-remove")
    book = Ledger.create(
        str(tmp_path / "l"), dataset="d", unit="row", neighbours="add-remove", budget="epsilon=200,delta=1e-5"
    )
    model = LinearRegression(outcome="stay", predictors=("age", "sex"))
    posterior = release(model, table, guarantee="epsilon=50", ledger=book, path=tmp_path / "r.json")
    low, high = posterior.interval().loc[("all", "coefficient[age]")]
    assert low < 0.3 < high
    tree = posterior.to_arviz(chains=2, draws=10)
    assert tree["posterior"]["coefficient"].shape == (2, 10, 3)
    plug_in = open_release(tmp_path / "r.json").posterior(method="plug-in")
    assert plug_in.summary()["sd"].iloc[0] < posterior.summary()["sd"].iloc[0]


@pytest.mark.long
@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
def test_the_audit_finds_nothing_and_refutes_the_broken_twin(neighbours, noise):
    schema = TableSchema(COLUMNS, Unit(), Neighbours.parse(neighbours))
    model = LinearRegression(outcome="stay", predictors=("age", "ward"))
    guarantee = Guarantee.parse("epsilon=1" if noise == "laplace" else "epsilon=1,delta=1e-6", neighbours=neighbours)
    prepared = Request(model, guarantee, noise).prepare(schema, 500)
    moments = Moments.of(model.columns, COLUMNS)
    options = {"noise": SystemNoise(), "trials": 40_000, "releases": 0}
    assert not audit_shipped(prepared.mechanism, moments, **options).refuted
    # With 40,000 trials and a false alarm in a million, a twin must be this much worse to be seen every time.
    broken = replace(prepared.mechanism, scale=prepared.mechanism.scale / (4 if noise == "gaussian" else 8))
    claim = (prepared.mechanism.event, prepared.mechanism.guarantee)
    assert audit_shipped(broken, moments, claim=claim, **options).refuted


@pytest.mark.long
def test_a_regression_of_each_group(tmp_path):
    """The sums of each group are those of its records; what is read of it is its own least squares."""
    frame = patients()
    domains = {"age": Interval(18, 98), "stay": Interval(0, 60), "ward": Levels("A", "B", "C")}
    model = LinearRegression(outcome="stay", predictors=("age",), by="ward", prior_precision=1e-4)
    table = Table(frame, domains, neighbours="add-remove")
    schema = TableSchema(domains, Unit.parse("row"), Neighbours.ADD_REMOVE)
    prepared = Request(model, Guarantee.parse("epsilon=1000"), "laplace").prepare(schema, None)
    one = Moments.of(("age", "stay"), domains)
    assert prepared.mechanism.layout.l1 == one.layout(Adjacency("add-remove")).l1
    found = np.array(reveal(table.collect(prepared.tally, row_key="k"))).reshape(3, -1)
    for place, ward in enumerate("ABC"):
        alone = Table(frame[frame.ward == ward], domains, neighbours="add-remove")
        assert tuple(found[place]) == reveal(alone.collect(one.tally(count=True), row_key="k"))
    spent = Ledger.create(
        tmp_path / "l.ledger", dataset="d", unit="row", neighbours="add-remove", budget="epsilon=2000"
    )
    posterior = release(model, table, guarantee="epsilon=1000", ledger=spent)
    for ward in "ABC":
        own = frame[frame.ward == ward]
        slope, start = np.polyfit(own.age, own.stay, 1)
        rows = posterior.summary().loc[ward]
        assert rows.loc["coefficient[age]", "mean"] == pytest.approx(slope, abs=4 * rows.loc["coefficient[age]", "sd"])
        assert rows.loc["coefficient[intercept]", "mean"] == pytest.approx(start, abs=3)
    assert posterior.contrast("C", "A").loc[("C - A", "coefficient[intercept]"), "mean"] > 0
    assert len(posterior.predict_at({"age": 50})) == 3
    assert posterior.predict_at(pd.DataFrame({"age": [50, 60]})).shape == (6, 3)
    assert posterior.compare(["age"], [])["probability"].sum() == pytest.approx(1)


@pytest.mark.long
@pytest.mark.parametrize("relation", ["replace", "add-remove"])
def test_groups_cost_what_they_can_move(relation):
    """Under replace a record may go from one group to another: it leaves a whole row of sums, and adds to another."""
    domains = {"x": Interval(-1, 1), "y": Interval(-1, 1), "g": Levels("a", "b")}
    schema = TableSchema(domains, Unit.parse("row"), Neighbours.parse(relation))
    model = LinearRegression(outcome="y", predictors=("x",), by="g")
    layout = Request(model, Guarantee.parse("epsilon=1"), "laplace").prepare(schema, None).mechanism.layout
    assert layout.l1 == (12 if relation == "replace" else 6) * HALF
    ends = [-1.0, 1.0, 0.25]
    frames = [pd.DataFrame({"x": [x], "y": [y], "g": [g]}) for x in ends for y in ends for g in "ab"]
    tally = Moments.of(("x", "y"), domains).tally(("g",), count=True)
    tables = [Table(each, domains, neighbours="add-remove") for each in frames]
    sums = [np.array(reveal(each.collect(tally, row_key="k"))) for each in tables]
    others = sums if relation == "replace" else [np.zeros_like(sums[0])]
    assert max(np.abs(a - b).sum() for a in sums for b in others) == layout.l1


def test_groups_are_for_moments():
    domains = {"x": Interval(-1, 1), "y": Interval(-1, 1), "g": Levels("a", "b")}
    with pytest.raises(InvalidParameter, match="by must be omitted for the method objective"):
        LinearRegression(outcome="y", predictors=("x",), by="g", method="objective").check(domains)
    with pytest.raises(InvalidParameter, match="each column once"):
        LinearRegression(outcome="y", predictors=("g",), by="g").check(domains)
    assert "by" not in LinearRegression(outcome="y", predictors=("x",)).to_dict()
    one, listed = (LinearRegression(outcome="y", predictors=("x",), by=by).to_dict() for by in ("g", ("g",)))
    assert one == listed
