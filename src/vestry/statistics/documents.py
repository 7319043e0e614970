"""A statistic again from its identity, as a release file holds it."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from vestry.errors import InvalidParameter
from vestry.schema.column_reading import ColumnReading, ReadPart
from vestry.schema.left_out import Kept, LeftOut, OwnLevel, Treatment
from vestry.statistics.axis import BinAxis, CountAxis, LevelAxis, MomentAxis
from vestry.statistics.bounded_sums import BoundedSums
from vestry.statistics.cell_counts import CellCounts
from vestry.statistics.statistic import Statistic


def statistic_from_document(document: Mapping[str, Any]) -> Statistic:
    """Return the statistic with an identity's content."""
    match document:
        case {"statistic": "cell-counts", "tables": tables, "total": total}:
            axes = [tuple(_count_axis(axis) for axis in table) for table in tables]
            return CellCounts(tuple(axes), total)
        case {"statistic": "bounded-sums", "groups": groups, "moments": moments}:
            by = [_count_axis(axis) for axis in groups]
            return BoundedSums(_moment_axis(moments), tuple(by))
        case _:
            kind = document.get("statistic")
            raise InvalidParameter("statistic", kind, "cell-counts or bounded-sums", "a newer version of Vestry")


def _count_axis(document: Mapping[str, Any]) -> CountAxis:
    reading = _reading(document["reading"])
    treatment = _treatment(document["outside"], is_number="edges" in document)
    if "edges" in document:
        edges = [Fraction(text) for text in document["edges"]]
        return BinAxis(reading, tuple(edges), treatment)
    blocks = [frozenset(block) for block in document["blocks"]]
    return LevelAxis(reading, tuple(blocks), treatment)


def _moment_axis(document: Mapping[str, Any]) -> MomentAxis:
    reading = _reading(document["reading"])
    treatment = _treatment(document["outside"], is_number=True)
    lower, upper = map(Fraction, document["ends"])
    return MomentAxis(reading, lower, upper, treatment, document["form"])


def _reading(document: Mapping[str, Any]) -> ColumnReading:
    parts = [ReadPart(**part) for part in document["parts"]]
    others = {name: value for name, value in document.items() if name != "parts"}
    return ColumnReading(**others, parts=tuple(parts))


def _treatment(document: Mapping[str, Any], *, is_number: bool) -> Treatment:
    match document:
        case {"left out": True, "reasons": reasons}:
            return LeftOut(counted=bool(reasons))
        case {"counts as": None}:
            return OwnLevel()
        case {"counts as": text} if is_number:
            return Kept(float(Fraction(text)))
        case {"counts as": text}:
            return Kept(text)
        case _:
            raise InvalidParameter("outside", list(document), "left out, or counts as", "the file as it was written")
