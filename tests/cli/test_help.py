"""The help of every command: one example or more at its end, in one form, and every example of a mechanism runs."""

from __future__ import annotations

import shlex
import sys

import pandas as pd
import pytest
import typer

from vestry.cli import app
from vestry.cli import output as module

COMMANDS: dict[str, object] = {}


def collect(command: object, path: str) -> None:
    COMMANDS[path] = command
    for name, each in getattr(command, "commands", {}).items():
        collect(each, f"{path} {name}")


collect(typer.main.get_command(app), "vestry")


def examples(path: str) -> list[str]:
    told = COMMANDS[path].epilog or ""
    return [line.replace("\\[", "[") for line in told.split("\n\n")[1:]] if told.startswith("[bold]Examples") else []


@pytest.mark.parametrize("path", COMMANDS)
def test_every_command_ends_with_examples_of_itself(vestry, monkeypatch, path):
    monkeypatch.setenv("COLUMNS", "400")
    found = examples(path)
    assert found
    assert any(line.startswith(path) for line in found)
    done = vestry(*path.split()[1:], "--help")
    assert done.code == 0
    for line in found:
        assert line in done.out
    assert done.out.rindex("Examples") > done.out.index("Options")


@pytest.mark.parametrize("path", COMMANDS)
def test_the_help_is_in_whole_sentences_and_every_option_is_told(path):
    command = COMMANDS[path]
    assert command.help.strip().endswith(".")
    for option in command.params:
        assert getattr(option, "help", None), f"{path}: {option.name}"


@pytest.mark.parametrize("path", COMMANDS)
def test_the_help_fits_a_terminal_and_has_a_word_for_every_value(vestry, monkeypatch, path):
    monkeypatch.setenv("COLUMNS", "80")
    shown = vestry(*path.split()[1:], "--help").out
    assert max(map(len, shown.splitlines())) <= 80
    for raw in ("<str>", "<int>", "<float>", "<path>", "TEXT", "INTEGER", "RANGE", "\u2026"):
        assert raw not in shown


def test_commands_are_grouped_by_what_they_are_for(vestry):
    shown = vestry("--help").out
    panels = [line.split()[1] for line in shown.splitlines() if line.startswith("\u256d")]
    assert panels == ["Options", "Study", "Results", "Budget", "Expert"]
    places = [shown.index(f" {name} ") for name in ("init", "report", "posterior", "ledger", "calibrate", "audit")]
    assert places == sorted(places)


@pytest.mark.parametrize("columns", ["80", None])
def test_sentences_are_broken_at_words_in_a_terminal_alone(monkeypatch, capsys, columns):
    monkeypatch.delenv("COLUMNS", raising=False)
    if columns is not None:
        monkeypatch.setenv("COLUMNS", columns)
    sentence = "what is allowed, and what to write instead of it; " * 5
    command = "  vestry ledger create patients.ledger " + "--dataset patients " * 5
    module.say(f"{sentence}\n{command}")
    shown = capsys.readouterr().out.rstrip("\n").split("\n")
    assert shown[-1].rstrip() == command.rstrip()  # to be copied
    assert [len(line) <= 80 for line in shown[:-1]] == ([True] * 4 if columns else [False])
    assert " ".join(shown[:-1]).split() == sentence.split()
    rows = module.columns([("release", "note"), ("stay", "a sentence of many words " * 5)], indent=2)
    assert all(len(line) <= 80 for line in rows) == (columns is not None)
    assert all(line.startswith("  ") for line in rows)


MECHANISMS = [path for path in COMMANDS if path.count(" ") == 2 and "ledger" not in path]


@pytest.mark.parametrize("path", MECHANISMS)
def test_every_example_of_a_mechanism_runs(vestry, path):
    (line,) = examples(path)
    fewer = ["--trials", "4000", "--releases", "0"] if path.startswith("vestry audit") else []
    done = vestry(*shlex.split(line)[1:], *fewer)
    assert (done.code, done.err) == (0, "")
    assert done.out.strip()


@pytest.mark.slow
def test_the_examples_of_a_study_tell_one_story(vestry, tmp_path, monkeypatch):
    """Each is run in the folder that those before it have left; releases are confirmed, since nobody is asked here."""
    monkeypatch.chdir(tmp_path)
    patients = pd.DataFrame({"ward": ["A", "B"], "days": [3, 4]})
    patients.to_parquet("patients.parquet")
    patients.to_csv("patients.csv", index=False)
    (tmp_path / "dictionary.csv").write_text("name,type,levels,low,high,missing,unit\nstay,number,,0,60,drop,days\n")
    lines = [line for name in ("init", "check", "plan", "release", "report") for line in examples(f"vestry {name}")]
    for line in lines:
        monkeypatch.chdir(tmp_path if line.startswith("vestry init") else tmp_path / "readmissions")
        words = shlex.split(line.removeprefix("cd readmissions && "))[1:]
        done = vestry(*words, *(["--yes"] if words[0] == "release" else []))
        assert done.code == 0, (line, done.err)
    monkeypatch.chdir(tmp_path / "readmissions" / "readmission")
    for line in examples("vestry posterior"):
        done = vestry(*shlex.split(line)[1:])
        of_another = any(word in line for word in ("--states", "--predictors", "spring/", "north/"))
        assert done.code == (2 if of_another else 0), (line, done.err)


def test_one_option_has_one_meaning():
    """The same option of several mechanisms has one help text; smoothness and analysis are each mechanism's own."""
    told: dict[str, set[str]] = {}
    for path in MECHANISMS:
        for option in COMMANDS[path].params:
            told.setdefault(option.name, set()).add(option.help)
    told["guarantee"].discard("Calibrate to this first, instead of --at.")
    assert {name for name, texts in told.items() if len(texts) > 1} == {"smoothness", "analysis"}


def test_work_is_shown_on_a_terminal_and_nowhere_else(monkeypatch, capsys):
    for looked_at in (False, True):
        monkeypatch.setattr(sys.stderr, "isatty", lambda answer=looked_at: answer)
        monkeypatch.setenv("FORCE_COLOR", "1")
        with module.working("calibrating") as rename:
            rename("simulating [stay]")
        shown = capsys.readouterr()
        assert shown.out == ""
        assert ("simulating [stay]" in shown.err) == looked_at


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (("check", "study.toml"), "interrupted; nothing was charged."),
        (("release", "study.toml"), "interrupted; run it again: what was charged and not opened is free."),
    ],
)
def test_an_interruption_is_one_sentence(vestry, monkeypatch, command, words):
    def interrupted(path):
        raise KeyboardInterrupt

    monkeypatch.setattr("vestry.study.Study.open", interrupted)
    done = vestry(*command)
    assert (done.code, done.out, done.err.strip()) == (130, "", f"vestry: {words}")
