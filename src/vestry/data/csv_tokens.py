"""Where the records and fields of a run of CSV bytes lie, found by array operations.

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

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

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
    """Return the whole records of a run that begins with a record; if the file ends with it, what is left is one."""
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
    found = _fields(run[:used], at[: int(lines[-1]) + 1 if len(lines) else 0], lines)
    return _unquoted(found, quotes[:used]) if quoted else found


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
    found = np.zeros_like(places)
    np.add(places[:-1], 1, out=found[1:])
    return found


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
    found = []
    for begin, touch in zip(begins.tolist(), touches.tolist(), strict=True):
        last = inside or begin or (touch and last)
        inside ^= last
        found.append(last)
    return found


def _inside(quotes: Flags) -> Flags:
    """Return which bytes have an odd number of structural quotes before them, themselves included."""
    return np.bitwise_xor.accumulate(quotes.view(np.uint8)).view(np.bool_)


def _shifted(flags: Flags, *, first: bool) -> Flags:
    """Return for each byte the flag of the byte before it."""
    found = np.empty_like(flags)
    found[:1] = first
    found[1:] = flags[:-1]
    return found
