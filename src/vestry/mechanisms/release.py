"""From an accepted charge to a release: open, draw, certify, and tell the ledger what was made.

From a mechanism's name to the mechanism, calibrated to a guarantee, or to what runs at a value of its parameter.
"""

from __future__ import annotations

import json
import platform
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from typing import Any, Protocol

from vestry.errors import IN_LEDGER, DeclarationMismatch, InvalidParameter, VestryError
from vestry.interrupts import HeldInterrupts
from vestry.ledger import Charge, OpenCharge
from vestry.ledger.entry import Entry
from vestry.mechanisms import truncated_posterior
from vestry.mechanisms.additive_noise import NOISE_OF, Additive, calibrate_noise, event_of
from vestry.mechanisms.posterior_sample import Meets, PosteriorSample, calibrate_draws, meets_exactly
from vestry.mechanisms.statistic_family import StatisticFamily
from vestry.noise import NoiseSource, SystemNoise
from vestry.privacy.event import Event
from vestry.privacy.guarantee import Guarantee
from vestry.privacy.neighbours import Adjacency
from vestry.releases import Certificate, Draws, NoisyStatistics, Release
from vestry.schema.private import Private, PrivateCounts, PrivateRows
from vestry.validation import require_choice, require_number


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
    def adjacency(self) -> Adjacency:
        """Which neighbours are hidden."""

    def release(self, private: Any, opened: OpenCharge, noise: NoiseSource) -> Sequence[NoisyStatistics | Draws]:
        """Draw, for each group."""

    def rehearse(self, noise: NoiseSource) -> Sequence[NoisyStatistics | Draws]:
        """Draw the same noise of no records, before anything is charged, and return as many numbers as a release has.

        What a broken installation or too little memory would stop stops here. Nothing private is touched.
        """


def certify(mechanism: Mechanism, *, unit: str = "row") -> Certificate:
    """Write down what is promised, and enough to compute the claim again."""
    adjacency = mechanism.adjacency
    return Certificate(
        guarantee=mechanism.guarantee.to_dict(),
        event=mechanism.event.to_dict(),
        mechanism=mechanism.name,
        parameter=mechanism.parameter,
        value=mechanism.value,
        theorem=mechanism.theorem,
        unit=unit,
        population={
            "neighbours": str(adjacency.neighbours),
            "rows": adjacency.rows,
            "count": "private" if adjacency.count is None else adjacency.count,
            "groups": adjacency.groups,
        },
        assumptions=assumptions_of(mechanism),
        versions={"python": platform.python_version(), **{name: version(name) for name in ("vestry", "opendp")}},
    )


def assumptions_of(mechanism: Mechanism) -> tuple[str, ...]:
    """Return what no theorem covers; nothing for a mechanism that says nothing of it."""
    return tuple(getattr(mechanism, "assumptions", ()))


def pays_for(entry: Entry, mechanism: Mechanism) -> bool:
    """Tell whether a charge is for exactly what would run."""
    return bool(entry.facts["event"] == mechanism.charge.under(mechanism.adjacency.neighbours).to_dict())


def rehearse(
    mechanism: Mechanism,
    *,
    family: Mapping[str, Any],
    prior: Sequence[float],
    by: str | None = None,
    groups: Sequence[str] = ("all",),
    labels: Sequence[str] = (),
    noise: NoiseSource | None = None,
) -> int:
    """Do all that `publish` will do, without a charge and without a record, and throw it away.

    Returns how many bytes the release may take; of levels that are found it is not known.
    """
    try:
        contents = mechanism.rehearse(noise or SystemNoise())
    except ImportError as error:
        if isinstance(error, VestryError):
            raise
        raise VestryError(_NO_NOISE.format(module=error.name)) from None
    numbers = tuple(float(number) for number in prior)
    drawn = dict(zip(groups, contents, strict=True))
    release = Release(dict(family), numbers, drawn, certify(mechanism), by, tuple(labels))
    text = release.text()
    Release.from_dict(json.loads(text))
    return len(text.encode()) + _LONGEST_NUMBER * text.count("\n")


def publish(
    mechanism: Mechanism,
    private: Private | PrivateRows | PrivateCounts,
    charge: Charge,
    *,
    family: Mapping[str, Any],
    prior: Sequence[float],
    by: str | None = None,
    groups: Sequence[str] = ("all",),
    labels: Sequence[str] = (),
    noise: NoiseSource | None = None,
    keep: Callable[[str], None] = lambda text: None,
    settle: Callable[[], None] = lambda: None,
) -> Release:
    """Open the charge, draw, and return the release, whose hash the ledger keeps.

    The charge must be the mechanism's own: what is drawn is what was paid for. `keep` is given the release's text
    before the ledger is told that it exists, to save it: a crash in between loses nothing that was paid for. `settle`
    comes last, and gives what was saved its name. An interrupt is held back until then.
    """
    adjacency, terms = mechanism.adjacency, charge.ledger.terms
    if not pays_for(charge.entry, mechanism):
        kind = str(charge.entry.facts["event"].get("kind"))
        raise DeclarationMismatch("event", mechanism.event.kind, kind, "charge the mechanism's own event")
    if len(groups) != adjacency.groups:
        raise DeclarationMismatch("number of groups", str(len(groups)), str(adjacency.groups), "name each group")
    if terms.unit.rows != adjacency.rows:
        instead = "calibrate for the ledger's unit"
        raise DeclarationMismatch("rows of a unit", str(adjacency.rows), str(terms.unit.rows), instead, where=IN_LEDGER)
    claim = certify(mechanism, unit=str(terms.unit))
    numbers = tuple(float(number) for number in prior)
    with HeldInterrupts():
        opened = charge.open()
        contents = mechanism.release(private, opened, noise or SystemNoise())
        groups_drawn = dict(zip(groups, contents, strict=True))
        release = Release(dict(family), numbers, groups_drawn, claim, by, tuple(labels))
        text = release.text()
        keep(text)
        opened.released(text.encode())
        settle()
    return release


_NO_NOISE = (
    "noise cannot be drawn, since {module} cannot be imported; nothing was charged: install vestry again, for example"
    " by pip install --force-reinstall vestry."
)
# Each number of a release has a line of its own, and no double or noisy integer is longer, in characters.
_LONGEST_NUMBER = 32

# What each mechanism calibrates.
PARAMETERS = {
    "laplace": "scale",
    "gaussian": "scale",
    "discrete-gaussian": "scale",
    "direct": "likelihood_power",
    "diffused": "likelihood_power",
    "concentrated": "prior_scale",
    "ops": "temperature",
}
# Those that release noisy statistics, from which any number of draws is free; the others release draws.
ADDITIVE = ("laplace", "gaussian", "discrete-gaussian")


def parameter_of(name: str) -> str:
    """Return what a mechanism calibrates, or refuse a name that is unknown."""
    return PARAMETERS[require_choice("a mechanism", name, PARAMETERS, "for example laplace")]


def calibrate_mechanism(
    name: str,
    family: StatisticFamily,
    prior: Any,
    adjacency: Adjacency,
    guarantee: Guarantee,
    *,
    draws: int = 1,
    truncation: float | None = None,
    grid: float | None = None,
    meets: Meets = meets_exactly,
) -> Additive | PosteriorSample | truncated_posterior.TruncatedSample:
    """Return the mechanism that meets the guarantee at least cost, or refuse with the nearest it could meet."""
    parameter_of(name)
    if name in ADDITIVE:
        return calibrate_noise(_noise(name, draws), family.layout(adjacency, grid=grid), adjacency, guarantee)
    if name == "ops":
        return truncated_posterior.ops(family, prior, adjacency, guarantee, truncation=_needed(truncation), draws=draws)
    return calibrate_draws(name, family, prior, adjacency, guarantee, draws=draws, meets=meets)


def event_at(
    name: str,
    family: StatisticFamily,
    prior: Any,
    adjacency: Adjacency,
    value: float,
    *,
    draws: int = 1,
    truncation: float | None = None,
    grid: float | None = None,
) -> Event:
    """Return what runs at a value of the mechanism's parameter."""
    parameter = parameter_of(name)
    if name in ADDITIVE:
        return event_of(_noise(name, draws), family.layout(adjacency, grid=grid), value)
    if name == "ops":
        return truncated_posterior.event_of(family, adjacency, _needed(truncation), value, draws)
    if name == "direct" and value != 1:
        instead = f"{parameter}=1, or take the diffused posterior"
        raise InvalidParameter(parameter, value, "1 for a direct draw", instead)
    require_number(parameter, value, f"for example {parameter}=0.5", above=0, most=1)
    return family.worst_draw(prior, adjacency, **{parameter: value}).times(draws)


def _noise(name: str, draws: int) -> str:
    if draws != 1:
        raise InvalidParameter("draws", draws, "omitted for noisy statistics", "none: draws from them are free")
    return NOISE_OF[name]


def _needed(truncation: float | None) -> float:
    if truncation is None:
        raise InvalidParameter("truncation", None, "given for ops", "for example truncation=0.05")
    return truncation
