"""Rows beyond a declared number: what neighbours differ by, over every small table."""

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
import pytest

from vestry import Interval, Ledger, Table
from vestry.data.row_limit import limit_records, places_of
from vestry.regression.problem import first_rows
from vestry.schema.design_matrix import Design
from vestry.schema.private import reveal_rows

pytestmark = pytest.mark.oracle

KINDS = 4
KEYS = [f"key {i}" for i in range(4)]


def blocks(table, cut=2):
    """Rows of two features and an outcome, in blocks of `cut`."""
    rows = np.array([[kind / 4, 1.0] for kind in table], dtype=np.float32).reshape(-1, 2)
    ends = np.array([1.0 if kind % 2 else -1.0 for kind in table])
    return [(rows[i : i + cut], ends[i : i + cut]) for i in range(0, len(table), cut)]


def counted(rule, table) -> Counter:
    """Return which kinds count, and how often."""
    return Counter(float(row[0]) * 4 for features, _ in rule(blocks(table)) for row in features)


def by_key(key, most):
    return lambda table: limit_records(table, most, row_key=key)


def distance(one: Counter, other: Counter) -> tuple[int, int]:
    """Return how many records come and how many go."""
    return (other - one).total(), (one - other).total()


TABLES = [table for size in range(6) for table in itertools.combinations_with_replacement(range(KINDS), size)]


@pytest.mark.parametrize("most", [1, 2, 4])
def test_one_more_record_is_one_more_or_replaces_one(most):
    """Of all tables up to five records: up to the bound it is added, and beyond it replaces at most one."""
    replaced = 0
    for key, table in itertools.product(KEYS, TABLES):
        before = counted(by_key(key, most), table)
        assert before.total() == min(most, len(table))
        for kind in range(KINDS):
            come, gone = distance(before, counted(by_key(key, most), (*table, kind)))
            if len(table) < most:
                assert (come, gone) == (1, 0)
            else:
                assert (come, gone) in {(0, 0), (1, 1)}
                replaced += come
    assert replaced > 0


@pytest.mark.parametrize("most", [1, 2, 4])
def test_a_replaced_record_replaces_at_most_one(most):
    for key, table in itertools.product(KEYS[:2], TABLES):
        before = counted(by_key(key, most), table)
        for place, kind in itertools.product(range(len(table)), range(KINDS)):
            come, gone = distance(before, counted(by_key(key, most), (*table[:place], kind, *table[place + 1 :])))
            assert come == gone <= 1


def test_the_order_of_records_does_not_matter_and_by_order_it_does():
    """The broken twin keeps the first that come."""
    by_order, moved = (lambda rows: first_rows(rows, 3)), 0
    for table in (table for table in TABLES if len(table) == 5):
        for shuffled in itertools.islice(set(itertools.permutations(table)), 12):
            assert counted(by_key("k", 3), shuffled) == counted(by_key("k", 3), table)
            moved += counted(by_order, shuffled) != counted(by_order, table)
    assert moved > 0


@pytest.mark.parametrize("key", KEYS)
def test_the_lowest_places_count_and_equal_records_are_numbered_from_0(key):
    for table in (table for table in TABLES if len(table) == 5):
        [block] = blocks(table, cut=5)
        numbers = [table[:index].count(kind) for index, kind in enumerate(table)]
        places = places_of(block, numbers, key)
        assert len(set(places)) == 5
        lowest = sorted(zip(places, table, strict=True))[:3]
        assert counted(by_key(key, 3), table) == Counter(kind for _, kind in lowest)


def test_records_that_differ_by_little_are_not_equal():
    """Records that were taken for equal would be numbered, and so chosen, in the order in which they come."""
    tiny = np.arange(1, 6, dtype=np.float32) * np.float32(1e-20)
    for key, place in itertools.product(KEYS, ["features", "outcomes"]):
        kept = set()
        for order in itertools.permutations(range(5)):
            values = tiny[list(order)]
            same = np.zeros(5)
            block = (values[:, None], same) if place == "features" else (same[:, None], values)
            [(features, outcomes)] = limit_records([block], 2, row_key=key)
            kept.add(frozenset((features[:, 0] + outcomes).tolist()))
        assert len(kept) == 1


def test_no_rule_keeps_neighbours_one_record_apart():
    """Every way to keep at most 3 of 4 different records, where 3 records all count."""
    records = frozenset(range(4))
    for size in range(4):
        for held in itertools.combinations(records, size):
            assert max(len(set(held) ^ (records - {gone})) for gone in records) > 1


def test_the_key_decides_and_every_record_has_its_chance():
    """Over 400 fixed keys each of ten records counts about half the time, to six standard deviations."""
    rows = np.arange(10, dtype=np.float32)[:, None]
    chosen = [limit_records([(rows, np.zeros(10))], 5, row_key=f"{i}")[0][0][:, 0] for i in range(400)]
    shares = np.bincount(np.concatenate(chosen).astype(int), minlength=10)
    assert np.all(np.abs(shares - 200) < 6 * 10)
    assert len({tuple(each) for each in chosen}) > 100


def test_zero_has_one_meaning():
    """A 0 that is negative is an equal of 0: it has the next number, and no place of its own."""
    plus = [(np.array([[0.0], [0.0], [1.0]], dtype=np.float32), np.zeros(3))]
    minus = [(np.array([[-0.0], [0.0], [1.0]], dtype=np.float32), -np.zeros(3))]
    for key in KEYS:
        same = [np.sort(limit_records(each, 2, row_key=key)[0][0][:, 0]) for each in (plus, minus)]
        assert np.array_equal(*same)


@pytest.mark.long
@pytest.mark.parametrize("order", [1, -1])
def test_a_table_and_an_estimator_choose_by_the_ledgers_key(order, tmp_path, monkeypatch):
    import pandas as pd

    from vestry.estimators import PrivateLinearRegression, estimator

    values = [k / 10 for k in range(10)][::order]
    frame = pd.DataFrame({"x": values, "y": values})
    domains = {"x": Interval(0, 1), "y": Interval(0, 1)}
    table = Table(frame, domains, neighbours="add-remove", max_rows=4)
    rows = reveal_rows(table.rows(Design(("x",), domains, "y"), row_key="secret"))
    from_table = sorted(float(x) for features, _ in rows for x in features[:, 0])
    every = Table(frame.sort_values("x"), domains, neighbours="add-remove", max_rows=10)
    all_rows = reveal_rows(every.rows(Design(("x",), domains, "y"), row_key="secret"))
    assert from_table == sorted(float(x) for x in limit_records(all_rows, 4, row_key="secret")[0][0][:, 0])
    assert len(from_table) == 4

    seen = []
    monkeypatch.setattr(
        estimator, "limit_records", lambda given, most, *, row_key: seen.append((most, row_key)) or given
    )
    ledger = Ledger.create(
        str(tmp_path / "l.ledger"), dataset="d", unit="row", neighbours="add-remove", budget="epsilon=9,delta=1e-6"
    )
    made = PrivateLinearRegression(
        "epsilon=1,delta=1e-7", bounds=(0, 1), outcome_bounds=(0, 1), max_rows=4, ledger=ledger
    )
    made.fit(np.array(values)[:, None], np.array(values))
    assert seen == [(4, ledger.row_key())]
