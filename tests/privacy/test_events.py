"""Every kind of event has a typed constructor, and it makes the event that `vestry.event` makes by name."""

import inspect
import math

import pytest

import vestry
from vestry import events
from vestry.errors import InvalidParameter
from vestry.privacy.pricing import PRICINGS

NOISE = {"sensitivity": 2, "scale": 3}
MINIMUM = {"lipschitz": 1, "smoothness": 0.25, "regularisation": 2, "scale": 4, "records": 1}
EXAMPLES = {
    "laplace": NOISE,
    "discrete-laplace": NOISE,
    "gaussian": NOISE,
    "discrete-gaussian": NOISE,
    "rounded-gaussian": NOISE,
    "discovery-rounded-gaussian": {"scale": 2, "margin": 9, "values": 3},
    "discovery-laplace": {"scale": 2, "margin": 9, "values": 3},
    "discovery-gaussian": {"scale": 2, "margin": 9, "values": 3},
    "exponential": {"epsilon": 0.5},
    "pure": {"epsilon": 0.5},
    "approximate": {"epsilon": 0.5, "delta": 1e-6},
    "renyi": {"orders": (2, 8), "epsilons": (0.1, 0.5)},
    "zcdp": {"rho": 0.5},
    "gdp": {"mu": 0.5},
    "profile": {"profile": lambda epsilon: 0.1 * math.exp(-epsilon)},
    "rate-draw": {"shape": 3, "ratio": 1.5},
    "gibbs": {"likelihood_power": 0.5, "sensitivity": 2, "strong_convexity": 3},
    "langevin": {
        "sensitivity": 2,
        "strong_convexity": 1,
        "smoothness": 4,
        "step_sizes": (0.1, 0.05),
        "steps": (10, 20),
        "slacks": (0, 1e-9),
        "start": 0,
    },
    "objective": MINIMUM,
}
CONSTRUCTORS = {name: each for name, each in vars(events).items() if getattr(each, "__module__", "") == "vestry.events"}
ANALYSES = ["one-sided", "one-sided-replace", "published", "lecture"]


@pytest.mark.parametrize("kind", EXAMPLES)
def test_a_constructor_makes_the_event_of_its_kind(kind):
    constructor = getattr(events, kind.replace("-", "_"))
    assert constructor(**EXAMPLES[kind]) == vestry.event(kind, **EXAMPLES[kind])
    assert set(inspect.signature(constructor).parameters) - {"analysis"} == set(PRICINGS[kind].parameters)


@pytest.mark.parametrize("analysis", ANALYSES)
def test_the_analyses_of_objective_perturbation_are_kinds(analysis):
    assert events.objective(**MINIMUM, analysis=analysis) == vestry.event(f"objective-{analysis}", **MINIMUM)


def test_a_conjugate_draw_takes_its_pairs_one_by_one():
    made = events.conjugate_draw(betas=[(1, 2, 0.5), (3, 4, 1)], gammas=[(2, 1)])
    assert made == vestry.event("conjugate-draw", betas=(1, 2, 0.5, 3, 4, 1), gammas=(2, 1))


def test_every_kind_has_a_constructor_and_every_constructor_a_kind():
    made = {*EXAMPLES, "conjugate-draw", *(f"objective-{analysis}" for analysis in ANALYSES)}
    assert made == set(PRICINGS)
    assert set(CONSTRUCTORS) == {kind.replace("-", "_") for kind in made if not kind.startswith("objective-")}


def test_a_constructor_says_its_price_and_its_source():
    sourced = {name for name, constructor in CONSTRUCTORS.items() if "[" in inspect.getdoc(constructor)}
    assert set(CONSTRUCTORS) - sourced == {"profile"}  # it is its own price


def test_lists_are_taken_and_wrong_numbers_refused():
    assert events.renyi(orders=[2, 8], epsilons=[0.1, 0.5]) == vestry.event("renyi", **EXAMPLES["renyi"])
    with pytest.raises(InvalidParameter, match=r"^scale must be a number above 0 and finite, not 0"):
        events.gaussian(sensitivity=1, scale=0)
    with pytest.raises(InvalidParameter, match=r"^kind must be one of laplace, .*, not 'objective-best'"):
        events.objective(**MINIMUM, analysis="best")
