"""The command `vestry reproduce`, called by itself."""

import json

import pytest
import typer
from typer.testing import CliRunner

from vestry.cli.reproduce_command import reproduce
from vestry.errors import InvalidParameter
from vestry.papers import EXPERIMENTS

app = typer.Typer()
app.command()(reproduce)


def run(*arguments):
    return CliRunner().invoke(app, list(map(str, arguments)))


@pytest.mark.parametrize("arguments", [(), ("list",)])
def test_lists_every_experiment(arguments):
    done = run(*arguments)
    assert done.exit_code == 0
    assert [line.split()[0] for line in done.stdout.splitlines()] == list(EXPERIMENTS)
    listed = json.loads(run(*arguments, "--json").stdout)["experiments"]
    assert [row["name"] for row in listed] == list(EXPERIMENTS)


@pytest.mark.long
def test_writes_a_picture_and_its_numbers(tmp_path):
    folder = tmp_path / "a" / "b"
    done = run("foulds-adversary", "foulds-fig1", "foulds-adversary", "--quick", "--output", folder, "--json")
    assert done.exit_code == 0
    assert sorted(path.name for path in folder.iterdir()) == [
        "foulds-adversary.json", "foulds-adversary.png", "foulds-fig1.json", "foulds-fig1.png",
    ]  # fmt: skip
    for path in folder.glob("*.png"):
        assert path.read_bytes().startswith(b"\x89PNG")
        assert path.stat().st_size < 200_000
    told = json.loads(done.stdout)["experiments"]
    assert [each["name"] for each in told] == ["foulds-adversary", "foulds-fig1"]
    assert told[0]["claims"] == json.loads((folder / "foulds-adversary.json").read_text())["claims"]
    assert "[1/2] foulds-adversary ..." in done.stderr


@pytest.mark.parametrize("name", EXPERIMENTS)
@pytest.mark.slow
def test_every_experiment_draws(name, tmp_path):
    done = run(name, "--quick", "--output", tmp_path)
    assert done.exit_code == 0
    assert (tmp_path / f"{name}.png").stat().st_size > 5000


@pytest.mark.long
def test_text_says_which_claims_came_out(tmp_path):
    done = run("foulds-fig2", "--quick", "--output", tmp_path)
    assert "  yes  Laplace converges" in done.stdout
    assert "  NO   ours: noise-aware draws" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("foulds-fig9",), "an experiment must be one of geumlek-fig1, .*, not 'foulds-fig9'"),
        (("list", "foulds-fig1"), "an experiment must be one of"),
        (("foulds-adversary", "--quick", "--output", "/dev/null/x"), "--output must be a folder that can be written"),
    ],
)
def test_bad_input(arguments, message):
    done = run(*arguments)
    with pytest.raises(InvalidParameter, match=message):
        raise done.exception
