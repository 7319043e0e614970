"""Names of persons: coarser than levels, so that nobody is two."""

from __future__ import annotations

from vestry.data.text_value import NUMBER, Expression, double, matches, truths
from vestry.schema.meaning import DATE, EXACT, LONGEST, TIME, ZONE

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
