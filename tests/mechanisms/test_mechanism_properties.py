"""Every mechanism for every family, neighbours relation, unit and kind of count: what it claims holds, and no more.

Divergences come from `mechanism_oracle`, which shares no code with the source.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from mechanism_oracle import (
    delta_of_dirichlets,
    delta_of_losses,
    dirichlet_neighbours,
    losses,
    renyi_of_dirichlets,
    renyi_of_losses,
    shifts,
)
from share import cases, examples

from vestry.conjugate.beta_bernoulli import BetaBernoulliFamily
from vestry.conjugate.dirichlet_categorical import DirichletCategoricalFamily
from vestry.conjugate.normal_mean import NormalMeanFamily
from vestry.errors import GuaranteeUnreachable
from vestry.mechanisms import additive_noise, posterior_sample, truncated_posterior
from vestry.mechanisms.additive_noise import NOISE_OF
from vestry.mechanisms.release import ADDITIVE
from vestry.privacy import accountant
from vestry.privacy.guarantee import Guarantee
from vestry.privacy.neighbours import Adjacency

pytestmark = pytest.mark.property

FAMILIES = {
    "beta": (BetaBernoulliFamily(), (6, 12)),
    "small beta": (BetaBernoulliFamily(), (0.7, 0.5)),
    "two categories": (DirichletCategoricalFamily(2), (3, 2)),
    "three categories": (DirichletCategoricalFamily(3), (2, 1, 1.5)),
    "four categories": (DirichletCategoricalFamily(4), (6, 12, 5, 7)),
    "normal": (NormalMeanFamily(2.0, -1.0, 3.0), (0.5, 4)),
    "normal, two coordinates": (NormalMeanFamily(2.0, -1.0, 3.0, 2), (0.5, 4)),
}
POPULATIONS = {
    f"{relation}, {rows} rows, count {count or 'private'}": Adjacency(relation, rows, count)
    for relation, rows, count in [
        *itertools.product(["replace"], [1, 3], [40, None]),
        *itertools.product(["add-remove"], [1, 3], [None]),
    ]
}
GUARANTEES = {
    "laplace": ["order=2,epsilon=0.1", "order=5,epsilon=0.5", "epsilon=1,delta=1e-5", "epsilon=0.5", "rho=0.05"],
    "gaussian": ["order=2,epsilon=0.1", "order=5,epsilon=0.5", "epsilon=1,delta=1e-5", "rho=0.05", "mu=0.3"],
    "discrete-gaussian": ["order=2,epsilon=0.1", "order=5,epsilon=0.5", "epsilon=1,delta=1e-5", "rho=0.05"],
    "diffused": ["order=2,epsilon=0.1", "order=5,epsilon=0.5", "epsilon=1,delta=1e-5"],
    "concentrated": ["order=2,epsilon=0.1", "order=5,epsilon=0.5", "epsilon=1,delta=1e-5"],
    "ops": ["order=2,epsilon=0.1", "order=5,epsilon=0.5", "epsilon=1,delta=1e-5", "epsilon=0.5", "rho=0.05", "mu=0.3"],
}
ORDERS, EPSILONS = (1.3, 2.0, 5.0), (0.0, 0.3, 1.0)


def normal(name: str) -> bool:
    return name.startswith("normal")


def half(name: str) -> int:
    """Return how many units of the grid lie between the middle of the normal mean's interval and its ends."""
    return 1 if "two coordinates" in name else 2


def allowed(mechanism: str, name: str, adjacency: Adjacency) -> bool:
    """Tell whether a theorem covers the combination."""
    if normal(name):
        return mechanism in ADDITIVE or (mechanism != "ops" and adjacency.count is not None)
    return True


def truncation(name: str) -> float:
    return 0.2 / (4 if "four" in name else 3 if "three" in name else 2)


def calibrated(mechanism: str, name: str, adjacency: Adjacency, guarantee: str | Guarantee):
    family, numbers = FAMILIES[name]
    wanted = Guarantee.parse(guarantee)
    if mechanism in ADDITIVE:
        return additive_noise.calibrate_noise(NOISE_OF[mechanism], layout(name, adjacency), adjacency, wanted)
    prior = family.prior(numbers)
    if mechanism == "ops":
        return truncated_posterior.ops(family, prior, adjacency, wanted, truncation=truncation(name))
    return getattr(posterior_sample, mechanism)(family, prior, adjacency, wanted)


def layout(name: str, adjacency: Adjacency) -> additive_noise.Layout:
    family, _ = FAMILIES[name]
    return family.layout(adjacency, grid=2 / half(name) if normal(name) else None)


CASES = [
    pytest.param(mechanism, name, key, id=f"{mechanism}-{name}-{key}")
    for mechanism, name, key in itertools.product(GUARANTEES, FAMILIES, POPULATIONS)
    if allowed(mechanism, name, POPULATIONS[key])
]
each_case = pytest.mark.parametrize(("mechanism", "name", "key"), CASES)


def stricter(guarantee: str) -> Guarantee:
    asked = Guarantee.parse(guarantee)
    return asked.at(asked.value / 2)


@each_case
def test_the_guarantee_is_met_and_the_parameter_falls_with_it(mechanism, name, key):
    """The price is the guarantee to a millionth, unless the parameter is at its cap of 1."""
    adjacency = POPULATIONS[key]
    for guarantee in GUARANTEES[mechanism]:
        if mechanism == "discrete-gaussian" and "delta" in guarantee and (name != "beta" or adjacency.rows > 1):
            continue  # slow, and the same for every family: only the sensitivity enters
        made = calibrated(mechanism, name, adjacency, guarantee)
        assert made.event.neighbours is made.guarantee.neighbours is adjacency.neighbours
        assert accountant.meets(made.event, made.guarantee), guarantee
        if made.value != 1:
            assert float(accountant.amount(made.event, made.guarantee)) == pytest.approx(
                made.guarantee.value, rel=1e-6
            ), guarantee
        less = calibrated(mechanism, name, adjacency, stricter(guarantee))
        if mechanism in (*ADDITIVE, "ops"):
            assert less.value > made.value or less.value == made.value == 1, guarantee
        else:
            assert less.value < made.value <= 1 or less.value == made.value == 1, guarantee


@pytest.mark.parametrize("key", POPULATIONS)
@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("mechanism", ["laplace", "discrete-gaussian"])
def test_noise_hides_every_move_of_a_unit(mechanism, name, key):
    """Every distance between neighbours' statistics, by exact sums: never above the claim."""
    adjacency = POPULATIONS[key]
    made = calibrated(mechanism, name, adjacency, "order=2,epsilon=0.4")
    family, _ = FAMILIES[name]
    found = dict.fromkeys(ORDERS, 0.0) | {("delta", epsilon): 0.0 for epsilon in EPSILONS}
    for shift in farthest(shifts(family, adjacency, half=half(name))):
        loss, law = losses(made.noise, shift, made.scale, most_order=max(ORDERS))
        for order in ORDERS:
            found[order] = max(found[order], renyi_of_losses(loss, law, order))
        for epsilon in EPSILONS:
            found["delta", epsilon] = max(found["delta", epsilon], delta_of_losses(loss, law, epsilon))
    for order in ORDERS:
        assert found[order] <= float(accountant.renyi(made.event, order)) * (1 + 1e-9)
    for epsilon in EPSILONS:
        assert found["delta", epsilon] <= accountant.delta(made.event, epsilon) + 1e-12
    if mechanism == "discrete-gaussian":  # at whole orders the normaliser cancels, and the bound is attained
        for order in (2.0, 5.0):
            assert found[order] == pytest.approx(float(accountant.renyi(made.event, order)), rel=1e-9)
    else:
        assert found[2.0] > 0.4 / (2.5 if shift.size > 1 else 1.0001)


def farthest(found: np.ndarray, keep: int = 8) -> np.ndarray:
    """Return the moves that no other move contains, and at most so many of the largest."""
    maximal = [x for x in found if not any(np.all(x <= y) and np.any(x < y) for y in found)]
    return np.array(sorted(maximal, key=lambda x: (x**2).sum())[-keep:])


@pytest.mark.examples
@pytest.mark.parametrize("key", POPULATIONS)
@pytest.mark.parametrize("name", [name for name in FAMILIES if not normal(name)])
@pytest.mark.parametrize("mechanism", cases(["diffused", "concentrated"], quick=["diffused"]))
@pytest.mark.long
def test_a_posterior_draw_hides_worst_and_random_neighbours(mechanism, name, key):
    adjacency = POPULATIONS[key]
    family, numbers = FAMILIES[name]
    rng = np.random.default_rng(5)
    pairs = list(dirichlet_neighbours(len(numbers), adjacency, rng, random=examples(30)))
    for guarantee in ("order=2,epsilon=0.1", "epsilon=1,delta=1e-5"):
        made = calibrated(mechanism, name, adjacency, guarantee)
        members = [posterior(made, family, numbers, one, other) for one, other in pairs]
        for order in ORDERS:
            found = max(renyi_of_dirichlets(p, q, order) for p, q in members)
            assert found <= float(accountant.renyi(made.event, order)) * (1 + 1e-9) + 1e-9
        worst = sorted(members, key=lambda pair: -renyi_of_dirichlets(*pair, 1.3))[:12]
        for epsilon in EPSILONS:
            found = max(delta_of_dirichlets(p, q, epsilon) for p, q in worst)
            assert found <= accountant.delta(made.event, epsilon) * (1 + 1e-5) + 1e-11


def posterior(made, family, numbers, *counts: np.ndarray) -> list[np.ndarray]:
    """Return the parameters of the members that `release` would draw from."""
    found = []
    for each in counts:
        sums = each[:1] if isinstance(family, BetaBernoulliFamily) else each
        member = family.update(
            made.prior, sums, each.sum(), likelihood_power=made.likelihood_power, prior_scale=made.prior_scale
        )
        alphas = (member.alpha, member.beta) if isinstance(family, BetaBernoulliFamily) else member.alphas
        expected = np.array(numbers) / made.prior_scale + made.likelihood_power * each
        assert np.asarray(alphas) == pytest.approx(expected, rel=1e-12)
        found.append(expected)
    return found


@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize("name", [name for name in FAMILIES if normal(name)])
@pytest.mark.parametrize("mechanism", ["diffused", "concentrated"])
def test_a_normal_draw_hides_worst_and_random_neighbours(mechanism, name, rows):
    """Two normals of one variance; along their difference, by quadrature. Opposite corners attain the claim."""
    family, _ = FAMILIES[name]
    n, d = 40, family.dimension
    made = calibrated(mechanism, name, Adjacency("replace", rows, n), "order=2,epsilon=0.3")
    rng = np.random.default_rng(8)
    x = np.linspace(-40, 40, 40_001)
    gaps = []
    for trial in range(30):
        others = rng.uniform(-1, 3, (n - rows, d))
        ends = [np.full((rows, d), -1.0), np.full((rows, d), 3.0)] if trial == 0 else rng.uniform(-1, 3, (2, rows, d))
        scales = {"likelihood_power": made.likelihood_power, "prior_scale": made.prior_scale}
        one, other = (family.update(made.prior, others.sum(axis=0) + end.sum(axis=0), n, **scales) for end in ends)
        assert one.precision == other.precision
        gaps.append(math.dist(one.location, other.location) * math.sqrt(one.precision))
    assert max(gaps) == gaps[0]
    log_p, log_q = (-((x - shift) ** 2) / 2 - math.log(2 * math.pi) / 2 for shift in (0, gaps[0]))
    p, q, width = np.exp(log_p), np.exp(log_q), x[1] - x[0]
    for order in ORDERS:
        found = math.log(np.exp(order * log_p + (1 - order) * log_q).sum() * width) / (order - 1)
        assert found == pytest.approx(float(accountant.renyi(made.event, order)), rel=1e-6)
    for epsilon in EPSILONS:
        found = np.maximum(0, p - math.exp(epsilon) * q).sum() * width
        assert found == pytest.approx(accountant.delta(made.event, epsilon), rel=1e-4, abs=1e-9)


@pytest.mark.parametrize("key", POPULATIONS)
@pytest.mark.parametrize("name", [name for name in FAMILIES if not normal(name)])
def test_a_truncated_draw_has_the_range_it_claims(name, key):
    """The log-ratio of two neighbours' truncated densities is linear in log theta: its ends are at corners."""
    adjacency = POPULATIONS[key]
    _, numbers = FAMILIES[name]
    d, a = len(numbers), truncation(name)
    made = calibrated("ops", name, adjacency, "epsilon=0.5")
    ((_, epsilon),) = made.event.parameters
    corners = np.log(np.full((d, d), a) + (1 - d * a) * np.eye(d))
    spans = []
    for one, other in dirichlet_neighbours(d, adjacency, np.random.default_rng(3), random=200):
        ratio = corners @ (one - other) / made.temperature
        spans.append(ratio.max() - ratio.min())
    assert max(spans) == pytest.approx(epsilon, rel=1e-9)
    assert max(spans) <= epsilon <= 0.5 * (1 + 1e-9)


DIRECT = [(name, key) for name in FAMILIES for key in POPULATIONS if allowed("direct", name, POPULATIONS[key])]


@pytest.mark.parametrize(("name", "key"), DIRECT)
def test_power_one_and_scale_one_are_the_direct_posterior(name, key):
    """A guarantee that the posterior itself meets leaves both algorithms at 1, and to ask for more is refused."""
    adjacency = POPULATIONS[key]
    family, numbers = FAMILIES[name]
    plain = family.worst_draw(family.prior(numbers), adjacency)
    kept = accountant.price(plain, Guarantee.parse("epsilon=1,delta=1e-3"))
    made = [calibrated(each, name, adjacency, kept) for each in ("direct", "diffused", "concentrated")]
    assert [(each.likelihood_power, each.prior_scale) for each in made] == [(1, 1)] * 3
    assert made[0].event == made[1].event == made[2].event == plain.under(adjacency.neighbours)
    less = kept.at(0.99 * kept.value)
    with pytest.raises(
        GuaranteeUnreachable, match=r"by a direct draw cannot be reached; it keeps epsilon=.*diffused posterior"
    ):
        calibrated("direct", name, adjacency, less)
    for each in ("diffused", "concentrated"):
        assert 0 < calibrated(each, name, adjacency, less).value < 1


DRAWS = [
    *itertools.product(["diffused", "concentrated", "ops"], ["order=2,epsilon=0.1"], [2, 10]),
    ("ops", "epsilon=1,delta=1e-5", 10),
    ("ops", "epsilon=0.5", 3),
    pytest.param("diffused", "epsilon=1,delta=1e-5", 2, marks=pytest.mark.slow),
]


@pytest.mark.parametrize(("mechanism", "guarantee", "draws"), DRAWS)
def test_draws_bought_together_share_the_budget(mechanism, guarantee, draws):
    family, numbers = FAMILIES["beta"]
    adjacency, wanted = Adjacency("replace", 1, 40), Guarantee.parse(guarantee)
    more = {"truncation": 0.1} if mechanism == "ops" else {}
    make = truncated_posterior.ops if mechanism == "ops" else getattr(posterior_sample, mechanism)
    one = make(family, family.prior(numbers), adjacency, wanted, **more)
    several = make(family, family.prior(numbers), adjacency, wanted, draws=draws, **more)
    assert several.event.count == draws
    check = accountant.meets if mechanism == "ops" else posterior_sample.meets_exactly
    assert check(several.event, several.guarantee)
    assert several.value > one.value if mechanism == "ops" else several.value < one.value
    if mechanism != "ops":  # a parameter a little less private is refused
        scales = {several.parameter: several.value * 1.0001}
        worse = family.worst_draw(several.prior, adjacency, **scales).times(draws).under("replace")
        assert not check(worse, several.guarantee)


# --- refusals ---------------------------------------------------------------------------------------------------------

BETA, PUBLIC = "beta", "replace, 1 rows, count 40"
REFUSED = {
    "order beyond lambda*": ("direct", BETA, PUBLIC, "order=15,epsilon=1", r"order 15 is beyond lambda\* = 7 of Beta"),
    "order at lambda*": ("direct", BETA, PUBLIC, "order=7,epsilon=1", r"order 7 is beyond lambda\* = 7 of Beta"),
    "lambda* of three rows": (
        "direct",
        BETA,
        "replace, 3 rows, count 40",
        "order=4,epsilon=1",
        r"order 4 is beyond lambda\* = 3 of Beta.*or an order below 3\.",
    ),
    "lambda* of categories": (
        "direct",
        "three categories",
        PUBLIC,
        "order=2.5,epsilon=9",
        r"order 2\.5 is beyond lambda\* = 2 of Dirichlet",
    ),
    "pure direct": ("direct", BETA, PUBLIC, "epsilon=9", r"no pure epsilon unless it is truncated; use ops"),
    "pure diffused": ("diffused", BETA, PUBLIC, "epsilon=1", r"no pure epsilon unless it is truncated; use ops"),
    "pure concentrated": ("concentrated", BETA, PUBLIC, "epsilon=1", r"no pure epsilon unless it is truncated"),
    "rho diffused": ("diffused", BETA, PUBLIC, "rho=0.1", r"ask for epsilon and delta, or for a Renyi order below"),
    "mu diffused": ("diffused", BETA, PUBLIC, "mu=0.1", r"ask for epsilon and delta, or for a Renyi order below"),
    "pure gaussian": ("gaussian", BETA, PUBLIC, "epsilon=1", r"epsilon=1 cannot be reached; no parameter"),
    "mu discrete gaussian": ("discrete-gaussian", BETA, PUBLIC, "mu=1", r"mu=1 cannot be reached; no parameter"),
    "normal, pure": ("diffused", "normal", PUBLIC, "epsilon=1", r"no pure epsilon unless it is truncated"),
    "normal, ops": ("ops", "normal", PUBLIC, "epsilon=1", r"ops for normal-mean cannot be reached; .* no bound"),
    **{
        f"normal, {key}, {mechanism}": (
            mechanism,
            "normal",
            key,
            "order=2,epsilon=1",
            r"release noisy statistics instead",
        )
        for key, mechanism in itertools.product(POPULATIONS, ["direct", "diffused", "concentrated"])
        if POPULATIONS[key].count is None
    },
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_reached_is_refused_with_what_can(case):
    mechanism, name, key, guarantee, fragment = REFUSED[case]
    with pytest.raises(GuaranteeUnreachable, match=fragment):
        calibrated(mechanism, name, POPULATIONS[key], guarantee)


def test_diffused_reaches_an_order_that_direct_cannot():
    made = calibrated("diffused", BETA, POPULATIONS[PUBLIC], "order=15,epsilon=1")
    assert made.likelihood_power < 6 / 14
