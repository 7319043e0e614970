"""Numbers about the source of src/vestry, of one commit or of several side by side.

    python quality/measure.py                 # the working tree
    python quality/measure.py 18edb28 HEAD    # two commits

A function's body runs from the first statement after its docstring to its last line. `at import` leaves out imports
inside functions and for type checkers. Duplicates are runs of six lines or more, as long as they can be, that are the
same after folding white space and leaving out blank lines, comments, docstrings and imports.
"""

from __future__ import annotations

import argparse
import ast
import io
import json
import statistics
import subprocess
import tarfile
import tempfile
import tokenize
import xml.etree.ElementTree as ElementTree
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from itertools import combinations, takewhile
from pathlib import Path
from typing import Any

import style

ROOT = Path(__file__).parent.parent
RUN = 6
# Rooms whose classes other rooms ask by a protocol; before there were rooms by model they were these packages.
MODEL_ROOMS = {"conjugate", "regression", "naive_bayes", "hmm", "persons", "data_quality", "families", "models"}
_IMPORT = ast.Import | ast.ImportFrom
Lines = list[tuple[int, str]]


def measured(source: Path) -> dict[str, Any]:
    """Return every number about the package in this folder."""
    files = {path.relative_to(source).as_posix(): path.read_text() for path in sorted(source.rglob("*.py"))}
    trees = {name: ast.parse(text) for name, text in files.items()}
    code = {name: _code_of(text, trees[name]) for name, text in files.items()}
    lines = sorted((text.count("\n"), name) for name, text in files.items())
    bodies = sorted(body for name, tree in trees.items() for body in _bodies_of(name, tree))
    imports = {name: _covered(x for x in ast.walk(trees[name]) if isinstance(x, _IMPORT)) for name in files}
    reading = style.joined(style.measure(text) for text in files.values())
    runs = duplicates({name: [line for line in code[name] if line[0] not in imports[name]] for name in files})
    return {
        "lines": sum(size for size, _ in lines),
        "lines of code": sum(map(len, code.values())),
        "files": len(files),
        "clean files (style.py)": sum(not style.measure(text).lacks() for text in files.values()),
        "nodes of a statement: median, 75 %, 90 %": "/".join(
            str(reading.nodes_at(share)) for share in (0.5, 0.75, 0.9)
        ),
        "statements that nest three calls": f"{reading.nested / len(reading.nodes):.1%}",
        "assignments that pack a tuple": f"{reading.packed / reading.assignments:.1%}",
        "conditional expressions per 1,000 statements": round(1000 * reading.conditional / len(reading.nodes)),
        "dull loop variables": f"{reading.dull} of {reading.loop_names}",
        "median file": int(statistics.median(size for size, _ in lines)),
        "largest file": "{} {}".format(*lines[-1]),
        "90th percentile of function bodies": bodies[int(0.9 * len(bodies))][0],
        "longest function body": "{} {}".format(*bodies[-1]),
        "import cycles, at import": len(cycles(_graph_of(trees, everywhere=False))),
        "import cycles, anywhere": len(cycles(_graph_of(trees, everywhere=True))),
        f"duplicate pairs of {RUN} lines or more": len(runs),
        "public names": len(_public_names(trees["__init__.py"])),
        "file names that occur twice": len(_repeated(Path(name).stem for name in files) - {"__init__"}),
        "public class names that occur twice": len(_repeated(_public_classes(trees))),
        "tests on a model outside its room": len(_model_tests(trees)),
        "duplicates": runs,
    }


def _repeated(names: Iterable[str]) -> set[str]:
    return {name for name, count in Counter(names).items() if count > 1}


def _public_classes(trees: dict[str, ast.Module]) -> Iterator[str]:
    for tree in trees.values():
        yield from (x.name for x in tree.body if isinstance(x, ast.ClassDef) and not x.name.startswith("_"))


def _model_tests(trees: dict[str, ast.Module]) -> list[str]:
    """Return where a class of a model's room is matched on, or asked for by isinstance, outside that room."""
    rooms = {
        x.name: room
        for name, tree in trees.items()
        if (room := Path(name).parts[0]) in MODEL_ROOMS
        for x in tree.body
        if isinstance(x, ast.ClassDef)
    }
    found = []
    for name, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "isinstance":
                tested = [x.id for x in ast.walk(node.args[1]) if isinstance(x, ast.Name)]
            elif isinstance(node, ast.MatchClass):
                tested = [ast.unparse(node.cls)]
            else:
                continue
            own = Path(name).parts[0]
            found += [f"{name}: {each}" for each in tested if rooms.get(each, own) != own]
    return found


def _covered(nodes: Any) -> set[int]:
    return {line for node in nodes for line in range(node.lineno, node.end_lineno + 1)}


def _bodies_of(name: str, tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[min(len(node.body) - 1, ast.get_docstring(node) is not None)]
            yield (node.end_lineno or 0) - first.lineno + 1, f"{name}:{node.name}"


def _code_of(text: str, tree: ast.Module) -> Lines:
    """Return the lines of code with their numbers, folded, without blank ones, comments and docstrings."""
    owners = (x for x in ast.walk(tree) if isinstance(x, ast.Module | ast.ClassDef | ast.FunctionDef))
    docstrings = _covered(x.body[0] for x in owners if ast.get_docstring(x) is not None)
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    comment = {token.start[0]: token.start[1] for token in tokens if token.type == tokenize.COMMENT}
    folded = ((i, " ".join(line[: comment.get(i)].split())) for i, line in enumerate(text.splitlines(), 1))
    return [(i, line) for i, line in folded if line and i not in docstrings]


def _graph_of(trees: dict[str, ast.Module], *, everywhere: bool) -> dict[str, set[str]]:
    """Return which modules each module imports by name."""
    names = {".".join(["vestry", *Path(name).with_suffix("").parts]).removesuffix(".__init__"): name for name in trees}
    graph: dict[str, set[str]] = {}
    for module, name in names.items():
        found: set[str] = set()
        for node in ast.walk(trees[name]) if everywhere else _at_import(trees[name]):
            if isinstance(node, ast.Import):
                found |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                inner = (f"{node.module}.{alias.name}" for alias in node.names)
                found |= {each if each in names else node.module for each in inner}
        graph[module] = found & set(names)
    return graph


def _at_import(node: ast.AST) -> Iterator[ast.AST]:
    """Yield what runs when a module is imported."""
    for child in ast.iter_child_nodes(node):
        typing = isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test)
        if not typing and not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield child
            yield from _at_import(child)


def cycles(graph: dict[str, set[str]]) -> set[frozenset[str]]:
    """Return the sets of modules each of which reaches every other."""
    reached = {module: set(ahead) for module, ahead in graph.items()}
    for middle in graph:
        for module in graph:
            if middle in reached[module]:
                reached[module] |= reached[middle]
    return {frozenset(y for y in reached[x] if x in reached[y]) for x in graph if x in reached[x]}


def duplicates(code: dict[str, Lines]) -> list[str]:
    """Return each pair of equal runs, the longest first."""
    places: dict[tuple[str, ...], list[tuple[str, int]]] = defaultdict(list)
    texts = {name: [line for _, line in lines] for name, lines in code.items()}
    for name, lines in texts.items():
        for i in range(len(lines) - RUN + 1):
            places[tuple(lines[i : i + RUN])].append((name, i))
    found = []
    for (a, i), (b, j) in (pair for same in places.values() for pair in combinations(same, 2)):
        if i and j and texts[a][i - 1] == texts[b][j - 1]:
            continue  # a later part of a run that began before
        pairs = zip(texts[a][i : j if a == b else None], texts[b][j:], strict=False)
        size = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
        if size >= RUN:
            found.append((size, f"{a}:{code[a][i][0]} = {b}:{code[b][j][0]}"))
    return [f"{size} lines, {where}" for size, where in sorted(found, key=lambda run: (-run[0], run[1]))]


def _public_names(tree: ast.Module) -> list[str]:
    named = (x for x in tree.body if isinstance(x, ast.Assign) and ast.unparse(x.targets[0]) == "__all__")
    return list(ast.literal_eval(next(named).value))


def at(revision: str) -> dict[str, Any]:
    """Measure a commit, unpacked into a folder that goes away."""
    packed = subprocess.run(["git", "archive", revision, "src"], cwd=ROOT, capture_output=True, check=True).stdout
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
            archive.extractall(folder, filter="data")
        return measured(Path(folder, "src", "vestry"))


def main() -> None:
    """Print a table, a column for each commit."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("revision", nargs="*", help="commits; the working tree if none")
    parser.add_argument("--tests", help="a file of pytest --junitxml=FILE: how many tests, and their time")
    parser.add_argument("--list", action="store_true", help="also print every duplicate")
    parser.add_argument("--json", action="store_true", help="print everything as JSON")
    given = parser.parse_args()
    columns = {name: at(name) for name in given.revision} or {"now": measured(ROOT / "src" / "vestry")}
    if given.tests:
        suite = next(ElementTree.parse(given.tests).iter("testsuite"))
        for column in columns.values():
            column["tests"] = f"{suite.get('tests')} in {float(suite.get('time', 0)):.0f} s"
    if given.json:
        print(json.dumps(columns, indent=2))
        return
    print(f"{'':46}", *(f"{name:>40}" for name in columns))
    for key in next(iter(columns.values())):
        if key != "duplicates":
            print(f"{key:46}", *(f"{column[key]:>40}" for column in columns.values()))
    if given.list:
        print(*(f"{name}: {run}" for name, column in columns.items() for run in column["duplicates"]), sep="\n")


if __name__ == "__main__":
    main()
