"""CSV files as streams of text columns: whatever a record holds, reading it is not an error.

The grammar is that of `csv_tokens`. Fields beyond the named columns are ignored, absent and empty ones are missing,
and bytes that are not UTF-8 become U+FFFD. A file is read in runs of whole records, so that memory does not grow with
it; only one record must fit. A quote that is never closed swallows what follows it; no CSV writer leaves one.
"""

from __future__ import annotations

import gzip
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np
from numpy.typing import NDArray

from vestry.data.csv_tokens import Places, Tokens, tokenise
from vestry.errors import InvalidParameter

_BLOCK = 1 << 21
_LONGEST_HEADER = 1 << 24
# Arrow's offsets of text have 31 bits.
_LONGEST_RUN = 2**31 - 1
_LONGEST_FIELD = 2**30
_NOT_SEPARATORS = "\"' \r\n-+._"
_NAMES = {",": "comma", ";": "semicolon", "\t": "tab", "|": "bar"}
_UTF8, _OTHERS = b"\xef\xbb\xbf", (b"\xff\xfe", b"\xfe\xff", b"\x00\x00\xfe\xff")
_SPACE, _POWER = r"[ \t\n\r\v\f]*", "(?:[eE][+-]?[0-9]{1,4})?"
_DECIMAL_COMMA = rf"\A({_SPACE}[+-]?)(?:([0-9]+),([0-9]*)|,([0-9]+))({_POWER}{_SPACE})\z"


@dataclass(frozen=True)
class Dialect:
    """How a file is written: what separates fields (None: a tab in .tsv, a comma elsewhere), and the decimal mark."""

    separator: str | None = None
    decimal: str = "."

    def __post_init__(self) -> None:
        if self.separator is not None and not _may_separate(self.separator):
            allowed = "one ASCII character that is not a quote, a line end, a space, a letter, a digit or one of - + . _"
            raise InvalidParameter("csv.separator", self.separator, allowed, 'for example separator = ";"')
        if self.decimal not in (".", ","):
            raise InvalidParameter("csv.decimal", self.decimal, '"." or ","', 'decimal = "," or leave it out')
        if self.separator == self.decimal:
            raise _same_mark(self.separator)

    def resolve(self, path: str) -> Dialect:
        """Return the dialect with the separator that the file's name implies, where none is declared."""
        if self.separator is not None:
            return self
        separator = "\t" if path.lower().endswith((".tsv", ".tsv.gz")) else ","
        if separator == self.decimal:
            raise _same_mark(separator)
        return Dialect(separator, self.decimal)


def dialect_from(given: Mapping[str, Any] | None) -> Dialect:
    """Return the dialect that a study's table `csv` declares."""
    instead = 'csv = { separator = ";", decimal = "," }'
    if given is not None and not isinstance(given, Mapping):
        raise InvalidParameter("csv", given, "a table of separator and decimal", instead)
    for key in given or {}:
        if key not in ("separator", "decimal"):
            raise InvalidParameter("a key of csv", key, "separator or decimal", instead)
    return Dialect(**(given or {}))


def header(path: str, dialect: Dialect) -> list[str]:
    """Return the names of the columns; one without a name is called by its place."""
    return _header(path, dialect.resolve(path))[0]


def read_csv(path: str, columns: Collection[str] | None, dialect: Dialect | None = None) -> Any:
    """Return a stream of the records, the named columns as text; the first record names them all.

    Parameters
    ----------
    path
        A file; one that is called .gz is unpacked on the way.
    columns
        Which to read: None for all. If none of them is there, the first is read, so that records can be counted.
    dialect
        What separates fields, and the decimal mark.

    Returns
    -------
    pyarrow.RecordBatchReader
        Valid UTF-8, null where a field is empty or absent.
    """
    import pyarrow as pa

    dialect = (dialect or Dialect()).resolve(path)
    names, start = _header(path, dialect)
    if columns and not set(columns) & set(names):
        _check_separator(path, names, dialect)
    wanted = [place for place, name in enumerate(names) if columns is None or name in columns] or [0]
    schema = pa.schema([(names[place], pa.string()) for place in wanted])

    def batches() -> Iterator[Any]:
        with _open(path) as stream:
            stream.read(start)
            for tokens in _runs(stream, ord(str(dialect.separator))):
                arrays = _columns(tokens, np.array(wanted), alone=len(names) == 1)
                if dialect.decimal == ",":
                    arrays = [_with_points(array) for array in arrays]
                yield pa.record_batch(arrays, schema=schema)

    return pa.RecordBatchReader.from_batches(schema, batches())


# The first line


def _header(path: str, dialect: Dialect) -> tuple[list[str], int]:
    """Return the columns' names and the place where the records begin. A refusal depends on the first record alone."""
    with _open(path) as stream:
        opening = stream.read(4)
        if opening.startswith(_OTHERS):
            raise _unreadable(path, " (this one begins as UTF-16 does)")
        skipped = len(_UTF8) if opening.startswith(_UTF8) else 0
        raw, fields, used = _first_record(opening[skipped:], stream, ord(str(dialect.separator)))
    if _has_bare_return(raw, str(dialect.separator)):
        allowed = "a file whose lines end in LF or CR LF (its first line ends in a lone CR)"
        raise InvalidParameter("data", path, allowed, "the file again with LF line ends")
    try:
        names = [field.decode() or f"column{place}" for place, field in enumerate(fields)]
    except UnicodeDecodeError:
        names = []
    if not names:
        raise _unreadable(path)
    if len({name.lower() for name in names}) < len(names):
        raise InvalidParameter("the first line", f"of {path}", "a different name for each column", "a line of names")
    return names, skipped + used


def _first_record(text: bytes, stream: BinaryIO, separator: int) -> tuple[bytes, list[bytes], int]:
    """Return the bytes and the fields of the first record that is not blank, and how many bytes lead to its end."""
    size, ended = 1 << 16, False
    while True:
        more = stream.read(size)
        text, ended, size = text + more, len(more) < size, 2 * size
        found = tokenise(np.frombuffer(text, np.uint8), separator, ended=ended or len(text) > _LONGEST_HEADER)
        records = np.flatnonzero(~found.blank)
        if len(records) or ended:
            break
    if not len(records):
        return b"", [], len(text)
    record = int(records[0])
    begin, end = (0, *found.after.tolist())[record : record + 2]
    fields = range(found.first[record], found.first[record] + found.count[record])
    return text[begin:end], [found.data[found.starts[i] : found.ends[i]].tobytes() for i in fields], end


def _has_bare_return(raw: bytes, separator: str) -> bool:
    """Say whether a CR that no LF follows stands in a record outside quotes."""
    mark = re.escape(separator.encode())
    unquoted = re.sub(rb'(?:\A|(?<=' + mark + rb'))"(?:[^"]|"")*+"?', b"", raw)
    return re.search(rb"\r(?!\n)", unquoted) is not None


def _check_separator(path: str, names: list[str], dialect: Dialect) -> None:
    """Refuse a file with another separator. Its first line is not shown: without a line of names it is a record."""
    own = _NAMES.get(str(dialect.separator), f"{dialect.separator!r}")
    for mark, name in _NAMES.items():
        if len(names) == 1 and mark in names[0]:
            allowed = f"a file whose fields are separated by {own}s (its first line has {name}s and no {own})"
            shown = "\\t" if mark == "\t" else mark
            instead = f'csv = {{ separator = "{shown}" }} if that is how it is written, or the file again with {own}s'
            raise InvalidParameter("data", path, allowed, instead)


# The records


def _runs(stream: BinaryIO, separator: int) -> Iterator[Tokens]:
    """Yield the records in runs of at most a block; a record longer than a block is a run of its own."""
    text, start, size, ended = b"", 0, _BLOCK, False
    while True:
        missing = size - (len(text) - start)
        if missing > 0 and not ended:
            more = stream.read(missing)
            text, start, ended = text[start:] + more, 0, len(more) < missing
        run = np.frombuffer(text, np.uint8)[start : start + size]
        found = tokenise(run, separator, ended=ended and start + size >= len(text))
        if not len(found.after):
            if ended and start + size >= len(text):
                return
            size *= 2
            continue
        if size > _BLOCK:
            found = tokenise(run[: found.after[0]], separator, ended=True)
        yield found
        start, size = start + int(found.after[-1]), _BLOCK


def _columns(tokens: Tokens, wanted: Places, *, alone: bool) -> list[Any]:
    """Return the wanted fields of every record as arrays of text; a blank line is a record of a column that is alone."""
    first, count = (each if alone else each[~tokens.blank] for each in (tokens.first, tokens.count))
    if len(tokens.data) > _LONGEST_RUN:
        return [_one_by_one(tokens, first + place, place < count) for place in wanted]
    import pyarrow as pa

    # Fields and what separates them are one array of text upon the bytes as they are; fields are taken out of it.
    places = np.empty(2 * len(tokens.starts), np.int32)
    places[::2], places[1::2] = tokens.starts, tokens.ends
    filled = np.zeros(len(places), np.bool_)
    filled[::2] = tokens.ends > tokens.starts
    valid = pa.py_buffer(np.packbits(filled, bitorder="little"))
    text = pa.StringArray.from_buffers(len(places) - 1, pa.py_buffer(places), pa.py_buffer(tokens.data), valid)
    absent = count <= wanted[:, None]
    index = np.where(absent, 0, 2 * (first + wanted[:, None]))
    fields = text.take(pa.array(index.ravel(), mask=absent.ravel()))
    return _valid([fields[row * len(first) : (row + 1) * len(first)] for row in range(len(wanted))], fields)


def _valid(arrays: list[Any], together: Any) -> list[Any]:
    """Return arrays of valid UTF-8; only a field that is not is changed."""
    return arrays if _is_valid(together) else [each if _is_valid(each) else _replaced(each) for each in arrays]


def _is_valid(array: Any) -> bool:
    import pyarrow as pa

    try:
        array.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def _replaced(array: Any) -> Any:
    """Return the text with U+FFFD for each sequence of bytes that is not UTF-8, field by field."""
    import pyarrow as pa

    fields = array.view(pa.binary()).to_pylist()
    return pa.array([field and field.decode("utf-8", "replace") for field in fields], pa.string())


def _one_by_one(tokens: Tokens, places: Places, there: NDArray[np.bool_]) -> Any:
    """Return one column of a record that is too long for Arrow; so is a field, which is then missing."""
    import pyarrow as pa

    def field(place: int) -> bytes | None:
        start, end = int(tokens.starts[place]), int(tokens.ends[place])
        return tokens.data[start:end].tobytes() if 0 < end - start <= _LONGEST_FIELD else None

    fields = [field(place) if here else None for place, here in zip(places, there, strict=True)]
    return _replaced(pa.array(fields, pa.binary()))


def _with_points(array: Any) -> Any:
    """Return the text with a point for the comma of each field that is a number with one comma."""
    import pyarrow.compute as pc

    if not pc.any(pc.match_substring(array, ",")).as_py():
        return array
    return pc.replace_substring_regex(array, pattern=_DECIMAL_COMMA, replacement=r"\1\2.\3\4\5")


# Files and faults


def _open(path: str) -> BinaryIO:
    return cast(BinaryIO, gzip.open(path) if path.lower().endswith(".gz") else Path(path).open("rb"))


def _may_separate(mark: Any) -> bool:
    return isinstance(mark, str) and len(mark) == 1 and mark.isascii() and not (mark.isalnum() or mark in _NOT_SEPARATORS)


def _same_mark(mark: str) -> InvalidParameter:
    instead = 'csv = { separator = ";", decimal = "," } if that is how the file is written'
    return InvalidParameter("csv.separator", mark, "another character than csv.decimal", instead)


def _unreadable(path: str, why: str = "") -> InvalidParameter:
    instead = "the path of one that is whole, text in UTF-8 below a line of names"
    return InvalidParameter("data", path, f"a file that can be read as csv{why}", instead)
