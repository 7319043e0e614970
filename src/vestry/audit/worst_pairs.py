"""Worst-case neighbours of every shipped mechanism: the two datasets that are easiest to tell apart.

A dataset is what a mechanism is given: the integers of its layout (noisy statistics), or integer sums and then the
count (posterior draws), group after group.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from vestry.conjugate.beta_bernoulli import BetaBernoulliFamily
from vestry.conjugate.dirichlet_categorical import DirichletCategoricalFamily
from vestry.conjugate.family import ConjugateFamily
from vestry.conjugate.gamma_exponential import GammaExponentialFamily
from vestry.conjugate.gamma_poisson import GammaPoissonFamily
from vestry.conjugate.normal_inverse_gamma import NormalInverseGammaFamily
from vestry.conjugate.normal_mean import NormalMeanFamily
from vestry.errors import GuaranteeUnreachable
from vestry.mechanisms.additive_noise import LAPLACE, Additive, Layout, layout
from vestry.mechanisms.posterior_sample import PosteriorSample
from vestry.mechanisms.truncated_posterior import TruncatedSample
from vestry.privacy.adjacency import Adjacency
from vestry.privacy.neighbours import Neighbours

Dataset = tuple[int, ...]
Shipped = Additive | PosteriorSample | TruncatedSample
# Other records, where very many of them are the worst case: far in the limit, and still exact in doubles.
CROWD = 10**6


@dataclass(frozen=True)
class Pair:
    """Two neighbouring datasets, and in words what differs."""

    name: str
    first: Dataset
    second: Dataset

    @property
    def datasets(self) -> tuple[Dataset, Dataset]:
        """Both."""
        return self.first, self.second


def worst_pairs(mechanism: Shipped, family: ConjugateFamily) -> tuple[Pair, ...]:
    """Return the neighbours at which the mechanism's claim is attained, as far as that is known.

    Noisy statistics and posterior draws have one such pair. One truncated draw (ops) has none: its claim is a supremum
    over datasets that none attains, so two are tried. Groups under replace: a unit that moves between two groups, and
    one that changes within its own.
    """
    population = mechanism.population
    if population.groups > 1:
        return tuple(_grouped(mechanism, family))
    match mechanism:
        case Additive():
            return (_additive(mechanism, family),)
        case TruncatedSample():
            return tuple(_truncated(mechanism, family))
        case _:
            return (_draw(mechanism, family),)


def _grouped(mechanism: Shipped, family: ConjugateFamily) -> Iterator[Pair]:
    """Yield an addition to one group; or a move out of one group into the next, and a change within one."""
    groups, rows = mechanism.population.groups, mechanism.population.rows
    for pair in worst_pairs(replace(mechanism, population=Adjacency(Neighbours.ADD_REMOVE, rows)), family):
        without, present, others = pair.first, pair.second, pair.first * (groups - 2)
        if mechanism.population.replaces:
            yield Pair(
                f"{pair.name}: to one group or to another", present + without + others, without + present + others
            )
        else:
            yield Pair(f"{pair.name}, in one group", without * 2 + others, present + without + others)
    if mechanism.population.replaces:
        for pair in worst_pairs(replace(mechanism, population=Adjacency(Neighbours.REPLACE, rows)), family):
            rest = pair.first * (groups - 1)
            yield Pair(f"{pair.name}, in one group", pair.first + rest, pair.second + rest)


# --- noisy statistics -------------------------------------------------------------------------------------------------


def _additive(mechanism: Additive, family: ConjugateFamily) -> Pair:
    """Return the move by which one unit reaches the sensitivity."""
    k, replaces, size = mechanism.population.rows, mechanism.population.replaces, len(mechanism.layout.names)
    public, units = mechanism.layout.count is not None, round(1 / mechanism.layout.count_grid)
    counted: Dataset = () if public else (k * units,)
    added, empty = f"{_records(k)} added", (0,) * size
    match family:
        case BetaBernoulliFamily() | DirichletCategoricalFamily():
            if size == 1:
                return Pair("a failure becomes a success" if k == 1 else f"{k} failures become successes", (0,), (k,))
            rest = empty[2:]
            if replaces:
                return Pair(f"{_do(k, 'change')} category", (k, 0, *rest), (0, k, *rest))
            return Pair(added, empty, (k, 0, *rest))
        case GammaPoissonFamily(high=high):
            if public:
                return Pair(f"{_do(k, 'go')} from 0 to {high}", (0,), (k * high,))
            return Pair(f"{added} at {high}", empty, (k * high, *counted))
        case NormalMeanFamily() | GammaExponentialFamily():
            half, sums = _half(family, mechanism.layout), size - len(counted)
            lower, upper = (-k * half,) * sums + counted, (k * half,) * sums + counted
            if replaces:
                return Pair(f"{_do(k, 'go')} from end to end", lower, upper)
            return Pair(f"{added} at the upper end", empty, upper)
        case NormalInverseGammaFamily():
            # Sums of y and y^2, y in [-1, 1]: 1 against -1/2 reaches the l1 diameter, 1 against -1 the l2 diameter.
            half = _half(family, mechanism.layout)
            upper = (k * half, k * half, *counted)
            if not replaces:
                return Pair(f"{added} at the upper end", empty, upper)
            if mechanism.noise == LAPLACE:
                return Pair(
                    f"{_do(k, 'go')} from 1/4 to the upper end", (-k * half // 2, k * half // 4, *counted), upper
                )
            return Pair(f"{_do(k, 'go')} from end to end", (-k * half, k * half, *counted), upper)
        case _:
            raise _unknown(mechanism, family)


def _records(k: int) -> str:
    return "1 record" if k == 1 else f"{k} records"


def _do(k: int, verb: str) -> str:
    """Say what so many records do."""
    return f"1 record {'goes' if verb == 'go' else verb + 's'}" if k == 1 else f"{k} records {verb}"


def _unknown(mechanism: Shipped, family: ConjugateFamily) -> GuaranteeUnreachable:
    return GuaranteeUnreachable(
        f"worst-case neighbours of {mechanism.name} for {family.name}",
        "audit it in Python, with vestry.audit.audit and neighbours of your own",
    )


# --- posterior draws --------------------------------------------------------------------------------------------------


def _draw(mechanism: PosteriorSample | TruncatedSample, family: ConjugateFamily) -> Pair:
    """Return the boundary pair: what the unit touches has next to no weight of its own."""
    population, prior = mechanism.population, mechanism.prior
    k, n = population.rows, population.count
    match family:
        case BetaBernoulliFamily():
            return _categories(family, (prior.alpha, prior.beta), population)
        case DirichletCategoricalFamily():
            return _categories(family, prior.alphas, population)
        case GammaPoissonFamily(high=high) if n is not None:
            return Pair(f"{_do(k, 'go')} from 0 to {high}, all others 0", (0, n), (k * high, n))
        case GammaExponentialFamily() if n is not None:
            half = _half(family, layout(family, population))
            name = f"{_do(k, 'go')} from low to high, all others low"
            return Pair(name, (-n * half, n), ((2 * k - n) * half, n))
        case NormalMeanFamily(dimension=d) if n is not None:
            half = _half(family, layout(family, population))
            return Pair(f"{_do(k, 'go')} from low to high", (*(-k * half,) * d, n), (*(k * half,) * d, n))
        case _:
            raise _unknown(mechanism, family)


def _half(family: NormalMeanFamily | GammaExponentialFamily | NormalInverseGammaFamily, at: Layout) -> int:
    """Return half the declared interval, in units of the grid on which sums are counted."""
    return math.ceil((family.high - family.low) / 2 / at.grid)


def _categories(family: ConjugateFamily, alphas: tuple[float, ...], population: Adjacency) -> Pair:
    """Return counts at which the two smallest alphas stand alone, everyone else elsewhere.

    Two categories under replace have no elsewhere: the others then sit in the one with the larger alpha.
    """
    k, order = population.rows, sorted(range(len(alphas)), key=lambda i: alphas[i])
    low, next_low, away = order[0], order[1], order[-1]
    if population.replaces:
        others = 0 if population.count is None else population.count - k
        before, after = _counts(alphas, {away: others}, {next_low: k}), _counts(alphas, {away: others}, {low: k})
        name = f"{_do(k, 'change')} category, {others} others elsewhere"
    else:
        before, after = _counts(alphas, {away: CROWD}, {}), _counts(alphas, {away: CROWD}, {low: k})
        name = f"{_records(k)} added, {CROWD} others elsewhere"
    return Pair(name, _given(family, before), _given(family, after))


def _counts(alphas: tuple[float, ...], *parts: dict[int, int]) -> Dataset:
    return tuple(sum(part.get(i, 0) for part in parts) for i in range(len(alphas)))


def _given(family: ConjugateFamily, counts: Dataset) -> Dataset:
    """Return what a mechanism is given for these counts: successes are category 0 of a Bernoulli."""
    sums = counts[:1] if isinstance(family, BetaBernoulliFamily) else counts
    return (*sums, sum(counts))


def _truncated(mechanism: TruncatedSample, family: ConjugateFamily) -> Iterator[Pair]:
    """Yield the boundary pair, and one whose other records are split evenly between the first two categories."""
    population, k = mechanism.population, mechanism.population.rows
    size = family.categories if isinstance(family, DirichletCategoricalFamily) else 2
    if population.replaces:
        yield _draw(mechanism, family)
    others = 0 if population.count is None else population.count - k
    split = (others // 2, others - others // 2, *(0,) * (size - 2))
    first = (split[0], split[1] + k, *split[2:]) if population.replaces else split
    second = (split[0] + k, *split[1:])
    if others or not population.replaces:
        yield Pair(f"{_do(k, 'differ')}, {others} others split evenly", _given(family, first), _given(family, second))
