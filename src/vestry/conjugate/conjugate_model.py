"""What models of one conjugate family share: a column, groups, a prior, and sums of what each record adds.

A release of a conjugate family, with a prior: its posterior given statistics, and what it predicts.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any, ClassVar

import numpy as np

from vestry.conjugate.family import ConjugateFamily, family_from
from vestry.errors import InvalidParameter
from vestry.mechanisms.additive_noise import Additive
from vestry.mechanisms.release import calibrate_mechanism
from vestry.mechanisms.statistic_family import Layout
from vestry.model.request import PreparedSums, Request, Size, TableSchema, declaration, groups_of, size_by_group
from vestry.numerics import Array
from vestry.posterior.mixture import PosteriorDistribution
from vestry.posterior.reader import Reader, ReadRelease
from vestry.releases import NoisyStatistics, Release
from vestry.schema.domain import Domain
from vestry.schema.statistics import Count, SumQuery, Term


@dataclass(frozen=True)
class ConjugateReader(Reader):
    """A family with its prior."""

    family: ConjugateFamily
    prior: Any

    parameter = property(attrgetter("family.parameter"))
    parameters = property(attrgetter("family.parameters"))
    note = property(attrgetter("family.note"))
    dimension = property(attrgetter("prior.dimension"))

    def noise_on_estimate(self, content: NoisyStatistics, mean: float, index: int) -> float | None:
        """Return the noise's standard deviation on one parameter, to first order."""
        return self.family.noise_on_estimate(content, mean, index)

    def read_statistics(self, release: Release, method: str) -> ReadRelease:
        """Compute the posterior of each group, inside what was declared."""
        found = super().read_statistics(release, method)
        inside = {group: self.family.inside(each) for group, each in found.distributions.items()}
        return replace(found, distributions=inside)

    def noise_aware(self, statistics: NoisyStatistics) -> PosteriorDistribution:
        """Return the posterior, the noise summed out."""
        return self.family.noise_aware(self.prior, statistics)

    def plug_in(self, statistics: NoisyStatistics) -> PosteriorDistribution:
        """Return the posterior that takes the statistics as exact."""
        return self.family.plug_in(self.prior, statistics)

    def predict(self, theta: Array, size: int, rng: np.random.Generator) -> Array:
        """Draw what `size` new records would give, once for each row of parameters."""
        return self.family.predict(theta, size, rng)


def conjugate_reader(described: Mapping[str, Any], prior: tuple[float, ...]) -> ConjugateReader:
    """Read the family that a release describes, and a prior."""
    family = family_from(described)
    return ConjugateReader(family, family.prior(prior))


class ConjugateModel(ABC):
    """A likelihood of one column with its conjugate prior, by group.

    Attributes
    ----------
    name
        The model's name in study files.
    unit
        What one unit of the sums stands for, where the family takes whole numbers for them.
    column_keys, number_keys
        The keys of a study file that name columns, and those that a study reads as floats.
    several_columns
        Whether it models several columns at once.
    example_prior
        A prior to suggest, where there is no default.
    """

    name: ClassVar[str]
    unit: ClassVar[float] = 1.0
    mechanisms: ClassVar[None] = None
    column_keys: ClassVar[tuple[str, ...]] = ("column", "by")
    number_keys: ClassVar[tuple[str, ...]] = ("prior",)
    several_columns: ClassVar[bool] = False
    example_prior: ClassVar[tuple[float, ...] | None] = None
    family_type: ClassVar[type[ConjugateFamily]]
    reader: ClassVar[Any] = staticmethod(conjugate_reader)

    column: Any
    by: str | None
    prior: Any

    @abstractmethod
    def family(self, domains: Mapping[str, Domain]) -> ConjugateFamily:
        """Return the family, with the numbers that the domains declare; refuse columns that do not fit."""

    @abstractmethod
    def terms(self, domains: Mapping[str, Domain], layout: Layout) -> tuple[Term, ...]:
        """Return what each record adds to the family's statistic, in the layout's units."""

    @abstractmethod
    def question(self) -> str:
        """Say in words what is asked."""

    @property
    def own(self) -> tuple[str, ...]:
        """The columns whose records are modelled."""
        return (self.column,)

    @property
    def keys(self) -> tuple[str, ...]:
        """The columns whose levels are the groups."""
        return () if self.by is None else (self.by,)

    @property
    def columns(self) -> tuple[str, ...]:
        """Every column that is read."""
        return (*self.keys, *self.own)

    def check(self, domains: Mapping[str, Domain]) -> None:
        """Refuse columns and a prior that do not fit, with a prior that does."""
        named = list(self.column) if isinstance(self.column, tuple) else [self.column]
        allowed = "one column, or several, each once" if self.several_columns else f"one column for {self.name}"
        single = self.several_columns or isinstance(self.column, str)
        single = single and all(isinstance(each, str) for each in named)
        if not single or not named or len(set(named)) < len(named):
            raise InvalidParameter("column", named, allowed, 'column = "readmitted"')
        if isinstance(self.by, tuple):
            raise InvalidParameter("by", list(self.by), "the name of one column", 'by = "ward"')
        family = self.family(domains)
        if not isinstance(self.prior, tuple | None) or self.prior == ():
            raise InvalidParameter("prior", self.prior, "a list of numbers", "prior = [1, 1]")
        try:
            family.prior(self.numbers(domains))
        except InvalidParameter as error:
            default: Any = replace(self, prior=getattr(type(self), "prior", self.example_prior))  # type: ignore[type-var]
            instead = f"prior = [{', '.join(f'{x:g}' for x in default.numbers(domains))}]"
            raise InvalidParameter(error.name, error.given, error.allowed, instead) from None

    def sum_unit(self, schema: TableSchema) -> float:
        """Return what one unit of noisy sums stands for, in units of their columns; 1 for counts."""
        return self.family(schema.domains).layout(schema.adjacency(self, None)).grid

    def groups(self, domains: Mapping[str, Domain]) -> tuple[str, ...]:
        """Return the levels by which records are grouped; refuse what cannot group them."""
        if self.by in self.own:
            raise InvalidParameter("by", self.by, "another column than the model's", "another column")
        return groups_of(domains, self.by)

    def numbers(self, domains: Mapping[str, Domain]) -> tuple[float, ...]:
        """Return the prior's numbers."""
        return tuple(float(x) for x in self.prior)

    def recorded_prior(self, domains: Mapping[str, Domain]) -> tuple[float, ...]:
        """Return the numbers by which a release of noisy statistics is read."""
        return self.numbers(domains)

    def labels(self, domains: Mapping[str, Domain]) -> tuple[str, ...]:
        """Return what each parameter of a group is of; nothing if there is one."""
        return ()

    def noisy(self, domains: Mapping[str, Domain], layout: Layout) -> SumQuery:
        """Return what is collected for noisy statistics: the terms; and the count in fractions, where it is private."""
        terms = self.terms(domains, layout)
        private = len(layout.names) > len(terms)
        return SumQuery(self.keys, (*terms, Count(round(1 / layout.count_grid))) if private else terms)

    def drawn(self, domains: Mapping[str, Domain], layout: Layout) -> SumQuery:
        """Return what is collected for posterior draws: the terms and the count."""
        return SumQuery(self.keys, (*self.terms(domains, layout), Count()))

    def prepare(self, request: Request, schema: TableSchema, count: int | None) -> PreparedSums:
        """Calibrate from declarations and, where it is public, the number of records."""
        family, numbers = self.family(schema.domains), self.numbers(schema.domains)
        adjacency = schema.adjacency(self, count)
        mechanism = calibrate_mechanism(
            request.mechanism,
            family,
            family.prior(numbers),
            adjacency,
            request.guarantee,
            draws=1 if request.draws is None else request.draws,
            truncation=request.truncation,
        )
        if isinstance(mechanism, Additive):
            numbers = self.recorded_prior(schema.domains)
        else:
            mechanism = replace(mechanism, unit=self.unit)
        collect = self.noisy if isinstance(mechanism, Additive) else self.drawn
        tally = collect(schema.domains, family.layout(adjacency))
        tally.check(schema.domains)
        groups, labels = self.groups(schema.domains), self.labels(schema.domains)
        return PreparedSums(self, family.to_dict(), numbers, mechanism, tally, groups, labels)

    def forecast(
        self, prepared: Any, schema: TableSchema, n: int, rng: np.random.Generator
    ) -> tuple[tuple[float, ...], tuple[float, ...], float | None]:
        """Return the expected 90 % widths, the same without privacy, and the divergence, by simulation."""
        from vestry.conjugate.simulation import forecast

        return forecast(prepared, n, rng)

    def size(self, domains: Mapping[str, Domain]) -> Size:
        """Return how many numbers a release has."""
        return size_by_group(self, domains)

    def to_dict(self) -> dict[str, Any]:
        """Return the declaration, as a study file writes it."""
        return declaration(self.name, vars(self))

    def by_words(self) -> str:
        """Return the end of a question."""
        return "" if self.by is None else f", by {self.by}"
