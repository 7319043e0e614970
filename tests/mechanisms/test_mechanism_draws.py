"""Draws of the mechanisms have the law they claim.

False alarms: a law is rejected at p < 1e-8 by chi-squared cells that each expect at least 100 draws, or by a normal
limit with as many; so far out the limits are rough, and the rate we state is at most 1e-6 for each test. The generators
are seeded, so that a test that passes goes on passing. Each sample must be rejected against a law that is off by 10 %
(of its scale, or of a parameter). The laws are integrated numerically, and share no code with
the samplers.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from closed_engines import closed_engines
from scipy import stats
from scipy.special import betaincinv
from seeded_noise import SeededNoise
from share import cases

from vestry.conjugate.beta_bernoulli import BetaBernoulliFamily
from vestry.conjugate.dirichlet_categorical import DirichletCategoricalFamily
from vestry.ledger import Ledger
from vestry.mcmc import truncated_draws
from vestry.mechanisms import additive_noise, posterior_sample, truncated_posterior
from vestry.privacy.guarantee import Guarantee
from vestry.privacy.neighbours import Adjacency
from vestry.schema.private import Private

pytestmark = pytest.mark.statistical

REJECT = 1e-8
CELLS = 40


def chi_squared(observed: np.ndarray, shares: np.ndarray) -> float:
    expected = observed.sum() * shares / shares.sum()
    assert expected.min() >= 100
    return float(stats.chi2.sf(((observed - expected) ** 2 / expected).sum(), len(expected) - 1))


# --- truncated betas --------------------------------------------------------------------------------------------------


def beta_grid(a: float, b: float, low: float, high: float) -> tuple[np.ndarray, np.ndarray]:
    """Return points and the distribution function of the truncated beta, by trapezes, fine towards the mass's end."""
    even = (np.arange(200_001) / 200_000) ** 3
    mean = a / (a + b)
    points = low + (high - low) * even if mean <= (low + high) / 2 else (high - (high - low) * even)[::-1]
    logs = (a - 1) * np.log(points) + (b - 1) * np.log1p(-points)
    density = np.exp(logs - logs.max())
    steps = np.diff(points) * (density[1:] + density[:-1]) / 2
    total = np.concatenate([[0.0], np.cumsum(steps)])
    return points, total / total[-1]


def beta_fit(sample: np.ndarray, a: float, b: float, low: float, high: float) -> float:
    points, cdf = beta_grid(a, b, low, high)
    edges = np.interp(np.arange(1, CELLS) / CELLS, cdf, points)
    observed = np.bincount(np.searchsorted(edges, sample), minlength=CELLS)
    return chi_squared(observed, np.full(CELLS, 1 / CELLS))


def truncated_beta(rng, a: float, b: float, low: float, high: float, size: int) -> np.ndarray:
    return truncated_draws.truncated_beta(rng, np.full(size, a), b, low=low, high=high)


# name: (a, b, low, high, draws); the last four have no mass left in doubles
BETAS = {
    "middle": (8.0, 5.0, 0.2, 0.8, 40_000),
    "flat": (1.0, 1.0, 0.2, 0.8, 40_000),
    "low tail": (3.0, 60.0, 0.2, 0.8, 40_000),
    "high tail": (60.0, 3.0, 0.2, 0.8, 40_000),
    "both ends": (0.3, 0.4, 0.05, 0.95, 40_000),
    "uneven ends": (4.0, 9.0, 0.01, 0.4, 40_000),
    "far": (2.0, 5000.0, 0.2, 0.8, 20_000),
    "far, reflected": (5000.0, 2.0, 0.2, 0.8, 20_000),
    "far, many of both": (1500.0, 9000.0, 0.4, 0.6, 20_000),
    "far, small alpha": (0.4, 40_000.0, 0.02, 0.9, 20_000),
}


@pytest.mark.parametrize("name", BETAS)
def test_truncated_beta(name):
    a, b, low, high, draws = BETAS[name]
    sample = truncated_beta(np.random.default_rng(21), a, b, low, high, draws)
    assert sample.shape == (draws,)
    assert sample.min() >= low
    assert sample.max() <= high
    assert beta_fit(sample, a, b, low, high) > REJECT


@pytest.mark.parametrize("factor", [0.9, 1.1])
@pytest.mark.parametrize("name", [name for name in BETAS if name not in ("flat", "both ends")])
def test_a_truncated_beta_of_other_parameters_is_rejected(name, factor):
    a, b, low, high, draws = BETAS[name]
    sample = truncated_beta(np.random.default_rng(21), a, b, low, high, draws)
    larger = (a * factor, b) if a > b else (a, b * factor)
    assert beta_fit(sample, *larger, low, high) < REJECT


def test_the_far_tail_is_the_branch_that_doubles_cannot_see():
    for name, (a, b, low, high, _) in BETAS.items():
        tail = stats.beta.sf(low, a, b) if a < b else stats.beta.sf(1 - high, b, a)
        assert (tail < 1e-250) == name.startswith("far")


# --- truncated Dirichlets ---------------------------------------------------------------------------------------------


def dirichlet_shares(alphas: tuple[float, ...], low: float, cells: int) -> np.ndarray:
    """Return the law of cells of (theta_1, theta_2), three categories, by a grid of 24 x 24 points a cell."""
    fine = 24 * cells
    steps = low + (1 - 3 * low) * (np.arange(fine) + 0.5) / fine
    first, second = np.meshgrid(steps, steps, indexing="ij")
    third = 1 - first - second
    inside = third >= low
    a, b, c = alphas
    safe = np.where(inside, third, 0.5)
    logs = (a - 1) * np.log(first) + (b - 1) * np.log(second) + (c - 1) * np.log(safe)
    density = np.where(inside, np.exp(logs - logs[inside].max()), 0.0)
    # Cells on the slanted edge are cut: half weight for points of the grid that lie on it.
    density[np.isclose(third, low, atol=0.25 * (1 - 3 * low) / fine)] *= 0.5
    shares = density.reshape(cells, 24, cells, 24).sum(axis=(1, 3))
    return shares / shares.sum()


def dirichlet_fit(sample: np.ndarray, alphas: tuple[float, ...], low: float) -> float:
    cells = 8
    shares = dirichlet_shares(alphas, low, cells).ravel()
    index = np.minimum(((sample[:, :2] - low) / (1 - 3 * low) * cells).astype(int), cells - 1)
    observed = np.bincount(index[:, 0] * cells + index[:, 1], minlength=cells * cells)
    order = np.argsort(-shares)
    observed, shares = observed[order], shares[order]
    rich = int((shares * len(sample) >= 100).sum())  # the cells after these join the last of them
    starts = np.arange(rich)
    return chi_squared(np.add.reduceat(observed, starts), np.add.reduceat(shares, starts))


DIRICHLETS = {
    "even": ((2.0, 2.0, 2.0), 0.1),
    "flat": ((1.0, 1.0, 1.0), 0.2),
    "uneven": ((20.0, 8.0, 1.5), 0.1),
    "other order": ((1.5, 20.0, 8.0), 0.1),
    "small": ((0.4, 0.6, 3.0), 0.05),
    "crowded": ((30.0, 10.0, 1.0), 0.2),
}
DIRICHLET_DRAWS = 10_000


@pytest.fixture(scope="module")
def dirichlet_samples() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(33)
    return {
        name: truncated_draws.truncated_dirichlet(rng, np.tile(alphas, (DIRICHLET_DRAWS, 1)), low=low)
        for name, (alphas, low) in DIRICHLETS.items()
    }


@pytest.mark.parametrize("name", DIRICHLETS)
def test_truncated_dirichlet(name, dirichlet_samples):
    alphas, low = DIRICHLETS[name]
    sample = dirichlet_samples[name]
    assert sample.sum(axis=1) == pytest.approx(1, abs=1e-12)
    assert sample.min() >= low - 1e-15
    assert dirichlet_fit(sample, alphas, low) > REJECT


def log_moments(alphas: tuple[float, ...], low: float, which: int) -> float:
    """Return E log theta_which of the truncated Dirichlet of three categories, by a grid."""
    steps = low + (1 - 3 * low) * (np.arange(1500) + 0.5) / 1500
    first, second = (x.ravel() for x in np.meshgrid(steps, steps, indexing="ij"))
    logs = np.log(np.stack([first, second, np.maximum(1 - first - second, 1e-9)]))
    logs = logs[:, 1 - first - second >= low]
    weights = np.array(alphas) @ logs - logs.sum(axis=0)
    weights = np.exp(weights - weights.max())
    return float(logs[which] @ weights / weights.sum())


@pytest.mark.long
@pytest.mark.parametrize("name", ["uneven", "other order", "crowded"])
def test_the_largest_parameter_of_a_truncated_dirichlet(name, dirichlet_samples):
    """The mean of the log of its component, within 5.7 standard errors; 10 % off is rejected either way."""
    alphas, low = DIRICHLETS[name]
    which = int(np.argmax(alphas))
    seen = np.log(dirichlet_samples[name][:, which])
    error = seen.std() / math.sqrt(len(seen))
    assert abs(seen.mean() - log_moments(alphas, low, which)) < 5.7 * error
    for factor in (0.9, 1.1):
        other = tuple(factor * a if i == which else a for i, a in enumerate(alphas))
        assert abs(seen.mean() - log_moments(other, low, which)) > 5.7 * error


def one_pass(rng: np.random.Generator, alphas: tuple[float, ...], low: float, size: int) -> np.ndarray:
    """The broken twin: truncated betas, stick by stick, and no acceptance."""
    a, b, c = alphas
    first = truncated_beta(rng, a, b + c, low, 1 - 2 * low, size)
    second = np.array(
        [rest * truncated_beta(rng, b, c, low / rest, 1 - low / rest, 1)[0] for rest in (1 - first).tolist()]
    )
    return np.stack([first, second, 1 - first - second], axis=1)


@pytest.mark.parametrize("name", ["even", "flat", "uneven", "crowded"])
@pytest.mark.long
def test_one_pass_of_truncated_betas_is_rejected(name):
    alphas, low = DIRICHLETS[name]
    sample = one_pass(np.random.default_rng(34), alphas, low, DIRICHLET_DRAWS)
    assert dirichlet_fit(sample, alphas, low) < REJECT


# --- releases ---------------------------------------------------------------------------------------------------------

BETA, PUBLIC = BetaBernoulliFamily(), Adjacency("replace", 1, 100)


class Leave:
    """A leave that is always given."""

    def take(self) -> None:
        pass


@pytest.mark.parametrize(
    ("noise", "guarantee"), [(additive_noise.LAPLACE, "epsilon=0.2"), (additive_noise.GAUSSIAN, "rho=0.02")]
)
def test_released_statistics_have_noise_of_the_calibrated_scale(noise, guarantee):
    """The mean of |noise| (Laplace) or its square (Gaussian) over 20,000 releases, within 5.7 standard errors."""
    family = DirichletCategoricalFamily(4)
    adjacency = Adjacency("replace", 1, 100)
    made = additive_noise.calibrate_noise(noise, family.layout(adjacency), adjacency, Guarantee.parse(guarantee))
    source, truth = SeededNoise(17), np.array([10, 20, 30, 40])
    values = [made.release(Private(truth.tolist()), Leave(), source)[0].values for _ in range(5000)]
    errors = (np.array(values) - truth).ravel().astype(float)
    size = np.abs(errors) if noise == additive_noise.LAPLACE else errors**2
    s = made.scale
    # E|k| = 1/sinh(1/s); the discrete Gaussian's variance is s^2 to far more digits than needed here.
    expected = 1 / math.sinh(1 / s) if noise == additive_noise.LAPLACE else s * s
    assert abs(errors.mean()) < 5.7 * errors.std() / math.sqrt(errors.size)
    off = (size.mean() - expected) / (size.std() / math.sqrt(size.size))
    assert abs(off) < 5.7  # two-sided rate 1.2e-8
    for factor in (0.9, 1.1):
        power = 1 if noise == additive_noise.LAPLACE else 2
        assert abs(size.mean() - expected * factor**power) / (size.std() / math.sqrt(size.size)) > 5.7


@pytest.mark.parametrize("name", cases(["direct", "diffused", "concentrated"], quick=["diffused"]))
@pytest.mark.long
def test_a_posterior_sample_is_drawn_from_the_right_member(name):
    """Quantiles of Beta(6/m + 38 r, 12/m + 62 r); a member with a tenth more records is rejected."""
    guarantee = Guarantee.parse("order=2,epsilon=0.3" if name == "direct" else "order=2,epsilon=3")
    prior = BETA.prior((6, 12))
    made = getattr(posterior_sample, name)(BETA, prior, PUBLIC, guarantee, draws=1)
    power = {"direct": 1.0, "diffused": 0.3, "concentrated": 1.0}[name]
    scale = 0.2 if name == "concentrated" else 1.0
    made = posterior_sample.PosteriorSample(name, BETA, prior, PUBLIC, power, scale, 40_000, made.guarantee)
    drawn = np.array(made.release(Private([38, 100]), Leave(), SeededNoise(19))[0].values)[:, 0]

    def fit(a: float, b: float) -> float:
        edges = betaincinv(a, b, np.arange(1, CELLS) / CELLS)
        return chi_squared(np.bincount(np.searchsorted(edges, drawn), minlength=CELLS), np.full(CELLS, 1 / CELLS))

    a, b = 6 / scale + 38 * power, 12 / scale + 62 * power
    assert fit(a, b) > REJECT
    assert fit(a * 1.1, b * 1.1) < REJECT
    assert fit(6 + 38, 12 + 62) < REJECT or name == "direct"


@pytest.mark.long
def test_ops_is_drawn_from_the_truncated_tempered_member():
    """Beta(1 + 38/T, 1 + 62/T) on [0.2, 0.8]: the prior is not tempered; untempered data or no truncation are seen."""
    made = truncated_posterior.ops(
        BETA, BETA.prior((1, 1)), PUBLIC, Guarantee.parse("epsilon=100"), truncation=0.2, draws=40_000
    )
    made = truncated_posterior.TruncatedSample(BETA, made.prior, PUBLIC, 0.2, 2.5, 40_000, made.guarantee)
    drawn = np.array(made.release(Private([38, 100]), Leave(), SeededNoise(23))[0].values)[:, 0]
    assert beta_fit(drawn, 1 + 38 / 2.5, 1 + 62 / 2.5, 0.2, 0.8) > REJECT
    assert beta_fit(drawn, 1 + 38 / 2.25, 1 + 62 / 2.25, 0.2, 0.8) < REJECT
    assert beta_fit(drawn, (1 + 38) / 2.5, (1 + 62) / 2.5, 0.2, 0.8) < REJECT


def test_through_a_real_ledger(tmp_path):
    """The same numbers come out whether or not a ledger stands in between."""
    made = additive_noise.calibrate_noise(
        additive_noise.LAPLACE, BETA.layout(PUBLIC), PUBLIC, Guarantee.parse("epsilon=1")
    )
    with closed_engines():
        terms = {"dataset": "a", "unit": "row", "neighbours": "replace"}
        ledger = Ledger.create(tmp_path / "a.ledger", **terms, budget="epsilon=1")
        opened = ledger.charge(made.event, purpose="test").open()
        assert made.release(Private([38]), opened, SeededNoise(2)) == made.release(
            Private([38]), Leave(), SeededNoise(2)
        )
