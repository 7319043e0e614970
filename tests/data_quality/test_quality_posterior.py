"""Shares from noisy counts against a sum over every table there can be; and ranks of the truth, which are uniform.

Statistical: Kolmogorov-Smirnov p-values are held to 1e-8, and the same sample is rejected if the noise is taken for a
quarter of what it is.
"""

from __future__ import annotations

import itertools
import math
from functools import cache

import numpy as np
import pytest
from report.example import laplace, result, story
from rounded_law import rounded_log_mass
from scipy import stats
from share import cases

from vestry.data_quality.quality_posterior import quality_reader
from vestry.errors import InvalidParameter, VestryError
from vestry.posterior import Posterior
from vestry.releases import Certificate, NoisyStatistics, Release
from vestry.report.page import page

LEVELS, NUMBERS = {"levels": ["no", "yes"], "missing": "never"}, {"interval": [0, 60], "missing": "never"}
CLAIM = Certificate({"epsilon": 1.0}, {"kind": "pure", "count": 1}, "laplace", "scale", 1.0, "", "row", {})


def reader(*domains, prior=1.0):
    return quality_reader({"columns": {f"c{place}": domain for place, domain in enumerate(domains)}}, (prior,))


def statistics(values, scale, *, noise="discrete-laplace", count=None):
    return NoisyStatistics(tuple(map(str, range(len(values)))), tuple(map(int, values)), noise, scale, 1.0, count)


def compositions(total, parts):
    if parts == 1:
        yield (total,)
        return
    for first in range(total + 1):
        for rest in compositions(total - first, parts - 1):
            yield (first, *rest)


def column_tables(values, n, alpha, likelihood):
    """Yield every way to divide n records among a column's conditions, with its weight."""
    places = range(len(values))
    for size in range(1, len(values) + 1):
        norm = math.gamma(size * alpha) * math.factorial(n) / math.gamma(n + size * alpha) / math.gamma(alpha) ** size
        for chosen in itertools.combinations(places, size):
            for split in compositions(n, size):
                counts = [0] * len(values)
                weight = norm
                for place, count in zip(chosen, split, strict=True):
                    counts[place] = count
                    weight *= math.gamma(count + alpha) / math.factorial(count)
                for value, count in zip(values, counts, strict=True):
                    weight *= likelihood(value - count)
                yield counts, weight


def brute_force(columns, totals, alpha, likelihood):
    """Return each share's values and weights, summed over everything."""
    tables = {n: [list(column_tables(values, n, alpha, likelihood)) for values in columns] for n in totals}
    evidence = {n: [sum(weight for _, weight in rows) for rows in tables[n]] for n in totals}
    found = []
    for at, values in enumerate(columns):
        for place in range(1, len(values)):
            atoms = {}
            for n in totals:
                others = math.prod(each for other, each in enumerate(evidence[n]) if other != at)
                for counts, weight in tables[n][at]:
                    share = counts[place] / n
                    atoms[share] = atoms.get(share, 0.0) + weight * others
            found.append(atoms)
    return found


CASES = [
    ("discrete-laplace", 0.6, None, 1.0),
    ("discrete-laplace", 0.6, 6, 1.0),
    ("discrete-gaussian", 1.1, None, 1.0),
    ("rounded-gaussian", 0.9, None, 1.0),
    ("rounded-gaussian", 0.9, 6, 1.0),
    ("discrete-gaussian", 1.1, 6, 0.5),
]


@pytest.mark.oracle
@pytest.mark.parametrize(("noise", "scale", "count", "alpha"), cases(CASES, quick=CASES[1::2]))
def test_shares_are_those_of_a_sum_over_every_table(noise, scale, count, alpha):
    columns = [(4, 1, -1), (3, 0, 2, 0)]
    logs = {
        "discrete-laplace": lambda k: -abs(k) / scale,
        "discrete-gaussian": lambda k: -(k**2) / (2 * scale**2),
        "rounded-gaussian": lambda k: rounded_log_mass(scale, k),
    }
    by_name = logs[noise]

    @cache
    def likelihood(k):
        return math.exp(by_name(k))

    totals = [count] if count else range(1, 24)
    wanted = brute_force(columns, totals, alpha, likelihood)
    given = statistics([value for column in columns for value in column], scale, noise=noise, count=count)
    found = reader(LEVELS, NUMBERS, prior=alpha).noise_aware(given)
    assert found.dimension == len(wanted) == 5
    for index, atoms in enumerate(wanted):
        total = sum(atoms.values())
        mean = sum(share * weight for share, weight in atoms.items()) / total
        marginal = found.marginal(index)
        assert marginal.mean() == pytest.approx(mean, rel=1e-9)
        spread = sum((share - mean) ** 2 * weight for share, weight in atoms.items()) / total
        assert marginal.variance() == pytest.approx(spread, rel=1e-9)
        for x in (0.0, 0.1, 1 / 3, 0.5, 0.99, 1.0):
            below = sum(weight for share, weight in atoms.items() if share <= x) / total
            assert float(marginal.cdf(x)) == pytest.approx(below, abs=1e-10)


def cube_brute_force(columns, n, alpha, scale):
    """Return each share's values and weights: likelihoods exp(-the largest distance/scale), summed over every pair."""
    first, second = (
        [(counts[1:], weight, max(abs(z - s) for z, s in zip(values, counts[1:], strict=True)))
         for counts, weight in column_tables((0, *values), n, alpha, lambda k: 1.0)]
        for values in columns
    )  # fmt: skip
    found = [{} for values in columns for _ in values]
    for (one, a, near), (other, b, far) in itertools.product(first, second):
        weight = a * b * math.exp(-max(near, far) / scale)
        for atoms, count in zip(found, (*one, *other), strict=True):
            atoms[count / n] = atoms.get(count / n, 0.0) + weight
    return found


@pytest.mark.oracle
@pytest.mark.parametrize(
    ("scale", "alpha", "n", "within"), [(1.3, 1.0, 7, 1e-10), (4.0, 0.5, 6, 5e-3), (14.0, 1.0, 9, 2e-3)]
)
@pytest.mark.long
def test_shares_behind_a_cube_are_those_of_a_sum_over_every_table(scale, alpha, n, within):
    """Exact where every cube is summed; of many, some stand for those between them."""
    columns = [(2, -1), (-3, 9, 1)]
    given = statistics([z for column in columns for z in column], scale, noise="discrete-cube", count=n)
    found = reader(LEVELS, NUMBERS, prior=alpha).noise_aware(given)
    for index, atoms in enumerate(cube_brute_force(columns, n, alpha, scale)):
        total, marginal = sum(atoms.values()), found.marginal(index)
        for x in (0.0, 0.2, 0.5, 0.99, 1.0):
            below = sum(weight for share, weight in atoms.items() if share <= x) / total
            assert float(marginal.cdf(x)) == pytest.approx(below, abs=within)
    drawn = found.draw(np.random.default_rng(2), 4000)
    means = np.array([found.marginal(index).mean() for index in range(5)])
    spread = np.sqrt([found.marginal(index).variance() for index in range(5)])
    assert np.all(np.abs(drawn.mean(axis=0) - means) < 6 * spread / math.sqrt(4000))


def test_numbers_beyond_any_calibration_are_refused():
    for values, scale in (((2**49, 0), 2.0**40), ((0, -5), 1e12)):
        with pytest.raises(VestryError, match="no posterior can be computed from these numbers"):
            reader(LEVELS).noise_aware(statistics(values, scale, noise="discrete-cube", count=100))


def test_a_cube_needs_a_public_number_of_records():
    with pytest.raises(InvalidParameter, match="the number of records must be public beside noise on a cube"):
        reader(LEVELS).noise_aware(statistics((1, 2), 1.0, noise="discrete-cube"))


def test_a_quantile_is_an_atom_of_the_distribution():
    marginal = reader(LEVELS).noise_aware(statistics((90, 9, 2), 1.5, count=100)).marginal(0)
    low, high = marginal.quantile([0.05, 0.95])
    assert {round(100 * low, 9) % 1, round(100 * high, 9) % 1} == {0}
    assert float(marginal.cdf(low - 0.005)) < 0.05 <= float(marginal.cdf(low))
    assert float(marginal.cdf(high - 0.005)) < 0.95 <= float(marginal.cdf(high))
    none = reader(LEVELS).noise_aware(statistics((99, -2, 2), 1.5, count=100)).marginal(0)
    assert str(none.interval(0.9)[0]) == "0.0"


def noisy(truth, scale, rng):
    p = -math.expm1(-1 / scale)
    return truth + rng.geometric(p, len(truth)) - rng.geometric(p, len(truth))


def drawn_truth(rng, n):
    """Draw a set of conditions and a division of n among it, for a column of levels and one of numbers."""
    counts = []
    for size in (3, 4):
        chosen = rng.integers(1, 2**size)
        places = [place for place in range(size) if chosen >> place & 1]
        column = np.zeros(size, dtype=int)
        bars = np.sort(rng.choice(n + len(places) - 1, len(places) - 1, replace=False))
        column[places] = np.diff([-1, *bars, n + len(places) - 1]) - 1
        counts.append(column)
    return counts


def ranks(rng, *, taken, studies, n=400, scale=12.0):
    """Return how far a true share lies from the middle of its posterior, by its randomised rank; n is public."""
    found = []
    for _ in range(studies):
        truth = drawn_truth(rng, n)
        given = statistics(noisy(np.concatenate(truth), scale, rng), taken, count=n)
        shares = reader(LEVELS, NUMBERS).noise_aware(given)
        index = rng.integers(5)
        share = np.concatenate([column[1:] for column in truth])[index] / n
        below, at = (float(shares.marginal(index).cdf(share + step)) for step in (-0.25 / n, 0.0))
        found.append(abs(2 * (below + rng.random() * (at - below)) - 1))
    return found


@pytest.mark.statistical
@pytest.mark.long
def test_the_rank_of_the_truth_is_uniform():
    assert stats.kstest(ranks(np.random.default_rng(3), taken=12.0, studies=300), "uniform").pvalue > 1e-8


def cube_ranks(rng, *, taken, studies, n=400, scale=12.0):
    """Return the same behind a cube of five counts."""
    m = np.arange(2000)
    logs, found = 5 * np.log(2 * m + 1) - m / scale, []
    mass = np.exp(logs - logs.max())
    for _ in range(studies):
        truth = np.concatenate([column[1:] for column in drawn_truth(rng, n)])
        edge = rng.choice(m, p=mass / mass.sum())
        values = truth + rng.integers(-edge, edge, 5, endpoint=True)
        shares = reader(LEVELS, NUMBERS).noise_aware(statistics(values, taken, noise="discrete-cube", count=n))
        index = rng.integers(5)
        below, at = (float(shares.marginal(index).cdf(truth[index] / n + step)) for step in (-0.25 / n, 0.0))
        found.append(abs(2 * (below + rng.random() * (at - below)) - 1))
    return found


@pytest.mark.statistical
@pytest.mark.slow
@pytest.mark.parametrize(("taken", "uniform"), [(12.0, True), (3.0, False)])
def test_the_rank_of_the_truth_behind_a_cube_is_uniform(taken, uniform):
    found = cube_ranks(np.random.default_rng(3), taken=taken, studies=120)
    assert (stats.kstest(found, "uniform").pvalue > 1e-8) == uniform


@pytest.mark.statistical
@pytest.mark.long
def test_noise_taken_for_smaller_is_rejected():
    found = ranks(np.random.default_rng(3), taken=3.0, studies=300)
    assert stats.kstest(found, "uniform").pvalue < 1e-8


def test_draws_have_the_marginals():
    given = statistics((70, 25, 5, 40, 30, 28, 1), 4.0)
    shares = reader(LEVELS, NUMBERS).noise_aware(given)
    drawn = shares.draw(np.random.default_rng(1), 4000)
    assert np.all(drawn.sum(axis=1) <= 2 + 1e-9)
    for index in range(shares.dimension):
        marginal = shares.marginal(index)
        error = math.sqrt(marginal.variance() / len(drawn)) + 1e-12
        assert abs(drawn[:, index].mean() - marginal.mean()) < 6 * error


@pytest.mark.long
def test_counts_in_steps_are_as_good_as_all_of_them(monkeypatch):
    import vestry.data_quality.quality_posterior as room

    given = statistics((900, 110, -60, 950, 30, 5, 40), 60.0)
    coarse = [reader(LEVELS, NUMBERS).noise_aware(given).marginal(index) for index in range(5)]
    monkeypatch.setattr(room, "_POINTS", 1 << 16)
    monkeypatch.setattr(room, "_NODES", 400)
    exact = [reader(LEVELS, NUMBERS).noise_aware(given).marginal(index) for index in range(5)]
    for one, other in zip(coarse, exact, strict=True):
        assert one.mean() == pytest.approx(other.mean(), abs=1e-3)
        assert one.interval(0.9) == pytest.approx(other.interval(0.9), abs=5e-3)


def test_many_records_are_quick_and_sure():
    given = statistics((10**9 + 40, -30, 12), 50.0)
    shares = reader(LEVELS).noise_aware(given)
    assert shares.marginal(0).interval(0.9) == pytest.approx((0, 0), abs=1e-6)


def test_columns_that_do_not_have_the_same_records_are_refused():
    given = statistics((10**6, 0, 0, 5, 0, 0, 0), 2.0)
    with pytest.raises(VestryError, match="no posterior can be computed from these numbers"):
        reader(LEVELS, NUMBERS).noise_aware(given)


@pytest.mark.parametrize("count", [None, 50])
def test_extreme_numbers_have_a_posterior_or_a_sentence(count):
    for values in ((-(10**6), -(10**6), -(10**6)), (0, 0, 0), (10**14, 0, 0)):
        shares = reader(LEVELS).noise_aware(statistics(values, 3.0, count=count))
        assert 0 <= shares.marginal(0).mean() <= 1
    with pytest.raises(VestryError, match="at most 2\\^50"):
        reader(LEVELS).noise_aware(statistics((2**63, 0, 0), 3.0, count=count))


@pytest.mark.long
def test_a_posterior_of_a_release():
    contents = {"all": statistics((70, 25, 5), 4.0)}
    release = Release({"name": "quality", "columns": {"smoker": LEVELS}}, (1.0,), contents, CLAIM, None,
                      ("smoker: missing", "smoker: unmatched"))  # fmt: skip
    posterior = Posterior.from_release(release)
    assert posterior.parameters == ("share[smoker: missing]", "share[smoker: unmatched]")
    assert posterior.predict(10, np.random.default_rng(1), draws=5)["all"].shape == (5, 2)
    assert posterior.to_arviz(np.random.default_rng(1), draws=5)["posterior"]["share"].shape == (4, 5, 2)
    assert posterior.plot() is not None
    with pytest.raises(InvalidParameter, match="method must be noise-aware for quality, not 'plug-in'"):
        Posterior.from_release(release, method="plug-in")
    with pytest.raises(InvalidParameter, match="a quality prior must be one finite number above 0"):
        Posterior.from_release(release, prior=(1.0, 2.0))


@pytest.mark.parametrize(("values", "noise"), [((5, 2, 93), "discrete-laplace"), ((2, 93), "discrete-cube")])
def test_a_page_shows_a_quality_release(values, noise):
    family = {"name": "quality", "columns": {"smoker": LEVELS}}
    given = Release(family, (1.0,), {"all": statistics(values, 2.0, noise=noise, count=100)}, laplace(0.5))
    written = page(story(result("quality", "Do the values fit?", given)))
    assert "of 100 values of smoker match no declared level" in written
    assert f"{noise.removeprefix('discrete-').capitalize()} noise of scale 2.00" in written
