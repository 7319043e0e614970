"""The one query of a tally: a scan, integers for every record, at most k records a person, sums by the keys."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any

from vestry.data.choice import chosen
from vestry.data.expression import Expression, code, names_person, person_text, plain, scaled, usable
from vestry.errors import InvalidParameter
from vestry.privacy.neighbours import Unit
from vestry.statistics.domain import Domain, Interval, Levels, drops
from vestry.statistics.tally import Indicator, One, Product, Sum, Tally


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

    tally: Tally
    domains: Mapping[str, Domain]
    unit: Unit

    @property
    def columns(self) -> tuple[str, ...]:
        """Every column that is read, the person's last."""
        person = () if self.unit.person is None else (self.unit.person,)
        return tuple(dict.fromkeys((*self.tally.columns, *person)))

    def check_schema(self, schema: Mapping[str, Any]) -> None:
        """Refuse columns that are not in the schema, or whose type does not fit their declaration."""
        for column in self.tally.columns:
            check_column(schema, column, self.domains[column])
        if self.unit.person is not None:
            check_person(schema, self.unit.person)

    def expression(self, table: Expression, *, row_key: str) -> Expression:
        """Return the sums of every cell that has records, as one expression over the table."""
        records, named = self._records(table, row_key)
        sums = {f"s{place}": self._sum(place, records, named) for place in range(len(self.tally.terms))}
        return records.aggregate(by=[named[key] for key in self.tally.keys], **sums)

    def records(self, table: Expression, *, row_key: str) -> Expression:
        """Return the records that count as whole numbers, one column a key, then one a term."""
        records, named = self._records(table, row_key)
        read = [*(named[key] for key in self.tally.keys), *(f"t{place}" for place in range(len(self.tally.terms)))]
        return records.select(**{f"r{place}": records[name].cast("int32") for place, name in enumerate(read)})

    def _records(self, table: Expression, row_key: str) -> tuple[Expression, dict[str, str]]:
        """Return the records that count, each as whole numbers, and what each column is called there."""
        person = self.unit.person
        domains = {f"c{place}": self.domains[column] for place, column in enumerate(self.tally.columns)}
        named = dict(zip(self.tally.columns, domains, strict=True))

        engine = table.get_backend().name
        read = {named[column]: plain(table[column], self.domains[column], engine) for column in named}
        if person is not None:
            read["person"] = person_text(table[person])
        records = table.select(**read) if read else table

        coded = {name: code(records[name], domain, engine) for name, domain in domains.items()}
        if person is not None:
            coded["person"] = records["person"]
        records = records.select(**coded) if coded else records
        needed = [name for name, domain in domains.items() if drops(domain)] + (["person"] if person else [])
        if needed:
            records = records.filter([records[name].notnull() for name in needed])

        codes = {column: records[name] for column, name in named.items()}
        levels = {name: records[name] for name, domain in domains.items() if isinstance(domain, Levels)}
        units = {
            f"t{place}": scaled(term, codes)
            for place, term in enumerate(self.tally.terms)
            if isinstance(term, (Sum, Product))
        }
        if person is not None:
            records = records.select(person=records["person"], **levels, **units)
            records = chosen(records, "person", (*levels, *units), self.unit.rows, row_key)
        elif units:
            records = records.select(**levels, **units)
        return records, named

    def read(self, rows: Iterable[Mapping[str, Any]]) -> list[int]:
        """Return the sums of all cells in their order, 0 where a cell has no records."""
        keys = [f"c{self.tally.columns.index(key)}" for key in self.tally.keys]
        names = [self._names(key) for key in self.tally.keys]
        found = {tuple(level[row[key]] for key, level in zip(keys, names, strict=True)): row for row in rows}
        return [
            int(found[cell][f"s{place}"] or 0) * (term.units if isinstance(term, One) else 1) if cell in found else 0
            for cell in self.tally.cells(self.domains)
            for place, term in enumerate(self.tally.terms)
        ]

    def _sum(self, place: int, records: Expression, named: Mapping[str, str]) -> Expression:
        """Return one term's sum as text: engines sum in 64 bits, 128 bits or decimals, and text holds them all."""
        term = self.tally.terms[place]
        if isinstance(term, One):
            return records.count().cast("string")
        if isinstance(term, Indicator):
            return self._having(term, records, records[named[term.column]]).cast("string")
        value = records[f"t{place}"]
        # Spark alone would sum in 64 bits, and fail or wrap if there were more records than declared.
        wide = value.cast("decimal(38, 0)") if records.get_backend().name == "pyspark" else value
        return wide.sum().cast("string")

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

    def _names(self, column: str) -> Sequence[str]:
        domain = self.domains[column]
        assert isinstance(domain, Levels)  # noqa: S101 - tally.check has seen to it
        return domain.names


def check_column(schema: Mapping[str, Any], column: str, domain: Domain) -> None:
    """Refuse a column that is not in the schema, or whose type does not fit its declaration."""
    _check_there(schema, column)
    if not usable(schema[column], domain):
        raise InvalidParameter(f"the column {column}", str(schema[column]), _fitting(domain), "another declaration")


def check_person(schema: Mapping[str, Any], column: str) -> None:
    """Refuse a column that is not in the schema, or whose type cannot tell persons apart."""
    _check_there(schema, column)
    if not names_person(schema[column]):
        raise InvalidParameter(
            f"the column {column}",
            str(schema[column]),
            "text or whole numbers if it identifies persons",
            "person=COLUMN of such a type, or cast it in a view",
        )


def _check_there(schema: Mapping[str, Any], column: str) -> None:
    if column not in schema:
        instead = "its name as the table spells it, a CSV file in its first line"
        raise InvalidParameter("a column", column, "one of the table's", instead)


def _fitting(domain: Domain) -> str:
    if isinstance(domain, Interval):
        return "numbers, or text that is numbers, where an interval is declared"
    if isinstance(domain.values[0], str):
        return "text, whole numbers, truth values or dates where levels of text are declared"
    return "numbers, truth values or text where levels of numbers or truth values are declared"
