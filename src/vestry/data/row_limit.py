"""Which records of a regression count, where there are more than were declared.

The constants of a regression hold for so many records and no more. Which ones count must not depend on the order in
which they come, so each record has its own place: a keyed hash of its bytes and of its number among records that
are equal to it. The records of the lowest places count.

What neighbours then differ by. Let N be the bound, and a table the set of the places of its records: equal records are
told apart by their number, so one more record is one more place, whichever of its equals it is.

- Add or remove one record: up to N records in all, the same record is added to what counts. Beyond N the new place is
  above the N lowest, and nothing changes; or it is among them, and the highest of these leaves. So beyond N one
  *replaced* record is the most that neighbours differ by.
- Replace one record: one place leaves and one comes, so again at most one record is replaced.
- A unit of k records: k times that.

No rule does better. If all records count up to N, take N + 1 different records, of which a rule keeps some. Omitting
any one record of the table gives N records that all count, N + 1 different sets; what the rule keeps cannot be within
one record of all of them. The price of a removal therefore covers tables of at most N records, as the declaration of N
says, and beyond N the guarantee is that of a replaced record, which `Adjacency.changes` counts as two.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np

from vestry.schema.private import Block


def limit_records(blocks: Sequence[Block], most: int, *, row_key: str) -> list[Block]:
    """Keep the `most` records of the lowest places, in the order in which they came; all, if there are no more.

    Parameters
    ----------
    blocks
        Features, one row per record, and outcomes.
    most
        How many records may count.
    row_key
        A secret text: who does not know it cannot make records that always count.
    """
    if sum(len(outcomes) for _, outcomes in blocks) <= most:
        return list(blocks)
    places = np.array(list(_places(blocks, row_key)), dtype="S32")
    counts = np.zeros(len(places), dtype=bool)
    counts[np.argsort(places, kind="stable")[:most]] = True
    starts = np.cumsum([0, *(len(outcomes) for _, outcomes in blocks)])
    shares = [counts[start : start + len(outcomes)] for start, (_, outcomes) in zip(starts, blocks, strict=False)]
    return [(features[own], outcomes[own]) for own, (features, outcomes) in zip(shares, blocks, strict=True)]


def places_of(block: Block, numbers: Sequence[int], row_key: str) -> list[str]:
    """Return the places of records, as hexadecimal digits; a number is a record's own among its equals, from 0."""
    key = _key(row_key)
    return [_place(record, int(number), key) for record, number in zip(_bytes(*block), numbers, strict=True)]


def _places(blocks: Sequence[Block], row_key: str) -> Iterator[str]:
    """Yield each record's place."""
    seen: Counter[bytes] = Counter()
    key = _key(row_key)
    for features, outcomes in blocks:
        for record in _bytes(features, outcomes):
            yield _place(record, seen[record], key)
            seen[record] += 1


def _key(row_key: str) -> bytes:
    return hashlib.sha256(row_key.encode()).digest()


def _bytes(features: np.ndarray, outcomes: np.ndarray) -> list[bytes]:
    # Adding 0 makes of -0 the 0 that it is equal to.
    rows, ends = np.ascontiguousarray(features + 0.0), np.ascontiguousarray(outcomes + 0.0)
    return [row.tobytes() + end.tobytes() for row, end in zip(rows, ends, strict=True)]


def _place(record: bytes, number: int, key: bytes) -> str:
    return hashlib.blake2b(number.to_bytes(8, "big") + record, key=key, digest_size=16).hexdigest()
