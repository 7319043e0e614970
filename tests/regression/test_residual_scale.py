"""A residual scale makes draws those of a posterior: against the closed form, with twins that forget it.

Monte Carlo errors are allowed six standard deviations: 2e-9 for each comparison, below 1e-6 for each test.
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pandas as pd
import pytest
from seeded_noise import SeededNoise
from share import cases
from typer.testing import CliRunner

from vestry import Interval, Ledger, LinearRegression, Study
from vestry.cli import app
from vestry.errors import InvalidParameter
from vestry.estimators import PrivateLinearRegression
from vestry.model.request import Request
from vestry.privacy.guarantee import Guarantee
from vestry.privacy.neighbours import Adjacency, Neighbours, Unit
from vestry.regression import numpy_math
from vestry.regression.coefficients import Coefficients, coefficients_reader
from vestry.regression.langevin import posterior
from vestry.regression.losses import Huber, LogCosh, PseudoHuber, SmoothQuantile
from vestry.regression.method import regression, shrinkage
from vestry.regression.problem import LinearProblem
from vestry.regression.residual_scale import ResidualScale, with_residual_scale
from vestry.schema.table_schema import TableSchema

pytest.importorskip("numba", reason="the extra `glm` is not installed")

N, SD, PRECISION, DRAWS, ACCURACY = 60, 0.2, 40.0, 600, 0.05


def rows_and_outcomes():
    rng = np.random.default_rng(3)
    rows = np.column_stack([rng.uniform(-1, 1, N), np.ones(N)])
    return rows, rows @ [0.4, -0.1] + rng.normal(0, SD, N)


def problem(loss, rows: int = N) -> LinearProblem:
    return LinearProblem(
        loss, features=2, norm=1.5, adjacency=Adjacency("replace", 1, rows), max_rows=rows, outcome=3.0
    )


def closed_form(rows, y, *, power: float, sd: float):
    """Return mean and covariance of the posterior of normal residuals, tempered: N(0, I/m) before."""
    covariance = np.linalg.inv(power / sd**2 * rows.T @ rows + PRECISION * np.eye(2))
    return covariance @ (power / sd**2 * rows.T @ y), covariance


def agree(loss, *, power: float, sd: float) -> bool:
    """Tell whether draws have the closed form's mean and covariance."""
    rows, y = rows_and_outcomes()
    made = posterior(
        problem(loss), Guarantee.parse("mu=1e4"), prior_precision=PRECISION, draws=DRAWS, accuracy=ACCURACY
    )
    assert made.likelihood_power == 1
    made = dataclasses.replace(made, likelihood_power=power, device="cpu")
    values = np.array(made.draw([(rows, y)], SeededNoise(5)).values)
    mean, covariance = closed_form(rows, y, power=power, sd=sd)
    whitened = np.linalg.solve(np.linalg.cholesky(covariance), (values - mean).T)
    off = np.abs(whitened.mean(axis=1)).max() <= 6 / math.sqrt(DRAWS) + ACCURACY
    spread = np.abs(np.cov(whitened) - np.eye(2)).max() <= 6 * math.sqrt(2 / DRAWS) + ACCURACY
    return bool(off and spread)


@pytest.mark.statistical
@pytest.mark.parametrize("power", [1.0, 0.2])
@pytest.mark.long
def test_draws_are_those_of_the_closed_form(power):
    """With the threshold beyond all residuals the loss is a normal likelihood."""
    assert agree(ResidualScale(Huber(9.0), SD), power=power, sd=SD)


@pytest.mark.statistical
@pytest.mark.long
def test_a_loss_without_the_scale_or_with_its_root_is_seen():
    assert not agree(Huber(9.0), power=1.0, sd=SD)
    assert not agree(ResidualScale(Huber(9.0), math.sqrt(SD)), power=1.0, sd=SD)


@pytest.mark.oracle
@pytest.mark.parametrize("loss", [Huber(0.4), PseudoHuber(0.4)])
def test_slope_and_curvature_are_those_of_the_scaled_loss(loss):
    made = ResidualScale(loss, SD)
    eta, step = np.linspace(-40, 40, 20_001), 1e-4
    slope = made.derivative(numpy_math)(eta, 0.0)
    numeric = np.diff(made.value(numpy_math)(eta, 0.0)) / np.diff(eta)
    assert numeric == pytest.approx((slope[1:] + slope[:-1]) / 2, abs=0.05)
    assert slope.max() <= made.slope
    assert slope.max() == pytest.approx(loss.threshold / SD**2, rel=1e-3)
    curvature = (made.derivative(numpy_math)(step, 0.0) - made.derivative(numpy_math)(-step, 0.0)) / (2 * step)
    assert curvature == pytest.approx(made.curvature, rel=1e-6)
    assert made.curvature == pytest.approx(1 / SD**2)


@pytest.mark.oracle
def test_twice_the_standard_deviation_costs_two_per_cent_of_spread():
    """E psi'/E psi^2 by quadrature, of Huber's psi at 2 and a standard normal: 1.037."""
    r = np.linspace(-12, 12, 240_001)
    density = np.exp(-r * r / 2) / math.sqrt(2 * math.pi)
    psi = np.clip(r, -2, 2)
    ratio = np.trapezoid((np.abs(r) < 2) * density, r) / np.trapezoid(psi * psi * density, r)
    assert math.sqrt(ratio) == pytest.approx(1.018, abs=0.001)
    made = with_residual_scale(Huber, threshold=None, residual_sd=0.1, usual=0.25)
    assert made.to_dict() == {"name": "huber", "threshold": 0.2, "residual_sd": 0.1}
    assert with_residual_scale(Huber, threshold=None, residual_sd=None, usual=0.25) == Huber(0.25)


def test_a_loss_that_is_no_parabola_near_zero_has_no_residual_scale():
    with pytest.raises(InvalidParameter, match="residual_sd must be omitted: the loss is not r\\^2/2 near 0"):
        ResidualScale(SmoothQuantile(0.5, 0.1), 0.1)
    assert ResidualScale(LogCosh(), 0.1).weight == pytest.approx(100)


@pytest.mark.parametrize("epsilon", [1, 50])
def test_the_power_is_at_most_the_whole_likelihood_and_met(epsilon):
    """The event's sensitivity is rho times that of the scaled loss: rho 2 k s/s^2 norm, k the threshold in s."""
    guarantee = Guarantee.parse(f"epsilon={epsilon},delta=1e-6")
    made = posterior(problem(ResidualScale(Huber(2 * SD), SD)), guarantee, prior_precision=PRECISION)
    assert 0 < made.likelihood_power <= 1
    paid = dict(made.event.parameters)["sensitivity"]
    assert paid == pytest.approx(made.likelihood_power * 2 * (2 / SD) * 1.5, rel=1e-9)
    assert (made.likelihood_power == 1) == (epsilon == 50)


# --- what is said of it -----------------------------------------------------------------------------------------------

READER = coefficients_reader(
    {
        "method": "posterior", "features": ["a"], "classes": [], "scales": [None], "outcome": [0.0, 2.0],
        "intercept": False, "loss": {"name": "huber", "threshold": 0.2, "residual_sd": 0.1}, "shrinkage": 0.031,
    },
    (),
)  # fmt: skip


@dataclasses.dataclass
class Calibrated:
    value: float
    parameter: str = "likelihood_power"


@pytest.mark.parametrize(
    ("reader", "value", "said"),
    [
        (
            READER,
            0.04,
            "tempered draws: each record counts 4 %, so they spread about 5 times as far as at full power",
        ),
        (READER, 1.0, "draws from the posterior: each record counts in full"),
        (
            dataclasses.replace(READER, residual_sd=None),
            1.0,
            "draws without a residual scale: each record counts in full, and their spread is not a standard error",
        ),
        (dataclasses.replace(READER, method="output"), 1.0, "an estimate with noise, not an interval"),
    ],
)
def test_each_answer_is_called_what_it_is(reader: Coefficients, value, said):
    what = "prior" if reader.method == "posterior" else "penalty"
    shrunk = f"the {what} shrinks coefficients by at least 3.1 %, for predictors uniform on their domains"
    assert reader.answer(Calibrated(value)) == f"{said}; {shrunk}"
    assert dataclasses.replace(reader, shrinkage=None).answer(Calibrated(value)) == said


def test_a_release_says_that_it_has_no_residual_scale():
    assert READER.interval_method("", several_rows=False) == "no interval: draws of a tempered posterior"
    bare = dataclasses.replace(READER, residual_sd=None)
    assert bare.interval_method("", several_rows=False) == "no interval: draws without a residual scale"


@pytest.mark.oracle
@pytest.mark.parametrize("method", ["posterior", "objective"])
def test_shrinkage_is_that_of_ridge_regression(method):
    """On many uniform rows the penalised least-squares slope is 1 - shrinkage times the true one."""
    rows = np.column_stack([np.random.default_rng(1).uniform(-1, 1, 200_000), np.ones(200_000)])
    loss, guarantee = Huber(0.4), Guarantee.parse("epsilon=1,delta=1e-6")
    if method == "posterior":
        loss = ResidualScale(loss, SD)
        made = regression(problem(loss, len(rows)), guarantee, prior_precision=5e4)
        power, penalty = made.likelihood_power / SD**2, 5e4
    else:
        made = regression(problem(loss, len(rows)), guarantee, method=method, regularisation=5e4)
        power, penalty = 1.0, 5e4
    slope = np.linalg.solve(power * rows.T @ rows + penalty * np.eye(2), power * rows.T @ (rows @ [0.7, 0.0]))[0]
    assert slope == pytest.approx(0.7 * (1 - shrinkage(made, [1 / 3])), rel=0.01)


# --- in studies, on the command line and in estimators ----------------------------------------------------------------

COLUMNS = {"age": Interval(18, 98), "stay": Interval(0, 60)}
STUDY = """
[study]
name = "stays"
data = "stays.csv"
unit = "row"
neighbours = "replace"
expected_rows = 400
budget = {{ epsilon = 200, delta = 1e-5 }}
ledger = "stays.ledger"

[columns]
age = {{ interval = [18, 98] }}
stay = {{ interval = [0, 60] }}

[release.slope]
model = "linear"
outcome = "stay"
predictors = ["age"]
spend = {{ epsilon = {epsilon}, delta = 1e-6 }}
{keys}
"""


def written(folder, keys: str, epsilon: float = 20):
    rng = np.random.default_rng(0)
    age = rng.uniform(18, 98, 400)
    stay = np.clip(10 + 0.3 * (age - 18) + rng.normal(0, 3, 400), 0, 60)
    pd.DataFrame({"age": age, "stay": stay}).to_csv(folder / "stays.csv", index=False)
    path, terms = folder / "stays.ledger", {"unit": "row", "neighbours": "replace"}
    Ledger.create(str(path), dataset="stays", budget="epsilon=200,delta=1e-5", **terms)
    (folder / "study.toml").write_text(STUDY.format(keys=keys, epsilon=epsilon))
    return folder / "study.toml"


def vestry(*arguments) -> str:
    done = CliRunner().invoke(app, [str(each) for each in arguments])
    assert done.exit_code == 0, done.output
    return " ".join(done.output.split())


@pytest.mark.parametrize(
    ("keys", "said"),
    cases(
        [
            ("residual_sd = 3.0", "tempered draws: each record counts "),
            ('method = "posterior"', "draws without a residual scale: each record counts "),
            ('method = "objective"', "an estimate with noise, not an interval; the penalty shrinks coefficients by "),
        ],
        quick=[("residual_sd = 3.0", "tempered draws: each record counts ")],
    ),
)
@pytest.mark.long
def test_plan_terminal_and_report_say_what_the_answer_is(tmp_path, keys, said):
    study = written(tmp_path, keys)
    method = "objective" if "objective" in keys else "posterior"
    assert f"{method}: {said}" in vestry("plan", study)
    assert said in vestry("release", study, "--yes")
    (file,) = tmp_path.rglob("release.json")
    assert said in vestry("posterior", file)
    (page,) = tmp_path.rglob("report.html")
    assert f"{said[:1].upper()}{said[1:]}" in " ".join(page.read_text().replace("\u00a0", " ").split())
    assert "shrinks coefficients by " in page.read_text()


def test_the_question_is_new_only_where_the_scale_is_said():
    """The hash of a question without it is as 0.1.0 had it (tests of moments write it out)."""
    schema = TableSchema(COLUMNS, Unit(), Neighbours.REPLACE)
    plain, scaled = (
        Request(
            LinearRegression(outcome="stay", predictors=("age",), method="posterior", residual_sd=sd),
            Guarantee.parse("epsilon=1,delta=1e-6", neighbours="replace"),
        )
        for sd in (None, 3.0)
    )
    assert "residual_sd" not in plain.model.to_dict()
    assert scaled.model.to_dict() == {**plain.model.to_dict(), "residual_sd": 3.0}
    assert plain.definition(schema) != scaled.definition(schema)
    assert LinearRegression(outcome="stay", predictors=("age",), residual_sd=3.0).chosen == "posterior"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"residual_sd": 0}, "residual_sd must be a number"),
        ({"residual_sd": 31.0}, "residual_sd must be a number .* at most 30"),
        ({"residual_sd": 3.0, "method": "objective"}, "residual_sd must be omitted for the method objective"),
        ({"residual_sd": 3.0, "method": "moments"}, "residual_sd must be omitted for the method moments"),
    ],
)
def test_a_scale_that_cannot_be_is_refused(options, words):
    with pytest.raises(InvalidParameter, match=words):
        LinearRegression(outcome="stay", predictors=("age",), **options).check(COLUMNS)
    rows = np.linspace(18, 98, 50)[:, None]
    with pytest.raises(InvalidParameter, match=words):
        PrivateLinearRegression(
            "epsilon=1,delta=1e-6",
            bounds=(18, 98),
            outcome_bounds=(0, 60),
            ledger=None,
            neighbours="replace",
            **options,
        ).fit(rows, rows[:, 0] / 2)


@pytest.mark.long
def test_study_and_estimator_ask_for_the_same_draws(tmp_path):
    study = Study.open(written(tmp_path, "residual_sd = 3.0"))
    (planned,) = study.forecasts("slope")
    rows = pd.read_csv(tmp_path / "stays.csv")
    model = PrivateLinearRegression(
        "epsilon=20,delta=1e-6", bounds=(18, 98), outcome_bounds=(0, 60), residual_sd=3.0, ledger=None,
        neighbours="replace",
    ).fit(rows[["age"]].to_numpy(), rows["stay"].to_numpy())  # fmt: skip
    assert model.release_.family["loss"] == {"name": "huber", "threshold": 0.2, "residual_sd": 0.1}
    assert model.certificate_.value == pytest.approx(planned.value, rel=1e-3)
    assert model.coef_[0] == pytest.approx(0.3, abs=0.15)
