"""From a mechanism's name to the mechanism, calibrated to a guarantee, or to what runs at a value of its parameter."""

from __future__ import annotations

from typing import Any

from vestry.errors import InvalidParameter
from vestry.mechanisms import posterior_sample, truncated_posterior
from vestry.mechanisms.additive_noise import Additive, additive, event_of
from vestry.mechanisms.posterior_sample import Meets, PosteriorSample, exactly
from vestry.mechanisms.statistic_family import StatisticFamily
from vestry.privacy.event import Event
from vestry.privacy.guarantee import Guarantee
from vestry.privacy.neighbours import Adjacency

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


def parameter_of(name: str) -> str:
    """Return what a mechanism calibrates, or refuse a name that is none."""
    if name not in PARAMETERS:
        raise InvalidParameter("a mechanism", name, "one of " + ", ".join(PARAMETERS), "for example laplace")
    return PARAMETERS[name]


def calibrated(
    name: str,
    family: StatisticFamily,
    prior: Any,
    population: Adjacency,
    guarantee: Guarantee,
    *,
    draws: int = 1,
    truncation: float | None = None,
    grid: float | None = None,
    meets: Meets = exactly,
) -> Additive | PosteriorSample | truncated_posterior.TruncatedSample:
    """Return the mechanism that meets the guarantee at least cost, or refuse with the nearest it could meet."""
    parameter_of(name)
    if name in ADDITIVE:
        return additive(_noise(name, draws), family.layout(population, grid=grid), population, guarantee)
    if name == "ops":
        return truncated_posterior.ops(
            family, prior, population, guarantee, truncation=_needed(truncation), draws=draws
        )
    make = getattr(posterior_sample, name)
    made: PosteriorSample = make(family, prior, population, guarantee, draws=draws, meets=meets)
    return made


def event_at(
    name: str,
    family: StatisticFamily,
    prior: Any,
    population: Adjacency,
    value: float,
    *,
    draws: int = 1,
    truncation: float | None = None,
    grid: float | None = None,
) -> Event:
    """Return what runs at a value of the mechanism's parameter."""
    parameter = parameter_of(name)
    if name in ADDITIVE:
        return event_of(_noise(name, draws), family.layout(population, grid=grid), value)
    if name == "ops":
        return truncated_posterior.event_of(family, population, _needed(truncation), value, draws)
    if name == "direct" and value != 1:
        raise InvalidParameter(
            parameter, value, "1 for a direct draw", f"{parameter}=1, or take the diffused posterior"
        )
    if not 0 < value <= 1:
        raise InvalidParameter(parameter, value, "above 0 and at most 1", f"for example {parameter}=0.5")
    return family.worst_draw(prior, population, **{parameter: value}).times(draws)


def _noise(name: str, draws: int) -> str:
    if draws != 1:
        raise InvalidParameter("draws", draws, "left out for noisy statistics", "none: draws from them are free")
    return f"discrete-{name}"


def _needed(truncation: float | None) -> float:
    if truncation is None:
        raise InvalidParameter("truncation", None, "given for ops", "for example truncation=0.05")
    return truncation
