"""The command `python -m reproductions`, called by itself."""

import json

import pytest
from reproductions import EXPERIMENTS
from reproductions.__main__ import main


@pytest.mark.parametrize("arguments", [[], ["list"]])
def test_lists_every_experiment(arguments, capsys):
    assert main(arguments) == 0
    shown = capsys.readouterr().out
    assert [line.split()[0] for line in shown.splitlines()] == list(EXPERIMENTS)
    assert "Kullback-Leibler divergence" in shown


@pytest.mark.long
def test_writes_a_picture_and_its_numbers(tmp_path, capsys):
    folder = tmp_path / "a" / "b"
    arguments = ["foulds-adversary", "foulds-fig1", "foulds-adversary", "--quick", "--output", str(folder)]
    assert main(arguments) == 0
    assert sorted(path.name for path in folder.iterdir()) == [
        "foulds-adversary.json", "foulds-adversary.png", "foulds-fig1.json", "foulds-fig1.png",
    ]  # fmt: skip
    for path in folder.glob("*.png"):
        assert path.read_bytes().startswith(b"\x89PNG")
        assert path.stat().st_size < 200_000
    claims = json.loads((folder / "foulds-adversary.json").read_text())["claims"]
    shown = capsys.readouterr()
    assert all(claim["says"] in shown.out for claim in claims)
    assert "[1/2] foulds-adversary ..." in shown.err


@pytest.mark.parametrize("name", EXPERIMENTS)
@pytest.mark.slow
def test_every_experiment_draws(name, tmp_path):
    assert main([name, "--quick", "--output", str(tmp_path)]) == 0
    assert (tmp_path / f"{name}.png").stat().st_size > 5000


@pytest.mark.long
def test_text_says_which_claims_came_out(tmp_path, capsys):
    assert main(["foulds-fig2", "--quick", "--output", str(tmp_path)]) == 0
    shown = capsys.readouterr().out
    assert "  yes  Laplace converges" in shown
    assert "  NO   ours: noise-aware draws" in shown


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["foulds-fig9"], "an experiment must be one of geumlek-fig1, "),
        (["list", "foulds-fig1"], "an experiment must be one of"),
        (["foulds-adversary", "--quick", "--output", "/dev/null/x"], "--output must be a folder that can be written"),
        (["foulds-adversary", "--data", "/no/such/folder"], "--data must be a folder"),
    ],
)
def test_bad_input_gets_one_sentence(arguments, message, capsys):
    assert main(arguments) == 2
    assert message in capsys.readouterr().err
