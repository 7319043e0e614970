"""What one draw from a conjugate posterior costs: the price of events of kind `conjugate-draw`.

For the families here the worst neighbouring posteriors reduce to pairs of two shapes, and the price is the maximum over
the pairs that the event lists, both ways round:

- beta: P = Beta(a, b) against Q = Beta(a + s, b - s), a replacement;
- gamma: P = Gamma(a) against Q = Gamma(a + s) at unit rate, an addition or removal next to very many records.

Renyi divergence of exponential families [GeumlekSC17, sec. 3]: with C the log-partition along the shift,
D_o(P || Q) = [C(-(o-1) s) - C(0)]/(o-1) + C(s) - C(0), infinite where a - (o-1) s <= 0.

The likelihood ratio is monotone, so each hockey-stick divergence is a difference of two incomplete beta or gamma
functions at one threshold. Doubles are used where they keep ten digits; elsewhere ball arithmetic (python-flint) is
refined until it does.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from scipy.special import betainc, gammainc, gammaincc

from vestry.conjugate.arb_divergence import gamma_integral
from vestry.errors import GuaranteeUnreachable
from vestry.numerics import above_zero
from vestry.privacy.event import Event
from vestry.privacy.neighbours import Adjacency
from vestry.privacy.pricing import Pricing, Rule, event

# Relative error that scipy's incomplete functions and lgamma are trusted to keep.
_TRUST = 1e-13
# Relative error that a result must have; a worse one is computed again by ball arithmetic.
_WANTED = 1e-10
# Below this doubles lose digits that no relative error counts, so that this stands for all of them.
_SMALL = 1e-301
# The exponential of more is beyond the doubles.
_LARGEST_EXPONENT = 700.0

Triple = tuple[float, float, float]
Pair = tuple[float, float]


def draw(*, betas: tuple[Triple, ...] = (), gammas: tuple[Pair, ...] = (), **options: Any) -> Event:
    """Record one draw whose worst neighbours are among these pairs: (a, b, s) and (a, s)."""
    flat = tuple(x for triple in betas for x in triple), tuple(x for pair in gammas for x in pair)
    return event("conjugate-draw", betas=flat[0], gammas=flat[1], **options)


def grouped_draw(low: float, shift: float, adjacency: Adjacency) -> Event:
    """Record one draw in each of several groups, a unit being one record; `low` is the smallest alpha.

    Under add-remove a record touches one group's draw: Gamma(low) against Gamma(low + shift). Under replace it may
    leave one group and enter another, which is that event twice. A replacement inside a group costs less: its
    Beta(a + s, b) against Beta(a, b + s) is X/(X + Y) of independent gammas, X going from a + s to a and Y from b to
    b + s, and smaller shapes dominate.

    Refused for units of several records, which may lie in several groups: no supremum is proved there.
    """
    if adjacency.rows > 1:
        raise GuaranteeUnreachable(
            "posterior draws by group for units of several records",
            "no theorem bounds them; release noisy statistics (laplace or gaussian), or leave out by",
        )
    return draw(gammas=((low, shift),), neighbours=adjacency.neighbours).times(2 if adjacency.replaces else 1)


def order_limit(*, betas: tuple[float, ...], gammas: tuple[float, ...]) -> float:
    """Return the supremum of the orders at which the divergence is finite (lambda* of [GeumlekSC17])."""
    pairs = [(min(a, b - s), s) for a, b, s in _triples(betas)] + list(_pairs(gammas))
    return min(1 + a / s for a, s in pairs)


def _renyi(order: float, betas: tuple[float, ...], gammas: tuple[float, ...]) -> float:
    if order >= order_limit(betas=betas, gammas=gammas):
        return math.inf
    divergences = [_divergence(order, s, ((a,), 1), ((b,), -1)) for a, b, s in _both_ways(betas)]
    for a, s in _pairs(gammas):
        divergences += [_divergence(order, s, ((a,), 1)), _divergence(order, s, ((a, s), -1))]
    return greatest(divergences)


def _profile(epsilon: float, betas: tuple[float, ...], gammas: tuple[float, ...]) -> float:
    deltas = [_beta_delta(epsilon, a, b, s) for a, b, s in _both_ways(betas)]
    for a, s in _pairs(gammas):
        deltas += [_gamma_delta(epsilon, a, s), _gamma_delta_back(epsilon, a, s)]
    return greatest(deltas)


class BoundedEstimate(NamedTuple):
    """A value in doubles, how wrong it may be, and the formula that ball arithmetic can evaluate instead."""

    value: float
    error: float
    formula: Callable[[Any], Any]

    def upper(self) -> float:
        """Return a tight upper bound, refined if doubles kept too few digits."""
        if abs(self.value) + self.error <= _SMALL:
            return _SMALL
        if self.error <= _WANTED * abs(self.value):
            return self.value + self.error
        return _refine(self.formula)


def greatest(estimates: list[BoundedEstimate]) -> float:
    """Return the largest of the values, which are above 0, rounded up; those that may be the largest are refined."""
    bar = max(0.0, *(estimate.value - estimate.error for estimate in estimates))
    rivals = [estimate for estimate in estimates if estimate.value + estimate.error >= bar > 0 or bar == 0]
    return above_zero(max(0.0, *(estimate.upper() for estimate in rivals)))


def _triples(flat: tuple[float, ...]) -> Iterator[Triple]:
    return zip(flat[::3], flat[1::3], flat[2::3], strict=True)


def _pairs(flat: tuple[float, ...]) -> Iterator[Pair]:
    return zip(flat[::2], flat[1::2], strict=True)


def _both_ways(flat: tuple[float, ...]) -> Iterator[Triple]:
    """Yield each beta pair and, by theta -> 1 - theta, the same pair the other way round."""
    for a, b, s in _triples(flat):
        yield a, b, s
        yield b - s, a + s, s


# --- Renyi divergences -----------------------------------------------------------------------------------------------


def _divergence(order: float, s: float, *shifts: tuple[tuple[float, ...], int]) -> BoundedEstimate:
    """Estimate D_order = [C(-(order-1) s) - C(0)]/(order-1) + C(s) - C(0), C the sum of log-gammas along the shifts.

    Each shift is a log-gamma's argument, as the sum of its parts, and whether s is added to it (1) or taken off (-1):
    a and b for Beta(a, b) against Beta(a + s, b - s), a for Gamma(a) against Gamma(a + s), a + s for the way back.
    """
    far = [_log_gamma_step(sum(parts), -sign * (order - 1) * s) for parts, sign in shifts]
    near = [_log_gamma_step(sum(parts), sign * s) for parts, sign in shifts]
    value, size = (
        sum(step[place] for step in far) / (order - 1) + sum(step[place] for step in near) for place in (0, 1)
    )

    def formula(arb: Any) -> Any:
        below = arb(order) - 1
        exact = [(sum(map(arb, parts)), sign) for parts, sign in shifts]
        over = sum((x - sign * below * arb(s)).lgamma() - x.lgamma() for x, sign in exact)
        return over / below + sum((x + sign * arb(s)).lgamma() - x.lgamma() for x, sign in exact)

    return BoundedEstimate(value, 2e-15 * size, formula)


class Step(NamedTuple):
    """A difference of log-gammas, and the size of the terms that were added up for it."""

    value: float
    size: float


def _log_gamma_step(x: float, d: float) -> Step:
    """Return log Gamma(x + d) - log Gamma(x), every term of the order of d.

    The recurrence lifts the arguments to 12, where Stirling's series is exact to the last digit.
    """
    lift, lifted = 0.0, x
    while min(lifted, lifted + d) < 12:
        lift += math.log1p(d / lifted)
        lifted += 1
    first, second = (lifted + d - 0.5) * math.log1p(d / lifted), d * (math.log(lifted) - 1)
    stirling = first + second + _stirling(lifted + d) - _stirling(lifted)
    return Step(stirling - lift, abs(first) + abs(second) + abs(lift) + _stirling(lifted))


def _stirling(x: float) -> float:
    w = 1 / (x * x)
    tail = 1 / 1680 - w * (1 / 1188 - w * (691 / 360360 - w / 156))
    return (1 / 12 - w * (1 / 360 - w * (1 / 1260 - w * tail))) / x


# --- hockey-stick divergences ----------------------------------------------------------------------------------------


def _beta_delta(epsilon: float, a: float, b: float, s: float) -> BoundedEstimate:
    """Return H(Beta(a, b) || Beta(a + s, b - s)) = I_t(a, b) - e^epsilon I_t(a + s, b - s).

    log p/q = c - s logit(theta), c = log B(a+s, b-s) - log B(a, b), so t = sigmoid((c - epsilon)/s). An error in t
    enters squared, because t is where the difference is largest.
    """
    c = _log_gamma_step(a, s).value + _log_gamma_step(b, -s).value
    x = (c - epsilon) / s
    if x < -600:
        # theta is tiny there: I_t(a, b) = t^a / (a B(a, b)), t = e^x
        log_p = x * a - math.log(a) - _log_beta(a, b)
        log_q = epsilon + x * (a + s) - math.log(a + s) - _log_beta(a + s, b - s)
        p, q = math.exp(min(0.0, log_p)), math.exp(min(0.0, log_q))
        trust = 1e-15 * (4 + abs(log_p) + abs(log_q) + abs(x) * (a + s))
    else:
        t = 1 / (1 + math.exp(-x))
        p, q = float(betainc(a, b, t)), _exp(epsilon) * float(betainc(a + s, b - s, t))
        trust = _TRUST
    return _difference(p, q, trust, lambda arb: _arb_beta_delta(arb, epsilon, a, b, s))


def _gamma_delta(epsilon: float, a: float, s: float) -> BoundedEstimate:
    """Return H(Gamma(a) || Gamma(a + s)) = g(a, t) - e^epsilon g(a + s, t), t = exp((c - epsilon)/s)."""
    x = (_log_gamma_step(a, s).value - epsilon) / s
    if x < -600:
        log_p, log_q = x * a - math.lgamma(a + 1), epsilon + x * (a + s) - math.lgamma(a + s + 1)
        p, q = math.exp(min(0.0, log_p)), math.exp(min(0.0, log_q))
        trust = 1e-15 * (4 + abs(log_p) + abs(log_q) + abs(x) * (a + s))
    else:
        t = math.exp(min(x, 700.0))
        p, q = float(gammainc(a, t)), _exp(epsilon) * float(gammainc(a + s, t))
        trust = _TRUST
    return _difference(p, q, trust, lambda arb: _arb_gamma_delta(arb, epsilon, a, s))


def _gamma_delta_back(epsilon: float, a: float, s: float) -> BoundedEstimate:
    """Return H(Gamma(a + s) || Gamma(a)) = G(a + s, t) - e^epsilon G(a, t), t = exp((c + epsilon)/s)."""
    x = (_log_gamma_step(a, s).value + epsilon) / s
    t = math.exp(min(x, 700.0))
    p, q = float(gammaincc(a + s, t)), _exp(epsilon) * float(gammaincc(a, t))
    return _difference(p, q, _TRUST, lambda arb: _arb_gamma_delta_back(arb, epsilon, a, s))


def _difference(p: float, q: float, trust: float, formula: Callable[[Any], Any]) -> BoundedEstimate:
    """Estimate p - q; where a double cannot hold q, by p, which is above it."""
    if not math.isfinite(q):
        return BoundedEstimate(p, trust * p, formula)
    return BoundedEstimate(p - q, trust * (p + q), formula)


def _exp(epsilon: float) -> float:
    return math.exp(epsilon) if epsilon < _LARGEST_EXPONENT else math.inf


def _log_beta(a: float, b: float) -> float:
    return math.lgamma(a) - _log_gamma_step(b, a).value


# --- ball arithmetic -------------------------------------------------------------------------------------------------


def _refine(formula: Callable[[Any], Any]) -> float:
    """Evaluate with more and more bits until ten digits are certain, and return the ball's upper end."""
    import flint

    bits = 128
    while True:
        with flint.ctx.workprec(bits):
            ball = formula(flint.arb)
            middle, radius = float(ball.mid()), float(ball.rad())
            if ball.is_finite() and (radius <= 1e-12 * abs(middle) or (abs(middle) < 1e-300 and radius < 1e-300)):
                return middle + radius
        bits *= 2
        if bits > 1 << 14:
            return math.inf


def _arb_beta_delta(arb: Any, epsilon: float, a: float, b: float, s: float) -> Any:
    x, y, shift, e = arb(a), arb(b), arb(s), arb(epsilon)
    c = (x + shift).lgamma() - x.lgamma() + (y - shift).lgamma() - y.lgamma()
    z = (c - e) / shift
    below = 1 / (1 + (-z).exp())
    p = below.beta_lower(x, y, regularized=True)
    q = below.beta_lower(x + shift, y - shift, regularized=True)
    return p - e.exp() * q


def _arb_gamma_delta(arb: Any, epsilon: float, a: float, s: float) -> Any:
    x, shift, e = arb(a), arb(s), arb(epsilon)
    log_t = ((x + shift).lgamma() - x.lgamma() - e) / shift
    return gamma_integral(shape=x, log_scale=log_t, upward=False, loss=lambda u: shift * u)


def _arb_gamma_delta_back(arb: Any, epsilon: float, a: float, s: float) -> Any:
    x, shift, e = arb(a), arb(s), arb(epsilon)
    log_t = ((x + shift).lgamma() - x.lgamma() + e) / shift
    return gamma_integral(shape=x + shift, log_scale=log_t, upward=True, loss=lambda u: shift * u)


def _listed(size: int) -> Rule:
    def holds(flat: Any) -> bool:
        if not isinstance(flat, tuple) or len(flat) % size or not all(math.isfinite(x) and x > 0 for x in flat):
            return False
        return size == 2 or all(b > s for _, b, s in _triples(flat))

    return Rule(f"groups of {size} numbers above 0 that describe neighbouring posteriors", holds)


PRICING = Pricing(
    {"betas": _listed(3), "gammas": _listed(2)},
    renyi=_renyi,
    profile=_profile,
    fit=lambda betas, gammas: bool(betas or gammas),
)
