"""The least versions that are declared are those that `make test-oldest` tries."""

from __future__ import annotations

import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parent.parent
# Tools for working on Vestry itself, and extras that are made of other extras.
NOT_INSTALLED_BY_USERS = {"heavy", "docs", "lint", "all"}


def declared() -> dict[str, set[Version]]:
    """Return the least versions of each package in pyproject.toml."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    texts = list(project["dependencies"])
    for extra, requirements in project["optional-dependencies"].items():
        if extra not in NOT_INSTALLED_BY_USERS:
            texts += requirements
    floors: dict[str, set[Version]] = {}
    for requirement in map(Requirement, texts):
        least = [Version(clause.version) for clause in requirement.specifier if clause.operator == ">="]
        if least:
            floors.setdefault(canonicalize_name(requirement.name), set()).update(least)
    return floors


def tried() -> dict[str, set[Version]]:
    """Return the versions of constraints-oldest.txt."""
    lines = (ROOT / "constraints-oldest.txt").read_text().splitlines()
    pairs = [line.split("==") for line in lines if line and not line.startswith("#")]
    return {canonicalize_name(name): {Version(version)} for name, version in pairs}


def test_the_least_versions_are_the_tried_ones():
    assert declared() == tried()


def test_every_dependency_has_a_least_version():
    """But sqlglot, which Ibis bounds below."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    free = [text for text in project["dependencies"] if ">=" not in text]
    assert free == ["sqlglot<30.18"]
