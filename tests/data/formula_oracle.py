"""Expressions of derived columns in plain Python: drawn at random, written as text, and computed value by value.

It shares no code with Vestry. An expression is a tuple: what it is, and its parts. Values are read by the oracle of
meanings. Missing is None, and conditions are those of SQL.
"""

from __future__ import annotations

import math
from datetime import date, timedelta
from decimal import Decimal
from random import Random

from data import oracle_meaning as oracle

NUMBERS, DATES, TEXTS, TRUTHS = ("n1", 'n "2"', "n3"), ("d1", "d2", "stamp"), ("w1", "w;2'"), ("t1", "t2")
FORMAT = "%d.%m.%Y"  # of the column stamp
LITERALS = [0.0, 1.0, 2.0, 0.1, 0.2, 0.30000000000000004, 365.25, 3.0, 1e-30, 1e30, 12.0, 2024.0]
WORDS = ["a", "b", "007", "1", "1.50", "true", "é", "it's", "2024-01-31", "13:45", 'q"q', "); drop table x; --"]
DAYS = [date(2024, 1, 31), date(2020, 2, 29), date(1, 1, 1), date(9999, 12, 31), date(2000, 3, 1)]


def number(rng: Random, depth: int) -> tuple:
    if depth == 0 or rng.random() < 0.2:
        return ("column", rng.choice(NUMBERS)) if rng.random() < 0.6 else ("number", rng.choice(LITERALS))
    if rng.random() < 0.3:
        name = rng.choice(["year", "month", "days"])
        return (name, day(rng), day(rng)) if name == "days" else (name, day(rng))
    if rng.random() < 0.15:
        return ("minus", number(rng, depth - 1))
    return (rng.choice("+-*/"), number(rng, depth - 1), number(rng, depth - 1))


def day(rng: Random) -> tuple:
    return ("column", rng.choice(DATES)) if rng.random() < 0.7 else ("date", rng.choice(DAYS))


def truth(rng: Random, depth: int) -> tuple:
    if depth == 0:
        return ("column", rng.choice(TRUTHS)) if rng.random() < 0.8 else ("truth", rng.random() < 0.5)
    kind = rng.choice(["and", "or", "not", "compare", "compare", "dates", "text", "in", "in-text", "truths"])
    if kind in ("and", "or"):
        return (kind, truth(rng, depth - 1), truth(rng, depth - 1))
    if kind == "not":
        return (kind, truth(rng, depth - 1))
    sign = rng.choice(["=", "!=", "<", "<=", ">", ">="])
    match kind:
        case "compare":
            return (sign, "number", number(rng, depth - 1), number(rng, depth - 1))
        case "dates":
            return (sign, "date", day(rng), day(rng))
        case "truths":
            return (rng.choice(["=", "!="]), "truth", truth(rng, depth - 1), truth(rng, depth - 1))
        case "in":
            return ("in", number(rng, depth - 1), tuple(rng.sample(LITERALS, 3)))
        case "in-text":
            return ("in-text", rng.choice(TEXTS), tuple(rng.sample(WORDS, rng.choice([1, 3]))))
    return ("text", rng.choice(["=", "!="]), rng.choice(TEXTS), rng.choice(WORDS))


def columns_of(tree: object) -> set[str]:
    """Return the columns that an expression names."""
    if not isinstance(tree, tuple) or not tree:
        return set()
    if tree[0] == "column":
        return {tree[1]}
    named = {tree[1]} if tree[0] == "in-text" else {tree[2]} if tree[0] == "text" else set()
    return named.union(*map(columns_of, tree))


# ------------------------------------------------------------------ as text, with brackets only where SQL needs them

TIGHT = {"or": 1, "and": 2, "not": 3, "in": 4, "text": 4, "in-text": 4, "+": 5, "-": 5, "*": 6, "/": 6, "minus": 7}
TIGHT |= dict.fromkeys(["=", "!=", "<", "<=", ">", ">="], 4)


def written(tree: tuple, rng: Random, least: int = 0) -> str:
    """Write an expression; one that binds less than `least` needs brackets."""
    own = TIGHT.get(tree[0], 8)
    text = _bare(tree, rng, own)
    return f"({text})" if own < least or rng.random() < 0.05 else text


def _bare(tree: tuple, rng: Random, own: int) -> str:
    gap = rng.choice([" ", "  "])
    match tree:
        case ("column", name):
            return name if name.isidentifier() else '"' + name.replace('"', '""') + '"'
        case ("number", value):
            return repr(value) if rng.random() < 0.5 else f"{Decimal(repr(value)):f}"
        case ("date", value):
            return f"{rng.choice(['date', 'DATE'])} '{value.isoformat()}'"
        case ("truth", value):
            return str(value).lower() if rng.random() < 0.5 else str(value).upper()
        case ("year" | "month" | "days", *dates):
            return f"{tree[0]}({', '.join(written(each, rng) for each in dates)})"
        case ("minus", inner):
            return "-" + written(inner, rng, own)
        case ("not", inner):
            return f"{rng.choice(['not', 'NOT'])} {written(inner, rng, own)}"
        case ("and" | "or", one, other):
            return f"{written(one, rng, own)} {rng.choice([tree[0], tree[0].upper()])} {written(other, rng, own)}"
        case ("in", item, values):
            return f"{written(item, rng, own + 1)} in ({', '.join(map(repr, values))})"
        case ("in-text", name, words):
            return f"{_bare(('column', name), rng, 8)} IN ({', '.join(map(_quoted, words))})"
        case ("text", sign, name, word):
            sides = [_bare(("column", name), rng, 8), _quoted(word)]
            rng.shuffle(sides)
            return f"{sides[0]}{gap}{sign}{gap}{sides[1]}"
        case (sign, _, one, other):
            return f"{written(one, rng, own + 1)}{gap}{sign}{gap}{written(other, rng, own + 1)}"
    sign, one, other = tree  # of one strength: from the left
    return f"{written(one, rng, own)}{gap}{sign}{gap}{written(other, rng, own + 1)}"


def _quoted(word: str) -> str:
    return "'" + word.replace("'", "''") + "'"


# ------------------------------------------------------------------ as a value


def compute(tree: tuple, row: dict, kind: str) -> float | bool | None:
    """Return what an expression of a kind is for one record."""
    match tree:
        case ("column", name):
            return _read(row[name], kind, FORMAT if name == "stamp" else None)
        case ("number" | "truth", value):
            return value
        case ("date", value):
            return float((value - date.min).days)
        case ("year" | "month" | "days", *dates):
            return _date_part(tree[0], [compute(each, row, "date") for each in dates])
        case ("minus", inner):
            found = compute(inner, row, "number")
            return None if found is None else -found
        case ("not", inner):
            found = compute(inner, row, "truth")
            return None if found is None else not found
        case ("and" | "or", one, other):
            decisive = tree[0] == "or"
            sides = [compute(each, row, "truth") for each in (one, other)]
            return decisive if decisive in sides else None if None in sides else not decisive
        case ("in", item, values):
            found = compute(item, row, "number")
            return None if found is None else found in values
        case ("in-text", name, words):
            return _matches(row[name], words)
        case ("text", sign, name, word):
            same = _matches(row[name], (word,))
            return same if same is None or sign == "=" else not same
        case (sign, of, one, other):
            sides = [compute(each, row, of) for each in (one, other)]
            return None if None in sides else _compare(sign, *sides)
    sign, one, other = tree
    sides = [compute(each, row, "number") for each in (one, other)]
    return None if None in sides else _arithmetic(sign, *sides)


def _read(value: object, kind: str, form: str | None) -> float | bool | None:
    if kind == "truth":
        return {"1": True, "0": False}.get(oracle.level(value) or "")
    if kind == "date":
        return oracle.day(value, date.min, date.max, form)
    found = oracle.number(value)
    if found is None or abs(found) > 1e30:
        return None
    return 0.0 if abs(found) < 1e-30 else found


def _date_part(name: str, days: list[float | None]) -> float | None:
    if None in days:
        return None
    if name == "days":
        return days[0] - days[1]
    found = date.min + timedelta(days=days[0])
    return float(found.year if name == "year" else found.month)


def _matches(value: object, words: tuple[str, ...]) -> bool | None:
    absent = value is None or (isinstance(value, float) and math.isnan(value))
    if absent or (isinstance(value, (str, bytes)) and oracle.text_of(value) is None):
        return None
    found = oracle.level(value)
    return found is not None and found in {oracle.level(word) for word in words}


def _compare(sign: str, one: float, other: float) -> bool:
    order = (one > other) - (one < other)
    wanted = {"=": (0,), "!=": (-1, 1), "<": (-1,), "<=": (-1, 0), ">": (1,), ">=": (0, 1)}
    return order in wanted[sign]


def _arithmetic(sign: str, one: float, other: float) -> float | None:
    if sign == "/":
        return None if other == 0 else one / other
    return {"+": one + other, "-": one - other, "*": one * other}[sign]
