"""What holds randomness starts anew in a forked child, so that parent and child never share any."""

from __future__ import annotations

import os
from typing import Protocol
from weakref import WeakSet


class HoldsRandomness(Protocol):
    """Anything that holds a key, or random bits that were not used yet."""

    def renew(self) -> None:
        """Forget what is held and take new randomness at the next use or now."""


_LIVE: WeakSet[HoldsRandomness] = WeakSet()


def renew_after_fork(holder: HoldsRandomness) -> None:
    """Renew this in every child that is forked while it lives."""
    _LIVE.add(holder)


def _renew_all() -> None:
    """Renew everything that lives in a forked child, or end the child."""
    try:
        for holder in list(_LIVE):
            holder.renew()
    except BaseException:  # Python would print what a fork hook raises and go on, with the parent's keys
        os.write(2, b"vestry: a forked process could not take new noise keys, so it ends here.\n")
        os._exit(1)


os.register_at_fork(after_in_child=_renew_all)
