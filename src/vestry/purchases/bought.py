"""A noisy statistic as it was bought, and its file."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from vestry.errors import InvalidParameter
from vestry.noise_inversion.noise_sum import NoiseSum
from vestry.purchases.noisy import Noisy, Observation
from vestry.releases import Certificate
from vestry.statistics.documents import statistic_from_document
from vestry.statistics.statistic import Statistic
from vestry.validation import is_number, is_whole

FORMAT = "vestry-statistic-1"


@dataclass(frozen=True)
class Bought:
    """A noisy statistic, with what is promised of it.

    Attributes
    ----------
    statistic
        What was bought.
    values
        The noisy integers.
    noise, scale
        The law of the noise on each of them.
    grid
        The integer that stands for one record.
    total
        The number of records where it is public.
    certificate
        What is promised.
    charge, charged_at
        The entry of the ledger that paid for it, and when.
    """

    statistic: Statistic
    values: tuple[int, ...]
    noise: str
    scale: float
    grid: int
    total: int | None
    certificate: Certificate
    charge: int
    charged_at: str

    @property
    def law(self) -> NoiseSum:
        """The law of the noise on one integer."""
        return NoiseSum.of_one(self.noise, self.scale)

    @property
    def noisy(self) -> Noisy:
        """The integers as an observation."""
        values = np.array(self.values, dtype=np.int64)
        law_of_integer = np.zeros(len(values), dtype=np.int64)
        observation = Observation(values, (self.law,), law_of_integer)
        return Noisy(self.statistic.names, (observation,), self.grid, self.total)

    def text(self) -> str:
        """Return the file's text; its hash stands in the ledger."""
        document = {"format": FORMAT, **asdict(self)}
        document["statistic"] = json.loads(self.statistic.identity().text)
        return json.dumps(document, ensure_ascii=True, indent=1) + "\n"

    @classmethod
    def from_text(cls, text: str) -> Bought:
        """Return the statistic that a file holds."""
        try:
            document = json.loads(text)
        except ValueError:
            raise _not_a_release("text that is no JSON") from None
        if not isinstance(document, Mapping) or document.get("format") != FORMAT:
            raise _not_a_release("another format")
        try:
            return _from_document(document)
        except (KeyError, TypeError, ValueError, OverflowError):
            raise _not_a_release("a part that is missing or of another type") from None


def _from_document(document: Mapping[str, Any]) -> Bought:
    if document.keys() != _PARTS.keys():
        raise _not_a_release("a part that is missing, or one too many")
    for name, fits in _PARTS.items():
        if not fits(document[name]):
            raise _not_a_release(f"a {name} of another type")
    statistic = statistic_from_document(document["statistic"])
    values = _whole_numbers(document["values"])
    if len(values) != len(statistic.names):
        raise _not_a_release("another number of values than its statistic has")
    NoiseSum.of_one(document["noise"], document["scale"])
    certificate = dict(document["certificate"])
    certificate["assumptions"] = tuple(certificate["assumptions"])
    others = {name: document[name] for name in ("noise", "scale", "grid", "total", "charge", "charged_at")}
    return Bought(statistic=statistic, values=values, certificate=Certificate(**certificate), **others)


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_object(value: object) -> bool:
    return isinstance(value, dict)


def _is_list(value: object) -> bool:
    return isinstance(value, list)


def _is_whole_or_none(value: object) -> bool:
    return value is None or is_whole(value)


# Every part of a file, and what it must be.
_PARTS: Mapping[str, Callable[[object], bool]] = {
    "format": _is_text,
    "statistic": _is_object,
    "values": _is_list,
    "noise": _is_text,
    "scale": is_number,
    "grid": is_whole,
    "total": _is_whole_or_none,
    "certificate": _is_object,
    "charge": is_whole,
    "charged_at": _is_text,
}


def _whole_numbers(values: Sequence[Any]) -> tuple[int, ...]:
    for value in values:
        if not is_whole(value):
            raise _not_a_release("values that are no whole numbers")
        if abs(value) >= 2**63:
            raise _not_a_release("values beyond 64 bits")
    return tuple(values)


def _not_a_release(reason: str) -> InvalidParameter:
    return InvalidParameter("a release file", reason, f"a file of the format {FORMAT}", "the file as it was written")
