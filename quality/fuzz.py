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
import json
import os
import re
import resource
import shutil
import signal
import sys
import tempfile
import time
import unicodedata
from dataclasses import dataclass
from pathlib import Path

from fuzz_case import KINDS, Case, case
from fuzz_good import HEAD, make_good_folder

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
    """Run a case in a fork of this process, in a copy of the good folder."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "folder"
        shutil.copytree(good, folder)
        for name, content in tried.files.items():
            (folder / name).write_bytes(content)
        out, err = Path(place) / "out", Path(place) / "err"
        sys.stdout.flush()
        sys.stderr.flush()
        child = os.fork()
        if child == 0:
            _become(tried, folder, out, err)
        _, status, usage = os.wait4(child, 0)
        seconds = usage.ru_utime + usage.ru_stime
        texts = [path.read_bytes().decode("utf-8", "replace") for path in (out, err)]
        return Done(status, seconds, usage.ru_maxrss * 1024, *texts)


def _become(tried: Case, folder: Path, out: Path, err: Path) -> None:
    """Be the command, in this forked process, until it ends."""
    code = 99
    try:
        for handle, path in ((1, out), (2, err)):
            os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT), handle)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.chdir(folder)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(WALL_SECONDS)
        resource.setrlimit(resource.RLIMIT_CPU, (SECONDS + 1, SECONDS + 2))
        resource.setrlimit(resource.RLIMIT_AS, (3 * BYTES, 3 * BYTES))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        sys.argv = ["vestry", *tried.arguments]
        from vestry.cli import main

        main()
        code = 0
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 98
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):
                stream.flush()
        os._exit(code)


def faults(tried: Case, done: Done) -> list[str]:
    """Return what is wrong with how a case ended."""
    found = []
    if os.WIFSIGNALED(done.status):
        number = os.WTERMSIG(done.status)
        found.append(f"killed by {signal.Signals(number).name}")
    elif os.WEXITSTATUS(done.status) not in (0, 1, 2, 3):
        found.append(f"exit code {os.WEXITSTATUS(done.status)}")
    elif os.WEXITSTATUS(done.status) >= 2:
        # What a command says before it refuses, such as costs, are lines of their own.
        if not re.search(r"(?:^|\n)vestry: [^\n]+\n\Z", done.err):
            found.append("a refusal that is not one line")
    checks = {
        "a traceback": "Traceback (most recent call last)" in done.err + done.out,
        "not foreseen": "did not foresee" in done.err,
        "a warning": "Warning:" in done.err,
        f"more than {SECONDS} s": done.seconds > SECONDS,
        "more than 2 GB": done.peak > BYTES,
        "a printed nan": re.search(r"(?<![\w'\"./-])[+-]?nan(?![\w'\"./-])", done.out, re.IGNORECASE) is not None,
        "a reversed interval": _is_reversed(done.out),
        "control characters": any(unicodedata.category(c) in ("Cc", "Cf") and c != "\n" for c in done.out + done.err),
        "another head": _is_another_ledger(tried, done),
    }
    return found + [name for name, bad in checks.items() if bad]


def _is_reversed(text: str) -> bool:
    """Tell whether an interval's low end is above its high end, in JSON or in a table."""
    number = r"(-?[\d.]+(?:e[+-]?\d+)?)"
    pairs = re.findall(rf'"low": {number},\s*"high": {number}', text) + re.findall(rf"{number} to {number}$", text, re.M)
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
        for number in range(first, count):
            tried = case(kind, seed, number, good)
            done = run(tried, good)
            if wrong := faults(tried, done):
                findings += 1
                record = {"kind": kind, "seed": seed, "case": number, "faults": wrong, "arguments": tried.arguments,
                          "seconds": round(done.seconds, 1), "megabytes": done.peak >> 20, "err": done.err[-1500:],
                          "out": done.out[-300:]}  # fmt: skip
                lines.write(json.dumps(record) + "\n")
                print(f"{kind} {number}: {', '.join(wrong)}: {' '.join(tried.arguments)[:200]!r} {done.err[-160:]!r}")
            if (number + 1) % _EVERY == 0 or number + 1 == count:
                lines.write(json.dumps({"kind": kind, "seed": seed, "done": number + 1}) + "\n")
                lines.flush()
    seconds = time.monotonic() - start
    print(f"{kind}: {count} cases (seed {seed}), {count - first} now in {seconds:.0f} s, {findings} findings", flush=True)
    return findings


def _known(kind: str, seed: int, log: Path) -> tuple[int, int]:
    """Return where to go on, and how many findings there are up to there."""
    records = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()] if log.exists() else []
    mine = [record for record in records if (record["kind"], record["seed"]) == (kind, seed)]
    first = max((record["done"] for record in mine if "done" in record), default=0)
    return first, len({record["case"] for record in mine if record.get("case", first) < first})


def _warm() -> None:
    """Import what commands import, once."""
    import vestry.audit
    import vestry.cli
    import vestry.data
    import vestry.experiments
    import vestry.mechanisms.calibrated
    import vestry.mechanisms.objective
    import vestry.models.run
    import vestry.privacy.batch
    import vestry.report.page
    import vestry.report.plot
    import vestry.study.story  # noqa: F401

    for name in ("arviz_base", "dp_accounting", "ibis", "duckdb", "opendp.prelude", "scipy.stats"):
        with contextlib.suppress(ImportError):
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
    os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", MPLBACKEND="agg", COLUMNS="200")
    with tempfile.TemporaryDirectory() as place:
        good, log = Path(place) / "good", given.log or Path(place) / "log"
        make_good_folder(good)
        _warm()
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
