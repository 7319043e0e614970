"""What neighbouring datasets look like, and how far apart a mechanism's outputs are: by other means than the source's.

A unit's contribution is the vector of integers that it adds to the statistics. Posterior draws are compared through
log-gamma functions and quadrature; noisy integers by summing their laws.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import numpy as np
from scipy.special import betaln, gammaln, log_expit

from vestry.conjugate.beta_bernoulli import BetaBernoulliFamily
from vestry.conjugate.dirichlet_categorical import DirichletCategoricalFamily
from vestry.conjugate.family import ConjugateFamily
from vestry.conjugate.gamma_exponential import GammaExponentialFamily
from vestry.conjugate.gamma_poisson import GammaPoissonFamily
from vestry.conjugate.normal_mean import NormalMeanFamily
from vestry.privacy.neighbours import Adjacency

# --- what one unit may contribute ------------------------------------------------------------------------------------


def records(family: ConjugateFamily, *, half: int) -> list[tuple[int, ...]]:
    """Return one record's integers: 0 or 1, one category of several, or a point of the grid from the middle."""
    match family:
        case BetaBernoulliFamily() | DirichletCategoricalFamily(categories=2):
            return [(1, 0), (0, 1)]
        case DirichletCategoricalFamily(categories=categories):
            return [tuple(int(i == j) for j in range(categories)) for i in range(categories)]
        case GammaPoissonFamily(high=high):
            return [(x,) for x in range(high + 1)]
        case GammaExponentialFamily():
            return [(x,) for x in range(-half, half + 1)]
        case NormalMeanFamily(dimension=dimension):
            return list(itertools.product(range(-half, half + 1), repeat=dimension))
    raise AssertionError(family)


def contributions(family: ConjugateFamily, adjacency: Adjacency, *, half: int = 1) -> list[tuple[int, ...]]:
    """Return every vector that a unit can add to the statistics that are released.

    A public count fixes how many records a unit has. With a private one it may have fewer, or none. The statistics of
    two categories with a public count are the successes alone; a private count joins the sums of the normal mean, in
    units of 1/half.
    """
    k, public = adjacency.rows, adjacency.count is not None
    if adjacency.groups > 1:
        return _grouped(family, adjacency, half=half)
    found = set()
    for size in [k] if public else range(k + 1):
        for chosen in itertools.combinations_with_replacement(records(family, half=half), size):
            width = len(records(family, half=half)[0])
            sums = tuple(sum(record[i] for record in chosen) for i in range(width))
            if isinstance(family, SUMS):
                found.add(sums if public else (*sums, _units(family, half) * size))
            elif width == 2 and public:
                found.add(sums[:1])
            else:
                found.add(sums)
    return sorted(found)


SUMS = (NormalMeanFamily, GammaExponentialFamily, GammaPoissonFamily)


def _units(family: ConjugateFamily, half: int) -> int:
    """Return what one record adds to a private count beside sums."""
    return max(1, family.high // 2) if isinstance(family, GammaPoissonFamily) else half


def _grouped(family: ConjugateFamily, adjacency: Adjacency, *, half: int) -> list[tuple[int, ...]]:
    """Return the same by group: each of a unit's records may lie in any of them."""
    alone = [(*r, _units(family, half)) if isinstance(family, SUMS) else r for r in records(family, half=half)]
    width = len(alone[0])
    placed = []
    for group, record in itertools.product(range(adjacency.groups), alone):
        before, after = (0,) * (group * width), (0,) * ((adjacency.groups - 1 - group) * width)
        placed.append((*before, *record, *after))
    found = {
        tuple(map(sum, zip((0,) * (adjacency.groups * width), *chosen, strict=True)))
        for size in range(adjacency.rows + 1)
        for chosen in itertools.combinations_with_replacement(placed, size)
    }
    return sorted(found)


def shifts(family: ConjugateFamily, adjacency: Adjacency, *, half: int = 1) -> np.ndarray:
    """Return every distance between the statistics of two neighbours, once up to signs and order."""
    some = contributions(family, adjacency, half=half)
    none = [tuple(0 for _ in some[0])]
    pairs = itertools.product(some, some if adjacency.replaces else none)
    return np.array(sorted({tuple(sorted(abs(a - b) for a, b in zip(x, y, strict=True))) for x, y in pairs}))


# --- noisy integers ---------------------------------------------------------------------------------------------------


def losses(noise: str, shift: np.ndarray, scale: float, *, most_order: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the privacy losses of integers with noise, moved by `shift`, and their probabilities.

    The loss of each coordinate is a whole number of units (1/scale, or 1/(2 scale^2)), so that laws of sums are
    convolutions.
    """
    law = np.ones(1)
    offset = 0
    for step in (int(v) for v in shift if v):
        if noise == "discrete-laplace":
            reach = math.ceil(40 * scale) + 2 * step
            x = np.arange(-reach, reach + 1)
            weight = np.exp(-np.abs(x) / scale)
            keys = np.abs(x - step) - np.abs(x)
        else:
            reach = math.ceil(12 * scale + (most_order + 1) * step)
            x = np.arange(-reach, reach + 1)
            weight = np.exp(-((x / scale) ** 2) / 2)
            keys = step * step - 2 * step * x
        one = np.bincount(keys - keys.min(), weights=weight / weight.sum())
        law, offset = np.convolve(law, one), offset + int(keys.min())
    unit = 1 / scale if noise == "discrete-laplace" else 1 / (2 * scale * scale)
    return unit * (offset + np.arange(len(law))), law


def renyi_of_losses(loss: np.ndarray, law: np.ndarray, order: float) -> float:
    seen = law > 0
    return float(np.logaddexp.reduce(np.log(law[seen]) + (order - 1) * loss[seen])) / (order - 1)


def delta_of_losses(loss: np.ndarray, law: np.ndarray, epsilon: float) -> float:
    return float(law @ np.maximum(0, -np.expm1(epsilon - loss)))


# --- posterior draws --------------------------------------------------------------------------------------------------


def partition(alphas: np.ndarray) -> np.ndarray:
    return gammaln(alphas).sum(axis=-1) - gammaln(alphas.sum(axis=-1))


def renyi_of_dirichlets(p: np.ndarray, q: np.ndarray, order: float) -> float:
    between = order * p + (1 - order) * q
    if np.any(between <= 1e-13):
        return math.inf
    return float((partition(between) - order * partition(p)) / (order - 1) + partition(q))


def delta_of_dirichlets(p: np.ndarray, q: np.ndarray, epsilon: float) -> float:
    """Integrate (p - e^epsilon q)^+ where at most two categories move, by as much in opposite directions, or one.

    Two that move: only theta_i/(theta_i + theta_j) tells. One that moves: only theta_i tells. Both are betas, and the
    integral is over the logit.
    """
    moved = ~np.isclose(p, q, rtol=0, atol=1e-12)
    if moved.sum() == 2 and math.isclose(p.sum(), q.sum(), abs_tol=1e-12):
        one, other = p[moved], q[moved]
    elif moved.sum() == 1:
        one, other = (np.array([x[moved][0], x[~moved].sum()]) for x in (p, q))
    else:
        return 0.0
    least = min(*one, *other)
    reach = 12 / math.sqrt(least) + 45 / least
    logits = math.log(one[0] / one[1]) + np.linspace(-reach, reach, 30_001)
    logs = [a * log_expit(logits) + b * log_expit(-logits) - betaln(a, b) for a, b in (one, other)]
    excess = np.exp(logs[0]) * np.maximum(0, -np.expm1(np.minimum(0, epsilon + logs[1] - logs[0])))
    return float(excess.sum()) * (logits[1] - logits[0])


def dirichlet_neighbours(
    categories: int, adjacency: Adjacency, rng: np.random.Generator, *, random: int
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield counts of neighbouring datasets, both ways: the worst ones, and random ones.

    Worst: the unit's records agree and change category (or vanish), beside the fewest others, or others that all sit
    in one category, or very many such.
    """
    k, n = adjacency.rows, adjacency.count
    crowds = [0, 1, 7, 1000] if n is None else [n - k]
    corners = np.eye(categories, dtype=int)
    for crowd, i in itertools.product(crowds, range(categories)):
        for a, b in itertools.permutations(range(categories), 2):
            before, after = k * corners[a], k * corners[b]
            yield from both(crowd * corners[i] + before, crowd * corners[i] + (after if adjacency.replaces else 0))
            if adjacency.replaces and n is None:
                yield from both(crowd * corners[i] + before, crowd * corners[i])
    for _ in range(random):
        others = rng.multinomial(
            n - k if n is not None else rng.integers(0, 200), rng.dirichlet(np.full(categories, 0.5))
        )
        sizes = (k, k) if n is not None else (rng.integers(0, k + 1), rng.integers(0, k + 1))
        one, other = (rng.multinomial(size, rng.dirichlet(np.ones(categories))) for size in sizes)
        yield from both(others + one, others + (other if adjacency.replaces else 0))


def both(one: np.ndarray, other: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    if np.any(one != other):
        yield one, other
        yield other, one
