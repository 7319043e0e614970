"""Runs commands of one version of `vestry` in one process, for `same_numbers.py`; uses `vestry.cli.main` alone.

Reads cases from a JSON file, and writes one JSON line for each: of each way that was tried its exit code, what was
printed and the files that were made.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
import time
import traceback
from pathlib import Path
from typing import Any


def run(folder: str, arguments: list[str]) -> dict[str, Any]:
    """Run one command in a folder. What is not a refusal but a fault has the exit code 99."""
    from vestry.cli import main

    os.chdir(folder)
    sys.argv, sys.stdin = ["vestry", *arguments], io.StringIO()
    out, err, code = io.StringIO(), io.StringIO(), 0
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main()
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else 98
        except BaseException:
            traceback.print_exc()
            code = 99
    return {"code": code, "out": out.getvalue(), "err": err.getvalue()}


def perform(case: dict[str, Any]) -> list[dict[str, Any]]:
    """Run a case in its own words, and in those of a later version where they are refused, or where it prepares."""
    done: list[dict[str, Any]] = []
    for folder, arguments in case["ways"]:
        start = time.process_time()
        found = run(folder, arguments)
        seconds = time.process_time() - start
        paths = {name: Path(folder, name) for name in case["files"]}
        files = {name: path.read_text(encoding="utf-8") for name, path in paths.items() if path.exists()}
        done.append({**found, "files": files, "seconds": seconds})
        if case["compared"] and found["code"] != 2:
            return done[-1:]
    return done


def main() -> None:
    """Run the cases in the file that is named first, and write lines to that which is named second."""
    cases = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    with Path(sys.argv[2]).open("w", encoding="utf-8") as lines:
        for case in cases:
            lines.write(json.dumps(perform(case)) + "\n")
            lines.flush()


if __name__ == "__main__":
    main()
