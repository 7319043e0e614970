"""What the noise did to a release of noisy statistics: its share of the intervals, and the numbers as released."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import islice

from vestry.display.formatting import Digits, number, roughly, whole
from vestry.display.templates import Content, Markup, beside, paragraph, table
from vestry.posterior.discrete_noise import deviation
from vestry.releases import NoisyStatistics
from vestry.report import content
from vestry.report.content import MOST_ESTIMATES, Estimate, Result, Share

# Numbers of a group that stand in one row.
_MOST_NAMED = 5


def noise_sentence(measured: tuple[Share, ...]) -> str:
    """Say what the noise adds to the width of the intervals."""
    least, most = min(measured, key=lambda s: s.ratio), max(measured, key=lambda s: s.ratio)
    if all(share.exact == 0 for share in measured):
        return "All of the width is noise: without it the number would be known."
    if math.isinf(most.ratio):
        return "The noise hides how much the records differ, so its share of the width cannot be told everywhere."
    if most.ratio < 1.005:
        return "The noise adds next to nothing to the width of the interval. The rest is sampling error."

    def said(share: Share) -> str:
        text = widening(share)
        return text if text.startswith("makes") else f"adds {text} to the width of the interval"

    if len(measured) == 1 or widening(least) == widening(most):
        return f"The noise {said(most)}. The rest is the error of a finite sample."
    low, high = widening(least), widening(most)
    if low.startswith("about") and high.startswith("about"):
        return f"The noise adds between {low} and {high} to the width of the intervals. The rest is sampling error."
    return f"The noise {said(least)} at least, and {said(most)} at most. The rest is sampling error."


def widening(share: Share) -> str:
    """Say what the noise adds to the width of an interval."""
    more = share.ratio - 1
    if more < 0.005:
        return "nothing"
    if math.isinf(more):
        return "cannot be told"
    return f"about {roughly(more)}" if more < 2 else f"makes it {number(share.ratio)} times as wide"


def noise_parts(
    result: Result, found: tuple[Estimate, ...], heads: tuple[str, ...], names: list[tuple[str, ...]]
) -> list[Content]:
    """Write the standard deviations with and without noise, and the noisy numbers; `names` are those of the rows."""
    measured = content.shares(result.release, result.posterior, found)
    factor, unit = (100, ", in percent") if result.percent else (1, "")
    rows = [
        (*named, "not defined" if share.noise is None else number(factor * share.noise), number(factor * share.exact),
         number(factor * share.actual), widening(share))
        for named, share in zip(names, measured, strict=True)
    ]  # fmt: skip
    contents = {group: each for group, each in result.release.contents.items() if isinstance(each, NoisyStatistics)}
    added = table(
        "Standard deviations of the noise on the estimate, of the posterior if the same numbers were exact, and"
        f" of the posterior{unit}; and what the noise adds to the width of the interval"
        + content.first_of(len(found), content.size(result)),
        (*heads, "noise", "without noise", "with noise", "noise adds"),
        rows,
        names=len(heads),
    )
    return [paragraph(" ".join(_notes(result, contents))), beside(added, _released(contents, result))]


def _notes(result: Result, contents: Mapping[str, NoisyStatistics]) -> list[str]:
    first = next(iter(contents.values()))
    kind, spread = first.noise.removeprefix("discrete-").capitalize(), deviation(first.noise, first.scale)
    notes = [f"{kind} noise with a standard deviation of {number(spread * first.grid)} was added to each number below."]
    if first.grid != 1:
        notes.append(result.posterior.reader.released_words)
    if first.count_grid != 1 and first.count is None:
        notes.append(f"The noise on the count of records has one of {number(spread * first.count_grid)}.")
    if first.count is not None:
        notes.append(f"The number of records, {whole(first.count)}, is public.")
    if any(value < 0 for each in contents.values() for value in each.values) and first.grid == 1:
        notes.append("A negative count comes from the noise; it is not a mistake.")
    return notes


def _released(contents: Mapping[str, NoisyStatistics], result: Result) -> Markup:
    """Write the noisy numbers: a row for each group if they are few, else a row for each number."""
    caption, by, names = "The numbers as released", result.posterior.by, next(iter(contents.values())).names
    if len(names) == len(result.labels) > 2:
        names = result.labels
    if by is not None and len(names) <= _MOST_NAMED:
        lines = [(group, *_written(each)) for group, each in islice(contents.items(), MOST_ESTIMATES)]
        return table(caption + _rest(len(lines), len(contents)), (by, *names), lines)
    grouped = () if by is None else (by,)
    rows = [
        (*((group,) if grouped else ()), name, value)
        for group, each in contents.items()
        for name, value in zip(names, _written(each), strict=True)
    ]
    described = rows[:MOST_ESTIMATES]
    caption += _rest(len(described), len(rows))
    return table(caption, (*grouped, "statistic", "noisy value"), described, names=1 + len(grouped))


def _written(each: NoisyStatistics) -> list[str]:
    """Write noisy numbers in units of the column and of records, to the digits that the noise allows."""
    spread, written = deviation(each.noise, each.scale), []
    for name, value in zip(each.names, each.values, strict=True):
        grid = each.count_grid if name == "count" else each.grid
        written.append(whole(value) if grid == 1 else Digits(spread * grid)(value * grid))
    return written


def _rest(shown: int, count: int) -> str:
    return "" if shown == count else f"; the first {shown} of {whole(count)} rows, all of them in release.json"
