"""The auditor itself: its bounds hold at the stated rate, its power is what it should be, bad input is refused.

False alarms of these tests: counts of rare events are compared with the quantile of their binomial law at 1 - 1e-6.
Seeds are fixed, so a test that passes goes on passing.
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from scipy import stats

from vestry.audit import Evidence, Verdict, audit
from vestry.audit.claim import Claim
from vestry.audit.clopper_pearson import at_least, at_most
from vestry.audit.evidence import join_verdicts
from vestry.audit.rejection_region import THRESHOLDS, RejectionRegion
from vestry.audit.test_statistic import Score
from vestry.errors import InvalidParameter
from vestry.privacy import accountant
from vestry.privacy.event import compose
from vestry.privacy.guarantee import ApproxDP, GaussianDP, PureDP, RenyiDP
from vestry.privacy.pricing import event


def normal(dataset: float, rng: np.random.Generator, trials: int) -> np.ndarray:
    return dataset + rng.standard_normal(trials)


def answers(dataset: int, rng: np.random.Generator, trials: int) -> np.ndarray:
    """Answer yes or no, lying with probability 1/(1 + e): exactly 1-DP, and tight at every epsilon."""
    return np.where(rng.random(trials) < 1 / (1 + math.e), 1 - dataset, dataset)


# --- proportions ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("trials", [1, 7, 100])
@pytest.mark.parametrize("level", [0.05, 1e-8])
def test_bounds_of_a_proportion_fail_no_more_often_than_stated(trials, level):
    hits = np.arange(trials + 1)
    low, high = at_least(hits, trials, level=level), at_most(hits, trials, level=level)
    assert low[0] == 0
    assert high[-1] == 1
    for p in np.linspace(0.001, 0.999, 97):
        law = stats.binom.pmf(hits, trials, p)
        assert law[low > p].sum() <= level * (1 + 1e-6)
        assert law[high < p].sum() <= level * (1 + 1e-6)


def test_bounds_of_a_proportion_are_those_of_the_binomial_law():
    assert stats.binom.sf(29, 100, float(at_least(30, 100, level=1e-4))) == pytest.approx(1e-4)
    assert stats.binom.cdf(30, 100, float(at_most(30, 100, level=1e-4))) == pytest.approx(1e-4)


# --- validity and power -----------------------------------------------------------------------------------------------

TIGHT = {
    "normal": (normal, (0.0, 1.0), GaussianDP(1.0)),
    "answers": (answers, (0, 1), PureDP(1.0)),
}


@pytest.mark.long
@pytest.mark.parametrize("name", TIGHT)
@pytest.mark.parametrize("epsilons", [None, (0.5,)], ids=["profile", "one epsilon"])
def test_false_alarms_of_an_exactly_tight_mechanism(name, epsilons):
    run, pair, guarantee = TIGHT[name]
    rng, claim = np.random.default_rng(11), Claim.of(guarantee)
    alarms = sum(
        audit(run, pair, claim, source=rng, trials=2000, alarm=0.05, epsilons=epsilons).refuted for _ in range(400)
    )
    assert alarms <= stats.binom.ppf(1 - 1e-6, 400, 0.05)


@pytest.mark.parametrize("name", TIGHT)
@pytest.mark.long
def test_single_bounds_fail_at_a_fraction_of_the_alarm(name):
    """With one epsilon and one direction in view, at an alarm of a half, some bounds must fail: they are not void."""
    run, pair, guarantee = TIGHT[name]
    rng, claim = np.random.default_rng(12), Claim.of(guarantee)
    wrong = sum(
        audit(run, pair, claim, source=rng, trials=2000, alarm=0.9, epsilons=(0.0,)).refuted for _ in range(300)
    )
    assert 0 < wrong <= stats.binom.ppf(1 - 1e-6, 300, 0.9)


@pytest.mark.parametrize("name", TIGHT)
def test_bounds_come_close_to_a_tight_claim(name):
    run, pair, guarantee = TIGHT[name]
    found = audit(run, pair, guarantee, source=np.random.default_rng(1), trials=400_000)
    assert not found.refuted
    for direction in ("first over second", "second over first"):
        start = next(each for each in found.evidence if each.epsilon == 0 and each.direction == direction)
        assert start.lower > 0.95 * start.claimed


@pytest.mark.parametrize("factor", [0.8, 1.2])
def test_a_fifth_less_noise_is_found_and_a_fifth_more_is_not(factor):
    found = [
        audit(normal, (0.0, 1 / factor), GaussianDP(1.0), source=np.random.default_rng(seed), trials=100_000).refuted
        for seed in range(10)
    ]
    assert found == [factor < 1] * 10


def test_a_mistake_in_one_direction_only_is_found():
    """The second dataset now and then shows what the first never does."""

    def run(dataset: int, rng: np.random.Generator, trials: int) -> np.ndarray:
        return np.where(rng.random(trials) < 0.01 * dataset, 1.0, 0.0)

    found = audit(run, (0, 1), PureDP(1.0), source=np.random.default_rng(3), trials=40_000)
    assert found.refuted
    assert {each.direction for each in found.evidence if each.refutes} == {"second over first"}


def test_a_difference_no_coordinate_shows_needs_a_score():
    """One dataset gives equal signs and the other opposite ones; each coordinate alone is the same."""

    def run(dataset: int, rng: np.random.Generator, trials: int) -> np.ndarray:
        size = np.abs(rng.standard_normal((trials, 2)))
        sign = rng.choice([-1, 1], trials)
        return np.stack([size[:, 0] * sign, size[:, 1] * sign * (1 - 2 * dataset)], axis=1)

    claim = {"claim": PureDP(3.0), "trials": 20_000}
    plain = audit(run, (0, 1), source=np.random.default_rng(4), **claim)
    told = audit(run, (0, 1), source=np.random.default_rng(4), log_ratio=lambda x: x[:, 0] * x[:, 1], **claim)
    assert not plain.refuted
    assert told.refuted
    assert told.strongest.event.startswith("log-likelihood ratio")


@pytest.mark.parametrize("width", [1, 3])
def test_supports_that_differ_are_found_without_a_score(width):
    """Even numbers against odd ones, far apart from each other's order."""

    def run(dataset: int, rng: np.random.Generator, trials: int) -> np.ndarray:
        return 2 * rng.integers(0, 20, (trials, width)) + dataset

    found = audit(run, (0, 1), PureDP(1.0), source=np.random.default_rng(5), trials=400_000)
    assert found.refuted
    assert found.strongest.event.startswith("log-ratio of times seen")


def test_what_is_no_number_counts_as_an_output():
    def run(dataset: int, rng: np.random.Generator, trials: int) -> np.ndarray:
        return np.where(rng.random(trials) < 0.5 * dataset, np.nan, rng.random(trials))

    assert audit(run, (0, 1), PureDP(1.0), source=np.random.default_rng(6), trials=4000).refuted


# --- claims -----------------------------------------------------------------------------------------------------------


def test_a_claim_is_read_from_events_guarantees_and_profiles():
    once = event("gaussian", sensitivity=1.0, scale=2.0)
    assert Claim.of(once).delta(0.3) == accountant.delta(once, 0.3)
    assert Claim.of(GaussianDP(0.5)).delta(0.3) == pytest.approx(accountant.delta(once, 0.3), rel=1e-9)
    assert Claim.of(lambda epsilon: 5.0).delta(1) == 1
    both = Claim.of((GaussianDP(0.5), ApproxDP(0.3, 1e-3)))
    assert both.delta(0.3) == pytest.approx(1e-3)
    assert both.delta(0) == Claim.of(ApproxDP(0.3, 1e-3)).delta(0) < Claim.of(once).delta(0)
    assert both.marks == (0.3,)
    assert Claim.of(compose(once, once)).delta(0.3) == accountant.delta(compose(once, once), 0.3)


@pytest.mark.parametrize("guarantee", [PureDP(1), ApproxDP(1, 0.01), GaussianDP(0.01), GaussianDP(3), RenyiDP(2, 0.1)])
def test_epsilons_cover_the_claim_as_far_as_trials_can_see(guarantee):
    claim = Claim.of(guarantee)
    looked = claim.epsilons(10_000)
    assert looked[0] == 0
    assert looked[-1] == math.log(250)
    assert 8 < len(looked) < 40
    assert list(looked) == sorted(set(looked))
    assert set(claim.marks) <= set(looked)


# --- facts ------------------------------------------------------------------------------------------------------------


def test_verdicts_are_frozen_facts():
    found = audit(answers, (0, 1), PureDP(0.5), source=np.random.default_rng(7), trials=20_003, where="a word")
    assert found.refuted
    assert found.word == "refuted"
    assert found.trials == 20_000
    best = found.strongest
    assert best.lower > best.claimed
    assert best.where == "a word"
    assert best.cell == 5000
    assert str(found).startswith("refuted in 20000 trials, false alarms at most 1e-06: at epsilon")
    record = found.to_dict()
    assert list(record) == ["verdict", "trials", "alarm", "evidence"]
    assert record["evidence"][0]["lower"] == best.lower
    assert record["evidence"][0]["refutes"] is True
    with pytest.raises(dataclasses.FrozenInstanceError, match="lower"):
        best.lower = 0.0
    both = join_verdicts([found, found])
    assert both.trials == 40_000
    assert both.alarm == 2e-6
    assert len(both.evidence) == 2 * len(found.evidence)


def test_the_strongest_evidence_of_an_honest_mechanism_is_what_comes_closest():
    facts = [Evidence(e, claimed, lower, "first over second", "", (1, 1), 9) for e, claimed, lower in
             ((0.0, 0.4, 0.2), (1.0, 0.1, 0.09), (2.0, 0.0, 0.0))]  # fmt: skip
    assert Verdict(36, 1e-6, tuple(facts)).strongest is facts[1]


def test_the_lower_bound_follows_from_the_hits():
    found = audit(answers, (0, 1), PureDP(1.0), source=np.random.default_rng(8), trials=40_000, epsilons=(0.5,))
    for each in found.evidence:
        low = at_least(each.hits[0], each.cell, level=1e-6 / 4)
        high = at_most(each.hits[1], each.cell, level=1e-6 / 4)
        assert each.lower == pytest.approx(float(low - math.exp(0.5) * high), rel=1e-6)


def test_cuts_count_both_tails():
    values = np.array([1.0, 2.0, 2.0, 3.0])
    score = Score("output", lambda x: x[:, 0])
    assert RejectionRegion(score, 2.0, above=True).hits(values) == 3
    assert RejectionRegion(score, 2.0, above=False).hits(values) == 3
    assert str(RejectionRegion(score, 2.0, above=False)) == "output <= 2"
    assert THRESHOLDS % 4 == 0


# --- bad input --------------------------------------------------------------------------------------------------------

GOOD = {"run": normal, "neighbours": (0.0, 1.0), "claim": GaussianDP(1.0), "source": np.random.default_rng(0),
        "trials": 1000}  # fmt: skip

BAD = {
    "no trials": ({"trials": 0}, "trials must be a whole number of at least 1000, not 0"),
    "few trials": ({"trials": 999}, "at least 1000"),
    "half a trial": ({"trials": 1000.5}, "trials must be a whole number"),
    "true trials": ({"trials": True}, "trials must be a whole number"),
    "no mechanism": ({"run": 3}, "a mechanism must be a function of"),
    "one dataset": ({"neighbours": (1,)}, "neighbours must be two datasets"),
    "a word for two": ({"neighbours": "ab"}, "neighbours must be two datasets"),
    "no neighbours": ({"neighbours": None}, "neighbours must be two datasets"),
    "a number for a claim": ({"claim": 1.0}, "a claim must be an event, a guarantee"),
    "text for a claim": ({"claim": "epsilon=1"}, "a claim must be an event, a guarantee"),
    "nothing claimed": ({"claim": ()}, "a claim must be an event, a guarantee"),
    "a claim of nothing": ({"claim": lambda epsilon: None}, "the claimed delta at epsilon .* must be a number"),
    "a claim below 0": ({"claim": lambda epsilon: -0.1}, "must be a number at least 0"),
    "a claim of nan": ({"claim": lambda epsilon: math.nan}, "must be a number at least 0"),
    "an alarm of 0": ({"alarm": 0}, "alarm must be a number above 0 and below 1"),
    "an alarm of 1": ({"alarm": 1.0}, "alarm must be a number above 0 and below 1"),
    "no epsilons": ({"epsilons": ()}, "epsilons must be numbers from 0"),
    "epsilons below 0": ({"epsilons": (-1,)}, "epsilons must be numbers from 0"),
    "too few outputs": ({"run": lambda d, s, n: np.zeros(n - 1)}, "the shape of a mechanism's outputs"),
    "one output": ({"run": lambda d, s, n: 1.0}, "the shape of a mechanism's outputs"),
    "empty outputs": ({"run": lambda d, s, n: np.zeros((n, 0))}, "the shape of a mechanism's outputs"),
    "words": ({"run": lambda d, s, n: ["a"] * n}, "a mechanism's outputs must be real numbers"),
    "shapes that differ": ({"run": lambda d, s, n: np.zeros((n, 1 + int(d)))}, "the outputs' shapes must be equal"),
    "a score of another shape": ({"log_ratio": lambda x: x}, "the shape of the log-likelihood ratio"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_refused(name):
    change, message = BAD[name]
    asked = {**GOOD, **change}
    with pytest.raises(InvalidParameter, match=message):
        audit(asked.pop("run"), asked.pop("neighbours"), asked.pop("claim"), **asked)
