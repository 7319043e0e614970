"""A request: a model, a guarantee and a mechanism; and what it comes to for a table, before anything is charged.

`Model` is what the rest of the package asks of a model, and `PreparedRelease` what a model answers; `PreparedSums` is
the answer of models that release sums. A model of more numbers than can be read is refused by its declaration. What
models share in reading a declaration, and in writing one, stands below.
"""

from __future__ import annotations

import difflib
import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any, NamedTuple, Protocol

import numpy as np

from vestry.data import Table
from vestry.data.table import check_bound
from vestry.errors import InvalidParameter
from vestry.mechanisms.release import ADDITIVE, PARAMETERS, Mechanism
from vestry.privacy.guarantee import Guarantee, PureDP
from vestry.privacy.neighbours import Adjacency, Neighbours, Unit
from vestry.registry import AVERAGES
from vestry.schema.derivation import readings
from vestry.schema.domain import Domain, Interval, Levels, drops
from vestry.schema.private import Private, PrivateCounts, PrivateRows
from vestry.schema.statistics import SumQuery
from vestry.schema.table_schema import TableSchema
from vestry.validation import require_choice

AUTO = "auto"
# The column whose levels are the groups, several of them, or none.
By = str | tuple[str, ...] | None
# What most forecasts are: the width with privacy and without, and no divergence.
WidthPair = tuple[float, float, None]
# What is averaged where a unit has several rows.
ROW, PERSON = "row", "person"


class Model(Protocol):
    """What may be asked of a table."""

    @property
    def name(self) -> str:
        """Its name in study files."""

    @property
    def by(self) -> By:
        """The column whose levels are the groups, or several of them; None if there are none."""

    @property
    def columns(self) -> tuple[str, ...]:
        """Every column that is read, `by` included."""

    @property
    def mechanisms(self) -> tuple[str, ...] | None:
        """What `mechanism` may say beside `auto`; None for those of conjugate families."""

    def prepare(self, request: Request, schema: TableSchema, count: int | None) -> PreparedRelease:
        """Calibrate from declarations and, where it is public, the number of records; refuse what does not fit."""

    def forecast(
        self, prepared: Any, schema: TableSchema, n: int, rng: np.random.Generator
    ) -> tuple[float | tuple[float, ...], float | tuple[float, ...], float | None]:
        """Return the width of a 90 % credible interval, at n records per group, with privacy and without.

        A tuple has one for each kind of parameter. The model's reader says what they are the widths of (`widths_of`).
        The third is the expected divergence from the posterior without privacy to the released one; None where it is
        infinite or not computed.
        """

    def size(self, domains: Mapping[str, Domain]) -> Size:
        """Return how many numbers a release has, and how many it may have."""

    def question(self) -> str:
        """Say in words what is asked."""

    def to_dict(self) -> dict[str, Any]:
        """Return the declaration, as a study file writes it."""


def pools(model: Any) -> bool:
    """Tell whether groups are to learn from each other; it is chosen for reading, and not part of the question."""
    return bool(getattr(model, "pool", False))


def inspects(model: Any) -> bool:
    """Tell whether a model says which columns do not fit what is declared of them (`Reader.findings`)."""
    return bool(getattr(model, "inspects", False))


def has_average(model: Any, unit: Unit) -> bool:
    """Tell whether a model's rows can be averaged over persons, and persons have several."""
    return can_average(model) and unit.person is not None and unit.rows > 1


def can_average(model: Any) -> bool:
    """Tell whether a model says what of its rows is averaged, or what it is over persons itself."""
    return hasattr(model, "averaged") or getattr(model, "over_persons", None) is not None


def averaged_model(model: Any, unit: Unit, average: object, *, of_draws: bool) -> Any:
    """Return the model that is asked: over persons or over rows.

    Where nothing is said it is over persons, if their rows can be averaged and no draws are released.
    """
    if average is None:
        can_average_rows = has_average(model, unit) and not of_draws
        return _over_persons(model) if can_average_rows else model
    if require_choice("average", average, (PERSON, ROW), f'average = "{PERSON}"') == ROW:
        return model
    for broken, allowed in (
        (not can_average(model), f"{ROW} or omitted for {model.name}"),
        (unit.person is None, f"{ROW} or omitted where the unit is a row"),
        (of_draws, f"{ROW} or omitted where draws are released"),
    ):
        if broken:
            raise InvalidParameter("average", average, allowed, f'average = "{ROW}"')
    return _over_persons(model) if unit.rows > 1 else model


def _over_persons(model: Any) -> Any:
    if pools(model):
        allowed = "omitted for averages over persons, whose groups do not learn from each other"
        raise InvalidParameter("pool", True, allowed, f'average = "{ROW}" beside it')
    own = getattr(model, "over_persons", None)
    return AVERAGES[PERSON](model) if own is None else own


class PreparedRelease(Protocol):
    """All that a release needs except the ledger's leave and the records."""

    @property
    def model(self) -> Model:
        """What is asked."""

    @property
    def mechanism(self) -> Mechanism:
        """Calibrated."""

    @property
    def described(self) -> Mapping[str, Any]:
        """What the release says of its model, so that it can be read."""

    @property
    def numbers(self) -> tuple[float, ...]:
        """The prior's numbers."""

    @property
    def groups(self) -> tuple[str, ...]:
        """The names of the groups."""

    @property
    def labels(self) -> tuple[str, ...]:
        """The names of the parameters of each."""

    def check(self, table: Table) -> None:
        """Try all that can fail without touching values."""

    def collect(self, table: Table, *, row_key: str) -> Private | PrivateRows | PrivateCounts:
        """Read what the mechanism takes."""

    def check_bound(self, domains: Mapping[str, Domain], max_rows: int) -> None:
        """Refuse sums that 64 bits cannot hold."""


def counts_publicly(schema: TableSchema, model: Model) -> bool:
    """Return True if the number of records that count is public: replace, unit row, no groups, nothing dropped.

    It is not asked for by a model to which it says nothing (`uses_count`).
    """
    if not getattr(model, "uses_count", True):
        return False
    read = () if inspects(model) else (column for column in model.columns if column in schema.domains)
    dropped = any(drops(schema.domains[column]) for column in read)
    whole = schema.unit.person is None and model.by is None and not dropped
    return whole and schema.neighbours is Neighbours.REPLACE


def adjacency_of(schema: TableSchema, model: Model, count: int | None) -> Adjacency:
    """Return which neighbours a release of the model must hide; `count` is used where it is public."""
    public_count = count if counts_publicly(schema, model) else None
    groups = groups_of(schema.domains, model.by)
    return Adjacency(schema.neighbours, schema.unit.rows, public_count, len(groups))


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

    model: Model
    guarantee: Guarantee
    mechanism: str = AUTO
    draws: int | None = None
    truncation: float | None = None

    def __post_init__(self) -> None:
        check_names(self.model)
        own = self.model.mechanisms
        require_choice("mechanism", self.mechanism, (AUTO, *(PARAMETERS if own is None else own)), 'mechanism = "auto"')
        for broken, name, allowed, instead in self._rules(own):
            if broken:
                raise InvalidParameter(name, getattr(self, name), allowed, instead)

    def _rules(self, own: tuple[str, ...] | None) -> Iterator[tuple[bool, str, str, str]]:
        """Yield what must not be: whether it is, at which key, what is allowed there and what to write."""
        named, has_draws, cut = self.mechanism, self.draws is not None, self.truncation is not None
        if own is not None:
            yield cut, "truncation", "omitted for this model", "no truncation"
            yield has_draws and "posterior" not in own, "draws", "omitted where draws are free, or not made", "no draws"
            return
        yield not has_draws and named not in (AUTO, *ADDITIVE), "draws", f"given for {named}", "draws = 1"
        free = "no draws: draws from its release are free"
        yield has_draws and named in ADDITIVE, "draws", f"omitted for {named}", free
        pure, instead = "given for draws that keep a pure epsilon", "truncation = 0.01, or a spend with a delta"
        yield has_draws and not self.candidates(), "truncation", pure, instead
        yield cut and named not in (AUTO, "ops"), "truncation", "omitted except for ops", 'mechanism = "ops"'

    def candidates(self) -> tuple[str, ...]:
        """Return the mechanisms that `auto` compares, or the one that is named."""
        if self.mechanism != AUTO:
            return (self.mechanism,)
        pure = isinstance(self.guarantee, PureDP)  # never kept by Gaussian noise
        # Discrete Gaussian noise, of the same scale, has no exact price: whoever wants it names it.
        left_out = ("gaussian", "discrete-gaussian") if pure else ("discrete-gaussian",)
        if self.model.mechanisms not in (None, ADDITIVE):
            return tuple(name for name in self.model.mechanisms if name not in left_out)
        if self.draws is None:
            return tuple(name for name in ADDITIVE if name not in left_out)
        sampled = () if pure else ("direct", "diffused", "concentrated")
        return sampled if self.truncation is None else (*sampled, "ops")

    def settled(self) -> Request | None:
        """Return the request by the only mechanism there is for it; None where there is a choice."""
        only, *others = self.candidates()
        return None if others else self.by(only)

    def by(self, mechanism: str) -> Request:
        """Return the same request, by this mechanism."""
        truncation = self.truncation if mechanism == "ops" else None
        return replace(self, mechanism=mechanism, truncation=truncation)

    def prepare(self, schema: TableSchema, count: int | None) -> PreparedRelease:
        """Calibrate the mechanism that is named, from declarations and, where it is public, the number of records."""
        return self.model.prepare(self, schema, count if counts_publicly(schema, self.model) else None)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return {
            **self.model.to_dict(),
            "spend": self.guarantee.to_dict(),
            "mechanism": self.mechanism,
            "draws": self.draws,
            "truncation": self.truncation,
        }

    def definition(self, schema: TableSchema) -> str:
        """Return a hash of the request and of the domains it reads: the same question has the same one."""
        read = {column: schema.domains[column].to_dict() for column in self.model.columns}
        derived = [column for column in self.model.columns if schema.domains[column].derived is not None]
        others = {column: reading for column in derived if (reading := readings(column, schema.domains))}
        question = {"request": self.to_dict(), "columns": read, **({"readings": others} if others else {})}
        text = json.dumps(question, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True)
class PreparedSums:
    """All that a release needs except the ledger's leave and the records: see `PreparedRelease`.

    Attributes
    ----------
    tally
        What is collected, in one query.
    declared
        Columns that are read as something else than the table declares: numbers in bins.
    """

    model: Model
    described: Mapping[str, Any]
    numbers: tuple[float, ...]
    mechanism: Mechanism
    tally: SumQuery
    groups: tuple[str, ...]
    labels: tuple[str, ...]
    declared: Mapping[str, Domain] = field(default_factory=dict)

    def check(self, table: Table) -> None:
        """Try all that can fail without touching values."""
        table.declaring(self.declared).check(self.tally)

    def collect(self, table: Table, *, row_key: str) -> Private:
        """Sum over the records."""
        return table.declaring(self.declared).collect(self.tally, row_key=row_key)

    def check_bound(self, domains: Mapping[str, Domain], max_rows: int) -> None:
        """Refuse sums that 64 bits cannot hold."""
        check_bound(self.tally, {**domains, **self.declared}, max_rows)


# Parameters that are estimated one by one, each with its interval: at a few milliseconds each.
MOST_PARAMETERS = 2_500
# Groups of one parameter each: those of the same noisy counts share their distribution.
MOST_GROUPS = 10_000
# Levels of one table of unknown concentration: those of the same noisy count share their distribution.
MOST_LEVELS = 100_000
# Counts from which states are sampled.
MOST_COUNTS = 250_000


class Size(NamedTuple):
    """How many numbers a release of a model has, how many it may have, and of what they are the product."""

    number: int
    most: int
    what: str


def check_size(model: Any, domains: Mapping[str, Domain]) -> None:
    """Refuse a model of more parameters than can be read in seconds and in little memory."""
    if any(column not in domains for column in model.columns):
        return  # the model itself refuses what is not declared, and says what is
    size: Size = model.size(domains)
    if size.number > size.most:
        instead = "fewer levels, some of them joined into one"
        raise InvalidParameter(f"the size of the model ({size.what})", size.number, f"at most {size.most}", instead)


def size_by_group(model: Any, domains: Mapping[str, Domain]) -> Size:
    """Return the size of a model with a parameter for each level of its columns, or one for an interval, by group."""
    groups = len(groups_of(domains, model.by))
    number = groups * sum(parameters_of(domains[column]) for column in own_columns(model))
    return Size(number, MOST_PARAMETERS, "groups x parameters" if groups > 1 else "parameters")


def parameters_of(domain: Domain) -> int:
    """Return how many parameters a column has: one per level, or one."""
    return len(domain.names) if isinstance(domain, Levels) else 1


# The width of a normal distribution's 90 % interval, in standard deviations.
WIDE = 2 * 1.6448536269514722


def levels_of(domains: Mapping[str, Domain], column: str) -> Levels:
    """Return the declared levels of a column, or refuse."""
    domain = declared(domains, column)
    if not isinstance(domain, Levels):
        raise InvalidParameter(f"the column {column}", "an interval", "levels", f'{column} = {{ levels = ["a", "b"] }}')
    return domain


def interval_of(domains: Mapping[str, Domain], column: str) -> Interval:
    """Return the declared interval of a column, or refuse."""
    domain = declared(domains, column)
    if not isinstance(domain, Interval):
        raise InvalidParameter(f"the column {column}", "levels", "an interval", f"{column} = {{ interval = [0, 60] }}")
    return domain


def declared(domains: Mapping[str, Domain], column: str) -> Domain:
    """Return the declared domain of a column, or refuse: nothing is inferred."""
    if not isinstance(column, str) or column not in domains:
        near = difflib.get_close_matches(str(column), domains, 1)
        named, instead = ", ".join(domains) or "none", near[0] if near else f"what {column} may contain under columns"
        raise InvalidParameter("a column", column, f"one that is declared ({named})", instead)
    return domains[column]


def grouping(by: By) -> tuple[str, ...]:
    """Return the columns whose combinations of levels are the groups."""
    return () if by is None else (by,) if isinstance(by, str) else tuple(by)


def own_columns(model: Any) -> tuple[str, ...]:
    """Return the columns that a model is about: those that do not group the records."""
    return tuple(column for column in model.columns if column not in grouping(model.by))


def groups_of(domains: Mapping[str, Domain], by: By) -> tuple[str, ...]:
    """Return the names of the groups: the levels of `by`, of several columns `A, female`; or `all`.

    The last column's levels change fastest, as in `SumQuery.cells`.
    """
    columns = grouping(by)
    if not columns:
        return ("all",)
    names = tuple(", ".join(levels) for levels in product(*(levels_of(domains, column).names for column in columns)))
    if len(set(names)) < len(names):
        allowed = "columns whose levels tell the groups apart, written one behind the other"
        raise InvalidParameter("by", list(columns), allowed, "levels without commas")
    return names


def listing(columns: tuple[str, ...], mark: str = ", ") -> str:
    """Name a few columns, and count the rest: a question stays one line that a ledger can write."""
    shown = columns if len(columns) <= _FEW else columns[:_FEW]
    more = [f"{len(columns) - len(shown)} more"] if len(shown) < len(columns) else []
    return mark.join([*shown, *more])


def purpose_of(question: str) -> str:
    """Return a question as a ledger can write it: printable, and with room for a release's name before it."""
    text = "".join(each if each.isprintable() else " " for each in question).strip()
    return text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..."


def check_names(model: Any) -> None:
    """Refuse columns that are not named by text, and groups by one column twice."""
    try:
        by, columns = model.by, tuple(model.columns)
    except (AttributeError, KeyError, TypeError):
        instead = 'for example BetaBernoulli("readmitted", success="yes")'
        raise InvalidParameter("a model", type(model).__name__, "one whose columns are named", instead) from None
    check_grouping(by)
    for column in columns:
        if not isinstance(column, str):
            raise InvalidParameter("a column", column, "its name", 'for example "readmitted"')


def check_grouping(by: Any) -> None:
    """Refuse groups by what is not a column, or several of them, each once."""
    named = tuple(by) if isinstance(by, tuple | list) else () if by is None else (by,)
    if not all(isinstance(each, str) for each in named) or len(set(named)) < len(named) or by in ((), []):
        given = list(by) if isinstance(by, tuple) else by
        raise InvalidParameter(
            "by", given, "a column, or a list of columns, each once", 'by = "ward" or ["ward", "sex"]'
        )


# How many columns a question names, and how long a purpose is, at most.
_FEW, _LONGEST = 12, 900


def declaration(name: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return a model's declaration, as a study file writes it; a prior comes last."""
    plain = {key: list(value) if isinstance(value, tuple) else value for key, value in values.items()}
    by = grouping(values.get("by"))
    if len(by) == 1:  # a list of one column asks what the column asks
        plain["by"] = by[0]
    last = {"prior": plain.pop("prior")} if "prior" in plain else {}
    return {"model": name, **plain, **last}
