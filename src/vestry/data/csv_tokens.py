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

from dataclasses import dataclass

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
    quoted = run == QUOTE
    marks = (run == separator) | (run == LF)
    if quoted.any():
        data, at, removed = _unquote(run, np.flatnonzero(marks | quoted), separator)
    else:
        data, at, removed = run, np.flatnonzero(marks), None
    lines = np.flatnonzero(run[at] == LF)
    if ended and (not len(lines) or at[lines[-1]] + 1 < len(run)) and len(run):
        # What follows the last line end is a record, and the end of the file is its end.
        lines = np.append(lines, len(at))
        at = np.append(at, len(run))
        removed = None if removed is None else np.append(removed, len(run) - len(data))
    whole = int(lines[-1]) + 1 if len(lines) else 0
    return _fields(run, data, at[:whole], lines, 0 if removed is None else removed[:whole])


def _fields(run: Bytes, data: Bytes, at: Places, lines: Places, removed: Places | int) -> Tokens:
    """Return the fields that end at the given places of the run, of which those at `lines` end a record."""
    stops = at[lines]
    first, begins = _following(lines), _following(stops)
    # The byte before a line end is outside quotes unless it is a quote: a CR there belongs to the line end.
    carriage = (stops > begins) & (stops < len(run)) & (run[np.maximum(stops - 1, 0)] == CR)
    ends = at - removed
    starts = _following(ends)
    ends[lines] -= carriage
    after = np.minimum(stops + 1, len(run))
    return Tokens(data, starts, ends, first, lines - first + 1, after, stops - carriage == begins)


def _following(places: Places) -> Places:
    """Return 0 and the places after all but the last."""
    return np.concatenate([np.zeros(1, np.int64), places[:-1] + 1])[: len(places)]


def _unquote(run: Bytes, at: Places, separator: int) -> tuple[Bytes, Places, Places]:
    """Return the run without structural quotes, the marks outside quotes, and how many bytes are gone before each."""
    quote = run[at] == QUOTE
    quotes = at[quote]
    before = run[np.maximum(quotes - 1, 0)]
    opens = (before == separator) | (before == LF) | (quotes == 0)
    touches = np.diff(quotes, prepend=-2) == 1
    structural = _structural(opens, touches)
    inside = np.zeros(len(at), np.int64)
    inside[quote] = structural
    inside = np.cumsum(inside) & 1
    # Of two quotes that stand for one the second stays.
    doubled = touches & structural & (inside[quote] == 1)
    gone = np.zeros(len(at), np.int64)
    gone[quote] = structural & ~doubled
    kept = np.ones(len(run), np.bool_)
    kept[at[gone == 1]] = False
    marks = ~quote & (inside == 0)
    return run[kept], at[marks], np.cumsum(gone)[marks]


def _structural(opens: Flags, touches: Flags) -> Flags:
    """Return which quotes are structural, given which would begin a field and which touch a quote on their left."""
    regular = opens | touches
    if regular[::2].all():
        return np.ones(len(opens), np.bool_)
    inside = last = False
    found = []
    for begins, touching in zip(opens.tolist(), touches.tolist(), strict=True):
        last = inside or begins or (touching and last)
        inside ^= last
        found.append(last)
    return np.array(found, np.bool_)
