"""Intervals of averages over persons cover nine times in ten, and those of rows as independent do not.

The studies are those of `quality/coverage/persons.py`, which has every cell. 400 of them are within 0.86 to 0.95, by
the binomial distribution at 1e-6 on each side; a false alarm at a coverage inside is rarer. The twin is far outside.
"""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest
from scipy.stats import binom

pytestmark = [pytest.mark.statistical, pytest.mark.long]

STUDIES = 400
SCRIPT = runpy.run_path(str(Path(__file__).parents[2] / "quality" / "coverage" / "persons.py"))
CELLS, SEEDED, LOW, HIGH = (SCRIPT[name] for name in ("CELLS", "seeded", "LOW", "HIGH"))
ALARM = 1e-6


def covered(name: str) -> int:
    return round(sum(CELLS[name](SEEDED(name, place)) for place in range(STUDIES)))


@pytest.mark.parametrize("kind", ["proportion", "mean", "rate"])
def test_intervals_cover(kind):
    found = covered(f"{kind}, icc 0.95, epsilon 1.0, groups 1")
    assert binom.cdf(found, STUDIES, LOW) > ALARM
    assert binom.sf(found - 1, STUDIES, HIGH) > ALARM


def test_rows_as_independent_do_not():
    found = covered("broken: rows as independent, icc 0.95, epsilon 1.0")
    assert binom.cdf(found, STUDIES, LOW) < ALARM


@pytest.mark.parametrize(
    "name", ["rate, icc 0.5, epsilon 0.2, groups 3", "few events: 100 x .05, icc 0.5, epsilon 0.2"]
)
def test_an_interval_holds_what_its_test_accepts(name):
    both = [(CELLS[name](SEEDED(name, place)), CELLS[name](SEEDED(name, place), ends=True)) for place in range(60)]
    assert [accepted for accepted, _ in both] == [held for _, held in both]
    assert {accepted for accepted, _ in both} != {1.0}
