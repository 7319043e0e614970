"""What a Markov chain over private records costs, update by update, if every state it passes through may be seen.

The span D is such that one record's log-likelihood, over all records and all parameters that may occur, lies in an
interval of width D. An update at temperature T then has a privacy loss that spans at most 2 D/T under replace, where
one record's term leaves and another's comes, and D/T under add-remove. That is a bounded range epsilon, which is
epsilon-DP and composes as epsilon^2/8 in zCDP [CesarR21]: the updates of a chain add up by `compose` and `times`, and
the accountant prices them. Its `pure` is the sum of epsilons, the paper's bound [FouldsGWC16, sec. 4.1]; its `rho` is
far smaller for many updates.

Every state of the chain is public here, so that a chain may be stopped, thinned or averaged at no cost. A chain that
pays for its last state alone is covered by no theorem, unless its distance from the target is bounded.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction

from vestry.errors import GuaranteeUnreachable, InvalidParameter
from vestry.numerics import outward
from vestry.privacy.event import Event
from vestry.privacy.guarantee import ApproxDP, PureDP
from vestry.privacy.neighbours import Neighbours
from vestry.privacy.pricing import event
from vestry.validation import require_number


def categorical_span(levels: Sequence[int], least: Sequence[float]) -> float:
    """Return D for discrete features, independent given the state, whose probabilities are all at least `least`.

    D = sum_d log((1 - (K_d - 1) a_d)/a_d), K_d the levels and a_d the least probability of feature d.
    """
    if len(levels) != len(least) or not levels:
        raise InvalidParameter("least", least, "one number per feature", "for example 1/(10 levels) each")
    for categories, a in zip(levels, least, strict=True):
        if categories < 2 or not 0 < a < 1 / categories:
            allowed = "above 0 and below 1/levels, for at least 2 levels"
            raise InvalidParameter("the least probability", a, allowed, f"for example {0.1 / max(categories, 2):g}")
    return outward(sum(math.log((1 - (k - 1) * a) / a) for k, a in zip(levels, least, strict=True)))


def temperature_for(span: float, *, epsilon: float, neighbours: Neighbours | str) -> float:
    """Return the temperature of an update that costs epsilon: 2 D/epsilon (replace) or D/epsilon, at least 1.

    [FouldsGWC16, eq. 19]. Where it is 1, the update costs less than epsilon: `gibbs_update` tells how much.
    """
    _positive("epsilon", epsilon)
    return max(1.0, outward(outward(_factor(neighbours) * _positive("span", span) / epsilon)))


def gibbs_update(span: float, *, temperature: float, neighbours: Neighbours | str) -> Event:
    """Record one Gibbs update: an exponential mechanism over the values of one variable, the others held.

    Privacy
    -------
    Bounded range 2 D/T under replace, D/T under add-remove [FouldsGWC16, sec. 4.1]. The variable may be a whole block,
    such as all emission tables, drawn at once and exactly. Whether the prior is tempered too makes no difference.
    """
    return _exponential(_factor(neighbours), span, temperature, neighbours)


def moved_update(span: float, *, temperature: float) -> Event:
    """Record the updates of two latents between which a replaced record may move: a range of D/T at each.

    Privacy
    -------
    Replace: what one latent loses, as by a removal, and what another gains, as by an addition. Together 2 D/T.
    """
    return _exponential(1, span, temperature, Neighbours.REPLACE).times(2)


def barker_update(span: float, *, temperature: float, neighbours: Neighbours | str) -> Event:
    """Record one step of a symmetric proposal, accepted with probability p(new)^(1/T)/(p(new)^(1/T) + p(old)^(1/T)).

    Privacy
    -------
    Bounded range 2 D/T under replace, D/T under add-remove, and no delta. Given the proposal, which does not depend on
    the records, this is an exponential mechanism over two points; that the proposal is not told can only hide more.
    """
    return _exponential(_factor(neighbours), span, temperature, neighbours)


def metropolis_update(
    span: float, *, temperature: float, neighbours: Neighbours | str, rejection: float | None = None
) -> Event:
    """Record one Metropolis step, of a symmetric proposal, whose chance of rejection is below a certified bound.

    Privacy
    -------
    (epsilon, delta), epsilon 2 D/T under replace and D/T under add-remove, delta the bound on rejection, which must
    hold for *every* dataset and every current state [FouldsGWC16, Thm C.1]. Without it there is no guarantee: a step
    uphill is never rejected, so a rejection may be possible with one dataset and impossible with its neighbour.
    Barker's step needs no such bound.
    """
    if rejection is None:
        raise GuaranteeUnreachable(
            "a private Metropolis step without a bound on its rejections",
            "certify rejection=... for every dataset and state, or use barker_update, which needs none",
        )
    delta = require_number("rejection", rejection, "for example rejection=1e-6", above=0, below=1)
    epsilon = _range(_factor(neighbours), span, temperature)
    return event("approximate", epsilon=epsilon, delta=delta, neighbours=neighbours)


class Collapsed(Enum):
    """What is integrated out of the updates of latent variables."""

    NOTHING = "nothing"
    LATENT_PRIOR = "the latents' prior, such as a transition matrix: it depends on the latents alone"
    LIKELIHOOD = "parameters of the likelihood, such as emission tables: they depend on every record"


def shared_scan(update: Event, *, updates: int) -> Event:
    """Record updates each of which any record may move: they compose one by one, in any order, random or not."""
    return update.times(updates)


def owned_scan(update: Event, *, collapsed: Collapsed, visits: int = 1) -> Event:
    """Record a pass over latents each of which belongs to one record, or to a cell of records.

    One record's change then moves the updates of its own latent only: parallel composition, however many latents there
    are. `visits` is how often one latent may be updated: 1 for a sequence scan, and for a random scan that takes no
    latent twice; as many as there are updates for a random scan with replacement.

    Refused where parameters of the likelihood are integrated out: then every latent's update depends on every record (a
    collapsed scan charged 1 lost 4.5). Integrating out the latents' own prior is fine, for it depends on latents
    alone, which are public.

    A random scan over Q of N latents is *not* cheaper by Q/N, as [FouldsGWC16, sec. 4.1] has it (4 D Q/N): a latent
    that changed shows that it was taken, and then its update's whole epsilon is lost. Chance scales delta, not epsilon.
    """
    if not isinstance(collapsed, Collapsed) or collapsed is Collapsed.LIKELIHOOD:
        raise InvalidParameter(
            "collapsed",
            collapsed,
            "Collapsed.NOTHING or Collapsed.LATENT_PRIOR for parallel composition",
            "shared_scan, which charges every update, or draw the parameters instead of integrating them out",
        )
    return update.times(visits)


def near(guarantee: PureDP | ApproxDP, *, distance: float) -> ApproxDP:
    """Turn the guarantee of an exact draw into one of a draw that is within a total-variation distance of it.

    (epsilon, delta + (1 + e^epsilon) d) if d bounds sup_E |P(E) - P'(E)| for every dataset [FouldsGWC16, Prop. 3].
    """
    distance = require_number("distance", distance, "for example distance=1e-9", above=0, below=1)
    own = guarantee.delta if isinstance(guarantee, ApproxDP) else 0.0
    delta = math.inf if guarantee.epsilon > 700 else outward(own + (1 + math.exp(guarantee.epsilon)) * distance)
    if delta >= 1:
        raise GuaranteeUnreachable(
            f"{guarantee} by a draw that is {distance:g} off", "its delta would reach 1; come nearer"
        )
    return ApproxDP(guarantee.epsilon, delta, neighbours=guarantee.neighbours)


@dataclass(frozen=True)
class Assumed:
    """A cost that rests on what no theorem covers.

    Attributes
    ----------
    event
        What is charged.
    assumptions
        What is not proved: for the ledger, which must have been made to accept it, and for the certificate.
    """

    event: Event
    assumptions: tuple[str, ...]


def converged(draw: Event, *, assume_converged: bool) -> Assumed:
    """Charge a chain as if its last state, which alone is released, were an exact draw from its target.

    Not a theorem: how far a chain is from its target depends on the private records, and that distance adds to delta
    (`near`). So it must be asked for in writing, and the certificate says so.
    """
    if assume_converged is not True:
        raise GuaranteeUnreachable(
            "the price of an exact draw for a chain's last state",
            "pay for every update, bound the distance and use near(), or write assume_converged=True",
        )
    return Assumed(draw, (UNPROVED,))


UNPROVED = (
    "The chain had converged: its last state is charged as an exact draw from its target. No bound on its distance from"
    " the target was proved; a total-variation distance d would add (1 + e^epsilon) d to delta [FouldsGWC16, Prop. 3]."
)


def _exponential(factor: int, span: float, temperature: float, neighbours: Neighbours | str) -> Event:
    return event("exponential", epsilon=_range(factor, span, temperature), neighbours=neighbours)


def _range(factor: int, span: float, temperature: float) -> float:
    exactly = factor * Fraction(_positive("span", span)) / Fraction(_positive("temperature", temperature))
    return outward(float(exactly))


def _factor(neighbours: Neighbours | str) -> int:
    return 2 if Neighbours.parse(neighbours) is Neighbours.REPLACE else 1


def _positive(name: str, value: float) -> float:
    return require_number(name, value, f"for example {name}=2.0", above=0)
