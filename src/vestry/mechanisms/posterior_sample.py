"""Draws from a posterior whose own spread is the noise: direct, diffused and concentrated [GeumlekSC17, Alg. 1-3].

The published algorithms are corrected in one place: with a likelihood power r the posterior ranges over counts r n, not
n (Corollary 2 prints n, which under-reports D_2 by 16.5 % at r = 0.1).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from vestry.errors import DeclarationMismatch, GuaranteeUnreachable, InvalidParameter
from vestry.ledger import OpenCharge
from vestry.mechanisms.statistic_family import StatisticFamily
from vestry.noise import NoiseSource
from vestry.privacy import accountant
from vestry.privacy import profile as profiles
from vestry.privacy.accountant import largest_parameter
from vestry.privacy.event import Event
from vestry.privacy.guarantee import ApproxDP, Guarantee, PureDP, RenyiDP, decimal
from vestry.privacy.neighbours import Adjacency
from vestry.privacy.pld import PLDAccountant
from vestry.privacy.pricing import event_of_guarantee
from vestry.releases import Draws
from vestry.schema.private import Private, reveal

if TYPE_CHECKING:
    from vestry.noise.bits import BitSource

THEOREM = (
    "A draw from a conjugate posterior: the divergence of two members of the family, at its supremum over the"
    " neighbouring posteriors that the declaration allows [GeumlekSC17, sec. 3], with counts scaled by the likelihood"
    " power; (epsilon, delta) by the exact hockey-stick divergence of the same pairs."
)


@dataclass(frozen=True)
class PosteriorSample:
    """One or more draws from eta0/prior_scale + likelihood_power * sum(S, 1).

    `unit` is what one unit of the private sums stands for, of a statistical query.

    Privacy
    -------
    The event `conjugate-draw` (or Gaussian privacy, for the normal mean), once for each draw: finite Renyi divergence
    below lambda* only, and no pure epsilon. Draws are exact and rounded to a declared grid: see `exact_draws` of the
    family.
    """

    name: str
    family: StatisticFamily
    prior: Any
    adjacency: Adjacency
    likelihood_power: float
    prior_scale: float
    draws: int
    guarantee: Guarantee
    unit: float = 1.0

    theorem = THEOREM

    @property
    def parameter(self) -> str:
        """What was calibrated."""
        return "prior_scale" if self.name == "concentrated" else "likelihood_power"

    @property
    def value(self) -> float:
        """Its value."""
        return self.prior_scale if self.name == "concentrated" else self.likelihood_power

    @property
    def event(self) -> Event:
        """What runs."""
        scales = {"likelihood_power": self.likelihood_power, "prior_scale": self.prior_scale}
        single = self.family.worst_draw(self.prior, self.adjacency, **scales)
        return single.times(self.draws).under(self.adjacency.neighbours)

    @property
    def charge(self) -> Event:
        """What the ledger is charged: the (epsilon, delta) that was asked for, where the event has few Renyi orders.

        A ledger counts in Renyi orders that were fixed when it was made, and beyond lambda* a draw has no price.
        """
        if self.event.kind == "gdp" or not isinstance(self.guarantee, ApproxDP):
            return self.event
        return event_of_guarantee(self.guarantee)

    def release(self, private: Private, opened: OpenCharge, noise: NoiseSource) -> tuple[Draws, ...]:
        """Update the prior by each group's private statistics (integer sums, then the count) and draw."""
        from vestry.noise.bits import Bits

        opened.take()
        bits = Bits(noise)
        return tuple(self._drawn(group, bits) for group in grouped(reveal(private), self.adjacency))

    def _drawn(self, statistics: Sequence[int], bits: BitSource) -> Draws:
        *units, count = statistics
        sums = [Fraction(self.unit) * each for each in self.family.from_units(self.adjacency, units, count)]
        scales = {"likelihood_power": self.likelihood_power, "prior_scale": self.prior_scale}
        parameters = self.family.exact_parameters(self.prior, sums, count, **scales)
        return self.family.exact_draws(bits, parameters, self.draws)


def grouped(values: Sequence[int], adjacency: Adjacency) -> list[Sequence[int]]:
    """Cut the statistics into those of each group."""
    size, rest = divmod(len(values), adjacency.groups)
    if rest or not size:
        raise DeclarationMismatch(
            "number of statistics", str(len(values)), f"a multiple of {adjacency.groups}", "one a group"
        )
    return [values[start : start + size] for start in range(0, len(values), size)]


Meets = Callable[[Event, Guarantee], bool]


def exactly(event: Event, guarantee: Guarantee) -> bool:
    """Tell whether the draws, all bought at once, stay within the guarantee, by the tightest bound there is."""
    if accountant.meets(event, guarantee):
        return True
    if event.count == 1 or not isinstance(guarantee, ApproxDP):
        return False
    return PLDAccountant(event, interval=2e-3).delta(guarantee.epsilon) <= guarantee.delta


def through_renyi(event: Event, guarantee: Guarantee) -> bool:
    """Tell the same by way of the Renyi curve alone, as the papers do; for comparison."""
    if not isinstance(guarantee, ApproxDP):
        return accountant.meets(event, guarantee)
    curve = accountant.curve(event)
    return profiles.from_renyi(guarantee.epsilon, curve=curve) <= guarantee.delta


def direct(
    family: StatisticFamily,
    prior: Any,
    adjacency: Adjacency,
    guarantee: Guarantee,
    *,
    draws: int = 1,
    meets: Meets = exactly,
    public: PublicData | None = None,
) -> PosteriorSample:
    """Draw from the posterior itself, if that meets the guarantee; nothing is calibrated [GeumlekSC17, Alg. 1]."""
    made = _made("direct", family, prior, adjacency, guarantee, draws, public)(1.0, 1.0)
    if not meets(made.event, made.guarantee):
        raise GuaranteeUnreachable(f"{guarantee} by a direct draw", _nearest(made))
    return made


def diffused(
    family: StatisticFamily,
    prior: Any,
    adjacency: Adjacency,
    guarantee: Guarantee,
    *,
    draws: int = 1,
    meets: Meets = exactly,
    public: PublicData | None = None,
) -> PosteriorSample:
    """Find the largest likelihood power r in (0, 1] that meets the guarantee [GeumlekSC17, Alg. 2]."""
    make = _made("diffused", family, prior, adjacency, guarantee, draws, public)
    return make(_largest(lambda power: make(power, 1.0), meets), 1.0)


def concentrated(
    family: StatisticFamily,
    prior: Any,
    adjacency: Adjacency,
    guarantee: Guarantee,
    *,
    draws: int = 1,
    meets: Meets = exactly,
    public: PublicData | None = None,
) -> PosteriorSample:
    """Find the largest prior scale m in (0, 1] that meets the guarantee [GeumlekSC17, Alg. 3]."""
    make = _made("concentrated", family, prior, adjacency, guarantee, draws, public)
    return make(1.0, _largest(lambda scale: make(1.0, scale), meets))


@dataclass(frozen=True)
class PublicData:
    """Records that need no protection: they enter the prior, and are neither tempered nor scaled.

    Attributes
    ----------
    sums
        The sums of their statistics.
    count
        How many they are.
    """

    sums: tuple[float, ...]
    count: int

    def joined(self, family: StatisticFamily, prior: Any, scale: float) -> Any:
        """Return the prior that, divided by `scale`, is eta0/scale plus the public records as they are."""
        return family.update(prior, [scale * each for each in self.sums], scale * self.count)


def public_data(family: StatisticFamily, records: Sequence[Any]) -> PublicData:
    """Sum the statistics of public records."""
    statistics = [family.statistic(record) for record in records]
    if not statistics:
        raise InvalidParameter("public records", "none", "at least one", "no public data at all")
    return PublicData(tuple(float(x) for x in np.sum(statistics, axis=0)), len(statistics))


def _made(
    name: str,
    family: StatisticFamily,
    prior: Any,
    adjacency: Adjacency,
    guarantee: Guarantee,
    draws: int,
    public: PublicData | None,
) -> Callable[[float, float], PosteriorSample]:
    check_draws(draws)
    family.layout(adjacency)  # refuses an interval that doubles cannot count
    bound = guarantee.under(adjacency.neighbours)

    def make(power: float, scale: float) -> PosteriorSample:
        start = prior if public is None else public.joined(family, prior, scale)
        return PosteriorSample(name, family, start, adjacency, power, scale, draws, bound)

    return make


def check_draws(draws: object) -> None:
    """Refuse a number of draws that is none."""
    if isinstance(draws, bool) or not isinstance(draws, int) or draws < 1:
        raise InvalidParameter("draws", draws, "a whole number of at least 1", "for example draws=1")


def _largest(make: Callable[[float], PosteriorSample], meets: Meets) -> float:
    first = make(1.0)
    guarantee = first.guarantee
    if not isinstance(guarantee, (ApproxDP, RenyiDP)) and accountant.amount(first.event, guarantee) == math.inf:
        raise GuaranteeUnreachable(f"{guarantee} by a posterior draw", _nearest(first))
    tolerance = 1e-4 if first.draws > 1 and isinstance(guarantee, ApproxDP) else 0.0
    return largest_parameter(lambda x: make(x).event, guarantee, at_most=1.0, meets=meets, tolerance=tolerance)


def _nearest(made: PosteriorSample) -> str:
    """Say what this mechanism could reach instead."""
    limit = made.family.order_limit(
        made.prior, made.adjacency, likelihood_power=made.likelihood_power, prior_scale=made.prior_scale
    )
    if isinstance(made.guarantee, RenyiDP) and made.guarantee.order >= limit:
        order, top = decimal(made.guarantee.order), decimal(float(f"{limit:.6g}"))
        return (
            f"order {order} is beyond lambda* = {top} of {_shown(made.prior)}; use the diffused posterior,"
            f" or an order below {top}"
        )
    if isinstance(made.guarantee, PureDP):
        return "a posterior has no pure epsilon unless it is truncated; use ops, or ask for epsilon and delta"
    try:
        found = accountant.price(made.event, made.guarantee)
    except ValueError:
        return "ask for epsilon and delta, or for a Renyi order below lambda*"
    return f"it keeps {found}; use the diffused posterior, or ask for that"


def _shown(prior: Any) -> str:
    numbers = np.ravel(np.concatenate([np.ravel(part) for part in astuple(prior)]))
    return f"{type(prior).__name__}({', '.join(decimal(float(x)) for x in numbers)})"
