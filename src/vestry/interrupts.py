"""Signals that end a program: held back while a release must not be lost, and never taken for an engine's error.

Python runs the handlers of signals in the main thread alone, so that nothing interrupts another thread.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Self

# Ctrl-C comes first: until its handler has changed, an interrupt finds all handlers as they were.
HELD_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

Handler = Callable[[int, FrameType | None], object] | int


class HeldInterrupts:
    """Holds back what would end the program, and delivers it at the end: to a `with` statement, in the main thread.

    Signals that are ignored stay ignored. At the end each handler is put back, unless somebody changed it meanwhile,
    and is called once if its signal came. An error that leaves the `with` statement is told before an interrupt.
    """

    def __init__(self) -> None:
        self._previous: dict[int, Handler] = {}
        self._came: set[int] = set()

    @property
    def came(self) -> bool:
        """Whether a signal came and is held back."""
        return bool(self._came)

    def __enter__(self) -> Self:
        if threading.current_thread() is not threading.main_thread():
            return self
        for number in HELD_SIGNALS:
            handler = signal.getsignal(number)
            if handler is None or handler == signal.SIG_IGN:
                continue
            self._previous[number] = handler
            signal.signal(number, self._hold)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        for number, handler in reversed(self._previous.items()):
            if signal.getsignal(number) == self._hold:
                signal.signal(number, handler)
            if number not in self._came:
                continue
            try:
                _deliver(number, handler)
            except KeyboardInterrupt:
                if error is None:
                    raise

    def _hold(self, number: int, frame: FrameType | None) -> None:
        self._came.add(number)


def _deliver(number: int, handler: Handler) -> None:
    """Do what would have been done when the signal came."""
    if callable(handler):
        handler(number, None)
    else:
        signal.raise_signal(number)


class NotedInterrupt:
    """Remembers what a handler of Ctrl-C raised during a `with` statement: an engine may raise its own error instead.

    Attributes
    ----------
    raised
        What the handler raised; None if it raised nothing.
    """

    def __init__(self) -> None:
        self.raised: BaseException | None = None
        self._previous: Handler | None = None

    def __enter__(self) -> Self:
        handler = signal.getsignal(signal.SIGINT)
        if threading.current_thread() is threading.main_thread() and callable(handler):
            self._previous = handler
            signal.signal(signal.SIGINT, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        if self._previous is not None and signal.getsignal(signal.SIGINT) == self._note:
            signal.signal(signal.SIGINT, self._previous)

    def _note(self, number: int, frame: FrameType | None) -> None:
        handler = self._previous
        if not callable(handler):
            return
        try:
            handler(number, frame)
        except BaseException as error:
            self.raised = error
            raise
