"""What the mechanisms of conjugate pairs refuse, and which bound they are held to."""

from __future__ import annotations

import math
from types import SimpleNamespace

import pytest
from seeded_noise import SeededNoise

from vestry.conjugate.beta_bernoulli import BetaBernoulliFamily
from vestry.conjugate.dirichlet_categorical import DirichletCategoricalFamily
from vestry.conjugate.normal_mean import NormalMeanFamily
from vestry.errors import DeclarationMismatch, GuaranteeUnreachable, InvalidParameter
from vestry.ledger import Ledger
from vestry.mechanisms import posterior_sample, truncated_posterior
from vestry.mechanisms.release import calibrate_mechanism, publish
from vestry.mechanisms.table_sample import calibrate_tables
from vestry.mechanisms.truncated_posterior import ops
from vestry.noise import SystemNoise, exact_sampling
from vestry.noise.bits import Bits
from vestry.noise.grid import PROBABILITY_GRID
from vestry.privacy import accountant
from vestry.privacy.guarantee import Guarantee, PureDP
from vestry.privacy.neighbours import Adjacency
from vestry.privacy.pricing import event
from vestry.schema.private import Private

BETA, PUBLIC = BetaBernoulliFamily(), Adjacency("replace", 1, 100)
PRIOR = BETA.prior((3.0, 3.0))
ASKED = Guarantee.parse("epsilon=1,delta=1e-6")


def test_a_mechanism_is_found_by_its_name_and_makes_one_draw_unless_told():
    assert calibrate_mechanism("diffused", BETA, PRIOR, PUBLIC, ASKED).draws == 1
    assert calibrate_mechanism("laplace", BETA, PRIOR, PUBLIC, Guarantee.parse("epsilon=0.5")).scale == 2
    with pytest.raises(InvalidParameter, match="one of laplace, gaussian, discrete-gaussian, direct"):
        calibrate_mechanism("normal", BETA, PRIOR, PUBLIC, ASKED)
    with pytest.raises(InvalidParameter, match="draws must be omitted for noisy statistics"):
        calibrate_mechanism("laplace", BETA, PRIOR, PUBLIC, ASKED, draws=2)
    with pytest.raises(InvalidParameter, match="truncation must be given for ops"):
        calibrate_mechanism("ops", BETA, PRIOR, PUBLIC, ASKED)


def test_statistics_come_in_equal_parts_for_each_group():
    three = Adjacency("replace", 1, None, 3)
    assert posterior_sample.split_groups([1, 2, 3, 4, 5, 6], three) == [[1, 2], [3, 4], [5, 6]]
    for values in ([1, 2, 3, 4], []):
        with pytest.raises(DeclarationMismatch, match="a multiple of 3"):
            posterior_sample.split_groups(values, three)


def test_one_draw_is_held_to_its_exact_profile_and_several_to_a_batch():
    """Twenty runs of 0.1 are together better than any bound for runs one by one."""
    runs = event("pure", epsilon=0.1, neighbours="replace").times(20)
    asked = Guarantee.parse("epsilon=1.7,delta=1e-5", neighbours="replace")
    assert not accountant.meets(runs, asked)
    assert posterior_sample.meets_exactly(runs, asked)
    assert not posterior_sample.meets_exactly(runs, Guarantee.parse("epsilon=1,delta=1e-5", neighbours="replace"))
    assert not posterior_sample.meets_exactly(runs, Guarantee.parse("rho=0.01", neighbours="replace"))
    one = event("pure", epsilon=0.1)
    assert not posterior_sample.meets_exactly(one, Guarantee.parse("epsilon=0.05,delta=1e-5"))


def test_the_papers_way_is_through_renyi():
    """Which is looser: normal noise of scale 4 has delta 2.92e-6 at epsilon 1, and by its Renyi curve more."""
    made = event("gaussian", sensitivity=1.0, scale=4.0)
    exactly, loosely = "epsilon=1,delta=3e-6", "epsilon=1,delta=1e-4"
    assert posterior_sample.meets_exactly(made, Guarantee.parse(exactly))
    assert not posterior_sample.meets_through_renyi(made, Guarantee.parse(exactly))
    assert posterior_sample.meets_through_renyi(made, Guarantee.parse(loosely))
    assert posterior_sample.meets_through_renyi(made, Guarantee.parse("rho=0.03125"))
    assert not posterior_sample.meets_through_renyi(made, Guarantee.parse("rho=0.0312"))


def test_a_truncated_draw_is_tempered_and_stays_inside(monkeypatch):
    """Beta(a + s/T, b + (n - s)/T) on [low, 1 - low]; a unit of the sums is 1 unless a query says otherwise."""
    asked = []
    monkeypatch.setattr(exact_sampling, "beta", lambda bits, *shapes, **ends: asked.append((shapes, ends)) or [0.5])
    made = truncated_posterior.ops(BETA, PRIOR, PUBLIC, Guarantee.parse("epsilon=1"), truncation=0.125)
    t = made.temperature
    leave = SimpleNamespace(take=lambda: None)
    made.release(Private([70, 100]), leave, SeededNoise(1))
    (shapes, ends), *_ = asked
    assert shapes == pytest.approx((3 + 70 / t, 3 + 30 / t))
    assert (ends["low"], ends["high"], ends["size"]) == (0.125, 0.875, 1)


def test_a_guarantee_that_is_loose_enough_leaves_the_posterior_untempered():
    made = truncated_posterior.ops(BETA, PRIOR, PUBLIC, Guarantee.parse("epsilon=50"), truncation=0.125)
    assert made.temperature == pytest.approx(1)
    assert made.event.parameters[0][1] == pytest.approx(2 * math.log(7))
    half = truncated_posterior.ops(BETA, PRIOR, PUBLIC, Guarantee.parse("epsilon=2"), truncation=0.125)
    assert half.temperature == pytest.approx(math.log(7))


def test_ops_has_a_pure_epsilon_for_probabilities_alone():
    normal = NormalMeanFamily(variance=1.0, low=0.0, high=1.0)
    with pytest.raises(GuaranteeUnreachable, match="its log-likelihood has no bound"):
        truncated_posterior.ops(normal, None, PUBLIC, Guarantee.parse("epsilon=1"), truncation=0.1)


def test_each_group_of_a_release_is_named(tmp_path):
    terms = {"dataset": "trial", "unit": "row", "neighbours": "replace", "budget": "epsilon=2"}
    ledger = Ledger.create(tmp_path / "a.ledger", **terms)
    made = calibrate_mechanism("laplace", BETA, PRIOR, PUBLIC, Guarantee.parse("epsilon=0.5"))
    charge = ledger.charge(made.charge, purpose="test")
    with pytest.raises(
        DeclarationMismatch, match="the number of groups asked for is 2, but it is 1 here; name each group"
    ):
        publish(made, Private([1]), charge, family=BETA, prior=(1, 1), groups=("a", "b"), noise=SeededNoise(1))


def test_an_interval_of_a_rate_is_not_empty():
    for ends in ({"low": 2.0, "high": 1.0}, {"low": -1.0, "high": 1.0}):
        with pytest.raises(InvalidParameter, match="low and high must be 0 <= low < high"):
            exact_sampling.gamma(Bits(SeededNoise(1)), 2.0, 1.0, grid=2.0**-40, size=1, **ends)


@pytest.mark.parametrize("concentration", [1e-30, 1e-20, 1e-8, 1e15, 1e20])
@pytest.mark.parametrize("low", [1e-3, 0.3])
def test_exact_truncated_draws_end_in_silence_whatever_the_counts(concentration, low):
    """Warnings are errors here: one that depends on an empty cell would tell of it."""
    for extra in ((0.0, 0.0, 0.0), (0.2, 0.0, 0.0), (5.0, 5.0, 0.0)):
        (drawn,) = exact_sampling.dirichlet(
            Bits(SystemNoise()), tuple(concentration + x for x in extra), grid=PROBABILITY_GRID, size=1, low=low
        )
        assert min(drawn) >= low - 2**-39


def test_a_prior_that_would_take_for_ever_is_refused():
    family = DirichletCategoricalFamily(3)
    with pytest.raises(InvalidParameter, match=r"a prior for ops must be a number at most 1e\+20.*, not 1e\+25"):
        ops(family, family.prior((1e25, 1, 1)), Adjacency("replace", count=9), PureDP(1), truncation=0.1)
    with pytest.raises(InvalidParameter, match=r"a prior for ops must be a number at most 1e\+20"):
        calibrate_tables(
            DirichletCategoricalFamily, (2, 3), 1e25, Adjacency("replace", count=9), PureDP(1), truncation=0.1
        )
    with pytest.raises(InvalidParameter, match="draws must be a whole number"):
        calibrate_tables(
            DirichletCategoricalFamily, (2, 3), 1.0, Adjacency("replace", count=9), PureDP(1), truncation=0.1, draws=0
        )
