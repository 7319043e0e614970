"""Run two versions of `vestry` over the same cases, and show which numbers differ.

    python quality/same_numbers.py 97a9dbf                  # a commit, and the working tree
    python quality/same_numbers.py 97a9dbf HEAD --only 'calibrate*' --json
    python quality/same_numbers.py OLD/src NEW/src --all    # folders that hold the package; also what takes minutes

Each version runs in one process of its own, through `vestry.cli.main` alone (`same_driver.py`), over the same command
lines (`same_cases.py`). Compared are exit codes, JSON by its structure, and of pages the numbers that they print. A
number must be the same to the last digit; how far it is off is said. Words may change: a text counts as the same if the
numbers in it are. Where names of keys differ the numbers below them are compared as a multiset, and that is said.

`reasons.toml` says which differences are meant, and which words of commands and study files a later version calls
otherwise. Exit code 1 if there is a difference without a reason.
"""

from __future__ import annotations

import argparse
import fnmatch
import html
import io
import json
import math
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

from same_cases import Case, cases, make_folder

ROOT = Path(__file__).parent.parent
REASONS = Path(__file__).with_name("reasons.toml")
Done = dict[str, Any]  # as the driver writes it
_NUMBER = re.compile(r"\d+(?:\.\d+)?(?:e[-+]?\d+)?")


@dataclass(frozen=True)
class Difference:
    """Where two results differ, what it was and is, and by how much; infinite for what is not two numbers."""

    where: str
    old: str
    new: str
    size: float = math.inf

    def __str__(self) -> str:
        return f"{self.where}: {self.old} -> {self.new}"


@dataclass
class Comparison:
    """What differs between two results.

    Attributes
    ----------
    differences
        What is not the same.
    renamed
        Names of keys that differ, above the same numbers.
    words
        Texts that differ, with the same numbers in them.
    """

    differences: list[Difference] = field(default_factory=list)
    renamed: list[str] = field(default_factory=list)
    words: int = 0

    def differ(self, where: str, old: object, new: object, size: float = math.inf) -> None:
        """Note a difference."""
        self.differences.append(Difference(where, _short(old), _short(new), size))

    def records(self, old: Any, new: Any, where: str = "") -> None:
        """Compare two values of JSON."""
        if _is_number(old) and _is_number(new):
            if _distance(old, new):
                self.differ(where, old, new, _distance(old, new))
        elif isinstance(old, str) and isinstance(new, str):
            self.texts(old, new, where)
        elif isinstance(old, dict) and isinstance(new, dict):
            self._tables(old, new, where)
        elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
            for place, pair in enumerate(zip(old, new, strict=True)):
                self.records(*pair, f"{where}[{place}]")
        elif isinstance(old, dict | list) and isinstance(new, dict | list):
            self._others(old, new, where)
        elif old is not new:
            self.differ(where, old, new)

    def texts(self, old: str, new: str, where: str) -> None:
        """Compare two texts by the numbers in them."""
        if old == new:
            return
        before, after = list(_numbers(old)), list(_numbers(new))
        if before == after:
            self.words += 1
        elif len(before) == len(after):
            self.differ(where, old, new, max(map(_distance, before, after)))
        else:
            self.differ(where, old, new)

    def pages(self, old: str, new: str, where: str) -> None:
        """Compare the numbers that two pages print, in any order."""
        before, after = Counter(_printed(old)), Counter(_printed(new))
        for number in sorted((before - after) | (after - before), key=str):
            self.differ(f"{where} {number}", f"{before[number]} times", f"{after[number]} times")
        self.words += before == after and old != new

    def _tables(self, old: dict[str, Any], new: dict[str, Any], where: str) -> None:
        """Compare what two tables have in common, and what each has alone: added, gone or renamed."""
        for key in [key for key in old if key in new]:
            self.records(old[key], new[key], f"{where}.{key}")
        gone = {key: each for key, each in old.items() if key not in new}
        added = {key: each for key, each in new.items() if key not in old}
        if gone and added:
            self._others(gone, added, where)
            return
        for key, each in gone.items():
            self.differ(f"{where}.{key}", each, "gone")
        for key, each in added.items():
            self.differ(f"{where}.{key}", "none", each)

    def _others(self, old: Any, new: Any, where: str) -> None:
        """Compare what has other names, or another form, by the multiset of its numbers."""
        before, after = (sorted(_numbers(each), key=_order) for each in (old, new))
        if list(map(type, before)) != list(map(type, after)):
            self.differ(where, old, new)
            return
        self.renamed.append(f"{where} {_short(list(old))} -> {_short(list(new))}".lstrip())
        for pair in zip(before, after, strict=True):
            if pair[0] != pair[1]:
                self.differ(where, *pair, _distance(*pair))


def compare(old: Done, new: Done) -> Comparison:
    """Compare what one case left behind in two versions."""
    found = Comparison()
    if old["code"] != new["code"]:
        found.differ("exit code", f"{old['code']} {_last(old)}", f"{new['code']} {_last(new)}")
        return found
    outs = [_parsed(each["out"]) for each in (old, new)]
    if old["code"]:
        found.texts(_last(old), _last(new), "message")
    found.records(*outs)
    for name in sorted(old["files"].keys() | new["files"].keys()):
        texts = [each["files"].get(name) for each in (old, new)]
        if None in texts:
            found.differ(name, *("a file" if text else "none" for text in texts))
        elif name.endswith(".html"):
            found.pages(*texts, name)
        else:
            found.records(*map(json.loads, texts), name)
    return found


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _last(done: Done) -> str:
    """Return the last line of what was said on standard error."""
    return (done["err"].strip().splitlines() or [""])[-1]


def _distance(old: float | str, new: float | str) -> float:
    """Return the relative difference of two numbers; infinite for what is not two numbers."""
    if isinstance(old, str) or isinstance(new, str):
        return 0.0 if old == new else math.inf
    if old == new or (math.isnan(old) and math.isnan(new)):
        return 0.0
    return abs(old - new) / max(abs(old), abs(new))


def _order(value: float | str) -> tuple[bool, float, str]:
    """Put numbers in their order, and after them truth values and nulls."""
    return (True, 0.0, value) if isinstance(value, str) else (False, value, "")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _numbers(record: Any) -> Iterator[float | str]:
    """Yield every number of a record, those in texts too, and truth values and nulls."""
    if isinstance(record, dict | list):
        for each in record.values() if isinstance(record, dict) else record:
            yield from _numbers(each)
    elif isinstance(record, str):
        yield from map(float, _NUMBER.findall(record))
    else:
        yield float(record) if _is_number(record) else repr(record)


def _printed(page: str) -> list[float | str]:
    """Return the numbers that a page prints; thin and hard spaces are part of a number, raised digits stand alone."""
    text = re.sub(r"(?s)<(style|script)\b.*?</\1>|<[^>]*>", " ", page)
    text = re.sub(r"(?<=\d)[\u202f\u2009\xa0](?=\d)", "", html.unescape(text)).replace("−", "-")
    found = re.findall(r"(-?\d+(?:\.\d+)?)|([⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+)", text)
    return [float(number) if number else raised for number, raised in found]


def _short(value: object) -> str:
    text = " ".join(str(value).split())
    return text if len(text) <= 100 else f"{text[:97]}..."


# Two versions


def source_of(version: str, place: Path) -> Path:
    """Return a folder that holds the package: the one that is named, or that of a commit, written to `place`."""
    if Path(version).is_dir():
        return Path(version).resolve()
    packed = subprocess.run(["git", "-C", str(ROOT), "archive", version, "src"], check=True, capture_output=True).stdout
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        archive.extractall(place, filter="data")
    return place / "src"


def results(source: Path, place: Path, wanted: list[Case], words: dict[str, str]) -> list[list[Done]]:
    """Run cases by a version: each in its own words or, where these are refused, also in later ones."""
    folders = place / "own", place / "later"
    for folder in folders:
        make_folder(folder)
    for path in folders[1].rglob("*.toml"):
        path.write_text(_renamed_keys(path.read_text(), words))
    asked = []
    for case in wanted:
        own = [*case.line.split(), "--json"]
        ways = [[str(folders[0]), own]]
        if words:
            ways.append([str(folders[1]), [words.get(word, word) for word in own]])
        asked.append({"ways": ways, "files": case.files, "compared": case.compared})
    (place / "cases.json").write_text(json.dumps(asked))
    command = [sys.executable, str(Path(__file__).with_name("same_driver.py")), "cases.json", "results.jsonl"]
    calm = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MPLBACKEND": "agg", "COLUMNS": "2000"}
    subprocess.run(command, cwd=place, check=True, env={**os.environ, **calm, "PYTHONPATH": str(source)})
    lines = (place / "results.jsonl").read_text().splitlines()
    return [json.loads(_placeless(line, folders)) for line in lines]


def _renamed_keys(text: str, words: dict[str, str]) -> str:
    for old, new in words.items():
        text = re.sub(rf"(?m)(^|[{{,]\s*){re.escape(old)}(?=\s*=)", rf"\g<1>{new}", text)
    return text


def _placeless(line: str, folders: tuple[Path, ...]) -> str:
    for folder in folders:
        line = line.replace(str(folder), "FOLDER")
    return line


def reason_for(line: str, found: Difference, known: list[dict[str, Any]]) -> str | None:
    """Return why a number of a case may differ, and by so much; None if no reason is known."""
    for each in known:
        if found.size <= each["within"] and _fits(line, each["cases"]) and _fits(found.where, each.get("where", ["*"])):
            return str(each["why"])
    return None


def _fits(text: str, patterns: list[str]) -> bool:
    return any(fnmatch.fnmatchcase(text, pattern) for pattern in patterns)


def run(old: str, new: str, only: str, everything: bool, known: dict[str, Any]) -> dict[str, Any]:
    """Run both versions, and return what is the same and what is not."""
    with tempfile.TemporaryDirectory() as place:
        make_folder(Path(place) / "listed")
        listed = [case for case in cases(Path(place) / "listed") if everything or not case.slow]
        wanted = [case for case in listed if fnmatch.fnmatchcase(case.line, only) or not case.compared]
        done = []
        for name, version in (("old", old), ("new", new)):
            folder = Path(place) / name
            folder.mkdir()
            done.append(results(source_of(version, folder), folder, wanted, known.get("words", {})))
    record: dict[str, Any] = {"cases": 0, "numbers": 0, "refused": 0, "words": 0, "seconds": [0.0, 0.0]}
    record |= {"renamed": [], "reasoned": [], "differences": []}
    for case, *pair in zip(wanted, *done, strict=True):
        if case.compared:
            _add(record, case.line, *pair, known.get("difference", []))
    return record


def _add(record: dict[str, Any], line: str, before: list[Done], after: list[Done], known: list[dict[str, Any]]) -> None:
    """Add one case to what was found; of what was refused in all words, those that agree best."""
    ways = [(compare(*pair), *pair) for pair in product(before, after)]
    found, old, new = min(ways, key=lambda way: len(way[0].differences))
    record["cases"] += 1
    texts = [old["out"], *old["files"].values()]
    record["numbers"] += sum(len(_printed(each) if "<html" in each else _NUMBER.findall(each)) for each in texts)
    record["refused"] += old["code"] != 0
    record["words"] += found.words > 0
    record["seconds"] = [total + each["seconds"] for total, each in zip(record["seconds"], (old, new), strict=True)]
    if found.renamed:
        record["renamed"].append({"case": line, "keys": found.renamed})
    reasons: dict[str | None, list[Difference]] = {}
    for each in found.differences:
        reasons.setdefault(reason_for(line, each, known), []).append(each)
    for why, differences in reasons.items():
        size = max(each.size for each in differences)
        row = {"case": line, "largest": size if size < math.inf else None, "where": list(map(str, differences))}
        record["differences" if why is None else "reasoned"].append({**row, "why": why})


def lines_of(record: dict[str, Any]) -> Iterator[str]:
    """Tell what was found: a line for each case that differs, those with a reason apart, and a total."""
    renamed = Counter(keys for row in record["renamed"] for keys in row["keys"])
    yield from (
        f"other keys in {count} places, numbers compared without them: {keys}" for keys, count in renamed.items()
    )
    for why in dict.fromkeys(row["why"] for row in record["reasoned"]):
        yield f"reason: {why}"
        yield from (f"  {_line(row)}" for row in record["reasoned"] if row["why"] == why)
    yield from (f"DIFFERS {_line(row)}" for row in record["differences"])
    spent = " and ".join(f"{each:.0f}" for each in record["seconds"])
    yield (
        f"{record['cases']} cases ({record['refused']} refused), {record['numbers']} numbers, {spent} s:"
        f" {len(record['differences'])} differ, {len(record['reasoned'])} with a reason,"
        f" {len(record['renamed'])} have other keys, {record['words']} other words"
    )


def _line(row: dict[str, Any]) -> str:
    size = "" if row["largest"] is None else f", by at most {row['largest']:.1e}"
    return f"{row['case']}: {len(row['where'])} differ{size}; {row['where'][0]}"


def main() -> None:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", help="a folder that holds the package vestry, or a commit")
    parser.add_argument("new", nargs="?", default=str(ROOT / "src"), help="the same; the working tree if left out")
    parser.add_argument("--only", default="*", help="cases like this, for example 'posterior*'")
    parser.add_argument("--all", action="store_true", help="also what takes minutes")
    parser.add_argument("--reasons", type=Path, default=REASONS)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    given = parser.parse_args()
    known = tomllib.loads(given.reasons.read_text()) if given.reasons.exists() else {}
    record = run(given.old, given.new, given.only, given.all, known)
    print(json.dumps(record, indent=1) if given.json else "\n".join(lines_of(record)))
    sys.exit(1 if record["differences"] else 0)


if __name__ == "__main__":
    main()
