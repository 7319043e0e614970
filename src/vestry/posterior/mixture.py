"""Posteriors as finite weighted mixtures of conjugate members.

    p(theta | z) = sum over j of w_j p(theta | s_j)

Every number asked of a posterior from noisy statistics is an average over such a mixture. In one dimension the
distribution function is the weighted sum of the members', and quantiles come from turning it round.

Quantiles of a mixture: its distribution function turned round by Newton's method inside a shrinking bracket.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import ClassVar, Protocol, Self

import numpy as np
import numpy.typing as npt
from scipy.special import (
    betainc,
    betaln,
    expit,
    gammainc,
    gammaln,
    log_expit,
    logit,
    logsumexp,
    ndtr,
    ndtri,
    xlog1py,
    xlogy,
)

from vestry.errors import ExtremeNumbers, InvalidParameter
from vestry.numerics import Array
from vestry.validation import require_number

# Points x components that are held at once.
_CHUNK = 1 << 21
# Components that together weigh less than this are omitted.
_NEGLIGIBLE = 1e-14
# Mixtures of more than so many components are looked at through a few of them first.
_MANY, _FEW = 256, 64
# The logit of the smallest and of the largest double between 0 and 1.
_LOGIT_LOW, _LOGIT_HIGH = -740.0, 40.0


class Marginal(Protocol):
    """The distribution of one number."""

    def mean(self) -> float:
        """Return the mean."""

    def variance(self) -> float:
        """Return the variance."""

    def cdf(self, x: npt.ArrayLike) -> Array:
        """Return the probability of at most x."""

    def quantile(self, p: npt.ArrayLike) -> Array:
        """Return the point that is exceeded with probability 1 - p."""

    def interval(self, prob: float) -> tuple[float, float]:
        """Return the equal-tailed credible interval."""
        tail = tail_of(prob)
        low, high = self.quantile([tail, 1 - tail])
        return float(low), float(high)

    def draw(self, rng: np.random.Generator, size: int) -> Array:
        """Return independent draws."""

    def log_density(self, theta: npt.ArrayLike) -> Array:
        """Return the logarithm of the density."""


class PosteriorDistribution(Protocol):
    """The joint distribution of a group's parameters."""

    @property
    def dimension(self) -> int:
        """How many parameters there are."""

    def marginal(self, index: int) -> Marginal:
        """Return the distribution of one of them."""

    def draw(self, rng: np.random.Generator, size: int) -> Array:
        """Return independent joint draws, one per row."""


class Mixture(Marginal, ABC):
    """A weighted mixture of distributions of one number; a kind of member gives what is left of `Marginal`."""

    weights: Array
    dimension: ClassVar[int] = 1

    @abstractmethod
    def moments(self) -> tuple[Array, Array]:
        """Return the means and the variances of the members."""

    def marginal(self, index: int) -> Self:
        """Return itself: there is one parameter."""
        return [self][index]

    def mean(self) -> float:
        """Return the weighted mean."""
        return float(self.weights @ self.moments()[0])

    def variance(self) -> float:
        """Return the mean of the variances plus the variance of the means."""
        means, variances = self.moments()
        with np.errstate(invalid="ignore"):
            return float(self.weights @ variances + self.weights @ (means - self.weights @ means) ** 2)

    @abstractmethod
    def ends(self) -> tuple[float, float]:
        """Return between which coordinates quantiles are sought."""

    @abstractmethod
    def rough(self, target: Array) -> Array:
        """Return the coordinates of quantiles, about."""

    @abstractmethod
    def coordinate(self, x: Array) -> Array:
        """Return the coordinate of a point: the scale on which quantiles are sought."""

    @abstractmethod
    def point(self, t: Array) -> Array:
        """Return the point of a coordinate."""

    @abstractmethod
    def log_slope(self, t: Array) -> Array:
        """Return the logarithm of the derivative of a point by its coordinate."""

    def quantile(self, p: npt.ArrayLike) -> Array:
        """Return the root of the distribution function; of many components a few of them tell about where it is."""
        target = probabilities(p)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore", under="ignore"):
            start = self.rough(target)
            if self.weights.size > _MANY:
                near = self.coordinate(self._thinned().quantile(target))
                start = np.where(np.isfinite(near), near, start)
            low, high = (np.full_like(target, end) for end in self.ends())
            return np.asarray(
                self.point(invert(target, self._distribution, self._slope, start=start, low=low, high=high))
            )

    def _distribution(self, t: Array) -> Array:
        return self.cdf(self.point(t))

    def _slope(self, t: Array) -> Array:
        return np.asarray(np.exp(self.log_density(self.point(t)) + self.log_slope(t)))

    def _thinned(self) -> Self:
        """Let a few members stand for all, evenly along their means."""
        order = np.argsort(self.moments()[0])
        ladder = np.cumsum(self.weights[order])
        places = np.searchsorted(ladder / ladder[-1], (np.arange(_FEW) + 0.5) / _FEW)
        chosen = order[np.minimum(places, order.size - 1)]
        members = {each.name: getattr(self, each.name)[chosen] for each in fields(self)}  # type: ignore[arg-type]
        return replace(self, **{**members, "weights": np.full(_FEW, 1 / _FEW)})  # type: ignore[type-var]


@dataclass(frozen=True, eq=False)
class Clipped(Marginal):
    """A number that is known to lie between two ends: its mean, quantiles and draws are clipped to them.

    So is an interval, and it covers as often as before: a truth between the ends lies in it whenever it lay in the one
    that was not clipped. The variance is that of the distribution before.
    """

    base: Marginal
    low: float
    high: float

    def mean(self) -> float:
        """Return the mean, clipped."""
        return float(np.clip(self.base.mean(), self.low, self.high))

    def variance(self) -> float:
        """Return the variance before clipping."""
        return self.base.variance()

    def cdf(self, x: npt.ArrayLike) -> Array:
        """Return the probability of at most x: 0 below the ends, and 1 from the upper one on."""
        at = np.asarray(x, float)
        return np.asarray(np.where(at < self.low, 0.0, np.where(at >= self.high, 1.0, self.base.cdf(at))))

    def quantile(self, p: npt.ArrayLike) -> Array:
        """Return quantiles, clipped."""
        return np.clip(self.base.quantile(p), self.low, self.high)

    def draw(self, rng: np.random.Generator, size: int) -> Array:
        """Return draws, clipped."""
        return np.clip(self.base.draw(rng, size), self.low, self.high)

    def log_density(self, theta: npt.ArrayLike) -> Array:
        """Return the log density before clipping."""
        return self.base.log_density(theta)


@dataclass(frozen=True, eq=False)
class ClippedMeans:
    """A joint distribution whose first numbers are means between two ends; see `Clipped`."""

    base: PosteriorDistribution
    low: float
    high: float
    means: int

    @property
    def dimension(self) -> int:
        """How many numbers there are."""
        return self.base.dimension

    def marginal(self, index: int) -> Marginal:
        """Return the distribution of one number."""
        marginal = self.base.marginal(index)
        return Clipped(marginal, self.low, self.high) if index < self.means else marginal

    def draw(self, rng: np.random.Generator, size: int) -> Array:
        """Return joint draws, the means clipped."""
        draws = np.array(self.base.draw(rng, size))
        draws[:, : self.means] = np.clip(draws[:, : self.means], self.low, self.high)
        return draws


@dataclass(frozen=True, eq=False)
class BetaMixture(Mixture):
    """Weighted Beta(alpha_j, beta_j).

    Attributes
    ----------
    weights, alphas, betas
        One entry per component; the weights sum to 1.
    """

    weights: Array
    alphas: Array
    betas: Array

    def moments(self) -> tuple[Array, Array]:
        """Return m = a/(a + b), and m (1 - m)/(a + b + 1)."""
        total = self.alphas + self.betas
        means = self.alphas / total
        return means, means * (self.betas / total) / (total + 1)

    def cdf(self, x: npt.ArrayLike) -> Array:
        """Return sum w I_x(a, b)."""
        return average(np.clip(x, 0.0, 1.0), self.weights, lambda at: betainc(self.alphas, self.betas, at))

    def log_density(self, theta: npt.ArrayLike) -> Array:
        """Return log sum w theta^(a-1) (1-theta)^(b-1)/B(a, b)."""
        a, b = self.alphas - 1, self.betas - 1
        norm = np.log(self.weights) - betaln(self.alphas, self.betas)
        logs = log_sum(np.asarray(theta, float), norm.size, lambda at: xlogy(a, at) + xlog1py(b, -at) + norm)
        return np.where((np.asarray(theta) < 0) | (np.asarray(theta) > 1), -np.inf, logs)

    def ends(self) -> tuple[float, float]:
        """Return the logits of the smallest and of the largest double."""
        return _LOGIT_LOW, _LOGIT_HIGH

    def rough(self, target: Array) -> Array:
        """Return logits as if these were normal."""
        mean, deviation = self.mean(), np.sqrt(self.variance())
        centre = np.clip(logit(mean), _LOGIT_LOW, _LOGIT_HIGH)
        return np.asarray(centre + np.clip(ndtri(target) * deviation / (mean * (1 - mean)), -20, 20))

    def coordinate(self, x: Array) -> Array:
        """Return the logit."""
        return np.asarray(logit(x))

    def point(self, t: Array) -> Array:
        """Return the probability of a logit."""
        return np.asarray(expit(t))

    def log_slope(self, t: Array) -> Array:
        """Return log of p (1 - p)."""
        return np.asarray(log_expit(t) + log_expit(-t))

    def draw(self, rng: np.random.Generator, size: int) -> Array:
        """Return a member chosen by weight, and a draw from it; as a column."""
        chosen = _choose(rng, self.weights, size)
        return rng.beta(self.alphas[chosen], self.betas[chosen])[:, None]


@dataclass(frozen=True, eq=False)
class NormalMixture(Mixture):
    """Weighted N(mean_j, variance_j).

    Attributes
    ----------
    weights, means, variances
        One entry per component; the weights sum to 1.
    """

    weights: Array
    means: Array
    variances: Array

    def moments(self) -> tuple[Array, Array]:
        """Return means and variances."""
        return self.means, self.variances

    def cdf(self, x: npt.ArrayLike) -> Array:
        """Return sum w Phi((x - mean)/sd)."""
        deviation = np.sqrt(self.variances)
        return average(np.asarray(x, float), self.weights, lambda at: ndtr((at - self.means) / deviation))

    def log_density(self, theta: npt.ArrayLike) -> Array:
        """Return the logarithm of the weighted normal densities."""
        norm, twice = np.log(self.weights) - 0.5 * np.log(2 * np.pi * self.variances), 2 * self.variances
        return log_sum(np.asarray(theta, float), norm.size, lambda at: norm - (at - self.means) ** 2 / twice)

    @cached_property
    def _unit(self) -> tuple[float, float]:
        return self.mean(), float(np.sqrt(self.variance()))

    def ends(self) -> tuple[float, float]:
        """Return 40 standard deviations beyond the outermost members."""
        reach = 40 * np.sqrt(self.variances)
        low, high = self.coordinate(np.array([(self.means - reach).min(), (self.means + reach).max()]))
        return float(low), float(high)

    def rough(self, target: Array) -> Array:
        """Return quantiles as if it were one normal distribution."""
        return np.asarray(ndtri(target))

    def coordinate(self, x: Array) -> Array:
        """Return the distance from the mean in standard deviations."""
        return np.asarray((x - self._unit[0]) / self._unit[1])

    def point(self, t: Array) -> Array:
        """Return the point so many standard deviations from the mean."""
        return np.asarray(self._unit[0] + self._unit[1] * t)

    def log_slope(self, t: Array) -> Array:
        """Return the logarithm of the standard deviation."""
        return np.full_like(t, np.log(self._unit[1]))

    def draw(self, rng: np.random.Generator, size: int) -> Array:
        """Return a member chosen by weight, and a draw from it; as a column."""
        chosen = _choose(rng, self.weights, size)
        return rng.normal(self.means[chosen], np.sqrt(self.variances[chosen]))[:, None]


@dataclass(frozen=True, eq=False)
class GammaMixture(Mixture):
    """Weighted Gamma(shape_j, rate_j).

    Attributes
    ----------
    weights, shapes, rates
        One entry per component; the weights sum to 1.
    """

    weights: Array
    shapes: Array
    rates: Array

    def moments(self) -> tuple[Array, Array]:
        """Return a/b, and a/b^2."""
        means = self.shapes / self.rates
        return means, means / self.rates

    def cdf(self, x: npt.ArrayLike) -> Array:
        """Return sum w g(a, b x), g the regularised lower incomplete gamma function."""
        return average(np.maximum(x, 0.0), self.weights, lambda at: gammainc(self.shapes, self.rates * at))

    def log_density(self, theta: npt.ArrayLike) -> Array:
        """Return log sum w b^a theta^(a-1) e^(-b theta)/G(a)."""
        norm = np.log(self.weights) + self.shapes * np.log(self.rates) - gammaln(self.shapes)
        points = np.maximum(np.asarray(theta, float), 0.0)
        logs = log_sum(points, norm.size, lambda at: xlogy(self.shapes - 1, at) - self.rates * at + norm)
        return np.where(np.asarray(theta) < 0, -np.inf, logs)

    def ends(self) -> tuple[float, float]:
        """Return what doubles hold around the mean."""
        centre = float(np.log(self.mean()))
        return centre - 740.0, centre + 40.0

    def rough(self, target: Array) -> Array:
        """Return logarithms as if these were normal."""
        mean, deviation = self.mean(), np.sqrt(self.variance())
        return np.asarray(np.log(mean) + np.clip(ndtri(target) * deviation / mean, -20, 20))

    def coordinate(self, x: Array) -> Array:
        """Return the logarithm."""
        return np.asarray(np.log(x))

    def point(self, t: Array) -> Array:
        """Return the exponential."""
        return np.asarray(np.exp(t))

    def log_slope(self, t: Array) -> Array:
        """Return the coordinate itself."""
        return t

    def draw(self, rng: np.random.Generator, size: int) -> Array:
        """Return a member chosen by weight, and a draw from it; as a column."""
        chosen = _choose(rng, self.weights, size)
        return (rng.standard_gamma(self.shapes[chosen]) / self.rates[chosen])[:, None]


@dataclass(frozen=True, eq=False)
class DirichletMixture:
    """Weighted Dirichlet(alpha_j1 ... alpha_jd).

    Attributes
    ----------
    weights
        One entry per component; they sum to 1.
    alphas
        One row per component, one column per category.
    """

    weights: Array
    alphas: Array

    @property
    def dimension(self) -> int:
        """The number of categories."""
        return int(self.alphas.shape[1])

    def marginal(self, index: int) -> BetaMixture:
        """Return the distribution of one probability: Beta(alpha_i, sum of the others), each such pair once.

        Thousands of joint counts have a few hundred pairs of a count and its total; their weights are added.
        """
        own = self.alphas[:, index]
        pairs, place = np.unique(np.column_stack([own, self._totals - own]), axis=0, return_inverse=True)
        weights: Array = np.bincount(np.ravel(place), weights=self.weights).astype(float)
        return BetaMixture(weights, pairs[:, 0], pairs[:, 1])

    @cached_property
    def _totals(self) -> Array:
        return np.asarray(self.alphas.sum(axis=1))

    def mean(self) -> Array:
        """Return the mean of each probability."""
        return np.asarray(self.weights @ (self.alphas / self.alphas.sum(axis=1, keepdims=True)))

    def draw(self, rng: np.random.Generator, size: int) -> Array:
        """Return a member chosen by weight, and a draw from it; one per row."""
        return draw_dirichlet(rng, self.alphas[_choose(rng, self.weights, size)])


def two_sided(mixture: BetaMixture) -> DirichletMixture:
    """Return the distribution of a probability and of what is left of 1."""
    return DirichletMixture(mixture.weights, np.stack([mixture.alphas, mixture.betas], axis=1))


def draw_dirichlet(rng: np.random.Generator, alphas: Array) -> Array:
    """Draw once from each row's Dirichlet distribution, in logarithms so that no small alpha underflows.

    log Gamma(alpha) has the distribution of log Gamma(alpha + 1) + log(U)/alpha.
    """
    logs = np.log(rng.standard_gamma(alphas + 1)) - rng.standard_exponential(alphas.shape) / alphas
    return np.asarray(np.exp(logs - logsumexp(logs, axis=1, keepdims=True)))


def likely_places(log_weights: Array, drop: float) -> npt.NDArray[np.intp]:
    """Return the places whose log weights are less than `drop` below the greatest.

    Raises
    ------
    ExtremeNumbers
        If there are none, since a weight is not a number.
    """
    if log_weights.size == 0:
        raise ExtremeNumbers
    places = np.flatnonzero(log_weights > log_weights.max() - drop)
    if places.size == 0:
        raise ExtremeNumbers
    return places


def normalise(log_weights: Array) -> tuple[Array, npt.NDArray[np.intp]]:
    """Normalise weights given by their logarithms, and leave out those that together are negligible.

    Returns
    -------
    The weights that are kept, and their places.
    """
    if log_weights.size == 0:
        raise ExtremeNumbers
    weights = np.exp(log_weights - log_weights.max())
    order = np.argsort(weights)
    below = np.cumsum(weights[order]) <= _NEGLIGIBLE * weights.sum()
    places = np.sort(order[~below])
    return weights[places] / weights[places].sum(), places


def _choose(rng: np.random.Generator, weights: Array, size: int) -> npt.NDArray[np.intp]:
    total = np.cumsum(weights)
    places = np.searchsorted(total, rng.random(size) * total[-1], side="right")
    return np.asarray(np.minimum(places, weights.size - 1))


def probabilities(p: npt.ArrayLike) -> Array:
    """Return probabilities strictly between 0 and 1, or refuse them."""
    target = np.asarray(p, float)
    if not np.all((target > 0) & (target < 1)):
        raise InvalidParameter("a quantile's probability", p, "between 0 and 1", "for example 0.05")
    return target


def tail_of(prob: float) -> float:
    """Return the probability on each side of an equal-tailed interval, or refuse what is not a probability."""
    return (1 - require_number("prob", prob, "for example prob=0.9", above=0, below=1)) / 2


def _chunks(points: Array, components: int) -> Iterator[slice]:
    step = max(1, _CHUNK // components)
    for start in range(0, points.size, step):
        yield slice(start, start + step)


def average(x: Array, weights: Array, component: Callable[[Array], Array]) -> Array:
    """Return the weighted sum of a function of (point, component) at every point, a few points at a time."""
    flat, averages = np.ravel(x), np.empty(np.size(x))
    for part in _chunks(flat, weights.size):
        averages[part] = component(flat[part, None]) @ weights
    return np.minimum(averages, 1.0).reshape(np.shape(x))


def log_sum(x: Array, components: int, component: Callable[[Array], Array]) -> Array:
    """Return the logarithm of the sum of exponentials over the components at every point."""
    flat, sums = np.ravel(x), np.empty(np.size(x))
    for part in _chunks(flat, components):
        logs = component(flat[part, None])
        top = logs.max(axis=1)
        finite = np.where(np.isfinite(top), top, 0.0)
        with np.errstate(divide="ignore"):
            sums[part] = np.where(np.isposinf(top), top, finite + np.log(np.exp(logs - finite[:, None]).sum(axis=1)))
    return sums.reshape(np.shape(x))


_TOLERANCE, _LAST_STEP, _CLOSE = 1e-12, 1e-7, 1e-5
_STEPS = 400


def invert(
    target: Array,
    distribution: Callable[[Array], Array],
    density: Callable[[Array], Array],
    *,
    start: Array,
    low: Array,
    high: Array,
) -> Array:
    """Return t in [low, high] with distribution(t) = target, to 1e-12 of 1 + |t|.

    A Newton step is taken if it stays in the bracket and is at most half as long as the last step; otherwise the
    bracket is halved. So the method is quadratic near the root and never slower than bisection by more than a factor.
    """
    target, t, low, high = (np.ravel(each).copy() for each in np.broadcast_arrays(target, start, low, high))
    t = np.clip(t, low, high)
    last = np.full(t.shape, np.inf)
    active = np.arange(t.size)
    for _ in range(_STEPS):
        at = t[active]
        gap = distribution(at) - target[active]
        below = gap < 0
        low[active[below]], high[active[~below]] = at[below], at[~below]
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            newton = at - gap / density(at)
        usable = (newton >= low[active]) & (newton <= high[active]) & (2 * np.abs(newton - at) <= last[active])
        t[active] = np.where(usable, newton, low[active] + (high[active] - low[active]) / 2)
        last[active] = np.abs(t[active] - at)
        # Near the root a Newton step of length h ends within about h^2 of it.
        enough = np.where(usable & (np.abs(gap) < _CLOSE), _LAST_STEP, _TOLERANCE)
        active = active[last[active] > enough * (1 + np.abs(at))]
        if active.size == 0:
            break
    return np.asarray(t.reshape(np.shape(start)))
