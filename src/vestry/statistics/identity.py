"""The identity of a statistic: equal identities mean the same integers on every table."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

Document = Mapping[str, "Entry"]
Entry = str | int | bool | None | Sequence["Entry"] | Document


@dataclass(frozen=True)
class Identity:
    """A canonical JSON text."""

    text: str

    @classmethod
    def of(cls, document: Document) -> Identity:
        """Return the identity with this content."""
        return cls(json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=True))

    @property
    def sha256(self) -> str:
        """The hash by which a ledger knows the statistic."""
        return hashlib.sha256(self.text.encode()).hexdigest()
