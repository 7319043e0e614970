"""The price of rounded normal noise: the Gaussian mechanism's to 1e-9, and never below what its own law costs.

The law is enumerated: every P(k) in 40 digits, the losses log P(k)/P(k - 1), and for several runs their convolution.
The table of `docs/mechanisms/gaussian.md` is computed again, dp-accounting's column among it.
"""

from __future__ import annotations

import itertools
import math
import re
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from mpmath import mp, mpf
from scipy.optimize import brentq
from scipy.special import logsumexp

from vestry import compose, events
from vestry.errors import ConversionError
from vestry.privacy import accountant
from vestry.privacy.event import Event
from vestry.privacy.guarantee import ZCDP, ApproxDP, GaussianDP, PureDP, RenyiDP

pytestmark = pytest.mark.oracle

PAGE = Path(__file__).parents[2] / "docs" / "mechanisms" / "gaussian.md"
DELTA = 1e-6
SIGMAS = (1, 2, 5, 50)
RUNS = (1, 10, 100)
CASES = [(sigma, runs) for sigma in SIGMAS for runs in RUNS]
each_case = pytest.mark.parametrize(("sigma", "runs"), CASES)


def priced(sigma: float, runs: int) -> Event:
    return events.rounded_gaussian(sensitivity=1, scale=sigma).times(runs)


def normal_epsilon(sigma: float, runs: int) -> mpf:
    """Return the epsilon of the Gaussian mechanism, from [BalleW18, Thm 8] in 50 digits."""
    with mp.workdps(50):
        mu = mp.sqrt(runs) / mpf(sigma)

        def missed(epsilon: mpf) -> mpf:
            ratio = epsilon / mu
            return mp.ncdf(mu / 2 - ratio) - mp.exp(epsilon) * mp.ncdf(-mu / 2 - ratio) - mpf(DELTA)

        guess = float(mu) ** 2 / 2 + 5 * float(mu)
        return mp.findroot(missed, (mpf(guess) / 2, mpf(guess)), solver="anderson", tol=1e-40)


@cache
def law(sigma: float, *, shift: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Return log P(k) of the noise and of the noise moved by `shift`, where either exceeds 1e-22."""
    reach = math.ceil(10 * sigma) + shift + 1
    with mp.workdps(40):
        tails = [mp.ncdf(-(mpf(m) - mpf(1) / 2) / mpf(sigma)) for m in range(1, reach + 2 * shift + 2)]
        masses = [1 - 2 * tails[0], *(high - low for high, low in itertools.pairwise(tails))]
        logs = [float(mp.log(mass)) for mass in masses]
    k = np.arange(-reach, reach + shift + 1)
    return np.array([logs[abs(i)] for i in k]), np.array([logs[abs(i - shift)] for i in k])


def law_epsilon(sigma: float, runs: int) -> float:
    """Return the epsilon at `DELTA` of the noise itself: of one run exactly, of more by a convolution of losses.

    A loss between two points of the grid is shared between them so that its mean stays, which adds at most step^2/4 to
    the variance of each run.
    """
    first, second = law(sigma)
    losses = first - second
    masses = np.exp(first)
    if runs == 1:
        return least_epsilon(losses, masses)
    step = 2e-3 / sigma
    low = math.floor(losses.min() / step)
    size = math.ceil((losses.max() - losses.min()) / step) + 3
    share, whole = np.modf(losses / step - low)
    index = whole.astype(int)
    grid = np.bincount(index, masses * (1 - share), size) + np.bincount(index + 1, masses * share, size)
    # Tails that wrap around are beyond forty deviations of the sum.
    length = 2 ** math.ceil(math.log2(min(runs * size, 80 * math.sqrt(runs) / sigma / step)))
    summed = np.fft.irfft(np.fft.rfft(grid, length) ** runs, length)
    centre = round(runs * float(grid @ np.arange(size) / grid.sum()))
    place = np.arange(length) + length * np.round((centre - np.arange(length)) / length)
    return least_epsilon((place + runs * low) * step, np.maximum(summed, 0))


def least_epsilon(losses: np.ndarray, masses: np.ndarray) -> float:
    def missed(epsilon: float) -> float:
        above = losses > epsilon
        return float(masses[above] @ -np.expm1(epsilon - losses[above])) - DELTA

    return float(brentq(missed, 0.0, float(losses[masses > 1e-13].max()), xtol=1e-12))


@each_case
def test_the_price_is_that_of_the_gaussian_mechanism(sigma, runs):
    truth = normal_epsilon(sigma, runs)
    price = accountant.epsilon(priced(sigma, runs), DELTA)
    assert abs(price - truth) <= 1e-9 * truth
    assert price >= truth * (1 - mpf(10) ** -15)
    assert price == accountant.epsilon(events.gaussian(sensitivity=1, scale=sigma).times(runs), DELTA)


@each_case
def test_the_price_is_not_below_what_the_noise_itself_costs(sigma, runs):
    price = accountant.epsilon(priced(sigma, runs), DELTA)
    own = law_epsilon(sigma, runs)
    assert own <= price * (1 + 1e-6)
    assert own >= price * (1 - 0.1 / sigma**2)


def test_at_scale_1_the_noise_is_one_percent_better_than_its_price():
    ratio = law_epsilon(1, 1) / accountant.epsilon(priced(1, 1), DELTA)
    assert 0.985 < ratio < 0.995


@pytest.mark.parametrize("scale", [0.4, 1.0, 3.0])
@pytest.mark.parametrize("shift", [1, 2, 5])
def test_no_order_and_no_epsilon_exceeds_the_price(scale, shift):
    """Of one statistic that moves by 1, 2 or 5: the divergence of the law, and its delta."""
    made = events.rounded_gaussian(sensitivity=shift, scale=scale)
    first, second = law(scale, shift=shift)
    for order in (1.1, 2.0, 5.0):
        divergence = float(logsumexp(order * first + (1 - order) * second)) / (order - 1)
        assert divergence <= accountant.renyi(made, order) * (1 + 1e-9)
    for epsilon in (0.0, 0.5, 2.0, 6.0):
        delta = float(np.maximum(0, np.exp(first) - np.exp(epsilon + second)).sum())
        assert delta <= accountant.delta(made, epsilon) + 1e-15


def test_it_composes_in_mu_with_every_other_gaussian():
    """3-4-5: a rounded normal and a real one, and a draw that is Gaussian-private, add their squares."""
    parts = compose(
        events.rounded_gaussian(sensitivity=3, scale=10),
        events.gaussian(sensitivity=4, scale=10),
        events.gdp(mu=1.2),
    )
    assert float(accountant.price(parts, GaussianDP(1)).value) == pytest.approx(1.3, rel=1e-12)
    assert accountant.delta(parts, 1.0) == pytest.approx(accountant.delta(events.gdp(mu=1.3), 1.0), rel=1e-9)
    assert accountant.price(parts, ZCDP(1)).value == pytest.approx(0.845, rel=1e-12)
    assert accountant.price(parts, RenyiDP(8, 1)).value == pytest.approx(8 * 0.845, rel=1e-12)
    with pytest.raises(ConversionError, match="its privacy loss has no bound"):
        accountant.price(parts, PureDP(1))


@pytest.mark.parametrize("guarantee", [GaussianDP(0.3), ZCDP(0.05), RenyiDP(4, 0.2), ApproxDP(0.7, 1e-6)], ids=str)
def test_calibration_attains_the_guarantee(guarantee):
    def made(scale: float) -> Event:
        return events.rounded_gaussian(sensitivity=3, scale=scale)

    scale = accountant.smallest_parameter(made, guarantee)
    assert accountant.meets(made(scale), guarantee)
    assert not accountant.meets(made(scale * (1 - 1e-9)), guarantee)


def test_a_tenth_less_noise_costs_more_than_is_claimed():
    """What a wrong scale would do: the law at 0.9 sigma is above the price at sigma."""
    assert law_epsilon(0.9 * 2, 1) > accountant.epsilon(priced(2, 1), DELTA)


@pytest.mark.long
def test_the_table_of_the_page_is_reproduced():
    from dp_accounting.pld import privacy_loss_distribution

    rows = re.findall(r"^\| (\d+) \| (\d+) \| ([\d.]+) \| ([\d.]+) \| ([\d.]+) \| ([\d.]+) \|$", PAGE.read_text(), re.M)
    assert [(int(row[0]), int(row[1])) for row in rows] == CASES
    for row in rows:
        sigma, runs = int(row[0]), int(row[1])
        theirs = privacy_loss_distribution.from_gaussian_mechanism(sigma, value_discretization_interval=1e-4)
        by_rho = events.discrete_gaussian(sensitivity=1, scale=sigma).times(runs)
        assert row[2] == f"{accountant.epsilon(priced(sigma, runs), DELTA):.4f}"
        assert row[3] == f"{law_epsilon(sigma, runs):.4f}"
        assert row[4] == f"{theirs.self_compose(runs).get_epsilon_for_delta(DELTA):.4f}"
        assert row[5] == f"{accountant.epsilon(by_rho, DELTA):.4f}"
