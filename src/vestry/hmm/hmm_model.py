"""Hidden states of regions over time, with naive Bayes emissions [FouldsGWC16, sec. 5 and supplement E].

Every entry has a region and a time, its cell, and a level of each feature. The counts of levels by cell are all that
the model needs of the entries: they are collected in one query and given noise once. Any number of sweeps over them,
with any number of states and any prior, is then free (`vestry.hmm.hidden_states`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

import vestry.model.histograms as counts
from vestry.errors import InvalidParameter
from vestry.hmm.hidden_states import hidden_states_reader
from vestry.model.histograms import concentration, feature_levels, key_levels
from vestry.model.request import (
    MOST_COUNTS,
    WIDE,
    PreparedSums,
    Request,
    Size,
    WidthPair,
    adjacency_of,
    declaration,
    groups_of,
    listing,
    parameters_of,
)
from vestry.privacy.neighbours import Neighbours
from vestry.schema.domain import LEVEL, Domain, drops
from vestry.schema.statistics import SumQuery
from vestry.schema.table_schema import TableSchema
from vestry.validation import is_whole, require_choice

PUBLIC, PRIVATE = "public", "private"
_INSIDE = (
    "The cell of each record (its region and its time) is declared public and is not hidden: neighbours differ in the"
    " other features of one record."
)
_SEQUENCE = 'sequence = { region = "region", time = "month" }'


@dataclass(frozen=True)
class HiddenMarkovModel:
    """A hidden Markov chain for each region, whose states decide what the entries of a month are like.

    Attributes
    ----------
    sequence
        The columns that say which `region` and which `time` an entry belongs to. Times are in the declared order.
    features
        Columns of levels, independent given the state.
    states
        How many states there are. Another number is free, from the release.
    cell
        `private`: an entry may move to another region and time, and that is hidden too. `public`: where and when an
        entry lies is known to all, and a replacement changes its features alone.
    prior
        The concentrations of the transition rows and of the emission tables.

    Notes
    -----
    Under replace, with one row per unit and no feature dropped, public cells have totals that do not move. Features of
    two levels are then counted by one of them, and cost half (see `vestry.model.histograms`); the certificate says that
    cells are not hidden. With a person as the unit the choice of rows may move entries between cells, and under
    add-remove totals move: there `cell` changes nothing.
    """

    sequence: Mapping[str, str]
    features: tuple[str, ...]
    states: int = 2
    cell: str = PRIVATE
    prior: tuple[float, float] = (1.0, 1.0)

    name: ClassVar[str] = "hmm"
    reader: ClassVar[Any] = staticmethod(hidden_states_reader)
    column_keys: ClassVar[tuple[str, ...]] = ("sequence", "features")
    mechanisms: ClassVar[tuple[str, ...]] = counts.NOISES

    def __post_init__(self) -> None:
        object.__setattr__(self, "features", counts.listed(self.features))

    @property
    def by(self) -> str:
        """The regions are the groups."""
        return self.sequence["region"]

    @property
    def columns(self) -> tuple[str, ...]:
        """Every column that is read."""
        return (self.sequence["region"], self.sequence["time"], *self.features)

    def check(self, domains: Mapping[str, Domain]) -> None:
        """Refuse columns and numbers that do not fit."""
        if not isinstance(self.sequence, Mapping) or set(self.sequence) != {"region", "time"}:
            given = dict(self.sequence) if isinstance(self.sequence, Mapping) else self.sequence
            raise InvalidParameter("sequence", given, "a region and a time", _SEQUENCE)
        region, time = (key_levels(domains, self.sequence[key], "sequence") for key in ("region", "time"))
        if time.missing == LEVEL:
            column = self.sequence["time"]
            raise InvalidParameter(
                "sequence", column, 'a time that has a place in the order, not missing = "level"', 'missing = "drop"'
            )
        feature_levels(domains, self.features)
        counts.check_distinct(self.columns, "features")
        require_choice("cell", self.cell, (PUBLIC, PRIVATE), f'cell = "{PRIVATE}"')
        cells = len(region.names) * len(time.names)
        if not is_whole(self.states) or not 2 <= self.states <= cells:
            raise InvalidParameter("states", self.states, f"from 2 to {cells}, the number of cells", "states = 2")
        if not isinstance(self.prior, tuple) or len(self.prior) != 2:
            raise InvalidParameter("prior", self.prior, "two numbers: transitions and emissions", "prior = [1, 1]")
        for each in self.prior:
            concentration(each)

    def fixed(self, schema: TableSchema) -> bool:
        """Tell whether neighbours have the same number of entries in every cell."""
        # An entry that is dropped for its region or time is dropped in both: these are public and do not change.
        dropped = any(drops(schema.domains[column]) for column in self.features)
        single = schema.unit.person is None and schema.neighbours is Neighbours.REPLACE
        return self.cell == PUBLIC and single and not dropped

    def prepare(self, request: Request, schema: TableSchema, count: int | None) -> PreparedSums:
        """Calibrate from declarations alone."""
        self.check(schema.domains)
        levels = feature_levels(schema.domains, self.features)
        short = self.fixed(schema) and any(len(names) == 2 for names in levels)
        cell = counts.Histograms(self.features, levels, fixed=short, total=short)
        regions, times = (
            key_levels(schema.domains, self.sequence[key], "sequence").names for key in ("region", "time")
        )
        adjacency = adjacency_of(schema, self, None)
        layout = cell.layout(adjacency, times)
        limits = _INSIDE if short else ""
        mechanism = counts.calibrate_counts(request.mechanism, layout, adjacency, request.guarantee, limits=limits)
        tally = SumQuery((self.sequence["region"], self.sequence["time"]), cell.terms)
        tally.check(schema.domains)
        described = {
            "name": self.name,
            "states": self.states,
            "cell": self.cell,
            "sequence": dict(self.sequence),
            "regions": list(regions),
            "times": list(times),
            "features": list(self.features),
            "levels": [list(names) for names in levels],
            "totals": short,
        }
        numbers, labels = tuple(map(concentration, self.prior)), counts.level_labels(self.features, levels)
        return PreparedSums(self, described, numbers, mechanism, tally, regions, labels)

    def forecast(self, prepared: Any, schema: TableSchema, n: int, rng: np.random.Generator) -> WidthPair:
        """Return the width of a 90 % interval of one level's count in one cell, and the same without noise, in entries.

        With n entries in a region, spread evenly over its times and each feature's levels. Where the noise makes it
        much wider than chance does, single cells say little, and states can be told apart only by many of them.
        """
        each = n / len(key_levels(schema.domains, self.sequence["time"], "sequence").names)
        sizes = [len(names) for names in feature_levels(schema.domains, self.features)]
        spreads = [math.sqrt(each * (1 - 1 / size) / size) for size in sizes]
        private = [WIDE * math.hypot(spread, prepared.mechanism.deviation) for spread in spreads]
        return sum(private) / len(private), WIDE * sum(spreads) / len(spreads), None

    def size(self, domains: Mapping[str, Domain]) -> Size:
        """Return how many counts there are: regions x times x levels."""
        times, *levels = (parameters_of(domains[column]) for column in self.columns[1:])
        number = len(groups_of(domains, self.by)) * times * sum(levels)
        return Size(number, MOST_COUNTS, "regions x times x levels")

    def question(self) -> str:
        """Say in words what is asked."""
        region, time = self.sequence["region"], self.sequence["time"]
        known = f"; {region} and {time} are public" if self.cell == PUBLIC else ""
        return f"The hidden state of each {region} at each {time}, from {listing(self.features)}{known}"

    def to_dict(self) -> dict[str, Any]:
        """Return the declaration, as a study file writes it."""
        return declaration(self.name, {**vars(self), "sequence": dict(self.sequence)})
