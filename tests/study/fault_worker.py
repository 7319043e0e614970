"""Runs `vestry release` in forked processes and kills them. A script: `python fault_worker.py MODE FOLDER ...`.

It imports everything once and forks from there, so that a release costs a fraction of a second. The forking process
itself opens neither a ledger nor a table: neither connections nor threads cross a fork.

Modes
-----
stepped FOLDER TWIN STEP ...
    Kill at these steps, exactly.
killed FOLDER TWIN COUNT SEED
    Kill that many times, at random moments of every stretch between two steps.
"""

from __future__ import annotations

import hashlib
import importlib
import itertools
import json
import os
import random
import select
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from study.fault_study import Done, ledger_of, study_in, vestry

import vestry.study.report_data as story
import vestry.study.storage as rooms
from vestry.data import Table
from vestry.errors import VestryError
from vestry.ledger import Charge, Ledger
from vestry.ledger.ledger import OpenCharge
from vestry.mechanisms.additive_noise import Additive
from vestry.releases import open_release
from vestry.study.storage import ReleaseStore

for heavy in ("arviz_base", "h5netcdf", "h5py", "ibis.backends.duckdb", "pyarrow.parquet", "rich.progress", "xarray"):
    importlib.import_module(heavy)
story.page = lambda told, write=None: f"{len(told.results)} releases"

NAME = "readmission"
# What a release goes through, each once before and once after.
STEPS: dict[str, tuple[Any, str]] = {
    "try": (ReleaseStore, "make_room"),
    "charge": (Ledger, "charge_together"),
    "collect": (Table, "collect"),
    "open": (Charge, "open"),
    "draw": (Additive, "release"),
    "save": (ReleaseStore, "stage"),
    "tell": (OpenCharge, "released"),
    "settle": (ReleaseStore, "promote"),
    "posterior": (ReleaseStore, "save_posterior"),
    "certify": (ReleaseStore, "write_certificate"),
    "page": (ReleaseStore, "write_report"),
}
MOMENTS = [f"{when} {step}" for step in STEPS for when in ("before", "after")]


def hooked(hook: Callable[[str], None]) -> None:
    """Call `hook` before and after every step."""

    def around(step: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*given: Any, **named: Any) -> Any:
            hook(f"before {step}")
            found = real(*given, **named)
            hook(f"after {step}")
            return found

        return call

    for step, (owner, name) in STEPS.items():
        setattr(owner, name, around(step, getattr(owner, name)))


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(60)


def killer(moment: str) -> None:
    """Die at a moment: `half FILE` when half of a file's part is written, `half FILE 2` when that is written again.

    `moving` is between two moves.
    """
    hooked(lambda reached: die() if reached == moment else None)
    kind, _, what = moment.partition(" ")
    what, _, time_written = what.partition(" ")
    to_come = [int(time_written or 1)]
    fsync, replace = os.fsync, Path.replace

    def dying(handle: int) -> None:
        named = Path(f"/proc/self/fd/{handle}").resolve().name
        if named.startswith(what) and named.endswith(".part"):
            to_come[0] -= 1
        if to_come[0] == 0:
            os.ftruncate(handle, os.fstat(handle).st_size // 2)
            fsync(handle)
            die()
        fsync(handle)

    def moved(source: Path, target: Path) -> Path:
        found = replace(source, target)
        if source.name == "release.json":
            die()
        return found

    if kind == "half":
        os.fsync = dying
    if kind == "moving":
        Path.replace = moved  # type: ignore[method-assign,assignment]


def forked(work: Callable[[Callable[[object], None]], None]) -> tuple[int, int]:
    """Run `work(tell)` in a child; return its process id and the pipe on which it tells, a line of JSON at a time."""
    reader, writer = os.pipe()
    child = os.fork()
    if child:
        os.close(writer)
        return child, reader
    os.close(reader)
    code = 1
    try:
        work(lambda fact: os.write(writer, json.dumps(fact).encode() + b"\n"))
        code = 0
    except BaseException as error:
        os.write(writer, json.dumps({"error": repr(error)}).encode() + b"\n")
    finally:
        os._exit(code)


def told(child: int, reader: int) -> list[Any]:
    """Read what a child told until its end, and end it properly."""
    with os.fdopen(reader) as lines:
        facts = [json.loads(line) for line in lines]
    os.waitpid(child, 0)
    return facts


def released(study: Path, *more: str) -> Done:
    return vestry("release", study, "--yes", *more)


def look(folder: Path) -> dict[str, Any]:
    """What is found: the ledger's lines, and everything that is out of place."""
    wrong: list[str] = []
    ledger = ledger_of(folder)
    try:
        ledger.verify()
    except VestryError as error:
        wrong.append(str(error))
    lines = list(ledger.entries())
    opened = {line.target for line in lines if line.action == "open"}
    hashes = {line.facts["release_sha256"]: line.target for line in lines if line.action == "release"}
    lost = set(hashes)
    for file in sorted((folder / NAME).glob("release*.json")):
        try:
            open_release(file)
        except VestryError as error:
            wrong.append(str(error))
        sha256 = hashlib.sha256(file.read_bytes()).hexdigest()
        lost.discard(sha256)
        number = file.stem.partition("-")[2].partition("-")[0]
        if (int(number) if number else hashes.get(sha256)) not in opened:
            wrong.append(f"{file.name} has no opened charge")
    if lost:
        wrong.append("the ledger was told of a release that was not saved")
    if (folder / NAME / "posterior.nc").exists():
        import xarray

        xarray.open_datatree(folder / NAME / "posterior.nc", engine="h5netcdf").close()
        if not hashes:
            wrong.append("a posterior without a release")
    if (folder / NAME / "certificate.json").exists():
        facts = json.loads((folder / NAME / "certificate.json").read_text())
        if hashes.get(facts["release_sha256"]) != facts["entry"]:
            wrong.append("a certificate of nothing")
    there = {str(file.relative_to(folder)): file.stat().st_size for file in folder.rglob("*") if file.is_file()}
    return {"wrong": wrong, "actions": [line.action for line in lines][1:], "files": there}


def after(study: Path, tell: Callable[[object], None]) -> None:
    """Look at what a kill left, go on, and look again; if noise was drawn and lost, pay again."""
    folder = study.parent
    tell(look(folder))
    done = released(study)
    tell({"code": done.code, "out": done.out, "err": done.err, **look(folder)})
    if done.code:
        done = released(study, "readmission", "--again")
        tell({"code": done.code, "out": done.out, "err": done.err, **look(folder)})
    done = vestry("release", study)
    tell({"code": done.code, "out": done.out, "err": done.err, **look(folder)})


def break_it(twin: str) -> None:
    """Make the code wrong, so that the same look finds it."""
    if twin == "does not open":
        Charge.open = lambda charge: OpenCharge(charge)  # type: ignore[method-assign]
    elif twin == "saves late":
        kept: list[tuple[str, int, str]] = []
        stage, promote = ReleaseStore.stage, ReleaseStore.promote
        ReleaseStore.stage = lambda self, *given: kept.append(given)  # type: ignore

        def late(self: ReleaseStore, *given: Any) -> None:
            stage(self, *kept[-1])
            promote(self, *given)

        ReleaseStore.promote = late  # type: ignore[method-assign]
    elif twin == "writes in place":

        def halved(path: Path, content: bytes) -> None:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content[: len(content) // 2])
            if path.name.startswith("release"):
                die()
            path.write_bytes(content)

        rooms.write = halved  # type: ignore[assignment]
    elif twin != "sound":
        raise ValueError(twin)


def prepared(folder: Path, moment: str) -> Path:
    """A fresh study; where something is moved, with a release that lies there."""
    study = study_in(folder)
    if moment == "moving":
        assert released(study).code == 0
    return study


def stepped(folder: Path, moments: list[str]) -> Iterator[dict[str, Any]]:
    for number, moment in enumerate(moments):
        place = folder / str(number)
        study = place / "study.toml"
        again = ["readmission", "--again"] if moment == "moving" else []

        def run(
            tell: Callable[[object], None], place: Path = place, moment: str = moment, again: list[str] = again
        ) -> None:
            study = prepared(place, moment)
            killer(moment)
            tell(vars(released(study, *again)))

        facts = told(*forked(run))
        yield {"moment": moment, "killed": facts, "then": told(*forked(lambda tell, study=study: after(study, tell)))}


def timed(study: Path) -> list[tuple[str, float]]:
    """When each moment comes in a run that is left alone."""

    def run(tell: Callable[[object], None]) -> None:
        hooked(lambda moment: tell([moment, time.perf_counter()]))
        tell(["start", time.perf_counter()])
        assert released(study).code == 0
        tell(["end", time.perf_counter()])

    return [(moment, when) for moment, when in told(*forked(run))]


def killed(folder: Path, count: int, seed: int) -> Iterator[dict[str, Any]]:
    chance = random.Random(seed)
    made = forked(lambda tell: [study_in(folder / str(number)) for number in range(count + 2)] and None)  # type: ignore
    assert told(*made) == []
    timed(folder / str(count) / "study.toml")  # the first one warms the machine
    moments = timed(folder / str(count + 1) / "study.toml")
    gaps = [(moment, after - before) for (moment, before), (_, after) in itertools.pairwise(moments)]
    for number in range(count):
        moment, gap = gaps[number % len(gaps)]
        study = folder / str(number) / "study.toml"

        def run(tell: Callable[[object], None], study: Path = study) -> None:
            hooked(tell)
            tell("start")
            tell(vars(released(study)))

        child, reader = forked(run)
        text = b""
        while f'"{moment}"\n'.encode() not in text and (piece := os.read(reader, 65536)):
            text += piece
        select.select([], [], [], chance.random() * gap)
        os.kill(child, signal.SIGKILL)
        while piece := os.read(reader, 65536):
            text += piece
        os.close(reader)
        os.waitpid(child, 0)
        reached = [json.loads(line) for line in text.decode().splitlines()]
        yield {
            "moment": moment,
            "killed": reached,
            "then": told(*forked(lambda tell, study=study: after(study, tell))),
        }


def main(mode: str, folder: str, twin: str, *rest: str) -> None:
    break_it(twin)
    if mode == "stepped":
        found = list(stepped(Path(folder), list(rest)))
    else:
        count, seed = rest
        found = list(killed(Path(folder), int(count), int(seed)))
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main(*sys.argv[1:])
