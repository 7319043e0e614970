"""Which records of a person count, where a person has more than the declared number.

Names of persons: coarser than levels, so that nobody is two.
"""

from __future__ import annotations

import ibis

from vestry.data.source import Expression, call
from vestry.data.text_value import NUMBER, double, matches, truths
from vestry.schema.meaning import DATE, EXACT, LONGEST, TIME, ZONE


def choose_records(records: Expression, person: str, codes: tuple[str, ...], rows: int, key: str) -> Expression:
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
    number = ibis.row_number().over(group_by=[person, *codes], order_by=person)
    records = records.mutate(number=number.cast("int64"))
    text = ibis.literal(f"{key}|") + records[person]
    for name in (*codes, "number"):
        text = text + ibis.literal("|") + records[name].cast("string")
    # Of the text's UTF-8 bytes, in small hexadecimal digits, on every engine.
    records = records.mutate(mark=call("md5", str, text))
    records = records.mutate(rank=ibis.row_number().over(group_by=person, order_by="mark").cast("int64"))
    return records.filter(records["rank"] < ibis.literal(rows, type="int64"))


_DATED = f"^{DATE}[T ]{TIME}[|]$"
_ZONED = f"^{DATE}[T ]{TIME}{ZONE}[|]$"
_DATE_LENGTH = 10
_WHOLE = "^[+-]?[0-9]+([.]0*)?[|]$"
_UUID = "^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}[|]$"
# How text begins that may be a number, a truth word, a UUID or a date. Other text names a person as it stands.
_SPECIAL = "^[0-9a-fA-FtT+.-]"
# What `meaning.carrier_text` writes for a double that is not a level, and so names nobody.
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
    small = value.notnull() & (value.abs() < double(EXACT))  # NaN is above every number, on every engine
    exact = ibis.cases((small, value), else_=ibis.null("float64"))
    whole = exact.floor().cast("int64")
    return ibis.cases((whole.cast("float64") == exact, whole.cast("string")), else_=exact.cast("string"))


def _whole(text: Expression) -> Expression:
    """Return the digits of a whole number's text, without plus, leading zeros and zeros behind a point."""
    digits = text.re_replace("[.]0*$", "").re_replace("^[+-]?0*", "")
    return ibis.cases((digits == "", "0"), (text.startswith("-"), ibis.literal("-") + digits), else_=digits)
