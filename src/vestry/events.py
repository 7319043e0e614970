"""Typed constructors of events, one for each kind: what ran, from which every price follows.

`vestry.event(kind, ...)` makes the same events by name. `Event.times` says how often a mechanism ran, `Event.under`
under which neighbours, `vestry.compose` joins events, and `vestry.price` turns them into a guarantee.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Literal

from vestry.privacy.event import Event
from vestry.privacy.pricing import event
from vestry.validation import require_groups, require_list, shown_as_given

# --- noise that is added --------------------------------------------------------------------------------------------


def laplace(*, sensitivity: float, scale: float) -> Event:
    """Record real noise of density e^(-|x|/scale) on a statistic of this l1 sensitivity.

    With r = sensitivity/scale: pure epsilon r [DworkMNS06, Prop. 1], rho = r + e^-r - 1 [HarrisonM25], Renyi curve
    [Mironov17, Prop. 6], profile 1 - e^((epsilon - r)/2) [BalleBG18, Thm 3].
    """
    return event("laplace", sensitivity=sensitivity, scale=scale)


def discrete_laplace(*, sensitivity: int, scale: float) -> Event:
    """Record integer noise of mass e^(-|k|/scale) on an integer statistic of this l1 sensitivity.

    Pure epsilon sensitivity/scale [DworkMNS06, Prop. 1]; Renyi curve and profile are exact sums.
    """
    return event("discrete-laplace", sensitivity=sensitivity, scale=scale)


def gaussian(*, sensitivity: float, scale: float) -> Event:
    """Record normal noise of standard deviation `scale` on a statistic of this l2 sensitivity.

    With r = sensitivity/scale: mu = r [DongRS22, Thm 2.7], rho = r^2/2 [BunS16, Prop. 1.6], Renyi curve a r^2/2
    [Mironov17, Prop. 7], profile [BalleW18, Thm 8]. No pure epsilon.
    """
    return event("gaussian", sensitivity=sensitivity, scale=scale)


def discrete_gaussian(*, sensitivity: float, scale: float) -> Event:
    """Record integer noise of mass e^(-k^2/(2 scale^2)) on an integer statistic of this l2 sensitivity.

    rho = (sensitivity/scale)^2/2, and the Renyi curve a rho [CanonneKS20, Prop. 5]. No mu: its delta exceeds that of
    normal noise.
    """
    return event("discrete-gaussian", sensitivity=sensitivity, scale=scale)


def rounded_gaussian(*, sensitivity: float, scale: float) -> Event:
    """Record integer noise round(N(0, scale^2)) on an integer statistic of this l2 sensitivity.

    The rounded sum of an integer and a real number is the sum with the rounded number: post-processing of the Gaussian
    mechanism, so every price is that of `gaussian`, alone and composed. With r = sensitivity/scale: mu = r
    [DongRS22, Thm 2.7], rho = r^2/2, Renyi curve a r^2/2, profile [BalleW18, Thm 8]. No pure epsilon.
    """
    return event("rounded-gaussian", sensitivity=sensitivity, scale=scale)


def discovery_laplace(*, scale: float, margin: int, values: int) -> Event:
    """Record which values occur, with their counts: truncated Laplace noise on each count, and a threshold.

    Pure epsilon values/scale, except with its own delta: a value that one unit alone holds is shown with a small
    probability, one that nobody holds never [DesfontainesVGM22]. The profile is exact
    (`vestry.privacy.discovery_cost`).

    Parameters
    ----------
    scale
        The noise's scale: mass e^(-|k|/scale) on the integers up to the margin in size.
    margin
        The noise that shows a value which one unit alone holds.
    values
        How many counts one unit moves, each by 1 at most.
    """
    return event("discovery-laplace", scale=scale, margin=margin, values=values)


def discovery_rounded_gaussian(*, scale: float, margin: int, values: int) -> Event:
    """Record the same by rounded normal noise, which is not truncated.

    The prices of `gaussian` with mu = sqrt(values)/scale [DongRS22, Cor. 3.3], except with its own delta
    1 - (1 - Phi(-(margin - 1/2)/scale))^values (`vestry.privacy.discovery_cost`). So it is refused in mu.

    Parameters
    ----------
    scale
        The noise's scale: the standard deviation of the normal number before it is rounded.
    margin
        The noise that shows a value which one unit alone holds.
    values
        How many counts one unit moves, each by 1 at most.
    """
    return event("discovery-rounded-gaussian", scale=scale, margin=margin, values=values)


def discovery_gaussian(*, scale: float, margin: int, values: int) -> Event:
    """Record the same by Gaussian integer noise, which is not truncated.

    rho = values/(2 scale^2), and the Renyi curve a rho [CanonneKS20, Prop. 5], except with its own delta
    [BunS16, Lemma 8.2]. No pure epsilon and no mu. Parameters as for `discovery_laplace`.
    """
    return event("discovery-gaussian", scale=scale, margin=margin, values=values)


# --- what is known by its guarantee alone ---------------------------------------------------------------------------


def pure(*, epsilon: float) -> Event:
    """Record any epsilon-DP mechanism: the price of randomised response, the worst of them.

    rho = epsilon^2/2, Renyi curve [BunS16, Prop. 3.3; Mironov17, Prop. 5], profile [KairouzOV15].
    """
    return event("pure", epsilon=epsilon)


def approximate(*, epsilon: float, delta: float) -> Event:
    """Record any (epsilon, delta)-DP mechanism: pure epsilon except with probability delta [KairouzOV15]."""
    return event("approximate", epsilon=epsilon, delta=delta)


def renyi(*, orders: Sequence[float], epsilons: Sequence[float]) -> Event:
    """Record a mechanism whose Renyi divergence is at most `epsilons[i]` at `orders[i]` [Mironov17].

    Between orders the next one above bounds it; beyond the last there is no bound.
    """
    with shown_as_given(orders=orders, epsilons=epsilons):
        return event("renyi", orders=require_list("orders", orders), epsilons=require_list("epsilons", epsilons))


def zcdp(*, rho: float) -> Event:
    """Record any rho-zCDP mechanism: the Renyi curve a rho at every order a > 1 [BunS16]."""
    return event("zcdp", rho=rho)


def gdp(*, mu: float) -> Event:
    """Record any mu-GDP mechanism: the exact profile, Renyi curve and rho of normal noise [DongRS22]."""
    return event("gdp", mu=mu)


def profile(*, profile: Callable[[float], float]) -> Event:
    """Record a mechanism by a falling function delta(epsilon), epsilon >= 0, that bounds both directions.

    Its Renyi curve is an integral of the profile. A ledger writes it down as that curve at its own orders.
    """
    return event("profile", profile=profile)


# --- draws ----------------------------------------------------------------------------------------------------------


def exponential(*, epsilon: float) -> Event:
    """Record a draw of density e^score, over any base measure, whose privacy loss spans at most epsilon.

    Pure epsilon; rho = epsilon^2/8 [CesarR21]; mu = 2 Phi^-1(1/(1 + e^(-epsilon/2))), Renyi curve and profile of a
    bounded range [DongDR20, sec. 4].
    """
    return event("exponential", epsilon=epsilon)


def conjugate_draw(
    *, betas: Iterable[tuple[float, float, float]] = (), gammas: Iterable[tuple[float, float]] = ()
) -> Event:
    """Record one draw from a conjugate posterior whose worst neighbours are among these pairs.

    (a, b, s) stands for Beta(a, b) against Beta(a + s, b - s), and (a, s) for Gamma(a) against Gamma(a + s) at one
    rate, both ways round. Renyi curve [GeumlekSC17, sec. 3], below an order lambda* only; the profile is exact.
    """
    with shown_as_given(betas=betas, gammas=gammas):
        return event("conjugate-draw", betas=require_groups("betas", betas), gammas=require_groups("gammas", gammas))


def rate_draw(*, shape: float, ratio: float) -> Event:
    """Record one draw from a gamma posterior whose worst neighbours have rates of this ratio above 1.

    Renyi curve [GeumlekSC17, sec. 3], below the order 1 + 1/(ratio - 1) only; the profile is exact.
    """
    return event("rate-draw", shape=shape, ratio=ratio)


def gibbs(*, likelihood_power: float, sensitivity: float, strong_convexity: float) -> Event:
    """Record one exact draw from a Gibbs posterior: mu = likelihood_power sensitivity/sqrt(strong_convexity).

    The sensitivity is that of the sum of gradients; the potential is strongly convex for every dataset
    [GopiLL22, Thm 4].
    """
    return event("gibbs", likelihood_power=likelihood_power, sensitivity=sensitivity, strong_convexity=strong_convexity)


def langevin(
    *,
    sensitivity: float,
    strong_convexity: float,
    smoothness: float,
    step_sizes: Sequence[float],
    steps: Sequence[int],
    slacks: Sequence[float],
    start: float = 0.0,
) -> Event:
    """Record the last state of a Langevin chain with phases of several step sizes, each below 2/smoothness.

    mu as in `vestry.privacy.gibbs_cost.chain_mu` [BokSA24, Thm 4.1]. `slacks` bounds, for each phase, how far a
    computed step is from the exact one; `start` is how far apart two neighbouring chains may begin.
    """
    with shown_as_given(step_sizes=step_sizes, steps=steps, slacks=slacks):
        return event(
            "langevin",
            sensitivity=sensitivity,
            strong_convexity=strong_convexity,
            smoothness=smoothness,
            step_sizes=require_list("step_sizes", step_sizes),
            steps=require_list("steps", steps),
            slacks=require_list("slacks", slacks),
            start=start,
        )


# --- minima ---------------------------------------------------------------------------------------------------------


def objective(
    *,
    lipschitz: float,
    smoothness: float,
    regularisation: float,
    scale: float,
    records: int = 1,
    analysis: Literal["general", "one-sided", "one-sided-replace", "published", "lecture"] = "general",
) -> Event:
    """Record the minimum of a sum of convex losses, each of one linear predictor, plus a normal linear term.

    The formulas stand in `vestry.privacy.objective_cost`. A change of several `records` has a profile alone.

    Parameters
    ----------
    lipschitz, smoothness
        Bounds on one loss's gradient and on its curvature.
    regularisation, scale
        The factor of |theta|^2/2 in the objective, and the standard deviation of the linear term.
    records
        How many records neighbours differ by.
    analysis
        `general`: any convex loss [RedbergKW23, Thm 1 and 2], with the exact bound of the Jacobians. `one-sided` and
        `one-sided-replace`: each record's derivative keeps its sign, under add-remove and under replace. `published`:
        the theorem as it is printed. `lecture`: a bound without a Renyi curve, for comparison.
    """
    return event(
        "objective" if analysis == "general" else f"objective-{analysis}",
        lipschitz=lipschitz,
        smoothness=smoothness,
        regularisation=regularisation,
        scale=scale,
        records=records,
    )
