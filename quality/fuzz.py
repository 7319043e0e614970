"""Run bad input through `vestry`, and report what does not end in a sentence.

    python quality/fuzz.py commands --count 20000
    python quality/fuzz.py studies releases ledgers --count 100 --seed 7 --log fuzz.jsonl

Each case runs in a fork of one warm process. Reported are tracebacks and faults that nobody foresaw, more than 10
seconds of processor time, more than 2 GB, a printed nan, an interval whose low end is above its high end, control
characters, other exit codes than 0 to 3, a refusal that is not one line, a changed ledger that verifies as another. The
log has a line for each 50 cases and one for each finding; a run that was stopped goes on after its last line.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import re
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
import unicodedata
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import typer
from fuzz_case import KINDS, Case, case
from fuzz_good import HEAD, make_good_folder

import vestry.cli

SECONDS, WALL_SECONDS, BYTES = 10, 90, 2 << 30
_EVERY = 50


@dataclass(frozen=True)
class Done:
    """What a case left behind."""

    status: int
    seconds: float
    peak: int
    out: str
    err: str


def run(tried: Case, good: Path) -> Done:
    """Run a case in a fork of its own."""
    with tempfile.TemporaryDirectory() as place:
        child = _forked(lambda: _perform(tried, good, Path(place)))
        _, status, usage = os.wait4(child, 0)
        return _done(status, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024, Path(place))


def work(cases: list[Case], good: Path) -> tuple[list[int], int]:
    """Run cases one after another in one fork; return those that should be run alone, and how many it lived through.

    Alone are run those with faults, and all if together they took more than 2 GB.
    """
    with tempfile.TemporaryDirectory() as place:
        notes = Path(place) / "notes"

        def each() -> int:
            for number, tried in enumerate(cases):
                folder = Path(place) / str(number)
                folder.mkdir()
                start = time.process_time()
                code = _perform(tried, good, folder)
                done = _done(code << 8, time.process_time() - start, 0, folder)
                with notes.open("a") as file:
                    file.write("bad\n" if faults(tried, done) else "good\n")
                shutil.rmtree(folder)
            return 0

        _, _, usage = os.wait4(_forked(each), 0)
        known = notes.read_text().split() if notes.exists() else []
    large = usage.ru_maxrss * 1024 > BYTES
    return [place for place, word in enumerate(known) if large or word == "bad"], len(known)


def _forked(task: Callable[[], int]) -> int:
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child == 0:
        code = 99
        try:
            for kind, amount in ((resource.RLIMIT_AS, 3 * BYTES), (resource.RLIMIT_CORE, 0)):
                resource.setrlimit(kind, (amount, amount))
            code = task()
        finally:
            os._exit(code)
    return child


def _perform(tried: Case, good: Path, place: Path) -> int:
    """Be the command, in a copy of the good folder, until it ends; return its exit code."""
    folder = place / "folder"
    shutil.copytree(good, folder)
    for name, content in tried.files.items():
        (folder / name).write_bytes(content)
    for handle, path in ((1, place / "out"), (2, place / "err")):
        sys.__stdout__.flush()
        sys.__stderr__.flush()
        opened = os.open(path, os.O_WRONLY | os.O_CREAT)
        os.dup2(opened, handle)
        os.close(opened)
    os.chdir(folder)
    sys.stdin = io.StringIO()
    sys.argv = ["vestry", *tried.arguments]
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(WALL_SECONDS)
    signal.setitimer(signal.ITIMER_PROF, SECONDS + 1)  # what ends the process if nothing else does
    try:
        vestry.cli.main()
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else 98
    except BaseException:
        traceback.print_exc()
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.alarm(0)
        sys.stdout.flush()
        sys.stderr.flush()
    return 99


def _done(status: int, seconds: float, peak: int, place: Path) -> Done:
    paths = (place / "out", place / "err")
    texts = [path.read_bytes().decode("utf-8", "replace") if path.exists() else "" for path in paths]
    return Done(status, seconds, peak, *texts)


def faults(tried: Case, done: Done) -> list[str]:
    """Return what is wrong with how a case ended."""
    found = []
    if os.WIFSIGNALED(done.status):
        number = os.WTERMSIG(done.status)
        found.append(f"killed by {signal.Signals(number).name}")
    elif os.WEXITSTATUS(done.status) not in (0, 1, 2, 3):
        found.append(f"exit code {os.WEXITSTATUS(done.status)}")
    elif os.WEXITSTATUS(done.status) >= 2 and not re.search(r"(?:^|\n)vestry: [^\n]+\n\Z", done.err):
        found.append("a refusal that is not one line")  # costs may be told in lines before it
    checks = {
        "a traceback": "Traceback (most recent call last)" in done.err + done.out,
        "not foreseen": "did not foresee" in done.err,
        "a warning": "Warning:" in done.err,
        f"more than {SECONDS} s": done.seconds > SECONDS,
        "more than 2 GB": done.peak > BYTES,
        "a printed nan": re.search(r"(?<![\w'\"./-])[+-]?nan(?![\w'\"./-])", done.out, re.IGNORECASE) is not None
        and "nan" not in tried.arguments,
        "a reversed interval": _is_reversed(done.out),
        "control characters": any(unicodedata.category(c) in ("Cc", "Cf") and c != "\n" for c in done.out + done.err),
        "another head": _is_another_ledger(tried, done),
    }
    return found + [name for name, bad in checks.items() if bad]


def _is_reversed(text: str) -> bool:
    """Tell whether an interval's low end is above its high end, in JSON or in a table."""
    number = r"(-?[\d.]+(?:e[+-]?\d+)?)"
    pairs = re.findall(rf'"low": {number},\s*"high": {number}', text)
    pairs += re.findall(rf"{number} to {number}$", text, re.MULTILINE)
    return any(float(low) > float(high) for low, high in pairs)


def _is_another_ledger(tried: Case, done: Done) -> bool:
    """Tell whether a changed ledger verifies, and has another head than the good one."""
    if done.status != 0 or "patients.ledger" not in tried.files or tried.arguments[:2] != ("ledger", "verify"):
        return False
    return json.loads(done.out).get("head") != HEAD["patients.ledger"]


def fuzz(kind: str, count: int, seed: int, good: Path, log: Path) -> int:
    """Run the cases that the log does not have yet; return how many findings it has."""
    first, findings, start = *_known(kind, seed, log), time.monotonic()
    with log.open("a", encoding="utf-8") as lines:
        for begin in range(first, count, _EVERY):
            end = min(begin + _EVERY, count)
            for number in _doubted(kind, seed, begin, end, good):
                tried = case(kind, seed, number, good)
                done = run(tried, good)
                if wrong := faults(tried, done):
                    findings += 1
                    lines.write(json.dumps(_record(kind, seed, number, tried, done, wrong)) + "\n")
                    said = f"{' '.join(tried.arguments)[:200]!r} {done.err[-160:]!r}"
                    print(f"{kind} {number}: {', '.join(wrong)}: {said}", flush=True)
            lines.write(json.dumps({"kind": kind, "seed": seed, "done": end}) + "\n")
            lines.flush()
    seconds = time.monotonic() - start
    now = f"{count - first} now in {seconds:.0f} s"
    print(f"{kind}: {count} cases (seed {seed}), {now}, {findings} findings", flush=True)
    return findings


def _doubted(kind: str, seed: int, begin: int, end: int, good: Path) -> Iterator[int]:
    """Yield the cases that must be run alone; where a worker died, the rest goes on in another one."""
    while begin < end:
        bad, reached = work([case(kind, seed, number, good) for number in range(begin, end)], good)
        yield from (begin + place for place in bad)
        if begin + reached < end:  # it died of this one
            yield begin + reached
        begin += reached + 1


def _record(kind: str, seed: int, number: int, tried: Case, done: Done, wrong: list[str]) -> dict[str, object]:
    return {"kind": kind, "seed": seed, "case": number, "faults": wrong, "arguments": tried.arguments,
            "seconds": round(done.seconds, 1), "megabytes": done.peak >> 20, "err": done.err[-1500:],
            "out": done.out[-300:]}  # fmt: skip


def _known(kind: str, seed: int, log: Path) -> tuple[int, int]:
    """Return where to go on, and how many findings there are up to there."""
    records = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()] if log.exists() else []
    mine = [record for record in records if (record["kind"], record["seed"]) == (kind, seed)]
    first = max((record["done"] for record in mine if "done" in record), default=0)
    return first, len({record["case"] for record in mine if record.get("case", first) < first})


def _warm(good: Path) -> None:
    """Import what commands import, once, by running a few; and build the tree of commands, which takes as long."""
    vestry.cli.app = typer.main.get_command(vestry.cli.app)  # type: ignore[assignment]
    for line in (
        "convert epsilon=1 --group 2",
        "calibrate diffused --family beta-bernoulli --prior 6,12 --n 100 --guarantee epsilon=1,delta=1e-5",
        "calibrate objective --lipschitz 1 --smoothness 0.25 --regularisation 10 --guarantee epsilon=1,delta=1e-5",
        "curve laplace --family beta-bernoulli --n 100 --at 10",
        f"check {good}/every.toml",
        f"posterior {good}/naive-bayes.json",
        f"report {good}/study.toml --output {good.parent}/report",
        f"ledger show {good}/patients.ledger",
    ):
        sys.argv = ["vestry", *line.split()]
        with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
            vestry.cli.main()
    for name in ("arviz_base", "ibis", "duckdb", "opendp.prelude", "vestry.audit"):
        __import__(name)


def main() -> None:
    """Run what the command line asks for; exit code 1 if there are findings."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kinds", nargs="+", choices=[*KINDS, "all"])
    parser.add_argument("--count", type=int, default=1000, help="cases of each kind")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", type=int, help="run one case, and show what it printed")
    parser.add_argument("--log", type=Path, help="where to go on; a new file if left out")
    given = parser.parse_args()
    kinds = KINDS if "all" in given.kinds else given.kinds
    os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", MPLBACKEND="agg", COLUMNS="2000")
    with tempfile.TemporaryDirectory() as place:
        good, log = Path(place) / "good", given.log or Path(place) / "log"
        make_good_folder(good)
        _warm(good)
        if given.only is not None:
            for kind in kinds:
                tried = case(kind, given.seed, given.only, good)
                done = run(tried, good)
                print(tried.arguments, {name: len(data) for name, data in tried.files.items()}, sep="\n")
                print(done.out, done.err, faults(tried, done), f"{done.seconds:.1f} s", sep="\n")
            return
        found = [fuzz(kind, given.count, given.seed, good, log) for kind in kinds]
    sys.exit(1 if any(found) else 0)


if __name__ == "__main__":
    main()
