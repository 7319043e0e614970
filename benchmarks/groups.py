"""What it costs to read a release of very many levels or groups: every interval of it, and how that grows."""

import resource
import time

import numpy as np

from vestry.releases import Certificate, NoisyStatistics, Release

CLAIM = Certificate({}, {}, "simulated", "", 0.0, "", "", {})
MEGABYTES = 1024  # getrusage counts in kilobytes on Linux


def run(quick: bool = False) -> list[dict]:
    """Time each size against a smaller one, in the same run."""
    part = 10 if quick else 1
    return [
        grown("a table of 100,000 levels, 5,000 used", table, 100_000 // part, 10),
        grown("10,000 groups, each alone", alone, 10_000 // part, 10),
        grown("2,000 pooled proportions", pooled, 2_000 // part, 4),
        {"name": "memory after these", "value": peak(), "unit": "MB"},
    ]


def grown(name: str, read, size: int, times: int) -> dict:
    """Return the seconds at a size, as a ratio to so many times those of a part of it."""
    small, large = seconds(read, size // times), seconds(read, size)
    shown = name if not name[0].isdigit() else f"{size:,} {name.partition(' ')[2]}"
    ratio, peer = large / (times * small), f"{times} of a {times}th of it"
    return {"name": f"reading {shown}", "value": large, "unit": "s", "ratio": ratio, "limit": 2.0, "peer": peer}


def seconds(read, size: int) -> float:
    """Return how long all intervals take."""
    posterior = read(size)
    start = time.perf_counter()
    posterior().rows()
    return time.perf_counter() - start


def noise(rng: np.random.Generator, scale: float, size: int) -> np.ndarray:
    p = -np.expm1(-1 / scale)
    return rng.geometric(p, size) - rng.geometric(p, size)


def table(levels: int):
    """A twentieth of the levels is used."""
    rng = np.random.default_rng(1)
    used = max(2, levels // 20)
    counts = noise(rng, 5.0, levels)
    counts[:used] += rng.multinomial(20 * levels, rng.dirichlet(np.ones(used)))
    noisy = NoisyStatistics(tuple(map(str, range(levels))), tuple(counts.tolist()), "discrete-laplace", 5.0)
    release = Release({"name": "dirichlet-categorical", "categories": levels}, (), {"all": noisy}, CLAIM)
    return release.posterior


def proportions(groups: int) -> Release:
    """Groups of 5 to 50 records, at epsilon 0.5."""
    rng = np.random.default_rng(1)
    n = rng.integers(5, 51, groups)
    successes = rng.binomial(n, rng.beta(3, 7, groups))
    pairs = np.column_stack([successes + noise(rng, 2.0, groups), n - successes + noise(rng, 2.0, groups)])
    names = ("successes", "failures")
    contents = {
        str(place): NoisyStatistics(names, tuple(pair), "discrete-laplace", 2.0)
        for place, pair in enumerate(pairs.tolist())
    }
    return Release({"name": "beta-bernoulli"}, (1.0, 1.0), contents, CLAIM, "ward")


def alone(groups: int):
    """Each group by its own numbers."""
    return proportions(groups).posterior


def pooled(groups: int):
    """Groups that learn from each other."""
    release = proportions(groups)
    return lambda: release.posterior(pool=True)


def peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / MEGABYTES
