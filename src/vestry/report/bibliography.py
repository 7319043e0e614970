"""The papers that theorems cite, in full."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files


@cache
def bibliography() -> dict[str, dict[str, str]]:
    """Return the fields of every reference, by its key."""
    text = files("vestry.report").joinpath("references.bib").read_text(encoding="utf-8")
    entries = re.findall(r"^@\w+\{(\w+), (.*)\}$", text, re.MULTILINE)
    return {key: dict(re.findall(r"(\w+)=\{(.*?)\}(?:, |$)", fields)) for key, fields in entries}


def reference(key: str) -> tuple[str, str, str]:
    """Return the authors of a paper, its title, and where and when it was published."""
    entry = bibliography()[key]
    people = [" ".join(reversed(name.split(", "))) for name in entry["author"].split(" and ")]
    where = entry.get("booktitle") or entry.get("journal") or entry.get("publisher", "")
    note = f"; {entry['note']}" if "note" in entry else ""
    return ", ".join(people), entry["title"], f"{where} {entry['year']}{note}"


def cited(*theorems: str) -> list[str]:
    """Return the keys of the papers that theorems cite, in the order of the alphabet."""
    return sorted({key for text in theorems for key in re.findall(r"[A-Z][A-Za-z]+\d\d[a-z]?\b", text)})
