"""`vestry posterior`: a new posterior from an old release, free."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from vestry.cli.option import Plot, numbers
from vestry.cli.output import Json, emit, examples
from vestry.cli.progress import working
from vestry.cli.study import coefficient_lines

EXAMPLES = examples(
    "vestry posterior release.json",
    "vestry posterior release.json --prior 2,2 --level 0.95 --json",
    "vestry posterior release.json --states 3 --sweeps 1000",
)


def posterior(
    release: Annotated[Path, typer.Argument(metavar="RELEASE", help="A release.json file.")],
    prior: Annotated[str | None, typer.Option(help="Another prior; the release's own if left out.")] = None,
    level: Annotated[float, typer.Option(help="The level of the intervals.")] = 0.9,
    plug_in: Annotated[
        bool, typer.Option("--plug-in", help="The papers' posterior, which takes the noisy statistics as exact.")
    ] = False,
    states: Annotated[int | None, typer.Option(help="Another number of hidden states (hmm).")] = None,
    sweeps: Annotated[int | None, typer.Option(help="How many sweeps sample hidden states (hmm).")] = None,
    plot: Plot = None,
    json: Json = False,
) -> None:
    """Compute a posterior from a release. Nothing is spent: a release may be used in any way, for ever."""
    from vestry.posterior import open_release

    told = None if prior is None else numbers("--prior", prior, "2,2")
    options = {name: value for name, value in (("states", states), ("sweeps", sweeps)) if value is not None}
    kind = "plug-in" if plug_in else "noise-aware"
    with working("computing the posterior"):
        found = open_release(release).posterior(prior=told, posterior=kind, **options)
        regression = found.reading.parameter == "coefficient"
        rows = _coefficients(found) if regression else found.summary(level=level)
    if plot is not None:
        from vestry.report.plot import plot as draw

        draw(found, path=plot)
    if regression:
        said = "a regression's coefficients are released as they are and have no interval:"
        text = "\n".join([said, *coefficient_lines(found)])
        emit({"posterior": found.label, "rows": rows}, text, as_json=json)
        return
    lines = [f"{'group':<16} {'parameter':<16} {'mean':>10} {'sd':>10} {'low':>10} {'high':>10}"]
    lines += [
        f"{row['group']:<16} {row['parameter']:<16} {row['mean']:>10.5g} {row['sd']:>10.3g}"
        f" {row['low']:>10.5g} {row['high']:>10.5g}"
        for row in rows
    ]
    emit({"posterior": found.label, "level": level, "rows": rows}, "\n".join(lines), as_json=json)


def _coefficients(found: Any) -> list[dict[str, Any]]:
    columns = zip(found.labels, found.draw()["all"].T.tolist(), strict=True)
    return [{"coefficient": name, "values": values} for name, values in columns]
