"""Guarantees, neighbours, units and events: what is read, what is printed, what is refused."""

from __future__ import annotations

import math
import pickle
from dataclasses import FrozenInstanceError
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vestry.errors import ConversionError, DeclarationMismatch, InvalidParameter, VestryError
from vestry.privacy import accountant
from vestry.privacy.event import Event, compose
from vestry.privacy.group import group, to_replace
from vestry.privacy.guarantee import ZCDP, ApproxDP, GaussianDP, Guarantee, PureDP, RenyiDP, decimal
from vestry.privacy.neighbours import Neighbours, Unit
from vestry.privacy.pricing import PRICINGS, Pricing, event, event_of_guarantee, register

WRITTEN = {
    "epsilon=1": PureDP(1),
    "epsilon=0.3": PureDP(0.3),
    "epsilon=1,delta=1e-6": ApproxDP(1, 1e-6),
    "order=10,epsilon=0.1": RenyiDP(10, 0.1),
    "order=1.5,epsilon=12345.6789": RenyiDP(1.5, 12345.6789),
    "rho=0.5": ZCDP(0.5),
    "mu=1": GaussianDP(1),
    "mu=1e16": GaussianDP(1e16),
    "epsilon=1.5e-7": PureDP(1.5e-7),
    "epsilon=0.123456789012345": PureDP(0.123456789012345),
}

each_written = pytest.mark.parametrize(("text", "guarantee"), WRITTEN.items(), ids=WRITTEN)


@each_written
def test_text_is_read_and_printed_back(text, guarantee):
    assert Guarantee.parse(text) == guarantee
    assert str(guarantee) == text


@each_written
def test_record_is_read_back(text, guarantee):
    assert Guarantee.parse(guarantee.to_dict()) == guarantee
    bound = guarantee.under("add-remove")
    record = bound.to_dict()
    assert record.pop("neighbours") == "add-remove"
    assert Guarantee.parse(record, neighbours="add-remove") == bound
    assert pickle.loads(pickle.dumps(bound)) == bound


@pytest.mark.parametrize(
    ("text", "guarantee"),
    [
        (" epsilon = 1 , delta = 1e-6 ", ApproxDP(1, 1e-6)),
        ("delta=1e-6,epsilon=1", ApproxDP(1, 1e-6)),
        ("epsilon=0.1,order=10", RenyiDP(10, 0.1)),
        ("epsilon=1.000000000000000000000", PureDP(1)),
        ("epsilon=+1E+1", PureDP(10)),
    ],
)
def test_spelling_does_not_matter(text, guarantee):
    assert Guarantee.parse(text) == guarantee


@given(st.integers(1, 10**15 - 1), st.integers(-300, 250))
def test_fifteen_digits_survive(digits, exponent):
    text = f"epsilon={digits}e{exponent}"
    guarantee = Guarantee.parse(text)
    assert Fraction(repr(guarantee.epsilon)) == digits * Fraction(10) ** exponent
    assert Guarantee.parse(str(guarantee)) == guarantee


@given(st.floats(1e-300, 1e300))
def test_printed_number_reads_back_the_same(value):
    assert float(decimal(value)) == value


def test_value_amount_and_at():
    for guarantee in WRITTEN.values():
        assert guarantee.value == getattr(guarantee, guarantee.amount)
        changed = guarantee.at(0.25)
        assert changed.value == 0.25
        assert type(changed) is type(guarantee)
    assert RenyiDP(10, 1).at(2) == RenyiDP(10, 2)
    assert ApproxDP(1, 1e-6, neighbours="replace").at(2) == ApproxDP(2, 1e-6, neighbours="replace")
    with pytest.raises(InvalidParameter, match="epsilon must be a number above 0 and finite, not 0"):
        PureDP(1).at(0)


@pytest.mark.parametrize("number", [1, np.float64(1), np.int64(1), np.float32(1), Fraction(1)], ids=repr)
def test_every_kind_of_number_becomes_a_float(number):
    guarantee = PureDP(number)
    assert guarantee == PureDP(1.0)
    assert type(guarantee.epsilon) is float


def test_guarantee_cannot_be_changed():
    with pytest.raises(FrozenInstanceError, match="cannot assign to field"):
        PureDP(1).epsilon = 2


POSITIVE = r" must be a number above 0 and finite, not .*; write for example "
SHARE = r"delta must be a number above 0 and below 1, not .*; write for example delta=1e-6, or omit delta"
ORDER = r"order must be a number above 1 and finite, not .*; write for example order=10\."


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: PureDP(0), "epsilon" + POSITIVE + "epsilon=1"),
        (lambda: PureDP(-1), "epsilon" + POSITIVE + "epsilon=1"),
        (lambda: PureDP(math.nan), "epsilon" + POSITIVE),
        (lambda: PureDP(math.inf), "epsilon" + POSITIVE),
        (lambda: PureDP(10**400), "epsilon" + POSITIVE),
        (lambda: PureDP(Fraction(1, 10**400)), "epsilon" + POSITIVE),
        (lambda: PureDP("1"), r"epsilon must be a number above 0 and finite, not '1'"),
        (lambda: PureDP(True), r"epsilon must be a number above 0 and finite, not True"),
        (lambda: PureDP(np.bool_(True)), r"epsilon must be a number"),
        (lambda: PureDP(None), r"epsilon must be a number"),
        (lambda: PureDP(1j), r"epsilon must be a number"),
        (lambda: PureDP([1.0]), r"epsilon must be a number"),
        (lambda: PureDP(Decimal("0.1")), r"epsilon must be a number"),
        (lambda: ApproxDP(0, 1e-6), "epsilon" + POSITIVE),
        (lambda: ApproxDP(1, 0), SHARE),
        (lambda: ApproxDP(1, 1), SHARE),
        (lambda: ApproxDP(1, 2), SHARE),
        (lambda: ApproxDP(1, -1e-6), SHARE),
        (lambda: ApproxDP(1, math.nan), SHARE),
        (lambda: ApproxDP(1, Fraction(10**20 - 1, 10**20)), SHARE),
        (lambda: RenyiDP(1, 1), ORDER),
        (lambda: RenyiDP(0.5, 1), ORDER),
        (lambda: RenyiDP(math.inf, 1), ORDER),
        (lambda: RenyiDP(Fraction(10**20 + 1, 10**20), 1), ORDER),
        (lambda: RenyiDP(2, 0), "epsilon" + POSITIVE),
        (lambda: ZCDP(0), "rho" + POSITIVE + "rho=0.5"),
        (lambda: ZCDP("0.5"), r"rho must be a number"),
        (lambda: GaussianDP(-1), "mu" + POSITIVE + "mu=1"),
        (lambda: PureDP(1, neighbours="swap"), "neighbours must be one of replace, add-remove, not 'swap'"),
    ],
)
def test_bad_number_is_refused(make, message):
    with pytest.raises(InvalidParameter, match=message):
        make()


PAIRS = "a guarantee must be key=number pairs, each key once, not "
KEY = "a guarantee's key must be one of epsilon, delta, order, rho, mu, not "
COMBINATION = "a guarantee must be a known combination of keys, not "
DIGITS = "epsilon must be a decimal of at most 15 significant digits, not "
READ_AS_DECIMAL = r"epsilon must be a decimal number, not "


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", PAIRS),
        ("epsilon", PAIRS),
        ("1", PAIRS),
        ("epsilon=1,", PAIRS),
        (",", PAIRS),
        ("epsilon=1,epsilon=2", PAIRS),
        ("epsilon=1,epsilon=1", PAIRS),
        ("eps=1", KEY + "'eps'"),
        ("=1", KEY + "''"),
        ("Epsilon=1", KEY),
        ("epsilon=1,sigma=2", KEY + "'sigma'"),
        ("delta=1e-6", COMBINATION),
        ("order=2", COMBINATION),
        ("epsilon=1,rho=1", COMBINATION),
        ("epsilon=1,delta=1e-6,order=2", COMBINATION),
        ("epsilon=", READ_AS_DECIMAL),
        ("epsilon=one", READ_AS_DECIMAL),
        ("epsilon=1/2", READ_AS_DECIMAL),
        ("epsilon=0x1", READ_AS_DECIMAL),
        ("epsilon=1=2", READ_AS_DECIMAL),
        ("epsilon=0.1234567890123456", DIGITS),
        ("epsilon=1234567890123456", DIGITS),
        ("epsilon=0", "epsilon" + POSITIVE),
        ("epsilon=-1", "epsilon" + POSITIVE),
        ("epsilon=nan", "epsilon" + POSITIVE),
        ("epsilon=inf", "epsilon" + POSITIVE),
        ("epsilon=1e400", "epsilon" + POSITIVE),
        ("epsilon=1e-400", "epsilon" + POSITIVE),
        ("epsilon=1,delta=0", SHARE),
        ("epsilon=1,delta=1", SHARE),
        ("order=1,epsilon=1", ORDER),
        # Decimals that a 28-digit context would round away, or could not hold.
        ("epsilon=0.1" + "0" * 30 + "1", DIGITS),
        ("epsilon=1" + "0" * 30 + "1", DIGITS),
        ("epsilon=1e9999999", "epsilon must be"),
        ("epsilon=1e-9999999", "epsilon must be"),
        ("epsilon=1e999999999999999999999", "epsilon must be"),
        ("epsilon=sNaN", "epsilon must be"),
    ],
)
def test_bad_text_is_refused(text, message):
    with pytest.raises(InvalidParameter, match=message):
        Guarantee.parse(text)


@pytest.mark.parametrize(
    ("given_", "message"),
    [
        (None, "a guarantee must be text or a guarantee, not None"),
        (1.0, "a guarantee must be text or a guarantee, not 1.0"),
        (b"epsilon=1", "a guarantee must be text or a guarantee"),
        ({}, COMBINATION),
        ({"epsilon": "1"}, r"epsilon must be a number"),
        ({"epsilon": 1, "sigma": 2}, KEY + "'sigma'"),
        ({"delta": 1e-6}, COMBINATION),
    ],
)
def test_bad_mapping_is_refused(given_, message):
    with pytest.raises(InvalidParameter, match=message):
        Guarantee.parse(given_)


def test_refusals_carry_their_facts():
    with pytest.raises(VestryError, match="write for example epsilon=1") as refusal:
        PureDP(-2)
    assert (refusal.value.name, refusal.value.given) == ("epsilon", -2)
    assert isinstance(refusal.value, ValueError)
    assert refusal.value.exit_code == 2


# Neighbours


@pytest.mark.parametrize("relation", list(Neighbours), ids=str)
def test_neighbours_are_read_and_printed_back(relation):
    assert Neighbours.parse(str(relation)) is relation
    assert Neighbours.parse(relation) is relation


@pytest.mark.parametrize("text", ["", "Replace", "add_remove", "add-remove ", None, 1, True], ids=repr)
def test_unknown_neighbours_are_refused(text):
    with pytest.raises(InvalidParameter, match="neighbours must be one of replace, add-remove"):
        Neighbours.parse(text)


@pytest.mark.parametrize("subject", [PureDP(1), RenyiDP(10, 1), event("pure", epsilon=1)], ids=str)
def test_neighbours_are_bound_once(subject):
    assert subject.neighbours is None
    bound = subject.under("replace")
    assert bound.neighbours is Neighbours.REPLACE
    assert bound.under(Neighbours.REPLACE) == bound
    with pytest.raises(
        DeclarationMismatch, match="neighbours relation asked for is replace, but it is add-remove here"
    ):
        bound.under("add-remove")
    with pytest.raises(InvalidParameter, match="neighbours must be one of"):
        subject.under("swap")


def test_parse_binds_neighbours():
    assert Guarantee.parse("epsilon=1", neighbours="replace").neighbours is Neighbours.REPLACE
    assert Guarantee.parse(PureDP(1), neighbours="replace") == PureDP(1, neighbours="replace")
    assert PureDP(1, neighbours="replace") != PureDP(1)
    with pytest.raises(DeclarationMismatch, match="asked for is replace, but it is add-remove here"):
        Guarantee.parse(PureDP(1, neighbours="replace"), neighbours="add-remove")


def test_composition_has_one_relation():
    open_, bound = event("pure", epsilon=1), event("pure", epsilon=1, neighbours="replace")
    whole = compose(open_, open_).under("replace")
    assert all(leaf.neighbours is Neighbours.REPLACE for leaf, _ in whole.leaves())
    assert compose(bound, bound).neighbours is Neighbours.REPLACE
    for other in (open_, open_.under("add-remove")):
        with pytest.raises(DeclarationMismatch, match="compose events of one relation"):
            compose(bound, other)
    with pytest.raises(InvalidParameter, match="a composition must be at least one event"):
        compose()


def test_price_keeps_the_relation():
    noise = event("gaussian", sensitivity=1, scale=2, neighbours="add-remove")
    assert accountant.price(noise, ZCDP(1)) == ZCDP(0.125, neighbours="add-remove")
    with pytest.raises(DeclarationMismatch, match="asked for is replace, but it is add-remove here"):
        accountant.price(noise, ZCDP(1, neighbours="replace"))


def test_only_add_remove_implies_replace():
    assert to_replace(PureDP(0.5, neighbours="add-remove")) == PureDP(1, neighbours="replace")
    for stated in (PureDP(1), PureDP(1, neighbours="replace")):
        with pytest.raises(ConversionError, match="only add-remove implies the other relation"):
            to_replace(stated)


# Units


@pytest.mark.parametrize(
    ("text", "unit"),
    [
        ("row", Unit()),
        ("person=patient_id,rows=3", Unit("patient_id", 3)),
        ("person=the patient,rows=1", Unit("the patient")),
    ],
)
def test_unit_is_read_and_printed_back(text, unit):
    assert Unit.parse(text) == unit
    assert Unit.parse(unit) is unit
    assert str(unit) == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Row",
        "rows",
        "person=id",
        "person=,rows=3",
        "rows=3,person=id",
        "person=id,rows=x",
        "person=id,rows=-1",
        "person=id,rows=1.5",
        "person=id,rows=3,",
        "person=a,b,rows=3",
        "person=id,rows=" + "9" * 400,
        3,
        None,
        b"row",
    ],
    ids=lambda text: repr(text)[:30],
)
def test_bad_unit_is_refused(text):
    with pytest.raises(InvalidParameter, match='unit must be "row" or "person=COLUMN,rows=K"'):
        Unit.parse(text)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Unit("id", 0), "rows must be a whole number of at least 1, not 0"),
        (lambda: Unit("id", True), "rows must be a whole number of at least 1, not True"),
        (lambda: Unit("id", 1.0), "rows must be a whole number of at least 1, not 1.0"),
        (lambda: Unit(rows=2), "rows must be 1 where the unit is a row, not 2"),
        (lambda: Unit(""), "person must be the name of a column, without , or =, not ''"),
        (lambda: Unit("a,b"), "person must be the name of a column"),
        (lambda: Unit("a=b"), "person must be the name of a column"),
        (lambda: Unit("a\nb"), "person must be the name of a column"),
        (lambda: Unit(3), "person must be the name of a column"),
        (lambda: Unit.parse("person=id,rows=0"), "rows must be a whole number of at least 1, not 0"),
    ],
)
def test_bad_unit_number_is_refused(make, message):
    with pytest.raises(InvalidParameter, match=message):
        make()


# Groups


@pytest.mark.parametrize("size", [0, -1, True, 1.0, "2", None], ids=repr)
def test_bad_group_size_is_refused(size):
    with pytest.raises(InvalidParameter, match="a group's size must be a whole number of at least 1"):
        group(PureDP(1), size)


def test_group_keeps_the_relation_and_one_is_itself():
    for guarantee in (PureDP(1), ApproxDP(1, 1e-6), RenyiDP(2, 1), ZCDP(1), GaussianDP(1)):
        bound = guarantee.under("add-remove")
        assert group(bound, 1) == bound
    assert group(RenyiDP(10, 1, neighbours="replace"), 2).neighbours is Neighbours.REPLACE
    assert group(ApproxDP(1, 1e-6, neighbours="replace"), 2).neighbours is Neighbours.REPLACE


@pytest.mark.parametrize(
    ("guarantee", "size", "message"),
    [
        (RenyiDP(2, 1), 2, "its order must be above 2"),
        (RenyiDP(4, 1), 3, "its order must be above 4"),
        (RenyiDP(4, 1), 4, "its order must be above 4"),
        (ApproxDP(1, 0.5), 2, "delta would reach 1; start from a smaller delta or epsilon"),
        (ApproxDP(400, 1e-300), 2, "delta would reach 1"),
    ],
)
def test_group_without_a_guarantee(guarantee, size, message):
    with pytest.raises(ConversionError, match=message):
        group(guarantee, size)


# Events

BAD_EVENTS = [
    ("nothing", {}, "kind must be one of laplace, .*, not 'nothing'"),
    ("pure", {}, r"the parameters of pure must be epsilon, not \[\]"),
    ("pure", {"epsilon": 1, "delta": 0.1}, "the parameters of pure must be epsilon, not"),
    ("pure", {"rho": 1}, "the parameters of pure must be epsilon, not"),
    ("pure", {"epsilon": 0}, "epsilon must be a number above 0 and finite, not 0"),
    ("pure", {"epsilon": "1"}, "epsilon must be a number above 0 and finite, not '1'"),
    ("pure", {"epsilon": True}, "epsilon must be a number above 0 and finite, not True"),
    ("pure", {"epsilon": math.nan}, "epsilon must be a number above 0 and finite"),
    ("pure", {"epsilon": math.inf}, "epsilon must be a number above 0 and finite"),
    ("pure", {"epsilon": 10**400}, "epsilon must be a number above 0 and finite"),
    ("gaussian", {"sensitivity": 1, "scale": -1}, "scale must be a number above 0 and finite, not -1"),
    ("gaussian", {"sensitivity": 1, "scale": Fraction(1, 10**400)}, "scale must be a number above 0 and finite"),
    ("discrete-laplace", {"sensitivity": 1.5, "scale": 1}, "sensitivity must be a whole number of at least 1, not 1.5"),
    ("discrete-laplace", {"sensitivity": 0, "scale": 1}, "sensitivity must be a whole number of at least 1, not 0"),
    ("approximate", {"epsilon": 1, "delta": 1}, "delta must be a number above 0 and below 1, not 1"),
    ("approximate", {"epsilon": 1, "delta": 0}, "delta must be a number above 0 and below 1, not 0"),
    (
        "approximate",
        {"epsilon": 1, "delta": Fraction(10**20 - 1, 10**20)},
        "delta must be a number above 0 and below 1",
    ),
    ("renyi", {"orders": (1,), "epsilons": (1,)}, "orders must be a tuple of orders above 1"),
    (
        "renyi",
        {"orders": (Fraction(10**20 + 1, 10**20),), "epsilons": (1,)},
        "orders must be a tuple of orders above 1",
    ),
    ("renyi", {"orders": (), "epsilons": ()}, "orders must be a tuple of orders above 1"),
    ("renyi", {"orders": [2], "epsilons": (1,)}, "orders must be a tuple of orders above 1"),
    ("renyi", {"orders": (2,), "epsilons": (-1,)}, "epsilons must be a tuple of as many epsilons of at least 0"),
    ("renyi", {"orders": (2, 3), "epsilons": (1,)}, "the parameters of renyi must be numbers that fit together"),
    ("profile", {"profile": 1e-6}, "profile must be a function that returns delta, not 1e-06"),
]


@pytest.mark.parametrize(("kind", "parameters", "message"), BAD_EVENTS)
def test_bad_event_is_refused(kind, parameters, message):
    with pytest.raises(InvalidParameter, match=message):
        event(kind, **parameters)


@pytest.mark.parametrize("count", [0, -1, 1.0, "2", True, None], ids=repr)
def test_bad_count_is_refused(count):
    with pytest.raises(InvalidParameter, match="count must be a whole number of at least 1"):
        event("pure", epsilon=1, count=count)


@pytest.mark.parametrize("count", [0, -1, 2.0, True], ids=repr)
def test_bad_repetition_is_refused(count):
    with pytest.raises(InvalidParameter, match="count must be a whole number of at least 1"):
        event("pure", epsilon=1).times(count)


def test_counts_multiply():
    one = event("pure", epsilon=0.1)
    assert one.times(2).times(3).count == 6
    nested = compose(one.times(2), compose(one.times(5)).times(3)).times(7)
    assert list(nested.leaves()) == [(one, 14), (one, 105)]
    assert accountant.pure(nested) == Fraction(119, 10)


def test_numbers_of_an_event_become_floats():
    noise = event("gaussian", sensitivity=np.int64(1), scale=Fraction(1, 2))
    assert noise.parameters == (("sensitivity", 1.0), ("scale", 0.5))
    assert all(type(value) is float for _, value in noise.parameters)


def test_record_of_an_unknown_kind_is_read():
    """A ledger outlives its prices."""
    record = {"kind": "of the future", "count": 2, "parameters": {"x": 1.0, "y": [1.0, 2.0]}, "neighbours": "replace"}
    read = Event.from_dict(record)
    assert read.to_dict() == record
    assert dict(read.parameters) == {"x": 1.0, "y": (1.0, 2.0)}


@pytest.mark.parametrize("guarantee", [PureDP(1), ApproxDP(1, 1e-6), RenyiDP(10, 1), ZCDP(1), GaussianDP(1)], ids=str)
def test_promise_costs_what_it_says(guarantee):
    assert accountant.up(accountant.amount(event_of_guarantee(guarantee), guarantee)) == guarantee.value
    assert accountant.meets(event_of_guarantee(guarantee), guarantee)
    assert not accountant.meets(event_of_guarantee(guarantee), guarantee.at(guarantee.value * (1 - 1e-9)))
    assert event_of_guarantee(guarantee.under("replace")).neighbours is Neighbours.REPLACE


def test_promise_of_nothing_known_is_refused():
    with pytest.raises(InvalidParameter, match="a guarantee must be one of the five definitions"):
        event_of_guarantee("epsilon=1")


def test_kind_is_registered_once(monkeypatch):
    monkeypatch.setitem(PRICINGS, "passing", PRICINGS["pure"])
    with pytest.raises(InvalidParameter, match="kind must be new, not 'passing'"):
        register("passing", PRICINGS["gdp"])
    monkeypatch.delitem(PRICINGS, "passing")
    register("passing", Pricing({}, renyi=lambda order: 0.0))
    assert accountant.renyi(event("passing"), 2) == 0
    assert accountant.pure(event("passing")) == math.inf


@pytest.mark.parametrize("order", [1, 0.5, math.inf, math.nan])
def test_renyi_order_is_checked(order):
    with pytest.raises(InvalidParameter, match="order must be a number above 1 and finite"):
        accountant.renyi(event("pure", epsilon=1), order)


@pytest.mark.parametrize("epsilon", [-1e-9, math.inf, math.nan])
def test_epsilon_of_delta_is_checked(epsilon):
    with pytest.raises(InvalidParameter, match="epsilon must be a number at least 0 and finite"):
        accountant.delta(event("pure", epsilon=1), epsilon)


@pytest.mark.parametrize(
    "function", [lambda x: 2.0, lambda x: -0.1, lambda x: min(1.0, x / 10), lambda x: math.nan], ids=range(4)
)
def test_profile_that_is_none_is_refused(function):
    with pytest.raises(
        InvalidParameter, match=r"a profile must be a falling function of epsilon with values in \[0, 1\]"
    ):
        accountant.renyi(event("profile", profile=function), 2)
