"""The table of prices: for each kind of event its price in every privacy definition that a theorem allows.

A `Pricing` is a few small functions of the event's parameters. Families and mechanisms add theirs with `register`.
The count of an event is not their business: see `vestry.privacy.accountant`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

from scipy.special import erfinv, expit, ndtri

from vestry.errors import InvalidParameter
from vestry.numerics import Number, exact, exp_remainder, outward, ratio_up, up
from vestry.privacy import discovery_cost, gibbs_cost, objective_cost, profile, renyi
from vestry.privacy.event import Event, Value
from vestry.privacy.guarantee import ZCDP, ApproxDP, GaussianDP, Guarantee, PureDP, RenyiDP
from vestry.privacy.neighbours import Neighbours
from vestry.registry import LazyTable
from vestry.validation import is_number, require_choice

Price = Callable[..., Number]


@dataclass(frozen=True)
class Rule:
    """What one parameter of an event may be."""

    allowed: str
    holds: Callable[[Any], bool]


@dataclass(frozen=True)
class Pricing:
    """The prices of one kind of event, each a function of its parameters.

    Attributes
    ----------
    parameters
        Names and rules of the numbers that describe the event.
    renyi
        (order, **parameters) -> the Renyi divergence; infinite where it is not bounded.
    profile
        (epsilon, **parameters) -> the exact delta for epsilon >= 0; None where it is not known.
    pure, rho, squared_mu
        The price in pure, zero-concentrated and Gaussian privacy. Where omitted, rho and mu follow from pure.
    failure
        The probability of an output without any bound. The other prices hold apart from it.
    gaussian
        Whether squared_mu is exact, so that the composition's profile is.
    orders
        The orders at which the Renyi curve is given, if it is given at some only.
    fit
        Whether parameters that are each allowed also go together.
    """

    parameters: Mapping[str, Rule]
    renyi: Price
    profile: Callable[..., float] | None = None
    pure: Price = lambda **_: math.inf
    rho: Price | None = None
    squared_mu: Price | None = None
    failure: Price = lambda **_: Fraction(0)
    gaussian: bool = False
    orders: Callable[..., tuple[float, ...]] = lambda **_: ()
    fit: Callable[..., bool] = lambda **_: True

    def price_rho(self, **parameters: Value) -> Number:
        """Return the zCDP price; from pure epsilon it is epsilon^2 / 2 [BunS16, Prop. 3.3]."""
        if self.rho is not None:
            return self.rho(**parameters)
        epsilon = self.pure(**parameters)
        return epsilon * epsilon / 2

    def price_squared_mu(self, **parameters: Value) -> Number:
        """Return the square of the GDP price; from pure epsilon, mu = 2 Phi^-1(e^epsilon/(1 + e^epsilon))."""
        if self.squared_mu is not None:
            return self.squared_mu(**parameters)
        epsilon = float(self.pure(**parameters))
        return math.inf if epsilon == math.inf else _mu_of_odds(epsilon) ** 2


def _mu_of_odds(log_odds: float) -> float:
    """Return 2 Phi^-1(1 / (1 + e^(-log_odds))) [LiuSJK22; DongDR20]."""
    if log_odds < 1:
        return outward(2 * math.sqrt(2) * float(erfinv(math.tanh(log_odds / 2))))
    return outward(-2 * float(ndtri(expit(-log_odds))))


def _additive_pure(sensitivity: float, scale: float) -> Fraction:
    """Return sensitivity / scale [DworkMNS06, Prop. 1]."""
    return ratio_up(sensitivity, scale)


def _laplace_rho(sensitivity: float, scale: float) -> float:
    """Return epsilon + e^(-epsilon) - 1, the Kullback-Leibler divergence [HarrisonM25]."""
    return outward(exp_remainder(-sensitivity / scale))


def _gaussian_rho(sensitivity: float, scale: float) -> Fraction:
    return ratio_up(sensitivity, scale) ** 2 / 2


def _gaussian_renyi(order: float, sensitivity: float, scale: float) -> Fraction:
    """Return a D^2 / (2 sigma^2) [Mironov17, Prop. 7]; [GeumlekSC17, sec. 5.1] prints it without the 2."""
    return exact(order) * _gaussian_rho(sensitivity, scale)


def _gaussian_pricing(
    parameters: Mapping[str, Rule], mu: Callable[..., float], fit: Callable[..., bool] = lambda **_: True
) -> Pricing:
    """Price a mechanism whose trade-off is bounded by that of two normals mu apart."""
    return Pricing(
        parameters,
        renyi=lambda order, **numbers: exact(order) * exact(mu(**numbers)) ** 2 / 2,
        profile=lambda epsilon, **numbers: profile.gaussian(epsilon, mu=mu(**numbers)),
        rho=lambda **numbers: exact(mu(**numbers)) ** 2 / 2,
        squared_mu=lambda **numbers: exact(mu(**numbers)) ** 2,
        gaussian=True,
        fit=fit,
    )


def _contracts(*, strong_convexity: float, smoothness: float, step_sizes: tuple[float, ...], **phases: Any) -> bool:
    matched = len(step_sizes) == len(phases["steps"]) == len(phases["slacks"])
    return matched and strong_convexity <= smoothness and all(eta * smoothness < 2 for eta in step_sizes)


def _objective_pricing(
    curve: objective_cost.Curve,
    renyi_curve: objective_cost.Curve | None = None,
    jacobian: Callable[..., float] = objective_cost.jacobian,
) -> Pricing:
    """Price objective perturbation by one of its analyses; without a Renyi curve it follows from delta.

    A change of several records has a profile alone.
    """

    def delta(epsilon: float, *, records: float, **numbers: float) -> float:
        return objective_cost.profile_of_group(curve, epsilon, **_shift(jacobian, **numbers), records=records)

    @lru_cache(maxsize=16)
    def cached_profile(**numbers: float) -> profile.Profile:
        return lambda epsilon: delta(epsilon, **numbers)

    def divergence(order: float, *, records: float, **numbers: float) -> float:
        if records != 1:
            return math.inf
        if renyi_curve is not None:
            return renyi_curve(order, **_shift(jacobian, **numbers))
        return renyi.from_profile(order, profile=cached_profile(records=records, **numbers))

    names = ("lipschitz", "smoothness", "regularisation", "scale")
    return Pricing({**dict.fromkeys(names, _POSITIVE), "records": _WHOLE}, renyi=divergence, profile=delta)


def _shift(
    jacobian: Callable[..., float], *, lipschitz: float, smoothness: float, regularisation: float, scale: float
) -> dict[str, float]:
    shift = jacobian(smoothness=smoothness, regularisation=regularisation)
    return {"mu": outward(lipschitz / scale), "shift": shift}


def _tabulated(order: float, orders: tuple[float, ...], epsilons: tuple[float, ...]) -> Number:
    """Return the epsilon of the nearest order above: a Renyi divergence grows with its order."""
    return min((exact(e) for a, e in zip(orders, epsilons, strict=True) if a >= order), default=math.inf)


def _number(allowed: str, holds: Callable[[float], bool]) -> Rule:
    """Check a number as the float that the event will keep."""
    return Rule(allowed, lambda x: is_number(x) and holds(float(x)))


def _numbers(allowed: str, holds: Callable[[float], bool]) -> Rule:
    single = _number(allowed, holds)
    return Rule(allowed, lambda xs: isinstance(xs, tuple) and bool(xs) and all(map(single.holds, xs)))


_POSITIVE = _number("a number above 0 and finite", lambda x: x > 0)
_NOT_NEGATIVE = _number("a number at least 0 and finite", lambda x: x >= 0)
_WHOLE = _number("a whole number of at least 1", lambda x: x >= 1 and x == int(x))
_SHARE = _number("a number above 0 and below 1", lambda x: 0 < x < 1)
_ORDERS = _numbers("a tuple of orders above 1", lambda x: x > 1)
_EPSILONS = _numbers("a tuple of as many epsilons of at least 0", lambda x: x >= 0)
_SLACKS = _numbers("a tuple of as many numbers of at least 0", lambda x: x >= 0)
_FUNCTION = Rule("a function that returns delta", callable)

_GAUSSIAN = Pricing(
    {"sensitivity": _POSITIVE, "scale": _POSITIVE},
    renyi=_gaussian_renyi,
    profile=lambda epsilon, sensitivity, scale: profile.gaussian(epsilon, mu=sensitivity / scale),
    rho=_gaussian_rho,
    squared_mu=lambda sensitivity, scale: ratio_up(sensitivity, scale) ** 2,
    gaussian=True,
)

_OWN: dict[str, Pricing] = {
    # Real noise of density e^(-|x|/scale) on a statistic of this l1 sensitivity.
    "laplace": Pricing(
        {"sensitivity": _POSITIVE, "scale": _POSITIVE},
        pure=_additive_pure,
        renyi=lambda order, sensitivity, scale: renyi.laplace(order, epsilon=sensitivity / scale),
        profile=lambda epsilon, sensitivity, scale: profile.laplace(epsilon, total=up(ratio_up(sensitivity, scale))),
        rho=_laplace_rho,
    ),
    # Integer noise of mass e^(-|k|/scale) on an integer statistic of this l1 sensitivity.
    "discrete-laplace": Pricing(
        {"sensitivity": _WHOLE, "scale": _POSITIVE},
        pure=_additive_pure,
        renyi=renyi.discrete_laplace,
        profile=profile.discrete_laplace,
    ),
    # Real normal noise of this standard deviation on a statistic of this l2 sensitivity.
    "gaussian": _GAUSSIAN,
    # Integer noise round(N(0, scale^2)) on an integer statistic of this l2 sensitivity. Of integers, the rounded sum is
    # the sum with rounded noise: post-processing of the Gaussian mechanism, alone and composed [DongRS22, Thm 2.7].
    "rounded-gaussian": _GAUSSIAN,
    # Integer noise of mass e^(-k^2/(2 scale^2)) [CanonneKS20, Prop. 5]. Its delta exceeds that of normal noise (1.54
    # times at scale 1), so it has no price in mu.
    "discrete-gaussian": Pricing(
        {"sensitivity": _POSITIVE, "scale": _POSITIVE}, renyi=_gaussian_renyi, rho=_gaussian_rho
    ),
    # A draw of density e^(score) whose privacy loss spans at most epsilon, over any base measure: zCDP epsilon^2/8
    # [CesarR21], mu = 2 Phi^-1(1/(1 + e^(-epsilon/2))) [DongDR20].
    "exponential": Pricing(
        {"epsilon": _POSITIVE},
        pure=lambda epsilon: exact(epsilon),
        renyi=renyi.bounded_range,
        profile=lambda epsilon_, epsilon: profile.bounded_range(epsilon_, total=epsilon),
        rho=lambda epsilon: exact(epsilon) ** 2 / 8,
        squared_mu=lambda epsilon: _mu_of_odds(epsilon / 2) ** 2,
    ),
    "pure": Pricing(
        {"epsilon": _POSITIVE},
        pure=lambda epsilon: exact(epsilon),
        renyi=renyi.randomised_response,
        profile=lambda epsilon_, epsilon: profile.randomised_response(epsilon_, total=epsilon),
    ),
    # Pure except with probability delta [KairouzOV15].
    "approximate": Pricing(
        {"epsilon": _POSITIVE, "delta": _SHARE},
        pure=lambda epsilon, delta: exact(epsilon),
        renyi=lambda order, epsilon, delta: renyi.randomised_response(order, epsilon=epsilon),
        profile=lambda epsilon_, epsilon, delta: profile.randomised_response(epsilon_, total=epsilon, failure=delta),
        failure=lambda epsilon, delta: exact(delta),
    ),
    # A Renyi curve known at these orders; between them the next order above bounds it.
    "renyi": Pricing(
        {"orders": _ORDERS, "epsilons": _EPSILONS},
        renyi=_tabulated,
        orders=lambda orders, epsilons: orders,
        fit=lambda orders, epsilons: len(orders) == len(epsilons),
    ),
    "zcdp": Pricing({"rho": _POSITIVE}, renyi=lambda order, rho: exact(order) * exact(rho), rho=lambda rho: exact(rho)),
    "gdp": _gaussian_pricing({"mu": _POSITIVE}, mu=lambda mu: mu),
    # One exact draw from a Gibbs posterior; the sensitivity is that of the sum of gradients.
    "gibbs": _gaussian_pricing(
        dict.fromkeys(("likelihood_power", "sensitivity", "strong_convexity"), _POSITIVE), mu=gibbs_cost.draw_mu
    ),
    # The last state of a Langevin chain, from a start that no record has touched unless `start`.
    "langevin": _gaussian_pricing(
        {
            **dict.fromkeys(("sensitivity", "strong_convexity", "smoothness"), _POSITIVE),
            "step_sizes": _numbers("a tuple of step sizes above 0", lambda x: x > 0),
            "steps": _numbers("a tuple of whole numbers of at least 1", lambda x: x >= 1 and x == int(x)),
            "slacks": _SLACKS,
            "start": _NOT_NEGATIVE,
        },
        mu=gibbs_cost.chain_mu,
        fit=_contracts,
    ),
    # The minimum of a perturbed objective, by the analyses of `vestry.privacy.objective_cost`.
    "objective": _objective_pricing(objective_cost.general, objective_cost.general_renyi),
    "objective-one-sided": _objective_pricing(objective_cost.one_sided, objective_cost.one_sided_renyi),
    "objective-one-sided-replace": _objective_pricing(objective_cost.one_sided_replace),
    "objective-published": _objective_pricing(
        objective_cost.general, objective_cost.general_renyi, jacobian=objective_cost.published_jacobian
    ),
    # The lecture bounds delta at one epsilon, and has no Renyi curve.
    "objective-lecture": _objective_pricing(objective_cost.lecture, lambda order, **_: math.inf),
    # Which values occur, by noise on the count of each and a threshold; one unit moves `values` counts by 1. See
    # `vestry.privacy.discovery_cost`.
    "discovery-laplace": Pricing(
        {"scale": _POSITIVE, "margin": _WHOLE, "values": _WHOLE},
        pure=lambda scale, margin, values: ratio_up(values, scale),
        renyi=lambda order, scale, margin, values: outward(
            values * renyi.randomised_response(order, epsilon=up(ratio_up(1, scale)))
        ),
        profile=discovery_cost.laplace_profile,
        rho=lambda scale, margin, values: exact(values) * ratio_up(1, scale) ** 2 / 2,
        squared_mu=lambda scale, margin, values: outward(values * _mu_of_odds(up(ratio_up(1, scale))) ** 2),
        failure=lambda scale, margin, values: discovery_cost.of_several(
            discovery_cost.laplace_tail(scale=scale, margin=margin), values
        ),
    ),
    "discovery-gaussian": Pricing(
        {"scale": _POSITIVE, "margin": _WHOLE, "values": _WHOLE},
        renyi=lambda order, scale, margin, values: exact(order) * exact(values) * ratio_up(1, scale) ** 2 / 2,
        rho=lambda scale, margin, values: exact(values) * ratio_up(1, scale) ** 2 / 2,
        failure=lambda scale, margin, values: discovery_cost.of_several(
            discovery_cost.gaussian_tail(scale=scale, margin=margin), values
        ),
    ),
    "discovery-rounded-gaussian": Pricing(
        {"scale": _POSITIVE, "margin": _WHOLE, "values": _WHOLE},
        renyi=lambda order, scale, margin, values: exact(order) * exact(values) * ratio_up(1, scale) ** 2 / 2,
        profile=discovery_cost.rounded_gaussian_profile,
        rho=lambda scale, margin, values: exact(values) * ratio_up(1, scale) ** 2 / 2,
        squared_mu=lambda scale, margin, values: exact(values) * ratio_up(1, scale) ** 2,
        failure=discovery_cost.rounded_gaussian_failure,
    ),
    # Any falling function delta(epsilon), epsilon >= 0, that bounds both directions.
    "profile": Pricing(
        {"profile": _FUNCTION},
        renyi=renyi.from_profile,
        profile=lambda epsilon, profile: profile(epsilon),
    ),
}
# By kind; those of models are loaded when they are used.
PRICINGS = LazyTable(
    {
        **_OWN,
        "conjugate-draw": "vestry.conjugate.draw_cost:PRICING",
        "rate-draw": "vestry.conjugate.gamma_draw_cost:PRICING",
    }
)


def register(kind: str, pricing: Pricing) -> None:
    """Add the price of a new kind; a kind never changes its meaning, so it is registered once."""
    if kind in PRICINGS:
        raise InvalidParameter("kind", kind, "new", "another name")
    PRICINGS[kind] = pricing


def event(kind: str, *, count: int = 1, neighbours: Neighbours | str | None = None, **parameters: Value) -> Event:
    """Record that a mechanism of a known kind ran, its parameters checked against the kind's rules."""
    rules = PRICINGS[require_choice("kind", kind, PRICINGS, "for example gaussian")].parameters
    if set(parameters) != set(rules):
        raise InvalidParameter(
            f"the parameters of {kind}", sorted(parameters), " and ".join(rules), "each of them once"
        )
    for name, rule in rules.items():
        if not rule.holds(parameters[name]):
            raise InvalidParameter(name, parameters[name], rule.allowed, "a number that is")
    if not PRICINGS[kind].fit(**parameters):
        raise InvalidParameter(
            f"the parameters of {kind}", parameters, "numbers that fit together", "parameters of one mechanism"
        )
    plain = tuple((name, _plain(parameters[name])) for name in rules)
    return Event(kind, plain, count=count).under(neighbours)


def event_of_guarantee(guarantee: Guarantee) -> Event:
    """Record a mechanism of which only its guarantee is known."""
    if isinstance(guarantee, RenyiDP):
        known = event("renyi", orders=(guarantee.order,), epsilons=(guarantee.epsilon,))
    elif type(guarantee) in _KINDS:
        known = event(_KINDS[type(guarantee)], **{key: getattr(guarantee, key) for key in guarantee.names()})
    else:
        raise InvalidParameter("a guarantee", guarantee, "one of the five definitions", "for example PureDP(1)")
    return known.under(guarantee.neighbours)


_KINDS: dict[type, str] = {PureDP: "pure", ApproxDP: "approximate", ZCDP: "zcdp", GaussianDP: "gdp"}


def _plain(value: Value) -> Value:
    """Turn numbers of any type into floats, so that a record reads the same everywhere."""
    if isinstance(value, tuple):
        return tuple(float(x) for x in value)
    return value if callable(value) else float(value)
