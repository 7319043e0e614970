"""Options that several commands share, each said once; a group of them is a frozen dataclass."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Collection, Mapping
from copy import copy
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, get_args, get_type_hints

from typer import Option

from vestry.errors import InvalidParameter
from vestry.validation import require_moderate

Wanted = Annotated[str, Option("--guarantee", help="The guarantee to meet, for example epsilon=1,delta=1e-6.")]
NeighboursName = Annotated[str, Option("--neighbours", help="Which change is protected: replace or add-remove.")]
Rows = Annotated[int, Option(help="The most records that one unit has.")]
DrawCount = Annotated[int, Option("--draws", help="The number of draws that are released together.")]


def _picture(path: Path | None) -> Path | None:
    if path is not None and path.suffix.lower() not in (".png", ".svg", ".pdf"):
        raise InvalidParameter("--plot", str(path), "a file that ends in .png, .svg or .pdf", "--plot curve.png")
    return path


Plot = Annotated[Path | None, Option(callback=_picture, help="Also draw a figure (.png, .svg or .pdf).")]


def expand_dataclass_options(
    command: Callable[..., None],
    group: type,
    known: Mapping[str, str],
    *,
    idle: Collection[str] = (),
    also: Mapping[str, str] | None = None,
) -> Callable[..., None]:
    """Return a command that takes the options of a group, one by one, in place of its first parameter.

    A group's own fields are listed before inherited ones; those that are known here or idle are not options. `also`
    gives options of the command a second name. A refusal names the option.
    """
    second = also or {}
    hints = get_type_hints(group, include_extras=True)
    fields = [each.replace(annotation=hints[name]) for name, each in inspect.signature(group).parameters.items()]
    own = sorted(
        [each for each in fields if each.name not in known and each.name not in idle],
        key=lambda each: each.name not in inspect.get_annotations(group),
    )
    signature = inspect.signature(command, eval_str=True)
    others = [
        _also(each, second.get(each.name)).replace(kind=each.KEYWORD_ONLY)
        for each in list(signature.parameters.values())[1:]
    ]
    every = sorted([*own, *others], key=lambda each: each.default is not each.empty)

    @wraps(command)
    def run(**given: Any) -> None:
        values = {each.name: given[each.name] for each in own}
        try:
            command(group(**known, **values), **{each.name: given[each.name] for each in others})
        except InvalidParameter as error:
            called = {second.get(name, name): value for name, value in given.items()}
            if error.name not in called or error.given not in (called[error.name],):  # nan is itself there
                raise
            option = option_name(error.name)
            instead = error.instead.replace(f"{error.name}=", f"{option} ")
            raise InvalidParameter(option, error.given, error.allowed, instead) from None

    run.__signature__ = signature.replace(parameters=every)  # type: ignore[attr-defined]
    run.__annotations__ = {each.name: each.annotation for each in every}
    return run


def _also(each: inspect.Parameter, name: str | None) -> inspect.Parameter:
    """Return a command's option with a second name."""
    if name is None:
        return each
    kind, option = get_args(each.annotation)
    renamed = copy(option)
    renamed.param_decls = (option_name(each.name), option_name(name))
    return each.replace(annotation=Annotated[kind, renamed])


def numbers(option: str, text: str, example: str) -> tuple[float, ...]:
    """Read numbers with commas between them."""
    try:
        values = tuple(float(part) for part in text.split(","))
    except ValueError:
        raise InvalidParameter(
            option, text, "numbers with commas between them", f"for example {option} {example}"
        ) from None
    for number in filter(math.isfinite, values):
        require_moderate(option, number, f"for example {option} {example}")
    return values


def option_name(field: str) -> str:
    """Return a field as it is written on the command line."""
    return "--" + field.replace("_", "-")
