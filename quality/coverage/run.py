"""How often 90 % credible intervals cover the truth, cell by cell, on simulated studies; it goes on where it stopped.

    python quality/coverage/run.py --list
    python quality/coverage/run.py --studies 1000                     # every cell, up to so many studies each
    python quality/coverage/run.py --cell levels-80 --studies 100     # one cell, or all that begin so
    python quality/coverage/run.py --show                             # the table of what has been found
    python quality/coverage/run.py --judge                            # and whether it is what it must be

Study i of a cell is the same on every machine: its generator is seeded by the cell's name and i. Results lie beside
this file, one JSON file per cell, and are added to every few studies. A quantity is averaged inside a study first; its
standard error is that of the mean over studies. Cells whose name ends in -broken hold what must fall outside.
"""

from __future__ import annotations

import argparse
import json
import math
import time
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np

from vestry.conjugate import beta_bernoulli, dirichlet_posterior
from vestry.conjugate.pooled_beta import pooled_beta
from vestry.conjugate.pooled_gamma import pooled_gamma
from vestry.conjugate.pooled_normal import pooled_normal
from vestry.conjugate.sparse_dirichlet import sparse_dirichlet
from vestry.posterior.discrete_noise import DiscreteGaussian, Laplace

HERE = Path(__file__).parent
LEVEL, TAIL = 0.9, 0.05
# Seconds between writes.
EVERY = 20.0
# A cell of a table is large from so many noise scales on.
LARGE = 5.0

Study = Callable[[np.random.Generator], "dict[str, float] | None"]
CELLS: dict[str, Study] = {}


def cell(
    name: str, *arguments: object, **options: object
) -> Callable[[Callable[..., dict[str, float] | None]], Callable[..., dict[str, float] | None]]:
    """Register a study under a name, with arguments."""

    def register(study: Callable[..., dict[str, float] | None]) -> Callable[..., dict[str, float] | None]:
        CELLS[name] = lambda rng: study(rng, *arguments, **options)
        return study

    return register


def noise_of(law: Laplace | DiscreteGaussian, size: int, rng: np.random.Generator) -> np.ndarray:
    """Draw integer noise."""
    if isinstance(law, Laplace):
        p = -math.expm1(-1 / law.scale)
        return (rng.geometric(p, size) - rng.geometric(p, size)).astype(float)
    k = np.arange(-math.ceil(12 * law.scale) - 1, math.ceil(12 * law.scale) + 2)
    mass = np.exp(-(k**2) / (2 * law.scale**2))
    return rng.choice(k, size, p=mass / mass.sum()).astype(float)


def covered(marginal: object, truth: float) -> float:
    """Return 1 if the equal-tailed interval holds the truth; the distribution function may jump at 0 and at 1."""
    at = float(marginal.cdf(truth))
    if at <= 1 - TAIL:
        return float(at >= TAIL)
    return float(marginal.cdf(np.nextafter(truth, -np.inf)) <= 1 - TAIL)


def ranked(marginal: object, truth: float, rng: np.random.Generator) -> float:
    """Return 1 if the truth's rank is central; it is drawn between the ranks of the doubles beside the truth.

    A level that never occurs is a jump there, and so is, in doubles, a proportion that is 1e-20 away from 1.
    """
    low = float(marginal.cdf(np.nextafter(truth, -np.inf)))
    high = float(marginal.cdf(np.nextafter(truth, np.inf) if truth > 0 else np.finfo(float).tiny))
    rank = low + rng.random() * (high - low)
    return float(TAIL <= rank <= 1 - TAIL)


# Tables of many levels

TEN = np.array([0.6, 0.2, 0.1, 0.05, 0.02, 0.01, 0.008, 0.006, 0.004, 0.002])


def with_empty(used: np.ndarray, levels: int) -> np.ndarray:
    """Add levels that never occur."""
    return np.concatenate([used, np.zeros(levels - used.size)])


def zipf(levels: int) -> np.ndarray:
    """Return probabilities in proportion to 1/rank."""
    shares = 1 / np.arange(1, levels + 1)
    return shares / shares.sum()


TABLES: dict[str, tuple[Callable[[np.random.Generator], np.ndarray], int, float]] = {
    "80-of-which-10": (lambda rng: with_empty(TEN, 80), 5000, 0.2),
    "zipf-60": (lambda rng: zipf(60), 3000, 0.3),
    "20-even": (lambda rng: np.full(20, 0.05), 2000, 0.5),
    "5": (lambda rng: rng.dirichlet(np.ones(5)), 300, 0.5),
    "1000-of-which-30": (lambda rng: with_empty(rng.dirichlet(np.ones(30)), 1000), 5000, 0.2),
}


def fixed_concentration(z: np.ndarray, law: Laplace | DiscreteGaussian) -> object:
    """The broken twin: Dirichlet(1), every level as likely as the rest."""
    return dirichlet_posterior.private_count(z, alphas=np.ones(z.size), noise=law)


def ignored_noise(z: np.ndarray, law: Laplace | DiscreteGaussian) -> object:
    """The broken twin: noisy counts as if they were exact, negative ones as 0."""
    return sparse_dirichlet(np.maximum(z, 0), noise=Laplace(0.02))


def table_study(
    rng: np.random.Generator,
    name: str,
    kind: type = Laplace,
    public: bool = False,
    twin: Callable[..., object] | None = None,
) -> dict[str, float]:
    """Simulate one table, add noise, and look at all its levels."""
    shares, n, epsilon = TABLES[name]
    theta, law = shares(rng), kind(1 / epsilon)
    z = rng.multinomial(n, theta) + noise_of(law, theta.size, rng)
    posterior = sparse_dirichlet(z, noise=law, count=n if public else None) if twin is None else twin(z, law)
    marginals = [posterior.marginal(index) for index in range(theta.size)]
    hits = np.array([covered(each, truth) for each, truth in zip(marginals, theta, strict=True)])
    large, empty = n * theta > LARGE * law.scale, theta == 0
    found = {"large": float(hits[large].mean()), "all": float(hits.mean())}
    if np.any(empty):
        found["empty"] = float(hits[empty].mean())
    if np.any(~large & ~empty):
        found["small"] = float(hits[~large & ~empty].mean())
    if name == "80-of-which-10":
        found.update({f"level {index + 1}": float(hits[index]) for index in range(10)})
    top = int(np.argmax(theta))
    low, high = marginals[top].interval(LEVEL)
    found["width of the largest"] = high - low
    return found


for _name in TABLES:
    cell(f"levels-{_name}", _name)(table_study)
cell("levels-80-of-which-10-gaussian", "80-of-which-10", kind=DiscreteGaussian)(table_study)
cell("levels-80-of-which-10-public", "80-of-which-10", public=True)(table_study)
cell("levels-5-public", "5", public=True)(table_study)
cell("levels-80-of-which-10-fixed-concentration-broken", "80-of-which-10", twin=fixed_concentration)(table_study)
cell("levels-80-of-which-10-noise-ignored-broken", "80-of-which-10", twin=ignored_noise)(table_study)


def table_rank(rng: np.random.Generator, levels: int, kind: type, public: bool = False) -> dict[str, float] | None:
    """Draw the truth from the hyperprior; a study counts if its noisy total lies far from where the draws end."""
    law = kind(2.0)
    alpha, pi = np.exp(rng.uniform(np.log(0.03), np.log(30))), rng.random()
    mean = np.exp(rng.uniform(np.log(2), np.log(60_000))) / (levels * pi)
    rates = rng.gamma(alpha, mean / alpha, levels) * (rng.random(levels) < pi)
    counts = rng.poisson(rates)
    z = counts + noise_of(law, levels, rng)
    if not 100 < z.sum() < 3000 or not rates.sum() > 0:
        return None
    posterior = sparse_dirichlet(z, noise=law, count=int(counts.sum()) if public else None)
    theta = rates / rates.sum()
    ranks = [ranked(posterior.marginal(i), float(theta[i]), rng) for i in range(levels)]
    return {"rank": float(np.mean(ranks))}


cell("levels-rank-20-laplace", 20, Laplace)(table_rank)
cell("levels-rank-20-gaussian", 20, DiscreteGaussian)(table_rank)
cell("levels-rank-20-public", 20, Laplace, public=True)(table_rank)
cell("levels-rank-2-laplace", 2, Laplace)(table_rank)


# Groups

MEAN, FEWEST, MOST = 0.3, 5, 50
# Of more groups, so many are looked at in each study.
LOOKED_AT = 50


def group_study(
    rng: np.random.Generator,
    groups: int,
    concentration: float,
    epsilon: float,
    flat: bool = False,
    ignore: bool = False,
) -> dict[str, float]:
    """Simulate groups of 5 to 50 records, add noise, and look at all of them, or at some of very many."""
    theta = rng.beta(MEAN * concentration, (1 - MEAN) * concentration, groups)
    n = rng.integers(FEWEST, MOST + 1, groups)
    s, law = rng.binomial(n, theta), Laplace(1 / epsilon)
    zs, zf = s + noise_of(law, groups, rng), n - s + noise_of(law, groups, rng)
    if ignore:
        zs, zf, law = np.maximum(zs, 0), np.maximum(zf, 0), Laplace(0.02)
    posterior = pooled_beta(zs, zf, noise=law, flat_totals=flat)
    looked_at = np.sort(rng.permutation(groups)[:LOOKED_AT])
    hits = np.array([covered(posterior.group(index), float(theta[index])) for index in looked_at])
    found, small = {"all": float(hits.mean())}, n[looked_at] <= 15
    if np.any(small):
        found["small groups"] = float(hits[small].mean())
    few = range(min(groups, 10))
    found["width"] = float(np.mean([np.diff(posterior.group(index).interval(LEVEL)) for index in few]))
    population = posterior.population()
    found["mean of rho"] = float(population["weight"] @ population["rho"])
    return found


for _groups in (5, 50, 500):
    for _k in (10, 50):
        for _epsilon in (0.2, 0.5, 2.0):
            cell(f"groups-{_groups}-k-{_k}-epsilon-{_epsilon:g}", _groups, _k, _epsilon)(group_study)
cell("groups-500-k-10-epsilon-0.2-flat-totals-broken", 500, 10, 0.2, flat=True)(group_study)
cell("groups-50-k-10-epsilon-0.2-noise-ignored-broken", 50, 10, 0.2, ignore=True)(group_study)


def group_widths(rng: np.random.Generator, groups: int, concentration: float, epsilon: float) -> dict[str, float]:
    """Compare pooled intervals with those of each group alone, Beta(1, 1), and with pooled ones from exact counts."""
    theta = rng.beta(MEAN * concentration, (1 - MEAN) * concentration, groups)
    n = rng.integers(FEWEST, MOST + 1, groups)
    s, law = rng.binomial(n, theta), Laplace(1 / epsilon)
    zs, zf = s + noise_of(law, groups, rng), n - s + noise_of(law, groups, rng)
    pooled, exact = pooled_beta(zs, zf, noise=law), pooled_beta(s, n - s, noise=Laplace(0.02))
    found = []
    for index in range(groups):
        pair = {"alpha": 1.0, "beta": 1.0, "noise": law}
        alone = beta_bernoulli.private_count(int(zs[index]), int(zf[index]), **pair)
        laws = (pooled.group(index), alone, exact.group(index))
        found.append([*(each.interval(LEVEL) for each in laws), (theta[index], n[index] <= 15)])
    ends = np.array(found, float)
    widths, small = ends[:, :3, 1] - ends[:, :3, 0], ends[:, 3, 1] == 1
    hit = (ends[:, :3, 0] <= ends[:, 3:, 0]) & (ends[:, 3:, 0] <= ends[:, :3, 1])
    names = ("pooled", "alone", "pooled, exact counts")
    result = {f"width {name}": float(value) for name, value in zip(names, widths.mean(axis=0), strict=True)}
    result |= {f"cover {name}": float(value) for name, value in zip(names, hit.mean(axis=0), strict=True)}
    if np.any(small):
        result |= {f"width {name} n<=15": float(v) for name, v in zip(names, widths[small].mean(axis=0), strict=True)}
    return result


for _k in (10, 50):
    cell(f"groups-widths-50-k-{_k}-epsilon-0.5", 50, _k, 0.5)(group_widths)


def group_rank(rng: np.random.Generator, groups: int) -> dict[str, float] | None:
    """Draw mean, rho and the totals' distribution from their priors; a study counts if its total is far from the ends.

    The expected total of a group has density 1/(size + 1/2): log-uniform ones are kept with that part of 1/size.
    Hyperparameters are ranked by the nodes, which is rough.
    """
    mean, rho, law = rng.random(), rng.random(), Laplace(2.0)
    k = (1 - rho) / rho
    theta = rng.beta(max(mean * k, 1e-9), max((1 - mean) * k, 1e-9), groups)
    shape, size = np.exp(rng.uniform(np.log(0.1), np.log(100))), np.exp(rng.uniform(np.log(0.1), np.log(20_000)))
    if rng.random() > size / (size + 0.5):
        return None
    n = rng.poisson(rng.gamma(shape, size / shape, groups))
    s = rng.binomial(n, theta)
    zs, zf = s + noise_of(law, groups, rng), n - s + noise_of(law, groups, rng)
    if not 5 * groups < (zs + zf).sum() < 40 * groups:
        return None
    posterior = pooled_beta(zs, zf, noise=law)
    population = posterior.population()
    at = (
        float(population["weight"] @ (population["mean"] < mean)),
        float(population["weight"] @ (population["rho"] < rho)),
    )
    return {
        "rank": float(np.mean([ranked(posterior.group(i), float(theta[i]), rng) for i in range(groups)])),
        "rank of the mean": float(TAIL <= at[0] <= 1 - TAIL),
        "rank of rho": float(TAIL <= at[1] <= 1 - TAIL),
    }


cell("groups-rank-20", 20)(group_rank)


def normal_groups(rng: np.random.Generator, groups: int, kind: type, private: bool) -> dict[str, float]:
    """Simulate means of groups of 5 to 50 records on [0, 10]."""
    theta = rng.normal(5.0, 0.7, groups)
    n = rng.integers(FEWEST, MOST + 1, groups)
    sums = rng.normal(n * theta, np.sqrt(n) * 2.0)
    law, count_law = kind(10 / 0.5 / 0.01), Laplace(2.0)
    noise = rng.laplace(0, law.scale, groups) if kind is Laplace else rng.normal(0, law.scale, groups)
    counts = n + noise_of(count_law, groups, rng) if private else n
    posterior = pooled_normal(
        np.rint(sums / 0.01 + noise),
        counts,
        variance=4.0,
        interval=(0.0, 10.0),
        noise=law,
        grid=0.01,
        count_noise=count_law if private else None,
    )
    hits = [covered(posterior.group(index), float(theta[index])) for index in range(groups)]
    return {"all": float(np.mean(hits)), "width": float(np.diff(posterior.group(0).interval(LEVEL))[0])}


cell("normal-groups-50-laplace", 50, Laplace, False)(normal_groups)
cell("normal-groups-50-gaussian", 50, DiscreteGaussian, False)(normal_groups)
cell("normal-groups-50-private", 50, Laplace, True)(normal_groups)


def gamma_groups(rng: np.random.Generator, groups: int, private: bool) -> dict[str, float]:
    """Simulate rates of groups of 5 to 50 records."""
    theta = rng.gamma(4.0, 0.5 / 4.0, groups)
    n = rng.integers(FEWEST, MOST + 1, groups).astype(float)
    law = Laplace(2.0)
    z = rng.poisson(n * theta) + noise_of(law, groups, rng)
    exposures = n + noise_of(law, groups, rng) if private else n
    posterior = pooled_gamma(z, exposures, noise=law, exposure_noise=law if private else None)
    hits = [covered(posterior.group(index), float(theta[index])) for index in range(groups)]
    return {"all": float(np.mean(hits)), "width": float(np.diff(posterior.group(0).interval(LEVEL))[0])}


cell("gamma-groups-50", 50, False)(gamma_groups)
cell("gamma-groups-50-private", 50, True)(gamma_groups)


def normal_rank(rng: np.random.Generator, groups: int, kind: type) -> dict[str, float]:
    """Draw mean and spread of the population from their priors."""
    mean, spread = rng.uniform(0, 10), rng.uniform(0, 10)
    theta, n = rng.normal(mean, spread, groups), rng.integers(FEWEST, MOST + 1, groups)
    law = kind(3000.0)
    noise = rng.laplace(0, law.scale, groups) if kind is Laplace else rng.normal(0, law.scale, groups)
    sums = np.rint(rng.normal(n * theta, np.sqrt(n) * 2.0) / 0.01 + noise)
    posterior = pooled_normal(sums, n, variance=4.0, interval=(0.0, 10.0), noise=law, grid=0.01)
    return {"rank": float(np.mean([ranked(posterior.group(i), float(theta[i]), rng) for i in range(groups)]))}


cell("normal-rank-8-laplace", 8, Laplace)(normal_rank)
cell("normal-rank-8-gaussian", 8, DiscreteGaussian)(normal_rank)


def gamma_rank(rng: np.random.Generator, groups: int) -> dict[str, float] | None:
    """Draw the population of rates from its priors; a study counts if its total is far from where the draws end."""
    u, law = rng.random(), Laplace(2.0)
    k = (1 - u) / u
    n = rng.integers(FEWEST, MOST + 1, groups).astype(float)
    mean = np.exp(rng.uniform(np.log(1), np.log(50_000))) / n.sum()
    theta = rng.gamma(k, mean / k, groups)
    z = rng.poisson(n * theta) + noise_of(law, groups, rng)
    if not 40 < z.sum() < 2000:
        return None
    posterior = pooled_gamma(z, n, noise=law)
    return {"rank": float(np.mean([ranked(posterior.group(i), float(theta[i]), rng) for i in range(groups)]))}


cell("gamma-rank-8", 8)(gamma_rank)


# Running, and what was found


def load(name: str) -> dict[str, object]:
    """Return what has been found of a cell."""
    path = HERE / f"{name}.json"
    return json.loads(path.read_text()) if path.exists() else {"cell": name, "tried": 0, "sums": {}}


def store(found: dict[str, object]) -> None:
    """Write a cell's sums, with means and standard errors for readers."""
    summary = {
        key: dict(zip(("mean", "standard error", "studies"), average(sums), strict=True))
        for key, sums in found["sums"].items()
    }
    text = json.dumps({**found, "results": summary}, indent=1)
    path = HERE / f"{found['cell']}.json"
    partial = path.with_suffix(".part")
    partial.write_text(text + "\n")
    partial.replace(path)


def average(sums: list[float]) -> tuple[float, float, int]:
    """Return the mean over studies, its standard error, and how many studies there are."""
    count, total, squares = sums
    mean = total / count
    variance = max(0.0, squares / count - mean**2) * count / max(count - 1, 1)
    return round(mean, 5), round(math.sqrt(variance / count), 5), int(count)


def studies_of(found: dict[str, object]) -> int:
    """Return how many studies counted."""
    return max((int(each[0]) for each in found["sums"].values()), default=0)


def run(name: str, studies: int) -> None:
    """Add studies to a cell until there are so many."""
    found, written = load(name), time.monotonic()
    while studies_of(found) < studies:
        rng = np.random.default_rng([zlib.crc32(name.encode()), found["tried"]])
        result = CELLS[name](rng)
        found["tried"] += 1
        for key, value in (result or {}).items():
            sums = found["sums"].setdefault(key, [0, 0.0, 0.0])
            found["sums"][key] = [sums[0] + 1, sums[1] + value, sums[2] + value**2]
        if time.monotonic() - written > EVERY:
            store(found)
            written = time.monotonic()
    store(found)
    show(name)


def show(name: str) -> None:
    """Print one cell."""
    for key, sums in load(name)["sums"].items():
        mean, error, count = average(sums)
        print(f"{name:52} {key:22} {mean:7.4f} +- {error:.4f} ({count})", flush=True)


# What a cell must show, by the beginning of its name and the quantity: least and most.
LIMITS = {
    ("levels", "large"): (0.86, 0.95),
    ("levels", "empty"): (0.88, 1.0),
    ("groups", "all"): (0.86, 1.0),
    ("normal", "all"): (0.86, 1.0),
    ("gamma", "all"): (0.86, 1.0),
}
# Chance alone fails all rank cells together once in so many runs.
ALARM = 1e-3


def judge(names: list[str]) -> bool:
    """Say which cells are outside their limits by more than three standard errors, and which broken ones are inside."""
    from scipy.stats import chi2

    good, squares = True, []
    for name in names:
        sums, broken = load(name)["sums"], name.endswith("-broken")
        found = {key: average(value) for key, value in sums.items()}
        if "rank" in found:
            squares.append(((found["rank"][0] - LEVEL) / found["rank"][1]) ** 2)
        held = []
        for (kind, key), (least, most) in LIMITS.items():
            if name.startswith(kind) and key in found:
                mean, error, _ = found[key]
                slack = 0.0 if broken else 3 * error
                held.append(least - slack <= mean <= most + slack)
        if held and all(held) == broken:
            good = False
            print(f"{name}: {'inside, though it is broken' if broken else 'outside its limits'}")
    statistic, limit = sum(squares), chi2.isf(ALARM, max(len(squares), 1))
    print(f"ranks of {len(squares)} cells: chi-squared {statistic:.1f}, at most {limit:.1f}")
    return good and statistic <= limit


def main() -> None:
    """Read the options and run."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--cell", default="", help="a cell, or the beginning of several names")
    options.add_argument("--studies", type=int, default=1000)
    options.add_argument("--list", action="store_true")
    options.add_argument("--show", action="store_true")
    options.add_argument("--judge", action="store_true", help="compare what was found with what must be")
    chosen = options.parse_args()
    names = [chosen.cell] if chosen.cell in CELLS else [name for name in CELLS if name.startswith(chosen.cell)]
    if chosen.judge:
        raise SystemExit(0 if judge([name for name in names if load(name)["tried"]]) else 1)
    for name in names:
        if chosen.list:
            print(name)
        elif chosen.show:
            show(name)
        else:
            run(name, chosen.studies)


if __name__ == "__main__":
    main()
