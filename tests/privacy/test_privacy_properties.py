"""What holds for every kind of event: order, count, composition, conversion, calibration, the written record."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from fractions import Fraction
from functools import partial

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from share import examples

from vestry.conjugate.draw_cost import draw
from vestry.conjugate.gamma_draw_cost import rate_draw
from vestry.errors import ConversionError, GuaranteeUnreachable
from vestry.numerics import root, up
from vestry.privacy import accountant
from vestry.privacy import profile as profiles
from vestry.privacy.accountant import largest_parameter, smallest_parameter
from vestry.privacy.event import Event, compose
from vestry.privacy.guarantee import ZCDP, ApproxDP, GaussianDP, Guarantee, PureDP, RenyiDP
from vestry.privacy.pricing import PRICINGS, event

pytestmark = pytest.mark.property

ROUNDING = 1e-11  # what outward rounding may add to either side of a comparison, relative
SEARCH = 1e-7  # and what two searches over orders may differ by


def coin_profile(x: float, *, epsilon: float) -> float:
    """The profile of an output with odds e^epsilon: (e^epsilon - e^x)^+ / (1 + e^epsilon)."""
    return max(0.0, -math.expm1(x - epsilon)) / (1 + math.exp(-epsilon))


def exponential_profile(x: float, *, rate: float) -> float:
    """A loss whose tail falls as e^(-rate x): Renyi privacy up to an order only."""
    return 0.5 * math.exp(-rate * x) / (1 + rate)


PROFILES = [
    *(partial(coin_profile, epsilon=epsilon) for epsilon in (0.01, 0.5, 3.0)),
    *(partial(exponential_profile, rate=rate) for rate in (2.0, 20.0)),
]

size = st.floats(1e-3, 20)
noise = {"sensitivity": st.floats(0.01, 10), "scale": st.floats(0.5, 100)}


def renyi_curves() -> st.SearchStrategy[Event]:
    points = st.dictionaries(st.floats(1.01, 500), st.floats(0, 30), min_size=1, max_size=4)
    return points.map(lambda p: event("renyi", orders=tuple(sorted(p)), epsilons=tuple(sorted(p.values()))))


def conjugate_draws() -> st.SearchStrategy[Event]:
    """Pairs of betas (a, b, s), b above s, and of gammas (a, s): at least one."""
    shape, shift = st.floats(0.05, 300), st.floats(0.01, 3)
    betas = st.lists(st.builds(lambda a, rest, s: (a, rest + s, s), shape, shape, shift), max_size=2).map(tuple)
    gammas = st.lists(st.tuples(shape, shift), max_size=2).map(tuple)
    pairs = st.tuples(betas, gammas).filter(any)
    return pairs.map(lambda found: draw(betas=found[0], gammas=found[1]))


def chains() -> st.SearchStrategy[Event]:
    """Langevin chains of one to three phases; every step contracts: eta < 2/M."""
    sized = st.tuples(st.floats(0.01, 1.95), st.integers(1, 3000), st.floats(0, 1e-3))
    phases = st.lists(sized, min_size=1, max_size=3)

    def made(found: list, convexity: float, ratio: float, sensitivity: float, start: float) -> Event:
        shares, steps, slacks = zip(*found, strict=True)
        return event(
            "langevin",
            sensitivity=sensitivity,
            strong_convexity=convexity,
            smoothness=convexity * ratio,
            step_sizes=tuple(share / (convexity * ratio) for share in shares),
            steps=steps,
            slacks=slacks,
            start=start,
        )

    return st.builds(made, phases, st.floats(0.1, 100), st.floats(1, 1000), st.floats(0.01, 10), st.floats(0, 0.1))


OBJECTIVES = [
    "objective",
    "objective-one-sided",
    "objective-one-sided-replace",
    "objective-published",
    "objective-lecture",
]
# Minima of perturbed objectives; |log(1 - smoothness/regularisation)| is infinite unless the second is larger.
minimum = {"lipschitz": st.floats(0.05, 5), "smoothness": st.floats(0.01, 2), "scale": st.floats(0.5, 100)}


def minima(kind: str) -> st.SearchStrategy[Event]:
    ratios = st.floats(1.1 if kind == "objective-published" else 0.1, 100)

    def made(smoothness: float, ratio: float, **numbers: float) -> Event:
        return event(kind, smoothness=smoothness, regularisation=smoothness * ratio, **numbers)

    return st.builds(made, ratio=ratios, records=st.just(1), **minimum)


def discoveries(kind: str) -> st.SearchStrategy[Event]:
    """Thresholds of 1 to 40 scales."""

    def made(scale: float, ratio: float, values: int) -> Event:
        return event(kind, scale=scale, margin=math.ceil(scale * ratio) + 1, values=values)

    return st.builds(made, st.floats(0.2, 200), st.floats(1, 40), st.integers(1, 9))


STRATEGIES: dict[str, st.SearchStrategy[Event]] = {
    "laplace": st.builds(partial(event, "laplace"), **noise),
    "discrete-laplace": st.builds(
        partial(event, "discrete-laplace"), sensitivity=st.integers(1, 9), scale=noise["scale"]
    ),
    "gaussian": st.builds(partial(event, "gaussian"), **noise),
    "discrete-gaussian": st.builds(partial(event, "discrete-gaussian"), **noise),
    "rounded-gaussian": st.builds(partial(event, "rounded-gaussian"), **noise),
    "discovery-rounded-gaussian": discoveries("discovery-rounded-gaussian"),
    "discovery-laplace": discoveries("discovery-laplace"),
    "discovery-gaussian": discoveries("discovery-gaussian"),
    "exponential": st.builds(partial(event, "exponential"), epsilon=size),
    "pure": st.builds(partial(event, "pure"), epsilon=size),
    "approximate": st.builds(partial(event, "approximate"), epsilon=size, delta=st.floats(1e-12, 0.1)),
    "renyi": renyi_curves(),
    "zcdp": st.builds(partial(event, "zcdp"), rho=size),
    "gdp": st.builds(partial(event, "gdp"), mu=size),
    "profile": st.builds(partial(event, "profile"), profile=st.sampled_from(PROFILES)),
    "conjugate-draw": conjugate_draws(),
    "rate-draw": st.builds(rate_draw, st.floats(0.5, 500), st.floats(1.001, 3)),
    "gibbs": st.builds(
        partial(event, "gibbs"),
        likelihood_power=st.floats(1e-3, 1),
        sensitivity=st.floats(0.01, 10),
        strong_convexity=st.floats(0.1, 1000),
    ),
    "langevin": chains(),
    **{kind: minima(kind) for kind in OBJECTIVES},
}

# Their Renyi curve is integrated from their profile, or far from it: few examples.
SLOW = {"profile", *OBJECTIVES}

# And their profile is searched, or summed, for long.
LONG = {"rate-draw", "objective-one-sided-replace", "objective-lecture"}

each_kind = pytest.mark.parametrize("kind", STRATEGIES)
each_searched_kind = pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=pytest.mark.long) if kind in LONG else kind for kind in STRATEGIES]
)
some = settings(deadline=None, derandomize=True, max_examples=examples(15))
orders = st.floats(1.0001, 1000)
counts = st.integers(1, 30)
epsilons = st.floats(0, 20)


def every_event(*strategies: st.SearchStrategy, most: int = 15, kinds: Callable = each_kind) -> Callable:
    """Turn a property of an event into a test of every kind; kinds whose Renyi curve is slow have few examples."""

    def decorate(holds: Callable) -> Callable:
        @kinds
        @pytest.mark.examples
        def test(kind):
            few = settings(some, max_examples=2 if kind in SLOW else examples(most))
            few(given(STRATEGIES[kind], *strategies)(holds))()

        test.__name__, test.__doc__ = holds.__name__, holds.__doc__
        return test

    return decorate


def test_every_law_has_a_strategy():
    assert STRATEGIES.keys() == PRICINGS.keys()


def prices(mechanism: Event) -> dict[str, float | Fraction]:
    """What an event costs in every definition."""
    return {
        "pure": accountant.pure(mechanism),
        "rho": accountant.rho(mechanism),
        "squared mu": accountant.squared_mu(mechanism),
        "failure": accountant.failure(mechanism),
        **{f"order {order}": accountant.renyi(mechanism, order) for order in (1.01, 2, 30)},
        **{f"delta at {epsilon}": accountant.delta(mechanism, epsilon) for epsilon in (0, 0.5, 4)},
        **{f"epsilon at {delta}": accountant.epsilon(mechanism, delta) for delta in (0.3, 1e-6)},
    }


def same(one: dict, other: dict) -> bool:
    return one.keys() == other.keys() and all(one[key] == pytest.approx(other[key], rel=1e-9) for key in one)


# Order and count


@every_event(orders, orders)
def test_renyi_grows_with_order(mechanism, one, other):
    low, high = sorted((one, other))
    assert accountant.renyi(mechanism, low) <= accountant.renyi(mechanism, high) * (1 + ROUNDING)


@every_event(orders, counts)
def test_prices_add_over_counts(mechanism, order, count):
    """Every price that adds is count times its own, exactly so for fractions; of failures none happens to all."""
    adding = (
        lambda e: accountant.renyi(e, order),
        accountant.pure,
        accountant.rho,
        accountant.squared_mu,
    )
    for price in adding:
        once, repeated = price(mechanism), price(mechanism.times(count))
        if isinstance(once, Fraction):
            assert repeated == once * count
        else:
            assert repeated == pytest.approx(once * count, rel=1e-14)
    failed = float(accountant.failure(mechanism))
    together = -math.expm1(count * math.log1p(-failed)) if failed < 1 else 1.0
    assert accountant.failure(mechanism.times(count)) == pytest.approx(together, rel=1e-9)


@every_event(epsilons, epsilons, counts)
def test_delta_falls_with_epsilon(mechanism, one, other, count):
    mechanism = mechanism.times(count)
    low, high = sorted((one, other))
    assert 1 >= accountant.delta(mechanism, low) >= accountant.delta(mechanism, high) * (1 - SEARCH) >= 0


@every_event(epsilons, counts, counts)
def test_delta_grows_with_count(mechanism, epsilon, one, other):
    few, many = sorted((one, other))
    fewer, more = (accountant.delta(mechanism.times(n), epsilon) for n in (few, many))
    assert fewer <= more * (1 + SEARCH)


@every_event(st.integers(1, 6), st.integers(1, 3), most=8, kinds=each_searched_kind)
@pytest.mark.long
def test_repeating_is_composing_copies(mechanism, count, inner):
    mechanism = mechanism.times(inner)
    repeated = prices(mechanism.times(count))
    assert same(repeated, prices(compose(*[mechanism] * count)))
    assert same(repeated, prices(compose(mechanism).times(count)))
    assert same(repeated, prices(compose(compose(mechanism), *[compose(mechanism)] * (count - 1))))


@some
@given(st.data(), orders)
def test_composition_adds_over_kinds(data, order):
    chosen = data.draw(st.lists(st.sampled_from(list(STRATEGIES)), min_size=1, max_size=5))
    parts = [data.draw(STRATEGIES[kind]) for kind in chosen]
    for price in (lambda e: accountant.renyi(e, order), accountant.pure, accountant.rho, accountant.squared_mu):
        assert float(price(compose(*parts))) == pytest.approx(float(sum(map(price, parts))), rel=1e-12)


# Between definitions


@every_event(orders)
def test_renyi_lies_below_pure_and_below_rho(mechanism, order):
    divergence = accountant.renyi(mechanism, order)
    assert divergence <= accountant.pure(mechanism) * (1 + ROUNDING)
    assert divergence <= accountant.rho(mechanism) * order * (1 + ROUNDING)


def routes(mechanism: Event, epsilon: float) -> dict[str, float]:
    """Delta by every way that a theorem allows, the exact profile left out."""
    failed = up(accountant.failure(mechanism))
    curve = partial(_float_renyi, mechanism)
    sound = {"renyi": profiles.from_renyi(epsilon, curve=curve)}
    if (rho := up(accountant.rho(mechanism))) < math.inf:
        sound["zcdp"] = accountant.delta(event("zcdp", rho=rho), epsilon)
    if (mu := up(root(accountant.squared_mu(mechanism)))) < math.inf:
        sound["gdp"] = accountant.delta(event("gdp", mu=mu), epsilon)
    if (pure := up(accountant.pure(mechanism))) < math.inf:
        sound["pure"] = accountant.delta(event("pure", epsilon=pure), epsilon)
    return {name: failed + (1 - failed) * delta for name, delta in sound.items()}


def _float_renyi(mechanism: Event, order: float) -> float:
    return float(accountant.renyi(mechanism, order))


# Below that a double has no digits left.
NO_DIGITS = 1e-300


@every_event(st.floats(0, 1.2), epsilons)
def test_no_conversion_promises_less_than_the_exact_profile(mechanism, share, epsilon):
    exactly = PRICINGS[mechanism.kind].profile
    if exactly is None:
        # Then delta is the least of the ways there are.
        least_way = min(routes(mechanism, epsilon).values())
        assert accountant.delta(mechanism, epsilon) <= least_way * (1 + ROUNDING) + NO_DIGITS
        return
    pure = float(accountant.pure(mechanism))
    epsilon = share * pure if pure < math.inf else epsilon
    least_delta = exactly(epsilon, **dict(mechanism.parameters))
    assert accountant.delta(mechanism, epsilon) == pytest.approx(min(1, least_delta), rel=ROUNDING)
    if mechanism.kind in OBJECTIVES:
        return  # Their profiles are bounds, and below the Jacobian's share another way may be shorter.
    assume(least_delta > NO_DIGITS)
    for way, delta in routes(mechanism, epsilon).items():
        assert delta >= least_delta * (1 - ROUNDING), way


@pytest.mark.parametrize("count", [2, 3])
def test_composition_of_pure_events_loses_no_more_than_their_sum(count):
    """Just below the sum of epsilons, adding them up is the best way: (e^total - e^epsilon)/(1 + e^total)."""
    coins, whole = event("pure", epsilon=1, count=count), event("pure", epsilon=count)
    for epsilon in (count * (1 - 1e-3), count * (1 - 1e-9), count, count + 1):
        assert accountant.delta(coins, epsilon) <= accountant.delta(whole, epsilon) * (1 + ROUNDING)
    assert accountant.delta(coins, count) == 0


@every_event(epsilons, counts, kinds=each_searched_kind)
def test_epsilon_is_the_inverse_of_delta(mechanism, epsilon, count):
    mechanism = mechanism.times(count)
    delta, failed = accountant.delta(mechanism, epsilon), up(accountant.failure(mechanism))
    assume(max(failed * (1 + 1e-6), 1e-300) < delta < 1 - 1e-6)
    back = accountant.epsilon(mechanism, delta)
    assert back <= epsilon * (1 + SEARCH) + SEARCH
    assert accountant.delta(mechanism, back) <= delta * (1 + SEARCH)
    # A little less epsilon would not do, unless none is needed.
    assert back < 1e-6 or accountant.delta(mechanism, back * (1 - 1e-4)) > delta * (1 - SEARCH)


@every_event(counts, kinds=each_searched_kind)
def test_what_is_priced_is_met(mechanism, count):
    mechanism = mechanism.times(count)
    for like in (PureDP(1), ApproxDP(1, 1e-6), ApproxDP(1, 0.5), RenyiDP(2, 1), ZCDP(1), GaussianDP(1)):
        if accountant.amount(mechanism, like) < math.inf:
            priced = accountant.price(mechanism, like)
            assert accountant.meets(mechanism, priced)
            assert priced.value < 1e-300 or not accountant.meets(mechanism, priced.at(priced.value * (1 - 1e-6)))
        else:
            assert not accountant.meets(mechanism, like)


# From one guarantee to another

UNBOUNDED = "its privacy loss has no bound"
FAILS = "with probability 1e-6 its privacy loss may be infinite"
HIGHER = "a Renyi bound at one order says nothing of higher ones; ask for an order up to 10"
EVERY_ORDER = "zero-concentrated privacy needs a bound at every order"
NO_CURVE = "no theorem bounds it by a Gaussian trade-off curve"
OWN_DELTA = "its own delta is 1e-6; ask for a larger one"

GIVEN = {
    "pure": PureDP(0.5),
    "approximate": ApproxDP(0.5, 1e-6),
    "renyi": RenyiDP(10, 0.5),
    "zcdp": ZCDP(0.5),
    "gdp": GaussianDP(0.5),
}
WANTED = {
    "pure": PureDP(1),
    "approximate": ApproxDP(1, 1e-5),
    "smaller delta": ApproxDP(1, 1e-7),
    "renyi": RenyiDP(4, 1),
    "higher order": RenyiDP(11, 1),
    "zcdp": ZCDP(1),
    "gdp": GaussianDP(1),
}
# What is refused, and why. All else is granted.
REFUSED = {
    ("approximate", "pure"): FAILS,
    ("approximate", "smaller delta"): OWN_DELTA,
    ("approximate", "renyi"): FAILS,
    ("approximate", "higher order"): FAILS,
    ("approximate", "zcdp"): FAILS,
    ("approximate", "gdp"): FAILS,
    ("renyi", "pure"): UNBOUNDED,
    ("renyi", "higher order"): HIGHER,
    ("renyi", "zcdp"): EVERY_ORDER,
    ("renyi", "gdp"): NO_CURVE,
    ("zcdp", "pure"): UNBOUNDED,
    ("zcdp", "gdp"): NO_CURVE,
    ("gdp", "pure"): UNBOUNDED,
}


@pytest.mark.parametrize("wanted", WANTED)
@pytest.mark.parametrize("held", GIVEN)
def test_conversion_is_granted_or_refused_with_its_reason(held, wanted):
    guarantee, like = GIVEN[held].under("replace"), WANTED[wanted]
    if (held, wanted) in REFUSED:
        with pytest.raises(ConversionError, match=REFUSED[held, wanted]) as refusal:
            accountant.convert(guarantee, like)
        assert refusal.value.source == str(guarantee)
        return
    found = accountant.convert(guarantee, like)
    assert type(found) is type(like)
    assert str(found.neighbours) == "replace"
    assert [getattr(found, key) for key in like.names() if key != like.amount] == [
        getattr(like, key) for key in like.names() if key != like.amount
    ]
    assert found.value > 0


@pytest.mark.parametrize(
    "guarantee", [*GIVEN.values(), ApproxDP(0.5, 0.3), ApproxDP(1, 0.5), ApproxDP(3, 0.1)], ids=str
)
def test_conversion_to_itself_changes_nothing(guarantee):
    found = accountant.convert(guarantee, guarantee.at(7))
    assert guarantee.value <= found.value <= guarantee.value * (1 + 1e-9)


@some
@given(size)
def test_conversions_by_their_formulas(x):
    """Pure to zCDP is epsilon^2/2, mu to zCDP is mu^2/2, zCDP to Renyi is rho a: exactly, then rounded up."""
    third = Fraction(repr(x))

    def rounded(value: Fraction) -> float:
        nearest = float(value)
        return nearest if Fraction(repr(nearest)) >= value else math.nextafter(nearest, math.inf)

    assert accountant.convert(PureDP(x), ZCDP(1)) == ZCDP(rounded(third**2 / 2))
    assert accountant.convert(GaussianDP(x), ZCDP(1)) == ZCDP(rounded(third**2 / 2))
    assert accountant.convert(ZCDP(x), RenyiDP(2.5, 1)) == RenyiDP(2.5, rounded(third * 5 / 2))
    assert accountant.convert(GaussianDP(x), RenyiDP(2.5, 1)) == RenyiDP(2.5, rounded(third**2 * 5 / 4))


# From a guarantee to a parameter

Mechanism = Callable[[float], Event]


def perturbed(kind: str) -> Mechanism:
    """Objective perturbation by its scale, of a loss so smooth that its Jacobian leaves nearly all of epsilon."""
    numbers = {"lipschitz": 0.1, "smoothness": 1e-5, "regularisation": 1, "records": 1}
    return lambda scale: event(kind, scale=scale, **numbers)


def threshold_at(kind: str, scale: float) -> Event:
    """A threshold so far out that next to nothing of delta is its own."""
    return event(kind, scale=scale, margin=math.ceil(60 * scale) + 1, values=3)


DISCOVERIES = ("discovery-laplace", "discovery-gaussian", "discovery-rounded-gaussian")
FALLING: dict[str, Mechanism] = {
    "laplace": lambda scale: event("laplace", sensitivity=3, scale=scale),
    "discrete-laplace": lambda scale: event("discrete-laplace", sensitivity=3, scale=scale),
    "gaussian": lambda scale: event("gaussian", sensitivity=3, scale=scale),
    "discrete-gaussian": lambda scale: event("discrete-gaussian", sensitivity=3, scale=scale),
    "rounded-gaussian": lambda scale: event("rounded-gaussian", sensitivity=3, scale=scale),
    **{kind: partial(threshold_at, kind) for kind in DISCOVERIES},
    **{kind: perturbed(kind) for kind in OBJECTIVES},
}
GROWING: dict[str, Mechanism] = {
    "exponential": lambda x: event("exponential", epsilon=x),
    "pure": lambda x: event("pure", epsilon=x),
    "approximate": lambda x: event("approximate", epsilon=x, delta=1e-9),
    "renyi": lambda x: event("renyi", orders=(2, 64, 1e6), epsilons=(x, 3 * x, 5 * x)),
    "zcdp": lambda x: event("zcdp", rho=x),
    "gdp": lambda x: event("gdp", mu=x),
    "profile": lambda x: event("profile", profile=partial(coin_profile, epsilon=x)),
    "rate-draw": lambda x: rate_draw(4000, 1 + max(x, 1e-9) / 1000),
    "conjugate-draw": lambda x: draw(betas=((3000, 5000 + x, x),), gammas=((4000, x),)),
    "gibbs": lambda x: event("gibbs", likelihood_power=x, sensitivity=3, strong_convexity=2),
    "langevin": lambda x: event(
        "langevin",
        sensitivity=x,
        strong_convexity=2,
        smoothness=30,
        step_sizes=(0.05, 0.01),
        steps=(100, 7),
        slacks=(1e-12, 1e-12),
        start=0,
    ),
}
CURRENCIES = [PureDP(1), ApproxDP(1, 1e-6), ApproxDP(1, 1e-3), RenyiDP(1.5, 1), RenyiDP(64, 1), ZCDP(1), GaussianDP(1)]


def test_every_law_is_calibrated():
    assert FALLING.keys() | GROWING.keys() == PRICINGS.keys()


@pytest.mark.parametrize("like", CURRENCIES, ids=lambda like: f"{like.amount}-{like}")
@each_searched_kind
@pytest.mark.examples
def test_calibrated_mechanism_costs_what_was_asked(kind, like):
    one, search = (FALLING[kind], smallest_parameter) if kind in FALLING else (GROWING[kind], largest_parameter)
    slow = kind in SLOW

    @settings(some, max_examples=examples(1 if slow else 6))
    @given(target=st.floats(0.01, 10), count=st.just(1) if slow else st.integers(1, 20))
    def holds(target, count):
        def mechanism(parameter: float) -> Event:
            return one(parameter).times(count)

        asked: Guarantee = like.at(target)
        if accountant.amount(mechanism(1.0), asked) == math.inf:
            with pytest.raises(
                GuaranteeUnreachable, match=r"cannot be reached; no parameter of this mechanism meets it"
            ):
                search(mechanism, asked)
        else:
            cost = up(accountant.amount(mechanism(search(mechanism, asked)), asked))
            assert target * (1 - 1e-6) <= cost <= target

    holds()


@pytest.mark.parametrize("kind", GROWING)
def test_calibration_is_capped(kind):
    mechanism, asked = GROWING[kind], ApproxDP(1, 1e-6)
    assert largest_parameter(mechanism, asked, at_most=1e-3) == 1e-3
    assert largest_parameter(mechanism, asked, at_most=1e9) == pytest.approx(
        largest_parameter(mechanism, asked), rel=1e-12
    )


@pytest.mark.parametrize("kind", GROWING)
def test_calibration_to_a_tolerance_stays_on_the_private_side(kind):
    mechanism, asked, tries = GROWING[kind], ApproxDP(1, 1e-6), []

    def meets(mechanism: Event, guarantee: Guarantee) -> bool:
        tries.append(mechanism)
        return accountant.meets(mechanism, guarantee)

    best = largest_parameter(mechanism, asked)
    found = largest_parameter(mechanism, asked, meets=meets, tolerance=1e-3)
    assert best * (1 - 1e-3) <= found <= best
    assert accountant.meets(mechanism(found), asked)
    assert 3 < len(tries) < 30


# The written record


@every_event(counts, st.sampled_from([None, "replace", "add-remove"]))
def test_event_survives_its_record(mechanism, count, neighbours):
    mechanism = mechanism.times(count)
    mechanism = mechanism if neighbours is None else mechanism.under(neighbours)
    if mechanism.kind == "profile":
        with pytest.raises(ValueError, match="numbers, to be written down"):
            mechanism.to_dict()
        return
    for written in (mechanism, compose(mechanism, compose(mechanism).times(3))):
        read = Event.from_dict(json.loads(json.dumps(written.to_dict())))
        assert read == written
        assert hash(read) == hash(written)


@some
@given(st.data())
def test_composition_survives_its_record(data):
    kinds = [kind for kind in STRATEGIES if kind != "profile"]
    chosen = data.draw(st.lists(st.sampled_from(kinds), min_size=1, max_size=5))
    written = compose(*(data.draw(STRATEGIES[kind]).times(data.draw(counts)) for kind in chosen))
    read = Event.from_dict(json.loads(json.dumps(written.to_dict())))
    assert read == written
    assert list(read.leaves()) == list(written.leaves())
