"""Every example that README and docs print is run here, and must print what is printed there."""

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```(console|python|text)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
RUNNER = Path(__file__).parent / "docs_runner.py"


def run(examples: list[dict], folder: Path) -> list[str]:
    """Run a page's examples, in order, in one folder and one process; return what each printed."""
    done = subprocess.run(
        [sys.executable, str(RUNNER)], cwd=folder, input=json.dumps(examples), capture_output=True, text=True,
        check=False, env={**os.environ, "COLUMNS": "200"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert not any("Traceback" in each for each in found), found
    return found


def matches(printed: str, seen: str) -> bool:
    """Compare line by line; `...` stands for anything within a line, and alone on a line for any lines."""
    pattern = ""
    for line in printed.strip().splitlines():
        pattern += r"(?:.*\n)*?" if line == "..." else ".*".join(map(re.escape, line.rstrip().split("..."))) + r"\n"
    return re.fullmatch(pattern, "".join(f"{line.rstrip()}\n" for line in seen.strip().splitlines())) is not None


def check(page: str, folder: Path) -> int:
    """Compare what a page prints with what its examples print; return how many there are."""
    examples, expected = [], []
    for kind, block in BLOCK.findall(page):
        if kind == "console":
            for command, printed in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n?)*)", block, re.MULTILINE):
                words = shlex.split(command)
                assert words[0] == "vestry"
                examples.append({"command": words})
                expected.append(printed)
        elif kind == "python":
            examples.append({"python": block})
            expected.append(None)
        else:
            assert examples, "a text block shows what the python block before it prints"
            assert "python" in examples[-1], "a text block shows what the python block before it prints"
            assert expected[-1] is None, "a python block prints once"
            expected[-1] = block
    for example, printed, seen in zip(examples, expected, run(examples, folder), strict=True):
        assert printed is None or matches(printed, seen), f"{example}\nprinted:\n{printed}\nseen:\n{seen}"
    return len(examples)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_examples_run_as_printed(page, tmp_path):
    assert check(page.read_text(), tmp_path) > 0


def test_a_wrong_page_is_rejected(tmp_path):
    with pytest.raises(AssertionError, match=r"rho=0\.6"):
        check("```console\n$ vestry convert epsilon=1 --to rho\nrho=0.6\n```", tmp_path)
    with pytest.raises(AssertionError, match="seen"):
        check("```python\nprint(1)\n```\n\n```text\n2\n```", tmp_path)
    with pytest.raises(AssertionError, match="Traceback"):
        check("```python\nprint(1 / 0)\n```", tmp_path)


def test_every_cited_key_is_in_the_bibliography():
    keys = set(re.findall(r"^@\w+\{(\w+),", (ROOT / "docs" / "references.bib").read_text(), re.MULTILINE))
    cited = {}
    for path in [*(ROOT / "src").rglob("*.py"), *PAGES]:
        for citation in re.findall(r"\[([A-Z][^\[\]]*)\]", path.read_text()):
            for key in re.findall(r"\b([A-Z][a-z]+[A-Z]*\d\d)\b", citation):
                cited.setdefault(key, path.name)
    assert len(cited) > 10
    assert {key: where for key, where in cited.items() if key not in keys} == {}


def test_constraints_hold_versions_and_no_address():
    lines = [line for line in (ROOT / "constraints.txt").read_text().splitlines() if not line.startswith("#")]
    assert all(re.fullmatch(r"[A-Za-z0-9_.-]+==[0-9][A-Za-z0-9_.+!-]*", line) for line in lines)


def test_continuous_integration_runs_the_test_command_and_nothing_else():
    script = (ROOT / ".ci" / "run").read_text().splitlines()
    assert [line for line in script if not line.startswith("#")] == ["exec make test"]
