"""A linear regression by moments on a page: effects as a figure, coefficients as a table, and how well it fits."""

from __future__ import annotations

from typing import Any

import numpy as np

from vestry.display.formatting import Digits, number
from vestry.display.templates import Album, Content, beside, paragraph, table
from vestry.posterior.discrete_noise import law_of
from vestry.report import figures
from vestry.report.content import HALF, WIDE, Result

# Coefficients that a headline and the picture's text name.
_MOST_NAMED, _MOST_DESCRIBED = 3, 12


def headline(result: Result) -> str:
    """Say in one line what came out."""
    if len(result.posterior.distributions) > 1:
        return f"a regression in each of {len(result.posterior.distributions)} groups"
    (group,) = result.posterior.distributions
    if reason := refusal(result, group):
        return reason
    rows = _rows(result, group)
    shown = "; ".join(f"{name}: {mean} ({wide})" for name, mean, _, _, wide in rows[:_MOST_NAMED])
    left = len(rows) - 2 - _MOST_NAMED
    return f"{shown}; {left} more" if left > 0 else shown


def parts(result: Result, album: Album) -> list[Content]:
    """Write the coefficients of each group, one row each, the residual spread and R squared."""
    reader: Any = result.posterior.reader
    words = (
        f"What {reader.outcome} gains on average when a column grows by one and the others stay, or when the level"
        " is the named one and not the first."
    )
    groups = [part for group in result.posterior.distributions for part in _group(result, group, album)]
    return [paragraph(words), paragraph(reader.note), *groups]


def _group(result: Result, group: str, album: Album) -> list[Content]:
    reader: Any = result.posterior.reader
    named = "" if result.posterior.by is None else f" of {result.posterior.by} = {group}"
    if reason := refusal(result, group):
        return [paragraph(f"Regression{named}: {reason}" if named else reason[:1].upper() + reason[1:])]
    rows = _rows(result, group)
    effects = {name: _effect(result, group, place) for place, name in enumerate(reader.features[:-1])}
    described = "; ".join(f"{name}: {mean}, 90 % from {wide}" for name, mean, _, _, wide in rows[:_MOST_DESCRIBED])
    return [
        beside(
            album.figure(
                figures.effects(effects, reader.outcome),
                alternative=f"Coefficients{named} with 90 % credible intervals. {described}",
                caption=f"What {reader.outcome}{named} gains over half of a column's declared interval, or by a level:"
                " mean, 50 % (thick) and 90 % (thin) credible intervals. An interval that crosses the dashed line"
                " leaves the sign open.",
            ),
            table(
                f"Posterior of the regression{named}, in the units of the columns: mean, standard deviation, 50 % and"
                " 90 % credible intervals",
                ("parameter", "mean", "sd", "50 %", "90 %"),
                rows,
            ),
        ),
        *_noise(result, group),
    ]


def refusal(result: Result, group: str) -> str:
    """Return why there is no interval; nothing if there is one."""
    return str(getattr(result.posterior.distributions[group], "reason", ""))


def _rows(result: Result, group: str) -> list[tuple[str, ...]]:
    reader: Any = result.posterior.reader
    return parameter_rows(result, group, (*reader.features, *reader.parameters[-2:]))


def parameter_rows(result: Result, group: str, names: tuple[str, ...]) -> list[tuple[str, ...]]:
    """Return name, mean, sd and both intervals of each parameter."""
    distribution = result.posterior.distributions[group]
    rows = []
    for place, name in enumerate(names):
        marginal = distribution.marginal(place)
        sd = marginal.variance() ** 0.5
        digits = Digits(sd)
        ends = (digits.interval(*marginal.interval(prob)) for prob in (HALF, WIDE))
        rows.append((name, digits(marginal.mean()), digits(sd), *ends))
    return rows


def _effect(result: Result, group: str, place: int) -> tuple[float, tuple[float, float], tuple[float, float]]:
    """Return mean and intervals of a coefficient times half of its column's interval; of a level as it is."""
    distribution: Any = result.posterior.distributions[group]
    units = distribution.units
    marginal = distribution.marginal(place)
    reach = units.reach / units.matrix[place, place + 1]
    wide, half = (tuple(reach * end for end in marginal.interval(prob)) for prob in (WIDE, HALF))
    return reach * marginal.mean(), wide, half


def _noise(result: Result, group: str) -> list[Content]:
    """Say what the noise adds to the width of the coefficients' intervals, at the same residual spread."""
    statistics: Any = result.release.contents[group]
    reader: Any = result.posterior.reader
    noisy = reader.gram(statistics)
    kind = law_of(statistics).words
    words = [
        f"{kind} noise with a standard deviation of {number(noisy.deviation)} records was added to each of"
        f" {len(statistics.values)} sums of products of scaled columns."
    ]
    if np.isfinite(noisy.kappa):
        distribution: Any = result.posterior.distributions[group]
        ratios = np.sqrt(distribution.variances() / distribution.sampling_variances(noisy))
        ends = number(float(ratios.min())), number(float(ratios.max()))
        words.append(f"It makes the intervals {ends[0]} to {ends[1]} times as wide as sampling error alone.")
    return [paragraph(" ".join(words))]
