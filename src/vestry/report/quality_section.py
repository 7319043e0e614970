"""How well columns fit their declarations, on a page: warnings in words, and every share in a table."""

from __future__ import annotations

from typing import Any

from vestry.display.formatting import number, whole
from vestry.display.templates import Album, Content, paragraph, table, tag
from vestry.posterior.discrete_noise import law_of
from vestry.releases import NoisyStatistics
from vestry.report.content import MOST_ESTIMATES, Result, first_of


def headline(result: Result) -> str:
    """Say in one line what came out."""
    findings = result.posterior.reader.findings(result.posterior.distributions)
    columns = list(dict.fromkeys(each.column for each in findings))
    if not columns:
        return f"of all columns {_NONE}"
    return f"{', '.join(columns)}: many values do not fit what is declared"


def parts(result: Result, album: Album) -> list[Content]:
    """Write the warnings, and one row for each column and condition."""
    posterior = result.posterior
    reader: Any = posterior.reader
    findings = reader.findings(posterior.distributions)
    said = [tag("p", each.sentence, class_="warning") for each in findings] or [paragraph(f"Of all columns {_NONE}.")]
    rows = [
        (column, condition, _percent(row["mean"]), f"{_percent(row['low'])} to {_percent(row['high'])}")
        for (column, condition), row in list(zip(reader.conditions, posterior.rows(), strict=True))[:MOST_ESTIMATES]
    ]
    content = result.release.contents["all"]
    assert isinstance(content, NoisyStatistics)  # noqa: S101 - a quality release has nothing else
    public = f" The number of records, {whole(content.count)}, is public." if content.count is not None else ""
    noise = f"{law_of(content).words} noise of scale {number(content.scale)}"
    return [
        *said,
        paragraph(_MEANING),
        table(
            "Share of the values: mean and 90 % credible interval, the noise summed out"
            + first_of(len(rows), reader.dimension),
            ("column", "values", "mean", "90 %"),
            rows,
            names=2,
        ),
        paragraph(f"{noise} was added to each count of values.{public}"),
    ]


_NONE = "none is sure to have more than 5 of 100 values that do not fit"
_MEANING = (
    "Missing: empty, or not there. Unmatched: there, and not a declared level, number or date. Clipped: beyond an end"
    " of the interval. The shares are those of the table itself. A condition that the noise hides may be there all the"
    " same: its interval says how large it may be."
)


def _percent(share: float) -> str:
    return f"{100 * share:.1f}\u00a0%"
