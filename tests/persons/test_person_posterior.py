"""Averages over persons: the interval is the test's, inverted by roots of its quadratic; the rest follows from it."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import norm

from vestry.errors import InvalidParameter
from vestry.persons.person_average import PersonReader
from vestry.persons.person_posterior import levels_average, numbers_average
from vestry.releases import Certificate, NoisyStatistics, Release

pytestmark = pytest.mark.oracle


def inverted(stat, variance, prob):
    """Return the outermost R in [0, 1] with ((1 - R) S - R F)^2 <= z^2 (variance of it), both quadratics in R.

    `stat` is (S, F, sum s^2, sum 2 s f, sum f^2), `variance` the three coefficients of (1 - R)^2, (1/2 - R)^2, R^2.
    """
    z = float(norm.ppf((1 + prob) / 2))
    s, f, ss, sf, ff = map(float, stat)
    s, f = max(s, 0.0), max(f, 0.0)
    a, b, c = variance
    r, one = np.poly1d([1.0, 0.0]), np.poly1d([-1.0, 1.0])
    sampling = ss * one * one - sf * one * r + ff * r * r
    noise = a * one * one + b * np.poly1d([-1.0, 0.5]) ** 2 + c * r * r
    events = s * one - f * r

    def accepted(at):
        return events(at) ** 2 <= z * z * (max(0.0, sampling(at)) + noise(at)) * (1 + 1e-12) + 1e-300

    crossings = [*(events**2 - z * z * (sampling + noise)).roots, *(events**2 - z * z * noise).roots]
    points = [0.0, 1.0, *(root.real for root in crossings if abs(root.imag) < 1e-9 and 0 < root.real < 1)]
    kept = [point for point in points if accepted(point)]
    return min(kept), max(kept)


NUMBERS = {
    "many": ([240.0, 55.0, 610.0], 8.0),
    "few events": ([3.0, 2.0, 400.0], 50.0),
    "no event, by noise": ([-6.0, 1.0, 300.0], 18.0),
    "grouped": ([40.0, 22.0, 70.0, 31.0, 44.0], 2.0),
    "grouped, variance below 0": ([-3.0, 60.0, -4.0, 51.0, 44.0], 30.0),
    "all the same": ([0.0, 0.0, 100.0], 0.5),
    "as much noise as persons": ([3.0, 9.0, 2.0, -4.0, 8.0], 60.0),
}


@pytest.mark.parametrize("prob", [0.5, 0.9, 0.99])
@pytest.mark.parametrize("name", NUMBERS)
def test_the_interval_is_the_inverted_test(name, prob):
    values, v = NUMBERS[name]
    grouped = len(values) == 5
    p1, p2, p3, p4, p5 = [*values, 0.0, 0.0][:5]
    stat = (p1 + p2 / 2 + p4, p3 + p2 / 2 + p5, p1, p2, p3)
    low, high = inverted(stat, (2 * v, v, 2 * v) if grouped else (v, v, v), prob)
    (part,) = numbers_average(np.array(values), v, grouped=grouped, ends=(10.0, 30.0)).parts
    assert part.interval(prob) == pytest.approx((10 + 20 * low, 10 + 20 * high), abs=1e-9)


@pytest.mark.parametrize("grouped", [False, True])
def test_each_level_is_a_proportion_of_its_own(grouped):
    rng = np.random.default_rng(7)
    weights = rng.dirichlet([1, 2, 0.5], 200) * (rng.random((200, 1)) if grouped else 1)
    w = weights.sum(axis=1)
    table = [(q * q, q * (w - q), q * (1 - w))[: 3 if grouped else 2] for q in weights.T]
    values = np.array([each.sum() for parts in table for each in parts])
    found = levels_average(values, 0.7, grouped=grouped)
    for place, q in enumerate(weights.T):
        f = w - q
        stat = (q.sum(), f.sum(), (q * q).sum(), (2 * q * f).sum(), (f * f).sum())
        parts = 3 if grouped else 2
        expected = inverted(stat, (0.7 * parts, 0.0, 0.7 * parts * 2), 0.9)
        assert found.marginal(place).interval(0.9) == pytest.approx(expected, abs=1e-9)


def test_the_noise_of_the_numerator_is_that_of_its_parts():
    """V(R) is the variance of sum c_i(R) noise_i, by simulation over the parts: rejects a tenth more or less."""
    rng, v = np.random.default_rng(1), 3.0
    noise = rng.normal(0, math.sqrt(v), (400_000, 5))
    (part,) = numbers_average(np.zeros(5), v, grouped=True, ends=(0.0, 1.0)).parts
    for r in (0.0, 0.2, 0.9):
        yes = noise[:, 0] + noise[:, 1] / 2 + noise[:, 3]
        no = noise[:, 2] + noise[:, 1] / 2 + noise[:, 4]
        simulated = np.var((1 - r) * yes - r * no)
        assert simulated == pytest.approx(float(part.deviation(np.array(r))) ** 2, rel=6 * math.sqrt(2 / 400_000))


def test_moments_draws_and_quantiles_are_of_one_distribution():
    (part,) = numbers_average(np.array([240.0, 55.0, 610.0]), 8.0, grouped=False, ends=(-1.0, 3.0)).parts
    p = (np.arange(20_000) + 0.5) / 20_000
    points = part.quantile(p)
    assert part.mean() == pytest.approx(points.mean(), abs=1e-6)
    assert part.variance() == pytest.approx(points.var(), rel=1e-3)
    assert part.cdf(points) == pytest.approx(p, abs=5e-6)
    drawn = part.draw(np.random.default_rng(3), 40_000)
    assert drawn.mean() == pytest.approx(part.mean(), abs=6 * math.sqrt(part.variance() / 40_000))
    inner = np.linspace(points[100], points[-100], 4001)
    assert np.trapezoid(np.exp(part.log_density(inner)), inner) == pytest.approx(0.99, abs=2e-4)


def test_nothing_known_is_anything_between_the_ends():
    reader = PersonReader("mean", "numbers", False, 1, (2.0, 6.0))
    nothing = NoisyStatistics(("s^2", "2sf", "f^2"), (0, 0, 0), "discrete-laplace", 1.0)
    assert reader.plug_in(nothing).marginal(0).interval(0.9) == (2.0, 6.0)


def test_few_events_are_said():
    reader = PersonReader("probability", "numbers", False, 1, (0.0, 1.0))
    few = NoisyStatistics(("s^2", "2sf", "f^2"), (9000, 0, 900_000), "discrete-laplace", 1000.0, 0.001)
    many = NoisyStatistics(("s^2", "2sf", "f^2"), (11_000, 0, 900_000), "discrete-laplace", 1000.0, 0.001)
    assert "rows = 1 has an exact model" in reader.remark(reader.noise_aware(few), 0)
    assert reader.remark(reader.noise_aware(many), 0) == ""


def test_another_number_of_statistics_is_refused():
    reader = PersonReader("probability", "numbers", True, 1, (0.0, 1.0))
    with pytest.raises(InvalidParameter, match="the number of noisy statistics must be 5, not 3"):
        reader.noise_aware(NoisyStatistics(("a", "b", "c"), (1, 2, 3), "discrete-laplace", 1.0))


def test_a_summary_says_few_events_in_their_row_alone():
    family = {"name": "beta-bernoulli", "average": "person", "kind": "numbers", "grouped": True, "dimension": 1,
              "low": 0.0, "high": 1.0}  # fmt: skip
    names = ("s^2", "2sf", "f^2", "s(1-w)", "f(1-w)")
    groups = {
        "few": NoisyStatistics(names, (2, 0, 90, 0, 0), "discrete-laplace", 1.0),
        "many": NoisyStatistics(names, (40, 0, 90, 0, 0), "discrete-laplace", 1.0),
    }
    population = {"neighbours": "add-remove", "rows": 3, "count": "private", "groups": 2}
    certificate = Certificate({}, {}, "laplace", "scale", 1.0, "", "person=id,rows=3", population)
    posterior = Release(family, (1.0, 1.0), groups, certificate, "ward").posterior()
    notes = posterior.summary()["note"]
    assert notes.loc["few", "probability"].startswith("fewer than about 10 expected events")
    assert notes.loc["many", "probability"] == ""
    assert "normal approximation" in posterior.interval_method
    assert posterior.note.partition(",")[0] in posterior._repr_html_()
    with pytest.raises(InvalidParameter, match="predict must be asked of rows, not 'an average over persons'"):
        posterior.predict(10)
    with pytest.raises(InvalidParameter, match="pool must be asked of rows, not 'averages over persons'"):
        Release(family, (1.0, 1.0), groups, certificate, "ward").posterior(pool=True)
