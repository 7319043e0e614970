"""The page of what people ask: its study is the example's, and the example runs on the public table."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from vestry import open_release

ROOT = Path(__file__).parents[2]


def test_the_page_shows_the_study_that_is_run():
    shown = re.search(r"^```toml\n(.*?)^```$", (ROOT / "docs" / "uses.md").read_text(), re.DOTALL | re.MULTILINE)
    assert shown is not None
    assert shown[1] == (ROOT / "examples" / "uses.toml").read_text()


def test_the_page_tells_what_the_releases_cost():
    asked = tomllib.loads((ROOT / "examples" / "uses.toml").read_text())["release"]
    spent = round(sum(each["spend"]["epsilon"] for each in asked.values()), 6)
    assert f"cost epsilon {spent:g} together" in (ROOT / "docs" / "uses.md").read_text()


@pytest.mark.long
def test_without_data_it_says_what_to_write():
    environment = {key: value for key, value in os.environ.items() if key != "VESTRY_DATA"}
    script = [sys.executable, str(ROOT / "examples" / "uses.py"), "out"]
    done = subprocess.run(script, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "write VESTRY_DATA=FOLDER" in done.stderr


@pytest.mark.long
def test_it_runs_on_the_public_table(tmp_path):
    data = Path(os.environ.get("VESTRY_DATA", "nowhere")) / "diabetes130.parquet"
    if not data.is_file():
        pytest.skip("needs diabetes130.parquet in the folder that VESTRY_DATA names")
    script = [sys.executable, str(ROOT / "examples" / "uses.py"), str(tmp_path / "out")]
    done = subprocess.run(script, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out" / "uses.png").stat().st_size > 10_000
    counts = open_release(tmp_path / "out" / "patients" / "release.json").posterior().summary()
    # 71,515 patients have a declared gender; noise of scale 10 is off by 300 with probability 1e-13.
    assert abs(counts["mean"].sum() - 71_515) < 300
