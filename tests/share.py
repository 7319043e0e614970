"""What `make test` looks at: a tenth of the examples, and some of the cases. `make check` looks at all of them."""

import os
from collections.abc import Container, Iterable
from typing import Any

import pytest

PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "quick")
SHARE = 10 if PROFILE == "quick" else 1


def examples(count: int) -> int:
    """Return how many of so many examples are looked at now: at least one."""
    return max(1, count // SHARE)


def cases(every: Iterable[Any], *, quick: Container[Any]) -> list[Any]:
    """Return the cases of a test that takes long for each of them: all but a few wait for `make check`."""
    return [case if case in quick else _long(case) for case in every]


def _long(case: Any) -> Any:
    return pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=pytest.mark.long)
