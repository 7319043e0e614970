"""What a conjugate pair must give, and the divergences that follow from its log-partition.

Likelihood h(x) exp(S(x).theta - A(theta)), conjugate prior exp(T(theta).eta - C(eta)) with T = (theta, -A(theta)). The
posterior is eta' = eta0/m + r sum_i (S(x_i), 1), with the likelihood power r and the prior scale m: r = m = 1 is
algorithm 1 (direct), r < 1 algorithm 2 (diffused), m < 1 algorithm 3 (concentrated) of [GeumlekSC17, sec. 3].
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from numbers import Real
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from vestry.errors import InvalidParameter
from vestry.privacy.adjacency import Adjacency
from vestry.privacy.event import Event

Array = NDArray[np.float64]


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

    def renyi(self, other: Self, order: float) -> float:
        """Return the Renyi divergence from this to the other; infinite where it does not exist."""

    def kl(self, other: Self) -> float:
        """Return the Kullback-Leibler divergence from this to the other."""


class ConjugateFamily(Protocol):
    """A likelihood of the exponential family with its conjugate prior. A prior is a member that `prior` made."""

    @property
    def name(self) -> str:
        """The family's name in files and on the command line."""

    def statistic(self, x: ArrayLike) -> Array:
        """Return S(x) of one record, clipped into the declared domain; a missing value counts as the lower end."""

    def bounds(self) -> tuple[Array, Array]:
        """Return the lower and the upper bound of each coordinate of S."""

    def extremes(self) -> Iterator[Array]:
        """Yield the extreme points of Diff, the hull of {S(x) - S(x')} [GeumlekSC17, Def. 10]."""

    def log_partition(self, eta: ArrayLike) -> float:
        """Return C(eta); infinite where it does not exist."""

    def gradient(self, eta: ArrayLike) -> Array:
        """Return the gradient of C, which is E[T(theta)]."""

    def normalisable(self, eta: ArrayLike) -> bool:
        """Tell whether C(eta) is finite [GeumlekSC17, Def. 8]."""

    def prior(self, numbers: Sequence[float]) -> Distribution:
        """Read a prior from its declared numbers."""

    def update(
        self,
        prior: Any,
        sums: Sequence[float],
        count: float,
        *,
        likelihood_power: float = 1.0,
        prior_scale: float = 1.0,
    ) -> Distribution:
        """Return the posterior after `count` records whose statistics add up to `sums`."""

    def worst_draw(
        self, prior: Any, population: Adjacency, *, likelihood_power: float = 1.0, prior_scale: float = 1.0
    ) -> Event:
        """Return the event of one draw from the posterior, priced at its worst neighbouring datasets."""

    def order_limit(
        self, prior: Any, population: Adjacency, *, likelihood_power: float = 1.0, prior_scale: float = 1.0
    ) -> float:
        """Return lambda*, the supremum of the orders at which one draw has a finite Renyi divergence."""

    def to_dict(self) -> dict[str, Any]:
        """Return the name and the declared numbers."""


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
