"""What is asked or promised: five definitions of privacy, each with its neighbours relation.

A guarantee that is asked may leave its neighbours open (`None`): it takes the relation of the table or ledger it
meets. A guarantee that is promised always states it. Two relations are never mixed.
"""

from __future__ import annotations

import math
from abc import ABC
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from decimal import Decimal, InvalidOperation
from typing import Any, ClassVar, Self

from vestry.errors import InvalidParameter
from vestry.privacy.neighbours import Neighbours
from vestry.validation import require_choice, require_number


@dataclass(frozen=True)
class Guarantee(ABC):
    """One of `PureDP`, `ApproxDP`, `RenyiDP`, `ZCDP`, `GaussianDP`; `amount` names the key that is spent."""

    neighbours: Neighbours | None = field(default=None, kw_only=True)
    amount: ClassVar[str]

    def __post_init__(self) -> None:
        for key in self.names():
            object.__setattr__(self, key, number(key, getattr(self, key)))
        object.__setattr__(self, "neighbours", Neighbours.bind(None, self.neighbours))

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """Return the keys by which this definition is written, in order."""
        return tuple(f.name for f in fields(cls) if f.name != "neighbours")

    @staticmethod
    def parse(given: object, *, neighbours: Neighbours | str | None = None) -> Guarantee:
        """Read `epsilon=1`, `epsilon=1,delta=1e-6`, `order=10,epsilon=0.1`, `rho=0.5` or `mu=1`, as text or mapping.

        Text is read as decimals of at most 15 significant digits, so that no digit is lost.
        """
        if isinstance(given, Guarantee):
            return given.under(neighbours)
        values = dict(given) if isinstance(given, Mapping) else _pairs(given)
        for definition in (PureDP, ApproxDP, RenyiDP, ZCDP, GaussianDP):
            if set(values) == set(definition.names()):
                return definition(**values).under(neighbours)
        for key in values:
            require_choice("a guarantee's key", key, _RULES, _WAYS)
        raise InvalidParameter("a guarantee", given, "a known combination of keys", _WAYS)

    @property
    def value(self) -> float:
        """The amount that is spent: epsilon, rho or mu."""
        return float(getattr(self, self.amount))

    def at(self, value: float) -> Self:
        """Return the same kind of guarantee, at the same delta or order, with another amount."""
        changes: dict[str, Any] = {self.amount: value}
        return replace(self, **changes)

    def under(self, neighbours: Neighbours | str | None) -> Self:
        """Bind the neighbours relation, if one is given; a guarantee that already states another one is refused."""
        return replace(self, neighbours=Neighbours.bind(self.neighbours, neighbours))

    def to_dict(self) -> dict[str, Any]:
        """Return the keys and numbers, and the neighbours where they are stated."""
        values: dict[str, Any] = {key: getattr(self, key) for key in self.names()}
        if self.neighbours is not None:
            values["neighbours"] = str(self.neighbours)
        return values

    def __str__(self) -> str:
        return ",".join(f"{key}={decimal(getattr(self, key))}" for key in self.names())


@dataclass(frozen=True)
class PureDP(Guarantee):
    """Every output's probability changes by at most a factor e^epsilon [DworkMNS06]."""

    epsilon: float
    amount: ClassVar[str] = "epsilon"


@dataclass(frozen=True)
class ApproxDP(Guarantee):
    """Every event's probability changes by at most a factor e^epsilon, up to delta [DworkKMMN06]."""

    epsilon: float
    delta: float
    amount: ClassVar[str] = "epsilon"


@dataclass(frozen=True)
class RenyiDP(Guarantee):
    """The Renyi divergence of this order is at most epsilon [Mironov17]."""

    order: float
    epsilon: float
    amount: ClassVar[str] = "epsilon"


@dataclass(frozen=True)
class ZCDP(Guarantee):
    """The Renyi divergence of every order a > 1 is at most rho a [BunS16]."""

    rho: float
    amount: ClassVar[str] = "rho"


@dataclass(frozen=True)
class GaussianDP(Guarantee):
    """Telling neighbours apart is at least as hard as N(0, 1) from N(mu, 1) [DongRS22]."""

    mu: float
    amount: ClassVar[str] = "mu"


def number(key: str, given: object) -> float:
    """Return one number of a guarantee as a float, or refuse what its key does not allow; text is for `parse` alone."""
    above, below, instead = _RULES[key]
    return require_number(key, given, instead, above=above, below=below)


def read_decimal(key: str, text: str) -> float:
    """Read a decimal of at most 15 significant digits; a float then holds every one of them."""
    try:
        value = Decimal(text)
    except InvalidOperation:
        raise InvalidParameter(key, text, "a decimal number", _RULES[key][2]) from None
    digits = "".join(map(str, value.as_tuple().digits)).strip("0")
    if len(digits) > 15:
        raise InvalidParameter(key, text, "a decimal of at most 15 significant digits", _RULES[key][2])
    return math.nan if value.is_nan() else float(value)


def decimal(value: float) -> str:
    """Write a float in the shortest way that reads back the same: 1, 0.3, 1e-6."""
    text = repr(float(value))
    mantissa, _, exponent = text.partition("e")
    mantissa = mantissa.removesuffix(".0")
    return f"{mantissa}e{int(exponent)}" if exponent else mantissa


def _pairs(given: object) -> dict[str, float]:
    if not isinstance(given, str):
        raise InvalidParameter("a guarantee", given, "text or a guarantee", _WAYS)
    values: dict[str, float] = {}
    for part in given.split(","):
        key, equals, text = (piece.strip() for piece in part.partition("="))
        if not equals or key in values:
            raise InvalidParameter("a guarantee", given, "key=number pairs, each key once", _WAYS)
        require_choice("a guarantee's key", key, _RULES, _WAYS)
        values[key] = read_decimal(key, text)
    return values


_WAYS = "epsilon=1, or epsilon=1,delta=1e-6, or order=10,epsilon=0.1, or rho=0.5, or mu=1"
# Above which number, below which, and what to write.
_RULES: dict[str, tuple[float, float | None, str]] = {
    "epsilon": (0.0, None, "for example epsilon=1"),
    "delta": (0.0, 1.0, "for example delta=1e-6, or omit delta for pure privacy"),
    "order": (1.0, None, "for example order=10"),
    "rho": (0.0, None, "for example rho=0.5"),
    "mu": (0.0, None, "for example mu=1"),
}
