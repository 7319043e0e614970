"""Formulas of regressions: `readmitted[yes] ~ age + ward + age:ward`.

The right side is read by formulaic's parser and by nothing else of it: no text is evaluated. It may hold columns, `+`,
`:`, `*` and brackets; a name with odd characters stands between backticks. The left side is the outcome, with the level
that counts as a success in square brackets.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from vestry.errors import InvalidParameter, MissingExtra
from vestry.schema.domain import Domain, Levels

_EXAMPLE = '"readmitted[yes] ~ age + ward + age:ward"'
_LEFT = re.compile(r"\s*(?:`(?P<quoted>[^`]+)`|(?P<name>[^\s`~\[\]]+))\s*(?:\[(?P<level>[^\[\]]+)\])?\s*")
_OPERATORS, _BRACKETS, _LONGEST = frozenset("+:*"), frozenset("()"), 1000


@dataclass(frozen=True)
class ModelFormula:
    """What a formula says.

    Attributes
    ----------
    outcome, success
        The column to explain, and the level that counts as a success, if one is named.
    terms
        What it is explained by: columns, and products of several.
    """

    outcome: str
    success: str | None
    terms: tuple[tuple[str, ...], ...]

    @property
    def columns(self) -> tuple[str, ...]:
        """The predictors, each once, in order."""
        return tuple(dict.fromkeys(column for term in self.terms for column in term))

    @property
    def interactions(self) -> tuple[tuple[str, ...], ...]:
        """The terms of several columns."""
        return tuple(term for term in self.terms if len(term) > 1)


class FromFormula:
    """A regression that may be asked for by a formula."""

    name: ClassVar[str]

    @classmethod
    def from_formula(cls, formula: str, **keys: Any) -> Self:
        """Return the regression of a formula, `outcome ~ a + b`, or `outcome[level] ~ a + b`; `keys` are its others."""
        return cls(**cls.formula_keys(formula), **keys)

    @classmethod
    def formula_keys(cls, formula: Any, domains: Mapping[str, Domain] | None = None) -> dict[str, Any]:
        """Return the keys that a formula stands for; of levels that are not text, `domains` knows the one named."""
        parts, fields = parse_formula(formula), cls.__dataclass_fields__  # type: ignore[attr-defined]
        keys: dict[str, Any] = {"outcome": parts.outcome, "predictors": parts.columns}
        for term in parts.interactions:
            if "interactions" not in fields:
                declared = f'{"_".join(term)} = {{ from = "{" * ".join(term)}", interval = [0, 100] }}'
                instead = f"a derived column for the product, {declared}"
                raise InvalidParameter("formula", formula, f"a sum of columns for {cls.name}", instead)
            if any((column,) not in parts.terms for column in term):
                allowed = f"one that names the columns of {':'.join(term)} by themselves, too"
                raise InvalidParameter("formula", formula, allowed, "*".join(term))
            keys["interactions"] = (*keys.get("interactions", ()), ":".join(term))
        if parts.success is None:
            return keys
        if "success" not in fields:
            raise InvalidParameter("formula", formula, f"an outcome without a level for {cls.name}", parts.outcome)
        outcome = (domains or {}).get(parts.outcome)
        levels = dict(zip(outcome.names, outcome.values, strict=False)) if isinstance(outcome, Levels) else {}
        return {**keys, "success": levels.get(parts.success, parts.success)}


def parse_formula(text: Any) -> ModelFormula:
    """Read a formula, or refuse it with what to write."""
    if not isinstance(text, str) or len(text) > _LONGEST or text.count("~") != 1:
        raise _refusal(text, "an outcome, ~ and predictors")
    left, right = text.split("~")
    match = _LEFT.fullmatch(left)
    if match is None:
        raise _refusal(text, "a column before ~, with its level in square brackets if it needs one")
    outcome = (match["quoted"] or match["name"]).strip()
    terms = tuple(dict.fromkeys(_terms(text, right)))
    formula = ModelFormula(outcome, match["level"] and match["level"].strip(), terms)
    if not terms or outcome in formula.columns:
        raise _refusal(text, "one with predictors other than the outcome")
    return formula


def _terms(text: str, right: str) -> Iterator[tuple[str, ...]]:
    try:
        from formulaic.errors import FormulaSyntaxError
        from formulaic.parser import DefaultFormulaParser
        from formulaic.parser.types import Token
    except ModuleNotFoundError:
        raise MissingExtra("a formula", "glm") from None
    parser = DefaultFormulaParser(include_intercept=False)
    try:
        for token in parser.get_tokens(right):
            _check_token(text, token, Token.Kind)
        terms = list(parser.get_terms(right))
    except (FormulaSyntaxError, SyntaxError, RecursionError):
        raise _refusal(text, "columns with + between them, a:b for products, a*b for both") from None
    for term in terms:
        yield tuple(dict.fromkeys(factor.expr for factor in term.factors))


def _check_token(text: str, token: Any, kinds: Any) -> None:
    """Refuse what is neither a column nor one of the few signs."""
    allowed = {kinds.OPERATOR: _OPERATORS, kinds.CONTEXT: _BRACKETS}.get(token.kind)
    if token.kind is kinds.NAME or (allowed is not None and token.token in allowed):
        return
    if token.kind is kinds.VALUE:
        raise _refusal(text, "one without numbers (there is always an intercept)")
    raise _refusal(text, f"columns joined by +, : and * (no {token.token!r}; a derived column may compute it)")


def _refusal(text: Any, allowed: str) -> InvalidParameter:
    return InvalidParameter("formula", text, allowed, f"formula = {_EXAMPLE}")
