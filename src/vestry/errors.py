"""Every exception and warning of Vestry, with its facts as attributes.

A message is one or two sentences: what was asked, what is allowed, what to write instead. Messages may depend on
declarations and parameters, never on a private value.
"""

from __future__ import annotations

import os
import unicodedata
from numbers import Number
from pathlib import Path
from typing import Any


class VestryError(Exception):
    """The root: everything Vestry raises on purpose. A message holds no control characters, whatever it quotes."""

    exit_code = 2

    def __init__(self, message: str = "") -> None:
        super().__init__(printable(message))


class InvalidParameter(VestryError, ValueError):  # noqa: N818 - the name is the fact
    """A parameter is outside what is allowed."""

    def __init__(self, name: str, given: Any, allowed: str, instead: str) -> None:
        super().__init__(f"{name} must be {allowed}, not {show(given)}; write {instead}.")
        self.name, self.given, self.allowed, self.instead = name, given, allowed, instead


class FormulaError(VestryError, ValueError):
    """The expression of a derived column cannot be read; `place` counts its characters from 1."""

    def __init__(self, place: int, token: str, allowed: str, instead: str) -> None:
        super().__init__(f"at character {place} of from there must be {allowed}, not {show(token)}; write {instead}.")
        self.place, self.token, self.allowed, self.instead = place, token, allowed, instead


class ConversionError(VestryError, ValueError):
    """No theorem leads from one privacy definition to the other."""

    def __init__(self, source: str, target: str, reason: str) -> None:
        super().__init__(f"{source} cannot be turned into {target}: {reason}.")
        self.source, self.target, self.reason = source, target, reason


class GuaranteeUnreachable(VestryError, ValueError):  # noqa: N818
    """No value of the parameter meets the guarantee."""

    def __init__(self, target: str, nearest: str) -> None:
        super().__init__(f"{target} cannot be reached; {nearest}.")
        self.target, self.nearest = target, nearest


class NoInterval(VestryError):  # noqa: N818
    """What was released has no credible interval, and why."""


class ExtremeNumbers(VestryError):  # noqa: N818
    """Numbers of a release or of a prior that no posterior can be computed from."""

    def __init__(self) -> None:
        super().__init__(
            "no posterior can be computed from these numbers: they are too large or too small, or do not go together;"
            " use a more moderate prior, or the release as it was written."
        )


IN_LEDGER = "in the ledger"


class DeclarationMismatch(VestryError, ValueError):  # noqa: N818
    """Two things that must agree do not: neighbours, unit, dataset."""

    def __init__(self, what: str, value: str, owned: str, instead: str, *, where: str = "here") -> None:
        super().__init__(f"the {what} asked for is {value}, but it is {owned} {where}; {instead}.")
        self.what, self.value, self.owned, self.instead = what, value, owned, instead


class BudgetExceeded(VestryError):  # noqa: N818
    """The ledger refuses a charge: no alternative of its filter would still hold. `notes` are sentences that say why.

    `subject` is what needs the amount `cost`, and `left` what remains of the budget.
    """

    exit_code = 3

    def __init__(self, subject: str, cost: str, budget: str, remaining: dict[str, str], left: str, *notes: str) -> None:
        needed, whole = (", ".join(part.strip() for part in text.split(",")) for text in (cost, budget))
        remedy = "Charge less, or raise the budget with `vestry ledger amend`."
        claim = f"Budget exceeded: {subject} needs {needed}, and {left} of {whole} remains."
        super().__init__(" ".join((claim, *filter(None, notes), remedy)))
        self.cost, self.budget, self.remaining, self.left = cost, budget, remaining, left


class NoiseNotReproducible(VestryError, TypeError):  # noqa: N818
    """Privacy's randomness was asked for something that could repeat it."""

    def __init__(self, owner: str, operation: str, instead: str) -> None:
        super().__init__(f"{owner} cannot be {operation}: noise that can be repeated hides nothing; {instead}.")
        self.owner, self.operation, self.instead = owner, operation, instead


class NoiseUnavailable(VestryError, RuntimeError):  # noqa: N818
    """No noise could be drawn."""

    def __init__(self) -> None:
        super().__init__("no noise could be drawn, so nothing was released; check the system's entropy.")


class PrivateValue(VestryError, TypeError):  # noqa: N818
    """A private value was asked for what it holds."""

    def __init__(self, rule: str = "cannot be shown, compared, copied or converted; release it by a mechanism") -> None:
        super().__init__(f"a private value {rule}.")


class LedgerMissing(VestryError, FileNotFoundError):  # noqa: N818
    """There is no ledger at this address."""


class LedgerExists(VestryError, FileExistsError):  # noqa: N818
    """A ledger is there already, and `create` never overwrites."""


class LedgerUnavailable(VestryError, OSError):  # noqa: N818
    """The ledger's file or server cannot be reached, read or written now."""


class LedgerCorrupt(VestryError, ValueError):  # noqa: N818
    """The journal does not hold together; `sequence` is the first bad entry, if known."""

    def __init__(self, reason: str, sequence: int | None = None) -> None:
        where = "" if sequence is None else f" at entry {sequence}"
        super().__init__(
            f"the ledger does not verify{where}: {reason}; restore it from a copy, and spend nothing from it."
        )
        self.reason, self.sequence = reason, sequence


class LedgerStateError(VestryError, RuntimeError):
    """An entry is not in the state that this step needs."""


class ReleaseLost(LedgerStateError):  # noqa: N818
    """What was drawn for a charge is not where it was saved; noise is never drawn twice for one charge."""


class AskedBefore(LedgerStateError):  # noqa: N818
    """The same question was charged before; `sequence` is the newest charge for it."""

    def __init__(self, sequence: int) -> None:
        super().__init__(f"the same was charged before, by entry {sequence}; resume that charge, or use its release.")
        self.sequence = sequence


class MissingRelease(VestryError, FileNotFoundError):  # noqa: N818
    """A release that was paid for is not in the folder of its ledger."""

    def __init__(self, charge: int, charged_at: str, path: Path) -> None:
        super().__init__(
            f"the release of charge {charge} ({charged_at}) was paid for, and {path} is missing; copy it there from"
            " where it was made, or say again=True to pay again."
        )
        self.charge, self.charged_at, self.path = charge, charged_at, path


class Interrupted(KeyboardInterrupt):
    """An interrupt, with what it left: what was paid for and drawn was saved first.

    `release` is what was released last, if it was to be handed over and the interrupt came instead.
    """

    exit_code = 130

    def __init__(self, message: str, release: Any = None) -> None:
        super().__init__(printable(message))
        self.release = release


class StudyFileError(VestryError, ValueError):
    """A study file says something that cannot be; `line` and `key` tell where."""

    def __init__(self, path: str, line: int, key: str, reason: str, *, exit_code: int = 2) -> None:
        super().__init__(f"{path}, line {line}, {key}: {reason}")
        self.path, self.line, self.key, self.reason, self.exit_code = path, line, key, reason, exit_code


class MissingExtra(VestryError, ImportError):  # noqa: N818
    """An optional dependency is not installed."""

    def __init__(self, what: str, extra: str) -> None:
        line = f"pip install 'vestry[{extra}]', or in a clone: pip install '.[{extra}]'"
        super().__init__(f"{what} needs an extra; install it with: {line}")
        self.what, self.extra = what, extra


class UnpaidRelease(UserWarning):
    """What was returned is a release that no ledger is charged for, if the rows are private."""


def printable(text: str) -> str:
    """Write control characters, marks that turn the line around and lone surrogates as escapes; lines stay lines.

    What a terminal obeys is never printed: names come from files, and a file may come from anyone.
    """
    if text.isprintable():
        return text
    return "".join(each if _is_shown(each) else each.encode("unicode_escape").decode() for each in text)


def _is_shown(character: str) -> bool:
    return character.isprintable() or character == "\n" or unicodedata.category(character) == "Zs"


def show(value: Any, limit: int = 80) -> str:
    """Write an argument for a message: text in quotes, numbers and types as they print, paths; else its type alone.

    Whatever an argument holds may be records, passed by mistake: arrays, tables, columns and objects that quote them
    are never written. Short lists and dictionaries are declarations, and are shown by the same rule, unless they hold
    lists. What is long is cut, but never a path: cut short it would name another file, or none.
    """
    if isinstance(value, os.PathLike):
        return show(os.fspath(value), limit)
    text = _shown(value)
    return text if len(text) <= limit or _may_be_path(value) else text[: limit - 3] + "..."


def _shown(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return str(value)
    if isinstance(value, str):
        return str.__repr__(value)
    if isinstance(value, type):
        return type.__repr__(value)
    if isinstance(value, Number):
        return _shown_number(value)
    if isinstance(value, (list, tuple)) and _is_declared(value):
        inside = ", ".join(show(element) for element in value)
        if isinstance(value, list):
            return f"[{inside}]"
        return f"({inside},)" if len(value) == 1 else f"({inside})"
    if isinstance(value, dict) and len(value) <= _FEW:
        pairs = (f"{show(key)}: {show(element)}" for key, element in value.items())
        return "{" + ", ".join(pairs) + "}"
    return f"a {type(value).__name__}"


def _shown_number(value: Any) -> str:
    """Write a number of Python or NumPy; another one's text may be anything."""
    if type(value).__module__ not in ("builtins", "fractions", "decimal", "numpy"):
        return f"a {type(value).__name__}"
    try:
        return repr(value)
    except ValueError:  # Python writes no integer of thousands of digits
        return "a very large number"


def _is_declared(value: list[Any] | tuple[Any, ...]) -> bool:
    """Tell whether a list is as short and as flat as a declaration, and not the rows of a table."""
    if len(value) > _FEW:
        return False
    return not any(
        isinstance(element, list) or (isinstance(element, tuple) and not _is_declared(element)) for element in value
    )


def _may_be_path(value: Any) -> bool:
    """Tell whether this names a file."""
    return isinstance(value, str) and len(value) < _LONGEST_PATH and ("/" in value or "\\" in value)


# A declaration that is a list and wrong is shown if it is no longer.
_FEW = 8
# As long as a path of Linux can be.
_LONGEST_PATH = 4096


def refusal(error: Exception) -> str:
    """Return what to tell of an error that ended a command.

    What Vestry raises on purpose has its sentence. Of anything else the message may quote a record, so only its kind
    is told and where in Vestry it arose.
    """
    if isinstance(error, VestryError):
        return str(error)
    if isinstance(error, MemoryError):
        return "this takes more memory than there is; ask for less: fewer levels, groups, draws or dimensions."
    if isinstance(error, RecursionError):
        return "this is nested too deeply to be read; write it plainly."
    if isinstance(error, OSError):
        return f"the system refused ({error.strerror or type(error).__name__}); {_AGAIN}"
    place = f"{type(error).__name__} in {_place(error)}"
    if isinstance(error, ArithmeticError):
        return f"the numbers are too large or too small to compute with ({place}); write more moderate ones."
    return f"this could not be done, for a reason that Vestry did not foresee ({place}); {_AGAIN}"


def _place(error: Exception) -> str:
    """Return the last line of ours that an error went through."""
    place, trace = "vestry", error.__traceback__
    while trace is not None:
        path = Path(trace.tb_frame.f_code.co_filename)
        if path.is_relative_to(_ROOT):
            place = f"{path.relative_to(_ROOT).as_posix()}, line {trace.tb_lineno}"
        trace = trace.tb_next
    return place


_AGAIN = "change what is asked, or run it again: what was charged and not opened is free."
_ROOT = Path(__file__).parent
