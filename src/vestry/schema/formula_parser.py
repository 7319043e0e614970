"""Reads the text of a derived column: one pass by recursive descent, with the precedence of SQL.

From loosest to tightest: or; and; not; = != < <= > >= in; + and -; * and /; a minus before a number. Words are the same
in any case. A column is written as it is called, or in double quotes; a text in single quotes; either mark inside is
written twice. A fault says at which character, and what to write.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from vestry.errors import FormulaError
from vestry.schema.formula import (
    FUNCTIONS,
    Arithmetic,
    ColumnName,
    Comparison,
    Constant,
    DatePart,
    FormulaPart,
    Junction,
    Membership,
    Negation,
    walk,
)

LONGEST = 1000
# How deep brackets, nots and minus signs may go, and how many signs of arithmetic there may be.
_DEEPEST, _MOST = 32, 64
# Between these in size, or 0, are the numbers of an expression: see `vestry.schema.derivation`.
LEAST, GREATEST = 1e-30, 1e30

_TOKEN = re.compile(
    r"""(?P<blank>\s+)
      | (?P<number>(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,4})?(?![\w.]))
      | (?P<word>[^\W\d]\w*)
      | (?P<column>"(?:[^"]|"")+")
      | (?P<text>'(?:[^']|'')*')
      | (?P<sign><=|>=|!=|[<>=+*/(),-])
    """,
    re.VERBOSE,
)
_WORDS = ("and", "or", "not", "in", "true", "false")
_COMPARED = ("=", "!=", "<", "<=", ">", ">=")
# What is written elsewhere, and what to write here.
_HINTS = {
    "==": "=",
    "<>": "!=",
    "&&": "and",
    "||": "or",
    "&": "and",
    "|": "or",
    "!": "not, or != for unequal",
    "[": "a list in round brackets, for example ward in ('A', 'B'), or an odd column in double quotes, \"odd name\"",
    "'": "the closing quotation mark of the text; one inside it is written twice, 'it''s'",
    '"': "the closing quotation mark of the column's name; one inside it is written twice",
    ".": 'a column whose name has a point in double quotes, "odd.name", and a decimal as 0.5',
    "`": 'a column\'s name in double quotes, "odd name"',
}
_DATES = {1: "a function with one date", 2: "a function with two dates"}
_VALUE = "a column, a number, a text in single quotes, or a bracket"


@dataclass(frozen=True)
class Token:
    """A word, mark or value of a text: what kind it is, what it says, and its first character, counted from 1."""

    kind: str
    text: str
    place: int


@dataclass(frozen=True)
class Formula:
    """An expression that was read.

    Attributes
    ----------
    text
        The expression with one blank between its words: the same question has the same text.
    root
        The tree.
    columns
        The columns of the table that it reads, each once.
    """

    text: str
    root: FormulaPart
    columns: tuple[str, ...]


def parse(text: object) -> Formula:
    """Read an expression, or raise a fault that names a character and what to write."""
    if not isinstance(text, str) or not text.strip() or not text.isprintable() or len(text) > LONGEST:
        shown = text[:20] if isinstance(text, str) else type(text).__name__
        raise FormulaError(1, shown, f"one line of text of 1 to {LONGEST} characters", 'for example "age >= 65"')
    return _formula(text)


@cache
def _formula(text: str) -> Formula:
    tokens = _tokens(text)
    root = _Parser(tokens).whole()
    columns = tuple(dict.fromkeys(part.column for part in walk(root) if isinstance(part, ColumnName)))
    if not columns:
        raise FormulaError(1, text[:20], "an expression that names a column", 'for example "age >= 65"')
    return Formula(" ".join(token.text for token in tokens[:-1]), root, columns)


def _tokens(text: str) -> list[Token]:
    """Return the words of a text, in small letters where case does not count, and a mark of its end."""
    tokens, place = [], 0
    while place < len(text):
        match = _TOKEN.match(text, place)
        if match is None or text[place : place + 2] in _HINTS:
            raise _odd(text, place)
        kind, word = str(match.lastgroup), match[0]
        if kind == "word" and word.lower() in _WORDS:
            kind, word = "sign", word.lower()
        if kind != "blank":
            tokens.append(Token(kind, word, place + 1))
        place = match.end()
    return [*tokens, Token("end", "the end", len(text) + 1)]


def _odd(text: str, place: int) -> FormulaError:
    digits = re.match(r"[0-9.]+\w*[0-9.\w]*", text[place:])
    if digits is not None and text[place] != ".":
        return FormulaError(place + 1, digits[0], "a number or a name", "digits alone, and a name in double quotes")
    two, one = text[place : place + 2], text[place]
    mark = two if two in _HINTS else one
    return FormulaError(place + 1, mark, "a mark that is known here", _HINTS.get(mark, _VALUE))


@dataclass
class _Parser:
    tokens: list[Token]
    at: int = 0
    depth: int = 0
    signs: int = 0

    @property
    def token(self) -> Token:
        return self.tokens[self.at]

    def take(self, *texts: str) -> Token | None:
        """Return the next sign or word if it is one of these, and go on."""
        token = self.token
        if token.kind != "sign" or token.text not in texts:
            return None
        self.at += 1
        return token

    def need(self, text: str, instead: str) -> None:
        if self.take(text) is None:
            raise self.fault(f"{text} here", instead)

    def fault(self, allowed: str, instead: str) -> FormulaError:
        return FormulaError(self.token.place, self.token.text, allowed, instead)

    def whole(self) -> FormulaPart:
        root = self.either()
        if self.token.kind == "end":
            return root
        if self.token.text == "not" and self.tokens[self.at + 1].text == "in":
            raise self.fault("not before the column", "not ward in ('A', 'B')")
        if self.token.text in (*_COMPARED, "in"):
            raise self.fault("compared once", "the two comparisons with and between them")
        raise self.fault("and, or, a comparison or a sign of arithmetic", "one of them, or a name in double quotes")

    def either(self) -> FormulaPart:
        return self.joined("or", lambda: self.joined("and", self.condition))

    def joined(self, word: str, below: Callable[[], FormulaPart]) -> FormulaPart:
        place, conditions = self.token.place, [below()]
        while self.take(word):
            conditions.append(below())
        return conditions[0] if len(conditions) == 1 else Junction(word, tuple(conditions), place=place)

    def condition(self) -> FormulaPart:
        negated = self.take("not")
        if negated is None:
            return self.comparison()
        return self.deeper(lambda: Negation(self.condition(), place=negated.place))

    def comparison(self) -> FormulaPart:
        left = self.sum()
        if (sign := self.take(*_COMPARED)) is not None:
            return Comparison(sign.text, left, self.sum(), place=sign.place)
        if (word := self.take("in")) is not None:
            return Membership(left, self.list(), place=word.place)
        return left

    def list(self) -> tuple[Constant, ...]:
        instead = "a list of numbers or texts, for example ('A', 'B')"
        self.need("(", instead)
        items = [self.item(instead)]
        while self.take(","):
            items.append(self.item(instead))
        self.need(")", "a comma between two items, and ) behind the last")
        return tuple(items)

    def item(self, instead: str) -> Constant:
        place, minus, value = self.token.place, self.take("-"), self.value()
        if not isinstance(value, Constant) or (minus and not isinstance(value.value, float)):
            raise FormulaError(
                place, self.tokens[self.at - 1].text, "a number, a text, a date or a truth value", instead
            )
        return Constant(-value.value, place=place) if minus and isinstance(value.value, float) else value

    def sum(self) -> FormulaPart:
        return self.chain(("+", "-"), lambda: self.chain(("*", "/"), self.signed))

    def chain(self, signs: tuple[str, ...], below: Callable[[], FormulaPart]) -> FormulaPart:
        left = below()
        while (sign := self.take(*signs)) is not None:
            self.signs += 1
            if self.signs > _MOST:
                raise FormulaError(
                    sign.place, sign.text, f"at most {_MOST} signs of arithmetic", "a shorter expression"
                )
            left = Arithmetic(sign.text, (left, below()), place=sign.place)
        return left

    def signed(self) -> FormulaPart:
        minus = self.take("-")
        if minus is None:
            return self.value()
        return self.deeper(lambda: Arithmetic("-", (self.signed(),), place=minus.place))

    def value(self) -> FormulaPart:
        token = self.token
        if (opened := self.take("(")) is not None:
            inner = self.deeper(self.either)
            self.need(")", f"the bracket that closes the one at character {opened.place}")
            return inner
        if (truth := self.take("true", "false")) is not None:
            return Constant(truth.text == "true", place=truth.place)
        if token.kind in ("sign", "end"):
            raise self.fault("a value", _VALUE)
        self.at += 1
        match token.kind:
            case "number":
                return Constant(_number(token), place=token.place)
            case "text":
                return Constant(token.text[1:-1].replace("''", "'"), place=token.place)
            case "column":
                return ColumnName(token.text[1:-1].replace('""', '"'), place=token.place)
            case _:
                return self.named(token)

    def named(self, token: Token) -> FormulaPart:
        """Read a bare word: a function before a bracket, a date before a text, else a column."""
        word = token.text.lower()
        if word == "date" and self.token.kind == "text":
            day = _day(self.token)
            self.at += 1
            return Constant(day, place=token.place)
        if self.token.text != "(" or self.token.kind != "sign":
            return ColumnName(token.text, place=token.place)
        if word not in FUNCTIONS:
            allowed = f"one of {', '.join(FUNCTIONS)} before a bracket"
            raise FormulaError(token.place, token.text, allowed, "another function, or a sign between them")
        return self.function(token, word)

    def function(self, token: Token, word: str) -> FormulaPart:
        instead = {1: f"{word}(visit)", 2: f"{word}(visit, birth)"}[FUNCTIONS[word]]
        self.need("(", instead)
        dates = [self.deeper(self.sum)]
        while self.take(","):
            dates.append(self.deeper(self.sum))
        self.need(")", instead)
        if len(dates) != FUNCTIONS[word]:
            raise FormulaError(token.place, token.text, _DATES[FUNCTIONS[word]], instead)
        return DatePart(word, tuple(dates), place=token.place)

    def deeper(self, below: Callable[[], FormulaPart]) -> FormulaPart:
        self.depth += 1
        if self.depth > _DEEPEST:
            raise self.fault(f"at most {_DEEPEST} brackets, nots and minus signs deep", "a simpler expression")
        inner = below()
        self.depth -= 1
        return inner


def _number(token: Token) -> float:
    value = float(token.text)
    if value and not LEAST <= value <= GREATEST:
        raise FormulaError(token.place, token.text, f"0, or from {LEAST:g} to {GREATEST:g} in size", "another unit")
    return value


def _day(token: Token) -> datetime.date:
    text = token.text[1:-1]
    try:
        if re.fullmatch("[0-9]{4}-[0-9]{2}-[0-9]{2}", text):
            return datetime.date.fromisoformat(text)
    except ValueError:
        pass
    raise FormulaError(token.place, token.text, "a date that exists", "for example date '2024-01-31'")
