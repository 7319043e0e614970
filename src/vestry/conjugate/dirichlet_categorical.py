"""One of several categories: a categorical likelihood with a Dirichlet prior [GeumlekSC17, sec. 3 and appendix].

S(x) marks the category of x among all d of them; the count is then the sum of S and needs no coordinate of its own.
T(p) = log p, eta = alphas, C(eta) = sum_i log G(eta_i) - log G(sum_i eta_i), with G the gamma function.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betainc, betaincinv, digamma, gammaln, xlogy

import vestry.conjugate.dirichlet_posterior as dirichlet_posterior
from vestry.conjugate.beta_bernoulli import Beta, BetaBernoulliFamily, success_layout, worst_beta
from vestry.conjugate.conjugate_model import ConjugateModel, ConjugateReader, conjugate_reader
from vestry.conjugate.draw_cost import draw, grouped_draw
from vestry.conjugate.family import (
    CategoryFamily,
    ConjugateFamily,
    Distribution,
    check_range,
    check_size,
    floats,
    points,
    positive,
)
from vestry.conjugate.sparse_dirichlet import SparseDirichlet, SparsePrior, sparse_dirichlet
from vestry.errors import ExtremeNumbers, InvalidParameter
from vestry.mechanisms.additive_noise import Additive
from vestry.mechanisms.statistic_family import Layout
from vestry.model.averaging import Averaged
from vestry.model.request import MOST_LEVELS, By, PreparedSums, Size, levels_of, size_by_group
from vestry.noise.bits import BitSource
from vestry.numerics import Array
from vestry.posterior.discrete_noise import Laplace, noise_of
from vestry.posterior.joined_noise import summed
from vestry.posterior.mixture import DirichletMixture, PosteriorDistribution, two_sided
from vestry.posterior.noisy_data import BINOMIAL, MULTINOMIAL
from vestry.posterior.tabulated import TwoShares
from vestry.privacy.accountant import renyi as price_renyi
from vestry.privacy.event import Event
from vestry.privacy.neighbours import Adjacency
from vestry.privacy.pricing import event
from vestry.releases import Draws, NoisyStatistics
from vestry.schema.domain import Domain
from vestry.schema.statistics import Count, Indicator, SumQuery
from vestry.schema.table_schema import TableSchema
from vestry.validation import require_whole


@dataclass(frozen=True)
class Dirichlet(Distribution):
    """The Dirichlet distribution of the probabilities of d >= 2 categories."""

    alphas: tuple[float, ...]

    def __post_init__(self) -> None:
        if len(self.alphas) < 2:
            raise InvalidParameter("alphas", self.alphas, "at least two numbers", "one alpha per category")
        object.__setattr__(self, "alphas", tuple(positive("alpha", alpha) for alpha in self.alphas))

    @property
    def dimension(self) -> int:
        """The number of categories."""
        return len(self.alphas)

    @property
    def numbers(self) -> tuple[float, ...]:
        """The alphas."""
        return self.alphas

    concentrations = numbers

    @classmethod
    def of(cls, numbers: Sequence[float]) -> Dirichlet:
        """Make one of its alphas."""
        return cls(tuple(numbers))

    def natural(self) -> Array:
        """Return eta = alphas."""
        return np.array(self.alphas)

    def log_density(self, theta: ArrayLike) -> Array:
        """Return sum_i (alpha_i - 1) log p_i - C(alphas), with respect to p_1 ... p_(d-1).

        A point is on the simplex if its coordinates add up to one within 1e-9.
        """
        p, alphas = points(theta, self.dimension), self.natural()
        inside = np.all(p >= 0, axis=-1) & (np.abs(p.sum(axis=-1) - 1) <= 1e-9)
        q = np.where(inside[..., None], p, 1.0)
        return np.where(inside, xlogy(alphas - 1, q).sum(axis=-1) - self.log_partition(alphas), -np.inf)

    def mean(self) -> Array:
        """Return alpha_i/A, A the sum of the alphas."""
        return self.natural() / sum(self.alphas)

    def variance(self) -> Array:
        """Return m_i (1 - m_i)/(A + 1), m the mean."""
        mean = self.mean()
        return mean * (1 - mean) / (sum(self.alphas) + 1)

    def cdf(self, x: ArrayLike) -> Array:
        """Return the distribution function of each p_i, which is Beta(alpha_i, A - alpha_i)."""
        return np.asarray(betainc(*self._marginals(), np.clip(np.asarray(x, dtype=float), 0, 1)))

    def quantile(self, p: ArrayLike) -> Array:
        """Return its inverse."""
        return np.asarray(betaincinv(*self._marginals(), np.asarray(p, dtype=float)))

    def _marginals(self) -> tuple[Array, Array]:
        alphas = self.natural()
        return alphas, np.array([math.fsum(np.delete(alphas, i)) for i in range(self.dimension)])

    def draw(self, rng: np.random.Generator, size: int) -> Array:
        """Return draws of shape (size, d)."""
        return rng.dirichlet(self.alphas, size=size)

    @staticmethod
    def log_partition(eta: ArrayLike) -> float:
        """Return C(eta); infinite unless every eta_i is above 0."""
        alphas = np.asarray(eta, dtype=float)
        return float(gammaln(alphas).sum() - gammaln(alphas.sum())) if np.all(alphas > 0) else math.inf

    @staticmethod
    def gradient(eta: ArrayLike) -> Array:
        """Return E[log p_i] = psi(eta_i) - psi(sum of eta)."""
        alphas = np.asarray(eta, dtype=float)
        return np.asarray(digamma(alphas) - digamma(alphas.sum()))


@dataclass(frozen=True)
class DirichletCategoricalFamily(CategoryFamily):
    """Records that are each one of `categories` categories, numbered from 0."""

    categories: int

    name: ClassVar[str] = "dirichlet-categorical"
    member: ClassVar[type[Distribution]] = Dirichlet

    def __post_init__(self) -> None:
        require_whole("categories", self.categories, "for example categories=3", least=2)

    def statistic(self, x: ArrayLike) -> Array:
        """Mark the category of x, clipped to the nearest one; a missing value counts as category 0."""
        number = np.nan_to_num(np.asarray(x, dtype=float).reshape(()), nan=0.0)
        marked = np.zeros(self.categories)
        marked[int(np.clip(np.rint(number), 0, self.categories - 1))] = 1.0
        return marked

    def bounds(self) -> tuple[Array, Array]:
        """Return 0 and 1 for each category."""
        return np.zeros(self.categories), np.ones(self.categories)

    def extremes(self) -> Iterator[Array]:
        """Yield every move of one record from a category to another."""
        for i in range(self.categories):
            for j in range(self.categories):
                if i != j:
                    move = np.zeros(self.categories)
                    move[i], move[j] = 1.0, -1.0
                    yield move

    def prior(self, numbers: Sequence[float]) -> Dirichlet | SparsePrior:
        """Read one alpha per category, each above 0; none at all leaves the concentration unknown."""
        if not numbers:
            return SparsePrior(self.categories)
        if len(numbers) != self.categories:
            raise InvalidParameter(
                "the prior of dirichlet-categorical",
                tuple(numbers),
                f"one alpha for each of {self.categories} categories",
                "for example " + ",".join(["1"] * min(self.categories, 5)),
            )
        return Dirichlet(tuple(numbers))

    def added(self, numbers: Sequence[Any], sums: Sequence[Any], count: Any, weight: Any) -> tuple[Any, ...]:
        """Return alphas/m + r sums, `sums` the counts of all categories; `count` is their sum, unused."""
        return tuple(alpha + weight * each for alpha, each in zip(numbers, sums, strict=True))

    def draw_event(self, prior: Dirichlet, weight: float, adjacency: Adjacency) -> Event:
        """Return the event of one draw.

        Privacy
        -------
        Two categories: as `BetaBernoulli`. More, with a1 <= a2 the two smallest alphas/m and units of k records:

        - replace, whatever the count, public or private: Beta(a1 + r k, a2) against Beta(a1, a2 + r k). Only
          p_i/(p_i + p_j) tells a move from j to i, and smaller alphas dominate (see `BetaBernoulli.worst_draw`); all
          other records may sit in a third category. The O(d^3) pairs of the paper are not needed;
        - add-remove: Gamma(a1) against Gamma(a1 + r k).

        Groups: see `vestry.conjugate.draw_cost.grouped_draw`.

        Units of k >= 2 records may move between more than two categories. By brute force such moves cost less if a1 >=
        1/2 or r k <= 2 a1. Elsewhere they may cost more (under add-remove at a1 = 0.1, r = 1, k = 2 delta(1) is 4.5 %
        larger), and the event is a Renyi bound. For add-remove it is the curve above, which is proved for every
        move: D(P || Q) is convex in eta_Q [GeumlekSC17, Thm 15], and the curvature of C falls along an addition. For
        replace it is the sum of two such curves, at a1 and a2: p is made of independent gammas, one block of which
        loses what another gains.
        """
        low, high = heapq.nsmallest(2, prior.alphas)
        if prior.dimension == 2:
            return worst_beta(low, high, adjacency, power=weight)
        shift, relation = weight * adjacency.rows, adjacency.neighbours
        if adjacency.groups > 1:
            return grouped_draw(low, shift, adjacency)
        if adjacency.rows > 1 and low < _HALF and shift > _FEW * low:
            return _spread(low, high, adjacency, shift=shift)
        if adjacency.replaces:
            return draw(betas=((low, high + shift, shift),), neighbours=relation)
        return draw(gammas=((low, shift),), neighbours=relation)

    # What is released, and draws

    def layout(self, adjacency: Adjacency, *, grid: float | None = None) -> Layout:
        """Lay out all counts: 2k and sqrt(2) k under replace, k under add-remove. Two categories: as Bernoulli.

        Groups are parallel under add-remove, where a unit changes no more than its own records; under replace a record
        that moves leaves one group and enters another, as one that changes its category does.
        """
        if self.categories == 2:
            return success_layout(adjacency)
        k, names = adjacency.rows, tuple(f"category {i}" for i in range(self.categories))
        if adjacency.replaces:
            return Layout(names, 2 * k, math.sqrt(2) * k, count=adjacency.count)
        return Layout(names, k, k)

    def probabilities(self) -> int:
        """Return the number of categories."""
        return self.categories

    def exact_draws(
        self, bits: BitSource, parameters: Sequence[Fraction], size: int, *, truncation: float | None = None
    ) -> Draws:
        """Draw exactly, on a grid of 2^-40."""
        from vestry.noise.exact_sampling import dirichlet
        from vestry.noise.grid import PROBABILITY_GRID

        ends = {} if truncation is None else {"low": truncation}
        return Draws(tuple(dirichlet(bits, parameters, grid=PROBABILITY_GRID, size=size, **ends)), PROBABILITY_GRID)

    # The posterior of what was released

    def noise_aware(self, prior: Dirichlet | SparsePrior, statistics: NoisyStatistics) -> PosteriorDistribution:
        """Sum over the counts of all categories, and over the concentration where it is unknown."""
        if self._as_beta(statistics):
            return two_sided(BetaBernoulliFamily().noise_aware(Beta(*_alphas(prior)), statistics))
        noise, alphas = noise_of(statistics), np.array(_alphas(prior))
        check_range(statistics)
        if isinstance(prior, SparsePrior):
            return sparse_dirichlet(floats(statistics), noise=noise, count=statistics.count)
        if statistics.count is None:
            return dirichlet_posterior.private_count(floats(statistics), alphas=alphas, noise=noise)
        return dirichlet_posterior.public_count(floats(statistics), count=statistics.count, alphas=alphas, noise=noise)

    def plug_in(self, prior: Dirichlet | SparsePrior, statistics: NoisyStatistics) -> PosteriorDistribution:
        """Return Dirichlet(a + s), with s the nearest counts that are not negative (and sum to n, if it is public).

        Where the concentration is unknown, it is summed out.
        """
        if self._as_beta(statistics):
            return two_sided(BetaBernoulliFamily().plug_in(Beta(*_alphas(prior)), statistics))
        if isinstance(prior, SparsePrior):
            counts = np.rint(_projected(floats(statistics), statistics.count))
            return sparse_dirichlet(counts, noise=Laplace(_EXACT))
        return plug_in_dirichlet(floats(statistics), count=statistics.count, alphas=np.array(prior.alphas))

    def multiplied(self, prior: Dirichlet | SparsePrior, contents: Sequence[NoisyStatistics]) -> PosteriorDistribution:
        """Return what releases of other people say together: of two levels the product, of more that of the sums."""
        if all(map(self._as_beta, contents)):
            return TwoShares(BetaBernoulliFamily().multiplied(Beta(*_alphas(prior)), contents))
        return self.noise_aware(prior, summed(contents))

    def remark(self, prior: Dirichlet | SparsePrior, posterior: PosteriorDistribution, index: int) -> str:
        """Say which levels of a table of unknown concentration are faint."""
        return posterior.remark(index) if isinstance(posterior, SparseDirichlet) else ""

    def predict(self, theta: Array, size: int, rng: np.random.Generator) -> Array:
        """Draw the number of records in each category."""
        return rng.multinomial(size, theta / theta.sum(axis=1, keepdims=True)).astype(float)

    def kind_of(self, statistics: NoisyStatistics) -> str:
        """Return that of counts; two levels are released as successes, of the first one, and failures."""
        return BINOMIAL if self._as_beta(statistics) else MULTINOMIAL

    def _as_beta(self, statistics: NoisyStatistics) -> bool:
        """Tell whether two categories were released as successes, or successes and failures."""
        public = statistics.count is not None
        check_size(statistics, {1, 2} if public and self.categories == 2 else {self.categories})
        return len(statistics.values) == 1 or (self.categories == 2 and not public)

    # Plans and audits

    def simulate(self, theta: Array, n: int, rng: np.random.Generator) -> list[float]:
        """Draw the counts of n records."""
        return [float(x) for x in rng.multinomial(n, theta / theta.sum())]

    def to_units(self, layout: Layout, sums: Sequence[float], n: int) -> list[int]:
        """Return the counts that are released."""
        return [round(each) for each in sums][: len(layout.names)]


def _spread(low: float, high: float, adjacency: Adjacency, *, shift: float) -> Event:
    """Bound one draw where a unit's records may be spread over many categories, by a Renyi curve at a few orders."""
    alphas = (low, high) if adjacency.replaces else (low,)
    blocks = [draw(gammas=((alpha, shift),)) for alpha in alphas]
    orders = tuple(order for part in _PARTS if (order := 1 + part * low / shift) > 1)
    epsilons = tuple(sum(float(price_renyi(block, order)) for block in blocks) for order in orders)
    return event("renyi", orders=orders, epsilons=epsilons, neighbours=adjacency.neighbours)


# Brute force: a unit of several records costs most when they agree, from this alpha on or up to this shift/alpha.
_HALF, _FEW = 0.5, 2.0
# Orders of the bound elsewhere, as parts of the way from 1 to lambda*.
_PARTS = (1 / 64, 1 / 16, 1 / 4, 1 / 2, 3 / 4, 7 / 8, 15 / 16, 63 / 64)


def dirichlet_reader(described: Mapping[str, Any], prior: tuple[float, ...]) -> ConjugateReader:
    """Read the family that a release describes; its prior says how many categories there are, if nothing else does."""
    return conjugate_reader({"categories": len(prior), **described}, prior)


def plug_in_dirichlet(noisy: Array, *, count: int | None, alphas: Array) -> DirichletMixture:
    """Return Dirichlet(a + s) of projected counts; see `DirichletCategoricalFamily.plug_in`."""
    return DirichletMixture(np.ones(1), (alphas + _projected(noisy, count))[None, :])


def _projected(noisy: Array, count: int | None) -> Array:
    return np.maximum(noisy, 0.0) if count is None else _onto_simplex(noisy, float(count))


def _alphas(prior: Dirichlet | SparsePrior) -> tuple[float, ...]:
    """Return a fixed prior's numbers; of two categories, and of draws, an unknown concentration is 1."""
    return (1.0,) * prior.dimension if isinstance(prior, SparsePrior) else prior.alphas


# The scale of noise that moves no count.
_EXACT = 0.02


def _onto_simplex(point: Array, total: float) -> Array:
    """Return the nearest point of {s >= 0, sum s = total}: subtract a constant and cut at 0."""
    ordered = np.sort(point)[::-1]
    excess = (np.cumsum(ordered) - total) / np.arange(1, point.size + 1)
    above = np.flatnonzero(ordered > excess)
    if above.size == 0:
        raise ExtremeNumbers
    return np.asarray(np.maximum(point - excess[above[-1]], 0.0))


def swamping(alphas: Sequence[float], deviation: float, n: int) -> str:
    """Say that a fixed prior would take more than half an interval from a large level of an otherwise empty table.

    Noise of scale b leaves an empty level with about Gamma(alpha) b records, and the prior adds alpha: together
    E = sum of alpha (1 + b). A level with half of n records loses E/2n of its probability, whose standard deviation is
    about sqrt(1/4n + deviation^2/n^2). Of two levels neither is one of many.
    """
    credit = sum(alphas) * (1 + deviation / math.sqrt(2))
    half_width = _NORMAL * math.sqrt(n / 4 + deviation**2)
    if len(alphas) == 2 or credit / 2 <= half_width:
        return ""
    return f"if most levels are empty, this prior puts about {credit:.0f} of {n} records on them; omit prior"


# The half-width of a normal distribution's 90 % interval, in standard deviations.
_NORMAL = 1.6448536269514722


@dataclass(frozen=True)
class DirichletCategorical(ConjugateModel):
    """A categorical likelihood with a Dirichlet prior.

    Attributes
    ----------
    column
        A column of levels.
    by
        A column of levels, or several: one set of probabilities for each.
    prior
        One alpha for each level (the one of missing values last, if it is a level). If omitted, the concentration and
        the share of levels that never occur are unknown, and are summed out; for two levels, and for draws, all are 1.
    """

    column: str
    by: By = None
    prior: tuple[float, ...] | None = None

    name: ClassVar[str] = "dirichlet-categorical"
    family_type: ClassVar[type[ConjugateFamily]] = DirichletCategoricalFamily
    reader: ClassVar[Any] = staticmethod(dirichlet_reader)

    def family(self, domains: Mapping[str, Domain]) -> DirichletCategoricalFamily:
        """Return the categorical family with the column's levels."""
        self.groups(domains)
        return DirichletCategoricalFamily(len(levels_of(domains, self.column).names))

    def numbers(self, domains: Mapping[str, Domain]) -> tuple[float, ...]:
        """Return the alphas; those of draws, where none are declared."""
        if self.prior is None:
            return (1.0,) * len(levels_of(domains, self.column).names)
        return super().numbers(domains)

    def recorded_prior(self, domains: Mapping[str, Domain]) -> tuple[float, ...]:
        """Return no numbers where the concentration is unknown."""
        numbers = self.numbers(domains)
        return () if self.prior is None and len(numbers) > 2 else numbers

    def noisy(self, domains: Mapping[str, Domain], layout: Layout) -> SumQuery:
        """Collect the counts of all levels; of two with a public count the first alone."""
        if len(layout.names) == 1:
            return SumQuery(self.keys, self.terms(domains, layout)[:1])
        return SumQuery((*self.keys, self.column), (Count(),))

    def terms(self, domains: Mapping[str, Domain], layout: Layout) -> tuple[Indicator, ...]:
        """Add 1 to the record's level."""
        return tuple(Indicator(self.column, (name,)) for name in levels_of(domains, self.column).names)

    def averaged(self, domains: Mapping[str, Domain]) -> Averaged:
        """Average the levels over persons."""
        return Averaged(levels=self.column)

    def labels(self, domains: Mapping[str, Domain]) -> tuple[str, ...]:
        """Return the levels."""
        return levels_of(domains, self.column).names

    def size(self, domains: Mapping[str, Domain]) -> Size:
        """Return how many numbers a release has."""
        size = size_by_group(self, domains)
        return size._replace(most=MOST_LEVELS) if self.prior is None and self.by is None else size

    def caution(self, prepared: PreparedSums, schema: TableSchema, n: int) -> str:
        """Say that a declared prior would swamp a table of which most levels are empty."""
        if self.prior is None or not isinstance(prepared.mechanism, Additive):
            return ""
        return swamping(self.prior, prepared.mechanism.deviation, n)

    def question(self) -> str:
        """Say what is asked."""
        return f"The probability of each {self.column}{self.by_words()}"
