"""The mean of one column, or of several, whose spread is declared."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import vestry.families as families
from vestry.errors import InvalidParameter
from vestry.mechanisms.additive import Layout
from vestry.models.model import by_words, groups_of, interval_of
from vestry.statistics.domain import Domain, Interval
from vestry.statistics.tally import One, Sum, Tally


@dataclass(frozen=True)
class NormalMean:
    """A normal likelihood of known variance with a normal prior of its mean; values are clipped to their interval.

    Attributes
    ----------
    column
        A column with an interval, or several with the same one: then a mean for each.
    variance
        The variance of one record, as declared.
    prior
        The mean and the variance of the prior.
    by
        A column of levels: one mean for each.
    """

    column: str | tuple[str, ...]
    variance: float
    prior: tuple[float, ...]
    by: str | None = None

    name: ClassVar[str] = "normal-mean"

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns, and `by`."""
        return self._own if self.by is None else (self.by, *self._own)

    def family(self, domains: Mapping[str, Domain]) -> families.NormalMean:
        """Return the normal family with the columns' interval."""
        interval = self._interval(domains)
        groups_of(domains, self.by)
        for column in self._own[1:]:
            other = interval_of(domains, column)
            if (other.low, other.high) != (interval.low, interval.high):
                raise InvalidParameter(
                    "the intervals of several columns",
                    f"{[other.low, other.high]} of {column}",
                    f"the same, {[interval.low, interval.high]}",
                    "one interval, or a release for each column",
                )
        return families.NormalMean(self.variance, interval.low, interval.high, len(self._own))

    def numbers(self, domains: Mapping[str, Domain]) -> tuple[float, ...]:
        """Return the prior's mean and variance."""
        return tuple(float(x) for x in self.prior)

    def noisy(self, domains: Mapping[str, Domain], layout: Layout) -> Tally:
        """Collect the sums from the middle of the interval; and the count in fractions, where it is private."""
        sums = self._sums(domains, layout)
        private = len(layout.names) > len(sums)
        return Tally(self._keys, (*sums, One(round(1 / layout.count_grid))) if private else sums)

    def drawn(self, domains: Mapping[str, Domain], layout: Layout) -> Tally:
        """Collect the sums and the count."""
        return Tally(self._keys, (*self._sums(domains, layout), One()))

    def labels(self, domains: Mapping[str, Domain]) -> tuple[str, ...]:
        """Return the columns, if there are several."""
        return self._own if len(self._own) > 1 else ()

    def question(self) -> str:
        """Say what is asked."""
        return f"The mean of {' and '.join(self._own)}{by_words(self.by)}"

    def to_dict(self) -> dict[str, Any]:
        """Return the declaration."""
        column = self.column if isinstance(self.column, str) else list(self.column)
        return {"model": self.name, "column": column, "variance": self.variance, "by": self.by,
                "prior": list(self.prior)}  # fmt: skip

    @property
    def _own(self) -> tuple[str, ...]:
        return (self.column,) if isinstance(self.column, str) else tuple(self.column)

    @property
    def _keys(self) -> tuple[str, ...]:
        return () if self.by is None else (self.by,)

    def _interval(self, domains: Mapping[str, Domain]) -> Interval:
        return interval_of(domains, self._own[0])

    def _sums(self, domains: Mapping[str, Domain], layout: Layout) -> tuple[Sum, ...]:
        interval = self._interval(domains)
        middle = (interval.low + interval.high) / 2
        return tuple(Sum(column, middle, layout.grid) for column in self._own)
