"""`vestry convert`: its figures against formulas in 50 digits, its rounding, its examples."""

from __future__ import annotations

import json
import shlex
from decimal import Decimal

import mpmath
import pytest
from frozen import frozen

import vestry as package
from vestry.cli import convert_command as module

mp = mpmath.mp.clone()
mp.dps = 50
NINE = mp.mpf("1e-9")


def figures(vestry, line: str) -> dict:
    """Run a conversion with --json and return its one object."""
    done = vestry("convert", *shlex.split(line), "--json")
    assert (done.code, done.err) == (0, "")
    return json.loads(done.out)


# Formulas, each written out from its source


def hockey(mu, epsilon):
    """Balle and Wang 2018, Theorem 8: delta of mu-Gaussian privacy."""
    return mp.ncdf(mu / 2 - epsilon / mu) - mp.exp(epsilon) * mp.ncdf(-mu / 2 - epsilon / mu)


def crossing(rising, low, high):
    """Where a rising function crosses 0, by halving."""
    low, high = mp.mpf(low), mp.mpf(high)
    for _ in range(70):
        middle = (low + high) / 2
        low, high = (low, middle) if rising(middle) > 0 else (middle, high)
    return low


@frozen(mp.mpf)
def gaussian_epsilon(mu, delta):
    return crossing(lambda x: delta - hockey(mu, x), 0, 10)


@frozen(mp.mpf)
def gaussian_mu(epsilon, delta):
    return crossing(lambda m: hockey(m, epsilon) - delta, "0.01", 10)


def cks(order, value, delta):
    """Canonne, Kamath and Steinke 2020, Proposition 12: epsilon of a Renyi bound."""
    return value + mp.log1p(-1 / order) - (mp.log(delta) + mp.log(order)) / (order - 1)


def zcdp_epsilon(rho, delta):
    """The best order of the line rho a, by golden sections in log(a - 1)."""
    low, high, inner = mp.mpf(-10), mp.mpf(12), (mp.sqrt(5) - 1) / 2
    for _ in range(90):
        left, right = high - inner * (high - low), low + inner * (high - low)
        values = [cks(1 + mp.exp(x), rho * (1 + mp.exp(x)), delta) for x in (left, right)]
        low, high = (low, right) if values[0] < values[1] else (left, high)
    order = 1 + mp.exp((low + high) / 2)
    return cks(order, rho * order, delta)


@frozen(mp.mpf)
def zcdp_rho(epsilon, delta):
    return crossing(lambda rho: zcdp_epsilon(rho, delta) - epsilon, "0.001", 1)


def odds_mu(log_odds):
    """Dong, Roth and Su 2022: 2 Phi^-1(e^x / (1 + e^x))."""
    return 2 * mp.sqrt(2) * mp.erfinv(2 / (1 + mp.exp(-log_odds)) - 1)


def response(order, epsilon):
    """Mironov 2017, Proposition 5: the Renyi curve of randomised response."""
    p, q = 1 / (1 + mp.exp(-epsilon)), 1 / (1 + mp.exp(epsilon))
    return mp.log(p**order * q ** (1 - order) + q**order * p ** (1 - order)) / (order - 1)


def kairouz(total, failure, epsilon):
    """Kairouz, Oh and Viswanath 2015, Theorem 3.2: the profile of (total, failure)."""
    return failure + (1 - failure) * (mp.exp(total) - mp.exp(epsilon)) / (1 + mp.exp(total))


E5, E6 = mp.mpf("1e-5"), mp.mpf("1e-6")
MU = mp.mpf("0.268051123212228")  # 1 / 3.73063163, cut to 15 digits

CONVERSIONS = {
    "epsilon=1 --to rho": ("rho", mp.mpf("0.5")),
    "epsilon=0.2 --to rho": ("rho", mp.mpf("0.02")),
    "epsilon=1 --to mu": ("mu", odds_mu(mp.mpf(1))),
    "epsilon=0.01 --to mu": ("mu", odds_mu(mp.mpf("0.01"))),
    "epsilon=8 --to mu": ("mu", odds_mu(mp.mpf(8))),
    "epsilon=1 --to order=5": ("epsilon", response(mp.mpf(5), mp.mpf(1))),
    "epsilon=1 --to delta=1e-5": ("epsilon", mp.log(mp.e - E5 * (1 + mp.e))),
    "epsilon=1 --to epsilon=0.5": ("delta", kairouz(mp.mpf(1), 0, mp.mpf("0.5"))),
    "epsilon=1,delta=1e-6 --to epsilon=0.5": ("delta", kairouz(mp.mpf(1), E6, mp.mpf("0.5"))),
    "epsilon=1,delta=1e-6 --to delta=1e-5": (
        "epsilon",
        mp.log(mp.e - (E5 - E6) / (1 - E6) * (1 + mp.e)),
    ),
    "mu=0.268051123212228 --to delta=1e-5": ("epsilon", gaussian_epsilon(MU, E5)),
    "mu=0.5 --to delta=1e-5": ("epsilon", gaussian_epsilon(mp.mpf("0.5"), E5)),
    "mu=0.7 --to rho": ("rho", mp.mpf("0.245")),
    "mu=0.7 --to order=10": ("epsilon", mp.mpf("2.45")),
    "mu=1 --to epsilon=2": ("delta", hockey(mp.mpf(1), mp.mpf(2))),
    "mu=0.05 --to epsilon=0.3": ("delta", hockey(mp.mpf("0.05"), mp.mpf("0.3"))),
    "rho=0.1 --to delta=1e-6": ("epsilon", zcdp_epsilon(mp.mpf("0.1"), E6)),
    "rho=0.1 --to order=3": ("epsilon", mp.mpf("0.3")),
    "order=10,epsilon=0.1 --to delta=1e-6": ("epsilon", cks(mp.mpf(10), mp.mpf("0.1"), E6)),
    "order=10,epsilon=0.1 --to order=4": ("epsilon", mp.mpf("0.1")),
    "epsilon=0.5 --group 3": ("epsilon", mp.mpf("1.5")),
    "rho=0.1 --group 3": ("rho", mp.mpf("0.9")),
    "mu=0.1 --group 3": ("mu", mp.mpf("0.3")),
    "epsilon=0.5,delta=1e-6 --group 3": ("delta", E6 * mp.expm1(mp.mpf("1.5")) / mp.expm1(mp.mpf("0.5"))),
    # Mironov 2017, Proposition 2, with the constant of its proof: (2a - 3)/(a - 2) at half the order.
    "order=10,epsilon=0.1 --group 2": ("epsilon", mp.mpf("0.1") * 17 / 8),
    "epsilon=0.1 --group 10 --to rho": ("rho", mp.mpf("0.5")),
    "epsilon=0.5 --neighbours add-remove --to-neighbours replace": ("epsilon", mp.mpf(1)),
    "rho=0.1 --neighbours add-remove --to-neighbours replace": ("rho", mp.mpf("0.4")),
    "mu=0.1 --neighbours add-remove --to-neighbours replace --to delta=1e-5": (
        "epsilon",
        gaussian_epsilon(mp.mpf("0.2"), E5),
    ),
}


@pytest.mark.parametrize("line", CONVERSIONS)
def test_figures_are_right_to_nine_digits_and_never_too_small(vestry, line):
    key, truth = CONVERSIONS[line]
    found = mp.mpf(repr(figures(vestry, line)[key]))
    assert truth * (1 - mp.mpf("1e-15")) <= found <= truth * (1 + NINE)


MEETINGS = {
    "epsilon=1,delta=1e-5 --to mu": ("mu", gaussian_mu(mp.mpf(1), E5)),
    "epsilon=1,delta=1e-5 --to rho": ("rho", zcdp_rho(mp.mpf(1), E5)),
    "epsilon=1,delta=1e-5 --to order=20": ("epsilon", 1 - cks(mp.mpf(20), 0, E5)),
    # (x, 1e-6) has delta 1e-5 at epsilon 1: solve the profile for x.
    "epsilon=1,delta=1e-5 --to delta=1e-6": (
        "epsilon",
        mp.log((mp.e + (E5 - E6) / (1 - E6)) / (1 - (E5 - E6) / (1 - E6))),
    ),
    "rho=0.5 --to epsilon": ("epsilon", mp.mpf(1)),
    "rho=0.245 --to mu": ("mu", mp.mpf("0.7")),
    "mu=1 --to epsilon": ("epsilon", mp.log(mp.ncdf(mp.mpf("0.5")) / mp.ncdf(mp.mpf("-0.5")))),
    "order=10,epsilon=0.5 --to rho": ("rho", mp.mpf("0.05")),
}


@pytest.mark.parametrize("line", MEETINGS)
def test_meeting_finds_the_most_that_implies_it(vestry, line):
    key, truth = MEETINGS[line]
    found = mp.mpf(repr(figures(vestry, f"{line} --meet")[key]))
    assert truth * (1 - NINE) <= found <= truth * (1 + mp.mpf("1e-15"))


def test_published_scales_of_the_analytic_gaussian_mechanism(vestry):
    # sigma/Delta at (epsilon, delta), to nine digits: Balle and Wang's algorithm, run at 50 digits.
    for line, scale in (
        ("epsilon=0.5,delta=1e-5", "7.03182668"),
        ("epsilon=1,delta=1e-5", "3.73063163"),
        ("epsilon=1,delta=1e-8", "5.10030879"),
    ):
        assert 1 / figures(vestry, f"{line} --to mu --meet")["mu"] == pytest.approx(float(scale), abs=6e-9)


def test_without_a_target_the_guarantee_is_repeated(vestry):
    assert vestry("convert", "epsilon=1,delta=1e-6").out == "epsilon=1,delta=1e-6\n"
    assert vestry("convert", " epsilon = 0.10 ").out == "epsilon=0.1\n"


def test_one_json_object_says_what_was_given_and_what_was_found(vestry):
    record = figures(vestry, "epsilon=0.5 --neighbours add-remove --to-neighbours replace --to rho")
    assert record["given"] == {"epsilon": 0.5, "neighbours": "add-remove"}
    assert record["to"] == "rho"
    assert record["guarantee"] == {"rho": 0.5}
    assert record["neighbours"] == "replace"
    assert record["rho"] == 0.5


def test_neighbours_are_open_unless_stated(vestry):
    assert figures(vestry, "epsilon=1 --to rho")["neighbours"] is None
    assert figures(vestry, "epsilon=1 --to rho --neighbours replace")["neighbours"] == "replace"


@pytest.mark.parametrize("line", [*CONVERSIONS, *(f"{line} --meet" for line in MEETINGS)])
def test_the_text_is_the_figure_rounded_to_the_safe_side(vestry, line):
    exact = figures(vestry, line)["guarantee"]
    done = vestry("convert", *shlex.split(line))
    assert (done.code, done.err) == (0, "")
    (text,) = done.out.splitlines()
    printed = dict(part.split("=") for part in text.split(","))
    assert list(printed) == list(exact)
    for key, value in exact.items():
        step = Decimal(printed[key]) - Decimal(repr(value))
        if key == "order":
            assert step == 0
        elif "--meet" in line:
            assert -Decimal("1e-9") * Decimal(repr(value)) <= step <= 0
        else:
            assert 0 <= step <= Decimal("1e-9") * Decimal(repr(value))


def examples() -> list[str]:
    return [line for line in module.EXAMPLES.splitlines() if line.startswith("vestry ")]


@pytest.mark.parametrize("example", examples())
def test_every_example_of_the_help_runs(vestry, example):
    program, *arguments = shlex.split(example)
    done = vestry(*arguments)
    assert program == "vestry"
    assert (done.code, done.err) == (0, "")
    assert done.out.strip()
    if "--json" in arguments:
        assert isinstance(json.loads(done.out), dict)


def test_the_help_shows_its_examples(vestry, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    assert len(examples()) >= 4
    done = vestry("convert", "--help")
    assert done.code == 0
    for example in examples():
        assert example in done.out


# The program itself


def test_the_version_is_the_packages(vestry):
    done = vestry("--version")
    assert (done.code, done.out, done.err) == (0, f"vestry {package.__version__}\n", "")


@pytest.mark.parametrize("flag", ["--help", "-h"])
def test_the_help_lists_the_commands(vestry, flag):
    done = vestry(flag)
    assert (done.code, done.err) == (0, "")
    assert "Differentially private Bayesian data analysis" in done.out
    for command in ("convert", "ledger"):
        assert command in done.out


@pytest.mark.parametrize("group", [(), ("ledger",)], ids=["vestry", "vestry ledger"])
def test_without_a_command_the_help_is_shown(vestry, group):
    done = vestry(*group)
    assert done.code == 2
    assert "Usage" in done.out
    assert done.err == "vestry: the command is not complete; see --help.\n"
