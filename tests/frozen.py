"""Oracles that take long: what they said is kept in a file of JSON beside the module that holds them.

`make test` looks it up. `make check` asks the oracle again, and it must say the same. After a change to an oracle

    FREEZE=1 python -m pytest -o addopts= FILE

writes its file anew. An oracle takes and returns plain values: texts, numbers, lists.
"""

import json
import os
from collections.abc import Callable
from functools import cache, wraps
from pathlib import Path
from typing import Any

from example_count import PROFILE

FREEZE = "FREEZE" in os.environ


@cache
def kept(path: Path) -> dict[str, Any]:
    """Return what a file keeps; nothing is known before the first time."""
    return json.loads(path.read_text()) if path.exists() else {}


def frozen(oracle: Callable) -> Callable:
    """Look an oracle's answers up, or compare them with what is kept."""
    path = Path(oracle.__code__.co_filename).with_suffix(".json")

    @wraps(oracle)
    def asked(*given: Any) -> Any:
        key, table = f"{oracle.__name__}{given}", kept(path)
        if PROFILE == "quick" and not FREEZE:
            return table[key]
        said = oracle(*given)
        if FREEZE:
            table[key] = said
            path.write_text(json.dumps(table, indent=1, sort_keys=True) + "\n")
        assert table[key] == said, f"{key} is {said}, and {table[key]} is kept in {path.name}"
        return said

    return asked
