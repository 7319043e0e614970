"""Runs what may fail on a value, so that nothing of the failure shows."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from vestry.errors import VestryError

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


def quietly(action: Callable[[], T], failure: VestryError) -> T:
    """Return what the action returns; if anything but Vestry's own errors leaves it, raise the failure alone.

    The failure is raised outside the handler: its context is empty, and no traceback quotes the backend.
    """
    try:
        with _silence():
            return action()
    except VestryError:
        raise
    except Exception:  # noqa: S110 - what it says may quote a value
        pass
    raise failure


@contextmanager
def _silence() -> Iterator[None]:
    """Mute the backends' warnings and loggers, of these names or below them, and then let them speak again.

    Loggers that are there are switched off: making one would give it a class that its owner does not expect. One that
    is made meanwhile is held back by the level below which nothing is logged in this process.
    """
    held = logging.root.manager.disable
    known = [name for name in list(logging.root.manager.loggerDict) if name.split(".")[0] in _TALKATIVE]
    loggers = [logging.getLogger(name) for name in known]
    before = [logger.disabled for logger in loggers]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for logger in loggers:
            logger.disabled = True
        logging.disable(logging.CRITICAL)
        try:
            yield
        finally:
            logging.disable(held)
            for logger, disabled in zip(loggers, before, strict=True):
                logger.disabled = disabled
