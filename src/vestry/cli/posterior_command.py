"""`vestry posterior`: a new posterior from an old release, or from several, free."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from typer import Argument, Option

from vestry.cli.options import Plot, numbers
from vestry.cli.output import Json, columns, emit, examples, interval_note, short, working
from vestry.errors import InvalidParameter, VestryError
from vestry.posterior.reader import POOLED

if TYPE_CHECKING:
    from vestry.hmm.hidden_states import States
    from vestry.posterior import Posterior
    from vestry.posterior.posterior import Rows

EXAMPLES = examples(
    "vestry posterior release.json",
    "vestry posterior release.json --prior 2,2 --prob 0.95 --json",
    "vestry posterior release.json --states 3 --sweeps 1000",
    "vestry posterior release.json --predictors age,ward --outcome stay",
    "vestry posterior release.json --predictors sex,ward,sex:ward",
    "vestry posterior release.json --draws draws.nc",
    "vestry posterior release.json --pool",
    "vestry posterior spring/release.json autumn/release.json --same-people",
    "vestry posterior north/release.json south/release.json --other-people",
)


def posterior(
    release: Annotated[list[Path], Argument(metavar="RELEASE", help="A release.json file, or several.")],
    prior: Annotated[str | None, Option(help="Another prior, as numbers; or sparse, for a table of levels.")] = None,
    prob: Annotated[float, Option(help="The probability of each credible interval.")] = 0.9,
    plug_in: Annotated[
        bool, Option("--plug-in", help="Take the noisy statistics as exact: intervals are too short.")
    ] = False,
    pool: Annotated[
        bool, Option("--pool", help="Let groups learn from each other: proportions, means and rates by group.")
    ] = False,
    states: Annotated[int | None, Option(help="hmm: another number of hidden states.")] = None,
    sweeps: Annotated[int | None, Option(help="hmm: the number of sweeps of the sampler.")] = None,
    predictors: Annotated[
        str | None,
        Option(help="regressions: some of the released columns, with commas; by table also a:b, an interaction."),
    ] = None,
    outcome: Annotated[str | None, Option(help="linear by moments: another released column to explain.")] = None,
    draws: Annotated[
        Path | None, Option(metavar="FILE", help="Also write draws as netCDF, 4 chains of 1000 each.")
    ] = None,
    same_people: Annotated[
        bool | None,
        Option(
            "--same-people/--other-people",
            help="Several releases: of the same people, or of people none of whom is in two of them. It must be said.",
        ),
    ] = None,
    plot: Plot = None,
    json: Json = False,
) -> None:
    """Compute a posterior from a release. Nothing is spent: what is released may be used freely.

    Several releases of one quantity give one posterior. Whether they are of the same people no release tells: say
    --same-people for several releases from one table, --other-people for tables that have nobody in common.
    """
    chosen_prior = prior if prior in (None, "sparse") else numbers("--prior", prior, "2,2")
    named = None if predictors is None else [each.strip() for each in predictors.split(",") if each.strip()]
    given = {"states": states, "sweeps": sweeps, "predictors": named, "outcome": outcome}
    options: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    kind = "plug-in" if plug_in else "noise-aware"
    with working("computing the posterior"):
        posterior = _read(release, same_people, chosen_prior, kind, pool=pool, options=options)
        record, lines = _describe(posterior, prob)
        if len(release) > 1:
            whom = "the same people" if same_people else "other people each"
            record, lines = {**record, "releases": len(release)}, [f"{len(release)} releases, of {whom}.", "", *lines]
        if draws is not None:
            _write_draws(posterior, release, draws)
            lines = [*lines, "", f"draws: {draws}"]
            record = {**record, "draws_file": str(draws)}
    if plot is not None:
        from vestry.display.plotting import plot as draw

        draw(posterior, prob=prob, path=plot)
    heading = {"posterior": posterior.label, "interval_method": posterior.interval_method}
    emit({**heading, **record}, "\n".join(lines), as_json=json)


def _read(
    files: list[Path], same_people: bool | None, prior: Any, kind: str, *, pool: bool, options: dict[str, Any]
) -> Posterior:
    """Return the posterior from a release, or from several together."""
    from vestry.posterior.combination import combine
    from vestry.releases import open_release

    releases = [open_release(each) for each in files]
    if len(releases) == 1:
        if same_people is not None:
            allowed = "said of several releases"
            raise InvalidParameter("--same-people or --other-people", "one release", allowed, "another release beside")
        alone: Posterior = releases[0].posterior(prior=prior, method=kind, pool=pool, **options)
        return alone
    if kind != "noise-aware" or pool or options:
        given = "--plug-in" if kind != "noise-aware" else "--pool" if pool else f"--{next(iter(options))}"
        raise InvalidParameter("an option", given, "omitted for several releases", "one release")
    if same_people is None:
        allowed = "said: releases do not tell whether they are of the same people"
        instead = "--same-people for several releases from one table, --other-people for tables that share nobody"
        raise InvalidParameter("--same-people or --other-people", "neither", allowed, instead)
    return combine(*releases, same_people=same_people, prior=prior)


def _write_draws(posterior: Posterior, releases: list[Path], path: Path) -> None:
    """Write draws whose generator is seeded by the releases: the same ones and prior give the same ones."""
    import hashlib

    from vestry.files import read_bytes
    from vestry.posterior.arviz_tree import draw_file
    from vestry.posterior.posterior import NOTHING
    from vestry.study.storage import write

    seed = hashlib.sha256(b"".join(read_bytes(file) for file in releases)).hexdigest()
    content = draw_file(posterior, seed, most=None)
    if content is None:
        raise VestryError(NOTHING)
    write(path, content)


def _describe(posterior: Posterior, prob: float) -> tuple[dict[str, Any], list[str]]:
    """Return what is told of a posterior, as a record and as lines."""
    if posterior.label == "released draws":
        answer = posterior.reader.answer(posterior.certificate)
        return {"rows": _draw_rows(posterior), **({"answer": answer} if answer else {})}, draw_lines(posterior)
    rows = posterior.rows(prob)
    record: dict[str, Any] = {"prob": prob, "rows": rows}
    if posterior.reader.display == "levels":
        return _describe_levels(posterior, record)
    lines = [f"{100 * prob:g} % credible intervals ({posterior.interval_method}):", "", *_table(rows)]
    if posterior.note:
        record["note"] = posterior.note
        lines = [posterior.note, "", *lines]
    if warned := [each.sentence for each in posterior.reader.findings(posterior.distributions)]:
        record["warnings"] = warned
        lines = [*lines, "", *(f"warning: {each}" for each in warned)]
    if posterior.reader.display == "states":
        states = posterior.states()
        record["states"] = dict(zip(states.regions, states.most_probable.tolist(), strict=True))
        lines += ["", *_map(states)]
    if posterior.label == POOLED:
        pooled, more = _pooled(posterior, prob)
        record, lines = {**record, **pooled}, [_POOLED, "", *lines, *more]
    return record, lines


def _describe_levels(posterior: Posterior, record: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Return the values that occur with their counts, and the line that declares them."""
    reader: Any = posterior.reader
    levels, seen = list(posterior.distributions), [reader.note, f"{reader.finding[:1].upper()}{reader.finding[1:]}."]
    if not levels:
        return {**record, "levels": [], "note": reader.note, "found": reader.finding}, [NOTHING_FOUND, *seen]
    rows, declared = record["rows"], reader.declaration(levels)
    caption = f"how many {reader.of} hold each value, {100 * record['prob']:g} % credible intervals"
    lines = [f"{caption} ({posterior.interval_method}):", "", *_table(rows), "", *seen, "", _DECLARE, f"  {declared}"]
    facts = {"levels": levels, "declaration": declared, "note": reader.note, "found": reader.finding}
    return {**record, **facts}, lines


NOTHING_FOUND = "No value reached the threshold. That does not say that there is none."
_DECLARE = "To declare them as levels write under [columns]:"


def _pooled(posterior: Posterior, prob: float) -> tuple[dict[str, Any], list[str]]:
    """Return what pooled groups have in common, and their ranks if they are not too many."""
    population = posterior.population_rows(prob)
    lines = ["", "the population:", *_table(population)]
    if len(posterior.distributions) > _MOST_RANKED:
        return {"population": population}, lines
    ranks = posterior.ranks(prob, rng=np.random.default_rng(0)).reset_index().to_dict("records")
    cells = [
        (row["group"], f"{row['mean']:.1f}", f"{row['low']}", f"{row['high']}", f"{row['prob_largest']:.2f}",
         f"{row['prob_smallest']:.2f}")
        for row in ranks
    ]  # fmt: skip
    heads = ("group", "mean", "low", "high", "P(largest)", "P(smallest)")
    return {"population": population, "ranks": ranks}, [*lines, "", "ranks, 1 the largest:", *columns([heads, *cells])]


def _table(rows: Rows) -> list[str]:
    """Lay out a summary."""
    names = [name for name in ("group", "parameter") if name in rows[0]]
    cells = [
        (*(row[name] for name in names), short(row["mean"], 5), f"{row['sd']:.3g}", short(row["low"], 5),
         short(row["high"], 5), interval_note(row))
        for row in rows
    ]  # fmt: skip
    return columns([(*names, "mean", "sd", "low", "high", ""), *cells], names=len(names))


def draw_lines(posterior: Posterior, most: int | None = None) -> list[str]:
    """Show what was released where it has no interval: draws, or one estimate; the first of many, and of many rows."""
    rows = _draw_rows(posterior)
    count, names = len(rows[0]["values"]), [name for name in rows[0] if name != "values"]
    what = "draw" if getattr(posterior.reader, "method", "posterior") == "posterior" else "noisy estimate"
    heads = [f"{what} {place + 1}" if what == "draw" else what for place in range(min(count, _MOST_DRAWS))]
    cells = [
        (*(row[name] for name in names), *(f"{x:.5g}" for x in row["values"][: len(heads)])) for row in rows[:most]
    ]
    said = f"one {what} is all that was released" if count == 1 else f"{count} {what}s are all that was released"
    first = f"; the first {_MOST_DRAWS}" if count > _MOST_DRAWS else ""
    more = [f"and {len(rows) - len(cells)} more"] if len(rows) > len(cells) else []
    table = columns([(*names, *heads), *cells], names=len(names))
    answer = posterior.reader.answer(posterior.certificate)
    return [f"no interval: {said}{first}:", *table, *more, *([answer] if answer else [])]


def _draw_rows(posterior: Posterior) -> Rows:
    """Return released draws, one row per group and parameter; of a regression, one per coefficient."""
    alone = posterior.reader.parameter == "coefficient"
    return [
        {**({"coefficient": name} if alone else {"group": group, "parameter": name}), "values": values}
        for group, draws in posterior.sample().items()
        for name, values in zip(posterior.labels if alone else posterior.parameters, draws.T.tolist(), strict=True)
    ]


def _map(states: States) -> list[str]:
    """Draw the states in text, one sign per cell: regions down, times across, folded to the width of a terminal."""
    from vestry.report.hmm_section import unsure

    width = max(map(len, states.regions))
    room = max(_LEAST, _COLUMNS - width - 2)
    most = ["".join(_SIGNS[min(n, len(_SIGNS)) - 1] for n in row) for row in states.most_probable.tolist()]
    lines = [f"The most probable state of each cell; {unsure(states)}."]
    for start in range(0, len(states.times), room):
        times = states.times[start : start + room]
        lines += ["", f"{'':<{width}}  {times[0]} to {times[-1]}"]
        lines += [
            f"{name:<{width}}  {row[start : start + room]}" for name, row in zip(states.regions, most, strict=True)
        ]
    return lines


# A sign for each state; the width of a terminal, and the least room for a map beside long names; draws in the text.
_SIGNS, _COLUMNS, _LEAST, _MOST_DRAWS = "123456789abcdefghijklmnopqrstuvwxyz+", 80, 20, 5
# What is said of pooled groups; and of how many of them ranks are told.
_POOLED = "pooled: groups learn from each other; a group unlike all others is drawn towards them."
_MOST_RANKED = 200
