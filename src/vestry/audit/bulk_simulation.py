"""The released law of every shipped mechanism, drawn in bulk by numpy: many trials, for power.

Not the code that releases: see `vestry.audit.release_runs` for that. Noise on integers is the difference of two
geometrics, or a table; a draw comes from the family's own member.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from vestry.audit.worst_pairs import BuiltinMechanism, Dataset, Pair
from vestry.conjugate.family import Distribution
from vestry.mcmc.truncated_draws import truncated_beta, truncated_dirichlet
from vestry.mechanisms.additive_noise import LAPLACE, Additive
from vestry.mechanisms.posterior_sample import split_groups
from vestry.mechanisms.truncated_posterior import TruncatedSample
from vestry.numerics import Array

# Above this scale a rounded normal is as good as a table: the laws differ by less than a part in 1e8.
_LARGEST_TABLE = 1e4


def simulated(mechanism: BuiltinMechanism, dataset: Dataset, rng: np.random.Generator, trials: int) -> Array:
    """Return what the mechanism would release, one row a trial."""
    if isinstance(mechanism, Additive):
        noise = discrete_laplace if mechanism.noise == LAPLACE else discrete_gaussian
        return np.array(dataset, dtype=float) + noise(rng, mechanism.scale, (trials, len(dataset)))
    parts = []
    for member in posteriors(mechanism, dataset):
        size = trials * mechanism.draws
        if isinstance(mechanism, TruncatedSample):
            drawn = _truncated(member, rng, mechanism.truncation, size)
        else:
            drawn = member.draw(rng, size)
        parts.append(drawn.reshape(trials, -1))
    return np.concatenate(parts, axis=1)


def posteriors(mechanism: Any, dataset: Dataset) -> list[Distribution]:
    """Return the law of a draw in each group, truncation aside."""
    found = []
    for statistics in split_groups(dataset, mechanism.adjacency):
        *units, count = statistics
        sums = mechanism.family.from_units(mechanism.adjacency, units, count)
        if isinstance(mechanism, TruncatedSample):
            options = {"likelihood_power": 1 / mechanism.temperature}
        else:
            options = {"likelihood_power": mechanism.likelihood_power, "prior_scale": mechanism.prior_scale}
        found.append(mechanism.family.update(mechanism.prior, sums, count, **options))
    return found


def log_ratio(mechanism: BuiltinMechanism, pair: Pair) -> Callable[[Array], Array]:
    """Return log P/Q of outputs under the two datasets, up to a constant."""
    if isinstance(mechanism, Additive):
        first, second, scale = np.array(pair.first), np.array(pair.second), mechanism.scale
        if mechanism.noise == LAPLACE:
            return lambda x: np.asarray((np.abs(x - second) - np.abs(x - first)).sum(axis=1) / scale)
        middle = (first + second) / 2
        return lambda x: np.asarray((x - middle) @ (first - second) / scale**2)
    before, after = posteriors(mechanism, pair.first), posteriors(mechanism, pair.second)

    def ratio(outputs: Array) -> Array:
        columns = np.split(outputs, len(before) * mechanism.draws, axis=1)
        laws = [law for law in zip(before, after, strict=True) for _ in range(mechanism.draws)]
        # At an end of the parameter space both densities may be infinite: that point tells nothing.
        with np.errstate(divide="ignore", invalid="ignore"):
            found = [p.log_density(x) - q.log_density(x) for (p, q), x in zip(laws, columns, strict=True)]
        return np.asarray(sum(found))

    return ratio


# --- laws -------------------------------------------------------------------------------------------------------------


def discrete_laplace(rng: np.random.Generator, scale: float, shape: tuple[int, ...]) -> Array:
    """Draw integers of mass e^(-|k|/scale): the difference of two geometrics."""
    stop = -math.expm1(-1 / scale)
    return (rng.geometric(stop, shape) - rng.geometric(stop, shape)).astype(float)


def discrete_gaussian(rng: np.random.Generator, scale: float, shape: tuple[int, ...]) -> Array:
    """Draw integers of mass e^(-k^2/(2 scale^2)): by a table, or for large scales by rounding a normal."""
    if scale > _LARGEST_TABLE:
        return np.asarray(np.rint(scale * rng.standard_normal(shape)))
    reach = math.ceil(10 * scale) + 1
    support = np.arange(-reach, reach + 1)
    weights = np.exp(-0.5 * (support / scale) ** 2).cumsum()
    drawn = np.searchsorted(weights, weights[-1] * rng.random(shape), side="right")
    return np.asarray(support[drawn], dtype=float)


def _truncated(member: Any, rng: np.random.Generator, low: float, size: int) -> Array:
    if member.dimension == 1:
        alpha, beta = member.concentrations
        return truncated_beta(rng, np.full(size, alpha), beta, low=low, high=1 - low)
    return truncated_dirichlet(rng, np.tile(member.concentrations, (size, 1)), low=low)
