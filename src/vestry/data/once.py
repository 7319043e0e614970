"""Streams that can be read once: a second reading would find no record, and is refused."""

from __future__ import annotations

import weakref
from typing import Any

from vestry.data.dataframes import frame_kind
from vestry.errors import InvalidParameter

_READ: weakref.WeakSet[Any] = weakref.WeakSet()


def check_unread(data: Any, *, counted: bool = False) -> None:
    """Refuse a stream that was read already, or that would have to be counted before it is read."""
    if frame_kind(data) == "pyarrow-reader" and (counted or data in _READ):
        allowed = "read once" + (", so that its records cannot be counted first" if counted else "")
        raise InvalidParameter("data", "a RecordBatchReader", allowed, "data=reader.read_all(), a table")


def mark_read(data: Any) -> None:
    """Refuse a stream that was read already; remember that it is read now."""
    check_unread(data)
    if frame_kind(data) == "pyarrow-reader":
        _READ.add(data)
