"""Which records of a person count, where a person has more than the declared number."""

from __future__ import annotations

from typing import Any

from vestry.data.text_value import Expression


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
