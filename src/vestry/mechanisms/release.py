"""From an accepted charge to a release: open, draw, certify, and tell the ledger what was made."""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from typing import Any, Protocol

from vestry.errors import IN_LEDGER, DeclarationMismatch
from vestry.ledger import Charge, OpenCharge
from vestry.noise import NoiseSource, SystemNoise
from vestry.privacy.event import Event
from vestry.privacy.guarantee import Guarantee
from vestry.privacy.neighbours import Adjacency
from vestry.releases import Certificate, Draws, NoisyStatistics, Release
from vestry.schema.private import Private, PrivateRows


class Mechanism(Protocol):
    """What a release needs to know of the mechanism that made it."""

    @property
    def name(self) -> str:
        """The mechanism's name."""

    @property
    def parameter(self) -> str:
        """The name of the parameter that was calibrated."""

    @property
    def value(self) -> float:
        """Its value."""

    @property
    def event(self) -> Event:
        """What runs."""

    @property
    def charge(self) -> Event:
        """What the ledger is charged for it."""

    @property
    def theorem(self) -> str:
        """The result that the claim rests on."""

    @property
    def guarantee(self) -> Guarantee:
        """What was asked for and is met."""

    @property
    def population(self) -> Adjacency:
        """Which neighbours are hidden."""

    def release(self, private: Any, opened: OpenCharge, noise: NoiseSource) -> Sequence[NoisyStatistics | Draws]:
        """Draw, for each group."""


def certificate(mechanism: Mechanism, *, unit: str = "row") -> Certificate:
    """Write down what is promised, and enough to compute the claim again."""
    population = mechanism.population
    return Certificate(
        guarantee=mechanism.guarantee.to_dict(),
        event=mechanism.event.to_dict(),
        mechanism=mechanism.name,
        parameter=mechanism.parameter,
        value=mechanism.value,
        theorem=mechanism.theorem,
        unit=unit,
        population={
            "neighbours": str(population.neighbours),
            "rows": population.rows,
            "count": "private" if population.count is None else population.count,
            "groups": population.groups,
        },
        assumptions=assumptions_of(mechanism),
        versions={"python": platform.python_version(), **{name: version(name) for name in ("vestry", "opendp")}},
    )


def assumptions_of(mechanism: Mechanism) -> tuple[str, ...]:
    """Return what no theorem covers; nothing for a mechanism that says nothing of it."""
    return tuple(getattr(mechanism, "assumptions", ()))


def publish(
    mechanism: Mechanism,
    private: Private | PrivateRows,
    charge: Charge,
    *,
    family: Mapping[str, Any],
    prior: Sequence[float],
    by: str | None = None,
    groups: Sequence[str] = ("all",),
    labels: Sequence[str] = (),
    noise: NoiseSource | None = None,
    keep: Callable[[str], None] = lambda text: None,
) -> Release:
    """Open the charge, draw, and return the release, whose hash the ledger keeps.

    The charge must be the mechanism's own: what is drawn is what was paid for. `keep` is given the release's text
    before the ledger is told that it exists, to save it: a crash in between loses nothing that was paid for.
    """
    charged: Mapping[str, Any] = charge.entry.facts["event"]
    if charged != mechanism.charge.under(mechanism.population.neighbours).to_dict():
        raise DeclarationMismatch(
            "event", mechanism.event.kind, str(charged.get("kind")), "charge the mechanism's own event"
        )
    if len(groups) != mechanism.population.groups:
        raise DeclarationMismatch(
            "number of groups", str(len(groups)), str(mechanism.population.groups), "name each group"
        )
    terms, population = charge.ledger.terms, mechanism.population
    if terms.unit.rows != population.rows:
        instead = "calibrate for the ledger's unit"
        raise DeclarationMismatch(
            "rows of a unit", str(population.rows), str(terms.unit.rows), instead, where=IN_LEDGER
        )
    claim = certificate(mechanism, unit=str(terms.unit))
    opened = charge.open()
    contents = mechanism.release(private, opened, noise or SystemNoise())
    made = dict(zip(groups, contents, strict=True))
    release = Release(dict(family), tuple(float(x) for x in prior), made, claim, by, tuple(labels))
    keep(release.text())
    opened.released(release.text().encode())
    return release
