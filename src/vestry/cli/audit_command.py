"""`vestry audit`: run a mechanism many times, and try to refute its guarantee."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Option

from vestry.cli.conjugate_options import Conjugate
from vestry.cli.mechanism_commands import CONJUGATE, add, group
from vestry.cli.options import Plot, Wanted
from vestry.cli.output import Json, emit, examples, working
from vestry.validation import require_whole

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
    given: Conjugate,
    guarantee: Wanted,
    trials: Annotated[int, Option(help="How often the released distribution is simulated.")] = 400_000,
    releases: Annotated[int | None, Option(help="How often the releasing code itself runs; 0 for never.")] = None,
    plot: Plot = None,
    json: Json = False,
) -> None:
    """Run a mechanism on worst-case neighbours and compare lower bounds on delta with its claim. Reads no data.

    Refutes a true claim with probability at most 1e-6. Exit code 0: not refuted; 1: refuted.

    An audit can show that a guarantee is broken, never that it holds.
    """
    from vestry.audit import audit_shipped
    from vestry.noise import SystemNoise

    require_whole("--trials", trials, "for example --trials 400000", least=1000, most=_MOST_TRIALS)
    require_whole("--releases", releases or 0, "for example --releases 1000", least=0, most=_MOST_RELEASES)
    with working("calibrating") as progress:
        mechanism = given.calibrate_mechanism(given.parse_guarantee(guarantee))
        verdict = audit_shipped(
            mechanism, given.pair, noise=SystemNoise(), trials=trials, releases=releases, progress=progress
        )
    name, value = given.mechanism, mechanism.value
    heading = f"{name}, {given.parameter} {value:.6g}: {verdict.word} in {verdict.trials} trials"
    if plot is not None:
        _draw(heading.replace("_", " "), mechanism, verdict, plot)
    record = {"mechanism": name, "parameter": given.parameter, "value": value, **verdict.to_dict()}
    emit(record, _format(heading, verdict), as_json=json)
    if verdict.refuted:
        raise typer.Exit(1)


# What a run of hours can do.
_MOST_TRIALS, _MOST_RELEASES = 10**9, 10**7


def _draw(title: str, mechanism: Any, verdict: Verdict, path: Path) -> None:
    from vestry.audit.claim import Claim
    from vestry.report.audit_figure import evidence_picture

    claim = Claim.of((mechanism.event, mechanism.guarantee))
    evidence_picture(claim.delta, verdict.evidence, title=title, path=path)


def _format(heading: str, verdict: Verdict) -> str:
    """Say the verdict and, for each pair of neighbours and each way of running, the strongest evidence."""
    from vestry.numerics import format_up

    best = {}
    for each in sorted(verdict.evidence, key=lambda each: each.strength):
        best[each.where] = each
    lines = [
        f"{heading} (false alarms at most {verdict.alarm:g})",
        "",
        f"{'epsilon':>8} {'claimed':>9} {'at least':>9}  where",
    ]
    for where, e in best.items():
        lines.append(f"{e.epsilon:>8.4g} {format_up(e.claimed, digits=4):>9} {e.lower:>9.4g}  {where}")
    return "\n".join(lines)


app = group("Run a mechanism on worst-case neighbours and try to refute its guarantee. Reads no data.", EXAMPLES)
add(app, "audit", audit, CONJUGATE, "--guarantee {guarantee}")
