"""Axes: partitions of what a record may contain in one column.

The numbers of a statistic are the cells of a product of axes. Each record lies in one coordinate of an axis, or adds to
all coordinates of a `MomentAxis`.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Literal

import numpy as np
import numpy.typing as npt

from vestry.errors import InvalidParameter
from vestry.schema.column_reading import ColumnReading
from vestry.schema.domain import Bins, Interval
from vestry.schema.left_out import Kept, LeftOut, OwnLevel, Treatment, treatment_of
from vestry.schema.table_schema import TableSchema
from vestry.statistics.coordinates import (
    Bin,
    Coordinate,
    Excluded,
    LevelBlock,
    MissingLevel,
    Moment,
    MomentTerm,
    includes,
)
from vestry.statistics.identity import Document

Indices = npt.NDArray[np.int64]
NO_INDEX = -1


@dataclass(frozen=True)
class LevelAxis:
    """Blocks of the levels of a column, in canonical order."""

    reading: ColumnReading
    blocks: tuple[frozenset[str], ...]
    treatment: Treatment

    @classmethod
    def of_levels(cls, schema: TableSchema, column: str) -> LevelAxis:
        """Return the axis with a block for each level."""
        blocks = [frozenset([text]) for text in schema.levels(column).texts]
        return cls.of_blocks(schema, column, blocks)

    @classmethod
    def of_success(cls, schema: TableSchema, column: str, success: str) -> LevelAxis:
        """Return the axis of one level, by its text, against all others."""
        texts = frozenset(schema.levels(column).texts)
        if success not in texts:
            raise InvalidParameter("success", success, "one of " + ", ".join(sorted(texts)), min(texts))
        chosen = frozenset([success])
        return cls.of_blocks(schema, column, [chosen, texts - chosen])

    @classmethod
    def of_blocks(cls, schema: TableSchema, column: str, blocks: Iterable[frozenset[str]]) -> LevelAxis:
        """Return the axis of these blocks of texts."""
        ordered = sorted(blocks, key=min)
        reading = ColumnReading.of(schema, column)
        return cls(reading, tuple(ordered), treatment_of(schema, column))

    @property
    def column(self) -> str:
        """The declared column."""
        return self.reading.column

    @property
    def coordinates(self) -> tuple[Coordinate, ...]:
        """The blocks, then what becomes of values that fit none."""
        blocks = [LevelBlock(self.column, block) for block in self.blocks]
        return (*blocks, *_outside(self.column, self.treatment))

    @property
    def partitioned(self) -> Document:
        """What the axis partitions: axes that partition something else are not related."""
        levels = sorted(itertools.chain.from_iterable(self.blocks))
        return {**_read_as(self.reading, self.treatment), "levels": levels}

    def document(self) -> Document:
        """Return the axis as part of an identity."""
        blocks = [sorted(block) for block in self.blocks]
        return {**_read_as(self.reading, self.treatment), "blocks": blocks}


@dataclass(frozen=True)
class BinAxis:
    """Bins of a number, or of days, between exact edges."""

    reading: ColumnReading
    edges: tuple[Fraction, ...]
    treatment: Treatment

    @classmethod
    def of_width(cls, schema: TableSchema, column: str, bins: int) -> BinAxis:
        """Return the axis of equally wide bins over the column's interval."""
        interval = interval_of(schema, column)
        lower = exact(interval.low)
        width = (exact(interval.high) - lower) / bins
        edges = [lower + width * index for index in range(bins + 1)]
        return cls.of_edges(schema, column, edges)

    @classmethod
    def of_declared(cls, schema: TableSchema, column: str) -> BinAxis:
        """Return the axis of the bins that are declared of a column."""
        domain = schema.domain(column)
        if not isinstance(domain, Bins):
            raise InvalidParameter(f"the column {column}", "no bins", "declared with bins", "bins = [0, 18, 65]")
        return cls.of_edges(schema, column, map(exact, domain.edges))

    @classmethod
    def of_edges(cls, schema: TableSchema, column: str, edges: Iterable[Fraction]) -> BinAxis:
        """Return the axis of bins between these edges, in ascending order."""
        reading = ColumnReading.of(schema, column)
        return cls(reading, tuple(edges), treatment_of(schema, column))

    @property
    def column(self) -> str:
        """The declared column."""
        return self.reading.column

    @property
    def coordinates(self) -> tuple[Coordinate, ...]:
        """The bins, then what becomes of values that fit none."""
        bins = [Bin(self.column, lower, upper) for lower, upper in itertools.pairwise(self.edges)]
        return (*bins, *_outside(self.column, self.treatment))

    @property
    def partitioned(self) -> Document:
        """What the axis partitions: axes that partition something else are not related."""
        ends = [str(self.edges[0]), str(self.edges[-1])]
        return {**_read_as(self.reading, self.treatment), "ends": ends}

    def document(self) -> Document:
        """Return the axis as part of an identity."""
        edges = [str(edge) for edge in self.edges]
        return {**_read_as(self.reading, self.treatment), "edges": edges}


MomentForm = Literal["partition", "sphere"]
TERMS: dict[MomentForm, tuple[MomentTerm, ...]] = {
    "partition": ("square", "product", "remainder"),
    "sphere": ("complement", "value", "scaled product"),
}


@dataclass(frozen=True)
class MomentAxis:
    """Terms of a value f, scaled to [0, 1], and of s = 1 - f.

    The partition s^2 + 2 s f + f^2 = 1 gives a record the mass 1, which suits noise that is priced by l1; the sphere
    (s, f, sqrt(8) s f), whose norm is at most 1, suits Gaussian noise. Either determines the number of records, the sum
    of their values and the sum of squares.
    """

    reading: ColumnReading
    lower: Fraction
    upper: Fraction
    treatment: Treatment
    form: MomentForm = "partition"

    @classmethod
    def of_column(cls, schema: TableSchema, column: str, form: MomentForm = "partition") -> MomentAxis:
        """Return the axis of a column's declared interval."""
        interval = interval_of(schema, column)
        reading = ColumnReading.of(schema, column)
        treatment = treatment_of(schema, column)
        return cls(reading, exact(interval.low), exact(interval.high), treatment, form)

    @property
    def column(self) -> str:
        """The declared column."""
        return self.reading.column

    @property
    def coordinates(self) -> tuple[Coordinate, ...]:
        """The three terms, then what becomes of values that are none."""
        terms = [Moment(self.column, term) for term in TERMS[self.form]]
        return (*terms, *_outside(self.column, self.treatment))

    @property
    def partitioned(self) -> Document:
        """What the axis partitions: axes that partition something else are not related."""
        return self.document()

    def document(self) -> Document:
        """Return the axis as part of an identity."""
        ends = [str(self.lower), str(self.upper)]
        return {**_read_as(self.reading, self.treatment), "ends": ends, "form": self.form}


CountAxis = LevelAxis | BinAxis
Axis = LevelAxis | BinAxis | MomentAxis


def sorted_axes(axes: Sequence[CountAxis]) -> tuple[CountAxis, ...]:
    """Return axes in canonical order, by column; raise if a column is there twice."""
    columns = [axis.column for axis in axes]
    if len(set(columns)) < len(columns):
        raise InvalidParameter("columns", columns, "each column once", "each column once")
    return tuple(sorted(axes, key=lambda axis: axis.column))


def coarse_indices(fine: Axis, coarse: Axis) -> Indices | None:
    """Return the coarse coordinate that holds each fine one; None if some lies in none."""
    if fine.partitioned != coarse.partitioned:
        return None
    indices = []
    for part in fine.coordinates:
        wholes = [index for index, whole in enumerate(coarse.coordinates) if includes(whole, part)]
        if len(wholes) != 1:
            return None
        indices.extend(wholes)
    return np.array(indices, dtype=np.int64)


def interval_of(schema: TableSchema, column: str) -> Interval:
    """Return the interval of a column, also of one that is declared in bins."""
    domain = schema.domain(column)
    if isinstance(domain, Bins):
        return domain.interval
    return schema.interval(column)


def exact(number: float) -> Fraction:
    """Return the fraction that a declared number's shortest decimal denotes."""
    return Fraction(repr(number))


def _outside(column: str, treatment: Treatment) -> tuple[Coordinate, ...]:
    """Return the coordinates of values that fit nothing that is declared."""
    match treatment:
        case Kept():
            return ()
        case OwnLevel():
            return (MissingLevel(column),)
        case LeftOut():
            return tuple(Excluded(column, reason) for reason in treatment.reasons)


def _read_as(reading: ColumnReading, treatment: Treatment) -> Document:
    return {"reading": asdict(reading), "outside": _treatment_document(treatment)}


def _treatment_document(treatment: Treatment) -> Document:
    match treatment:
        case Kept(fallback=str() as level):
            return {"counts as": level}
        case Kept(fallback=float() as number):
            return {"counts as": str(exact(number))}
        case OwnLevel():
            return {"counts as": None}
        case LeftOut():
            return {"left out": True, "reasons": list(treatment.reasons)}
    raise AssertionError(treatment)
