"""The rows of a regression: the same features and outcomes on every backend, in one query."""

from __future__ import annotations

import math

import numpy as np
import pytest
from data.test_semantics import EVERY

from vestry import Interval, Levels, Table
from vestry.schema.design_matrix import HALF, Design
from vestry.schema.private import reveal_rows

DOMAINS = {
    "real": Interval(-2, 3, missing={"value": 1.0}),
    "ward": Levels("a", "b", "c", missing="level"),
    "Spelled Number": Interval(0, 10),
    "truth": Levels(False, True),
}
DESIGN = Design(("real", "ward", "Spelled Number"), DOMAINS, "truth", True)


def found(data, unit: str = "row") -> list[tuple]:
    private = Table(data, DOMAINS, unit=unit, neighbours="add-remove").rows(DESIGN, row_key="k")
    return sorted(
        (*map(float, features), float(outcome))
        for block, outcomes in reveal_rows(private)
        for features, outcome in zip(block, outcomes, strict=True)
    )


def wanted(rows: list[dict]) -> list[tuple]:
    """Read the records in plain Python, for columns whose meaning needs no parser: real, ward and truth."""

    def share(value: float, low: float, high: float, stand_in: float) -> float:
        x = stand_in if value is None or math.isnan(value) else min(max(value, low), high)
        middle, reach = (low + high) / 2, (high - low) / 2
        return float(np.float32(math.floor((x - middle) / (reach / HALF) + 0.5) / HALF))

    made = []
    for row in rows:
        own = (row["ward"] or "").strip()
        ward = own if own in ("a", "b", "c") else "missing"
        made.append((share(row["real"], -2.0, 3.0, 1.0), *(float(ward == w) for w in ("b", "c", "missing")), 1.0,
                     1.0 if row["truth"] is True else -1.0))  # fmt: skip
    return sorted(made)


def test_rows_are_what_the_declaration_says(backend):
    rows = backend.seen(EVERY)
    if backend.name == "csv":
        pytest.skip("a CSV file holds text: its numbers are compared below, with the other backends'")
    kept = [(*row[:4], *row[5:]) for row in found(backend.load(EVERY))]
    assert sorted(kept) == wanted(rows)


@pytest.mark.parametrize("unit", ["row", "person=id,rows=2"])
def test_rows_are_the_same_on_every_backend(backend, unit, tmp_path):
    from data.conftest import parquet

    assert found(backend.load(EVERY), unit) == found(parquet(tmp_path)(EVERY), unit)
