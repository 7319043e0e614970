"""Small faults in a source file, made in its syntax tree, and how a running interpreter gets one.

Signs are swapped or comparisons turned, a factor or a term is left out, a number becomes n + 1 or n/2, min becomes max,
a condition or a returned number is negated. Left alone: messages (whatever stands in a `raise` or an f-string),
annotations, decorators, asserts.
"""

from __future__ import annotations

import ast
import builtins
import copy
import gc
import re
import sys
import types
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

# Samplers for experiments, whose law statistical tests hold; no release uses them.
SKIP = {"truncated_beta", "truncated_dirichlet"}
_UNTOUCHED = ast.Raise | ast.JoinedStr | ast.Assert | ast.Import | ast.ImportFrom
SIGNS: dict[type, tuple[type, ...]] = {
    ast.Add: (ast.Sub,),
    ast.Sub: (ast.Add,),
    ast.Mult: (ast.Div,),
    ast.Div: (ast.Mult,),
    ast.Pow: (ast.Mult,),
    ast.FloorDiv: (ast.Mult,),
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
    ast.And: (ast.Or,),
    ast.Or: (ast.And,),
}
# owner, field, index in it or None, node, the statement of the module and the function around it
Place = tuple[ast.AST, str, int | None, Any, Any, Any]


def places(node: ast.AST, top: Any = None, inside: Any = None) -> Iterator[Place]:
    """Yield every node that may change; `inside` is the outermost function in whose body it stands."""
    for field, value in ast.iter_fields(node):
        if field in ("annotation", "returns", "decorator_list"):
            continue
        for index, child in enumerate(value) if isinstance(value, list) else [(None, value)]:
            idle = isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant)
            idle |= isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING"
            if not isinstance(child, ast.AST) or isinstance(child, _UNTOUCHED) or idle:
                continue
            if getattr(child, "name", "") not in SKIP and getattr(child, "arg", "") != "strict":
                runs = isinstance(node, ast.FunctionDef) and field == "body"  # a lambda of a table is its table's
                within = inside or (node if runs else None)
                yield node, field, index, child, top or child, within
                yield from places(child, top or child, within)


def changes(node: Any) -> Iterator[ast.AST]:
    """Yield every fault that a node may have."""
    numeric = isinstance(node, ast.BinOp) and not _text(node) and type(node.op) in SIGNS
    if numeric or isinstance(node, ast.BoolOp):
        yield from (with_fields(node, op=sign()) for sign in SIGNS[type(node.op)])
    if numeric:
        yield copy.deepcopy(node.left)
    if isinstance(node, ast.Compare):
        for i, each in enumerate(node.ops):
            yield from (
                with_fields(node, ops=[*node.ops[:i], sign(), *node.ops[i + 1 :]]) for sign in SIGNS[type(each)]
            )
    if isinstance(node, ast.UnaryOp):
        yield copy.deepcopy(node.operand)
    if isinstance(node, ast.Constant) and isinstance(node.value, bool):
        yield ast.Constant(not node.value)
    elif isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        yield from (ast.Constant(value) for value in (node.value + 1, node.value / 2) if value)
    if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("min", "max"):
        yield with_fields(node, func=ast.Name("max" if ast.unparse(node.func) == "min" else "min", ast.Load()))
    if isinstance(node, ast.If | ast.IfExp) and not isinstance(node.test, ast.Compare):
        yield with_fields(node, test=ast.UnaryOp(ast.Not(), node.test))
    if isinstance(node, ast.Return) and isinstance(node.value, ast.BinOp | ast.Call) and not _text(node.value):
        yield ast.Return(ast.UnaryOp(ast.USub(), node.value))


def with_fields(node: Any, **fields: Any) -> Any:
    """Return a copy of a node with other fields."""
    new = copy.deepcopy(node)
    for name, value in fields.items():
        setattr(new, name, copy.deepcopy(value))
    return new


def _text(node: ast.AST) -> bool:
    return any(isinstance(x, ast.JoinedStr) or isinstance(getattr(x, "value", 0), str) for x in ast.walk(node))


def numbered(text: str) -> list[tuple[int, int]]:
    """Number every mutant of a source: the place, and which of its changes."""
    found = enumerate(places(ast.parse(text)))
    return [(number, which) for number, place in found for which, _ in enumerate(changes(place[3]))]


class Mutant:
    """One fault in one file."""

    def __init__(
        self, path: Path, number: int, which: int, faults: Callable[[Any], Iterator[ast.AST]] = changes
    ) -> None:
        self.path, self.tree = str(path), ast.parse(path.read_text())
        owner, field, index, old, self.top, self.inside = list(places(self.tree))[number]
        new = list(faults(old))[which]
        self.id, self.line = f"{number}.{which}", old.lineno
        self.function = getattr(self.inside or self.top, "name", "") or ast.unparse(self.top)[:24].split("\n")[0]
        shown = (ast.unparse(x.test if isinstance(x, ast.If) else x).replace("\n", " ") for x in (old, new))
        self.what = "  ->  ".join(shown)
        ast.fix_missing_locations(ast.copy_location(new, old))
        if index is None:
            setattr(owner, field, new)
        else:
            getattr(owner, field)[index] = new

    def patch(self) -> bool:
        """Give the loaded module the fault; False where it cannot be done without importing everything anew."""
        if self.inside:
            return patch_functions(self.path, self.tree)
        if not isinstance(self.top, ast.Assign | ast.AnnAssign):
            return False
        module = next(x for x in list(sys.modules.values()) if getattr(x, "__file__", None) == self.path)
        scratch: dict[str, Any] = {"__name__": module.__name__}
        exec(compile(self.tree, self.path, "exec"), scratch)
        # Numbers, and what the module makes of them; functions and classes would be others than those in use.
        changed = {
            name: value
            for name, value in scratch.items()
            if name in module.__dict__ and _is_plain(value) and value != module.__dict__[name]
        }
        if not changed:
            return False  # values that hold it may have been handed on already
        for name, value in changed.items():
            old = module.__dict__[name]
            for other in [x for x in list(sys.modules.values()) if x.__name__.startswith("vestry")]:
                if other.__dict__.get(name) is old:
                    setattr(other, name, value)
        return True


def _is_plain(value: object) -> bool:
    if isinstance(value, dict):
        return _is_plain([*value, *value.values()])
    if isinstance(value, list | tuple | set | frozenset):
        return all(map(_is_plain, value))
    return isinstance(value, int | float | str | Fraction | re.Pattern)


def patch_functions(path: str, tree: ast.Module) -> bool:
    """Give the functions of a loaded module the code of another tree; False where they do not match."""
    before, after = (list(_codes(compile(x, path, "exec"))) for x in (Path(path).read_text(), tree))
    if len(before) != len(after):
        return False
    new = {_key(a): b for a, b in zip(before, after, strict=True)}
    for function in [x for x in gc.get_objects() if isinstance(x, types.FunctionType)]:
        if function.__code__.co_filename == path:
            code = new[_key(function.__code__)]
            if len(code.co_freevars) != len(function.__code__.co_freevars):
                return False
            function.__code__ = code
    return True


def mark(path: str, note: Callable[[str, int], None]) -> None:
    """Make every function of a loaded module tell, when it is called, its path and the line on which it begins."""
    tree, name = ast.parse(Path(path).read_text()), "noted_by_mutation_testing"
    setattr(builtins, name, note)
    for node in list(ast.walk(tree)):
        if isinstance(node, ast.FunctionDef | ast.Lambda):
            told = ast.Call(ast.Name(name, ast.Load()), [ast.Constant(path), ast.Constant(node.lineno)], [])
            if isinstance(node, ast.Lambda):
                node.body = ast.Subscript(ast.Tuple([told, node.body], ast.Load()), ast.Constant(1), ast.Load())
            else:
                node.body.insert(1 if ast.get_docstring(node) is not None else 0, ast.Expr(told))
    patch_functions(path, ast.fix_missing_locations(tree))


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    for inner in code.co_consts:
        if isinstance(inner, types.CodeType):
            yield inner
            yield from _codes(inner)


def _key(code: types.CodeType) -> tuple[Any, ...]:
    return code.co_qualname, code.co_firstlineno, tuple(code.co_positions())
