"""Groups of records: the combinations of the declared levels of some columns."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from vestry.errors import InvalidParameter
from vestry.schema.table_schema import TableSchema
from vestry.statistics.axis import LevelAxis
from vestry.statistics.coordinates import Coordinate, Excluded, LevelBlock, MissingLevel, Name

By = str | tuple[str, ...]


def group_columns(by: By) -> tuple[str, ...]:
    """Return the columns whose levels are the groups."""
    if isinstance(by, str):
        return (by,)
    return tuple(by)


def group_axes(schema: TableSchema, by: By) -> tuple[LevelAxis, ...]:
    """Return an axis for each column of the groups."""
    return tuple(LevelAxis.of_levels(schema, column) for column in group_columns(by))


def group_names(schema: TableSchema, by: By) -> dict[tuple[str, ...], Name]:
    """Return the coordinates of each group, by the names of its levels."""
    columns = group_columns(by)
    levels = [level_coordinates(schema, column) for column in columns]
    groups: dict[tuple[str, ...], Name] = {}
    for names in itertools.product(*levels):
        coordinates = [own[name] for own, name in zip(levels, names, strict=True)]
        groups[names] = frozenset(coordinates)
    return groups


def level_coordinates(schema: TableSchema, column: str) -> dict[str, Coordinate]:
    """Return the coordinate of each declared level, by its name; that of missing values if it is a level."""
    levels = schema.levels(column)
    coordinates: dict[str, Coordinate] = {}
    for name, text in zip(levels.names, levels.texts, strict=False):
        coordinates[name] = LevelBlock(column, frozenset([text]))
    for name in levels.names[len(levels.texts) :]:
        coordinates[name] = MissingLevel(column)
    return coordinates


def level_text(schema: TableSchema, column: str, name: str) -> str:
    """Return the text of a declared level; raise if there is none of this name."""
    levels = schema.levels(column)
    texts = dict(zip(levels.names, levels.texts, strict=False))
    if name not in texts:
        allowed = "one of " + ", ".join(texts)
        raise InvalidParameter(f"a level of {column}", name, allowed, levels.names[0])
    return texts[name]


def in_words(by: By) -> str:
    """Return ` by ward and sex`, or nothing without groups."""
    columns = group_columns(by)
    if not columns:
        return ""
    return " by " + " and ".join(columns)


def declared_coordinates(axis: LevelAxis) -> Sequence[Coordinate]:
    """Return the coordinates of an axis that a question is about: all but those of records that are left out."""
    return [coordinate for coordinate in axis.coordinates if not isinstance(coordinate, Excluded)]
