"""What is heavy is imported where it is used: not by `import vestry`, not by the command line's first page."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

HEAVY = ("jax", "ibis", "opendp", "dp_accounting", "arviz_base", "scipy.stats", "matplotlib", "pandas", "sqlalchemy")


def loaded(statement: str) -> set[str]:
    """Return the modules that a fresh interpreter holds after a statement."""
    script = f"{statement}\nimport json, sys\nsys.stderr.write(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-W", "error", "-c", script], capture_output=True, text=True, check=True)
    return set(json.loads(done.stderr))


def command(*arguments: str) -> str:
    return (
        f"import sys\nsys.argv = {['vestry', *arguments]!r}\n"
        "from vestry.cli import main\n"
        "try:\n    main()\nexcept SystemExit as ended:\n    assert ended.code == 0"
    )


def heavy(modules: set[str]) -> list[str]:
    return [name for name in HEAVY if name in modules]


def test_importing_vestry_loads_nothing_heavy():
    assert heavy(loaded("import vestry")) == []


@pytest.mark.parametrize("arguments", [("--help",), ("--version",), ("ledger", "--help"), ("convert", "--help")])
@pytest.mark.long
def test_the_first_page_loads_nothing_heavy(arguments):
    assert heavy(loaded(command(*arguments))) == []


@pytest.mark.long
def test_a_heavy_import_would_be_seen():
    assert heavy(loaded("import vestry, vestry.ledger, scipy.stats")) == ["scipy.stats", "sqlalchemy"]
