"""Names that are imported when they are first used, from modules that need an extra; and what every sampler checks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from vestry.errors import InvalidParameter, MissingExtra
from vestry.validation import require_whole


def late_import(room: str, homes: Mapping[str, str], *, needs: str) -> Callable[[str], Any]:
    """Return the `__getattr__` of a room: each name from its module, which may need a package of the extra `glm`."""

    def find(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {room!r} has no attribute {name!r}")
        try:
            return getattr(import_module(f"{room}.{homes[name]}"), name)
        except ModuleNotFoundError as error:
            if error.name != needs:
                raise
            raise MissingExtra(f"sampling (here {name})", "glm") from None

    return find


def require_burn_in(steps: Any, burn_in: Any, name: str = "draws") -> tuple[int, int]:
    """Return how many steps are made, and how many of the first are dropped: fewer than all."""
    total, dropped = require_whole(name, steps), require_whole("burn_in", burn_in, least=0)
    if dropped >= total:
        raise InvalidParameter("burn_in", burn_in, f"below the number of {name}", f"for example {total // 2}")
    return total, dropped
