"""How far a Gibbs posterior exp(-likelihood_power * sum of losses) * prior may listen to the records.

A draw from it is exactly Gaussian-private [GopiLL22, Thm 4]; the papers' own bounds are here for comparison.
"""

from __future__ import annotations

import math

from vestry.errors import InvalidParameter
from vestry.mechanisms.posterior_sample import meets_through_renyi
from vestry.privacy import accountant, gibbs_cost
from vestry.privacy.accountant import largest_parameter, smallest_parameter
from vestry.privacy.event import Event
from vestry.privacy.guarantee import ApproxDP, Guarantee
from vestry.privacy.neighbours import Adjacency, Neighbours
from vestry.privacy.pricing import event
from vestry.validation import require_choice

GDP, RENYI, THEOREM_7, COROLLARY_8 = "gdp", "renyi", "minami-theorem-7", "minami-corollary-8"
ANALYSES = (GDP, RENYI, THEOREM_7, COROLLARY_8)

THEOREM = (
    "A draw from a density exp(-rho sum l - prior term), the prior term m-strongly convex and the gradients of"
    " neighbours' sums at most S apart, is mu-GDP with mu = rho S/sqrt(m) [GopiLL22, Thm 4]."
)


def draw_event(
    likelihood_power: float, *, lipschitz: float, strong_convexity: float, adjacency: Adjacency, draws: int = 1
) -> Event:
    """Record draws from a Gibbs posterior: S = 2 L per record of a unit under replace, L under add-remove."""
    sensitivity = adjacency.changes * lipschitz
    single = event(
        "gibbs", likelihood_power=likelihood_power, sensitivity=sensitivity, strong_convexity=strong_convexity
    )
    return single.times(draws).under(adjacency.neighbours)


def likelihood_power(
    guarantee: Guarantee,
    *,
    lipschitz: float,
    strong_convexity: float,
    adjacency: Adjacency,
    draws: int = 1,
    analysis: str = GDP,
    at_most: float = math.inf,
) -> float:
    """Return the largest likelihood power by which draws meet the guarantee.

    `gdp` is exact; `renyi` goes through the Renyi curve; the two of [MinamiAS16] hold for one draw and replaced rows,
    and Corollary 8 up to epsilon 1 only.
    """
    bound = guarantee.under(adjacency.neighbours)

    def event_at(power: float) -> Event:
        return draw_event(
            power, lipschitz=lipschitz, strong_convexity=strong_convexity, adjacency=adjacency, draws=draws
        )

    if analysis in (GDP, RENYI):
        meets = accountant.meets if analysis == GDP else meets_through_renyi
        return largest_parameter(event_at, bound, at_most=at_most, meets=meets)
    share = _published(analysis, bound, adjacency, draws)
    return min(at_most, share * math.sqrt(strong_convexity) / lipschitz)


def _published(analysis: str, guarantee: Guarantee, adjacency: Adjacency, draws: int) -> float:
    """Return rho L/sqrt(m) as [MinamiAS16] bounds it."""
    require_choice("analysis", analysis, ANALYSES, f"analysis={GDP}")
    if not isinstance(guarantee, ApproxDP):
        raise InvalidParameter("guarantee", str(guarantee), f"an epsilon and a delta for {analysis}", f"analysis={GDP}")
    if adjacency.neighbours is not Neighbours.REPLACE or adjacency.rows != 1 or draws != 1:
        raise InvalidParameter(
            "analysis", analysis, "used for one draw and one replaced row: that is what it proves", f"analysis={GDP}"
        )
    if analysis == COROLLARY_8 and guarantee.epsilon > 1:
        raise InvalidParameter(
            "epsilon", guarantee.epsilon, f"at most 1 for {analysis}, which is false for large ones", f"analysis={GDP}"
        )
    formula = gibbs_cost.theorem_7 if analysis == THEOREM_7 else gibbs_cost.corollary_8
    return formula(guarantee.epsilon, guarantee.delta)


def prior_precision(
    guarantee: Guarantee, *, lipschitz: float, count: int, at_least: float, adjacency: Adjacency, draws: int = 1
) -> float:
    """Return the least prior precision beta, per record, by which untempered draws meet the guarantee.

    The prior is N(0, I/(n beta)) [GeumlekSC17, Alg. 4]: beta = max(2 L^2 a/(n epsilon), beta0) at order a.
    """

    def event_at(beta: float) -> Event:
        return draw_event(1.0, lipschitz=lipschitz, strong_convexity=count * beta, adjacency=adjacency, draws=draws)

    bound = guarantee.under(adjacency.neighbours)
    if accountant.meets(event_at(at_least), bound):
        return at_least
    return max(at_least, smallest_parameter(event_at, bound))
