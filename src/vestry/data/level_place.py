"""The places of levels in a column that comes with a dictionary: each different text is looked up once.

DuckDB evaluates an expression once for each entry of a dictionary of its own, and once for each record of one of
Arrow's, which takes seven times as long. So a column of text that has a dictionary becomes a column of whole numbers
here, by the same relation as in SQL (`vestry.schema.meaning`). Exact levels are left to SQL.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from vestry.schema.domain import DROP, LEVEL, Levels
from vestry.schema.meaning import level_text

# What is added to the name of a column of places. No column is called so: names are text without control characters.
PLACED = "\x1fplace"


def missing_place(domain: Levels) -> int | None:
    """Return the place of a missing value, None where the record is dropped."""
    if domain.missing == DROP:
        return None
    return len(domain.values) if domain.missing == LEVEL else domain.values.index(domain.stand_in)


class Places:
    """Turns dictionary arrays of text into places among declared levels; the last dictionary is remembered."""

    def __init__(self, domain: Levels) -> None:
        self._missing = missing_place(domain)
        self._known = {text: place for place, text in enumerate(domain.texts)}
        self._dictionary: Any = None
        self._table = np.zeros(0, dtype=np.int32)

    def of(self, array: Any) -> Any:
        """Return the places of an array of cleaned text, null where the record is dropped."""
        import pyarrow as pa

        if self._dictionary is None or not array.dictionary.equals(self._dictionary):
            self._dictionary = array.dictionary
            texts = array.dictionary.to_pylist()
            self._table = np.array([self._place(text) for text in (*texts, None)], dtype=np.int32)
        indices = array.indices.fill_null(len(self._table) - 1).to_numpy(zero_copy_only=False)
        places = self._table[indices]
        return pa.array(places, pa.int32(), mask=places < 0 if self._missing is None else None)

    def _place(self, text: str | None) -> int:
        own = None if text is None else level_text(text)
        missing = -1 if self._missing is None else self._missing
        return missing if own is None else self._known.get(own, missing)
