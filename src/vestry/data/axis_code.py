"""Where a value lies on an axis, as total expressions of an engine: no value can make one fail."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import ibis

from vestry.data.encoding import NEGLIGIBLE, code, lacks_number, lacks_value, plain
from vestry.data.source import Expression
from vestry.data.text_value import double
from vestry.schema.domain import DROP, Domain, Levels
from vestry.schema.left_out import Kept, LeftOut, OwnLevel, Reason
from vestry.statistics.axis import BinAxis, LevelAxis, MomentAxis, exact
from vestry.statistics.coordinates import Coordinate, Excluded, MissingLevel


@dataclass(frozen=True)
class HeldColumn:
    """A column as a part of the table has it.

    Attributes
    ----------
    values
        The expression of its values.
    domain
        What is declared of it.
    engine
        Which backend answers.
    clean
        Whether text was trimmed before the engine saw it.
    """

    values: Expression
    domain: Domain
    engine: str
    clean: bool

    @property
    def plain_values(self) -> Expression:
        """What the declaration is about: the key of a level, a number, or days."""
        return plain(self.values, self.domain, self.engine, clean=self.clean)

    @property
    def is_missing(self) -> Expression:
        """Whether there is nothing to read."""
        exact = isinstance(self.domain, Levels) and self.domain.exact
        return lacks_value(self.values, self.engine, clean=self.clean or exact)


def axis_code(held: HeldColumn, axis: LevelAxis | BinAxis) -> Expression:
    """Return the index of each record's coordinate; null where the record is left out and not counted."""
    match axis:
        case LevelAxis():
            return _level_code(held, axis)
        case BinAxis():
            return _bin_code(held, axis)


def moment_value(held: HeldColumn, axis: MomentAxis) -> Expression:
    """Return the number scaled to [0, 1] as a double; null where it is none and the record is left out."""
    value = held.plain_values
    lower = float(axis.lower)
    upper = float(axis.upper)
    outside = ibis.null("float64")
    if isinstance(axis.treatment, Kept):
        stand_in = float(axis.treatment.fallback)
        outside = double(stand_in)
    has_no_number = lacks_number(value), outside
    # Clipped last: 0, as which a negligible number counts, may lie outside an interval that is narrower still.
    settled = ibis.cases((value.abs() < double(NEGLIGIBLE), double(0)), else_=value)
    below = settled < double(lower), double(lower)
    above = settled > double(upper), double(upper)
    clipped = ibis.cases(has_no_number, below, above, else_=settled)
    return (clipped - double(lower)) / double(upper - lower)


def moment_outside_code(held: HeldColumn, axis: MomentAxis) -> Expression:
    """Return the index of the coordinate that counts a record without a number; null if it is not counted."""
    return _outside_code(held, axis)


def _level_code(held: HeldColumn, axis: LevelAxis) -> Expression:
    domain = held.domain
    assert isinstance(domain, Levels)  # noqa: S101 - the axis was made from these declarations
    block_of_text = {text: index for index, block in enumerate(axis.blocks) for text in block}
    matched_only = Levels(*domain.values, missing=DROP, exact=domain.exact)
    place = code(held.plain_values, matched_only, held.engine)
    cases = [(place == index, _whole(block_of_text[text])) for index, text in enumerate(domain.texts)]
    return ibis.cases(*cases, else_=_outside_code(held, axis))


def _bin_code(held: HeldColumn, axis: BinAxis) -> Expression:
    value = held.plain_values
    inner_edges = axis.edges[1:-1]
    outside = lacks_number(value), _outside_code(held, axis)
    below = [(_is_below(value, edge), _whole(index)) for index, edge in enumerate(inner_edges)]
    last_bin = _whole(len(inner_edges))
    return ibis.cases(outside, *below, else_=last_bin)


def _is_below(value: Expression, edge: Fraction) -> Expression:
    """Return whether a double, as its shortest decimal, is below an edge.

    So 0.3 is not below an edge that was declared as 0.3. Numbers nearer to 0 than `NEGLIGIBLE` count as 0.
    """
    if abs(edge) < NEGLIGIBLE:
        return value <= double(-NEGLIGIBLE)
    threshold = float(edge)
    if exact(threshold) < edge:
        threshold = math.nextafter(threshold, math.inf)
    return value < double(threshold)


def _outside_code(held: HeldColumn, axis: LevelAxis | BinAxis | MomentAxis) -> Expression:
    """Return the index of the coordinate of values that fit nothing that is declared."""
    match axis.treatment:
        case Kept(fallback=str() as text):
            assert isinstance(axis, LevelAxis)  # noqa: S101 - numbers stand in for numbers
            blocks = [index for index, block in enumerate(axis.blocks) if text in block]
            return _whole(blocks[0])
        case Kept(fallback=float() as number):
            assert isinstance(axis, BinAxis)  # noqa: S101 - a moment has no coordinate for it
            inner_edges = axis.edges[1:-1]
            return _whole(sum(edge <= exact(number) for edge in inner_edges))
        case OwnLevel():
            return _whole(_place(axis, MissingLevel(axis.column)))
        case LeftOut(counted=False):
            return ibis.null("int64")
        case LeftOut():
            missing = _whole(_reason_place(axis, "missing"))
            other = _whole(_reason_place(axis, "other"))
            return ibis.cases((held.is_missing, missing), else_=other)
    raise AssertionError(axis.treatment)


def _reason_place(axis: LevelAxis | BinAxis | MomentAxis, reason: Reason) -> int:
    return _place(axis, Excluded(axis.column, reason))


def _place(axis: LevelAxis | BinAxis | MomentAxis, coordinate: Coordinate) -> int:
    return axis.coordinates.index(coordinate)


def _whole(value: int) -> Expression:
    return ibis.literal(value, type="int64")
