"""`quality/same_numbers.py` sees what it should see: a comparison that finds nothing must not be blind."""

from __future__ import annotations

import importlib
import math
import sys
from pathlib import Path

import pytest

QUALITY = Path(__file__).parents[1] / "quality"


@pytest.fixture(scope="module")
def script():
    sys.path.insert(0, str(QUALITY))
    try:
        yield importlib.import_module("same_numbers")
    finally:
        sys.path.remove(str(QUALITY))


def compared(script, old: object, new: object):
    found = script.Comparison()
    found.records(old, new)
    return found


OLD = {"value": 0.1, "rows": [{"mean": 1.0, "sd": 2}, {"mean": None, "sd": True}], "says": "epsilon=1e-05 is met"}


@pytest.mark.parametrize(
    ("new", "where", "size"),
    [
        ({**OLD, "value": 0.1 + 2**-55}, ".value", pytest.approx(2.8e-16, rel=0.1)),
        ({**OLD, "rows": [{"mean": 1.0, "sd": 2.2}, {"mean": None, "sd": True}]}, ".rows[0].sd", pytest.approx(1 / 11)),
        ({**OLD, "rows": [{"mean": 1.0, "sd": 2}, {"mean": 0, "sd": True}]}, ".rows[1].mean", math.inf),
        ({**OLD, "rows": [{"mean": 1.0, "sd": 2}, {"mean": None, "sd": False}]}, ".rows[1].sd", math.inf),
        ({**OLD, "rows": OLD["rows"][:1]}, ".rows", math.inf),
        ({**OLD, "says": "epsilon=2e-05 is met"}, ".says", 0.5),
        ({**OLD, "says": "epsilon is met"}, ".says", math.inf),
        ({**OLD, "more": 1}, ".more", math.inf),
        ({"rows": OLD["rows"], "says": OLD["says"]}, ".value", math.inf),
        ({"result": 0.2, "rows": OLD["rows"], "says": OLD["says"]}, "", 0.5),
    ],
)
def test_a_difference_is_seen_with_its_place_and_size(script, new, where, size):
    (found,) = compared(script, OLD, new).differences
    assert (found.where, found.size) == (where, size)


def test_other_words_and_keys_above_the_same_numbers_are_told_apart(script):
    found = compared(script, OLD, {**OLD, "says": "meets epsilon = 1e-5"})
    assert (found.differences, found.words) == ([], 1)
    found = compared(script, OLD, {"result": OLD["value"], "says": OLD["says"], "table": OLD["rows"]})
    assert (found.differences, found.renamed) == ([], ["['value', 'rows'] -> ['result', 'table']"])


def test_pages_are_compared_by_what_they_print(script):
    old = "<html><style>p { width: 3px }</style><p>sd 0.50, 12\u202f345 rows, −1<svg><path d='M 1 2'/></svg></p></html>"
    same = "<html><p>−1, 12345 records<svg><path d='M 7 8'/></svg>, deviation 0.5</p></html>"
    found = script.Comparison()
    found.pages(old, same, "page")
    assert (found.differences, found.words) == ([], 1)
    found.pages(old, same.replace("0.5", "0.6"), "page")
    assert [each.where for each in found.differences] == ["page 0.5", "page 0.6"]


def test_a_reason_covers_its_case_its_place_and_its_size_alone(script):
    known = [{"cases": ["curve *"], "where": [".value"], "within": 1e-9, "why": "rounded up"}]
    small, large = (script.Difference(".value", "1", "1", size) for size in (1e-10, 1e-8))
    assert script.reason_for("curve laplace", small, known) == "rounded up"
    assert script.reason_for("curve laplace", large, known) is None
    assert script.reason_for("check study.toml", small, known) is None
    assert script.reason_for("curve laplace", script.Difference(".mu", "1", "1", 1e-10), known) is None


def test_every_model_family_and_mechanism_has_its_cases(script, tmp_path):
    from vestry.conjugate.family import family_names
    from vestry.mechanisms.release import PARAMETERS
    from vestry.registry import MODELS

    script.make_folder(tmp_path)
    lines = [case.line for case in script.cases(tmp_path)]
    for family in family_names():
        for mechanism in PARAMETERS:
            assert any(line.startswith(f"calibrate {mechanism} --family {family} ") for line in lines)
    checked = {line.split()[1] for line in lines if line.startswith("check ")}
    texts = [(tmp_path / name).read_text() for name in checked]
    newer = {"quality", "count", "table", "poisson", "levels", "histogram", "quantile"}  # 0.1.0 does not have them
    for model in set(MODELS) - newer:
        assert any(f'model = "{model}"' in text for text in texts)
