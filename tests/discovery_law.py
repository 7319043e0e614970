"""What a threshold shows, written out in 50 digits: the probability of every output, from the definition alone.

An output of one value is its noisy count, or None if it is not shown; of several values a tuple of them. `slip` moves
the threshold down: the planted mistake.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product

from mpmath import mp, mpf

Law = dict[object, mpf]


def laplace(scale: float, margin: int) -> Law:
    weights = {k: mp.exp(-mpf(abs(k)) / mpf(repr(float(scale)))) for k in range(-margin, margin + 1)}
    total = mp.fsum(weights.values())
    return {k: weight / total for k, weight in weights.items()}


def gaussian(scale: float, margin: int) -> Law:
    reach = int(9 * scale) + margin
    weights = {k: mp.exp(-(mpf(k) ** 2) / (2 * mpf(repr(float(scale))) ** 2)) for k in range(-reach, reach + 1)}
    total = mp.fsum(weights.values())
    return {k: weight / total for k, weight in weights.items()}


def rounded_gaussian(scale: float, margin: int) -> Law:
    reach = int(9 * scale) + margin
    cuts = [mp.ncdf((mpf(2 * k) - 1) / 2 / mpf(repr(float(scale)))) for k in range(-reach, 1)]
    below = {k: cuts[k + reach + 1] - cuts[k + reach] for k in range(-reach, 0)}
    weights = {**below, 0: 1 - 2 * cuts[-1], **{-k: mass for k, mass in below.items()}}
    total = mp.fsum(weights.values())
    return {k: weight / total for k, weight in weights.items()}


NOISES: dict[str, Callable[[float, int], Law]] = {
    "laplace": laplace,
    "gaussian": gaussian,
    "rounded-gaussian": rounded_gaussian,
}


def shown(count: int, noise: Law, threshold: int, *, least: int = 1) -> Law:
    """Return the distribution of what is shown of a value that so many hold."""
    if count < least:
        return {None: mpf(1)}
    found: Law = {None: mpf(0)}
    for extra, chance in noise.items():
        z = count + extra if count + extra >= threshold else None
        found[z] = found.get(z, mpf(0)) + chance
    return found


def joint(laws: list[Law]) -> Law:
    return {
        tuple(each for each, _ in outcome): mp.fprod(chance for _, chance in outcome)
        for outcome in product(*(law.items() for law in laws))
    }


def hockey_stick(p: Law, q: Law, epsilon: float) -> mpf:
    factor = mp.exp(mpf(repr(float(epsilon))))
    return mp.fsum(max(chance - factor * q.get(outcome, mpf(0)), mpf(0)) for outcome, chance in p.items())


def delta(first: list[Law], second: list[Law], epsilon: float) -> mpf:
    """Return the larger of both directions, of the values whose laws differ."""
    changed = [(p, q) for p, q in zip(first, second, strict=True) if p != q]
    if not changed:
        return mpf(0)
    p, q = (joint(list(side)) for side in zip(*changed, strict=True))
    return max(hockey_stick(p, q, epsilon), hockey_stick(q, p, epsilon))


def tables(universe: int, units: int, values: int) -> Iterator[tuple[tuple[int, ...], ...]]:
    """Yield every table of so many units, each of which holds up to so many of the values, as sets."""
    sets = [each for each in product((0, 1), repeat=universe) if sum(each) <= values]
    yield from product(sets, repeat=units)


def counts(table: tuple[tuple[int, ...], ...], universe: int) -> tuple[int, ...]:
    return tuple(sum(unit[value] for unit in table) for value in range(universe))
