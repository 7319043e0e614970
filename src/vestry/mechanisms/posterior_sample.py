"""Draws from a posterior whose own spread is the noise: direct, diffused and concentrated [GeumlekSC17, Alg. 1-3].

The published algorithms are corrected in one place: with a likelihood power r the posterior ranges over counts r n, not
n (Corollary 2 prints n, which under-reports D_2 by 16.5 % at r = 0.1).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, dataclass
from fractions import Fraction
from functools import partial
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
from vestry.validation import require_whole

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
        scales = {"likelihood_power": self.likelihood_power, "prior_scale": self.prior_scale}
        return draw_groups(self, private, opened, noise, scales)

    def rehearse(self, noise: NoiseSource) -> tuple[Draws, ...]:
        """Draw once from the posterior of no records: the prior."""
        scales = {"likelihood_power": self.likelihood_power, "prior_scale": self.prior_scale}
        return rehearse_draws(self, noise, scales)


def draw_groups(
    mechanism: Any,
    private: Private,
    opened: OpenCharge,
    noise: NoiseSource,
    scales: Mapping[str, float],
    truncation: float | None = None,
) -> tuple[Draws, ...]:
    """Draw from each group's posterior exactly. `opened` is the leave of the ledger, taken just before."""
    from vestry.noise.bits import Bits

    opened.take()
    bits = Bits(noise)
    groups = split_groups(reveal(private), mechanism.adjacency)
    return tuple(_draw(mechanism, group, bits, mechanism.draws, scales, truncation) for group in groups)


def rehearse_draws(
    mechanism: Any, noise: NoiseSource, scales: Mapping[str, float], truncation: float | None = None
) -> tuple[Draws, ...]:
    """Draw once from the posterior of no records, and return that draw as often as a release has draws."""
    from vestry.noise.bits import Bits

    layout = mechanism.family.layout(mechanism.adjacency)
    size = len(layout.names) + (layout.count is not None)
    single = _draw(mechanism, (0,) * size, Bits(noise), 1, scales, truncation)
    several = Draws(single.values * mechanism.draws, single.grid)
    groups: int = mechanism.adjacency.groups
    return (several,) * groups


def _draw(
    mechanism: Any,
    statistics: Sequence[int],
    bits: BitSource,
    draws: int,
    scales: Mapping[str, float],
    truncation: float | None,
) -> Draws:
    """Draw from one group's posterior exactly; the last of its statistics is the count."""
    family = mechanism.family
    *units, count = statistics
    sums = [Fraction(mechanism.unit) * total for total in family.from_units(mechanism.adjacency, units, count)]
    parameters = family.exact_parameters(mechanism.prior, sums, count, **scales)
    drawn: Draws = family.exact_draws(bits, parameters, draws, truncation=truncation)
    return drawn


def split_groups(values: Sequence[int], adjacency: Adjacency) -> list[Sequence[int]]:
    """Cut the statistics into those of each group."""
    size, rest = divmod(len(values), adjacency.groups)
    if rest or not size:
        wanted = f"a multiple of {adjacency.groups}"
        raise DeclarationMismatch("number of statistics", str(len(values)), wanted, "the same number per group")
    return [values[start : start + size] for start in range(0, len(values), size)]


Meets = Callable[[Event, Guarantee], bool]


def meets_exactly(event: Event, guarantee: Guarantee) -> bool:
    """Tell whether the draws, all bought at once, stay within the guarantee, by the tightest bound there is."""
    if accountant.meets(event, guarantee):
        return True
    if event.count == 1 or not isinstance(guarantee, ApproxDP):
        return False
    return PLDAccountant(event, interval=2e-3).delta(guarantee.epsilon) <= guarantee.delta


def meets_through_renyi(event: Event, guarantee: Guarantee) -> bool:
    """Tell the same by way of the Renyi curve alone, as the papers do; for comparison."""
    if not isinstance(guarantee, ApproxDP):
        return accountant.meets(event, guarantee)
    curve = accountant.curve(event)
    return profiles.from_renyi(guarantee.epsilon, curve=curve) <= guarantee.delta


def calibrate_draws(
    name: str,
    family: StatisticFamily,
    prior: Any,
    adjacency: Adjacency,
    guarantee: Guarantee,
    *,
    draws: int = 1,
    meets: Meets = meets_exactly,
    public: PublicData | None = None,
) -> PosteriorSample:
    """Return draws from a posterior that meet the guarantee, or refuse with the nearest that they could meet.

    `direct` is the posterior itself, if that meets the guarantee: nothing is calibrated [GeumlekSC17, Alg. 1].
    `diffused` has the largest likelihood power r in (0, 1] that meets it [GeumlekSC17, Alg. 2].
    `concentrated` has the largest prior scale m in (0, 1] that meets it [GeumlekSC17, Alg. 3].
    """
    require_whole("draws", draws)
    family.layout(adjacency)  # refuses an interval that doubles cannot count
    bound = guarantee.under(adjacency.neighbours)

    def sample(power: float, scale: float) -> PosteriorSample:
        start = prior if public is None else public.joined(family, prior, scale)
        return PosteriorSample(name, family, start, adjacency, power, scale, draws, bound)

    if name == "diffused":
        return sample(_largest(lambda power: sample(power, 1.0), meets), 1.0)
    if name == "concentrated":
        return sample(1.0, _largest(lambda scale: sample(1.0, scale), meets))
    whole = sample(1.0, 1.0)
    if not meets(whole.event, bound):
        raise GuaranteeUnreachable(f"{guarantee} by a direct draw", _nearest(whole))
    return whole


direct = partial(calibrate_draws, "direct")
diffused = partial(calibrate_draws, "diffused")
concentrated = partial(calibrate_draws, "concentrated")


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


def _largest(sample: Callable[[float], PosteriorSample], meets: Meets) -> float:
    first = sample(1.0)
    guarantee = first.guarantee
    if not isinstance(guarantee, (ApproxDP, RenyiDP)) and accountant.amount(first.event, guarantee) == math.inf:
        raise GuaranteeUnreachable(f"{guarantee} by a posterior draw", _nearest(first))
    tolerance = 1e-4 if first.draws > 1 and isinstance(guarantee, ApproxDP) else 0.0
    return largest_parameter(lambda x: sample(x).event, guarantee, at_most=1.0, meets=meets, tolerance=tolerance)


def _nearest(sample: PosteriorSample) -> str:
    """Say what this mechanism could reach instead."""
    scales = {"likelihood_power": sample.likelihood_power, "prior_scale": sample.prior_scale}
    limit = sample.family.order_limit(sample.prior, sample.adjacency, **scales)
    if isinstance(sample.guarantee, RenyiDP) and sample.guarantee.order >= limit:
        order, top = decimal(sample.guarantee.order), decimal(float(f"{limit:.6g}"))
        return (
            f"order {order} is beyond lambda* = {top} of {_shown(sample.prior)}; use the diffused posterior,"
            f" or an order below {top}"
        )
    if isinstance(sample.guarantee, PureDP):
        return "a posterior has no pure epsilon unless it is truncated; use ops, or ask for epsilon and delta"
    try:
        guarantee = accountant.price(sample.event, sample.guarantee)
    except ValueError:
        return "ask for epsilon and delta, or for a Renyi order below lambda*"
    return f"it keeps {guarantee}; use the diffused posterior, or ask for that"


def _shown(prior: Any) -> str:
    numbers = np.ravel(np.concatenate([np.ravel(part) for part in astuple(prior)]))
    return f"{type(prior).__name__}({', '.join(decimal(float(x)) for x in numbers)})"
