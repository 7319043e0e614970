"""Levels that nobody has listed: asked, planned, charged, released, read, reported, and declared from the answer."""

from __future__ import annotations

import json
import re
import tomllib
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from seeded_noise import SeededNoise
from study.fault_study import vestry

import vestry as package
from vestry.errors import DeclarationMismatch, InvalidParameter, StudyFileError, VestryError
from vestry.ledger import Ledger
from vestry.levels.level_discovery import LevelDiscovery
from vestry.levels.level_reader import level_reader, quoted
from vestry.mechanisms.release import certify
from vestry.model.request import Request, counts_publicly
from vestry.planning import best_forecast, compare_mechanisms
from vestry.privacy import accountant
from vestry.privacy.guarantee import Guarantee
from vestry.privacy.neighbours import Neighbours, Unit
from vestry.releases import NoisyStatistics, Release, open_release
from vestry.schema.domain import Interval, Levels, domain_from
from vestry.schema.table_schema import TableSchema
from vestry.study import Study

SPEND = Guarantee.parse("epsilon=1,delta=1e-6")
STUDY = """\
[study]
name = "diagnoses"
data = "records.csv"
unit = "row"
neighbours = "add-remove"
budget = { epsilon = 2.0, delta = 1e-5 }
ledger = "diagnoses.ledger"

[columns]

[release.found]
model = "levels"
column = "diagnosis"
spend = { epsilon = 1.0, delta = 1e-6 }
"""
COUNTS = {"flu": 300, "asthma": 200, "broken arm, left": 60, "rare": 2}


def prepared(model=None, *, unit="row", relation="add-remove", mechanism="laplace", spend=SPEND):
    schema = TableSchema({}, Unit.parse(unit), Neighbours.parse(relation))
    asked = spend.under(schema.neighbours)
    return Request(model or LevelDiscovery("diagnosis"), asked, mechanism).prepare(schema, None)


CLAIM = certify(prepared().mechanism)


# --- what one unit moves ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("unit", "relation", "per_person", "values"),
    [
        ("row", "add-remove", None, 1), ("row", "replace", None, 2), ("person=id,rows=3", "add-remove", None, 3),
        ("person=id,rows=3", "replace", None, 6), ("person=id,rows=3", "add-remove", 1, 1),
        ("person=id,rows=3", "replace", 2, 4), ("person=id,rows=3", "add-remove", 9, 3),
    ],
)  # fmt: skip
def test_how_many_counts_a_unit_moves(unit, relation, per_person, values):
    found = prepared(LevelDiscovery("diagnosis", per_person=per_person), unit=unit, relation=relation)
    assert found.mechanism.values == values
    assert found.mechanism.event.kind == "discovery-laplace"
    assert str(found.mechanism.event.neighbours) == relation
    assert found.mechanism.of == ("records" if unit == "row" else "persons")


def test_least_raises_the_threshold_by_as_much():
    plain, ten = (prepared(LevelDiscovery("diagnosis", least=least)).mechanism for least in (1, 10))
    assert ten.threshold == plain.threshold + 9
    assert ten.event == plain.event


@pytest.mark.parametrize(
    ("model", "sentence"),
    [
        (LevelDiscovery(""), "column must be the name of a column of the table"),
        (LevelDiscovery(3), "column must be the name of a column of the table"),
        (LevelDiscovery("a", least=0), "least must be"),
        (LevelDiscovery("a", per_person=0), "per_person must be"),
        (LevelDiscovery("old"), "column must be a column of the table, not a derived one"),
    ],
)
def test_what_cannot_be_asked_is_refused(model, sentence):
    with pytest.raises(InvalidParameter, match=f"^{sentence}"):
        model.check({"old": domain_from({"from": "age > 65"})})


def test_what_does_not_go_with_the_unit_is_refused():
    with pytest.raises(InvalidParameter, match=r"^column must be another one than that of the person"):
        prepared(LevelDiscovery("id"), unit="person=id,rows=3")
    with pytest.raises(InvalidParameter, match=r"^per_person must be omitted where the unit is a row"):
        prepared(LevelDiscovery("a", per_person=2))
    with pytest.raises(InvalidParameter, match=r"^draws must be omitted"):
        Request(LevelDiscovery("a"), SPEND, draws=2)


def test_the_question_does_not_depend_on_what_is_declared_of_the_column():
    """So that the values, once they are declared as levels, do not make it a new question."""
    request, unit = Request(LevelDiscovery("diagnosis"), SPEND), Unit()
    domains = [{}, {"diagnosis": Levels("a", "b")}, {"diagnosis": Interval(0, 1)}]
    schemas = [TableSchema(each, unit, Neighbours.ADD_REMOVE) for each in domains]
    assert len({request.definition(schema) for schema in schemas}) == 1
    other = Request(LevelDiscovery("diagnosis", least=2), SPEND)
    assert other.definition(schemas[0]) != request.definition(schemas[0])
    assert not counts_publicly(schemas[0], request.model)
    assert not counts_publicly(TableSchema({}, unit, Neighbours.REPLACE), request.model)


# --- plans ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("unit", "best"), [("row", "laplace"), ("person=id,rows=9", "gaussian")])
def test_auto_takes_the_lower_threshold(unit, best):
    schema = TableSchema({}, Unit.parse(unit), Neighbours.ADD_REMOVE)
    found = compare_mechanisms(Request(LevelDiscovery("diagnosis"), SPEND), schema, expected_rows=1000)
    assert best_forecast(found).mechanism == best
    assert [each.mechanism for each in found] == ["laplace", "gaussian"]
    assert {each.parameter for each in found} == {"threshold"}
    assert all(each.what == "interval of the count" and each.width > 0 for each in found)


def test_a_plan_says_what_is_shown_and_what_is_found():
    found = prepared()
    said = found.model.caution(found, None, 1000)
    assert said == (
        "texts from the records are shown; how many values are not shown is not told; a value that 15 records hold is"
        " found with probability 0.73, one held by 19 or more with at least 0.99, by 10 or fewer below 0.01"
    )
    assert found.mechanism.probability_shown(19) >= 0.99 > found.mechanism.probability_shown(18)
    assert found.mechanism.probability_shown(10) < 0.01 <= found.mechanism.probability_shown(11)
    ten = prepared(LevelDiscovery("diagnosis", least=10))
    assert "none that fewer than 10 records hold is shown" in ten.model.caution(ten, None, 1000)


# --- what is read -----------------------------------------------------------------------------------------------------


def statistics(values: dict[str, int], noise="discrete-laplace", scale=1.0) -> NoisyStatistics:
    return NoisyStatistics(tuple(values), tuple(values.values()), noise, scale)


@pytest.mark.parametrize("noise", ["discrete-laplace", "discrete-gaussian"])
@pytest.mark.parametrize("z", [6, 7, 12, 200])
@pytest.mark.parametrize("least", [1, 3])
def test_the_distribution_of_a_count_is_enumerated(noise, z, least):
    """p(N | z) ~ P(noise = z - N), N from least on; Laplace noise is no larger than the margin."""
    reader = level_reader({"column": "c", "of": "records", "least": least, "margin": 5}, ())
    found = reader.counts(statistics({"a": z}, noise, 1.3))["a"]
    numbers = np.arange(least, z + 60)
    weights = np.exp(-np.abs(z - numbers) / 1.3) if noise.endswith("laplace") else np.exp(-((z - numbers) ** 2) / 3.38)
    if noise.endswith("laplace"):
        weights = np.where(np.abs(z - numbers) <= 5, weights, 0)
    weights /= weights.sum()
    assert found.mean() == pytest.approx(weights @ numbers, rel=1e-12)
    assert float(found.cdf(z)) == pytest.approx(weights[numbers <= z].sum(), rel=1e-12)
    assert found.points.min() >= least


def test_intervals_hold_the_counts_of_values_nine_times_in_ten():
    """Of values whose counts are spread over many scales, those that are shown; 4 sd of 2,000 are 0.03."""
    mechanism = prepared(spend=Guarantee.parse("epsilon=0.1,delta=1e-4")).mechanism
    hits, total = 0, 0
    counts = np.unique(np.geomspace(1, 5000, 400).astype(int))
    reader = level_reader({"column": "c", "of": "records", "least": 1, "margin": mechanism.margin}, ())
    noise = SeededNoise(4)
    for _ in range(20):
        drawn = zip(counts.tolist(), noise.discrete_laplace(counts.tolist(), scale=mechanism.scale), strict=True)
        shown = {f"{n}": z for n, z in drawn if z >= mechanism.threshold and abs(z - n) <= mechanism.margin}
        for name, count in reader.counts(statistics(shown, scale=mechanism.scale)).items():
            low, high = count.interval(0.9)
            hits, total = hits + (low <= int(name) <= high), total + 1
    assert total > 2000
    assert 0.86 < hits / total < 0.94


def test_a_count_near_the_threshold_says_so():
    reader = level_reader({"column": "c", "of": "records", "least": 1, "margin": 14}, ())
    counts = reader.counts(statistics({"far": 80, "near": 15}))
    assert reader.remark(counts["near"], 0) == "near the threshold: it may be smaller"
    assert reader.remark(counts["far"], 0) == ""


def test_a_line_of_levels_is_one_that_a_study_reads():
    values = ['say "hi"', "back\\slash", "a\nb", "tab\tbed", "é", "\u202egnp", "\x7f", "007", "yes, no"]
    line = level_reader({"column": "odd name", "of": "records", "least": 1, "margin": 5}, ()).declaration(values)
    assert all(each.isprintable() for each in line)
    (name, domain), *_ = tomllib.loads(line).items()
    assert name == "odd name"
    assert domain_from(domain).values == tuple(values)
    assert quoted("\U000e0001") == '"\\U000E0001"'


def test_no_prior_and_no_prediction():
    described = {"column": "c", "of": "records", "least": 1, "margin": 5}
    with pytest.raises(InvalidParameter, match=r"^prior must be omitted for values that occur"):
        level_reader(described, (1.0,))
    with pytest.raises(InvalidParameter, match=r"^predict must be asked of a model of records"):
        level_reader(described, ()).predict(np.zeros((1, 1)), 3, np.random.default_rng(1))


# --- from a table to a release ----------------------------------------------------------------------------------------


@pytest.fixture
def table(tmp_path):
    frame = pd.DataFrame({"diagnosis": [name for name, count in COUNTS.items() for _ in range(count)]})
    frame["id"] = range(len(frame))
    frame.to_csv(tmp_path / "records.csv", index=False)
    return package.Table(tmp_path / "records.csv", {}, neighbours="add-remove")


@pytest.fixture
def ledger(tmp_path):
    terms = {"dataset": "d", "unit": "row", "neighbours": "add-remove", "budget": "epsilon=2,delta=1e-5"}
    return Ledger.create(str(tmp_path / "diagnoses.ledger"), **terms)


@pytest.mark.long
def test_a_release_from_python(table, ledger, tmp_path):
    kept = tmp_path / "release.json"
    asked = {"guarantee": "epsilon=1,delta=1e-6", "ledger": ledger}
    posterior = package.release(LevelDiscovery("diagnosis"), table, **asked, path=kept)
    assert set(posterior.distributions) == {"flu", "asthma", "broken arm, left"}
    assert posterior.by == "diagnosis"
    summary = posterior.summary()
    for name, count in list(COUNTS.items())[:3]:
        assert abs(summary.loc[(name, "count"), "mean"] - count) <= 14
    again = open_release(kept).posterior()
    assert again.summary().equals(summary)
    assert again.to_arviz(np.random.default_rng(1), draws=20)["posterior"]["count"].shape == (4, 20, 3)
    assert open_release(kept).posterior(method="plug-in").summary()["sd"].max() == 0
    with pytest.raises(DeclarationMismatch, match="released before"):
        package.release(LevelDiscovery("diagnosis"), table, **asked)
    facts = next(entry.facts for entry in ledger.entries() if entry.action == "charge")
    assert facts["event"]["kind"] == "discovery-laplace"
    assert facts["purpose"] == "Which values of diagnosis occur, and how often"


@pytest.mark.parametrize("budget", ["epsilon=2", "rho=1", "mu=1"])
def test_a_ledger_without_delta_refuses_it(table, tmp_path, budget):
    ledger = Ledger.create(str(tmp_path / "l"), dataset="d", unit="row", neighbours="add-remove", budget=budget)
    with pytest.raises(VestryError, match="Budget exceeded"):
        package.release(LevelDiscovery("diagnosis"), table, guarantee="epsilon=1,delta=1e-6", ledger=ledger)
    assert [entry.action for entry in ledger.entries()].count("charge") == 0


def test_two_of_them_spend_two_deltas(ledger):
    """The ledger adds epsilons and failures: what each brings is its own."""
    event = prepared().mechanism.event
    before = ledger.state()
    ledger.charge(event, purpose="one")
    ledger.charge(event, purpose="two")
    spent = ledger.state().spent
    assert before.spent.failure == 0
    assert spent.failure / 1e24 == pytest.approx(2 * accountant.failure(event), rel=1e-9)
    assert 0 < spent.failure / 1e24 <= 2e-6
    assert ledger.state().filter.alternatives[0].definition == "pure"
    assert spent.totals[0] == 2 * 10**12


def test_it_is_no_data_for_other_models():
    """Which values are shown depends on their noise, so the numbers alone are not a likelihood."""
    family = {"name": "levels", "column": "c", "of": "records", "least": 1, "margin": 5}
    release = Release(family, (), {"all": statistics({"a": 9, "b": 8})}, CLAIM)
    with pytest.raises(InvalidParameter, match=r"values below the threshold are not"):
        release.likelihood()


NOTHING = "nothing reached the threshold"


def test_nothing_found_is_an_answer():
    release = Release(
        {"name": "levels", "column": "c", "of": "records", "least": 1, "margin": 5}, (), {"all": statistics({})}, CLAIM
    )
    again = Release.from_dict(json.loads(release.text()))
    posterior = again.posterior()
    assert posterior.rows() == []
    assert posterior.summary().empty
    assert posterior.sample() == {}
    for act in (posterior.to_arviz, posterior.plot):
        with pytest.raises(VestryError, match=NOTHING):
            act()
    assert NOTHING in posterior._repr_html_()


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"family": {"margin": 0}}, "family.margin must be a whole number of at least 1"),
        ({"family": {"of": "rows"}}, "family.of must be records or persons"),
        ({"values": [6, 5]}, "the noisy counts must be as many as are shown"),
        ({"names": ["a", "a"]}, "the values must be different from each other"),
    ],
)
def test_a_file_that_is_not_such_a_release_is_refused(change, sentence):
    family = {"name": "levels", "column": "c", "of": "records", "least": 1, "margin": 5, **change.get("family", {})}
    noisy = replace(statistics({"a": 9, "b": 8}), **{k: tuple(v) for k, v in change.items() if k != "family"})
    with pytest.raises(InvalidParameter, match=f"^{sentence}"):
        Release.from_dict(json.loads(Release(family, (), {"all": noisy}, CLAIM).text()))


def test_other_releases_may_not_be_empty():
    release = Release({"name": "count", "of": "records"}, (), {"all": statistics({})}, CLAIM)
    with pytest.raises(InvalidParameter, match=r"^contents must be a list of at least 1"):
        Release.from_dict(json.loads(release.text()))


# --- a study ----------------------------------------------------------------------------------------------------------


def written(folder, text: str = STUDY):
    (folder / "study.toml").write_text(text)
    return folder / "study.toml"


@pytest.mark.long
def test_a_study_from_the_question_to_the_declared_levels(table, ledger, tmp_path):
    study = written(tmp_path)
    checked = vestry("check", study)
    assert checked.code == 0, checked.err
    assert "threshold 15" in checked.out
    assert "shows texts from the records" in checked.out
    planned = vestry("plan", study)
    assert "a value that 15 records hold is found with probability 0.73" in planned.out
    done = vestry("release", study, "--yes")
    assert done.code == 0, done.err
    assert re.search(r"flu +count +\d+ ", done.out)
    assert "rare" not in done.out
    shown = vestry("posterior", tmp_path / "found" / "release.json")
    line = shown.out.strip().split("\n")[-1].strip()
    assert line == 'diagnosis = { levels = ["flu", "asthma", "broken arm, left"], missing = "level" }'
    record = json.loads(vestry("posterior", tmp_path / "found" / "release.json", "--json").out)
    assert record["levels"] == ["flu", "asthma", "broken arm, left"]
    assert record["declaration"] == line
    page = (tmp_path / "report.html").read_text()
    assert "The values are texts from the records, as they stand there." in page
    assert "a value that 15 records hold is found with probability 0.73" in page
    assert "DesfontainesVGM22" in page
    assert "flu" in (tmp_path / "report.csv").read_text()
    # The levels are declared, the question is the same, and the next one uses them.
    more = STUDY.replace("[columns]\n", f"[columns]\n{line}\n")
    more += '\n[release.shares]\nmodel = "dirichlet-categorical"\ncolumn = "diagnosis"\nspend = { epsilon = 0.5 }\n'
    again = vestry("release", written(tmp_path, more), "--yes", "--json")
    assert again.code == 0, again.err
    found, shares = json.loads(again.out)["releases"]
    assert found["done"] == "released before, free"
    assert [row["parameter"] for row in shares["summary"]] == [
        f"probability[{name}]" for name in ("flu", "asthma", "broken arm, left", "missing")
    ]
    page = (tmp_path / "report.html").read_text()
    assert "What was learnt from the data to choose levels, found released" in page


@pytest.mark.long
def test_a_study_in_which_nothing_is_found(ledger, tmp_path):
    pd.DataFrame({"diagnosis": [f"d{place}" for place in range(40)]}).to_csv(tmp_path / "records.csv", index=False)
    done = vestry("release", written(tmp_path), "--yes")
    assert done.code == 0, done.err
    assert "No value reached the threshold. That does not say that there is none." in done.out
    shown = vestry("posterior", tmp_path / "found" / "release.json")
    assert shown.out.startswith("No value reached the threshold.")
    assert json.loads(vestry("posterior", tmp_path / "found" / "release.json", "--json").out)["levels"] == []
    assert "No value reached the threshold." in (tmp_path / "report.html").read_text()
    assert not (tmp_path / "found" / "posterior.nc").exists()
    assert "released before, free" in vestry("release", tmp_path / "study.toml", "--yes").out


FAULTS = {
    'column = "diagnosis"': ('columns = ["diagnosis"]', "this key is not known; write column"),
    "spend = { epsilon = 1.0, delta = 1e-6 }": ("spend = { epsilon = 1.0 }", "only \\(epsilon, delta\\) allows that"),
    'unit = "row"': ('unit = { person = "diagnosis", rows = 2 }', "another one than that of the person"),
}


@pytest.mark.parametrize("old", FAULTS)
def test_a_fault_points_at_its_place(old, tmp_path):
    new, sentence = FAULTS[old]
    with pytest.raises((StudyFileError, VestryError), match=sentence):
        Study.open(written(tmp_path, STUDY.replace(old, new))).costs()


def test_a_study_without_columns_needs_them_for_anything_else(tmp_path):
    more = STUDY + '\n[release.other]\nmodel = "count"\nspend = { epsilon = 0.1 }\n'
    with pytest.raises(StudyFileError, match="no column is declared"):
        Study.open(written(tmp_path, more))
    assert Study.open(written(tmp_path)).config.schema.domains == {}


def test_a_column_that_is_not_there_is_refused_before_the_charge(table, ledger, tmp_path):
    study = Study.open(written(tmp_path, STUDY.replace('column = "diagnosis"', 'column = "diagnoses"')))
    with pytest.raises(StudyFileError, match="one of the table's"):
        study.release()
    assert [entry.action for entry in ledger.entries()].count("charge") == 0
