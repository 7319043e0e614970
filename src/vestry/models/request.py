"""A request: a model, a guarantee and a mechanism; and what it comes to for a table, before anything is charged."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from vestry.data import Table
from vestry.data.bound import check_bound
from vestry.errors import InvalidParameter
from vestry.families import Family
from vestry.mechanisms.additive import Additive, layout
from vestry.mechanisms.calibrated import ADDITIVE, PARAMETERS, calibrated
from vestry.mechanisms.exponential import TruncatedSample
from vestry.mechanisms.posterior_sample import PosteriorSample
from vestry.models.model import Model, groups_of
from vestry.privacy.guarantee import Guarantee, PureDP
from vestry.privacy.neighbours import Neighbours, Unit
from vestry.statistics.domain import Domain, drops
from vestry.statistics.population import Population
from vestry.statistics.private import Private
from vestry.statistics.tally import Tally

AUTO = "auto"
# A model of a conjugate family, or one that prepares itself (see `RowModel`).
AnyModel = Any


@dataclass(frozen=True)
class Frame:
    """What is declared of a table: its columns, whose change is hidden, and which change.

    Attributes
    ----------
    domains
        What each column may contain.
    unit, neighbours
        As the ledger owns them.
    largest
        How many records there are at most, where their number is private.
    """

    domains: Mapping[str, Domain]
    unit: Unit
    neighbours: Neighbours
    largest: int = 10**12

    def counts_publicly(self, model: AnyModel) -> bool:
        """Tell whether the number of records that count is public: replace, unit row, no groups, nothing dropped."""
        dropped = any(drops(self.domains[column]) for column in model.columns if column in self.domains)
        whole = self.unit.person is None and model.by is None and not dropped
        return whole and self.neighbours is Neighbours.REPLACE

    def population(self, model: AnyModel, count: int | None) -> Population:
        """Return which neighbours a release of the model must hide; `count` is used where it is public."""
        public = self.counts_publicly(model)
        groups = len(groups_of(self.domains, model.by))
        return Population(self.neighbours, self.unit.rows, count if public else None, groups)


@dataclass(frozen=True)
class Request:
    """What is asked of a table.

    Attributes
    ----------
    model
        The model.
    guarantee
        What the release may cost.
    mechanism
        Its name, or `auto`: the noise that is expected to give the shortest intervals; with `draws`, the posterior
        draw that is expected to lie nearest to the posterior itself.
    draws
        How many posterior draws are released; None for noisy statistics.
    truncation
        For `ops`: no probability below it.
    """

    model: AnyModel
    guarantee: Guarantee
    mechanism: str = AUTO
    draws: int | None = None
    truncation: float | None = None

    def __post_init__(self) -> None:
        own: tuple[str, ...] | None = getattr(self.model, "mechanisms", None)
        if own is not None:
            self._check_own(own)
            return
        names = (AUTO, *PARAMETERS)
        if self.mechanism not in names:
            raise InvalidParameter("mechanism", self.mechanism, "one of " + ", ".join(names), 'mechanism = "auto"')
        if self.draws is None and self.mechanism not in (AUTO, *ADDITIVE):
            raise InvalidParameter("draws", None, f"given for {self.mechanism}", "draws = 1")
        if self.draws is not None and self.mechanism in ADDITIVE:
            raise InvalidParameter(
                "draws", self.draws, f"left out for {self.mechanism}", "no draws: draws from its release are free"
            )
        if self.draws is not None and not self.candidates():
            instead = "truncation = 0.01, or a spend with a delta"
            raise InvalidParameter("truncation", None, "given for draws that keep a pure epsilon", instead)
        if self.truncation is not None and self.mechanism not in (AUTO, "ops"):
            raise InvalidParameter("truncation", self.truncation, "left out but for ops", 'mechanism = "ops"')

    def _check_own(self, own: tuple[str, ...]) -> None:
        """Let through what a model with mechanisms of its own allows."""
        if self.mechanism not in (AUTO, *own):
            raise InvalidParameter("mechanism", self.mechanism, "one of " + ", ".join((AUTO, *own)), "no mechanism")
        if self.truncation is not None:
            raise InvalidParameter("truncation", self.truncation, "left out for this model", "no truncation")
        if self.draws is not None and "posterior" not in own:
            raise InvalidParameter("draws", self.draws, "left out where draws are free, or not made", "no draws")

    def candidates(self) -> tuple[str, ...]:
        """Return the mechanisms that `auto` compares, or the one that is named."""
        own: tuple[str, ...] | None = getattr(self.model, "mechanisms", None)
        if own is not None:
            return own if self.mechanism == AUTO else (self.mechanism,)
        if self.mechanism != AUTO:
            return (self.mechanism,)
        pure = isinstance(self.guarantee, PureDP)  # kept by Laplace noise and by a truncated posterior alone
        if self.draws is None:
            return ("laplace",) if pure else ADDITIVE
        sampled = () if pure else ("direct", "diffused", "concentrated")
        return sampled if self.truncation is None else (*sampled, "ops")

    def by(self, mechanism: str) -> Request:
        """Return the same request, by this mechanism."""
        truncation = self.truncation if mechanism == "ops" else None
        return replace(self, mechanism=mechanism, truncation=truncation)

    def prepared(self, frame: Frame, count: int | None) -> Any:
        """Calibrate the mechanism that is named, from declarations and, where it is public, the number of records."""
        if hasattr(self.model, "prepared"):
            public = count if frame.counts_publicly(self.model) else None
            return self.model.prepared(self, frame, public)
        family = self.model.family(frame.domains)
        numbers = self.model.numbers(frame.domains)
        prior, population = family.prior(numbers), frame.population(self.model, count)
        mechanism = calibrated(
            self.mechanism,
            family,
            prior,
            population,
            self.guarantee,
            draws=1 if self.draws is None else self.draws,
            truncation=self.truncation,
        )
        if not isinstance(mechanism, Additive):
            mechanism = replace(mechanism, unit=getattr(self.model, "unit", 1.0))
        laid = layout(family, population)
        collect = self.model.noisy if isinstance(mechanism, Additive) else self.model.drawn
        tally = collect(frame.domains, laid)
        tally.check(frame.domains)
        groups, labels = groups_of(frame.domains, self.model.by), self.model.labels(frame.domains)
        return Prepared(self.model, family, numbers, mechanism, tally, groups, labels)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return {
            **self.model.to_dict(),
            "spend": self.guarantee.to_dict(),
            "mechanism": self.mechanism,
            "draws": self.draws,
            "truncation": self.truncation,
        }

    def definition(self, frame: Frame) -> str:
        """Return a hash of the request and of the domains it reads: the same question has the same one."""
        read = {column: frame.domains[column].to_dict() for column in self.model.columns}
        text = json.dumps({"request": self.to_dict(), "columns": read}, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True)
class Prepared:
    """All that a release needs but the ledger's leave and the records.

    Attributes
    ----------
    model, family, numbers
        The model, its family, and the prior's numbers.
    mechanism
        Calibrated.
    tally
        What is collected.
    groups, labels
        The names of the groups, and of the parameters of each.
    """

    model: Model
    family: Family
    numbers: tuple[float, ...]
    mechanism: Additive | PosteriorSample | TruncatedSample
    tally: Tally
    groups: tuple[str, ...]
    labels: tuple[str, ...]

    def check(self, table: Table) -> None:
        """Try all that can fail without touching values."""
        table.check(self.tally)

    def collect(self, table: Table, *, row_key: str) -> Private:
        """Sum over the records."""
        return table.collect(self.tally, row_key=row_key)

    def check_bound(self, domains: Mapping[str, Domain], largest: int) -> None:
        """Refuse sums that 64 bits cannot hold."""
        check_bound(self.tally, domains, largest)
