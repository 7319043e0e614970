"""Delivers Ctrl-C at one moment of a release: at the n-th step that Python takes from the opening of a charge on."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from types import CodeType, FrameType
from typing import Any
from unittest.mock import patch

from vestry.ledger import Charge


class Steps:
    """Counts calls, lines and returns from the first call of `begin` to that of `end`, and interrupts at one of them.

    Attributes
    ----------
    taken
        How many steps there were.
    """

    def __init__(self, at: int | None, begin: CodeType, end: CodeType | None) -> None:
        self.taken = 0
        self._begin = begin
        self._end = end
        self._at = at
        self._begun = False

    def __call__(self, frame: FrameType, event: str, arg: Any) -> Callable[..., Any] | None:
        if not self._begun:
            if frame.f_code is not self._begin:
                return None
            self._begun = True
            caller = frame.f_back
            while caller is not None and caller.f_code is not interrupt.__code__:
                caller.f_trace = self
                caller = caller.f_back
        if frame.f_code is self._end:
            sys.settrace(None)
            self._at = None
            return None
        self.taken += 1
        if self.taken == self._at:
            signal.raise_signal(signal.SIGINT)
        return self


@dataclass(frozen=True)
class Outcome:
    """What became of an action.

    Attributes
    ----------
    taken
        How many steps it took.
    returned, interrupt
        What it returned, or the interrupt that ended it.
    is_dropped
        Whether the interrupt came where Python itself drops what is raised: while an object is finalized.
    """

    taken: int
    returned: Any = None
    interrupt: KeyboardInterrupt | None = None
    is_dropped: bool = False


def interrupt(
    action: Callable[[], Any],
    step: int | None = None,
    *,
    begin: CodeType = Charge.open.__code__,
    end: CodeType | None = None,
) -> Outcome:
    """Run an action in the main thread and interrupt it at a step; at none, count the steps."""
    steps = Steps(step, begin, end)
    before = sys.gettrace()
    dropped: list[Any] = []
    with patch.object(sys, "unraisablehook", lambda raised: dropped.append(raised.exc_value)):
        try:
            sys.settrace(steps)
            returned = action()
        except KeyboardInterrupt as error:
            sys.settrace(before)
            return Outcome(steps.taken, None, error)
        finally:
            sys.settrace(before)
    assert all(isinstance(error, KeyboardInterrupt) for error in dropped)
    return Outcome(steps.taken, returned, None, bool(dropped))


def spread(taken: int, points: int) -> list[int]:
    """Return so many steps, spread over all that were taken, the first and the last among them."""
    return sorted({1 + round(index * (taken - 1) / (points - 1)) for index in range(points)})
