"""The wall around every reading of records: an error, a warning or a log record on the way says nothing of a value.

The process has one list of warning filters and one logging configuration, so silence belongs to all of its threads.
"""

from __future__ import annotations

import logging
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any, TypeVar
from weakref import WeakValueDictionary

import numpy as np

from vestry.errors import VestryError
from vestry.interrupts import NotedInterrupt

T = TypeVar("T")

# Their log lines quote statements, answers or values.
_TALKATIVE = (
    "duckdb",
    "ibis",
    "polars",
    "psycopg",
    "py4j",
    "pyspark",
    "DataFrameQueryContextLogger",
    "SQLQueryContextLogger",
)


class SharedChange:
    """A change to the state of the whole process, which overlapping threads share.

    The first thread that enters makes the change, and the last that leaves undoes it. Threads that each saved and
    restored the state would end with what another had changed.

    Parameters
    ----------
    change
        Returns the context manager that makes the change and undoes it.
    """

    def __init__(self, change: Callable[[], AbstractContextManager[None]]) -> None:
        self._change = change
        self._lock = threading.Lock()
        self._holders = 0
        self._made = ExitStack()

    def __enter__(self) -> None:
        with self._lock:
            if self._holders == 0:
                self._made.enter_context(self._change())
            self._holders += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._holders -= 1
            if self._holders == 0:
                self._made.close()


def shared_change(owner: Any, change: Callable[[Any], AbstractContextManager[None]]) -> SharedChange:
    """Return the change to a connection or session that all of its readers share."""
    with _OWNERS_LOCK:
        shared = _OWNERS.get(id(owner))
        if shared is None:
            # It holds its owner, so that no other object has this identity while the entry is there.
            shared = SharedChange(lambda: change(owner))
            _OWNERS[id(owner)] = shared
        return shared


_OWNERS: WeakValueDictionary[int, SharedChange] = WeakValueDictionary()
_OWNERS_LOCK = threading.Lock()


def quietly(action: Callable[[], T], failure: VestryError) -> T:
    """Return what the action returns; if anything but Vestry's own errors leaves it, raise the failure alone.

    The failure is raised outside the handler: its context is empty, and no traceback quotes the backend. Where an
    engine answers Ctrl-C by an error of its own, what is raised is the interrupt.
    """
    interrupt = NotedInterrupt()
    try:
        with interrupt, _SILENCE, np.errstate(all="ignore"):
            return action()
    except VestryError:
        if interrupt.raised is None:
            raise
    except Exception:  # noqa: S110 - what it says may quote a value
        pass
    raise interrupt.raised or failure


@contextmanager
def _silenced() -> Iterator[None]:
    """Ignore warnings, and mute all logging; then let them speak again.

    Loggers that are there are switched off: making one would give it a class that its owner does not expect. One that
    is made meanwhile is held back by the level below which nothing is logged in this process.
    """
    level_before = logging.root.manager.disable
    known = list(logging.root.manager.loggerDict)
    talkative = [name for name in known if name.split(".")[0] in _TALKATIVE]
    disabled_before = {name: logging.getLogger(name).disabled for name in talkative}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in talkative:
            logging.getLogger(name).disabled = True
        logging.disable(logging.CRITICAL)
        try:
            yield
        finally:
            logging.disable(level_before)
            for name, disabled in disabled_before.items():
                logging.getLogger(name).disabled = disabled


_SILENCE = SharedChange(_silenced)
