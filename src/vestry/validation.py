"""The one check for parameters: a number, a whole number, a choice, a truth value. A refusal says what to write.

A truth value is not a number here, though Python takes True for 1; a whole number may be NumPy's. Every refusal is an
`InvalidParameter`: what was given, what is allowed, and what to write instead.
"""

from __future__ import annotations

import math
import operator
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import chain
from numbers import Integral, Real
from pathlib import Path
from typing import Any

from vestry.errors import InvalidParameter


def is_number(value: object) -> bool:
    """Tell whether a value is a number that a double can be, finite, and not a truth value."""
    try:
        return not isinstance(value, bool) and isinstance(value, Real) and math.isfinite(value)
    except OverflowError:
        return False


def is_whole(value: object) -> bool:
    """Tell whether a value is a whole number, and not a truth value."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def require_whole(name: str, value: Any, instead: str = "", *, least: int = 1, most: int | None = None) -> int:
    """Return a whole number between two that are allowed themselves, or refuse."""
    if is_whole(value) and value >= least and (most is None or value <= most):
        return int(value)
    allowed = f"a whole number of at least {least}" if most is None else f"a whole number from {least} to {most}"
    raise InvalidParameter(name, value, allowed, instead or f"for example {name}={least}")


def require_number(
    name: str,
    value: Any,
    instead: str = "",
    *,
    above: float | None = None,
    least: float | None = None,
    below: float | None = None,
    most: float | None = None,
) -> float:
    """Return a finite number inside the limits that are given, or refuse. `least` and `most` are allowed themselves."""
    limits = [("above", above), ("at least", least), ("below", below), ("at most", most)]
    given = [(words, limit) for words, limit in limits if limit is not None]
    # The double that is kept is compared: a fraction near a limit may be rounded to it.
    if is_number(value) and all(_INSIDE[words](float(value), limit) for words, limit in given):
        return float(value)
    allowed = "a number " + " and ".join(f"{words} {limit:g}" for words, limit in given) if given else "a finite number"
    if len(given) == 1:
        allowed += " and finite"
    raise InvalidParameter(name, value, allowed, instead or f"another {name}")


def require_moderate(name: str, value: Any, instead: str = "") -> float:
    """Return a finite number that is 0 or from 1e-30 to 1e30 in size, or refuse what no calibration can use."""
    number = require_number(name, value, instead)
    if number == 0 or 1 / _GREATEST <= abs(number) <= _GREATEST:
        return number
    raise InvalidParameter(name, value, f"0, or from {1 / _GREATEST:g} to {_GREATEST:g} in size", instead)


_GREATEST = 1e30
_INSIDE = {"above": operator.gt, "at least": operator.ge, "below": operator.lt, "at most": operator.le}


@contextmanager
def shown_as_given(**values: Any) -> Iterator[None]:
    """Let messages show arguments as they were given, though they are turned into plain tuples inside.

    A column of a table is then shown by its type: as a tuple of its own it would be quoted.
    """
    try:
        yield
    except InvalidParameter as error:
        given = values.get(error.name, error.given)
        raise InvalidParameter(error.name, given, error.allowed, error.instead) from None


def require_list(name: str, value: Any, instead: str = "") -> tuple[Any, ...]:
    """Return what stands in a list, or refuse what is none."""
    if isinstance(value, Iterable) and not isinstance(value, (str, bytes)):
        return tuple(value)
    raise InvalidParameter(name, value, "a list", instead or f"for example {name}=(1, 2)")


def require_groups(name: str, value: Any, instead: str = "") -> tuple[Any, ...]:
    """Return what stands in a list of lists, one after the other, or refuse what is none."""
    groups = [require_list(name, group, instead) for group in require_list(name, value, instead)]
    return tuple(chain.from_iterable(groups))


def require_numbers(name: str, value: Any, instead: str = "") -> tuple[float, ...]:
    """Return a list of numbers as plain ones, or refuse it as a whole: none of them is quoted alone."""
    try:
        return tuple(float(number) for number in require_list(name, value, instead))
    except (TypeError, ValueError, OverflowError) as error:
        if isinstance(error, InvalidParameter):
            raise
        raise InvalidParameter(name, value, "a list of numbers", instead or f"for example {name}=(1, 2)") from None


def require_path(name: str, value: Any, instead: str = "") -> Path:
    """Return the path of a file, or refuse what is none."""
    if isinstance(value, (str, os.PathLike)):
        path = os.fspath(value)
        if isinstance(path, str):
            return Path(path)
    raise InvalidParameter(name, value, "a path", instead or f'for example {name}="file"')


def require_choice(name: str, value: Any, choices: Iterable[str], instead: str = "") -> str:
    """Return one of the names there are, or refuse with all of them."""
    known = tuple(choices)
    if isinstance(value, str) and value in known:
        return value
    raise InvalidParameter(name, value, "one of " + ", ".join(known), instead or f'for example "{known[0]}"')


def require_truth(name: str, value: Any, instead: str = "") -> bool:
    """Return true or false, or refuse everything else, also 0 and 1."""
    if isinstance(value, bool):
        return value
    raise InvalidParameter(name, value, "true or false", instead or f"{name}=False")
