"""The promise in words, against closed forms that are computed here by other means; and how numbers are written."""

from __future__ import annotations

import itertools
import math
import re
from decimal import Decimal
from fractions import Fraction
from statistics import NormalDist

import pytest
from report.example import certificate, diffused, gaussian, laplace

from vestry.display.formatting import Digits, number, percent_up, probability, roughly, upward, whole
from vestry.errors import InvalidParameter
from vestry.privacy.pricing import event
from vestry.report.guarantee_section import Promise, known, sentences
from vestry.report.page import bibliography, cited, reference


def told(claim):
    return " ".join(sentences(Promise.of(claim))).replace("\u00a0", " ").replace("\u202f", "")


def up(value):
    """Round up at the third significant digit, by way of text."""
    digits = 2 - int(f"{value:e}".split("e")[1])
    return f"{Decimal(math.ceil(Fraction(value) * Fraction(10) ** digits)).scaleb(-digits):.{max(0, digits)}f}"


# e^epsilon = 1.010050..., 1.105170..., 1.349858..., 2.718281..., 12.182493..., 2980.957..., by mpmath, and its share of
# itself and 1 = 0.502499..., 0.524979..., 0.574442..., 0.731058..., 0.924141..., 0.99966464...; both rounded up.
FACTORS = {
    0.01: ("1.011", "50.3"),
    0.1: ("1.11", "52.5"),
    0.3: ("1.35", "57.5"),
    1.0: ("2.72", "73.2"),
    2.5: ("12.2", "92.5"),
    8.0: ("2990", "99.967"),
}


@pytest.mark.parametrize("epsilon", FACTORS)
def test_pure(epsilon):
    """Odds change by e^epsilon at most; a guess between two cases is right with e^epsilon/(1 + e^epsilon) at most."""
    text = told(certificate({"epsilon": epsilon}, event("pure", epsilon=epsilon)))
    factor, share = FACTORS[epsilon]
    assert f"at most a factor of {factor} (e to the power epsilon, epsilon = {epsilon:g})" in text
    assert f"even odds become {share} % at most" in text
    assert f"right with a probability of at most {share} %" in text


@pytest.mark.parametrize("mu", [0.05, 0.4, 1.0, 3.0])
@pytest.mark.parametrize("kind", ["gdp", "gaussian"])
def test_gaussian_guess(mu, kind):
    """(1 + TV)/2 with TV = Phi(mu/2) - Phi(-mu/2): the guess is right with probability Phi(mu/2)."""
    ran = event("gdp", mu=mu) if kind == "gdp" else event("gaussian", sensitivity=mu, scale=1.0)
    found = Promise.of(certificate({"mu": mu}, ran))
    assert found.best_guess() == pytest.approx(NormalDist().cdf(mu / 2), rel=1e-9)
    assert f"at most {up(100 * NormalDist().cdf(mu / 2))} %" in told(certificate({"mu": mu}, ran))


@pytest.mark.parametrize("epsilon", [0.1, 0.3, 1.0])
def test_integer_laplace_is_no_worse_than_its_epsilon(epsilon):
    """TV of integer Laplace noise one unit apart, by summing both laws."""
    q = math.exp(-epsilon)
    mass = [(1 - q) / (1 + q) * q ** abs(k) for k in range(-4000, 4001)]
    distance = sum(max(0.0, a - b) for a, b in itertools.pairwise(mass))
    found = Promise.of(laplace(epsilon)).best_guess()
    assert found == pytest.approx((1 + distance) / 2, rel=1e-9)
    assert found <= 1 / (1 + math.exp(-epsilon)) * (1 + 1e-12)


def test_approximate():
    text = told(certificate({"epsilon": 1.0, "delta": 1e-5}, event("approximate", epsilon=1.0, delta=1e-5)))
    assert "is at most 2.72 times what it was (e to the power epsilon, epsilon = 1), plus delta" in text
    assert "delta = 1e-5, which is one in 100000" in text
    share = 1e-5 + (1 - 1e-5) * math.tanh(0.5)
    assert f"at most {up(50 * (1 + share))} %" in text


def test_zero_concentrated():
    """Told at delta = 1e-6: the classical rho + 2 sqrt(rho log(1/delta)) is an upper bound, and rho a lower one."""
    claim = gaussian(0.02)
    epsilon, delta = Promise.of(claim).at_delta()
    assert delta == 1e-6
    assert 0.02 < epsilon < 0.02 + 2 * math.sqrt(0.02 * math.log(1e6))
    assert "The guarantee itself has no delta" in told(claim)
    # Pinsker: TV <= sqrt(rho/2) holds for the truth, so the guess must not be below what two laws really give.
    sigma = 5.0
    mass = [math.exp(-(k**2) / (2 * sigma**2)) for k in range(-200, 201)]
    total = sum(mass)
    distance = sum(max(0.0, a - b) for a, b in itertools.pairwise(mass)) / total
    assert Promise.of(claim).total_variation() >= distance


@pytest.mark.parametrize(
    ("neighbours", "unit", "words"),
    [
        ("replace", "row", "one row is replaced by any other"),
        ("add-remove", "row", "one row is added or removed"),
        ("add-remove", "person=patient_id,rows=3", "identified by patient_id, at most 3 rows each"),
        ("replace", "row", "which of two versions of a row is in the data"),
        ("add-remove", "person=id,rows=1", "whether a person is in the data at all"),
    ],
)
def test_whose_change(neighbours, unit, words):
    claim = certificate({"epsilon": 0.3, "neighbours": neighbours}, event("pure", epsilon=0.3), unit=unit)
    assert words in told(claim)


def test_many_draws_are_bounded_by_the_promise_where_it_is_tighter():
    found = Promise.of(diffused(60))
    assert found.total_variation() <= 1e-5 + math.tanh(0.5)


def test_an_unknown_law_leaves_the_promise():
    claim = certificate({"epsilon": 0.5}, {"kind": "not-yet-known", "count": 1})
    assert known(claim.event) is None
    assert f"at most {up(100 / (1 + math.exp(-0.5)))} %" in told(claim)
    assert known({"kind": "discrete-laplace"}) is None
    assert known({"kind": "discrete-laplace", "count": 1, "parameters": {"scale": 2.0}}) is None


def test_a_guarantee_that_is_none_is_refused():
    with pytest.raises(InvalidParameter, match="a guarantee"):
        Promise.of(certificate({"trust": 1.0}, event("pure", epsilon=1.0)))


def test_references():
    theorem = "So [GeumlekSC17, sec. 3], and [CesarR21; DworkR14, Thm 3.14]; again [CesarR21]. Not [this]."
    assert cited(theorem, "[DworkR14]") == ["CesarR21", "DworkR14", "GeumlekSC17"]
    assert cited("") == []


def test_a_reference_is_in_full():
    people, title, where = reference("DworkR14")
    assert people == "Cynthia Dwork, Aaron Roth"
    assert title == "The algorithmic foundations of differential privacy"
    assert where == "Now 2014"
    assert all(each["author"] and each["title"] and each["year"] for each in bibliography().values())


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (-0.0, "0"),
        (0.1234, "0.123"),
        (0.2, "0.200"),
        (0.09996, "0.100"),
        (-12.345, "−12.3"),
        (12345.0, "12 300"),
        (999.6, "1 000"),
        (1.234e-7, "1.23 × 10⁻⁷"),
        (9.999e-7, "1.00 × 10⁻⁶"),
        (-5e12, "−5.00 × 10¹²"),
    ],
)
def test_three_significant_digits(value, text):
    assert number(value).replace("\u202f", " ").replace("\u00a0", " ") == text


def test_bounds_are_rounded_up():
    assert upward(1.3401) == "1.35"
    assert upward(0.5) == "0.500"
    assert upward(1.001e-7).replace("\u00a0", " ") == "1.01 × 10⁻⁷"
    assert percent_up(0.999512).replace("\u00a0", " ") == "99.952 %"
    assert percent_up(1.0).replace("\u00a0", " ") == "100 %"


@pytest.mark.parametrize(
    ("spread", "value", "text"),
    [
        (0.1234, 103.456, "103.46"),
        (0.354, 103.456, "103.46"),
        (0.356, 103.456, "103.5"),
        (0.96, 103.456, "103.5"),
        (0.0173, 0.09996, "0.100"),
        (0.02, 1e-9, "0.000"),
        (800.0, 12345.0, "12 300"),
        (0.1, -0.00001, "0.00"),
        (0.0, 0.1234, "0.123"),
    ],
)
def test_a_row_has_the_digits_of_its_spread(spread, value, text):
    assert Digits(spread)(value).replace("\u202f", " ") == text


def test_shares_are_written_in_percent():
    digits = Digits(0.0083, percent=True)
    assert digits.interval(0.1015, 0.1289).replace("\u00a0", " ") == "10.2 % to 12.9 %"
    assert digits.bare(-0.119) == "−11.9"


def test_other_numbers():
    assert whole(-21100).replace("\u202f", " ") == "−21 100"
    assert (probability(0.0), probability(1.0), probability(0.25)) == ("under 0.001", "over 0.999", "0.250")
    assert re.sub(r"\s", " ", roughly(0.0748)) == "7.5 %"
    assert re.sub(r"\s", " ", roughly(1.234)) == "120 %"
