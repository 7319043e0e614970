"""Two- and three-way tables as a model: the probabilities of all combinations of levels, from one charge.

A record lies in one cell, so all cells together cost what one count costs (`vestry.model.counted_cells`). Their
probabilities are those of one categorical variable whose categories are the cells, with the posterior of
`vestry.conjugate.dirichlet_categorical`: the noise summed out, and the concentration too where none is declared. Cells
that cannot occur (structural zeros) are left out when the release is read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, ClassVar

import numpy as np

from vestry.conjugate.dirichlet_categorical import DirichletCategoricalFamily
from vestry.conjugate.table_forecast import table_widths
from vestry.errors import InvalidParameter
from vestry.model.counted_cells import CountedCells
from vestry.model.histograms import NOISES, calibrate_counts, check_distinct, concentration, listed
from vestry.model.request import (
    MOST_PARAMETERS,
    PreparedSums,
    Request,
    Size,
    WidthPair,
    adjacency_of,
    declaration,
    levels_of,
)
from vestry.numerics import Array
from vestry.posterior.joined_noise import joined, summed
from vestry.posterior.mixture import PosteriorDistribution
from vestry.posterior.noisy_data import MULTINOMIAL, NoisyData, noisy_data, statistics_of
from vestry.posterior.reader import Reader
from vestry.releases import NoisyStatistics, Release
from vestry.schema.domain import Domain
from vestry.schema.table_schema import TableSchema
from vestry.tables.joint_table import JointTable

_FEWEST, _MOST = 2, 3
# Cells that must be able to occur.
_LEAST_CELLS = 3
# From this weight of the prior on, margins are pulled towards even ones by more than their intervals take in.
_LEANS = 0.1


@dataclass(frozen=True, eq=False)
class ContingencyReader(Reader):
    """How a release of a table is read.

    Attributes
    ----------
    columns, levels
        The columns, and the levels of each.
    zeros
        The places of the cells that cannot occur, among all cells.
    alpha
        The concentration of every other cell; None if it is unknown.
    """

    columns: tuple[str, ...]
    levels: tuple[tuple[str, ...], ...]
    zeros: frozenset[int]
    alpha: float | None

    parameter = "probability"
    has_table: ClassVar[bool] = True

    @property
    def cells(self) -> tuple[int, ...]:
        """The places of the cells that may occur."""
        return tuple(place for place in range(self._size) if place not in self.zeros)

    @property
    def _size(self) -> int:
        return int(np.prod([len(names) for names in self.levels]))

    @property
    def dimension(self) -> int:
        """How many cells may occur."""
        return len(self.cells)

    @property
    def _family(self) -> DirichletCategoricalFamily:
        return DirichletCategoricalFamily(self.dimension)

    @property
    def _prior(self) -> Any:
        return self._family.prior(() if self.alpha is None else (self.alpha,) * self.dimension)

    def _select_cells(self, statistics: NoisyStatistics) -> NoisyStatistics:
        """Return the noisy counts of the cells that may occur."""
        if len(statistics.values) != self._size:
            given = len(statistics.values)
            raise InvalidParameter("the number of noisy statistics", given, str(self._size), "the release's own")
        names = tuple(statistics.names[at] for at in self.cells)
        return replace(statistics, names=names, values=tuple(statistics.values[at] for at in self.cells))

    def noise_aware(self, statistics: NoisyStatistics) -> PosteriorDistribution:
        """Return the probabilities of the cells, the noise summed out."""
        return self._family.noise_aware(self._prior, self._select_cells(statistics))

    def plug_in(self, statistics: NoisyStatistics) -> PosteriorDistribution:
        """Return the posterior that takes the noisy counts as exact."""
        return self._family.plug_in(self._prior, self._select_cells(statistics))

    def combined(self, contents: Sequence[NoisyStatistics], *, same_people: bool) -> PosteriorDistribution:
        """Return the probabilities of the cells from several releases."""
        counts = [self._select_cells(each) for each in contents]
        return self._family.noise_aware(self._prior, (joined if same_people else summed)(counts))

    def noisy_data(self, release: Release) -> NoisyData:
        """Return the counts of the cells that may occur."""
        contents = {group: self._select_cells(each) for group, each in statistics_of(release).items()}
        return noisy_data(replace(release, contents=contents), MULTINOMIAL)

    def before(self) -> PosteriorDistribution:
        """Return the prior: the posterior of no records at all."""
        nothing = NoisyStatistics(("",) * self.dimension, (0,) * self.dimension, "discrete-laplace", 1.0)
        return self._family.plug_in(self._prior, nothing)

    def predict(self, theta: Array, size: int, rng: np.random.Generator) -> Array:
        """Draw how many of `size` new records lie in each cell."""
        return self._family.predict(theta, size, rng)

    def remark(self, distribution: Any, index: int) -> str:
        """Say which cells are faint."""
        return self._family.remark(self._prior, distribution, index)

    def joint_table(self, draws: Array, interval_method: str, distribution: Any) -> JointTable:
        """Return joint draws with the shape of the table; a cell that cannot occur has the probability 0."""
        whole = np.zeros((len(draws), self._size))
        whole[:, self.cells] = draws
        leans = getattr(distribution, "prior_weight", 0.0) >= _LEANS
        return JointTable(self.columns, self.levels, whole.reshape(-1, *map(len, self.levels)), interval_method, leans)


def contingency_reader(described: Mapping[str, Any], prior: tuple[float, ...]) -> ContingencyReader:
    """Read what a release says of itself, with one concentration or none."""
    if len(prior) > 1:
        raise InvalidParameter("the prior of a table", prior, "one number, or none", "prior=(1,)")
    columns = tuple(str(each["name"]) for each in described["columns"])
    levels = tuple(tuple(each["levels"]) for each in described["columns"])
    alpha = concentration(prior[0]) if prior else None
    return ContingencyReader(columns, levels, frozenset(described["zeros"]), alpha)


@dataclass(frozen=True)
class ContingencyTable:
    """The probability of every combination of the levels of two or three columns.

    Attributes
    ----------
    columns
        Two or three columns of levels.
    zeros
        Combinations that cannot occur, each a list of one level of every column. It is a public promise: their noisy
        counts are released, as those of other cells are, and not looked at.
    prior
        The concentration of every cell. If omitted it is unknown, and is summed out.
    """

    columns: tuple[str, ...]
    zeros: tuple[tuple[str, ...], ...] = ()
    prior: float | None = None

    name: ClassVar[str] = "table"
    reader: ClassVar[Any] = staticmethod(contingency_reader)
    column_keys: ClassVar[tuple[str, ...]] = ("columns",)
    mechanisms: ClassVar[tuple[str, ...]] = NOISES
    by: ClassVar[None] = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", listed(self.columns))
        if isinstance(self.zeros, list | tuple):
            object.__setattr__(self, "zeros", tuple(listed(each) for each in self.zeros))

    def check(self, domains: Mapping[str, Domain]) -> None:
        """Refuse columns, zeros and a prior that do not fit."""
        if not isinstance(self.columns, tuple) or not _FEWEST <= len(self.columns) <= _MOST:
            given = list(self.columns) if isinstance(self.columns, tuple) else self.columns
            raise InvalidParameter("columns", given, "two or three columns of levels", 'columns = ["ward", "sex"]')
        check_distinct(self.columns, "columns")
        if self.prior is not None:
            concentration(self.prior)
        cells = [", ".join(cell) for cell in self._cells(domains)]
        if len(set(cells)) < len(cells):
            allowed = "columns whose levels tell the cells apart, written one behind the other"
            raise InvalidParameter("columns", list(self.columns), allowed, "levels without commas")
        if len(self._cells(domains)) - len(self._zeros(domains)) < _LEAST_CELLS:
            raise InvalidParameter("zeros", len(self.zeros), f"so few that {_LEAST_CELLS} cells remain", "fewer zeros")

    def _cells(self, domains: Mapping[str, Domain]) -> list[tuple[str, ...]]:
        return list(product(*(levels_of(domains, column).names for column in self.columns)))

    def _zeros(self, domains: Mapping[str, Domain]) -> list[int]:
        """Return the places of the structural zeros, or refuse one that is not a cell."""
        cells = self._cells(domains)
        for zero in self.zeros if isinstance(self.zeros, tuple) else (self.zeros,):
            if zero not in cells:
                instead = f"zeros = [{list(cells[0])}]".replace("'", '"')
                raise InvalidParameter("zeros", zero, f"lists of one level of {', '.join(self.columns)} each", instead)
        return sorted({cells.index(zero) for zero in self.zeros})

    def prepare(self, request: Request, schema: TableSchema, count: int | None) -> PreparedSums:
        """Calibrate from declarations and, where it is public, the number of records."""
        self.check(schema.domains)
        cells, zeros = [", ".join(cell) for cell in self._cells(schema.domains)], self._zeros(schema.domains)
        adjacency, counts = adjacency_of(schema, self, None if zeros else count), CountedCells(self.columns)
        mechanism = calibrate_counts(
            request.mechanism, counts.layout(adjacency, tuple(cells)), adjacency, request.guarantee
        )
        counts.query.check(schema.domains)
        columns = [{"name": each, "levels": list(levels_of(schema.domains, each).names)} for each in self.columns]
        described = {"name": self.name, "columns": columns, "zeros": zeros}
        labels = tuple(cell for place, cell in enumerate(cells) if place not in zeros)
        numbers = () if self.prior is None else (concentration(self.prior),)
        return PreparedSums(self, described, numbers, mechanism, counts.query, ("all",), labels)

    def forecast(self, prepared: Any, schema: TableSchema, n: int, rng: np.random.Generator) -> WidthPair:
        """Return the expected 90 % width of a cell, and that without noise, of tables that are drawn from the prior.

        See `table_widths`, which says which cells are looked at.
        """
        reader, mechanism = contingency_reader(prepared.described, prepared.numbers), prepared.mechanism
        public = mechanism.layout.count is not None
        return (*table_widths(reader.dimension, reader.alpha, mechanism.deviation, n, rng, public=public), None)

    def size(self, domains: Mapping[str, Domain]) -> Size:
        """Return how many cells there are."""
        return Size(len(self._cells(domains)), MOST_PARAMETERS, "cells")

    def question(self) -> str:
        """Say in words what is asked."""
        return f"The probability of each combination of {' and '.join(self.columns)}"

    def to_dict(self) -> dict[str, Any]:
        """Return the declaration, as a study file writes it."""
        return declaration(self.name, vars(self))
