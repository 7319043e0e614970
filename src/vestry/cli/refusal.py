"""One sentence for whatever went wrong: of what was not foreseen, the kind and the place, and never a value."""

from __future__ import annotations

from pathlib import Path

from vestry.errors import VestryError

_ROOT = Path(__file__).parents[1]


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
    found, trace = "vestry", error.__traceback__
    while trace is not None:
        path = Path(trace.tb_frame.f_code.co_filename)
        if path.is_relative_to(_ROOT):
            found = f"{path.relative_to(_ROOT).as_posix()}, line {trace.tb_lineno}"
        trace = trace.tb_next
    return found


_AGAIN = "change what is asked, or run it again: what was charged and not opened is free."
