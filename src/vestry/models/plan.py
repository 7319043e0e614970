"""What each mechanism would give, before anything is spent: simulated from the prior and from declarations alone.

Parameters are drawn from the prior, records from the model, noise from its law; then the posterior is computed as it
will be. No record is read. The generator is seeded by the request, so that two looks at one plan agree.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, Decimal
from typing import Any

import numpy as np

from vestry.certificate import Certificate, NoisyStatistics, Release
from vestry.errors import InvalidParameter, Unreachable, VestryError
from vestry.families import (
    Beta,
    Dirichlet,
    Gamma,
    GammaExponential,
    GammaPoisson,
    MeanVariance,
    NormalInverseGamma,
    NormalMean,
)
from vestry.mechanisms.additive import LAPLACE, Additive
from vestry.mechanisms.exponential import TruncatedSample, truncated_beta
from vestry.mechanisms.posterior_sample import PosteriorSample
from vestry.models.model import groups_of
from vestry.models.request import Frame, Prepared, Request
from vestry.posterior import Posterior
from vestry.posterior.mean_variance import MeanVarianceMixture
from vestry.privacy.guarantee import Guarantee

# The number of records where none is declared.
ASSUMED = 1000
LEVEL = 0.9
# Simulated datasets, and draws from each posterior, whose quantiles are the interval's ends.
_DATASETS, _DRAWS = 64, 4000
# Draws from a truncated law; and so many from the whole law must lie inside to stand for it.
_TRUNCATED, _INSIDE = 1000, 200
# Parameters whose intervals are averaged, and points at which two laws are compared.
_LOOKED_AT, _POINTS = 4, 24
_SWAMPED = 2.0
# Beyond this scale a rounded normal cannot be told from the discrete Gaussian law.
_ROUND = 3.0


@dataclass(frozen=True)
class Expectation:
    """What one mechanism is expected to give.

    Attributes
    ----------
    mechanism, parameter, value
        The mechanism and what it was calibrated to; value is None where it cannot meet the guarantee.
    width
        The expected width of the 90 % interval of a parameter: of the noise-aware posterior, or of the law that draws
        come from.
    exact_width
        The same without privacy.
    kl
        The expected Kullback-Leibler divergence from the posterior without privacy to the released one; None where it
        is infinite.
    noise
        The standard deviation of the noise, in units of the statistics; None for draws.
    reason
        Why the guarantee cannot be met; empty if it can.
    """

    mechanism: str
    parameter: str
    value: float | None
    width: float | None
    exact_width: float | None
    kl: float | None
    noise: float | None = None
    reason: str = ""

    @property
    def swamped(self) -> bool:
        """Whether privacy makes the interval more than twice as wide."""
        return self.width is not None and self.exact_width is not None and self.width > _SWAMPED * self.exact_width

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return {**vars(self), "swamped": self.swamped}


def expectations(request: Request, frame: Frame, *, n: int | None) -> list[Expectation]:
    """Compare the mechanisms that the request leaves open, at n records, or at the assumed number."""
    return [_expectation(request.by(name), frame, n or ASSUMED, datasets=_DATASETS) for name in request.candidates()]


def advised(request: Request, frame: Frame, n: int | None) -> Request:
    """Return the request with its mechanism chosen: the least noise, or for draws the nearest law.

    Where n is private the assumed number stands for it, so that the advice does not depend on the records.
    """
    if len(request.candidates()) == 1:
        return request.by(request.candidates()[0])
    looks = [_expectation(request.by(name), frame, n or ASSUMED, datasets=0 if request.draws is None else _DATASETS)
             for name in request.candidates()]  # fmt: skip
    return request.by(best(looks).mechanism)


def best(known: Iterable[Expectation]) -> Expectation:
    """Return the one to take: the least noise, or of draws the smallest divergence.

    All noise is added to the same statistics, and the width of an interval grows with the noise's deviation.
    """
    listed = list(known)
    met = [each for each in listed if each.value is not None]
    if not met:
        raise Unreachable("the guarantee by any of the mechanisms", "; ".join(each.reason for each in listed))
    if met[0].noise is not None:
        return min(met, key=lambda each: each.noise or math.inf)
    return min(met, key=lambda each: math.inf if each.kl is None else each.kl)


def needed(request: Request, frame: Frame, *, n: int | None, width: float) -> Guarantee:
    """Return the budget at which the expected 90 % interval is as short as wanted: the guarantee, with another epsilon.

    Bisects on epsilon (mu, rho) with the same simulated parameters, records and noise quantiles.
    """
    asked = request.guarantee
    name = "epsilon" if hasattr(asked, "epsilon") else "mu" if hasattr(asked, "mu") else "rho"
    if not width > 0:
        raise InvalidParameter("width", width, "above 0", "for example --width 0.1")

    def at(amount: float) -> float:
        found = best(expectations(replace(request, guarantee=_with(asked, name, amount)), frame, n=n))
        return found.width or math.inf

    low, high = 1e-3, 32.0
    if at(high) > width:
        raise Unreachable(f"an interval of width {width:g}", f"{at(high):.3g} is the shortest with this many records")
    while high / low > 1.05:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if at(middle) <= width else (middle, high)
    exact = Decimal(repr(high))
    return _with(asked, name, float(exact.quantize(Decimal(1).scaleb(exact.adjusted() - 2), ROUND_CEILING)))


def _with(guarantee: Guarantee, name: str, amount: float) -> Guarantee:
    numbers = {key: value for key, value in guarantee.to_dict().items() if key != "neighbours"}
    return Guarantee.parse({**numbers, name: amount}, neighbours=guarantee.neighbours)


def _expectation(request: Request, frame: Frame, n: int, *, datasets: int) -> Expectation:
    groups = len(groups_of(frame.domains, request.model.by))
    each = max(1, n // groups)
    try:
        prepared = request.prepared(frame, n)
    except VestryError as error:
        return Expectation(request.mechanism, "", None, None, None, None, reason=str(error).rstrip("."))
    mechanism = prepared.mechanism
    found = Expectation(mechanism.name, mechanism.parameter, mechanism.value, None, None, None, _deviation(mechanism))
    if not datasets:
        return found
    rng = np.random.default_rng(_seed(request, frame, n))
    if hasattr(prepared, "expected"):
        width, exact = prepared.expected(each, rng)
        return replace(found, width=width, exact_width=exact)
    look = _noisy if isinstance(mechanism, Additive) else _sampled
    width, exact, kl = np.mean([look(prepared, each, part, rng) for part in _strata(datasets)], axis=0)
    nearness = max(0.0, float(kl)) if math.isfinite(kl) else None
    return replace(found, width=float(width), exact_width=float(exact), kl=nearness)


def _strata(datasets: int) -> list[tuple[int, int]]:
    return [(index, datasets) for index in range(datasets)]


def _deviation(mechanism: Any) -> float | None:
    """Return the standard deviation of integer noise: sqrt(2 q)/(1 - q), q = e^(-1/scale), for Laplace."""
    if not isinstance(mechanism, Additive):
        return None
    if mechanism.noise != LAPLACE:
        return mechanism.scale
    return math.sqrt(2) * math.exp(-0.5 / mechanism.scale) / -math.expm1(-1 / mechanism.scale)


def _noisy(
    prepared: Prepared, n: int, stratum: tuple[int, int], rng: np.random.Generator
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


def _sampled(
    prepared: Prepared, n: int, stratum: tuple[int, int], rng: np.random.Generator
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
    prepared: Prepared, n: int, rng: np.random.Generator, *, stratum: tuple[int, int] = (0, 1)
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
    elif isinstance(family, GammaPoisson):
        sums = [float(min(rng.poisson(n * theta[0]), n * family.high))]
    elif isinstance(family, GammaExponential):
        total = rng.standard_gamma(n) / max(theta[0], 1e-300)
        sums = [float(np.clip(total, n * family.low, n * family.high))]
    elif isinstance(family, NormalInverseGamma):
        total = rng.normal(n * theta[0], math.sqrt(n * theta[1]))
        squares = theta[1] * rng.chisquare(max(n - 1, 1)) + total * total / n
        sums = [float(total), float(squares)]
    elif isinstance(family, NormalMean):
        # The sum of unclipped records: a declared interval is taken to be wide enough.
        drawn = rng.normal(n * theta, math.sqrt(n * family.variance))
        sums = [float(x) for x in np.clip(drawn, n * family.low, n * family.high)]
    else:
        raise InvalidParameter("a family", family.name, "one that can be simulated", "a family with a simulator")
    return family.update(prior, sums, n), sums


def integers(prepared: Prepared, mechanism: Additive, sums: list[float], n: int) -> list[int]:
    """Return the integers of one group that the mechanism adds noise to."""
    layout, family = mechanism.layout, prepared.family
    if isinstance(family, (NormalMean, GammaExponential, GammaPoisson)):
        middle = 0.0 if isinstance(family, GammaPoisson) else (family.low + family.high) / 2
        units = [math.floor((each - n * middle) / layout.grid + 0.5) for each in sums]
        return units if layout.count is not None else [*units, n * round(1 / layout.count_grid)]
    if isinstance(family, NormalInverseGamma):
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
    layout, scale = mechanism.layout, mechanism.scale
    if mechanism.noise == LAPLACE:
        p = -math.expm1(-1 / scale)
        noise = rng.geometric(p, len(values)) - rng.geometric(p, len(values))
    elif scale > _ROUND:
        noise = np.rint(rng.normal(0, scale, len(values))).astype(int)
    else:
        k = np.arange(-math.ceil(12 * scale) - 1, math.ceil(12 * scale) + 2)
        mass = np.exp(-(k**2) / (2 * scale * scale))
        noise = rng.choice(k, len(values), p=mass / mass.sum())
    noisy = tuple(value + int(extra) for value, extra in zip(values, noise, strict=True))
    return NoisyStatistics(layout.names, noisy, mechanism.noise, scale, layout.grid, layout.count, layout.count_grid)


def noise_aware(prepared: Prepared, statistics: NoisyStatistics) -> Posterior:
    """Return the posterior that a release of these statistics would have."""
    release = Release(prepared.family.to_dict(), prepared.numbers, {"all": statistics}, _NOTHING)
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


def _seed(request: Request, frame: Frame, n: int) -> list[int]:
    """Seed by the question, not by mechanism or guarantee: mechanisms are compared on the same parameters."""
    columns = {column: frame.domains[column].to_dict() for column in request.model.columns}
    text = json.dumps([request.model.to_dict(), columns, n], sort_keys=True)
    return list(hashlib.sha256(text.encode()).digest())


_NOTHING = Certificate({}, {}, "simulated", "", 0.0, "", "", {})
