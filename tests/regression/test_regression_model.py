"""Regressions in studies: keys, releases, names, bounds on features, and nothing spent where something is missing."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from share import cases

from vestry import Interval, Ledger, Levels, LogisticRegression, Study, Table, release
from vestry.errors import GuaranteeUnreachable, InvalidParameter, MissingExtra, StudyFileError
from vestry.regression.problem import LinearProblem, first_rows
from vestry.schema.design_matrix import Design
from vestry.schema.private import PrivateRows, reveal_rows

HEAD = """
[study]
name = "readmissions"
data = "patients.csv"
unit = "row"
neighbours = "{neighbours}"
budget = {{ epsilon = 200, delta = 1e-5 }}
ledger = "patients.ledger"
max_rows = 4000

[columns]
readmitted = {{ levels = ["no", "yes"] }}
stay = {{ interval = [0, 60] }}
age = {{ interval = [18, 98], missing = {{ value = 50 }} }}
ward = {{ levels = ["A", "B", "C"] }}

[release.odds]
"""
LOGISTIC = 'model = "logistic"\noutcome = "readmitted"\nsuccess = "yes"\npredictors = ["age", "ward"]\n'
SPEND = "spend = { epsilon = 50, delta = 1e-6 }\n"


def patients(n: int = 3000) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    age, ward = rng.uniform(18, 98, n), rng.choice(list("ABC"), n)
    stay = np.clip(10 + 0.3 * (age - 58) + 8 * (ward == "C") + rng.normal(0, 3, n), 0, 60)
    chance = 1 / (1 + np.exp(-(0.04 * (age - 58) + 1.5 * (ward == "B"))))
    outcome = np.where(rng.random(n) < chance, "yes", "no")
    return pd.DataFrame({"age": age, "ward": ward, "stay": stay, "readmitted": outcome})


def study(folder, release_text: str, neighbours: str = "add-remove", records: pd.DataFrame | None = None):
    (folder / "study.toml").write_text(HEAD.format(neighbours=neighbours) + release_text)
    (patients() if records is None else records).to_csv(folder / "patients.csv", index=False)
    return folder / "study.toml"


def ledger(folder, neighbours: str = "add-remove") -> Ledger:
    return Ledger.create(
        str(folder / "patients.ledger"), dataset="d", unit="row", neighbours=neighbours, budget="epsilon=200,delta=1e-5"
    )


@pytest.mark.parametrize("method", ["posterior", "objective", "output"])
def test_a_bound_on_the_number_of_records_must_be_declared_where_the_number_is_private(tmp_path, method):
    """By default it would be 1e12, and the penalty that follows from it would leave nothing of the coefficients."""
    path = study(tmp_path, LOGISTIC + SPEND + f'method = "{method}"\n')
    path.write_text(path.read_text().replace("max_rows = 4000\n", ""))
    with pytest.raises(
        StudyFileError, match=r"line 2, study.max_rows: max_rows must be declared .* write max_rows = 10000"
    ):
        Study.open(path).check()
    study(tmp_path, LOGISTIC + SPEND + f'method = "{method}"\n', "replace")
    path.write_text(path.read_text().replace("max_rows = 4000\n", ""))
    Study.open(path).check()


@pytest.mark.parametrize("neighbours", cases(["add-remove", "replace"], quick=["add-remove"]))
@pytest.mark.parametrize("method", cases(["posterior", "objective", "output"], quick=["objective"]))
@pytest.mark.long
def test_coefficients_come_back_under_their_names(tmp_path, method, neighbours):
    pytest.importorskip("numba", reason="the extra `glm` is not installed")
    path = study(tmp_path, LOGISTIC + SPEND + f'method = "{method}"\n', neighbours)
    ledger(tmp_path, neighbours)
    (outcome,) = Study.open(path).release()
    drawn = outcome.posterior.sample()["all"][0]
    assert outcome.posterior.labels == ("age", "ward[B]", "ward[C]", "intercept")
    found = dict(zip(outcome.posterior.labels, drawn, strict=True))
    # Of the order of the coefficients' own size, and at least six deviations of what the methods draw: 1e-8.
    room = 3 if method == "output" else 1
    assert found["age"] == pytest.approx(0.04, abs=0.015 * room)
    assert found["ward[B]"] == pytest.approx(1.5, abs=1.0 * room)
    assert found["intercept"] == pytest.approx(-0.04 * 58, abs=1.1 * room)
    tree = outcome.posterior.to_arviz()
    assert list(tree.posterior["coefficient_index"].values) == list(outcome.posterior.labels)
    page = (tmp_path / "report.html").read_text()
    assert "ward[B]" in page
    assert "The released coefficients" in page
    certificate = json.loads((tmp_path / "odds" / "certificate.json").read_text())["certificate"]
    assert certificate["mechanism"] == method


@pytest.mark.long
def test_a_number_is_explained_in_its_own_units(tmp_path):
    pytest.importorskip("numba", reason="the extra `glm` is not installed")
    asked = 'model = "linear"\noutcome = "stay"\npredictors = ["age", "ward"]\ndraws = 16\n'
    path = study(tmp_path, asked + SPEND.replace("50", "190"))
    ledger(tmp_path)
    (outcome,) = Study.open(path).release()
    drawn = outcome.posterior.sample()["all"]
    assert drawn.shape == (16, 4)
    age, _, third, intercept = drawn.mean(axis=0)
    # The means' deviations are 0.006, 0.35 and 0.4, the prior shrinks by up to 3 of them; 6 more are a chance of 2e-9.
    assert age == pytest.approx(0.3, abs=0.06)
    assert third == pytest.approx(8, abs=3)
    assert intercept == pytest.approx(10 - 0.3 * 58, abs=4)


@pytest.mark.long
def test_several_classes_have_coefficients_each(tmp_path):
    pytest.importorskip("numba", reason="the extra `glm` is not installed")
    table = Table(patients(500), {"ward": Levels("A", "B", "C"), "stay": Interval(0, 60)}, neighbours="replace")
    made = release(LogisticRegression(outcome="ward", predictors=("stay",)), table, guarantee="mu=20",
                   ledger=ledger(tmp_path, "replace"))  # fmt: skip
    assert made.labels == tuple(f"{w}: {name}" for w in "ABC" for name in ("stay", "intercept"))
    slopes = dict(zip(made.labels, made.sample()["all"][0], strict=True))
    assert slopes["C: stay"] > slopes["A: stay"]


BAD = {
    "no such column": ('predictors = ["age", "wards"]', 'a column must be one that is declared .* write "ward"'),
    "no predictors": ("predictors = []", "predictors must be a list of columns"),
    "a predictor twice": ('predictors = ["age", "age"]', "predictors must be each column once"),
    "the outcome as predictor": ('predictors = ["readmitted"]', "predictors must be each column once"),
    "no such level": ('success = "maybe"', r"success must be one of the levels \(no, yes\)"),
    "no such method": ('method = "magic"', "method must be one of posterior, objective, output"),
    "an outcome that is a number": ('outcome = "stay"', "the column stay must be levels"),
    "a prior of the wrong sign": ("prior_precision = -1", "prior_precision must be a number above 0"),
    "a prior in words": ('prior_precision = "1"', "prior_precision must be a number above 0"),
    "a penalty for a posterior": ("regularisation = 1.0", "regularisation must be omitted for the method posterior"),
    "an intercept in words": ('intercept = "yes"', "intercept must be true or false"),
    "an unknown key": ("priors = [1]", "this key is not known"),
    "a mechanism of another kind": ('mechanism = "laplace"', "mechanism must be one of auto, posterior"),
    "a truncation": ("truncation = 0.1", "truncation"),
    "a radius of 0": ("radius = 0", "radius must be a number above 0"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_bad_key_is_told_with_its_line(tmp_path, case):
    line, words = BAD[case]
    key = line.split(" ")[0]
    kept_lines = "".join(f"{each}\n" for each in LOGISTIC.splitlines() if not each.startswith(f"{key} "))
    path = study(tmp_path, kept_lines + line + "\n" + SPEND)
    with pytest.raises(StudyFileError, match=words) as fault:
        Study.open(path)
    assert fault.value.key.startswith("release.odds")
    assert fault.value.line >= 16


def test_a_private_number_of_records_needs_a_bound_near_the_truth(tmp_path):
    path = study(tmp_path, LOGISTIC + "spend = { epsilon = 1, delta = 1e-6 }\nprior_precision = 1e-3\n")
    path.write_text(path.read_text().replace("max_rows = 4000\n", "max_rows = 99999999999\n"))
    with pytest.raises(StudyFileError, match="declare a smaller bound on the number of records"):
        Study.open(path).check()


def test_a_pure_guarantee_is_refused_before_the_charge(tmp_path):
    path = study(tmp_path, LOGISTIC + "spend = { epsilon = 1 }\n")
    made = ledger(tmp_path)
    with pytest.raises((StudyFileError, GuaranteeUnreachable), match="cannot be reached"):
        Study.open(path).release()
    assert len(list(made.entries())) == 1


def test_a_missing_extra_costs_nothing(tmp_path, monkeypatch):
    path = study(tmp_path, LOGISTIC + SPEND)
    made = ledger(tmp_path)

    def absent(*_, **__):
        raise MissingExtra("the gradient of a loss on the processor", "glm")

    monkeypatch.setattr("vestry.regression.method.gradient", absent)
    with pytest.raises((StudyFileError, MissingExtra), match=r"pip install 'vestry\[glm\]'"):
        Study.open(path).release()
    assert len(list(made.entries())) == 1


@pytest.mark.long
def test_one_class_an_empty_table_and_a_constant_column_are_no_errors(tmp_path):
    pytest.importorskip("numba", reason="the extra `glm` is not installed")
    one = patients(200).assign(readmitted="no", age=40.0)
    path = study(tmp_path, LOGISTIC + SPEND, records=one)
    made = ledger(tmp_path)
    Study.open(path).release()
    one.head(0).to_csv(tmp_path / "patients.csv", index=False)
    Study.open(path).release(again=True)
    assert [entry.action for entry in made.entries()].count("release") == 2


def test_a_plan_says_how_wide_and_what_privacy_takes(tmp_path):
    path = study(tmp_path, LOGISTIC + "spend = { epsilon = 1, delta = 1e-6 }\n")
    (small,) = Study.open(path).forecasts("odds")
    path.write_text(path.read_text().replace("epsilon = 1,", "epsilon = 8,"))
    (large,) = Study.open(path).forecasts("odds")
    assert small.exact_width < large.width < small.width


DOMAINS = {
    "age": Interval(18, 98, missing={"value": 50}),
    "narrow": Interval(1.0, 1.0 + 1e-7),
    "ward": Levels("A", "B", "C", missing="level"),
    "y": Interval(-5, 5),
}
ANY = st.floats(allow_nan=True, allow_infinity=True)


@pytest.mark.long
@given(
    st.lists(st.tuples(ANY, ANY, st.sampled_from(["A", "B", "C", "Z", None]), ANY), min_size=1, max_size=8),
    st.booleans(),
    st.sampled_from([None, 0.5, 1.3]),
)
def test_no_record_is_longer_than_the_declared_norm(rows, intercept, radius):
    frame = pd.DataFrame(rows, columns=["age", "narrow", "ward", "y"])
    design = Design(("age", "narrow", "ward"), DOMAINS, "y", None, intercept, radius)
    private = Table(frame, DOMAINS, neighbours="add-remove").rows(design, row_key="k")
    for features, outcomes in reveal_rows(private):
        assert features.shape[1] == len(design.features)
        assert np.all(np.linalg.norm(features.astype(float), axis=1) <= design.norm * (1 + 1e-12))
        assert np.all(np.abs(outcomes) <= 1)
    assert repr(private) == "PrivateRows(...)"


def test_rows_of_a_person_are_bounded_and_the_same_on_every_look():
    frame = patients(400).assign(person=np.arange(400) // 8)
    domains = {"age": Interval(18, 98), "readmitted": Levels("no", "yes")}
    design = Design(("age",), domains, "readmitted", "yes")
    table = Table(frame, domains, unit="person=person,rows=3", neighbours="add-remove")
    looks = [np.concatenate([x for x, _ in reveal_rows(table.rows(design, row_key="k"))]) for _ in range(2)]
    assert len(looks[0]) == 150
    assert np.array_equal(np.sort(looks[0][:, 0]), np.sort(looks[1][:, 0]))


def test_records_beyond_the_bound_are_left_out():
    x, y = np.ones((10, 2), np.float32), np.arange(10.0)
    blocks = first_rows([(x[:4], y[:4]), (x[4:], y[4:])], 6)
    assert np.concatenate([each for _, each in blocks]).tolist() == [0, 1, 2, 3, 4, 5]
    assert first_rows([(x, y)], 10)[0][1].tolist() == y.tolist()


def test_private_rows_show_nothing():
    private = PrivateRows([(np.ones((1, 1)), np.ones(1))])
    for action in (list, len, bool, hash, str.__call__ if False else np.asarray):
        with pytest.raises(Exception, match="a private value cannot be shown"):
            action(private)


def test_groups_are_refused():
    from vestry.privacy.neighbours import Adjacency
    from vestry.regression.losses import Logistic as Loss

    with pytest.raises(InvalidParameter, match="groups must be 1 for a regression"):
        LinearProblem(Loss(), 2, 1.0, Adjacency("add-remove", groups=2), 10)
    with pytest.raises(TypeError, match="by"):
        LogisticRegression(outcome="ward", predictors=("age",), by="stay")


@pytest.mark.parametrize("method", ["posterior", "objective"])
@pytest.mark.long
def test_a_canary_shows_nowhere(tmp_path, capfd, caplog, method):
    pytest.importorskip("numba", reason="the extra `glm` is not installed")
    records = patients(300).astype(object)
    records.loc[7] = [12345.678901, "CANARY7f3", 98765.4321, "CANARY7f3"]
    path = study(tmp_path, LOGISTIC + SPEND + f'method = "{method}"\n', records=records)
    ledger(tmp_path)
    (outcome,) = Study.open(path).release()
    printed = capfd.readouterr()
    said = [printed.out, printed.err, caplog.text, repr(outcome.posterior)]
    files = [file.read_bytes().decode(errors="replace") for file in tmp_path.rglob("*")
             if file.is_file() and file.name != "patients.csv"]  # fmt: skip
    for canary in ("CANARY7f3", "12345.678", "98765.432"):
        assert canary in (tmp_path / "patients.csv").read_text()
        assert not any(canary in text for text in [*said, *files])
