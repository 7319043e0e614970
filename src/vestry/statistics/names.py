"""What each integer of a statistic is: the cells of one or several products of axes, in order."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from vestry.schema.left_out import LeftOut
from vestry.statistics.axis import NO_INDEX, Axis, Indices, coarse_indices
from vestry.statistics.coordinates import Coordinate, Name


@dataclass(frozen=True)
class TableNames:
    """The cells of a product of axes; the last axis runs fastest.

    Attributes
    ----------
    axes
        The axes; without any there is one cell.
    omits_last
        Whether the last cell is not released, because it follows from a public total.
    """

    axes: tuple[Axis, ...]
    omits_last: bool = False

    @property
    def shape(self) -> tuple[int, ...]:
        """How many coordinates each axis has."""
        return tuple(len(axis.coordinates) for axis in self.axes)

    @property
    def cells(self) -> int:
        """How many cells the product has."""
        return math.prod(self.shape)

    def __len__(self) -> int:
        """Return the number of released integers."""
        return self.cells - self.omits_last

    def __iter__(self) -> Iterator[Name]:
        """Yield the names of the released integers."""
        coordinates = [axis.coordinates for axis in self.axes]
        cells = map(frozenset, itertools.product(*coordinates))
        return itertools.islice(cells, len(self))

    @cached_property
    def _places(self) -> tuple[dict[Coordinate, int], ...]:
        places = [{coordinate: i for i, coordinate in enumerate(axis.coordinates)} for axis in self.axes]
        return tuple(places)

    def index(self, name: Name) -> int:
        """Return the place of a released integer; raise KeyError if there is none with this name."""
        index = 0
        matched = 0
        for places in self._places:
            inside = [places[coordinate] for coordinate in name if coordinate in places]
            if len(inside) != 1:
                raise KeyError(name)
            matched += 1
            index = index * len(places) + inside[0]
        if matched != len(name) or index >= len(self):
            raise KeyError(name)
        return index

    def cell_in(self, coarse: TableNames) -> Indices | None:
        """Return, for each cell, the cell of a coarser product that holds it; None if the axes do not nest.

        An axis that the coarser product lacks is summed over all of its coordinates, unless it leaves records out that
        are not counted: the coarser product has those.
        """
        axis_of_column = {axis.column: axis for axis in coarse.axes}
        if not axis_of_column.keys() <= {axis.column for axis in self.axes}:
            return None
        indices_of_column: dict[str, Indices] = {}
        for axis in self.axes:
            wanted = axis_of_column.get(axis.column)
            if wanted is None and axis.treatment == LeftOut(counted=False):
                return None
            if wanted is None:
                continue
            indices = coarse_indices(axis, wanted)
            if indices is None:
                return None
            indices_of_column[axis.column] = indices
        columns = [axis.column for axis in self.axes]
        cell = np.zeros(self.shape, dtype=np.int64)
        for axis in coarse.axes:
            along = [1] * len(columns)
            position = columns.index(axis.column)
            along[position] = -1
            indices = indices_of_column[axis.column].reshape(along)
            cell = cell * len(axis.coordinates) + indices
        return cell.ravel()

    def row_in(self, coarse: TableNames) -> Indices | None:
        """Return, for each released integer, the coarser released integer that it is added to.

        `NO_INDEX` where it is added to none. None if some coarser integer is no sum of released ones.
        """
        cell_of = self.cell_in(coarse)
        if cell_of is None:
            return None
        size = len(self)
        released = cell_of[:size]
        withheld = cell_of[size:]
        if np.any(withheld < len(coarse)):
            return None
        return np.where(released < len(coarse), released, NO_INDEX)


@dataclass(frozen=True)
class IntegerNames:
    """The names of all integers of a statistic: those of its tables, one behind the other."""

    tables: tuple[TableNames, ...]

    def __len__(self) -> int:
        """Return the number of released integers."""
        return sum(map(len, self.tables))

    def __iter__(self) -> Iterator[Name]:
        """Yield the names in order; two tables may have integers of one name."""
        return itertools.chain.from_iterable(self.tables)

    @property
    def starts(self) -> tuple[int, ...]:
        """The place of each table's first integer."""
        sizes = [len(table) for table in self.tables]
        return (0, *itertools.accumulate(sizes[:-1]))
