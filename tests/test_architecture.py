"""The walls of the design, kept over the syntax tree, and a bad sample that they must reject."""

import ast
import functools
from collections import Counter
from pathlib import Path

import pytest

parse = functools.cache(ast.parse)
SOURCE = Path(__file__).parent.parent / "src" / "vestry"

# A room may import rooms of lower rows only.
ROWS = [
    {"errors", "interrupts", "numerics", "registry"},
    {"validation", "notebook", "files"},
    {"privacy", "server_address", "release_schema"},
    {"schema", "noise", "events"},
    {"ledger", "releases", "statistics"},
    {"data", "mechanisms", "posterior", "release_file"},
    {"display"},
    {"model", "mcmc", "noise_inversion"},
    {"likelihood", "purchases"},
    {"conjugate"},
    {"regression", "naive_bayes", "hmm", "persons", "data_quality", "tables", "levels"},
    {"planning", "models"},
    {"pipeline"},
    {"estimators", "audit", "report"},
    {"study"},
    {"page"},
    {"cli"},
]
ROW = {room: number for number, rooms in enumerate(ROWS) for room in rooms}

# Which rooms alone may import these.
OWNERS = {
    "ibis": {"data"},
    "duckdb": {"data"},
    "sqlalchemy": {"ledger"},
    "sqlite3": {"ledger"},
    "psycopg": {"ledger"},
    "opendp": {"noise"},
    "randomgen": {"noise"},
    "secrets": {"noise"},
    "random": set(),
    "matplotlib": {"display"},
    "jax": {"regression", "mcmc", "likelihood"},
    "numba": {"regression", "hmm", "mcmc"},
    "numpyro": {"likelihood"},
    "pymc": {"likelihood"},
    "pytensor": {"likelihood"},
    "sklearn": {"estimators"},
    "typer": {"cli"},
    "rich": {"cli"},
    "starlette": {"page"},
    "uvicorn": {"page"},
    "tomlkit": {"page"},
}
OPENERS = {
    "vestry.schema.private.reveal": "mechanisms",
    "vestry.schema.private.reveal_counts": "mechanisms",
    "vestry.schema.private.reveal_rows": "regression",
}
ENTROPY = {"urandom", "getrandom", "SystemRandom"}
VAGUE = {"utils", "helpers", "common", "misc", "base"}
# Rooms whose classes other rooms ask by a protocol.
MODEL_ROOMS = {"conjugate", "regression", "naive_bayes", "hmm", "persons", "data_quality", "tables", "levels"}


def room_of(module: str) -> str:
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else ""


@functools.cache
def walk(tree: ast.AST) -> list[ast.AST]:
    """Return every node; a tree is walked once."""
    return list(ast.walk(tree))


def imports_of(tree: ast.AST) -> set[str]:
    """Return every imported module, whether at the top or inside a function."""
    found = set()
    for node in walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            found.add(node.module)
            if node.module.startswith("vestry"):
                found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def faults(sources: dict[str, str]) -> list[str]:
    """Return every breach of a wall in a set of modules, given as name -> source."""
    found, graph = [], {}
    for module, text in sources.items():
        room, tree = room_of(module), parse(text)
        if module.split(".")[-1] in VAGUE:
            found.append(f"{module}: a vague name")
        imported = imports_of(tree)
        graph[module] = {name for name in imported if name in sources and name != module}
        for name in imported:
            top = name.split(".")[0]
            if room not in OWNERS.get(top, {room}):
                found.append(f"{module}: {top} belongs to {sorted(OWNERS[top])}")
            if room != OPENERS.get(name, room):
                found.append(f"{module}: only {OPENERS[name]} opens that")
            other = room_of(name) if top == "vestry" else ""
            if other in ROW and room and other != room and ROW[other] >= ROW[room]:
                found.append(f"{module}: {room} imports {other}, sideways or upward")
        for node in walk(tree):
            name = node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", None)
            if name in ENTROPY and room != "noise":
                found.append(f"{module}: {name} belongs to noise")
    return found + [f"{module}: part of a cycle" for module in cyclic(graph)]


def repeated(sources: dict[str, str]) -> list[str]:
    """Return the names of files, and of public classes, that occur twice."""
    folders = {module.rpartition(".")[0] for module in sources}
    files = Counter(module.split(".")[-1] for module in sources if module not in folders)
    bodies = (parse(text).body for text in sources.values())
    classes = Counter(each.name for body in bodies for each in body if isinstance(each, ast.ClassDef))
    return [name for names in (files, classes) for name, n in names.items() if n > 1 and not name.startswith("_")]


def model_tests(sources: dict[str, str]) -> list[str]:
    """Return the classes of a model's room that are matched on, or asked for by isinstance, outside that room."""
    trees = {module: parse(text) for module, text in sources.items()}
    owned = [(x, room_of(module)) for module, tree in trees.items() for x in tree.body if isinstance(x, ast.ClassDef)]
    rooms, found = {x.name: room for x, room in owned if room in MODEL_ROOMS}, []
    for module, tree in trees.items():
        for node in walk(tree):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "isinstance":
                asked = {ast.unparse(x) for x in ast.walk(node.args[1])}
            else:
                asked = {ast.unparse(node.cls)} if isinstance(node, ast.MatchClass) else set()
            found += [f"{module}: {name}" for name in asked if rooms.get(name, room_of(module)) != room_of(module)]
    return found


def cyclic(graph: dict[str, set[str]]) -> list[str]:
    def reaches(start: str) -> set[str]:
        seen, todo = set(), list(graph[start])
        while todo:
            module = todo.pop()
            if module not in seen:
                seen.add(module)
                todo += graph[module]
        return seen

    # The front door names everything and is named by all for its version.
    return [module for module in graph if module != "vestry" and module in reaches(module)]


def read(folder: Path) -> dict[str, str]:
    modules = {}
    for path in folder.rglob("*.py"):
        parts = path.relative_to(folder.parent).with_suffix("").parts
        modules[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path.read_text()
    return modules


def test_the_walls_stand():
    sources = read(SOURCE)
    assert len(sources) > 20
    assert faults(sources) == []
    assert model_tests(sources) == []
    assert repeated(sources) == []


def test_every_room_has_a_row():
    rooms = {path.stem for path in SOURCE.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    assert rooms - {"__init__"} <= set(ROW)


def test_the_front_door_is_small():
    import vestry

    assert len(vestry.__all__) <= 40
    assert all(hasattr(vestry, name) for name in vestry.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        vestry.nonsense  # noqa: B018


@pytest.mark.parametrize(
    ("module", "text", "fault"),
    [
        ("vestry.privacy.x", "import vestry.ledger", "sideways or upward"),
        ("vestry.noise.x", "from vestry.schema import domain", "sideways or upward"),
        ("vestry.ledger.x", "def f():\n    from vestry.cli import app", "sideways or upward"),
        ("vestry.numerics", "from vestry.privacy.event import Event", "sideways or upward"),
        ("vestry.ledger.x", "from vestry.data import table", "sideways or upward"),
        ("vestry.report.x", "import vestry.audit", "sideways or upward"),
        ("vestry.model.x", "import ibis.expr", "ibis belongs to"),
        ("vestry.cli.x", "import sqlalchemy as sa", "sqlalchemy belongs to"),
        ("vestry.ledger.x", "import opendp.prelude as dp", "opendp belongs to"),
        ("vestry.ledger.x", "import os\nkey = os.urandom(16)", "urandom belongs to noise"),
        ("vestry.ledger.x", "from os import urandom as u\nurandom(1)", "urandom belongs to noise"),
        ("vestry.cli.x", "import matplotlib.pyplot", "matplotlib belongs to"),
        ("vestry.noise.x", "import random", "random belongs to"),
        ("vestry.ledger.utils", "", "a vague name"),
        ("vestry.posterior.x", "from vestry.schema.private import reveal", "only mechanisms opens that"),
        ("vestry.levels.x", "from vestry.schema.private import reveal_counts", "only mechanisms opens that"),
        ("vestry.estimators.x", "from vestry.schema.private import reveal_rows", "only regression opens that"),
    ],
)
def test_a_bad_sample_is_rejected(module, text, fault):
    assert any(fault in found for found in faults({module: text}))


def test_a_cycle_is_rejected():
    sources = {"vestry.privacy.a": "import vestry.privacy.b", "vestry.privacy.b": "from vestry.privacy import a"}
    assert [found for found in faults(sources) if "cycle" in found]


@pytest.mark.parametrize("line", ["isinstance(x, int | Family)", "match x:\n    case Family():\n        pass"])
def test_a_model_is_asked_by_its_protocol_alone(line):
    own = "class Family: ..."
    assert model_tests({"vestry.conjugate.a": own, "vestry.report.b": line}) == ["vestry.report.b: Family"]
    assert model_tests({"vestry.conjugate.a": own, "vestry.conjugate.b": line}) == []


def test_a_name_that_occurs_twice_is_rejected():
    assert repeated({"vestry.data.a": "class Row: ...", "vestry.hmm.a": "class Row: ...\nclass _Own: ..."}) == [
        "a",
        "Row",
    ]
