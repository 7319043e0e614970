"""`vestry audit`, in a small application of its own."""

from __future__ import annotations

import json

import pytest
from audit.twins import TWINS
from typer.testing import CliRunner

from vestry.cli import audit_command as command
from vestry.errors import GuaranteeUnreachable, InvalidParameter, VestryError

APP = command.app
LAPLACE = ("laplace", "--family", "beta-bernoulli", "--n", "100", "--guarantee", "epsilon=1", "--trials", "4000",
           "--releases", "1000")  # fmt: skip


def run(*arguments: str):
    done = CliRunner().invoke(APP, list(arguments))
    if isinstance(done.exception, VestryError):
        raise done.exception
    return done


def test_an_honest_mechanism_ends_with_0():
    done = run(*LAPLACE)
    assert done.exit_code == 0
    assert done.output.startswith("laplace, scale 1: not refuted in 5000 trials (false alarms at most 1e-06)\n")
    assert "simulation: a failure becomes a success" in done.output
    assert "release: a failure becomes a success" in done.output


def test_json_has_the_verdict_and_the_evidence():
    record = json.loads(run(*LAPLACE, "--json").stdout)
    assert record["verdict"] == "not refuted"
    assert record["trials"] == 5000
    assert record["alarm"] == pytest.approx(1e-6)
    assert {"epsilon", "claimed", "lower", "direction", "event", "where", "refutes"} <= set(record["evidence"][0])


def test_a_broken_mechanism_ends_with_1(monkeypatch):
    monkeypatch.setattr("vestry.audit.audit_shipped", lambda *_, **__: TWINS["no noise"].audited())
    done = run(*LAPLACE)
    assert done.exit_code == 1
    assert ": refuted in 1000 trials" in done.output
    assert json.loads(run(*LAPLACE, "--json").stdout)["verdict"] == "refuted"


@pytest.mark.parametrize("broken", [False, True])
@pytest.mark.long
def test_the_picture_is_drawn(monkeypatch, tmp_path, broken):
    if broken:
        monkeypatch.setattr("vestry.audit.audit_shipped", lambda *_, **__: TWINS["no noise"].audited())
    file = tmp_path / "audit.png"
    assert run(*LAPLACE, "--plot", str(file)).exit_code == int(broken)
    assert file.read_bytes().startswith(b"\x89PNG")


def test_help_says_what_the_exit_code_means():
    assert "Exit code 0: not refuted; 1: refuted" in " ".join(run("laplace", "--help").output.split())


@pytest.mark.parametrize(
    ("arguments", "kind", "message"),
    [
        ((*LAPLACE, "--trials", "0"), InvalidParameter, "trials must be a whole number from 1000 to 1000000000, not 0"),
        ((*LAPLACE, "--releases", "5"), InvalidParameter, "releases must be 0, or a whole number"),
        (("magic", *LAPLACE[1:]), InvalidParameter, "MECHANISM must be one of"),
        ((*LAPLACE, "--guarantee", "epsilon=none"), InvalidParameter, "epsilon must be a decimal number"),
        ((*LAPLACE, "--plot", "/no/such/folder/a.png"), InvalidParameter, "the plot's file must be one that can be"),
        (
            ("direct", "--prior", "1,1", *LAPLACE[1:]),
            GuaranteeUnreachable,
            "epsilon=1 by a direct draw cannot be reached",
        ),
    ],
)
def test_bad_input_is_refused(arguments, kind, message):
    with pytest.raises(kind, match=message):
        run(*arguments)
