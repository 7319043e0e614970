"""What somebody new writes: the word that calibrate prints, switches in the help, and errors that show the way."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys

import pytest
import typer

from vestry.cli import app
from vestry.cli.mechanism_commands import CONJUGATE, LANGEVIN, LINEAR
from vestry.mechanisms.release import PARAMETERS

BETA = "--family beta-bernoulli --prior 6,12 --n 100"
CURVES = {**CONJUGATE, **LINEAR, **LANGEVIN}
CHAIN = "--lipschitz 1 --strong-convexity 1 --smoothness 10 --steps 10 --step-size 0.1"


def options(path: str) -> dict[str, list[str]]:
    """Return a command's options by name, each with how it may be written."""
    command = typer.main.get_command(app)
    for name in path.split():
        command = command.commands[name]
    return {each.name: each.opts for each in command.params}


# --- the word that calibrate prints -----------------------------------------------------------------------------------


def test_a_conjugate_mechanism_has_one_parameter():
    assert {name: entry.parameter for name, entry in CONJUGATE.items()} == PARAMETERS


@pytest.mark.parametrize("name", CURVES)
def test_curve_takes_the_word_that_calibrate_prints(vestry, monkeypatch, name):
    entry = CURVES[name]
    printed = vestry("calibrate", name, *shlex.split(f"{entry.example} --guarantee {entry.guarantee}")).out
    word = "--" + (printed.split(" = ")[0] if name != "langevin" else "likelihood_power").replace("_", "-")
    given = shlex.split(entry.example)
    done = vestry("curve", name, *given, word, entry.value)
    assert (done.code, done.err) == (0, "")
    assert done.out == vestry("curve", name, *given, "--at", entry.value).out
    monkeypatch.setenv("COLUMNS", "400")
    assert f"--at,{word} " in vestry("curve", name, "--help").out


# --- the help ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["", "init", "release", "convert", "curve", "curve objective", "ledger create"])
def test_a_switch_is_shown_without_a_value(vestry, path):
    shown = vestry(*path.split(), "--help").out
    assert "--help" in shown
    assert "<bool>" not in shown


@pytest.mark.parametrize(
    ("mechanism", "without"),
    [
        ("laplace", {"draws", "truncation", "analysis"}),
        ("gaussian", {"draws", "truncation", "analysis"}),
        ("direct", {"truncation", "grid"}),
        ("diffused", {"truncation", "grid"}),
        ("concentrated", {"truncation", "grid"}),
        ("ops", {"analysis", "grid"}),
    ],
)
@pytest.mark.parametrize("verb", ["calibrate", "curve", "audit"])
def test_a_mechanism_has_only_the_options_it_uses(verb, mechanism, without):
    optional = {"draws", "truncation", "analysis", "grid"}
    assert optional - set(options(f"{verb} {mechanism}")) == without


# --- what is wrong, and what to write ---------------------------------------------------------------------------------

WRONG = {
    # convert
    "convert": "see --help. For example: vestry convert mu=0.5 --to delta=1e-5",
    "convert epsilon 1": "For example: vestry convert mu=0.5 --to delta=1e-5",
    "convert rho=1 --to pure": "for example vestry convert rho=0.5 --to delta=1e-5.",
    "convert mu=1 --to delta": "for example vestry convert rho=0.5 --to delta=1e-5.",
    "convert rho=0.5 --to mu": "it turns into delta=1e-5, epsilon=1 (gives delta) or order=10; --meet looks for the"
    " most mu that implies it.",
    "convert order=10,epsilon=0.1 --to rho": "it turns into delta=1e-5, epsilon=1 (gives delta) or a lower order;"
    " --meet looks for the most rho that implies it.",
    "convert epsilon=1,delta=1e-5 --to epsilon": "it turns into a larger delta or epsilon; --meet looks for the most"
    " epsilon that implies it.",
    "convert epsilon=1 --meet": "--to must be given beside --meet",
    # calibrate
    "calibrate laplace": "Missing option '--family'; see --help. For example: vestry calibrate laplace --family",
    f"calibrate laplace {BETA} --epsilon 1": "For example: vestry calibrate laplace --family beta-bernoulli --n 100"
    " --guarantee epsilon=1",
    "calibrate laplace --family dirichlet-categorical --n 9 --guarantee epsilon=1": "--prior must be one number for"
    " each category, of at least two",
    "calibrate gibbs --lipschitz nan --strong-convexity 1 --guarantee mu=1": "write for example --lipschitz 1.",
    "calibrate gibbs --lipschitz 1 --strong-convexity 1 --guarantee mu=1 --draws 0": "--draws must be a whole number"
    " from 1 to 1000000, not 0; write for example --draws 1.",
    f"calibrate langevin {CHAIN.replace('--steps 10', '--steps 10.5')}": "--steps must be whole numbers of at least 1,"
    " not '10.5'",
    f"calibrate langevin {CHAIN.replace('--smoothness 10', '--smoothness 0.5')}": "--smoothness must be at least the"
    " strong convexity, not 0.5; write --smoothness 1.",
    f"calibrate langevin {CHAIN} --slack -1": "--slack must be a number at least 0 and finite, not -1.0",
    f"calibrate langevin {CHAIN} --start nan": "write for example --start 0.",
    "calibrate output --lipschitz 1 --regularisation 1 --tolerance inf --guarantee mu=1": "--tolerance must be a number"
    " at least 0 and finite, not inf",
    # curve
    f"curve laplace {BETA}": "--at must be given: the scale, not None; write --scale 0.5, or --guarantee",
    "curve gibbs --lipschitz 1 --strong-convexity 1 --at -1": "--likelihood-power must be a number above 0",
    f"curve laplace {BETA} --at 1 --guarantee epsilon=1": "--at must be omitted where --guarantee is given, not 1.0",
    f"curve laplace {BETA} --at 1 --plot curve": "--plot must be a file that ends in .png, .svg or .pdf",
    f"curve laplace {BETA} --at 1 --truncation 0.1": "No such option: --truncation",
    # a command
    "vonvert": "No such command 'vonvert'. Did you mean 'convert'? See --help.",
}  # fmt: skip


@pytest.mark.parametrize("line", WRONG)
def test_an_error_says_what_to_write(vestry, tmp_path, monkeypatch, line):
    monkeypatch.chdir(tmp_path)
    done = vestry(*shlex.split(line))
    assert (done.code, done.out) == (2, "")
    assert re.fullmatch(r"vestry: [^\n]+\n", done.err), done.err
    assert WRONG[line] in done.err
    assert list(tmp_path.iterdir()) == []


# --- Ctrl-C -----------------------------------------------------------------------------------------------------------

EARLY = """
import sys
class Interrupt:
    def find_spec(self, name, path=None, target=None):
        if name == "typer":
            raise KeyboardInterrupt
sys.meta_path.insert(0, Interrupt())
from vestry.cli import main
"""


def test_an_interruption_of_the_imports_is_one_sentence():
    done = subprocess.run([sys.executable, "-c", EARLY], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (130, "vestry: interrupted; nothing was charged.\n")
