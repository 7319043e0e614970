"""The example of a model that no conjugate family expresses: the page prints it as it is, and it runs."""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path

import numpy as np
import pytest

jax = pytest.importorskip("jax")
pytest.importorskip("numpyro")

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "ward_trend.py"
PAGE = ROOT / "docs" / "any-model.md"


def printed(page: str) -> list[str]:
    """Return the functions that a page prints of the example."""
    return [block for block in re.findall(r"^```py\n(.*?)^```$", page, re.DOTALL | re.MULTILINE) if "numpyro" in block]


def test_the_page_prints_the_example():
    source, blocks = EXAMPLE.read_text(), printed(PAGE.read_text())
    assert len(blocks) == 2
    assert all(block in source for block in blocks)
    assert "numpyro.sample(0)" not in source
    assert printed("```py\nnumpyro.sample(0)\n```") == ["numpyro.sample(0)\n"]  # which would not be found in it


@pytest.fixture(scope="module")
def example():
    spec = importlib.util.spec_from_file_location("ward_trend", EXAMPLE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.long
def test_a_release_by_ward_and_month_is_fitted(example, tmp_path):
    """A slope of 3 is found from noise of scale 2, in a few draws: far from both ends of its prior."""
    example.TRUTH = {"level": 0.0, "slope": 3.0, "spread": 0.2, "slope_spread": 0.1}
    frame = example.admissions()
    likelihood = example.released(tmp_path, frame).likelihood()
    assert likelihood.batch_shape == (len(example.WARDS) * len(example.MONTHS),)
    assert likelihood.labels("ward") == example.WARDS
    assert likelihood.labels("month") == example.MONTHS
    month = np.array(example.MONTHS)[likelihood.index("month")]
    assert [f"{w}, {m}" for w, m in zip(np.array(example.WARDS)[likelihood.index("ward")], month, strict=True)] == list(
        likelihood.groups
    )
    with jax.enable_x64(True):
        ward, time = likelihood.index("ward"), example.TIMES[likelihood.index("month")]
        draws = example.sampler(example.noise_aware, warmup=150, draws=100)(
            jax.random.PRNGKey(1), likelihood, ward, time
        )
    draws = {name: np.asarray(each) for name, each in draws.items()}
    assert draws["trend"].shape == (100, len(example.WARDS))
    assert 1.5 < float(draws["slope"].mean()) < 5.0


def test_the_page_prints_the_coverage_that_was_found():
    results = json.loads((ROOT / "quality" / "coverage" / "any_model.json").read_text())["250"]
    assert len(results) == 200
    page = PAGE.read_text()
    for name in results[0]["plug-in"]:
        found = []
        for method in ("noise-aware", "plug-in"):
            holds, widths = np.array([each[method][name] for each in results]).T
            found += [f"{holds.mean():.3f} ({holds.std(ddof=1) / np.sqrt(200):.3f})", f"{widths.mean():.2f}"]
        assert f"| `{name}` | {' | '.join(found)} |" in page
