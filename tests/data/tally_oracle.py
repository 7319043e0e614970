"""What a tally of a few records is, in plain Python, from the declared fields of its domains and terms alone.

It shares no code with Vestry: values are read by the oracle of meanings, and rows are chosen with Python's own md5.
"""

from __future__ import annotations

import math
from hashlib import md5
from itertools import product

from data.oracle_meaning import level, number, person


def coded(value, domain):
    """Return a level's place or a clipped number; None if the record is dropped."""
    stand_in = domain.missing["value"] if isinstance(domain.missing, dict) else None
    if hasattr(domain, "values"):
        classes, own = [level(each) for each in domain.values], level(value)
        place = classes.index(own) if own is not None and own in classes else None
        if place is None and domain.missing != "drop":
            if domain.missing == "level":
                return len(domain.values)
            return 0 if stand_in is None else domain.values.index(stand_in)
        return place
    found = number(value)
    if found is None:
        return None if domain.missing == "drop" else domain.low if stand_in is None else stand_in
    return min(max(found, domain.low), domain.high)


def names(domain) -> list[str]:
    own = [str(value).lower() if isinstance(value, bool) else value if isinstance(value, str) else f"{value:d}"
           for value in domain.values]  # fmt: skip
    return own + ["missing"] * (domain.missing == "level")


def added(term, codes, domains) -> int:
    """Return what a record adds to a term."""
    if hasattr(term, "term"):
        inside = all(names(domains[column])[codes[column]] == level for column, level in term.levels)
        return added(term.term, codes, domains) if inside else 0
    if hasattr(term, "units"):
        return term.units
    if hasattr(term, "levels"):
        return int(names(domains[term.column])[codes[term.column]] in term.levels)
    if hasattr(term, "column"):
        return math.floor((codes[term.column] - term.origin) / term.grid + 0.5)
    one, other = (codes[column] - origin for column, origin in zip(term.columns, term.origins, strict=True))
    return math.floor((one * other) / term.grid + 0.5)


def sums(rows, tally, domains, *, unit=None, keep=1, key="") -> tuple[int, ...]:
    """Return the sums in order: for each cell of the keys' levels, each term."""
    used = list(dict.fromkeys([*tally.keys, *(column for term in tally.terms for column in columns_of(term))]))
    records = []
    for row in rows:
        codes = {column: coded(row[column], domains[column]) for column in used}
        who = None if unit is None else person(row[unit])
        if None not in codes.values() and (unit is None or who is not None):
            # The integers from which all that a record adds follows: levels first, then scaled terms.
            integers = [codes[column] for column in used if hasattr(domains[column], "values")]
            scaled = [term for term in tally.terms if hasattr(term, "grid")]
            integers += [added(term, codes, domains) for term in scaled]
            records.append((who, tuple(integers), codes))
    if unit is not None:
        records = chosen(records, keep, key)
    cells = list(product(*(range(len(names(domains[column]))) for column in tally.keys)))
    totals = {(cell, place): 0 for cell in cells for place in range(len(tally.terms))}
    for _, _, codes in records:
        for place, term in enumerate(tally.terms):
            totals[tuple(codes[column] for column in tally.keys), place] += added(term, codes, domains)
    return tuple(totals.values())


def columns_of(term) -> tuple[str, ...]:
    if hasattr(term, "term"):
        return (*(column for column, _ in term.levels), *columns_of(term.term))
    return getattr(term, "columns", None) or ((term.column,) if hasattr(term, "column") else ())


def chosen(records, keep, key):
    seen, marked = {}, {}
    for who, integers, codes in records:
        number_among_equals = seen[who, integers] = seen.get((who, integers), -1) + 1
        text = "|".join([key, who, *map(str, integers), str(number_among_equals)])
        marked.setdefault(who, []).append((md5(text.encode()).hexdigest(), who, integers, codes))
    return [
        record
        for own in marked.values()
        for _, *record in sorted(own, key=lambda one: one[0])[:keep]
    ]  # fmt: skip
