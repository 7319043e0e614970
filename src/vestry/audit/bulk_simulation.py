"""What every shipped mechanism releases, simulated in bulk by numpy: many trials, for power.

Not the code that releases: see `vestry.audit.release_runs` for that. Noise on integers is that of
plans; a draw comes from the family's own member.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from vestry.audit.worst_pairs import BuiltinMechanism, Dataset, Pair
from vestry.conjugate.family import Distribution
from vestry.conjugate.simulation import simulated_noise
from vestry.mcmc.truncated_draws import truncated_beta, truncated_dirichlet
from vestry.mechanisms.additive_noise import CUBE, LAPLACE, ROUNDED_GAUSSIAN, Additive
from vestry.mechanisms.posterior_sample import split_groups
from vestry.mechanisms.truncated_posterior import TruncatedSample
from vestry.numerics import Array
from vestry.posterior.discrete_noise import RoundedGaussian


def simulate(mechanism: BuiltinMechanism, dataset: Dataset, rng: np.random.Generator, trials: int) -> Array:
    """Return what the mechanism would release, one row per trial."""
    if isinstance(mechanism, Additive):
        noise = simulated_noise(mechanism, (trials, len(dataset)), rng)
        return np.asarray(np.array(dataset, dtype=float) + noise)
    parts = []
    for member in posteriors(mechanism, dataset):
        size = trials * mechanism.draws
        if isinstance(mechanism, TruncatedSample):
            draws = _truncated(member, rng, mechanism.truncation, size)
        else:
            draws = member.draw(rng, size)
        parts.append(draws.reshape(trials, -1))
    return np.concatenate(parts, axis=1)


def posteriors(mechanism: Any, dataset: Dataset) -> list[Distribution]:
    """Return the distribution of a draw in each group, truncation aside."""
    distributions = []
    for statistics in split_groups(dataset, mechanism.adjacency):
        *units, count = statistics
        sums = mechanism.family.from_units(mechanism.adjacency, units, count)
        if isinstance(mechanism, TruncatedSample):
            options = {"likelihood_power": 1 / mechanism.temperature}
        else:
            options = {"likelihood_power": mechanism.likelihood_power, "prior_scale": mechanism.prior_scale}
        distributions.append(mechanism.family.update(mechanism.prior, sums, count, **options))
    return distributions


def log_ratio(mechanism: BuiltinMechanism, pair: Pair) -> Callable[[Array], Array]:
    """Return log P/Q of outputs under the two datasets, up to a constant."""
    if isinstance(mechanism, Additive):
        first, second, scale = np.array(pair.first), np.array(pair.second), mechanism.scale
        if mechanism.noise == LAPLACE:
            return lambda x: np.asarray((np.abs(x - second) - np.abs(x - first)).sum(axis=1) / scale)
        if mechanism.noise == CUBE:
            return lambda x: np.asarray((np.abs(x - second).max(axis=1) - np.abs(x - first).max(axis=1)) / scale)
        if mechanism.noise == ROUNDED_GAUSSIAN:
            noise = RoundedGaussian(scale)
            return lambda x: np.asarray((noise.log_mass(x - first) - noise.log_mass(x - second)).sum(axis=1))
        middle = (first + second) / 2
        return lambda x: np.asarray((x - middle) @ (first - second) / scale**2)
    before, after = posteriors(mechanism, pair.first), posteriors(mechanism, pair.second)

    def ratio(outputs: Array) -> Array:
        columns = np.split(outputs, len(before) * mechanism.draws, axis=1)
        members = [pair for pair in zip(before, after, strict=True) for _ in range(mechanism.draws)]
        # At an end of the parameter space both densities may be infinite: that point tells nothing.
        with np.errstate(divide="ignore", invalid="ignore"):
            log_ratios = [p.log_density(x) - q.log_density(x) for (p, q), x in zip(members, columns, strict=True)]
        return np.asarray(sum(log_ratios))

    return ratio


def _truncated(member: Any, rng: np.random.Generator, low: float, size: int) -> Array:
    if member.dimension == 1:
        alpha, beta = member.concentrations
        return truncated_beta(rng, np.full(size, alpha), beta, low=low, high=1 - low)
    return truncated_dirichlet(rng, np.tile(member.concentrations, (size, 1)), low=low)
