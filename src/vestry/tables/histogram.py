"""The distribution of numbers or dates over declared bins, as a model: each bin's probability, from one charge."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from vestry.model.request import By, WidthPair
from vestry.numerics import Array
from vestry.posterior.noisy_data import NoisyData
from vestry.posterior.reader import Reader
from vestry.releases import NoisyStatistics, Release
from vestry.schema.domain import Bins
from vestry.schema.table_schema import TableSchema
from vestry.tables.bin_forecast import share_widths
from vestry.tables.bin_posterior import BinPosterior
from vestry.tables.binned_column import BinCounts, BinnedModel, read_bins

# From this probability on that a bin is empty, its 90 % interval begins at 0.
_TAIL = 0.05


@dataclass(frozen=True, eq=False)
class HistogramReader(Reader):
    """How a release of a histogram is read."""

    bins: BinCounts

    parameter = "probability"
    has_bins: ClassVar[bool] = True

    @property
    def dimension(self) -> int:
        """How many bins there are."""
        return self.bins.size

    def noise_aware(self, statistics: NoisyStatistics) -> BinPosterior:
        """Return the probabilities of the bins, the noise summed out."""
        return self.bins.noise_aware(statistics)

    def plug_in(self, statistics: NoisyStatistics) -> BinPosterior:
        """Return the posterior that takes the noisy counts as exact."""
        return self.bins.plug_in(statistics)

    def combined(self, contents: Sequence[NoisyStatistics], *, same_people: bool) -> BinPosterior:
        """Return the probabilities of the bins from several releases."""
        return self.bins.combined(contents, same_people=same_people)

    def noisy_data(self, release: Release) -> NoisyData:
        """Return the counts of the bins."""
        return self.bins.noisy_data(release)

    def before(self) -> BinPosterior:
        """Return the prior."""
        return self.bins.before()

    def predict(self, theta: Array, size: int, rng: np.random.Generator) -> Array:
        """Draw how many of `size` new records lie in each bin."""
        return rng.multinomial(size, theta / theta.sum(axis=1, keepdims=True)).astype(float)

    def remark(self, distribution: BinPosterior, index: int) -> str:
        """Say which bins may be empty."""
        return "may be empty: the interval begins at 0" if distribution.emptiness(index) >= _TAIL else ""

    def binned(self, distribution: BinPosterior) -> BinPosterior:
        """Return the distribution itself."""
        return distribution


def histogram_reader(described: Mapping[str, Any], prior: tuple[float, ...]) -> HistogramReader:
    """Read what a release says of itself."""
    return HistogramReader(read_bins(described, prior))


@dataclass(frozen=True)
class Histogram(BinnedModel):
    """The probability that a value lies in each of declared bins.

    Attributes
    ----------
    column
        A column of numbers or dates.
    bins
        The edges of the bins, from the low end of the column's interval to its high end; or how many of equal width. If
        omitted, those that are declared of the column.
    by
        A column of levels, or several: one histogram for each.
    prior
        The concentration of the Polya tree prior. If omitted it is unknown, and is summed out.
    """

    column: str
    bins: tuple[float, ...] | int | None = None
    by: By = None
    prior: float | None = None

    name: ClassVar[str] = "histogram"
    reader: ClassVar[Any] = staticmethod(histogram_reader)

    def described(self) -> dict[str, Any]:
        """Return nothing beside the bins."""
        return {}

    def labels(self, bins: Bins) -> tuple[str, ...]:
        """Return the names of the bins."""
        return bins.names[: len(bins.edges) - 1]

    def forecast(self, prepared: Any, schema: TableSchema, n: int, rng: np.random.Generator) -> WidthPair:
        """Return the expected 90 % width of a bin's probability, and that without noise; see `share_widths`."""
        reader = histogram_reader(prepared.described, prepared.numbers)
        return (*share_widths(reader.bins, prepared.mechanism, n, rng), None)

    def question(self) -> str:
        """Say in words what is asked."""
        return f"The distribution of {self.words()}"
