"""Runs the examples of one page in one process: commands and blocks come in as JSON, and what they print goes out."""

import contextlib
import io
import json
import sys
import traceback
import warnings


def command(words: list[str]) -> None:
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


if __name__ == "__main__":
    examples = json.load(sys.stdin)
    json.dump([printed(example) for example in examples], sys.stdout)
