"""Yes or no: a Bernoulli likelihood with a Beta prior [GeumlekSC17, sec. 3].

S(x) = x, theta the logit of the success probability p, T = (logit p, log(1 - p)), eta = (alpha, alpha + beta) and
C(eta) = log G(eta1) + log G(eta2 - eta1) - log G(eta2), with G the gamma function.

Errata: [GeumlekSC17, sec. 3] prints G for log G in C, and calls psi_1 of its Corollary 2 the digamma where it is the
trigamma function; [FouldsGWC16] prints h(x) = 0 where it is 1.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betainc, betaincinv, betaln, digamma, xlog1py, xlogy

from vestry.conjugate.draw_cost import draw, moved
from vestry.conjugate.family import (
    Array,
    check_number,
    check_positive,
    check_scales,
    check_sums,
    kl_between,
    points,
    renyi_between,
)
from vestry.errors import InvalidParameter
from vestry.privacy.adjacency import Adjacency
from vestry.privacy.event import Event


@dataclass(frozen=True)
class Beta:
    """The Beta distribution of a success probability."""

    alpha: float
    beta: float

    dimension: ClassVar[int] = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "alpha", check_positive("alpha", self.alpha))
        object.__setattr__(self, "beta", check_positive("beta", self.beta))

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

    def renyi(self, other: Beta, order: float) -> float:
        """Return the Renyi divergence; infinite where order alpha + (1 - order) alpha' <= 0, or so for beta."""
        return renyi_between(self.natural(), other.natural(), order, partition=log_partition, gradient=gradient)

    def kl(self, other: Beta) -> float:
        """Return the Kullback-Leibler divergence."""
        return kl_between(self.natural(), other.natural(), partition=log_partition, gradient=gradient)


def log_partition(eta: ArrayLike) -> float:
    """Return C(eta); infinite where it does not exist."""
    first, total = np.asarray(eta, dtype=float)
    if not 0 < first < total:
        return math.inf
    return float(betaln(first, total - first))


def gradient(eta: ArrayLike) -> Array:
    """Return E[T] = (psi(eta1) - psi(eta2 - eta1), psi(eta2 - eta1) - psi(eta2))."""
    first, total = np.asarray(eta, dtype=float)
    low, high, both = digamma(first), digamma(total - first), digamma(total)
    return np.array([low - high, high - both])


@dataclass(frozen=True)
class BetaBernoulliFamily:
    """Records of 0 or 1 (or anything between: a statistical query with values in [0, 1])."""

    name: ClassVar[str] = "beta-bernoulli"

    def statistic(self, x: ArrayLike) -> Array:
        """Return x, clipped to [0, 1]; a missing value counts as 0."""
        record = np.asarray(x, dtype=float).reshape(1)
        return np.clip(np.where(np.isnan(record), 0.0, record), 0, 1)

    def bounds(self) -> tuple[Array, Array]:
        """Return 0 and 1."""
        return np.zeros(1), np.ones(1)

    def extremes(self) -> Iterator[Array]:
        """Yield -1 and 1."""
        yield np.array([-1.0])
        yield np.array([1.0])

    log_partition = staticmethod(log_partition)
    gradient = staticmethod(gradient)

    def normalisable(self, eta: ArrayLike) -> bool:
        """Tell whether 0 < eta1 < eta2."""
        return log_partition(eta) < math.inf

    def prior(self, numbers: Sequence[float]) -> Beta:
        """Read (alpha, beta), each above 0."""
        if len(numbers) != 2:
            raise InvalidParameter("the prior of beta-bernoulli", tuple(numbers), "alpha and beta", "for example 6,12")
        return Beta(*numbers)

    def update(
        self,
        prior: Beta,
        sums: Sequence[float],
        count: float,
        *,
        likelihood_power: float = 1.0,
        prior_scale: float = 1.0,
    ) -> Beta:
        """Return Beta(alpha/m + r s, beta/m + r (n - s)), with s successes among n records."""
        r, m = check_scales(likelihood_power, prior_scale)
        (successes,) = check_sums(sums, 1)
        failures = check_number("count", count) - successes
        return Beta(prior.alpha / m + r * successes, prior.beta / m + r * failures)

    def worst_draw(
        self, prior: Beta, population: Adjacency, *, likelihood_power: float = 1.0, prior_scale: float = 1.0
    ) -> Event:
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

        Groups: see `vestry.conjugate.draw_cost.moved`.

        That a unit whose k records are mixed costs no more than one whose records agree is brute force.
        """
        r, m = check_scales(likelihood_power, prior_scale)
        return worst_beta(prior.alpha / m, prior.beta / m, population, power=r)

    def order_limit(
        self, prior: Beta, population: Adjacency, *, likelihood_power: float = 1.0, prior_scale: float = 1.0
    ) -> float:
        """Return lambda* = 1 + min(alpha, beta)/(m r k) [GeumlekSC17, Cor. 1, there with m = r = k = 1]."""
        r, m = check_scales(likelihood_power, prior_scale)
        return 1 + min(prior.alpha, prior.beta) / m / (r * population.rows)

    def to_dict(self) -> dict[str, Any]:
        """Return the name."""
        return {"name": self.name}


def worst_beta(a: float, b: float, population: Adjacency, *, power: float) -> Event:
    """Return the event of one draw from Beta(a + power successes, b + power failures)."""
    shift, low, high = power * population.rows, min(a, b), max(a, b)
    if population.groups > 1:
        return moved(low, shift, population)
    if not population.replaces:
        return draw(gammas=((low, shift),), neighbours=population.neighbours)
    others = 0.0 if population.count is None else power * (population.count - population.rows)
    # Without other records the two boundary pairs are one, seen from both ends.
    pairs = ((low, high + others + shift, shift), (high, low + others + shift, shift))
    return draw(betas=pairs if others > 0 else pairs[:1], neighbours=population.neighbours)
