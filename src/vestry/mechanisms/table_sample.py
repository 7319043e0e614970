"""Draws of the probability tables of several features by class: the exponential mechanism, once for all of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate, chain
from typing import TYPE_CHECKING

from vestry.ledger import OpenCharge
from vestry.mechanisms.posterior_sample import split_groups
from vestry.mechanisms.statistic_family import StatisticFamily
from vestry.mechanisms.truncated_posterior import Tempered, check_prior, lowest_temperature, span
from vestry.noise import NoiseSource
from vestry.numerics import outward
from vestry.privacy.event import Event
from vestry.privacy.guarantee import Guarantee
from vestry.privacy.neighbours import Adjacency
from vestry.privacy.pricing import event
from vestry.releases import Draws
from vestry.schema.private import Private, reveal

if TYPE_CHECKING:
    from vestry.noise.bits import BitSource


@dataclass(frozen=True)
class TableSample(Tempered):
    """Draws of all tables at once, each from its truncated and tempered Dirichlet posterior.

    Attributes
    ----------
    categorical
        Makes the family of so many levels.
    sizes
        How many levels each feature has.
    concentration
        Of every Dirichlet prior, the same for each level and class.
    adjacency
        Which neighbours are hidden; its groups are the classes. With two or more, their own table is drawn too.

    Privacy
    -------
    Given the records the tables are independent, so their log-densities add up, and so do the spans of the privacy
    loss: bounded range 2 k D/T under replace and k D/T under add-remove for each draw, with D the sum over features of
    log((1 - (K_d - 1) a)/a), and the same for the classes if there are any; k records per unit [FouldsGWC16, sec. 3.1].
    A record that changes its class costs D/T where it was and D/T where it comes to be, as one that changes inside.
    """

    categorical: Callable[[int], StatisticFamily]
    sizes: tuple[int, ...]
    concentration: float
    adjacency: Adjacency
    truncation: float
    temperature: float
    draws: int
    guarantee: Guarantee

    @property
    def event(self) -> Event:
        """What runs."""
        spans = _spans(self.categorical, self.sizes, self.adjacency, self.truncation)
        single = event("exponential", epsilon=outward(spans / self.temperature), count=self.draws)
        return single.under(self.adjacency.neighbours)

    charge = event  # the ledger is charged what runs

    def release(self, private: Private, opened: OpenCharge, noise: NoiseSource) -> tuple[Draws, ...]:
        """Draw every table, and put those of a class side by side; its own probability comes first.

        The private integers are, class by class, the number of records and the counts of each feature's levels.
        """
        from vestry.noise.bits import Bits
        from vestry.noise.grid import PROBABILITY_GRID

        opened.take()
        bits, classes = Bits(noise), split_groups(reveal(private), self.adjacency)
        tables = [[self._table(counts, bits) for counts in self._by_feature(each[1:])] for each in classes]
        if len(classes) > 1:
            shares = self._table([each[0] for each in classes], bits)
            tables = [[[(row[place],) for row in shares], *own] for place, own in enumerate(tables)]
        sides = ([tuple(chain(*row)) for row in zip(*own, strict=True)] for own in tables)
        return tuple(Draws(tuple(rows), PROBABILITY_GRID) for rows in sides)

    def rehearse(self, noise: NoiseSource) -> tuple[Draws, ...]:
        """Draw once from the largest table of no records; a release of zeros is as long as one of draws."""
        from vestry.noise.bits import Bits
        from vestry.noise.grid import PROBABILITY_GRID

        self._table((0,) * max(self.sizes), Bits(noise))
        own = (0.0,) if self.adjacency.groups > 1 else ()
        row = own + (0.0,) * sum(self.sizes)
        return (Draws((row,) * self.draws, PROBABILITY_GRID),) * self.adjacency.groups

    def _by_feature(self, counts: Sequence[int]) -> list[Sequence[int]]:
        ends = list(accumulate(self.sizes))
        return [counts[end - size : end] for end, size in zip(ends, self.sizes, strict=True)]

    def _table(self, counts: Sequence[int], bits: BitSource) -> Sequence[tuple[float, ...]]:
        """Draw the probabilities of some levels, from their counts."""
        family = self.categorical(len(counts))
        prior, sums = family.prior((self.concentration,) * len(counts)), [Fraction(each) for each in counts]
        parameters = family.exact_parameters(prior, sums, sum(counts), likelihood_power=1 / self.temperature)
        return family.exact_draws(bits, parameters, self.draws, truncation=self.truncation).values


def calibrate_tables(
    categorical: Callable[[int], StatisticFamily],
    sizes: Sequence[int],
    concentration: float,
    adjacency: Adjacency,
    guarantee: Guarantee,
    *,
    truncation: float,
    draws: int = 1,
) -> TableSample:
    """Find the lowest temperature, at least 1, at which draws of all tables together meet the guarantee."""
    check_prior((concentration,))
    bound = guarantee.under(adjacency.neighbours)
    temperature = lowest_temperature(_spans(categorical, sizes, adjacency, truncation), bound, draws)
    return TableSample(categorical, tuple(sizes), concentration, adjacency, truncation, temperature, draws, bound)


def _spans(
    categorical: Callable[[int], StatisticFamily], sizes: Sequence[int], adjacency: Adjacency, truncation: float
) -> float:
    """Return how much one unit can move the log-likelihood of all tables together, at temperature 1."""
    every = [*sizes, adjacency.groups] if adjacency.groups > 1 else sizes
    singles = [outward(span(categorical(size), adjacency, truncation)) for size in every]
    return outward(math.fsum(singles))
