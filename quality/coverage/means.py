"""How often nominal 90 % intervals of means and variances from noisy moments hold the truth, and how wrong a mean is.

    python quality/coverage/means.py                       # 1,000 studies of each cell, some minutes; writes means.json
    python quality/coverage/means.py --show                # the tables of what was run

A study draws records of a law, rounds nothing, sums the terms of their moments, adds noise as a release of that spend
would, and reads the interval. The truth is the mean or variance of the law. The error of an estimate is that against
the records' own mean, beside that of a noisy sum over a noisy count for the same spend.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from vestry.noise_inversion.mean_equation import MeanEquation
from vestry.noise_inversion.variance_equation import variance_from_moments

RESULTS = Path(__file__).with_suffix(".json")
Array = npt.NDArray[np.float64]
Draw = Callable[[np.random.Generator, int], Array]
SIZES = (20, 200, 2_000, 20_000)
EPSILONS = (0.3, 1.0, 3.0)
NOISES = ("laplace", "gaussian")
STUDIES = 1_000
ERROR_STUDIES = 200


@dataclass(frozen=True)
class Law:
    """A law of values in [0, 1], with its mean and variance; those of rare values depend on the number of records."""

    draw: Draw
    mean: Callable[[int], float]
    variance: Callable[[int], float]


def constant(value: float) -> Law:
    """All values are equal."""
    return Law(lambda rng, n: np.full(n, value), lambda n: value, lambda n: 0.0)


def of_points(points: list[float], shares: Callable[[int], list[float]]) -> Law:
    """Values are a few points, whose shares may depend on the number of records."""

    def draw(rng: np.random.Generator, n: int) -> Array:
        return rng.choice(points, n, p=shares(n))

    def mean(n: int) -> float:
        return float(np.dot(points, shares(n)))

    def variance(n: int) -> float:
        return float(np.dot(np.square(points), shares(n)) - mean(n) ** 2)

    return Law(draw, mean, variance)


def beta(first: float, second: float) -> Law:
    """Values have a beta law."""
    total = first + second
    mean = first / total
    variance = mean * (1 - mean) / (total + 1)
    return Law(lambda rng, n: rng.beta(first, second, n), lambda n: mean, lambda n: variance)


def half_spike() -> Law:
    """Half of the values are 0, the others have a beta law."""

    def draw(rng: np.random.Generator, n: int) -> Array:
        return np.where(rng.uniform(size=n) < 0.5, 0.0, rng.beta(2, 2, n))

    mean = 0.25
    second_moment = 0.5 * (0.05 + 0.25)
    return Law(draw, lambda n: mean, lambda n: second_moment - mean**2)


def cut_exponential() -> Law:
    """An exponential law of mean 0.1, cut at 1."""
    rate = 10.0
    mean = (1 - math.exp(-rate)) / rate
    second_moment = 2 / rate**2 * (1 - math.exp(-rate) * (1 + rate))
    return Law(
        lambda rng, n: np.minimum(rng.exponential(1 / rate, n), 1.0),
        lambda n: mean,
        lambda n: second_moment - mean**2,
    )


LAWS = {
    "constant": constant(0.3),
    "rare large values": of_points([0.05, 1.0], lambda n: [1 - 3 / n, 3 / n]),
    "two points": of_points([0.2, 0.9], lambda n: [0.7, 0.3]),
    "both ends": of_points([0.0, 1.0], lambda n: [0.85, 0.15]),
    "half at an end": half_spike(),
    "skew": cut_exponential(),
    "uniform": beta(1, 1),
    "narrow": beta(60, 30),
}


def mean_equation(values: Array, epsilon: float, noise: str, rng: np.random.Generator) -> MeanEquation:
    """Return the equation from noisy moments; Gaussian noise has the deviation 1/epsilon, as mu = epsilon buys."""
    rest = 1 - values
    scale = 1 / epsilon
    if noise == "laplace":
        sums = np.array([(rest * rest).sum(), (2 * rest * values).sum(), (values * values).sum()])
        noisy = sums + rng.laplace(0, scale, 3)
        return MeanEquation.of_partition(*noisy, 2 * scale**2)
    sums = np.array([rest.sum(), values.sum(), math.sqrt(8) * (rest * values).sum()])
    complement, value, product = sums + rng.normal(0, scale, 3)
    return MeanEquation.of_sphere(complement, value, product / math.sqrt(8), scale**2)


def variance_holds(values: Array, epsilon: float, noise: str, truth: float, rng: np.random.Generator) -> bool:
    """Return whether the interval by four moments holds the variance."""
    terms = [math.comb(4, k) * (values**k * (1 - values) ** (4 - k)).sum() for k in range(5)]
    scale = 1 / epsilon
    drawn = rng.laplace(0, scale, 5) if noise == "laplace" else rng.normal(0, scale, 5)
    variance = 2 * scale**2 if noise == "laplace" else scale**2
    interval = variance_from_moments(np.array(terms) + drawn, variance).interval
    return interval.lower <= truth <= interval.upper


def cells() -> Iterator[tuple[str, int, float, str]]:
    """Yield every cell."""
    for law in LAWS:
        for size in SIZES:
            for epsilon in EPSILONS:
                for noise in NOISES:
                    yield law, size, epsilon, noise


def covered(name: str, size: int, epsilon: float, noise: str, rng: np.random.Generator) -> dict[str, float]:
    """Return the coverage of the mean and of the variance in one cell."""
    law = LAWS[name]
    means = 0
    variances = 0
    for _ in range(STUDIES):
        values = law.draw(rng, size)
        interval = mean_equation(values, epsilon, noise, rng).interval()
        means += interval.lower <= law.mean(size) <= interval.upper
        variances += variance_holds(values, epsilon, noise, law.variance(size), rng)
    return {"mean": means / STUDIES, "variance": variances / STUDIES}


def errors(name: str, size: int, rng: np.random.Generator) -> dict[str, float]:
    """Return mean absolute errors at epsilon 1: of this estimate, and of a noisy sum over a noisy count."""
    own = []
    ratio = []
    for _ in range(ERROR_STUDIES):
        values = LAWS[name].draw(rng, size)
        estimate = mean_equation(values, 1.0, "laplace", rng).estimate()
        own.append(abs(estimate - values.mean()))
        total = values.sum() + rng.laplace(0, 2)
        count = size + rng.laplace(0, 2)
        ratio.append(abs(total / count - values.mean()))
    return {"moments": float(np.mean(own)), "sum over count": float(np.mean(ratio))}


def run() -> None:
    """Run all cells and write the results."""
    rng = np.random.default_rng(20)
    found: dict[str, dict[str, dict[str, float]]] = {"coverage": {}, "errors": {}}
    for law, size, epsilon, noise in cells():
        found["coverage"][f"{law}|{size}|{epsilon}|{noise}"] = covered(law, size, epsilon, noise, rng)
        print(f"{law}, {size:,} records, {epsilon}, {noise}", flush=True)
    for law in LAWS:
        for size in (2_000, 20_000):
            found["errors"][f"{law}|{size}"] = errors(law, size, rng)
    RESULTS.write_text(json.dumps(found, indent=1) + "\n")


def show() -> None:
    """Print the tables."""
    found = json.loads(RESULTS.read_text())
    for quantity, least in (("mean", 0), ("variance", 200)):
        print(f"\n{quantity}: coverage of 1,000 studies, least and greatest over spends and noises")
        rates = []
        for law in LAWS:
            row = []
            for size in SIZES:
                own = [value[quantity] for key, value in found["coverage"].items() if key.startswith(f"{law}|{size}|")]
                row.append(f"{min(own):.3f} {max(own):.3f}")
                rates += own if size >= least else []
            print(f"  {law:20}" + "  ".join(row))
        print(
            f"  from {least} records on: mean {np.mean(rates):.3f}, least {min(rates):.3f}, greatest {max(rates):.3f}"
        )
    print("\nmean absolute error at epsilon 1, as a part of that of a noisy sum over a noisy count")
    for key, value in found["errors"].items():
        print(f"  {key:28} {value['moments'] / value['sum over count']:.2f}")


def main() -> None:
    """Run, or show what was run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--show", action="store_true")
    if not parser.parse_args().show:
        run()
    show()


if __name__ == "__main__":
    main()
