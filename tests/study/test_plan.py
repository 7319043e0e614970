"""What `plan` predicts is what releases achieve: simulated studies, released by the mechanism itself.

A study's parameters come from the prior and its records from the model; the mechanism releases; the posterior's 90 %
interval is looked at. The mean width must be the predicted one within five standard errors of both (false alarms below
1e-6 each), and the coverage 0.9 within five. A prediction that is 10 % off is rejected.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from seeded_noise import SeededNoise

from vestry.errors import InvalidParameter, Unreachable
from vestry.mechanisms.additive import Additive
from vestry.models import BetaBernoulli, DirichletCategorical, NormalMean
from vestry.models.plan import advised, best, expectations, integers, needed, noise_aware
from vestry.models.request import Frame, Request
from vestry.privacy.guarantee import Guarantee
from vestry.privacy.neighbours import Neighbours, Unit
from vestry.statistics.domain import Interval, Levels
from vestry.statistics.private import Private

DOMAINS = {"yes": Levels("n", "y"), "ward": Levels("A", "B", "C"), "days": Interval(-200, 200)}
MODELS = {
    "beta": BetaBernoulli("yes", success="y", prior=(2, 3)),
    "beta by ward": BetaBernoulli("yes", success="y", by="ward", prior=(2, 3)),
    "dirichlet": DirichletCategorical("ward"),
    "normal": NormalMean("days", variance=100.0, prior=(5.0, 900.0)),
}
SPENDS = {"laplace": "epsilon=0.2", "gaussian": "epsilon=0.5,delta=1e-6"}
N = 300


def frame(relation: str) -> Frame:
    return Frame(DOMAINS, Unit(), Neighbours.parse(relation))


def request(model, mechanism: str, spend: str, **more) -> Request:
    return Request(model, Guarantee.parse(spend), mechanism, **more)


class Leave:
    def take(self) -> None:
        """Let every draw through: nothing here is private."""


def truths(prepared, n: int, rng):
    """Draw parameters and records apart from the package's simulator."""
    family, numbers = prepared.family, prepared.numbers
    if family.name == "beta-bernoulli":
        theta = np.array([rng.beta(*numbers)])
        return theta, [float(rng.binomial(n, theta[0]))]
    if family.name == "dirichlet-categorical":
        theta = rng.dirichlet(numbers)
        return theta, [float(x) for x in rng.multinomial(n, theta)]
    theta = np.array([rng.normal(numbers[0], math.sqrt(numbers[1]))])
    records = np.clip(rng.normal(theta[0], math.sqrt(family.variance), n), family.low, family.high)
    return theta, [float(records.sum())]


def achieved(made: Request, relation: str, studies: int, seed: int):
    """Return the width and whether the truth was covered, for each simulated study; of one group."""
    prepared = made.prepared(frame(relation), N)
    rng, noise = np.random.default_rng(seed), SeededNoise(seed)
    n = N // len(prepared.groups)
    found = []
    for _ in range(studies):
        theta, sums = truths(prepared, n, rng)
        if isinstance(prepared.mechanism, Additive):
            values = integers(prepared, prepared.mechanism, sums, n) * len(prepared.groups)
            content = prepared.mechanism.release(Private(values), Leave(), noise)[0]
            drawn = noise_aware(prepared, content).laws["all"].draw(rng, 4000)
        else:
            scales = {
                "likelihood_power": prepared.mechanism.likelihood_power,
                "prior_scale": prepared.mechanism.prior_scale,
            }
            member = prepared.family.update(prepared.family.prior(prepared.numbers), sums, n, **scales)
            drawn = member.draw(rng, 4000)
        low, high = np.quantile(drawn, [0.05, 0.95], axis=0)
        found.append(((high - low).mean(), float(((low <= theta) & (theta <= high)).mean())))
    return np.array(found)


def agrees(predicted: float, widths: np.ndarray) -> bool:
    """Five standard errors of the mean: over the achieved widths, and over the 64 of the plan."""
    error = widths.std() * math.sqrt(1 / len(widths) + 1 / 64)
    return abs(predicted - widths.mean()) <= 5 * error + 0.002 * widths.mean()


FAST = [("normal", "replace"), ("normal", "add-remove")]
SLOW = [("beta", "replace"), ("beta", "add-remove"),
        ("beta by ward", "replace"), ("beta by ward", "add-remove"), ("dirichlet", "replace"),
        ("dirichlet", "add-remove")]  # fmt: skip
CASES = [*FAST, *(pytest.param(*case, marks=pytest.mark.slow) for case in SLOW)]


FEWER = {("dirichlet", "add-remove"): 300}
STUDIES = [
    *(pytest.param(*case, 800) for case in FAST),
    *(pytest.param(*case, FEWER.get(case, 2000), marks=pytest.mark.slow) for case in [*FAST, *SLOW]),
]


@pytest.mark.parametrize(("name", "relation", "studies"), STUDIES)
@pytest.mark.parametrize("mechanism", SPENDS)
def test_widths_and_coverage_are_as_predicted(name, relation, studies, mechanism):
    made = request(MODELS[name], mechanism, SPENDS[mechanism])
    (predicted,) = expectations(made, frame(relation), n=N)
    found = achieved(made, relation, studies, seed=11)
    assert agrees(predicted.width, found[:, 0]), (predicted.width, found[:, 0].mean())
    # Four thousand draws stand for the posterior: they cost 0.0005 of coverage.
    error = math.sqrt(0.09 / studies)
    assert abs(found[:, 1].mean() - 0.9) <= 5 * error + 0.001


def test_a_prediction_that_is_a_tenth_off_is_rejected():
    made = request(MODELS["normal"], "laplace", "epsilon=0.2")
    (predicted,) = expectations(made, frame("replace"), n=N)
    widths = achieved(made, "replace", 400, seed=12)[:, 0]
    assert agrees(predicted.width, widths)
    assert not agrees(0.9 * predicted.width, widths)
    assert not agrees(1.1 * predicted.width, widths)


@pytest.mark.parametrize("mechanism", ["diffused", "concentrated"])
def test_the_law_of_draws_is_as_predicted(mechanism):
    made = request(MODELS["beta"], mechanism, "epsilon=1,delta=1e-5", draws=1)
    (predicted,) = expectations(made, frame("replace"), n=N)
    found = achieved(made, "replace", 1000, seed=13)
    assert agrees(predicted.width, found[:, 0])


@pytest.mark.parametrize(("name", "relation"), CASES)
@pytest.mark.parametrize("spend", ["epsilon=0.1,delta=1e-6", "epsilon=1,delta=1e-4", "rho=0.02"])
def test_auto_takes_the_best_or_nearly(name, relation, spend):
    made = request(MODELS[name], "auto", spend)
    found = {each.mechanism: each.width for each in expectations(made, frame(relation), n=N)}
    chosen = advised(made, frame(relation), N).mechanism
    assert found[chosen] <= 1.05 * min(found.values())


def test_auto_never_takes_draws_unless_they_are_asked_for():
    for spend in ("epsilon=0.3", "epsilon=0.3,delta=1e-6", "rho=0.1"):
        assert request(MODELS["beta"], "auto", spend).candidates() in (("laplace",), ("laplace", "gaussian"))
    assert request(MODELS["beta"], "auto", "epsilon=1,delta=1e-5", draws=2).candidates() == (
        "direct",
        "diffused",
        "concentrated",
    )
    with pytest.raises(InvalidParameter, match="truncation must be given for draws that keep a pure epsilon"):
        request(MODELS["beta"], "auto", "epsilon=1", draws=1)
    pure = request(MODELS["beta"], "auto", "epsilon=1", draws=1, truncation=0.05)
    assert advised(pure, frame("replace"), N).mechanism == "ops"


def test_two_looks_at_one_plan_agree():
    made = request(MODELS["beta"], "auto", "epsilon=0.3,delta=1e-6")
    assert expectations(made, frame("replace"), n=N) == expectations(made, frame("replace"), n=N)


@pytest.mark.parametrize("spend", ["epsilon=0.1", "epsilon=0.1,delta=1e-6", "rho=0.001"])
def test_the_budget_for_a_width_gives_that_width(spend):
    made = request(MODELS["normal"], "auto", spend)
    wanted = needed(made, frame("replace"), n=N, width=4.0)
    found = best(expectations(request(MODELS["normal"], "auto", str(wanted)), frame("replace"), n=N))
    assert 3.4 < found.width <= 4.0 * 1.001


def test_a_width_that_no_budget_gives_is_refused():
    made = request(MODELS["normal"], "auto", "epsilon=0.1")
    with pytest.raises(Unreachable, match=r"is the shortest with this many records"):
        needed(made, frame("replace"), n=N, width=0.5)
    with pytest.raises(InvalidParameter, match="width must be above 0"):
        needed(made, frame("replace"), n=N, width=0.0)
