"""`vestry audit`: run a mechanism many times, and try to catch it breaking its promise."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import vestry.cli.mechanism as options
from vestry.cli.group import add_conjugate, group
from vestry.cli.output import Json, emit, examples

if TYPE_CHECKING:
    from vestry.audit import Verdict

EXAMPLES = examples(
    "vestry audit laplace --family beta-bernoulli --n 100 --guarantee epsilon=1",
    "vestry audit diffused --family beta-bernoulli --prior 6,12 --n 100 --guarantee epsilon=1,delta=1e-5"
    " --plot audit.png",
    "vestry audit gaussian --family dirichlet-categorical --prior 1,1,1 --neighbours add-remove"
    " --guarantee rho=0.5 --json",
)


def audit(
    mechanism: str,
    family: options.FamilyName,
    guarantee: Annotated[str, typer.Option(help="What the mechanism is calibrated to, for example epsilon=1.")],
    prior: options.Prior = None,
    n: options.Count = None,
    neighbours: options.NeighboursName = "replace",
    rows: options.Rows = 1,
    count: options.Known = None,
    draws: options.DrawCount = 1,
    truncation: options.Truncation = None,
    variance: options.Variance = None,
    low: options.Low = None,
    high: options.High = None,
    dimension: options.Dimension = 1,
    grid: options.Grid = None,
    trials: Annotated[int, typer.Option(help="How often the released law is simulated.")] = 400_000,
    releases: Annotated[
        int | None, typer.Option(help="How often the code that releases runs, with system noise; 0: not at all.")
    ] = None,
    plot: Annotated[Path | None, typer.Option(help="Also draw claim and evidence into this file.")] = None,
    json: Json = False,
) -> None:
    """Run a mechanism on worst-case neighbours and hold lower bounds on delta against its claim; touches no data.

    Refutes a true claim with probability at most 1e-6. Exit code 0: not refuted; 1: refuted. An audit can show that a
    promise is broken, never that it is kept.
    """
    from vestry.audit import audit_shipped
    from vestry.audit.claim import Claim
    from vestry.noise import SystemNoise
    from vestry.privacy.guarantee import Guarantee

    given = options.declared(
        mechanism, family, prior, n, neighbours, rows, count, draws, truncation, variance, low, high, dimension, grid
    )
    made = given.calibrated(Guarantee.parse(guarantee))
    with _progress() as progress:
        found = audit_shipped(
            made,
            given.family,
            noise=SystemNoise(),
            trials=trials,
            releases=releases,
            progress=progress,
        )
    if plot is not None:
        from vestry.report.evidence import evidence_picture

        title = (
            f"{mechanism}, {made.parameter.replace('_', ' ')} {made.value:.4g}: {found.word} in {found.trials} trials"
        )
        claim = Claim.of((made.event, made.guarantee))
        evidence_picture(claim.delta, found.evidence, title=title, path=plot)
    record = {"mechanism": mechanism, "parameter": made.parameter, "value": made.value, **found.to_dict()}
    emit(record, _text(mechanism, made, found), as_json=json)
    if found.refuted:
        raise typer.Exit(1)


def _text(name: str, made: Any, found: Verdict) -> str:
    """Say the verdict and, for each pair of neighbours and each way of running, the strongest evidence."""
    best = {}
    for each in sorted(found.evidence, key=lambda each: each.strength):
        best[each.where] = each
    lines = [
        f"{name}, {made.parameter} {made.value:.6g}: {found.word} in {found.trials} trials"
        f" (false alarms at most {found.alarm:g})",
        "",
        f"{'epsilon':>8} {'claimed':>9} {'at least':>9}  where",
    ]
    lines += [f"{e.epsilon:>8.4g} {e.claimed:>9.4g} {e.lower:>9.4g}  {where}" for where, e in best.items()]
    return "\n".join(lines)


@contextmanager
def _progress() -> Iterator[Any]:
    """Show what runs and for how long, on a terminal's standard error."""
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    columns = SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn()
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("", total=None)
        yield lambda what: bar.update(task, description=what)


app = group("Run a mechanism on worst-case neighbours and try to refute its claim; touches no data.", EXAMPLES)
add_conjugate(app, audit, "Audit")
