"""Which records of a person count, where a person has more than the declared number.

Names of persons: coarser than levels, so that nobody is two.

Which records of a regression count, where there are more than were declared.

The constants of a regression hold for so many records and no more. Which ones count must not depend on the order in
which they come, so each record has a place of its own: a keyed hash of its bytes and of its number among records that
are equal to it. The records of the lowest places count.

What neighbours then differ by. Let N be the bound, and a table the set of the places of its records: equal records are
told apart by their number, so one more record is one more place, whichever of its equals it is.

- Add or remove one record: up to N records in all, the same record is added to what counts. Beyond N the new place is
  above the N lowest, and nothing changes; or it is among them, and the highest of these leaves. So beyond N one
  *replaced* record is the most that neighbours differ by.
- Replace one record: one place leaves and one comes, so again at most one record is replaced.
- A unit of k records: k times that.

No rule does better. If all records count up to N, take N + 1 different records, of which a rule keeps some. Leaving out
any one record of the table gives N records that all count, N + 1 different sets; what the rule keeps cannot be within
one record of all of them. The price of a removal therefore covers tables of at most N records, as the declaration of N
says, and beyond N the guarantee is that of a replaced record, which `Adjacency.changes` counts as two.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from vestry.data.text_value import NUMBER, Expression, double, matches, truths
from vestry.schema.meaning import DATE, EXACT, LONGEST, TIME, ZONE
from vestry.schema.private import Block


def chosen(records: Expression, person: str, codes: tuple[str, ...], rows: int, key: str) -> Expression:
    """Keep at most `rows` records of each person, by a rule that looks at that person's records alone.

    The records of a person are sorted by md5(key | person | integers of the record | number among its equals), and the
    first ones are kept. Equal records are numbered in any order: they add the same. The order of the table, the records
    of others and how the engine splits its work play no part.

    Parameters
    ----------
    records
        The records that would count, in integers.
    person
        The column of the person.
    codes
        The columns of integers: everything that a record adds to the sums follows from them.
    rows
        How many to keep.
    key
        A text that orders the records differently for each ledger.
    """
    import ibis

    number = ibis.row_number().over(group_by=[person, *codes], order_by=person)
    records = records.mutate(number=number.cast("int64"))
    text = ibis.literal(f"{key}|") + records[person]
    for name in (*codes, "number"):
        text = text + ibis.literal("|") + records[name].cast("string")
    records = records.mutate(mark=_md5()(text))
    records = records.mutate(rank=ibis.row_number().over(group_by=person, order_by="mark").cast("int64"))
    return records.filter(records["rank"] < ibis.literal(rows, type="int64"))


def _md5() -> Any:
    """Return the engine's own md5: of the text's UTF-8 bytes, in small hexadecimal digits, on every backend."""
    import ibis

    def md5(text: str) -> str:  # type: ignore[empty-body]
        ...

    return ibis.udf.scalar.builtin(md5)


_DATED = f"^{DATE}[T ]{TIME}[|]$"
_ZONED = f"^{DATE}[T ]{TIME}{ZONE}[|]$"
_DATE_LENGTH = 10
_WHOLE = "^[+-]?[0-9]+([.]0*)?[|]$"
_UUID = "^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}[|]$"
# How text begins that may be a number, a truth word, a UUID or a date. Other text names a person as it stands.
_SPECIAL = "^[0-9a-fA-FtT+.-]"
# What `meaning.carrier_text` writes for a double that is no level, and so names nobody.
_CARRIED = "^(-?[0-9]+[.]e-?[0-9]+|[+-]iNf)[|]$"


def person_name(text: Expression, number: Expression) -> Expression:
    """Return the name of a person, null where there is none.

    Coarser than levels, because to take one person for two would break a promise, and two for one does not: 007 is 7,
    1e3 is 1000, and a UUID has no case. An instant is its day, and one with a zone is like all others.

    Parameters
    ----------
    text
        What the column says, trimmed; null where it says a double.
    number
        The double that it says, or that the text is; null where it is none.
    """
    import ibis

    special = ibis.cases(
        *truths(text, "1", "0"),
        (matches(text, _WHOLE), _whole(text)),
        (matches(text, _UUID), text.lower()),
        (matches(text, NUMBER) & (number.abs() < double(EXACT)), _of_double(number)),
        (matches(text, _CARRIED), ibis.null("string")),
        (matches(text, _DATED), text.substr(0, _DATE_LENGTH)),
        (matches(text, _ZONED), "@"),
        else_=text,
    )
    return ibis.cases(
        (text.isnull(), _of_double(number)),
        ((text == "") | (text.length() > LONGEST), ibis.null("string")),
        (text.re_search(_SPECIAL), special),
        else_=text,
    )


def _of_double(value: Expression) -> Expression:
    """Return a double as the name of a person; null where it is not finite, or skips whole numbers."""
    import ibis

    small = value.notnull() & (value.abs() < double(EXACT))  # NaN is above every number, on every engine
    kept = ibis.cases((small, value), else_=ibis.null("float64"))
    whole = kept.floor().cast("int64")
    return ibis.cases((whole.cast("float64") == kept, whole.cast("string")), else_=kept.cast("string"))


def _whole(text: Expression) -> Expression:
    """Return the digits of a whole number's text, without plus, leading zeros and zeros behind a point."""
    import ibis

    digits = text.re_replace("[.]0*$", "").re_replace("^[+-]?0*", "")
    return ibis.cases((digits == "", "0"), (text.startswith("-"), ibis.literal("-") + digits), else_=digits)


def limited(blocks: Sequence[Block], most: int, *, row_key: str) -> list[Block]:
    """Keep the `most` records of the lowest places, in the order in which they came; all, if there are no more.

    Parameters
    ----------
    blocks
        Features, one row a record, and outcomes.
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


def _places(blocks: Sequence[Block], row_key: str) -> Iterator[str]:
    """Yield each record's place, as hexadecimal digits."""
    seen: Counter[bytes] = Counter()
    key = hashlib.sha256(row_key.encode()).digest()
    for features, outcomes in blocks:
        # Adding 0 makes of -0 the 0 that it is equal to.
        rows, ends = np.ascontiguousarray(features + 0.0), np.ascontiguousarray(outcomes + 0.0)
        for row, end in zip(rows, ends, strict=True):
            record = row.tobytes() + end.tobytes()
            number = seen[record]
            seen[record] += 1
            yield hashlib.blake2b(number.to_bytes(8, "big") + record, key=key, digest_size=16).hexdigest()
