"""What it takes to read large releases: 100,000 levels, 10,000 groups each alone, and 2,000 groups that are pooled.

Each is read in its own process, with every mean and 90 % credible interval, as `vestry posterior` does; memory is what
that process needed beyond its imports. Growth is against a tenth of the size in the same run: 1 is in proportion.
"""

import json
import resource
import subprocess
import sys
import time

import numpy as np

SIZES = {"levels": 100_000, "groups": 10_000, "pooled groups": 2_000}
MOST_MB, GROWTH, SCALE = 2000.0, 2.0, 5.0


def run(quick: bool = False) -> list[dict]:
    """Measure each size and a tenth of it."""
    rows = []
    for kind, whole in SIZES.items():
        size = whole // 20 if quick else whole
        small, large = (measured(kind, each) for each in (size // 10, size))
        name = f"read {size:,} {kind}"
        rows += [
            row(name, large["seconds"], "s", 10 * small["seconds"], GROWTH, f"ten times {size // 10:,}"),
            row(f"{name}: memory", large["megabytes"], "MB", MOST_MB, 1.0, f"a limit of {MOST_MB:g} MB"),
        ]
    return rows


def row(name: str, value: float, unit: str, against: float, limit: float, peer: str) -> dict:
    ratio = value / max(against, 1e-9)
    return {"name": name, "value": value, "unit": unit, "ratio": ratio, "limit": limit, "peer": peer}


def measured(kind: str, size: int) -> dict[str, float]:
    """Read a release of this size in another process."""
    done = subprocess.run([sys.executable, __file__, kind, str(size)], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def release(kind: str, size: int):
    """Make up a release: a few levels that occur, or groups of 20 records with a share of their own."""
    from vestry.releases import Certificate, NoisyStatistics, Release

    rng = np.random.default_rng(3)
    claim = Certificate({"epsilon": 0.2}, {}, "laplace", "scale", SCALE, "", "row", {})
    p = -np.expm1(-1 / SCALE)

    def noisy(counts):
        values = counts + rng.geometric(p, len(counts)) - rng.geometric(p, len(counts))
        names = tuple(map(str, range(len(values))))
        return NoisyStatistics(names, tuple(values.tolist()), "discrete-laplace", SCALE)

    if kind == "levels":
        counts = rng.multinomial(10 * size, rng.dirichlet(np.full(size, 0.01)))
        return Release({"name": "dirichlet-categorical", "categories": size}, (), {"all": noisy(counts)}, claim)
    yes = rng.binomial(20, rng.beta(4, 8, size))
    groups = {f"group {place}": noisy(np.array([each, 20 - each])) for place, each in enumerate(yes)}
    return Release({"name": "beta-bernoulli"}, (1.0, 1.0), groups, claim, "group")


def main(kind: str, size: int) -> None:
    """Read one release, and print seconds and megabytes."""
    from vestry.posterior import Posterior

    Posterior.from_release(release(kind, 20), **({"pool": True} if kind.startswith("pooled") else {})).rows()
    made, before = release(kind, size), peak()
    start = time.perf_counter()
    rows = Posterior.from_release(made, **({"pool": True} if kind.startswith("pooled") else {})).rows()
    seconds = time.perf_counter() - start
    assert len(rows) == size
    print(json.dumps({"seconds": seconds, "megabytes": max(peak() - before, 1.0)}))


def peak() -> float:
    """Return the most memory that this process had, in megabytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1 if sys.platform == "darwin" else 1024)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
