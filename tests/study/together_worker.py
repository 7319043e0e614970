"""Runs `vestry release` for one study in several processes at once: `together_worker.py FOLDER TWIN ROUNDS WHERE`."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from study.fault_study import ledger_of, study_in
from study.fault_worker import forked, released, told

import vestry.study.runner as runners
from vestry.errors import VestryError
from vestry.ledger import Ledger

PROCESSES, NAMES = 3, ("readmission", "wards")


def break_it(twin: str) -> None:
    """Make the code wrong: without the lock of the folder, or without the question's lookup in the charge."""
    if twin in ("no lock", "neither"):
        runners.locked = lambda folder, on_wait: nullcontext()  # type: ignore[assignment]
    if twin in ("no lookup", "neither"):
        charge = Ledger.charge_together

        def unasked(self: Ledger, *given: Any, once: bool = False, **named: Any) -> Any:
            return charge(self, *given, **named)

        Ledger.charge_together = unasked  # type: ignore[method-assign,assignment]


def found(folder: Path, outputs: list[Path]) -> dict[str, Any]:
    """What is in the ledger, and what does not belong together."""
    ledger, wrong = ledger_of(folder), []
    try:
        ledger.verify()
    except VestryError as error:
        wrong.append(str(error))
    lines = list(ledger.entries())
    hashes = {line.target: line.facts["release_sha256"] for line in lines if line.action == "release"}
    for output in outputs:
        for name in NAMES:
            if not (output / name / "certificate.json").exists():
                continue
            facts = json.loads((output / name / "certificate.json").read_text())
            there = hashlib.sha256((output / name / "release.json").read_bytes()).hexdigest()
            if not there == facts["release_sha256"] == hashes.get(facts["entry"]):
                wrong.append(f"{name}: certificate and release do not belong together")
    left = [str(path.relative_to(folder)) for path in folder.rglob("*.part")]
    asked = [line.facts["definition"] for line in lines if line.action == "charge"]
    return {"wrong": wrong, "left": left, "actions": [line.action for line in lines][1:], "asked": asked}


def rounds(folder: Path, count: int, *, apart: bool) -> list[dict[str, Any]]:
    facts = []
    for number in range(count):
        place = folder / str(number)
        told(*forked(lambda tell, place=place: study_in(place, *NAMES) and None))
        outputs = [place / str(each) if apart else place for each in range(PROCESSES)]

        def run(tell: Callable[[object], None], place: Path = place, output: Path = folder) -> None:
            tell(vars(released(place / "study.toml", "--json", "--output", str(output))))

        children = [forked(lambda tell, output=output: run(tell, output=output)) for output in outputs]
        ends = [told(*child)[0] for child in children]
        looked = told(*forked(lambda tell, place=place, outputs=outputs: tell(found(place, outputs))))
        facts.append({"ends": ends, **looked[0]})
    return facts


if __name__ == "__main__":
    place, twin, count, apart = sys.argv[1:]
    break_it(twin)
    json.dump(rounds(Path(place), int(count), apart=apart == "apart"), sys.stdout)
