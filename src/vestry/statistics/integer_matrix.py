"""Matrices of zeros and ones that sum released integers to coarser ones, each integer into one sum at most."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from vestry.statistics.axis import NO_INDEX, Indices
from vestry.statistics.names import IntegerNames

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class IntegerMatrix:
    """A sparse matrix whose rows and columns are named by released integers.

    Attributes
    ----------
    rows, columns
        What the sums are, and what is summed.
    row_of_column
        The sum to which each integer is added; `NO_INDEX` for none. So sums never share an integer, and their noises
        are independent.
    """

    rows: IntegerNames
    columns: IntegerNames
    row_of_column: Indices

    def __matmul__(self, integers: Integers) -> Integers:
        """Return the sums, exactly."""
        used = self.row_of_column != NO_INDEX
        sums = np.zeros(len(self.rows), dtype=np.int64)
        np.add.at(sums, self.row_of_column[used], integers[used])
        return sums

    def summands(self) -> list[Indices]:
        """Return, for each row, the places of the integers that it sums."""
        order = np.argsort(self.row_of_column, kind="stable")
        ordered_rows = self.row_of_column[order]
        rows = len(self.rows)
        starts = np.searchsorted(ordered_rows, np.arange(rows + 1))
        return [order[starts[row] : starts[row + 1]] for row in range(rows)]


def summing_matrix(fine: IntegerNames, coarse: IntegerNames) -> IntegerMatrix | None:
    """Return the matrix that sums integers to coarser ones; None if no sums that share no integer give them.

    Each coarser table is summed from one table, the first that holds it and is not yet used.
    """
    row_of_column = np.full(len(fine), NO_INDEX, dtype=np.int64)
    unused = list(range(len(fine.tables)))
    for first_row, wanted in zip(coarse.starts, coarse.tables, strict=True):
        nesting = ((index, fine.tables[index].row_in(wanted)) for index in unused)
        index, rows = next((pair for pair in nesting if pair[1] is not None), (NO_INDEX, None))
        if rows is None:
            return None
        first_column = fine.starts[index]
        shifted = np.where(rows == NO_INDEX, NO_INDEX, rows + first_row)
        row_of_column[first_column : first_column + len(rows)] = shifted
        unused.remove(index)
    return IntegerMatrix(coarse, fine, row_of_column)
