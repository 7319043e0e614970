"""`vestry check`, `plan`, `release` and `report`: a study file, from its declaration to its page."""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

from vestry.cli.options import Plot
from vestry.cli.output import Json, columns, emit, examples, interval_note, say, short, working
from vestry.cli.posterior_command import NOTHING_FOUND, draw_lines
from vestry.errors import BudgetExceeded, InvalidParameter, VestryError

if TYPE_CHECKING:
    from vestry.planning import Forecast
    from vestry.study import Study
    from vestry.study.release_costs import Cost
    from vestry.study.runner import ReleaseOutcome
    from vestry.study.wishes import Wish, WishPlan

File = Annotated[Path, Argument(metavar="STUDY", help="A study file, for example study.toml.")]
Names = Annotated[list[str] | None, Argument(metavar="NAME", help="Releases; all if omitted.")]
Output = Annotated[Path | None, Option(help="The folder to write to; the study file's own if omitted.")]

CHECK_EXAMPLES = examples("vestry check study.toml", "vestry check study.toml --data", "vestry check study.toml --json")
PLAN_EXAMPLES = examples(
    "vestry plan study.toml",
    "vestry plan study.toml readmission --width 0.1",
    "vestry plan study.toml readmission --plot width.png",
)
# The columns of wishes.
_WISH_HEADS = ("release", "wanted width", "spend", "expected width", "")
RELEASE_EXAMPLES = examples(
    "vestry release study.toml", "vestry release study.toml readmission --yes", "vestry release study.toml --dry-run"
)
REPORT_EXAMPLES = examples("vestry report .", "vestry report study.toml")


def check(
    study: File,
    data: Annotated[
        bool, Option("--data", help="Also compare names and types of the data's columns; no value is read.")
    ] = False,
    json: Json = False,
) -> None:
    """Read a study file and show what each release would cost, and whether it fits the budget. Reads no data.

    With --data the names of the data's columns are compared with the declared ones, and their types where the data have
    types (Parquet, Arrow, databases; a CSV file has names alone). That reads no value, costs nothing and is not
    charged. Whether the values fit, a release of the model quality tells.

    Exit code 2: the file has a fault, which is shown with its line, its key and what to write instead, or the data do
    not have what it declares. Exit code 3: no new release fits what remains of the budget. Exit code 0: at least one
    does, or all were released before.
    """
    opened = _open(study)
    config, schema = opened.config, opened.config.schema
    asks_ledger = data or "ledger" not in config.servers
    with working("calibrating"):
        costs = opened.costs() if asks_ledger else opened.costs_of_new_ledger()
    with working("looking at names and types"):
        faults = opened.data_faults() if data else None
    record = {
        "study": config.name,
        "unit": str(schema.unit),
        "neighbours": str(schema.neighbours),
        "budget": str(config.budget),
        "ledger": _ledger_state(opened) if asks_ledger else "not asked",
        "data": "missing" if opened.lacks_data() else "not read",
        **({"data_faults": list(faults)} if faults is not None else {}),
        **({"servers": {key: server.public for key, server in config.servers.items()}} if config.servers else {}),
        "fits": all(cost.fits for cost in costs),
        "releases": [vars(cost) for cost in costs],
    }
    count = "1 release" if len(costs) == 1 else f"{len(costs)} releases"
    due = [cost for cost in costs if cost.state == "new"]
    none = bool(due) and not any(cost.fits for cost in due)
    head = f"{study.name} can be read, and no release fits the budget" if none else f"{study.name} is valid"
    lines = [f"{head}: {count}, budget {config.budget}, {schema.neighbours}, unit {schema.unit}."]
    if not record["fits"]:
        left = opened.remaining() if asks_ledger else str(config.budget)
        lines.append(f"{_remaining(opened, left)} {_remedy(study, costs)}")
    if not data:
        lines += [_NOT_ASKED[key].format(server=server.public) for key, server in config.servers.items()]
    if record["ledger"] == "missing":
        lines += ["There is no ledger yet. Create it once:", f"  {opened.create_command()}"]
    if record["data"] == "missing":
        lines.append(f"The data file {config.data} is missing; a release needs it.")
    if faults == ():
        typed = "" if opened.table.is_csv else ", and types that can hold what is declared"
        lines.append(f"The columns of {config.data} have the declared names{typed}.")
    emit(record, "\n".join([*lines, "", *_cost_lines(opened, costs)]), as_json=json)
    if faults:
        raise VestryError(f"{config.data} does not have what {study.name} declares: {'; '.join(faults)}.")
    if none:
        raise typer.Exit(BudgetExceeded.exit_code)


def _ledger_state(study: Study) -> str:
    return "there" if study.has_ledger() else "missing"


# What is said of servers that were not connected to.
_NOT_ASKED = {
    "data": "The data are on a server, {server}; vestry check --data connects to it.",
    "ledger": "The ledger is on a server, {server}; vestry check --data connects to it, and shows what remains.",
}


def _remedy(study: Path, costs: list[Cost]) -> str:
    """Say which releases do not fit the budget, and what to do."""
    names = [cost.name for cost in costs if not cost.fits]
    due = [cost.name for cost in costs if cost.fits and cost.state == "new"]
    alone = f", or release what fits: vestry release {study} {' '.join(due)}" if due else ""
    return (
        f"{', '.join(names)} {'does' if len(names) == 1 else 'do'} not fit, so all of them together are refused."
        f" Spend less, or raise the budget with vestry ledger amend{alone}."
    )


def plan(
    study: File,
    names: Names = None,
    width: Annotated[
        float | None, Option(help="Also find the spend for 90 % credible intervals of this width.")
    ] = None,
    plot: Plot = None,
    json: Json = False,
) -> None:
    """Compare mechanisms before anything is spent, from priors and declarations alone. Reads no data.

    Where the file says what it wants of releases (want = { width = 0.05 }), the spends that meet it are found, and
    whether they fit the budget, or what remains of it if there is a ledger. --plot draws the width against what is
    spent, with the present choice and what an attacker could guess. KL, of posterior draws, is the Kullback-Leibler
    divergence from the posterior without privacy to the released one.
    """
    opened = _open(study)
    specs = opened.choose(tuple(names or ()))
    record: dict[str, Any] = {"study": opened.config.name, "expected_rows": opened.assumed, "releases": {}}
    where = "declared" if opened.config.expected_rows else "assumed; to change it write expected_rows under [study]"
    lines = [f"With {opened.assumed} records ({where})."]
    for spec in specs:
        name, request = spec.name, spec.request
        with working(f"simulating {name}"):
            forecasts = opened.forecasts(name)
        chosen = opened.chosen(name, forecasts)
        record["releases"][name] = {
            "mechanisms": [forecast.to_dict() for forecast in forecasts],
            "chosen": None if chosen is None else chosen.mechanism,
        }
        lines += ["", f"{name}: {request.model.question()} ({request.guarantee})"]
        lines += _plan_lines(opened, name, forecasts)
        if len(forecasts) > 1 and chosen is not None:
            lines.append(f"  auto takes {chosen.mechanism}")
        if width is not None:
            with working(f"searching a budget for {name}"):
                budget = opened.budget_for(name, width)
            record["releases"][name]["needed"] = budget.to_dict()
            what = next(each.what for each in forecasts if each.has_interval)
            lines.append(f"  for a width of {width:g} ({what}) spend {budget}")
    with working("looking for spends"):
        wishes = opened.wishes()
    if wishes is not None:
        record["wishes"] = wishes.to_dict()
        lines += ["", *_wish_lines(opened, wishes)]
    if plot is not None:
        with working("drawing"):
            lines += ["", *_draw_widths(opened, [spec.name for spec in specs], plot)]
    emit(record, "\n".join(lines), as_json=json)


def _wish_lines(study: Study, wish_plan: WishPlan) -> list[str]:
    """Say which spends meet the wishes, whether they fit, and if not, which costs most and what would fit."""
    lines = columns([_WISH_HEADS, *map(_wish_row, wish_plan.wishes)])
    if wish_plan.fits:
        return [*lines, f"Together they fit what remains, {study.remaining()}. Write them as spend."]
    lines.append(f"Together they do not fit {study.remaining()}.")
    if wish_plan.costliest:
        lines[-1] += f" {wish_plan.costliest} costs most."
    return (
        [*lines, "These would fit:", *columns([_WISH_HEADS, *map(_wish_row, wish_plan.instead)])]
        if wish_plan.instead
        else lines
    )


def _wish_row(wish: Wish) -> tuple[str, ...]:
    if wish.spend is None or wish.width is None:
        return wish.name, f"{wish.wanted:g}", "-", "-", wish.reason
    return wish.name, f"{wish.wanted:g}", str(wish.spend), f"{wish.width:.3g}", ""


def _draw_widths(study: Study, names: list[str], path: Path) -> list[str]:
    """Draw the width of each release that has one against its spend, and say what an attacker could guess."""
    from vestry.display.plotting import width_curves
    from vestry.report.guarantee_section import Promise, sentences

    curves = {name: curve for name in names if (curve := study.width_curve(name)).points}
    if not curves:
        raise InvalidParameter("--plot", str(path), "asked of releases that have a width", "no --plot")
    width_curves(list(curves.values()), path=path)
    lines, schema = [f"plot: {path}"], study.config.schema
    for name in curves:
        guarantee = study.config.release(name).request.guarantee
        guess = sentences(Promise(guarantee, None, schema.unit, schema.neighbours))[-1]
        lines.append(f"{name} at {guarantee}: {' '.join(guess.split())}")
    return lines


def release(
    study: File,
    names: Names = None,
    yes: Annotated[bool, Option("--yes", "-y", help="Skip the confirmation prompt.")] = False,
    again: Annotated[bool, Option("--again", help="Release again what is named, and pay for it again.")] = False,
    dry_run: Annotated[
        bool, Option("--dry-run", help="Show what would be spent; read neither data nor ledger.")
    ] = False,
    output: Output = None,
    json: Json = False,
) -> None:
    """Run releases: charge the ledger, read the data, draw noise, write the files and the report.

    Writes NAME/release.json, NAME/certificate.json, NAME/posterior.nc, report.html and report.csv. posterior.nc holds
    up to 10,000 numbers of draws; vestry posterior --draws FILE writes more.

    What was released before is free and is not released again. If another process is releasing into the same folder,
    this one waits for it. The folder .vestry is a cache; it may be deleted at any time.
    """
    if again and not names:
        raise VestryError(
            f"--again pays again; name the releases to pay for again: vestry release {study} NAME --again."
        )
    opened = _open(study)
    specs = opened.choose(tuple(names or ()))
    if dry_run:
        spends = [{"name": spec.name, "spend": str(spec.request.guarantee)} for spec in specs]
        text = "\n".join(f"{each['name']}: would spend at most {each['spend']}" for each in spends)
        emit({"dry_run": True, "releases": spends}, text, as_json=json)
        return
    with working("calibrating"):
        runner, state = opened.runner(again=again, output=output)
        costs, notes = runner.preview(specs, state)
    if not json:
        notes += [] if again else _older_records(study, costs)
        lines = [*_cost_lines(opened, costs), _remaining(opened, state.filter.left(state.spent))]
        say("\n".join([*lines, *(f"note: {note}" for note in notes)]), err=True)
    due = [cost.name for cost in costs if again or cost.state == "new"]
    if due and not yes:
        for warning in _plan_warnings(opened, due):
            _say(warning)
        _confirm(due)
    outcomes: list[ReleaseOutcome] = []
    try:
        with working("releasing") as progress:
            runner.release(specs, progress=progress, on_outcome=outcomes.append, on_wait=_say)
    finally:  # what was released and paid for is told, whatever became of the rest
        warned = runner.warnings(outcomes)
        if not json:
            outcome_lines = [line for each in outcomes for line in _outcome_lines(each, warned[each.name])]
            say("".join(f"{line}\n" for line in outcome_lines), nl=False)
    after = runner.after(outcomes)
    left, page = after.state, runner.store.path / "report.html"
    record = {
        "releases": [_outcome_record(each, warned[each.name]) for each in outcomes],
        "left": left.filter.left(left.spent),
        "head": after.head,
        "report": str(page),
    }
    emit(record, f"{_remaining(opened, left.filter.left(left.spent))}\nreport: {page}", as_json=json)


def _remaining(study: Study, words: str) -> str:
    return f"Remaining of the budget {study.config.budget}: {words}."


def _older_records(study: Path, costs: list[Cost]) -> list[str]:
    """Say what is easily overlooked: an earlier release describes the records of its day."""
    before = [cost.name for cost in costs if cost.state == "released before"]
    note = (
        f"{', '.join(before)} {'describes' if len(before) == 1 else 'describe'} the records as they were then; to"
        f" pay for the records as they are now write: vestry release {study.name} {' '.join(before)} --again."
    )
    return [note] if before else []


def report(
    folder: Annotated[Path, Argument(metavar="DIR", help="A folder with one study file, or the file itself.")],
    output: Output = None,
    json: Json = False,
) -> None:
    """Write the report of a study again. Reads releases and the ledger, never data."""
    if _is_folder(folder):
        files = sorted(folder.glob("*.toml"))
        if len(files) != 1:
            names = ", ".join(file.name for file in files) or "none"
            raise InvalidParameter(
                "a study's folder", str(folder), f"one with one .toml file (found: {names})", "the file"
            )
        folder = files[0]
    with working("writing the report"):
        path = _open(folder).report(output, on_wait=_say)
    emit({"report": str(path)}, f"report: {path}", as_json=json)


def _is_folder(path: Path) -> bool:
    """Tell whether there is a folder; a name that no folder can have is left to whoever opens it."""
    try:
        return path.is_dir()
    except (OSError, ValueError):
        return False


def _open(path: Path) -> Study:
    from vestry.study import Study

    return Study.open(path)


def _plan_warnings(study: Study, due: list[str]) -> list[str]:
    """Repeat what a plan warns of."""
    from vestry.planning import best_forecast

    warnings = []
    for name in due:
        with working(f"planning {name}"), suppress(VestryError):  # what cannot be planned has no warning
            forecast = best_forecast(study.forecasts(name))
            if forecast.note:
                widths = f" ({forecast.width:.3g} instead of {forecast.exact_width:.3g})" if forecast.swamped else ""
                warnings.append(f"warning: {name}: {forecast.note}{widths}; vestry plan compares spends.")
    return warnings


def _confirm(due: list[str]) -> None:
    if not sys.stdin.isatty():
        raise InvalidParameter(
            "a release without a terminal", "unconfirmed", "confirmed", "--yes to skip the confirmation prompt"
        )
    typer.confirm(f"Spend on {', '.join(due)}?", abort=True, err=True)


def _cost_lines(study: Study, costs: list[Cost]) -> list[str]:
    rows, whole = [("release", "spend", "mechanism", "", "")], all(cost.fits for cost in costs)
    for cost in costs:
        fits = "" if whole else "fits" if cost.fits else "does not fit the budget"
        state = "" if cost.state == "new" else cost.state
        faint = cost.value if cost.parameter == "likelihood_power" and cost.value < _FAINT else None
        shows = getattr(study.config.release(cost.name).request.model, "shows", "")
        notes = [state or fits, "" if faint is None else f"each record counts {100 * faint:.2g} %", shows]
        value = study.format_parameter(cost.name, cost.parameter, cost.value)
        rows.append((cost.name, cost.spend, cost.mechanism, value, "; ".join(filter(None, notes))))
    return columns(rows)


def _plan_lines(study: Study, name: str, forecasts: list[Forecast]) -> list[str]:
    with_kl = any(each.kl is not None for each in forecasts)  # noise has no divergence
    rows = [("mechanism", "parameter", "90 %", "width", "without privacy", *(("KL",) if with_kl else ()), "")]
    for each in forecasts:
        kl = ("-" if each.kl is None else f"{each.kl:.3g}",) if with_kl else ()
        if each.value is None or each.width is None or each.exact_width is None:
            rows.append((each.mechanism, "-", "-", "-", "-", *kl, each.note))
            continue
        value, empty = study.format_parameter(name, each.parameter, each.value), ("",) if with_kl else ()
        widths = short(each.width), short(each.exact_width)
        rows.append((each.mechanism, value, each.what, *widths, *kl, each.note))
        rows += [("", "", what, short(width), short(exact), *empty, "") for what, width, exact in each.further]
    return [*columns(rows, indent=2), *(f"  {each.mechanism}: {each.answer}" for each in forecasts if each.answer)]


def _outcome_record(outcome: ReleaseOutcome, warned: tuple[str, ...]) -> dict[str, Any]:
    from vestry.posterior.posterior import note_of

    record = {"name": outcome.name, "done": outcome.done, "summary": outcome.summary}
    notes = {"note": note_of(outcome.release), "warnings": list(warned)}
    return {**record, **{key: note for key, note in notes.items() if note}}


def _outcome_lines(outcome: ReleaseOutcome, warned: tuple[str, ...]) -> list[str]:
    from vestry.report.guarantee_section import weight

    certificate = outcome.release.certificate
    weakened = " ".join(weight(certificate).split())  # a terminal needs no thin spaces
    how = [f"  {weakened}"] if weakened and not outcome.posterior.reader.answer(certificate) else []
    if outcome.moved is not None:
        how.append(f"  another release was in its place; it is now {outcome.moved}")
    how += [f"  warning: {each}" for each in warned]
    return [f"{outcome.name}: {outcome.done}", *_posterior_lines(outcome), *how, ""]


def _posterior_lines(outcome: ReleaseOutcome) -> list[str]:
    from vestry.posterior.posterior import note_of
    from vestry.releases import Draws

    rows = outcome.summary
    if not rows and not outcome.posterior.distributions:
        return [f"  {NOTHING_FOUND}"]
    if any(isinstance(each, Draws) for each in outcome.release.contents.values()):
        return [f"  {line}" for line in draw_lines(outcome.posterior, most=_ROWS)]
    if not rows and (reason := getattr(next(iter(outcome.posterior.distributions.values())), "reason", "")):
        return [f"  {reason}"]
    if not rows:
        return ["  the counts are released; hidden states need an extra: pip install 'vestry[glm]'"]
    shown = [
        (r["group"], r["parameter"], short(r["mean"]), f"{short(r['low'])} to {short(r['high'])}", interval_note(r))
        for r in rows[:_ROWS]
    ]
    more = [f"  and {len(rows) - _ROWS} more"] if len(rows) > _ROWS else []
    head = ("group", "parameter", "mean", f"90 % credible interval ({rows[0]['interval_method']})", "")
    note = note_of(outcome.release)
    return [*([f"  {note}"] if note else []), *columns([head, *shown], indent=2), *more]


def _say(line: str) -> None:
    say(f"vestry: {line}", err=True)


# A record that counts less than this is reported before anything is spent; of more rows only the number is shown.
_FAINT, _ROWS = 0.1, 24
