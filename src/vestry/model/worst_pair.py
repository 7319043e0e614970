"""Two neighbouring datasets that are easy to tell apart, as a model names them for audits.

A dataset is what a mechanism is given: the integers of its layout (noisy statistics), or integer sums and then the
count (posterior draws), group after group.
"""

from __future__ import annotations

from dataclasses import dataclass

from vestry.errors import GuaranteeUnreachable

Dataset = tuple[int, ...]


@dataclass(frozen=True)
class Pair:
    """Two neighbouring datasets, and in words what differs."""

    name: str
    first: Dataset
    second: Dataset

    @property
    def datasets(self) -> tuple[Dataset, Dataset]:
        """Both."""
        return self.first, self.second


def count_records(k: int) -> str:
    """Say how many records."""
    return "1 record" if k == 1 else f"{k} records"


def say_records(k: int, verb: str) -> str:
    """Say what so many records do."""
    return f"1 record {'goes' if verb == 'go' else verb + 's'}" if k == 1 else f"{k} records {verb}"


def no_pair(mechanism: str, family: str) -> GuaranteeUnreachable:
    """Return the refusal of an audit whose worst neighbours are not known."""
    return GuaranteeUnreachable(
        f"worst-case neighbours of {mechanism} for {family}",
        "audit it in Python, with vestry.audit.audit and neighbours of your own",
    )
