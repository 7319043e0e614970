"""Bad input, made from good: command lines, study files, releases with their certificates, and ledgers.

A case is a function of its kind, a seed and a number, so that any of them can be made again.
"""

# ruff: noqa: E501 - tables
from __future__ import annotations

import hashlib
import json
import math
import random
import re
import string
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

KINDS = ("commands", "studies", "releases", "ledgers")


@dataclass(frozen=True)
class Case:
    """What is run: the arguments of `vestry`, and the files that are changed in a copy of the good folder."""

    arguments: tuple[str, ...]
    files: dict[str, bytes] = field(default_factory=dict)


def case(kind: str, seed: int, number: int, good: Path) -> Case:
    """Make a case from the folder of good files."""
    rng = random.Random(f"{seed}/{kind}/{number}")
    return _MAKERS[kind](rng, good)


# --- values that are rarely meant -----------------------------------------------------------------------------------

_NUMBERS = [
    "0", "-0", "1", "-1", "2", "0.5", "1e-3", "100", "1e6", "1e9", "1e18", "9007199254740993", "1e100", "1e300", "-1e300",
    "1e-300", "5e-324", "2.2250738585072014e-308", "1e308", "1e309", "inf", "-inf", "nan", "Infinity", "0x10", "1_000",
    "1e-12", "0.999999999999", "1.0000000000000002", "9" * 400, "1" + "0" * 30, "1,1", "2,5e-324", "1e300,1e300", "",
    "0,0", "-1,2", "1,nan", ",", "1,", "1,1,1,1,1", "1e-30,1e30", "3.5",
]  # fmt: skip
_TEXTS = [
    "", " ", "a" * 300, "a" * 5000, "\x1b[31mred\x1b[0m", "a\tb", "a\rb", "a\nb", "\u202eabc", "\u2028", "\ud7ff", "é", "漢字",
    "🙂", "../..", "/", "//", ".", "..", "-", "--", "-1", "~", "*", "${HOME}", "${", "%s", "{}", "{0}", "[bold]", "[/]",
    "\\", "'", '"', "`id`", ";", "NULL", "None", "true", "a/b", "a.b", "a:b", "a=b", "postgresql://u:p@h/d", "duckdb://x",
    "pyspark://", "http://x", "sqlite:///", "file.csv", "study.toml", "patients.ledger", "/dev/null", "/proc/self/mem", ".",
    "epsilon=1", "epsilon=1,delta=1e-5", "epsilon=1e-300", "epsilon=700", "epsilon=1e300", "rho=1e-9", "mu=30", "mu=1e9",
    "order=2,epsilon=1", "order=1e9,epsilon=1", "epsilon=1,delta=1e-300", "epsilon=1e-9,delta=0.99", "rho=1e30",
]  # fmt: skip


def _odd(rng: random.Random) -> str:
    pick = rng.random()
    if pick < 0.5:
        return rng.choice(_NUMBERS)
    if pick < 0.9:
        return rng.choice(_TEXTS)
    return "".join(rng.choice(string.printable + "éß漢\x00\x7f\u200b") for _ in range(rng.randrange(1, 40)))


# --- command lines --------------------------------------------------------------------------------------------------


def _command(rng: random.Random, good: Path) -> Case:
    words = rng.choice(_lines()).split()
    for _ in range(rng.choice((1, 1, 1, 2, 2, 3))):
        words = _changed_words(rng, words)
    # An argument of a process holds no zero byte.
    return Case(tuple(word.replace("\x00", "") for word in words))


def _changed_words(rng: random.Random, words: list[str]) -> list[str]:
    place = rng.randrange(len(words))
    pick = rng.random()
    if pick < 0.62:
        values = [each for each in range(1, len(words)) if not words[each].startswith("--")] or [place]
        place = rng.choice(values)
        return [*words[:place], _odd_near(rng, words[place]), *words[place + 1 :]]
    if pick < 0.72:
        return [*words[:place], *words[place + 1 :]] or ["check"]
    if pick < 0.8:
        return [*words[:place], words[place], *words[place:]]
    other = rng.choice(_lines()).split()
    options = [i for i, word in enumerate(other[:-1]) if word.startswith("--")]
    if options and pick < 0.95:
        at = rng.choice(options)
        return [*words, other[at], rng.choice((other[at + 1], _odd(rng)))]
    return [*words[:place], _odd(rng), *words[place:]]


def _odd_near(rng: random.Random, word: str) -> str:
    """Return an odd value, or the word with one of its numbers replaced."""
    numbers = list(re.finditer(r"\d+(?:\.\d+)?(?:e-?\d+)?", word))
    if numbers and rng.random() < 0.6:
        found = rng.choice(numbers)
        return word[: found.start()] + rng.choice(_NUMBERS) + word[found.end() :]
    return _odd(rng)


def _lines() -> list[str]:
    """Return good command lines: every mechanism by every verb, and the other commands."""
    if not _GOOD_LINES:
        from vestry.cli.mechanism_commands import CONJUGATE, GLM, LANGEVIN, LINEAR

        for name, entry in {**CONJUGATE, **GLM, **LINEAR}.items():
            _GOOD_LINES.append(f"calibrate {name} {entry.example} --guarantee {entry.guarantee}")
        for name, entry in {**CONJUGATE, **GLM, **LINEAR, **LANGEVIN}.items():
            _GOOD_LINES.append(f"curve {name} {entry.example} --at {entry.value}")
        for name, entry in CONJUGATE.items():
            ending = f"--guarantee {entry.guarantee} --trials 2000 --releases 0"
            _GOOD_LINES.append(f"audit {name} {entry.example} {ending}")
        for family in _FAMILIES:
            for name in ("laplace", "gaussian", "diffused", "concentrated", "direct"):
                _GOOD_LINES.append(f"calibrate {name} --family {family} --n 100 --guarantee epsilon=1,delta=1e-5")
            _GOOD_LINES.append(f"curve laplace --family {family} --neighbours add-remove --at 3 --rows 2 --json")
        _GOOD_LINES.extend(_OTHERS)
    return _GOOD_LINES


_GOOD_LINES: list[str] = []
_FAMILIES = (
    "beta-bernoulli --prior 1,1", "dirichlet-categorical --prior 1,2,3",
    "normal-mean --prior 0,100 --variance 50 --low 0 --high 60 --dimension 2", "gamma-poisson --prior 2,1 --low 0 --high 9",
    "gamma-exponential --prior 2,1 --low 0.1 --high 20", "normal-inverse-gamma --prior 0,1,2,1 --low 0 --high 60",
)  # fmt: skip
_OTHERS = [
    "convert epsilon=1,delta=1e-5 --to delta=1e-6", "convert rho=0.5 --to delta=1e-6 --json", "convert mu=1 --to order=4",
    "convert epsilon=1 --group 3 --neighbours add-remove --to-neighbours replace", "convert epsilon=1 --to rho --meet",
    "calibrate langevin --lipschitz 1 --strong-convexity 1 --smoothness 10 --steps 10 --step-size 0.1 --draws 2",
    "init another --json", "check study.toml", "check study.toml --json", "plan study.toml readmission",
    "release study.toml --dry-run", "release study.toml readmission --yes --output out", "report . --output out",
    "report study.toml --json", "posterior beta-bernoulli.json --prior 2,2 --prob 0.95 --json",
    "posterior dirichlet-categorical.json --plug-in", "posterior normal-mean.json --prior 1,2 --prob 0.5",
    "posterior hmm.json --states 3 --sweeps 20", "posterior naive-bayes.json", "posterior linear.json --json",
    "posterior draws.json", "reproduce list", "reproduce nothing --quick --output out", "ledger show patients.ledger",
    "ledger create new.ledger --dataset d --unit row --neighbours replace --budget epsilon=1,delta=1e-6 --orders 32,64",
    "ledger charge patients.ledger epsilon=0.01 --purpose x --who me", "ledger verify patients.ledger --json",
    "ledger amend patients.ledger --budget epsilon=2,delta=1e-6 --reason more", "ledger export patients.ledger",
    "ledger show patients.ledger --json", "--version", "--help", "calibrate gibbs --help",
]  # fmt: skip


# --- study files ----------------------------------------------------------------------------------------------------


def _study(rng: random.Random, good: Path) -> Case:
    name = rng.choice(("study.toml", "every.toml"))
    text = (good / name).read_text(encoding="utf-8")
    for _ in range(rng.choice((1, 1, 2, 3))):
        text = _changed_study(rng, text)
    pick = rng.random()
    arguments = ("check", name) if pick < 0.8 else ("check", name, "--json") if pick < 0.9 else ("plan", name)
    if name == "every.toml" and arguments[0] == "plan":  # ten simulations take longer than a case may
        arguments = ("check", name)
    if pick > 0.96:
        arguments = ("release", name, "--yes", "--output", "out")
    return Case(arguments, {name: text.encode("utf-8", "surrogatepass")})


_TOML = re.compile(r'"[^"\n]*"|\b\d[\w.+-]*|\[[^\[\]\n]*\]|\{[^{}\n]*\}')


def _changed_study(rng: random.Random, text: str) -> str:
    lines, pick = text.splitlines(keepends=True), rng.random()
    if pick < 0.6 and (values := list(_TOML.finditer(text))):
        found = rng.choice(values)
        return text[: found.start()] + _toml_value(rng) + text[found.end() :]
    place = rng.randrange(len(lines)) if lines else 0
    if pick < 0.7:
        return "".join(lines[:place] + lines[place + 1 :])
    if pick < 0.78:
        return "".join([*lines[:place], *lines[place : place + 1], *lines[place:]])
    if pick < 0.88 and (keys := list(re.finditer(r"^[\w-]+(?= *=)", text, re.MULTILINE))):
        found = rng.choice(keys)
        return text[: found.start()] + rng.choice((json.dumps(_odd(rng)), "prior", "by", "draws")) + text[found.end() :]
    if pick < 0.94:
        extra = rng.choice(
            ("prior", "draws", "truncation", "mechanism", "expected_rows", "max_rows", "missing", "by", "purpose")
        )
        return "".join([*lines[:place], f"{extra} = {_toml_value(rng)}\n", *lines[place:]])
    at = rng.randrange(len(text) + 1)
    return text[:at] + _odd(rng) + text[at + rng.randrange(3) :]


def _toml_value(rng: random.Random) -> str:
    return rng.choice(
        (
            lambda: json.dumps(_odd(rng), ensure_ascii=False),
            lambda: rng.choice(_NUMBERS),
            lambda: f"[{', '.join(rng.choice(_NUMBERS[:24]) for _ in range(rng.randrange(6)))}]",
            lambda: "[" * 500 + "]" * 500,
            lambda: (
                f"{{ {rng.choice(('epsilon', 'delta', 'rho', 'mu', 'value', 'person'))} = {rng.choice(_NUMBERS)} }}"
            ),
            lambda: rng.choice(("true", "false", "1979-05-27", "07:32:00", '"auto"', '"ops"', '"drop"', '"level"')),
            lambda: rng.choice(('"diffused"', '"gaussian"', '"ward"', '"stay_days"', '"readmitted"', '"replace"')),
            lambda: json.dumps([f"level {i}" for i in range(rng.choice((0, 1, 2, 300)))]),
        )
    )()


# --- releases and certificates --------------------------------------------------------------------------------------


def _release(rng: random.Random, good: Path) -> Case:
    if rng.random() < 0.15:
        return _certificate(rng, good)
    name = rng.choice([*sorted(path.name for path in good.glob("*.json"))])
    record = json.loads((good / name).read_text(encoding="utf-8"))
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        record = _changed_tree(rng, record)
    if isinstance(record, dict) and rng.random() < 0.93:
        record["sha256"] = _right_hash(record)
    content = _json(record).encode("utf-8", "surrogatepass")
    if rng.random() < 0.05:
        content = _changed_bytes(rng, content)
    arguments = ["posterior", name]
    arguments += ["--json"] if rng.random() < 0.7 else []
    arguments += ["--plug-in"] if rng.random() < 0.2 else []
    arguments += ["--prob", rng.choice(_NUMBERS)] if rng.random() < 0.05 else []
    arguments += ["--sweeps", "20"] if name == "hmm.json" else []
    return Case(tuple(arguments), {name: content})


def _certificate(rng: random.Random, good: Path) -> Case:
    """Change what a report reads: a certificate, or the release beside it."""
    name = f"readmission/{rng.choice(('certificate', 'certificate', 'release'))}.json"
    record = json.loads((good / name).read_text(encoding="utf-8"))
    for _ in range(rng.choice((1, 1, 2))):
        record = _changed_tree(rng, record)
    if name.endswith("release.json") and isinstance(record, dict):
        record["sha256"] = _right_hash(record)
    content = _json(record).encode("utf-8", "surrogatepass")
    if rng.random() < 0.1:
        content = _changed_bytes(rng, content)
    return Case(("report", "study.toml"), {name: content})


def _right_hash(record: dict[str, Any]) -> str:
    """Return the hash that a release of these contents would have."""
    body = {key: value for key, value in record.items() if key != "sha256"}
    try:
        text = json.dumps(body, sort_keys=True, separators=(",", ":"))
    except RecursionError:
        return ""
    return hashlib.sha256(text.encode()).hexdigest()


def _json(record: Any) -> str:
    try:
        return json.dumps(record)
    except RecursionError:
        return "[" * 200_000


def _changed_tree(rng: random.Random, record: Any) -> Any:
    """Change one place of a tree of JSON: a leaf more often than what holds it."""
    paths = list(_paths(record))
    path = rng.choice(paths)
    if not path:
        return _json_value(rng)
    holder = record
    for key in path[:-1]:
        holder = holder[key]
    key, pick = path[-1], rng.random()
    if pick < 0.12:
        del holder[key]
    elif pick < 0.2 and isinstance(holder, list):
        holder.insert(key, holder[key])
    elif pick < 0.6 and isinstance(holder[key], (int, float)) and not isinstance(holder[key], bool):
        holder[key] = _moved(rng, holder[key])
    else:
        holder[key] = _json_value(rng)
    return record


def _paths(tree: Any, path: tuple[Any, ...] = ()) -> Any:
    yield path
    inside = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, value in inside:
        yield from _paths(value, (*path, key))


def _moved(rng: random.Random, number: float) -> float:
    try:
        return rng.choice((lambda x: -x, lambda x: x + 1, lambda x: x * 1000, lambda x: x * 1e15, lambda x: x / 1e6,
                           lambda x: float(x), lambda x: x + 0.5, lambda x: int(x), lambda x: x * 0))(number)  # fmt: skip
    except (ValueError, OverflowError):
        return 0


def _json_value(rng: random.Random) -> Any:
    deep: Any = []
    for _ in range(rng.choice((3, 3, 400))):
        deep = [deep]
    return rng.choice(
        (
            None, True, False, 0, -1, 1, 2, 0.5, 1e300, -1e300, 5e-324, 10**30, 10**400, math.nan, math.inf, -math.inf, "", "1",
            "all", "beta-bernoulli", "hmm", "naive-bayes", "normal-mean", "discrete-gaussian", "add-remove", "private", "\x1b[31m",
            "a" * 5000, "\ud800", [], {}, [None], [1, 2], ["a", "b"], {"a": 1}, {"name": "linear"}, [[1.0], [2.0]], deep,
            [0.5] * 1000, {"epsilon": 1.0}, {"kind": "pure", "count": 1},
        )
    )  # fmt: skip


# --- ledgers --------------------------------------------------------------------------------------------------------


def _ledger(rng: random.Random, good: Path) -> Case:
    content = (good / "patients.ledger").read_bytes()
    for _ in range(rng.choice((1, 1, 1, 2, 5))):
        content = _changed_bytes(rng, content)
    commands = (
        ("ledger", "verify", "patients.ledger", "--json"),
        ("ledger", "show", "patients.ledger"),
        ("ledger", "show", "patients.ledger", "--json"),
        ("ledger", "export", "patients.ledger"),
        ("ledger", "charge", "patients.ledger", "epsilon=0.001", "--purpose", "one more"),
        ("check", "study.toml"),
    )
    return Case(rng.choice(commands), {"patients.ledger": content})


def _changed_bytes(rng: random.Random, content: bytes) -> bytes:
    if not content:
        return b"\0"
    at, pick = rng.randrange(len(content)), rng.random()
    if pick < 0.6:
        return content[:at] + bytes([content[at] ^ (1 << rng.randrange(8))]) + content[at + 1 :]
    if pick < 0.75:
        return content[:at]
    if pick < 0.9:
        return content[:at] + rng.randbytes(rng.choice((1, 1, 16, 4096))) + content[at:]
    return content[:at] + bytes(rng.choice((1, 100, 5000))) + content[at + rng.choice((1, 100, 5000)) :]


_MAKERS: dict[str, Callable[[random.Random, Path], Case]] = {
    "commands": _command,
    "studies": _study,
    "releases": _release,
    "ledgers": _ledger,
}
