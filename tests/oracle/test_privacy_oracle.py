"""Every law against its definition, in 50-digit arithmetic.

A truth is a sum or an integral of p^a q^(1-a), or of max(p - e^epsilon q, 0), over a pair of outputs that is written
out; none of the library's formulas is used. A price must not be below the truth, and hardly above it.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

import pytest
from mpmath import inf, mp, mpf
from scipy.special import log_ndtr

from vestry.errors import NoConversion
from vestry.privacy import accountant, calibrate, group
from vestry.privacy import profile as profiles
from vestry.privacy import renyi as renyis
from vestry.privacy.guarantee import ZCDP, ApproxDP, GaussianDP, PureDP, RenyiDP
from vestry.privacy.law import LAWS, event

ORDERS = [1.0001, 1.5, 2.0, 10.0, 1000.0]
LOST = mpf(10) ** -25  # what the truths themselves may lose, relative


@pytest.fixture(autouse=True)
def _fifty_digits():
    with mp.workdps(50):
        yield


def read(x) -> mpf:
    """Read a parameter as the decimal that it prints as, as the library does."""
    return mpf(x.numerator) / x.denominator if isinstance(x, Fraction) else mpf(repr(float(x)))


def covers(price, truth: mpf, *, within: float = 1e-9) -> None:
    """The price is not below the truth, and not far above it."""
    price = mpf(price.numerator) / price.denominator if isinstance(price, Fraction) else mpf(price)
    assert price >= truth * (1 - LOST), f"{mp.nstr(price, 20)} is below {mp.nstr(truth, 20)}"
    assert price <= truth * (1 + within), f"{mp.nstr(price, 20)} is far above {mp.nstr(truth, 20)}"


# Pairs of outputs, written out

Points = list[tuple[mpf, mpf]]


def divergence(points: Iterable[tuple[mpf, mpf]], order) -> mpf:
    a = read(order)
    return mp.log(mp.fsum(p**a * q ** (1 - a) for p, q in points if p > 0)) / (a - 1)


def hockey_stick(points: Iterable[tuple[mpf, mpf]], epsilon) -> mpf:
    factor = mp.exp(read(epsilon))
    return mp.fsum(max(p - factor * q, mpf(0)) for p, q in points)


def swapped(points: Points) -> Points:
    return [(q, p) for p, q in points]


def coin(epsilon) -> Points:
    """Randomised response: the truth with odds e^epsilon."""
    p, q = 1 / (1 + mp.exp(-read(epsilon))), 1 / (1 + mp.exp(read(epsilon)))
    return [(p, q), (q, p)]


def failing_coin(epsilon, delta) -> Points:
    """Randomised response that with probability delta tells all instead."""
    d = read(delta)
    return [(d, mpf(0)), (mpf(0), d), *(((1 - d) * p, (1 - d) * q) for p, q in coin(epsilon))]


def split(t: mpf, epsilon) -> Points:
    """Two outputs of losses t and t - epsilon: the extreme pairs of bounded range."""
    e = read(epsilon)
    q = (1 - mp.exp(t - e)) / (mp.exp(t) - mp.exp(t - e))
    rest = (mp.exp(t) - 1) / (mp.exp(t) - mp.exp(t - e))
    return [(mp.exp(t) * q, q), (mp.exp(t - e) * rest, rest)]


def worst_split(value: Callable[[Points], mpf], epsilon) -> mpf:
    """Maximise over t in (0, epsilon), by a grid that is dense at both ends and golden sections."""
    e = read(epsilon)

    def at(z) -> mpf:
        return value(split(e / (1 + mp.exp(-z)), epsilon))

    grid = [mpf(z) / 2 for z in range(-36, 37)]
    values = [at(z) for z in grid]
    best = max(range(len(grid)), key=values.__getitem__)
    left, right = grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)]
    shrink = (mp.sqrt(5) - 1) / 2
    found = values[best]
    while right - left > 1e-9:
        inner, outer = right - shrink * (right - left), left + shrink * (right - left)
        at_inner, at_outer = at(inner), at(outer)
        found = max(found, at_inner, at_outer)
        left, right = (left, outer) if at_inner > at_outer else (inner, right)
    return found


def geometric(term: Callable[[int], mpf], start: int, step: int) -> mpf:
    """Sum term(start), term(start + step), ... whose ratio is constant."""
    first = term(start)
    return first / (1 - term(start + step) / first) if first else mpf(0)


def integer_laplace(sensitivity, scale) -> tuple[Callable[[int], mpf], Callable[[int], mpf]]:
    u, shift = 1 / read(scale), int(sensitivity)
    normal = 1 + 2 * geometric(lambda k: mp.exp(-k * u), 1, 1)
    return lambda k: mp.exp(-abs(k) * u) / normal, lambda k: mp.exp(-abs(k - shift) * u) / normal


def over_integers(term: Callable[[int], mpf], last: int) -> mpf:
    """Sum a term over all integers, geometric below 0 and above `last`."""
    return geometric(term, -1, -1) + mp.fsum(map(term, range(last + 1))) + geometric(term, last + 1, 1)


def integral(function: Callable[[mpf], mpf], cuts: Iterable[mpf]) -> mpf:
    return mp.fsum(mp.quad(function, piece, method="gauss-legendre") for piece in pairwise(sorted(set(cuts))))


def laplace_pair(sensitivity, scale):
    d, b = read(sensitivity), read(scale)
    return lambda x: -abs(x) / b - mp.log(2 * b), lambda x: -abs(x - d) / b - mp.log(2 * b)


def laplace_renyi(order, sensitivity, scale) -> mpf:
    a, d, b = read(order), read(sensitivity), read(scale)
    log_p, log_q = laplace_pair(sensitivity, scale)
    between = [min(d, 10 * k * b / (2 * a - 1)) for k in range(11)]  # falls at the rate (2 a - 1)/b from 0 on
    below, above = [-10 * k * b for k in range(11)], [d + 10 * k * b for k in range(11)]

    def term(x):
        return mp.exp(a * log_p(x) + (1 - a) * log_q(x))

    return mp.log(integral(term, below) + integral(term, between) + integral(term, above)) / (a - 1)


def laplace_delta(epsilon, sensitivity, scale) -> mpf:
    e, d, b = read(epsilon), read(sensitivity), read(scale)
    log_p, log_q = laplace_pair(sensitivity, scale)
    edge = (d - e * b) / 2  # where p = e^epsilon q
    if edge <= 0:
        return mpf(0)
    cuts = [mpf(0), *(-10 * k * b for k in range(11)), *(min(edge, 10 * k * b) for k in range(11))]
    return integral(lambda x: max(mp.exp(log_p(x)) - mp.exp(e + log_q(x)), mpf(0)), cuts)


def normal_renyi(order, mu: mpf) -> mpf:
    a = read(order)
    peak = (1 - a) * mu

    def term(x):
        return mp.exp((-a * x * x - (1 - a) * (x - mu) ** 2) / 2) / mp.sqrt(2 * mp.pi)

    return mp.log(integral(term, [peak + k * mpf(5) / 2 for k in range(-6, 7)])) / (a - 1)


def normal_delta(epsilon, mu: mpf) -> mpf:
    e = read(epsilon)
    edge = mu / 2 - e / mu  # where p = e^epsilon q
    width = min(mpf(5) / 2, 5 / max(mpf(1), -edge))
    cuts = [edge]
    while cuts[-1] > min(edge, mpf(0)) - 9 * width:
        cuts.append(cuts[-1] - width)

    def term(x):
        return (mp.exp(-x * x / 2) - mp.exp(e - (x - mu) ** 2 / 2)) / mp.sqrt(2 * mp.pi)

    return integral(term, cuts)


def integer_normal(sensitivity: int, scale) -> Points:
    s = read(scale)
    reach = int(40 * s) + int(sensitivity)
    weights = {k: mp.exp(-mpf(k) ** 2 / (2 * s * s)) for k in range(-2 * reach, 2 * reach + 1)}
    normal = mp.fsum(weights.values())
    return [(weights[k] / normal, weights[k - sensitivity] / normal) for k in range(-reach, reach + 1)]


# Every law


@dataclass(frozen=True)
class Truth:
    """A law's parameters at which it is checked, and its definition."""

    cases: list[dict]
    renyi: Callable[..., mpf]
    delta: Callable[..., mpf] | None = None
    largest: Callable[..., mpf] = lambda **_: inf  # the largest privacy loss
    squared_mu: Callable[..., mpf] | None = None


def bounded_mu(largest_advantage: mpf) -> mpf:
    """Return mu with Phi(mu/2) - Phi(-mu/2) equal to an advantage, the normal distribution being integrated."""

    def advantage(mu):
        return normal_delta(0, mu) - largest_advantage

    return mp.findroot(advantage, mp.sqrt(2 * mp.pi) * largest_advantage, solver="secant", tol=mpf(10) ** -35)


def ratio_of(sensitivity, scale) -> mpf:
    return read(sensitivity) / read(scale)


NOISES = [(1, 1e6), (0.3, 0.7), (2, 1), (50, 1), (1, 0.02)]
SIZES = [1e-6, 0.1, 1, 5, 50]

TRUTHS: dict[str, Truth] = {
    "laplace": Truth(
        [{"sensitivity": d, "scale": b} for d, b in NOISES],
        laplace_renyi,
        laplace_delta,
        largest=ratio_of,
    ),
    "discrete-laplace": Truth(
        [{"sensitivity": d, "scale": d / e} for d in (1, 2, 3, 7) for e in (1e-6, 0.5, 2, 50)],
        renyi=lambda order, sensitivity, scale: _integer_laplace_renyi(order, sensitivity, scale),
        delta=lambda epsilon, sensitivity, scale: _integer_laplace_delta(epsilon, sensitivity, scale),
        largest=ratio_of,
    ),
    "gaussian": Truth(
        [{"sensitivity": d, "scale": b} for d, b in NOISES],
        renyi=lambda order, sensitivity, scale: normal_renyi(order, ratio_of(sensitivity, scale)),
        delta=lambda epsilon, sensitivity, scale: normal_delta(epsilon, ratio_of(sensitivity, scale)),
        squared_mu=lambda sensitivity, scale: ratio_of(sensitivity, scale) ** 2,
    ),
    "discrete-gaussian": Truth(
        [{"sensitivity": d, "scale": s} for d, s in ((1, 1), (3, 1), (2, 5), (1, 0.5))],
        renyi=lambda order, sensitivity, scale: divergence(integer_normal(sensitivity, scale), order),
    ),
    "exponential": Truth(
        [{"epsilon": e} for e in SIZES],
        renyi=lambda order, epsilon: worst_split(lambda pair: divergence(pair, order), epsilon),
        delta=lambda epsilon_, epsilon: worst_split(lambda pair: hockey_stick(pair, epsilon_), epsilon),
        largest=lambda epsilon: read(epsilon),
        squared_mu=lambda epsilon: bounded_mu(worst_split(lambda pair: hockey_stick(pair, 0), epsilon)) ** 2,
    ),
    "pure": Truth(
        [{"epsilon": e} for e in SIZES],
        renyi=lambda order, epsilon: divergence(coin(epsilon), order),
        delta=lambda epsilon_, epsilon: hockey_stick(coin(epsilon), epsilon_),
        largest=lambda epsilon: read(epsilon),
        squared_mu=lambda epsilon: bounded_mu(hockey_stick(coin(epsilon), 0)) ** 2,
    ),
    "approximate": Truth(
        [{"epsilon": e, "delta": d} for e in SIZES for d in (1e-9, 0.3)],
        renyi=lambda order, epsilon, delta: divergence(coin(epsilon), order),
        delta=lambda epsilon_, epsilon, delta: hockey_stick(failing_coin(epsilon, delta), epsilon_),
        largest=lambda epsilon, delta: read(epsilon),
        squared_mu=lambda epsilon, delta: bounded_mu(hockey_stick(coin(epsilon), 0)) ** 2,
    ),
    "renyi": Truth(
        [{"orders": tuple(ORDERS), "epsilons": tuple(0.125 * a for a in ORDERS)}],  # those of mu = 1/2
        renyi=lambda order, orders, epsilons: normal_renyi(order, mpf(1) / 2),
    ),
    "zcdp": Truth(
        [{"rho": r} for r in (1e-6, 0.3, 50)],  # normal noise attains rho a at every order
        renyi=lambda order, rho: normal_renyi(order, mp.sqrt(2 * read(rho))),
    ),
    "gdp": Truth(
        [{"mu": m} for m in (1e-6, 0.05, 0.3, 2, 50)],
        renyi=lambda order, mu: normal_renyi(order, read(mu)),
        delta=lambda epsilon, mu: normal_delta(epsilon, read(mu)),
        squared_mu=lambda mu: read(mu) ** 2,
    ),
    "profile": Truth([], renyi=lambda order: inf),  # below, for a few functions
}


def _integer_laplace_renyi(order, sensitivity, scale) -> mpf:
    a, (p, q) = read(order), integer_laplace(sensitivity, scale)
    return mp.log(over_integers(lambda k: p(k) ** a * q(k) ** (1 - a), int(sensitivity))) / (a - 1)


def _integer_laplace_delta(epsilon, sensitivity, scale) -> mpf:
    p, q = integer_laplace(sensitivity, scale)
    factor = mp.exp(read(epsilon))
    return over_integers(lambda k: max(p(k) - factor * q(k), mpf(0)), int(sensitivity))


EVERY = [(kind, case) for kind, truth in TRUTHS.items() for case in truth.cases]
NAMES = [f"{kind}-{'-'.join(f'{v:g}' for v in case.values() if not isinstance(v, tuple))}" for kind, case in EVERY]
every_case = pytest.mark.parametrize(("kind", "case"), EVERY, ids=NAMES)


def with_profile(cases):
    return [pytest.param(k, c, id=n) for (k, c), n in zip(cases, NAMES, strict=True) if TRUTHS[k].delta]


def test_every_law_has_a_truth():
    assert TRUTHS.keys() == LAWS.keys()


@every_case
def test_renyi_is_the_divergence_rounded_up(kind, case):
    for order in ORDERS:
        price = accountant.renyi(event(kind, **case), order)
        # The discrete normal's curve is a bound, attained where order x sensitivity is whole.
        loose = kind == "discrete-gaussian" and order != int(order)
        covers(price, TRUTHS[kind].renyi(order, **case), within=inf if loose else 1e-9)


@pytest.mark.parametrize(("kind", "case"), with_profile(EVERY))
def test_profile_is_the_hockey_stick_rounded_up(kind, case):
    truth = TRUTHS[kind]
    mechanism = event(kind, **case)
    largest = truth.largest(**case)
    size = float(largest) if largest < inf else float(mp.sqrt(truth.squared_mu(**case)))
    for share in (0, 1e-3, 0.1, 0.5, 0.9, 0.999, 1.5, 4):
        epsilon = share * size
        covers(accountant.delta(mechanism, epsilon), truth.delta(epsilon, **case))


@pytest.mark.parametrize(("kind", "case"), with_profile(EVERY))
def test_both_directions_are_covered(kind, case):
    """The pair and its mirror image have one profile: it obeys delta(-x) = 1 - e^(-x) + e^(-x) delta(x)."""
    mechanism, truth = event(kind, **case), TRUTHS[kind]
    for epsilon in (0.01, 0.7):
        below = profiles.reflected(lambda x: accountant.delta(mechanism, x), -epsilon)
        assert below == pytest.approx(float(1 - mp.exp(-epsilon) * (1 - truth.delta(epsilon, **case))), rel=1e-9)
    pair = coin(2)
    assert hockey_stick(pair, -0.7) == pytest.approx(profiles.reflected(lambda x: accountant.delta(event("pure", epsilon=2), x), -0.7), rel=1e-9)


@every_case
def test_pure_is_the_largest_loss(kind, case):
    price = accountant.pure(event(kind, **case))
    largest = TRUTHS[kind].largest(**case)
    if largest == inf:
        assert price == math.inf
    else:
        covers(price, largest, within=0)


@pytest.mark.parametrize("kind", [kind for kind, truth in TRUTHS.items() if truth.largest() == inf] or ["none"])
def test_placeholder(kind):
    pass
