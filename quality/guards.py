"""Change each number and each comparison of what guards privacy, one at a time: `make test` must notice.

    python quality/guards.py                                   # every file of GUARDED, by all of `make test`
    python quality/guards.py data/person_sums.py --tests data  # one file, by the tests of one folder

A number n becomes n + 1, and n - 1 (n / 2 where it is not whole); a comparison is turned at its limit and reversed.
Messages stay: whatever stands in a `raise` or an f-string. `guards.toml` lists the faults that no test of `make test`
notices, each with its reason. The exit status is 1 where another fault survives, or where one of the list is caught.
What fewer tests catch, more tests catch: a survivor of `--tests` or `--patience` is tried again by all of them.

The tests are collected and timed once, with the functions that each one calls. Each fault is then a fork of that
process whose functions get the changed code, and meets the tests that call its function, the likeliest first. Running
out of processor time is noticed, too.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import importlib
import json
import os
import sys
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

import pytest
from mutant import SIGNS, Mutant, places, with_fields
from mutate import OPTIONS, ROOT, SOURCE, Tell, Timer, Watch, forked, import_anew, run_loop

LIST = ROOT / "quality" / "guards.toml"
GUARDED = ("data", "statistics", "mechanisms", "noise", "schema/statistics.py")
# What tests import when they run is imported before the forks; polars has threads, which a fork loses.
_IMPORTED_BEFORE = {"duckdb", "flint", "ibis", "numpy", "opendp", "pandas", "pyarrow", "scipy", "sqlglot", "vestry"}
# An expression of fewer characters is shown with what stands around it.
_LEAST_SHOWN = 24
_SHOWN_WHOLE = (ast.expr, ast.keyword, ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Return, ast.Slice)


@dataclass(frozen=True)
class Fault:
    """One changed number or comparison.

    Attributes
    ----------
    file
        Its path below src/vestry.
    function
        The function or method, or what the statement defines; the class where there is no method.
    change
        The code before and after; a number behind it tells equal ones of a function apart.
    number, which
        Its place in the syntax tree, and which of the changes there.
    """

    file: str
    function: str
    change: str
    number: int
    which: int

    @property
    def key(self) -> tuple[str, str, str]:
        """What the list names it by."""
        return self.file, self.function, self.change

    def mutant(self) -> Mutant:
        """Return the changed syntax tree."""
        return Mutant(SOURCE / self.file, self.number, self.which, changes)


def changes(node: ast.AST) -> Iterator[ast.AST]:
    """Yield every fault of a number or a comparison."""
    if isinstance(node, ast.Compare):
        for index, operator in enumerate(node.ops):
            for sign in SIGNS[type(operator)]:
                operators = [*node.ops[:index], sign(), *node.ops[index + 1 :]]
                yield with_fields(node, ops=operators)
    elif isinstance(node, ast.Constant):
        yield from (ast.Constant(value) for value in _other_numbers(node.value))


def _other_numbers(value: object) -> list[float]:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return []
    if value == 0:
        return [value + 1]
    above = value + 1 if value + 1 != value else value * 2
    below = value - 1 if isinstance(value, int) else value / 2
    return [above, below]


def guarded_files() -> list[str]:
    """Return the files that are guarded."""
    files = []
    for name in GUARDED:
        path = SOURCE / name
        files += [path] if path.is_file() else sorted(path.glob("*.py"))
    return [str(path.relative_to(SOURCE)) for path in files]


def faults_of(file: str) -> list[Fault]:
    """Return every fault of a file."""
    tree = ast.parse((SOURCE / file).read_text())
    parents = {}
    for parent in ast.walk(tree):
        parents |= dict.fromkeys(ast.iter_child_nodes(parent), parent)
    counts: Counter[tuple[str, str]] = Counter()
    faults = []
    for number, (owner, field, index, node, top, inside) in enumerate(places(tree)):
        function = _name(top, inside)
        if _is_left_out(top, inside):
            continue
        around = _shown_around(node, parents)
        before = _text(around)
        entry = _entry(around, parents)
        for which, new in enumerate(changes(node)):
            _replace(owner, field, index, new)
            # A comparison that is shown whole is not part of anything that changed.
            after = _text(new if around is node else around)
            _replace(owner, field, index, node)
            change = f"{entry}{before}  ->  {after}"
            counts[function, change] += 1
            again = counts[function, change]
            suffix = f"  ({again})" if again > 1 else ""
            faults.append(Fault(file, function, change + suffix, number, which))
    return faults


def _is_left_out(top: ast.AST, inside: ast.AST | None) -> bool:
    """Return True for what runs in no release: the signatures of a protocol, and the examples that tests look at."""
    is_protocol = isinstance(top, ast.ClassDef) and "Protocol" in map(ast.unparse, top.bases)
    return is_protocol or getattr(inside, "name", "") == "examples"


def _entry(node: ast.AST, parents: dict[ast.AST, ast.AST]) -> str:
    """Return the key with a colon, of a value in a dictionary."""
    table = parents.get(node)
    if not isinstance(table, ast.Dict) or node not in table.values:
        return ""
    key = table.keys[table.values.index(node)]
    return "" if key is None else f"{_text(key)}: "


def _name(top: ast.AST, inside: ast.AST | None) -> str:
    if isinstance(top, ast.Assign):
        return ast.unparse(top.targets[0])
    if isinstance(top, ast.AnnAssign):
        return ast.unparse(top.target)
    name = getattr(top, "name", "module")
    return name if inside in (None, top) else f"{name}.{inside.name}"


def _shown_around(node: ast.AST, parents: dict[ast.AST, ast.AST]) -> ast.AST:
    """Return the smallest expression around a node that tells a reader where it stands."""
    around = node
    while len(_text(around)) < _LEAST_SHOWN:
        parent = parents[around]
        if isinstance(parent, ast.Dict) or not isinstance(parent, _SHOWN_WHOLE):
            return around
        around = parent
    return around


def _text(node: ast.AST) -> str:
    return " ".join(ast.unparse(node).split())


def _replace(owner: ast.AST, field: str, index: int | None, node: ast.AST) -> None:
    if index is None:
        setattr(owner, field, node)
    else:
        getattr(owner, field)[index] = node


def allowed() -> dict[tuple[str, str, str], str]:
    """Return the faults of the list, each with its reason."""
    entries = tomllib.loads(LIST.read_text())["survivors"]
    return {(entry["file"], entry["function"], entry["change"]): entry["reason"] for entry in entries}


class Recorder(Timer):
    """Times tests and notes what each one calls; tells at the end what was imported."""

    def __init__(self, tell: Tell, limit: float, files: Iterable[str]) -> None:
        super().__init__(tell, limit, files)
        self.report = tell

    def pytest_sessionfinish(self) -> None:
        """Tell the modules."""
        self.report(sorted(sys.modules))


@dataclass
class Recording:
    """What each test takes and calls, kept in a file.

    A test is recorded again where its own file, or a guarded file that it calls, has changed.
    """

    path: Path

    def __post_init__(self) -> None:
        self.sources = {file: _digest(SOURCE / file) for file in guarded_files()}
        known = {}
        if self.path.exists():
            known = json.loads(self.path.read_text())
        self.modules: list[str] = known.get("modules", [])
        self.tests: dict[str, list[Any]] = {}
        recorded_sources = known.get("sources", {}).items()
        same = {file for file, digest in recorded_sources if digest == self.sources.get(file)}
        for nodeid, recorded in known.get("tests", {}).items():
            called = recorded[-1]
            if called.keys() <= same:
                self.tests[nodeid] = recorded

    def unknown(self, tests: Iterable[Any]) -> list[Any]:
        """Return the tests that were not recorded as they are."""
        return [test for test in tests if self.tests.get(test.nodeid, [""])[0] != _digest(test.path)]

    def record(self, session: Any, tests: Sequence[Any], limit: float) -> None:
        """Run tests on the code as it is."""

        def work(tell: Tell) -> None:
            recorder = Recorder(tell, limit, guarded_files())
            session.items = list(tests)
            session.config.pluginmanager.register(recorder)
            run_loop(session)
            recorder.pytest_sessionfinish()

        _, told = forked(work)
        digests = {test.nodeid: _digest(test.path) for test in tests}
        for line in told:
            if isinstance(line[-1], dict):
                nodeid, seconds, end, called = line
                self.tests[nodeid] = [digests[nodeid], seconds, end, called]
            else:
                self.modules = sorted({*self.modules, *line})
        self.path.parent.mkdir(parents=True, exist_ok=True)
        kept = {"sources": self.sources, "tests": self.tests, "modules": self.modules}
        self.path.write_text(json.dumps(kept))

    def tests_of(self, file: str, lines: range, known: Iterable[str]) -> dict[str, float]:
        """Return the tests that pass and call a function that begins on these lines, each with its seconds."""
        seconds_of = {}
        for nodeid in known:
            _, seconds, end, called = self.tests.get(nodeid, ["", 0, "lost", {}])
            if end == "passed" and any(line in lines for line in called.get(file, ())):
                seconds_of[nodeid] = seconds
        return seconds_of


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


class Trial:
    """Tries faults from inside a pytest that has collected the tests."""

    def __init__(self, options: argparse.Namespace, out: TextIO) -> None:
        self.options = options
        self.out = out
        self.recording = Recording(Path(options.times))
        self.kills: Counter[tuple[str, str]] = Counter()
        self.unlisted = 0

    def say(self, line: str) -> None:
        """Print a line at once."""
        print(line, file=self.out, flush=True)

    def pytest_runtestloop(self, session: Any) -> bool:
        """Record the tests that were not yet recorded, then try every fault."""
        for file in guarded_files():
            module = file.removesuffix(".py").replace("/", ".")
            importlib.import_module(f"vestry.{module}")
        self.session = session
        self.items = {test.nodeid: test for test in session.items}
        unknown = self.recording.unknown(session.items)
        self.say(f"{len(session.items)} tests, {len(unknown)} of them to be recorded")
        if unknown:
            self.recording.record(session, unknown, self.options.slowest)
        for name in self.recording.modules:
            if name.split(".")[0] in _IMPORTED_BEFORE:
                _import_if_there(name)
        listed = allowed()
        for file in self.options.files:
            self.try_file(file, listed)
        return True

    def try_file(self, file: str, listed: dict[tuple[str, str, str], str]) -> None:
        """Try every fault of a file, and print those that are not as the list has them."""
        faults = [fault for fault in faults_of(file) if self.options.only in fault.change]
        caught = 0
        survived = 0
        for count, fault in enumerate(faults, start=1):
            end = self.end_of(fault)
            is_caught = end not in ("survived", "no test")
            caught += is_caught
            survived += not is_caught
            if is_caught == (fault.key in listed):
                self.unlisted += 1
                what = "CAUGHT BUT LISTED" if is_caught else "SURVIVED"
                self.say(f"  {what} {fault.file} {fault.function}: {fault.change}  [{end}]")
            if count % 25 == 0:
                self.say(f"  {file}: {count} of {len(faults)}")
        self.say(f"{file}: {len(faults)} faults, {caught} caught, {survived} survived")

    def end_of(self, fault: Fault) -> str:
        """Return the test that catches a fault, `out of time`, `no test` or `survived`."""
        mutant = fault.mutant()
        node = mutant.inside or mutant.tree
        first = getattr(node, "lineno", 0)
        lines = range(first, getattr(node, "end_lineno", sys.maxsize) + 1)
        seconds_of = self.recording.tests_of(fault.file, lines, self.items)
        if not seconds_of:
            return "no test"

        def likeliest_first(nodeid: str) -> tuple[float, ...]:
            return -self.kills[fault.function, nodeid], -self.kills[fault.file, nodeid], seconds_of[nodeid]

        chosen: list[str] = []
        total = 0.0
        for nodeid in sorted(seconds_of, key=likeliest_first):
            if total + seconds_of[nodeid] < self.options.patience:
                total += seconds_of[nodeid]
                chosen.append(nodeid)
        limit = 4 + 3 * total
        status, told = forked(lambda tell: self.run(mutant, chosen, tell), limit)
        if told:
            self.kills[fault.function, told[0]] += 1
            self.kills[fault.file, told[0]] += 1
            return str(told[0])
        if not status:
            return "survived"
        return "out of time" if os.WIFSIGNALED(status) else "not imported"

    def run(self, mutant: Mutant, chosen: list[str], tell: Tell) -> None:
        """Run tests on changed functions; or import everything anew from the changed source."""
        if not mutant.patch():
            import_anew(mutant, chosen, tell, [])
        self.session.items = [self.items[nodeid] for nodeid in chosen]
        self.session.config.pluginmanager.register(Watch(tell, chosen))
        run_loop(self.session)


def _import_if_there(name: str) -> None:
    try:
        importlib.import_module(name)
    except Exception:  # an optional part of a library, which the tests do without
        return


def main() -> int:
    """Try faults and print those that are not as the list has them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", default=guarded_files(), help="below src/vestry; all if none")
    parser.add_argument("--tests", nargs="*", default=[""], help="folders or files below tests/; all if none")
    parser.add_argument("--only", default="", help="the faults whose change has this text")
    parser.add_argument("--patience", type=float, default=sys.maxsize, help="processor seconds of tests for one fault")
    parser.add_argument("--slowest", type=float, default=30.0, help="processor seconds of one test at most")
    parser.add_argument("--times", default=str(ROOT / "build" / "guard-times.json"), help="where recordings are kept")
    options = parser.parse_args()
    from hypothesis import Phase, settings

    # A failing example is enough: `tests/conftest.py` takes from here what it does not set.
    settings.register_profile("guards", phases=(Phase.explicit, Phase.generate), database=None)
    settings.load_profile("guards")
    sys.path.insert(0, str(SOURCE.parent))
    out = os.fdopen(os.dup(1), "w")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    trial = Trial(options, out)
    folders = [str(ROOT / "tests" / name) for name in options.tests]
    status = pytest.main([*folders, *OPTIONS], plugins=[trial])
    out.close()
    if status is not pytest.ExitCode.OK:
        return int(status)
    return int(trial.unlisted > 0)


if __name__ == "__main__":
    sys.exit(main())
