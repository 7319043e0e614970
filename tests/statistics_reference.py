"""What a statistic's integers are, record by record in plain Python; shares no code with the queries."""

import itertools
import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from vestry.schema.left_out import Kept, LeftOut, OwnLevel
from vestry.schema.table_schema import Population
from vestry.statistics.axis import BinAxis, LevelAxis, MomentAxis
from vestry.statistics.bounded_sums import GRID
from vestry.statistics.coordinates import Bin, Excluded, LevelBlock, MissingLevel
from vestry.statistics.statistic import CountQuery, MomentQuery, Record, Statistic

NOTHING = ("", None)


def exact_integers(statistic: Statistic, records: Sequence[Record], population: Population) -> np.ndarray:
    """Return the integers of a table in which no person has more rows than count."""
    total = np.zeros(len(statistic.names), dtype=np.int64)
    for record in records:
        total = total + contribution(statistic, record, population)
    return total


def contribution(statistic: Statistic, record: Record, population: Population) -> np.ndarray:
    """Return what one record adds."""
    query = statistic.query
    person = population.unit.person
    nothing = np.zeros(len(statistic.names), dtype=np.int64)
    if person is not None and record.get(person) in NOTHING:
        return nothing
    parts = [axis_part(axis, record[axis.column]) for axis in query.axes]
    part_of = dict(zip(query.axes, parts, strict=True))
    match query:
        case CountQuery(tables=tables):
            added = []
            for table in tables:
                of_table = [part_of[axis] for axis in table.axes]
                cells = [0] * table.cells if None in of_table else product_of(of_table)
                added += cells[:-1] if table.omits_last else cells
            return np.array(added, dtype=np.int64)
        case MomentQuery():
            return nothing if None in parts else np.array(product_of(parts), dtype=np.int64)


def product_of(parts: Sequence[Sequence[int]]) -> list[int]:
    return [math.prod(cell) for cell in itertools.product(*parts)]


def axis_part(axis: LevelAxis | BinAxis | MomentAxis, value: object) -> list[int] | None:
    """Return what a value adds to each coordinate; None if the record is left out and not counted."""
    text = "" if value is None else str(value).strip()
    number = as_number(text)
    match axis:
        case LevelAxis():
            fits = any(text in block for block in axis.blocks)
        case BinAxis() | MomentAxis():
            fits = number is not None
    if not fits:
        match axis.treatment:
            case Kept(fallback=str() as level):
                text = level
            case Kept(fallback=float() as level):
                number = Fraction(repr(level))
            case OwnLevel():
                return [int(coordinate == MissingLevel(axis.column)) * unit(axis) for coordinate in axis.coordinates]
            case LeftOut(counted=False):
                return None
            case LeftOut():
                reason = "missing" if text == "" else "other"
                wanted = Excluded(axis.column, reason)
                return [int(coordinate == wanted) * unit(axis) for coordinate in axis.coordinates]
    if isinstance(axis, MomentAxis):
        return moments(axis, number) + [0] * (len(axis.coordinates) - 3)
    return [int(holds(coordinate, axis, text, number)) for coordinate in axis.coordinates]


def unit(axis) -> int:
    return GRID if isinstance(axis, MomentAxis) else 1


def holds(coordinate, axis, text, number) -> bool:
    match coordinate:
        case LevelBlock(levels=levels):
            return text in levels
        case Bin(lower=lower, upper=upper):
            clipped = min(max(number, axis.edges[0]), axis.edges[-1])
            is_last = upper == axis.edges[-1]
            return lower <= clipped < upper or (is_last and clipped == upper)
        case _:
            return False


def as_number(text: str) -> Fraction | None:
    try:
        number = float(text)
    except ValueError:
        return None
    if math.isnan(number):
        return None
    return Fraction(repr(min(max(number, -1e300), 1e300)))


def moments(axis: MomentAxis, number: Fraction) -> list[int]:
    clipped = min(max(number, axis.lower), axis.upper)
    f = (clipped - axis.lower) / (axis.upper - axis.lower)
    half = Fraction(1, 2)
    if axis.form == "sphere":
        value = math.floor(GRID * f + half)
        rest = GRID - value
        return [rest, value, math.isqrt(8 * (rest * value) ** 2 // GRID**2)]
    first = math.floor(GRID * (1 - f) ** 2 + half)
    second = math.floor(GRID * (1 - f * f) + half)
    return [first, second - first, GRID - second]
