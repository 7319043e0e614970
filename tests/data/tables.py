"""Small tables full of trouble, what is declared of them, and what may be asked: strategies for every backend."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from vestry.schema.domain import Interval, Levels
from vestry.schema.statistics import Count, Indicator, Product, Sum, SumQuery

TYPES = {
    "real": "double",
    "whole": "long",
    "truth": "boolean",
    "ward": "text",
    "Spelled Number": "text",
    "spelled_truth": "text",
    "id": "long",
    "name": "text",
    "float_id": "double",
}

REALS = [None, math.nan, math.inf, -math.inf, -0.0, 0.5, 1.5, 2.5, -0.5, -1.5, 0.1, 0.7, 1.0, 2.0, 3.0, 1e308, -1e308]
REALS += [5e-324, -5e-324, 1e-200, 0.30000000000000004, 1 / 3, 2**53 + 2.0]
WHOLES = [None, 0, 1, 2, 3, -1, 7, 2**63 - 1, -(2**63), 2**53 + 1]
WARDS = [None, "", "a", "b", "c", "A", "a ", "b|", "missing", "é", "0", "1", "it's", 'q"q', "nan", "line\nbreak"]
SPELLED = [
    None,
    "",
    " ",
    ".",
    "-",
    "+",
    "e5",
    "0",
    "1",
    "1.5",
    " 2 ",
    "2.50",
    "+.5",
    "5.",
    "-0.5",
    "1e0",
    "1E+1",
    "25e-1",
]
SPELLED += ["1e400", "-1e400", "1e-400", "1e9999", "1e-9999", "1e99999", "0e9999", "1.7976931348623158e308", "4e-324"]
SPELLED += ["inf", "-Infinity", "+INF", "nan", "NaN", "null", "abc", "0x10", "1_000", "1,5", "1.5.2", "--1", "1d", "2f"]
SPELLED += [
    "1\n",
    "\n1",
    "1\t",
    "١",
    "１",
    "0.30000000000000004",
    "0" * 99 + "1",
    "0" * 100 + "1",
    "1e",
    "1e+",
    "1 2",
    "|",
]
TRUTHS = [None, "", "true", "TRUE", "False", "0", "1", "yes", "t", "1.0", " true", "2"]
PERSONS = [None, 1, 2, 3, -4]
NAMES = [None, "", "ann", "Ann", "bo|", "é", "1", "2"]
FLOAT_PERSONS = [None, math.nan, math.inf, 1.0, 2.0, -0.0, 0.0, 2.5, 2.0**53, 1e300]

ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "real": st.sampled_from(REALS),
            "whole": st.sampled_from(WHOLES),
            "truth": st.sampled_from([None, True, False]),
            "ward": st.sampled_from(WARDS),
            "Spelled Number": st.sampled_from(SPELLED),
            "spelled_truth": st.sampled_from(TRUTHS),
            "id": st.sampled_from(PERSONS),
            "name": st.sampled_from(NAMES),
            "float_id": st.sampled_from(FLOAT_PERSONS),
        }
    ),
    max_size=14,
)

ENDS = [(-1.0, 2.0), (0, 3), (0.1, 0.7), (-5.5, 5.5), (1.0, 2.0), (-1e29, 1e29), (1e-200, 1)]
LEVELS = {
    "real": [(0, 1), (2, 1, 3)],
    "whole": [(0, 1), (-1, 7, 2), ("0", "1"), (True, False)],
    "truth": [("true", "false"), ("FALSE", "1"), (False, True), (1, 0)],
    "ward": [("a", "b"), ("b", "é", "a"), ("0", "é"), (0, 1), ("it's", 'q"q')],
    "Spelled Number": [(0, 1), (2, 5), ("1", "1.5")],
    "spelled_truth": [(True, False), (False, True), ("true", "0")],
}
LEVELS_COLUMNS, NUMBER_COLUMNS = list(LEVELS), ["real", "whole", "truth", "Spelled Number", "ward"]


@dataclass(frozen=True)
class Question:
    """A tally with what is declared, and the unit."""

    tally: SumQuery
    domains: dict[str, Any]
    person: str | None
    rows: int
    key: str

    @property
    def unit(self) -> str:
        return "row" if self.person is None else f"person={self.person},rows={self.rows}"


@st.composite
def questions(draw) -> Question:
    keyed = draw(st.lists(st.sampled_from(LEVELS_COLUMNS), max_size=2, unique=True))
    domains = {column: draw(levels(column)) for column in keyed}
    rest = [column for column in TYPES if column not in keyed and column not in ("id", "name", "float_id")]
    shown = draw(st.lists(st.sampled_from(rest), min_size=1, max_size=3, unique=True))
    for column in shown:
        kinds = [levels(column)] * (column in LEVELS) + [intervals()] * (column in NUMBER_COLUMNS)
        domains[column] = draw(draw(st.sampled_from(kinds)))
    terms = draw(st.lists(st.deferred(lambda: term_of(domains)), min_size=1, max_size=4))
    person = draw(st.sampled_from([None, "id", "name", "float_id"]))
    return Question(
        SumQuery(tuple(keyed), tuple(terms)),
        domains,
        person,
        draw(st.integers(1, 3)),
        draw(st.sampled_from(["", "kéy'"])),
    )


def levels(column):
    def declared(values):
        policies = st.sampled_from(["never", "drop", "level", {"value": values[-1]}])
        return policies.map(lambda missing: Levels(*values, missing=missing))

    return st.sampled_from(LEVELS[column]).flatmap(declared)


def intervals():
    def declared(ends):
        policies = st.sampled_from(["never", "drop", {"value": ends[1]}, {"value": (ends[0] + ends[1]) / 2}])
        return policies.map(lambda missing: Interval(*ends, missing=missing))

    return st.sampled_from(ENDS).flatmap(declared)


def term_of(domains):
    numbers = [column for column, domain in domains.items() if isinstance(domain, Interval)]
    levelled = [column for column, domain in domains.items() if isinstance(domain, Levels)]
    kinds = [st.sampled_from([1, 7, 2**20]).map(Count)]
    for column in levelled:
        some = st.lists(st.sampled_from(domains[column].names), unique=True, max_size=2).map(tuple)
        kinds.append(some.map(lambda chosen, column=column: Indicator(column, chosen)))
    origins = st.sampled_from([0.0, 0.5, -1.0, 0.1])
    for one in numbers:
        wide = domains[one].high > 1e20
        grids = st.sampled_from([1e18, 3e20] if wide else [0.1, 0.5, 1.0, 3.0, 1e-3])
        kinds.append(st.builds(Sum, st.just(one), origins, grids))
        for other in numbers:
            # The widths multiply, and so must the grids.
            both = wide + (domains[other].high > 1e20)
            grids = st.sampled_from([[0.1, 0.5, 3.0], [1e18, 3e20], [1e47, 3e48]][both])
            kinds.append(st.builds(Product, st.just((one, other)), st.tuples(origins, origins), grids))
    return st.one_of(kinds)
