"""The one query of a tally: a scan, integers for every record, at most k records per person, sums by the keys."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from operator import add, and_
from typing import Any

import ibis

from vestry.data.contribution_bounding import choose_records, person_name
from vestry.data.derived_columns import derive
from vestry.data.encoding import code, condition, person, plain, scale
from vestry.data.person_sums import person_products, person_sums, wide_sum
from vestry.data.source import PLACED, Expression, Source, check_column, usable
from vestry.privacy.neighbours import Unit
from vestry.schema.derivation import derivation
from vestry.schema.domain import Domain, Levels, drops, sources
from vestry.schema.formula import ColumnName, FormulaPart
from vestry.schema.statistics import (
    CONDITIONS,
    Condition,
    Count,
    Indicator,
    PersonCount,
    PersonProducts,
    PersonQuery,
    Product,
    Sum,
    SumQuery,
    Within,
    summand,
)


@dataclass(frozen=True)
class Query:
    """How a tally is asked of a table of records, and how its answer is read.

    Attributes
    ----------
    tally
        What is summed.
    domains
        What the columns may contain.
    unit
        Whose records are bounded.
    """

    tally: SumQuery
    domains: Mapping[str, Domain]
    unit: Unit

    @property
    def columns(self) -> tuple[str, ...]:
        """Every column of the table that is read, the person's last."""
        person = () if self.unit.person is None else (self.unit.person,)
        read = (source for column in self.tally.columns for source in sources(column, self.domains[column]))
        return tuple(dict.fromkeys((*read, *person)))

    @cached_property
    def derived(self) -> dict[str, FormulaPart]:
        """The derived columns that are read, each with its expression."""
        named = (column for column in self.tally.columns if self.domains[column].derived is not None)
        return {column: derivation(column, self.domains) for column in named}

    @property
    def wanted(self) -> dict[str, Domain | None]:
        """The columns with their domains; without one those that are read as text, exact if their levels are.

        These are the person's, those that are examined, and those of expressions: the place of a level does not say why
        a value has none, or what it is.
        """
        domains: dict[str, Domain | None] = {column: self.domains.get(column) for column in self.columns}
        derived = {source for column in self.derived for source in sources(column, self.domains[column])}
        for column in {*self.tally.examined & set(domains), *derived, *filter(None, (self.unit.person,))}:
            domains[column] = next((each for each in self._declared(column) if each.exact), None)
        return domains

    def _declared(self, column: str) -> Iterator[Levels]:
        """Yield the levels by which a column of the table may be read: its own, and those of its other names."""
        names = [name for name, part in self.derived.items() if isinstance(part, ColumnName) and part.column == column]
        yield from (each for name in (column, *names) if isinstance(each := self.domains.get(name), Levels))

    def check_schema(self, source: Source) -> None:
        """Refuse columns that no part of the table has as single values; in a part without them they are missing."""
        types = source.schema
        for column in self.columns:
            check_column(types, column)

    def expression(self, source: Source, *, row_key: str) -> Expression:
        """Return the sums of every cell that has records, as one expression over the table."""
        records, named = self._records(source, row_key)
        if isinstance(self.tally, (PersonQuery, PersonProducts)):
            values = [self._value(place, records, named) for place in range(len(self.tally.terms))]
            if isinstance(self.tally, PersonProducts):
                return person_products(records, self.tally, values)
            return person_sums(records, self.tally, [named[key] for key in self.tally.keys], values)
        if isinstance(self.tally, PersonCount):
            records = records.select("person", *(named[key] for key in self.tally.keys)).distinct()
        sums = {f"s{place}": self._sum(place, records, named) for place in range(len(self.tally.terms))}
        return records.aggregate(by=[named[key] for key in self.tally.keys], **sums)

    def records(self, source: Source, *, row_key: str) -> Expression:
        """Return the records that count as whole numbers, one column per key, then one per term."""
        records, named = self._records(source, row_key)
        read = [*(named[key] for key in self.tally.keys), *(f"t{place}" for place in range(len(self.tally.terms)))]
        return records.select(**{f"r{place}": records[name].cast("int32") for place, name in enumerate(read)})

    def _records(self, source: Source, row_key: str) -> tuple[Expression, dict[str, str]]:
        """Return the records that count, each as whole numbers, and what each column is called there."""
        named = {column: f"c{place}" for place, column in enumerate(self.tally.columns)}
        parts = [self._codes(part, source, named) for part in source.parts]
        records = ibis.union(*parts, distinct=False) if len(parts) > 1 else parts[0]
        codes = {column: records[name] for column, name in named.items()}
        levels = {name: records[name] for column, name in named.items() if self._is_coded(column)}
        units = {
            f"t{place}": scale(term, codes)
            for place, term in enumerate(map(summand, self.tally.terms))
            if isinstance(term, (Sum, Product)) and place == self._place(place)
        }
        if self.unit.person is not None:
            records = records.select(person=records["person"], **levels, **units)
            records = choose_records(records, "person", (*levels, *units), self.unit.rows, row_key)
        elif units:
            records = records.select(**levels, **units)
        return records, named

    def _codes(self, table: Expression, source: Source, named: Mapping[str, str]) -> Expression:
        """Return a part's records that count: the codes of their columns, and the person."""
        engine, who = source.backend.name, self.unit.person
        domains = {name: self.domains[column] for column, name in named.items() if column not in self.tally.examined}
        table, held, placed, clean = self.held(table, source)
        read = {
            name: held[each].cast("int64")
            if each in placed
            else (condition if each in self.tally.examined else plain)(
                held[each], self.domains[each], engine, clean=clean[each]
            )
            for each, name in named.items()
        }
        if who is not None:
            read["person"], read["number"] = person(held[who], engine, clean=clean[who])
        if not read:
            return table.select(c0=ibis.literal(0, type="int64"))
        records = table.select(**read)
        coded = {
            name: records[name]
            if each in placed | self.tally.examined
            else code(records[name], self.domains[each], engine)
            for each, name in named.items()
        }
        if who is not None:
            coded["person"] = person_name(records["person"], records["number"])
        records = records.select(**coded)
        needed = [name for name, domain in domains.items() if drops(domain)] + (["person"] if who else [])
        return records.filter([records[name].notnull() for name in needed]) if needed else records

    def held(
        self, table: Expression, source: Source
    ) -> tuple[Expression, dict[str, Expression], set[str], dict[str, bool]]:
        """Return a part, its columns by name, the derived ones too; which are places of levels, and which trimmed."""
        present = {name for name, dtype in table.schema().items() if usable(dtype)}
        placed = {column for column in self.columns if column + PLACED in present}
        clean = {column: source.clean and not _is_exact(domain) for column, domain in self.wanted.items()}
        held = {column: table[column] if column in present else ibis.null("string") for column in self.columns}
        held |= {column: table[column + PLACED] for column in placed}
        if self.derived:
            table, held = derive(table, held, self.derived, source.backend.name, clean)
            clean |= {
                column: all(clean[each] for each in sources(column, self.domains[column])) for column in self.derived
            }
        return table, held, placed, clean

    def read(self, rows: Iterable[Mapping[str, Any]]) -> list[int]:
        """Return the sums of all cells in their order, 0 where a cell has no records."""
        keys = [f"c{self.tally.columns.index(key)}" for key in self.tally.keys]
        names = [self._names(key) for key in self.tally.keys]
        cells = {tuple(level[row[key]] for key, level in zip(keys, names, strict=True)): row for row in rows}
        return [
            int(cells[cell][f"s{place}"] or 0) * self._units(place) if cell in cells else 0
            for cell in self.tally.cells(self.domains)
            for place in range(self.tally.sums)
        ]

    def _units(self, place: int) -> int:
        """Return what one unit of a sum, as the engine has it, stands for."""
        term = summand(self.tally.terms[place]) if place < len(self.tally.terms) else None
        return term.units if isinstance(term, Count) else 1

    def _value(self, place: int, records: Expression, named: Mapping[str, str]) -> Expression:
        """Return what a record adds to a term of a person."""
        term = self.tally.terms[place]
        if not isinstance(term, Indicator):
            return records[f"t{place}"]
        names = self._names(term.column)
        has = records[named[term.column]].isin([names.index(level) for level in term.levels] or [-1])
        return has.ifelse(ibis.literal(1, type="int64"), ibis.literal(0, type="int64"))

    def _sum(self, place: int, records: Expression, named: Mapping[str, str]) -> Expression:
        """Return one term's sum as text: engines sum in 64 bits, 128 bits or decimals, and text holds them all."""
        term = self.tally.terms[place]
        if isinstance(term, Count):
            return records.count().cast("string")
        if isinstance(term, Indicator):
            return self._having(term, records, records[named[term.column]]).cast("string")
        if isinstance(term, Within):
            return self._sum_within(term, place, records, named)
        if isinstance(term, Condition):
            return (records[named[term.column]] == CONDITIONS.index(term.condition)).sum().cast("string")
        return wide_sum(records[f"t{place}"], records)

    def _place(self, place: int) -> int:
        """Return where a term's numbers are: its own column; within levels, that of the same sum, if there is one."""
        term = self.tally.terms[place]
        if not isinstance(term, Within):
            return place
        return next(first for first, each in enumerate(self.tally.terms) if summand(each) == term.term)

    def _sum_within(self, term: Within, place: int, records: Expression, named: Mapping[str, str]) -> Expression:
        """Return the sum, or the number, of the records that have the levels."""
        chosen = [records[named[column]] == self._names(column).index(level) for column, level in term.levels]
        inside = reduce(and_, chosen)
        if isinstance(term.term, Count):
            return inside.sum().cast("string")
        return wide_sum(inside.ifelse(records[f"t{self._place(place)}"], ibis.literal(0, type="int64")), records)

    def _having(self, term: Indicator, records: Expression, code: Expression) -> Expression:
        """Return the number of records with one of the levels."""
        names = self._names(term.column)

        def having(levels: tuple[str, ...]) -> Expression:
            places = [names.index(level) for level in levels] or [-1]  # no level has the place -1
            return (code == places[0] if len(places) == 1 else code.isin(places)).sum()

        # A record has one level. Where each of the others is counted too, the first is what they leave, and the engine
        # computes a sum that is written twice once.
        others = [(level,) for level in names[1:]]
        if term.levels == names[:1] and all(Indicator(term.column, other) in self.tally.terms for other in others):
            return records.count() - reduce(add, map(having, others))
        return having(term.levels)

    def _is_coded(self, column: str) -> bool:
        """Tell whether a column is a whole number once it is read: the place of a level or of a condition."""
        return isinstance(self.domains[column], Levels) or column in self.tally.examined

    def _names(self, column: str) -> Sequence[str]:
        domain = self.domains[column]
        assert isinstance(domain, Levels)  # noqa: S101 - tally.check has seen to it
        return domain.names


def _is_exact(domain: Domain | None) -> bool:
    return isinstance(domain, Levels) and domain.exact
