"""CSV files as streams of text columns: whatever a record holds, reading it is not an error.

The grammar is below. Fields beyond the named columns are ignored, absent and empty ones are missing,
and bytes that are not UTF-8 become U+FFFD. A file is read in runs of whole records, so that memory does not grow with
it; only one record must fit. A quote that is never closed swallows what follows it; no CSV writer leaves one.

Where the records and fields of a run of CSV bytes lie, found by array operations.

The grammar is RFC 4180 read as writers mean it. A field that begins with a quote is quoted: in it a doubled quote is a
quote, and everything else, line ends too, belongs to the field; what stands between its closing quote and the next
separator is appended. A quote elsewhere is an ordinary character. A record ends at LF or CR LF outside quotes and
nowhere else, so that a CR that no LF follows belongs to its field.

Only quotes need a state. Let a quote be *structural* if it opens, closes or doubles. Then a byte is inside quotes if
the number of structural quotes before it is odd, and a quote is structural if it is inside, or begins a field, or
touches a structural quote on its left. In a file that obeys RFC 4180 every quote is structural: this is assumed first,
and checked, and only a run where it fails is walked quote by quote.
"""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from vestry.data.arrow_values import of_arrow
from vestry.data.source import Dialect, Selection, Source
from vestry.errors import InvalidParameter

_BLOCK = 1 << 21
_LONGEST_HEADER = 1 << 24
# Arrow's offsets of text have 31 bits.
_LONGEST_RUN = 2**31 - 1
_LONGEST_FIELD = 2**30
_NAMES = {",": "comma", ";": "semicolon", "\t": "tab", "|": "bar"}
_UTF8, _OTHERS = b"\xef\xbb\xbf", (b"\xff\xfe", b"\xfe\xff", b"\x00\x00\xfe\xff")
_SPACE, _POWER = r"[ \t\n\r\v\f]*", "(?:[eE][+-]?[0-9]{1,4})?"
_DECIMAL_COMMA = rf"\A({_SPACE}[+-]?)(?:([0-9]+),([0-9]*)|,([0-9]+))({_POWER}{_SPACE})\z"


def open_csv(path: str, selection: Selection) -> Source:
    """Open a CSV file: every field is text, and a field is read by its own value."""
    reader = read_csv(str(Path(path).expanduser()), selection.columns, selection.dialect)
    return of_arrow("csv", [(reader.schema, reader)], selection)


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
    raw, fields, used = _first_record(path, ord(str(dialect.separator)))
    if _has_bare_return(raw, str(dialect.separator)):
        allowed = "a file whose lines end in LF or CR LF (its first line ends in a lone CR)"
        raise InvalidParameter("data", path, allowed, "the file again with LF line ends")
    try:
        names = [field.decode() or f"column{place}" for place, field in enumerate(fields)]
    except UnicodeDecodeError:
        names = []
    if not names or used > _LONGEST_HEADER:
        raise _unreadable(path)
    if len({name.lower() for name in names}) < len(names):
        raise InvalidParameter("the first line", f"of {path}", "a different name for each column", "a line of names")
    return names, used


def _first_record(path: str, separator: int) -> tuple[bytes, list[bytes], int]:
    """Return the bytes and the fields of the first record that is not blank, and where the next begins."""
    try:
        with _open(path) as stream:
            opening = stream.read(4)
            skipped = len(_UTF8) if opening.startswith(_UTF8) else 0
            text, tokens = _until_a_record(opening[skipped:], stream, separator)
    except (gzip.BadGzipFile, EOFError, zlib.error):
        opening, tokens = b"", None
    if opening.startswith(_OTHERS):
        raise _unreadable(path, " (this one begins as UTF-16 does)")
    if tokens is None or tokens.blank.all():
        raise _unreadable(path)
    record = int(np.argmin(tokens.blank))
    begin, end = (0, *tokens.after.tolist())[record : record + 2]
    fields = range(tokens.first[record], tokens.first[record] + tokens.count[record])
    parts = [tokens.data[tokens.starts[i] : tokens.ends[i]].tobytes() for i in fields]
    return text[begin:end], parts, skipped + end


def _until_a_record(text: bytes, stream: BinaryIO, separator: int) -> tuple[bytes, Tokens]:
    """Return bytes with a record that is not blank, and its fields; or all there are, up to the longest first line."""
    size = 1 << 16
    while True:
        more = stream.read(size)
        text, ended = text + more, len(more) < size or len(text) > _LONGEST_HEADER
        tokens = tokenise(np.frombuffer(text, np.uint8), separator, ended=ended)
        if ended or not tokens.blank.all():
            return text, tokens
        size *= 2


def _has_bare_return(raw: bytes, separator: str) -> bool:
    """Say whether a CR that no LF follows stands in a record outside quotes."""
    mark = re.escape(separator.encode())
    unquoted = re.sub(rb"(?:\A|(?<=" + mark + rb'))"(?:[^"]|"")*+"?', b"", raw)
    return re.search(rb"\r(?!\n)", unquoted) is not None


def _check_separator(path: str, names: list[str], dialect: Dialect) -> None:
    """Refuse a file with another separator. Its first line is not shown: without a line of names it is a record."""
    own = _NAMES.get(str(dialect.separator), f"{dialect.separator!r} mark")
    for mark, name in _NAMES.items():
        if len(names) == 1 and mark in names[0]:
            allowed = f"a file whose fields are separated by {own}s (its first line has {name}s and no {own})"
            shown = "\\t" if mark == "\t" else mark
            instead = f'csv = {{ separator = "{shown}" }} if that is how it is written, or the file again with {own}s'
            raise InvalidParameter("data", path, allowed, instead)


# The records


def _runs(stream: BinaryIO, separator: int) -> Iterator[Tokens]:
    """Yield the records in runs of at most a block; a record longer than a block is a run by itself."""
    text, start, size, ended = b"", 0, _BLOCK, False
    while True:
        missing = size - (len(text) - start)
        if missing > 0 and not ended:
            more = stream.read(missing)
            text, start, ended = text[start:] + more, 0, len(more) < missing
        run = np.frombuffer(text, np.uint8)[start : start + size]
        tokens = tokenise(run, separator, ended=ended and start + size >= len(text))
        if not len(tokens.after):
            if ended and start + size >= len(text):
                return
            size *= 2
            continue
        if size > _BLOCK:
            tokens = tokenise(run[: tokens.after[0]], separator, ended=True)
        yield tokens
        start, size = start + int(tokens.after[-1]), _BLOCK


def _columns(tokens: Tokens, wanted: Places, *, alone: bool) -> list[Any]:
    """Return the wanted fields of every record as arrays of text; a blank line counts if the column is alone."""
    first, count = (each if alone else each[~tokens.blank] for each in (tokens.first, tokens.count))
    if len(tokens.data) > _LONGEST_RUN:
        return [_one_by_one(tokens, first + place, place < count) for place in wanted]
    # Fields and what separates them are one array of text upon the bytes as they are; fields are taken out of it.
    places = np.empty(2 * len(tokens.starts), np.int32)
    places[::2], places[1::2] = tokens.starts, tokens.ends
    filled = np.zeros(len(places), np.bool_)
    filled[::2] = tokens.ends > tokens.starts
    valid = pa.py_buffer(np.packbits(filled, bitorder="little"))
    text = pa.StringArray.from_buffers(len(places) - 1, pa.py_buffer(places), pa.py_buffer(tokens.data), valid)
    index, absent = 2 * (first + wanted[:, None]), count <= wanted[:, None]
    fields = text.take(pa.array(index.ravel(), mask=absent.ravel() if absent.any() else None))
    return _valid([fields[row * len(first) : (row + 1) * len(first)] for row in range(len(wanted))], fields)


def _valid(arrays: list[Any], together: Any) -> list[Any]:
    """Return arrays of valid UTF-8; only a field that is not is changed."""
    return arrays if _is_valid(together) else [each if _is_valid(each) else _replaced(each) for each in arrays]


def _is_valid(array: Any) -> bool:
    try:
        array.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def _replaced(array: Any) -> Any:
    """Return the text with U+FFFD for each sequence of bytes that is not UTF-8, field by field."""
    fields = array.view(pa.binary()).to_pylist()
    return pa.array([field and field.decode("utf-8", "replace") for field in fields], pa.string())


def _one_by_one(tokens: Tokens, places: Places, there: NDArray[np.bool_]) -> Any:
    """Return one column of a record that is too long for Arrow; so is a field, which is then missing."""

    def field(place: int) -> bytes | None:
        start, end = int(tokens.starts[place]), int(tokens.ends[place])
        return tokens.data[start:end].tobytes() if 0 < end - start <= _LONGEST_FIELD else None

    fields = [field(place) if here else None for place, here in zip(places, there, strict=True)]
    return _replaced(pa.array(fields, pa.binary()))


def _with_points(array: Any) -> Any:
    """Return the text with a point for the comma of each field that is a number with one comma."""
    if not pc.any(pc.match_substring(array, ",")).as_py():
        return array
    return pc.replace_substring_regex(array, pattern=_DECIMAL_COMMA, replacement=r"\1\2.\3\4\5")


# Files and faults


def _open(path: str) -> BinaryIO:
    return cast(BinaryIO, gzip.open(path) if path.lower().endswith(".gz") else Path(path).open("rb"))


def _unreadable(path: str, why: str = "") -> InvalidParameter:
    instead = "the path of one that is whole, text in UTF-8 below a line of names"
    return InvalidParameter("data", path, f"a file that can be read as csv{why}", instead)


LF, CR, QUOTE = b'\n\r"'

Bytes = NDArray[np.uint8]
Places = NDArray[np.int64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class Tokens:
    """The fields of whole records: field i is `data[starts[i]:ends[i]]`, and record j begins at field `first[j]`.

    Attributes
    ----------
    data
        The bytes without structural quotes.
    starts, ends
        Where each field lies in `data`.
    first, count
        Each record's first field, and how many it has.
    after
        Where each record's bytes end in the run, its line end included.
    blank
        Which records are lines with nothing in them, not even quotes.
    """

    data: Bytes
    starts: Places
    ends: Places
    first: Places
    count: Places
    after: Places
    blank: Flags


def tokenise(run: Bytes, separator: int, *, ended: bool) -> Tokens:
    """Return the whole records of a run that begins with a record; if the file ends with it, what remains is one."""
    marks, quotes = (run == separator) | (run == LF), run == QUOTE
    quoted = bool(quotes.any())
    if quoted:
        quotes, inside = _structural(quotes, marks)
        marks &= ~inside
    at = np.flatnonzero(marks)
    lines = np.flatnonzero(run[at] == LF)
    used = int(at[lines[-1]]) + 1 if len(lines) else 0
    if ended and used < len(run):
        # What follows the last line end is a record, and the end of the file is its end.
        lines, at, used = np.append(lines, len(at)), np.append(at, len(run)), len(run)
    tokens = _fields(run[:used], at[: int(lines[-1]) + 1 if len(lines) else 0], lines)
    return _unquoted(tokens, quotes[:used]) if quoted else tokens


def _fields(run: Bytes, at: Places, lines: Places) -> Tokens:
    """Return the fields that end at the given places of the run, of which those at `lines` end a record."""
    stops = at[lines]
    first, begins = _following(lines), _following(stops)
    # The byte before a line end is outside quotes unless it is a quote: a CR there belongs to the line end.
    carriage = (stops > begins) & (stops < len(run)) & (run[np.maximum(stops - 1, 0)] == CR)
    starts = _following(at)
    at[lines] -= carriage
    after = np.minimum(stops + 1, len(run))
    return Tokens(run, starts, at, first, lines - first + 1, after, stops - carriage == begins)


def _following(places: Places) -> Places:
    """Return 0 and the places after all but the last."""
    after = np.zeros_like(places)
    np.add(places[:-1], 1, out=after[1:])
    return after


def _unquoted(tokens: Tokens, quotes: Flags) -> Tokens:
    """Return the fields without their structural quotes."""
    run, starts, ends = tokens.data, tokens.starts, tokens.ends
    plain = (ends - starts > 1) & quotes[np.minimum(starts, len(run) - 1)] & quotes[ends - 1]
    if 2 * np.count_nonzero(plain) == np.count_nonzero(quotes):
        return replace(tokens, starts=starts + plain, ends=ends - plain)
    # Of two quotes that stand for one the second stays.
    removed = quotes & ~(_inside(quotes) & _shifted(quotes, first=False))
    gone = np.flatnonzero(removed)
    starts, ends = (places - np.searchsorted(gone, places) for places in (starts, ends))
    return replace(tokens, data=run[~removed], starts=starts, ends=ends)


def _structural(quotes: Flags, marks: Flags) -> tuple[Flags, Flags]:
    """Return which quotes are structural, and which bytes are inside, given where separators and line ends are."""
    begins, touches, inside = _shifted(marks, first=True), _shifted(quotes, first=False), _inside(quotes)
    if not (quotes & inside & ~(begins | touches)).any():
        return quotes, inside
    at = np.flatnonzero(quotes)
    structural = quotes.copy()
    structural[at] = _walk(begins[at], touches[at])
    return structural, _inside(structural)


def _walk(begins: Flags, touches: Flags) -> list[bool]:
    """Return which quotes are structural, given which are at the place where a field may begin or touch a quote."""
    inside = last = False
    structural = []
    for begin, touch in zip(begins.tolist(), touches.tolist(), strict=True):
        last = inside or begin or (touch and last)
        inside ^= last
        structural.append(last)
    return structural


def _inside(quotes: Flags) -> Flags:
    """Return which bytes have an odd number of structural quotes before them, themselves included."""
    return np.bitwise_xor.accumulate(quotes.view(np.uint8)).view(np.bool_)


def _shifted(flags: Flags, *, first: bool) -> Flags:
    """Return for each byte the flag of the byte before it."""
    before = np.empty_like(flags)
    before[:1] = first
    before[1:] = flags[:-1]
    return before
