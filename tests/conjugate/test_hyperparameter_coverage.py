"""Sparse tables and pooled groups cover at their level, and their broken twins do not.

The studies are those of `quality/coverage/run.py`, few of them and with other seeds. The standard deviation of one
study's coverage is known from a hundred and more: 0.11 of the large cells of a sparse table, 0.08 of ranks over 20
levels, 0.13 over 8 groups, 0.12 over 20, 0.07 over 50. A check allows six standard errors, so that one of these tests
fails by chance less than once in a million runs; each twin is further away than that.
"""

from __future__ import annotations

import importlib.util
import math
from pathlib import Path

import numpy as np
import pytest

from vestry.posterior.discrete_noise import DiscreteGaussian, Laplace

pytestmark = [pytest.mark.statistical, pytest.mark.long]


def _script():
    path = Path(__file__).parents[2] / "quality" / "coverage" / "run.py"
    specification = importlib.util.spec_from_file_location("coverage_run", path)
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


RUN = _script()


def mean_of(key, study, studies, *arguments, **options):
    found, tried = [], 0
    while len(found) < studies:
        result = study(np.random.default_rng([2026, tried]), *arguments, **options)
        tried += 1
        if result is not None:
            found.append(result[key])
    return float(np.mean(found))


def allowed(deviation, studies):
    return 6 * deviation / math.sqrt(studies)


def test_large_cells_of_a_sparse_table_are_covered():
    found = mean_of("large", RUN.table_study, 24, "80-of-which-10")
    assert abs(found - 0.9) < allowed(0.11, 24)


def test_empty_levels_hold_0():
    assert mean_of("empty", RUN.table_study, 6, "1000-of-which-30") > 0.95


def test_a_fixed_concentration_is_found_out():
    twin = mean_of("large", RUN.table_study, 8, "80-of-which-10", twin=RUN.fixed_concentration)
    assert twin < 0.9 - allowed(0.11, 8)


def test_ignored_noise_in_a_table_is_found_out():
    assert mean_of("empty", RUN.table_study, 4, "80-of-which-10", twin=RUN.ignored_noise) < 0.88


def test_even_levels_are_covered():
    assert abs(mean_of("all", RUN.table_study, 16, "20-even") - 0.9) < allowed(0.07, 16)


@pytest.mark.parametrize(("kind", "public"), [(Laplace, False), (DiscreteGaussian, False), (Laplace, True)])
def test_ranks_of_levels_are_uniform_where_the_truth_comes_from_the_hyperprior(kind, public):
    found = mean_of("rank", RUN.table_rank, 40, 20, kind, public=public)
    assert abs(found - 0.9) < allowed(0.08, 40)


@pytest.mark.parametrize(
    ("study", "arguments"),
    [(RUN.normal_rank, (8, Laplace)), (RUN.normal_rank, (8, DiscreteGaussian)), (RUN.gamma_rank, (8,))],
)
def test_ranks_of_means_and_rates_are_uniform_where_the_truth_comes_from_the_hyperprior(study, arguments):
    assert abs(mean_of("rank", study, 60, *arguments) - 0.9) < allowed(0.13, 60)


@pytest.mark.slow
def test_ranks_of_proportions_are_uniform_where_the_truth_comes_from_the_hyperprior():
    """Where a proportion rounds to 0 or 1 its rank is drawn; the totals' distribution is drawn from its prior too."""
    assert abs(mean_of("rank", RUN.group_rank, 40, 20) - 0.9) < allowed(0.12, 40)


def test_groups_are_covered():
    assert abs(mean_of("all", RUN.group_study, 12, 50, 10, 0.5) - 0.9) < allowed(0.07, 12)


def test_ignored_noise_in_groups_is_found_out():
    assert mean_of("all", RUN.group_study, 12, 50, 10, 0.2, ignore=True) < 0.9 - allowed(0.07, 12)


@pytest.mark.slow
def test_flat_totals_are_found_out():
    """On the same data: 500 groups, whose intervals become too short by as much as the population looks too alike."""
    learnt, flat = (RUN.group_study(np.random.default_rng([9, 0]), 500, 10, 0.2, flat=each) for each in (False, True))
    assert learnt["all"] - flat["all"] > 0.03
    assert learnt["mean of rho"] - flat["mean of rho"] > 0.01
    assert flat["all"] < 0.9 - 3 * math.sqrt(0.09 / 500)
