"""The average over persons: proportions, categories, means and rates in which each person weighs 1.

A person's rows that count weigh 1/m each, m their number, over groups and levels together, so she moves a mass of 1
and the noise is that of one record. Persons are independent, so intervals hold however alike a person's rows are; the
second moments that they need are part of the same mass, and cost nothing: see `PersonQuery` and `person_posterior`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, ClassVar

import numpy as np

from vestry.errors import InvalidParameter
from vestry.mechanisms.additive_noise import NOISE_OF, calibrate_noise
from vestry.mechanisms.release import ADDITIVE
from vestry.model.averaging import Averaged, person_units
from vestry.model.request import (
    MOST_PARAMETERS,
    PERSON,
    By,
    PreparedSums,
    Request,
    Size,
    WidthPair,
    adjacency_of,
    pools,
)
from vestry.numerics import Array
from vestry.persons.person_parts import LEVELS, NUMBERS, PersonParts
from vestry.persons.person_posterior import SeparateAverages, levels_average, numbers_average
from vestry.posterior.discrete_noise import noise_of
from vestry.posterior.noisy_data import NoisyData
from vestry.posterior.reader import Reader, ReadRelease
from vestry.registry import MODELS
from vestry.releases import NoisyStatistics, Release
from vestry.schema.domain import Domain
from vestry.schema.statistics import PersonQuery
from vestry.schema.table_schema import TableSchema

LABEL = "normal approximation"
# Fewer expected events than this, and the normal approximation is rough.
FEW = 10
# Simulated datasets, and the most persons of each: more are as many times those.
_DATASETS, _PERSONS = 32, 2000


@dataclass(frozen=True)
class PersonReader(Reader):
    """How a release of averages over persons is read.

    Attributes
    ----------
    parameter
        What is averaged.
    kind
        `numbers` or `levels`.
    grouped
        Whether there are groups.
    averages
        How many averages each group has.
    ends
        The ends of the numbers.
    """

    parameter: str
    kind: str
    grouped: bool
    averages: int
    ends: tuple[float, float]

    dimension = property(attrgetter("averages"))
    label = LABEL
    prior_words = ""
    released_words = "Sums are of persons' weights."
    average_words = (
        "Each person weighs 1, whatever the number of her rows. The interval is a normal approximation; it takes"
        " persons, not rows, as independent, and uses no prior."
    )

    def read(self, release: Release, method: str, options: Mapping[str, Any], *, other_prior: bool) -> ReadRelease:
        """Compute the averages of each group; another prior is refused, because none is used."""
        if other_prior:
            raise InvalidParameter("prior", "another one", "omitted for an average over persons", "no prior")
        return super().read(release, method, options, other_prior=False)

    def read_pooled(self, release: Release) -> ReadRelease:
        """Refuse: groups of persons are read each alone."""
        raise InvalidParameter("pool", "averages over persons", "asked of rows", 'a release with average = "row"')

    def noisy_data(self, release: Release) -> NoisyData:
        """Refuse: persons' shares are sums of fractions, of which no exact likelihood is known."""
        allowed = "one of rows: averages over persons are a normal approximation, without a likelihood of parameters"
        raise InvalidParameter("a release", "averages over persons", allowed, 'average = "row", or rows = 1')

    @property
    def _parts(self) -> PersonParts:
        return PersonParts(self.kind, self.grouped, ("",) * self.averages)

    def noise_aware(self, statistics: NoisyStatistics) -> SeparateAverages:
        """Invert the test, the noise's variance added to that of sampling."""
        return self._averages(statistics, noise_of(statistics).deviation)

    def plug_in(self, statistics: NoisyStatistics) -> SeparateAverages:
        """Invert the test that takes the noisy sums as exact."""
        return self._averages(statistics, 0.0)

    def _averages(self, statistics: NoisyStatistics, spread: float) -> SeparateAverages:
        size = len(self._parts.names)
        if len(statistics.values) != size:
            raise InvalidParameter("the number of noisy statistics", len(statistics.values), str(size), "the release")
        values = np.array(statistics.values, dtype=float) * statistics.grid
        variance = (spread * statistics.grid) ** 2
        if self.kind == LEVELS:
            return levels_average(values, variance, grouped=self.grouped)
        return numbers_average(values, variance, grouped=self.grouped, ends=self.ends)

    def predict(self, theta: Array, size: int, rng: np.random.Generator) -> Array:
        """Refuse: how new rows spread around a person's average is not released."""
        raise InvalidParameter("predict", "an average over persons", "asked of rows", 'average = "row"')

    def noise_on_estimate(self, content: NoisyStatistics, mean: float, index: int) -> float | None:
        """Return sqrt(V(R))/(S + F), in units of the average."""
        part = self.noise_aware(content).parts[index]
        total, low, width = part.yes + part.no, self.ends[0], self.ends[1] - self.ends[0]
        share, (a, b, c) = (mean - low) / width, part.noise
        variance = a * (1 - share) ** 2 + b * (0.5 - share) ** 2 + c * share**2
        return width * math.sqrt(variance) / total if total > 0 else None

    def remark(self, distribution: Any, index: int) -> str:
        """Warn where so few events are expected that the normal approximation is rough."""
        part = distribution.parts[index]
        if min(part.yes, part.no) >= FEW:
            return ""
        return f"fewer than about {FEW} expected events: the normal approximation is rough; rows = 1 has an exact model"


def person_reader(described: Mapping[str, Any], prior: tuple[float, ...]) -> PersonReader:
    """Read what a release says of itself."""
    parameter = MODELS[described["name"]].family_type.parameter
    ends = float(described["low"]), float(described["high"])
    return PersonReader(parameter, described["kind"], described["grouped"], described["dimension"], ends)


@dataclass(frozen=True)
class PersonAverage:
    """A model's question, asked of persons.

    Attributes
    ----------
    model
        What is asked: a proportion, categories, a mean or a rate.
    """

    model: Any

    mechanisms: ClassVar[tuple[str, ...]] = ADDITIVE
    reader: ClassVar[Any] = staticmethod(person_reader)
    sum_words: ClassVar[str] = "a person's weight"

    def __post_init__(self) -> None:
        if pools(self.model):
            allowed = "omitted for averages over persons"
            raise InvalidParameter("pool", True, allowed, 'average = "row", or no pool')

    @property
    def name(self) -> str:
        """The model's name."""
        return str(self.model.name)

    @property
    def by(self) -> By:
        """The columns of the groups."""
        by: By = self.model.by
        return by

    @property
    def columns(self) -> tuple[str, ...]:
        """Every column that is read."""
        return tuple(self.model.columns)

    def question(self) -> str:
        """Say what is asked."""
        return f"{self.model.question()}, each person weighing 1"

    def to_dict(self) -> dict[str, Any]:
        """Return the declaration, as a study file writes it."""
        return {**self.model.to_dict(), "average": PERSON}

    def size(self, domains: Mapping[str, Domain]) -> Size:
        """Return how many averages a release has."""
        size: Size = self.model.size(domains)
        return size._replace(most=min(size.most, MOST_PARAMETERS))

    def sum_unit(self, schema: TableSchema) -> float:
        """Return what one unit of noisy sums stands for, in persons."""
        return 1 / person_units(schema.unit.rows)

    def parts(self, domains: Mapping[str, Domain]) -> PersonParts:
        """Return the parts of a person's weight that are released."""
        kind = NUMBERS if self._averaged(domains).levels is None else LEVELS
        return PersonParts(kind, self.by is not None, self.model.labels(domains) or ("",))

    def prepare(self, request: Request, schema: TableSchema, count: int | None) -> PreparedSums:
        """Calibrate from declarations; the number of persons is private."""
        model, domains, averaged = self.model, schema.domains, self._averaged(schema.domains)
        adjacency, parts = adjacency_of(schema, self, None), self.parts(domains)
        mechanism = calibrate_noise(
            NOISE_OF[request.mechanism], parts.layout(adjacency), adjacency, request.guarantee, limits=_THEOREM
        )
        keys = model.keys if averaged.levels is None else (*model.keys, averaged.levels)
        units, within = person_units(adjacency.rows), averaged.levels is not None
        tally = PersonQuery(keys, averaged.terms, units, averaged.spans, within)
        tally.check(domains)
        labels, (low, high) = model.labels(domains), averaged.ends
        described = {
            "name": model.name,
            "average": PERSON,
            "kind": parts.kind,
            "grouped": parts.grouped,
            "dimension": max(1, len(labels)),
            "low": low,
            "high": high,
        }
        return PreparedSums(self, described, model.numbers(domains), mechanism, tally, model.groups(domains), labels)

    def _averaged(self, domains: Mapping[str, Domain]) -> Averaged:
        averaged: Averaged = self.model.averaged(domains)
        return averaged

    def forecast(self, prepared: Any, schema: TableSchema, n: int, rng: np.random.Generator) -> WidthPair:
        """Return the expected 90 % width and that without privacy, where every person has as many rows as may count.

        Her rows are taken to be alike and of one group: the fewest persons, and the widest interval, that so many rows
        can have. Parameters are drawn from the model's prior, persons from its likelihood; the width is the test's at
        its centre, 2 x 1.645 deviations, and at most the whole range.
        """
        family, persons = self.model.family(schema.domains), max(1, n // schema.unit.rows)
        prior, mechanism = family.prior(self.model.numbers(schema.domains)), prepared.mechanism
        reader = person_reader(prepared.described, ())
        widths, sample_size = [], min(persons, _PERSONS)
        for _ in range(_DATASETS):
            theta = np.repeat(np.reshape(prior.draw(rng, 1), (1, -1)), sample_size, axis=0)
            parts = self._parts(family.predict(theta, 1, rng).reshape(sample_size, -1), reader)
            values = np.rint(parts * (persons / sample_size) / mechanism.layout.grid).astype(int)
            content = mechanism.statistics(tuple(values.tolist()))
            widths.append((_width(reader.noise_aware(content)), _width(reader.plug_in(content))))
        width, exact_width = np.mean(widths, axis=0)
        return float(width), float(exact_width), None

    def _parts(self, values: Array, reader: PersonReader) -> Array:
        """Return the sums of what persons add, each with one value; nothing is added outside her group."""
        if reader.kind == LEVELS:
            own = values.sum(axis=0)
            return np.stack([own, *[np.zeros(len(own))] * (1 + reader.grouped)], axis=1).ravel()
        low, high = reader.ends
        s = np.clip((values - low) / (high - low), 0.0, 1.0)
        zeros = [np.zeros(s.shape[1])] * (2 * reader.grouped)
        sums = [(s * s).sum(axis=0), (2 * s * (1 - s)).sum(axis=0), ((1 - s) ** 2).sum(axis=0)]
        return np.stack([*sums, *zeros], axis=1).ravel()


_THEOREM = (
    "A person's rows that count weigh 1 in all; what she adds is at least 0 everywhere and sums to at most 1 for each"
    " number asked, so she moves the sums as one record would."
)


def _width(averages: SeparateAverages) -> float:
    return float(np.mean([part.central_width() for part in averages.parts[:4]]))
