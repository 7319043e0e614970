"""The command line, called in this process."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass

import pytest
from closed_engines import closed_engines

from vestry.cli import main


@dataclass(frozen=True)
class Done:
    """What a command left behind."""

    code: int
    out: str
    err: str


@pytest.fixture
def vestry(monkeypatch, capsys) -> Callable[..., Done]:
    """Run `vestry ARGUMENTS` and return its exit code and what it printed."""

    def run(*arguments: object) -> Done:
        monkeypatch.setattr(sys, "argv", ["vestry", *map(str, arguments)])
        capsys.readouterr()
        with pytest.raises(SystemExit, match=r"^\d+$") as ended:
            main()
        printed = capsys.readouterr()
        return Done(ended.value.code, printed.out, printed.err)

    return run


@pytest.fixture(autouse=True)
def _closed():
    with closed_engines():
        yield
