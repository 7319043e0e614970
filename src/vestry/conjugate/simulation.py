"""Datasets made up from a prior, and what a release of them would give, before any record is read."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from vestry.conjugate.family import ConjugateFamily, family_from
from vestry.conjugate.table_forecast import LEVEL, LOOKED_AT, released_width, table_widths
from vestry.mcmc.truncated_draws import truncated_beta
from vestry.mechanisms.additive_noise import Additive
from vestry.mechanisms.posterior_sample import PosteriorSample
from vestry.mechanisms.truncated_posterior import TruncatedSample
from vestry.model.request import WIDE, PreparedSums
from vestry.numerics import Array
from vestry.posterior import Posterior
from vestry.posterior.discrete_noise import law
from vestry.posterior.mixture import ClippedMeans
from vestry.releases import Certificate, NoisyStatistics, Release

# Simulated datasets.
_DATASETS = 32
# Draws from a posterior that is truncated.
_DRAWS = 4000
# Draws from a truncated posterior; and so many from the whole one must lie inside to stand for it.
_TRUNCATED, _INSIDE = 1000, 200
_NOTHING = Certificate({}, {}, "simulated", "", 0.0, "", "", {})


Widths = tuple[float, ...]


def forecast(prepared: PreparedSums, n: int, rng: np.random.Generator) -> tuple[Widths, Widths, float | None]:
    """Return the width, the width without privacy and the divergence that are expected at n records per group.

    Widths are averaged over parameters; those of different kinds, such as a mean and a variance, have one each.
    Parameters are drawn from the prior and records from the model. Noise is not drawn: what it adds to the width has a
    closed form (`released_width`), unless a family has no formula for the noise on its estimate. The divergence is that
    of posterior draws, and None where it is infinite.
    """
    look = _widths_of_draws
    if isinstance(prepared.mechanism, Additive):
        if not prepared.numbers:  # a table of unknown concentration
            return _table_widths(prepared, prepared.mechanism, n, rng)
        look = _noisy_widths
    looks = [look(prepared, n, (part, _DATASETS), rng) for part in range(_DATASETS)]
    widths, exact, kls = zip(*looks, strict=True)
    kl = float(np.mean(kls))
    return _averaged(widths), _averaged(exact), max(0.0, kl) if math.isfinite(kl) else None


def _averaged(widths: Sequence[Widths]) -> Widths:
    return tuple(float(each) for each in np.mean(widths, axis=0))


def _of_kinds(family: ConjugateFamily, widths: Sequence[float]) -> Widths:
    """Return one width for each kind of parameter."""
    return tuple(widths) if family.parameters else (float(np.mean(widths)),)


def _table_widths(
    prepared: PreparedSums, mechanism: Additive, n: int, rng: np.random.Generator
) -> tuple[Widths, Widths, None]:
    public, levels = mechanism.layout.count is not None, family_from(prepared.described).probabilities() or 2
    width, exact = table_widths(levels, None, mechanism.deviation, n, rng, public=public)
    return (width,), (exact,), None


def _noisy_widths(
    prepared: PreparedSums, n: int, stratum: tuple[int, int], rng: np.random.Generator
) -> tuple[Widths, Widths, float]:
    """Return the width and the width without privacy for one simulated dataset."""
    mechanism, (family, prior) = prepared.mechanism, _family_and_prior(prepared)
    assert isinstance(mechanism, Additive)  # noqa: S101 - the caller has looked
    member, sums = simulated(family, prior, n, rng, stratum=stratum)
    units = family.to_units(mechanism.layout, sums, n)
    ends, content = _ends(member, family.inside(member)), mechanism.statistics(tuple(units))
    exact, known = ends[:, 1] - ends[:, 0], np.diff(_ends(prior, family.inside(prior)))[:, 0]
    noise = [family.noise_on_estimate(content, float(middle), i) for i, middle in enumerate(ends.mean(axis=1))]
    if None in noise:  # a family without a formula
        post = noise_aware(prepared, noisy_statistics(mechanism, units, rng)).distributions["all"]
        widths = [float(np.diff(post.marginal(i).interval(LEVEL))[0]) for i in range(len(noise))]
    else:
        widths = released_width(exact, known, WIDE * np.array(noise, dtype=float)).tolist()
    return _of_kinds(family, widths), _of_kinds(family, exact.tolist()), math.inf


def _widths_of_draws(
    prepared: PreparedSums, n: int, stratum: tuple[int, int], rng: np.random.Generator
) -> tuple[Widths, Widths, float]:
    """Return the same for posterior draws: of the distribution that they come from."""
    mechanism, (family, prior) = prepared.mechanism, _family_and_prior(prepared)
    member, sums = simulated(family, prior, n, rng, stratum=stratum)
    exact = _of_kinds(family, _widths(member))
    if isinstance(mechanism, PosteriorSample):
        scales = {"likelihood_power": mechanism.likelihood_power, "prior_scale": mechanism.prior_scale}
        tempered = family.update(prior, sums, n, **scales)
        return _of_kinds(family, _widths(tempered)), exact, member.kl(tempered)
    assert isinstance(mechanism, TruncatedSample)  # noqa: S101 - the only one left
    whole = family.update(prior, sums, n, likelihood_power=1 / mechanism.temperature)
    draws = _draw_truncated(whole, mechanism.truncation, rng.spawn(1)[0])  # the next dataset is as for other mechanisms
    low, high = np.quantile(draws, [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=0, method="weibull")
    # A truncated posterior gives no weight to parameters that the posterior allows.
    return _of_kinds(family, (high - low)[:LOOKED_AT]), exact, math.inf


def _family_and_prior(prepared: PreparedSums) -> tuple[ConjugateFamily, Any]:
    family = family_from(prepared.described)
    return family, family.prior(prepared.numbers)


def _draw_truncated(whole: Any, low: float, rng: np.random.Generator) -> np.ndarray:
    """Draw from a posterior whose every component is at least `low`.

    Where few draws from the whole one lie inside, each component is truncated by itself, and the intervals are about as
    wide: exactly so for two components.
    """
    if whole.dimension == 1:
        alpha, beta = whole.concentrations
        return truncated_beta(rng, np.full(_TRUNCATED, alpha), beta, low=low, high=1 - low)[:, None]
    draws = np.asarray(whole.draw(rng, _DRAWS))
    inside = draws[(draws >= low).all(axis=1)]
    if len(inside) >= _INSIDE:
        return inside
    total, high = sum(whole.concentrations), 1 - (len(whole.concentrations) - 1) * low
    alone = np.array(whole.concentrations[:LOOKED_AT])[:, None] * np.ones(_TRUNCATED)
    return truncated_beta(rng, alone, total - alone, low=low, high=high).T


def simulated(
    family: ConjugateFamily, prior: Any, n: int, rng: np.random.Generator, *, stratum: tuple[int, int] = (0, 1)
) -> tuple[Any, list[float]]:
    """Draw parameters from the prior and n records from the model; return the posterior without noise, and the sums.

    In one dimension the parameter is drawn from one of several equal shares of the prior.
    """
    if prior.dimension == 1:
        theta = np.ravel(prior.quantile((stratum[0] + rng.random()) / stratum[1]))
    else:
        theta = prior.draw(rng, 1)[0]
    sums = family.simulate(theta, n, rng)
    return family.update(prior, sums, n), sums


def noisy_statistics(mechanism: Additive, values: list[int], rng: np.random.Generator) -> NoisyStatistics:
    """Add simulated noise: for plans and experiments, without any promise of privacy."""
    noise = simulated_noise(mechanism, (len(values),), rng)
    return mechanism.statistics(tuple(value + int(extra) for value, extra in zip(values, noise, strict=True)))


def simulated_noise(mechanism: Additive, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    """Draw integers as the mechanism's noise is distributed."""
    return law(mechanism.noise, mechanism.scale, shape[-1]).draw(rng, shape)


def noise_aware(prepared: PreparedSums, statistics: NoisyStatistics) -> Posterior:
    """Return the posterior that a release of these statistics would have."""
    release = Release(dict(prepared.described), prepared.numbers, {"all": statistics}, _NOTHING)
    return Posterior.from_release(release)


def _ends(member: Any, inside: Any = None) -> Array:
    """Return the ends of the intervals that are looked at; of means that stay inside their interval, those inside."""
    tail = (1 - LEVEL) / 2
    ends = np.stack([np.ravel(member.quantile(p))[:LOOKED_AT] for p in (tail, 1 - tail)], axis=1)
    if isinstance(inside, ClippedMeans):
        ends[: inside.means] = np.clip(ends[: inside.means], inside.low, inside.high)
    return ends


def _widths(member: Any) -> list[float]:
    return [float(each) for each in np.diff(_ends(member))[:, 0]]
