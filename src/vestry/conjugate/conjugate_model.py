"""What models of one conjugate family share: a column, groups, a prior, and sums of what each record adds.

A release of a conjugate family, with a prior: its posterior given statistics, and what it predicts.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any, ClassVar

import numpy as np

from vestry.conjugate.family import ConjugateFamily, family_from
from vestry.conjugate.pooled_groups import PooledGroups, PooledMember
from vestry.errors import InvalidParameter
from vestry.mechanisms.additive_noise import Additive
from vestry.mechanisms.release import calibrate_mechanism
from vestry.mechanisms.statistic_family import Layout
from vestry.model.request import (
    MOST_GROUPS,
    By,
    PreparedSums,
    Request,
    Size,
    adjacency_of,
    check_grouping,
    declaration,
    grouping,
    groups_of,
    size_by_group,
)
from vestry.numerics import Array
from vestry.posterior.joined_noise import joined
from vestry.posterior.mixture import PosteriorDistribution
from vestry.posterior.noisy_data import NoisyData, noisy_data, statistics_of
from vestry.posterior.reader import POOLED, Reader, ReadRelease, refuse_extremes
from vestry.releases import NoisyStatistics, Release
from vestry.schema.domain import Domain
from vestry.schema.statistics import Count, SumQuery, Term
from vestry.schema.table_schema import TableSchema


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

    def remark(self, distribution: Any, index: int) -> str:
        """Say what is wrong with one interval."""
        return self.family.remark(self.prior, distribution, index)

    def read_statistics(self, release: Release, method: str) -> ReadRelease:
        """Compute the posterior of each group, inside what was declared."""
        reading = super().read_statistics(release, method)
        inside = {group: self.family.inside(each) for group, each in reading.distributions.items()}
        return replace(reading, distributions=inside)

    def widths_of(self, *, of_draws: bool) -> tuple[str, ...]:
        """Say what the widths of a forecast are of: one for each kind of parameter."""
        if of_draws or not self.parameters:
            return super().widths_of(of_draws=of_draws)
        return tuple(f"interval of the {name}" for name in self.parameters)

    def noise_aware(self, statistics: NoisyStatistics) -> PosteriorDistribution:
        """Return the posterior, the noise summed out."""
        return self.family.noise_aware(self.prior, statistics)

    def plug_in(self, statistics: NoisyStatistics) -> PosteriorDistribution:
        """Return the posterior that takes the statistics as exact."""
        return self.family.plug_in(self.prior, statistics)

    def noisy_data(self, release: Release) -> NoisyData:
        """Return the noisy numbers, of the family's kind."""
        first = next(iter(statistics_of(release).values()))
        return noisy_data(release, self.family.kind_of(first))

    def combined(self, contents: Sequence[NoisyStatistics], *, same_people: bool) -> PosteriorDistribution:
        """Return the posterior from several releases of one quantity."""
        posterior = self.noise_aware(joined(contents)) if same_people else self.family.multiplied(self.prior, contents)
        return self.family.inside(posterior)

    def predict(self, theta: Array, size: int, rng: np.random.Generator) -> Array:
        """Draw what `size` new records would give, once for each row of parameters."""
        return self.family.predict(theta, size, rng)

    def read_pooled(self, release: Release) -> ReadRelease:
        """Compute the joint posterior of groups that learn from each other."""
        contents = [each for each in release.contents.values() if isinstance(each, NoisyStatistics)]
        if release.by is None or len(contents) < 2 or len(contents) < len(release.contents):
            given = "draws" if len(contents) < len(release.contents) else "a release without groups"
            raise InvalidParameter("pool", given, "asked of noisy statistics by group", "a release with by")
        if len({(each.noise, each.scale, each.grid, each.count_grid, each.count is None) for each in contents}) > 1:
            raise InvalidParameter("pool", "several kinds of noise", "groups of one noise", "the original release")
        with refuse_extremes():
            pooled = self.family.pooled(contents)
        members = (self.family.inside(PooledMember(pooled, place)) for place in range(len(contents)))
        groups = dict(zip(release.contents, members, strict=True))
        return ReadRelease(PooledReader(self.family, self.prior, pooled, tuple(groups)), groups, POOLED, release.by)


@dataclass(frozen=True)
class PooledReader(ConjugateReader):
    """Groups of one family that learn from each other; the declared prior is not used.

    Attributes
    ----------
    groups
        Their joint posterior.
    names
        Their names.
    """

    groups: PooledGroups
    names: tuple[str, ...]

    dimension = 1
    prior_words = "population"

    @property
    def note(self) -> str:
        """Say what pooling means, after what the family says of records."""
        words = (
            "The groups learn from each other: each comes from a population whose mean and spread are unknown and are"
            " summed out with the noise, in place of the declared prior. Intervals hold for groups that are alike in"
            " kind; a group unlike all others is drawn towards them."
        )
        return f"{self.family.note} {words}".strip()

    def remark(self, distribution: Any, index: int) -> str:
        """Say nothing: no declared prior is used."""
        return ""

    def plug_in(self, statistics: NoisyStatistics) -> PosteriorDistribution:
        """Return a group's posterior in this population, its noisy numbers taken as exact."""
        return self.groups.member(*self.family.group_numbers(statistics))

    def draw_groups(
        self, distributions: Mapping[str, Any], names: Sequence[str], size: int, rng: np.random.Generator
    ) -> dict[str, Array]:
        """Return joint draws of these groups, with their dependence."""
        draws = self.groups.draw(rng, size, [self.names.index(name) for name in names])
        return {name: draws[:, [place]] for place, name in enumerate(names)}

    def population(self) -> dict[str, Array]:
        """Return the hyperparameters at the nodes of their quadrature, and their weights."""
        return self.groups.population()


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
    pool
        Whether groups learn from each other when the release is read. It is not part of the question.
    one_number
        Whether a group of one column has one parameter, which is read fast.
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

    pool: bool = False
    one_number: ClassVar[bool] = False

    column: Any
    by: By
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
        return grouping(self.by)

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
        check_grouping(self.by)
        self._check_pool()
        family = self.family(domains)
        if not isinstance(self.prior, tuple | None) or self.prior == ():
            raise InvalidParameter("prior", self.prior, "a list of numbers", "prior = [1, 1]")
        try:
            family.prior(self.numbers(domains))
        except InvalidParameter as error:
            default: Any = replace(self, prior=getattr(type(self), "prior", self.example_prior))  # type: ignore[type-var]
            instead = f"prior = [{', '.join(f'{x:g}' for x in default.numbers(domains))}]"
            raise InvalidParameter(error.name, error.given, error.allowed, instead) from None

    def _check_pool(self) -> None:
        if not isinstance(self.pool, bool) or (self.pool and (self.by is None or not isinstance(self.column, str))):
            raise InvalidParameter("pool", self.pool, "true beside by, for one column, or false", 'by = "ward"')

    def sum_unit(self, schema: TableSchema) -> float:
        """Return what one unit of noisy sums stands for, in units of their columns; 1 for counts."""
        return self.family(schema.domains).layout(adjacency_of(schema, self, None)).grid

    def groups(self, domains: Mapping[str, Domain]) -> tuple[str, ...]:
        """Return the levels by which records are grouped; refuse what cannot group them."""
        for column in set(self.keys) & set(self.own):
            raise InvalidParameter("by", column, "another column than the model's", "another column")
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

    def query_for_draws(self, domains: Mapping[str, Domain], layout: Layout) -> SumQuery:
        """Return what is collected for posterior draws: the terms and the count."""
        return SumQuery(self.keys, (*self.terms(domains, layout), Count()))

    def prepare(self, request: Request, schema: TableSchema, count: int | None) -> PreparedSums:
        """Calibrate from declarations and, where it is public, the number of records."""
        self._check_pool()
        family, numbers = self.family(schema.domains), self.numbers(schema.domains)
        adjacency = adjacency_of(schema, self, count)
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
        elif self.pool:
            raise InvalidParameter("pool", True, "omitted for draws", "no pool, or noisy statistics without draws")
        else:
            mechanism = replace(mechanism, unit=self.unit)
        collect = self.noisy if isinstance(mechanism, Additive) else self.query_for_draws
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
        """Return how many numbers a release has; groups of one number each may be more, unless they are pooled."""
        size = size_by_group(self, domains)
        alone = self.one_number and isinstance(self.column, str) and not self.pool
        return size._replace(most=MOST_GROUPS) if alone else size

    def to_dict(self) -> dict[str, Any]:
        """Return the question, as a study file writes it."""
        return declaration(self.name, {key: value for key, value in vars(self).items() if key != "pool"})

    def caution(self, prepared: PreparedSums, schema: TableSchema, n: int) -> str:
        """Say what a plan supposes of groups that will be pooled: nothing else is known of how they differ."""
        if not self.pool:
            return ""
        return (
            "groups are taken to differ as the prior says; pooled intervals are shorter where groups are alike, and"
            " wider for few groups under much noise"
        )

    def by_words(self) -> str:
        """Return the end of a question."""
        return f", by {' and '.join(self.keys)}" if self.keys else ""
