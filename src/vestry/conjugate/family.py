"""What a conjugate pair must give, and the divergences that follow from its log-partition.

Likelihood h(x) exp(S(x).theta - A(theta)), conjugate prior exp(T(theta).eta - C(eta)) with T = (theta, -A(theta)). The
posterior is eta' = eta0/m + r sum_i (S(x_i), 1), with the likelihood power r and the prior scale m: r = m = 1 is
algorithm 1 (direct), r < 1 algorithm 2 (diffused), m < 1 algorithm 3 (concentrated) of [GeumlekSC17, sec. 3].

What every noise-aware posterior reads of noisy statistics: their number, their size, the sum and the count.

Families of counts by category: what Bernoulli and categorical records share, and their worst-case neighbours.
"""

from __future__ import annotations

import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple, fields
from fractions import Fraction
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from vestry.conjugate.pooled_groups import PooledGroups
from vestry.errors import GuaranteeUnreachable, InvalidParameter
from vestry.mechanisms.statistic_family import Layout
from vestry.model.worst_pair import Dataset, Pair, count_records, no_pair, say_records
from vestry.noise.bits import BitSource
from vestry.numerics import Array
from vestry.posterior.discrete_noise import IntegerNoise, noise_of
from vestry.posterior.joined_noise import summed
from vestry.posterior.mixture import PosteriorDistribution
from vestry.posterior.noisy_data import SUMS
from vestry.privacy.event import Event
from vestry.privacy.neighbours import Adjacency
from vestry.registry import MODELS
from vestry.releases import Draws, NoisyStatistics
from vestry.validation import require_number


class Distribution(ABC):
    """A distribution over the parameter: a frozen dataclass of its numbers, one parameter by default.

    Points have shape (..., dimension); where the dimension is 1 the last axis may be omitted.
    """

    dimension: Any = 1

    @property
    def numbers(self) -> tuple[float, ...]:
        """The numbers that it is made of."""
        return astuple(self)  # type: ignore[call-overload, no-any-return]

    @classmethod
    def of(cls, numbers: Sequence[float]) -> Self:
        """Make one of such numbers."""
        return cls(*numbers)

    def require_positive(self, *names: str) -> None:
        """Refuse an attribute that is not a number above 0."""
        for name in names:
            object.__setattr__(self, name, positive(name, getattr(self, name)))

    @abstractmethod
    def natural(self) -> Array:
        """Return eta."""

    @staticmethod
    @abstractmethod
    def log_partition(eta: ArrayLike) -> float:
        """Return C(eta); infinite where it does not exist."""

    @staticmethod
    @abstractmethod
    def gradient(eta: ArrayLike) -> Array:
        """Return the gradient of C, which is E[T(theta)]."""

    def divided(self, scale: float) -> Self:
        """Return the distribution of eta/scale."""
        return self.of([number / scale for number in self.numbers])

    @abstractmethod
    def log_density(self, theta: ArrayLike) -> Array:
        """Return the log density at points; -inf outside the parameter space."""

    @abstractmethod
    def mean(self) -> Array:
        """Return the mean of each coordinate."""

    @abstractmethod
    def variance(self) -> Array:
        """Return the variance of each coordinate."""

    @abstractmethod
    def cdf(self, x: ArrayLike) -> Array:
        """Return the distribution function of each coordinate, x broadcast against the coordinates."""

    @abstractmethod
    def quantile(self, p: ArrayLike) -> Array:
        """Return the quantile of each coordinate, p broadcast against the coordinates."""

    @abstractmethod
    def draw(self, rng: np.random.Generator, size: int) -> Array:
        """Return independent draws, of shape (size, dimension): post-processing, without any promise of privacy."""

    def renyi(self, other: Self, order: float) -> float:
        """Return D_a(P || Q) = [C(a eta_P + (1-a) eta_Q) - a C(eta_P)]/(a-1) + C(eta_Q) [GeumlekSC17, eq. 5].

        Infinite where a eta_P + (1-a) eta_Q is not normalisable; at order 1 it is the Kullback-Leibler divergence.
        """
        if check_order(order) == 1:
            return self.kl(other)
        p, q, partition = self.natural(), other.natural(), self.log_partition
        between = partition(order * p + (1 - order) * q)
        return max(0.0, (between - order * partition(p)) / (order - 1) + partition(q))

    def kl(self, other: Self) -> float:
        """Return KL(P || Q) = C(eta_Q) - C(eta_P) - (eta_Q - eta_P).E_P[T], E_P[T] the gradient of C at eta_P."""
        p, q = self.natural(), other.natural()
        return max(0.0, self.log_partition(q) - self.log_partition(p) - float((q - p) @ self.gradient(p)))


class ConjugateFamily(ABC):
    """A likelihood of the exponential family with its conjugate prior: a frozen dataclass of its declared numbers.

    Attributes
    ----------
    name
        The family's name in files and on the command line.
    parameter
        What its parameter is called.
    parameters
        The names of its numbers, where they are of different kinds.
    note
        What a report says of how records were read.
    member
        The distributions of its priors and posteriors.
    data_kind
        Of which kind its noisy numbers are; see `vestry.posterior.noisy_data`.
    prior_words
        What a prior is declared by, and an example.
    """

    name: ClassVar[str]
    parameter: ClassVar[str]
    parameters: ClassVar[tuple[str, ...]] = ()
    note: ClassVar[str] = ""
    data_kind: ClassVar[str] = SUMS
    member: ClassVar[type[Distribution]]
    prior_words: ClassVar[tuple[str, str]]

    # The exponential family

    def statistic(self, x: ArrayLike) -> Array:
        """Return S(x) of one record, clipped into the declared domain; a missing value counts as the lower end.

        S(x) = x, unless a family says otherwise.
        """
        low, high = self.bounds()
        record = np.asarray(x, dtype=float).reshape(low.shape)
        return np.clip(np.where(np.isnan(record), low, record), low, high)

    @abstractmethod
    def bounds(self) -> tuple[Array, Array]:
        """Return the lower and the upper bound of each coordinate of S."""

    def extremes(self) -> Iterator[Array]:
        """Yield the extreme points of Diff, the hull of {S(x) - S(x')} [GeumlekSC17, Def. 10].

        The corners of a box, unless a family says otherwise.
        """
        low, high = self.bounds()
        yield from map(np.array, itertools.product(*((-width, width) for width in high - low)))

    def log_partition(self, eta: ArrayLike) -> float:
        """Return C(eta); infinite where it does not exist."""
        return self.member.log_partition(eta)

    def gradient(self, eta: ArrayLike) -> Array:
        """Return the gradient of C, which is E[T(theta)]."""
        return self.member.gradient(eta)

    def normalisable(self, eta: ArrayLike) -> bool:
        """Tell whether C(eta) is finite [GeumlekSC17, Def. 8]."""
        return self.log_partition(eta) < math.inf

    def prior(self, numbers: Sequence[float]) -> Any:
        """Read a prior from its declared numbers."""
        if len(numbers) != len(fields(self.member)):  # type: ignore[arg-type]
            allowed, example = self.prior_words
            raise InvalidParameter(f"the prior of {self.name}", tuple(numbers), allowed, f"for example {example}")
        return self.member.of(numbers)

    def record_weight(self, likelihood_power: float) -> float:
        """Return the weight of one record in the posterior's numbers."""
        return likelihood_power

    def added(self, numbers: Sequence[Any], sums: Sequence[Any], count: Any, weight: Any) -> tuple[Any, ...]:
        """Return the posterior's numbers: the prior's, and `count` records of this weight with these sums.

        The same arithmetic on doubles, for a posterior, and on fractions, for an exact draw.
        """
        raise GuaranteeUnreachable(f"an exact draw of {self.name}", "release noisy statistics instead")

    def update(
        self,
        prior: Any,
        sums: Sequence[float],
        count: float,
        *,
        likelihood_power: float = 1.0,
        prior_scale: float = 1.0,
    ) -> Any:
        """Return the posterior after `count` records whose statistics add up to `sums`."""
        start, weight = self.weighted(prior, likelihood_power, prior_scale)
        read = check_sums(sums, len(self.bounds()[0])).tolist()
        return self.member.of(self.added(start.numbers, read, require_number("count", count), weight))

    def exact_parameters(
        self,
        prior: Any,
        sums: Sequence[Fraction],
        count: int,
        *,
        likelihood_power: float = 1.0,
        prior_scale: float = 1.0,
    ) -> tuple[Fraction, ...]:
        """Return the numbers of what `update` returns, not rounded.

        A sum in doubles is rounded to its own size. Where that is large next to what one record adds (times in
        milliseconds since 1970, one second wide; a strong prior; ten million records), rounding alone can move a
        posterior further than the record does. So the doubles that were declared, and the integers that were summed,
        are added and multiplied as fractions, and neighbours are exactly as far apart as the event says. The prior
        divided by its scale, and a record's weight, are the doubles that `worst_draw` prices.
        """
        start, weight = self.weighted(prior, likelihood_power, prior_scale)
        return self.added([Fraction(number) for number in start.numbers], sums, count, Fraction(weight))

    def weighted(self, prior: Any, likelihood_power: object, prior_scale: object) -> tuple[Any, float]:
        """Return the prior divided by its scale m, and the weight of one record at the likelihood power r."""
        r, m = positive("likelihood_power", likelihood_power), positive("prior_scale", prior_scale)
        return prior.divided(m), self.record_weight(r)

    def to_dict(self) -> dict[str, Any]:
        """Return the name and the declared numbers."""
        return {"name": self.name, **vars(self)}

    # What a draw costs

    def worst_draw(
        self, prior: Any, adjacency: Adjacency, *, likelihood_power: float = 1.0, prior_scale: float = 1.0
    ) -> Event:
        """Return the event of one draw from the posterior, priced at its worst neighbouring datasets."""
        return self.draw_event(*self.weighted(prior, likelihood_power, prior_scale), adjacency)

    def order_limit(
        self, prior: Any, adjacency: Adjacency, *, likelihood_power: float = 1.0, prior_scale: float = 1.0
    ) -> float:
        """Return lambda*, the supremum of the orders at which one draw has a finite Renyi divergence."""
        return self.highest_order(*self.weighted(prior, likelihood_power, prior_scale), adjacency)

    @abstractmethod
    def draw_event(self, prior: Any, weight: float, adjacency: Adjacency) -> Event:
        """Return the event of one draw, the prior divided by its scale and each record of this weight."""

    @abstractmethod
    def highest_order(self, prior: Any, weight: float, adjacency: Adjacency) -> float:
        """Return lambda* of such a draw; refused where `draw_event` is."""

    # What is released, and draws

    @abstractmethod
    def layout(self, adjacency: Adjacency, *, grid: float | None = None) -> Layout:
        """Lay out the minimal statistics as integers, and bound how far one unit of k records moves them."""

    def probabilities(self) -> int | None:
        """Return how many probabilities a parameter has; None if it has none, and the log-likelihood no bound."""
        return None

    def from_units(self, adjacency: Adjacency, units: Sequence[int], count: int) -> list[Fraction]:
        """Turn integer sums back into sums of records, exactly; counts are what they are."""
        return [Fraction(unit) for unit in units]

    def exact_draws(
        self, bits: BitSource, parameters: Sequence[Fraction], size: int, *, truncation: float | None = None
    ) -> Draws:
        """Draw from a posterior exactly, and round to a grid that declared numbers fix: see `vestry.noise.grid`.

        A posterior without an exact sampler is refused: no draw in doubles is ever released.
        """
        raise GuaranteeUnreachable(f"an exact draw of {self.name}", "release noisy statistics instead")

    # The posterior of what was released

    @abstractmethod
    def noise_aware(self, prior: Any, statistics: NoisyStatistics) -> PosteriorDistribution:
        """Return the posterior, the noise summed out."""

    def multiplied(self, prior: Any, contents: Sequence[NoisyStatistics]) -> PosteriorDistribution:
        """Return the posterior from releases of other people: of their sums, unless a family has better."""
        return self.noise_aware(prior, summed(contents))

    def kind_of(self, statistics: NoisyStatistics) -> str:
        """Return of which kind these noisy numbers are."""
        return self.data_kind

    @abstractmethod
    def plug_in(self, prior: Any, statistics: NoisyStatistics) -> PosteriorDistribution:
        """Return the papers' posterior: the noisy statistics, projected onto valid ones, taken as exact.

        For comparison only. It ignores the noise, so its intervals are too short: nominal 90 % intervals
        of a proportion cover about half the time at n = 100 and epsilon = 0.1 [FouldsGWC16, sec. 3.2; GeumlekSC17,
        sec. 5.1].
        """

    def inside(self, posterior: PosteriorDistribution) -> PosteriorDistribution:
        """Keep a posterior inside what was declared; a family of means clips them to their interval."""
        return posterior

    @abstractmethod
    def predict(self, theta: Array, size: int, rng: np.random.Generator) -> Array:
        """Draw what `size` new records would give, once for each row of parameters."""

    def group_numbers(self, statistics: NoisyStatistics) -> tuple[float, float]:
        """Return the two noisy numbers of one of several groups, in units of records, or refuse: see `pooled`."""
        raise InvalidParameter("pool", self.name, "asked of beta-bernoulli, normal-mean or gamma-poisson", "no pool")

    def pooled(self, contents: Sequence[NoisyStatistics]) -> PooledGroups:
        """Return the joint posterior of groups that learn from each other; their noise is of one kind and scale."""
        self.group_numbers(contents[0])
        raise NotImplementedError

    def noise_on_estimate(self, content: NoisyStatistics, mean: float, index: int) -> float | None:
        """Return the noise's standard deviation on one parameter, to first order; None where there is no formula."""
        return None

    def remark(self, prior: Any, posterior: Any, index: int) -> str:
        """Say what is wrong with the interval of one parameter of a posterior; nothing if all is well."""
        return ""

    # Plans and audits

    @abstractmethod
    def simulate(self, theta: Array, n: int, rng: np.random.Generator) -> list[float]:
        """Draw the sums of n records at a parameter."""

    @abstractmethod
    def to_units(self, layout: Layout, sums: Sequence[float], n: int) -> list[int]:
        """Return the integers of a layout for these sums of n records."""

    @abstractmethod
    def noise_pair(self, layout: Layout, adjacency: Adjacency, noise: str) -> Pair:
        """Return two neighbours that are as far apart as the sensitivity, one group without others."""

    def draw_pair(self, prior: Any, adjacency: Adjacency) -> Pair:
        """Return two neighbours at which the cost of a draw is attained: what the unit touches has little weight."""
        raise no_pair("a draw", self.name)

    def truncated_pairs(self, prior: Any, adjacency: Adjacency) -> tuple[Pair, ...]:
        """Return neighbours to try for a truncated draw, whose claim is a supremum that none attains."""
        raise no_pair("ops", self.name)


def family_from(record: Mapping[str, Any]) -> ConjugateFamily:
    """Read a family from its name and declared numbers, as `to_dict` writes them."""
    numbers = dict(record)
    name = numbers.pop("name", None)
    make = family_type(name)
    if make is None:
        known = ", ".join(family_names())
        raise InvalidParameter("a family's name", name, f"one of {known}", "for example beta-bernoulli")
    try:
        return make(**numbers)
    except TypeError:
        raise InvalidParameter(
            f"the declaration of {name}", sorted(numbers), "complete, and nothing else", "what `to_dict` writes"
        ) from None


def family_names() -> tuple[str, ...]:
    """Return the names of the models that are conjugate families."""
    return tuple(name for name in MODELS if family_type(name) is not None)


def family_type(name: object) -> type[ConjugateFamily] | None:
    """Return the family of this name; None if there is none."""
    if not isinstance(name, str) or name not in MODELS:
        return None
    family: type[ConjugateFamily] | None = getattr(MODELS[name], "family_type", None)
    return family if family is not None and family.name == name else None


def points(theta: ArrayLike, dimension: int) -> Array:
    """Read points of shape (..., dimension); in one dimension the last axis may be omitted."""
    read = np.asarray(theta, dtype=float)
    if dimension == 1 and (read.ndim == 0 or read.shape[-1] != 1):
        read = read[..., None]
    if read.ndim == 0 or read.shape[-1] != dimension:
        raise InvalidParameter(
            "the shape of points", read.shape, f"(..., {dimension})", f"{dimension} coordinates per point"
        )
    return read


def check_order(order: float) -> float:
    """Let a Renyi order through that is above 0."""
    return require_number("order", order, "for example order=2", above=0)


def positive(name: str, value: Any) -> float:
    """Let a number through that is above 0."""
    return require_number(name, value, f"for example {name}=1", above=0)


def check_sums(sums: Sequence[float], expected: int) -> Array:
    """Let sums through that have one finite number for each coordinate of the statistic."""
    read = np.asarray(sums, dtype=float)
    if read.shape != (expected,) or not np.all(np.isfinite(read)):
        # The values may come from records: the message shows their number alone.
        allowed = f"{expected} finite numbers"
        raise InvalidParameter("sums", f"of shape {read.shape}", allowed, "one per coordinate of S")
    return read


_LARGEST = 2**50
_SCALES = 1e4


def noise_per_record(content: NoisyStatistics) -> tuple[float, float] | None:
    """Return the noise's deviation on a sum and on the count, each over the number of records; None below one record.

    A public count has none.
    """
    sd = noise_of(content).deviation
    public = content.count is not None
    n = float(content.count) if content.count is not None else content.values[-1] * content.count_grid
    return (sd * content.grid / n, 0.0 if public else sd * content.count_grid / n) if n > 0 else None


def sum_and_count(statistics: NoisyStatistics) -> tuple[float, float, int | None]:
    """Return the noisy sum, the count, and the units of the count where it is noisy too."""
    values = noisy_values(statistics, 1)
    if statistics.count is None:
        return float(values[0]), float(values[1]), round(1 / statistics.count_grid)
    return float(values[0]), float(statistics.count), None


def noisy_values(statistics: NoisyStatistics, sums: int) -> Array:
    """Return so many noisy sums as doubles, and one number more where the count is private."""
    check_size(statistics, {sums + (statistics.count is None)})
    return floats(statistics)


def floats(statistics: NoisyStatistics) -> Array:
    """Return the noisy statistics as doubles."""
    return np.array([float(value) for value in statistics.values])


def check_size(statistics: NoisyStatistics, sizes: set[int]) -> None:
    """Refuse another number of noisy statistics than the layout has."""
    if len(statistics.values) not in sizes:
        allowed = " or ".join(str(size) for size in sorted(sizes))
        raise InvalidParameter(
            "the number of noisy statistics", len(statistics.values), allowed, "the statistics of the family's layout"
        )


def check_range(statistics: NoisyStatistics) -> None:
    """Refuse noisy counts that no table has, or that this noise does not give but with a probability below e^-10000."""
    if statistics.scale > _LARGEST:
        raise InvalidParameter("the scale of the noise", statistics.scale, "below 2^50", "the scale of the release")
    beyond = _SCALES * statistics.scale
    low, high = -beyond, _LARGEST if statistics.count is None else statistics.count + beyond
    for value in statistics.values:
        if not low <= value <= high:
            raise InvalidParameter(
                "a noisy count",
                value,
                f"from {low:.6g} to {high:.6g}",
                "the counts and the noise as they were released",
            )


def pool_noise(statistics: NoisyStatistics, scale: float) -> IntegerNoise:
    """Return the noise of groups that are pooled; refuse so much of it that summing over counts takes minutes.

    `scale` is that of the counts, in records.
    """
    if scale > _POOLED:
        allowed = f"asked where it is at most {_POOLED}"
        raise InvalidParameter("pool", f"noise of scale {scale:g} on counts", allowed, "each group alone")
    noise: IntegerNoise = noise_of(statistics)
    return noise


# The largest scale of noise on pooled counts.
_POOLED = 300


class CategoryFamily(ConjugateFamily):
    """Probabilities of categories, with a prior of concentrations."""

    parameter: ClassVar[str] = "probability"

    def highest_order(self, prior: Any, weight: float, adjacency: Adjacency) -> float:
        """Return lambda* = 1 + min(concentrations)/(m r k) [GeumlekSC17, Cor. 1, there with m = r = k = 1]."""
        return float(1 + min(prior.concentrations) / (weight * adjacency.rows))

    def noise_on_estimate(self, content: NoisyStatistics, mean: float, index: int) -> float | None:
        """Return sd/n sqrt((1-p)^2 + (d-1) p^2), of s over the sum of all d counts; with n public that of s/n.

        There one count has sd/n, and one of d that are known to sum to n sd/n sqrt(1 - 1/d).
        """
        public = content.count is not None
        sd = float(noise_of(content).deviation)
        n = float(content.count) if content.count is not None else float(sum(content.values))
        if n <= 0:
            return None
        counts = len(content.values)
        if public:
            return sd / n * math.sqrt(1 - 1 / counts if counts > 1 else 1.0)
        p = min(max(content.values[index] / n, 0.0), 1.0) if counts > 1 else 0.0
        return sd / n * math.sqrt((1 - p) ** 2 + (counts - 1) * p**2)

    def noise_pair(self, layout: Layout, adjacency: Adjacency, noise: str) -> Pair:
        """Return the move by which one unit reaches the sensitivity of noisy counts."""
        k, size = adjacency.rows, len(layout.names)
        if size == 1:
            return Pair("a failure becomes a success" if k == 1 else f"{k} failures become successes", (0,), (k,))
        rest = (0,) * (size - 2)
        if adjacency.replaces:
            return Pair(f"{say_records(k, 'change')} category", (k, 0, *rest), (0, k, *rest))
        return Pair(f"{count_records(k)} added", (0, 0, *rest), (k, 0, *rest))

    def draw_pair(self, prior: Any, adjacency: Adjacency) -> Pair:
        """Return counts at which the two smallest concentrations stand alone."""
        return worst_categories(prior.concentrations, adjacency, sums=len(self.bounds()[0]))

    def truncated_pairs(self, prior: Any, adjacency: Adjacency) -> tuple[Pair, ...]:
        """Return the boundary pair, and one whose other records are split evenly between the first two categories."""
        alphas, sums, k = prior.concentrations, len(self.bounds()[0]), adjacency.rows
        pairs = [worst_categories(alphas, adjacency, sums=sums)] if adjacency.replaces else []
        others = 0 if adjacency.count is None else adjacency.count - k
        split = (others // 2, others - others // 2, *(0,) * (len(alphas) - 2))
        first = (split[0], split[1] + k, *split[2:]) if adjacency.replaces else split
        second = (split[0] + k, *split[1:])
        if others or not adjacency.replaces:
            name = f"{say_records(k, 'differ')}, {others} others split evenly"
            pairs.append(Pair(name, _collected(first, sums), _collected(second, sums)))
        return tuple(pairs)


# Other records, where very many of them are the worst case: far in the limit, and still exact in doubles.
CROWD = 10**6


def worst_categories(alphas: tuple[float, ...], adjacency: Adjacency, *, sums: int) -> Pair:
    """Return counts at which the two smallest alphas stand alone, everyone else elsewhere.

    Two categories under replace have no elsewhere: the others then sit in the one with the larger alpha. `sums` is how
    many of the counts are collected, before the number of records.
    """
    k, order = adjacency.rows, sorted(range(len(alphas)), key=lambda i: alphas[i])
    low, next_low, away = order[0], order[1], order[-1]
    if adjacency.replaces:
        others = 0 if adjacency.count is None else adjacency.count - k
        before, after = _counts(alphas, {away: others}, {next_low: k}), _counts(alphas, {away: others}, {low: k})
        name = f"{say_records(k, 'change')} category, {others} others elsewhere"
    else:
        before, after = _counts(alphas, {away: CROWD}, {}), _counts(alphas, {away: CROWD}, {low: k})
        name = f"{count_records(k)} added, {CROWD} others elsewhere"
    return Pair(name, _collected(before, sums), _collected(after, sums))


def _counts(alphas: tuple[float, ...], *parts: dict[int, int]) -> Dataset:
    return tuple(sum(part.get(i, 0) for part in parts) for i in range(len(alphas)))


def _collected(counts: Dataset, sums: int) -> Dataset:
    """Return what a mechanism is given for these counts."""
    return (*counts[:sums], sum(counts))
