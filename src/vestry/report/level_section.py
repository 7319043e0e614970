"""Values that occur, on a page: what was found, how many hold each, what is not seen, and the line to declare them."""

from __future__ import annotations

from typing import Any

from vestry.display.formatting import number, whole
from vestry.display.templates import Album, Content, paragraph, table, tag
from vestry.posterior.discrete_noise import law_of
from vestry.releases import NoisyStatistics
from vestry.report.content import MOST_ESTIMATES, Result, first_of

# Values that a headline names.
_NAMED = 6


def headline(result: Result) -> str:
    """Say in one line what was found."""
    values = list(result.posterior.distributions)
    if not values:
        return "none reached the threshold"
    more = f" and {whole(len(values) - _NAMED)} more" if len(values) > _NAMED else ""
    return f"{', '.join(values[:_NAMED])}{more}"


def parts(result: Result, album: Album) -> list[Content]:
    """Write what was found with its counts, what it cannot see, and how to go on."""
    posterior = result.posterior
    reader: Any = posterior.reader
    content = result.release.contents["all"]
    assert isinstance(content, NoisyStatistics)  # noqa: S101 - a release of values has nothing else
    rows = posterior.rows()
    cells = [
        (row["group"], whole(round(row["mean"])), f"{whole(round(row['low']))} to {whole(round(row['high']))}",
         row.get("note", ""))
        for row in rows[:MOST_ESTIMATES]
    ]  # fmt: skip
    noise = f"{law_of(content).words} noise of scale {number(content.scale)}"
    tables = [
        table(
            f"How many {reader.of} hold each value: mean and 90 % credible interval ({posterior.interval_method})"
            + first_of(len(cells), len(rows)),
            (reader.column, "mean", "90 %", "note"),
            cells,
        ),
        paragraph("To declare them as levels write under [columns]:"),
        tag("pre", reader.declaration(posterior.distributions)),
    ]
    return [
        paragraph(tag("strong", "Shown as they stand: "), reader.note),
        *(tables if rows else [paragraph("No value reached the threshold. That does not say that there is none.")]),
        paragraph(
            f"{noise} was added to the count of every value that occurs, and those that reached"
            f" {whole(reader.threshold)} are shown. What it sees: {reader.finding}."
        ),
    ]
