"""Every example that README and docs print is run here, and must print what is printed there; the site is whole."""

import atexit
import importlib.util
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from functools import cache
from pathlib import Path

import pytest

from vestry.report.page import bibliography

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```(console|python|text)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
RUNNER = Path(__file__).parent / "docs_runner.py"
# A table of numbers, and an example that has a test of its own (tests/study/test_uses.py).
TABLES = {"benchmarks.md", "uses.md"}
LONG = {
    "any-model.md",
    "budget.md",
    "chains.md",
    "estimators.md",
    "event-logs.md",
    "family.md",
    "first-study.md",
    "levels.md",
    "loss.md",
    "persons.md",
    "python.md",
    "regression.md",
}
HAS_SPARK = importlib.util.find_spec("pyspark") is not None and shutil.which("java") is not None
HAS_MKDOCS = all(importlib.util.find_spec(name) is not None for name in ("material", "mkdocstrings_handlers"))


@cache
def runner() -> subprocess.Popen:
    """Start the process that runs the pages of this session; it ends when nothing more can come in."""
    warm = subprocess.Popen(
        [sys.executable, str(RUNNER)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        env={**os.environ, "COLUMNS": "2000", "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    atexit.register(warm.communicate)
    return warm


def run(examples: list[dict], folder: Path) -> list[str]:
    """Run a page's examples, in order, in one folder; return what each printed."""
    warm = runner()
    print(json.dumps({"folder": str(folder), "examples": examples}), file=warm.stdin, flush=True)
    found = json.loads(warm.stdout.readline())
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
                assert words[0] == "vestry" or words[:3] == ["python", "-m", "reproductions"]
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


def marks(page: Path) -> list:
    """Starting Spark takes a while, and needs Java; some pages run whole studies, or a sampler."""
    if page.name == "spark.md":
        return [pytest.mark.slow, pytest.mark.skipif(not HAS_SPARK, reason="pip install 'vestry[spark]', and Java 17")]
    return [pytest.mark.long] if page.name in LONG else []


@pytest.mark.parametrize("page", [pytest.param(page, marks=marks(page), id=page.name) for page in PAGES])
def test_examples_run_as_printed(page, tmp_path):
    assert (check(page.read_text(), tmp_path) > 0) == (page.name not in TABLES)


def test_a_wrong_page_is_rejected(tmp_path):
    with pytest.raises(AssertionError, match=r"rho=0\.6"):
        check("```console\n$ vestry convert epsilon=1 --to rho\nrho=0.6\n```", tmp_path)
    with pytest.raises(AssertionError, match="seen"):
        check("```python\nprint(1)\n```\n\n```text\n2\n```", tmp_path)
    with pytest.raises(AssertionError, match="Traceback"):
        check("```python\nprint(1 / 0)\n```", tmp_path)
    with pytest.raises(AssertionError, match="ended its process"):
        check("```python\nimport os\nos._exit(3)\n```", tmp_path)


def studies(page: str) -> list[str]:
    """Return the TOML of a page, whole study files alone; every block must be TOML."""
    blocks = re.findall(r"^```toml\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    return [block for block in blocks if {"study", "release"} <= set(tomllib.loads(block))]


def test_study_files_are_valid(tmp_path):
    from vestry.study import Study

    found = [text for page in PAGES for text in studies(page.read_text())]
    assert len(found) >= 3
    for text in found:
        (tmp_path / "study.toml").write_text(text)
        assert len(Study.open(tmp_path / "study.toml").costs())


def test_a_block_that_is_no_toml_is_rejected():
    with pytest.raises(tomllib.TOMLDecodeError, match="Invalid value"):
        studies("```toml\nunit = row\n```")


@pytest.mark.slow
def test_examples_of_study_commands_run(tmp_path):
    """Those of the other commands are run in tests/cli. Nobody is there to answer what `release` asks."""
    from typer.main import get_command

    from vestry.cli import app

    lines = [
        line.removeprefix("vestry ")
        for name in ("check", "plan", "release", "report")
        for line in get_command(app).commands[name].epilog.split("\n\n")
        if line.startswith("vestry ")
    ]
    assert len(lines) == 11
    run([{"command": ["vestry", "init", "study"]}], tmp_path)
    answered = [f"{line} --yes" if line == "release study.toml" else line for line in lines]
    said = run([{"command": ["vestry", *shlex.split(line)]} for line in answered], tmp_path / "study")
    refused = [each for each in said if each.startswith("vestry: ")]
    assert all("an interval of width" in each for each in refused), refused  # as short as that there may be none


# --- the site ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def generate():
    spec = importlib.util.spec_from_file_location("generate", ROOT / "docs" / "generate.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def generated(generate) -> dict[str, str]:
    return generate.pages()


def listed() -> list[str]:
    """Return the pages that the site's navigation names."""
    return re.findall(r"^ +- .*?([\w/-]+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE)


def test_navigation_lists_every_page_once(generated):
    written = {str(page.relative_to(ROOT / "docs")) for page in PAGES[1:]}
    assert written.isdisjoint(generated)
    assert sorted(listed()) == sorted(written | set(generated))


def test_command_reference_has_every_command_and_option(generated):
    from typer.main import get_command

    from vestry.cli import app

    page = generated["reference/commands.md"]

    def below(command, path):
        yield path, command
        for name, each in getattr(command, "commands", {}).items():
            yield from below(each, f"{path} {name}")

    found = list(below(get_command(app), "vestry"))
    assert len(found) > 40
    for path, command in found[1:]:
        assert f"\n## {path}\n" in page
        for param in command.params:
            assert param.help, (path, param.name)
            assert f"`{param.opts[0]}" in page or f"`{param.metavar}" in page or f"`{param.name.upper()}`" in page


def test_api_reference_has_every_name(generated):
    import vestry
    from vestry.conjugate.beta_bernoulli import BetaBernoulliFamily
    from vestry.regression.langevin import LangevinSample

    front = generated["reference/vestry.md"]
    for name in vestry.__all__:
        thing = getattr(vestry, name)
        shown = f"({name}.md)" if name == "events" else f"::: {thing.__module__}.{thing.__qualname__}\n"
        assert shown in front, name
    for room, thing in (("conjugate", BetaBernoulliFamily), ("regression", LangevinSample)):
        assert f"::: {thing.__module__}.{thing.__qualname__}\n" in generated[f"reference/{room}.md"]


def test_citations_become_links(generate):
    made = generate.linked("<p>see [BokSA24, Thm 4.1; None99]</p><code>[BokSA24]</code>", "references.html")
    link = '<a href="references.html#boksa24">BokSA24</a>'
    assert made == f"<p>see [{link}, Thm 4.1; None99]</p><code>[BokSA24]</code>"


def test_a_row_above_its_limit_is_said_to_miss_it(generate, tmp_path, monkeypatch):
    rows = [
        {"name": "fast", "value": 12346, "unit": "draws/s", "ratio": 0.5, "limit": 1.0},
        {"name": "slow", "value": 3, "unit": "s", "ratio": 3.0, "limit": 1.0},
        {"name": "free", "value": 3, "unit": "s"},
    ]
    (tmp_path / "benchmarks.json").write_text(json.dumps(rows))
    monkeypatch.setattr(generate, "HERE", tmp_path)
    text = generate.benchmarks()
    assert "Of 3 rows 2 have a limit. **1 misses it: slow.**" in text
    assert "| slow | 3 s | 3 | **1, missed** |  |" in text
    assert "| fast | 12,350 draws/s | 0.5 | 1, held |  |" in text
    (tmp_path / "benchmarks.json").write_text(json.dumps(rows[:1]))
    assert "All of them hold it." in generate.benchmarks()


@pytest.mark.slow
@pytest.mark.skipif(not HAS_MKDOCS, reason="pip install 'vestry[docs]'")
def test_site_builds_without_warnings_and_loads_nothing_from_elsewhere(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path / "site")],
        cwd=ROOT, capture_output=True, text=True, check=False, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
    )  # fmt: skip
    said = done.stdout + done.stderr  # with --quiet even a strict build would not look at its warnings
    assert done.returncode == 0, said
    assert "WARNING" not in said, said
    pages = sorted((tmp_path / "site").rglob("*.html"))
    assert {str(page.relative_to(tmp_path / "site").with_suffix(".md")) for page in pages} == {*listed(), "404.md"}
    for page in pages:
        assert loaded(page.read_text()) == []


def loaded(page: str) -> list[str]:
    """Return what a page would load from elsewhere: scripts, styles, pictures, fonts. Links are followed by people."""
    tags = re.findall(r"<(?:script|link|img|iframe|source)\b[^>]*>", page)
    return [tag for tag in tags if re.search(r"""(?:src|href)=["']?(?:https?:)?//""", tag)]


def test_a_page_that_loads_from_elsewhere_is_found():
    page = (
        '<link href="//fonts.example"><script src=https://cdn.example/x.js></script><a href="http://x"><img src=x.png>'
    )
    assert len(loaded(page)) == 2


# --- the papers -------------------------------------------------------------------------------------------------------


def test_every_cited_key_is_in_the_bibliography():
    keys = set(bibliography())
    cited = {}
    for path in [*(ROOT / "src").rglob("*.py"), *(ROOT / "reproductions").rglob("*.py"), *PAGES]:
        for citation in re.findall(r"\[([A-Z][^\[\]]*)\]", path.read_text()):
            for key in re.findall(r"\b([A-Z][a-z]+[A-Z]*\d\d)\b", citation):
                cited.setdefault(key, path.name)
    assert len(cited) > 10
    assert {key: where for key, where in cited.items() if key not in keys} == {}


def test_constraints_hold_versions_and_no_address():
    lines = [line for line in (ROOT / "constraints.txt").read_text().splitlines() if not line.startswith("#")]
    assert all(re.fullmatch(r"[A-Za-z0-9_.-]+==[0-9][A-Za-z0-9_.+!-]*", line) for line in lines)


def test_continuous_integration_runs_the_two_commands_and_nothing_else():
    script = (ROOT / ".ci" / "run").read_text().splitlines()
    assert [line for line in script if not line.startswith("#")] == ["make test && exec make check"]
