"""Keys by which text is compared with declared levels: equal keys, same class of `meaning.level_text`.

A key is the class's own text, but for instants and clock times, whose text would have to be written: theirs is a number
of microseconds behind a blank, and no trimmed text begins with one. Only the classes that are declared are looked for.
"""

from __future__ import annotations

from collections.abc import Iterator

from vestry.data.calendar import DAY, instant, micros_of, seconds
from vestry.data.text_value import Expression, double, level_of, matches
from vestry.schema.domain import Levels
from vestry.schema.meaning import DATE, instant_of, is_number, level_text, number, time_of

_MIDNIGHT = f"^{DATE}[T ]00:00(:00([.]0+)?)?[|]$"
_DATE_LENGTH = 10


def level_keys(domain: Levels) -> tuple[str, ...]:
    """Return the keys of the declared levels, in their order."""
    if domain.exact:
        return domain.texts
    timed = _timed(domain.texts)
    return tuple(_key(text, timed) for text in domain.texts)


def level_key(text: Expression, domain: Levels, engine: str) -> Expression:
    """Return the keys of a column of trimmed text."""
    import ibis

    texts = domain.texts
    cases = []
    if any(time_of(each) for each in texts):
        micros = (seconds(text) * double(1e6) + double(0.5)).floor().cast("int64")
        cases.append((text.contains(":") & micros.notnull(), ibis.literal(" ") + micros.cast("string")))
    if _timed(texts):
        micros, zoned = instant(text, engine)
        mark = ibis.cases((zoned, "Z"), else_="")
        cases.append((micros.notnull(), ibis.literal(" @") + micros.cast("string") + mark))
    elif any(instant_of(each) for each in texts):
        cases.append((matches(text, _MIDNIGHT), text.substr(0, _DATE_LENGTH)))
    own = level_of(text) if any(map(is_number, texts)) else text
    return ibis.cases(*cases, else_=own) if cases else own


def instant_key(column: Expression, domain: Levels) -> Expression:
    """Return the keys of a column of DuckDB's timestamps."""
    import ibis

    micros, zoned = micros_of(column), bool(column.type().timezone)
    if _timed(domain.texts):
        return ibis.literal(" @") + micros.cast("string") + ibis.literal("Z" * zoned)
    if zoned:
        return ibis.null("string")
    return ibis.cases((micros % DAY == 0, column.date().cast("string")), else_=ibis.null("string"))


def numbers_of(texts: tuple[str, ...]) -> Iterator[tuple[int, float]]:
    """Yield place and number of the levels that a double can be: those whose text is the double's own."""
    for place, text in enumerate(texts):
        if is_number(text) and level_text(number(text)) == text:
            yield place, number(text)


def _timed(texts: tuple[str, ...]) -> bool:
    """Tell whether a level is an instant within a day."""
    return any(instant_of(text) and len(text) > _DATE_LENGTH for text in texts)


def _key(text: str, timed: bool) -> str:
    if (clock := time_of(text)) is not None:
        return f" {round(number(clock) * 1e6)}"
    found = instant_of(text) if timed else None
    return text if found is None else f" @{found[0]}{'Z' * found[1]}"
