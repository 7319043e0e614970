"""How many examples a property sees: a fifth of them in `make test`, all of them in `make check`."""

import os

PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "quick")
SHARE = 5 if PROFILE == "quick" else 1


def examples(count: int) -> int:
    """Return how many of so many examples are looked at now: at least one."""
    return max(1, count // SHARE)
