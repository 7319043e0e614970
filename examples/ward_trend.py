"""A trend over months in wards that differ, from one noisy release: a model that no conjugate family expresses.

    python examples/ward_trend.py        # makes fictional admissions, releases counts once, fits twice

It needs the extra `glm`.

The probability of a readmission in ward w and month t (-1 in the first month, 1 in the last) is

    logit p = level + u_w + (slope + v_w) t,   u_w ~ N(0, spread^2),  v_w ~ N(0, slope_spread^2).

Noisy successes and failures of every ward and month are the data. Their true counts and the number of records are
summed out; the number of records is negative binomial, with a mean and a shape that are learned.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import jax
import numpy as np
import numpyro
import numpyro.distributions as dist
import pandas as pd
from numpyro.infer import MCMC, NUTS

import vestry
from vestry.likelihood import NoisyBinomial

WARDS = tuple(f"W{number}" for number in range(1, 9))
MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun")
TIMES = np.linspace(-1, 1, len(MONTHS))
TRUTH = {"level": -0.8, "slope": 0.5, "spread": 0.5, "slope_spread": 0.3}


def effects(ward: Any, time: Any) -> Any:
    """Return the log odds of every cell: the part of the model that knows nothing of noise."""
    level = numpyro.sample("level", dist.Normal(-1.0, 1.0))
    slope = numpyro.sample("slope", dist.Normal(0.0, 1.0))
    spread = numpyro.sample("spread", dist.HalfNormal(0.7))
    slope_spread = numpyro.sample("slope_spread", dist.HalfNormal(0.5))
    with numpyro.plate("wards", len(WARDS)):
        u = numpyro.sample("u", dist.Normal(0.0, 1.0))
        v = numpyro.sample("v", dist.Normal(0.0, 1.0))
    trend = numpyro.deterministic("trend", slope + slope_spread * v)
    return numpyro.deterministic("logit", level + spread * u[ward] + trend[ward] * time)


def noise_aware(likelihood: Any, ward: Any, time: Any) -> None:
    """Condition on noisy successes and failures."""
    records = numpyro.sample("records", dist.LogNormal(2.5, 1.0))
    shape = numpyro.sample("shape", dist.LogNormal(1.0, 1.0))
    noisy = NoisyBinomial(likelihood, effects(ward, time), total_mean=records, total_shape=shape)
    numpyro.sample("release", noisy, obs=likelihood.values)


def plug_in(counts: Any, ward: Any, time: Any) -> None:
    """Take noisy counts for exact ones: what to avoid."""
    logits = effects(ward, time)
    numpyro.sample("release", dist.Binomial(counts.sum(axis=-1), logits=logits), obs=counts[..., 0])


def sampler(model: Any, *, warmup: int = 250, draws: int = 250) -> Callable[..., dict[str, Any]]:
    """Return a function of a key and data that gives draws, compiled once for all data of one shape."""

    @jax.jit
    def fit(key: Any, *data: Any) -> dict[str, Any]:
        chain = MCMC(NUTS(model, target_accept_prob=0.9), num_warmup=warmup, num_samples=draws, progress_bar=False)
        chain.run(key, *data)
        return dict(chain.get_samples())

    return fit


def log_odds(rng: np.random.Generator, level: float, slope: float, spread: float, slope_spread: float) -> np.ndarray:
    """Draw wards; return the log odds by ward and month."""
    u, v = rng.normal(0, spread, len(WARDS)), rng.normal(0, slope_spread, len(WARDS))
    return np.asarray(level + u[:, None] + (slope + v[:, None]) * TIMES)


def admissions(seed: int = 5) -> pd.DataFrame:
    """Make up admissions, 5 to 25 a ward and month. Nobody in them exists."""
    rng = np.random.default_rng(seed)
    p = 1 / (1 + np.exp(-log_odds(rng, **TRUTH)))
    size = rng.integers(5, 26, p.shape)
    cells = [(w, t) for w in range(len(WARDS)) for t in range(len(MONTHS)) for _ in range(size[w, t])]
    readmitted = [bool(rng.random() < p[cell]) for cell in cells]
    return pd.DataFrame(
        {
            "ward": [WARDS[w] for w, _ in cells],
            "month": [MONTHS[t] for _, t in cells],
            "readmitted": np.where(readmitted, "yes", "no"),
        }
    )


def released(folder: Path, frame: pd.DataFrame) -> vestry.Release:
    """Release noisy counts of every ward and month, once, at epsilon 0.5."""
    columns = {
        "ward": vestry.Levels(*WARDS),
        "month": vestry.Levels(*MONTHS),
        "readmitted": vestry.Levels("no", "yes"),
    }
    table = vestry.Table(frame, columns=columns, unit="row", neighbours="add-remove")
    ledger = vestry.Ledger.create(
        folder / "wards.ledger", dataset="admissions", unit="row", neighbours="add-remove", budget="epsilon=0.5"
    )
    vestry.release(
        vestry.BetaBernoulli("readmitted", success="yes", by=["ward", "month"]), table,
        guarantee="epsilon=0.5", mechanism="laplace", ledger=ledger, path=folder / "release.json",
    )  # fmt: skip
    return vestry.open_release(folder / "release.json")


def main() -> None:
    """Release, fit with and without the noise, and print both beside the truth."""
    numpyro.enable_x64()
    with TemporaryDirectory() as folder:
        release = released(Path(folder), admissions())
    likelihood = release.likelihood()
    ward, time = likelihood.index("ward"), TIMES[likelihood.index("month")]
    counts = np.maximum(likelihood.values, 0)
    found = {}
    for model, data in ((noise_aware, likelihood), (plug_in, counts)):
        draws = sampler(model, draws=1000)(jax.random.PRNGKey(1), data, ward, time)
        found[model.__name__] = {name: np.quantile(draws[name], [0.05, 0.5, 0.95]) for name in TRUTH}
    print(f"{len(WARDS)} wards, {len(MONTHS)} months, epsilon 0.5: medians and 90 % credible intervals\n")
    for name, truth in TRUTH.items():
        for method, each in found.items():
            low, middle, high = each[name]
            print(f"{name:<13} {truth:>5.2f}   {method:<12} {middle:>6.2f}  ({low:.2f}, {high:.2f})")


if __name__ == "__main__":
    main()
