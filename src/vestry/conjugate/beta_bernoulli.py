"""Yes or no: a Bernoulli likelihood with a Beta prior [GeumlekSC17, sec. 3].

S(x) = x, theta the logit of the success probability p, T = (logit p, log(1 - p)), eta = (alpha, alpha + beta) and
C(eta) = log G(eta1) + log G(eta2 - eta1) - log G(eta2), with G the gamma function.

Errata: [GeumlekSC17, sec. 3] prints G for log G in C, and calls psi_1 of its Corollary 2 the digamma where it is the
trigamma function; [FouldsGWC16] prints h(x) = 0 where it is 1.

The noise-aware Beta-Bernoulli posterior: exact summation over the counts that the noise hides.

The plug-in posterior takes the noisy count as exact, and its intervals are too short. Here the count is summed out,

    p(theta | z) = sum over s of Beta(theta; a + s, b + n - s) p(s | z),   p(s | z) ~ p(s) P(noise = z - s),

with p(s) the prior predictive and the distribution of the noise known. The noisy value is never projected: z below 0 or
above n is informative as it stands. See [BernsteinS18] for the idea in exponential families.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betainc, betaincinv, betaln, digamma, xlog1py, xlogy

from vestry.conjugate.conjugate_model import ConjugateModel
from vestry.conjugate.draw_cost import draw, grouped_draw
from vestry.conjugate.family import (
    CategoryFamily,
    ConjugateFamily,
    Distribution,
    check_range,
    noisy_values,
    points,
    pool_noise,
)
from vestry.conjugate.pooled_beta import PooledBeta, pooled_beta
from vestry.errors import InvalidParameter
from vestry.mechanisms.statistic_family import Layout
from vestry.model.averaging import Averaged
from vestry.model.request import By, Size, levels_of
from vestry.noise.bits import BitSource
from vestry.numerics import Array
from vestry.posterior.discrete_noise import (
    DROP,
    Noise,
    lattice,
    log_ratio,
    nodes_needed,
    noise_of,
    thin,
    window,
)
from vestry.posterior.mixture import BetaMixture, normalise
from vestry.posterior.noisy_data import BINOMIAL
from vestry.posterior.tabulated import PROBABILITY, Tabulated, multiply
from vestry.privacy.event import Event
from vestry.privacy.neighbours import Adjacency
from vestry.releases import Draws, NoisyStatistics
from vestry.schema.domain import Domain, Levels
from vestry.schema.statistics import Indicator, SumQuery


@dataclass(frozen=True)
class Beta(Distribution):
    """The Beta distribution of a success probability."""

    alpha: float
    beta: float

    def __post_init__(self) -> None:
        self.require_positive("alpha", "beta")

    @property
    def concentrations(self) -> tuple[float, float]:
        """The numbers alpha and beta."""
        return self.alpha, self.beta

    def natural(self) -> Array:
        """Return eta = (alpha, alpha + beta)."""
        return np.array([self.alpha, self.alpha + self.beta])

    def log_density(self, theta: ArrayLike) -> Array:
        """Return (alpha - 1) log p + (beta - 1) log(1 - p) - log B(alpha, beta)."""
        p = points(theta, 1)[..., 0]
        inside = (p >= 0) & (p <= 1)
        q = np.where(inside, p, 0.5)
        terms = xlogy(self.alpha - 1, q) + xlog1py(self.beta - 1, -q) - betaln(self.alpha, self.beta)
        return np.where(inside, terms, -np.inf)

    def mean(self) -> Array:
        """Return alpha/(alpha + beta)."""
        return np.array([self.alpha / (self.alpha + self.beta)])

    def variance(self) -> Array:
        """Return m (1 - m)/(alpha + beta + 1), m the mean."""
        total = self.alpha + self.beta
        return np.array([(self.alpha / total) * (self.beta / total) / (total + 1)])

    def cdf(self, x: ArrayLike) -> Array:
        """Return the regularised incomplete beta function."""
        clipped = np.clip(np.asarray(x, dtype=float), 0, 1)
        return np.asarray(betainc(np.array([self.alpha]), self.beta, clipped))

    def quantile(self, p: ArrayLike) -> Array:
        """Return its inverse."""
        return np.asarray(betaincinv(np.array([self.alpha]), self.beta, np.asarray(p, dtype=float)))

    def draw(self, rng: np.random.Generator, size: int) -> Array:
        """Return draws of shape (size, 1)."""
        return rng.beta(self.alpha, self.beta, size=(size, 1))

    @staticmethod
    def log_partition(eta: ArrayLike) -> float:
        """Return C(eta); infinite unless 0 < eta1 < eta2."""
        first, total = np.asarray(eta, dtype=float)
        return float(betaln(first, total - first)) if 0 < first < total else math.inf

    @staticmethod
    def gradient(eta: ArrayLike) -> Array:
        """Return E[T] = (psi(eta1) - psi(eta2 - eta1), psi(eta2 - eta1) - psi(eta2))."""
        first, total = np.asarray(eta, dtype=float)
        low, high, both = digamma(first), digamma(total - first), digamma(total)
        return np.array([low - high, high - both])


@dataclass(frozen=True)
class BetaBernoulliFamily(CategoryFamily):
    """Records of 0 or 1 (or anything between: a statistical query with values in [0, 1])."""

    name: ClassVar[str] = "beta-bernoulli"
    data_kind: ClassVar[str] = BINOMIAL
    member: ClassVar[type[Distribution]] = Beta
    prior_words: ClassVar[tuple[str, str]] = ("alpha and beta", "6,12")

    def bounds(self) -> tuple[Array, Array]:
        """Return 0 and 1."""
        return np.zeros(1), np.ones(1)

    def added(self, numbers: Sequence[Any], sums: Sequence[Any], count: Any, weight: Any) -> tuple[Any, ...]:
        """Return alpha/m + r s and beta/m + r (n - s), with s successes among n records."""
        (alpha, beta), (successes,) = numbers, sums
        return alpha + weight * successes, beta + weight * (count - successes)

    def draw_event(self, prior: Beta, weight: float, adjacency: Adjacency) -> Event:
        """Return the event of one draw.

        Privacy
        -------
        With a, b = alpha/m, beta/m and units of k records:

        - replace, n public: the boundary pairs, no success against k and no failure against k
          [GeumlekSC17, Cor. 2, where the n of pset must be r n];
        - replace, n private: the same at the least n, which is k. A larger n is post-processing: if
          V ~ Beta(a + b, c) is independent of U ~ Beta(a, b), then U V ~ Beta(a, b + c) whenever a + b is the same,
          so further failures only hide, and further successes by symmetry;
        - add-remove: Gamma(a) against Gamma(a + r k), a the smaller of the two: the limit of many records of the
          other kind. It dominates, because Beta(a, b) is X/(X + Y) of X ~ Gamma(a) and an independent Y ~ Gamma(b).

        Groups: see `vestry.conjugate.draw_cost.grouped_draw`.

        That a unit whose k records are mixed costs no more than one whose records agree is brute force.
        """
        return worst_beta(prior.alpha, prior.beta, adjacency, power=weight)

    # What is released, and draws

    def layout(self, adjacency: Adjacency, *, grid: float | None = None) -> Layout:
        """Lay out the successes where the count is public; otherwise successes and failures.

        One unit of k records moves them by k; by 2k and sqrt(2) k, or k under add-remove. The redundant pair of
        [FouldsGWC16, sec. 3.2] costs twice as much where the count is public.
        """
        return success_layout(adjacency)

    def probabilities(self) -> int:
        """Return 2: success and failure."""
        return 2

    def exact_draws(
        self, bits: BitSource, parameters: Sequence[Fraction], size: int, *, truncation: float | None = None
    ) -> Draws:
        """Draw exactly, on a grid of 2^-40."""
        from vestry.noise.exact_sampling import beta
        from vestry.noise.grid import PROBABILITY_GRID

        ends = {} if truncation is None else {"low": truncation, "high": 1 - truncation}
        shares = beta(bits, *parameters, grid=PROBABILITY_GRID, size=size, **ends)
        return Draws(tuple((x,) for x in shares), PROBABILITY_GRID)

    # The posterior of what was released

    def noise_aware(self, prior: Beta, statistics: NoisyStatistics) -> BetaMixture:
        """Sum over the successes; or over successes and failures, if the count is private."""
        values, noise = noisy_values(statistics, 1), noise_of(statistics)
        numbers = {"alpha": prior.alpha, "beta": prior.beta}
        check_range(statistics)
        if statistics.count is None:
            return private_count(values[0], values[1], noise=noise, **numbers)
        return public_count(values[0], count=statistics.count, noise=noise, **numbers)

    def plug_in(self, prior: Beta, statistics: NoisyStatistics) -> BetaMixture:
        """Return Beta(a + s, b + f), the successes clipped to [0, n]; both counts to 0 and above, if n is private."""
        return plug_in_beta(noisy_values(statistics, 1), count=statistics.count, alpha=prior.alpha, beta=prior.beta)

    def multiplied(self, prior: Beta, contents: Sequence[NoisyStatistics]) -> Tabulated:
        """Return the product of what releases of other people say, over the prior."""
        posteriors = [self.noise_aware(prior, each) for each in contents]
        return multiply(posteriors, lambda x: prior.log_density(x[:, None]), PROBABILITY)

    def group_numbers(self, statistics: NoisyStatistics) -> tuple[float, float]:
        """Return successes and failures."""
        check_range(statistics)
        values = noisy_values(statistics, 1)
        successes = float(values[0])
        return successes, float(values[1]) if statistics.count is None else statistics.count - successes

    def pooled(self, contents: Sequence[NoisyStatistics]) -> PooledBeta:
        """Return proportions from a Beta population, all of it unknown: see `vestry.conjugate.pooled_beta`."""
        successes, failures = zip(*map(self.group_numbers, contents), strict=True)
        return pooled_beta(successes, failures, noise=pool_noise(contents[0], contents[0].scale))

    def predict(self, theta: Array, size: int, rng: np.random.Generator) -> Array:
        """Draw the number of successes."""
        return rng.binomial(size, np.clip(theta, 0.0, 1.0)).astype(float)

    # Plans and audits

    def simulate(self, theta: Array, n: int, rng: np.random.Generator) -> list[float]:
        """Draw the number of successes among n records."""
        return [float(rng.binomial(n, min(max(theta[0], 0.0), 1.0)))]

    def to_units(self, layout: Layout, sums: Sequence[float], n: int) -> list[int]:
        """Return the successes, and the failures where they are released."""
        successes = round(sums[0])
        return [successes, n - successes][: len(layout.names)]


def plug_in_beta(noisy: Array, *, count: int | None, alpha: float, beta: float) -> BetaMixture:
    """Return Beta(a + s, b + f) of projected counts; see `BetaBernoulliFamily.plug_in`."""
    if count is None:
        successes, failures = np.maximum(noisy, 0.0)
    else:
        successes = np.clip(noisy[0], 0.0, count)
        failures = count - successes
    return BetaMixture(np.ones(1), np.array([alpha + successes]), np.array([beta + failures]))


def success_layout(adjacency: Adjacency) -> Layout:
    """Lay out successes, and failures where the count is private; see `BetaBernoulliFamily.layout`."""
    k = adjacency.rows
    if adjacency.count is not None:
        return Layout(("successes",), k, k, count=adjacency.count)
    names = ("successes", "failures")
    return Layout(names, 2 * k, math.sqrt(2) * k) if adjacency.replaces else Layout(names, k, k)


def worst_beta(a: float, b: float, adjacency: Adjacency, *, power: float) -> Event:
    """Return the event of one draw from Beta(a + power successes, b + power failures)."""
    shift, low, high = power * adjacency.rows, min(a, b), max(a, b)
    if adjacency.groups > 1:
        return grouped_draw(low, shift, adjacency)
    if not adjacency.replaces:
        return draw(gammas=((low, shift),), neighbours=adjacency.neighbours)
    others = 0.0 if adjacency.count is None else power * (adjacency.count - adjacency.rows)
    # Without other records the two boundary pairs are one, seen from both ends.
    pairs = ((low, high + others + shift, shift), (high, low + others + shift, shift))
    return draw(betas=pairs if others > 0 else pairs[:1], neighbours=adjacency.neighbours)


@dataclass(frozen=True)
class BetaBernoulli(ConjugateModel):
    """A Bernoulli likelihood with a Beta prior.

    Attributes
    ----------
    column
        A column of levels.
    success
        The level whose probability is asked for; all others are failures.
    by
        A column of levels, or several: one probability for each.
    prior
        alpha and beta.
    pool
        Whether groups learn from each other when the release is read: see `vestry.conjugate.pooled_beta`.
    """

    column: str
    success: str | int | bool
    by: By = None
    prior: tuple[float, float] = (1.0, 1.0)
    pool: bool = False

    name: ClassVar[str] = "beta-bernoulli"
    one_number: ClassVar[bool] = True
    family_type: ClassVar[type[ConjugateFamily]] = BetaBernoulliFamily

    def family(self, domains: Mapping[str, Domain]) -> BetaBernoulliFamily:
        """Return the Bernoulli family."""
        levels = levels_of(domains, self.column)
        self.groups(domains)
        if self.success not in levels.values:
            raise self._not_a_level(levels)
        return BetaBernoulliFamily()

    def check(self, domains: Mapping[str, Domain]) -> None:
        """Refuse what does not fit; in a study file 1 is not a truth value, though Python holds it equal to one."""
        super().check(domains)
        levels = levels_of(domains, self.column)
        if type(self.success) is not type(levels.values[0]):
            raise self._not_a_level(levels)

    def _not_a_level(self, levels: Levels) -> InvalidParameter:
        named = [json.dumps(level, ensure_ascii=False) for level in levels.values]
        allowed = f"one of the levels ({', '.join(named)})"
        return InvalidParameter("success", self.success, allowed, f"success = {named[-1]}")

    def noisy(self, domains: Mapping[str, Domain], layout: Layout) -> SumQuery:
        """Collect the successes; and the failures, where the count is private."""
        return SumQuery(self.keys, self._indicators(domains)[: len(layout.names)])

    def terms(self, domains: Mapping[str, Domain], layout: Layout) -> tuple[Indicator, ...]:
        """Add 1 for a success."""
        return self._indicators(domains)[:1]

    def averaged(self, domains: Mapping[str, Domain]) -> Averaged:
        """Average successes over persons."""
        return Averaged(self._indicators(domains)[:1], (1,))

    def size(self, domains: Mapping[str, Domain]) -> Size:
        """Return one probability per group."""
        return super().size(domains)._replace(number=len(self.groups(domains)))

    def question(self) -> str:
        """Say what is asked."""
        return f"The probability that {self.column} is {self.success}{self.by_words()}"

    def _indicators(self, domains: Mapping[str, Domain]) -> tuple[Indicator, Indicator]:
        levels = levels_of(domains, self.column)
        name = levels.names[levels.values.index(self.success)]
        others = tuple(level for level in levels.names if level != name)
        return Indicator(self.column, (name,)), Indicator(self.column, others)


# Components that a sum over two counts may have before its panels are widened.
_CELLS = 1_000_000


def public_count(z: float, *, count: int, alpha: float, beta: float, noise: Noise) -> BetaMixture:
    """Return the posterior from one noisy count of successes among a public number of records.

    p(s | z) ~ BetaBinomial(s; n, a, b) P(noise = z - s), s = 0 ... n. All but 1e-15 of the weight is kept; time and
    memory grow with the scale of the noise and not with n.
    """
    n, noisy = np.array([float(count)]), np.array([float(z)])
    anchor = np.clip(noisy, 0.0, n)

    def factors(s: Array, *, concave: bool) -> Array:
        total = np.zeros(s.shape)
        if (alpha >= 1) == concave:
            total = total + log_ratio(s, alpha)
        if (beta >= 1) == concave:
            total = total + log_ratio(n - s, beta)
        return total

    def hill(s: Array) -> Array:
        return noise.log_weight(s, noisy, anchor) + factors(s, concave=True)

    # A convex factor is monotone: between the ends it adds no more than its own difference.
    spread = sum(log_ratio(np.zeros(1), each) - log_ratio(n, each) for each in (alpha, beta) if each < 1)
    low, high = window(hill, np.zeros(1), n, drop=DROP + spread)
    s, cells = lattice(low[0], high[0])
    width = np.sqrt((alpha + s) * (beta + (n - s)) / (n + alpha + beta))
    s, logs = thin(s, hill(s) + factors(s, concave=False) + cells, width)
    weights, places = normalise(logs)
    return BetaMixture(weights, alpha + s[places], beta + (n - s[places]))


def private_count(successes: float, failures: float, *, alpha: float, beta: float, noise: Noise) -> BetaMixture:
    """Return the posterior from noisy counts of successes and failures, the number of records unknown.

    The prior of the number of records n = s + f is the improper uniform one on n >= 0, so that

        p(s, f | z) ~ BetaBinomial(s; s + f, a, b) P(noise = z_s - s) P(noise = z_f - f),   s, f >= 0.

    A sum over both. BetaBinomial is at most 1, so the window follows from the noise alone: it reaches down to DROP
    below the weight of the point nearest to z.
    """
    noisy = np.array([float(successes), float(failures)])
    nearest = np.maximum(noisy, 0.0)
    prior_weight = _log_beta_binomial(nearest[0], nearest[1], alpha, beta)
    drop = DROP - prior_weight + 2 * np.log(2 * noise.reach(1.0) + 1)
    total = nearest.sum() + 2 * noise.scale
    for _ in range(2):  # the second time at the total that the first has found
        # Tilting each axis by the slope of the coupling leaves a factor that is smooth over many counts.
        tilt = -float(digamma(alpha + beta + total) - digamma(total + 1))
        tables = [
            _table(z, top, (alpha, beta)[axis], alpha + beta, noise=noise, drop=drop, tilt=tilt)
            for axis, (z, top) in enumerate(zip(noisy, nearest, strict=True))
        ]
        cells = math.prod(nodes_needed(points, width) for points, _, width in tables)
        wider = max(1.0, math.sqrt(cells / _CELLS))
        (s, s_logs), (f, f_logs) = (thin(points, logs, wider * width) for points, logs, width in tables)
        n = s[:, None] + f
        logs = s_logs[:, None] + f_logs - tilt * n - log_ratio(n, alpha + beta)
        weights, places = normalise(logs.ravel())
        total = float(weights @ n.ravel()[places])
    row, column = np.unravel_index(places, n.shape)
    return BetaMixture(weights, alpha + s[row], beta + f[column])


def _table(
    z: float, nearest: float, own: float, all_: float, *, noise: Noise, drop: float, tilt: float
) -> tuple[Array, Array, Array]:
    """List the counts of one kind, with log weights Gamma(s + a)/Gamma(s + 1) P(noise = z - s) e^(tilt s).

    The third is the scale on which the rest of the sum varies: the component's own width is sqrt(s + a), and the
    logarithm of the coupling Gamma(n + 1)/Gamma(n + A) bends by at most A/((s + 1)(s + 1 + A)).
    """
    reach = noise.reach(drop)
    s, cells = lattice(np.floor(max(0.0, z - reach)), np.ceil(nearest + reach))
    logs = noise.log_weight(s, np.array(z), np.array(nearest)) + log_ratio(s, own) + tilt * s
    return s, logs + cells, 1 / np.sqrt(1 / (s + own) + all_ / ((s + 1) * (s + 1 + all_)))


def _log_beta_binomial(s: float, f: float, alpha: float, beta: float) -> float:
    """Return log of C(s+f, s) B(a+s, b+f)/B(a, b)."""
    counts, parameters = np.array([s, f, s + f]), np.array([alpha, beta, alpha + beta])
    return float((log_ratio(counts, parameters) - log_ratio(np.zeros(3), parameters)) @ [1, 1, -1])
