"""What persons add to a `PersonQuery` or to `PersonProducts`: first each person's rows are summed, then persons are.

Doubles hold every number here exactly: weights are whole numbers of units, at most 2^20 of them, and their products are
below 2^53, where the floor of a quotient of whole numbers is exact. So every engine has the same integers.
"""

from __future__ import annotations

from collections.abc import Sequence

from vestry.data.source import Expression
from vestry.data.text_value import double
from vestry.schema.statistics import PersonProducts, PersonQuery


def person_sums(
    records: Expression, tally: PersonQuery, keys: Sequence[str], values: Sequence[Expression]
) -> Expression:
    """Return the sums of every cell that has records.

    Parameters
    ----------
    records
        The records that count, with their person.
    tally
        What is summed.
    keys
        The columns of the tally's keys.
    values
        What each record adds to the tally's terms.
    """
    records = records.mutate(**{f"v{place}": value for place, value in enumerate(values)})
    totals = {f"v{place}": records[f"v{place}"].sum().cast("float64") for place in range(len(values))}
    persons = records.aggregate(by=["person", *keys], rows=records.count().cast("float64"), **totals)
    groups = ["person", *(keys[:-1] if tally.within else keys)]
    persons = persons.mutate(
        all=persons["rows"].sum().over(group_by="person"), beside=persons["rows"].sum().over(group_by=groups)
    )
    parts = _levels(persons, tally) if tally.within else _terms(persons, tally, len(values))
    persons = persons.select(*keys, **{f"p{place}": part.cast("int64") for place, part in enumerate(parts)})
    sums = {f"s{place}": wide_sum(persons[f"p{place}"], persons) for place in range(len(parts))}
    return persons.aggregate(by=list(keys), **sums)


def person_products(records: Expression, tally: PersonProducts, values: Sequence[Expression]) -> Expression:
    """Return the sums of products of persons' means; `values` is what each record adds to the tally's terms."""
    records = records.mutate(**{f"v{place}": value for place, value in enumerate(values)})
    totals = {f"v{place}": records[f"v{place}"].sum().cast("float64") for place in range(len(values))}
    persons = records.aggregate(by=["person"], rows=records.count().cast("float64"), **totals)
    means = {f"v{place}": _rounded(persons[f"v{place}"] / persons["rows"]) for place in range(len(values))}
    persons = persons.mutate(one=double(tally.units), **means)
    factors = ["one", *means]
    parts = {
        f"p{place}": _rounded(persons[factors[i]] * persons[factors[j]] / double(tally.units)).cast("int64")
        for place, (i, j) in enumerate(tally.pairs)
    }
    persons = persons.select(**parts)
    return persons.aggregate(**{f"s{place}": wide_sum(persons[f"p{place}"], persons) for place in range(len(parts))})


def _rounded(value: Expression) -> Expression:
    return (value + double(0.5)).floor()


def wide_sum(value: Expression, records: Expression) -> Expression:
    """Return a sum as text: engines sum in 64 bits, 128 bits or decimals, and text holds them all."""
    # Spark alone would sum in 64 bits, and fail or wrap if there were more records than declared.
    wide = value.cast("decimal(38, 0)") if records.get_backend().name == "pyspark" else value
    return wide.sum().cast("string")


def _levels(persons: Expression, tally: PersonQuery) -> list[Expression]:
    """Return q^2, q (w - q) and q (1 - w), in units; without groups the first two."""
    units = double(tally.units)
    own, group = (_part(persons[name], persons["all"], tally.units) for name in ("rows", "beside"))
    square = (own * own / units).floor()
    if not tally.grouped:
        return [square, own - square]
    beside = (own * (group - own) / units).floor()
    return [square, beside, own - square - beside]


def _terms(persons: Expression, tally: PersonQuery, terms: int) -> list[Expression]:
    """Return s^2, 2 s f, f^2, s (1 - w) and f (1 - w) of each term, in units; without groups the first three."""
    units, group = double(tally.units), _part(persons["rows"], persons["all"], tally.units)
    parts = []
    for place, span in zip(range(terms), tally.spans, strict=True):
        share = persons[f"v{place}"] * units / (persons["all"] * double(span))
        s = (share + double(0.5)).floor().clip(lower=double(0), upper=group)
        f = group - s
        first, second = (s * s / units).floor(), (s * f * double(2) / units).floor()
        if not tally.grouped:
            parts += [first, second, group - first - second]
            continue
        third, fourth = (f * f / units).floor(), (s * (units - group) / units).floor()
        parts += [first, second, third, fourth, group - first - second - third - fourth]
    return parts


def _part(rows: Expression, all_rows: Expression, units: int) -> Expression:
    """Return the weight of some of a person's rows, in units, rounded down."""
    return (rows * double(units) / all_rows).floor()
