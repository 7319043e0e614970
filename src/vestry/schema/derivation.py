"""What a derived column means: each column of its expression is read for its place, by declarations and never by types.

A column is a number in arithmetic and beside a number, a date in a function of dates and beside a date, a truth value
where one is expected, and a text beside a text in quotes. Two columns side by side are what one of them is declared as.
The declared ends, levels and stand-ins of such a column play no part: a value that is not what is asked for is missing.

No arithmetic can overflow, underflow or fail. A number that is read is 0 or from 1e-30 to 1e30 in size; a smaller one
counts as 0, and a larger one, an infinite one and NaN as missing. So the size of every part of an expression lies
between two bounds that follow from the expression alone, and one that may leave 1e-300 to 1e300 is refused. A sum of
doubles is 0 or at least the last digit of the smaller one, 2^-53 of its size. What is divided by 0 is missing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from vestry.errors import FormulaError, InvalidParameter
from vestry.schema.domain import Domain, Interval, Levels, underlying
from vestry.schema.formula import (
    DATE,
    NUMBER,
    TEXT,
    TRUTH,
    Arithmetic,
    ColumnName,
    Comparison,
    Constant,
    DatePart,
    FormulaPart,
    Junction,
    Membership,
    Negation,
    Reading,
    walk,
)
from vestry.schema.formula_parser import GREATEST, LEAST, parse
from vestry.schema.meaning import level_text

# Powers of ten between which a double neither overflows nor loses digits, and those of a sum's last digit.
_EXPONENT = 300
_DIGITS = 53 * math.log10(2)
# The size of what a function of dates gives, unless it is 0.
_SIZES = {"year": (0.0, 4.0), "month": (0.0, 2.0), "days": (0.0, 7.0)}


def check_derived(column: str, domains: Mapping[str, Domain], person: str | None) -> None:
    """Refuse a derived column that cannot be computed, or that should tell persons apart."""
    if column == person:
        instead = "another name for the derived column"
        raise InvalidParameter("the person", column, "a column of the table, not a derived one", instead)
    derivation(column, domains)


def derivation(column: str, domains: Mapping[str, Domain]) -> FormulaPart:
    """Return the expression of a derived column, with every column read for its place; refuse what does not fit.

    A column alone is returned as it is: it is read by what is declared of the derived one.
    """
    domain = domains[column]
    assert domain.derived is not None  # noqa: S101 - it is asked of derived columns
    formula = parse(domain.derived)
    for part in walk(formula.root):
        if isinstance(part, ColumnName) and getattr(domains.get(part.column), "derived", None) is not None:
            instead = "what it is made of, or give the derived column another name than the table's"
            raise FormulaError(part.place, part.column, "a column of the table, not a derived one", instead)
    if isinstance(formula.root, ColumnName):
        return formula.root
    root = _read(formula.root, formula.root.kind or NUMBER, domains)
    _check_domain(column, domain, root.kind)
    return root


def readings(column: str, domains: Mapping[str, Domain]) -> list[list[Any]]:
    """Return as what a derived column reads others, which their own declarations decide."""
    read = (part for part in walk(derivation(column, domains)) if isinstance(part, Reading))
    return [[part.column, part.of, part.format, part.exact] for part in read]


def _check_domain(column: str, domain: Domain, kind: str | None) -> None:
    """Refuse a declaration that the values of an expression cannot be of."""
    domain = underlying(domain)
    types = {type(value) for value in domain.values} if isinstance(domain, Levels) else set()
    if kind == TRUTH and types != {bool}:
        allowed, instead = "true and false: its expression is a condition", "no levels and no interval"
        raise InvalidParameter(f"the column {column}", "something else", allowed, instead)
    dates = isinstance(domain, Interval) and domain.since is not None
    if kind == NUMBER and (types - {int} or dates):
        allowed, instead = "an interval of numbers, or levels that are whole numbers", "interval = [0, 110]"
        raise InvalidParameter(f"the column {column}", "something else", allowed, instead)


def _read(part: FormulaPart, kind: str, domains: Mapping[str, Domain]) -> FormulaPart:
    """Return a part in which every column is read as what its place asks for."""
    if isinstance(part, ColumnName):
        return _reading(part, kind, domains)
    if part.kind != kind:
        raise FormulaError(part.place, _word(part), f"a {kind}", f"a {kind} in place of this {part.kind}")
    match part:
        case Arithmetic():
            read = replace(part, numbers=tuple(_read(each, NUMBER, domains) for each in part.numbers))
            _check_size(read)
            return read
        case DatePart():
            return replace(part, dates=tuple(_read(each, DATE, domains) for each in part.dates))
        case Comparison():
            return _compared(part, domains)
        case Membership():
            return _member(part, domains)
        case Junction():
            return replace(part, conditions=tuple(_read(each, TRUTH, domains) for each in part.conditions))
        case Negation():
            return replace(part, condition=_read(part.condition, TRUTH, domains))
    return part


def _reading(name: ColumnName, kind: str, domains: Mapping[str, Domain]) -> Reading:
    domain = _own(name, domains)
    if isinstance(domain, Interval) and kind in (NUMBER, DATE):
        own = NUMBER if domain.since is None else DATE
        if own != kind:
            instead = "days(visit, birth), year(visit) or month(visit) for a number of dates"
            raise FormulaError(name.place, name.column, f"a {kind}, and a {own} is declared", instead)
    format = domain.format if isinstance(domain, Interval) and kind == DATE else None
    return Reading(name.column, kind, format, place=name.place)


def _own(name: ColumnName, domains: Mapping[str, Domain]) -> Domain | None:
    """Return what is declared of a column of the table, whether in bins or not; None if nothing is."""
    return underlying(domains[name.column]) if name.column in domains else None


def _compared(part: Comparison, domains: Mapping[str, Domain]) -> FormulaPart:
    kind = _common(part, (part.left, part.right), domains)
    if kind in (TEXT, TRUTH) and part.sign not in ("=", "!="):
        raise FormulaError(part.place, part.sign, f"= or != beside a {kind}", "= or !=, or in with a list")
    if kind == TEXT:
        same = _among(part, (part.left, part.right), domains)
        return same if part.sign == "=" else Negation(same, place=part.place)
    return replace(part, left=_read(part.left, kind, domains), right=_read(part.right, kind, domains))


def _member(part: Membership, domains: Mapping[str, Domain]) -> FormulaPart:
    kind = _common(part, part.parts, domains)
    if kind == TEXT:
        return _among(part, part.parts, domains)
    return replace(part, item=_read(part.item, kind, domains))


def _common(part: FormulaPart, sides: tuple[FormulaPart, ...], domains: Mapping[str, Domain]) -> str:
    """Return the kind that all sides have; columns have the others', or the one that is declared."""
    known = [side.kind for side in sides if side.kind is not None]
    known = known or [kind for side in sides if (kind := _declared(side, domains)) is not None]
    if not known:
        instead = "declare one of them under [columns], as an interval of numbers or of dates"
        raise FormulaError(part.place, _word(part), "a column whose kind is known beside another column", instead)
    for side in sides:
        if side.kind not in (None, known[0]):
            instead = f"both as a {known[0]}, text in single quotes and numbers without them"
            raise FormulaError(side.place, _word(side), f"a {known[0]}, as on the other side", instead)
    return known[0]


def _declared(side: FormulaPart, domains: Mapping[str, Domain]) -> str | None:
    domain = _own(side, domains) if isinstance(side, ColumnName) else None
    if isinstance(domain, Interval):
        return NUMBER if domain.since is None else DATE
    kinds = {bool: TRUTH, int: NUMBER}
    return kinds.get(type(domain.values[0])) if isinstance(domain, Levels) else None


def _among(part: FormulaPart, sides: tuple[FormulaPart, ...], domains: Mapping[str, Domain]) -> Reading:
    """Return whether a column is one of the texts; texts of one class are written once."""
    names = [side for side in sides if isinstance(side, ColumnName)]
    if len(names) != 1 or len(names) == len(sides):
        raise FormulaError(part.place, _word(part), "a column beside texts in quotes", "for example ward = 'A'")
    domain = _own(names[0], domains)
    exact = isinstance(domain, Levels) and domain.exact
    texts = [side.value for side in sides if isinstance(side, Constant) and isinstance(side.value, str)]
    classes = {text if exact else level_text(text): text for text in texts}
    among = tuple(classes.values())
    match_levels(among, exact=exact)
    return Reading(names[0].column, TEXT, None, among, exact, place=part.place)


def match_levels(among: tuple[str, ...], *, exact: bool) -> Levels:
    """Return levels whose first ones are these texts; a domain has two or more, so that another one may follow."""
    other = "b" if among == ("a",) else "a"
    return Levels(*among, *([other] if len(among) == 1 else []), missing="drop", exact=exact)


def _check_size(part: Arithmetic) -> None:
    low, high = _size(part)
    if low < -_EXPONENT or high > _EXPONENT:
        allowed = "less multiplied and divided: the result may be too large or too small to compute with"
        raise FormulaError(part.place, part.sign, allowed, "fewer columns in one product")


def _size(part: FormulaPart) -> tuple[float, float]:
    """Return the powers of ten between which a number is in size, unless it is 0 or missing."""
    if isinstance(part, Constant) and isinstance(part.value, float):
        return (math.log10(abs(part.value or 1.0)),) * 2
    if isinstance(part, DatePart):
        return _SIZES[part.function]
    if not isinstance(part, Arithmetic):
        return math.log10(LEAST), math.log10(GREATEST)
    (low, high), *others = map(_size, part.numbers)
    for least, greatest in others:
        match part.sign:
            case "*":
                low, high = low + least, high + greatest
            case "/":
                low, high = low - greatest, high - least
            case _:
                low, high = min(low, least) - _DIGITS, max(high, greatest) + math.log10(2)
    return low, high


def _word(part: FormulaPart) -> str:
    match part:
        case ColumnName() | Reading():
            return part.column
        case Constant():
            return str(part.value)
        case Arithmetic() | Comparison():
            return part.sign
        case DatePart():
            return part.function
        case Junction():
            return part.word
        case Negation():
            return "not"
    return "in"
