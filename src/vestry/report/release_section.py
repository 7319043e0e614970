"""One release on a page: the sentence that answers its question, its estimates, its groups, and what it rests on.

What the noise did to noisy statistics: its share of the intervals, and the numbers as released.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from itertools import islice
from typing import NamedTuple

from vestry.display.formatting import Digits, number, probability, roughly, whole
from vestry.display.plotting import name_of
from vestry.display.templates import Album, Content, Markup, beside, joined, paragraph, table, tag
from vestry.posterior.discrete_noise import law_of
from vestry.posterior.reader import DRAWS, NOT_CALIBRATED, PLUG_IN, POOLED
from vestry.releases import NoisyStatistics
from vestry.report import (
    content,
    figures,
    hmm_section,
    level_section,
    moment_section,
    quality_section,
    regression_section,
    table_section,
)
from vestry.report.bin_section import binned_figure, function_parts
from vestry.report.content import MOST_ESTIMATES, MOST_ROWS, Estimate, Result, Share
from vestry.report.contingency_section import table_parts
from vestry.report.guarantee_section import reservations, weight_parts

# Further released draws are in the file only; estimates in a sentence, and in an alternative text.
_MOST_DRAWS, _MOST_NAMED, _MOST_DESCRIBED = 50, 6, 8
# Noisy numbers of a group that stand in one row.
_MOST_COLUMNS = 5


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
    "levels": _Section(level_section.headline, level_section.parts),
}


def answer(result: Result, estimates: tuple[Estimate, ...]) -> str:
    """Say in one sentence what came out, with its intervals."""
    question = result.question[:1].upper() + result.question[1:]
    subject = f"{question}," if "," in question else question
    if own := _SECTIONS.get(result.posterior.reader.display):
        return f"{question}: {own.headline(result)}."
    if result.posterior.label == DRAWS:
        return f"{subject} {_draw_words(result)}."
    method = f"90\u00a0% credible interval{'s' if len(estimates) > 1 else ''}, {result.posterior.interval_method}"
    if len(estimates) <= _MOST_NAMED:
        said = _listed([_line(each, result) for each in estimates])
        return f"{subject} is {said} ({method})."
    low, high = min(estimates, key=lambda each: each.mean), max(estimates, key=lambda each: each.mean)
    few = (
        f"the first {len(estimates)} of {whole(content.size(result))}"
        if content.size(result) > len(estimates)
        else "all"
    )
    return f"{subject} lies between {_line(low, result)} and {_line(high, result)}; the table has {few} ({method})."


def _draw_words(result: Result) -> str:
    values = [value for each in result.posterior.sample().values() for value in each.ravel()]
    count = len(next(iter(result.posterior.sample().values())))
    ends = _write(min(values), result), _write(max(values), result)
    extent = ends[0] if len(values) == 1 else f"from {ends[0]} to {ends[1]}"
    return f"was released as {'one draw' if count == 1 else f'{whole(count)} draws'}, {extent}, without an interval"


def _line(each: Estimate, result: Result) -> str:
    """Write one estimate with its interval, and which group or category it is of."""
    digits = result.digits(each.sd)
    unit = f" in units of {result.unit}" if result.unit and result.posterior.reader.parameter == "mean" else ""
    alone = result.posterior.by is None and result.posterior.reader.dimension == 1
    which = "" if alone else f" for {name_of(each.group, each.label, result.posterior)}"
    return f"{digits(each.mean)} ({digits.interval(*each.wide)}){unit}{which}"


def _listed(parts: list[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def section(result: Result, place: int, estimates: tuple[Estimate, ...], album: Album) -> Markup:
    """Write what one release says."""
    parts = [
        tag("h3", f"{place}. {result.name}"),
        tag("p", result.question, class_="question"),
        *_warnings(result),
        *_body(result, estimates, album),
    ]
    return tag("section", joined(parts), id=f"release-{place}")


def proof_section(result: Result, place: int, estimates: tuple[Estimate, ...]) -> Markup:
    """Write what one release rests on: the noise and the numbers as released; empty if there is nothing to say."""
    names = [_names(each.group, each.label, result) for each in estimates]
    noise = _noise_parts(result, estimates, _heads(result), names) if estimates else []
    parts = [*reservations(result), *noise]
    head = tag("h3", f"The noise of {result.name}" if noise else result.name)
    return tag("section", joined([head, *parts]), id=f"proof-{place}") if parts else Markup("")


def _warnings(result: Result) -> list[Content]:
    """Write what is wrong with the columns that the release rests on; a quality release says it itself."""
    if result.posterior.reader.display == "quality":
        return []
    return [tag("p", f"Warning. {each}", class_="warning") for each in result.warnings]


def _body(result: Result, estimates: tuple[Estimate, ...], album: Album) -> list[Content]:
    if own := _SECTIONS.get(result.posterior.reader.display):
        return own.parts(result, album)
    return _draw_parts(result, album) if result.posterior.label == DRAWS else _estimate_parts(result, estimates, album)


def _estimate_parts(result: Result, estimates: tuple[Estimate, ...], album: Album) -> list[Content]:
    posterior, parts = result.posterior, list[Content]()
    if posterior.label == PLUG_IN:
        parts.append(
            paragraph(
                "This posterior takes the noisy statistics as exact. Its intervals are too short: for comparison only."
            )
        )
    parts += [paragraph(said) for said in (posterior.note, posterior.reader.note) if said]
    measured = content.shares(result.release, posterior, estimates)
    return [
        *parts,
        beside(_figure(result, estimates, album), _table(result, estimates)),
        *(function_parts(result, album) if posterior.reader.has_bins and result.percent else ()),
        *_contrast_parts(result, album),
        *_pool_parts(result),
        *(table_parts(result) if posterior.reader.has_table else ()),
        paragraph(noise_sentence(measured)),
    ]


def _figure(result: Result, estimates: tuple[Estimate, ...], album: Album) -> Markup:
    if result.posterior.reader.has_bins:
        return binned_figure(result, album)
    fig = (figures.densities if _is_dense(estimates) else figures.intervals)(estimates, result)
    return album.figure(fig, alternative=_alternative(result, estimates), caption=_caption(result, estimates))


def _is_dense(estimates: tuple[Estimate, ...]) -> bool:
    return len(estimates) <= figures.MOST_DENSITIES


def _caption(result: Result, estimates: tuple[Estimate, ...]) -> str:
    known, method = result.posterior.reader.prior_words, result.posterior.interval_method
    what = result.posterior.reader.parameter
    if _is_dense(estimates):
        before = f"{known.capitalize()} (dashed) and posterior (filled)" if known else "Posterior (filled)"
        caption = f"{before} density of the {what}, with mean, 50 % and 90 % credible intervals ({method})."
    else:
        dashed = f"; dashed: the {known}'s 90 % interval, cut at the edge of the figure" if known else ""
        caption = (
            f"Posterior mean, 50 % (thick) and 90 % (thin) credible intervals of the {what} ({method}){dashed}."
        )  # fmt: skip
    if len(estimates) > figures.MOST_ROWS:
        rest = "the table has all" if content.size(result) == len(estimates) else f"the table has {len(estimates)}"
        caption += f" The first {figures.MOST_ROWS} of {content.size(result)} rows; {rest}."
    return caption


def _table(result: Result, estimates: tuple[Estimate, ...]) -> Markup:
    heads, rows = _heads(result), []
    noted = any(_note(each, result) for each in estimates)
    for each in estimates:
        digits = result.digits(each.sd)
        numbers = (digits(each.mean), digits(each.sd), digits.interval(*each.half), digits.interval(*each.wide))
        rows.append((*_names(each.group, each.label, result), *numbers, *((_note(each, result),) if noted else ())))
    return table(
        f"Posterior of the {result.measure}: mean, standard deviation, 50 % and 90 % credible intervals"
        f" ({result.posterior.interval_method})" + content.first_of(len(estimates), content.size(result)),
        (*heads, "mean", "sd", "50 %", "90 %", *(("note",) if noted else ())),
        rows,
        names=len(heads),
    )


def _note(each: Estimate, result: Result) -> str:
    """Say what is wrong with one estimate's intervals; nothing if all is well."""
    posterior = result.posterior
    wrong = NOT_CALIBRATED if NOT_CALIBRATED in posterior.interval_method else ""
    said = posterior.reader.remark(posterior.distributions[each.group], each.index)
    return "; ".join(filter(None, (wrong, said)))


def _contrast_parts(result: Result, album: Album) -> list[Content]:
    rows = content.contrasts(result)
    if not rows:
        return []
    several, method = result.posterior.reader.dimension > 1, result.posterior.interval_method
    described, cells = [], []
    for row in rows:
        digits = result.digits(row["sd"])
        mean, ends = digits.bare(row["mean"]), f"{digits.bare(row['low'])} to {digits.bare(row['high'])}"
        which = (row["label"],) if several else ()
        cells.append((f"{row['a']} − {row['b']}", *which, mean, ends, probability(row["prob_positive"])))
        described.append(f"{', '.join((*which, row['a']))} minus {row['b']}: {mean}, 90 % from {ends}")
    alternative = "Differences between groups. " + "; ".join(described[:_MOST_DESCRIBED])
    heads = ("difference", *((_parameter(result),) if several else ()), "mean", "90 %", "P(difference > 0)")
    cut, points = f"; the first {MOST_ROWS} rows" if len(rows) == MOST_ROWS else "", " in percentage points"
    return [
        tag("h4", "Groups compared"),
        beside(
            album.figure(
                figures.comparison(rows, result),
                alternative=alternative,
                caption="Differences between groups, with 90 % credible intervals; one that crosses the dashed line"
                f" leaves the sign of the difference open ({method}).",
            ),
            table(
                f"Differences for {content.compared_groups(result)}{points if result.percent else ''}, from"
                f" {whole(content.draw_count(result))} draws seeded by the release's hash, with 90 % credible intervals"
                f" ({method}){cut}",
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
        digits = Digits(row["sd"])
        ends = digits.interval(row["low"], row["high"])
        rows.append((row["parameter"], digits(row["mean"]), digits(row["sd"]), ends))
    cells = [
        (row["group"], f"{row['mean']:.1f}", f"{row['low']} to {row['high']}", probability(row["prob_largest"]),
         probability(row["prob_smallest"]))
        for row in ranks
    ]  # fmt: skip
    heads = (str(result.posterior.by), "mean rank", "90 %", "P(largest)", "P(smallest)")
    caption = "Ranks of the groups, 1 the largest, from joint draws seeded by the release's hash"
    return [
        tag("h4", "What the groups have in common"),
        table("The population that the groups come from", ("", "mean", "sd", "90 %"), rows),
        table(caption + content.first_of(len(cells), content.size(result)), heads, cells),
    ]


def _draw_parts(result: Result, album: Album) -> list[Content]:
    names, samples = content.labels(result), result.posterior.sample()
    count = len(next(iter(samples.values())))
    grouped = (result.posterior.by,) if result.posterior.by is not None else ()
    rows = [
        (*((group,) if grouped else ()), str(place), *(_write(value, result) for value in draw))
        for group, values in samples.items()
        for place, draw in enumerate(values[:_MOST_DRAWS], 1)
    ]
    described = "; ".join(
        f"{name_of(group, name, result.posterior)}: {', '.join(_write(value, result) for value in values[:10, index])}"
        for group, values in samples.items()
        for index, name in enumerate(names[:_MOST_DESCRIBED])
    )
    shown = f" The first {_MOST_DRAWS} of {whole(count)}." if count > _MOST_DRAWS else ""
    subject = "One draw" if count == 1 else f"{whole(count)} draws"
    return [
        paragraph(
            f"{subject} from a posterior {'was' if count == 1 else 'were'} released"
            f"{' for each group' if grouped else ''}, and"
            f" {'it is' if count == 1 else 'they are'} all there is. Draws have no interval; more of them cost more."
        ),
        *weight_parts(result.release.certificate),
        beside(
            album.figure(
                figures.points(result.posterior, names),
                alternative=f"Released draws as points. {described}",
                caption=f"Each point is one released draw of the {result.measure}. Draws have no interval.",
            ),
            table(f"The released draws.{shown}", (*grouped, "draw", *names), rows, names=1 + len(grouped)),
        ),
    ]


def _write(value: float, result: Result) -> str:
    """Write a released draw, of which no spread is known."""
    return roughly(value, digits=3) if result.percent else number(value)


def _alternative(result: Result, estimates: tuple[Estimate, ...]) -> str:
    described = "; ".join(_line(each, result) for each in estimates[:_MOST_DESCRIBED])
    rest = f"; {len(estimates) - _MOST_DESCRIBED} more are in the table" if len(estimates) > _MOST_DESCRIBED else ""
    what, method = result.posterior.reader.parameter, result.posterior.interval_method
    return f"Posterior of the {what}, mean and 90 % credible interval ({method}). {described}{rest}."


def _heads(result: Result) -> tuple[str, ...]:
    return _names(result.posterior.by or "", _parameter(result), result)


def _names(group: str, label: str, result: Result) -> tuple[str, ...]:
    by, several = result.posterior.by, result.posterior.reader.dimension > 1
    return (*((group,) if by is not None else ()), *((label,) if several or by is None else ()))


def _parameter(result: Result) -> str:
    several = result.posterior.reader.dimension > 1
    return "category" if several and result.posterior.reader.parameter == "probability" else "parameter"


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
        text = _widening(share)
        return text if text.startswith("makes") else f"adds {text} to the width of the interval"

    if len(measured) == 1 or _widening(least) == _widening(most):
        return f"The noise {said(most)}. The rest is the error of a finite sample."
    low, high = _widening(least), _widening(most)
    if low.startswith("about") and high.startswith("about"):
        return f"The noise adds between {low} and {high} to the width of the intervals. The rest is sampling error."
    return f"The noise {said(least)} at least, and {said(most)} at most. The rest is sampling error."


def _widening(share: Share) -> str:
    """Say what the noise adds to the width of an interval."""
    more = share.ratio - 1
    if more < 0.005:
        return "nothing"
    if math.isinf(more):
        return "cannot be told"
    return f"about {roughly(more)}" if more < 2 else f"makes it {number(share.ratio)} times as wide"


def _noise_parts(
    result: Result, estimates: tuple[Estimate, ...], heads: tuple[str, ...], names: list[tuple[str, ...]]
) -> list[Content]:
    """Write the standard deviations with and without noise, and the noisy numbers; `names` are those of the rows."""
    measured = content.shares(result.release, result.posterior, estimates)
    factor, unit = (100, ", in percent") if result.percent else (1, "")
    rows = [
        (*named, "not defined" if share.noise is None else number(factor * share.noise), number(factor * share.exact),
         number(factor * share.actual), _widening(share))
        for named, share in zip(names, measured, strict=True)
    ]  # fmt: skip
    contents = {group: each for group, each in result.release.contents.items() if isinstance(each, NoisyStatistics)}
    added = table(
        "Standard deviations of the noise on the estimate, of the posterior if the same numbers were exact, and"
        f" of the posterior{unit}; and what the noise adds to the width of the interval"
        + content.first_of(len(estimates), content.size(result)),
        (*heads, "noise", "without noise", "with noise", "noise adds"),
        rows,
        names=len(heads),
    )
    return [paragraph(" ".join(_noise_notes(result, contents))), beside(added, _released(contents, result))]


def _noise_notes(result: Result, contents: Mapping[str, NoisyStatistics]) -> list[str]:
    first = next(iter(contents.values()))
    noise = law_of(first)
    spread = noise.deviation
    size = number(spread * first.grid)
    notes = [f"{noise.words} noise with a standard deviation of {size} was added to each number below."]
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
    if by is not None and len(names) <= _MOST_COLUMNS:
        lines = [(group, *_noisy_values(each)) for group, each in islice(contents.items(), MOST_ESTIMATES)]
        return table(caption + _rest_of(len(lines), len(contents)), (by, *names), lines)
    grouped = () if by is None else (by,)
    rows = [
        (*((group,) if grouped else ()), name, value)
        for group, each in contents.items()
        for name, value in zip(names, _noisy_values(each), strict=True)
    ]
    described = rows[:MOST_ESTIMATES]
    caption += _rest_of(len(described), len(rows))
    return table(caption, (*grouped, "statistic", "noisy value"), described, names=1 + len(grouped))


def _noisy_values(each: NoisyStatistics) -> list[str]:
    """Write noisy numbers in units of the column and of records, to the digits that the noise allows."""
    spread = law_of(each).deviation
    written = []
    for name, value in zip(each.names, each.values, strict=True):
        grid = each.count_grid if name == "count" else each.grid
        written.append(whole(value) if grid == 1 else Digits(spread * grid)(value * grid))
    return written


def _rest_of(shown: int, count: int) -> str:
    return "" if shown == count else f"; the first {shown} of {whole(count)} rows, all of them in release.json"
