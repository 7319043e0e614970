"""The noise-aware posterior of mean and variance: the sums of records and of their squares are summed out.

For normal records the sum s and the squared deviations q = t - s^2/n, t the sum of squares, are independent given mean
and variance: s is normal, and q a multiple of a chi-squared variable with n - 1 degrees. With the prior integrated out,

    log p(s, t | n) = (n-3)/2 log q - log G((n-1)/2) - (n-1)/2 log 2 - log(2 pi n)/2 + C(eta_n) - C(eta_0),

C the log-partition of the normal-inverse-gamma family. It is multiplied by the noise of s, t and, where it is private,
of n (uniform prior on n >= 2), over nodes in all directions (see `adaptive_grid`). The posterior is then represented by
members at points drawn from that distribution, so probabilities are right to about 0.005; the generator is seeded by
the noisy statistics, so that the posterior is a function of the release.

Records are taken as normal: what clipping cuts off is not modelled.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import gammaln

from vestry.numerics import Array
from vestry.posterior.adaptive_grid import Axis, Nodes, find_nodes
from vestry.posterior.discrete_noise import Noise
from vestry.posterior.mixture import Marginal
from vestry.posterior.student_mixtures import InverseGammaMixture, StudentMixture

_PLANE, _SPACE = 300, 72
_DROP = 25.0
_MEMBERS = 8192


def updated(prior: Any, s: Array, t: Array, n: Array) -> tuple[Array, Array, Array, Array]:
    """Return location, weight, shape and scale after n records with these sums; the prior has them as attributes."""
    weight = prior.weight + n
    location = (prior.weight * prior.location + s) / weight
    # b + (t - s^2/n)/2 + k n (s/n - l)^2/(2 (k + n)): every term is positive
    spread = (t - s * s / n) / 2 + prior.weight * n * (s / n - prior.location) ** 2 / (2 * weight)
    return location, weight, prior.shape + n / 2, prior.scale + spread


@dataclass(frozen=True, eq=False)
class MeanVarianceMixture:
    """Weighted normal-inverse-gamma members, in the units of the records.

    Attributes
    ----------
    weights, locations, counts, shapes, scales
        One entry per member.
    """

    weights: Array
    locations: Array
    counts: Array
    shapes: Array
    scales: Array

    @property
    def dimension(self) -> int:
        """Mean and variance."""
        return 2

    def marginal(self, index: int) -> Marginal:
        """Return the distribution of the mean, or of the variance."""
        if range(2)[index] == 1:
            return InverseGammaMixture(self.weights, self.shapes, self.scales)
        widths = np.sqrt(self.scales / (self.shapes * self.counts))
        return StudentMixture(self.weights, self.locations, widths, 2 * self.shapes)

    def draw(self, rng: np.random.Generator, size: int) -> Array:
        """Return a member chosen by weight, and a draw from it; one per row."""
        chosen = rng.choice(self.weights.size, size, p=self.weights)
        v = self.scales[chosen] / rng.standard_gamma(self.shapes[chosen])
        m = self.locations[chosen] + np.sqrt(v / self.counts[chosen]) * rng.standard_normal(size)
        return np.stack([m, v], axis=1)


def posterior(
    noisy: tuple[float, float],
    *,
    count: float,
    prior: Any,
    noise: Noise,
    unit: float,
    middle: float,
    reach: float,
    count_units: int | None = None,
) -> MeanVarianceMixture:
    """Return the posterior from noisy sums, in whole units, of (x - middle)/reach and of its square.

    `unit` is what one unit of either sum stands for; `count` is public, or with `count_units` noisy in these units.
    """
    scaled = replace(prior, location=(prior.location - middle) / reach, scale=prior.scale / reach**2)

    def weight(s: Array, t: Array, n: Array) -> Array:
        return (
            noise.log_weight(s, np.array(noisy[0]), np.array(noisy[0]))
            + noise.log_weight(t, np.array(noisy[1]), np.array(max(noisy[1], 0.0)))
            + _log_predictive(s * unit, t * unit, n, scaled)
        )

    far = noise.reach(6 * _DROP)
    top = max(noisy[1], 0.0)
    axes = [Axis(noisy[0] - far, noisy[0] + far, noisy[0]), Axis(max(0.0, noisy[1] - far), top + far, top)]
    if count_units is None:
        nodes = find_nodes(lambda s, t: weight(s, t, np.array(count)), axes, size=_PLANE, drop=_DROP)
    else:
        units, near = float(count_units), max(2.0, np.rint(count / count_units))
        axes.append(Axis(max(2.0, (count - far) / units), near + far / units, near))

        def with_count(s: Array, t: Array, n: Array) -> Array:
            return weight(s, t, n) + noise.log_weight(n * units, np.array(count), np.array(near * units))

        nodes = find_nodes(with_count, axes, size=_SPACE, drop=_DROP)
    rng = np.random.default_rng([int(value) & 0xFFFFFFFF for value in (*noisy, count)])
    return _represent(nodes, scaled, rng, count, unit=unit, middle=middle, reach=reach)


def _log_predictive(s: Array, t: Array, n: Array, prior: Any) -> Array:
    """Return log p(s, t | n); minus infinity where the squares are too small for the sum."""
    q = t - s * s / n
    inside = q > 0
    _, weight, shape, scale = updated(prior, s, np.where(inside, t, s * s / n + 1.0), n)
    partition = gammaln(shape) - shape * np.log(scale) - np.log(weight) / 2
    logs = (n - 3) / 2 * np.log(np.where(inside, q, 1.0)) - gammaln((n - 1) / 2) - n * math.log(2) / 2
    return np.where(inside, logs - np.log(n) / 2 + partition, -np.inf)


def _represent(
    nodes: Nodes,
    prior: Any,
    rng: np.random.Generator,
    count: float,
    *,
    unit: float,
    middle: float,
    reach: float,
) -> MeanVarianceMixture:
    """Draw members from the nodes, each moved within its cell, so that no gap between nodes is seen."""
    weights = np.exp(nodes.logs - nodes.logs.max()).ravel()
    ladder = np.cumsum(weights)
    marks = (np.arange(_MEMBERS) + rng.random(_MEMBERS)) / _MEMBERS * ladder[-1]
    places = np.unravel_index(np.minimum(np.searchsorted(ladder, marks), weights.size - 1), nodes.logs.shape)
    moved = [
        axis[place] + (rng.random(_MEMBERS) - 0.5) * cells[place] * (cells[place] > 1)
        for axis, cells, place in zip(nodes.axes, nodes.cells, places, strict=True)
    ]
    s, t = moved[0] * unit, moved[1] * unit
    n = np.maximum(2.0, np.rint(moved[2])) if len(moved) > 2 else np.full(_MEMBERS, count)
    location, weight, shape, scale = updated(prior, s, np.maximum(t, s * s / n), n)
    equal = np.full(_MEMBERS, 1 / _MEMBERS)
    return MeanVarianceMixture(equal, middle + reach * location, weight, shape, scale * reach**2)
