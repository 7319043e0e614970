"""A batch fixed beforehand: its price against exact compositions, and the fence around dp-accounting.

Truths are binomial and multinomial sums and integrals in mpmath. A price must not be below the truth.
"""

from __future__ import annotations

import inspect
import math
from collections import defaultdict
from collections.abc import Callable

import dp_accounting
import pytest
from dp_accounting.pld import privacy_loss_distribution
from mpmath import mp, mpf
from share import cases

from vestry.errors import InvalidParameter
from vestry.privacy import accountant, pld
from vestry.privacy.event import compose
from vestry.privacy.pld import PLDAccountant
from vestry.privacy.pricing import PRICINGS, event

pytestmark = pytest.mark.property


@pytest.fixture(autouse=True)
def _thirty_digits():
    with mp.workdps(30):
        yield


def covers(price: float, truth: mpf, *, within: float = 1e-3) -> None:
    assert price >= truth, f"{price} is below {mp.nstr(truth, 18)}"
    assert within == mp.inf or price <= truth * (1 + within), f"{price} is far above {mp.nstr(truth, 18)}"


# Compositions, written out as sums over privacy losses

Losses = dict[mpf, mpf]  # the probability of each loss


def coin(epsilon: float) -> Losses:
    e = mpf(repr(epsilon))
    return {e: 1 / (1 + mp.exp(-e)), -e: 1 / (1 + mp.exp(e))}


def composed(*parts: Losses) -> Losses:
    """The losses of a composition: all sums, their probabilities multiplied."""
    result: Losses = {mpf(0): mpf(1)}
    for part in parts:
        longer: Losses = defaultdict(mpf)
        for loss, p in result.items():
            for more, q in part.items():
                longer[mp.nint((loss + more) * 10**20) / mpf(10) ** 20] += p * q
        result = longer
    return result


def delta_of(losses: Losses, epsilon: float) -> mpf:
    """The hockey-stick divergence: the mean of (1 - e^(epsilon - loss))^+."""
    e = mpf(repr(float(epsilon)))
    return mp.fsum(p * max(-mp.expm1(e - loss), mpf(0)) for loss, p in losses.items())


def binomial(first: mpf, loss: mpf, other: mpf, count: int) -> Losses:
    """Losses of `count` draws, each `loss` with probability `first` and `other` else."""
    return {
        k * loss + (count - k) * other: mp.binomial(count, k) * first**k * (1 - first) ** (count - k)
        for k in range(count + 1)
    }


def normal_delta(epsilon: mpf, mu: mpf) -> mpf:
    """The hockey-stick divergence of N(0, 1) and N(mu, 1), by their distribution functions."""
    edge = mu / 2 - epsilon / mu
    return mp.ncdf(edge) - mp.exp(epsilon) * mp.ncdf(edge - mu)


# The fence around dp-accounting


def test_dp_accounting_has_no_exponential_mechanism():
    """Nor should one be used once it has: in its source of August 2026 the Renyi accountant ignores the count.

    github.com/google/differential-privacy, commit b5b0286, rdp_privacy_accountant.py, line 1072.
    """
    assert not hasattr(dp_accounting, "ExponentialMechanismDpEvent")


def test_none_of_its_laws_is_used(monkeypatch):
    def refuse(*_, **__):
        pytest.fail("a price of dp-accounting was used")

    constructors = [name for name in vars(privacy_loss_distribution) if name.startswith("from_")]
    assert "from_laplace_mechanism" in constructors
    for name in constructors:
        monkeypatch.setattr(privacy_loss_distribution, name, refuse)
    parts = [event("laplace", sensitivity=1, scale=2), event("gdp", mu=0.5), event("exponential", epsilon=0.5)]
    assert PLDAccountant(compose(*parts), interval=1e-2).delta(1) > 0
    assert "dp_event" not in inspect.getsource(pld)


@pytest.mark.long
def test_hundred_exponential_mechanisms():
    """Between the composition of the worst common pair and rho = 100/8; one draw alone would be far below both."""
    draws, delta = event("exponential", epsilon=1, count=100), 1e-6

    def losses(t: mpf) -> Losses:
        p = mp.exp(t) * (1 - mp.exp(t - 1)) / (mp.exp(t) - mp.exp(t - 1))  # two outputs, of losses t and t - 1
        return binomial(p, t, t - 1, 100)

    pairs = [losses(mpf(i) / 20) for i in range(9, 16)]
    lower = _solve(lambda epsilon: max(delta_of(pair, epsilon) for pair in pairs), delta, 10, 60)

    # The mean of e^(x loss) is at most e^(x (1 + x) rho); the worst (1 - e^(-z)) e^(-x (epsilon + z)) makes it a delta.
    beyond = [mpf(i) / 100 for i in range(1, 200)]
    worst = {x: max(mp.log(-mp.expm1(-z)) - x * z for z in beyond) for x in (mpf(i) / 50 for i in range(20, 100))}

    def zcdp(epsilon: float) -> mpf:
        return min(mp.exp(x * (1 + x) * mpf(100) / 8 - x * epsilon + most) for x, most in worst.items())

    price = accountant.epsilon(draws, delta)
    assert lower <= PLDAccountant(draws, interval=1e-2).epsilon(delta) <= price <= _solve(zcdp, delta, 10, 60)
    assert price > 5 * accountant.epsilon(event("exponential", epsilon=1), delta)
    assert price < 100  # what adding the epsilons would give


def _solve(delta_at: Callable[[float], mpf], delta: float, low: float, high: float) -> float:
    """Return epsilon at which a falling function is delta."""
    for _ in range(30):
        middle = (low + high) / 2
        low, high = (middle, high) if delta_at(middle) > delta else (low, middle)
    return (low + high) / 2


# Batches of one kind


GAUSSIANS = [(0.1, 1), (0.1, 100), (1, 4), (0.02, 900), (0.0005, 10**6), (0.002, 10**6)]


@pytest.mark.parametrize(("mu", "count"), cases(GAUSSIANS, quick=GAUSSIANS[:2]))
def test_gaussians(mu, count):
    """n of them are one, of mu sqrt(n)."""
    priced = PLDAccountant(event("gaussian", sensitivity=mu, scale=1, count=count))
    total = mp.sqrt(count) * mpf(repr(mu))
    for errors in (0, 0.5, 2, 4, 6, 6.9):
        epsilon = float(total * (total / 2 + errors))
        covers(priced.delta(epsilon), normal_delta(mpf(epsilon), total))


COINS = [(0.1, 1), (0.1, 100), (1, 10), (0.01, 1000), (0.3, 37), (5, 3), (0.5, 200)]


@pytest.mark.parametrize(("size", "count"), cases(COINS, quick=COINS[:2]))
def test_coins(size, count):
    """Against the binomial sum, down to deltas that rounding in the convolution could swallow."""
    priced = PLDAccountant(event("pure", epsilon=size, count=count))
    e = mpf(repr(size))
    losses = binomial(1 / (1 + mp.exp(-e)), e, -e, count)
    reach = min(size * count, count * size**2 / 2 + 8 * size * math.sqrt(count))
    for i in range(12):
        epsilon = reach * i / 12
        truth = delta_of(losses, epsilon)
        price = priced.delta(epsilon)
        assert price >= 0
        covers(price, truth, within=1e-3 if truth > 1e-8 else mp.inf)
        if 1e-14 < truth < 1:
            assert delta_of(losses, priced.epsilon(float(truth))) <= truth * (1 + mpf(10) ** -12)


@pytest.mark.parametrize("count", [2, 40])
def test_integer_laplace(count):
    """Sensitivity 2 at scale 4: losses 1/2, 0 and -1/2, summed by multinomial counts."""
    q = mp.exp(mpf(-1) / 4)
    top, zero = 1 / (1 + q), q * (1 - q) / (1 + q)
    single = {mpf(1) / 2: top, mpf(0): zero, mpf(-1) / 2: 1 - top - zero}
    losses = composed(*[single] * count)
    priced = PLDAccountant(event("discrete-laplace", sensitivity=2, scale=4, count=count))
    for epsilon in (0, 0.3, 0.7, 2, 5, 9):
        truth = delta_of(losses, epsilon)
        covers(priced.delta(epsilon), truth, within=1e-3 if truth > 1e-8 else mp.inf)


@pytest.mark.long
def test_two_laplaces():
    """The first output's loss shifts epsilon for the second; both densities are integrated."""
    size = mpf(8) / 10
    priced = PLDAccountant(event("laplace", sensitivity=0.8, scale=1, count=2))

    def density(x: mpf) -> mpf:
        return mp.exp(-abs(x)) / 2

    def loss(x: mpf) -> mpf:
        return abs(x - size) - abs(x)

    def single(epsilon: mpf) -> mpf:
        if epsilon >= size:
            return mpf(0)
        edge = mp.inf if epsilon < -size else (size - epsilon) / 2
        cuts = [-40, -10, 0, *([edge] if edge < mp.inf else [size, 10, 40])]
        return mp.quad(lambda x: density(x) - mp.exp(epsilon) * density(x - size), cuts, maxdegree=5)

    with mp.workdps(15):
        for epsilon in (0.0, 0.5, 1.1):
            # Below 0 and above `size` the loss is constant: the masses 1/2 and e^(-size)/2.
            ends = single(epsilon - size) / 2 + single(epsilon + size) * mp.exp(-size) / 2
            kink = (size - (epsilon - size)) / 2  # from here on the second output cannot lose enough
            inside = mp.quad(
                lambda x, e=epsilon: density(x) * single(e - loss(x)),
                [0, *([kink] if 0 < kink < size else []), size],
                maxdegree=4,
            )
            truth = ends + inside
            covers(priced.delta(epsilon) * (1 + 1e-9), truth)


def test_failures_add_up():
    """Each of five fails with probability 1e-3: their sum, near enough, is what no epsilon removes."""
    priced = PLDAccountant(event("approximate", epsilon=0.2, delta=1e-3, count=5), interval=1e-3)
    losses = composed(*[coin(0.2)] * 5)
    kept = (1 - mpf("1e-3")) ** 5
    for epsilon in (0, 0.3, 0.7, 1.5):
        covers(priced.delta(epsilon), 1 - kept + kept * delta_of(losses, epsilon))
    assert priced.epsilon(4.9e-3) == math.inf


# Mixed batches


@pytest.mark.long
def test_mixed_batch():
    """Coins of two sizes and normal noise: the coins' losses shift the normal curve."""
    parts = [event("pure", epsilon=0.3, count=5), event("gaussian", sensitivity=1, scale=2), event("pure", epsilon=1)]
    priced, adaptive = PLDAccountant(compose(*parts)), compose(*parts)
    losses = composed(*[coin(0.3)] * 5, coin(1.0))
    for epsilon in (0, 0.5, 1, 2, 3, 4, 4.6):  # down to a delta of 1e-8
        truth = mp.fsum(p * normal_delta(epsilon - loss, mpf(1) / 2) for loss, p in losses.items())
        covers(priced.delta(epsilon), truth)
        assert priced.delta(epsilon) <= accountant.delta(adaptive, epsilon)
    found = priced.epsilon(1e-5)
    assert mp.fsum(p * normal_delta(found - loss, mpf(1) / 2) for loss, p in losses.items()) <= 1e-5
    assert found <= accountant.epsilon(adaptive, 1e-5)


def test_counts_multiply_through_nested_parts():
    nested = compose(compose(event("pure", epsilon=0.3, count=2)).times(3)).times(2)
    flat = event("pure", epsilon=0.3, count=12)
    for epsilon in (0, 1, 2.5):
        assert PLDAccountant(nested).delta(epsilon) == pytest.approx(PLDAccountant(flat).delta(epsilon), rel=1e-9)


WITHOUT = {
    "discrete-gaussian": event("discrete-gaussian", sensitivity=1, scale=3, count=4),
    "zcdp": event("zcdp", rho=0.1),
    "renyi": event("renyi", orders=(2, 10), epsilons=(0.1, 0.4)),
    "discovery-gaussian": event("discovery-gaussian", scale=9, margin=60, values=2),
}


@pytest.mark.parametrize("kind", WITHOUT)
def test_part_without_profile_falls_back_to_the_accountant(kind):
    assert {k for k, pricing in PRICINGS.items() if pricing.profile is None} == set(WITHOUT)
    parts = compose(event("pure", epsilon=0.3), WITHOUT[kind])
    priced = PLDAccountant(parts)
    assert priced.delta(0.5) == accountant.delta(parts, 0.5)
    assert priced.epsilon(1e-6) == accountant.epsilon(parts, 1e-6)


def test_coarser_grid_is_never_cheaper():
    noise = event("laplace", sensitivity=1, scale=3, count=10)
    fine, coarse = PLDAccountant(noise, interval=1e-4), PLDAccountant(noise, interval=1e-2)
    for epsilon in (0, 0.5, 1.5):
        assert fine.delta(epsilon) <= coarse.delta(epsilon) <= accountant.delta(noise, epsilon)


@pytest.mark.parametrize("interval", [0, -1e-4, 2, math.nan])
def test_interval_is_checked(interval):
    with pytest.raises(InvalidParameter, match="interval must be a number above 0 and at most 1"):
        PLDAccountant(event("pure", epsilon=1), interval=interval)
