"""Several releases as one: against sums over every true number, and against quadrature of products.

What is expected is summed from the definitions: of the same people one true number under several noises, of other
people a likelihood for each release and one prior.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from rounded_law import rounded_log_mass
from scipy import stats
from scipy.special import betaln, gammaln
from share import cases

import vestry
from vestry.conjugate.normal_posterior import NormalModel
from vestry.errors import InvalidParameter, VestryError
from vestry.posterior.joined_noise import SummedLaplace, joined, summed
from vestry.releases import Certificate, Draws, NoisyStatistics, Release

pytestmark = pytest.mark.oracle

LAPLACE, GAUSSIAN, ROUNDED = "discrete-laplace", "discrete-gaussian", "rounded-gaussian"
CLAIM = Certificate({"epsilon": 0.5}, {"kind": "pure", "count": 1}, "laplace", "scale", 2.0, "", "row", {"rows": 1})


def release(family: dict, prior: tuple, *contents: NoisyStatistics, labels=(), by=None) -> Release:
    groups = {"all": contents[0]} if by is None else dict(zip("abcdef", contents, strict=False))
    return Release(family, prior, groups, CLAIM, by, labels)


def noisy(values, noise=LAPLACE, scale=2.0, count=None, names=None, grid=1.0, count_grid=1.0) -> NoisyStatistics:
    named = names or tuple(f"n{place}" for place in range(len(values)))
    return NoisyStatistics(named, tuple(values), noise, scale, grid, count, count_grid)


def mass(noise: str, scale: float, k: np.ndarray) -> np.ndarray:
    """P(noise = k), up to a constant: the definition."""
    if noise == ROUNDED:
        return np.exp(rounded_log_mass(scale, k))
    return np.exp(-np.abs(k) / scale) if noise == LAPLACE else np.exp(-(k**2) / (2 * scale**2))


def told(posterior) -> tuple[float, float, float]:
    """The mean, and two points of the distribution."""
    marginal = next(iter(posterior.distributions.values())).marginal(0)
    return marginal.mean(), *marginal.quantile([0.05, 0.9]).tolist()


def of_mixture(weights: np.ndarray, members) -> tuple[float, float, float]:
    """The same of a weighted mixture of frozen distributions of SciPy."""
    weights = weights / weights.sum()

    def cdf(x: float) -> float:
        return float(weights @ members.cdf(x))

    def quantile(p: float) -> float:
        low, high = float(members.ppf(1e-9).min()), float(members.ppf(1 - 1e-9).max())
        for _ in range(80):
            middle = (low + high) / 2
            low, high = (middle, high) if cdf(middle) < p else (low, middle)
        return (low + high) / 2

    return float(weights @ members.mean()), quantile(0.05), quantile(0.9)


NOISES = [((LAPLACE, 2.0), (LAPLACE, 5.0)), ((LAPLACE, 3.0), (GAUSSIAN, 2.0)), ((GAUSSIAN, 2.0), (GAUSSIAN, 4.0)),
          ((LAPLACE, 2.0), (LAPLACE, 2.0), (GAUSSIAN, 6.0)), ((ROUNDED, 1.2), (ROUNDED, 2.0))]  # fmt: skip
each_noise = pytest.mark.parametrize("noises", NOISES, ids=lambda each: " ".join(f"{n[9:12]}{s:g}" for n, s in each))
SHIFTS = (0, 5, -3)


# --- the same people --------------------------------------------------------------------------------------------------


@each_noise
@pytest.mark.parametrize("z", [7, -4, 31])
@pytest.mark.parametrize(("alpha", "beta"), [(1.0, 1.0), (0.5, 3.0)])
def test_a_proportion_of_public_records(noises, z, alpha, beta):
    n, s = 30, np.arange(31)
    parts = [noisy([z + SHIFTS[at]], *each, count=n) for at, each in enumerate(noises)]
    found = vestry.combine(
        *(release({"name": "beta-bernoulli"}, (alpha, beta), each) for each in parts), same_people=True
    )
    logs = betaln(s + alpha, n - s + beta) - gammaln(s + 1) - gammaln(n - s + 1)
    like = np.prod([mass(each.noise, each.scale, each.values[0] - s) for each in parts], axis=0)
    expected = of_mixture(np.exp(logs - logs.max()) * like, stats.beta(alpha + s, beta + n - s))
    assert told(found) == pytest.approx(expected, abs=1e-7)


@each_noise
@pytest.mark.long
def test_a_proportion_of_a_private_number_of_records(noises):
    s, f = (each.ravel() for each in np.meshgrid(np.arange(120), np.arange(140)))
    parts = [noisy([9 + SHIFTS[at], 21 - SHIFTS[at]], *each) for at, each in enumerate(noises)]
    found = vestry.combine(*(release({"name": "beta-bernoulli"}, (1.0, 2.0), each) for each in parts), same_people=True)
    logs = betaln(s + 1, f + 2) + gammaln(s + f + 1) - gammaln(s + 1) - gammaln(f + 1)
    like = np.prod(
        [mass(p.noise, p.scale, p.values[0] - s) * mass(p.noise, p.scale, p.values[1] - f) for p in parts], axis=0
    )
    assert told(found) == pytest.approx(of_mixture(np.exp(logs) * like, stats.beta(1.0 + s, 2.0 + f)), abs=1e-6)


@each_noise
@pytest.mark.parametrize("public", cases([True, False], quick=[True]))
def test_categories(noises, public):
    counts = np.array([each for each in np.ndindex(26, 26, 26) if not public or sum(each) == 24])
    parts = [
        noisy([10 + SHIFTS[at], 8, 6 - SHIFTS[at]], *each, count=24 if public else None)
        for at, each in enumerate(noises)
    ]
    family = {"name": "dirichlet-categorical"}
    made = [release(family, (1.0, 0.5, 2.0), each, labels=("a", "b", "c")) for each in parts]
    found = vestry.combine(*made, same_people=True)
    alphas = np.array([1.0, 0.5, 2.0])
    n = counts.sum(axis=1)
    logs = (gammaln(counts + alphas) - gammaln(counts + 1)).sum(axis=1) + gammaln(n + 1) - gammaln(n + 3.5)
    like = np.prod([mass(p.noise, p.scale, np.array(p.values) - counts).prod(axis=1) for p in parts], axis=0)
    members = stats.beta(counts[:, 0] + 1.0, n - counts[:, 0] + 2.5)
    expected = of_mixture(np.exp(logs) * like, members)
    assert told(found) == pytest.approx(expected, abs=1e-6 if public else 0.006)  # a private total is sampled


@each_noise
@pytest.mark.parametrize("private", [False, pytest.param(True, marks=pytest.mark.long)])
def test_a_rate_of_counts(noises, private):
    units = 2 if private else None
    s, n = (each.ravel() for each in np.meshgrid(np.arange(260), np.arange(90) if private else [20]))
    parts = [
        noisy([45 + SHIFTS[at], *((40,) if private else ())], *each, count=None if private else 20,
              names=("sum", "count") if private else None, count_grid=0.5 if private else 1.0)
        for at, each in enumerate(noises)
    ]  # fmt: skip
    made = [release({"name": "gamma-poisson", "high": 9.0}, (2.0, 1.0), each) for each in parts]
    found = vestry.combine(*made, same_people=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        odds = np.where(s > 0, s * np.log(n / (1.0 + n)), 0.0)
    logs = gammaln(s + 2.0) - gammaln(s + 1) - 2.0 * np.log1p(n) + odds
    like = np.ones(len(s))
    for p in parts:
        like *= mass(p.noise, p.scale, p.values[0] - s)
        like *= mass(p.noise, p.scale, p.values[1] - units * n) if private else 1.0
    expected = of_mixture(np.nan_to_num(np.exp(logs)) * like, stats.gamma(2.0 + s, scale=1 / (1.0 + n)))
    assert told(found) == pytest.approx(expected, rel=2e-4 if private else 1e-6)


@each_noise
def test_a_count(noises):
    numbers = np.arange(300)
    parts = [noisy([6 + SHIFTS[at]], *each) for at, each in enumerate(noises)]
    found = vestry.combine(*(release({"name": "count", "of": "records"}, (), p) for p in parts), same_people=True)
    weights = np.prod([mass(p.noise, p.scale, p.values[0] - numbers) for p in parts], axis=0)
    weights /= weights.sum()
    (count,) = found.distributions.values()
    assert count.mean() == pytest.approx(weights @ numbers, rel=1e-9)
    assert float(count.cdf(6)) == pytest.approx(weights[numbers <= 6].sum(), rel=1e-9)


@each_noise
@pytest.mark.parametrize("private", cases([False, True], quick=[False]))
def test_a_mean(noises, private):
    """By quadrature over the true sum, which is normal given the number of records."""
    model = NormalModel(4.0, 0.5, 9.0)  # values from 0 to 10, counted from 5, and a prior mean of 5.5
    grid, n0 = 0.01, 25
    parts = [
        noisy([2000 + 150 * SHIFTS[at], *((50,) if private else ())], noise, 100 * scale if not private else 30 * scale,
              count=None if private else n0, names=("sum", "count") if private else None, grid=grid,
              count_grid=0.5 if private else 1.0)
        for at, (noise, scale) in enumerate(noises)
    ]  # fmt: skip
    family = {"name": "normal-mean", "variance": 4.0, "low": 0.0, "high": 10.0, "dimension": 1}
    found = vestry.combine(*(release(family, (5.5, 9.0), each) for each in parts), same_people=True)
    counts = np.arange(1, 400) if private else np.array([n0])
    sums = np.arange(-8000, 12000, 4 if private else 1.0)
    weight, mean, variance = [], [], []
    for n in counts.tolist():
        like = np.ones(sums.size)
        for p in parts:
            like = like * mass(p.noise, p.scale, p.values[0] - sums)
            like = like * (mass(p.noise, p.scale, np.array(p.values[1] - 2 * n)) if private else 1.0)
        spread = n * (n * model.prior_variance + model.variance)
        y = sums * grid
        weight.append(like * stats.norm(n * model.prior_mean, math.sqrt(spread)).pdf(y))
        precision = 1 / model.prior_variance + n / model.variance
        mean.append(5 + (model.prior_mean / model.prior_variance + y / model.variance) / precision)
        variance.append(np.full(y.size, 1 / precision))
    weights, means, variances = map(np.concatenate, (weight, mean, variance))
    kept = weights > weights.max() * 1e-12
    expected = of_mixture(weights[kept], stats.norm(means[kept], np.sqrt(variances[kept])))
    assert told(found) == pytest.approx(expected, abs=2e-3 if private else 2e-4)


def test_gaussian_releases_are_worth_their_weighted_mean():
    """Of Gaussian noise two releases of variance v are one of v/2: mean, sums and moments alike."""
    family = {"name": "normal-mean", "variance": 4.0, "low": 0.0, "high": 10.0, "dimension": 1}
    one = noisy([2100], GAUSSIAN, 300.0, count=25, grid=0.01)
    two = [noisy([z], GAUSSIAN, 300.0 * math.sqrt(2), count=25, grid=0.01) for z in (1900, 2300)]
    whole = release(family, (5.0, 9.0), one).posterior()
    halves = vestry.combine(*(release(family, (5.0, 9.0), each) for each in two), same_people=True)
    assert told(halves) == pytest.approx(told(whole), rel=1e-9)


# --- other people -----------------------------------------------------------------------------------------------------


def by_quadrature(density, low: float, high: float) -> tuple[float, float, float]:
    x = np.linspace(low, high, 40_001)[1:-1]
    weights = density(x)
    weights = weights / weights.sum()
    ladder = np.cumsum(weights)
    return float(weights @ x), *np.interp([0.05, 0.9], ladder, x).tolist()


@each_noise
@pytest.mark.long
def test_a_proportion_of_other_people(noises):
    sizes = (30, 50, 20)
    parts = [noisy([9 + SHIFTS[at]], *each, count=sizes[at]) for at, each in enumerate(noises)]
    found = vestry.combine(
        *(release({"name": "beta-bernoulli"}, (0.5, 2.0), each) for each in parts), same_people=False
    )

    def density(theta):
        total = stats.beta(0.5, 2.0).pdf(theta)
        for p in parts:
            s = np.arange(p.count + 1)
            weights = mass(p.noise, p.scale, p.values[0] - s)
            total = total * sum(w * stats.binom(p.count, theta).pmf(k) for k, w in zip(s, weights, strict=True))
        return total

    assert told(found) == pytest.approx(by_quadrature(density, 0, 1), abs=2e-4)


@pytest.mark.long
def test_a_rate_and_a_mean_of_other_people():
    parts = [noisy([45], LAPLACE, 4.0, count=20), noisy([70], GAUSSIAN, 9.0, count=40)]
    made = [release({"name": "gamma-poisson", "high": 9.0}, (2.0, 1.0), each) for each in parts]

    def rate(theta):
        total = stats.gamma(2.0, scale=1.0).pdf(theta)
        for p in parts:
            s = np.arange(400)
            weights = mass(p.noise, p.scale, p.values[0] - s)
            total = total * sum(w * stats.poisson(p.count * theta).pmf(k) for k, w in zip(s, weights, strict=True))
        return total

    assert told(vestry.combine(*made, same_people=False)) == pytest.approx(by_quadrature(rate, 0.01, 8), abs=2e-3)
    family = {"name": "normal-mean", "variance": 4.0, "low": 0.0, "high": 10.0, "dimension": 1}
    means = [noisy([1500], GAUSSIAN, 400.0, count=25, grid=0.01), noisy([4000], GAUSSIAN, 900.0, count=60, grid=0.01)]

    def mean(theta):
        total = stats.norm(4.0, 2.0).pdf(theta)
        for p in means:
            spread = math.sqrt(p.count * 4.0 + (p.scale * p.grid) ** 2)
            total = total * stats.norm(p.count * (theta - 5), spread).pdf(p.values[0] * p.grid)
        return total

    found = vestry.combine(*(release(family, (4.0, 4.0), each) for each in means), same_people=False)
    assert told(found) == pytest.approx(by_quadrature(mean, 0, 10), abs=1e-3)


def test_three_releases_are_two_and_one():
    """A product does not depend on the order, and the prior is counted once."""
    family = {"name": "beta-bernoulli"}
    parts = [release(family, (2.0, 3.0), noisy([z], count=40)) for z in (12, 15, 9)]
    one = told(vestry.combine(*parts, same_people=False))
    assert told(vestry.combine(*reversed(parts), same_people=False)) == pytest.approx(one, rel=1e-6)
    nobody = release(family, (2.0, 3.0), noisy([0], scale=1e6, count=1))  # says nothing
    assert told(vestry.combine(*parts, nobody, same_people=False)) == pytest.approx(one, rel=1e-3)


@pytest.mark.parametrize("scales", [(2.0, 2.0), (3.0, 2.0), (2.0, 1.9999999)])
def test_the_noise_of_a_sum_is_the_convolution(scales):
    k, far = np.arange(-200, 201), np.arange(-600, 601)
    first, second = (mass(LAPLACE, scale, far) for scale in scales)
    whole = np.convolve(first, second)[1000:1401]
    found = SummedLaplace(max(scales), min(scales)).log_mass(k)
    assert found - found[200] == pytest.approx(np.log(whole / whole[200]), abs=1e-9)
    reach = SummedLaplace(max(scales), min(scales)).reach(30.0)
    assert SummedLaplace(max(scales), min(scales)).log_mass(np.array(reach)) <= found[200] - 30


@pytest.mark.parametrize("kind", [LAPLACE, GAUSSIAN, ROUNDED])
@pytest.mark.parametrize("public", cases([True, False], quick=[True]))
def test_categories_of_other_people_are_those_of_the_sums(kind, public):
    """By summing over the counts of both tables together, the noise of the sum written out."""
    parts = [
        noisy(values, kind, scale, count=size if public else None)
        for values, scale, size in (([9, 2, 5], 1.5, 15), ([6, 4, 8], 2.0, 20))
    ]
    family = {"name": "dirichlet-categorical"}
    made = [release(family, (1.0, 1.0, 1.0), each, labels=("a", "b", "c")) for each in parts]
    found = vestry.combine(*made, same_people=False)
    counts = np.array([each for each in np.ndindex(45, 40, 45) if not public or sum(each) == 35])
    k = np.arange(-300, 301)
    noise = np.convolve(mass(kind, 1.5, k), mass(kind, 2.0, k))[300:901]
    n, z = counts.sum(axis=1), np.array([15, 6, 13])
    like = noise[300 + z - counts].prod(axis=1)
    logs = gammaln(n + 1) - gammaln(n + 3.0)
    expected = of_mixture(np.exp(logs) * like, stats.beta(counts[:, 0] + 1.0, n - counts[:, 0] + 2.0))
    assert told(found) == pytest.approx(expected, abs=1e-6 if public else 0.006)


def test_counts_of_other_people_add_up():
    parts = [noisy([6], scale=3.0), noisy([2], GAUSSIAN, 2.0)]
    found = vestry.combine(*(release({"name": "count", "of": "records"}, (), p) for p in parts), same_people=False)
    numbers = np.arange(300)
    tables = [mass(p.noise, p.scale, p.values[0] - numbers) for p in parts]
    whole = np.convolve(*(each / each.sum() for each in tables))
    (count,) = found.distributions.values()
    assert count.mean() == pytest.approx(whole @ np.arange(whole.size), rel=1e-9)
    assert float(count.cdf(9)) == pytest.approx(whole[:10].sum(), rel=1e-7)
    large = [release({"name": "count", "of": "records"}, (), noisy([10**7], scale=1e5)) for _ in range(2)]
    wide = next(iter(vestry.combine(*large, same_people=False).distributions.values()))
    assert wide.mean() == pytest.approx(2e7, rel=1e-6)
    assert math.sqrt(wide.variance()) == pytest.approx(2e5, rel=1e-3)  # sqrt(2) of each, of which there are two


def test_tables_and_means_with_spread():
    """They are read as categories and by sums: two releases say more than one, and agree with it."""
    columns = [{"name": "ward", "levels": ["A", "B"]}, {"name": "sex", "levels": ["f", "m"]}]
    family = {"name": "table", "columns": columns, "zeros": [3]}
    labels = ("A, f", "A, m", "B, f")
    parts = [release(family, (1.0,), noisy([40, 30, 20, 5], scale=s), labels=labels) for s in (4.0, 4.0)]
    alone, same, other = (
        each.distributions["all"].marginal(0)
        for each in (parts[0].posterior(), *(vestry.combine(*parts, same_people=x) for x in (True, False)))
    )
    assert other.variance() < same.variance() < alone.variance()
    assert same.mean() == pytest.approx(alone.mean(), abs=0.01)
    family = {"name": "normal-inverse-gamma", "low": 0.0, "high": 10.0}
    parts = [release(family, (5.0, 1.0, 2.0, 2.0), noisy([3000, 9000], count=100, grid=0.001, scale=2000.0))] * 2
    alone, same, other = (
        each.distributions["all"].marginal(0)
        for each in (parts[0].posterior(), *(vestry.combine(*parts, same_people=x) for x in (True, False)))
    )
    assert math.sqrt(other.variance()) < math.sqrt(same.variance()) < math.sqrt(alone.variance())


def moments(values, noise=GAUSSIAN, scale=2.0, count=None) -> Release:
    numbers = [{"name": "x", "low": 0.0, "high": 10.0}, {"name": "y", "low": 0.0, "high": 10.0}]
    columns = {"numbers": numbers, "levels": []}
    family = {"name": "linear", "method": "moments", "columns": columns, "outcome_column": "y", "predictors": ["x"]}
    names = tuple(f"m{place}" for place in range(len(values)))
    grid = 1 / 2**20
    whole = tuple(round(each / grid) for each in values)
    content = NoisyStatistics(names, whole, noise, scale / grid, grid, count)
    return Release(family, (0.01,), {"all": content}, CLAIM)


def test_moments_are_averaged_or_added_up():
    """Two releases of variance v are one of v/2; and those of two halves are one of the whole, of variance 2 v."""
    sums = np.array([12.0, -30.0, 210.0, 95.0, 240.0])  # of x, y, x^2, x y and y^2, counted from the middle
    away = np.array([1.0, -2.0, 1.5, 0.5, -1.0])
    one = moments(sums, scale=2.0, count=600).posterior()
    same = vestry.combine(
        *(moments(sums + side * away, scale=2 * math.sqrt(2), count=600) for side in (1, -1)), same_people=True
    )
    assert told(same) == pytest.approx(told(one), rel=1e-5)
    other = vestry.combine(
        *(moments(sums / 2 + side * away, scale=math.sqrt(2), count=300) for side in (1, -1)), same_people=False
    )
    assert told(other) == pytest.approx(told(one), rel=1e-5)
    with pytest.raises(InvalidParameter, match=r"^the noise of the releases must be gaussian for moments"):
        vestry.combine(*[moments(sums, LAPLACE, count=600)] * 2, same_people=True)


# --- what is refused --------------------------------------------------------------------------------------------------

ONE = release({"name": "beta-bernoulli"}, (1.0, 1.0), noisy([9], count=30))


def test_whether_people_are_the_same_must_be_said():
    with pytest.raises(InvalidParameter, match=r"releases do not tell whether they are of the same people, not None"):
        vestry.combine(ONE, ONE)


GROUPED = release({"name": "beta-bernoulli"}, (1.0, 1.0), noisy([9], count=30), noisy([3], count=30), by="ward")
PRIVATE = release({"name": "beta-bernoulli"}, (1.0, 1.0), noisy([9, 21]))
OTHER = release({"name": "gamma-poisson", "high": 3.0}, (1.0, 1.0), noisy([9], count=30))
QUALITY = release({"name": "quality", "columns": {"a": {"levels": ["x", "y"]}}}, (1.0,), noisy([9, 1, 2]))
LEVELS = release({"name": "levels", "column": "c", "of": "records", "least": 1, "margin": 5}, (), noisy([9]))
PERSONS = release(
    {"name": "beta-bernoulli", "average": "person", "kind": "numbers", "grouped": False, "dimension": 1, "low": 0.0,
     "high": 1.0}, (1.0, 1.0), noisy([9, 3, 1])
)  # fmt: skip


@pytest.mark.parametrize(
    ("releases", "same", "sentence"),
    [
        ((ONE,), True, "combine must be two releases or more"),
        ((ONE, "release.json"), True, "a release must be a release, not 'str'"),
        ((ONE, OTHER), True, "the models of the releases must be the same"),
        ((ONE, GROUPED), True, "the groups of the releases must be the same"),
        ((ONE, PRIVATE), True, "the numbers of the releases must be the same"),
        ((ONE, replace(ONE, prior=(2.0, 2.0))), True, "the priors of the releases must be equal"),
        ((ONE, replace(ONE, contents={"all": noisy([9], count=31)})), True, "the number of records must be the same"),
        ((ONE, replace(ONE, contents={"all": Draws(((0.5,),))})), False, "a release must be one of noisy statistics"),
        ((QUALITY, QUALITY), True, "combine must be asked of proportions"),
        ((LEVELS, LEVELS), False, "combine must be asked of proportions"),
        ((PERSONS, PERSONS), True, "combine must be asked of rows"),
    ],
)
def test_what_is_not_one_quantity_is_refused(releases, same, sentence):
    with pytest.raises(InvalidParameter, match=f"^{sentence}"):
        vestry.combine(*releases, same_people=same)


def test_sums_are_refused_where_one_would_hide_the_other():
    family = {"name": "dirichlet-categorical"}
    parts = [release(family, (1.0,) * 3, noisy([90, 20, 50], scale=s), labels=("a", "b", "c")) for s in (1.0, 9.0)]
    with pytest.raises(InvalidParameter, match=r"about as precise as each other"):
        vestry.combine(*parts, same_people=False)
    assert told(vestry.combine(*parts, same_people=True))[0] == pytest.approx(0.56, abs=0.03)
    three = [release(family, (1.0,) * 3, noisy([90, 20, 50], scale=2.0), labels=("a", "b", "c"))] * 3
    with pytest.raises(InvalidParameter, match=r"two with Laplace noise, or any number with Gaussian noise"):
        vestry.combine(*three, same_people=False)
    several = {"name": "normal-mean", "variance": 4.0, "low": 0.0, "high": 10.0, "dimension": 2}
    two = [release(several, (5.0, 9.0), noisy([100, 200], count=25, grid=0.01))] * 2
    with pytest.raises(InvalidParameter, match=r"^combine must be one mean, where people are not the same"):
        vestry.combine(*two, same_people=False)


def test_another_prior_and_what_a_posterior_says():
    found = vestry.combine(ONE, replace(ONE, prior=(2.0, 2.0)), same_people=True, prior=(5.0, 5.0))
    assert told(found)[0] > told(vestry.combine(ONE, ONE, same_people=True))[0]
    assert found.interval_method == "noise summed out"
    assert found.certificate.theorem.startswith("Post-processing of 2 releases, of the same people")
    assert found.to_arviz(np.random.default_rng(1), draws=5)["posterior"]["probability"].shape == (4, 5)
    by_group = vestry.combine(GROUPED, GROUPED, same_people=False)
    assert list(by_group.distributions) == ["a", "b"]
    assert by_group.contrast("a", "b", rng=np.random.default_rng(1)).shape[0] == 1


def test_labels_of_equal_numbers_stay_apart():
    """Two levels whose noisy counts have the same mean, and differ: each keeps its own likelihood."""
    parts = [noisy([10, 12, 11, 10]), noisy([12, 10, 11, 12])]
    found = joined(parts)
    assert len(set(found.values)) == 3  # the first and the last have the same pair
    s = np.arange(40.0)
    for place, label in enumerate(found.values):
        logs = found.own_noise.log_weight(s, np.full(40, label), np.zeros(40))
        like = np.prod([mass(p.noise, p.scale, p.values[place] - s) for p in parts], axis=0)
        assert logs == pytest.approx(np.log(like / like[0]), abs=1e-9)
        far = found.own_noise.reach(30.0)
        assert found.own_noise.log_weight(np.array([label + far]), np.array([label]), np.array([label]))[0] <= -30
    assert summed([noisy([10], count=5), noisy([12], count=7)]).count == 12


def test_extremes_are_one_sentence():
    far = release({"name": "beta-bernoulli"}, (1.0, 1.0), noisy([10**9], count=30))
    with pytest.raises(VestryError, match=r"a noisy count must be|no posterior can be computed"):
        vestry.combine(ONE, far, same_people=True).summary()
