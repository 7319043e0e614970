"""The distribution of the noise, read as a likelihood of the statistic that it hides.

One class for each law of noise, with the same methods. The law of rounded normal noise, round(N(0, s^2)), is

    P(k) = Phi((k + 1/2)/s) - Phi((k - 1/2)/s) = e^(-x^2/2)/(s sqrt(2 pi)) I(x),   x = |k|/s,  h = 1/(2 s),        (1)
    I(x) = 1/2 integral over [-1, 1] of e^(-x h v - h^2 v^2/2) dv,

and I carries all that distinguishes it from the normal density. Where x h <= 1 and h <= 1 it is a power series in
(x h)^2 of positive terms; elsewhere it is taken from scaled complementary error functions of the lower tail, in which
nothing cancels, because e^(-2 x h) <= e^(-2) there or both ends lie on two sides of 0.

Which counts matter: the window of integers outside of which the weights are negligible.

A weight on counts is a product of the noise and of factors Gamma(s + a)/Gamma(s + 1). The logarithm of such a factor is
concave for a >= 1, and for a < 1 convex and decreasing. The concave parts have one summit, found by bisection, and the
window reaches down to `DROP` below it, plus whatever the convex parts can add between its ends.

Many weighted points replaced by few with the same moments: Gauss quadrature for discrete measures.

A sum over counts of weight x component is smooth in the count on the scale of the component's own width. Inside panels
about that wide, the K-node Gauss rule of the weights keeps their first 2K moments, so the sum is kept to rounding while
the number of components falls from the width of the noise to a few a panel. The rule is found by Lanczos' process on
the points [GolubM10, ch. 6]; its nodes lie between the points and its weights are positive.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Protocol, Self

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize_scalar
from scipy.special import erf, erfcx, gammaln, logsumexp

from vestry.errors import ExtremeNumbers, InvalidParameter
from vestry.releases import NoisyStatistics
from vestry.validation import require_choice, require_number

Array = npt.NDArray[np.float64]


class Noise(Protocol):
    """How likely an integer z is, if s was hidden by noise: known exactly, as its scale is published."""

    @property
    def scale(self) -> float:
        """The noise's scale, in integer units."""

    def log_weight(self, s: Array, z: Array, anchor: Array) -> Array:
        """Return log P(z - s) - log P(z - anchor), without cancellation however far z lies outside."""

    def reach(self, drop: float) -> float:
        """Return the distance from z at which log P has fallen by `drop`."""


@dataclass(frozen=True)
class IntegerNoise(ABC):
    """The published law of the noise on one integer.

    Attributes
    ----------
    scale
        As in `vestry.releases.NoisyStatistics`, in integer units.
    """

    scale: float

    words: ClassVar[str]

    @property
    @abstractmethod
    def deviation(self) -> float:
        """The standard deviation."""

    @property
    @abstractmethod
    def log_top(self) -> float:
        """The logarithm of P(0)."""

    @abstractmethod
    def log_weight(self, s: Array, z: Array, anchor: Array) -> Array:
        """Return log P(z - s) - log P(z - anchor), without cancellation however far z lies outside."""

    @abstractmethod
    def reach(self, drop: float) -> float:
        """Return the distance from z at which log P has fallen by `drop`."""

    @abstractmethod
    def reach_of_sum(self, size: int, drop: float) -> float:
        """Return what the sum of `size` numbers exceeds with probability e^-drop at most, by Chernoff's bound."""

    @abstractmethod
    def log_probability(self, maths: Any, gap: Any) -> Any:
        """Return the log probability of the numbers along the last axis, together, in an array library.

        `maths` has that library's functions: see `vestry.likelihood.array_math`. Between integers it is a smooth (of
        Laplace noise, a continuous) function.
        """

    @abstractmethod
    def draw(self, rng: np.random.Generator, shape: tuple[int, ...]) -> npt.NDArray[np.int64]:
        """Draw simulated noise: for plans and experiments, without any promise of privacy."""

    def log_mass(self, k: Array) -> Array:
        """Return log P(k)."""
        origin = np.zeros(())
        return self.log_top + self.log_weight(k, origin, origin)

    def in_units_of(self, units: float) -> Self:
        """Return the law of the noise divided by `units`."""
        return type(self)(self.scale / units)


@dataclass(frozen=True)
class Laplace(IntegerNoise):
    """P(k) ~ exp(-|k|/scale) on the integers."""

    words: ClassVar[str] = "Laplace"

    @property
    def deviation(self) -> float:
        """The root of 2q/(1 - q)^2 = 1/(2 sinh^2(1/(2 scale))), q = e^(-1/scale)."""
        if self.scale <= _NO_NOISE:
            return 0.0
        return 1 / (math.sqrt(2) * math.sinh(1 / (2 * self.scale)))

    @property
    def log_top(self) -> float:
        """The logarithm of (1 - q)/(1 + q) = tanh(1/(2 scale)), q = e^(-1/scale)."""
        return math.log(math.tanh(1 / (2 * self.scale)))

    def log_weight(self, s: Array, z: Array, anchor: Array) -> Array:
        """Return (|z - anchor| - |z - s|)/scale. If z lies beyond both, only the way from one to the other counts."""
        inside = np.clip(z, np.minimum(s, anchor), np.maximum(s, anchor))
        return (np.abs(inside - anchor) - np.abs(inside - s)) / self.scale

    def reach(self, drop: float) -> float:
        """Return scale * drop."""
        return self.scale * drop

    def reach_of_sum(self, size: int, drop: float) -> float:
        """Return the bound by log E e^(t noise) <= -log(1 - (scale t)^2), that of Laplace's density."""

        def bound(u: float) -> float:
            return (drop - size * math.log1p(-u * u)) / u

        optimum = minimize_scalar(bound, bounds=(1e-6, 1 - 1e-9), method="bounded")
        return self.scale * float(optimum.fun)

    def log_probability(self, maths: Any, gap: Any) -> Any:
        """Return the sum of log P."""
        return maths.xp.sum(-abs(gap) / self.scale + self.log_top, axis=-1)

    def draw(self, rng: np.random.Generator, shape: tuple[int, ...]) -> npt.NDArray[np.int64]:
        """Draw the difference of two geometric numbers."""
        p = -math.expm1(-1 / self.scale)
        return rng.geometric(p, shape) - rng.geometric(p, shape)


class NormalNoise(IntegerNoise):
    """Noise that on a fine grid is normal: its deviation is the scale, or nearly."""


@dataclass(frozen=True)
class DiscreteGaussian(NormalNoise):
    """P(k) ~ exp(-k^2/(2 scale^2)) on the integers."""

    words: ClassVar[str] = "Discrete Gaussian"

    @property
    def deviation(self) -> float:
        """The standard deviation, below the scale where that is small."""
        if self.scale > _WIDE:
            return self.scale
        k = np.arange(-60, 61)
        weights = np.exp(-(k**2) / (2 * self.scale**2))
        return float(np.sqrt(weights @ k**2 / weights.sum()))

    @property
    def log_top(self) -> float:
        """Minus the logarithm of sum e^(-k^2/(2 scale^2)); by Poisson's summation where the scale is large."""
        if self.scale > 1:
            second = math.exp(-2 * (math.pi * self.scale) ** 2)
            return -math.log(self.scale * math.sqrt(2 * math.pi)) - math.log1p(2 * second)
        k = np.arange(1, 40)
        return -math.log1p(2 * float(np.exp(-((k / self.scale) ** 2) / 2).sum()))

    def log_weight(self, s: Array, z: Array, anchor: Array) -> Array:
        """Return ((z - anchor)^2 - (z - s)^2)/(2 scale^2), as a product."""
        return (s - anchor) / self.scale * ((2 * z - s - anchor) / (2 * self.scale))

    def reach(self, drop: float) -> float:
        """Return scale * sqrt(2 drop)."""
        return self.scale * math.sqrt(2 * drop)

    def reach_of_sum(self, size: int, drop: float) -> float:
        """Return scale * sqrt(2 size drop): log E e^(t noise) <= (scale t)^2/2 [CanonneKS20, Lem. 9]."""
        return self.scale * math.sqrt(2 * size * drop)

    def log_probability(self, maths: Any, gap: Any) -> Any:
        """Return the sum of log P."""
        return maths.xp.sum(-0.5 * (gap / self.scale) ** 2 + self.log_top, axis=-1)

    def draw(self, rng: np.random.Generator, shape: tuple[int, ...]) -> npt.NDArray[np.int64]:
        """Draw from a table; of a large scale a rounded normal number, whose variance is larger by a part 1e-9."""
        if self.scale > _TABLED:
            return np.rint(rng.normal(0, self.scale, shape)).astype(np.int64)
        far = math.ceil(12 * self.scale) + 1
        k = np.arange(-far, far + 1)
        mass = np.exp(-(k**2) / (2 * self.scale**2))
        return rng.choice(k, shape, p=mass / mass.sum())


@dataclass(frozen=True)
class RoundedGaussian(NormalNoise):
    """A normal number of standard deviation `scale`, rounded: (1), and the density from a scale of 10,000 on.

    Attributes
    ----------
    step
        What it is rounded to a multiple of: 1, or a part of it where the noise is counted in larger units.
    """

    step: float = 1.0

    words: ClassVar[str] = "Gaussian"

    @property
    def deviation(self) -> float:
        """The root of scale^2 + step^2/12, but for small scales, where the sum over (1) is taken."""
        if self.scale > 2 * self.step:  # the rest of Poisson's summation is below e^-78
            return math.hypot(self.scale, self.step / math.sqrt(12))
        k = self.step * np.arange(1.0, 101.0)
        return math.sqrt(2 * float(np.exp(self.log_mass(k)) @ k**2))

    @property
    def log_top(self) -> float:
        """The logarithm of erf(h/sqrt(2))."""
        return math.log(math.erf(self._half / math.sqrt(2)))

    def log_weight(self, s: Array, z: Array, anchor: Array) -> Array:
        """Return the normal density's, as a product, and what rounding adds."""
        normal = (s - anchor) / self.scale * ((2 * z - s - anchor) / (2 * self.scale))
        if self.scale >= _BY_DENSITY * self.step:
            return normal
        return normal + (self._log_average(z - s) - self._log_average(z - anchor))

    def reach(self, drop: float) -> float:
        """Return scale (h + sqrt(h^2 + 2 drop)), because log I(x) <= log I(0) + x h."""
        return self.scale * (self._half + math.sqrt(self._half**2 + 2 * drop))

    def reach_of_sum(self, size: int, drop: float) -> float:
        """Return the bound by log E e^(t noise) <= (scale^2 + step^2/4) t^2/2."""
        return math.hypot(self.scale, self.step / 2) * math.sqrt(2 * size * drop)

    def log_probability(self, maths: Any, gap: Any) -> Any:
        """Return the sum of log P: from the lower tail, in which the logarithms of Phi keep their digits."""
        if self.scale >= _BY_DENSITY * self.step:
            return maths.xp.sum(-0.5 * (gap / self.scale) ** 2 + self.log_top, axis=-1)
        middle = -abs(gap) / self.scale
        upper = maths.log_normal_cdf(middle + self._half)
        lower = maths.log_normal_cdf(middle - self._half)
        return maths.xp.sum(upper + maths.xp.log1p(-maths.xp.exp(lower - upper)), axis=-1)

    def draw(self, rng: np.random.Generator, shape: tuple[int, ...]) -> npt.NDArray[np.int64]:
        """Draw normal numbers, and round them."""
        return np.rint(rng.normal(0, self.scale, shape)).astype(np.int64)

    def in_units_of(self, units: float) -> RoundedGaussian:
        """Return the law of the noise divided by `units`: rounded to a finer grid."""
        return RoundedGaussian(self.scale / units, self.step / units)

    @property
    def _half(self) -> float:
        """The number h: half a step, in standard deviations."""
        return self.step / (2 * self.scale)

    @cached_property
    def _moments(self) -> Array:
        """The coefficients of I as a power series in (x h)^2."""
        v, weights = np.polynomial.legendre.leggauss(32)
        even = 2 * np.arange(_TERMS)[:, None]
        integrals = (weights * v**even * np.exp(-((self._half * v) ** 2) / 2)).sum(axis=1)
        return np.asarray(integrals / 2 / np.exp(gammaln(even[:, 0] + 1)))

    def _log_average(self, k: Array) -> Array:
        """Return log I(|k|/scale)."""
        x = np.abs(np.asarray(k, float)) / self.scale
        h = self._half
        smooth = (x * h <= 1) & (h <= 1)
        logs = np.empty(x.shape)
        logs[smooth] = np.log(np.polynomial.polynomial.polyval((x[smooth] * h) ** 2, self._moments))
        central = ~smooth & (x < h)
        middle = x[central]
        both = erf((h + middle) / math.sqrt(2)) + erf((h - middle) / math.sqrt(2))
        logs[central] = np.log(both) + middle**2 / 2 + math.log(math.sqrt(2 * math.pi) / (4 * h))
        tail = ~smooth & ~central
        far = x[tail]
        both = erfcx((far - h) / math.sqrt(2)) - np.exp(-2 * far * h) * erfcx((far + h) / math.sqrt(2))
        logs[tail] = np.log(both) + h * (far - h / 2) + math.log(math.sqrt(2 * math.pi) / (4 * h))
        return logs


@dataclass(frozen=True)
class Cube:
    """P(k) ~ exp(-max |k_i|/scale) on `size` integers together.

    Attributes
    ----------
    scale
        As in `vestry.releases.NoisyStatistics`.
    size
        How many numbers there are.
    """

    scale: float
    size: int

    words: ClassVar[str] = "Cube"

    @property
    def deviation(self) -> float:
        """The standard deviation of one number: of E m (m + 1)/3 the root, m half the edge of the cube."""
        m, logs = self._edges
        return math.sqrt(float(np.exp(logs - logsumexp(logs)) @ (m * (m + 1))) / 3)

    @property
    def log_top(self) -> float:
        """The logarithm of P(0): minus that of (1 - q) sum (2m + 1)^size q^m, q = e^(-1/scale)."""
        return -float(math.log(-math.expm1(-1 / self.scale)) + logsumexp(self._edges[1]))

    def log_probability(self, maths: Any, gap: Any) -> Any:
        """Return log P of all numbers."""
        return self.log_top - maths.xp.max(abs(gap), axis=-1) / self.scale

    def draw(self, rng: np.random.Generator, shape: tuple[int, ...]) -> npt.NDArray[np.int64]:
        """Draw a cube, and points of it: the numbers along the last axis share it."""
        m, logs = self._edges
        mass = np.exp(logs - logs.max())
        edges = rng.choice(m.astype(np.int64), (*shape[:-1], 1), p=mass / mass.sum())
        return rng.integers(-edges, edges, shape, endpoint=True)

    @cached_property
    def _edges(self) -> tuple[Array, Array]:
        """Half the edges of cubes, and the logarithms of how probable they are up to a factor."""
        m = np.arange(math.ceil(self.scale * (self.size + 40 + 9 * math.sqrt(self.size))) + 2.0)
        return m, self.size * np.log(2 * m + 1) - m / self.scale


# Laplace noise of such a scale is none: a number other than 0 has a probability below e^-999.
_NO_NOISE = 1e-3
# Discrete Gaussian noise of a larger scale is drawn as a rounded normal number.
_TABLED = 1e4
# The deviation of discrete Gaussian noise of this scale is its scale to rounding.
_WIDE = 5.0
# Of so many steps the scale of rounded noise is taken as that of a density: it errs by a part 1/(24 scale^2) x^2.
_BY_DENSITY = 10_000
# Terms of the power series, of which the first that is omitted is below 1e-17.
_TERMS = 9

_LAWS: dict[str, type[IntegerNoise]] = {
    "discrete-laplace": Laplace,
    "discrete-gaussian": DiscreteGaussian,
    "rounded-gaussian": RoundedGaussian,
}
CUBE = "discrete-cube"


@dataclass(frozen=True)
class JoinedStatistics(NoisyStatistics):
    """Noisy numbers of several releases, read as those of one.

    Attributes
    ----------
    own_noise
        Their noise; the values are its labels, or sums.
    parts
        What each release holds.
    """

    own_noise: Any = None
    parts: tuple[NoisyStatistics, ...] = ()


def law_of(statistics: NoisyStatistics) -> Any:
    """Return the distribution of the noise that a release names; of several releases, that of all together."""
    if isinstance(statistics, JoinedStatistics):
        return statistics.own_noise
    return law(statistics.noise, statistics.scale, len(statistics.values))


def law(noise: str, scale: float, size: int) -> IntegerNoise | Cube:
    """Return the law of noise on `size` numbers, by the noise's name."""
    require_choice("noise", noise, (*_LAWS, CUBE), "the noise of the release")
    require_number("scale", scale, "the scale of the release", above=0)
    if noise == CUBE:
        return Cube(scale, size)
    return _LAWS[noise](scale)


def noise_of(statistics: NoisyStatistics) -> Any:
    """Return the same, of numbers that have noise each for itself; refused where they share it."""
    noise = law_of(statistics)
    if isinstance(noise, Cube):
        raise InvalidParameter("noise", statistics.noise, f"one of {', '.join(_LAWS)}", "the noise of the release")
    return noise


# By concavity what lies beyond an edge is less than e^-DROP, 5e-18, of what lies inside.
DROP = 40.0
# More counts than this in one table are taken in steps, except this many at each end.
TABLE, _ENDS = 100_000, 5_000

Function = Callable[[Array], Array]

_LARGE = 16.0


def log_ratio(s: Array, a: Array | float) -> Array:
    """Return log Gamma(s + a) - log Gamma(s + 1), to rounding for every s >= 0 and a > 0, however large or small."""
    return -log_rising(s + a, 1 - a)


def log_rising(y: Array, step: Array | float) -> Array:
    """Return log Gamma(y + step) - log Gamma(y), without cancellation for large y (Stirling's series)."""
    y, step = np.broadcast_arrays(np.asarray(y, float), np.asarray(step, float))
    small = np.minimum(y, y + step) < _LARGE
    x, shift = np.where(small, _LARGE, y), np.where(small, 0.0, step)
    large = (x - 0.5) * np.log1p(shift / x) + shift * (np.log(x + shift) - 1) + _tail(x + shift) - _tail(x)
    if not np.any(small):
        return np.asarray(large)
    return np.asarray(np.where(small, gammaln(y + step) - gammaln(y), large))


def _tail(x: Array) -> Array:
    """Return the end of Stirling's series for log Gamma(x); its next term is below 1e-17 for x >= 16."""
    u = 1 / (x * x)
    return (1 / 12 - u * (1 / 360 - u * (1 / 1260 - u * (1 / 1680 - u * (1 / 1188 - u * 691 / 360360))))) / x


def summit(concave: Function, low: Array, high: Array) -> Array:
    """Return where a concave function on the integers of [low, high] is greatest. All arguments are arrays alike."""
    low, high = low.copy(), high.copy()
    while np.any(low < high):
        middle = np.floor((low + high) / 2)
        rises = concave(np.minimum(middle + 1, high)) > concave(middle)
        low, high = np.where(rises & (low < high), middle + 1, low), np.where(rises, high, middle)
    return low


def window(concave: Function, low: Array, high: Array, *, drop: Array | float) -> tuple[Array, Array]:
    """Return the ends of the integers of [low, high] at which a concave function is within `drop` of its summit.

    `high` may be infinite, if the function falls without end.
    """
    bounded = _bounded(concave, low, high, drop)
    top = summit(concave, low, bounded)
    floor = concave(top) - drop
    return _edge(concave, floor, top, low), _edge(concave, floor, top, bounded)


def _bounded(concave: Function, low: Array, high: Array, drop: Array | float) -> Array:
    """Replace infinite ends by ones beyond which the function has fallen by more than `drop` from a point inside."""
    bounded = np.where(np.isinf(high), low + 1, high)
    while True:
        reached = concave(bounded)
        before = concave(np.floor((low + bounded) / 2))
        unfinished = np.isinf(high) & (reached > before - drop)
        if not np.any(unfinished):
            return bounded
        bounded = np.where(unfinished, low + 2 * (bounded - low), bounded)


def _edge(concave: Function, floor: Array, inside: Array, end: Array) -> Array:
    """Return the integer next to `end`, seen from `inside`, at which the function is not below `floor`."""
    outside, direction = end.copy(), np.sign(end - inside)
    inside = np.where(concave(outside) >= floor, outside, inside)
    while np.any(np.abs(outside - inside) > 1):
        middle = inside + direction * np.floor(np.abs(outside - inside) / 2)
        above = concave(middle) >= floor
        inside, outside = np.where(above, middle, inside), np.where(above, outside, middle)
    return inside


def lattice(low: float, high: float) -> tuple[Array, Array]:
    """List the integers from low to high, or so many of them that their weighted sum is as good.

    Of more than `TABLE` integers all are taken near both ends, where a distribution may bend sharply, and every h-th
    between them. The trapezoid rule then errs in the spread of a distribution of scale b by a part (h/b)^2/12; a window
    is about 80 scales wide, so that is below 1e-7.

    Returns
    -------
    The integers, and the logarithm of how many each stands for.
    """
    size = high - low + 1
    if not math.isfinite(size):
        raise ExtremeNumbers
    if size <= TABLE:
        points = np.arange(low, high + 1)
        return points, np.zeros(points.size)
    inner = np.arange(low + _ENDS, high - _ENDS, np.ceil(size / TABLE))
    points = np.concatenate([np.arange(low, low + _ENDS), inner, np.arange(high - _ENDS, high + 1)])
    ends = np.concatenate([[low - 1], points, [high + 1]])
    # From 2^53 on doubles skip whole numbers, and some of these are equal: they stand for none.
    with np.errstate(divide="ignore"):
        return points, np.log((ends[2:] - ends[:-2]) / 2)


def count_window(z: float, noise: Noise, drop: float, most: float = math.inf) -> tuple[Array, Array]:
    """List the counts up to `most` that z leaves possible, with log P(z - n) relative to the count nearest to z."""
    nearest, reach = min(max(z, 0.0), most), np.ceil(noise.reach(drop))
    n, cells = lattice(max(0.0, np.floor(nearest) - reach), min(np.ceil(nearest) + reach, most))
    return n, noise.log_weight(n, np.array(z), np.array(nearest)) + cells


def log_nearest(z: Array, noise: IntegerNoise, most: Array | float = math.inf) -> Array:
    """Return log P(z - n) of the count n up to `most` that is nearest to z."""
    return noise.log_top + noise.log_weight(np.clip(z, 0.0, most), z, z)


NODES = 8
# A panel spans this many widths of the component: with eight nodes a normal component is kept to 1e-11.
SPAN = 2.0
# A panel never has more points, so that panels of different density fill one array.
_CROWD = 512


def thin(points: Array, log_weights: Array, width: Array) -> tuple[Array, Array]:
    """Return fewer points, and their log weights, of the same sum against any function smooth on the scale `width`.

    Parameters
    ----------
    points
        Increasing.
    log_weights
        Finite, or minus infinity. They may differ by any amount: only those of one panel are compared.
    width
        The local width of the components, in the units of the points.
    """
    if points.size <= NODES:
        return points, log_weights
    gaps = np.diff(points, prepend=points[0])
    along = np.cumsum(np.maximum(gaps / (SPAN * width), 1 / _CROWD))
    if not np.isfinite(along[-1]):
        raise ExtremeNumbers
    panel = np.floor(along).astype(np.int64)
    starts = np.flatnonzero(np.diff(panel, prepend=-1))
    sizes = np.diff(starts, append=points.size)
    many = np.flatnonzero(sizes > NODES)
    if many.size == 0:
        return points, log_weights
    column = np.arange(sizes[many].max())
    index = np.minimum(starts[many, None] + column, points.size - 1)
    logs = np.where(column < sizes[many, None], log_weights[index], -np.inf)
    top = logs.max(axis=1, keepdims=True)
    nodes, weights = _gauss(points[index], np.exp(logs - np.where(np.isfinite(top), top, 0.0)))
    with np.errstate(divide="ignore"):
        node_logs = np.log(weights) + top
    few = np.repeat(sizes <= NODES, sizes)
    points = np.concatenate([points[few], nodes.ravel()])
    log_weights = np.concatenate([log_weights[few], node_logs.ravel()])
    order = np.argsort(points, kind="stable")
    return points[order], log_weights[order]


def nodes_needed(points: Array, width: Array) -> float:
    """Return about how many points `thin` leaves."""
    return NODES * (1 + float((np.diff(points) / (SPAN * width[1:])).sum()))


def _gauss(points: Array, weights: Array) -> tuple[Array, Array]:
    """Return the Gauss rules of several measures, one per row."""
    total = weights.sum(axis=1)
    share = weights / np.where(total > 0, total, 1.0)[:, None]
    centre = (share * points).sum(axis=1)
    half = np.maximum(points.max(axis=1) - points.min(axis=1), 1e-300)
    x = (points - centre[:, None]) / half[:, None]
    basis = [np.sqrt(share)]
    matrix = np.zeros((len(x), NODES, NODES))
    for k in range(NODES):
        image = x * basis[k]
        matrix[:, k, k] = (basis[k] * image).sum(axis=1)
        if k + 1 == NODES:
            break
        for _ in range(2):  # a second pass restores orthogonality to rounding
            for vector in basis:
                image -= (vector * image).sum(axis=1)[:, None] * vector
        norm = np.sqrt((image * image).sum(axis=1))
        # Fewer points than nodes carry the weight: the process is complete, and the remaining nodes get none.
        norm[norm < 1e-11] = 0.0
        matrix[:, k, k + 1] = matrix[:, k + 1, k] = norm
        basis.append(image / np.where(norm > 0, norm, np.inf)[:, None])
    values, vectors = np.linalg.eigh(matrix)
    return centre[:, None] + half[:, None] * values, total[:, None] * vectors[:, 0, :] ** 2
