"""The first charge chooses how delta is shared: what it gains, and that no analyst gains more than the budget."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.signal import fftconvolve
from scipy.stats import norm

from vestry.errors import AskedBefore, BudgetExceeded, LedgerCorrupt
from vestry.ledger import Ledger
from vestry.ledger.entry import GENESIS, Entry, JournalWalk, State, canonical_json, seal
from vestry.ledger.ledger import Ask
from vestry.ledger.privacy_filter import PrivacyFilter
from vestry.privacy.event import Event, compose
from vestry.privacy.guarantee import ApproxDP
from vestry.privacy.pricing import PRICINGS, Pricing, Rule, event

STEP = 0.1  # of the lattice of privacy losses
WHOLE = Rule("whole", lambda x: x == int(x))


# The worst analyst, by backward induction over small mechanisms whose output distributions are known exactly
#
# A mechanism says one of two things, with privacy losses +a and -b steps; with probability `fails` it says everything.
# An analyst who has seen losses of k steps in all, after charges that the rule accepted, stops or buys the next
# mechanism. The value is the hockey-stick divergence of the whole: its maximum is the delta that is really lost.


def chance(a: float, b: float) -> float:
    """The probability of the loss +a: both distributions must sum to 1."""
    return -math.expm1(b * STEP) / (math.exp(-a * STEP) - math.exp(b * STEP))


def renyi(order: float, a: float, b: float) -> float:
    """The Renyi divergence in the direction a, b."""
    p, total = chance(a, b), (order - 1) * STEP
    return float(np.logaddexp(math.log(p) + total * a, math.log1p(-p) - total * b)) / (order - 1)


def profile(epsilon: float, a: float, b: float) -> float:
    return max(0.0, chance(a, b) * -math.expm1(epsilon - a * STEP)) if a * STEP > epsilon else 0.0


@pytest.fixture(autouse=True)
def _two_point(monkeypatch):
    """A kind of event for this test alone."""

    def both(of: Callable) -> Callable:
        return lambda x, a, b, fails: max(of(x, a, b), of(x, b, a))

    def exactly(epsilon: float, a: float, b: float, fails: float) -> float:
        return fails + (1 - fails) * both(profile)(epsilon, a, b, 0)

    pricing = Pricing(
        {"a": WHOLE, "b": WHOLE, "fails": Rule("a probability", lambda x: 0 <= x < 1)},
        renyi=both(renyi),
        profile=exactly,
        pure=lambda a, b, fails: max(a, b) * STEP,
        failure=lambda a, b, fails: fails,
    )
    monkeypatch.setitem(PRICINGS, "two-point", pricing)


@dataclass(frozen=True)
class Analyst:
    """Buys from a shelf of mechanisms, at most `most` in all."""

    shelf: Sequence[tuple[int, int, float]]
    most: int
    budget: ApproxDP

    def event(self, bought: Sequence[int]) -> Event:
        parts = [event("two-point", a=a, b=b, fails=fails) for a, b, fails in (self.shelf[i] for i in bought)]
        return parts[0] if len(parts) == 1 else compose(*parts)

    def loses(self, accepts: Callable[[tuple[int, ...]], bool]) -> float:
        """Return the largest delta over all strategies; `accepts` says whether what was bought is allowed."""
        accepts = cache(accepts)
        epsilon = self.budget.epsilon

        @cache
        def value(bought: tuple[int, ...], loss: int) -> float:
            best = max(0.0, -math.expm1(epsilon - loss * STEP))
            if len(bought) < self.most:
                for i, (a, b, fails) in enumerate(self.shelf):
                    # The order matters for what came first only.
                    after = (*bought[:1], *sorted((*bought[1:], i))) if bought else (i,)
                    if not accepts(after):
                        continue
                    p = chance(a, b)
                    told = p * value(after, loss + a) + (1 - p) * value(after, loss - b)
                    best = max(best, fails + (1 - fails) * told)
            return best

        return value((), 0)


def ours(analyst: Analyst) -> Callable[[tuple[int, ...]], bool]:
    """The ledger's rule: what was charged first chooses, and nothing chooses again."""
    undecided = replace(PrivacyFilter.of(analyst.budget), undecided=True)
    chosen = cache(lambda first: undecided.decided_by(analyst.event([first])))

    def accepts(bought: tuple[int, ...]) -> bool:
        fixed = chosen(bought[0])
        spent = fixed.nothing
        for i in bought:
            spent = spent.plus(fixed.price(analyst.event([i])))
        return fixed.holds(spent)

    return accepts


def choosing_again(analyst: Analyst) -> Callable[[tuple[int, ...]], bool]:
    """The broken twin: every charge may choose, so that all charges so far are looked at as if they came first."""
    undecided = replace(PrivacyFilter.of(analyst.budget), undecided=True)

    def accepts(bought: tuple[int, ...]) -> bool:
        together = analyst.event(bought)
        fixed = undecided.decided_by(together)
        first, *others = fixed.prices([analyst.event([i]) for i in bought])
        for price in others:
            first = first.plus(price)
        return fixed.holds(first)

    return accepts


SHELVES = {
    "even": (ApproxDP(1, 0.01), [(1, 1, 0), (2, 2, 0), (3, 3, 0), (6, 1, 0), (1, 6, 0)], 1.43),
    "failing": (ApproxDP(1, 0.01), [(2, 2, 0.004), (3, 3, 0), (7, 1, 0), (1, 7, 0)], 1.31),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SHELVES)
def test_choosing_again_later_exceeds_the_budget(name):
    budget, shelf, factor = SHELVES[name]
    analyst = Analyst(shelf, 5, budget)
    assert analyst.loses(choosing_again(analyst)) > factor * budget.delta
    assert analyst.loses(ours(analyst)) <= budget.delta


@pytest.mark.long
def test_choosing_again_later_exceeds_the_budget_with_four_charges():
    budget, shelf, _ = SHELVES["failing"]
    analyst = Analyst(shelf, 4, budget)
    assert analyst.loses(choosing_again(analyst)) > 1.2 * budget.delta
    assert analyst.loses(ours(analyst)) <= budget.delta


def random_analyst(source: np.random.Generator, *, most: int) -> Analyst:
    """A budget and a shelf of mechanisms, some about as large as the budget; at most so many are bought."""
    budget = ApproxDP(float(source.choice([0.5, 1, 2])), float(source.choice([1e-3, 1e-2, 0.05, 0.1])))
    top = int(14 * budget.epsilon)
    shelf = []
    for _ in range(source.integers(2, 5)):
        a, other = (int(x) for x in source.integers(1, top + 1, size=2))
        fails = float(budget.delta * source.choice([0, 0, 0.1, 0.3, 0.5, 1]))
        shelf.append((a, a if source.random() < 0.5 else other, fails))
    return Analyst(shelf, int(source.integers(2, most + 1)), budget)


@pytest.mark.slow
def test_no_shelf_of_mechanisms_exceeds_the_budget():
    """Two hundred shelves, on each the worst of all strategies; some come near the budget."""
    source, lost = np.random.default_rng(20261116), []
    for _ in range(200):
        analyst = random_analyst(source, most=3)
        lost.append(analyst.loses(ours(analyst)) / analyst.budget.delta)
    assert 0.6 < max(lost) <= 1


# What it gains


def undecided(budget: ApproxDP) -> PrivacyFilter:
    return replace(PrivacyFilter.of(budget), undecided=True)


def test_a_first_charge_that_is_the_whole_budget_is_accepted_and_then_nothing(make):
    ledger = make("epsilon=1,delta=1e-6")
    ledger.charge("epsilon=1,delta=1e-6", purpose="all")
    for more in ("epsilon=1e-9", "rho=1e-9", "epsilon=1e-9,delta=1e-20"):
        with pytest.raises(BudgetExceeded, match=r"and nothing of epsilon=1, delta=1e-6 remains|and nothing of"):
            ledger.charge(more, purpose="more")
    assert ledger.verify().entries == 2
    assert ledger.state().filter.left(ledger.state().spent) == "nothing"


def test_a_charge_for_work_that_was_done_chooses_nothing(make):
    ledger = make("epsilon=1,delta=1e-6")
    with pytest.raises(BudgetExceeded, match=r"needs epsilon=1, delta=1e-6"):
        ledger.charge("epsilon=1,delta=1e-6", purpose="all", done=True)
    assert ledger.state().filter.undecided
    ledger.charge("epsilon=0.1", purpose="a little", done=True)
    assert ledger.state().filter == PrivacyFilter.of(ApproxDP(1, 1e-6))
    with pytest.raises(BudgetExceeded, match=r"needs epsilon=0.5, delta=1e-6"):
        ledger.charge("epsilon=0.5,delta=1e-6", purpose="rest")


def test_a_first_charge_that_fits_equal_shares_changes_nothing(make):
    ledger = make("epsilon=1,delta=1e-6")
    charge = ledger.charge("epsilon=0.3", purpose="one")
    assert "filter" not in charge.entry.facts
    assert ledger.state().filter == PrivacyFilter.of(ApproxDP(1, 1e-6))


def test_refusals_decide_nothing(make):
    ledger = make("epsilon=1,delta=1e-6")
    with pytest.raises(BudgetExceeded, match=r"needs epsilon=1.1"):
        ledger.charge("epsilon=1.1", purpose="too much")
    assert ledger.state().filter.undecided
    ledger.charge("epsilon=1,delta=1e-6", purpose="all")


def test_who_loses_the_race_to_be_first_prices_again(make):
    ledger = make("epsilon=1,delta=1e-6")
    late = Ledger.open(ledger.address)
    ledger.charge("epsilon=0.5,delta=5e-7", purpose="first")
    late.charge("epsilon=0.25,delta=5e-7", purpose="second")  # under what the first chose: all of delta to failures
    with pytest.raises(BudgetExceeded, match=r"epsilon=0.25 of epsilon=1"):
        late.charge("epsilon=0.25,delta=1e-12", purpose="third")
    assert ledger.verify().entries == 3


def gaussian_delta(epsilon: float, mu: float) -> float:
    """Balle and Wang 2018, Theorem 8."""
    return norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu)


@pytest.mark.long
def test_gaussian_noise_gets_all_of_delta():
    """Then the limit is the exact one; equal shares ask for a tenth more noise."""
    budget = ApproxDP(1, 1e-6)
    mu = brentq(lambda x: gaussian_delta(1, x) - 1e-6, 0.05, 1, xtol=1e-14)
    equal = math.sqrt(PrivacyFilter.of(budget).alternatives[-1].limit / 1e12)
    assert 1.08 < mu / equal < 1.11
    just, over = event("gdp", mu=mu * (1 - 1e-9)), event("gdp", mu=mu * (1 + 1e-9))
    chosen = undecided(budget).decided_by(just)
    assert [each.definition for each in chosen.alternatives] == ["pure", "gdp"]
    assert chosen.holds(chosen.price(just))
    refused = undecided(budget).decided_by(over)
    assert not refused.holds(refused.price(over))
    assert undecided(budget).decided_by(event("gdp", mu=equal * 0.999)) == PrivacyFilter.of(budget)


def laplace_delta(count: int, each: float, epsilon: float) -> float:
    """The exact delta of so many Laplace mechanisms, by convolution of their privacy losses on a fine grid, from above.

    One has the loss `each` with probability 1/2, and between -each and each the density e^(-(each - x)/2)/4.
    """
    steps = 2000
    grid = np.linspace(-each, each, 2 * steps + 1)
    mass = np.zeros(2 * steps + 1)
    below = np.exp((grid - each) / 2) / 2  # P(loss <= x)
    mass[1:] = np.diff(below)  # rounded up to the next point
    mass[0], mass[-1] = below[0], mass[-1] + 0.5
    total = np.array([1.0])
    for _ in range(count):
        total = fftconvolve(total, mass)
    losses = np.linspace(-count * each, count * each, total.size)
    return float(np.sum(np.maximum(total, 0) * np.maximum(0, -np.expm1(epsilon - losses))))


@pytest.mark.parametrize(("count", "each"), [(30, 0.1), (100, 0.03)])
@pytest.mark.long
def test_a_batch_is_priced_by_its_joint_profile(count, each):
    batch = event("laplace", sensitivity=1, scale=1 / each, count=count)
    exact = brentq(lambda x: laplace_delta(count, each, x) - 1e-6, 0.3, count * each)
    assert exact < 0.78 * count * each
    for epsilon, fits in ((exact * 1.005, True), (exact * 0.99, False)):
        chosen = undecided(ApproxDP(epsilon, 1e-6)).decided_by(batch)
        assert chosen.holds(chosen.price(batch)) == fits
        assert not PrivacyFilter.of(ApproxDP(epsilon, 1e-6)).holds(
            PrivacyFilter.of(ApproxDP(epsilon, 1e-6)).price(batch)
        )


@pytest.mark.long
def test_what_meets_the_budget_alone_is_one_batch_with_a_line_for_each(make):
    ledger = make("epsilon=1,delta=0.005")
    asks = [Ask(event("laplace", sensitivity=1, scale=1 / 0.51), f"part {i}", f"hash {i}") for i in range(2)]
    charges = ledger.charge_together(asks)
    state = ledger.state()
    assert [each.definition for each in state.filter.alternatives][-1] == "alone"
    assert state.spent.totals[-1] == 1
    assert [charge.sequence for charge in charges] == [1, 2]
    assert ledger.verify().entries == 3
    with pytest.raises(BudgetExceeded, match=r"and nothing of"):
        ledger.charge("epsilon=1e-9", purpose="more")
    charges[1].open().released(b"two")
    assert [sorted(followed) for _, followed in ledger.charges()] == [[], ["open", "release"]]
    alone = make("epsilon=1,delta=0.005")
    alone.charge(asks[0].what, purpose="first")
    with pytest.raises(BudgetExceeded, match=r"and epsilon=0.48999 of epsilon=1"):
        alone.charge(asks[1].what, purpose="second")


def test_a_batch_is_charged_wholly_or_not_at_all(make):
    ledger = make("epsilon=1,delta=1e-6")
    with pytest.raises(BudgetExceeded, match=r"needs epsilon=0.6 and epsilon=0.6"):
        ledger.charge_together([Ask("epsilon=0.6", "a"), Ask("epsilon=0.6", "b")])
    ledger.charge("epsilon=0.2", purpose="first", definition="known")
    with pytest.raises(AskedBefore, match=r"entry 1|asked"):
        ledger.charge_together([Ask("epsilon=0.1", "a", "new"), Ask("epsilon=0.1", "b", "known")], once=True)
    assert ledger.verify().entries == 2


# Afterwards


def test_an_amendment_keeps_orders_and_fractions(make):
    ledger = make("epsilon=1,delta=1e-6")
    ledger.charge("epsilon=0.5,delta=5e-7", purpose="first")
    ledger.amend("epsilon=2,delta=2e-6", reason="more")
    chosen = ledger.state().filter
    assert chosen.failure_limit == 2 * 10**18
    assert [each.definition for each in chosen.alternatives] == ["pure"]
    assert ledger.verify().entries == 3


@pytest.mark.long
def test_what_met_a_budget_alone_is_joined_by_others_once_the_budget_is_raised(make):
    ledger = make("epsilon=1,delta=0.005")
    ledger.charge_together([Ask(event("laplace", sensitivity=1, scale=1 / 0.51), f"part {i}") for i in range(2)])
    ledger.amend("epsilon=1.5,delta=0.005", reason="more")
    ledger.charge("epsilon=0.45", purpose="more")
    with pytest.raises(BudgetExceeded, match=r"of epsilon=1.5, delta=0.005 remains"):
        ledger.charge("epsilon=0.2", purpose="yet more")
    assert ledger.verify().entries == 5


def test_an_amendment_before_the_first_charge_leaves_it_the_choice(make):
    ledger = make("epsilon=1,delta=1e-6")
    ledger.amend("epsilon=2,delta=1e-6", reason="more")
    ledger.charge("epsilon=2,delta=1e-6", purpose="all")
    assert ledger.verify().entries == 3


def test_a_choice_that_cannot_be_made_is_found(make):
    """A line that chooses when a choice was made, or shares more than delta; every hash is right."""
    first = seal_of({"filter": undecided(ApproxDP(1, 1e-6)).to_dict()})
    chosen = undecided(ApproxDP(1, 1e-6)).decided_by(event("approximate", epsilon=1, delta=1e-6))
    spent = {"price": chosen.nothing.to_dict()}
    generous = replace(chosen, failure_limit=2 * chosen.failure_limit)
    for facts in ({"filter": generous.to_dict(), **spent}, {"filter": undecided(ApproxDP(1, 1e-6)).to_dict(), **spent}):
        with pytest.raises(LedgerCorrupt, match=r"chooses a filter that it cannot choose"):
            JournalWalk().over([first, replace(first, sequence=1, action="charge", body=json.dumps(facts))])


def seal_of(facts: dict) -> Entry:
    fixed = PrivacyFilter.from_dict(facts["filter"])
    return seal(0, "create", None, canonical_json(facts), GENESIS, state=State(fixed, fixed.nothing).text())[0]


def test_a_chosen_filter_is_read_back_as_written():
    for first in (event("gdp", mu=0.22), event("approximate", epsilon=1, delta=1e-6), event("pure", epsilon=0.1)):
        chosen = undecided(ApproxDP(1, 1e-6)).decided_by(first)
        assert PrivacyFilter.from_dict(chosen.to_dict()) == chosen
    waiting = undecided(ApproxDP(1, 1e-6))
    assert PrivacyFilter.from_dict(waiting.to_dict()) == waiting


@pytest.mark.parametrize(
    ("budget", "charges", "left"),
    [
        ("epsilon=2,delta=1e-6", [], "epsilon=2 for the next release, with its own delta up to 1e-6"),
        (
            "epsilon=2,delta=1e-6",
            ["epsilon=1.8"],
            "epsilon=0.2 for the next release, with its own delta up to 1.25e-7",
        ),
        (
            "epsilon=1,delta=1e-6",
            ["epsilon=0.1,delta=1e-6"],
            "epsilon=0.9 for the next release, with its own delta up to 0",
        ),
        ("rho=0.5", ["rho=0.2"], "rho=0.3"),
    ],
)
def test_what_remains_is_what_would_be_granted(make, budget, charges, left):
    ledger = make(budget)
    for charge in charges:
        ledger.charge(charge, purpose="x")
    state = ledger.state()
    assert state.filter.left(state.spent) == left
    granted = left.split()[0]
    ledger.charge(granted, purpose="the rest")


def test_an_amendment_does_not_let_choose_again():
    """Neither by the flag nor by other shares: the walk refuses such a line, though every hash is right."""
    equal = PrivacyFilter.of(ApproxDP(1, 1e-6))
    assert PrivacyFilter.of(ApproxDP(2, 1e-6), orders=equal.orders).covers(equal)
    assert not replace(PrivacyFilter.of(ApproxDP(2, 1e-6), orders=equal.orders), undecided=True).covers(equal)
    chosen = undecided(ApproxDP(1, 1e-6)).decided_by(event("approximate", epsilon=1, delta=1e-6))
    assert chosen.with_budget(ApproxDP(2, 1e-6)).covers(chosen)
    assert not replace(chosen.with_budget(ApproxDP(2, 1e-6)), failure_share=None).covers(chosen)


def test_a_limit_of_another_machine_is_not_called_a_fault():
    """The last digit of a limit may differ; more may not."""
    before = undecided(ApproxDP(1, 1e-6))
    chosen = before.decided_by(event("gdp", mu=0.23))
    last = chosen.alternatives[-1]
    one = replace(last, limit=last.limit + 1)
    assert before.may_become(replace(chosen, alternatives=(chosen.alternatives[0], one)))
    more = replace(last, limit=last.limit + last.limit // 10**6)
    assert not before.may_become(replace(chosen, alternatives=(chosen.alternatives[0], more)))
