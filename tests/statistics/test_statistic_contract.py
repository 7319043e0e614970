"""What every statistic owes: its sensitivity, worst pairs, identity and derivation, and one answer on every source."""

import datetime
import itertools
import json
import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from share import cases
from statistics_reference import exact_integers

from vestry.data import Table
from vestry.errors import DeclarationMismatch, InvalidParameter
from vestry.privacy.neighbours import Neighbours, Unit
from vestry.schema.domain import Interval, Levels
from vestry.schema.private import reveal
from vestry.schema.table_schema import Population, TableSchema
from vestry.statistics.axis import BinAxis, LevelAxis, MomentAxis
from vestry.statistics.bounded_sums import BoundedSums
from vestry.statistics.cell_counts import CellCounts, total_is_public
from vestry.statistics.statistic import IntegerLayout, Statistic

COLUMNS = {
    "ward": Levels("B", "A", missing="drop"),
    "ill": Levels("no", "yes"),
    "sex": Levels("f", "m", missing="level"),
    "stay": Interval(0, 6),
    "age": Interval(0, 100).bins(0, 18, 65, 100),
    "cost": Interval(-1, 3, missing="drop"),
}
# Every kind of value: declared, clipped, missing, unmatched, at the ends.
VALUES = {
    "ward": ["A", "B", None, "C"],
    "ill": ["no", "yes", ""],
    "sex": ["f", "m", "x"],
    "stay": ["0", "2.5", "6", "99", None, "long"],
    "age": ["17", "65", "100", ""],
    "cost": ["-1", "1", "3", None],
}
UNITS = [Unit(), Unit("who", 2)]
STATISTICS = [CellCounts, BoundedSums]


def schema_of(neighbours, unit):
    return TableSchema(COLUMNS, unit, neighbours)


SCHEMAS = [schema_of(neighbours, unit) for neighbours in Neighbours for unit in UNITS]


def examples_of_all():
    for schema in SCHEMAS:
        for kind in STATISTICS:
            for number, statistic in enumerate(kind.examples(schema)):
                name = f"{kind.__name__}-{number}-{schema.neighbours}-{schema.unit.rows}"
                yield pytest.param(statistic, schema, id=name)


def units_of(statistic: Statistic, schema: TableSchema) -> list[np.ndarray]:
    """Return the integers of every set of rows that one unit may have."""
    columns = sorted({axis.column for axis in statistic.query.axes})
    rows = [dict(zip(columns, values, strict=True)) for values in itertools.product(*(VALUES[x] for x in columns))]
    person = schema.unit.person
    if person is not None:
        rows = [{**row, person: "1"} for row in rows]
    single = {tuple(exact_integers(statistic, [row], schema.population)) for row in rows}
    one_row = [np.array(added) for added in sorted(single)]
    if person is None:
        return one_row
    pairs = itertools.combinations_with_replacement(one_row, 2)
    return [np.zeros_like(one_row[0]), *one_row, *(first + second for first, second in pairs)]


def diameter(statistic: Statistic, schema: TableSchema) -> IntegerLayout:
    """Return the distances by brute force."""
    units = np.array(units_of(statistic, schema))
    others = np.zeros_like(units[:1]) if schema.neighbours is Neighbours.ADD_REMOVE else units
    l1 = 0
    l2_squared = 0
    largest = 0
    for other in others:
        distance = np.abs(units - other)
        l1 = max(l1, int(distance.sum(axis=1).max()))
        l2_squared = max(l2_squared, int((distance**2).sum(axis=1).max()))
        largest = max(largest, int(distance.max()))
    return IntegerLayout(l1, l2_squared, largest, 1)


def check_sensitivity(statistic: Statistic, schema: TableSchema) -> None:
    measured = diameter(statistic, schema)
    layout = statistic.layout(schema.population)
    assert measured.l1 <= layout.l1
    assert measured.l2_squared <= layout.l2_squared
    assert measured.largest <= layout.largest


@pytest.mark.parametrize(("statistic", "schema"), list(examples_of_all()))
def test_no_unit_moves_the_integers_further_than_declared(statistic, schema):
    check_sensitivity(statistic, schema)


@pytest.mark.parametrize(("statistic", "schema"), list(examples_of_all()))
def test_worst_pairs_attain_the_declared_distances(statistic, schema):
    layout = statistic.layout(schema.population)
    is_sphere = isinstance(statistic, BoundedSums) and statistic.moments.form == "sphere"
    for pair in statistic.worst_pairs(schema.population):
        records = {axis.column: VALUES[axis.column][0] for axis in statistic.query.axes}
        first = exact_integers(statistic, [{**records, **record} for record in pair.first], schema.population)
        second = exact_integers(statistic, [{**records, **record} for record in pair.second], schema.population)
        distance = np.abs(first - second)
        assert (distance**2).sum() == layout.l2_squared
        if not is_sphere:  # attained between them, at 1/2
            assert distance.sum() == layout.l1
        assert distance.max() == layout.largest


@dataclass(frozen=True)
class ForgetsTheCellThatIsLeft(CellCounts):
    def layout(self, population: Population) -> IntegerLayout:
        return IntegerLayout(1, 1, 1, 1)


@dataclass(frozen=True)
class ForgetsTheRowsOfAPerson(BoundedSums):
    def layout(self, population: Population) -> IntegerLayout:
        return super().layout(Population(Unit(), population.neighbours))


@dataclass(frozen=True)
class ForgetsTheSecondTable(CellCounts):
    def layout(self, population: Population) -> IntegerLayout:
        return CellCounts((self.tables[0],)).layout(population)


def test_brute_force_catches_broken_twins():
    replace = schema_of(Neighbours.REPLACE, Unit())
    persons = schema_of(Neighbours.ADD_REMOVE, Unit("who", 2))
    rows = schema_of(Neighbours.ADD_REMOVE, Unit())
    ward = LevelAxis.of_levels(replace, "ward")
    stay = MomentAxis.of_column(persons, "stay")
    twins = [
        (ForgetsTheCellThatIsLeft(((ward,),)), replace),
        (ForgetsTheRowsOfAPerson(stay), persons),
        (ForgetsTheSecondTable(CellCounts.examples(rows)[-1].tables), rows),
    ]
    for twin, schema in twins:
        right = type(twin).__mro__[1]
        if right is CellCounts:
            check_sensitivity(CellCounts(twin.tables), schema)
        with pytest.raises(AssertionError, match="<="):
            check_sensitivity(twin, schema)


def partition_terms(number: float, *, rounded_alone: bool) -> list[int]:
    axis = MomentAxis.of_column(SCHEMAS[0], "stay")
    statistic = BoundedSums(axis)
    if not rounded_alone:
        added = exact_integers(statistic, [{"stay": repr(number)}], SCHEMAS[0].population)
        return added.tolist()
    f = number / 6
    terms = [(1 - f) ** 2, 2 * f * (1 - f), f * f]
    return [round(2**20 * term) for term in terms]


def test_terms_of_a_partition_sum_to_the_grid_and_terms_rounded_alone_do_not():
    numbers = np.random.default_rng(3).uniform(0, 6, 200)
    together = {sum(partition_terms(number, rounded_alone=False)) for number in numbers}
    alone = {sum(partition_terms(number, rounded_alone=True)) for number in numbers}
    assert together == {2**20}
    assert alone > {2**20}


VALUE = {column: st.sampled_from(values) for column, values in VALUES.items()}
WHO = st.sampled_from(["1", "2", "3", "4", "5", "6", None])
ROWS = st.lists(st.fixed_dictionaries({**VALUE, "who": WHO}), max_size=8)


def at_most_two_rows(rows):
    return all(sum(row["who"] == who for row in rows) <= 2 for who in "123456")


def check_query(rows, schema, statistics):
    frame = pd.DataFrame(rows, columns=[*COLUMNS, "who"], dtype="str")
    table = Table(frame, COLUMNS, unit=schema.unit, neighbours=schema.neighbours)
    for statistic in statistics:
        table.check_statistic(statistic)
        computed = list(reveal(table.evaluate(statistic, row_key="key")))
        assert computed == exact_integers(statistic, rows, schema.population).tolist()


def random_rows(rng, count):
    values = {**VALUES, "who": ["1", "2", "3", "4", "5", "6", None]}
    rows = [{column: rng.choice(np.array(own, dtype=object)) for column, own in values.items()} for _ in range(count)]
    return [row for index, row in enumerate(rows) if sum(row["who"] == each["who"] for each in rows[:index]) < 2]


@pytest.mark.parametrize("schema", cases(SCHEMAS, quick=[SCHEMAS[0], SCHEMAS[-1]]))
def test_the_query_gives_what_the_definition_gives(schema):
    rows = random_rows(np.random.default_rng(5), 20)
    counts = CellCounts.examples(schema)
    sums = BoundedSums.examples(schema)
    check_query(rows, schema, [counts[0], counts[2], counts[7], counts[-1], sums[0], sums[1], sums[-2]])


@pytest.mark.long
@settings(max_examples=8, deadline=None)
@given(rows=ROWS.filter(at_most_two_rows), schema=st.sampled_from(SCHEMAS))
def test_the_query_of_every_example_gives_what_the_definition_gives(rows, schema):
    for kind in STATISTICS:
        check_query(rows, schema, kind.examples(schema))


@settings(max_examples=25, deadline=None)
@given(rows=ROWS, schema=st.sampled_from(SCHEMAS))
def test_a_matrix_of_sums_gives_what_a_recount_gives(rows, schema):
    statistics = [statistic for kind in STATISTICS for statistic in kind.examples(schema)]
    derived = 0
    for bought, wanted in itertools.product(statistics, repeat=2):
        matrix = bought.derive(wanted)
        if matrix is None:
            assert bought != wanted
            continue
        sums = matrix @ exact_integers(bought, rows, schema.population)
        assert sums.tolist() == exact_integers(wanted, rows, schema.population).tolist()
        derived += bought != wanted
    assert derived >= 4


def test_what_can_be_derived_and_what_cannot():
    schema = schema_of(Neighbours.ADD_REMOVE, Unit())
    dropping = schema_of(Neighbours.REPLACE, Unit())
    ward = LevelAxis.of_levels(schema, "ward")
    stay = {bins: CellCounts.of(BinAxis.of_width(schema, "stay", bins)) for bins in (3, 4, 6)}
    success = CellCounts.of(LevelAxis.of_success(schema, "ward", "A"))
    assert CellCounts.of(ward).derive(success) is not None
    assert stay[6].derive(stay[3]) is not None
    assert stay[6].derive(stay[4]) is None
    assert stay[3].derive(stay[6]) is None
    assert stay[3].derive(CellCounts.of(ward)) is None
    # Under replace a record without a ward is dropped and not counted, so the others cannot be had from the table.
    table = CellCounts.of(LevelAxis.of_levels(dropping, "ward"), LevelAxis.of_levels(dropping, "ill"))
    assert table.derive(CellCounts.of(LevelAxis.of_levels(dropping, "ward"))) is not None
    assert table.derive(CellCounts.of(LevelAxis.of_levels(dropping, "ill"))) is None
    # Each table of several is found, whichever is the first.
    several = CellCounts(((ward,), (stay[6].tables[0][0],)))
    assert several.derive(CellCounts.of(ward)) is not None
    assert several.derive(stay[3]) is not None
    # Two margins of one table would share its integers, and so their noises.
    both = CellCounts(((ward,), (LevelAxis.of_levels(schema, "sex"),)))
    assert CellCounts.of(ward, LevelAxis.of_levels(schema, "sex")).derive(both) is None


def test_a_public_total_gives_the_sums_of_released_cells_alone():
    schema = TableSchema({"size": Levels("s", "m", "l")}, Unit(), Neighbours.REPLACE)
    sizes = LevelAxis.of_levels(schema, "size")  # l, m, s; s follows from the others
    assert total_is_public(schema, sizes)
    bought = CellCounts.of(sizes, total="public")
    large = CellCounts.of(LevelAxis.of_success(schema, "size", "l"), total="public")
    small = CellCounts.of(LevelAxis.of_success(schema, "size", "s"), total="public")
    assert bought.derive(large).row_of_column.tolist() == [0, -1]
    assert bought.derive(small).row_of_column.tolist() == [0, 0]  # l and m together, the first block
    [pair] = bought.worst_pairs(schema.population)
    distance = exact_integers(bought, pair.first, schema.population)
    distance = distance - exact_integers(bought, pair.second, schema.population)
    assert sorted(distance.tolist()) == [-1, 1]  # neither of the two cells is the one that is not released
    with pytest.raises(InvalidParameter, match="private where records are left out"):
        CellCounts.of(LevelAxis.of_levels(SCHEMAS[0], "ward"), total="public")


@pytest.mark.parametrize("form", ["partition", "sphere"])
@pytest.mark.parametrize("ends", [(1e-120, 2e-120), (-2e-120, -1e-120), (0.0, 1e-150), (-1e30, 1e30), (0.1, 0.3)])
def test_no_value_adds_more_than_the_grid_however_narrow_the_interval(form, ends):
    low, high = ends
    values = [low, high, (low + high) / 2, 0.0, -1.0, 1.0, 1e-110, -1e-110, math.inf, -math.inf, 1e308]
    for value in values:
        table = Table(pd.DataFrame({"x": [value]}), {"x": Interval(low, high)}, neighbours="add-remove")
        statistic = BoundedSums(MomentAxis.of_column(table.declared, "x", form))
        layout = statistic.layout(table.declared.population)
        integers = np.array(reveal(table.evaluate(statistic, row_key="key")))
        assert integers.min() >= 0
        assert integers.sum() <= layout.l1
        assert (integers**2).sum() <= layout.l2_squared


def test_a_table_that_declares_a_column_otherwise_is_refused():
    schema = schema_of(Neighbours.REPLACE, Unit())
    statistic = CellCounts.of(BinAxis.of_width(schema, "stay", 3))
    other = {"stay": Interval(0, 6, derived="days + 1")}
    with pytest.raises((DeclarationMismatch, InvalidParameter), match="stay"):
        Table(pd.DataFrame({"days": [1]}), other, neighbours="replace").check_statistic(statistic)


def identities(schema):
    return {statistic.identity().text for kind in STATISTICS for statistic in kind.examples(schema)}


def test_equal_spellings_have_one_identity():
    schema = schema_of(Neighbours.REPLACE, Unit())
    reordered = TableSchema(dict(reversed(COLUMNS.items())), Unit(), Neighbours.REPLACE, max_rows=5)
    ward = LevelAxis.of_levels(schema, "ward")
    ill = LevelAxis.of_levels(schema, "ill")
    swapped = LevelAxis.of_levels(reordered, "ill")
    assert CellCounts.of(ward, ill).identity() == CellCounts.of(swapped, ward).identity()
    assert CellCounts.of(ward, ill) == CellCounts.of(swapped, ward)
    assert CellCounts(((ward,), (ill,))).identity() == CellCounts(((ill,), (ward,))).identity()
    no = CellCounts.of(LevelAxis.of_success(schema, "ill", "no"))
    assert no.identity() == CellCounts.of(ill).identity()
    whole = BinAxis.of_width(TableSchema({"stay": Interval(0.0, 6.0)}, Unit(), Neighbours.REPLACE), "stay", 3)
    assert CellCounts.of(whole).identity() == CellCounts.of(BinAxis.of_width(schema, "stay", 3)).identity()


def test_the_level_that_stands_in_belongs_to_the_identity():
    orders = [("no", "yes"), ("yes", "no")]
    schemas = [TableSchema({"ill": Levels(*order)}, Unit(), Neighbours.REPLACE) for order in orders]
    counts = [CellCounts.of(LevelAxis.of_levels(schema, "ill")) for schema in schemas]
    rows = [{"ill": "no"}, {"ill": None}]
    integers = {tuple(exact_integers(x, rows, schema.population)) for x, schema in zip(counts, schemas, strict=True)}
    assert len(integers) == 2
    assert counts[0].identity() != counts[1].identity()


BASE = {"ward": Levels("B", "A"), "day": Interval(0, 4), "who": Levels("x", "y")}


def schema_with(neighbours=Neighbours.REPLACE, **columns):
    return TableSchema({**BASE, **columns}, Unit(), neighbours)


def wards(schema, total="private"):
    return CellCounts.of(LevelAxis.of_levels(schema, "ward"), total=total)


def days(schema, bins=2):
    return CellCounts.of(BinAxis.of_width(schema, "day", bins))


def moments(schema, form="partition", by=()):
    groups = [LevelAxis.of_levels(schema, column) for column in by]
    return BoundedSums(MomentAxis.of_column(schema, "day", form), tuple(groups))


def dates(first, **declared):
    return schema_with(day=Interval(first, datetime.date(2024, 1, 31), **declared))


JANUARY = datetime.date(2024, 1, 1)
BOTH = schema_with()
ADDED = schema_with(Neighbours.ADD_REMOVE)
# Each pair differs in one part of the identity, and has other integers on some table.
APART = {
    "statistic": (moments(BOTH), days(BOTH)),
    "total": (wards(BOTH), wards(BOTH, total="public")),
    "tables": (wards(BOTH), days(BOTH)),
    "blocks": (wards(BOTH), wards(schema_with(ward=Levels("B", "C")))),
    "counts as": (wards(BOTH), wards(schema_with(ward=Levels("B", "A", missing={"value": "A"})))),
    "left out": (wards(BOTH), wards(schema_with(ward=Levels("B", "A", missing="drop")))),
    "reasons": (wards(ADDED), wards(schema_with(ward=Levels("B", "A", missing="drop")))),
    "edges": (days(BOTH), days(BOTH, bins=4)),
    "column": (wards(BOTH), CellCounts.of(LevelAxis.of_levels(BOTH, "who"))),
    "source": (days(BOTH), days(schema_with(day=Interval(0, 4, derived="other")))),
    "parts": (
        wards(schema_with(ward=Levels(False, True, derived="who = 'x'"))),
        wards(schema_with(ward=Levels(False, True, derived="who = 'x'"), who=Levels("x", "y", exact=True))),
    ),
    "kind": (wards(BOTH), wards(schema_with(ward=Levels("B", "A", exact=True)))),
    "since": (days(dates(JANUARY)), days(schema_with(day=Interval(0, 30)))),
    "date_format": (days(dates(JANUARY)), days(dates(JANUARY, format="%d.%m.%Y"))),
    "ends": (moments(BOTH), moments(schema_with(day=Interval(0, 5)))),
    "form": (moments(BOTH), moments(BOTH, form="sphere")),
    "groups": (moments(BOTH), moments(BOTH, by=["ward"])),
}


def without(document, key):
    match document:
        case dict():
            return {name: without(value, key) for name, value in document.items() if name != key}
        case list():
            return [without(value, key) for value in document]
        case _:
            return document


@pytest.mark.parametrize("key", APART)
def test_every_part_of_an_identity_is_needed(key):
    first, second = (json.loads(statistic.identity().text) for statistic in APART[key])
    assert first != second
    related = {key, *NEEDED_WITH.get(key, ())}
    for part in related:
        first = without(first, part)
        second = without(second, part)
    assert first == second


# What differs besides, because it belongs together.
NEEDED_WITH = {
    "statistic": ("tables", "groups", "moments", "grid", "total"),
    "left out": ("reasons", "counts as"),
    "column": ("source", "blocks", "counts as"),
    "since": ("kind", "edges"),
}


@pytest.mark.parametrize("form", ["partition", "sphere"])
def test_typical_sums_are_those_of_values_that_are_spread_evenly(form):
    rows = 600
    values = [6 * (index + 0.5) / rows for index in range(rows)]
    wards = ["A", "B"]
    records = [{"stay": repr(value), "ill": wards[index % 2]} for index, value in enumerate(values)]
    schema = TableSchema({"stay": Interval(0, 6), "ill": Levels(*wards)}, Unit(), Neighbours.ADD_REMOVE)
    moments = MomentAxis.of_column(schema, "stay", form)
    for groups in ((), (LevelAxis.of_levels(schema, "ill"),)):
        statistic = BoundedSums(moments, groups)
        expected = exact_integers(statistic, records, schema.population)
        np.testing.assert_allclose(statistic.typical_values(rows), expected, rtol=0.01)


def test_typical_counts_are_equal_and_of_nobody_who_is_left_out():
    schema = schema_of(Neighbours.ADD_REMOVE, Unit())
    ward = LevelAxis.of_levels(schema, "ward")  # two levels, and two cells of records that are left out
    stay = BinAxis.of_width(schema, "stay", 3)
    assert CellCounts.of(ward).typical_values(7).tolist() == [4, 4, 0, 0]
    typical = CellCounts(((stay,), (ward,))).typical_values(60).tolist()
    assert sorted(typical) == [0, 0, 0, 0, 20, 20, 20, 30, 30]
    sizes = TableSchema({"size": Levels("s", "m", "l")}, Unit(), Neighbours.REPLACE)
    public = CellCounts.of(LevelAxis.of_levels(sizes, "size"), total="public")
    assert public.typical_values(60).tolist() == [20, 20]


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("neighbours", Neighbours)
def test_the_l1_of_a_sphere_is_attained_at_one_half(neighbours, unit):
    schema = schema_of(neighbours, unit)
    sphere = BoundedSums(MomentAxis.of_column(schema, "stay", "sphere"))
    row = {"stay": "3", "who": "1"}
    middle = exact_integers(sphere, [row] * unit.rows, schema.population)
    moved = 2 if neighbours is Neighbours.REPLACE else 1
    assert sphere.layout(schema.population).l1 == moved * int(middle.sum())


@pytest.mark.parametrize("schema", SCHEMAS[:1])
def test_the_grid_is_what_one_record_adds(schema):
    row = {"ward": "A", "ill": "no", "sex": "m", "stay": "2.5", "age": "17", "cost": "1"}
    for statistic in (*CellCounts.examples(schema), *BoundedSums.examples(schema)):
        added = int(exact_integers(statistic, [row], schema.population).sum())
        is_sphere = isinstance(statistic, BoundedSums) and statistic.moments.form == "sphere"
        if is_sphere or getattr(statistic, "total", "private") == "public":
            continue
        assert added == statistic.layout(schema.population).grid * len(statistic.names.tables)


def test_bins_of_intervals_with_other_ends_are_not_related():
    """A value beyond the end of one interval is clipped to another place in the other."""
    ends = {"low": (-3, 6), "same": (0, 6), "high": (0, 9)}
    schemas = {name: TableSchema({"x": Interval(*pair)}, Unit(), Neighbours.REPLACE) for name, pair in ends.items()}
    fine = CellCounts.of(BinAxis.of_width(schemas["same"], "x", 2))
    coarse = {name: CellCounts.of(BinAxis.of_width(schema, "x", 1)) for name, schema in schemas.items()}
    assert fine.derive(coarse["same"]) is not None
    assert fine.derive(coarse["low"]) is None
    assert fine.derive(coarse["high"]) is None


def test_a_name_has_the_place_of_its_integer_and_other_names_have_none():
    for schema in SCHEMAS:
        stay = MomentAxis.of_column(schema, "stay")
        sizes = TableSchema({"size": Levels("s", "m", "l")}, Unit(), Neighbours.REPLACE)
        public = CellCounts.of(LevelAxis.of_levels(sizes, "size"), total="public")
        for statistic in (*CellCounts.examples(schema), BoundedSums(stay), public):
            for table in statistic.names.tables:
                assert [table.index(name) for name in table] == list(range(len(table)))
    pair = CellCounts.of(LevelAxis.of_levels(schema, "ward"), LevelAxis.of_levels(schema, "ill")).names.tables[0]
    name = next(iter(pair))
    part = frozenset(list(name)[:1])
    withheld = frozenset([LevelAxis.of_levels(sizes, "size").coordinates[-1]])
    strangers = [(pair, part), (pair, name | withheld), (pair, frozenset()), (public.names.tables[0], withheld)]
    for table, stranger in strangers:
        with pytest.raises(KeyError, match="frozenset"):
            table.index(stranger)


def test_summands_are_the_places_that_a_row_sums():
    schema = schema_of(Neighbours.ADD_REMOVE, Unit())
    fine = CellCounts.of(LevelAxis.of_levels(schema, "ward"), LevelAxis.of_levels(schema, "sex"))
    for column in ("ward", "sex"):
        matrix = fine.derive(CellCounts.of(LevelAxis.of_levels(schema, column)))
        rows = matrix.row_of_column.tolist()
        expected = [[place for place, own in enumerate(rows) if own == row] for row in range(len(matrix.rows))]
        assert [sorted(places.tolist()) for places in matrix.summands()] == expected


def counts_by(domain, values):
    """Return the counts of values in the bins of a column, by the query."""
    schema = TableSchema({"x": domain}, Unit(), Neighbours.REPLACE)
    table = Table(pd.DataFrame({"x": values}), {"x": domain}, neighbours="replace")
    return list(reveal(table.evaluate(CellCounts.of(BinAxis.of_declared(schema, "x")), row_key="key")))


def test_numbers_nearer_to_0_than_1e_100_are_0_and_so_not_below_an_edge_at_0():
    domain = Interval(-1, 1).bins(-1, 0, 1)
    below = [-1.0, -0.5, -1e-99, -1e-100]
    from_0_on = [-9e-101, -1e-300, -0.0, 0.0, 5e-324, 0.5, 1.0]
    assert counts_by(domain, below) == [4, 0]
    assert counts_by(domain, from_0_on) == [0, 7]


def test_a_number_that_was_declared_as_an_edge_begins_its_bin():
    """Whether its double is above the decimal, as of 0.1, or below it, as of 0.3 and 0.7."""
    edges = [0.1, 0.3, 0.7]
    domain = Interval(0, 1).bins(0, *edges, 1)
    assert [Fraction(edge) < Fraction(repr(edge)) for edge in edges] == [False, True, True]
    for index, edge in enumerate(edges):
        below, above = math.nextafter(edge, 0), math.nextafter(edge, 1)
        by_bin = [0, 0, 0, 0]
        by_bin[index] = 1
        by_bin[index + 1] = 2
        assert counts_by(domain, [below, edge, above]) == by_bin
        stands_in = Interval(0, 1, missing={"value": edge}).bins(0, *edges, 1)
        assert counts_by(stands_in, [None])[index + 1] == 1


def test_a_third_lies_below_the_edge_of_thirds():
    domain = Interval(0, 1)
    schema = TableSchema({"x": domain}, Unit(), Neighbours.REPLACE)
    thirds = CellCounts.of(BinAxis.of_width(schema, "x", 3))
    values = [0.3333333333333333, 0.33333333333333337, 0.6666666666666666, 0.6666666666666667]
    table = Table(pd.DataFrame({"x": values}), {"x": domain}, neighbours="replace")
    assert list(reveal(table.evaluate(thirds, row_key="key"))) == [1, 2, 1]


@pytest.mark.parametrize("stand_in", [0.0, 17.9, 18.0, 64.0, 65.0, 100.0])
def test_a_number_that_stands_in_counts_in_its_own_bin(stand_in):
    domain = Interval(0, 100, missing={"value": stand_in}).bins(0, 18, 65, 100)
    inside = [stand_in < 18, 18 <= stand_in < 65, stand_in >= 65]
    assert counts_by(domain, [None, None]) == [2 * here for here in inside]


@pytest.mark.parametrize("files", [1, 2, 3])
def test_all_files_of_a_table_are_counted(files, tmp_path):
    """Files whose columns have other types are parts of their own."""
    kinds = ["float64", "int64", "str"]
    rows = [{"stay": str(index % 7), "ill": "no"} for index in range(6 * files)]
    for index in range(files):
        frame = pd.DataFrame(rows[6 * index : 6 * index + 6])
        frame.astype({"stay": kinds[index]}).to_parquet(tmp_path / f"{index}.parquet")
    columns = {"stay": COLUMNS["stay"], "ill": COLUMNS["ill"]}
    schema = TableSchema(columns, Unit(), Neighbours.REPLACE)
    table = Table(tmp_path / "*.parquet", columns, neighbours="replace")
    counts = CellCounts.of(BinAxis.of_width(schema, "stay", 3))
    sums = BoundedSums(MomentAxis.of_column(schema, "stay"), (LevelAxis.of_levels(schema, "ill"),))
    for statistic in (counts, sums):
        computed = list(reveal(table.evaluate(statistic, row_key="key")))
        assert computed == exact_integers(statistic, rows, schema.population).tolist()


@pytest.mark.parametrize("form", ["partition", "sphere"])
def test_terms_are_rounded_as_the_definition_rounds_them(form):
    numbers = np.random.default_rng(8).uniform(-0.5, 6.5, 300)
    rows = [{"stay": repr(float(number))} for number in numbers]
    columns = {"stay": COLUMNS["stay"]}
    schema = TableSchema(columns, Unit(), Neighbours.REPLACE)
    statistic = BoundedSums(MomentAxis.of_column(schema, "stay", form))
    table = Table(pd.DataFrame({"stay": numbers}), columns, neighbours="replace")
    computed = list(reveal(table.evaluate(statistic, row_key="key")))
    assert computed == exact_integers(statistic, rows, schema.population).tolist()


def test_which_rows_of_a_person_count_does_not_depend_on_their_order():
    schema = schema_of(Neighbours.ADD_REMOVE, Unit("who", 2))
    ward = LevelAxis.of_levels(schema, "ward")
    statistics = [CellCounts.of(ward), BoundedSums(MomentAxis.of_column(schema, "stay"), (ward,))]
    rng = np.random.default_rng(9)
    rows = random_rows(rng, 8)
    rows += [{**row, "who": "1", "stay": str(index)} for index, row in enumerate(random_rows(rng, 8))]
    for statistic in statistics:
        answers = set()
        for _ in range(6):
            shuffled = [rows[index] for index in rng.permutation(len(rows))]
            frame = pd.DataFrame(shuffled, columns=[*COLUMNS, "who"], dtype="str")
            table = Table(frame, COLUMNS, unit=schema.unit, neighbours=schema.neighbours)
            answers.add(tuple(reveal(table.evaluate(statistic, row_key="key"))))
        assert len(answers) == 1
