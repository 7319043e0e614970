"""What commands read is a regular file, and what they write replaces a link and follows none."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from vestry.releases import Certificate, NoisyStatistics, Release

CLAIM = Certificate({"epsilon": 1.0}, {"kind": "pure", "count": 1}, "laplace", "scale", 1.0, "", "row", {})
RELEASE = Release(
    {"name": "beta-bernoulli"}, (1.0, 1.0), {"all": NoisyStatistics(("a", "b"), (3, 4), "discrete-laplace", 1.0)}, CLAIM
)

READERS = {
    "check": ("check", "FILE"),
    "check --data": ("check", "FILE", "--data"),
    "plan": ("plan", "FILE"),
    "release": ("release", "FILE", "--yes"),
    "report": ("report", "FILE"),
    "posterior": ("posterior", "FILE"),
    "posterior of two": ("posterior", "FILE", "FILE", "--same-people"),
    "init": ("init", "new", "--from", "FILE"),
    "ledger show": ("ledger", "show", "FILE"),
    "ledger verify": ("ledger", "verify", "FILE"),
}  # fmt: skip


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch) -> Path:
    """A folder with a release, as the current one."""
    (tmp_path / "release.json").write_text(RELEASE.text())
    (tmp_path / "mine.txt").write_text("mine")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("name", ["pipe", "/dev/zero", "loop.toml", "folder.csv"])
@pytest.mark.parametrize("command", READERS)
def test_what_is_no_regular_file_is_refused(place, vestry, command, name):
    os.mkfifo(place / "pipe")
    (place / "loop.toml").symlink_to("loop.toml")
    (place / "folder.csv").mkdir()
    done = vestry(*(name if word == "FILE" else word for word in READERS[command]))
    assert done.code == 2
    assert done.out == ""
    assert re.fullmatch(r"vestry: [^\n]+\n", done.err), done.err
    assert "did not foresee" not in done.err


@pytest.mark.parametrize("name", ["link.png", "link.svg", "link.pdf"])
def test_a_plot_replaces_a_link(place, vestry, name):
    for command in (
        ("curve", "laplace", "--family", "beta-bernoulli", "--n", "100", "--scale", "10"),
        ("posterior", "release.json"),
    ):
        (place / name).unlink(missing_ok=True)
        (place / name).symlink_to("mine.txt")
        done = vestry(*command, "--plot", name)
        assert done.code == 0, done
        assert (place / "mine.txt").read_text() == "mine"
        assert not (place / name).is_symlink()


def test_draws_replace_a_link(place, vestry):
    (place / "draws.nc").symlink_to("mine.txt")
    assert vestry("posterior", "release.json", "--draws", "draws.nc").code == 0
    assert (place / "mine.txt").read_text() == "mine"


@pytest.mark.parametrize("option", ["--plot", "--draws"])
def test_nothing_is_written_into_a_pipe(place, vestry, option):
    os.mkfifo(place / "pipe.png")
    done = vestry("posterior", "release.json", option, "pipe.png")
    assert done.code == 2
    assert "not a regular file" in done.err


def test_an_export_follows_no_link(place, vestry):
    terms = ("--dataset", "d", "--unit", "row", "--neighbours", "replace", "--budget", "epsilon=1")
    assert vestry("ledger", "create", "d.ledger", *terms).code == 0
    (place / "link").symlink_to("nowhere")
    done = vestry("ledger", "export", "d.ledger", "--output", "link")
    assert done.code == 2
    assert "name a new file" in done.err
    assert not (place / "nowhere").exists()
    assert vestry("ledger", "export", "d.ledger", "--output", "entries.jsonl").code == 0
    assert (place / "entries.jsonl").read_text().count("\n") == 1


def test_a_new_study_follows_no_link(place, vestry):
    (place / "names.csv").write_text("name,type,levels\nward,levels,A;B\n")
    (place / "new").mkdir()
    (place / "new" / "study.toml").symlink_to(place / "nowhere")
    done = vestry("init", "new", "--from", "names.csv")
    assert done.code == 2
    assert "without a study.toml" in done.err
    assert not (place / "nowhere").exists()
