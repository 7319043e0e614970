"""One posterior sample by the exponential mechanism, truncated and tempered (OPS) [FouldsGWC16, sec. 3.1].

Draws from the posterior restricted to parameters of which every component is at least `truncation`, the likelihood
raised to the power 1/temperature. There one record's log-likelihood spans
D = log((1 - (d-1) a)/a), so the privacy loss of a draw spans at most 2 k D/T under replace and k D/T under add-remove,
k records per unit: a bounded range, which is that much pure epsilon and composes as the square over 8 in zCDP.
The prior is not tempered; the guarantee holds either way.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from vestry.errors import GuaranteeUnreachable
from vestry.ledger import OpenCharge
from vestry.mechanisms.posterior_sample import draw_groups, rehearse_draws
from vestry.mechanisms.statistic_family import StatisticFamily
from vestry.noise import NoiseSource
from vestry.numerics import outward
from vestry.privacy.accountant import largest_parameter
from vestry.privacy.event import Event
from vestry.privacy.guarantee import Guarantee
from vestry.privacy.neighbours import Adjacency
from vestry.privacy.pricing import event
from vestry.releases import Draws
from vestry.schema.private import Private
from vestry.validation import require_number, require_whole

STRONGEST = 1e20
THEOREM = (
    "The exponential mechanism over a truncated posterior: the privacy loss of a draw spans at most epsilon, which is"
    " epsilon-DP [FouldsGWC16, sec. 3.1] and epsilon^2/8-zCDP [CesarR21]."
)


class Tempered:
    """What truncated draws say of themselves; `temperature` is theirs."""

    temperature: float
    name = "ops"
    parameter = "temperature"
    theorem = THEOREM

    @property
    def value(self) -> float:
        """The temperature."""
        return self.temperature


@dataclass(frozen=True)
class TruncatedSample(Tempered):
    """Draws from the truncated, tempered posterior.

    Privacy
    -------
    Bounded range 2 k D/T (replace) or k D/T (add-remove) for each draw, D = log((1 - (d-1) a)/a). By group the same:
    the ranges of the groups that a unit's records lie in add up, and a record that moves costs D/T where it was and
    where it comes to be.
    """

    family: StatisticFamily
    prior: Any
    adjacency: Adjacency
    truncation: float
    temperature: float
    draws: int
    guarantee: Guarantee
    unit: float = 1.0

    @property
    def event(self) -> Event:
        """What runs."""
        single = event_of(self.family, self.adjacency, self.truncation, self.temperature, self.draws)
        return single.under(self.adjacency.neighbours)

    charge = event  # the ledger is charged what runs

    def release(self, private: Private, opened: OpenCharge, noise: NoiseSource) -> tuple[Draws, ...]:
        """Update the prior by each group's private statistics (sums, then the count), tempered, and draw."""
        scales = {"likelihood_power": 1 / self.temperature}
        return draw_groups(self, private, opened, noise, scales, self.truncation)

    def rehearse(self, noise: NoiseSource) -> tuple[Draws, ...]:
        """Draw once from the posterior of no records: the prior."""
        scales = {"likelihood_power": 1 / self.temperature}
        return rehearse_draws(self, noise, scales, self.truncation)


def ops(
    family: StatisticFamily,
    prior: Any,
    adjacency: Adjacency,
    guarantee: Guarantee,
    *,
    truncation: float,
    draws: int = 1,
) -> TruncatedSample:
    """Find the lowest temperature, at least 1, that meets the guarantee."""
    spans = outward(span(family, adjacency, truncation))
    check_prior(prior.concentrations)
    bound = guarantee.under(adjacency.neighbours)
    temperature = lowest_temperature(spans, bound, draws)
    return TruncatedSample(family, prior, adjacency, truncation, temperature, draws, bound)


def check_prior(numbers: Sequence[float]) -> None:
    """Refuse a prior so strong that an exact draw would never end, before anything is charged."""
    require_number("a prior for ops", max(numbers), "a smaller number", most=STRONGEST)


def lowest_temperature(spans: float, guarantee: Guarantee, draws: int) -> float:
    """Return the lowest temperature, at least 1, at which draws meet the guarantee; `spans` is at temperature 1."""
    require_whole("draws", draws)
    try:
        epsilon = largest_parameter(lambda x: event("exponential", epsilon=x, count=draws), guarantee, at_most=spans)
    except GuaranteeUnreachable:
        raise GuaranteeUnreachable(f"{guarantee} by ops", "ask for a pure epsilon, or for epsilon and delta") from None
    return max(1.0, outward(outward(spans / epsilon)))


def event_of(family: StatisticFamily, adjacency: Adjacency, truncation: float, temperature: float, draws: int) -> Event:
    """Record draws at this temperature, checking truncation and temperature."""
    spans = span(family, adjacency, truncation)
    require_number("temperature", temperature, "for example temperature=2.5", least=1)
    return event("exponential", epsilon=outward(spans / temperature), count=draws)


def span(family: StatisticFamily, adjacency: Adjacency, truncation: float) -> float:
    """Return how much one unit can move the log-likelihood over the truncated parameters, at temperature 1."""
    categories = family.probabilities()
    if categories is None:
        instead = "its log-likelihood has no bound; use laplace, gaussian or diffused"
        raise GuaranteeUnreachable(f"ops for {family.name}", instead)
    require_number("truncation", truncation, f"for example {0.2 / categories:g}", above=0, below=1 / categories)
    single = math.log((1 - (categories - 1) * truncation) / truncation)
    return adjacency.changes * single
