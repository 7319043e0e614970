"""Integer noise on minimal sufficient statistics: the release that any later use gets for free.

Statistics are integers, so noise is discrete and exact. The count is a statistic like any other wherever it is not
public.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from vestry.conjugate.beta_bernoulli import BetaBernoulliFamily
from vestry.conjugate.dirichlet_categorical import DirichletCategoricalFamily
from vestry.conjugate.family import ConjugateFamily
from vestry.conjugate.gamma_exponential import GammaExponentialFamily
from vestry.conjugate.gamma_poisson import GammaPoissonFamily
from vestry.conjugate.normal_inverse_gamma import NormalInverseGammaFamily
from vestry.conjugate.normal_mean import NormalMeanFamily
from vestry.errors import DeclarationMismatch, InvalidParameter
from vestry.ledger import OpenCharge
from vestry.noise import NoiseSource
from vestry.numerics import outward, up
from vestry.privacy.adjacency import Adjacency
from vestry.privacy.calibration import smallest_parameter
from vestry.privacy.event import Event
from vestry.privacy.guarantee import Guarantee
from vestry.privacy.pricing import event
from vestry.releases import NoisyStatistics
from vestry.schema.private import Private, reveal

LAPLACE, GAUSSIAN = "discrete-laplace", "discrete-gaussian"

THEOREMS = {
    LAPLACE: "Integer noise P(k) ~ exp(-|k|/scale) on integers of l1 sensitivity D is (D/scale)-DP"
    " [DworkMNS06, Prop. 1].",
    GAUSSIAN: "Integer noise P(k) ~ exp(-k^2/(2 scale^2)) on integers of l2 sensitivity D is D^2/(2 scale^2)-zCDP"
    " [CanonneKS20, Thm 14]; it is not mu-GDP.",
}


@dataclass(frozen=True)
class Layout:
    """Which integers are released, and how far one unit can move them.

    Attributes
    ----------
    names
        What each integer is.
    l1, l2
        The sensitivities: the diameter of what one unit may contribute, in integer units.
    grid, count_grid, count
        As in `NoisyStatistics`.
    """

    names: tuple[str, ...]
    l1: int
    l2: float
    grid: float = 1.0
    count_grid: float = 1.0
    count: int | None = None


def layout(family: ConjugateFamily, population: Adjacency, *, grid: float | None = None) -> Layout:
    """Lay out the minimal statistics of a family and bound how far one unit of k records moves them.

    - Bernoulli, count public: the successes; k. Otherwise successes and failures: 2k and sqrt(2) k under replace, k
      under add-remove. The redundant pair of [FouldsGWC16, sec. 3.2] costs twice as much where the count is public.
    - Categorical: all counts; 2k and sqrt(2) k under replace, k under add-remove. Two categories: as Bernoulli.
    - Groups: parallel under add-remove, where a unit changes no more than its own records. Under replace a record may
      also move: it leaves one group and enters another, twice what an addition costs (sqrt(2) times in l2). For means
      of several coordinates a change inside a group is the larger one in l2.
    - Counts in 0 ... B: their sum; k B under replace with public count. Otherwise the count joins, in units of B/2.
    - Values and their squares: see `_squares_layout`.
    - Normal mean in d coordinates, and times in one: sums of clipped values on a grid, counted from the middle of the
      interval, W units wide; replace with public count: k d W and k sqrt(d) W. Otherwise the count joins, in units
      chosen so that under replace it costs nothing more: a unit with k records at one end that changes into k at the
      other already moves the sums as far as one that vanishes moves sums and count together.
    """
    k, replaces, public = population.rows, population.replaces, population.count is not None
    match family:
        case BetaBernoulliFamily() | DirichletCategoricalFamily(categories=2):
            if public:
                return Layout(("successes",), k, k, count=population.count)
            names: tuple[str, ...] = ("successes", "failures")
            return Layout(names, 2 * k, math.sqrt(2) * k) if replaces else Layout(names, k, k)
        case DirichletCategoricalFamily(categories=categories):
            names = tuple(f"category {i}" for i in range(categories))
            if replaces:
                return Layout(names, 2 * k, math.sqrt(2) * k, count=population.count)
            return Layout(names, k, k)
        case NormalMeanFamily() | GammaExponentialFamily():
            return _sum_layout(family, population, grid)
        case GammaPoissonFamily():
            return _count_layout(family.high, population)
        case NormalInverseGammaFamily():
            return _squares_layout(family, population)
        case _:
            raise InvalidParameter("a family", family, "one with minimal statistics", "for example BetaBernoulli()")


def real_sums(family: ConjugateFamily, population: Adjacency, units: Sequence[int], count: int) -> list[Fraction]:
    """Turn integer sums back into sums of records: real ones are counted on a grid from the middle of their interval.

    They are exact: a double of the size of count x middle may have no room for what one record adds. On the default
    grid one record spans the declared width as doubles have it, so no sensitivity grows by the rounding.
    """
    if not isinstance(family, (NormalMeanFamily, GammaExponentialFamily)):
        return [Fraction(unit) for unit in units]
    grid, middle = Fraction(layout(family, population).grid), Fraction((family.low + family.high) / 2)
    return [unit * grid + count * middle for unit in units]


def _count_layout(high: int, population: Adjacency) -> Layout:
    """Lay out sums of counts in 0 ... high; a private count joins in units of half the largest record.

    A unit contributes (x, u j), 0 <= x <= high j, j <= k; the farthest from nothing is k (high, u).
    """
    k = population.rows
    if population.count is not None:
        return Layout(("sum",), k * high, k * high, count=population.count)
    units = max(1, high // 2)
    times = 2 if population.replaces and population.groups > 1 else 1
    l1, l2 = times * k * (high + units), math.sqrt(times) * k * math.hypot(high, units)
    return Layout(("sum", "count"), l1, l2, count_grid=1 / units)


def _check_ends(low: float, high: float, step: float, half: int) -> None:
    """Refuse an interval so narrow, for where it lies, that doubles count its ends beyond the grid's.

    A record adds floor((x - middle)/step + 1/2) in doubles. Every step of that grows with x, rounding included, so what
    holds at the ends holds between them.
    """
    middle = (low + high) / 2
    if max(math.floor((high - middle) / step + 0.5), -math.floor((low - middle) / step + 0.5)) > half:
        raise _too_narrow(low, high)


def _check_squares(low: float, high: float, step: float, half: int) -> None:
    """Refuse an interval whose squares doubles count beyond the grid's end."""
    middle, reach = (low + high) / 2, (high - low) / 2
    if max(math.floor(x * x / (reach * step) + 0.5) for x in (low - middle, high - middle)) > half:
        raise _too_narrow(low, high)


def _too_narrow(low: float, high: float) -> InvalidParameter:
    return InvalidParameter(
        "the interval", [low, high], "wide enough for doubles to tell its values apart", "a wider one"
    )


def _squares_layout(family: NormalInverseGammaFamily, population: Adjacency) -> Layout:
    """Lay out the sums of y and of y^2, y = (x - middle)/reach in [-1, 1], in units of 1/M; M = 2^19.

    Replace: l1 is 9/4 between y = 1 and y = -1/2, and l2 is 2 between the ends; rounding adds at most one unit a
    coordinate and record. From nothing: (1, 1). A private count joins in units of 4/M, where it costs nothing more
    under replace.

    Where the middle is not a double, y goes up to 1 + t. Squares are counted up to M, so M (2 t + t^2) <= 1/2. Then l1
    in units grows by M (3 t + t^2) < 1, which whole numbers do not show, and l2 by 2 M t <= 1/2, which with the sqrt(2)
    of rounding is below 2.
    """
    k, half = population.rows, _HALF
    step = (family.high - family.low) / 2 / half
    _check_ends(family.low, family.high, step, half)
    _check_squares(family.low, family.high, step, half)
    names: tuple[str, ...] = ("sum", "sum of squares")
    inside = k * (9 * half // 4 + 2), k * (2 * half + 2.0)
    if population.count is not None:
        return Layout(names, *inside, grid=step, count=population.count)
    units = half // 4
    l1, l2 = k * (2 * half + units), k * math.hypot(half, half, units)
    if population.replaces:
        moves = population.groups > 1
        l1 = max(inside[0], 2 * l1 if moves else l1)
        l2 = max(inside[1], math.sqrt(2) * l2 if moves else l2)
    return Layout((*names, "count"), l1, l2, grid=step, count_grid=1 / units)


# Units from the middle to an end of an interval whose squares are summed too.
_HALF = 2**19


def _sum_layout(family: NormalMeanFamily | GammaExponentialFamily, population: Adjacency, grid: float | None) -> Layout:
    k, d = population.rows, family.dimension if isinstance(family, NormalMeanFamily) else 1
    names = tuple(f"sum {i}" for i in range(d)) if d > 1 else ("sum",)
    step = (family.high - family.low) / 2**20 if grid is None else grid
    if not 0 < step <= (family.high - family.low) / 2:
        raise InvalidParameter("grid", grid, "above 0 and at most half the interval", "a finer grid")
    half = math.ceil((family.high - family.low) / 2 / step)
    width = 2 * half
    _check_ends(family.low, family.high, step, half)
    if population.count is not None:
        return Layout(names, k * d * width, k * math.sqrt(d) * width, grid=step, count=population.count)
    # The count in units of 1/half: contributions (sums, count) are (u, half j) with |u_i| <= half j, j <= k.
    l1, l2 = k * (d * half + half), k * half * math.sqrt(d + 1)
    if population.replaces:
        # From one end to the other in one group; or away, and into another group.
        moves = population.groups > 1
        l1 = max(k * d * width, 2 * l1 if moves else l1)
        l2 = max(k * half * 2 * math.sqrt(d), math.sqrt(2) * l2 if moves else l2)
    return Layout((*names, "count"), l1, l2, grid=step, count_grid=1 / half)


@dataclass(frozen=True)
class Additive:
    """Integer noise of one scale on the statistics of a layout.

    Privacy
    -------
    Laplace: (l1/scale)-DP. Gaussian: l2^2/(2 scale^2)-zCDP. For the neighbours of the population, by the diameter of
    what one unit may contribute, or nothing where the count is private. `limits` says what is not hidden, if anything
    that a unit may change.
    """

    noise: str
    scale: float
    layout: Layout
    population: Adjacency
    guarantee: Guarantee
    limits: str = ""

    parameter = "scale"

    @property
    def name(self) -> str:
        """`laplace` or `gaussian`."""
        return self.noise.removeprefix("discrete-")

    @property
    def value(self) -> float:
        """The noise's scale."""
        return self.scale

    @property
    def event(self) -> Event:
        """What runs."""
        return event_of(self.noise, self.layout, self.scale).under(self.population.neighbours)

    charge = event  # the ledger is charged what runs

    @property
    def theorem(self) -> str:
        """The result that the claim rests on, and what it does not hide."""
        return f"{THEOREMS[self.noise]} {self.limits}".rstrip()

    @property
    def deviation(self) -> float:
        """The standard deviation of the noise: sqrt(2 q)/(1 - q), q = e^(-1/scale), for Laplace."""
        if self.noise != LAPLACE:
            return self.scale
        return math.sqrt(2) * math.exp(-0.5 / self.scale) / -math.expm1(-1 / self.scale)

    def release(self, private: Private, opened: OpenCharge, noise: NoiseSource) -> tuple[NoisyStatistics, ...]:
        """Add the noise, and return each group's statistics. `opened` is the leave of the ledger, taken just before."""
        opened.take()
        values, size = reveal(private), len(self.layout.names)
        wanted = size * self.population.groups
        if len(values) != wanted:
            raise DeclarationMismatch("number of statistics", str(len(values)), str(wanted), "collect the layout's")
        add = noise.discrete_laplace if self.noise == LAPLACE else noise.discrete_gaussian
        noisy = tuple(add(values, scale=self.scale))
        return tuple(self.statistics(noisy[start : start + size]) for start in range(0, wanted, size))

    def statistics(self, noisy: tuple[int, ...]) -> NoisyStatistics:
        """Return one group's noisy integers with what is needed to read them."""
        at, noise, scale = self.layout, self.noise, self.scale
        return NoisyStatistics(at.names, noisy, noise, scale, at.grid, at.count, at.count_grid)


def additive(noise: str, layout: Layout, population: Adjacency, guarantee: Guarantee, *, limits: str = "") -> Additive:
    """Calibrate the least scale that meets the guarantee."""
    bound = guarantee.under(population.neighbours)
    scale = smallest_parameter(lambda x: event_of(noise, layout, x), bound)
    return Additive(noise, scale, layout, population, bound, limits)


def event_of(noise: str, layout: Layout, scale: float) -> Event:
    """Record integer noise of this scale on the layout's statistics."""
    if noise == LAPLACE:
        return event(noise, sensitivity=up(Fraction(layout.l1)), scale=scale)
    # From 2^53 on every double is a whole number, whatever was rounded.
    exactly = float(layout.l2).is_integer() and layout.l2 < 2**53
    return event(noise, sensitivity=layout.l2 if exactly else outward(layout.l2), scale=scale)
