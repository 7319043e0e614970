"""`vestry check`, `plan`, `release` and `report`: a study file, from its declaration to its page."""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from vestry.cli.output import Json, columns, emit, examples, say
from vestry.cli.progress import working
from vestry.errors import InvalidParameter, MissingExtra, VestryError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vestry.models.plan import Expectation
    from vestry.study import Study
    from vestry.study.asked import Asked
    from vestry.study.course import Outcome
    from vestry.study.study import Cost

File = Annotated[Path, typer.Argument(metavar="STUDY", help="A study file, for example study.toml.")]
Names = Annotated[list[str] | None, typer.Argument(metavar="NAME", help="Releases; all if left out.")]
Output = Annotated[Path | None, typer.Option(help="Where to write; the study file's folder if left out.")]

CHECK_EXAMPLES = examples("vestry check study.toml", "vestry check study.toml --json")
PLAN_EXAMPLES = examples("vestry plan study.toml", "vestry plan study.toml readmission --width 0.1")
RELEASE_EXAMPLES = examples(
    "vestry release study.toml", "vestry release study.toml readmission --yes", "vestry release study.toml --dry-run"
)
REPORT_EXAMPLES = examples("vestry report .", "vestry report study.toml")


def check(study: File, json: Json = False) -> None:
    """Read a study file and say what each release would cost. Touches no data.

    A fault is told with its file, line and key, and what to write instead.
    """
    opened = _opened(study)
    with working("calibrating"):
        costs = opened.check()
    said = opened.declaration
    record = {
        "study": said.name,
        "unit": str(said.frame.unit),
        "neighbours": str(said.frame.neighbours),
        "budget": str(said.budget),
        "ledger": "there" if opened.has_ledger() else "missing",
        "data": "missing" if opened.lacks_data() else "not read",
        "releases": [vars(cost) for cost in costs],
    }
    count = "1 release" if len(costs) == 1 else f"{len(costs)} releases"
    lines = [f"{study.name} is sound: {count}, budget {said.budget}, {said.frame.neighbours},"
             f" unit {said.frame.unit}."]  # fmt: skip
    if record["ledger"] == "missing":
        lines.append(f"There is no ledger yet. Make it once: {opened.create_command()}")
    if record["data"] == "missing":
        lines.append(f"The data file {said.data} is not here; a release needs it.")
    emit(record, "\n".join([*lines, "", *_cost_lines(opened, costs)]), as_json=json)


def plan(
    study: File,
    names: Names = None,
    width: Annotated[float | None, typer.Option(help="Also find the spend for 90 % intervals this wide.")] = None,
    json: Json = False,
) -> None:
    """Compare mechanisms before anything is spent, by simulation from the priors. Touches neither data nor ledger.

    KL is the Kullback-Leibler divergence from the posterior without privacy to the released one.
    """
    opened = _opened(study)
    chosen = [opened.declaration.release(name).name for name in names or []]
    chosen = chosen or [asked.name for asked in opened.declaration.releases]
    record: dict[str, Any] = {"study": opened.declaration.name, "n": opened.assumed, "releases": {}}
    where = "declared" if opened.declaration.n else "assumed; write n = ... under [study] to change it"
    lines = [f"With {opened.assumed} records ({where}); widths are of 90 % intervals."]
    for name in chosen:
        with working(f"simulating {name}"):
            found = opened.plan(name)
        record["releases"][name] = {"mechanisms": [each.to_dict() for each in found]}
        asked = opened.declaration.release(name).request
        lines += ["", f"{name}: {asked.model.question()} ({asked.guarantee})", *_plan_lines(opened, name, found)]
        if width is not None:
            with working(f"searching a budget for {name}"):
                wanted = opened.budget_for(name, width)
            record["releases"][name]["needed"] = wanted.to_dict()
            lines.append(f"  for intervals of width {width:g} spend {wanted}")
    emit(record, "\n".join(lines), as_json=json)


def release(
    study: File,
    names: Names = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    again: Annotated[bool, typer.Option("--again", help="Release again what is named; it costs again.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be done; touch neither data nor ledger.")
    ] = False,
    output: Output = None,
    json: Json = False,
) -> None:
    """Run releases: charge the ledger, sum over the records, draw noise, write the files and the report.

    Writes NAME/release.json, NAME/certificate.json, NAME/posterior.nc and report.html.

    What was released before is free and is not released again.
    """
    from vestry.study.room import room

    if again and not names:
        raise VestryError(
            f"--again pays again; name the releases to pay for again: vestry release {study} NAME --again."
        )
    opened = _opened(study)
    said = opened.declaration
    chosen = [said.release(name) for name in names or []] or list(said.releases)
    chosen_names = [asked.name for asked in chosen]
    if dry_run:
        _tell_spends(chosen, as_json=json)
        return
    with working("calibrating"):
        ledger = opened.ledger
        costs = [cost for cost in opened.check() if cost.name in chosen_names]
    state = ledger.state()
    if not json:
        left = f"left of {said.budget}: {room(state.filter, state.spent)}"
        say("\n".join([*_cost_lines(opened, costs), left]), err=True)
    due = [cost.name for cost in costs if again or cost.state == "new"]
    if due and not yes:
        _confirm(due)
    outcomes: list[Outcome] = []
    try:
        with working("releasing") as progress:
            opened.release(*chosen_names, again=again, output=output, progress=progress, told=outcomes.append)
    finally:  # what was released and paid for is told, whatever became of the rest
        if not json:
            say("".join(f"{line}\n" for each in outcomes for line in _outcome_lines(each)), nl=False)
    after = ledger.state()
    page = (output or said.folder) / "report.html"
    record = {
        "releases": [{"name": each.name, "done": each.done, "summary": _summary(each.posterior)} for each in outcomes],
        "left": after.filter.left(after.spent),
        "head": ledger.head(),
        "report": str(page),
    }
    emit(record, f"left of {said.budget}: {room(after.filter, after.spent)}\nreport: {page}", as_json=json)


def report(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A folder with one study file, or the file.")],
    output: Output = None,
    json: Json = False,
) -> None:
    """Write the page of a study's releases again. Reads releases and the ledger, never data."""
    if _is_folder(folder):
        files = sorted(folder.glob("*.toml"))
        if len(files) != 1:
            found = ", ".join(file.name for file in files) or "none"
            raise InvalidParameter(
                "a study's folder", str(folder), f"one with one .toml file (found: {found})", "the file"
            )
        folder = files[0]
    with working("writing the report"):
        path = _opened(folder).report(output)
    emit({"report": str(path)}, f"report: {path}", as_json=json)


def _is_folder(path: Path) -> bool:
    """Tell whether there is a folder; a name that no folder can have is left to whoever opens it."""
    try:
        return path.is_dir()
    except (OSError, ValueError):
        return False


def _opened(path: Path) -> Study:
    from vestry.study import Study

    return Study.open(path)


def _tell_spends(chosen: list[Asked], *, as_json: bool) -> None:
    rows = [{"name": asked.name, "spend": str(asked.request.guarantee)} for asked in chosen]
    text = "\n".join(f"{row['name']}: would spend at most {row['spend']}" for row in rows)
    emit({"dry_run": True, "releases": rows}, text, as_json=as_json)


def _confirm(due: list[str]) -> None:
    if not sys.stdin.isatty():
        raise InvalidParameter(
            "a release without a terminal", "unconfirmed", "confirmed", "--yes to spend without asking"
        )
    typer.confirm(f"Spend on {', '.join(due)}?", abort=True, err=True)


def _cost_lines(study: Study, costs: list[Cost]) -> list[str]:
    rows = [("release", "spend", "mechanism", "", "")]
    for cost in costs:
        fits = {True: "", False: "does not fit the budget", None: ""}[cost.fits]
        state = "" if cost.state == "new" else cost.state
        faint = cost.value if cost.parameter == "likelihood_power" and cost.value < _FAINT else None
        notes = [fits or state, "" if faint is None else f"each record counts {100 * faint:.2g} %"]
        value = study.calibrated(cost.name, cost.parameter, cost.value)
        rows.append((cost.name, cost.spend, cost.mechanism, value, "; ".join(filter(None, notes))))
    return columns(rows)


def _plan_lines(study: Study, name: str, found: list[Expectation]) -> list[str]:
    rows = [("mechanism", "parameter", "width", "without privacy", "KL", "")]
    for each in found:
        if each.value is None or each.width is None or each.exact_width is None:
            rows.append((each.mechanism, "-", "-", "-", "-", each.reason))
            continue
        kl = "-" if each.kl is None else f"{each.kl:.3g}"
        note = "privacy more than doubles the width" if each.swamped else ""
        value = study.calibrated(name, each.parameter, each.value)
        rows.append((each.mechanism, value, f"{each.width:.4g}", f"{each.exact_width:.4g}", kl, note))
    return [f"  {line}" for line in columns(rows)]


def _outcome_lines(outcome: Outcome) -> list[str]:
    from vestry.report.weight import weight

    posterior = outcome.posterior
    weakened = " ".join(weight(posterior.certificate).split())  # a terminal needs no thin spaces
    how = [f"  {weakened}"] if weakened else []
    return [f"{outcome.name}: {outcome.done}", *_posterior_lines(posterior), *how, ""]


def _posterior_lines(posterior: Any) -> list[str]:
    rows = _summary(posterior)
    if posterior.reading.parameter == "coefficient":
        return coefficient_lines(posterior)
    if not rows and posterior.label != "released draws":
        return ["  the counts are released; states are sampled by the extra: pip install 'vestry[glm]'"]
    if not rows or "low" not in rows[0]:
        drawn = "one released draw; it has" if len(rows) == 1 else f"{len(rows)} released draws; they have"
        return [f"  {drawn} no interval"]
    shown = [(r["group"], r["parameter"], f"{r['mean']:.4g}", f"{r['low']:.4g} to {r['high']:.4g}") for r in rows]
    return _first_lines(("group", "parameter", "mean", "90 % interval"), shown)


def coefficient_lines(posterior: Any) -> list[str]:
    """Show a regression's first coefficients: of one estimate, or of the first draws."""
    every = posterior.draw()["all"]
    drawn = every[:_MOST_DRAWS]
    heads = [f"draw {place + 1}" for place in range(len(drawn))]
    if posterior.reading.method != "posterior":
        heads = ["noisy estimate"]
    shown = [(name, *(f"{x:.4g}" for x in drawn[:, place])) for place, name in enumerate(posterior.labels)]
    left = len(every) - len(drawn)
    more = [f"  and {left} more {'draw' if left == 1 else 'draws'} in release.json"] if left else []
    return _first_lines(("coefficient", *heads), shown) + more


def _first_lines(heads: tuple[str, ...], rows: Sequence[tuple[str, ...]], most: int = 24) -> list[str]:
    more = [f"  and {len(rows) - most} more"] if len(rows) > most else []
    return [f"  {line}" for line in columns([heads, *rows[:most]])] + more


def _summary(posterior: Any) -> list[dict[str, Any]]:
    if posterior.label == "released draws":
        return [{"group": group, "draw": row.tolist()} for group, rows in posterior.draw().items() for row in rows]
    rows: list[dict[str, Any]] = []
    with suppress(MissingExtra):  # hidden states are sampled by an extra; what is released is released
        rows = posterior.summary()
    return rows


# A record that counts less than this is told before anything is spent; draws of a regression beyond these are counted.
_FAINT, _MOST_DRAWS = 0.1, 3
