"""Odd input gets a sentence: what nobody foresaw, extreme numbers, long names, control characters, altered releases."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from vestry.errors import InvalidParameter, VestryError, printable
from vestry.posterior import Posterior
from vestry.releases import Certificate, Draws, NoisyStatistics, Release, open_release

LONG = "a" * 300
CLAIM = Certificate({"epsilon": 1.0}, {"kind": "pure", "count": 1}, "laplace", "scale", 1.0, "", "row", {})
COUNTS = NoisyStatistics(("successes", "failures"), (30, 70), "discrete-laplace", 2.0)
BETA = Release({"name": "beta-bernoulli"}, (1.0, 1.0), {"all": COUNTS}, CLAIM)


def refused(done, fragment: str) -> None:
    assert done.code == 2
    assert re.fullmatch(r"vestry: [^\n]+\n", done.err), done.err
    assert fragment in done.err


@pytest.mark.parametrize(
    ("line", "fragment"),
    [
        (
            "calibrate diffused --family beta-bernoulli --prior 2,5e-324 --n 9 --guarantee epsilon=1,delta=1e-5",
            "--prior",
        ),
        ("curve gibbs --lipschitz 1e300 --strong-convexity 1 --at 1", "--lipschitz must be 0, or from 1e-30 to 1e+30"),
        (
            "calibrate laplace --family normal-mean --low 0 --high inf --variance 1 --n 9 --guarantee epsilon=1",
            "--high",
        ),
        (
            "calibrate laplace --family beta-bernoulli --n 1000000000000000000000 --guarantee epsilon=1",
            "--n must be a whole number from 1 to",
        ),
        (
            "calibrate laplace --family normal-mean --low 0 --high 1 --variance 1 --n 9 --dimension 100000000"
            " --guarantee epsilon=1",
            "--dimension must be a whole number from 1 to 10000,",
        ),
        ("audit laplace --family beta-bernoulli --n 9 --guarantee epsilon=1 --releases 9007199254740993", "--releases"),
        (f"init {LONG}", "File name too long"),
        (f"check {LONG}", "File name too long"),
        (f"report {LONG}", "File name too long"),
        (f"posterior {LONG}", "File name too long"),
    ],
)
def test_extreme_values(vestry, line, fragment):
    refused(vestry(*line.split()), fragment)


@pytest.mark.parametrize(
    ("error", "fragment"),
    [
        (ValueError("a record says 4711"), "did not foresee (ValueError in cli/"),
        (KeyError("4711"), "did not foresee (KeyError in cli/"),
        (OverflowError("4711"), "the numbers are too large or too small to compute with"),
        (MemoryError(), "more memory than there is"),
        (RecursionError("4711"), "nested too deeply"),
        (OSError(28, "No space left on device", "4711"), "the system refused (No space left on device)"),
    ],
)
def test_what_nobody_foresaw_is_one_sentence_without_a_value(vestry, monkeypatch, error, fragment):
    def fail(*arguments, **options):
        raise error

    monkeypatch.setattr("vestry.privacy.guarantee.Guarantee.parse", fail)
    done = vestry("convert", "epsilon=1")
    refused(done, fragment)
    assert "4711" not in done.err


def test_control_characters_do_not_reach_the_terminal(vestry, tmp_path):
    name = "\x1b[31mred\x1b[0m\u202e\x7f"
    done = vestry("check", tmp_path / name)
    refused(done, r"\x1b[31mred")
    done = vestry("spend" + name)
    refused(done, r"\x1b[31mred")
    path = tmp_path / "release.json"
    path.write_text(Release({"name": "beta-bernoulli"}, (1.0, 1.0), {name: COUNTS}, CLAIM, "ward").text())
    done = vestry("posterior", path)
    assert done.code == 0
    assert r"\x1b[31mred\x1b[0m\u202e\x7f" in done.out
    assert all(each.isprintable() or each == "\n" for each in done.out)


def test_what_is_printable_stays():
    assert printable("é 漢字\n\u00a0") == "é 漢字\n\u00a0"
    assert str(VestryError("a\rb\udc80")) == r"a\rb\udc80"


def altered(**changes) -> dict:
    """Return a release's record with parts changed, `/` between keys, and the right hash."""
    record = json.loads(BETA.text())
    for path, value in changes.items():
        *keys, last = path.split("/")
        holder = record
        for key in keys:
            holder = holder[key]
        holder[last] = value
    body = {key: value for key, value in record.items() if key != "sha256"}
    text = json.dumps(body, sort_keys=True, separators=(",", ":"))
    return {**body, "sha256": hashlib.sha256(text.encode()).hexdigest()}


NOISY = "contents/all/noisy-statistics"


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("family", None),
        ("family", {"name": "beta"}),
        ("family", {"name": "normal-mean", "variance": 1.0, "low": 2.0, "high": 1.0, "dimension": 1}),
        ("family", {"name": "normal-mean", "variance": 1.0, "low": 0.0}),
        ("family", {"name": "naive-bayes", "target": None, "classes": [], "features": ["a"], "levels": []}),
        ("family", {"name": "linear", "method": 1}),
        ("family", {"name": "gamma-poisson", "low": "a", "high": -1.0}),
        ("prior", "11"),
        ("prior", [1.0, None]),
        ("prior", [1.0, float("nan")]),
        ("by", 7),
        ("labels", [1]),
        ("labels", ["\ud800"]),
        ("contents", {}),
        ("contents", {"all": {"draws": {"values": [], "grid": 1.0}}}),
        ("contents", {"all": {"draws": {"values": [[1.0], [1.0, 2.0]], "grid": 1.0}}}),
        (f"{NOISY}/values", [1.5, 2]),
        (f"{NOISY}/values", [10**40, 2]),
        (f"{NOISY}/values", [30]),
        (f"{NOISY}/names", ["successes"]),
        (f"{NOISY}/noise", "none"),
        (f"{NOISY}/scale", -2.0),
        (f"{NOISY}/scale", float("inf")),
        (f"{NOISY}/grid", 0),
        (f"{NOISY}/count", "many"),
        (f"{NOISY}/count_grid", 2.0),
        (f"{NOISY}/more", 1),
        ("certificate/value", "one"),
        ("certificate/guarantee", {"epsilon": float("nan")}),
        ("certificate/event", {"kind": "pure"}),
        ("certificate/versions", {"vestry": 1}),
        ("certificate/assumptions", "none"),
    ],
)
def test_an_altered_release_with_a_right_hash_is_refused_by_its_place(path, value):
    with pytest.raises(InvalidParameter, match="in a file that vestry has written"):
        Release.from_dict(altered(**{path: value}))


def test_the_unaltered_release_is_read():
    assert Release.from_dict(altered()) == BETA


def test_a_file_that_is_nested_too_deeply_is_refused(tmp_path):
    path = tmp_path / "release.json"
    path.write_text("[" * 200_000)
    with pytest.raises(InvalidParameter, match="must be JSON"):
        open_release(path)


def test_an_interval_is_never_turned_around():
    """The third category has no record, and its prior next to no weight: both ends are next to 0."""
    counts = NoisyStatistics(("a", "b", "c"), (41, 66, -2), "discrete-laplace", 10 / 3)
    release = Release({"name": "dirichlet-categorical"}, (1.0, 1.0, 1e-6), {"all": counts}, CLAIM)
    posterior = Posterior.from_release(release)
    assert all(row["low"] <= row["high"] for row in posterior.rows())
    assert all(low <= high for low, high in posterior.interval().to_numpy())


@pytest.mark.parametrize("prior", [(1e18, 2.0), (1e30, 1e30)])
def test_a_prior_that_cannot_be_computed_with_is_refused(prior):
    with pytest.raises(VestryError, match="no posterior can be computed from these numbers"):
        Posterior.from_release(BETA, prior=prior).summary()


@pytest.mark.long
def test_a_few_cases_of_the_fuzzer_end_in_sentences():
    """Fewer than in quality/README.md, with another seed; the long runs are not for every day."""
    fuzz = Path(__file__).parents[2] / "quality" / "fuzz.py"
    line = [sys.executable, str(fuzz), "commands", "releases", "ledgers", "--count", "12", "--seed", "2"]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]
    assert done.stdout.count("12 cases (seed 2)") == 3


@pytest.mark.parametrize("draws", [Draws(((0.5,),)), COUNTS])
def test_contents_of_one_kind_alone(draws):
    two = Release({"name": "beta-bernoulli"}, (1.0, 1.0), {"a": COUNTS, "b": draws}, CLAIM, "ward")
    if draws is COUNTS:
        assert Release.from_dict(json.loads(two.text())) == two
        return
    with pytest.raises(InvalidParameter, match="of one kind and length"):
        Release.from_dict(json.loads(two.text()))


@pytest.mark.parametrize(
    ("method", "draws", "fragment"),
    [
        ("1", 1, "family.method must be one of posterior, objective, output"),
        ("output", 2, "the draws must be one estimate of the method output"),
        ("objective", 2, "the draws must be one estimate of the method objective"),
        ("output", 1, None),
        ("posterior", 2, None),
    ],
)
def test_a_regression_of_another_method_than_its_draws_is_refused(vestry, tmp_path, method, draws, fragment):
    family = {"name": "linear", "method": method, "features": ["age", "intercept"], "classes": [],
              "scales": [None], "outcome": None, "intercept": True}  # fmt: skip
    values = ((0.1, 0.2), (0.3, 0.4))[:draws]
    path = tmp_path / "release.json"
    path.write_text(Release(family, (1.0,), {"all": Draws(values)}, CLAIM, None, ("age", "intercept")).text())
    done = vestry("posterior", path)
    if fragment is None:
        assert (done.code, done.err) == (0, "")
    else:
        refused(done, fragment)


def regression_draws(*values: tuple[float, float], outcome: list[float] | None = None) -> Release:
    family = {"name": "linear", "method": "posterior", "features": ["age", "intercept"], "classes": [],
              "scales": [[1e300, 1.0]], "outcome": outcome, "intercept": True}  # fmt: skip
    return Release(family, (1.0,), {"all": Draws(values)}, CLAIM, None, ("age", "intercept"))


@pytest.mark.parametrize(
    "release",
    [
        Release({"name": "beta-bernoulli"}, (1.0, 1.0), {"all": Draws(((0.5, 0.5),))}, CLAIM),
        Release({"name": "dirichlet-categorical"}, (1.0,) * 3, {"all": Draws(((0.5, 0.5),))}, CLAIM),
        regression_draws((0.1, 0.2), (1e300, 0.2)),
        regression_draws((1e-300, 1e300), outcome=[1e300, 1e300]),
    ],
    ids=["too wide", "too narrow", "not finite in one draw", "not finite by the outcome"],
)
def test_draws_that_are_not_of_the_family_or_not_finite_are_refused(vestry, tmp_path, release):
    path = tmp_path / "release.json"
    path.write_text(release.text())
    refused(vestry("posterior", path), "no posterior can be computed from these numbers")


@pytest.mark.parametrize("labels", [("a",), ("a",) * 5])
def test_labels_that_are_not_one_for_each_parameter_are_refused(vestry, tmp_path, labels):
    counts = NoisyStatistics(("a", "b", "c"), (41, 66, 20), "discrete-laplace", 10 / 3)
    release = Release({"name": "dirichlet-categorical"}, (1.0,) * 3, {"all": counts}, CLAIM, None, labels)
    path = tmp_path / "release.json"
    path.write_text(release.text())
    refused(vestry("posterior", path, "--draws", tmp_path / "draws.nc"), "the number of labels must be 3, one for each")
