"""What the command line calibrates for linear models, against formulas solved here in 40-digit arithmetic."""

from __future__ import annotations

import json
import math
import sys

import pytest

from vestry.cli import main

pytestmark = pytest.mark.oracle

mpmath = pytest.importorskip("mpmath", reason="the extra `test` is not installed")

# Outward rounding is 1e-12; searches end at neighbouring doubles.
CLOSE = 1e-9


@pytest.fixture
def vestry(monkeypatch, capsys):
    """Run `vestry ARGUMENTS` in this process and return the exit code, the record and the message."""

    def run(line: str):
        monkeypatch.setattr(sys, "argv", ["vestry", *line.split(), "--json"])
        capsys.readouterr()
        with pytest.raises(SystemExit, match=r"^\d+$") as ended:
            main()
        printed = capsys.readouterr()
        return ended.value.code, json.loads(printed.out) if printed.out else None, printed.err

    return run


@pytest.fixture
def figures(vestry):
    def run(line: str) -> dict:
        code, record, message = vestry(line)
        assert (code, message) == (0, "")
        return record

    return run


def high(function):
    """Do arithmetic in 40 digits."""

    def wrapped(*arguments, **named):
        with mpmath.workdps(40):
            return float(function(*arguments, **named))

    return wrapped


def _profile(mu, epsilon):
    """Phi(mu/2 - epsilon/mu) - e^epsilon Phi(-mu/2 - epsilon/mu)."""
    mu, epsilon = mpmath.mpf(mu), mpmath.mpf(epsilon)
    phi = mpmath.ncdf
    return phi(mu / 2 - epsilon / mu) - mpmath.e**epsilon * phi(-mu / 2 - epsilon / mu)


def _bisected(function, low, high):
    """Find where a growing function passes 0."""
    low, high = mpmath.mpf(low), mpmath.mpf(high)
    for _ in range(110):
        middle = (low + high) / 2
        low, high = (low, middle) if function(middle) > 0 else (middle, high)
    return low


@high
def gaussian_mu(epsilon, delta):
    return _bisected(lambda mu: _profile(mu, epsilon) - mpmath.mpf(delta), "1e-4", 20)


def _renyi_delta(mu, epsilon):
    """The least over orders a of exp((a-1)(a mu^2/2 - epsilon))/a (1 - 1/a)^(a-1): the slope by a central bisection."""

    def logs(a):
        return (a - 1) * (a * mu * mu / 2 - epsilon) - mpmath.log(a) + (a - 1) * mpmath.log(1 - 1 / a)

    def slope(a):  # d/da of logs
        return (2 * a - 1) * mu * mu / 2 - epsilon - 1 / a + mpmath.log(1 - 1 / a) + 1 / a

    best = _bisected(slope, mpmath.mpf(1) + mpmath.mpf(10) ** -20, 10**7)
    return mpmath.e ** logs(best)


@high
def renyi_mu(epsilon, delta):
    return _bisected(lambda mu: _renyi_delta(mu, mpmath.mpf(epsilon)) - mpmath.mpf(delta), "1e-3", 5)


@high
def theorem_7(epsilon, delta):
    log = -mpmath.log(mpmath.mpf(delta))
    return (mpmath.sqrt(log + mpmath.mpf(epsilon)) - mpmath.sqrt(log)) / mpmath.sqrt(2)


@high
def corollary_8(epsilon, delta):
    log = -mpmath.log(mpmath.mpf(delta))
    return mpmath.mpf(epsilon) / 2 * mpmath.sqrt(1 / (1 + 2 * log))


# theory.md, section 6: the largest rho L/sqrt(m) under replace; mu = 2 rho L/sqrt(m).
TABLE = [("0.1", "1e-5"), ("1", "1e-5"), ("3", "1e-8")]
PRINTED = {
    ("gdp", "0.1"): 0.016260, ("gdp", "1"): 0.134026, ("gdp", "3"): 0.274930,
    ("renyi", "0.1"): 0.014714, ("renyi", "1"): 0.123605, ("renyi", "3"): 0.261309,
    ("minami-theorem-7", "0.1"): 0.010397, ("minami-theorem-7", "1"): 0.102029, ("minami-theorem-7", "3"): 0.237811,
    ("minami-corollary-8", "0.1"): 0.010201, ("minami-corollary-8", "1"): 0.102007,
}  # fmt: skip
ORACLES = {
    "gdp": lambda epsilon, delta: gaussian_mu(epsilon, delta) / 2,
    "renyi": lambda epsilon, delta: renyi_mu(epsilon, delta) / 2,
    "minami-theorem-7": theorem_7,
    "minami-corollary-8": corollary_8,
}


@pytest.mark.parametrize(("epsilon", "delta"), TABLE)
@pytest.mark.parametrize("analysis", ORACLES)
@pytest.mark.long
def test_temperatures(figures, analysis, epsilon, delta):
    if (analysis, epsilon) not in PRINTED:
        pytest.skip("not proved there")
    line = "calibrate gibbs --lipschitz 1 --strong-convexity 1 --neighbours replace"
    found = figures(f"{line} --guarantee epsilon={epsilon},delta={delta} --analysis {analysis}")
    wanted = ORACLES[analysis](epsilon, delta)
    assert wanted == pytest.approx(PRINTED[analysis, epsilon], abs=6e-7)
    assert found["value"] == pytest.approx(wanted, rel=CLOSE)


@pytest.mark.parametrize("epsilon", ["1.0001", "2", "8"])
def test_corollary_8_is_refused_above_1(vestry, epsilon):
    line = "calibrate gibbs --lipschitz 1 --strong-convexity 1 --analysis minami-corollary-8 --guarantee"
    code, record, message = vestry(f"{line} epsilon={epsilon},delta=1e-5")
    assert (code, record) == (2, None)
    assert "at most 1 for minami-corollary-8, which is false for large ones" in " ".join(message.split())


def test_the_exact_temperature_scales_with_its_constants(figures):
    """rho = mu sqrt(m)/(k S): under add-remove S = L, and k draws cost sqrt(k) mu."""
    line = "calibrate gibbs --lipschitz 1.7 --strong-convexity 23 --neighbours add-remove --draws 5 --rows 3"
    found = figures(f"{line} --guarantee epsilon=1,delta=1e-5")
    wanted = gaussian_mu("1", "1e-5") * math.sqrt(23 / 5) / (3 * 1.7)
    assert found["value"] == pytest.approx(wanted, rel=CLOSE)


# [GeumlekSC17, algorithms 4 and 5]: c, the slope B, n, the order a, epsilon and beta (or beta0).
GLM = [(1.0, 1.0, 100, 2, 0.1, 0.01), (2.5, 1.0, 4177, 10, 0.05, 1e-4), (1.3, 0.7, 32561, 100, 1.0, 1e-3)]


@pytest.mark.parametrize(("c", "b", "n", "order", "epsilon", "beta"), GLM)
def test_algorithm_4(figures, c, b, n, order, epsilon, beta):
    line = f"calibrate glm-concentrated --n {n} --norm {c} --slope {b} --prior-precision {beta}"
    found = figures(f"{line} --guarantee order={order},epsilon={epsilon}")
    assert found["value"] == pytest.approx(max(2 * (c * b) ** 2 * order / (n * epsilon), beta), rel=CLOSE)
    assert found["likelihood_power"] == 1


@pytest.mark.parametrize(("c", "b", "n", "order", "epsilon", "beta"), GLM)
def test_algorithm_5(figures, c, b, n, order, epsilon, beta):
    line = f"calibrate glm-diffused --n {n} --norm {c} --slope {b} --prior-precision {beta}"
    found = figures(f"{line} --guarantee order={order},epsilon={epsilon}")
    wanted = min(1.0, math.sqrt(epsilon * n * beta / (2 * (c * b) ** 2 * order)))
    assert found["value"] == pytest.approx(wanted, rel=CLOSE)


def test_algorithms_4_and_5_keep_what_is_private_already(figures):
    line = "--n 1000 --norm 1 --prior-precision 5 --guarantee order=2,epsilon=1"
    assert figures(f"calibrate glm-concentrated {line}")["value"] == 5
    assert figures(f"calibrate glm-diffused {line}")["value"] == 1


# --- Langevin chains --------------------------------------------------------------------------------------------------


@high
def langevin(m, big, eta, t, s):
    """[(1 - c^t)/(1 + c^t) (1 + c)/(1 - c) eta S^2/2]^(1/2), c = max(|1 - eta m|, |1 - eta M|)."""
    m, big, eta, s = map(mpmath.mpf, (m, big, eta, s))
    c = max(abs(1 - eta * m), abs(1 - eta * big))
    return mpmath.sqrt((1 - c**t) / (1 + c**t) * (1 + c) / (1 - c) * eta / 2) * s


@high
def started_langevin(m, big, eta, t, s, start):
    """[c^t z0 + eta S (1 - c^t)/(1 - c)] ((1 - c^2)/((1 - c^(2t)) 2 eta))^(1/2)."""
    m, big, eta, s, start = map(mpmath.mpf, (m, big, eta, s, start))
    c = max(abs(1 - eta * m), abs(1 - eta * big))
    return (c**t * start + eta * s * (1 - c**t) / (1 - c)) * mpmath.sqrt((1 - c * c) / ((1 - c ** (2 * t)) * 2 * eta))


CHAINS = [("1", "10", "0.05", 1), ("1", "10", "0.19", 1000), ("0.1", "2500", "7e-4", 100000), ("3", "3.5", "0.5", 7)]


@pytest.mark.parametrize("neighbours", ["replace", "add-remove"])
@pytest.mark.parametrize(("m", "big", "eta", "t"), CHAINS)
def test_langevin(figures, m, big, eta, t, neighbours):
    line = f"calibrate langevin --lipschitz 1.25 --strong-convexity {m} --smoothness {big} --steps {t}"
    found = figures(f"{line} --step-size {eta} --likelihood-power 0.5 --neighbours {neighbours}")
    moved = 1.25 * 0.5 * (2 if neighbours == "replace" else 1)
    assert found["value"] == pytest.approx(langevin(m, big, eta, t, str(moved)), rel=CLOSE)
    moving = figures(f"{line} --step-size {eta} --likelihood-power 0.5 --neighbours {neighbours} --start 0.375")
    assert moving["value"] == pytest.approx(started_langevin(m, big, eta, t, str(moved), "0.375"), rel=CLOSE)


@pytest.mark.parametrize(("m", "big", "eta", "t"), CHAINS)
def test_a_chain_costs_no_more_than_an_exact_draw_where_its_steps_are_short(figures, m, big, eta, t):
    """For eta <= 2/(m + M) mu^2 < S^2 (1/m - eta/2)."""
    line = f"calibrate langevin --lipschitz 1 --strong-convexity {m} --smoothness {big} --steps {t} --step-size {eta}"
    found = figures(f"{line} --neighbours add-remove")["value"]
    if float(eta) <= 2 / (float(m) + float(big)):
        assert found <= math.sqrt(1 / float(m) - float(eta) / 2) * (1 + 1e-11)
    else:
        assert found <= math.sqrt(2 / float(big) / (2 - float(eta) * float(big))) * 2


# --- objective and output perturbation --------------------------------------------------------------------------------


def objective_delta(analysis, epsilon):
    """The formulas of theory.md, section 7, at L = 1, beta = 1/4, lam = 1, sigma = 3."""
    mu, epsilon = mpmath.mpf(1) / 3, mpmath.mpf(epsilon)
    jacobian = -mpmath.log(mpmath.mpf(3) / 4) if analysis == "redberg" else mpmath.log(mpmath.mpf(5) / 4)
    room = epsilon - jacobian
    if analysis == "lecture":
        return 2 * mpmath.e ** (-(((room - mu * mu / 2) / mu) ** 2) / 2)
    return (1 if analysis == "one-sided" else 2) * _profile(mu, room)


@high
def objective_epsilon(analysis):
    return _bisected(lambda x: mpmath.mpf("1e-5") - objective_delta(analysis, x), "0.5", 4)


@pytest.mark.parametrize(
    ("analysis", "printed"), [("lecture", 1.9257), ("redberg", 1.6142), ("general", 1.5496), ("one-sided", 1.4942)]
)
def test_the_four_epsilons_of_objective_perturbation(figures, analysis, printed):
    line = "--lipschitz 1 --smoothness 0.25 --regularisation 1 --neighbours add-remove --analysis"
    found = figures(f"curve objective {line} {analysis} --at 3 --delta 1e-5")["at_delta"]["epsilon"]
    wanted = objective_epsilon(analysis)
    assert wanted == pytest.approx(printed, abs=5e-5)
    assert found == pytest.approx(wanted, rel=CLOSE)
    # And back: the scale at that epsilon.
    scale = figures(f"calibrate objective {line} {analysis} --guarantee epsilon={found:.14g},delta=1e-5")["value"]
    assert scale == pytest.approx(3, rel=CLOSE)


def test_the_tightest_analysis_is_chosen(figures):
    line = "--lipschitz 1 --smoothness 0.25 --regularisation 1 --neighbours add-remove --at 3 --delta 1e-5"
    one, other = (figures(f"curve objective {line} --{side}-sided")["at_delta"]["epsilon"] for side in ("one", "two"))
    assert one == pytest.approx(objective_epsilon("one-sided"), rel=CLOSE)
    assert other == pytest.approx(objective_epsilon("general"), rel=CLOSE)


@high
def gaussian_sigma(epsilon, delta):
    return 1 / mpmath.mpf(gaussian_mu(epsilon, delta))


# theory.md, section 1: sigma over the sensitivity.
SIGMAS = [("0.5", "1e-5", 7.03182668), ("1", "1e-5", 3.73063163), ("1", "1e-8", 5.10030879)]


@pytest.mark.parametrize(("epsilon", "delta", "printed"), SIGMAS)
@pytest.mark.parametrize(("neighbours", "moved"), [("replace", 2), ("add-remove", 1)])
def test_output_perturbation(figures, epsilon, delta, printed, neighbours, moved):
    """The minimum moves by S/lam; the scale is that of the analytic Gaussian mechanism."""
    line = f"calibrate output --lipschitz 1.5 --regularisation 40 --neighbours {neighbours}"
    found = figures(f"{line} --guarantee epsilon={epsilon},delta={delta}")["value"]
    sigma = gaussian_sigma(epsilon, delta)
    assert sigma == pytest.approx(printed, rel=2e-9)
    assert found == pytest.approx(sigma * moved * 1.5 / 40, rel=CLOSE)
    loose = figures(f"{line} --guarantee epsilon={epsilon},delta={delta} --tolerance 0.01")["value"]
    assert loose == pytest.approx(sigma * (moved * 1.5 / 40 + 0.02), rel=CLOSE)
