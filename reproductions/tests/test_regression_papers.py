"""Linear models in the papers: what is claimed, asserted on reduced runs, and the parts against oracles.

Statistical assertions allow six standard errors: a false alarm in about five hundred million for each comparison.
"""

import math
import os
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from reproductions import EXPERIMENTS, geumlek_fig3, paper_tables
from reproductions.geumlek_fig3 import EPSILONS, Potential, objective_scale, settings
from reproductions.geumlek_tightness import flipped, lower, two_rows, upper
from reproductions.lecture_utility import exponential, packing
from reproductions.minami_temperatures import allowed
from reproductions.tests.records import quick
from scipy.integrate import quad
from scipy.special import expit

from vestry.errors import InvalidParameter
from vestry.privacy import accountant
from vestry.privacy.accountant import smallest_parameter
from vestry.privacy.guarantee import RenyiDP
from vestry.privacy.neighbours import Adjacency, Neighbours
from vestry.regression import gibbs_calibration
from vestry.regression.langevin import posterior
from vestry.regression.losses import Logistic
from vestry.regression.output_perturbation import output_event
from vestry.regression.problem import LinearProblem

ROW = Adjacency(Neighbours.REPLACE)
FOLDER = os.environ.get("VESTRY_DATA")
real = pytest.mark.skipif(FOLDER is None, reason="the real tables are not shipped: VESTRY_DATA names their folder")
SCALE = np.array([1.0, 0.7, 0.4])


@pytest.fixture(autouse=True)
def no_folder(monkeypatch, request):
    if "real" not in request.node.name:
        monkeypatch.delenv("VESTRY_DATA", raising=False)


def simulated(seed=3, count=400):
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(count, 3)) * SCALE
    rows /= np.maximum(1, np.linalg.norm(rows, axis=1, keepdims=True))
    labels = np.where(rng.random(count) < expit(rows @ np.array([2.0, -1.0, 0.5])), 1.0, -1.0)
    return rows, labels


# --- Figure 3 --------------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_the_stand_in_says_that_it_is_one():
    record = quick("geumlek-fig3")
    assert [table["name"] for table in record["tables"]] == ["a simulated table"]
    assert paper_tables.WANTED in record["note"]
    assert "only: that leaks" in record["note"]
    assert all(claim["holds"] for claim in record["claims"])
    assert paper_tables.WANTED in record["claims"][0]["found"]


def test_calibration_is_the_librarys():
    count, made = 2784, settings(10, 1.0, 2784, 9)
    bound = RenyiDP(10.0, 1.0, neighbours=Neighbours.REPLACE)
    beta = gibbs_calibration.prior_precision(bound, lipschitz=1.0, count=count, at_least=1e-3, adjacency=ROW)
    power = gibbs_calibration.likelihood_power(
        bound, lipschitz=1.0, strong_convexity=count * 1e-3, adjacency=ROW, at_most=1.0
    )
    assert made["concentrated"].precision == pytest.approx(count * beta, rel=1e-6)
    assert made["diffuse"].power == pytest.approx(power, rel=1e-6)
    output = made["output"]
    assert output.scale == pytest.approx(
        smallest_parameter(lambda x: output_event(x, 2 / output.precision), bound), rel=1e-6
    )


def test_objective_scale_is_the_librarys():
    # `objective_scale(...)` of the library at order 10, epsilon 1 and this regularisation, which takes it 5 seconds.
    assert objective_scale(10, 1.0, 3.0829881650735964) == pytest.approx(4.658408667142537, rel=1e-5)
    # And nearly continuous at order 1.
    assert objective_scale(1, 1.0, 3.083) == pytest.approx(objective_scale(1.001, 1.0, 3.083), rel=1e-3)


def test_ops_costs_what_it_is_charged():
    # Two rows, one of them flipped, no rows beside them, on the ball of radius 1/beta in one dimension.
    beta, epsilon = 0.05, 0.5
    rho, radius, grid = epsilon * beta / 2, 1 / beta, np.linspace(-20.0, 20.0, 20_001)
    assert radius == pytest.approx(grid[-1])
    assert rho == pytest.approx(settings(10, epsilon, 1, 1)["ops"].power * beta / geumlek_fig3.BETA)
    logs = [rho * -np.logaddexp(0.0, -sign * grid) - beta / 2 * grid**2 for sign in (1, -1)]
    density = [each - math.log(np.trapezoid(np.exp(each), grid)) for each in logs]
    assert np.abs(density[0] - density[1]).max() <= epsilon


def test_minimum_is_the_minimum():
    rows, labels = simulated()
    found = Potential(rows, labels).minimum(0.7, 2.0, np.array([[0.0, 3.0], [0.0, -4.0], [0.0, 1.0]]), 1e-7)
    for column, linear in enumerate(([0.0, 0.0, 0.0], [3.0, -4.0, 1.0])):
        theta = found[:, column]
        slope = -0.7 * rows.T @ (labels * expit(-labels * (rows @ theta))) + 2.0 * theta + np.array(linear)
        assert np.linalg.norm(slope) < 1e-3


def by_quadrature(rows, labels, power, precision, *, axis=60, reach=6.0):
    """Return mean and covariance of a posterior in three dimensions, on a grid around its mode."""
    mode = Potential(rows, labels).minimum(power, precision, np.zeros((3, 1)), 1e-7)
    weight = expit(rows @ mode) * expit(-(rows @ mode))
    half = np.linalg.inv(np.linalg.cholesky(power * (rows * weight).T @ rows + precision * np.eye(3))).T
    line = np.linspace(-reach, reach, axis)
    points = mode + half @ np.array(np.meshgrid(line, line, line)).reshape(3, -1)
    logs = np.zeros(points.shape[1])
    for row, label in zip(rows, labels, strict=True):
        logs -= power * np.logaddexp(0.0, -label * (row @ points))
    logs -= precision / 2 * (points**2).sum(axis=0)
    mass = np.exp(logs - logs.max())
    mass /= mass.sum()
    mean = points @ mass
    return mean, (points - mean[:, None]) * mass @ (points - mean[:, None]).T


def agree(draws, mean, covariance, effective):
    """Compare moments of draws (n, d) with the true ones, in units of their own error."""
    error = np.sqrt(np.diag(covariance) / effective)
    assert np.all(np.abs(draws.mean(axis=0) - mean) < 6 * error)
    found = draws.var(axis=0)
    # A variance has a relative error of sqrt(2/n).
    assert np.all(np.abs(found / np.diag(covariance) - 1) < 6 * math.sqrt(2 / effective))
    # The test has power: half a deviation more would be seen.
    assert np.all(0.5 * np.sqrt(np.diag(covariance)) > 6 * error)


@cache
def oracle():
    rows, labels = simulated(count=60)
    return rows, labels, *by_quadrature(rows, labels, 1.0, 1.5, axis=40)


def test_reference_chains_draw_from_the_posterior():
    rows, labels, mean, covariance = oracle()
    draws, accepted = Potential(rows, labels).draws(1.0, 1.5, 4000, np.random.default_rng(4))
    assert accepted > 0.9
    agree(draws.T, mean, covariance, 4000)


@pytest.mark.long
def test_slice_sampling_draws_from_the_posterior():
    from vestry.mcmc import slice_logistic

    rows, labels, mean, covariance = oracle()
    rng = np.random.default_rng(5)
    draws = slice_logistic(rng, rows, labels, prior_precision=1.5, draws=2000, burn=200, thin=5, assume_converged=True)
    agree(draws, mean, covariance, 1500)  # a few of 2000 repeat each other
    # On a ball that cuts the posterior every draw is inside.
    cut = slice_logistic(
        rng, rows, labels, prior_precision=1.5, draws=300, burn=50, thin=1, radius=1.0, assume_converged=True
    )
    assert np.linalg.norm(cut, axis=1).max() <= 1
    assert np.linalg.norm(draws, axis=1).max() > 1


def test_references_must_be_asked_for():
    from vestry.mcmc import slice_logistic

    rows, labels = simulated(count=5)
    why = "no theorem bounds how far such a chain is from the posterior"
    with pytest.raises(InvalidParameter, match=why):
        slice_logistic(np.random.default_rng(0), rows, labels, prior_precision=1.0, draws=1)
    with pytest.raises(InvalidParameter, match="prior_precision must be a number above 0"):
        slice_logistic(np.random.default_rng(0), rows, labels, prior_precision=0.0, draws=1, assume_converged=True)


# --- tables ----------------------------------------------------------------------------------------------------------


def test_rows_have_norm_one_and_categories_lack_their_last_level():
    columns = {"kind": np.array(["b", "a", "c", "?"]), "size": np.array([1.0, 2.0, 3.0, 5.0]), "one": np.full(4, 7)}
    rows = paper_tables.prepare(columns)
    assert rows.shape == (4, 3 + 1 + 1)
    assert np.linalg.norm(rows, axis=1) == pytest.approx(np.ones(4))
    scaled = rows / -rows[:, -1:] / 2  # the constant column is -0.5
    assert scaled[:, 3] == pytest.approx([-0.5, -0.25, 0.0, 0.5])
    assert sorted(map(tuple, np.round(scaled[:, :3] + 0.5))) == [(0, 0, 0), (0, 0, 1), (0, 1, 0), (1, 0, 0)]


def test_a_missing_file_is_named(tmp_path):
    for name, file in paper_tables.FILES.items():
        with pytest.raises(InvalidParameter, match=f"a folder with {file}"):
            paper_tables.load(name, tmp_path)


def test_frames_of_openml_are_prepared_alike():
    pandas = pytest.importorskip("pandas")
    abalone = pandas.DataFrame({"Sex": list("MFIM"), "Length": [0.1, 0.2, 0.3, 0.4], "Rings": ["9", "10", "11", "3"]})
    made = paper_tables.from_frame("abalone", abalone.astype({"Sex": "category", "Rings": "category"}))
    assert made.labels.tolist() == [1, -1, -1, 1]
    assert made.rows.shape == (4, 3)
    adult = pandas.DataFrame({"age": [20, 30, 40], "workclass": ["a", None, "b"], "class": ["<=50K", ">50K", "<=50K"]})
    made = paper_tables.from_frame("adult", adult)
    assert made.labels.tolist() == [-1, 1, -1]
    assert made.rows.shape == (3, 3)
    digits = pandas.DataFrame({"p1": [0, 9, 3, 1], "p2": [1, 0, 0, 2], "class": list("3853")})
    made = paper_tables.from_frame("mnist", digits)
    assert made.labels.tolist() == [1, -1, 1]


def test_without_a_network_there_is_no_table(monkeypatch):
    pytest.importorskip("sklearn")
    from sklearn import datasets

    def offline(**_):
        raise OSError("no route")

    monkeypatch.setattr(datasets, "fetch_openml", offline)
    assert paper_tables.download("adult") is None
    assert [t.name for t in geumlek_fig3._tables(False, np.random.default_rng(1))] == ["a simulated table"]


# --- tightness -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", [1.5, 4.0])
def test_a_flipped_label_by_direct_integration(order):
    def density(theta, sign):
        return 2 * expit(sign * theta) * math.exp(-2 * theta * theta) * math.sqrt(2 / math.pi)

    value, _ = quad(lambda t: density(t, 1) ** order * density(t, -1) ** (1 - order), -10, 10)
    assert flipped(order) == pytest.approx(math.log(value) / (order - 1), rel=1e-9)


def test_two_rows_on_a_finer_grid():
    coarse, fine = two_rows(10.0, 1e6, 0.4), two_rows(10.0, 1e6, 0.4, points=301)
    assert coarse == pytest.approx(fine, rel=1e-6)
    assert lower(10.0) < fine < upper(10.0)


def test_bounds_enclose_the_pairs():
    record = quick("geumlek-tightness")
    for key in ("flipped", "two_rows"):
        assert np.all(np.array(record[key]) > record["lower"])
        assert np.all(np.array(record[key]) < record["upper"])
    assert record["share"][-1] > 0.85
    assert record["share"] == sorted(record["share"])


# --- Minami, Arai and Sato 2016 --------------------------------------------------------------------------------------

# Theory, section 6: Corollary 8, Theorem 7, by Renyi curves, exact; 8 (ii) is not proved at epsilon 3.
POWERS = [
    (0.1, 1e-5, 0.010201, 0.010397, 0.014714, 0.016260),
    (1.0, 1e-5, 0.102007, 0.102029, 0.123605, 0.134026),
    (3.0, 1e-8, None, 0.237811, 0.261309, 0.274930),
]


@pytest.mark.long
def test_the_table_of_powers():
    for row, (epsilon, delta, *wanted) in zip(quick("minami-temperatures")["table"], POWERS, strict=True):
        assert (row["epsilon"], row["delta"]) == (epsilon, delta)
        for key, value in zip(("corollary_8", "theorem_7", "renyi", "exact"), wanted, strict=True):
            assert value is None or row[key] == pytest.approx(value, rel=5e-5)


@pytest.mark.long
def test_where_corollary_8_fails():
    fails = quick("minami-temperatures")["false_from"]
    assert fails["8 (ii) at delta 0.01"] == pytest.approx(7.44, abs=0.01)
    assert fails["8 (ii) at delta 1e-05"] == pytest.approx(9.0, abs=0.02)
    assert fails["8 (i)"] == pytest.approx(3.1, abs=0.02)
    # The exact power is just that: a thousandth more is not private.
    event = gibbs_calibration.draw_event(allowed(1.0, 1e-5) * 1.001, lipschitz=1.0, strong_convexity=1.0, adjacency=ROW)
    assert accountant.delta(event, 1.0) > 1e-5


def test_differences_of_losses_and_gradients():
    record = quick("minami-fig1")
    assert record["losses"] == pytest.approx(np.abs(record["theta"]))
    assert record["gradients"] == pytest.approx(np.ones(len(record["theta"])))
    assert record["largest_in_one_dimension"] == pytest.approx(1.0517, abs=3e-4)  # theory, section 6
    assert 1.999 < record["largest_in_two"] < 2


# --- the lecture -----------------------------------------------------------------------------------------------------


def test_objective_beats_output_and_prices_are_those_of_the_theory():
    record = quick("lecture-utility")
    assert np.all(np.array(record["best"]["objective"]) < record["best"]["output"])
    assert "charges 1.9257, where 1.4942" in record["claims"][2]["found"]


@pytest.mark.parametrize("trials", [1.0, 8.0])
def test_no_learner_beats_the_packing_bound(trials):
    # The best that may be: probability p in the right bin, and elsewhere e^trials less than there.
    for bins in (2, 10, 1000):
        p = 1 / (1 + (bins - 1) * math.exp(-trials))
        assert (1 - p) / (bins - 1) == pytest.approx(p * math.exp(-trials))
        assert packing(bins, trials) == pytest.approx((1 - p) / 2)
        assert packing(bins, trials) < exponential(bins, trials) < 0.5
    # The lecture's own number of bins does not give .45 if its .9 is mended to .1; ten times as many do.
    assert packing(math.exp(trials), trials) < 0.26
    assert packing(10 * math.exp(trials), trials) > 0.45


# --- real data -------------------------------------------------------------------------------------------------------


@real
def test_real_tables_have_the_papers_shapes():
    shapes = {"abalone": (2784, 1393, 9), "adult": (32561, 16281, 100), "mnist": (7988, 3994, 784)}
    for name, (trained, tested, features) in shapes.items():
        table = paper_tables.load(name, Path(FOLDER))
        rows, _, rest, _ = table.split(np.random.default_rng(0))
        assert (len(rows), len(rest), rows.shape[1]) == (trained, tested, features)


@real
def test_real_abalone_errors_are_near_the_expected_ones():
    record = EXPERIMENTS["geumlek-fig3"].record(quick=True)
    panel = record["tables"][0]["panels"][1]
    for epsilon, four, five in geumlek_fig3.WANTED_ERRORS:
        at = EPSILONS.index(epsilon)
        for name, wanted in (("concentrated", four), ("diffuse", five)):
            assert abs(panel[name]["error"][at] - wanted) < 6 * math.hypot(panel[name]["error_se"][at], 0.0015)


@real
def test_real_draws_agree_with_the_certified_chain():
    # The chain that a release runs, on one split of Abalone, against the reference: mean errors, 40 draws each.
    rows, labels, rest, truth = paper_tables.load("abalone", Path(FOLDER)).split(np.random.default_rng(6))
    problem = LinearProblem(Logistic(), rows.shape[1], 1.0, ROW, len(rows))
    made = posterior(problem, RenyiDP(10.0, 1.0), prior_precision=len(rows) * 1e-3)
    setting = settings(10, 1.0, len(rows), rows.shape[1])["diffuse"]
    assert made.likelihood_power == pytest.approx(setting.power, rel=0.05)

    from vestry.noise import SystemNoise

    chain = np.array([made.draw([(rows, labels)], SystemNoise()).values[0] for _ in range(40)])
    reference, _ = setting.released(Potential(rows, labels), 40, np.random.default_rng(7))
    errors = [(truth[:, None] * (rest @ theta) <= 0).mean(axis=0) for theta in (chain.T, reference)]
    gap = errors[0].mean() - errors[1].mean()
    assert abs(gap) < 6 * math.hypot(*(each.std(ddof=1) / math.sqrt(40) for each in errors))
