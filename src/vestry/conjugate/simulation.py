"""Datasets and their posteriors, made up from a prior: what a release would give, before any record is read."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from vestry.conjugate.beta_bernoulli import Beta
from vestry.conjugate.dirichlet_categorical import Dirichlet
from vestry.conjugate.gamma_distribution import Gamma
from vestry.conjugate.gamma_exponential import GammaExponentialFamily
from vestry.conjugate.gamma_poisson import GammaPoissonFamily
from vestry.conjugate.mean_variance import MeanVarianceMixture
from vestry.conjugate.normal_inverse_gamma import MeanVariance, NormalInverseGammaFamily
from vestry.conjugate.normal_mean import NormalMeanFamily
from vestry.errors import InvalidParameter
from vestry.mechanisms.additive_noise import LAPLACE, Additive
from vestry.mechanisms.posterior_sample import PosteriorSample
from vestry.mechanisms.truncated_posterior import TruncatedSample, truncated_beta
from vestry.model.prepared_release import PreparedSums
from vestry.posterior import Posterior
from vestry.releases import Certificate, NoisyStatistics, Release

LEVEL = 0.9
# Draws from each posterior, whose quantiles are the interval's ends.
_DRAWS = 4000
# Draws from a truncated law; and so many from the whole law must lie inside to stand for it.
_TRUNCATED, _INSIDE = 1000, 200
# Parameters whose intervals are averaged, and points at which two laws are compared.
_LOOKED_AT, _POINTS = 4, 24
# Beyond this scale a rounded normal cannot be told from the discrete Gaussian law.
_ROUND = 3.0
_NOTHING = Certificate({}, {}, "simulated", "", 0.0, "", "", {})


def noisy_widths(
    prepared: PreparedSums, n: int, stratum: tuple[int, int], rng: np.random.Generator
) -> tuple[float, float, float]:
    """Return the width, the width without privacy, and the divergence, for one simulated dataset."""
    mechanism = prepared.mechanism
    assert isinstance(mechanism, Additive)  # noqa: S101 - the caller has looked
    member, sums = simulated(prepared, n, rng, stratum=stratum)
    posterior = noise_aware(prepared, noisy_statistics(mechanism, integers(prepared, mechanism, sums, n), rng))
    law = posterior.laws["all"]
    indices = range(min(law.dimension, _LOOKED_AT))
    drawn, points = law.draw(rng, _DRAWS), member.draw(rng, _POINTS)
    low, high = np.quantile(drawn, [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=0)
    kls = [np.mean(_own_log_density(member, i, points) - law.marginal(i).log_density(points[:, i])) for i in indices]
    exact = [_width(member, i) for i in indices]
    return float(np.mean((high - low)[: len(indices)])), float(np.mean(exact)), float(np.mean(kls))


def drawn_widths(
    prepared: PreparedSums, n: int, stratum: tuple[int, int], rng: np.random.Generator
) -> tuple[float, float, float]:
    """Return the same for posterior draws: of the law that they come from."""
    mechanism, prior = prepared.mechanism, prepared.family.prior(prepared.numbers)
    member, sums = simulated(prepared, n, rng, stratum=stratum)
    indices = range(min(member.dimension, _LOOKED_AT))
    exact = float(np.mean([_width(member, i) for i in indices]))
    if isinstance(mechanism, PosteriorSample):
        scales = {"likelihood_power": mechanism.likelihood_power, "prior_scale": mechanism.prior_scale}
        law = prepared.family.update(prior, sums, n, **scales)
        return float(np.mean([_width(law, i) for i in indices])), exact, member.kl(law)
    assert isinstance(mechanism, TruncatedSample)  # noqa: S101 - the only one left
    law = prepared.family.update(prior, sums, n, likelihood_power=1 / mechanism.temperature)
    drawn = _truncated(law, mechanism.truncation, rng.spawn(1)[0])  # the next dataset is as for other mechanisms
    low, high = np.quantile(drawn, [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=0, method="weibull")
    # A truncated law gives no weight to parameters that the posterior allows.
    return float(np.mean((high - low)[: len(indices)])), exact, math.inf


def _truncated(law: Any, low: float, rng: np.random.Generator) -> np.ndarray:
    """Draw from a law whose every component is at least `low`.

    Where few draws from the whole law lie inside, each component is truncated by itself, and the intervals are about as
    wide: exactly so for two components.
    """
    if isinstance(law, Beta):
        return truncated_beta(rng, law.alpha, law.beta, low, 1 - low, _TRUNCATED)[:, None]
    drawn = np.asarray(law.draw(rng, _DRAWS))
    inside = drawn[(drawn >= low).all(axis=1)]
    if len(inside) >= _INSIDE:
        return inside
    total, high = sum(law.alphas), 1 - (len(law.alphas) - 1) * low
    alone = [truncated_beta(rng, each, total - each, low, high, _TRUNCATED) for each in law.alphas[:_LOOKED_AT]]
    return np.column_stack(alone)


def simulated(
    prepared: PreparedSums, n: int, rng: np.random.Generator, *, stratum: tuple[int, int] = (0, 1)
) -> tuple[Any, list[float]]:
    """Draw parameters from the prior and n records from the model; return the posterior without noise, and the sums.

    In one dimension the parameter is drawn from one of several equal shares of the prior.
    """
    family, prior = prepared.family, prepared.family.prior(prepared.numbers)
    if prior.dimension == 1:
        theta = np.ravel(prior.quantile((stratum[0] + rng.random()) / stratum[1]))
    else:
        theta = prior.draw(rng, 1)[0]
    if isinstance(prior, Beta):
        sums = [float(rng.binomial(n, min(max(theta[0], 0.0), 1.0)))]
    elif isinstance(prior, Dirichlet):
        sums = [float(x) for x in rng.multinomial(n, theta / theta.sum())]
    elif isinstance(family, GammaPoissonFamily):
        sums = [float(min(rng.poisson(n * theta[0]), n * family.high))]
    elif isinstance(family, GammaExponentialFamily):
        total = rng.standard_gamma(n) / max(theta[0], 1e-300)
        sums = [float(np.clip(total, n * family.low, n * family.high))]
    elif isinstance(family, NormalInverseGammaFamily):
        total = rng.normal(n * theta[0], math.sqrt(n * theta[1]))
        squares = theta[1] * rng.chisquare(max(n - 1, 1)) + total * total / n
        sums = [float(total), float(squares)]
    elif isinstance(family, NormalMeanFamily):
        # The sum of unclipped records: a declared interval is taken to be wide enough.
        drawn = rng.normal(n * theta, math.sqrt(n * family.variance))
        sums = [float(x) for x in np.clip(drawn, n * family.low, n * family.high)]
    else:
        raise InvalidParameter("a family", family.name, "one that can be simulated", "a family with a simulator")
    return family.update(prior, sums, n), sums


def integers(prepared: PreparedSums, mechanism: Additive, sums: list[float], n: int) -> list[int]:
    """Return the integers of one group that the mechanism adds noise to."""
    layout, family = mechanism.layout, prepared.family
    if isinstance(family, (NormalMeanFamily, GammaExponentialFamily, GammaPoissonFamily)):
        middle = 0.0 if isinstance(family, GammaPoissonFamily) else (family.low + family.high) / 2
        units = [math.floor((each - n * middle) / layout.grid + 0.5) for each in sums]
        return units if layout.count is not None else [*units, n * round(1 / layout.count_grid)]
    if isinstance(family, NormalInverseGammaFamily):
        middle, reach = (family.low + family.high) / 2, (family.high - family.low) / 2
        around = sums[1] - 2 * middle * sums[0] + n * middle * middle
        first = math.floor((sums[0] - n * middle) / layout.grid + 0.5)
        both = [first, math.floor(around / (reach * layout.grid) + 0.5)]
        return both if layout.count is not None else [*both, n * round(1 / layout.count_grid)]
    counts = [round(each) for each in sums]
    if len(counts) == 1:
        counts.append(n - counts[0])
    return counts[: len(layout.names)]


def noisy_statistics(mechanism: Additive, values: list[int], rng: np.random.Generator) -> NoisyStatistics:
    """Add simulated noise: for plans and experiments, without any promise of privacy."""
    scale = mechanism.scale
    if mechanism.noise == LAPLACE:
        p = -math.expm1(-1 / scale)
        noise = rng.geometric(p, len(values)) - rng.geometric(p, len(values))
    elif scale > _ROUND:
        noise = np.rint(rng.normal(0, scale, len(values))).astype(int)
    else:
        k = np.arange(-math.ceil(12 * scale) - 1, math.ceil(12 * scale) + 2)
        mass = np.exp(-(k**2) / (2 * scale * scale))
        noise = rng.choice(k, len(values), p=mass / mass.sum())
    return mechanism.statistics(tuple(value + int(extra) for value, extra in zip(values, noise, strict=True)))


def noise_aware(prepared: PreparedSums, statistics: NoisyStatistics) -> Posterior:
    """Return the posterior that a release of these statistics would have."""
    release = Release(dict(prepared.described), prepared.numbers, {"all": statistics}, _NOTHING)
    return Posterior.from_release(release)


def _width(member: Any, index: int) -> float:
    tail = (1 - LEVEL) / 2
    low, high = (np.ravel(member.quantile(p))[index] for p in (tail, 1 - tail))
    return float(high - low)


def _own_log_density(member: Any, index: int, points: np.ndarray) -> np.ndarray:
    """Return the log density of one coordinate of the posterior without noise."""
    if isinstance(member, Dirichlet):
        own = member.alphas[index]
        return np.asarray(Beta(own, sum(member.alphas) - own).log_density(points[:, [index]]))
    if isinstance(member, (Beta, Gamma)):
        return np.asarray(member.log_density(points))
    if isinstance(member, MeanVariance):
        one = np.ones(1)
        numbers = (member.location, member.weight, member.shape, member.scale)
        alone = MeanVarianceMixture(one, *(np.array([x]) for x in numbers))
        return alone.marginal(index).log_density(points[:, index])
    mean, variance = float(member.mean()[index]), float(member.variance()[index])
    return -((points[:, index] - mean) ** 2) / (2 * variance) - 0.5 * math.log(2 * math.pi * variance)
