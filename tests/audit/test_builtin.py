"""No shipped mechanism is refuted; their worst-case neighbours come close to what is claimed."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from scipy import stats
from seeded_noise import SeededNoise
from share import cases

from vestry.audit import Verdict, audit_shipped, worst_pairs
from vestry.audit.bulk_simulation import simulate
from vestry.audit.release_runs import run_release
from vestry.conjugate.beta_bernoulli import BetaBernoulliFamily
from vestry.conjugate.dirichlet_categorical import DirichletCategoricalFamily
from vestry.conjugate.gamma_exponential import GammaExponentialFamily
from vestry.conjugate.gamma_poisson import GammaPoissonFamily
from vestry.conjugate.normal_inverse_gamma import NormalInverseGammaFamily
from vestry.conjugate.normal_mean import NormalMeanFamily
from vestry.errors import GuaranteeUnreachable, InvalidParameter
from vestry.mechanisms.additive_noise import Additive
from vestry.mechanisms.posterior_sample import PosteriorSample
from vestry.mechanisms.release import ADDITIVE, calibrate_mechanism
from vestry.noise import SystemNoise
from vestry.privacy.guarantee import Guarantee
from vestry.privacy.neighbours import Adjacency

PUBLIC, PRIVATE, MOVING = Adjacency("replace", 1, 100), Adjacency("replace"), Adjacency("add-remove")
PERSONS, GROUPS, MOVING_GROUPS = Adjacency("replace", 3, 100), Adjacency("replace", groups=2), Adjacency(
    "add-remove", groups=3
)  # fmt: skip
POPULATIONS = {"public": PUBLIC, "private": PRIVATE, "add-remove": MOVING, "persons": PERSONS, "groups": GROUPS,
               "add-remove groups": MOVING_GROUPS}  # fmt: skip
FAMILIES = {
    "beta": (BetaBernoulliFamily(), (1, 2)),
    "dirichlet 2": (DirichletCategoricalFamily(2), (2, 1)),
    "dirichlet 3": (DirichletCategoricalFamily(3), (1, 2, 3)),
    "normal": (NormalMeanFamily(1.0, -1.0, 1.0), (0, 1)),
    "normal 2": (NormalMeanFamily(1.0, -1.0, 1.0, 2), (0, 1)),
    "poisson": (GammaPoissonFamily(5), (2, 1)),
    "exponential": (GammaExponentialFamily(0.5, 2.0), (2, 1)),
    "mean and variance": (NormalInverseGammaFamily(-1.0, 1.0), None),
}
GUARANTEES = {
    "laplace": "epsilon=1",
    "gaussian": "mu=1",
    "discrete-gaussian": "rho=0.5",
    "direct": "epsilon=10,delta=0.9",
    "diffused": "epsilon=1,delta=0.01",
    "concentrated": "epsilon=1,delta=0.01",
    "ops": "epsilon=1",
}
COUNTED = ("public", "persons")
DISCRETE = ("beta", "dirichlet 2", "dirichlet 3")


def offered():
    """Yield every mechanism, family and adjacency that are offered together."""
    for mechanism in GUARANTEES:
        for family in FAMILIES:
            for adjacency in POPULATIONS:
                noisy = mechanism in ADDITIVE
                drawn = family in DISCRETE or (adjacency in COUNTED and family != "mean and variance")
                if not noisy and (not drawn or (mechanism == "ops" and family not in DISCRETE)):
                    continue
                yield mechanism, family, adjacency


CASES = list(offered())


def made(mechanism: str, family: str, adjacency: str):
    model, prior = FAMILIES[family]
    # A move between groups is two draws, whose (epsilon, delta) takes long to calibrate.
    several = "groups" in adjacency and mechanism in ("diffused", "concentrated")
    asked = Guarantee.parse("order=2,epsilon=0.2" if several else GUARANTEES[mechanism])
    start = None if prior is None else model.prior(prior)
    return calibrate_mechanism(mechanism, model, start, POPULATIONS[adjacency], asked, truncation=0.1), model


# Every one of them in the slow run; here all that differ in kind.
USUAL = [
    (mechanism, family, adjacency)
    for mechanism, family, adjacency in CASES
    if (adjacency in ("public", "add-remove") and family != "dirichlet 2") or (family, adjacency) == ("beta", "groups")
]


@pytest.mark.parametrize(
    ("mechanism", "family", "adjacency"), cases(USUAL, quick=[case for case in USUAL if case[2] == "public"])
)
@pytest.mark.long
def test_no_shipped_mechanism_is_refuted(mechanism, family, adjacency):
    subject, model = made(mechanism, family, adjacency)
    found = audit_shipped(subject, model, noise=SeededNoise(1), trials=12_000, releases=1000)
    assert not found.refuted, found
    assert found.alarm == pytest.approx(1e-6)


@pytest.mark.slow
def test_no_shipped_mechanism_is_refuted_at_a_million_trials():
    """For each pair 11,000 by the law in bulk, and 1,000 by the release itself with the system's own noise."""
    total = 0
    for case in CASES:
        subject, model = made(*case)
        pairs = len(worst_pairs(subject, model))
        found = audit_shipped(
            subject, model, noise=SystemNoise(), trials=11_000 * pairs, releases=1000 * pairs, alarm=1e-6 / len(CASES)
        )
        assert not found.refuted, (case, found)
        total += found.trials
    assert total >= 1_000_000


# Mechanisms whose claim is the exact profile of one pair of datasets.
ATTAINED = [
    ("laplace", "beta", "public"),
    ("laplace", "normal", "public"),
    ("laplace", "poisson", "persons"),
    ("laplace", "dirichlet 3", "add-remove"),
    ("direct", "beta", "public"),
    ("direct", "beta", "private"),
    ("direct", "beta", "add-remove"),
    ("direct", "dirichlet 2", "public"),
    ("direct", "dirichlet 3", "public"),
    ("direct", "dirichlet 3", "add-remove"),
    ("diffused", "beta", "public"),
    ("diffused", "dirichlet 3", "private"),
    ("diffused", "normal", "public"),
    ("diffused", "normal 2", "persons"),
    ("diffused", "poisson", "public"),
    ("diffused", "exponential", "persons"),
    ("concentrated", "beta", "public"),
    ("concentrated", "poisson", "public"),
    ("concentrated", "exponential", "persons"),
]


@pytest.mark.parametrize(
    ("mechanism", "family", "adjacency"), cases(ATTAINED, quick=[case for case in ATTAINED if case[2] == "public"])
)
@pytest.mark.long
def test_worst_neighbours_nearly_attain_the_claim(mechanism, family, adjacency):
    """At epsilon 0 the bound falls short of the claim by no more than sampling explains, so the pair attains it.

    With 1e5 trials a cell and bounds at 5.7 deviations, two proportions lose up to 0.018; 6 deviations of their own
    error are another 0.013.
    """
    subject, model = made(mechanism, family, adjacency)
    found = audit_shipped(subject, model, noise=SeededNoise(2), trials=400_000, releases=0, alarm=1e-6)
    start = max((each for each in found.evidence if each.epsilon == 0), key=lambda each: each.lower)
    assert start.claimed > 0.07
    assert start.lower > start.claimed - 0.031
    assert not found.refuted


@pytest.mark.parametrize("case", [case for case in CASES if case[0] in ADDITIVE])
def test_neighbours_of_noisy_statistics_are_as_far_apart_as_the_sensitivity(case):
    subject, model = made(*case)
    assert isinstance(subject, Additive)
    moves = [np.subtract(pair.second, pair.first) for pair in worst_pairs(subject, model)]
    l1, l2 = (max(np.linalg.norm(move, ord=order) for move in moves) for order in (1, 2))
    # Sums of squares count the rounding of a record too: 2 units of half a million.
    if case[0] == "laplace":
        assert subject.layout.l1 * (1 - 1e-5) <= l1 <= subject.layout.l1
    else:
        assert subject.layout.l2 * (1 - 1e-5) <= l2 <= subject.layout.l2 * (1 + 1e-12)


@pytest.mark.parametrize(
    ("mechanism", "family", "adjacency"),
    [("laplace", "beta", "private"), ("gaussian", "beta", "public"), ("diffused", "dirichlet 3", "public"),
     ("diffused", "beta", "groups"), ("ops", "beta", "private"), ("diffused", "exponential", "public"),
     pytest.param("ops", "dirichlet 3", "public", marks=pytest.mark.long)],
)  # fmt: skip
def test_the_release_and_its_simulation_have_one_law(mechanism, family, adjacency):
    """Kolmogorov and Smirnov's distance of each coordinate; false alarms 1e-8 each."""
    subject, model = made(mechanism, family, adjacency)
    for pair in worst_pairs(subject, model):
        really = run_release(subject, pair.first, SeededNoise(3), 1000)
        bulk = simulate(subject, pair.first, np.random.default_rng(4), 20_000)
        assert really.shape[1:] == bulk.shape[1:]
        for i in range(bulk.shape[1]):
            assert stats.ks_2samp(really[:, i], bulk[:, i]).pvalue > 1e-8


def simulated_noise(noise: str, scale: float, size: int) -> np.ndarray:
    layout = BetaBernoulliFamily().layout(PUBLIC)
    mechanism = Additive(noise, scale, layout, PUBLIC, Guarantee.parse("epsilon=1"))
    return simulate(mechanism, (0,), np.random.default_rng(9), size)[:, 0]


@pytest.mark.parametrize("noise", ["discrete-laplace", "discrete-gaussian", "rounded-gaussian"])
@pytest.mark.parametrize("scale", [0.5, 3.0, 6.0])
def test_simulated_noise_has_its_law(noise, scale):
    """Chi-squared of the cells that expect at least 100; false alarms 1e-8 each."""
    size, support = 200_000, np.arange(-60, 61)
    power = np.abs(support) / scale if noise == "discrete-laplace" else (support / scale) ** 2 / 2
    law = np.exp(-power) / np.exp(-power).sum()
    if noise == "rounded-gaussian":
        law = np.diff(stats.norm.cdf(np.arange(-60.5, 61), scale=scale))
    drawn = simulated_noise(noise, scale, size)
    seen = np.array([(drawn == k).sum() for k in support])
    usual = size * law >= 100
    expected = size * law[usual]
    assert stats.chi2.sf(((seen[usual] - expected) ** 2 / expected).sum(), usual.sum() - 1) > 1e-8


def test_simulated_noise_of_a_large_scale_is_whole_and_as_wide():
    drawn = simulated_noise("discrete-gaussian", 1e5, 10_000)
    assert np.array_equal(drawn, np.rint(drawn))
    assert np.std(drawn) == pytest.approx(1e5, rel=0.05)


@pytest.mark.long
def test_draws_bought_together_are_audited_together():
    model = BetaBernoulliFamily()
    subject = calibrate_mechanism(
        "diffused", model, model.prior((1, 2)), PUBLIC, Guarantee.parse("order=2,epsilon=1"), draws=3
    )
    assert simulate(subject, (0, 100), np.random.default_rng(1), 10).shape == (10, 3)
    assert run_release(subject, (0, 100), SeededNoise(1), 10).shape == (10, 3)
    assert not audit_shipped(subject, model, noise=SeededNoise(1), trials=40_000, releases=1000).refuted
    careless = dataclasses.replace(subject, draws=1)
    twin = audit_shipped(subject, model, noise=SeededNoise(1), trials=400_000, releases=0, claim=careless.event)
    assert twin.refuted


def test_the_verdict_says_which_runs_it_rests_on():
    subject, model = made("laplace", "beta", "public")
    told: list[str] = []
    found = audit_shipped(subject, model, noise=SystemNoise(), trials=4000, releases=1000, progress=told.append)
    assert isinstance(found, Verdict)
    assert found.trials == 5000
    assert told == ["simulation: a failure becomes a success", "release: a failure becomes a success"]
    assert {each.where for each in found.evidence} == set(told)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"trials": 0}, "trials must be a whole number of at least 1000, not 0"),
        ({"releases": -1}, "releases must be 0, or a whole number of at least 1000"),
        ({"releases": 10}, "releases must be 0, or a whole number of at least 1000"),
        ({"alarm": 2}, "alarm must be a number above 0 and below 1"),
        ({"claim": "epsilon=1"}, "a claim must be an event, a guarantee"),
        ({"mechanism": lambda: 0}, "a mechanism must be one of the package's"),
    ],
)
def test_bad_input_is_refused(change, message):
    subject, model = made("laplace", "beta", "public")
    asked = {"mechanism": subject, "family": model, "noise": SeededNoise(1), "trials": 1000, "releases": 0, **change}
    with pytest.raises(InvalidParameter, match=message):
        audit_shipped(asked.pop("mechanism"), asked.pop("family"), **asked)


def test_unknown_families_are_refused():
    subject, _ = made("laplace", "beta", "public")

    family = NormalInverseGammaFamily(0.0, 1.0)
    draw = PosteriorSample("diffused", family, None, subject.adjacency, 0.5, 1.0, 1, subject.guarantee)
    with pytest.raises(GuaranteeUnreachable, match="neighbours of a draw for normal-inverse-gamma cannot be reached"):
        worst_pairs(draw, family)
