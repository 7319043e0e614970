"""A column of numbers or dates in declared bins: how bins are declared, what is counted, and how a release is read.

A record lies in one bin of one group, so all bins together cost what one count costs (`vestry.model.counted_cells`).
Values beyond an end of the interval are clipped, so they count in the first or the last bin; a missing value is where
the column's declaration puts it, and one with its own level counts in no bin.
"""

from __future__ import annotations

import datetime
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from vestry.errors import InvalidParameter
from vestry.model.counted_cells import CountedCells
from vestry.model.histograms import NOISES, calibrate_counts, concentration
from vestry.model.request import (
    MOST_PARAMETERS,
    By,
    PreparedSums,
    Request,
    Size,
    WidthPair,
    adjacency_of,
    check_grouping,
    declaration,
    declared,
    grouping,
    groups_of,
)
from vestry.posterior.discrete_noise import noise_of
from vestry.posterior.joined_noise import joined, summed
from vestry.posterior.noisy_data import MULTINOMIAL, NoisyData, noisy_data, statistics_of
from vestry.releases import NoisyStatistics, Release
from vestry.schema.domain import LEVEL, Bins, Domain, Interval, underlying
from vestry.schema.table_schema import TableSchema
from vestry.tables.bin_posterior import BinPosterior
from vestry.tables.polya_tree import polya_tree
from vestry.validation import require_whole

_EXAMPLE = "bins = [0, 18, 40, 65, 120], or bins = 20 of equal width"
_MOST_BINS = 1000
# Digits of the edges of bins of equal width.
_DIGITS = 12


def bins_of(domains: Mapping[str, Domain], column: str, bins: Any) -> Bins:
    """Return the bins of a column: those of the release, or those that are declared of the column."""
    domain = declared(domains, column)
    interval = underlying(domain)
    if not isinstance(interval, Interval):
        instead = f"{column} = {{ interval = [0, 60] }}"
        raise InvalidParameter(f"the column {column}", "levels", "an interval of numbers or dates", instead)
    if bins is None:
        if isinstance(domain, Bins):
            return domain
        raise InvalidParameter("bins", None, "given here, or declared of the column", _EXAMPLE)
    missing = LEVEL if domain.missing == LEVEL else None
    if isinstance(bins, tuple):
        return interval.bins(*bins, missing=missing)
    number = require_whole("bins", bins, _EXAMPLE, least=2, most=_MOST_BINS)
    return interval.bins(*_even_edges(interval, number), missing=missing)


def _even_edges(interval: Interval, bins: int) -> list[Any]:
    """Return the edges of bins of equal width; of dates, to a day."""
    low, high, since = interval.low, interval.high, interval.since
    inner = [low + (high - low) * place / bins for place in range(1, bins)]
    if since is not None:
        days = [low, *map(round, inner), high]
        return [since + datetime.timedelta(days=int(day)) for day in days]
    return [low, *(float(f"{edge:.{_DIGITS}g}") for edge in inner), high]


def plain_edges(bins: Any) -> Any:
    """Return edges as a tuple, dates as text; what is not a list as it is."""
    if not isinstance(bins, list | tuple):
        return bins
    return tuple(each.isoformat() if isinstance(each, datetime.date) else each for each in bins)


class BinnedModel(ABC):
    """What models of a column in bins have in common.

    Attributes
    ----------
    column, by, bins, prior
        As a study file has them: a column, the groups, the bins, and the concentration of the Polya tree prior.
    """

    column: str
    by: By
    bins: Any
    prior: float | None
    name: ClassVar[str]
    column_keys: ClassVar[tuple[str, ...]] = ("column", "by")
    mechanisms: ClassVar[tuple[str, ...]] = NOISES

    def __post_init__(self) -> None:
        object.__setattr__(self, "bins", plain_edges(self.bins))

    @abstractmethod
    def described(self) -> dict[str, Any]:
        """Return what a release says beside the bins."""

    @abstractmethod
    def labels(self, bins: Bins) -> tuple[str, ...]:
        """Return what each parameter is called."""

    @abstractmethod
    def forecast(self, prepared: Any, schema: TableSchema, n: int, rng: np.random.Generator) -> WidthPair:
        """Return the expected 90 % width of a parameter, and that without noise."""

    @abstractmethod
    def question(self) -> str:
        """Say in words what is asked."""

    @property
    def columns(self) -> tuple[str, ...]:
        """Every column that is read."""
        return (*grouping(self.by), self.column)

    def check(self, domains: Mapping[str, Domain]) -> None:
        """Refuse a column, bins, groups and a prior that do not fit."""
        check_grouping(self.by)
        if self.column in grouping(self.by):
            raise InvalidParameter("by", self.column, "another column than the one that is asked about", 'by = "ward"')
        groups_of(domains, self.by)
        bins_of(domains, self.column, self.bins)
        if self.prior is not None:
            concentration(self.prior)

    def prepare(self, request: Request, schema: TableSchema, count: int | None) -> PreparedSums:
        """Calibrate from declarations and, where it is public, the number of records."""
        self.check(schema.domains)
        bins = bins_of(schema.domains, self.column, self.bins)
        own_level = bins.missing == LEVEL
        adjacency, counts = adjacency_of(schema, self, None if own_level else count), CountedCells(self.columns)
        mechanism = calibrate_counts(
            request.mechanism, counts.layout(adjacency, bins.names), adjacency, request.guarantee
        )
        read = {self.column: bins}
        counts.query.check({**schema.domains, **read})
        since = bins.interval.since
        described = {
            "name": self.name,
            "column": self.column,
            "edges": list(bins.edges),
            "since": None if since is None else since.isoformat(),
            "missing": own_level,
            **self.described(),
        }
        numbers = () if self.prior is None else (concentration(self.prior),)
        groups = groups_of(schema.domains, self.by)
        return PreparedSums(self, described, numbers, mechanism, counts.query, groups, self.labels(bins), declared=read)

    def size(self, domains: Mapping[str, Domain]) -> Size:
        """Return how many bins there are in all groups."""
        number = len(groups_of(domains, self.by)) * len(bins_of(domains, self.column, self.bins).names)
        return Size(number, MOST_PARAMETERS, "groups x bins")

    def words(self) -> str:
        """Say of what and by what."""
        by = grouping(self.by)
        return self.column + (f", by {' and '.join(by)}" if by else "")

    def to_dict(self) -> dict[str, Any]:
        """Return the declaration, as a study file writes it."""
        return declaration(self.name, vars(self))


@dataclass(frozen=True, eq=False)
class BinCounts:
    """How noisy counts of bins are read.

    Attributes
    ----------
    column, edges
        The column, and the edges of its bins; of dates, days after `since`.
    since
        The low end of dates; None for numbers.
    own_level
        Whether the last count is of missing values, which is not looked at.
    alpha
        The prior's concentration; None if it is unknown.
    """

    column: str
    edges: tuple[float, ...]
    since: str | None
    own_level: bool
    alpha: float | None

    @property
    def size(self) -> int:
        """How many bins there are."""
        return len(self.edges) - 1

    @property
    def unit(self) -> str:
        """In which units values are."""
        return self.column if self.since is None else f"days after {self.since}"

    def _select_bins(self, statistics: NoisyStatistics) -> NoisyStatistics:
        """Return the noisy counts of the bins."""
        wanted = self.size + self.own_level
        if len(statistics.values) != wanted:
            given = len(statistics.values)
            raise InvalidParameter("the number of noisy statistics", given, str(wanted), "the release's own")
        return replace(statistics, names=statistics.names[: self.size], values=statistics.values[: self.size])

    def noise_aware(self, statistics: NoisyStatistics) -> BinPosterior:
        """Return the probabilities of the bins, the noise summed out."""
        counts = self._select_bins(statistics)
        return self._read(counts, noise_of(counts))

    def plug_in(self, statistics: NoisyStatistics) -> BinPosterior:
        """Return the posterior that takes the noisy counts, or 0 where they are below, as exact."""
        return self._read(replace(self._select_bins(statistics), count=None), None)

    def combined(self, contents: Sequence[NoisyStatistics], *, same_people: bool) -> BinPosterior:
        """Return the probabilities of the bins from several releases."""
        together = (joined if same_people else summed)([self._select_bins(each) for each in contents])
        return self._read(together, noise_of(together))

    def _read(self, counts: NoisyStatistics, noise: Any) -> BinPosterior:
        values = np.array(counts.values, dtype=float)
        return BinPosterior(np.array(self.edges), polya_tree(values, noise, count=counts.count, alpha=self.alpha))

    def before(self) -> BinPosterior:
        """Return the prior: the posterior of no records at all."""
        wanted = self.size + self.own_level
        return self.plug_in(NoisyStatistics(("",) * wanted, (0,) * wanted, "discrete-laplace", 1.0))

    def noisy_data(self, release: Release) -> NoisyData:
        """Return the counts of the bins, as data for any model."""
        contents = {group: self._select_bins(each) for group, each in statistics_of(release).items()}
        return noisy_data(replace(release, contents=contents), MULTINOMIAL)


def read_bins(described: Mapping[str, Any], prior: tuple[float, ...]) -> BinCounts:
    """Read what a release says of its bins, with one concentration or none."""
    if len(prior) > 1:
        raise InvalidParameter("the prior of bins", prior, "one number, or none", "prior=(0.5,)")
    alpha = concentration(prior[0]) if prior else None
    edges = tuple(float(each) for each in described["edges"])
    return BinCounts(str(described["column"]), edges, described["since"], bool(described["missing"]), alpha)
