"""How often 90 % intervals of averages over persons cover the truth, on simulated studies; it goes on where it stopped.

    python quality/coverage/persons.py --studies 1000           # every cell, up to so many studies each
    python quality/coverage/persons.py --show                   # the table of what has been found, and of the limits

A person has 1 to 6 rows. A row's number is the person's own with probability sqrt(icc), else a new one, so that two
rows of a person correlate by icc; what the row shows is the quantile of its group at that number. Rows go to the
person's own group with probability 0.6, else to any of the three. Study i of a cell is the same on every machine: its
generator is seeded by the cell's name and i. A study's hits are averaged over its groups and levels first; the standard
error is that of the mean over studies. `persons.json` holds what was found. Cells of few events, and of contrasts,
which take groups as independent, are printed, and not judged; those of the broken twin, which takes rows as
independent, must fall outside.
"""

from __future__ import annotations

import argparse
import json
import math
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from scipy.special import betaincinv
from scipy.stats import poisson

from vestry.conjugate.beta_bernoulli import private_count
from vestry.persons.person_average import PersonReader
from vestry.posterior.discrete_noise import Laplace
from vestry.releases import NoisyStatistics

FILE = Path(__file__).with_name("persons.json")
LOW, HIGH = 0.86, 0.95
UNITS = 3600 * 291
MOST_ROWS = 6
GROUPS = 3
# Rates are of counts up to this.
MOST_COUNT = 20
ICCS, EPSILONS = (0.0, 0.5, 0.95), (0.2, 1.0)
Array = np.ndarray


def rows_of(rng: np.random.Generator, persons: int, icc: float, groups: int) -> tuple[Array, Array, Array]:
    """Return each row's person, group and number between 0 and 1."""
    who = np.repeat(np.arange(persons), rng.integers(1, MOST_ROWS + 1, persons))
    own, home = rng.random(persons), rng.integers(0, groups, persons)
    number = np.where(rng.random(who.size) < math.sqrt(icc), own[who], rng.random(who.size))
    group = np.where(rng.random(who.size) < 0.6, home[who], rng.integers(0, groups, who.size))
    return who, group, number


def weights(who: Array, cell: Array, value: Array, cells: int) -> Array:
    """Return the sum of value/m over each person's rows in each cell."""
    persons, share = who.max() + 1, value / np.bincount(who)[who]
    return np.bincount(who * cells + cell, share, persons * cells).reshape(persons, cells)


def number_parts(s: Array, w: Array) -> Array:
    """Return the five sums of each group, or three."""
    f = w - s
    parts = [s * s, 2 * s * f, f * f, s * (1 - w), f * (1 - w)]
    return np.stack([part.sum(axis=0) for part in parts[: 5 if s.shape[1] > 1 else 3]], axis=1)


def level_parts(q: Array, groups: int) -> Array:
    """Return the three sums of each level of each group, or two."""
    by = q.reshape(len(q), groups, -1)
    w = by.sum(axis=2, keepdims=True)
    parts = [by * by, by * (w - by), by * (1 - w)][: 3 if groups > 1 else 2]
    return np.stack([part.sum(axis=0) for part in parts], axis=2).reshape(groups, -1)


def noisy_parts(parts: Array, reader: PersonReader, epsilon: float, rng: np.random.Generator) -> list:
    """Add the noise of an add-remove release, and return the distribution of every average, group by group."""
    scale = UNITS / epsilon
    p = -math.expm1(-1 / scale)
    noise = rng.geometric(p, parts.shape) - rng.geometric(p, parts.shape)
    found = []
    for values in np.rint(parts * UNITS).astype(int) + noise:
        noisy = NoisyStatistics(("",) * len(values), tuple(values.tolist()), "discrete-laplace", scale, 1 / UNITS)
        found += reader.noise_aware(noisy).parts
    return found


def hits(
    parts: Array, truth: Array, reader: PersonReader, epsilon: float, rng: np.random.Generator, *, ends: bool = False
) -> float:
    """Add noise, and return the share of intervals that hold the truth.

    An interval holds what its test accepts, and the test is asked; with `ends` the interval itself is, at ten times the
    time, and a test of the package compares the two.
    """
    low, high = reader.ends
    found = []
    for part, at in zip(noisy_parts(parts, reader, epsilon, rng), truth.ravel(), strict=True):
        if ends:
            first, last = part.interval(0.9)
            found.append(first <= at <= last)
        else:
            found.append(0.05 <= float(part.level((at - low) / (high - low))) <= 0.95)
    return float(np.mean(found))


def proportion(rng, persons: int, icc: float, epsilon: float, groups: int, p: float, **how: bool) -> float:
    """Look at proportions of p, and of less in each group that follows."""
    who, group, number = rows_of(rng, persons, icc, groups)
    truth = p * 0.8 ** np.arange(groups)
    s = weights(who, group, (number < truth[group]).astype(float), groups)
    reader = PersonReader("probability", "numbers", groups > 1, 1, (0.0, 1.0))
    parts = number_parts(s, weights(who, group, np.ones(who.size), groups))
    return hits(parts, truth[:, None], reader, epsilon, rng, **how)


def contrast(rng, persons: int, icc: float, epsilon: float, groups: int, p: float, **how: bool) -> float:
    """Look at the difference of two groups between which persons move, from independent draws of both."""
    who, group, number = rows_of(rng, persons, icc, groups)
    truth = p * 0.8 ** np.arange(groups)
    s = weights(who, group, (number < truth[group]).astype(float), groups)
    parts = number_parts(s, weights(who, group, np.ones(who.size), groups))
    reader = PersonReader("probability", "numbers", True, 1, (0.0, 1.0))
    drawn = [part.draw(rng, 2000) for part in noisy_parts(parts, reader, epsilon, rng)[:2]]
    low, high = np.quantile(drawn[0] - drawn[1], [0.05, 0.95])
    return float(low <= truth[0] - truth[1] <= high)


def mean(rng, persons: int, icc: float, epsilon: float, groups: int, p: float, **how: bool) -> float:
    """Look at means of skewed numbers between 0 and 60."""
    who, group, number = rows_of(rng, persons, icc, groups)
    first = np.array([2.0, 3.0, 4.0])[:groups]
    value = betaincinv(first[group], 5.0, number)
    s = weights(who, group, value, groups)
    reader = PersonReader("mean", "numbers", groups > 1, 1, (0.0, 60.0))
    parts = number_parts(s, weights(who, group, np.ones(who.size), groups))
    return hits(parts, (60 * first / (first + 5))[:, None], reader, epsilon, rng, **how)


def rate(rng, persons: int, icc: float, epsilon: float, groups: int, p: float, **how: bool) -> float:
    """Look at rates of counts; the truth is that of counts cut at the largest."""
    who, group, number = rows_of(rng, persons, icc, groups)
    rates = np.array([2.0, 1.0, 4.0])[:groups]
    counts = np.arange(200)
    below = [np.searchsorted(poisson.cdf(counts, each), number) for each in rates]
    value = np.minimum(np.choose(group, below), MOST_COUNT)
    truth = np.array([(np.minimum(counts, MOST_COUNT) * poisson.pmf(counts, each)).sum() for each in rates])
    s = weights(who, group, value / MOST_COUNT, groups)
    reader = PersonReader("rate", "numbers", groups > 1, 1, (0.0, float(MOST_COUNT)))
    parts = number_parts(s, weights(who, group, np.ones(who.size), groups))
    return hits(parts, truth[:, None], reader, epsilon, rng, **how)


def categories(rng, persons: int, icc: float, epsilon: float, groups: int, p: float, **how: bool) -> float:
    """Look at the shares of four levels."""
    who, group, number = rows_of(rng, persons, icc, groups)
    shares = np.array([0.5, 0.3, 0.15, 0.05])
    level = np.searchsorted(np.cumsum(shares)[:-1], (number + 0.1 * group) % 1.0, side="right")
    q = weights(who, group * 4 + level, np.ones(who.size), 4 * groups)
    reader = PersonReader("probability", "levels", groups > 1, 4, (0.0, 1.0))
    return hits(level_parts(q, groups), np.tile(shares, (groups, 1)), reader, epsilon, rng, **how)


def rows_as_independent(rng, persons: int, icc: float, epsilon: float, groups: int, p: float, **how: bool) -> float:
    """The broken twin: every row a record, with the noise of six."""
    who, _, number = rows_of(rng, persons, icc, 1)
    law, yes = Laplace(MOST_ROWS / epsilon), (number < p).sum()
    chance = -math.expm1(-1 / law.scale)
    noisy = np.array([yes, who.size - yes]) + rng.geometric(chance, 2) - rng.geometric(chance, 2)
    low, high = private_count(*map(float, noisy), alpha=1.0, beta=1.0, noise=law).interval(0.9)
    return float(low <= p <= high)


Study = Callable[..., float]
KINDS = {"proportion": proportion, "mean": mean, "rate": rate, "categories": categories}


def cells() -> Iterator[tuple[str, Study]]:
    """Yield each cell's name and study."""

    def study(kind, *arguments) -> Study:
        return lambda rng, **how: kind(rng, *arguments, **how)

    for icc in ICCS:
        for epsilon in EPSILONS:
            for groups in (1, GROUPS):
                for name, kind in KINDS.items():
                    where = f"{name}, icc {icc}, epsilon {epsilon}, groups {groups}"
                    yield where, study(kind, 1000, icc, epsilon, groups, 0.3)
            yield f"proportion .05, icc {icc}, epsilon {epsilon}", study(proportion, 1000, icc, epsilon, 1, 0.05)
            yield f"few events: 100 x .05, icc {icc}, epsilon {epsilon}", study(proportion, 100, icc, epsilon, 1, 0.05)
        for persons in (50, 300):
            where = f"few persons: {persons}, icc {icc}, epsilon 1.0, groups 3"
            yield where, study(proportion, persons, icc, 1.0, GROUPS, 0.3)
        yield f"few events: 50 x .05, icc {icc}, epsilon 5.0", study(proportion, 50, icc, 5.0, 1, 0.05)
    for icc in ICCS:
        yield f"contrast of groups, icc {icc}, epsilon 1.0", study(contrast, 1000, icc, 1.0, GROUPS, 0.3)
    for icc in ICCS[1:]:
        yield f"broken: rows as independent, icc {icc}, epsilon 1.0", study(rows_as_independent, 1000, icc, 1.0, 1, 0.3)


CELLS = dict(cells())


def seeded(name: str, place: int) -> np.random.Generator:
    """Return the generator of one study."""
    return np.random.default_rng([zlib.crc32(name.encode()), place])


def run(studies: int, every: float = 20.0) -> None:
    """Run the studies that are missing, and write what was found every few seconds."""
    found = json.loads(FILE.read_text()) if FILE.exists() else {}
    last = time.monotonic()
    for name, study in CELLS.items():
        each = found.setdefault(name, {"studies": 0, "sum": 0.0, "squares": 0.0})
        for place in range(each["studies"], studies):
            value = study(seeded(name, place))
            each.update(studies=place + 1, sum=each["sum"] + value, squares=each["squares"] + value * value)
            if time.monotonic() - last > every:
                FILE.write_text(json.dumps(found, indent=1) + "\n")
                last = time.monotonic()
        FILE.write_text(json.dumps(found, indent=1) + "\n")


def judged(name: str, mean: float, error: float) -> str:
    """Say whether a cell is inside its limits, to three standard errors."""
    if name.startswith(("few events", "contrast")):
        return ""
    inside = LOW - 3 * error <= mean <= HIGH + 3 * error
    if name.startswith("broken"):
        return "NOT OUTSIDE" if inside else "outside, as it must be"
    return "" if inside else "OUTSIDE"


def show() -> None:
    """Print the table."""
    found = json.loads(FILE.read_text())
    print(f"Nominal 0.90; limits {LOW} to {HIGH}, to three standard errors.\n")
    print(f"{'cell':<58} {'covers':>7} {'error':>6} {'studies':>8}")
    for name, each in found.items():
        n = each["studies"]
        if n > 1:
            mean = each["sum"] / n
            error = math.sqrt(max(each["squares"] / n - mean * mean, 0.0) / (n - 1))
            print(f"{name:<58} {mean:>7.3f} {error:>6.3f} {n:>8}  {judged(name, mean, error)}".rstrip())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--studies", type=int, default=0, help="up to so many studies in each cell")
    parser.add_argument("--show", action="store_true", help="print the table")
    given = parser.parse_args()
    run(given.studies)
    if given.show:
        show()
