"""Runs the examples of pages: a line of JSON a page comes in, and a line with what its examples print goes out.

What takes long to import is imported once. Each page runs in a fork, so that none sees what another has registered.
"""

import contextlib
import importlib
import io
import json
import os
import sys
import traceback
import warnings

HEAVY = (
    "arviz_base", "duckdb", "ibis", "matplotlib.pyplot", "numba", "opendp.prelude", "pandas", "scipy.stats",
    "sklearn.linear_model", "vestry.audit", "vestry.estimators", "vestry.report", "vestry.study",
)  # fmt: skip
WARM = "vestry calibrate ops --family beta-bernoulli --prior 1,1 --n 100 --truncation 0.2 --guarantee epsilon=1"


def command(words: list[str]) -> None:
    if words[:3] == ["python", "-m", "reproductions"]:
        from reproductions.__main__ import main as reproduce

        reproduce(words[3:])
        return
    from vestry.cli import main

    sys.argv = words
    with contextlib.suppress(SystemExit):
        main()


def block(text: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        exec(compile(text, "<example>", "exec"), {"__name__": "__main__"})


def printed(example: dict) -> str:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            command(example["command"]) if "command" in example else block(example["python"])
        except Exception:
            traceback.print_exc()
    return out.getvalue() + err.getvalue()


def run(page: dict) -> None:
    os.chdir(page["folder"])
    print(json.dumps([printed(example) for example in page["examples"]]), flush=True)


if __name__ == "__main__":
    for name in HEAVY:
        importlib.import_module(name)
    printed({"command": WARM.split()})
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            try:
                run(json.loads(line))
                os._exit(0)
            finally:
                os._exit(1)
        if os.waitpid(child, 0)[1] != 0:
            print(json.dumps(["Traceback: the page ended its process"]), flush=True)
