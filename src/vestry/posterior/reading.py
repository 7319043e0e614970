"""What a release's family says: its parameters, its posterior given statistics, and what it predicts."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

import vestry.conjugate.beta_posterior as beta
import vestry.conjugate.dirichlet_posterior as dirichlet
import vestry.conjugate.gamma_posterior as gamma
import vestry.conjugate.mean_variance as mean_variance
import vestry.conjugate.normal_posterior as normal
import vestry.conjugate.plug_in as plug_in
from vestry.errors import InvalidParameter
from vestry.hmm.hidden_states import hidden_states_reader
from vestry.naive_bayes.naive_bayes_posterior import naive_bayes_reader
from vestry.posterior.discrete_noise import Array, NoiseLaw, noise_law
from vestry.posterior.mixture import BetaMixture, DirichletMixture, PosteriorDistribution, two_sided
from vestry.regression.coefficients import coefficients_reader
from vestry.releases import NoisyStatistics


class Reading(Protocol):
    """A family with its prior."""

    @property
    def parameter(self) -> str:
        """What the family's parameter is called."""

    @property
    def dimension(self) -> int:
        """How many numbers it has."""

    def noise_aware(self, statistics: NoisyStatistics) -> PosteriorDistribution:
        """Return the posterior, the noise summed out."""

    def plug_in(self, statistics: NoisyStatistics) -> PosteriorDistribution:
        """Return the posterior that takes the statistics as exact."""

    def predict(self, theta: Array, size: int, rng: np.random.Generator) -> Array:
        """Draw what `size` new records would give, once for each row of parameters."""


def reading(family: Mapping[str, Any], prior: tuple[float, ...]) -> Reading:
    """Find the family that a release names."""
    name = family.get("name")
    if name not in _READERS:
        raise InvalidParameter("the release's family", name, "one of " + ", ".join(_READERS), "one of these")
    return _READERS[name](family, tuple(float(each) for each in prior))


@dataclass(frozen=True)
class BetaBernoulli:
    """A proportion, with the prior Beta(alpha, beta)."""

    alpha: float
    beta: float

    parameter = "probability"
    dimension = 1

    def noise_aware(self, statistics: NoisyStatistics) -> BetaMixture:
        """Sum over the successes; or over successes and failures, if the count is private."""
        _check_size(statistics, {1} if statistics.count is not None else {2})
        noise = noise_law(statistics.noise, statistics.scale)
        alpha, beta_, values = self.alpha, self.beta, statistics.values
        _check_range(statistics)
        if statistics.count is None:
            return beta.private_count(values[0], values[1], alpha=alpha, beta=beta_, noise=noise)
        return beta.public_count(values[0], count=statistics.count, alpha=alpha, beta=beta_, noise=noise)

    def plug_in(self, statistics: NoisyStatistics) -> BetaMixture:
        """Take the projected counts as exact."""
        _check_size(statistics, {1} if statistics.count is not None else {2})
        return plug_in.beta(_floats(statistics), count=statistics.count, alpha=self.alpha, beta=self.beta)

    def predict(self, theta: Array, size: int, rng: np.random.Generator) -> Array:
        """Draw the number of successes."""
        return rng.binomial(size, np.clip(theta, 0.0, 1.0)).astype(float)


@dataclass(frozen=True)
class DirichletCategorical:
    """The proportions of d categories, with the prior Dirichlet(alphas)."""

    alphas: tuple[float, ...]

    parameter = "probability"

    @property
    def dimension(self) -> int:
        """The number of categories."""
        return len(self.alphas)

    def noise_aware(self, statistics: NoisyStatistics) -> PosteriorDistribution:
        """Sum over the counts of all categories."""
        if self._as_beta(statistics):
            return two_sided(BetaBernoulli(*self.alphas).noise_aware(statistics))
        noise, alphas = noise_law(statistics.noise, statistics.scale), np.array(self.alphas)
        _check_range(statistics)
        if statistics.count is None:
            return dirichlet.private_count(_floats(statistics), alphas=alphas, noise=noise)
        return dirichlet.public_count(_floats(statistics), count=statistics.count, alphas=alphas, noise=noise)

    def plug_in(self, statistics: NoisyStatistics) -> DirichletMixture:
        """Take the projected counts as exact."""
        if self._as_beta(statistics):
            return two_sided(BetaBernoulli(*self.alphas).plug_in(statistics))
        return plug_in.dirichlet(_floats(statistics), count=statistics.count, alphas=np.array(self.alphas))

    def predict(self, theta: Array, size: int, rng: np.random.Generator) -> Array:
        """Draw the number of records in each category."""
        return rng.multinomial(size, theta / theta.sum(axis=1, keepdims=True)).astype(float)

    def _as_beta(self, statistics: NoisyStatistics) -> bool:
        """Tell whether two categories were released as successes, or successes and failures."""
        public = statistics.count is not None
        _check_size(statistics, {1, 2} if public and self.dimension == 2 else {self.dimension})
        return len(statistics.values) == 1 or (self.dimension == 2 and not public)


@dataclass(frozen=True)
class NormalMean:
    """A mean, or one for each coordinate, with the prior N(mean, variance) and records clipped to an interval."""

    prior_mean: float
    prior_variance: float
    variance: float
    low: float
    high: float
    dimension: int

    parameter = "mean"

    @property
    def _middle(self) -> float:
        return (self.low + self.high) / 2

    @property
    def _model(self) -> normal.NormalModel:
        return normal.NormalModel(self.variance, self.prior_mean - self._middle, self.prior_variance)

    def noise_aware(self, statistics: NoisyStatistics) -> PosteriorDistribution:
        """Integrate over the sums, and the count where it is private."""
        sums, count = self._sums(statistics)
        noise, grid, model = noise_law(statistics.noise, statistics.scale), statistics.grid, self._model
        if statistics.count is None:
            found = normal.private_count(
                sums, count, model=model, noise=noise, grid=grid, count_grid=statistics.count_grid
            )
        else:
            found = normal.public_count(sums, count=statistics.count, model=model, noise=noise, grid=grid)
        return found.shifted(self._middle)

    def plug_in(self, statistics: NoisyStatistics) -> PosteriorDistribution:
        """Take the projected sums and count as exact."""
        sums, noisy = self._sums(statistics)
        count = noisy * statistics.count_grid if statistics.count is None else float(statistics.count)
        reach = (self.high - self.low) / 2
        found = plug_in.normal(sums * statistics.grid, count=count, model=self._model, reach=reach)
        return found.shifted(self._middle)

    def predict(self, theta: Array, size: int, rng: np.random.Generator) -> Array:
        """Draw the mean of the new records."""
        return rng.normal(theta, math.sqrt(self.variance / size))

    def _sums(self, statistics: NoisyStatistics) -> tuple[Array, float]:
        """Return the noisy sums, and the noisy count where it is private."""
        _check_size(statistics, {self.dimension + (statistics.count is None)})
        values = _floats(statistics)
        return values[: self.dimension], float(values[-1])


@dataclass(frozen=True)
class PoissonRate:
    """The rate of counts, with the prior Gamma(shape, rate)."""

    shape: float
    rate: float

    parameter = "rate"
    dimension = 1

    def noise_aware(self, statistics: NoisyStatistics) -> PosteriorDistribution:
        """Sum over the sum, and over the count where it is private."""
        noisy, count, units = _sum_and_count(statistics)
        noise = noise_law(statistics.noise, statistics.scale)
        return gamma.poisson(noisy, count=count, count_units=units, shape=self.shape, rate=self.rate, noise=noise)

    def plug_in(self, statistics: NoisyStatistics) -> PosteriorDistribution:
        """Take the projected sum and count as exact."""
        noisy, count, units = _sum_and_count(statistics)
        return plug_in.gamma(self.shape + max(noisy, 0.0), self.rate + max(count / (units or 1), 0.0))

    def predict(self, theta: Array, size: int, rng: np.random.Generator) -> Array:
        """Draw the sum of the new records."""
        return rng.poisson(size * theta).astype(float)


@dataclass(frozen=True)
class ExponentialRate:
    """The rate of times clipped to an interval, with the prior Gamma(shape, rate)."""

    shape: float
    rate: float
    low: float
    high: float

    parameter = "rate"
    dimension = 1

    @property
    def _middle(self) -> float:
        return (self.low + self.high) / 2

    def noise_aware(self, statistics: NoisyStatistics) -> PosteriorDistribution:
        """Sum over the sum, and over the count where it is private."""
        noisy, count, units = _sum_and_count(statistics)
        noise, numbers = noise_law(statistics.noise, statistics.scale), {"shape": self.shape, "rate": self.rate}
        steps = {"grid": statistics.grid, "middle": self._middle}
        return gamma.exponential(noisy, count=count, count_units=units, noise=noise, **steps, **numbers)

    def plug_in(self, statistics: NoisyStatistics) -> PosteriorDistribution:
        """Take the projected sum and count as exact."""
        noisy, count, units = _sum_and_count(statistics)
        n = max(count / (units or 1), 0.0)
        total = float(np.clip(noisy * statistics.grid + n * self._middle, n * self.low, n * self.high))
        return plug_in.gamma(self.shape + n, self.rate + total)

    def predict(self, theta: Array, size: int, rng: np.random.Generator) -> Array:
        """Draw the mean of the new records."""
        return rng.standard_gamma(size, theta.shape) / (size * theta)


@dataclass(frozen=True)
class UnknownVariance:
    """Mean and variance of records clipped to an interval, with the prior (mean, weight, shape, scale)."""

    prior: mean_variance.Prior
    low: float
    high: float

    parameter = "normal"
    dimension = 2

    def noise_aware(self, statistics: NoisyStatistics) -> PosteriorDistribution:
        """Sum over both sums, and over the count where it is private."""
        return self._posterior(statistics, noise_law(statistics.noise, statistics.scale))

    def plug_in(self, statistics: NoisyStatistics) -> PosteriorDistribution:
        """Take the projected sums and count as exact."""
        first, second, count = self._numbers(statistics)
        n = max(2.0, count if statistics.count is not None else count * statistics.count_grid)
        reach, middle, unit = self._scales(statistics)
        s = float(np.clip(first * unit, -n, n)) * reach + n * middle
        y = float(np.clip(second * unit, (first * unit) ** 2 / n if abs(first * unit) <= n else 0.0, n))
        t = y * reach**2 + 2 * middle * (s - n * middle) + n * middle**2
        found = self.prior.updated(np.array([s]), np.array([max(t, s * s / n)]), np.array([n]))
        return mean_variance.MeanVarianceMixture(np.ones(1), *(np.broadcast_to(x, (1,)) for x in found))

    def predict(self, theta: Array, size: int, rng: np.random.Generator) -> Array:
        """Draw the mean of the new records, and their variance around it."""
        means = rng.normal(theta[:, 0], np.sqrt(theta[:, 1] / size))
        spread = theta[:, 1] * rng.chisquare(max(size - 1, 1), len(theta)) / max(size - 1, 1)
        return np.stack([means, spread], axis=1)

    def _posterior(self, statistics: NoisyStatistics, noise: NoiseLaw) -> PosteriorDistribution:
        first, second, count = self._numbers(statistics)
        reach, middle, unit = self._scales(statistics)
        units = None if statistics.count is not None else round(1 / statistics.count_grid)
        if units is None and count < 2:
            raise InvalidParameter("the number of records", int(count), "at least 2", "a table with more records")
        scales = {"unit": unit, "middle": middle, "reach": reach}
        return mean_variance.posterior(
            (first, second), count=count, count_units=units, prior=self.prior, noise=noise, **scales
        )

    def _numbers(self, statistics: NoisyStatistics) -> tuple[float, float, float]:
        _check_size(statistics, {2 if statistics.count is not None else 3})
        values = _floats(statistics)
        count = float(values[2]) if statistics.count is None else float(statistics.count)
        return float(values[0]), float(values[1]), count

    def _scales(self, statistics: NoisyStatistics) -> tuple[float, float, float]:
        """Return the half-width and the middle of the interval, and the unit of both sums of (x - middle)/reach."""
        reach = (self.high - self.low) / 2
        return reach, (self.low + self.high) / 2, statistics.grid / reach


def _sum_and_count(statistics: NoisyStatistics) -> tuple[float, float, int | None]:
    """Return the noisy sum, the count, and the units of the count where it is noisy too."""
    private = statistics.count is None
    _check_size(statistics, {2 if private else 1})
    values = _floats(statistics)
    if statistics.count is None:
        return float(values[0]), float(values[1]), round(1 / statistics.count_grid)
    return float(values[0]), float(statistics.count), None


def _floats(statistics: NoisyStatistics) -> Array:
    return np.array([float(value) for value in statistics.values])


def _check_size(statistics: NoisyStatistics, sizes: set[int]) -> None:
    if len(statistics.values) not in sizes:
        allowed = " or ".join(str(size) for size in sorted(sizes))
        raise InvalidParameter(
            "the number of noisy statistics", len(statistics.values), allowed, "the statistics of the family's layout"
        )


def _check_range(statistics: NoisyStatistics) -> None:
    """Refuse noisy counts that no table has, or that this noise does not give but with a probability below e^-10000."""
    if statistics.scale > _LARGEST:
        raise InvalidParameter("the scale of the noise", statistics.scale, "below 2^50", "the scale of the release")
    beyond = _SCALES * statistics.scale
    low, high = -beyond, _LARGEST if statistics.count is None else statistics.count + beyond
    for value in statistics.values:
        if not low <= value <= high:
            raise InvalidParameter(
                "a noisy count",
                value,
                f"from {low:.6g} to {high:.6g}",
                "the counts and the noise as they were released",
            )


_LARGEST = 2**50
_SCALES = 1e4


def _beta_reader(family: Mapping[str, Any], prior: tuple[float, ...]) -> BetaBernoulli:
    if len(prior) != 2 or not all(0 < each < math.inf for each in prior):
        raise InvalidParameter("a Beta prior", prior, "two finite numbers above 0", "for example prior=(1, 1)")
    return BetaBernoulli(*prior)


def _dirichlet_reader(family: Mapping[str, Any], prior: tuple[float, ...]) -> DirichletCategorical:
    if len(prior) < 2 or not all(0 < each < math.inf for each in prior):
        raise InvalidParameter(
            "a Dirichlet prior", prior, "a finite number above 0 for each category", "for example prior=(1, 1, 1)"
        )
    return DirichletCategorical(prior)


def _gamma_numbers(prior: tuple[float, ...]) -> tuple[float, float]:
    if len(prior) != 2 or not all(0 < each < math.inf for each in prior):
        raise InvalidParameter("a gamma prior", prior, "a shape and a rate above 0", "for example prior=(2, 1)")
    return prior[0], prior[1]


def _poisson_reader(family: Mapping[str, Any], prior: tuple[float, ...]) -> PoissonRate:
    return PoissonRate(*_gamma_numbers(prior))


def _exponential_reader(family: Mapping[str, Any], prior: tuple[float, ...]) -> ExponentialRate:
    return ExponentialRate(*_gamma_numbers(prior), float(family["low"]), float(family["high"]))


def _variance_reader(family: Mapping[str, Any], prior: tuple[float, ...]) -> UnknownVariance:
    if len(prior) != 4 or not math.isfinite(prior[0]) or not all(0 < each < math.inf for each in prior[1:]):
        allowed = "a mean, and a weight, a shape and a scale above 0"
        raise InvalidParameter("a normal-inverse-gamma prior", prior, allowed, "for example prior=(0, 1, 2, 1)")
    return UnknownVariance(mean_variance.Prior(*prior), float(family["low"]), float(family["high"]))


def _normal_reader(family: Mapping[str, Any], prior: tuple[float, ...]) -> NormalMean:
    if len(prior) != 2 or not math.isfinite(prior[0]) or not 0 < prior[1] < math.inf:
        raise InvalidParameter(
            "a normal prior", prior, "a finite mean and a finite variance above 0", "for example prior=(0, 100)"
        )
    numbers = {key: float(family[key]) for key in ("variance", "low", "high")}
    return NormalMean(*prior, **numbers, dimension=int(family.get("dimension", 1)))


_READERS: dict[str, Callable[[Mapping[str, Any], tuple[float, ...]], Reading]] = {
    "beta-bernoulli": _beta_reader,
    "dirichlet-categorical": _dirichlet_reader,
    "normal-mean": _normal_reader,
    "gamma-poisson": _poisson_reader,
    "gamma-exponential": _exponential_reader,
    "normal-inverse-gamma": _variance_reader,
    "logistic": coefficients_reader,
    "linear": coefficients_reader,
    "naive-bayes": naive_bayes_reader,
    "hmm": hidden_states_reader,
}
