"""One release on a page: its estimates, its groups, its noise and its guarantee."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from itertools import islice
from typing import NamedTuple

from vestry.display.formatting import Digits, number, probability, roughly, whole
from vestry.display.plotting import name_of
from vestry.display.templates import Album, Content, Markup, beside, joined, paragraph, table, tag
from vestry.posterior.reader import DRAWS, NOT_CALIBRATED, PLUG_IN, POOLED
from vestry.releases import NoisyStatistics
from vestry.report import (
    content,
    figures,
    hmm_section,
    moment_section,
    quality_section,
    regression_section,
    table_section,
)
from vestry.report.content import MOST_ESTIMATES, MOST_ROWS, Estimate, Result, Share
from vestry.report.guarantee_section import claim, weight_parts

# Further released draws are in the file only.
_MOST_DRAWS = 50


class _Section(NamedTuple):
    headline: Callable[[Result], str]
    parts: Callable[[Result, Album], list[Content]]


# What is not shown as estimates by group; a model's reader names it.
_SECTIONS = {
    "states": _Section(hmm_section.headline, hmm_section.parts),
    "coefficients": _Section(regression_section.headline, regression_section.parts),
    "moments": _Section(moment_section.headline, moment_section.parts),
    "table": _Section(table_section.headline, table_section.parts),
    "quality": _Section(quality_section.headline, quality_section.parts),
}


def section(result: Result, place: int, found: tuple[Estimate, ...], album: Album) -> Markup:
    """Write one release."""
    parts = [
        tag("h2", f"Release {place}: {result.name}"),
        tag("p", result.question, class_="question"),
        *_warnings(result),
        *_body(result, found, album),
        *claim(result, album),
    ]
    return tag("section", joined(parts), id=f"release-{place}")


def _warnings(result: Result) -> list[Content]:
    """Write what is wrong with the columns that the release rests on; a quality release says it itself."""
    if result.posterior.reader.display == "quality":
        return []
    return [tag("p", f"Warning. {each}", class_="warning") for each in result.warnings]


def _body(result: Result, found: tuple[Estimate, ...], album: Album) -> list[Content]:
    if own := _SECTIONS.get(result.posterior.reader.display):
        return own.parts(result, album)
    return _draw_parts(result, album) if result.posterior.label == DRAWS else _estimate_parts(result, found, album)


def headline(result: Result, found: tuple[Estimate, ...]) -> Content:
    """Say in one line what came out."""
    if own := _SECTIONS.get(result.posterior.reader.display):
        return own.headline(result)
    if not found:
        values = [value for each in result.posterior.sample().values() for value in each.ravel()]
        count = len(next(iter(result.posterior.sample().values())))
        ends = number(min(values)), number(max(values))
        extent = ends[0] if len(values) == 1 else f"from {ends[0]} to {ends[1]}"
        return f"{_draws(count)}, {result.posterior.reader.parameter} {extent}; no interval"
    made = f"({result.posterior.interval_method})"
    if len(found) <= _MOST_NAMED:
        lines = [_line(each, result, named=len(found) > 1) for each in found]
        return joined([*lines, made], "<br>")
    low, high = min(found, key=lambda each: each.mean), max(found, key=lambda each: each.mean)
    few = content.size(result) > len(found)
    between = f"{content.size(result)} estimates, {f'the first {len(found)} of them ' if few else ''}between"
    return joined([between, _line(low, result, named=True), "and", _line(high, result, named=True), made], "<br>")


def _line(each: Estimate, result: Result, *, named: bool) -> str:
    name = f"{name_of(each.group, each.label, result.posterior)}: " if named else ""
    digits = Digits(each.mean, each.sd)
    return f"{name}{digits(each.mean)} ({digits.interval(*each.wide)})"


def _estimate_parts(result: Result, found: tuple[Estimate, ...], album: Album) -> list[Content]:
    posterior, before = result.posterior, content.prior(result.posterior)
    dense = len(found) <= figures.MOST_DENSITIES
    drawn = (figures.densities if dense else figures.intervals)(found, posterior, before)
    what, made, known = posterior.reader.parameter, posterior.interval_method, posterior.reader.prior_words
    caption = (
        f"{known.capitalize()} (dashed) and posterior (filled) density of the {what}, with mean, 50 % and 90 % credible"
        f" intervals ({made})."
        if dense
        else f"Posterior mean, 50 % (thick) and 90 % (thin) credible intervals of the {what} ({made}); dashed: the"
        f" {known}'s 90 % interval, cut at the edge of the figure."
    )
    if len(found) > figures.MOST_ROWS:
        rest = "the table has all" if content.size(result) == len(found) else f"the table has {len(found)}"
        caption += f" The first {figures.MOST_ROWS} of {content.size(result)} rows; {rest}."
    parts: list[Content] = [tag("h3", "What the data say")]
    if posterior.label == PLUG_IN:
        parts.append(
            paragraph(
                "This posterior takes the noisy statistics as exact. Its intervals are too short: for comparison only."
            )
        )
    parts += [paragraph(said) for said in (posterior.note, posterior.reader.note) if said]
    parts += [
        beside(album.figure(drawn, alternative=_alternative(result, found), caption=caption), _table(result, found)),
        *_contrast_parts(result, found, album),
        *_pool_parts(result),
        *_noise_parts(result, found),
    ]
    return parts


def _table(result: Result, found: tuple[Estimate, ...]) -> Markup:
    heads, rows = _heads(result), []
    noted = any(_note(each, result) for each in found)
    for each in found:
        digits = Digits(each.mean, each.sd)
        numbers = (digits(each.mean), number(each.sd), digits.interval(*each.half), digits.interval(*each.wide))
        rows.append((*_names(each.group, each.label, result), *numbers, *((_note(each, result),) if noted else ())))
    what = result.posterior.reader.parameter
    return table(
        f"Posterior of the {what}: mean, standard deviation, 50 % and 90 % credible intervals"
        f" ({result.posterior.interval_method})" + content.first_of(len(found), content.size(result)),
        (*heads, "mean", "sd", "50 %", "90 %", *(("note",) if noted else ())),
        rows,
        names=len(heads),
    )


def _note(each: Estimate, result: Result) -> str:
    """Say what is wrong with one estimate's intervals; nothing if all is well."""
    wrong = NOT_CALIBRATED if NOT_CALIBRATED in result.posterior.interval_method else ""
    return "; ".join(filter(None, (wrong, result.posterior.reader.remark(each.marginal))))


def _contrast_parts(result: Result, found: tuple[Estimate, ...], album: Album) -> list[Content]:
    rows = content.contrasts(result)
    if not rows:
        return []
    drawn = figures.comparison(found, rows, result.posterior)
    several, made = result.posterior.reader.dimension > 1, result.posterior.interval_method
    described, cells = [], []
    for row in rows:
        digits = Digits(row["mean"], row["sd"])
        mean, ends = digits(row["mean"]), digits.interval(row["low"], row["high"])
        which = (row["label"],) if several else ()
        cells.append(
            (f"{row['a']} − {row['b']}", *which, mean, number(row["sd"]), ends, probability(row["prob_positive"]))
        )
        described.append(f"{', '.join((*which, row['a']))} minus {row['b']}: {mean}, 90 % from {ends}")
    alternative = "Groups on one axis, and their differences. " + "; ".join(described[:_MOST_DESCRIBED])
    heads = ("difference", *((_parameter(result),) if several else ()), "mean", "sd", "90 %", "P(difference > 0)")
    cut = f"; the first {MOST_ROWS} rows" if len(rows) == MOST_ROWS else ""
    return [
        tag("h3", "Groups compared"),
        beside(
            album.figure(
                drawn,
                alternative=alternative,
                caption=f"Above: the {result.posterior.reader.parameter} of each group, with mean, 50 % and 90 %"
                " credible intervals. Below: differences between groups, with 90 % credible intervals; one that crosses"
                f" the dashed line leaves the sign of the difference open. Intervals: {made}.",
            ),
            table(
                f"Differences for {content.compared_groups(result)}, from {whole(content.draw_count(result))} draws"
                f" seeded by the release's hash, with 90 % credible intervals ({made}){cut}",
                heads,
                cells,
                names=2 if several else 1,
            ),
        ),
    ]


def _pool_parts(result: Result) -> list[Content]:
    """Write what pooled groups have in common, and how they rank."""
    if result.posterior.label != POOLED:
        return []
    rows, ranks = [], content.ranks(result)
    for row in result.posterior.population_rows():
        digits = Digits(row["mean"], row["sd"])
        rows.append(
            (row["parameter"], digits(row["mean"]), number(row["sd"]), digits.interval(row["low"], row["high"]))
        )
    cells = [
        (row["group"], f"{row['mean']:.1f}", f"{row['low']} to {row['high']}", probability(row["prob_largest"]),
         probability(row["prob_smallest"]))
        for row in ranks
    ]  # fmt: skip
    heads = (str(result.posterior.by), "mean rank", "90 %", "P(largest)", "P(smallest)")
    caption = "Ranks of the groups, 1 the largest, from joint draws seeded by the release's hash"
    return [
        tag("h3", "What the groups have in common"),
        table("The population that the groups come from", ("", "mean", "sd", "90 %"), rows),
        table(caption + content.first_of(len(cells), content.size(result)), heads, cells),
    ]


def _noise_parts(result: Result, found: tuple[Estimate, ...]) -> list[Content]:
    measured = content.shares(result.release, result.posterior, found)
    heads = _heads(result)
    rows = [
        (*_names(each.group, each.label, result), "not defined" if share.noise is None else
         number(share.noise), number(share.exact), number(share.actual), widening(share))
        for each, share in zip(found, measured, strict=True)
    ]  # fmt: skip
    contents = {group: each for group, each in result.release.contents.items() if isinstance(each, NoisyStatistics)}
    first = next(iter(contents.values()))
    kind = first.noise.removeprefix("discrete-").capitalize()
    notes = [f"{kind} noise of scale {number(first.scale)} was added to each number below, in whole units."]
    if first.grid != 1:
        notes.append(result.posterior.reader.unit_words(number(first.grid)))
    if first.count_grid != 1:
        notes.append(f"One unit of the count stands for {number(first.count_grid)} of a record.")
    if first.count is not None:
        notes.append(f"The number of records, {whole(first.count)}, is public.")
    if any(value < 0 for each in contents.values() for value in each.values) and first.grid == 1:
        notes.append("A negative count comes from the noise; it is not a mistake.")
    return [
        tag("h3", "Noise against sampling error"),
        paragraph(_cost(measured)),
        table(
            "Standard deviations of the noise on the estimate, of the posterior if the same numbers were exact, and"
            " of the posterior; and what the noise adds to the width of the interval"
            + content.first_of(len(found), content.size(result)),
            (*heads, "noise", "without noise", "with noise", "noise adds"),
            rows,
            names=len(heads),
        ),
        paragraph(" ".join(notes)),
        _released(contents, result),
    ]


def _released(contents: Mapping[str, NoisyStatistics], result: Result) -> Markup:
    """Write the noisy numbers: a row for each group if they are few, else a row for each number."""
    caption, by, names = "The numbers as released", result.posterior.by, next(iter(contents.values())).names
    if len(names) == len(result.labels) > 2:
        names = result.labels
    if by is not None and len(names) <= _MOST_NAMED:
        lines = [(group, *map(whole, each.values)) for group, each in islice(contents.items(), MOST_ESTIMATES)]
        return table(caption + _rest(len(lines), len(contents)), (by, *names), lines)
    grouped = () if by is None else (by,)
    rows = [
        (*((group,) if grouped else ()), name, whole(value))
        for group, each in contents.items()
        for name, value in zip(names, each.values, strict=True)
    ]
    described = rows[:MOST_ESTIMATES]
    caption += _rest(len(described), len(rows))
    return table(caption, (*grouped, "statistic", "noisy value"), described, names=1 + len(grouped))


def _rest(shown: int, count: int) -> str:
    return "" if shown == count else f"; the first {shown} of {whole(count)} rows, all of them in release.json"


def widening(share: Share) -> str:
    """Say what the noise adds to the width of an interval."""
    more = share.ratio - 1
    if more < 0.005:
        return "nothing"
    if math.isinf(more):
        return "cannot be told"
    return f"about {roughly(more)}" if more < 2 else f"makes it {number(share.ratio)} times as wide"


def _cost(measured: tuple[Share, ...]) -> str:
    least, most = min(measured, key=lambda s: s.ratio), max(measured, key=lambda s: s.ratio)
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


def _draw_parts(result: Result, album: Album) -> list[Content]:
    names, drawn = content.labels(result), result.posterior.sample()
    count = len(next(iter(drawn.values())))
    grouped = (result.posterior.by,) if result.posterior.by is not None else ()
    rows = [
        (*((group,) if grouped else ()), str(place), *(number(value) for value in draw))
        for group, values in drawn.items()
        for place, draw in enumerate(values[:_MOST_DRAWS], 1)
    ]
    described = "; ".join(
        f"{name_of(group, name, result.posterior)}: {', '.join(number(value) for value in values[:10, index])}"
        for group, values in drawn.items()
        for index, name in enumerate(names[:_MOST_DESCRIBED])
    )
    shown = f" The first {_MOST_DRAWS} of {whole(count)}." if count > _MOST_DRAWS else ""
    return [
        tag("h3", "What the data say"),
        paragraph(
            f"{_draws(count)} from a posterior {'was' if count == 1 else 'were'} released"
            f"{' for each group' if grouped else ''}, and"
            f" {'it is' if count == 1 else 'they are'} all there is. Draws have no interval; more of them cost more."
        ),
        *weight_parts(result.release.certificate),
        beside(
            album.figure(
                figures.points(result.posterior, names),
                alternative=f"Released draws as points. {described}",
                caption=f"Each point is one released draw of the {result.posterior.reader.parameter}. Draws have no"
                " interval.",
            ),
            table(f"The released draws.{shown}", (*grouped, "draw", *names), rows, names=1 + len(grouped)),
        ),
    ]


def _alternative(result: Result, found: tuple[Estimate, ...]) -> str:
    described = "; ".join(_line(each, result, named=True) for each in found[:_MOST_DESCRIBED])
    rest = f"; {len(found) - _MOST_DESCRIBED} more are in the table" if len(found) > _MOST_DESCRIBED else ""
    what, made = result.posterior.reader.parameter, result.posterior.interval_method
    return f"Posterior of the {what}, mean and 90 % credible interval ({made}). {described}{rest}."


def _heads(result: Result) -> tuple[str, ...]:
    return _names(result.posterior.by or "", _parameter(result), result)


def _names(group: str, label: str, result: Result) -> tuple[str, ...]:
    by, several = result.posterior.by, result.posterior.reader.dimension > 1
    return (*((group,) if by is not None else ()), *((label,) if several or by is None else ()))


def _parameter(result: Result) -> str:
    several = result.posterior.reader.dimension > 1
    return "category" if several and result.posterior.reader.parameter == "probability" else "parameter"


def _draws(count: int) -> str:
    return "One draw" if count == 1 else f"{whole(count)} draws"


# Estimates in a headline, and in an alternative text.
_MOST_NAMED, _MOST_DESCRIBED = 5, 8
