"""Closes the database connections that a test has made, so that none outlives its folder."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import sqlalchemy


@contextmanager
def closed_engines() -> Iterator[None]:
    """Close at the end every database connection that was made inside."""
    engines = []
    create = sqlalchemy.create_engine

    def recorded(*args, **kwargs):
        engines.append(create(*args, **kwargs))
        return engines[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sqlalchemy, "create_engine", recorded)
        yield
    for engine in engines:
        engine.dispose()
