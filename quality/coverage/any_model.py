"""How often 90 % intervals of a random-effects model cover, from a release as a likelihood, and with its noise ignored.

    python quality/coverage/any_model.py                   # to 200 studies; goes on where it stopped; needs vestry[glm]
    python quality/coverage/any_model.py --draws 1000 --studies 40   # the first studies again, with longer chains
    python quality/coverage/any_model.py --show            # the table of what was run

The model is that of `examples/ward_trend.py`: a logistic trend over 6 months in 8 wards, with wards' own levels and
slopes. A study draws level, slope and both spreads from the model's priors, 5 to 25 records in each cell, and discrete
Laplace noise of scale 2 (epsilon 0.5, add-remove) on successes and failures. `noise-aware` sums the noise out;
`plug-in` takes noisy counts for exact, and is the broken twin. One chain of NUTS each, 250 draws after 250. Arrays are
filled up to one shape, so that each model is compiled once. Study i is the same on every machine but for NUTS, whose
arithmetic depends on the compiler.

`any_model.json` has, by number of draws, study and method, the share of intervals that hold the truth, and their
mean width. Ends of intervals are estimated from draws: the part between the 5 % and 95 % quantiles of N independent
draws holds .9 (N - 1)/(N + 1) on average, .882 if 250 draws are worth 100. Studies that were run with longer chains too
are shown beside the same ones with short chains.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import numpy as np
import numpyro

from vestry.posterior.discrete_noise import Laplace
from vestry.releases import Certificate, NoisyStatistics, Release

sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))
sys.path.insert(0, str(Path(__file__).parents[2]))
from reproductions.proportion import discrete_noise
from ward_trend import MONTHS, TIMES, WARDS, log_odds, noise_aware, plug_in, sampler

RESULTS = Path(__file__).with_suffix(".json")
SCALE, PROB, SAVED = 2.0, 0.9, 5
NODES, DISTINCT = 88, 64  # more than any study has
CLAIM = Certificate({"epsilon": 0.5}, {"kind": "pure", "count": 1}, "laplace", "scale", SCALE, "", "row", {})
DRAWS = "250"
QUANTITIES = ("level", "slope", "spread", "slope_spread", "trend", "logit")


def planted(rng: np.random.Generator) -> dict[str, Any]:
    """Draw the truth from the priors of the model."""
    truth: dict[str, Any] = {
        "level": rng.normal(-1.0, 1.0),
        "slope": rng.normal(0.0, 1.0),
        "spread": abs(rng.normal(0.0, 0.7)),
        "slope_spread": abs(rng.normal(0.0, 0.5)),
    }
    logit = log_odds(rng, **truth)
    return truth | {"trend": (logit[:, -1] - logit[:, 0]) / 2, "logit": logit.ravel()}


def simulated(rng: np.random.Generator, logit: np.ndarray) -> Release:
    """Return a release of noisy successes and failures of every ward and month."""
    size = rng.integers(5, 26, logit.size)
    successes = rng.binomial(size, 1 / (1 + np.exp(-logit)))
    true = np.stack([successes, size - successes], axis=-1)
    noisy = true + discrete_noise(rng, Laplace(SCALE), true.size).reshape(true.shape)
    cells = [f"{ward}, {month}" for ward in WARDS for month in MONTHS]
    names = ("successes", "failures")
    contents = {
        cell: NoisyStatistics(names, tuple(int(z) for z in own), "discrete-laplace", SCALE)
        for cell, own in zip(cells, noisy, strict=True)
    }
    return Release({"name": "beta-bernoulli"}, (1.0, 1.0), contents, CLAIM, "ward, month")


def filled(likelihood: Any) -> Any:
    """Return the same likelihood with arrays of one shape: nodes of no weight, and cubics that nothing refers to."""
    term, tables = likelihood.term, likelihood.term.tables
    nodes, distinct = NODES - len(term.log_nodes), DISTINCT - len(tables.cubics)
    return replace(
        likelihood,
        term=replace(
            term,
            log_nodes=np.pad(term.log_nodes, ((0, nodes), (0, 0))),
            log_weights=np.pad(term.log_weights, ((0, nodes), (0, 0)), constant_values=-np.inf),
            tables=replace(tables, cubics=np.pad(tables.cubics, ((0, distinct), (0, 0), (0, 0)))),
        ),
    )


def study(number: int, samplers: dict[str, Any]) -> dict[str, dict[str, list[float]]]:
    """Return for each method and quantity the share of intervals that hold the truth, and their mean width."""
    rng = np.random.default_rng([2026, 19, number])
    truth = planted(rng)
    likelihood = simulated(rng, truth["logit"]).likelihood()
    ward, time = likelihood.index("ward"), TIMES[likelihood.index("month")]
    data = {"noise-aware": filled(likelihood), "plug-in": np.maximum(likelihood.values, 0)}
    found: dict[str, dict[str, list[float]]] = {}
    for method, fit in samplers.items():
        draws = fit(jax.random.PRNGKey(number), data[method], ward, time)
        found[method] = {}
        for name in QUANTITIES:
            low, high = np.quantile(draws[name], [(1 - PROB) / 2, (1 + PROB) / 2], axis=0)
            holds = (low <= truth[name]) & (truth[name] <= high)
            found[method][name] = [round(float(np.mean(each)), 5) for each in (holds, high - low)]
    return found


def show(results: list[dict[str, Any]]) -> None:
    """Print coverage, its standard error over studies, and the mean width."""
    for method in ("noise-aware", "plug-in"):
        for name in QUANTITIES:
            holds, widths = np.array([each[method][name] for each in results]).T
            error = holds.std(ddof=1) / np.sqrt(len(holds)) if len(holds) > 1 else float("nan")
            print(f"{method:<12} {name:<13} covers {holds.mean():.3f} ({error:.3f}), width {widths.mean():.3f}")


def show_all(results: dict[str, list[dict[str, Any]]]) -> None:
    """Print every number of draws; of longer chains also the same studies by shorter ones."""
    for draws, own in results.items():
        print(f"\n{len(own)} studies, {draws} draws; 90 % intervals")
        show(own)
        if draws != DRAWS and len(own) > 0:
            print(f"\nthe same {len(own)} studies, {DRAWS} draws")
            show(results[DRAWS][: len(own)])


def main() -> None:
    """Run the studies that are missing, and save now and then."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--studies", type=int, default=200)
    parser.add_argument("--draws", default=DRAWS)
    parser.add_argument("--show", action="store_true")
    given = parser.parse_args()
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {DRAWS: []}
    numpyro.enable_x64()
    models = {"noise-aware": noise_aware, "plug-in": plug_in}
    samplers = {name: sampler(each, draws=int(given.draws)) for name, each in models.items()}
    own = results.setdefault(given.draws, [])
    while not given.show and len(own) < given.studies:
        own.append(study(len(own), samplers))
        if len(own) % SAVED == 0 or len(own) == given.studies:
            RESULTS.write_text(json.dumps(results) + "\n")
    show_all(results)


if __name__ == "__main__":
    main()
