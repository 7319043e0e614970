"""What calibration, profiles and noise-aware posteriors of the conjugate families cost."""

import statistics
import time

import numpy as np

from vestry.conjugate.beta_bernoulli import BetaBernoulliFamily
from vestry.conjugate.dirichlet_categorical import DirichletCategoricalFamily
from vestry.conjugate.gamma_exponential import GammaExponentialFamily
from vestry.conjugate.gamma_poisson import GammaPoissonFamily
from vestry.mechanisms.posterior_sample import diffused
from vestry.posterior import Posterior
from vestry.privacy import accountant
from vestry.privacy.guarantee import ApproxDP, RenyiDP
from vestry.privacy.neighbours import Adjacency
from vestry.releases import Certificate, NoisyStatistics, Release


def run(quick: bool = False) -> list[dict]:
    repeats = 3 if quick else 7
    beta, prior = BetaBernoulliFamily(), BetaBernoulliFamily().prior((6, 12))
    small, large = (Adjacency("replace", count=n) for n in (100, 10**6))
    wide = DirichletCategoricalFamily(1000)
    alphas = wide.prior([1.0] * 1000)
    approx, renyi = ApproxDP(1, 1e-5), RenyiDP(2, 0.1)
    event = diffused(beta, prior, small, approx).event
    rows = [
        timed("calibrate diffused Beta, (1, 1e-5), n = 100", lambda: diffused(beta, prior, small, approx), repeats, 5),
        timed("calibrate diffused Beta, (1, 1e-5), n = 1e6", lambda: diffused(beta, prior, large, approx), repeats, 5),
        timed("calibrate diffused Beta, order 2, n = 100", lambda: diffused(beta, prior, small, renyi), repeats, 5),
        timed("calibrate diffused Dirichlet, 1,000", lambda: diffused(wide, alphas, large, approx), repeats, 1000),
        timed("profile of a Beta draw at one epsilon", lambda: accountant.delta(event, 1.0), 50, None),
        timed("noise-aware Beta posterior, n = 1e6", lambda: posterior(10**6).interval(0.9), repeats, 1000),
        *more_families(small, approx, repeats),
    ]
    return rows + bulk(repeats)


def more_families(people: Adjacency, wanted: ApproxDP, repeats: int) -> list[dict]:
    """Time the families of rates, and of mean and variance."""
    counts, times = GammaPoissonFamily(20), GammaExponentialFamily(1.0, 60.0)
    makes = {
        "calibrate diffused gamma-poisson": lambda: diffused(counts, counts.prior((20, 10)), people, wanted),
        "calibrate diffused gamma-exponential": lambda: diffused(times, times.prior((5, 20)), people, wanted),
        "noise-aware Poisson rate, private count": lambda: noisy(
            {"name": "gamma-poisson", "high": 20}, (2.0, 1.0), (5000, 10_000), scale=30.0, count_grid=0.1
        ),
        "noise-aware mean and variance, private count": lambda: noisy(
            {"name": "normal-inverse-gamma", "low": 0.0, "high": 100.0}, (50.0, 1.0, 2.0, 100.0),
            (10_000_000, 60_000_000, 131_072_000), scale=1.2e6, grid=50 / 2**19, count_grid=2.0**-17,
        ),
    }  # fmt: skip
    return [timed(name, make, repeats, None) for name, make in makes.items()]


def noisy(family: dict, prior: tuple[float, ...], values: tuple[int, ...], **more: float) -> Posterior:
    names = tuple(f"sum {i}" for i in range(len(values)))
    statistics_ = NoisyStatistics(names, values, "discrete-laplace", **more)
    claim = Certificate({"epsilon": 0.1}, {}, "laplace", "scale", 10.0, "", "row", {})
    return Posterior.from_release(Release(family, prior, {"all": statistics_}, claim))


def timed(name: str, action, repeats: int, limit_ms: float | None) -> dict:
    """Time an action; its ratio is to the limit that it must keep."""
    action()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        action()
        times.append(time.perf_counter() - start)
    value = 1e3 * statistics.median(times)
    if limit_ms is None:
        return {"name": name, "value": value, "unit": "ms"}
    return {
        "name": name,
        "value": value,
        "unit": "ms",
        "ratio": value / limit_ms,
        "limit": 1.0,
        "peer": f"{limit_ms:g} ms",
    }


def bulk(repeats: int) -> list[dict]:
    """Draw a million from a noise-aware posterior, against a million plain Beta draws."""
    rng, found, size = np.random.default_rng(0), posterior(1000), 10**6
    ours = timed("", lambda: found.sample(size, rng), repeats, None)["value"]
    theirs = timed("", lambda: rng.beta(300, 700, size), repeats, None)["value"]
    speed, ratio = size / ours * 1e3, theirs / ours
    return [{"name": "bulk draws, noise-aware Beta posterior", "value": speed, "unit": "draws/s", "ratio": ratio,
             "peer": "numpy rng.beta"}]  # fmt: skip


def posterior(n: int) -> Posterior:
    noisy = NoisyStatistics(("successes",), (3 * n // 10,), "discrete-laplace", 10.0, count=n)
    claim = Certificate({"epsilon": 0.1}, {}, "laplace", "scale", 10.0, "", "row", {})
    return Posterior.from_release(Release({"name": "beta-bernoulli"}, (1.0, 1.0), {"all": noisy}, claim))
