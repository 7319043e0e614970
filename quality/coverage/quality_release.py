"""How often a quality release finds a column whose values are all wrong, and warns of one whose values all fit.

    python quality/coverage/quality_release.py            # goes on where it stopped; results in quality_release.json
    python quality/coverage/quality_release.py --print    # the table of the results

1,000 records, one column of levels in which no value matches, the others (levels and intervals in turn) without fault.
Each cell is a number of columns, a neighbour relation and a spend; each release is simulated from the mechanism's own
calibration, with the noise that it would draw, and read as any release is.
"""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path

import numpy as np

from vestry.conjugate.simulation import noisy_statistics
from vestry.data_quality.quality_model import Quality
from vestry.data_quality.quality_posterior import quality_reader
from vestry.model.request import Request
from vestry.planning import choose_mechanism
from vestry.privacy.guarantee import Guarantee
from vestry.privacy.neighbours import Neighbours, Unit
from vestry.schema.domain import Interval, Levels
from vestry.schema.table_schema import TableSchema

RESULTS = Path(__file__).with_suffix(".json")
RECORDS, RELEASES = 1000, 100
CELLS = [
    (columns, relation, spend)
    for spend in ("epsilon=0.1", "epsilon=0.1,delta=1e-6")
    for relation in ("add-remove", "replace")
    for columns in ((1, 5, 10) if "delta" not in spend else (10,))
]


def cell(columns: int, relation: str, spend: str, seed: int) -> dict[str, float]:
    """Return how often the bad column was found, and how often any good one was warned of."""
    domains = {f"c{place}": Interval(0, 60) if place % 2 else Levels("no", "yes") for place in range(columns)}
    schema = TableSchema(domains, Unit(), Neighbours.parse(relation))
    request = Request(Quality(tuple(domains)), Guarantee.parse(spend, neighbours=schema.neighbours))
    prepared = choose_mechanism(request, schema, RECORDS).prepare(schema, RECORDS)
    counts = [RECORDS if term.condition == "fits" else 0 for term in prepared.tally.terms]
    counts = [
        RECORDS if (term.column, term.condition) == ("c0", "unmatched") else 0 if term.column == "c0" else count
        for term, count in zip(prepared.tally.terms, counts, strict=True)
    ]
    reader, rng = quality_reader(prepared.described, prepared.numbers), np.random.default_rng(seed)
    found = warned = 0
    for _ in range(RELEASES):
        shares = reader.noise_aware(noisy_statistics(prepared.mechanism, counts, rng))
        seen = {(each.column, each.condition) for each in reader.findings({"all": shares})}
        found += ("c0", "unmatched") in seen
        warned += bool(seen - {("c0", "unmatched")})
    return {
        "noise": prepared.mechanism.name,
        "scale": prepared.mechanism.scale,
        "found": found / RELEASES,
        "warned": warned / RELEASES,
    }


def main() -> None:
    """Run what is not in the file of results yet, or print it."""
    known = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for seed, (columns, relation, spend) in enumerate(CELLS):
        name = f"{columns} | {relation} | {spend}"
        if name not in known and "--print" not in sys.argv:
            known[name] = cell(columns, relation, spend, seed)
            RESULTS.write_text(json.dumps(known, indent=1) + "\n")
    print("| columns | neighbours | spend | noise | found | a good column warned of |\n|---|---|---|---|---|---|")
    for name, row in known.items():
        shown = [
            f"{row[key]:.3f} ± {math.sqrt(row[key] * (1 - row[key]) / RELEASES):.3f}" for key in ("found", "warned")
        ]
        print(f"| {name} | {row['noise']}, scale {row['scale']:.0f} | {' | '.join(shown)} |")


if __name__ == "__main__":
    main()
