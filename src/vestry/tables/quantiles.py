"""The median and other quantiles of numbers or dates, from noisy counts of declared bins, as a model."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from vestry.errors import InvalidParameter
from vestry.model.request import By, WidthPair
from vestry.numerics import Array
from vestry.posterior.noisy_data import NoisyData
from vestry.posterior.reader import Reader, edge_method
from vestry.releases import NoisyStatistics, Release
from vestry.schema.domain import Bins, Domain
from vestry.schema.table_schema import TableSchema
from vestry.tables.bin_forecast import quantile_widths
from vestry.tables.bin_posterior import BinPosterior, QuantilePosterior
from vestry.tables.binned_column import BinCounts, BinnedModel, read_bins
from vestry.validation import require_number

MEDIAN = (0.5,)
# The interval that is written as dates.
_WRITTEN = 0.9
# A plan says so where the bins are more than this part of an interval.
_COARSE = 0.5


@dataclass(frozen=True, eq=False)
class QuantileReader(Reader):
    """How a release of quantiles is read."""

    bins: BinCounts
    quantiles: tuple[float, ...]

    parameter = "quantile"
    has_bins: ClassVar[bool] = True

    @property
    def dimension(self) -> int:
        """How many quantiles there are."""
        return len(self.quantiles)

    @property
    def parameters(self) -> tuple[str, ...]:
        """What each is called."""
        return tuple("median" if q == MEDIAN[0] else f"quantile[{q:g}]" for q in self.quantiles)

    @property
    def note(self) -> str:
        """Say what an interval takes in, and in which units it is."""
        return (
            f"Quantiles are in units of {self.bins.unit}, after values beyond the ends were clipped. Intervals reach"
            " from edge to edge of bins, because the counts do not tell where in its bin a quantile lies; means take"
            " the values of a bin as evenly spread over it."
        )

    def noise_aware(self, statistics: NoisyStatistics) -> QuantilePosterior:
        """Return the quantiles, the noise summed out."""
        return QuantilePosterior(self.bins.noise_aware(statistics), self.quantiles)

    def plug_in(self, statistics: NoisyStatistics) -> QuantilePosterior:
        """Return the posterior that takes the noisy counts as exact."""
        return QuantilePosterior(self.bins.plug_in(statistics), self.quantiles)

    def combined(self, contents: Sequence[NoisyStatistics], *, same_people: bool) -> QuantilePosterior:
        """Return the quantiles from several releases."""
        return QuantilePosterior(self.bins.combined(contents, same_people=same_people), self.quantiles)

    def noisy_data(self, release: Release) -> NoisyData:
        """Return the counts of the bins."""
        return self.bins.noisy_data(release)

    def before(self) -> QuantilePosterior:
        """Return the prior."""
        return QuantilePosterior(self.bins.before(), self.quantiles)

    def predict(self, theta: Array, size: int, rng: np.random.Generator) -> Array:
        """Refuse: a quantile says little of new records."""
        raise InvalidParameter("predict", "quantiles", "asked of a model of records", 'model = "histogram"')

    def interval_method(self, label: str, *, several_rows: bool) -> str:
        """Say that intervals reach to the edges of bins, and so hold the truth more often than they say."""
        return edge_method(label, several_rows=several_rows)

    def remark(self, distribution: QuantilePosterior, index: int) -> str:
        """Write an interval of days as dates; nothing for numbers."""
        if self.bins.since is None:
            return ""
        first = datetime.date.fromisoformat(self.bins.since)
        low, high = distribution.marginal(index).interval(_WRITTEN)
        days = [(first + datetime.timedelta(days=each)).isoformat() for each in (low, high)]
        return f"{_WRITTEN:.0%}: {' to '.join(days)}"

    def outer(self, draws: Array) -> tuple[Array, Array]:
        """Return the edges of the bin of each draw."""
        edges = np.array(self.bins.edges)
        at = np.clip(np.searchsorted(edges, draws, side="right") - 1, 0, self.bins.size - 1)
        return edges[at], edges[at + 1]

    def binned(self, distribution: QuantilePosterior) -> BinPosterior:
        """Return the probabilities of the bins."""
        return distribution.bins


def quantile_reader(described: Mapping[str, Any], prior: tuple[float, ...]) -> QuantileReader:
    """Read what a release says of itself."""
    return QuantileReader(read_bins(described, prior), tuple(float(q) for q in described["quantiles"]))


@dataclass(frozen=True)
class Quantiles(BinnedModel):
    """The median, or other quantiles, of a column.

    Attributes
    ----------
    column
        A column of numbers or dates.
    quantiles
        Which ones, between 0 and 1; the median if omitted.
    bins
        The edges of the bins, from the low end of the column's interval to its high end; or how many of equal width. If
        omitted, those that are declared of the column. No interval is shorter than one bin.
    by
        A column of levels, or several: quantiles for each.
    prior
        The concentration of the Polya tree prior. If omitted it is unknown, and is summed out.
    """

    column: str
    quantiles: tuple[float, ...] = MEDIAN
    bins: tuple[float, ...] | int | None = None
    by: By = None
    prior: float | None = None

    name: ClassVar[str] = "quantile"
    reader: ClassVar[Any] = staticmethod(quantile_reader)

    def __post_init__(self) -> None:
        given = self.quantiles
        quantiles = tuple(given) if isinstance(given, list | tuple) else (given,)
        object.__setattr__(self, "quantiles", quantiles)
        super().__post_init__()

    def labels(self, bins: Bins | None = None) -> tuple[str, ...]:
        """Return the names of the quantiles, whatever the bins are."""
        return tuple("median" if q == MEDIAN[0] else f"{q:g}-quantile" for q in self.quantiles)

    def check(self, domains: Mapping[str, Domain]) -> None:
        """Refuse a column, quantiles, bins, groups and a prior that do not fit."""
        example = "quantiles = [0.25, 0.5, 0.75]"
        for q in self.quantiles:
            require_number("quantiles", q, example, above=0, below=1)
        if not self.quantiles or len(set(self.quantiles)) < len(self.quantiles):
            raise InvalidParameter("quantiles", list(self.quantiles), "one or more, each once", example)
        super().check(domains)

    def described(self) -> dict[str, Any]:
        """Return which quantiles are asked for."""
        return {"quantiles": [float(q) for q in self.quantiles]}

    def forecast(self, prepared: Any, schema: TableSchema, n: int, rng: np.random.Generator) -> WidthPair:
        """Return the expected 90 % width of a quantile, and that without noise; see `quantile_widths`."""
        reader = quantile_reader(prepared.described, prepared.numbers)
        return (*quantile_widths(reader.bins, reader.quantiles, prepared.mechanism, n, rng), None)

    def caution(self, prepared: Any, schema: TableSchema, n: int) -> str:
        """Say that the bins, and not the noise, make intervals wide."""
        reader = quantile_reader(prepared.described, prepared.numbers)
        width, _ = quantile_widths(reader.bins, reader.quantiles, prepared.mechanism, n, np.random.default_rng(0))
        bin_width = float(np.mean(np.diff(reader.bins.edges)))
        if bin_width <= _COARSE * width:
            return ""
        return f"bins are {bin_width:.3g} wide, and no interval is shorter; narrower bins would give shorter ones"

    def question(self) -> str:
        """Say in words what is asked."""
        named = self.labels()
        listed = named[0] if len(named) == 1 else f"{', '.join(named[:-1])} and {named[-1]}"
        return f"The {listed} of {self.words()}"
