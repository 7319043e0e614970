"""Distances of neighbours in the sums of products: the published table, brute force over records, and a broken twin."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from share import cases

from vestry.privacy.neighbours import Adjacency
from vestry.regression.moment_sensitivity import added, replaced_l1, replaced_l2
from vestry.regression.moments import LevelColumn, Moments, NumberColumn
from vestry.schema.design_matrix import HALF

pytestmark = pytest.mark.oracle

# (blocks of three or more levels, numbers): added or removed l1 = l2^2, replaced l1, replaced l2.
TABLE = {
    (0, 1): (3, 2.2500000000, 2.0000000000),
    (0, 2): (6, 5.3333333333, 2.8284271247),
    (0, 3): (10, 9.3750000000, 4.0000000000),
    (0, 4): (15, 14.4000000000, 4.8989794856),
    (0, 5): (21, 20.4166666667, 6.0000000000),
    (0, 10): (66, 65.4545454545, 10.9544511501),
    (0, 21): (253, 252.4772727273, 22.0),
    (1, 1): (5, 6.0, 2.8284271247),
    (1, 2): (9, 10.3333333333, 4.0),
    (1, 3): (14, 16.0, 4.8989794856),
    (1, 4): (20, 22.375, 6.0),
    (2, 2): (13, 18.0, 4.8989794856),
    (3, 1): (12, 20.0, 4.6904157598),
    (3, 4): (33, 48.0, 8.0),
    (8, 6): (112, 192.0, 14.8996644258),
}


@pytest.mark.parametrize(("design", "expected"), TABLE.items())
def test_the_table_to_ten_digits(design, expected):
    blocks, numbers = design
    assert added(numbers, blocks) == expected[0]
    assert float(replaced_l1(numbers, 0, blocks).distance) == pytest.approx(expected[1], abs=6e-11)
    assert math.sqrt(replaced_l2(numbers, 0, blocks).distance) == pytest.approx(expected[2], abs=6e-11)


# Where the number of records is private: l1, l2 under replace.
PRIVATE = {(0, 1): (3, 2), (0, 2): (6, 2.8284271247), (0, 3): (10, 4), (1, 1): (6, 2.8284271247), (1, 2): (31 / 3, 4)}


def moments(numbers: int, levels: tuple[int, ...]) -> Moments:
    columns = tuple(LevelColumn(f"c{place}", tuple("abcdef"[:size])) for place, size in enumerate(levels))
    return Moments(tuple(NumberColumn(f"x{place}", -1.0, 1.0) for place in range(numbers)), columns)


@pytest.mark.parametrize(("design", "expected"), PRIVATE.items())
def test_a_private_count(design, expected):
    """Using 9/4 for one number would give 4/3 of epsilon."""
    layout = moments(design[1], (3,) * design[0]).layout(Adjacency("replace"))
    assert layout.l1 / HALF == pytest.approx(expected[0], abs=1e-4)
    assert layout.l2 / HALF == pytest.approx(expected[1], abs=1e-4)
    assert layout.l1 >= expected[0] * HALF
    assert layout.l2 >= expected[1] * HALF - 1e-4


def test_groups_and_persons():
    alone, moved = Adjacency("add-remove"), Adjacency("replace", groups=3)
    one = moments(2, (3,))
    assert one.layout(alone).l1 == 9 * HALF == one.layout(Adjacency("add-remove", groups=3)).l1
    assert one.layout(moved).l1 == 18 * HALF
    assert one.layout(moved).l2 == pytest.approx(math.sqrt(18) * HALF)
    many = moments(4, ())
    assert many.layout(moved).l2 == pytest.approx(math.sqrt(30) * HALF)
    for neighbours in ("add-remove", "replace"):
        once, thrice = (one.layout(Adjacency(neighbours, rows=k)) for k in (1, 3))
        assert (thrice.l1, thrice.l2) == (3 * once.l1, pytest.approx(3 * once.l2))


# Brute force: every pair of records on a grid that holds the extremes, statistics written out one by one.


def entries(numbers: np.ndarray, levels: tuple[int, ...], sizes: tuple[int, ...]) -> np.ndarray:
    """Return every entry of records with these levels, one record per row; level 0 has no indicator."""
    found = [numbers[:, i] for i in range(numbers.shape[1])]
    found += [numbers[:, i] * numbers[:, j] for i in range(numbers.shape[1]) for j in range(i, numbers.shape[1])]
    one = np.ones(len(numbers))
    for block, size in enumerate(sizes):
        for level in range(1, size):
            has = one * (levels[block] == level)
            found += [has, *(has * numbers[:, i] for i in range(numbers.shape[1]))]
            for other in range(block):
                found += [has * (levels[other] == its) for its in range(1, sizes[other])]
    return np.stack(found, axis=1)


def farthest(numbers: int, sizes: tuple[int, ...], steps: int) -> tuple[float, float]:
    """Return the largest l1 and squared l2 distance over all pairs of records on a grid."""
    grid = np.linspace(-1, 1, steps + 1)
    points = np.array(list(itertools.product(grid, repeat=numbers)))
    l1 = l2 = 0.0
    every = list(itertools.product(*(range(size) for size in sizes)))
    for first, second in itertools.combinations_with_replacement(every, 2):
        one, other = entries(points, first, sizes), entries(points, second, sizes)
        for row in one:
            differences = np.abs(other - row)
            l1 = max(l1, differences.sum(axis=1).max())
            l2 = max(l2, (differences**2).sum(axis=1).max())
    return l1, l2


# numbers, levels of each column, steps of the grid, which hold the extremes of l1.
DESIGNS = [
    (1, (), 24),
    (1, (2,), 16),
    (1, (3,), 12),
    (1, (2, 2), 16),
    (1, (2, 3), 8),
    (2, (), 12),
    (2, (2,), 12),
    (2, (3,), 12),
    (3, (), 8),
    (1, (3, 3), 8),
    (1, (2, 2, 2), 16),
]


@pytest.mark.parametrize(("numbers", "sizes", "steps"), cases(DESIGNS, quick=DESIGNS[:5]))
def test_brute_force(numbers, sizes, steps):
    l1, l2 = farthest(numbers, sizes, steps)
    two, more = sum(size == 2 for size in sizes), sum(size > 2 for size in sizes)
    assert float(replaced_l1(numbers, two, more).distance) == pytest.approx(l1, abs=1e-9)
    assert float(replaced_l2(numbers, two, more).distance) == pytest.approx(l2, abs=1e-9)
    corner = entries(np.ones((1, numbers)), (1,) * len(sizes), sizes)
    assert added(numbers, len(sizes)) == 1 + corner.sum()


def test_a_search_between_the_grid_finds_nothing_farther():
    rng = np.random.default_rng(7)
    for numbers, levels in ((4, ()), (3, (3,)), (3, (2,)), (2, (2, 3)), (5, ())):
        sizes = levels
        two, more = sum(size == 2 for size in sizes), sum(size > 2 for size in sizes)
        limits = float(replaced_l1(numbers, two, more).distance), float(replaced_l2(numbers, two, more).distance)
        for first, second in itertools.product(itertools.product(*(range(size) for size in sizes)), repeat=2):
            one, other = (np.clip(rng.normal(0, 1.2, (2000, numbers)), -1, 1) for _ in range(2))
            differences = np.abs(entries(one, first, sizes) - entries(other, second, sizes))
            assert differences.sum(axis=1).max() <= limits[0] + 1e-9
            assert (differences**2).sum(axis=1).max() <= limits[1] + 1e-9


def test_the_naive_count_of_blocks_is_refuted():
    """A twin that takes each level for a number asks for far more; one that forgets a block, for too little."""
    numbers, sizes = 1, (3, 3)
    l1, l2 = farthest(numbers, sizes, 8)
    naive = numbers + sum(size - 1 for size in sizes)
    assert float(replaced_l2(naive, 0, 0).distance) > 1.5 * l2
    assert float(replaced_l1(naive, 0, 0).distance) > 1.2 * l1
    assert float(replaced_l1(numbers, 0, 1).distance) < l1 - 1  # both blocks as one


def test_audits_have_a_pair_at_the_distance():
    for one in (moments(2, ()), moments(2, (3,)), moments(1, (2, 3)), moments(3, (2,))):
        for adjacency in (Adjacency("add-remove"), Adjacency("replace", 1, 100), Adjacency("add-remove", rows=2)):
            layout = one.layout(adjacency)
            for noise, limit, power in (("discrete-laplace", layout.l1, 1), ("discrete-gaussian", layout.l2, 2)):
                pair = one.noise_pair(layout, adjacency, noise)
                distance = sum(abs(x - y) ** power for x, y in zip(*pair.datasets, strict=True)) ** (1 / power)
                assert limit * (1 - 2e-5) - 40 <= distance <= limit * (1 + 1e-12)


def test_rounded_records_stay_within_the_layout():
    """Records in doubles, at awkward intervals, as the query computes them."""
    rng = np.random.default_rng(3)
    columns = (NumberColumn("a", 0.1, 0.7), NumberColumn("b", -3.3, 1e4), NumberColumn("c", 18.0, 99.9))
    one = Moments(columns)
    layout = one.layout(Adjacency("replace", 1, 10))

    def units(record: np.ndarray) -> np.ndarray:
        away = [x - each.middle for x, each in zip(record.T, columns, strict=True)]
        found = [np.floor(x / (each.reach / HALF) + 0.5) for x, each in zip(away, columns, strict=True)]
        for i, j in itertools.combinations_with_replacement(range(3), 2):
            found.append(np.floor(away[i] * away[j] / (columns[i].reach * columns[j].reach / HALF) + 0.5))
        return np.stack(found, axis=1)

    share = rng.choice([-1, -0.25, 1, 0.5], (2, 800, 3)) + rng.normal(0, 1e-6, (2, 800, 3))
    records = [
        np.clip(
            np.array([c.middle for c in columns]) + each * np.array([c.reach for c in columns]),
            [c.low for c in columns],
            [c.high for c in columns],
        )
        for each in share
    ]
    differences = np.abs(units(records[0])[:, None, :] - units(records[1])[None, :300, :])
    assert differences.sum(axis=2).max() <= layout.l1
    assert np.sqrt((differences**2).sum(axis=2)).max() <= layout.l2
