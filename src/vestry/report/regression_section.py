"""A regression on a page: its coefficients as a figure and a table."""

from __future__ import annotations

from typing import Any

from vestry.display.formatting import number
from vestry.display.templates import Album, Content, beside, paragraph, table
from vestry.report import figures
from vestry.report.content import Result

# Draws that the table shows, and coefficients that the picture's text names.
_MOST_DRAWS, _MOST_DESCRIBED = 5, 12

_WORDS = {
    "objective": "one estimate: the minimum of the losses with a random term added to them",
    "output": "one estimate: the minimum of the losses, with noise added to it",
}


def headline(result: Result) -> str:
    """Say in one line what came out: the coefficients farthest from 0 on the scale of their columns' intervals."""
    values = result.posterior.sample()["all"]
    named = dict(zip(result.labels, values.mean(axis=0), strict=True))
    shown = "; ".join(f"{name}: {number(value)}" for name, value in list(named.items())[:3])
    more = f"; {len(named) - 3} more" if len(named) > 3 else ""
    return f"{shown}{more} (no interval)"


def parts(result: Result, album: Album) -> list[Content]:
    """Write the coefficients, one row each."""
    reading: Any = result.posterior.reader
    values = result.posterior.sample()["all"]
    of_draws = reading.method == "posterior"
    heads = [f"draw {place}" for place in range(1, min(len(values), _MOST_DRAWS) + 1)] if of_draws else ["estimate"]
    rows = [
        (name, *(number(value) for value in values[: len(heads), place])) for place, name in enumerate(result.labels)
    ]
    described = "; ".join(f"{row[0]}: {', '.join(row[1:])}" for row in rows[:_MOST_DESCRIBED])
    point = "one released draw" if of_draws else "the released estimate"
    left = f" The first {_MOST_DRAWS} of {len(values)} draws; the file has all." if len(values) > _MOST_DRAWS else ""
    odds = (
        "A coefficient is what the outcome gains when its column grows by one."
        if reading.outcome is not None
        else "A coefficient is what the log odds gain when its column grows by one, or when the level is the named one"
        " and not the first."
    )
    answer = reading.answer(result.release.certificate)
    return [
        paragraph(f"What was released: {_what(reading.method, len(values))}, and no interval. {odds}"),
        paragraph(f"{answer[:1].upper()}{answer[1:]}."),
        beside(
            album.figure(
                figures.points(result.posterior, result.labels),
                alternative=f"Released coefficients as points. {described}",
                caption=f"Each point is {point} of a coefficient, for its column as it is. What was released has no"
                " interval.",
            ),
            table(f"The released coefficients, for the columns as they are.{left}", ("coefficient", *heads), rows),
        ),
    ]


def _what(method: str, count: int) -> str:
    if method != "posterior":
        return _WORDS.get(method, "coefficients")
    return f"{'one draw' if count == 1 else f'{count} draws'} from the posterior of the coefficients"
