"""Features that are independent given a class: their levels' probabilities, and the classes'.

Noisy counts of every feature's levels by class are released once; tables, class probabilities and predictions follow
from them for nothing. Or draws of the tables are released, from truncated and tempered Dirichlet posteriors
[FouldsGWC16, sec. 3 and fig. 6].
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

import vestry.model.histograms as counts
from vestry.conjugate.dirichlet_categorical import DirichletCategoricalFamily, swamping
from vestry.conjugate.table_forecast import table_widths
from vestry.errors import InvalidParameter
from vestry.mechanisms.additive_noise import Additive
from vestry.mechanisms.table_sample import TableSample, calibrate_tables
from vestry.model.histograms import NOISES, concentration, feature_levels
from vestry.model.request import (
    PreparedSums,
    Request,
    Size,
    WidthPair,
    adjacency_of,
    declaration,
    groups_of,
    listing,
    size_by_group,
)
from vestry.naive_bayes.naive_bayes_posterior import naive_bayes_reader
from vestry.privacy.neighbours import Adjacency
from vestry.schema.domain import Domain
from vestry.schema.statistics import SumQuery
from vestry.schema.table_schema import TableSchema

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
        The concentration of every Dirichlet, the same for each level and class. If omitted it is unknown, and so is the
        share of levels that never occur: see `vestry.conjugate.sparse_dirichlet`; for features of two levels, classes
        and draws it is 1.
    """

    features: tuple[str, ...]
    target: str | None = None
    prior: float | None = None

    name: ClassVar[str] = "naive-bayes"
    reader: ClassVar[Any] = staticmethod(naive_bayes_reader)
    column_keys: ClassVar[tuple[str, ...]] = ("features", "target")
    mechanisms: ClassVar[None] = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "features", counts.listed(self.features))

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
            counts.key_levels(domains, self.target, "target")
            if self.target in self.features:
                raise InvalidParameter("target", self.target, "no feature", "another column")
        counts.check_distinct(self.features, "features")
        _ = self.alpha

    @property
    def alpha(self) -> float:
        """The concentration; that of draws, where none is declared."""
        return 1.0 if self.prior is None else concentration(self.prior)

    def prepare(self, request: Request, schema: TableSchema, count: int | None) -> PreparedSums:
        """Calibrate from declarations and, where it is public, the number of records."""
        self.check(schema.domains)
        adjacency, levels = adjacency_of(schema, self, count), feature_levels(schema.domains, self.features)
        if request.mechanism not in (*NOISES, OPS):
            allowed = ", ".join((*NOISES, OPS)) + " for naive-bayes"
            raise InvalidParameter("mechanism", request.mechanism, allowed, 'mechanism = "laplace"')
        by_draws, groups = request.mechanism == OPS, groups_of(schema.domains, self.target)
        fixed = not by_draws and adjacency.count is not None
        cell = counts.Histograms(self.features, levels, fixed=fixed, total=by_draws)
        mechanism: Any = (
            self._calibrate_draws(request, cell, adjacency)
            if by_draws
            else counts.calibrate_counts(request.mechanism, cell.layout(adjacency), adjacency, request.guarantee)
        )
        tally = SumQuery(() if self.target is None else (self.target,), cell.terms)
        tally.check(schema.domains)
        own = () if self.target is None else (f"this {self.target}",)
        labels = (*own, *counts.level_labels(self.features, levels))
        described = {
            "name": self.name,
            "target": self.target,
            "classes": list(groups) if self.target is not None else [],
            "features": list(self.features),
            "levels": [list(names) for names in levels],
        }
        numbers = () if self.prior is None and not by_draws else (self.alpha,)
        return PreparedSums(self, described, numbers, mechanism, tally, groups, labels)

    def _calibrate_draws(self, request: Request, cell: counts.Histograms, adjacency: Adjacency) -> TableSample:
        """Calibrate draws: one truncated Dirichlet per feature and class, and one for the classes."""
        low, draws = request.truncation, 1 if request.draws is None else request.draws
        sizes = [len(names) for names in cell.levels]
        most = max(*sizes, adjacency.groups)
        if not isinstance(low, float) or not 0 < low < 1 / most:
            allowed = f"above 0 and below 1/{most}, one over the most levels"
            raise InvalidParameter("truncation", low, allowed, f"truncation = {0.1 / most:.2g}")
        return calibrate_tables(
            DirichletCategoricalFamily, sizes, self.alpha, adjacency, request.guarantee, truncation=low, draws=draws
        )

    def forecast(self, prepared: Any, schema: TableSchema, n: int, rng: np.random.Generator) -> WidthPair:
        """Return the expected width of a level's 90 % interval, and the same without privacy, at n records per class.

        Tables are drawn from the prior; the widths are averaged over the features. See `table_widths`, which says
        what is looked at.
        """
        mechanism, looks = prepared.mechanism, {}
        sizes = [len(names) for names in feature_levels(schema.domains, self.features)]
        for size in dict.fromkeys(sizes):
            if isinstance(mechanism, Additive):
                public = mechanism.layout.count is not None
                looks[size] = table_widths(size, self.prior, mechanism.deviation, n, rng, public=public)
            else:  # of draws, at a temperature
                tempered, _ = table_widths(size, self.alpha, 0.0, max(1, round(n / mechanism.value)), rng, public=True)
                looks[size] = tempered, table_widths(size, self.alpha, 0.0, n, rng, public=True)[0]
        private, exact = np.mean([looks[size] for size in sizes], axis=0)
        return float(private), float(exact), None

    def caution(self, prepared: Any, schema: TableSchema, n: int) -> str:
        """Say that a declared prior would swamp the table of a feature of which most levels are empty."""
        if self.prior is None or not isinstance(prepared.mechanism, Additive):
            return ""
        most = max(len(names) for names in feature_levels(schema.domains, self.features))
        return swamping((self.alpha,) * most, prepared.mechanism.deviation, n)

    def size(self, domains: Mapping[str, Domain]) -> Size:
        """Return how many numbers a release has."""
        return size_by_group(self, domains)

    def question(self) -> str:
        """Say in words what is asked."""
        return f"The probabilities of {listing(self.features)}" + (
            "" if self.target is None else f" given {self.target}"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the declaration, as a study file writes it; what is released is the same with any prior."""
        return declaration(self.name, {**vars(self), "prior": self.alpha})
