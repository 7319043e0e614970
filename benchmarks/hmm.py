"""What a run of the hidden Markov sampler costs: 200 sweeps of 20 regions, 72 months, 10 states and 5 features.

And with the noise summed out, one sweep of two states over up to 250,000 noisy counts; a release is read by 800 sweeps.
"""

import os
import time
from importlib.util import find_spec

import numpy as np

from vestry.hmm import blocked_gibbs, collapsed_gibbs, noise_aware_gibbs
from vestry.posterior.discrete_noise import Laplace

REGIONS, MONTHS, STATES, LEVELS = 20, 72, 10, (12, 100, 2, 2, 2)
SWEEPS, SPLITS = 200, 10


def run(quick: bool = False) -> list[dict]:
    """Time everything in turns, so that a busy machine slows all of it alike; ratios are medians over the turns."""
    counts = example(np.random.default_rng(0))
    masks = np.random.default_rng(1).random((SPLITS, REGIONS, MONTHS)) < 0.1
    first = once(collapsed_gibbs, counts)
    once(blocked_gibbs, counts)
    turns = np.array(
        [
            (
                once(collapsed_gibbs, counts),
                once(collapsed_gibbs, counts, held_out=masks),
                once(blocked_gibbs, counts),
                plain_seconds(counts, sweeps=2 if quick else 4),
            )
            for _ in range(5 if quick else 11)
        ]
    )
    one, ten, blocked, plain = np.median(turns, axis=0)

    def against(top: int, bottom: int) -> float:
        return float(np.median(turns[:, top] / turns[:, bottom]))

    return [
        row("HMM, collapsed, 200 sweeps", one, one / 1.0, 1.0, "1 s"),
        row("HMM, collapsed, 200 sweeps", one, 50 * against(0, 3), 1.0, "1/50 of a plain loop"),
        {"name": "HMM, collapsed, with compilation", "value": first, "unit": "s"},
        row("HMM, plain NumPy loop, 200 sweeps", plain, against(3, 0), None, "collapsed, one split"),
        row("HMM, collapsed, ten splits at once", ten, against(1, 0), 3.0, f"one split; {os.cpu_count()} processors"),
        row("HMM, collapsed, ten splits at once", ten, 50 * against(1, 3) / SPLITS, 1.0, "1/50 of ten plain loops"),
        row("HMM, blocked, 200 sweeps", blocked, against(2, 0), None, "collapsed, one split"),
        *noise_aware(quick),
        *peer(one),
    ]


def row(name: str, value: float, ratio: float, limit: float | None, against: str) -> dict:
    return {"name": name, "value": float(value), "unit": "s", "ratio": float(ratio), "limit": limit, "peer": against}


def example(rng: np.random.Generator) -> list[np.ndarray]:
    """Counts of 200 entries a cell, from a chain of ten states."""
    transitions = rng.dirichlet(np.full(STATES, 0.3), STATES)
    paths = np.zeros((REGIONS, MONTHS), int)
    for r in range(REGIONS):
        for t in range(1, MONTHS):
            paths[r, t] = rng.choice(STATES, p=transitions[paths[r, t - 1]])
    tables = [rng.dirichlet(np.full(levels, 0.5), STATES) for levels in LEVELS]
    return [rng.multinomial(200, table[paths]).astype(float) for table in tables]


def noise_aware(quick: bool) -> list[dict]:
    """Time one sweep with the noise summed out, over ten times as many counts."""
    small, large = (noisy_sweep(months, sweeps=10 if quick else 40) for months in (25, 250))
    name = "HMM, noise summed out, 250,000 counts, a sweep"
    return [row(name, large, large / (10 * small), 2.0, "ten of 25,000 counts")]


def noisy_sweep(months: int, *, sweeps: int) -> float:
    """Return the seconds of one sweep of 100 regions and ten levels, beyond the first sweeps, which make tables."""
    rng = np.random.default_rng(4)
    tables = [rng.dirichlet(np.ones(levels), 2) for levels in (6, 4)]
    paths = rng.integers(2, size=(100, months))
    counts = [
        rng.multinomial(200, table[paths]) + rng.laplace(scale=4.0, size=(100, months, table.shape[1])).round()
        for table in tables
    ]
    taken = []
    for number in (5, 5 + sweeps):
        start = time.perf_counter()
        noise_aware_gibbs(counts, noise=Laplace(4.0), states=2, sweeps=number, burn_in=1, rng=np.random.default_rng(5))
        taken.append(time.perf_counter() - start)
    return (taken[1] - taken[0]) / sweeps


def once(sampler, counts, **more) -> float:
    start = time.perf_counter()
    sampler(counts, states=STATES, sweeps=SWEEPS, burn_in=SWEEPS // 2, rng=np.random.default_rng(2), **more)
    return time.perf_counter() - start


def plain_seconds(counts: list[np.ndarray], *, sweeps: int) -> float:
    """Time the same sampler as a loop over cells in NumPy, and scale it to 200 sweeps."""
    rng = np.random.default_rng(3)
    wide = np.concatenate(counts, axis=-1)
    paths = rng.integers(STATES, size=(REGIONS, MONTHS))
    start = time.perf_counter()
    for _ in range(sweeps):
        plain_sweep(rng, wide, paths)
    return (time.perf_counter() - start) * SWEEPS / sweeps


def plain_sweep(rng: np.random.Generator, wide: np.ndarray, paths: np.ndarray, alpha: float = 1.0) -> None:
    tables = np.concatenate(
        [
            np.log([rng.dirichlet(1 + wide[paths == k][:, at].sum(axis=0)) for k in range(STATES)])
            for at in np.split(np.arange(wide.shape[-1]), np.cumsum(LEVELS)[:-1])
        ],
        axis=1,
    )
    moves = np.zeros((STATES + 1, STATES))
    for path in paths:
        np.add.at(moves, (np.concatenate([[STATES], path[:-1]]), path), 1)
    names = np.arange(STATES)
    for r in range(REGIONS):
        for t in range(MONTHS):
            a, old, last = STATES if t == 0 else paths[r, t - 1], paths[r, t], t == MONTHS - 1
            moves[a, old] -= 1
            chances = moves[a] + alpha
            if not last:
                b = paths[r, t + 1]
                moves[old, b] -= 1
                chances = chances * (moves[:STATES, b] + ((names == a) & (names == b)) + alpha)
                chances = chances / (moves[:STATES].sum(axis=1) + (names == a) + STATES * alpha)
            logs = tables @ wide[r, t]
            chances = chances * np.exp(logs - logs.max())
            new = int(np.searchsorted(np.cumsum(chances), rng.random() * chances.sum()))
            paths[r, t] = new
            moves[a, new] += 1
            if not last:
                moves[new, b] += 1


def peer(ours: float) -> list[dict]:
    """Fit the same counts, not privately, by hmmlearn's expectation maximisation.

    Every cell has as many entries of each feature, so that one multinomial over all levels is the same model.
    """
    if find_spec("hmmlearn") is None:
        return [{"name": "HMM, hmmlearn: skipped, not installed", "value": float("nan"), "unit": "s"}]
    from hmmlearn.hmm import MultinomialHMM

    cells = np.concatenate(example(np.random.default_rng(0)), axis=-1).reshape(REGIONS * MONTHS, -1).astype(int)
    model = MultinomialHMM(n_components=STATES, n_iter=SWEEPS, tol=-np.inf, random_state=0)
    start = time.perf_counter()
    model.fit(cells, lengths=[MONTHS] * REGIONS)
    taken = time.perf_counter() - start
    return [row("HMM, hmmlearn, 200 iterations", taken, taken / ours, None, "collapsed, 200 sweeps")]


if __name__ == "__main__":
    for line in run():
        print(line)
