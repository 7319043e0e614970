"""Integer noise: its kind is the one that is charged, its deviation that of the law, and a trial draw is short."""

from __future__ import annotations

import math

import pytest
from seeded_noise import SeededNoise

from vestry.mechanisms.additive_noise import (
    CUBE,
    GAUSSIAN,
    LAPLACE,
    NOISE_OF,
    ROUNDED_GAUSSIAN,
    Additive,
    discrete_normal_deviation,
    event_of,
    rounded_normal_deviation,
)
from vestry.mechanisms.statistic_family import Layout
from vestry.privacy.guarantee import Guarantee
from vestry.privacy.neighbours import Adjacency
from vestry.schema.private import Private

SCALES = [0.2, 0.5, 1.0, 1.05, 1.99, 2.0, 2.01, 3.0, 9.0]
WEIGHTS = {
    LAPLACE: lambda k, scale: math.exp(-k / scale),
    GAUSSIAN: lambda k, scale: math.exp(-((k / scale) ** 2) / 2),
    ROUNDED_GAUSSIAN: lambda k, scale: normal_tail((k - 0.5) / scale) - normal_tail((k + 0.5) / scale),
}


def normal_tail(z: float) -> float:
    return math.erfc(z / math.sqrt(2)) / 2


def deviation_of(noise: str, scale: float) -> float:
    """Return the root of the mean square of a symmetric law, from its weights at 0, 1, 2, ..."""
    weights = [WEIGHTS[noise](k, scale) for k in range(math.ceil(60 * scale) + 60)]
    squares = 2 * sum(k * k * weight for k, weight in enumerate(weights))
    total = weights[0] + 2 * sum(weights[1:])
    return math.sqrt(squares / total)


def mechanism(noise: str, scale: float, size: int = 3, groups: int | None = None) -> Additive:
    layout = Layout(tuple(f"n{index}" for index in range(size)), 1, 1.0, largest=1)
    adjacency = Adjacency("add-remove", 1, None, groups or 1)
    return Additive(noise, scale, layout, adjacency, Guarantee.parse("epsilon=1"))


@pytest.mark.oracle
@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("noise", WEIGHTS)
def test_the_deviation_is_that_of_the_law(noise, scale):
    expected = deviation_of(noise, scale)
    assert mechanism(noise, scale).deviation == pytest.approx(expected, rel=1e-9)


@pytest.mark.oracle
@pytest.mark.parametrize("scale", SCALES)
def test_deviations_of_normal_laws(scale):
    assert rounded_normal_deviation(scale) == pytest.approx(deviation_of(ROUNDED_GAUSSIAN, scale), rel=1e-12)
    assert discrete_normal_deviation(scale) == pytest.approx(deviation_of(GAUSSIAN, scale), rel=1e-12)


def test_the_deviation_of_a_cube_is_never_imaginary():
    assert mechanism(CUBE, 1e-3).deviation == 0
    assert mechanism(CUBE, 2.0, size=1).deviation == pytest.approx(math.sqrt((2 * 3 * 4 - 0.25) / 3))


class Spy(SeededNoise):
    """Notes which noise is drawn, and for how many numbers."""

    def __init__(self):
        super().__init__(1)
        self.drawn = []

    def discrete_laplace(self, values, *, scale):
        self.drawn.append((LAPLACE, len(values), scale))
        return [value + 10 for value in values]

    def discrete_gaussian(self, values, *, scale):
        self.drawn.append((GAUSSIAN, len(values), scale))
        return [value + 20 for value in values]

    def rounded_gaussian(self, values, *, scale):
        self.drawn.append((ROUNDED_GAUSSIAN, len(values), scale))
        return [value + 30 for value in values]


class Opened:
    """A permission of the ledger that can be taken."""

    def take(self):
        pass


@pytest.mark.parametrize("noise", NOISE_OF.values())
def test_the_noise_that_is_charged_is_drawn_on_every_number(noise):
    spy = Spy()
    statistics = mechanism(noise, 2.5, size=2, groups=2).release(Private((1, 2, 3, 4)), Opened(), spy)
    assert spy.drawn == ([] if noise == CUBE else [(noise, 4, 2.5)])
    if noise != CUBE:
        added = {LAPLACE: 10, GAUSSIAN: 20, ROUNDED_GAUSSIAN: 30}[noise]
        assert [group.values for group in statistics] == [(1 + added, 2 + added), (3 + added, 4 + added)]


@pytest.mark.parametrize("noise", NOISE_OF.values())
def test_a_trial_draw_is_of_at_most_a_thousand_numbers_and_shows_nothing(noise):
    spy = Spy()
    [statistics] = mechanism(noise, 2.5, size=1200).rehearse(spy)
    assert statistics.values == (0,) * 1200
    assert all(size <= 1000 for _, size, _ in spy.drawn)
    assert len(spy.drawn) == (noise != CUBE)


@pytest.mark.parametrize("size", [2**24 + 1, 2**25 - 1])
def test_a_whole_root_is_its_own_bound_below_2_to_the_25_and_is_rounded_up_from_there_on(size):
    layouts = [Layout(("n",), size, float(size)), Layout(("n",), 2**25, 2.0**25)]
    events = [event_of(ROUNDED_GAUSSIAN, layout, 1.0) for layout in layouts]
    below, above = (dict(event.parameters)["sensitivity"] for event in events)
    assert below == size
    assert above > 2**25


def test_a_private_count_is_in_its_own_units():
    layout = Layout(("sum", "count"), 3, 2.0, count_grid=0.25)
    assert layout.with_count([7], 5) == [7, 20]
    assert Layout(("sum",), 3, 2.0, count=5).with_count([7], 5) == [7]
    assert (layout.grid, layout.largest) == (1.0, 0)
    assert Layout(("sum",), 3, 2.0).with_count([7], 5) == [7, 5]
