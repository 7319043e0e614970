"""From a mechanism's name and a guarantee to the mechanism, calibrated."""

from __future__ import annotations

from typing import Any

from vestry.errors import InvalidParameter
from vestry.families import Family
from vestry.mechanisms import posterior_sample
from vestry.mechanisms.additive import Additive, additive, layout
from vestry.mechanisms.exponential import TruncatedSample, ops
from vestry.mechanisms.posterior_sample import Meets, PosteriorSample, exactly
from vestry.privacy.guarantee import Guarantee
from vestry.statistics.population import Population

# What each mechanism calibrates.
PARAMETERS = {
    "laplace": "scale",
    "gaussian": "scale",
    "direct": "likelihood_power",
    "diffused": "likelihood_power",
    "concentrated": "prior_scale",
    "ops": "temperature",
}
# Those that release noisy statistics, from which any number of draws is free; the others release draws.
ADDITIVE = ("laplace", "gaussian")


def calibrated(
    name: str,
    family: Family,
    prior: Any,
    population: Population,
    guarantee: Guarantee,
    *,
    draws: int = 1,
    truncation: float | None = None,
    grid: float | None = None,
    meets: Meets = exactly,
) -> Additive | PosteriorSample | TruncatedSample:
    """Return the mechanism that meets the guarantee at least cost, or refuse with the nearest it could meet."""
    if name not in PARAMETERS:
        raise InvalidParameter("a mechanism", name, "one of " + ", ".join(PARAMETERS), "for example laplace")
    if name in ADDITIVE:
        if draws != 1:
            raise InvalidParameter("draws", draws, "left out for noisy statistics", "draws from them are free")
        return additive(f"discrete-{name}", layout(family, population, grid=grid), population, guarantee)
    if name == "ops":
        if truncation is None:
            raise InvalidParameter("truncation", None, "given for ops", "for example 0.05")
        return ops(family, prior, population, guarantee, truncation=truncation, draws=draws)
    make = getattr(posterior_sample, name)
    made: PosteriorSample = make(family, prior, population, guarantee, draws=draws, meets=meets)
    return made
