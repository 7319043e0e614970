"""Charge first, once for each fit; nothing depends on values but through the release."""

import hashlib
import importlib
import json
import re
import sys
import warnings

import numpy as np
import pytest

pytest.importorskip("sklearn", reason="the extra `glm` is not installed")
pytest.importorskip("numba", reason="the extra `glm` is not installed")

from seeded_noise import SeededNoise

from vestry import Ledger
from vestry.errors import BudgetExceeded, DeclarationMismatch, GuaranteeUnreachable, InvalidParameter, MissingExtra
from vestry.estimators import Ball, PrivateLinearRegression, PrivateLogisticRegression
from vestry.estimators.bounds import encoder_of
from vestry.schema.design_matrix import RowEncoder

CLASSIFIER = {"bounds": (0, 10), "classes": ("no", "yes"), "max_rows": 200, "method": "output"}
REGRESSOR = {"bounds": (0, 10), "outcome_bounds": (0, 1), "max_rows": 200, "method": "output"}
GUARANTEE = "epsilon=1,delta=1e-6"
METHODS = ("posterior", "objective", "output")


@pytest.fixture
def ledger(tmp_path):
    return create(tmp_path, "epsilon=20,delta=1e-4")


@pytest.fixture(scope="module")
def untouched(tmp_path_factory):
    """A ledger that no test of this file charges."""
    return create(tmp_path_factory.mktemp("untouched"), "epsilon=20,delta=1e-4")


def create(folder, budget, *, unit="row", neighbours="add-remove", name="test.ledger"):
    return Ledger.create(folder / name, dataset="made up", unit=unit, neighbours=neighbours, budget=budget)


def records(count=60):
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 10, (count, 2))
    return X, np.where(X[:, 0] > 5, "yes", "no")


def actions(ledger):
    return [entry.action for entry in ledger.entries()]


class Watched(SeededNoise):
    """Noise that notes what the ledger holds when it is first asked for."""

    def __init__(self, ledger, seen):
        super().__init__(0)
        self.ledger, self.seen = ledger, seen

    def stream(self):
        self.seen.append(actions(self.ledger))
        return super().stream()


@pytest.mark.parametrize("method", METHODS)
def test_the_ledger_is_charged_before_rows_are_read_and_noise_is_drawn(method, ledger, monkeypatch):
    noise, rows = [], []
    encode = RowEncoder.encode

    def watched(self, *arguments):
        rows.append(actions(ledger))
        return encode(self, *arguments)

    monkeypatch.setattr("vestry.mechanisms.release.SystemNoise", lambda: Watched(ledger, noise))
    monkeypatch.setattr(RowEncoder, "encode", watched)
    model = PrivateLogisticRegression(GUARANTEE, ledger=ledger, **{**CLASSIFIER, "method": method}).fit(*records())
    assert rows == [["create", "charge"]]
    on_trial = noise.count(["create"])  # before the charge noise is tried, without a row
    assert noise[:on_trial] == [["create"]] * on_trial
    assert len(noise) > on_trial > 0
    assert all(seen == ["create", "charge", "open"] for seen in noise[on_trial:])
    assert actions(ledger) == ["create", "charge", "open", "release"]
    *_, last = ledger.entries()
    assert last.facts["release_sha256"] == hashlib.sha256(model.release_.text().encode()).hexdigest()


def test_every_fit_is_charged_once(ledger):
    model = PrivateLogisticRegression(GUARANTEE, ledger=ledger, **CLASSIFIER)
    for count in (1, 2, 3):
        model.fit(*records())
        assert actions(ledger).count("charge") == actions(ledger).count("release") == count
    model.predict(records()[0])
    model.predict_proba(records()[0])
    assert actions(ledger).count("charge") == 3


def test_two_fits_differ():
    model = PrivateLogisticRegression(GUARANTEE, ledger=None, neighbours="add-remove", **CLASSIFIER)
    assert not np.array_equal(model.fit(*records()).coef_, model.fit(*records()).coef_)


def test_an_address_is_a_ledger(ledger):
    PrivateLogisticRegression(GUARANTEE, ledger=ledger.address, **CLASSIFIER).fit(*records())
    assert actions(ledger) == ["create", "charge", "open", "release"]


def test_no_ledger_charges_nothing_and_says_so():
    model = PrivateLogisticRegression(GUARANTEE, ledger=None, neighbours="add-remove", **CLASSIFIER)
    model.fit(*records())
    assert model.release_.family["ledger"] == "elsewhere"
    assert 0.9 < model.spent_.epsilon <= 1


def test_an_exhausted_ledger_refuses_and_loses_nothing(tmp_path):
    ledger = create(tmp_path, "epsilon=1.2,delta=1e-5")
    model = PrivateLogisticRegression(GUARANTEE, ledger=ledger, **CLASSIFIER).fit(*records())
    before, coefficients = ledger.state(), model.coef_
    with pytest.raises(BudgetExceeded, match="Budget exceeded"):
        model.fit(*records())
    assert ledger.state() == before
    assert actions(ledger) == ["create", "charge", "open", "release"]
    assert np.array_equal(model.coef_, coefficients)
    fresh = PrivateLogisticRegression(GUARANTEE, ledger=ledger, **CLASSIFIER)
    with pytest.raises(BudgetExceeded, match="Budget exceeded"):
        fresh.fit(*records())
    assert set(vars(fresh)) == set(fresh.get_params())


X, Y = records()
NUMBERS = (X, np.linspace(0, 1, 60))
CLASSES = {"kind": PrivateLogisticRegression, "common": CLASSIFIER, "data": (X, Y)}
LINE = {"kind": PrivateLinearRegression, "common": REGRESSOR, "data": NUMBERS}
BAD = [
    (CLASSES, {"bounds": None}, "bounds must be declared"),
    (CLASSES, {"bounds": (0, 0)}, "low end below the high end"),
    (CLASSES, {"bounds": (0, np.inf)}, "high end of bounds must be finite"),
    (CLASSES, {"bounds": 3}, "a pair"),
    (CLASSES, {"bounds": [(18, 90), (0, 40)]}, "low ends of all features first"),
    (CLASSES, {"bounds": ("0", "1")}, "a number, or one for each feature"),
    (CLASSES, {"bounds": ([0, 0, 0], [1, 1, 1])}, "one for each of the 2 features"),
    (CLASSES, {"bounds": ([[0, 0]], 1)}, "a number, or one for each feature"),
    (CLASSES, {"bounds": Ball(1), "radius": 1.0}, "radius must be omitted"),
    (CLASSES, {"radius": 0}, "radius must be a number at least"),
    (CLASSES, {"classes": None}, "classes must be two or more, declared"),
    (CLASSES, {"classes": ("yes",)}, "classes must be two or more"),
    (CLASSES, {"classes": {"no": 0, "yes": 1}}, "declared in a tuple and never learnt from y, not 'a dict'"),
    (CLASSES, {"classes": ("yes", "yes")}, "different from each other"),
    (CLASSES, {"classes": ("yes", 1)}, "all text or all numbers"),
    (CLASSES, {"classes": ("1", "1.0")}, "different from each other"),
    (CLASSES, {"bounds": (0, 1), "radius": 1e39}, r"radius must be a number at least 1e-15 and at most 1e\+15"),
    (LINE, {"outcome_bounds": None}, "outcome_bounds must be a declared pair"),
    (LINE, {"outcome_bounds": (1, 0)}, "low below high"),
    (LINE, {"loss": "squares"}, "loss must be one of huber"),
    (LINE, {"threshold": -1.0}, "threshold must be a number above 0"),
    (CLASSES, {"guarantee": None}, "guarantee must be what the release may cost"),
    (CLASSES, {"guarantee": "1"}, "key=number pairs"),
    (CLASSES, {"guarantee": 1.0}, "text or a guarantee"),
    (CLASSES, {"guarantee": "epsilon=0,delta=1e-6"}, "epsilon must be a number above 0"),
    (CLASSES, {"regularisation": 1e-9, "method": "objective"}, "cannot be reached"),
    (CLASSES, {"guarantee": "rho=1", "method": "objective"}, "cannot be reached"),
    (
        CLASSES,
        {"method": "objective", "guarantee": "epsilon=500,delta=1e-6", "regularisation": 1e-9},
        "steps cannot be",
    ),
    (CLASSES, {"method": "posterior", "prior_precision": 1e-12}, "a chain of at most 10000000 steps cannot be reached"),
    (CLASSES, {"guarantee": "epsilon=1"}, "cannot be reached"),
    (CLASSES, {"method": "magic"}, "method must be one of posterior, objective, output"),
    (CLASSES, {"method": "posterior", "regularisation": 1.0}, "regularisation must be omitted"),
    (CLASSES, {"prior_precision": 1.0}, "prior_precision must be omitted"),
    (CLASSES, {"draws": 3}, "draws must be omitted"),
    (CLASSES, {"method": "posterior", "draws": 0}, "draws must be a whole number"),
    (CLASSES, {"method": "posterior", "accuracy": 2.0}, "accuracy must be a number above 0 and below 1"),
    (CLASSES, {"method": "objective", "analysis": "hope"}, "analysis must be one of"),
    (CLASSES, {"classes": ("a", "b", "c"), "method": "objective"}, "one linear predictor"),
    (CLASSES, {"max_rows": None}, "max_rows must be declared under add-remove"),
    (CLASSES, {"max_rows": 2.5}, "max_rows must be a whole number"),
    (CLASSES, {"neighbours": "replace"}, "neighbours relation asked for is replace"),
    (CLASSES, {"fit_intercept": "yes"}, "fit_intercept must be true or false"),
    (CLASSES, {"method": "posterior", "device": "abacus"}, "device must be one of auto, cpu, gpu"),
]


@pytest.mark.parametrize(("case", "change", "message"), BAD, ids=[str(row[1])[:60] for row in BAD])
def test_a_bad_declaration_is_refused_before_the_charge(case, change, message, untouched):
    before = actions(untouched)
    odd = tuple(np.copy(part) for part in case["data"])
    odd[0][0, 0] = np.nan
    odd[1][0] = "no" if case is CLASSES else 1e300
    said = set()
    for data in (case["data"], odd):
        parameters = {"guarantee": GUARANTEE, "ledger": untouched, **case["common"], **change}
        with pytest.raises(ValueError, match=message) as refused:
            case["kind"](**parameters).fit(*data)
        said.add(str(refused.value))
    assert len(said) == 1, "neighbours must be told the same"
    assert actions(untouched) == before


SCHEMA = [
    (X + 1j, Y, "Complex data not supported"),
    (X[:, 0], Y, "Reshape your data"),
    (X, Y[:-1], "of as many outcomes"),
    (X, None, "requires y to be passed"),
    (X, np.stack([Y, Y], axis=1), "1d array"),
    ([[1.0, 2.0], [3.0]], ["no", "yes"], "rows of one length"),
]


@pytest.mark.parametrize(("rows", "y", "message"), SCHEMA, ids=[row[2] for row in SCHEMA])
def test_a_bad_schema_is_refused_before_the_charge_and_shows_no_count(rows, y, message, untouched):
    before = actions(untouched)
    with pytest.raises(ValueError, match=message) as refused:
        PrivateLogisticRegression(GUARANTEE, ledger=untouched, **CLASSIFIER).fit(rows, y)
    assert not any(count in str(refused.value) for count in ("60", "59"))
    assert actions(untouched) == before


@pytest.mark.parametrize("kind", [str, bytes, object])
def test_a_type_plays_no_part(kind, monkeypatch):
    """A value that makes numpy, pandas or a list choose another type changes its own row alone."""
    model = PrivateLogisticRegression(GUARANTEE, ledger=None, neighbours="add-remove", **CLASSIFIER)
    plain = encoded_by(monkeypatch, model, (X, Y))
    for data in ((X.astype(kind), Y.astype(kind)), (X.astype(kind).tolist(), Y.astype(kind).tolist())):
        changed = encoded_by(monkeypatch, model, data)
        assert np.array_equal(plain[0], changed[0])
        assert np.array_equal(plain[1], changed[1])


def test_truth_values_beside_a_missing_one_in_every_frame(monkeypatch):
    pandas = pytest.importorskip("pandas")
    polars = pytest.importorskip("polars", reason="pip install 'vestry[polars]'")
    model = PrivateLogisticRegression(GUARANTEE, ledger=None, neighbours="add-remove", **CLASSIFIER)
    values = [[True, 1.0], [False, 2.0], [None, 0.5], [True, None]]
    columns = {"a": [row[0] for row in values], "b": [row[1] for row in values]}
    frames = [values, pandas.DataFrame(columns), pandas.DataFrame(columns).convert_dtypes(), polars.DataFrame(columns)]
    found = [encoded_by(monkeypatch, model, (frame, ["no", "yes", "no", "yes"]))[0] for frame in frames]
    assert all(np.array_equal(found[0], other) for other in found)
    whole = encoded_by(monkeypatch, model, (polars.DataFrame({"a": [True, False], "b": [1.0, 2.0]}), ["no", "yes"]))[0]
    assert np.array_equal(found[0][:2], whole)


def test_outcomes_passed_as_classes_are_not_shown():
    pandas = pytest.importorskip("pandas")
    mixed = np.array([*Y[:59], 0.125], dtype=object)
    for given in (Y, Y.tolist(), pandas.Series(Y), mixed, mixed.tolist(), pandas.Series(mixed)):
        model = PrivateLogisticRegression(GUARANTEE, ledger=None, neighbours="add-remove", **CLASSIFIER)
        with pytest.raises(InvalidParameter, match="classes must be") as refused:
            model.set_params(classes=given).fit(X, Y)
        told = str(refused.value).split("; write")[0]
        assert not any(value in told for value in ("60", "yes", "0.125"))


def test_bounds_of_the_outcome_may_be_an_array():
    model = PrivateLinearRegression(GUARANTEE, ledger=None, neighbours="add-remove", **REGRESSOR)
    model.set_params(outcome_bounds=np.array([0, 2])).fit(*NUMBERS)
    assert model.release_.family["outcome"] == [1.0, 1.0]


def test_a_ledger_must_be_named():
    with pytest.raises(InvalidParameter, match="ledger must be named"):
        PrivateLogisticRegression(GUARANTEE, **CLASSIFIER).fit(X, Y)
    with pytest.raises(InvalidParameter, match="neighbours must be declared where no ledger"):
        PrivateLogisticRegression(GUARANTEE, ledger=None, **CLASSIFIER).fit(X, Y)


def test_a_ledger_of_persons_is_refused(tmp_path):
    ledger = create(tmp_path, "epsilon=1,delta=1e-5", unit="person=id,rows=3")
    with pytest.raises(DeclarationMismatch, match="unit asked for is row"):
        PrivateLogisticRegression(GUARANTEE, ledger=ledger, **CLASSIFIER).fit(X, Y)


STRANGE = {
    "nan": np.where(np.arange(120).reshape(60, 2) == 7, np.nan, X),
    "inf": np.where(np.arange(120).reshape(60, 2) == 7, np.inf, X),
    "huge": np.where(np.arange(120).reshape(60, 2) == 7, 1e308, X),
    "constant": np.full((60, 2), 3.0),
    "all nan": np.full((60, 2), np.nan),
    "text in a list": [["secret", 1.0], *X[1:].tolist()],
    "no rows": X[:0],
}


@pytest.mark.parametrize("bounds", [(0, 10), Ball(3)], ids=["box", "ball"])
@pytest.mark.parametrize("name", STRANGE)
def test_no_value_is_an_error_or_a_warning(name, bounds):
    y = np.array(["yes", "no", "maybe", *Y[3:]])[: len(STRANGE[name])]
    for method in METHODS:
        model = PrivateLogisticRegression(GUARANTEE, ledger=None, neighbours="add-remove", **CLASSIFIER)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            model.set_params(method=method, bounds=bounds).fit(STRANGE[name], y)
            model.predict_proba(STRANGE[name])
        assert np.all(np.isfinite(model.coef_))


@pytest.mark.parametrize(
    "y", [["no"] * 60, [float("nan")] * 60, [None, [1], *Y[2:]], np.array([*Y[:59], 3], dtype=object)],
    ids=["one class", "nan", "a list as label", "a number as label"],
)  # fmt: skip
def test_no_label_is_an_error(y):
    model = PrivateLogisticRegression(GUARANTEE, ledger=None, neighbours="add-remove", **CLASSIFIER)
    assert list(model.fit(X, y).classes_) == ["no", "yes"]


def encoded_by(monkeypatch, model, data):
    """Return what the mechanism is given."""
    seen = []
    monkeypatch.setattr("vestry.estimators.estimator.PrivateRows", lambda blocks: seen.extend(blocks))
    with pytest.raises(AttributeError, match="NoneType"):
        model.fit(*data)
    return seen[0]


def test_a_strange_record_changes_its_own_row_only(monkeypatch):
    model = PrivateLogisticRegression(GUARANTEE, ledger=None, neighbours="add-remove", **CLASSIFIER)
    strange, labels = X.tolist(), Y.tolist()
    strange[0], labels[0] = ["secret", float("inf")], ("what",)
    plain = encoded_by(monkeypatch, model, (X, Y))
    changed = encoded_by(monkeypatch, model, (strange, labels))
    assert np.array_equal(plain[0][1:], changed[0][1:])
    assert np.array_equal(plain[1][1:], changed[1][1:])
    assert changed[0][0].tolist() == [0.0, 1.0, 1.0], "what is no number is the middle, what is infinite is clipped"
    assert changed[1][0] == -1.0


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize(("bounds", "radius"), [((-3, 5), None), ((-3, 5), 0.7), (Ball(2.5), None), (Ball(1e-3), None)])
def test_no_encoded_row_is_longer_than_the_norm(bounds, radius, intercept):
    rng = np.random.default_rng(1)
    rows = rng.standard_cauchy((2000, 5)) * 10.0 ** rng.integers(-3, 250, (2000, 1))
    rows[rng.random(rows.shape) < 0.01] = np.nan
    rows[:5] = 5.0
    encoder = encoder_of(bounds, radius, features=5, intercept=intercept)
    for dtype in (np.float32, np.float64):
        norms = np.linalg.norm(encoder.encode(rows, dtype).astype(float), axis=1)
        assert norms.max() <= encoder.norm
        assert norms.max() > 0.999 * encoder.norm


def test_a_fitted_estimator_holds_nothing_but_the_release(ledger):
    model = PrivateLogisticRegression(GUARANTEE, ledger=ledger, **CLASSIFIER).fit(X, Y)
    own = {name for name in vars(model) if name not in model.get_params()}
    assert own == {
        "n_features_in_", "classes_", "certificate_", "release_", "spent_", "_encoder", "_reading",
    }  # fmt: skip
    published = json.loads(model.release_.text())
    assert np.array_equal(model._reading.encoded[0], published["contents"]["all"]["draws"]["values"])
    assert "60" not in json.dumps(
        {key: value for key, value in published.items() if key in ("family", "prior", "labels")}
    )


def test_the_row_count_is_public_under_replace_alone(tmp_path):
    replace = create(tmp_path, "epsilon=20,delta=1e-4", neighbours="replace", name="replace.ledger")
    options = {**CLASSIFIER, "max_rows": None}
    model = PrivateLogisticRegression(GUARANTEE, ledger=replace, **options).fit(X, Y)
    assert model.certificate_.population["count"] == 60
    with pytest.raises(InvalidParameter, match="number of rows must be a whole number of at least 1"):
        model.fit(X[:0], Y[:0])
    with pytest.raises(InvalidParameter, match="number of rows must be a whole number of at least 1"):
        PrivateLinearRegression(GUARANTEE, ledger=None, neighbours="replace", bounds=(0, 1), outcome_bounds=(0, 1)).fit(
            X[:0], NUMBERS[1][:0]
        )


def test_rows_beyond_the_declared_number_are_left_out(monkeypatch):
    monkeypatch.setattr("vestry.estimators.private_fit.SystemNoise", lambda: SeededNoise(0))
    options = {**CLASSIFIER, "max_rows": 40, "method": "objective"}
    model = PrivateLogisticRegression("epsilon=100,delta=1e-6", ledger=None, neighbours="add-remove", **options)
    by_key, turned = (encoded_by(monkeypatch, model, data)[0] for data in ((X, Y), (X[::-1], Y[::-1])))
    first = encoded_by(monkeypatch, model, (X[:40], Y[:40]))[0]
    assert len(by_key) == len(first) == 40
    assert sorted(map(tuple, by_key)) == sorted(map(tuple, turned))  # whatever the order
    assert sorted(map(tuple, by_key)) != sorted(map(tuple, first))


def test_a_missing_extra_gives_the_line_for_an_environment_and_for_a_clone():
    with pytest.raises(MissingExtra, match=r"pip install 'vestry\[glm\]', or in a clone: pip install '\.\[glm\]'$"):
        raise MissingExtra("a regression", "glm")


def test_missing_scikit_learn_names_the_extra(monkeypatch):
    for name in [name for name in sys.modules if name.startswith("vestry.estimators")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "sklearn", None)
    with pytest.raises(MissingExtra, match=r"pip install 'vestry\[glm\]'"):
        importlib.import_module("vestry.estimators")


def test_a_missing_compiler_is_found_before_the_charge(monkeypatch, ledger):
    monkeypatch.setitem(sys.modules, "numba", None)
    options = {**REGRESSOR, "loss": "pseudo-huber", "threshold": 0.123456}  # never compiled before
    with pytest.raises(MissingExtra, match=r"pip install 'vestry\[glm\]'"):
        PrivateLinearRegression(GUARANTEE, ledger=ledger, **options).fit(*NUMBERS)
    assert actions(ledger) == ["create"]


def test_an_unreachable_guarantee_names_a_way_out():
    options = {**CLASSIFIER, "method": "objective", "regularisation": 1e-9}
    with pytest.raises(GuaranteeUnreachable, match="regularise more"):
        PrivateLogisticRegression(GUARANTEE, ledger=None, neighbours="add-remove", **options).fit(X, Y)


@pytest.mark.parametrize("parameter", ["bounds", "outcome_bounds", "max_rows", "radius", "guarantee", "regularisation"])
@pytest.mark.parametrize("kind", ["array", "list", "rows", "frame"])
def test_records_passed_as_a_parameter_by_mistake_are_not_shown(parameter, kind):
    """The values begin with 7.53; how many there are is not told either."""
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    values = 7.53 + np.arange(17) / 1e5
    given = {"array": values, "list": values.tolist(), "rows": [[v, v] for v in values.tolist()],
             "frame": pandas.DataFrame({"x": values})}[kind]  # fmt: skip
    options = {"guarantee": "epsilon=1,delta=1e-6", "bounds": (0, 10), "outcome_bounds": (0, 10), "ledger": None,
               "neighbours": "replace", "method": "objective", parameter: given}  # fmt: skip
    with pytest.raises((ValueError, TypeError), match=r"must be|guarantee") as refused:
        PrivateLinearRegression(**options).fit(values[:, None], values)
    assert not re.search(r"7\.53|17", str(refused.value))
