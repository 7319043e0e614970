"""Noisy integers: what was bought, each number with the law of its noise."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from vestry.errors import InvalidParameter
from vestry.noise_inversion.noise_sum import NoiseSum
from vestry.statistics.axis import NO_INDEX, Indices
from vestry.statistics.coordinates import Name
from vestry.statistics.integer_matrix import IntegerMatrix, Integers
from vestry.statistics.names import IntegerNames


@dataclass(frozen=True, eq=False)
class Observation:
    """One noisy value of each integer.

    Attributes
    ----------
    values
        The noisy integers.
    laws
        The few laws of noise that occur.
    law_of_integer
        Which of them each integer has.
    """

    values: Integers
    laws: tuple[NoiseSum, ...]
    law_of_integer: Indices

    @property
    def deviations(self) -> npt.NDArray[np.float64]:
        """The standard deviation of each integer's noise."""
        of_law = np.array([law.deviation for law in self.laws])
        return of_law[self.law_of_integer]

    def select(self, places: Indices) -> Observation:
        """Return some of the integers."""
        return Observation(self.values[places], self.laws, self.law_of_integer[places])

    def sum_by(self, matrix: IntegerMatrix) -> Observation:
        """Return sums of integers: values are added, and laws convolved."""
        used = matrix.row_of_column != NO_INDEX
        rows = matrix.row_of_column[used]
        counts = np.zeros((len(matrix.rows), len(self.laws)), dtype=np.int64)
        np.add.at(counts, (rows, self.law_of_integer[used]), 1)
        distinct, law_of_row = np.unique(counts, axis=0, return_inverse=True)
        laws = [NoiseSum.of_sums(self.laws, numbers.tolist()) for numbers in distinct]
        return Observation(matrix @ self.values, tuple(laws), np.ravel(law_of_row))


@dataclass(frozen=True)
class NoisyInteger:
    """A noisy integer and the law of its noise."""

    value: int
    law: NoiseSum


@dataclass(frozen=True, eq=False)
class Noisy:
    """Integers of a statistic with noise, from one release or several.

    Attributes
    ----------
    names
        What each integer is.
    observations
        Independent noisy values of the same integers: one for each release.
    grid
        The integer that stands for one record.
    total
        The number of records where it is public; None where it is private.
    """

    names: IntegerNames
    observations: tuple[Observation, ...]
    grid: int
    total: int | None = None

    @property
    def largest_deviation(self) -> float:
        """The largest standard deviation of the noise of one integer, all observations weighed together."""
        precision = sum(observation.deviations**-2 for observation in self.observations)
        return float(np.max(precision**-0.5))

    @property
    def only(self) -> Observation:
        """The single observation; raise where several were joined."""
        if len(self.observations) > 1:
            raise InvalidParameter("releases", len(self.observations), "one", "a reading of one release")
        return self.observations[0]

    def total_of(self, names: Iterable[Name]) -> NoisyInteger:
        """Return the sum of some integers of a statistic with one table, and the law of its noise."""
        table = self.names.tables[0]
        places = [table.index(name) for name in names]
        observation = self.only
        laws = [observation.laws[index] for index in observation.law_of_integer[places]]
        value = int(observation.values[places].sum())
        return NoisyInteger(value, NoiseSum.of_sums(laws))

    def table(self, index: int) -> Noisy:
        """Return one of the statistic's tables."""
        start = self.names.starts[index]
        names = self.names.tables[index]
        places = np.arange(start, start + len(names))
        selected = [observation.select(places) for observation in self.observations]
        return Noisy(IntegerNames((names,)), tuple(selected), self.grid, self.total)

    def sum_by(self, matrix: IntegerMatrix) -> Noisy:
        """Return sums of these integers, such as a margin, fewer groups or coarser bins."""
        summed = [observation.sum_by(matrix) for observation in self.observations]
        return Noisy(matrix.rows, tuple(summed), self.grid, self.total)

    def join(self, other: Noisy) -> Noisy:
        """Return the observations of both, which are independent noisy values of the same integers."""
        if other.names != self.names or other.grid != self.grid or other.total != self.total:
            raise InvalidParameter("releases", "different integers", "releases of one statistic", "each by itself")
        return Noisy(self.names, (*self.observations, *other.observations), self.grid, self.total)
