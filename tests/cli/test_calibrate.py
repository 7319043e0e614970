"""`vestry calibrate` and `vestry curve`: the figures of theory.md, section 2; their examples; bad input."""

from __future__ import annotations

import json
import math
import re
import shlex

import pytest

from vestry.cli import calibrate_command as calibrate_module
from vestry.cli import curve_command as curve_module

BETA = "--family beta-bernoulli --prior 6,12 --n 100"
THREE = "--family dirichlet-categorical --prior 1,2,3 --n 100"
NORMAL = "--family normal-mean --prior 0,10 --variance 1 --low 0 --high 1 --n 100"


def figures(vestry, line: str) -> dict:
    done = vestry(*shlex.split(line), "--json")
    assert (done.code, done.err) == (0, ""), done
    return json.loads(done.out)


def lines_of(module) -> list[str]:
    return [line for line in module.EXAMPLES.replace("\\[", "[").split("\n\n") if line.startswith("vestry ")]


@pytest.mark.parametrize("line", [*lines_of(calibrate_module), *lines_of(curve_module)])
def test_every_example_runs(vestry, tmp_path, monkeypatch, line):
    monkeypatch.chdir(tmp_path)
    done = vestry(*shlex.split(line)[1:])
    assert (done.code, done.err) == (0, "")
    assert done.out
    assert len(list(tmp_path.iterdir())) == line.count("--plot")


@pytest.mark.parametrize("command", ["calibrate", "curve"])
def test_help_shows_the_examples(vestry, command):
    module = {"calibrate": calibrate_module, "curve": curve_module}[command]
    done = vestry(command, "--help")
    shown = " ".join(done.out.split())
    assert done.code == 0
    assert len(lines_of(module)) >= 2
    for line in lines_of(module):
        assert line in shown


# theory.md, section 2: prior Beta(6, 12), n = 100, replace, in 40-digit arithmetic
ORACLES = [
    ("diffused", "order=2,epsilon=0.01", "likelihood_power", 0.217470774607, 1e-9),
    ("concentrated", "order=2,epsilon=0.01", "prior_scale", 0.0437795548202, 1e-9),
    ("diffused", "order=2,epsilon=1", "likelihood_power", 1.0, 0),
    ("concentrated", "order=2,epsilon=1", "prior_scale", 1.0, 0),
    ("diffused", "order=15,epsilon=0.1", "likelihood_power", 0.227873408741, 1e-9),
    ("concentrated", "order=15,epsilon=0.1", "prior_scale", 0.057827452467, 1e-9),
    ("diffused", "epsilon=1,delta=1e-5", "likelihood_power", 0.4777923084, 2e-10),
    ("concentrated", "epsilon=1,delta=1e-5", "prior_scale", 0.2956377687, 2e-10),
    ("direct", "order=2,epsilon=0.2", "likelihood_power", 1.0, 0),
]


@pytest.mark.parametrize(("mechanism", "guarantee", "parameter", "value", "error"), ORACLES)
def test_calibration_against_the_theory_page(vestry, mechanism, guarantee, parameter, value, error):
    found = figures(vestry, f"calibrate {mechanism} {BETA} --guarantee {guarantee}")
    assert (found["mechanism"], found["parameter"]) == (mechanism, parameter)
    assert found["value"] == pytest.approx(value, rel=error)
    wanted = dict(pair.split("=") for pair in guarantee.split(","))
    assert found["guarantee"] == {**{key: float(text) for key, text in wanted.items()}, "neighbours": "replace"}
    assert found["spent"]["epsilon"] <= found["guarantee"]["epsilon"]
    assert found["theorem"]
    assert found["event"]["neighbours"] == "replace"


@pytest.mark.long
def test_the_renyi_route_gives_less(vestry):
    """0.411876 where the exact profile allows 0.4777923 (theory.md, section 2)."""
    line = f"calibrate diffused {BETA} --guarantee epsilon=1,delta=1e-5 --analysis"
    assert figures(vestry, f"{line} renyi")["value"] == pytest.approx(0.411876, abs=5e-7)
    assert figures(vestry, f"{line} exact")["value"] == pytest.approx(0.4777923084, rel=2e-10)


def test_curve_against_the_theory_page(vestry):
    """D_2 at r = 1, the infinite D_15, and the exact delta at three epsilons."""
    found = figures(vestry, f"curve direct {BETA} --orders 2,15 --epsilons 0.5,1,2")
    assert found["renyi"][0] == {"order": 2.0, "epsilon": pytest.approx(0.191290226776715, rel=1e-12)}
    assert found["renyi"][1] == {"order": 15.0, "epsilon": None}
    deltas = [row["delta"] for row in found["profile"]]
    assert deltas == pytest.approx([0.03739622944, 0.005116727392, 3.619173558e-5], rel=2e-10)


def test_ops_against_the_paper(vestry):
    """Truncation 0.2 and epsilon 1 give T = 2 log 4 = 2.77 (theory.md, section 3); half under add-remove."""
    line = "calibrate ops --family beta-bernoulli --prior 1,1 --truncation 0.2 --guarantee epsilon=1"
    found = figures(vestry, f"{line} --n 100")
    assert found["parameter"] == "temperature"
    assert found["value"] == pytest.approx(2 * math.log(4), rel=1e-9)
    assert found["value"] >= 2 * math.log(4)
    assert figures(vestry, f"{line} --neighbours add-remove")["value"] == pytest.approx(math.log(4), rel=1e-9)


NOISE = [
    # (options, guarantee, scale): sensitivities of theory.md, section 4
    (f"laplace {BETA}", "epsilon=0.5", 2),
    (f"laplace {BETA} --count private", "epsilon=0.5", 4),
    ("laplace --family beta-bernoulli --neighbours add-remove", "epsilon=0.5", 2),
    (f"laplace {BETA} --rows 3", "epsilon=0.5", 6),
    (f"laplace {THREE}", "epsilon=0.5", 4),
    (f"laplace {THREE} --count private --rows 3", "epsilon=0.5", 12),
    ("laplace --family dirichlet-categorical --prior 1,1,1 --neighbours add-remove", "epsilon=0.5", 2),
    (f"laplace {NORMAL} --grid 0.125", "epsilon=0.5", 16),
    (f"laplace {NORMAL} --grid 0.125 --dimension 2 --rows 3", "epsilon=0.5", 96),
    (f"gaussian {BETA}", "rho=0.02", 5),
    (f"gaussian {THREE}", "rho=0.01", 10),
    (f"gaussian {BETA}", "mu=0.2", 5),
    (f"discrete-gaussian {BETA}", "rho=0.02", 5),
    (f"gaussian {BETA}", "order=2,epsilon=0.04", 5),
]


@pytest.mark.parametrize(("options", "guarantee", "scale"), NOISE)
def test_noise_scales(vestry, options, guarantee, scale):
    found = figures(vestry, f"calibrate {options} --guarantee {guarantee}")
    assert (found["mechanism"], found["parameter"]) == (options.split()[0], "scale")
    assert found["value"] == pytest.approx(scale, rel=1e-9)


def test_without_json_it_prints_two_lines(vestry):
    done = vestry(*shlex.split(f"calibrate diffused {BETA} --guarantee order=2,epsilon=0.01"))
    assert re.fullmatch(r"likelihood_power = 0\.2174707746\d*\nmeets order=2,epsilon=0\.01 under replace\n", done.out)


# --- curve ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "parameter"),
    [
        (f"diffused {BETA} --at 0.5", "likelihood_power"),
        (f"concentrated {BETA} --at 0.5", "prior_scale"),
        (f"direct {BETA}", "likelihood_power"),
        (f"laplace {BETA} --at 10", "scale"),
        (f"gaussian {BETA} --at 10", "scale"),
        (f"ops {BETA} --at 2.5 --truncation 0.2", "temperature"),
        (f"diffused {NORMAL} --at 0.5", "likelihood_power"),
        (f"diffused {BETA} --guarantee order=2,epsilon=0.05", "likelihood_power"),
    ],
)
def test_the_shape_of_a_curve(vestry, options, parameter):
    found = figures(vestry, f"curve {options} --orders 2,5,10 --epsilons 0.5,1")
    assert found["parameter"] == parameter
    assert [set(row) for row in found["renyi"]] == [{"order", "epsilon"}] * 3
    assert [row["order"] for row in found["renyi"]] == [2, 5, 10]
    assert [set(row) for row in found["profile"]] == [{"epsilon", "delta"}] * 2
    assert [row["epsilon"] for row in found["profile"]] == [0.5, 1]
    known = [row["epsilon"] for row in found["renyi"] if row["epsilon"] is not None]
    assert known == sorted(known)
    assert found["profile"][0]["delta"] >= found["profile"][1]["delta"]


def test_an_order_without_a_bound_is_null_or_inf(vestry):
    line = f"curve diffused {BETA} --at 0.5 --orders 12.9,13,20 --epsilons 1"
    assert [row["epsilon"] is None for row in figures(vestry, line)["renyi"]] == [False, True, True]
    done = vestry(*shlex.split(line))
    assert done.code == 0
    assert re.findall(r"^ +(\S+) +inf$", done.out, flags=re.MULTILINE) == ["13", "20"]


def test_a_curve_calibrated_first_meets_its_guarantee(vestry):
    found = figures(vestry, f"curve diffused {BETA} --guarantee epsilon=1,delta=1e-5 --orders 2 --epsilons 1")
    assert found["value"] == pytest.approx(0.4777923084, rel=2e-10)
    assert found["profile"][0]["delta"] == pytest.approx(1e-5, rel=1e-9)
    assert found["profile"][0]["delta"] <= 1e-5


@pytest.mark.long
def test_a_plot_is_a_picture(vestry, tmp_path):
    path = tmp_path / "curve.png"
    found = figures(vestry, f"curve diffused {BETA} --at 0.5 --orders 2 --epsilons 1 --plot {shlex.quote(str(path))}")
    assert len(found["renyi"]) == 1
    content = path.read_bytes()
    assert content[:8] == b"\x89PNG\r\n\x1a\n"
    assert len(content) > 5000


def test_a_curve_that_is_infinite_at_every_order_is_drawn(vestry, tmp_path):
    """Of several records of a person, a perturbed objective has no Renyi bound."""
    path = tmp_path / "curve.png"
    line = "curve objective --lipschitz 1 --smoothness 0.25 --regularisation 10 --at 5 --rows 2 --orders 2,50"
    found = figures(vestry, f"{line} --plot {shlex.quote(str(path))}")
    assert [row["epsilon"] for row in found["renyi"]] == [None, None]
    assert path.read_bytes()[:4] == b"\x89PNG"


# --- bad input --------------------------------------------------------------------------------------------------------

ASK = "--guarantee epsilon=1,delta=1e-5"
LEAN = "--family beta-bernoulli --prior 6,12"
BAD = {
    "counts without a clip": (
        "calibrate laplace --family gamma-poisson --n 9 --guarantee epsilon=1",
        "--high must be given: gamma-poisson needs clipping, not None",
    ),
    "counts clipped at nothing": (
        "calibrate laplace --family gamma-poisson --high 0 --n 9 --guarantee epsilon=1",
        "high must be a whole number from 1 to 1099511627776, not 0",
    ),
    "counts clipped at a half": (
        "calibrate laplace --family gamma-poisson --high 2.5 --n 9 --guarantee epsilon=1",
        "high must be a whole number from 1 to 1099511627776, not 2.5",
    ),
    "times from nothing": (
        "calibrate laplace --family gamma-exponential --low 0 --high 9 --n 9 --guarantee epsilon=1",
        "low must be a number above 0 and finite, not 0",
    ),
    "times without a low end": (
        "calibrate laplace --family gamma-exponential --high 9 --n 9 --guarantee epsilon=1",
        "--low must be given: gamma-exponential needs clipping, not None",
    ),
    "a draw of a rate whose count moves": (
        "calibrate diffused --family gamma-poisson --high 9 --prior 2,1 --neighbours add-remove"
        " --guarantee epsilon=1,delta=1e-5",
        "one private draw from a Poisson posterior whose count is not public cannot be reached",
    ),
    "a draw of an unknown variance": (
        "calibrate diffused --family normal-inverse-gamma --low 0 --high 9 --prior 4,1,2,1 --n 9"
        " --guarantee epsilon=1,delta=1e-5",
        "one private draw from a normal posterior of unknown variance cannot be reached; no theorem bounds it",
    ),
    "ops of a rate": (
        "calibrate ops --family gamma-poisson --high 9 --prior 2,1 --n 9 --truncation 0.1 --guarantee epsilon=1",
        "ops for gamma-poisson cannot be reached; its log-likelihood has no bound",
    ),
    "a rate's prior of one number": (
        "calibrate diffused --family gamma-poisson --high 9 --prior 2 --n 9 --guarantee epsilon=1,delta=1e-5",
        "the prior of gamma-poisson must be a shape and a rate",
    ),
    # prior
    "alpha 0": (f"calibrate diffused --family beta-bernoulli --prior 0,12 --n 100 {ASK}", "alpha must be a number"),
    "beta negative": (
        f"calibrate diffused --family beta-bernoulli --prior 6,-1 --n 100 {ASK}",
        "beta must be a number",
    ),
    "prior nan": (f"calibrate diffused --family beta-bernoulli --prior nan,1 --n 100 {ASK}", "a number above 0"),
    "prior inf": (f"calibrate diffused --family beta-bernoulli --prior inf,1 --n 100 {ASK}", "a number above 0"),
    "prior of words": (f"calibrate diffused --family beta-bernoulli --prior a,b --n 9 {ASK}", "numbers with commas"),
    "prior left out": (f"calibrate diffused --family beta-bernoulli --n 100 {ASK}", "must be alpha and beta"),
    "three alphas": (f"calibrate diffused --family beta-bernoulli --prior 1,1,1 --n 9 {ASK}", "must be alpha and beta"),
    "one category": (f"calibrate diffused --family dirichlet-categorical --prior 1 --n 9 {ASK}", "of at least two"),
    "no category": (f"calibrate laplace --family dirichlet-categorical --n 9 {ASK}", "of at least two"),
    "a category 0": (f"calibrate diffused --family dirichlet-categorical --prior 1,0,1 --n 9 {ASK}", "above 0"),
    "prior variance 0": (
        f"calibrate diffused --family normal-mean --prior 0,0 --variance 1 --low 0 --high 1 --n 9 {ASK}",
        "the prior's variance must be a number above 0",
    ),
    # n
    "n 0": (f"calibrate diffused {LEAN} --n 0 {ASK}", "--n must be a whole number from 1 to"),
    "n negative": (f"calibrate diffused {LEAN} --n -5 {ASK}", "--n must be a whole number from 1 to"),
    "n fractional": (f"calibrate diffused {LEAN} --n 2.5 {ASK}", "'--n'"),
    "n of words": (f"calibrate diffused {LEAN} --n many {ASK}", "'--n'"),
    "n left out": (f"calibrate diffused {LEAN} {ASK}", "--n 100, or --count private"),
    "n 0 beside a private count": (f"calibrate diffused {LEAN} --n 0 --count private {ASK}", "--n"),
    "n under add-remove": (f"calibrate laplace {LEAN} --n -3 --neighbours add-remove {ASK}", "--n"),
    "rows 0": (f"calibrate diffused {LEAN} --n 9 --rows 0 {ASK}", "rows must be a whole number from 1 to"),
    "more rows than n": (f"calibrate diffused {LEAN} --n 2 --rows 3 {ASK}", "rows must be at most the count, 2"),
    # unbounded family without clipping
    "no clipping": (
        f"calibrate laplace --family normal-mean --variance 1 --n 9 {ASK}",
        "--low must be given: normal-mean needs clipping",
    ),
    "half a clipping": (
        f"calibrate diffused --family normal-mean --prior 0,1 --variance 1 --low 0 --n 9 {ASK}",
        "--high must be given: normal-mean needs clipping",
    ),
    "clipping upside down": (
        f"calibrate laplace --family normal-mean --variance 1 --low 1 --high 0 --n 9 {ASK}",
        "high must be above low",
    ),
    "an infinite clip": (
        f"calibrate laplace --family normal-mean --variance 1 --low 0 --high inf --n 9 {ASK}",
        "high must be a finite number",
    ),
    "dimension 0": (f"calibrate laplace {NORMAL} --dimension 0 {ASK}", "dimension must be a whole number"),
    "grid too wide": (f"calibrate laplace {NORMAL} --grid 0.6 {ASK}", "grid must be above 0 and at most half"),
    # unreachable
    "order beyond lambda*": (
        f"calibrate direct {BETA} --guarantee order=15,epsilon=1",
        "order 15 is beyond lambda* = 7 of Beta(",
    ),
    "pure posterior": (f"calibrate diffused {BETA} --guarantee epsilon=1", "use ops, or ask for epsilon and delta"),
    "rho of a posterior": (f"calibrate diffused {BETA} --guarantee rho=0.1", "ask for epsilon and delta"),
    "direct costs more": (f"calibrate direct {BETA} --guarantee order=2,epsilon=0.1", "it keeps order=2,epsilon=0.191"),
    "mu of discrete noise": (f"calibrate discrete-gaussian {BETA} --guarantee mu=1", "mu=1 cannot be reached"),
    "normal, private count": (f"calibrate diffused {NORMAL} --count private {ASK}", "release noisy statistics instead"),
    "normal, add-remove": (
        "calibrate diffused --family normal-mean --prior 0,1 --variance 1 --low 0 --high 1 --neighbours add-remove"
        f" {ASK}",
        "release noisy statistics instead",
    ),
    "normal by ops": (f"calibrate ops {NORMAL} --truncation 0.1 --guarantee epsilon=1", "ops for normal-mean"),
    # truncation
    "no truncation": (f"calibrate ops {BETA} --guarantee epsilon=1", "truncation must be given for ops"),
    "truncation 0": (f"calibrate ops {BETA} --truncation 0 --guarantee epsilon=1", "above 0 and below 0.5"),
    "truncation 1/2": (f"calibrate ops {BETA} --truncation 0.5 --guarantee epsilon=1", "above 0 and below 0.5"),
    "truncation of three": (
        f"calibrate ops {THREE} --truncation 0.34 --guarantee epsilon=1",
        "above 0 and below 0.333333",
    ),
    "truncation nan": (f"calibrate ops {BETA} --truncation nan --guarantee epsilon=1", "above 0 and below 0.5"),
    # neighbours
    "public count under add-remove": (
        f"calibrate laplace {BETA} --neighbours add-remove --count public {ASK}",
        "count must be private under add-remove",
    ),
    "unknown neighbours": (f"calibrate laplace {BETA} --neighbours swap {ASK}", "neighbours must be one of"),
    "unknown count": (f"calibrate laplace {BETA} --count secret {ASK}", "--count must be one of public, private"),
    # names
    "unknown mechanism": (
        f"calibrate magic {BETA} {ASK}",
        "MECHANISM must be one of laplace, gaussian, discrete-gaussian, direct",
    ),
    "unknown family": (
        f"calibrate laplace --family gamma --n 9 {ASK}",
        "--family must be one of beta-bernoulli, dirichlet-categorical",
    ),
    "unknown analysis": (f"calibrate diffused {BETA} {ASK} --analysis guess", "--analysis must be one of exact, renyi"),
    "unknown analysis of noise": (f"calibrate laplace {BETA} {ASK} --analysis guess", "No such option: --analysis"),
    "no guarantee": (f"calibrate laplace {BETA}", "'--guarantee'"),
    "a bad guarantee": (f"calibrate laplace {BETA} --guarantee 1", "write epsilon=1"),
    "epsilon 0": (f"calibrate laplace {BETA} --guarantee epsilon=0", "epsilon must be a number above 0"),
    # draws
    "draws from noise": (f"calibrate laplace {BETA} --draws 2 {ASK}", "No such option: --draws"),
    "draws 0": (f"calibrate diffused {BETA} --draws 0 {ASK}", "draws must be a whole number from 1 to"),
    # curve
    "at left out": (f"curve diffused {BETA}", "--at must be given: the likelihood_power"),
    "at 0": (f"curve diffused {BETA} --at 0", "--likelihood-power must be a number above 0 and at most 1"),
    "at above 1": (f"curve concentrated {BETA} --at 1.5", "--prior-scale must be a number above 0 and at most 1"),
    "at nan": (f"curve diffused {BETA} --at nan", "--likelihood-power must be a number above 0 and at most 1"),
    "at a negative scale": (f"curve laplace {BETA} --at -1", "above 0 and finite, not -1"),
    "at a cold temperature": (f"curve ops {BETA} --truncation 0.2 --at 0.5", "temperature must be a number at least 1"),
    "curve of ops without truncation": (f"curve ops {BETA} --at 2", "truncation must be given for ops"),
    "curve of draws from noise": (f"curve gaussian {BETA} --at 2 --draws 3", "No such option: --draws"),
    "order 1": (f"curve diffused {BETA} --at 0.5 --orders 1", "order must be a number above 1"),
    "orders of words": (f"curve diffused {BETA} --at 0.5 --orders two", "--orders must be numbers with commas"),
    "epsilon negative": (f"curve diffused {BETA} --at 0.5 --epsilons -1", "epsilon must be a number at least 0"),
    "a plot in no folder": (
        f"curve diffused {BETA} --at 0.5 --plot nowhere/a.png",
        "the plot's file must be one that can be written",
    ),
    "a plot of no kind": (
        f"curve diffused {BETA} --at 0.5 --plot a.xyz",
        "--plot must be a file that ends in .png, .svg or .pdf",
    ),
    "curve of a mechanism unknown": (f"curve magic {BETA} --at 1", "MECHANISM must be one of"),
    "curve of a normal with a private count": (f"curve diffused {NORMAL} --count private --at 1", "noisy statistics"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input(vestry, tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    line, fragment = BAD[name]
    done = vestry(*shlex.split(line))
    assert "Traceback" not in done.err
    assert (done.code, done.out) == (2, ""), done
    assert re.fullmatch(r"vestry: [^\n]+\n", done.err), done.err
    assert fragment in done.err
    assert list(tmp_path.iterdir()) == []


# Every mechanism calls what is out of range by its parameter's option.
CHAIN = "--lipschitz 1 --strong-convexity 1 --smoothness 10 --steps 10 --step-size 0.1"
OUT_OF_RANGE = {
    f"laplace {BETA}": "--scale must be a number above 0",
    f"ops {BETA} --truncation 0.2": "--temperature must be a number at least 1",
    f"direct {BETA}": "--likelihood-power must be 1 for a direct draw",
    "gibbs --lipschitz 1 --strong-convexity 100": "--likelihood-power must be a number above 0",
    f"langevin {CHAIN}": "--likelihood-power must be a number above 0",
    "objective --lipschitz 1 --smoothness 0.25 --regularisation 10": "--scale must be a number above 0",
    "output --lipschitz 1 --regularisation 10": "--scale must be a number above 0",
}


@pytest.mark.parametrize(("options", "fragment"), OUT_OF_RANGE.items())
def test_a_value_out_of_range_is_called_by_its_name(vestry, options, fragment):
    done = vestry(*shlex.split(f"curve {options} --at -1"))
    assert (done.code, done.err.removeprefix("vestry: ")[: len(fragment)]) == (2, fragment)


# --- linear models ----------------------------------------------------------------------------------------------------

GIBBS = "gibbs --lipschitz 1 --strong-convexity 100"


def test_every_calibration_says_the_same_things(vestry):
    """The record of a linear mechanism has the keys of a conjugate one, and it spends what was asked."""
    known = set(figures(vestry, f"calibrate diffused {BETA} {ASK}"))
    for options in (f"{GIBBS} {ASK}", f"objective --lipschitz 1 --smoothness 0.25 --regularisation 10 {ASK}",
                    f"output --lipschitz 1 --regularisation 10 {ASK}", f"langevin {CHAIN}"):  # fmt: skip
        found = figures(vestry, f"calibrate {options}")
        assert known <= set(found), options
        assert found["event"]["neighbours"] == found["guarantee"]["neighbours"] == "replace"
        for key, value in found["guarantee"].items():
            assert found["spent"][key] == (value if key == "neighbours" else pytest.approx(value, rel=1e-9))


def test_a_linear_mechanism_is_calibrated_first_as_a_conjugate_one_is(vestry):
    found = figures(vestry, f"curve {GIBBS} {ASK} --epsilons 1")
    assert found["value"] == figures(vestry, f"calibrate {GIBBS} {ASK}")["value"]
    assert found["profile"][0]["delta"] == pytest.approx(1e-5, rel=1e-9)


LINEAR_BAD = {
    f"curve {GIBBS}": "--at must be given: the likelihood_power",
    "curve gibbs --lipschitz 0 --strong-convexity 1 --at 1": "--lipschitz must be a number above 0 and finite, not 0.0",
    f"curve langevin {CHAIN} {ASK}": "--guarantee must be omitted for langevin",
    f"calibrate langevin {CHAIN} --draws 0": "--draws must be a whole number from 1 to",
    f"calibrate langevin {CHAIN.replace('10 --step-', '10,5 --step-')}": "--steps must be one number for each step",
    f"calibrate langevin {CHAIN.replace('--steps 10', '--steps ten')}": "write for example --steps 1000.",
    f"calibrate langevin {CHAIN.replace('0.1', '0.3')}": "--step-size must be above 0 and below 2/smoothness = 0.2",
    f"calibrate glm-diffused --n 0 --norm 1 --prior-precision 1 {ASK}": "--n must be a whole number from 1 to",
    "curve output --lipschitz 1 --regularisation 1 --tolerance -1 --at 1": "--tolerance must be a number at least 0",
    f"calibrate {GIBBS} {ASK} --analysis guess": "--analysis must be one of gdp, renyi",
    f"calibrate {GIBBS} {ASK} --rows 0": "not 0; write for example --rows 1.",
    f"curve {GIBBS} --guarantee epsilon=1,delta=2": "vestry: delta must be",
    f"curve {GIBBS} --at 1 --delta 2": "--delta must be between 0 and 1, not 2.0; write --delta 1e-6.",
    f"calibrate langevin {CHAIN} --likelihood-power 0": "write for example --likelihood-power 1.",
}


@pytest.mark.parametrize(("line", "fragment"), LINEAR_BAD.items())
def test_bad_input_of_a_linear_mechanism(vestry, line, fragment):
    done = vestry(*shlex.split(line))
    assert (done.code, done.out) == (2, "")
    assert fragment in done.err
