"""The noise-aware posterior of a normal mean with known variance.

Released are noisy sums y_j of each coordinate, counted from the middle of the interval that values are clipped to.
Given n records, y = n (theta - middle) + N(0, n s2) + noise, and with the prior N(m0, tau2) everything is normal but
Laplace noise, which is a mixture of normals: w ~ Exponential(mean 2 b^2), noise | w ~ N(0, w) [BernsteinS18, sec. 3.2].
Given w,

    theta | y, n, w ~ N(mean, 1/precision),   precision = 1/tau2 + n^2/(n s2 + w),
    p(y | n, w) = N(y; n (m0 - middle), n^2 tau2 + n s2 + w),

so the posterior is a mixture of normals over w (a point for Gaussian noise, a quadrature for Laplace noise), and over n
where the number of records is private: its prior is the improper uniform one on n >= 0.

Integer noise of scale k grid units is treated as continuous noise of the same scale. The sum is a lattice variable of
many grid units' spread, so by Poisson summation the discrete Gaussian differs by about exp(-2 pi^2 k^2), and a rounded
normal number and Laplace noise in their variance by a part 1/(12 k^2); scales are thousands of units and more, as a
grid has about a million in an interval.

The model takes the clipped values for normal ones. If many values are clipped, intervals are about the mean of the
clipped values and not about theta.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import log_ndtr

from vestry.errors import ExtremeNumbers
from vestry.numerics import Array
from vestry.posterior.discrete_noise import DROP, Noise, NormalNoise, thin
from vestry.posterior.mixture import NormalMixture, likely_places, normalise

# The quadrature over log w: steps of a first look, how far below w = 2 b^2 it begins, and nodes of the final rule.
_LOOK, _BELOW, _NODES = 0.2, 40.0, 256
# Counts that are listed at once where the number of records is private; more are taken in steps.
_COUNTS = 4000


@dataclass(frozen=True)
class NormalModel:
    """What is known before the release.

    Attributes
    ----------
    variance
        Of one record, s2.
    prior_mean, prior_variance
        Of the mean, m0 and tau2, counted from the middle of the interval.
    """

    variance: float
    prior_mean: float
    prior_variance: float

    def spread(self, n: Array) -> Array:
        """Return the variance of the exact sum, n^2 tau2 + n s2."""
        return n * (n * self.prior_variance + self.variance)

    def member(self, y: Array, n: Array, w: Array) -> tuple[Array, Array]:
        """Return mean and variance of theta given the sum with noise of variance w."""
        gain = n / (n * self.variance + w)
        precision = 1 / self.prior_variance + n * gain
        return (self.prior_mean / self.prior_variance + gain * y) / precision, 1 / precision


@dataclass(frozen=True, eq=False)
class NormalPosterior:
    """A mixture over counts, within each of which the coordinates are independent mixtures of normals.

    Attributes
    ----------
    count_weights
        The weight of each count; one entry if the count is public.
    weights, means, variances
        Arrays count x coordinate x component; the weights of each count and coordinate sum to 1.
    """

    count_weights: Array
    weights: Array
    means: Array
    variances: Array

    @property
    def dimension(self) -> int:
        """The number of coordinates."""
        return int(self.means.shape[1])

    def marginal(self, index: int) -> NormalMixture:
        """Return the distribution of one coordinate."""
        weights = (self.count_weights[:, None] * self.weights[:, index]).ravel()
        with np.errstate(divide="ignore"):
            weights, places = normalise(np.log(weights))
        return NormalMixture(weights, self.means[:, index].ravel()[places], self.variances[:, index].ravel()[places])

    def shifted(self, by: float) -> NormalPosterior:
        """Return the distribution of theta + by."""
        return NormalPosterior(self.count_weights, self.weights, self.means + by, self.variances)

    def draw(self, rng: np.random.Generator, size: int) -> Array:
        """Draw a count, then each coordinate's component, then the coordinate; one draw per row."""
        rows = rng.choice(self.count_weights.size, size=size, p=self.count_weights)
        draws = np.empty((size, self.dimension))
        for index in range(self.dimension):
            # One ladder for all counts, each a unit above the one before.
            ladders = np.minimum(np.cumsum(self.weights[:, index], axis=1), 1.0)
            ladders[:, -1] = 1.0
            steps = (ladders + np.arange(len(ladders))[:, None]).ravel()
            part = np.searchsorted(steps, rows + rng.random(size), side="right")
            part = np.clip(part, rows * ladders.shape[1], (rows + 1) * ladders.shape[1] - 1)
            means, variances = self.means[:, index].ravel(), self.variances[:, index].ravel()
            draws[:, index] = rng.normal(means[part], np.sqrt(variances[part]))
        return draws


def public_count(sums: Array, *, count: int, model: NormalModel, noise: Noise, grid: float) -> NormalPosterior:
    """Return the posterior from noisy sums, in grid units, of a public number of records."""
    n = np.array([float(count)])
    return _posterior(sums * grid, n, np.ones(1), model, noise, noise.scale * grid)


def private_count(
    sums: Array, noisy_count: float, *, model: NormalModel, noise: Noise, grid: float, count_grid: float
) -> NormalPosterior:
    """Return the posterior from noisy sums and a noisy count, each in units of its own grid.

    p(n | z) ~ P(noise = z_n - n) * product over coordinates of p(y_j | n), for n = 0, 1, 2 ...
    """
    y, scale = sums * grid, noise.scale * grid
    counts, logs = _counts(y, noisy_count, model, noise, scale, count_grid)
    means, variances = model.member(y, counts[:, None], np.array(scale**2))
    # A component moves with the count by mean/n, and its own deviation is what that is measured against.
    deviation = np.sqrt(variances)
    width = (np.maximum(counts, 1.0)[:, None] * deviation / (np.abs(means) + deviation)).min(axis=1)
    nodes, logs = thin(counts, logs, width / 2)
    weights, places = normalise(logs)
    return _posterior(y, nodes[places], weights, model, noise, scale)


def _posterior(
    y: Array, n: Array, count_weights: Array, model: NormalModel, noise: Noise, scale: float
) -> NormalPosterior:
    """Assemble the mixture over given counts."""
    n, y = n[:, None, None], y[None, :, None]
    if isinstance(noise, NormalNoise):
        w, logs = np.full((1, 1, 1), scale**2), np.zeros((n.size, y.size, 1))
    else:
        w, logs = _laplace_variances(y - n * model.prior_mean, model.spread(n), scale)
    means, variances = model.member(y, n, w)
    weights = np.exp(logs - logs.max(axis=2, keepdims=True))
    weights /= weights.sum(axis=2, keepdims=True)
    return NormalPosterior(count_weights, weights, means, np.broadcast_to(variances, means.shape))


def _laplace_variances(away: Array, spread: Array, scale: float) -> tuple[Array, Array]:
    """Return variances w of normals that make up Laplace noise, and the logs of their weights given the sum.

    In t = log(w/(2 b^2)) the integrand is exp(t - e^t) p(y | n, w): smooth, and falling to 0 on both sides, so that the
    trapezoid rule over the range that matters converges faster than any power of its step.
    """

    def log_weight(t: Array) -> Array:
        total = spread + 2 * scale**2 * np.exp(t)
        return np.asarray(t - np.exp(t) - 0.5 * np.log(total) - away**2 / (2 * total))

    # A sum far from its mean needs w of about b |away|.
    look = np.arange(-_BELOW, np.log(50 + 2 * float(np.abs(away).max()) / scale), _LOOK)
    seen = log_weight(look)
    inside = seen > seen.max(axis=2, keepdims=True) - DROP
    first = look[inside.argmax(axis=2)] - _LOOK
    last = look[look.size - 1 - inside[:, :, ::-1].argmax(axis=2)] + _LOOK
    t = first[:, :, None] + (last - first)[:, :, None] * np.linspace(0, 1, _NODES)
    return 2 * scale**2 * np.exp(t), log_weight(t)


def log_evidence(y: Array, n: Array, model: NormalModel, noise: Noise, scale: float) -> Array:
    """Return log p(y | n), the theta integrated out: normal, or normal convolved with Laplace in closed form.

    With V = n^2 tau2 + n s2 and D = y - n m0 the latter is

        [e^(V/2b^2 - D/b) Phi((D - V/b)/sqrt V) + e^(V/2b^2 + D/b) Phi((-D - V/b)/sqrt V)] / (2b).
    """
    away = y - n * model.prior_mean
    variance = model.spread(n)
    if isinstance(noise, NormalNoise):
        total = variance + scale**2
        return np.asarray(-0.5 * np.log(2 * np.pi * total) - away**2 / (2 * total))
    variance = np.maximum(variance, 1e-30 * scale**2)
    deviation, ratio = np.sqrt(variance), variance / scale
    sides = [ratio / (2 * scale) - d / scale + log_ndtr((d - ratio) / deviation) for d in (away, -away)]
    return np.asarray(np.logaddexp(*sides) - np.log(2 * scale))


def _counts(
    y: Array, noisy: float, model: NormalModel, noise: Noise, scale: float, count_grid: float
) -> tuple[Array, Array]:
    """List the counts that matter, in steps if there are many, with their log weights."""
    nearest = max(noisy * count_grid, 0.0)

    def log_weight(n: Array) -> Array:
        own = noise.log_weight(n / count_grid, np.array(float(noisy)), np.array(nearest / count_grid))
        return np.asarray(own + log_evidence(y, n[:, None], model, noise, scale).sum(axis=1))

    # A density is nowhere above 1/(2b): so far below it may the sums put the count nearest to the noisy one.
    ceiling = -y.size * np.log(2 * scale)
    drop = DROP + max(0.0, float(ceiling - log_weight(np.array([np.round(nearest)]))[0])) + np.log(1 + 2 * scale)
    reach = noise.reach(drop) * count_grid
    low, high = np.floor(max(0.0, nearest - reach)), np.ceil(nearest + reach)
    while True:
        step = np.ceil((high - low + 1) / _COUNTS)
        counts = np.arange(low, high + 1, step)
        logs = log_weight(counts)
        inside = likely_places(logs, DROP)
        new_low, new_high = max(low, counts[inside[0]] - step), min(high, counts[inside[-1]] + step)
        if step == 1 or (new_high - new_low) > 0.5 * (high - low):
            return counts[inside], logs[inside]
        low, high = new_low, new_high


# Steps of log w where several releases are joined, and how far below w = 2 b^2 they begin; counts that are looked at.
_STEP, _BEGIN, _COUNTED = 0.4, 20.0, 1000


def joined_public(
    sums: Array, *, count: int, model: NormalModel, noises: Sequence[Noise], grid: float
) -> NormalPosterior:
    """Return the posterior from the noisy sums of several releases of the same records, one row per release.

    Given variances w_i of each release's noise (one for Gaussian noise, a mixture for Laplace noise, as above), the
    sums of one coordinate are worth one sum y* with noise of variance w*,

        1/w* = sum of 1/w_i,   y* = w* sum of y_i/w_i,

    with the weight p(y* | n, w*) times the product of N(y_i; 0, w_i) over N(y*; 0, w*).
    """
    n, scales = np.array([float(count)]), [each.scale * grid for each in noises]
    return _joined(sums * grid, n, np.zeros(1), model, noises, scales)


def joined_private(
    sums: Array, label: float, *, model: NormalModel, noise: Any, grid: float, count_grid: float
) -> NormalPosterior:
    """Return the same where the number of records has a noisy number in each release, of which `label` is the label."""
    y, scales = sums * grid, [each.scale * grid for each in noise.noises]
    nearest = max(label * count_grid, 0.0)

    def own(n: Array) -> Array:
        return np.asarray(noise.log_weight(n / count_grid, np.array(label), np.array(nearest / count_grid)))

    low, high = 0.0, nearest + noise.reach(DROP) * count_grid + 1
    low = max(low, np.floor(nearest - noise.reach(DROP) * count_grid))
    while True:
        step = max(1.0, np.ceil((high - low + 1) / _COUNTED))
        counts = np.arange(np.floor(low), high + 1, step)
        posterior = _joined(y, counts, own(counts), model, noise.noises, scales)
        inside = np.flatnonzero(posterior.count_weights > np.exp(-DROP / 2))
        if inside.size == 0:
            raise ExtremeNumbers
        narrow = max(low, counts[inside[0]] - step), min(high, counts[inside[-1]] + step)
        if step == 1 or narrow[1] - narrow[0] > 0.9 * (high - low):
            return posterior
        low, high = narrow


def _joined(
    y: Array, n: Array, logs: Array, model: NormalModel, noises: Sequence[Noise], scales: Sequence[float]
) -> NormalPosterior:
    """Assemble the mixture over counts of these log weights, and over the variances of every noise."""
    away = max(float(np.ptp(y, axis=0).max()), float(np.abs(y - n.max() * model.prior_mean).max()))
    axes = [_variances(noise, scale, away) for noise, scale in zip(noises, scales, strict=True)]
    grids = np.meshgrid(*(w for w, _ in axes), indexing="ij")
    w = np.stack([each.ravel() for each in grids])
    prior = np.sum(np.meshgrid(*(each for _, each in axes), indexing="ij"), axis=0).ravel()
    together = 1 / (1 / w).sum(axis=0)
    parts, evidence = [], logs.copy()
    for column in y.T:
        best = together * (column[:, None] / w).sum(axis=0)
        spread = (((column[:, None] - best) ** 2 / w).sum(axis=0) + np.log(w).sum(axis=0) - np.log(together)) / 2
        total = model.spread(n)[:, None] + together
        weights = prior - spread - np.log(total) / 2 - (best - n[:, None] * model.prior_mean) ** 2 / (2 * total)
        places = likely_places(weights.max(axis=0), DROP)
        weights, best, own = weights[:, places], best[places], together[places]
        summit = weights.max(axis=1, keepdims=True)
        shares = np.exp(weights - summit)
        evidence += summit[:, 0] + np.log(shares.sum(axis=1))
        means, variances = model.member(best, n[:, None], own)
        parts.append((shares / shares.sum(axis=1, keepdims=True), means, np.broadcast_to(variances, means.shape)))
    size = max(each.shape[1] for each, _, _ in parts)
    fills = (0.0, 1.0, 1.0)  # what is added to rows has no weight, and is like the first
    stacked = [np.stack([_padded(each[place], size, fills[place]) for each in parts], axis=1) for place in range(3)]
    weights = np.exp(evidence - evidence.max())
    return NormalPosterior(weights / weights.sum(), *stacked)


def _variances(noise: Noise, scale: float, away: float) -> tuple[Array, Array]:
    """Return the variances of a noise, and the logs of their weights."""
    if isinstance(noise, NormalNoise):
        return np.array([scale**2]), np.zeros(1)
    end = np.log(50 + 2 * away / scale)
    if not np.isfinite(end):
        raise ExtremeNumbers
    t = np.arange(-_BEGIN, end + _STEP, _STEP)
    return 2 * scale**2 * np.exp(t), t - np.exp(t)


def _padded(each: Array, size: int, fill: float) -> Array:
    """Return rows of one length, their first number times `fill` at the end."""
    more = size - each.shape[1]
    return each if not more else np.concatenate([each, fill * np.repeat(each[:, :1], more, axis=1)], axis=1)
