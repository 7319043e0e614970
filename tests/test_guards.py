"""The list of faults that no quick test notices names code that is there; `quality/guards.py` tries the faults."""

import ast
import importlib.util
import sys
from pathlib import Path

import pytest

QUALITY = Path(__file__).parents[1] / "quality"


@pytest.fixture(scope="module")
def guards():
    """Load the script with its two neighbours, and put the list of folders back."""
    before = list(sys.path)
    sys.path.insert(0, str(QUALITY))
    spec = importlib.util.spec_from_file_location("guards", QUALITY / "guards.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["guards"] = module
    spec.loader.exec_module(module)
    yield module
    sys.path[:] = before


def test_every_listed_fault_is_one_of_its_file(guards):
    listed = guards.allowed()
    files = {file for file, _, _ in listed}
    possible = {fault.key for file in files for fault in guards.faults_of(file)}
    assert set(listed) <= possible


def test_every_reason_is_a_sentence(guards):
    assert all(reason.endswith(".") for reason in guards.allowed().values())


def test_a_number_and_a_comparison_have_two_faults_and_messages_none(guards, tmp_path, monkeypatch):
    source = (
        "def limited(x):\n"
        "    if x < 3:\n"
        "        raise ValueError('at least 3', 3)\n"
        "    return f'{x + 1}', x * 0, True\n"
        "TABLE = {'short': 7}\n"
        "class Sampler(Protocol):\n"
        "    size: int = 1\n"
    )  # fmt: skip
    tmp_path.joinpath("limited.py").write_text(source)
    monkeypatch.setattr(guards, "SOURCE", tmp_path)
    changes = [fault.change for fault in guards.faults_of("limited.py")]
    assert changes == [
        "x < 3  ->  x <= 3",
        "x < 3  ->  x >= 3",
        "x < 3  ->  x < 4",
        "x < 3  ->  x < 2",
        "(f'{x + 1}', x * 0, True)  ->  (f'{x + 1}', x * 1, True)",
        "'short': 7  ->  8",
        "'short': 7  ->  6",
    ]
    mutant = guards.faults_of("limited.py")[-1].mutant()
    assert "TABLE = {'short': 6}" in ast.unparse(mutant.tree)
