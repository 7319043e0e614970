"""What ran: a frozen record of a kind and its numbers, from which every price follows.

An event never changes meaning: the ledger keeps it for years. Its price is found by kind in `vestry.privacy.pricing`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from vestry.errors import DeclarationMismatch, InvalidParameter
from vestry.privacy.neighbours import Neighbours
from vestry.validation import require_whole

Profile = Callable[[float], float]
Value = float | tuple[float, ...] | Profile

COMPOSITION = "composition"


@dataclass(frozen=True)
class Event:
    """A mechanism that ran `count` times, or a composition of such parts.

    Make one with `vestry.events` or `vestry.event`, which check the parameters, or with `compose`.
    """

    kind: str
    parameters: tuple[tuple[str, Value], ...] = ()
    parts: tuple[Event, ...] = ()
    count: int = 1
    neighbours: Neighbours | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "count", require_whole("count", self.count))

    def times(self, count: int) -> Event:
        """Return the event run `count` times."""
        return replace(self, count=self.count * require_whole("count", count))

    def under(self, neighbours: Neighbours | str | None) -> Event:
        """Bind the neighbours relation, if one is given; an event that already states another one is refused."""
        relation = Neighbours.bind(self.neighbours, neighbours)
        return replace(self, neighbours=relation, parts=tuple(part.under(relation) for part in self.parts))

    def leaves(self) -> Iterator[tuple[Event, int]]:
        """Yield each single event with how often it ran in all: the one place where counts multiply."""
        if self.kind != COMPOSITION:
            yield self if self.count == 1 else replace(self, count=1), self.count
        for part in self.parts:
            for leaf, count in part.leaves():
                yield leaf, count * self.count

    def to_dict(self) -> dict[str, Any]:
        """Return a record of plain numbers and text; an event that holds a callable has none."""
        record: dict[str, Any] = {"kind": self.kind, "count": self.count}
        if self.parts:
            record["parts"] = [part.to_dict() for part in self.parts]
        for name, value in self.parameters:
            if callable(value):
                raise InvalidParameter(
                    "an event", self.kind, "numbers, to be written down", "the curve it is charged at"
                )
            record.setdefault("parameters", {})[name] = list(value) if isinstance(value, tuple) else value
        if self.neighbours is not None:
            record["neighbours"] = str(self.neighbours)
        return record

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Event:
        """Read a record back; no price is needed, so a ledger can be read by a version that lacks the kind."""
        return cls(
            kind=record["kind"],
            parameters=tuple(
                (name, tuple(value) if isinstance(value, list) else value)
                for name, value in record.get("parameters", {}).items()
            ),
            parts=tuple(cls.from_dict(part) for part in record.get("parts", ())),
            count=record["count"],
            neighbours=Neighbours.bind(None, record.get("neighbours")),
        )


def compose(*events: Event) -> Event:
    """Compose events of one neighbours relation; each may have been chosen after seeing those before it."""
    if not events:
        raise InvalidParameter("a composition", events, "at least one event", "compose(event, ...)")
    first = events[0].neighbours
    for event in events:
        if event.neighbours != first:
            raise DeclarationMismatch(
                "neighbours relation", str(event.neighbours), str(first), "compose events of one relation"
            )
    return Event(COMPOSITION, parts=events, neighbours=first)
