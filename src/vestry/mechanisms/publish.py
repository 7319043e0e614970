"""From an accepted charge to a release: open, draw, certify, and tell the ledger what was made."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import Any, Protocol

from vestry.errors import Mismatch
from vestry.families import Family
from vestry.ledger import Charge, Opened
from vestry.noise import Noise, SystemNoise
from vestry.privacy.event import Event
from vestry.privacy.guarantee import Guarantee
from vestry.release import Certificate, Draws, NoisyStatistics, Release
from vestry.statistics.population import Population
from vestry.statistics.private import Private


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
    def theorem(self) -> str:
        """The result that the claim rests on."""

    @property
    def guarantee(self) -> Guarantee:
        """What was asked for and is met."""

    @property
    def population(self) -> Population:
        """Which neighbours are hidden."""

    def release(self, private: Private, opened: Opened, noise: Noise) -> NoisyStatistics | Draws:
        """Draw."""


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
        },
        versions={"python": platform.python_version(), **{name: version(name) for name in ("vestry", "opendp")}},
    )


def publish(
    mechanism: Mechanism,
    private: Private,
    charge: Charge,
    *,
    family: Family,
    prior: Sequence[float],
    noise: Noise | None = None,
) -> Release:
    """Open the charge, draw, and return the release, whose hash the ledger keeps.

    The charge must be for the mechanism's own event: what is drawn is what was paid for.
    """
    charged: Mapping[str, Any] = charge.entry.facts["event"]
    if charged != mechanism.event.to_dict():
        raise Mismatch("event", mechanism.event.kind, str(charged.get("kind")), "charge the mechanism's own event")
    terms, population = charge.ledger.terms, mechanism.population
    if terms.unit.rows != population.rows:
        raise Mismatch("rows of a unit", str(population.rows), str(terms.unit.rows), "calibrate for the ledger's unit")
    claim = certificate(mechanism, unit=str(terms.unit))
    opened = charge.open()
    content = mechanism.release(private, opened, noise or SystemNoise())
    release = Release(family.to_dict(), tuple(float(x) for x in prior), {"all": content}, claim)
    opened.released(release.text().encode())
    return release
