"""A study file for a table, from a data dictionary or from the names and types of its columns; never from values.

A data dictionary is a CSV file, one line for each column of the table, with the columns

    name         the column's name
    type         levels, number, count, date or person; or what other programs say: text, integer, float, boolean, ...
    levels       of levels: all of them, divided by ; or by |
    low, high    of numbers and dates: the ends; of a count: the greatest value, as high
    missing      never, drop, level, or the value that stands for a missing one
    unit, description    written beside the declaration

of which name, type and levels must be there, and no other. What it does not say is left as a line that begins with #
and says what to declare.
"""

from __future__ import annotations

import csv
import io
import json
import os
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vestry.data.source import Dialect, connect, find_way, is_missing
from vestry.errors import InvalidParameter
from vestry.files import MOST_TEXT, read_bytes
from vestry.schema.domain import domain_from
from vestry.schema.meaning import FALSE, TRUE, instant_of, is_number, time_of

KEYS = ("name", "type", "levels", "low", "high", "missing", "unit", "description")
NEEDED = ("name", "type", "levels")
_TRUTH = ("boolean", "bool", "logical")
# What other programs call the kinds.
_KINDS = {
    "levels": ("levels", "category", "categorical", "factor", "text", "string", "character", *_TRUTH),
    "number": ("number", "numeric", "float", "double", "real", "decimal", "integer", "int"),
    "count": ("count",),
    "date": ("date", "datetime", "timestamp"),
    "person": ("person", "id"),
}  # fmt: skip
# What to declare where a kind is known and the rest is not.
_OPEN = {
    "levels": ('{ levels = ["...", "..."] }', "declare every level that counts"),
    "number": ("{ interval = [LOW, HIGH] }", "declare the least and the greatest number that count"),
    "count": ("{ count = HIGH }", "declare the greatest count"),
    "date": ("{ interval = [2020-01-01, 2024-12-31] }", "declare the first and the last day that count"),
    "": ('{ levels = ["...", "..."] }', "declare its levels, or { interval = [LOW, HIGH] }"),
}


@dataclass(frozen=True)
class StudyTemplate:
    """A study file to be completed.

    Attributes
    ----------
    text
        The file.
    columns, declared
        How many columns there are, and of how many enough is known.
    """

    text: str
    columns: int
    declared: int


def template_from(source: str, folder: Path, *, header: bool = False) -> StudyTemplate:
    """Return a study file for what is found at a path or an address; no value of a table is read.

    `header` says that the first line of a CSV file holds names: it may be a record, and nothing tells them apart.
    """
    if is_missing(source):
        raise InvalidParameter("--from", source, "a file that exists", "the path of a table or of a data dictionary")
    if _is_dictionary(source):
        rows = _dictionary(Path(source))
        lines = [_described(row) for row in rows if _kind(row["type"]) != "person"]
        person = next((row["name"] for row in rows if _kind(row["type"]) == "person"), None)
        return _template(Path(source).stem, None, lines, person, f"the data dictionary {Path(source).name}")
    dialect = find_dialect(source)
    types = column_types(source, dialect, header=header)
    address = json.dumps(source if "://" in source else os.path.relpath(source, folder), ensure_ascii=False)
    if dialect.separator is not None:
        address += '\ncsv = { separator = ";" }            # and decimal = "," if numbers are written so'
    name = re.split(r"[/\\]", source.rstrip("/"))[-1].partition(".")[0] or "study"
    lines = [_typed(column, dtype) for column, dtype in types.items()]
    return _template(name, address, lines, None, "the names and types of the columns")


def _is_dictionary(source: str) -> bool:
    """Tell whether a file is a data dictionary by its first line: the needed columns are there, and no unknown one."""
    path = Path(source)
    if "://" in source or path.suffix.lower() != ".csv":
        return False
    names = {name.strip().lower() for name in _csv_names(source, Dialect())}
    return set(NEEDED) <= names <= set(KEYS)


def _csv_names(source: str, dialect: Dialect) -> list[str]:
    from vestry.data.csv_reader import header

    return header(source, dialect)


def find_dialect(source: str) -> Dialect:
    """Return how a CSV file is written, by its first line: a comma divides it, or a semicolon if there is no comma."""
    if not find_way(source).startswith(".csv"):
        return Dialect()
    (first, *others) = _csv_names(source, Dialect())
    return Dialect(";") if not others and ";" in first else Dialect()


def _dictionary(path: Path) -> list[dict[str, str]]:
    """Read a data dictionary."""
    try:
        content = read_bytes(path, MOST_TEXT)
        lines = io.StringIO(content.decode("utf-8-sig"), newline="")
        rows = [
            {(key or "").strip().lower(): (value or "").strip() for key, value in row.items() if key is not None}
            for row in csv.DictReader(lines)
        ]
    except (OSError, UnicodeDecodeError, csv.Error):
        raise InvalidParameter(
            "a data dictionary", str(path), "CSV in UTF-8", "the file again, saved as UTF-8"
        ) from None
    named = [row for row in rows if row["name"]]
    if not named:
        raise InvalidParameter("a data dictionary", str(path), "one line for each column", "name,type,levels,low,high")
    return named


def column_types(source: str, dialect: Dialect, *, header: bool) -> Mapping[str, Any]:
    """Return the names and types of a table's columns; a CSV file's first line must hold names."""
    if find_way(source).startswith((".csv", ".tsv")):
        if not header:
            allowed = "one whose first line is known to hold names, and not a record"
            raise InvalidParameter("--from", "a CSV file", allowed, "--header too if it does, or a data dictionary")
        names = [name.strip() for name in _csv_names(source, dialect)]
        if len(set(names)) < len(names) or any(_is_value(name) for name in names):
            given, allowed = "a file whose first line is not shown", "one whose first line holds a name for each column"
            raise InvalidParameter("--from", given, allowed, "a line of names, each once, or a data dictionary")
    with connect(source, columns=None, dialect=dialect) as opened:
        return opened.schema


def _is_value(text: str) -> bool:
    """Tell whether a field of a first line is more likely a value than a name."""
    return bool(is_number(text) or instant_of(text) or time_of(text) or text in (*TRUE, *FALSE, ""))


def _kind(given: str) -> str:
    return next((kind for kind, words in _KINDS.items() if given.lower() in words), "")


def _described(row: Mapping[str, str]) -> str:
    """Return the line of a column from its entry in a dictionary."""
    kind, note = _kind(row["type"]), "; ".join(filter(None, (row.get("unit"), row.get("description"))))
    known = _domain(kind, row)
    if known is None:
        return _open_line(row["name"], kind, note)
    line = f"{_key(row['name'])} = {{ {known}{_missing(row)} }}"
    try:
        domain_from(tomllib.loads(line)[row["name"]])
    except (InvalidParameter, tomllib.TOMLDecodeError) as error:
        reason = str(error) if isinstance(error, InvalidParameter) else "its entry cannot be read"
        allowed = f"one that can be declared ({reason.rstrip('.')})"
        raise InvalidParameter(f"the column {row['name']} of the dictionary", line, allowed, "another entry") from None
    return f"{line}    # {_one_line(note)}" if note else line


def _domain(kind: str, row: Mapping[str, str]) -> str | None:
    """Return what a dictionary's entry declares; None if it does not say enough."""
    low, high = row.get("low", ""), row.get("high", "")
    levels = [each.strip() for each in row["levels"].split("|" if "|" in row["levels"] else ";") if each.strip()]
    if kind == "levels" and len(levels) >= 2:
        return f"levels = {json.dumps(levels, ensure_ascii=False)}"
    if row["type"].lower() in _TRUTH:
        return "levels = [false, true]"
    if kind in ("number", "date") and low and high:
        return f"interval = [{low}, {high}]"
    return f"count = {high}" if kind == "count" and high else None


def _missing(row: Mapping[str, str]) -> str:
    given = row.get("missing", "")
    if not given:
        return ""
    if given in ("never", "drop", "level"):
        return f', missing = "{given}"'
    plain = is_number(given) or instant_of(given) is not None or _kind(row["type"]) != "levels"
    return f", missing = {{ value = {given if plain else json.dumps(given, ensure_ascii=False)} }}"


def _typed(column: str, dtype: Any) -> str:
    """Return the line of a column from its type alone."""
    if dtype.is_boolean():
        return f'{_key(column)} = {{ levels = [false, true], missing = "level" }}'
    kinds = {"numeric": "number", "date": "date", "timestamp": "date", "time": "number", "interval": "number"}
    return _open_line(column, next((kind for name, kind in kinds.items() if getattr(dtype, f"is_{name}")()), ""), "")


def _open_line(column: str, kind: str, note: str) -> str:
    example, what = _OPEN[kind]
    return f"# {_key(column)} = {example}    # {_one_line('; '.join(filter(None, (what, note))))}"


def _key(name: str) -> str:
    return name if re.fullmatch("[A-Za-z0-9_-]+", name) else json.dumps(name, ensure_ascii=False)


def _one_line(text: str) -> str:
    return " ".join("".join(each if each.isprintable() else " " for each in text).split())


def _template(name: str, address: str | None, lines: Sequence[str], person: str | None, origin: str) -> StudyTemplate:
    data = '# data = "records.parquet"      # where the records are' if address is None else f"data = {address}"
    unit = 'unit = "row"'
    if person is not None:
        named = json.dumps(person, ensure_ascii=False)
        unit = f"# unit = {{ person = {named}, rows = K }}    # say how many rows of each person count at most"
    text = _TEXT.format(
        origin=_one_line(origin),
        name=json.dumps(name, ensure_ascii=False),
        ledger=json.dumps(f"{name}.ledger", ensure_ascii=False),
        data=data,
        unit=unit,
        columns="\n".join(lines),
    )
    return StudyTemplate(text, len(lines), sum(not line.startswith("#") for line in lines))


_TEXT = """\
# A study, begun from {origin}. No value was read.
# Complete each line that begins with # and has a =, and take the # away; a column that is not declared is not read.
# Check it:    vestry check study.toml --data
# Run it:      vestry release study.toml

[study]
name = {name}
# title = "..."                   # the first page of the report: what it is called,
# issuer = "..."                  # who issues it,
# contact = "..."                 # whom to ask,
# purpose = "..."                 # and why the data are used
{data}
# "row" hides one row. If persons may have several rows, protect the person; at most three rows of each then count:
#     unit = {{ person = "patient_id", rows = 3 }}
{unit}
neighbours = "add-remove"         # or "replace"
budget = {{ epsilon = 1.0, delta = 1e-6 }}
ledger = {ledger}
# expected_rows = 1000            # a guess at the number of records: check, plan and "auto" go by it

[columns]                         # nothing is learnt from the data: say what each column may contain
{columns}

[release.quality]                 # first of all: do the values fit what is declared?
model = "quality"
spend = {{ epsilon = 0.1 }}

# [release.first]                 # then what you ask for
# model = "beta-bernoulli"
# column = "readmitted"
# success = "yes"
# spend = {{ epsilon = 0.3 }}
"""
