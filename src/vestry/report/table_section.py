"""A regression by table on a page: coefficients as a figure, ratios and marginal effects as a table, and the fit."""

from __future__ import annotations

from typing import Any

import numpy as np

from vestry.display.formatting import number
from vestry.display.templates import Album, Content, beside, paragraph, table
from vestry.posterior.discrete_noise import law_of
from vestry.report import figures
from vestry.report.content import HALF, WIDE, Result
from vestry.report.moment_section import parameter_rows, refusal

# Ratios that a headline names, coefficients that the picture's text names, and cells that are listed.
_MOST_NAMED, _MOST_DESCRIBED, _MOST_CELLS = 3, 12, 10


def headline(result: Result) -> str:
    """Say in one line what came out."""
    if reason := refusal(result, "all"):
        return reason
    reader: Any = result.posterior.reader
    rows = dict(zip(reader.parameters, parameter_rows(result, "all", result.posterior.parameters), strict=True))
    shown = [
        f"{reader.ratio_words} of {name}: {rows[f'{reader.ratio_words}[{name}]'][1]}"
        f" ({rows[f'{reader.ratio_words}[{name}]'][4]})"
        for name in reader.ratios[:_MOST_NAMED]
    ]
    left = len(reader.ratios) - _MOST_NAMED
    return "; ".join([*shown, f"{left} more"] if left > 0 else shown)


def parts(result: Result, album: Album) -> list[Content]:
    """Write coefficients, ratios and marginal effects, one row each, and which cells do not fit."""
    reader: Any = result.posterior.reader
    if reason := refusal(result, "all"):
        return [paragraph(reason[:1].upper() + reason[1:])]
    rows = parameter_rows(result, "all", result.posterior.parameters)
    what = _explained(reader)
    effects = {name: _ends(result, place) for place, name in enumerate(reader.coefficients)}
    named = zip(reader.coefficients[:_MOST_DESCRIBED], rows, strict=False)
    described = "; ".join(f"{name}: {row[1]}, 90 % from {row[4]}" for name, row in named)
    return [
        paragraph(
            f"A coefficient is what {what} gains when the level is the named one and not the first, and the others"
            f" stay; the {reader.ratio_words} is e to it. A marginal effect is what the level changes in the"
            f" {'probability' if reader.table.high is None else 'rate'} itself, on average over the records."
        ),
        paragraph(reader.note),
        beside(
            album.figure(
                figures.effects(effects, what),
                alternative=f"Coefficients with 90 % credible intervals. {described}",
                caption=f"Coefficients, on the scale of {what}: mean, 50 % (thick) and 90 % (thin) credible intervals."
                " An interval that crosses the dashed line leaves the sign open.",
            ),
            table(
                "Posterior of the regression: mean, standard deviation, 50 % and 90 % credible intervals",
                ("parameter", "mean", "sd", "50 %", "90 %"),
                rows,
            ),
        ),
        *_fit(result),
        *_noise(result),
    ]


def _explained(reader: Any) -> str:
    if reader.table.high is not None:
        return f"the log rate of {reader.table.outcome}"
    classes = reader.table.classes
    return f"the log odds of {reader.table.outcome}" + (f" = {classes[1][0]}" if len(classes) == 2 else "")


def _ends(result: Result, place: int) -> tuple[float, tuple[float, float], tuple[float, float]]:
    marginal = result.posterior.distributions["all"].marginal(place)
    return marginal.mean(), marginal.interval(WIDE), marginal.interval(HALF)


def _fit(result: Result) -> list[Content]:
    """Say how many cells the regression does not describe, and list the worst."""
    fits = result.posterior.reader.fit_check(result.posterior.distributions["all"])
    wrong = sum(each.misfit for each in fits)
    words = (
        "Chance and noise explain how far every cell lies from the regression."
        if not wrong
        else f"{wrong} of {len(fits)} numbers lie farther from the regression than chance and noise explain: what it"
        " says is an average over cells that differ. An interaction may be added afterwards, at no cost."
    )
    rows = [
        (each.cell, each.kind, f"{each.records:.0f}", number(each.observed), number(each.expected), f"{each.score:.1f}",
         "misfit" if each.misfit else "")
        for each in fits[:_MOST_CELLS]
    ]  # fmt: skip
    heads = ("cell", "of", "records", "observed", "expected", "score", "")
    named = f"The {len(rows)} of {len(fits)} that fit worst: shares or rates, and their distance in standard deviations"
    return [paragraph(words), table(named, heads, rows)]


def _noise(result: Result) -> list[Content]:
    """Say how much noise there is beside the records of a cell."""
    statistics: Any = next(iter(result.release.contents.values()))
    reader: Any = result.posterior.reader
    noise = law_of(statistics)
    records = np.array([each.records for each in reader.fit_check(result.posterior.distributions["all"])])
    words = (
        f"{noise.words} noise with a standard deviation of {number(noise.deviation)} was added to each of"
        f" {len(statistics.values)} numbers of {len(reader.table.cells)} cells, half of which have more than about"
        f" {np.median(records):.0f} records."
    )
    return [paragraph(words)]
