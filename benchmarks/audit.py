"""What an audit costs: time for a verdict, and how many trials it needs to tell a fifth less noise."""

import time

import numpy as np

from vestry.audit import audit, audit_shipped
from vestry.conjugate.beta_bernoulli import BetaBernoulliFamily
from vestry.mechanisms.release import calibrate_mechanism
from vestry.noise import SystemNoise
from vestry.privacy.guarantee import GaussianDP, Guarantee
from vestry.privacy.neighbours import Adjacency

LIMIT_S = 120.0  # for a million trials


def run(quick: bool = False) -> list[dict]:
    trials = 100_000 if quick else 1_000_000
    beta, public = BetaBernoulliFamily(), Adjacency("replace", count=100)
    rows = []
    for name, guarantee in (("laplace", "epsilon=1"), ("gaussian", "rho=0.5"), ("diffused", "epsilon=1,delta=1e-5")):
        made = calibrate_mechanism(name, beta, beta.prior((6, 12)), public, Guarantee.parse(guarantee))
        start = time.perf_counter()
        audit_shipped(made, beta, noise=SystemNoise(), trials=trials, releases=0)
        seconds = (time.perf_counter() - start) * 1e6 / trials
        rows.append({"name": f"audit {name} by simulation, 1e6 trials", "value": seconds, "unit": "s",
                     "ratio": seconds / LIMIT_S, "limit": 1.0, "peer": f"{LIMIT_S:g} s"})  # fmt: skip
        start = time.perf_counter()
        audit_shipped(made, beta, noise=SystemNoise(), trials=1000, releases=2000)
        speed = 2000 / (time.perf_counter() - start)
        rows.append({"name": f"audit {name} through the release", "value": speed, "unit": "trials/s"})
    return [*rows, power()]


def power() -> dict:
    """Count the trials, doubled from 1000, that refute normal noise a fifth too small in nine of ten audits."""
    trials = 1000
    while sum(_found(trials, seed) for seed in range(10)) < 9:
        trials *= 2
    return {"name": "trials that find a fifth less noise", "value": trials, "unit": "trials"}


def _found(trials: int, seed: int) -> bool:
    def normal(dataset: float, rng: np.random.Generator, count: int) -> np.ndarray:
        return dataset + 0.8 * rng.standard_normal(count)

    return audit(normal, (0.0, 1.0), GaussianDP(1), source=np.random.default_rng(seed), trials=trials).refuted
