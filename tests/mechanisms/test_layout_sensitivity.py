"""The sensitivities that `additive.layout` declares, against every contribution that one unit can make."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from mechanism_oracle import shifts

from vestry.conjugate.beta_bernoulli import BetaBernoulliFamily
from vestry.conjugate.dirichlet_categorical import DirichletCategoricalFamily
from vestry.conjugate.gamma_exponential import GammaExponentialFamily
from vestry.conjugate.gamma_poisson import GammaPoissonFamily
from vestry.conjugate.normal_inverse_gamma import NormalInverseGammaFamily
from vestry.conjugate.normal_mean import NormalMeanFamily
from vestry.errors import InvalidParameter
from vestry.mechanisms.additive_noise import GAUSSIAN, event_of
from vestry.mechanisms.statistic_family import Layout
from vestry.privacy.neighbours import Adjacency

pytestmark = pytest.mark.oracle

POPULATIONS = [
    *(Adjacency("replace", rows, count) for rows, count in itertools.product([1, 2, 3], [9, None])),
    *(Adjacency("add-remove", rows) for rows in (1, 2, 3)),
    *(Adjacency(relation, rows, groups=2) for relation in ("replace", "add-remove") for rows in (1, 2)),
]
each_adjacency = pytest.mark.parametrize("adjacency", POPULATIONS, ids=str)
COUNTS = [BetaBernoulliFamily(), *(DirichletCategoricalFamily(d) for d in (2, 3, 4))]


def true_sensitivities(family, adjacency, half=1) -> tuple[int, int]:
    """Return the largest l1 distance and the largest squared l2 distance."""
    found = shifts(family, adjacency, half=half)
    return int(found.sum(axis=1).max()), int((found**2).sum(axis=1).max())


@each_adjacency
@pytest.mark.parametrize("family", COUNTS, ids=str)
def test_counts(family, adjacency):
    made = family.layout(adjacency)
    l1, squared = true_sensitivities(family, adjacency)
    assert made.l1 == l1
    assert made.l2 == pytest.approx(math.sqrt(squared), rel=1e-15)
    assert len(made.names) * adjacency.groups == shifts(family, adjacency).shape[1]
    assert made.count == adjacency.count
    assert (made.grid, made.count_grid) == (1, 1)


@each_adjacency
@pytest.mark.parametrize("high", [1, 2, 5])
def test_sums_of_counts(high, adjacency):
    made = GammaPoissonFamily(high).layout(adjacency)
    l1, squared = true_sensitivities(GammaPoissonFamily(high), adjacency)
    assert made.l1 == l1
    assert made.l2 == pytest.approx(math.sqrt(squared), rel=1e-15)
    assert len(made.names) == 1 + (adjacency.count is None)
    assert made.count_grid == (1 if adjacency.count is not None else 1 / max(1, high // 2))


@each_adjacency
@pytest.mark.parametrize("half", [1, 3])
def test_sums_of_times(half, adjacency):
    made = GammaExponentialFamily(1.0, 7.0).layout(adjacency, grid=3 / half)
    l1, squared = true_sensitivities(GammaExponentialFamily(1.0, 7.0), adjacency, half)
    assert (made.l1, made.l2) == (l1, pytest.approx(math.sqrt(squared), rel=1e-15))


@each_adjacency
@pytest.mark.parametrize("half", [1, 3])
@pytest.mark.parametrize("dimension", [1, 2])
def test_normal_sums(dimension, half, adjacency):
    """Attained, with the count beside the sums too; under replace it costs nothing more."""
    if dimension == 2 and half == 3 and adjacency.rows * adjacency.groups > 2:
        pytest.skip("a long enumeration that adds nothing")
    family = NormalMeanFamily(1.0, -1.0, 5.0, dimension)
    made = family.layout(adjacency, grid=3 / half)
    l1, squared = true_sensitivities(family, adjacency, half)
    assert made.l1 == l1
    assert made.l2 == pytest.approx(math.sqrt(squared), rel=1e-15)
    assert len(made.names) == dimension + (adjacency.count is None)
    if adjacency.count is None:
        assert made.count_grid == 1 / half
        if adjacency.replaces and adjacency.groups == 1:
            public = family.layout(Adjacency("replace", adjacency.rows, 9), grid=3 / half)
            assert (made.l1, made.l2) == (public.l1, public.l2)


@pytest.mark.parametrize("step", [0.3, 0.7, 1.1, 2.9, None])
def test_a_grid_that_does_not_divide_the_interval_is_covered(step):
    """Every clipped value, rounded to the grid that starts in the middle, is within the declared width."""
    family = NormalMeanFamily(1.0, -1.0, 5.0)
    made = family.layout(Adjacency("replace", 1, 9), grid=step)
    ends = [round((end - 2) / made.grid) for end in (-1.0, 5.0)]
    assert ends[1] - ends[0] <= made.l1
    assert made.l1 <= 6 / made.grid + 2


@each_adjacency
@pytest.mark.parametrize("family", [*COUNTS, *(NormalMeanFamily(1.0, 0.0, 1.0, d) for d in (1, 2, 3, 7))], ids=str)
def test_the_event_never_states_less_than_the_true_l2(family, adjacency):
    """An l2 sensitivity is a square root: the float in the event must not lie below it."""
    made = family.layout(adjacency, grid=0.5 if isinstance(family, NormalMeanFamily) else None)
    if isinstance(family, NormalMeanFamily) and family.dimension > 2:
        k, d = adjacency.rows, family.dimension
        squared = k * k * (4 * d if adjacency.replaces else d + 1)
    else:
        _, squared = true_sensitivities(family, adjacency)
    stated = dict(event_of(GAUSSIAN, made, 1.0).parameters)["sensitivity"]
    assert Fraction(stated) ** 2 >= squared


@pytest.mark.parametrize("step", [0.0, -1.0, 3.1, math.nan, math.inf])
def test_a_bad_grid_is_refused(step):
    with pytest.raises(InvalidParameter, match="grid must be above 0 and at most half the interval"):
        NormalMeanFamily(1.0, -1.0, 5.0).layout(Adjacency("replace", 1, 9), grid=step)


# --- broken twins: each fails the comparison above -------------------------------------------------------------------


def test_the_factor_two_of_replace_is_needed():
    """As if a replacement moved one cell: the declared diameter is half of the true one."""
    adjacency = Adjacency("replace", 1, 9)
    l1, _ = true_sensitivities(DirichletCategoricalFamily(3), adjacency)
    assert DirichletCategoricalFamily(3).layout(adjacency).l1 == l1 == 2
    assert DirichletCategoricalFamily(3).layout(Adjacency("add-remove")).l1 < l1


def test_a_public_layout_is_too_narrow_where_records_can_be_dropped():
    """The public layout holds one of the two numbers that a dropped record moves."""
    l1, squared = true_sensitivities(BetaBernoulliFamily(), Adjacency("replace"))
    public = BetaBernoulliFamily().layout(Adjacency("replace", 1, 9))
    assert public.l1 < l1
    assert public.l2**2 < squared


@pytest.mark.parametrize("family", [NormalMeanFamily(1.0, -1.0, 5.0)], ids=str)
def test_groups_priced_as_parallel_under_replace_fall_short(family):
    """The broken twin: a record that moves between groups costs more than any change inside one."""
    twin = family.layout(Adjacency("replace"), grid=1.0)
    l1, squared = true_sensitivities(family, Adjacency("replace", groups=2), half=3)
    assert l1 > twin.l1
    assert squared == twin.l2**2  # in one coordinate no further by l2


def test_changes_inside_a_group_forgotten_fall_short():
    """The broken twin prices a move between groups alone."""
    family, adjacency = NormalMeanFamily(1.0, -1.0, 5.0, 2), Adjacency("replace", groups=2)
    added = family.layout(Adjacency("add-remove"), grid=1.0)
    _, squared = true_sensitivities(family, adjacency, half=3)
    assert squared > 2 * added.l2**2
    assert squared == pytest.approx(family.layout(adjacency, grid=1.0).l2 ** 2)


SQUARES = [
    *(Adjacency("replace", rows, count) for rows, count in itertools.product([1, 2], [9, None])),
    *(Adjacency("add-remove", rows, groups=groups) for rows in (1, 2) for groups in (1, 2)),
    Adjacency("replace", groups=2),
]


@pytest.mark.parametrize("adjacency", SQUARES, ids=str)
def test_sums_of_values_and_squares(adjacency):
    """Every pair of records on a grid of 801 values: never beyond the bound, and within 1e-5 of it."""
    made, half = NormalInverseGammaFamily(-3.0, 5.0).layout(adjacency), 2**19
    y = np.linspace(-1, 1, 801)
    points = np.stack([np.floor(half * y + 0.5), np.floor(half * y * y + 0.5)], axis=1)
    if adjacency.count is None:
        points = np.column_stack([points, np.full(len(points), round(1 / made.count_grid))])
    steps = [points]  # from nothing to one record
    if adjacency.replaces:
        steps.append((points[:, None] - points[None]).reshape(-1, points.shape[1]))
    k = adjacency.rows
    l1 = max(k * np.abs(step).sum(axis=1).max() for step in steps)
    l2 = max(k * np.sqrt((step**2).sum(axis=1)).max() for step in steps)
    if adjacency.replaces and adjacency.groups > 1:
        l1 = max(l1, 2 * k * np.abs(points).sum(axis=1).max())
        l2 = max(l2, math.sqrt(2) * k * np.sqrt((points**2).sum(axis=1)).max())
    if adjacency.count is not None:
        steps = steps[1:]
    assert l1 <= made.l1 <= l1 * (1 + 1e-4)
    assert l2 <= made.l2 * (1 + 1e-12) <= l2 * (1 + 1e-4)


@pytest.mark.parametrize(
    "family",
    [
        NormalMeanFamily(1.0, 2**53, 2**53 + 6.0),
        NormalMeanFamily(1.0, 1e9, 1e9 + 0.001),
        NormalInverseGammaFamily(1e15, 1e15 + 0.375),
    ],
    ids=str,
)
def test_an_interval_too_narrow_for_doubles_is_refused(family):
    """Its middle is rounded by a part of the width, so that one record would count beyond the grid's end."""
    with pytest.raises(InvalidParameter, match="wide enough for doubles to tell its values apart"):
        family.layout(Adjacency("add-remove"))


@pytest.mark.parametrize("ends", [(0.1, 0.7), (-1 / 3, 2e6), (1e9, 1e9 + 1.0), (0.0, 1e-12)])
def test_every_ordinary_interval_is_counted_within_its_grid(ends):
    made = NormalMeanFamily(1.0, *ends).layout(Adjacency("add-remove"))
    middle, half = sum(ends) / 2, round(1 / made.count_grid)
    assert all(abs(math.floor((end - middle) / made.grid + 0.5)) <= half for end in ends)


@pytest.mark.parametrize("n", [3, 2**25 - 1, 2**26, 70_711_162, 10**9])
def test_a_root_that_rounds_to_a_whole_number_is_not_taken_for_exact(n):
    """The root of n^2 + 1 is n in doubles from 2^26 on, and above it in truth."""
    layout = Layout(("a",), n + 1, math.sqrt(n * n + 1))
    declared = Fraction(dict(event_of(GAUSSIAN, layout, 10.0 * n).parameters)["sensitivity"])
    assert declared**2 >= n * n + 1
    stated = event_of(GAUSSIAN, Layout(("a",), n, float(n)), 10.0 * n)
    whole = Fraction(dict(stated.parameters)["sensitivity"])
    assert whole >= n
    assert (whole == n) == (n < 2**25)
