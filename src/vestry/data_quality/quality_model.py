"""Which declarations do not fit the records: noisy counts of missing, unmatched and clipped values by column.

A record's value has exactly one condition in each of C columns: it fits what is declared, is missing, is unmatched, or
is clipped. So the counts of all conditions of all columns are C histograms of the same records, priced together. One
unit of k records moves them by

    neighbours      l1        l2
    add-remove      k C       k sqrt(C)
    replace         2 k C     k sqrt(2 C)

(`vestry.model.histograms`). To count the values that fit costs nothing more, and tells how many records there are.

Where the number of records is public, the values that fit are what remains, and one record moves each of the d other
counts by at most 1, all of them together. Noise that is uniform on a random cube (`vestry.noise.cube`) keeps epsilon
with a standard deviation of about d/(sqrt(3) epsilon), where Laplace noise has sqrt(8) C/epsilon: half of it, and it is
bounded by the cube.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from vestry.conjugate.table_forecast import LEVEL, released_width
from vestry.data_quality.quality_posterior import conditions_of, quality_reader
from vestry.errors import InvalidParameter
from vestry.mechanisms.additive_noise import CUBE, LAPLACE, Additive, calibrate_noise
from vestry.mechanisms.statistic_family import Layout
from vestry.model.histograms import (
    NOISES,
    Histograms,
    calibrate_counts,
    check_distinct,
    concentration,
    level_labels,
    listed,
)
from vestry.model.request import (
    MOST_PARAMETERS,
    WIDE,
    PreparedSums,
    Request,
    Size,
    WidthPair,
    adjacency_of,
    counts_publicly,
    declaration,
    declared,
    listing,
)
from vestry.privacy.guarantee import Guarantee
from vestry.privacy.neighbours import Adjacency
from vestry.schema.domain import Domain
from vestry.schema.statistics import Condition, SumQuery
from vestry.schema.table_schema import TableSchema

# The width of a share of one half under Laplace noise, in its scales over n: where n is private, and public.
_LAPLACE = 3.27, 3.0


@dataclass(frozen=True)
class Quality:
    """The shares of values that are missing, that match nothing declared, and that are clipped, column by column.

    Attributes
    ----------
    columns
        Declared columns of any kind; a study file that names none means all of them.
    prior
        The concentration of the Dirichlet prior of each column's shares.
    """

    columns: tuple[str, ...] = ()
    prior: float = 1.0

    name: ClassVar[str] = "quality"
    reader: ClassVar[Any] = staticmethod(quality_reader)
    column_keys: ClassVar[tuple[str, ...]] = ("columns",)
    mechanisms: ClassVar[tuple[str, ...]] = (*NOISES, "cube")
    by: ClassVar[None] = None
    inspects: ClassVar[bool] = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", listed(self.columns))

    @classmethod
    def defaults(cls, domains: Mapping[str, Domain]) -> dict[str, Any]:
        """Return what is meant where a study file is silent: every declared column."""
        return {"columns": tuple(domains)}

    def check(self, domains: Mapping[str, Domain]) -> None:
        """Refuse columns and numbers that do not fit."""
        if not isinstance(self.columns, tuple) or not self.columns:
            instead = f'columns = ["{next(iter(domains), "ward")}"]'
            raise InvalidParameter("columns", self.columns, "a list of declared columns", instead)
        for column in self.columns:
            declared(domains, column)
        check_distinct(self.columns, "columns")
        concentration(self.prior)

    def prepare(self, request: Request, schema: TableSchema, count: int | None) -> PreparedSums:
        """Calibrate from declarations and, where it is public, the number of records."""
        self.check(schema.domains)
        written = {column: schema.domains[column].to_dict() for column in self.columns}
        conditions = tuple(conditions_of(domain) for domain in written.values())
        adjacency = adjacency_of(schema, self, count)
        counted = tuple(names[1:] for names in conditions) if request.mechanism == "cube" else conditions
        layout = Histograms(self.columns, counted).layout(adjacency)
        if request.mechanism == "cube":
            mechanism = _cube(layout, adjacency, request.guarantee)
        else:
            mechanism = calibrate_counts(request.mechanism, layout, adjacency, request.guarantee)
        pairs = [(column, each) for column, names in zip(self.columns, counted, strict=True) for each in names]
        tally = SumQuery((), tuple(Condition(*pair) for pair in pairs))
        tally.check(schema.domains)
        labels = level_labels(self.columns, tuple(names[1:] for names in conditions))
        described = {"name": self.name, "columns": written}
        return PreparedSums(self, described, (concentration(self.prior),), mechanism, tally, ("all",), labels)

    def forecast(self, prepared: Any, schema: TableSchema, n: int, rng: np.random.Generator) -> WidthPair:
        """Return the expected width of a 90 % interval where half of a column's values do not fit; without noise 0.

        Where every value fits most intervals have no width at all. With s of n values missing and the others fitting,
        s - (n - s) is known from two noisy counts, and s/n = 1/2 + (2 s - n)/2n: the deviation of s/n is sigma/(sqrt(2)
        n), whether n is public or not. For Laplace noise of scale b = sigma/sqrt(2) the mean width is 3.00 b/n where n
        is public (the posterior is flat between the two counts and has tails of scale b/2), and 3.27 b/n where it is
        not, that of a sum of two. On a cube one count alone tells of s, uniform within it.
        """
        mechanism, public = prepared.mechanism, counts_publicly(schema, self)
        wide = {CUBE: WIDE, LAPLACE: _LAPLACE[public] / math.sqrt(2)}.get(mechanism.noise, WIDE / math.sqrt(2))
        return float(released_width(0.0, LEVEL, wide * mechanism.deviation / n)), 0.0, None

    def caution(self, prepared: Any, schema: TableSchema, n: int) -> str:
        """Say that the noise may hide a column of which nothing fits: found by fewer than 98 of 100 releases.

        With Laplace noise of scale b the log odds of such a column are 2n/b, less 2(e + f): e and f are each 0 or, with
        probability 1/2, exponential, and a finding needs about 4.6. At n = 5 sqrt(2) b that fails with 0.017.
        """
        if n >= _DEVIATIONS * prepared.mechanism.deviation:
            return ""
        return "the noise may hide a column that does not fit; add a delta, or name fewer columns"

    def size(self, domains: Mapping[str, Domain]) -> Size:
        """Return how many shares there are."""
        number = sum(len(conditions_of(domains[column].to_dict())) - 1 for column in self.columns)
        return Size(number, MOST_PARAMETERS, "columns x conditions")

    def question(self) -> str:
        """Say in words what is asked."""
        return f"The shares of missing, unmatched and clipped values of {listing(self.columns)}"

    def to_dict(self) -> dict[str, Any]:
        """Return the declaration, as a study file writes it."""
        return declaration(self.name, vars(self))


def _cube(layout: Layout, adjacency: Adjacency, guarantee: Guarantee) -> Additive:
    """Calibrate noise on a cube; it needs a public number of records, and a cube that can be drawn."""
    if adjacency.count is None:
        allowed = "laplace or gaussian where the number of records is private"
        raise InvalidParameter("mechanism", "cube", allowed, 'mechanism = "laplace"')
    mechanism = calibrate_noise(CUBE, replace(layout, largest=adjacency.rows), adjacency, guarantee)
    if mechanism.scale * len(layout.names) > _EDGE:
        raise InvalidParameter("mechanism", "cube", "another one for so little spend", 'mechanism = "laplace"')
    return mechanism


# The longest edge of a cube that is drawn: its draw takes time in proportion.
_EDGE = 2e5
# Deviations of the noise that a whole column must have.
_DEVIATIONS = 5
