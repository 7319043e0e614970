"""Differences between groups, from draws whose seed is the release's hash: the page is a function of the release."""

from __future__ import annotations

from itertools import combinations

import numpy as np

from vestry.posterior.posterior import Rows
from vestry.posterior.reader import DRAWS
from vestry.report.content import Result
from vestry.report.estimates import labels

# Up to this many groups every pair is compared; beyond, each group with the first.
MOST_PAIRED = 4
# How many draws a difference rests on, and how many numbers they have at most.
DRAWN, _NUMBERS = 20_000, 2_000_000
# Further rows are left out of the page.
MOST_ROWS = 66


def contrasts(result: Result) -> Rows:
    """Return the differences of groups, one row for each pair and parameter."""
    posterior = result.posterior
    groups = list(posterior.laws)
    if posterior.by is None or len(groups) < 2 or posterior.label == DRAWS:
        return []
    pairs = list(combinations(groups, 2)) if len(groups) <= MOST_PAIRED else [(g, groups[0]) for g in groups[1:]]
    seed, names = int(result.release.to_dict()["sha256"], 16), labels(result)
    rows: Rows = []
    for place, (a, b) in enumerate(pairs):
        if len(rows) >= MOST_ROWS:
            break
        found = posterior.contrast(a, b, rng=np.random.default_rng([seed, place]), draws=drawn_for(result))
        rows += [{**row, "a": a, "b": b, "label": name} for row, name in zip(found, names, strict=True)]
    return rows[:MOST_ROWS]


def drawn_for(result: Result) -> int:
    """Return how many draws a difference rests on: fewer where a group has very many parameters."""
    return max(1000, min(DRAWN, _NUMBERS // result.posterior.reading.dimension))


def compared(result: Result) -> str:
    """Say which groups are compared."""
    groups = list(result.posterior.laws)
    if len(groups) <= MOST_PAIRED:
        return "every pair of groups"
    return f"each group with {groups[0]}"
