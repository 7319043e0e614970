"""How the source reads, by figures that formatting cannot move.

    python quality/style.py                    # the whole package
    python quality/style.py --files src/vestry/ledger    # each file, and what it lacks to be clean
    python quality/style.py --update           # take the files that have become clean out of style.toml

`nodes` counts the syntax nodes in one statement's own expressions; of a compound statement, its header. Contexts and
operators, imports, definitions and docstrings are not counted. `nested` statements hold three or more calls,
comprehensions or conditional expressions inside one another. `packed` assignments write several values as one tuple.
`conditional` counts conditional expressions per 1,000 statements. `dull` loop variables name nothing.

A file is clean if 90 % of its statements hold at most 15 nodes and none more than 40, at most 3 % of them (or two) nest
three calls, and it has no packed assignment and no dull loop variable. `style.toml` lists the files that are not clean
yet; `tests/test_style.py` lets the list only shrink.
"""

from __future__ import annotations

import argparse
import ast
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
LIST = ROOT / "quality" / "style.toml"

# A statement of a clean file, at the 90th percentile and at most.
MOST_NODES_AT_90 = 15
MOST_NODES = 40
# How many statements of a clean file may nest three calls.
MOST_NESTED_SHARE = 0.03
MOST_NESTED = 2
NESTED_FROM = 3

DULL_NAMES = frozenset({"each", "place", "item", "it", "thing", "given", "found", "said"})

_NOT_COUNTED = (ast.expr_context, ast.operator, ast.unaryop, ast.boolop, ast.cmpop)
_NESTING = (ast.Call, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp, ast.IfExp)
_LEFT_OUT = (ast.Import, ast.ImportFrom, ast.Pass, ast.Global, ast.Nonlocal)
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_BLOCKS = ("body", "orelse", "finalbody")
_INNER_PARTS = (*_BLOCKS, "handlers", "cases")


@dataclass(frozen=True)
class Figures:
    """The figures of one file or of several.

    Attributes
    ----------
    nodes
        How many nodes each statement holds, in ascending order.
    nested
        How many statements nest three calls or more.
    assignments, packed
        How many assignments there are, and how many of them pack several values.
    conditional
        How many conditional expressions there are.
    loop_names, dull
        How many loop variables there are, and how many of them name nothing.
    """

    nodes: tuple[int, ...]
    nested: int
    assignments: int
    packed: int
    conditional: int
    loop_names: int
    dull: int

    def nodes_at(self, share: float) -> int:
        """Return the number of nodes that this share of the statements does not exceed."""
        if not self.nodes:
            return 0
        index = min(len(self.nodes) - 1, int(share * len(self.nodes)))
        return self.nodes[index]

    def lacks(self) -> list[str]:
        """Return what the file lacks to be clean; nothing if it is."""
        reasons = []
        if self.nodes_at(0.9) > MOST_NODES_AT_90:
            reasons.append(f"90 % of its statements hold up to {self.nodes_at(0.9)} nodes")
        if self.nodes_at(1) > MOST_NODES:
            reasons.append(f"one statement holds {self.nodes_at(1)} nodes")
        if self.nested > max(MOST_NESTED, MOST_NESTED_SHARE * len(self.nodes)):
            reasons.append(f"{self.nested} statements nest three calls")
        if self.packed:
            reasons.append(f"{self.packed} assignments pack a tuple")
        if self.dull:
            reasons.append(f"{self.dull} loop variables name nothing")
        return reasons

    def __str__(self) -> str:
        statements = max(len(self.nodes), 1)
        nodes = f"{self.nodes_at(0.5)}/{self.nodes_at(0.75)}/{self.nodes_at(0.9)}"
        nested = self.nested / statements
        packed = self.packed / max(self.assignments, 1)
        conditional = 1000 * self.conditional / statements
        return (
            f"{len(self.nodes)} statements, nodes {nodes} (median, 75 %, 90 %), nested {nested:.1%},"
            f" packed {packed:.1%}, conditional {conditional:.0f}, dull {self.dull} of {self.loop_names}"
        )


def measure(text: str) -> Figures:
    """Return the figures of a source text."""
    tree = ast.parse(text)
    nodes = []
    nested = 0
    for statement in statements(tree):
        expressions = list(own_expressions(statement))
        nodes.append(sum(_size(expression) for expression in expressions))
        depth = max((_depth(expression) for expression in expressions), default=0)
        nested += depth >= NESTED_FROM
    assignments = [node for node in ast.walk(tree) if isinstance(node, ast.Assign)]
    loop_names = list(_loop_names(tree))
    return Figures(
        nodes=tuple(sorted(nodes)),
        nested=nested,
        assignments=len(assignments),
        packed=sum(_packs(assignment) for assignment in assignments),
        conditional=sum(isinstance(node, ast.IfExp) for node in ast.walk(tree)),
        loop_names=len(loop_names),
        dull=sum(name in DULL_NAMES for name in loop_names),
    )


def statements(tree: ast.Module) -> Iterator[ast.stmt]:
    """Yield every statement but imports, definitions and docstrings."""
    for node in ast.walk(tree):
        for field in _BLOCKS:
            block = getattr(node, field, None)
            if not isinstance(block, list):
                continue
            for statement in block:
                if not isinstance(statement, _LEFT_OUT + _DEFINITIONS) and not _is_text(statement):
                    yield statement


def own_expressions(statement: ast.stmt) -> Iterator[ast.AST]:
    """Yield the expressions of a statement's header, without the blocks inside it."""
    for field, value in ast.iter_fields(statement):
        if field in _INNER_PARTS:
            continue
        children = value if isinstance(value, list) else [value]
        yield from (child for child in children if isinstance(child, ast.AST))


def _is_text(statement: ast.stmt) -> bool:
    if not isinstance(statement, ast.Expr) or not isinstance(statement.value, ast.Constant):
        return False
    return isinstance(statement.value.value, str)


def _size(node: ast.AST) -> int:
    return sum(not isinstance(child, _NOT_COUNTED) for child in ast.walk(node))


def _depth(node: ast.AST) -> int:
    below = max((_depth(child) for child in ast.iter_child_nodes(node)), default=0)
    return below + isinstance(node, _NESTING)


def _packs(assignment: ast.Assign) -> bool:
    """Tell whether several values are written as one tuple; a swap is no packing."""
    target = assignment.targets[0]
    if not isinstance(target, ast.Tuple) or not isinstance(assignment.value, ast.Tuple):
        return False
    targets = sorted(ast.unparse(element) for element in target.elts)
    values = sorted(ast.unparse(element) for element in assignment.value.elts)
    return targets != values


def _loop_names(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.For | ast.comprehension):
            for name in ast.walk(node.target):
                if isinstance(name, ast.Name):
                    yield name.id


def joined(several: Iterable[Figures]) -> Figures:
    """Return the figures of several files together."""
    figures = list(several)
    nodes: list[int] = []
    for file in figures:
        nodes.extend(file.nodes)
    return Figures(
        nodes=tuple(sorted(nodes)),
        nested=sum(file.nested for file in figures),
        assignments=sum(file.assignments for file in figures),
        packed=sum(file.packed for file in figures),
        conditional=sum(file.conditional for file in figures),
        loop_names=sum(file.loop_names for file in figures),
        dull=sum(file.dull for file in figures),
    )


def sources(folder: Path) -> dict[str, Path]:
    """Return the source files below a folder, or the one file, by their path in the repository."""
    files = sorted(folder.rglob("*.py")) if folder.is_dir() else [folder]
    return {file.resolve().relative_to(ROOT).as_posix(): file for file in files}


def not_clean_yet() -> list[str]:
    """Return the files that `style.toml` lists."""
    return list(tomllib.loads(LIST.read_text())["not_clean_yet"])


def update() -> None:
    """Take files that are clean, or that are gone, out of the list; none is ever added."""
    kept = []
    for name in not_clean_yet():
        path = ROOT / name
        if path.exists() and measure(path.read_text()).lacks():
            kept.append(name)
    lines = ["# Files that are not clean yet, by `python quality/style.py --update`; the list only shrinks.", ""]
    lines.append("not_clean_yet = [")
    lines.extend(f'    "{name}",' for name in kept)
    lines.append("]")
    LIST.write_text("\n".join(lines) + "\n")


def main() -> None:
    """Print the figures of folders and files."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="*", type=Path, default=[ROOT / "src" / "vestry"], help="folders or files")
    parser.add_argument("--files", action="store_true", help="each file, and what it lacks to be clean")
    parser.add_argument("--update", action="store_true", help="take clean files out of style.toml")
    options = parser.parse_args()
    if options.update:
        update()
    for path in options.paths:
        figures = {name: measure(file.read_text()) for name, file in sources(path).items()}
        if options.files:
            for name, file_figures in figures.items():
                reasons = "; ".join(file_figures.lacks()) or "clean"
                print(f"{name}: {file_figures}\n    {reasons}")
        clean = sum(not file_figures.lacks() for file_figures in figures.values())
        print(f"{path}: {joined(figures.values())}; {clean} of {len(figures)} files are clean")


if __name__ == "__main__":
    main()
