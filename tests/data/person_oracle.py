"""What persons add, in fractions, from the theory's formulas and the declared fields of a tally alone.

It shares no code with Vestry: values and which rows count are those of `tally_oracle`.
"""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product

from data.oracle_meaning import person
from data.tally_oracle import added, chosen, coded, columns_of, names


def weighted_rows(rows, tally, domains, *, unit, keep, key):
    """Return, for each person, her rows that count: the cell of each, and what it adds to the terms."""
    used = list(dict.fromkeys([*tally.keys, *(column for term in tally.terms for column in columns_of(term))]))
    records = []
    for row in rows:
        codes = {column: coded(row[column], domains[column]) for column in used}
        who = person(row[unit])
        if None not in codes.values() and who is not None:
            integers = [codes[column] for column in used if hasattr(domains[column], "values")]
            integers += [added(term, codes, domains) for term in tally.terms if hasattr(term, "grid")]
            records.append((who, tuple(integers), codes))
    persons = {}
    for who, _, codes in chosen(records, keep, key):
        cell = tuple(codes[column] for column in tally.keys)
        persons.setdefault(who, []).append((cell, [added(term, codes, domains) for term in tally.terms]))
    return persons


def person_vector(own, tally) -> dict:
    """Return what one person adds to each cell, in whole units, from exact fractions."""
    units, m = tally.units, len(own)
    grouped, found = len(tally.keys) > tally.within, {}
    for cell in {cell for cell, _ in own}:
        group = cell[:-1] if tally.within else cell
        w = math.floor(Fraction(units * sum((c[:-1] if tally.within else c) == group for c, _ in own), m))
        if tally.within:
            q = math.floor(Fraction(units * sum(c == cell for c, _ in own), m))
            exact = [Fraction(q * q, units), Fraction(q * (w - q), units)]
            found[cell] = remainder(exact if grouped else exact[:1], q)
            continue
        numbers = []
        for place, span in enumerate(tally.spans):
            total = sum(values[place] for c, values in own if c == cell)
            s = min(max(math.floor(Fraction(units * total, m * span) + Fraction(1, 2)), 0), w)
            f = w - s
            exact = [Fraction(s * s, units), Fraction(2 * s * f, units), Fraction(f * f, units)]
            exact = [*exact, Fraction(s * (units - w), units)] if grouped else exact[:2]
            numbers += remainder(exact, w)
        found[cell] = numbers
    return found


def remainder(exact, total) -> list[int]:
    floors = [math.floor(each) for each in exact]
    return [*floors, total - sum(floors)]


def sums(rows, tally, domains, *, unit, keep, key="") -> tuple[int, ...]:
    """Return the sums in order: for each cell of the keys' levels, each number."""
    grouped = len(tally.keys) > tally.within
    size = (3 if grouped else 2) if tally.within else len(tally.spans) * (5 if grouped else 3)
    cells = {cell: [0] * size for cell in product(*(range(len(names(domains[key]))) for key in tally.keys))}
    for own in weighted_rows(rows, tally, domains, unit=unit, keep=keep, key=key).values():
        for cell, numbers in person_vector(own, tally).items():
            cells[cell] = [one + more for one, more in zip(cells[cell], numbers, strict=True)]
    return tuple(number for numbers in cells.values() for number in numbers)


def products(rows, tally, domains, *, unit, keep, key="") -> tuple[int, ...]:
    """Return the sums of products of persons' means, each mean rounded to whole steps."""
    half, found = Fraction(1, 2), [0] * len(tally.pairs)
    for own in weighted_rows(rows, tally, domains, unit=unit, keep=keep, key=key).values():
        totals = map(sum, zip(*(values for _, values in own), strict=True))
        z = [tally.units, *(math.floor(Fraction(total, len(own)) + half) for total in totals)]
        added_now = [math.floor(Fraction(z[i] * z[j], tally.units) + half) for i, j in tally.pairs]
        found = [old + new for old, new in zip(found, added_now, strict=True)]
    return tuple(found)
