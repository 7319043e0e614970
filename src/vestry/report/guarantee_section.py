"""Privacy guarantees on a page: what they protect, the most an attacker could gain, profiles, and theorems.

Every number is a bound, and rounded up. Also how much the records count in the posterior that draws come from.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from vestry.display.formatting import number, percent_up, roughly, upward
from vestry.display.templates import Content, listed, paragraph, tag
from vestry.errors import VestryError
from vestry.privacy import accountant
from vestry.privacy.event import Event
from vestry.privacy.guarantee import ApproxDP, Guarantee, PureDP, decimal
from vestry.privacy.neighbours import Neighbours, Unit
from vestry.privacy.pricing import PRICINGS, event_of_guarantee
from vestry.releases import Certificate, NoisyStatistics
from vestry.report.content import Result


def promise_row(result: Result) -> tuple[str, ...]:
    """Return a line of the table of guarantees: what is guaranteed, the factor, the best guess, and what ran."""
    certificate = result.release.certificate
    promise = Promise.of(certificate)
    point, share = promise.at_delta(), promise.best_guess()
    exact = isinstance(promise.guarantee, (PureDP, ApproxDP))
    factor = "none" if point is None else _factor(point[0]) + ("" if exact else f" at delta {decimal(point[1])}")
    first = next(iter(result.release.contents.values()))
    unit = first.grid if isinstance(first, NoisyStatistics) else 1.0
    mechanism = f"{certificate.mechanism}, {certificate.parameter} {number(certificate.value * unit)}"
    return result.name, str(promise.guarantee), factor, percent_up(share) if share < 1 else "not bounded", mechanism


def reservations(result: Result) -> list[Content]:
    """Write what a guarantee does not cover or assumes, and that its curve is not known; nothing if all is well."""
    certificate = result.release.certificate
    parts = _inside(result)
    if certificate.assumptions:
        parts += [paragraph(tag("strong", "No theorem covers this: ")), listed(certificate.assumptions)]
    if known(certificate.event) is None:
        parts.append(paragraph("This version does not know the privacy cost of this mechanism, so no privacy curve is"
                               " drawn."))  # fmt: skip
    return parts


def _inside(result: Result) -> list[Content]:
    """Say where a replacement is protected inside its cell only, since the noise rests on public cells."""
    family = result.release.family
    if not family.get("totals"):
        return []
    region, time = family["sequence"]["region"], family["sequence"]["time"]
    return [
        paragraph(
            tag("strong", "Not protected: "),
            f"the {region} and the {time} of each row, which are declared public. Any other row means here any other"
            f" row of the same {region} and {time}.",
        )
    ]


def profile_of(result: Result) -> tuple[list[float], list[float]] | None:
    """Return epsilons and deltas of what ran, as far as delta is not 0; None where its cost is not known."""
    event = known(result.release.certificate.event)
    if event is None:
        return None
    top = accountant.epsilon(event, 1e-9)
    epsilons = np.linspace(0, top if top < math.inf else 10.0, _POINTS)
    pairs = [(float(x), accountant.delta(event, float(x))) for x in epsilons]
    return [x for x, y in pairs if y > 0], [y for _, y in pairs if y > 0]


# Points of a curve.
_POINTS = 80
# Where a guarantee has no delta, its epsilon is stated at this one.
DELTA = 1e-6


@dataclass(frozen=True)
class Promise:
    """What a certificate guarantees.

    Attributes
    ----------
    guarantee
        The guarantee that was asked for and met.
    event
        What ran; None where this version does not know its cost.
    unit, neighbours
        Whose change is protected, and which.
    subject
        What is read.
    """

    guarantee: Guarantee
    event: Event | None
    unit: Unit
    neighbours: Neighbours
    subject: str = "this release"

    @classmethod
    def of(cls, certificate: Certificate) -> Promise:
        """Read a certificate."""
        stated = {key: value for key, value in certificate.guarantee.items() if key in _KEYS}
        relation = certificate.guarantee.get("neighbours", certificate.population.get("neighbours"))
        neighbours = Neighbours.parse(relation)
        guarantee = Guarantee.parse(stated, neighbours=neighbours)
        return cls(guarantee, known(certificate.event), Unit.parse(certificate.unit), neighbours)

    def total_variation(self) -> float:
        """Bound how far neighbouring outputs can be told apart: delta at epsilon 0, of what ran or of the guarantee."""
        events = (
            [event_of_guarantee(self.guarantee)]
            if self.event is None
            else [self.event, event_of_guarantee(self.guarantee)]
        )
        return min(accountant.delta(event, 0.0) for event in events)

    def best_guess(self) -> float:
        """Bound the probability of a right guess between two equally likely neighbours: (1 + TV)/2."""
        return (1 + self.total_variation()) / 2

    def at_delta(self) -> tuple[float, float] | None:
        """Return the guarantee as (epsilon, delta); None where no theorem leads there."""
        if isinstance(self.guarantee, PureDP):
            return self.guarantee.epsilon, 0.0
        if isinstance(self.guarantee, ApproxDP):
            return self.guarantee.epsilon, self.guarantee.delta
        epsilon = accountant.epsilon(event_of_guarantee(self.guarantee), DELTA)
        if self.event is not None:
            epsilon = min(epsilon, accountant.epsilon(self.event, DELTA))
        return (epsilon, DELTA) if epsilon < math.inf else None


def known(record: object) -> Event | None:
    """Read an event whose cost this version knows; None otherwise."""
    try:
        event = Event.from_dict(record)  # type: ignore[arg-type]
        if any(leaf.kind not in PRICINGS for leaf, _ in event.leaves()):
            return None
        accountant.delta(event, 0.0)
    except (VestryError, KeyError, TypeError, ValueError, AttributeError):
        return None
    return event


def protected(unit: Unit, neighbours: Neighbours) -> str:
    """Say what is protected: whether any one unit is in the data, or what it contains."""
    if neighbours is Neighbours.REPLACE:
        return f"what any {unit_words(unit)} contains"
    return f"whether any {unit_words(unit)} is in the data"


def change_words(unit: Unit, neighbours: Neighbours) -> str:
    """Say which change is protected, as half a sentence."""
    change = "replaced by any other" if neighbours is Neighbours.REPLACE else "added or removed"
    return f"{unit_words(unit)} is {change}"


def unit_words(unit: Unit) -> str:
    """Name the unit."""
    if unit.person is None:
        return "one row"
    rows = "1 row" if unit.rows == 1 else f"{unit.rows} rows"
    return f"one person (identified by {unit.person}, at most {rows} each)"


def sentences(promise: Promise) -> list[str]:
    """Say what is guaranteed and what an attacker could gain, each point a sentence or two."""
    return [*_bound(promise), _guess(promise)]


def _bound(promise: Promise) -> list[str]:
    point = promise.at_delta()
    if point is None:
        return ["This guarantee alone gives no factor and no delta; the guess below is what bounds an attacker."]
    epsilon, delta = point
    exact = isinstance(promise.guarantee, (PureDP, ApproxDP))
    name, factor = decimal(epsilon) if exact else upward(epsilon), _factor(epsilon)
    change = change_words(promise.unit, promise.neighbours)
    if delta == 0:
        return [
            f"If {change}, the probability of every possible result changes by at most a factor of {factor}"
            f" (e to the power epsilon, epsilon = {name}).",
            "Suppose an attacker knows everything else in the data and has a guess about this one. After reading"
            f" {promise.subject}, the odds of the guess have changed by at most the same factor, {factor}:"
            f" even odds become {percent_up(1 / (1 + math.exp(-epsilon)))} at most.",
        ]
    how_rare = f"delta = {decimal(delta)}, which is {_rarity(delta)}"
    first = (
        f"If {change}, the probability of any conclusion that can be drawn from {promise.subject} is at most"
        f" {factor} times what it was (e to the power epsilon, epsilon = {name}), plus delta."
    )
    if isinstance(promise.guarantee, ApproxDP):
        second = f"Here {how_rare}. It covers results so rare that the factor alone would not hold for them."
    else:
        second = (
            f"Here {how_rare}. The guarantee itself has no delta; this one is chosen to express it in these words,"
            " and another choice gives another factor."
        )
    return [first, second, _odds(factor, delta)]


def _odds(factor: str, delta: float) -> str:
    return (
        f"As long as the factor holds, an attacker's odds change by at most {factor} too. Where it does not, the"
        f" probability beyond the factor, of all such results together, is at most {decimal(delta)}."
    )


def _guess(promise: Promise) -> str:
    share = promise.best_guess()
    if promise.neighbours is Neighbours.REPLACE:
        task = f"which of two versions of {_thing(promise.unit)} is in the data"
    else:
        task = f"whether {_thing(promise.unit)} is in the data at all"
    limit = (
        f"is right with a probability of at most {percent_up(share)}"
        if share < 1
        else "is not bounded below 100 % by this guarantee"
    )
    return (
        f"Someone who knows all other records and guesses {task}, at even odds, {limit}."
        " A coin is right 50 % of the time."
    )


def _thing(unit: Unit) -> str:
    return "a row" if unit.person is None else "a person"


def _factor(epsilon: float) -> str:
    """Write e^epsilon with two digits of what it adds to 1, and three in all."""
    return upward(math.exp(epsilon), beyond=math.expm1(epsilon)) if epsilon < 700 else "more than 10³⁰⁰"


def _rarity(delta: float) -> str:
    return f"one in {upward(1 / delta)}" if 1 / delta >= 100 else percent_up(delta)


_KEYS = ("epsilon", "delta", "order", "rho", "mu")


def weight(certificate: Certificate) -> str:
    """Say how a posterior was tempered for privacy, as half a sentence; empty where it was not, or not in this way."""
    value = certificate.value
    if certificate.parameter == "likelihood_power" and value < 1:
        return f"drawn from a posterior in which each record counts {roughly(value)}"
    if certificate.parameter == "prior_scale" and value < 1:
        return f"drawn from a posterior whose prior counts {number(1 / value)} times as much as the declared one"
    return ""


def weight_parts(certificate: Certificate) -> list[Content]:
    """Write the same as a paragraph of a page, if there is something to say."""
    said = weight(certificate)
    return [paragraph(f"What was released was {said}.")] if said else []
