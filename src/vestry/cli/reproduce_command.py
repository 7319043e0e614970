"""`vestry reproduce`: the papers' figures, computed again."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from vestry.cli.output import Json, emit, examples, say, working
from vestry.errors import InvalidParameter

EXAMPLES = examples(
    "vestry reproduce list",
    "vestry reproduce geumlek-fig1 foulds-adversary --quick",
    "vestry reproduce geumlek-fig3 --data tables",
    "vestry reproduce all --output reproductions --json",
)


def reproduce(
    names: Annotated[
        list[str] | None, Argument(metavar="NAME", help="Experiments; all for every one, list for their names.")
    ] = None,
    data: Annotated[Path | None, Option(help="The folder of the papers' tables; or set VESTRY_DATA.")] = None,
    quick: Annotated[bool, Option("--quick", help="Fewer repeats and points: a few seconds each.")] = False,
    output: Annotated[Path, Option(help="The folder for NAME.png and NAME.json.")] = Path("reproductions"),
    json: Json = False,
) -> None:
    """Compute a paper's figure again, and check its claims. Reads no data of yours."""
    from vestry.papers import EXPERIMENTS

    if names in (None, [], ["list"]):
        rows = [
            {"name": e.name, "paper": e.paper, "figure": e.figure, "summary": e.summary} for e in EXPERIMENTS.values()
        ]
        text = "\n".join(f"{row['name']:<20}{row['summary']} [{row['paper']}, {row['figure']}]" for row in rows)
        emit({"experiments": rows}, text, as_json=json)
        return
    chosen = list(EXPERIMENTS) if names == ["all"] else list(dict.fromkeys(names or []))
    for name in chosen:
        if name not in EXPERIMENTS:
            raise InvalidParameter("an experiment", name, "one of " + ", ".join(EXPERIMENTS), "vestry reproduce list")
    if data is not None:
        if not data.is_dir():
            raise InvalidParameter("--data", str(data), "a folder", "the folder that holds the tables")
        os.environ["VESTRY_DATA"] = str(data)
    done = [_perform(EXPERIMENTS[name], output, quick, f"{i}/{len(chosen)}") for i, name in enumerate(chosen, 1)]
    emit({"experiments": done}, "\n\n".join(_describe(each) for each in done), as_json=json)


def _perform(experiment: Any, folder: Path, quick: bool, place: str) -> dict[str, Any]:
    say(f"[{place}] {experiment.name} ...", err=True)
    start = time.monotonic()
    with working(experiment.name):
        record = experiment.perform(folder, quick=quick)
    say(f"[{place}] {experiment.name} took {time.monotonic() - start:.1f} s", err=True)
    files = {kind: str(folder / f"{experiment.name}.{kind}") for kind in ("png", "json")}
    return {"name": experiment.name, **files, "erratum": record["erratum"], "claims": record["claims"]}


def _describe(done: dict[str, Any]) -> str:
    lines = [f"{done['name']}: {done['png']}, {done['json']}"]
    for each in done["claims"]:
        lines += [f"  {'yes' if each['holds'] else 'NO '}  {each['says']}", f"       {each['found']}"]
    return "\n".join(lines)
