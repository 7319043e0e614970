"""What a conjugate pair must give, and the divergences that follow from its log-partition.

Likelihood h(x) exp(S(x).theta - A(theta)), conjugate prior exp(T(theta).eta - C(eta)) with T = (theta, -A(theta)). The
posterior is eta' = eta0/m + r sum_i (S(x_i), 1), with the likelihood power r and the prior scale m: r = m = 1 is
algorithm 1 (direct), r < 1 algorithm 2 (diffused), m < 1 algorithm 3 (concentrated) of [GeumlekSC17, sec. 3].

What every noise-aware posterior reads of noisy statistics: their number, their size, the sum and the count.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from numbers import Real
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self

import numpy as np
from numpy.typing import ArrayLike

from vestry.errors import GuaranteeUnreachable, InvalidParameter
from vestry.mechanisms.statistic_family import Layout
from vestry.model.worst_pair import Pair, no_pair
from vestry.numerics import Array
from vestry.posterior.mixture import PosteriorDistribution
from vestry.privacy.event import Event
from vestry.privacy.neighbours import Adjacency
from vestry.registry import MODELS
from vestry.releases import Draws, NoisyStatistics

if TYPE_CHECKING:
    from vestry.noise.bits import BitSource


class Distribution(Protocol):
    """A distribution over the parameter.

    Points have shape (..., dimension); where the dimension is 1 the last axis may be left out.
    """

    @property
    def dimension(self) -> int:
        """How many coordinates a point has."""

    def natural(self) -> Array:
        """Return eta."""

    def log_density(self, theta: ArrayLike) -> Array:
        """Return the log density at points; -inf outside the parameter space."""

    def mean(self) -> Array:
        """Return the mean of each coordinate."""

    def variance(self) -> Array:
        """Return the variance of each coordinate."""

    def cdf(self, x: ArrayLike) -> Array:
        """Return the distribution function of each coordinate, x broadcast against the coordinates."""

    def quantile(self, p: ArrayLike) -> Array:
        """Return the quantile of each coordinate, p broadcast against the coordinates."""

    def draw(self, rng: np.random.Generator, size: int) -> Array:
        """Return independent draws, of shape (size, dimension): post-processing, without any promise of privacy."""

    def marginal_log_density(self, index: int, points: Array) -> Array:
        """Return the log density of one coordinate, at its values in these points."""

    def renyi(self, other: Self, order: float) -> float:
        """Return the Renyi divergence from this to the other; infinite where it does not exist."""

    def kl(self, other: Self) -> float:
        """Return the Kullback-Leibler divergence from this to the other."""


class ConjugateFamily(ABC):
    """A likelihood of the exponential family with its conjugate prior. A prior is a member that `prior` made.

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
    """

    name: ClassVar[str]
    parameter: ClassVar[str]
    parameters: ClassVar[tuple[str, ...]] = ()
    note: ClassVar[str] = ""

    # The exponential family

    @abstractmethod
    def statistic(self, x: ArrayLike) -> Array:
        """Return S(x) of one record, clipped into the declared domain; a missing value counts as the lower end."""

    @abstractmethod
    def bounds(self) -> tuple[Array, Array]:
        """Return the lower and the upper bound of each coordinate of S."""

    @abstractmethod
    def extremes(self) -> Iterator[Array]:
        """Yield the extreme points of Diff, the hull of {S(x) - S(x')} [GeumlekSC17, Def. 10]."""

    @abstractmethod
    def log_partition(self, eta: ArrayLike) -> float:
        """Return C(eta); infinite where it does not exist."""

    @abstractmethod
    def gradient(self, eta: ArrayLike) -> Array:
        """Return the gradient of C, which is E[T(theta)]."""

    @abstractmethod
    def normalisable(self, eta: ArrayLike) -> bool:
        """Tell whether C(eta) is finite [GeumlekSC17, Def. 8]."""

    @abstractmethod
    def prior(self, numbers: Sequence[float]) -> Any:
        """Read a prior from its declared numbers."""

    @abstractmethod
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

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Return the name and the declared numbers."""

    # What a draw costs

    @abstractmethod
    def worst_draw(
        self, prior: Any, adjacency: Adjacency, *, likelihood_power: float = 1.0, prior_scale: float = 1.0
    ) -> Event:
        """Return the event of one draw from the posterior, priced at its worst neighbouring datasets."""

    @abstractmethod
    def order_limit(
        self, prior: Any, adjacency: Adjacency, *, likelihood_power: float = 1.0, prior_scale: float = 1.0
    ) -> float:
        """Return lambda*, the supremum of the orders at which one draw has a finite Renyi divergence."""

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

    def exact_parameters(
        self,
        prior: Any,
        sums: Sequence[Fraction],
        count: int,
        *,
        likelihood_power: float = 1.0,
        prior_scale: float = 1.0,
    ) -> tuple[Fraction, ...]:
        """Return what `update` returns, not rounded.

        A sum in doubles is rounded to its own size. Where that is large next to what one record adds (times in
        milliseconds since 1970, one second wide; a strong prior; ten million records), rounding alone can move a
        posterior further than the record does. So the doubles that were declared, and the integers that were summed,
        are added and multiplied as fractions, and neighbours are exactly as far apart as the event says. The prior
        divided by its scale, and a record's weight, are the doubles that `worst_draw` prices.
        """
        raise GuaranteeUnreachable(f"an exact draw of {self.name}", "release noisy statistics instead")

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

    @abstractmethod
    def plug_in(self, prior: Any, statistics: NoisyStatistics) -> PosteriorDistribution:
        """Return the papers' posterior: the noisy statistics, projected onto valid ones, taken as exact.

        For comparison only. It leaves the noise out of account, so its intervals are too short: nominal 90 % intervals
        of a proportion cover about half the time at n = 100 and epsilon = 0.1 [FouldsGWC16, sec. 3.2; GeumlekSC17,
        sec. 5.1].
        """

    @abstractmethod
    def predict(self, theta: Array, size: int, rng: np.random.Generator) -> Array:
        """Draw what `size` new records would give, once for each row of parameters."""

    def noise_on_estimate(self, content: NoisyStatistics, mean: float, index: int) -> float | None:
        """Return the noise's standard deviation on one parameter, to first order; None where there is no formula."""
        return None

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
    found: type[ConjugateFamily] | None = getattr(MODELS[name], "family_type", None)
    return found if found is not None and found.name == name else None


def renyi_between(
    p: Array,
    q: Array,
    order: float,
    *,
    partition: Callable[[Array], float],
    gradient: Callable[[Array], Array],
) -> float:
    """Return D_a(P || Q) = [C(a eta_P + (1-a) eta_Q) - a C(eta_P)]/(a-1) + C(eta_Q) [GeumlekSC17, eq. 5].

    Infinite where a eta_P + (1-a) eta_Q is not normalisable; at order 1 it is the Kullback-Leibler divergence.
    """
    if check_order(order) == 1:
        return kl_between(p, q, partition=partition, gradient=gradient)
    between = partition(order * p + (1 - order) * q)
    return max(0.0, (between - order * partition(p)) / (order - 1) + partition(q))


def kl_between(p: Array, q: Array, *, partition: Callable[[Array], float], gradient: Callable[[Array], Array]) -> float:
    """Return KL(P || Q) = C(eta_Q) - C(eta_P) - (eta_Q - eta_P).E_P[T], E_P[T] the gradient of C at eta_P."""
    return max(0.0, partition(q) - partition(p) - float((q - p) @ gradient(p)))


def points(theta: ArrayLike, dimension: int) -> Array:
    """Read points of shape (..., dimension); in one dimension the last axis may be left out."""
    read = np.asarray(theta, dtype=float)
    if dimension == 1 and (read.ndim == 0 or read.shape[-1] != 1):
        read = read[..., None]
    if read.ndim == 0 or read.shape[-1] != dimension:
        raise InvalidParameter(
            "the shape of points", read.shape, f"(..., {dimension})", f"{dimension} coordinates a point"
        )
    return read


def check_order(order: float) -> float:
    """Let a Renyi order through that is above 0 and finite."""
    return check_positive("order", order, instead="for example order=2")


def check_positive(name: str, value: object, *, instead: str | None = None) -> float:
    """Let a number through that is above 0 and finite."""
    found = check_number(name, value, instead=instead)
    if not found > 0:
        raise InvalidParameter(name, value, "above 0 and finite", instead or f"for example {name}=1")
    return found


def check_scales(likelihood_power: object, prior_scale: object) -> tuple[float, float]:
    """Let a likelihood power r and a prior scale m through that are above 0 and finite."""
    return check_positive("likelihood_power", likelihood_power), check_positive("prior_scale", prior_scale)


def check_number(name: str, value: object, *, instead: str | None = None) -> float:
    """Let a finite number through."""
    try:
        if not isinstance(value, bool) and isinstance(value, Real) and math.isfinite(value):
            return float(value)
    except OverflowError:  # a whole number beyond every double
        pass
    raise InvalidParameter(name, value, "a finite number", instead or f"for example {name}=1")


def check_sums(sums: Sequence[float], expected: int) -> Array:
    """Let sums through that have one finite number for each coordinate of the statistic."""
    read = np.asarray(sums, dtype=float)
    if read.shape != (expected,) or not np.all(np.isfinite(read)):
        # The values may come from records: the message shows their number alone.
        raise InvalidParameter("sums", f"of shape {read.shape}", f"{expected} finite numbers", "one a coordinate of S")
    return read


_LARGEST = 2**50
_SCALES = 1e4


def sum_and_count(statistics: NoisyStatistics) -> tuple[float, float, int | None]:
    """Return the noisy sum, the count, and the units of the count where it is noisy too."""
    private = statistics.count is None
    check_size(statistics, {2 if private else 1})
    values = floats(statistics)
    if statistics.count is None:
        return float(values[0]), float(values[1]), round(1 / statistics.count_grid)
    return float(values[0]), float(statistics.count), None


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
