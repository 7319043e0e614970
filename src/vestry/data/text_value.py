"""What a column of text says, by expressions that cannot fail on any text and that every engine reads alike."""

from __future__ import annotations

import math

import ibis

from vestry.data.source import Expression, call
from vestry.schema.meaning import DECIMAL, FALSE, LONGEST, TRUE

# Text is a number if it reads like this, or is one of the words for infinity. A mark is added at its end because `$`
# also matches before a last line break in Java. No backslash: Spark unescapes it.
NUMBER = "^[+-]?([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][+-]?[0-9]{1,4})?[|]$"
_SHORT_NUMBER = NUMBER.replace("{1,4}", "{1,2}")
_INFINITY = {math.inf: ("inf", "+inf", "infinity", "+infinity"), -math.inf: ("-inf", "-infinity")}

# Beyond these PostgreSQL refuses to make a double of a decimal; others give infinity or 0.
_GREATEST, _LEAST = "1.7976931348623158e308", "2.4703282292062329e-324"


def double(value: float) -> Expression:
    """Return a double, written as text: engines read 0.1 as a decimal and divide on their own."""
    return ibis.literal(str(float(value))).cast("float64")


def trim(text: Expression, engine: str) -> Expression:
    """Return text without ASCII white space at its ends.

    Spark reads the vertical tab in the list of marks that Ibis's own `strip` writes as the letter v.
    """
    marks = ibis.literal(" \t\n\r") + call("chr", str, 11) + call("chr", str, 12)
    return call("trim" if engine == "duckdb" else "btrim", str, text, marks)


def matches(text: Expression, pattern: str) -> Expression:
    """Tell whether a text of at most the longest length is of a pattern, which ends in its own mark."""
    return (text.length() <= LONGEST) & text.concat("|").re_search(pattern)


def number_of(text: Expression, engine: str) -> Expression:
    """Return the double nearest to a trimmed text, 1 and 0 for truth words, null where it is not a number."""
    plain = _in_postgres(text) if engine == "postgres" else [(matches(text, NUMBER), text.try_cast("float64"))]
    return ibis.cases(*plain, *_infinities(text), *truths(text, double(1), double(0)), else_=ibis.null("float64"))


def level_of(text: Expression) -> Expression:
    """Return the text of a trimmed text's class, where it is a truth word or a number: 1 for TRUE, 1.5 for 1.50."""
    digits = text.re_replace("0+$", "").re_replace("[.]$", "")
    plain = ibis.cases((matches(text, f"^{DECIMAL}[|]$"), digits), *truths(text, "1", "0"), else_=text)
    return ibis.cases((plain == "-0", "0"), else_=plain)


def _in_postgres(text: Expression) -> list[tuple[Expression, Expression]]:
    """Return the cases of numbers where a cast that fails would raise: a long exponent goes through a decimal."""
    exact = text.cast("decimal")
    greatest, least = (ibis.literal(limit).cast("decimal") for limit in (_GREATEST, _LEAST))
    # Nested, since only CASE keeps PostgreSQL from trying a cast before its condition holds.
    held = ibis.cases(
        (exact.abs() < least, double(0)),
        (exact > greatest, double(math.inf)),
        (exact < -greatest, double(-math.inf)),
        else_=exact.cast("float64"),
    )
    return [(matches(text, _SHORT_NUMBER), text.cast("float64")), (matches(text, NUMBER), held)]


def _infinities(text: Expression) -> list[tuple[Expression, Expression]]:
    return [(text.lower().isin(words), double(value)) for value, words in _INFINITY.items()]


def truths(text: Expression, true: Expression, false: Expression) -> list[tuple[Expression, Expression]]:
    """Return the cases of text that is a word for a truth value."""
    return [(text.isin(TRUE), true), (text.isin(FALSE), false)]
