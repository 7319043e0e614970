"""Spends that meet what a study wants, against its plan and its ledger; and the formulas that plans go by."""

from __future__ import annotations

import json
import math
import re
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from study.fault_study import study_in, vestry

from vestry.conjugate.family import family_from
from vestry.conjugate.table_forecast import released_width
from vestry.errors import StudyFileError
from vestry.persons.person_posterior import PersonAverageDistribution
from vestry.planning import forecast_at
from vestry.releases import NoisyStatistics
from vestry.study import Study

NAMES = ("readmission", "stay")


def wishing(folder: Path, widths: dict[str, float], *names: str) -> Study:
    """Return a study that wants these widths."""
    path = study_in(folder, *(names or NAMES), ledger=False)
    text = path.read_text()
    for name, width in widths.items():
        text = text.replace(f"[release.{name}]\n", f"[release.{name}]\nwant = {{ width = {width} }}\n")
    path.write_text(text)
    return Study.open(path)


def width_at(study: Study, name: str, amount: float) -> float:
    config = study.config
    return forecast_at(config.release(name).request, config.schema, amount, expected_rows=config.expected_rows).width


# --- formulas ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("noise", [0.0, 0.3, 2.0, 50.0])
def test_the_width_of_a_normal_mean_is_exact(noise):
    """By the precisions of prior, sampling and noise, whose widths are 2 x 1.645 deviations."""
    z, prior, sampling = 2 * 1.6448536269514722, 4.0, 0.5
    exact = z / math.sqrt(1 / prior**2 + 1 / sampling**2)
    wanted = z / math.sqrt(1 / prior**2 + 1 / (sampling**2 + noise**2))
    assert released_width(exact, z * prior, z * noise) == pytest.approx(wanted)
    assert released_width(z * prior, z * prior, z * noise) == z * prior  # nothing but the prior


FAMILIES = {
    "poisson": ({"name": "gamma-poisson", "high": 20}, ("sum", "count"), (30_000, 8000), 1.0, 1 / 8, 0,
                lambda s, q, n: s / n),
    "exponential": ({"name": "gamma-exponential", "low": 1.0, "high": 9.0}, ("sum", "count"), (-900, 4000), 0.5, 1 / 4,
                    0, lambda s, q, n: n / (s + 5 * n)),
    "mean": ({"name": "normal-inverse-gamma", "low": 0.0, "high": 20.0}, ("sum", "sum of squares", "count"),
             (2000, 9000, 4000), 0.5, 1 / 4, 0, lambda s, q, n: 10 + s / n),
    "variance": ({"name": "normal-inverse-gamma", "low": 0.0, "high": 20.0}, ("sum", "sum of squares", "count"),
                 (2000, 9000, 4000), 0.5, 1 / 4, 1, lambda s, q, n: 10 * q / n - (s / n) ** 2),
}  # fmt: skip


@pytest.mark.oracle
@pytest.mark.parametrize("case", FAMILIES)
@pytest.mark.parametrize("count", [None, 1000])
def test_the_noise_on_an_estimate_is_its_slope(case, count):
    """By finite differences of the estimate in each released number, independent noise of one deviation on each."""
    described, names, values, grid, count_grid, index, estimate = FAMILIES[case]
    content = NoisyStatistics(
        names[: len(names) - (count is not None)],
        values[: len(values) - (count is not None)],
        "discrete-gaussian", 7.0, grid, count, count_grid,
    )  # fmt: skip
    numbers = np.array([*(np.array(values[:-1]) * grid), 1000.0])
    numbers = np.array([numbers[0], numbers[1] if len(values) == 3 else 0.0, 1000.0])
    steps = np.array([7.0 * grid, 7.0 * grid if len(values) == 3 else 0.0, 7.0 * count_grid * (count is None)])
    slopes = [
        (estimate(*(numbers + 1e-4 * move)) - estimate(*(numbers - 1e-4 * move))) / 2e-4 for move in np.diag(steps)
    ]
    found = family_from(described).noise_on_estimate(content, estimate(*numbers), index)
    assert found == pytest.approx(math.hypot(*slopes), rel=1e-5)


@pytest.mark.oracle
def test_counts_that_sum_to_a_public_number_have_less_noise():
    """Gaussian noise, given that its sum is known: the covariance I - 11'/d, by conditioning."""
    family = family_from({"name": "dirichlet-categorical", "categories": 3})
    content = NoisyStatistics(("a", "b", "c"), (30, 50, 20), "discrete-gaussian", 7.0, count=100)
    ones = np.ones((3, 1))
    left = 49 * np.eye(3) - 49 * ones @ np.linalg.inv(ones.T @ (49 * np.eye(3)) @ ones) @ (49 * ones.T)
    assert family.noise_on_estimate(content, 0.3, 0) == pytest.approx(math.sqrt(left[0, 0]) / 100, rel=1e-6)


def test_the_central_width_is_that_of_the_interval():
    found = PersonAverageDistribution(300.0, 700.0, (250.0, 100.0, 650.0), (8.0, 8.0, 8.0), (2.0, 6.0))
    low, high = found.interval(0.9)
    assert found.central_width() == pytest.approx(high - low, rel=0.01)
    assert PersonAverageDistribution(0.0, 0.0, (0.0, 0.0, 0.0), (8.0, 8.0, 8.0), (2.0, 6.0)).central_width() == 4.0


# --- wishes -----------------------------------------------------------------------------------------------------------


def test_a_study_without_wishes_has_no_plan_of_them(tmp_path):
    assert Study.open(study_in(tmp_path, *NAMES, ledger=False)).wishes() is None


def test_spends_that_meet_all_wishes_are_the_least(tmp_path):
    plain = Study.open(study_in(tmp_path, *NAMES, ledger=False))
    wanted = {name: 1.05 * width_at(plain, name, 0.3) for name in NAMES}
    study = wishing(tmp_path, wanted)
    found = study.wishes()
    assert found.fits
    assert found.instead == ()
    for wish in found.wishes:
        assert wish.width <= wanted[wish.name]
        assert width_at(study, wish.name, 0.95 * wish.spend.value) > wanted[wish.name]


@pytest.mark.long
def test_wishes_that_do_not_fit_say_what_costs_most_and_what_would_fit(tmp_path):
    plain = Study.open(study_in(tmp_path, *NAMES, ledger=False))
    budget = plain.config.budget.value
    wanted = {
        "readmission": width_at(plain, "readmission", 0.3 * budget),
        "stay": width_at(plain, "stay", 0.9 * budget),
    }
    found = wishing(tmp_path, wanted).wishes()
    assert not found.fits
    assert found.costliest == "stay"
    spends = {wish.name: wish.spend.value for wish in found.instead}
    assert 0.97 * budget < sum(spends.values()) <= budget
    assert all(wish.width > wish.wanted for wish in found.instead)
    assert found.to_dict()["instead"][0]["spend"]["epsilon"] == spends["readmission"]


def test_a_wish_that_no_spend_meets_says_so(tmp_path):
    found = wishing(tmp_path, {"stay": 1e-6}).wishes()
    (wish,) = found.wishes
    assert wish.spend is None
    assert "is the shortest with this many records" in wish.reason
    assert not found.fits


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("want = 3", r"study\.toml, line \d+, release\.stay\.want: want must be a table"),
        ("want = { breadth = 3 }", r"release\.stay\.want\.breadth: this key is not known; write"),
        ("want = {}", r"release\.stay\.want\.width: this key is missing"),
        ("want = { width = 0 }", r"release\.stay\.want\.width: width must be a number above 0"),
        ('want = { width = "narrow" }', r"release\.stay\.want\.width: width must be a number above 0"),
    ],
)
def test_a_wish_that_cannot_be_read_is_refused(line, words, tmp_path):
    path = study_in(tmp_path, "stay", ledger=False)
    path.write_text(path.read_text().replace("[release.stay]\n", f"[release.stay]\n{line}\n"))
    with pytest.raises(StudyFileError, match=words):
        Study.open(path)


def test_no_question_depends_on_a_wish(tmp_path):
    plain, wishful = Study.open(study_in(tmp_path, "stay", ledger=False)), wishing(tmp_path, {"stay": 0.5}, "stay")
    hashes = [each.config.release("stay").request.definition(each.config.schema) for each in (plain, wishful)]
    assert hashes[0] == hashes[1]


@pytest.mark.long
def test_a_wish_of_draws_points_at_its_line(tmp_path):
    with pytest.raises(StudyFileError, match=r"release\.draws\.want.*asked of a release that has intervals"):
        wishing(tmp_path, {"draws": 0.1}, "draws").wishes()


@pytest.mark.long
@pytest.mark.parametrize("seed", range(20))
def test_wishes_are_met_on_random_studies(seed, tmp_path):
    """The spends that meet the wishes, or the smaller ones that would fit, are taken by a new ledger."""
    rng = np.random.default_rng(seed)
    names = [str(each) for each in rng.choice(["readmission", "stay", "wards"], rng.integers(1, 4), replace=False)]
    plain = Study.open(study_in(tmp_path, *names, ledger=False))
    amounts = {name: float(rng.uniform(0.02, 0.9)) * plain.config.budget.value for name in names}
    study = wishing(tmp_path, {name: width_at(plain, name, x) * 1.001 for name, x in amounts.items()}, *names)
    found = study.wishes()
    for wish in found.wishes:
        assert wish.width <= wish.wanted
        assert wish.spend.value <= 1.03 * amounts[wish.name]
    text = study.config.path.read_text()
    for wish in found.wishes if found.fits else found.instead:
        head, name, rest = text.partition(f"[release.{wish.name}]")
        rest = re.sub(r"spend = \{[^}]*\}", f"spend = {{ epsilon = {wish.spend.value} }}", rest, count=1)
        text = head + name + rest
    study.config.path.write_text(text)
    assert all(cost.fits for cost in Study.open(study.config.path).costs())


# --- on the command line ----------------------------------------------------------------------------------------------


def test_plan_says_which_spends_meet_the_wishes(tmp_path):
    study = wishing(tmp_path, {"stay": 3.0}, "stay")
    done = vestry("plan", study.config.path)
    assert done.code == 0, done.err
    head, line, last = done.out.splitlines()[-3:]
    assert head.split() == ["release", "wanted", "width", "spend", "expected", "width"]
    assert line.split()[:2] == ["stay", "3"]
    assert last.startswith("Together they fit what remains, epsilon=4")
    record = json.loads(vestry("plan", study.config.path, "--json").out)["wishes"]
    assert record["fits"]
    assert f"epsilon={record['wishes'][0]['spend']['epsilon']:g}" == line.split()[2]


@pytest.mark.long
def test_a_plot_of_widths_is_drawn_and_the_guess_said(tmp_path):
    path = study_in(tmp_path, "stay", ledger=False)
    done = vestry("plan", path, "--plot", tmp_path / "width.png")
    assert done.code == 0, done.err
    assert (tmp_path / "width.png").read_bytes().startswith(b"\x89PNG")
    assert (
        "guesses whether a row is in the data at all, at even odds, is right with a probability of at most 55.0 %"
        in done.out
    )
    assert vestry("plan", path, "--plot", tmp_path / "width.txt").code == 2


def test_a_curve_falls_to_the_width_without_privacy(tmp_path):
    curve = Study.open(study_in(tmp_path, "stay", ledger=False)).width_curve("stay")
    spends, widths = zip(*curve.points, strict=True)
    assert (spends[0], spends[-1]) == pytest.approx((0.02, 2.0))
    assert all(a > b for a, b in pairwise(widths))
    assert widths[-1] > curve.exact
    assert curve.guesses[6] == pytest.approx(1 / (1 + math.exp(-curve.present)))


def test_release_repeats_the_plan_s_warning_before_it_asks(tmp_path, monkeypatch):
    path = study_in(tmp_path, "stay")

    def refuse(due: list[str]) -> None:
        assert due == ["stay"]
        raise SystemExit(1)

    monkeypatch.setattr("vestry.cli.study_commands._confirm", refuse)
    done = vestry("release", path)
    assert done.code == 1
    assert "warning: stay: privacy more than doubles the width (" in " ".join(done.err.split())


def test_usage_has_no_braces():
    assert re.search(r"Usage: .*vestry plan \[OPTIONS\] STUDY \[NAME\]\.\.\.", vestry("plan", "--help").out)


def test_wishes_beside_a_release_that_not_every_mechanism_can_make(tmp_path):
    path = wishing(tmp_path, {"stay": 2.0}, "stay").config.path
    path.write_text(path.read_text() + '\n[release.quality]\nmodel = "quality"\nspend = { epsilon = 0.1 }\n')
    assert Study.open(path).wishes().fits
