"""Features that are independent given a class: their levels' probabilities, and the classes'.

Noisy counts of every feature's levels by class are released once; tables, class probabilities and predictions follow
from them for nothing. Or draws of the tables are released, from truncated and tempered Dirichlet posteriors
[FouldsGWC16, sec. 3 and fig. 6].
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar

from vestry.certificate import Draws
from vestry.data import Table
from vestry.data.bound import check_bound
from vestry.errors import InvalidParameter, Unreachable
from vestry.families import DirichletCategorical
from vestry.mechanisms.exponential import THEOREM, TruncatedSample
from vestry.mechanisms.exponential import event_of as drawn_once
from vestry.models.counts import (
    NOISES,
    WIDE,
    Histograms,
    PreparedCounts,
    Told,
    concentration,
    deviation,
    each_once,
    feature_levels,
    key_levels,
    listed,
    noisy,
)
from vestry.models.model import groups_of
from vestry.noise import Noise
from vestry.numerics import outward
from vestry.privacy.calibrate import greatest
from vestry.privacy.event import Event
from vestry.privacy.guarantee import Guarantee
from vestry.privacy.law import event
from vestry.statistics.domain import Domain
from vestry.statistics.population import Population
from vestry.statistics.private import Private
from vestry.statistics.tally import Indicator, One, Tally

if TYPE_CHECKING:
    from vestry.ledger import Opened
    from vestry.models.request import Frame, Request

OPS = "ops"


@dataclass(frozen=True)
class NaiveBayes:
    """Categorical features, independent given the class, with Dirichlet priors.

    Attributes
    ----------
    features
        Columns of levels.
    target
        A column of levels, the classes; None for the density of the features alone.
    prior
        The concentration of every Dirichlet, the same for each level and class.
    """

    features: tuple[str, ...]
    target: str | None = None
    prior: float = 1.0

    name: ClassVar[str] = "naive-bayes"
    column_keys: ClassVar[tuple[str, ...]] = ("features", "target")

    def __post_init__(self) -> None:
        object.__setattr__(self, "features", listed(self.features))

    @property
    def by(self) -> str | None:
        """The classes are the groups."""
        return self.target

    @property
    def columns(self) -> tuple[str, ...]:
        """Every column that is read."""
        return self.features if self.target is None else (self.target, *self.features)

    def check(self, domains: Mapping[str, Domain]) -> None:
        """Refuse columns and numbers that do not fit."""
        feature_levels(domains, self.features)
        if self.target is not None:
            key_levels(domains, self.target, "target")
            if self.target in self.features:
                raise InvalidParameter("target", self.target, "no feature", "another column")
        each_once(self.features, "features")
        concentration(self.prior)

    def prepared(self, request: Request, frame: Frame, count: int | None) -> PreparedCounts | PreparedTables:
        """Calibrate from declarations and, where it is public, the number of records."""
        self.check(frame.domains)
        population, levels = frame.population(self, count), feature_levels(frame.domains, self.features)
        if request.mechanism == OPS:
            return self._drawn(request, frame, population, levels)
        if request.mechanism not in NOISES:
            allowed = ", ".join((*NOISES, OPS)) + " for naive-bayes"
            raise InvalidParameter("mechanism", request.mechanism, allowed, 'mechanism = "laplace"')
        cell = Histograms(self.features, levels, fixed=population.count is not None)
        mechanism = noisy(request.mechanism, cell.layout(population), population, request.guarantee, inside=False)
        tally = Tally(() if self.target is None else (self.target,), cell.terms)
        tally.check(frame.domains)
        groups = groups_of(frame.domains, self.target)
        told, numbers = self._told(groups, levels), (concentration(self.prior),)
        return PreparedCounts(self, told, numbers, mechanism, tally, groups, self._labels(levels))

    def expected(self, prepared: PreparedCounts | PreparedTables, n: int) -> tuple[float, float]:
        """Return the expected width of a level's 90 % interval, and the same without privacy, at n records a class.

        Levels are taken to be equally probable, and laws to be normal; the widths are averaged over the features.
        """
        mechanism, private, exact = prepared.mechanism, [], []
        for size in (len(names) for names in prepared.family.record["levels"]):
            p = 1 / size
            sampling = math.sqrt(p * (1 - p) / (n + size))
            if isinstance(mechanism, DrawnTables):
                spread = math.sqrt(p * (1 - p) / (n / mechanism.temperature + size))
            else:
                # To first order of counts that are all noisy, or of one beside a public total.
                share = 1.0 if mechanism.layout.count is not None else math.sqrt((1 - p) ** 2 + (size - 1) * p**2)
                spread = math.hypot(sampling, deviation(mechanism) * share / (n + size))
            private.append(WIDE * spread)
            exact.append(WIDE * sampling)
        return sum(private) / len(private), sum(exact) / len(exact)

    def question(self) -> str:
        """Say in words what is asked."""
        named = ", ".join(self.features)
        return f"The probabilities of {named}" + ("" if self.target is None else f" given {self.target}")

    def to_dict(self) -> dict[str, Any]:
        """Return the declaration, as a study file writes it."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {"model": self.name, **{key: list(v) if isinstance(v, tuple) else v for key, v in values.items()}}

    def _told(self, groups: tuple[str, ...], levels: tuple[tuple[str, ...], ...]) -> Told:
        return Told(
            {
                "name": self.name,
                "target": self.target,
                "classes": list(groups) if self.target is not None else [],
                "features": list(self.features),
                "levels": [list(names) for names in levels],
            }
        )

    def _labels(self, levels: tuple[tuple[str, ...], ...]) -> tuple[str, ...]:
        own = () if self.target is None else (f"this {self.target}",)
        told = [f"{f}: {name}" for f, names in zip(self.features, levels, strict=True) for name in names]
        return (*own, *told)

    def _drawn(
        self, request: Request, frame: Frame, population: Population, levels: tuple[tuple[str, ...], ...]
    ) -> PreparedTables:
        """Calibrate draws: one truncated Dirichlet a feature and class, and one for the classes."""
        low, draws = request.truncation, 1 if request.draws is None else request.draws
        groups = groups_of(frame.domains, self.target)
        sizes = [len(names) for names in levels] + ([] if self.target is None else [len(groups)])
        if not isinstance(low, float) or not 0 < low < 1 / max(sizes):
            allowed = f"above 0 and below 1/{max(sizes)}, one over the most levels"
            raise InvalidParameter("truncation", low, allowed, f"truncation = {0.1 / max(sizes):.2g}")
        keys = () if self.target is None else (self.target,)
        tallies = [
            Tally(keys, (*(Indicator(feature, (name,)) for name in names), One()))
            for feature, names in zip(self.features, levels, strict=True)
        ]
        alone = Population(population.neighbours, population.rows, population.count)
        if self.target is not None:
            tallies.append(Tally((), (*(Indicator(self.target, (name,)) for name in groups), One())))
        populations = [population] * len(levels) + [alone] * (self.target is not None)
        mechanism = tables(
            sizes, concentration(self.prior), populations, request.guarantee, truncation=low, draws=draws
        )
        for tally in tallies:
            tally.check(frame.domains)
        told, numbers = self._told(groups, levels), (concentration(self.prior),)
        return PreparedTables(self, told, numbers, mechanism, tuple(tallies), groups, self._labels(levels))


@dataclass(frozen=True)
class DrawnTables:
    """Draws of all tables at once, each from its truncated and tempered Dirichlet posterior.

    Privacy
    -------
    Given the records the tables are independent, so their log-densities add up, and so do the spans of the privacy
    loss: bounded range 2 k D/T under replace and k D/T under add-remove for each draw, with D the sum over features of
    log((1 - (K_d - 1) a)/a), and the same for the classes if there are any; k records a unit [FouldsGWC16, sec. 3.1].
    A record that changes its class costs D/T where it was and D/T where it comes to be, as one that changes inside.
    """

    parts: tuple[TruncatedSample, ...]
    temperature: float
    draws: int
    guarantee: Guarantee

    name = OPS
    parameter = "temperature"

    @property
    def population(self) -> Population:
        """Which neighbours are hidden."""
        return self.parts[0].population

    @property
    def value(self) -> float:
        """The temperature."""
        return self.temperature

    @property
    def event(self) -> Event:
        """What runs."""
        span = spans(self.parts)
        single = event("exponential", epsilon=outward(span / self.temperature), count=self.draws)
        return single.under(self.population.neighbours)

    @property
    def charge(self) -> Event:
        """What the ledger is charged: the event itself."""
        return self.event

    @property
    def theorem(self) -> str:
        """The result that the claim rests on."""
        return THEOREM

    def release(self, private: tuple[Private, ...], opened: Opened, noise: Noise) -> tuple[Draws, ...]:
        """Draw every table, and put those of a class side by side; its own probability comes first."""
        opened.take()
        shared: Any = _Shared()
        made = [part.release(each, shared, noise) for part, each in zip(self.parts, private, strict=True)]
        classes = self.population.groups
        features, shares = (made[:-1], made[-1][0]) if classes > 1 else (made, None)
        return tuple(
            Draws(
                tuple(
                    (
                        *(() if shares is None else (shares.values[row][place],)),
                        *(x for drawn in features for x in drawn[place].values[row]),
                    )
                    for row in range(self.draws)
                ),
                made[0][0].grid,
            )
            for place in range(classes)
        )


class _Shared:
    """The leave that was taken for all parts together: one charge pays for all."""

    def take(self) -> None:
        """Do nothing: the leave is taken."""


def tables(
    sizes: list[int],
    alpha: float,
    populations: list[Population],
    guarantee: Guarantee,
    *,
    truncation: float,
    draws: int,
) -> DrawnTables:
    """Find the lowest temperature, at least 1, at which draws of all tables together meet the guarantee."""
    bound = guarantee.under(populations[0].neighbours)
    families = [DirichletCategorical(size) for size in sizes]

    def parts(temperature: float) -> tuple[TruncatedSample, ...]:
        return tuple(
            TruncatedSample(
                family, family.prior((alpha,) * family.categories), population, truncation, temperature, draws, bound
            )
            for family, population in zip(families, populations, strict=True)
        )

    span = spans(parts(1.0))
    try:
        epsilon = greatest(lambda x: event("exponential", epsilon=x, count=draws), bound, at_most=span)
    except Unreachable:
        raise Unreachable(f"{guarantee} by ops", "ask for a pure epsilon, or for epsilon and delta") from None
    temperature = max(1.0, outward(outward(span / epsilon)))
    return DrawnTables(parts(temperature), temperature, draws, bound)


def spans(parts: tuple[TruncatedSample, ...]) -> float:
    """Return how much one unit can move the log-likelihood of all tables together, at temperature 1."""
    single = [drawn_once(part.family, part.population, part.truncation, 1.0, 1) for part in parts]
    return outward(math.fsum(float(each.to_dict()["parameters"]["epsilon"]) for each in single))


@dataclass(frozen=True)
class PreparedTables:
    """All that a release of drawn tables needs; as `PreparedCounts`, with one query a feature."""

    model: NaiveBayes
    family: Told
    numbers: tuple[float, ...]
    mechanism: DrawnTables
    tallies: tuple[Tally, ...]
    groups: tuple[str, ...]
    labels: tuple[str, ...]

    def check(self, table: Table) -> None:
        """Try all that can fail without touching values."""
        for tally in self.tallies:
            table.check(tally)

    def collect(self, table: Table, *, row_key: str) -> tuple[Private, ...]:
        """Count over the records, feature by feature; each bounds its own part of a unit's records."""
        return tuple(table.collect(tally, row_key=row_key) for tally in self.tallies)

    def check_bound(self, domains: Mapping[str, Domain], largest: int) -> None:
        """Refuse counts that 64 bits cannot hold."""
        for tally in self.tallies:
            check_bound(tally, domains, largest)

    def expected(self, n: int, rng: Any) -> tuple[float, float]:
        """Return the expected width of a level's 90 % interval, and the same without privacy."""
        return self.model.expected(self, n)
