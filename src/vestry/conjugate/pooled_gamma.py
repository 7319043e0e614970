"""Rates of many groups that learn from each other, from noisy sums of counts.

    theta_g ~ Gamma(k, rate k/m);   s_g ~ Poisson(e_g theta_g);   z_g = s_g + noise,

with exposures e_g (for records: how many) that are public, or known up to noise and summed over with equal prior
weights. The evidence of one group is

    m_g = sum over e, s of  P(y_g - e) NB(s; shape k, mean e m) P(z_g - s),

and given m, k and the counts theta_g ~ Gamma(k + s, k/m + e). 1/(1 + k) is uniform on (0, 1), and the expected number
of events of all groups has density 1/(m sum(e) + 1/2). Both are summed out by quadrature; no Markov chain is run.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
from scipy.special import log_expit, logit

from vestry.conjugate.pooled_beta import few_counts
from vestry.conjugate.pooled_groups import Places, PooledGroups, inverse, log_sums
from vestry.conjugate.sparse_dirichlet import log_negative_binomial
from vestry.errors import InvalidParameter
from vestry.numerics import Array
from vestry.posterior.discrete_noise import Noise, count_window
from vestry.posterior.hyper_grid import integrate
from vestry.posterior.mixture import GammaMixture

# The least 1/(1 + k), cells to begin with, and counts that are listed one by one.
_LEAST, _SIZES, _LISTED = 1e-5, (9, 9), 400
# No cell of the last box is wider than this part of a standard deviation.
_COARSE = 0.7
_DROP = 24.0
# Cells of a count and a private exposure below e^-_CELL_DROP of the likeliest are omitted.
_CELL_DROP = 16.0
# The exposure of a group without records.
_NOBODY = 1e-6


@dataclass(frozen=True, eq=False)
class Cells:
    """The counts and exposures that each group's noisy ones leave possible, one after another.

    Attributes
    ----------
    start
        The first cell of each group.
    counts, exposures
        Of each cell.
    logs
        The noise's log weight of each cell.
    """

    start: Places
    counts: Array
    exposures: Array
    logs: Array

    @classmethod
    def of(cls, noisy: Array, exposures: Array, noise: Noise, exposure_noise: Noise | None) -> Cells:
        """List the cells of all groups."""
        parts = []
        for z, e in zip(noisy, exposures, strict=True):
            if exposure_noise is None:
                s, s_logs = _counts(float(z), noise)
                parts.append(np.stack([s, np.full(s.size, e), s_logs]))
                continue
            s, s_logs = few_counts(float(z), noise)
            n, n_logs = few_counts(float(e), exposure_noise)
            n = np.maximum(n, _NOBODY)
            cells = np.stack([np.tile(s, n.size), np.repeat(n, s.size), (n_logs[:, None] + s_logs).ravel()])
            parts.append(cells[:, cells[2] > cells[2].max() - _CELL_DROP])
        start = np.cumsum([0, *(each.shape[1] for each in parts[:-1])]).astype(np.intp)
        return cls(start, *np.concatenate(parts, axis=1))

    def part(self, index: int) -> slice:
        """Return where one group's cells are."""
        last = self.start[index + 1] if index + 1 < self.start.size else self.logs.size
        return slice(int(self.start[index]), int(last))

    @cached_property
    def _distinct(self) -> tuple[tuple[Array, Places], ...]:
        """The distinct counts and exposures, and the place of each cell's among them."""
        distinct = [np.unique(each, return_inverse=True) for each in (self.counts, self.exposures)]
        return tuple((values, place.ravel()) for values, place in distinct)

    def log_evidence(self, k: float, mean: float) -> Array:
        """Return log m_g of every group, in units of the noise at the counts nearest to z."""
        (values, place), (exposures, at) = self._distinct
        e = exposures * mean
        # log NB splits into a part of the count alone and one that the exposure enters too.
        alone = log_negative_binomial(values, k, k) + (values + k) * np.log(2.0)
        logs = alone[place] - (k * np.log1p(e / k))[at] - self.counts * np.log1p(k / e)[at] + self.logs
        return log_sums(logs, self.start)


def _counts(z: float, noise: Noise) -> tuple[Array, Array]:
    n, logs = count_window(z, noise, _DROP)
    return (n, logs) if n.size <= _LISTED else few_counts(z, noise)


@dataclass(frozen=True, eq=False)
class PooledGamma(PooledGroups):
    """The joint posterior of all groups' rates and of the population that they come from.

    Attributes
    ----------
    noisy, given_exposures
        Of each group, as they were given.
    cells
        What they leave possible.
    shapes, means, weights
        k and m at the nodes of the quadrature.
    """

    noisy: Array
    given_exposures: Array
    cells: Cells
    shapes: Array
    means: Array
    weights: Array

    @property
    def dimension(self) -> int:
        """The number of groups."""
        return self.noisy.size

    def key(self, index: int) -> tuple[float, float]:
        """Return the group's noisy count and its exposure."""
        return float(self.noisy[index]), float(self.given_exposures[index])

    def components(self, index: int, node: Places, marks: Array) -> tuple[Array, Array]:
        """Draw a count with its exposure; return k + s and k/m + e."""
        part = self.cells.part(index)
        s, e, logs = self.cells.counts[part], self.cells.exposures[part], self.cells.logs[part]
        k, mean = self.shapes[self.nodes[0]], self.means[self.nodes[0]]
        table = log_negative_binomial(s, k[:, None], e * mean[:, None]) + logs
        place = inverse(np.exp(table - table.max(axis=1, keepdims=True)), node, marks[:, 0])
        return k[node] + s[place], (k / mean)[node] + e[place]

    def mixture(self, first: Array, second: Array, weights: Array) -> GammaMixture:
        """Return a mixture of Gamma distributions."""
        return GammaMixture(weights, first, second)

    def member(self, first: float, second: float) -> GammaMixture:
        """Return Gamma(k + s, k/m + e), averaged over the population."""
        k = self.shapes
        return GammaMixture(self.weights, k + max(first, 0.0), k / self.means + max(second, 0.0))

    def draw_members(self, rng: np.random.Generator, first: Array, second: Array) -> Array:
        """Draw from each Gamma distribution."""
        return rng.standard_gamma(first) / second

    def population(self) -> dict[str, Array]:
        """Return the hyperparameters at the nodes, with their weights: mean is m and shape k."""
        return {"mean": self.means, "shape": self.shapes, "weight": self.weights}


def pooled_gamma(
    noisy: npt.ArrayLike, exposures: npt.ArrayLike, *, noise: Noise, exposure_noise: Noise | None = None
) -> PooledGamma:
    """Return the joint posterior of groups' rates from noisy counts of events.

    Parameters
    ----------
    noisy
        Integers, one per group.
    exposures
        How much each group was exposed: positive numbers, or, with `exposure_noise`, noisy integers.
    noise, exposure_noise
        The noise of the counts, and of the exposures where they are private.
    """
    counts, exposed = np.asarray(noisy, float), np.asarray(exposures, float)
    if counts.ndim != 1 or counts.size < 1 or exposed.shape != counts.shape:
        raise InvalidParameter("exposures", exposed.shape, "one per group", "as many as noisy counts")
    if exposure_noise is None and not np.all(exposed > 0):
        raise InvalidParameter("exposures", "one that is not positive", "positive numbers", "groups with records")
    cells = Cells.of(counts, exposed, noise, exposure_noise)
    all_exposed = float(np.maximum(exposed, 1e-9).sum())
    events = np.maximum(counts, 0.0).sum() + noise.scale + 1
    most = 20 * float(events)

    def log_density(odds: Array, log_mean: Array) -> Array:
        expected = log_mean + np.log(all_exposed)
        prior = -np.logaddexp(0.0, np.log(0.5) - expected) - np.logaddexp(0.0, expected - np.log(most))
        prior += (log_expit(odds) + log_expit(-odds))[:, None]
        logs = [
            [cells.log_evidence(float(np.exp(-u)), float(np.exp(v))).sum() for v in row]
            for u, row in zip(odds, log_mean, strict=True)
        ]
        return np.asarray(prior + np.array(logs))

    middle = np.log(events / all_exposed)
    grid = integrate(log_density, (float(logit(_LEAST)), middle - 12), (7.0, middle + 12), sizes=_SIZES, widest=_COARSE)
    return PooledGamma(counts, exposed, cells, np.exp(-grid.points[:, 0]), np.exp(grid.points[:, 1]), grid.weights)
