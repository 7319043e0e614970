"""The wheel in an empty environment: the core runs the demo from outside the clone, each extra works alone."""

from __future__ import annotations

import shutil
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
pytestmark = pytest.mark.slow

# What needs an extra, as a user would write it, and what is printed when the extra is there.
USES = {
    "glm": """
import numpy as np
from vestry.estimators import Ball, PrivateLogisticRegression
rows = np.random.default_rng(0).uniform(-1, 1, (200, 2))
learner = PrivateLogisticRegression(
    guarantee="epsilon=1,delta=1e-5", bounds=Ball(2.0), classes=[0, 1], ledger=None, neighbours="replace"
)
print(learner.fit(rows, (rows[:, 0] > 0).astype(int)).coef_.shape)
""",
    "postgres": """
import vestry
try:
    vestry.Ledger.open("postgresql://nobody@127.0.0.1:1/nothing")
except vestry.VestryError as error:
    print(error)
""",
    "spark": """
import vestry
from vestry.data.source import connect
try:
    connect("pyspark://nowhere.parquet")
except vestry.VestryError as error:
    print(error)
""",
    "polars": """
import polars, vestry
table = vestry.Table(
    polars.DataFrame({"ward": ["A", "B"]}), {"ward": vestry.Levels("A", "B")}, unit="row", neighbours="replace"
)
print(table)
""",
    "page": """
import pathlib, tempfile, vestry
from vestry.cli.open_command import open_page
try:
    open_page(pathlib.Path(tempfile.mkdtemp()), port=-1)
except vestry.VestryError as error:
    print(error)
""",
}
PRINTED = {
    "glm": "(1, 2)",
    "postgres": "cannot be used",
    "spark": "can read",
    "polars": "Table",
    "page": "--port must be a free port",
}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run([sys.executable, "-m", "build", "--outdir", folder, ROOT], check=True, capture_output=True)
    (found,) = folder.glob("vestry-*.whl")
    return found


def environment(folder: Path, wheel: Path, extra: str = "") -> Path:
    """Return the interpreter of a new environment with the wheel and one extra, or none."""
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    wanted = f"{wheel}[{extra}]" if extra else str(wheel)
    install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*install, "--constraint", ROOT / "constraints.txt", wanted], check=True)
    return python


@pytest.fixture(scope="module")
def core(tmp_path_factory, wheel) -> Path:
    return environment(tmp_path_factory.mktemp("core") / "env", wheel)


def run(python: Path, *arguments: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([python, "-I", *map(str, arguments)], cwd=cwd, capture_output=True, text=True, check=False)


def test_the_wheel_holds_the_library_and_nothing_else(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    assert "vestry/py.typed" in names
    assert {name.split("/")[0].split("-")[0] for name in names} == {"vestry"}
    assert not [name for name in names if "test" in name or name.endswith((".png", ".parquet", ".ledger"))]


def test_the_demo_runs_from_outside_the_clone(core, tmp_path):
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    done = run(core, tmp_path / "examples" / "demo.py", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "demo-output" / "report.html").stat().st_size > 10_000
    assert str(ROOT) not in run(core, "-c", "import vestry; print(vestry.__file__)", cwd=tmp_path).stdout


@pytest.mark.parametrize("extra", ["glm", "postgres", "spark", "page"])
def test_an_absent_extra_gives_its_install_line(core, tmp_path, extra):
    done = run(core, "-c", USES[extra], cwd=tmp_path)
    assert f"pip install 'vestry[{extra}]'" in done.stdout + done.stderr


def test_a_command_without_its_extra_gives_the_install_line_and_no_traceback(core, tmp_path):
    vestry = core.parent / "vestry"
    subprocess.run([vestry, "init", "hospital"], cwd=tmp_path, check=True, capture_output=True)
    study = tmp_path / "hospital" / "study.toml"
    study.write_text(study.read_text().replace("\nledger =", "\nlargest = 5000\nledger =") + REGRESSION)
    done = subprocess.run([vestry, "release", study, "risk", "--yes"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 2, done.stdout
    assert "pip install 'vestry[glm]'" in done.stderr
    assert "Traceback" not in done.stderr
    shown = subprocess.run([vestry, "ledger", "show", tmp_path / "hospital" / "patients.ledger"], capture_output=True)
    assert b"risk" not in shown.stdout  # refused before anything was charged


REGRESSION = """
[release.risk]
model = "logistic"
outcome = "readmitted"
success = "yes"
predictors = ["ward"]
method = "output"
spend = { epsilon = 0.2, delta = 1e-7 }
"""


@pytest.mark.parametrize("extra", USES)
def test_each_extra_works_alone(tmp_path, wheel, extra):
    python = environment(tmp_path / "env", wheel, extra)
    done = run(python, "-c", USES[extra], cwd=tmp_path)
    assert PRINTED[extra] in done.stdout, done.stdout + done.stderr
