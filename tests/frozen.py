"""Oracles that take long: what they said is kept in a file of JSON beside the module that holds them.

`make test` looks it up. `make check` asks the oracle again, and it must say the same. After a change to an oracle

    FREEZE=1 python -m pytest -m "not slow" FILE

writes its file anew.
"""

import json
import os
from collections.abc import Callable
from functools import cache, wraps
from pathlib import Path
from typing import Any

from share import PROFILE

FREEZE = "FREEZE" in os.environ


@cache
def kept(path: Path) -> dict[str, Any]:
    """Return what a file keeps; nothing is known before the first time."""
    return json.loads(path.read_text()) if path.exists() else {}


def frozen(number: Callable[[str], Any]) -> Callable:
    """Keep the numbers that a function returns as texts, which `number` reads; lists of numbers, too."""

    def decorate(oracle: Callable) -> Callable:
        path = Path(oracle.__code__.co_filename).with_suffix(".json")

        @wraps(oracle)
        def asked(*given: Any, **named: Any) -> Any:
            key, table = f"{oracle.__name__}{given}{named or ''}", kept(path)
            if FREEZE and key not in table:
                table[key] = written(oracle(*given, **named))
                path.write_text(json.dumps(table, indent=1, sort_keys=True) + "\n")
            if PROFILE != "quick":
                said = written(oracle(*given, **named))
                assert said == table[key], f"{key} is {said}, and {table[key]} is kept in {path.name}"
            return read(table[key], number)

        return asked

    return decorate


def written(said: Any) -> Any:
    return [written(each) for each in said] if isinstance(said, list | tuple) else str(said)


def read(said: Any, number: Callable[[str], Any]) -> Any:
    return [read(each, number) for each in said] if isinstance(said, list) else number(said)
