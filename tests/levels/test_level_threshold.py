"""The threshold: calibrated to the last count, drawn with its law, never refuted, and refuted if it is one too low.

Draws: every statistical test fails by chance at most once in a million runs, and rejects a tenth more or less noise.
Audits: false alarms at most 1e-6.
"""

from __future__ import annotations

import math
from dataclasses import replace

import discovery_law as law
import numpy as np
import pytest
from seeded_noise import SeededNoise
from share import cases

from vestry.audit import audit
from vestry.errors import GuaranteeUnreachable
from vestry.mechanisms.additive_noise import GAUSSIAN, LAPLACE, ROUNDED_GAUSSIAN
from vestry.mechanisms.level_threshold import LevelThreshold, calibrate_threshold
from vestry.noise import SystemNoise
from vestry.privacy import accountant
from vestry.privacy.guarantee import ZCDP, ApproxDP, GaussianDP, PureDP, RenyiDP
from vestry.privacy.neighbours import Adjacency
from vestry.schema.private import PrivateCounts

EVENTS = {LAPLACE: "laplace", ROUNDED_GAUSSIAN: "rounded-gaussian", GAUSSIAN: "gaussian"}


class Leave:
    """A leave to draw without a ledger."""

    def take(self) -> None: ...


def made(noise=LAPLACE, guarantee="epsilon=1,delta=0.01", values=1, least=1) -> LevelThreshold:
    asked = ApproxDP.parse(guarantee)
    return calibrate_threshold(noise, Adjacency("add-remove"), asked, values=values, least=least, of="records")


def released(mechanism: LevelThreshold, counts: dict[str, int], noise) -> dict[str, int]:
    (found,) = mechanism.release(PrivateCounts(counts.items()), Leave(), noise)
    return dict(zip(found.names, found.values, strict=True))


def run(mechanism: LevelThreshold, counts: tuple[int, ...], noise, trials: int) -> np.ndarray:
    """Release the same counts many times; what is not shown is 0, and a value that nobody holds is not there."""
    held = {f"{trial} {value}": n for trial in range(trials) for value, n in enumerate(counts) if n}
    outputs = np.zeros((trials, len(counts)))
    for name, z in released(mechanism, held, noise).items():
        trial, value = map(int, name.split())
        outputs[trial, value] = z
    return outputs


# --- calibration ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", [0.001, 0.01, 0.3, 1.0, 4.0])
@pytest.mark.parametrize("delta", [1e-12, 1e-6, 1e-3])
def test_the_margin_is_the_published_one(epsilon, delta):
    """One value of each unit: k = ceil(log((e^epsilon + 2 delta - 1)/((e^epsilon + 1) delta))/epsilon)."""
    k = math.ceil(math.log((math.expm1(epsilon) + 2 * delta) / ((math.exp(epsilon) + 1) * delta)) / epsilon)
    mechanism = made(guarantee=f"epsilon={epsilon},delta={delta}")
    assert (mechanism.margin, mechanism.threshold) == (k, k + 1)


@pytest.mark.parametrize("noise", EVENTS)
@pytest.mark.parametrize("values", [1, 2, 7, 40])
@pytest.mark.parametrize("guarantee", ["epsilon=1,delta=1e-6", "epsilon=0.2,delta=1e-9"])
def test_what_is_calibrated_is_met_and_one_less_is_not(noise, values, guarantee):
    mechanism = made(noise, guarantee, values)
    assert accountant.meets(mechanism.event, mechanism.guarantee)
    lower = replace(mechanism, margin=mechanism.margin - 1)
    assert not accountant.meets(lower.event, lower.guarantee)
    less_noise = replace(mechanism, scale=mechanism.scale * (1 - 1e-6))
    assert noise == LAPLACE or not accountant.meets(less_noise.event, less_noise.guarantee)
    assert accountant.pure(mechanism.event) <= mechanism.guarantee.epsilon or noise != LAPLACE


def test_gaussian_noise_has_the_lower_threshold_for_many_values():
    thresholds = {values: [made(n, "epsilon=1,delta=1e-6", values).threshold for n in EVENTS] for values in (1, 2, 20)}
    assert thresholds[1][0] < thresholds[1][1]
    assert thresholds[2][0] < thresholds[2][1]
    assert thresholds[20][0] > 2 * thresholds[20][1]
    # The exact price of rounded normals is below that of discrete ones by zCDP.
    assert all(rounded < discrete for _, rounded, discrete in thresholds.values())


@pytest.mark.parametrize("asked", [PureDP(1), ZCDP(1), GaussianDP(1), RenyiDP(2, 1)], ids=str)
@pytest.mark.parametrize("noise", EVENTS)
def test_a_guarantee_without_delta_is_refused(noise, asked):
    with pytest.raises(GuaranteeUnreachable, match=r"only \(epsilon, delta\) allows that; write for example spend"):
        calibrate_threshold(noise, Adjacency("replace"), asked, values=1, least=1, of="records")


def test_a_threshold_beyond_all_counts_is_refused():
    with pytest.raises(GuaranteeUnreachable, match=r"spend more: the threshold would be above 2\^50"):
        made(guarantee="epsilon=1e-17,delta=1e-6")


# --- draws ------------------------------------------------------------------------------------------------------------


def differs(found: np.ndarray, expected: law.Law) -> bool:
    """Tell whether outputs are not of a law: some frequency is more than six standard errors off."""
    total = len(found)
    for outcome, chance in expected.items():
        p, hits = float(chance), np.count_nonzero(found == (outcome or 0))
        if abs(hits - total * p) > 6 * math.sqrt(total * p * (1 - p)) + 12:
            return True
    return False


@pytest.mark.statistical
@pytest.mark.parametrize("noise", EVENTS)
@pytest.mark.parametrize("count", cases([1, 4, 30], quick=[4]))
@pytest.mark.parametrize("least", [1, 3])
def test_what_is_shown_has_its_law(noise, count, least):
    """Of the package's noise: the probability of every output as it is written out; of a tenth more it is not."""
    mechanism = replace(made(noise, "epsilon=0.8,delta=0.02", least=least), scale=1.5, margin=5)
    trials = 80_000 if count == 30 else 20_000
    found = run(mechanism, (count,), SystemNoise(), trials)[:, 0]
    written = law.NOISES[EVENTS[noise]]
    expected = law.shown(count, written(1.5, 5), 5 + least, least=least)
    assert not differs(found, expected)
    if count == 30:
        assert differs(found, law.shown(count, written(1.65, 5), 5 + least))
    assert mechanism.probability_shown(count) == pytest.approx(float(1 - expected[None]), abs=1e-9)


def test_found_is_the_law_at_every_count():
    for noise, event_name in EVENTS.items():
        written = law.NOISES[event_name]
        mechanism = replace(made(noise, "epsilon=0.5,delta=1e-4", least=2), scale=2.0, margin=12)
        for count in range(40):
            expected = 1 - law.shown(count, written(2.0, 12), 14, least=2)[None]
            assert mechanism.probability_shown(count) == pytest.approx(float(expected), abs=1e-9)
    assert replace(mechanism, scale=50.0, margin=300).probability_shown(302) == pytest.approx(0.504, abs=1e-3)


def test_nothing_below_least_or_not_there_is_ever_shown():
    mechanism = replace(made(least=6), margin=2)
    for seed in range(30):
        shown = released(mechanism, {"few": 5, "enough": 6, "many": 40}, SeededNoise(seed))
        assert "few" not in shown
        assert all(z >= 8 for z in shown.values())
        assert list(shown.values()) == sorted(shown.values(), reverse=True)
    assert released(mechanism, {}, SeededNoise(1)) == {}


def test_noise_is_drawn_in_batches_and_none_beyond_the_margin(monkeypatch):
    monkeypatch.setattr("vestry.mechanisms.level_threshold._BATCH", 7)
    mechanism = replace(made(), scale=4.0, margin=5)
    shown = released(mechanism, {f"v{place}": 1000 for place in range(500)}, SeededNoise(4))
    assert len(shown) == 500
    assert {abs(z - 1000) for z in shown.values()} == set(range(6))


# --- attacks ----------------------------------------------------------------------------------------------------------

PAIRS = {"a value begins to occur": ((0,), (1,)), "one more holds it": ((40,), (41,))}
TWO = {"two begin to occur": ((0, 0), (1, 1)), "a record goes to another value": ((40, 41), (41, 40))}


class TooLow(LevelThreshold):
    """The planted mistake: the same noise, shown from one less on."""

    @property
    def threshold(self) -> int:
        return super().threshold - 1


@pytest.mark.statistical
@pytest.mark.long
@pytest.mark.parametrize("noise", EVENTS)
@pytest.mark.parametrize(("values", "pairs"), [(1, PAIRS), (2, TWO)])
def test_the_threshold_is_not_refuted(noise, values, pairs):
    mechanism = made(noise, "epsilon=1,delta=0.02", values)
    for where, pair in pairs.items():
        how = {"source": SystemNoise(), "trials": 40_000, "where": where}
        verdict = audit(lambda data, source, n: run(mechanism, data, source, n), pair, mechanism.event, **how)
        assert not verdict.refuted, where


@pytest.mark.statistical
@pytest.mark.long
@pytest.mark.parametrize("noise", EVENTS)
@pytest.mark.parametrize(("values", "pairs"), [(1, PAIRS), (2, TWO)])
def test_a_threshold_one_too_low_is_refuted(noise, values, pairs):
    real = made(noise, "epsilon=1,delta=0.02", values)
    twin = TooLow(**vars(real))
    pair = next(iter(pairs.values()))
    claim = (real.event, real.guarantee)
    verdict = audit(
        lambda data, source, n: run(twin, data, source, n), pair, claim, source=SeededNoise(5), trials=400_000
    )
    assert verdict.refuted
    assert verdict.alarm <= 1e-6


@pytest.mark.statistical
@pytest.mark.long
def test_noise_for_one_value_where_a_unit_has_two_is_refuted():
    """A person with two values, or a record that is replaced, moves two counts: half of the noise is a breach."""
    real, twin = made(LAPLACE, "epsilon=1,delta=0.02", 2), made(LAPLACE, "epsilon=1,delta=0.02", 1)
    pair = TWO["a record goes to another value"]
    verdict = audit(
        lambda data, source, n: run(twin, data, source, n), pair, real.event, source=SeededNoise(6), trials=200_000
    )
    assert verdict.refuted


# --- kinds of noise ---------------------------------------------------------------------------------------------------


def weight(noise: str, k: int, scale: float) -> float:
    match noise:
        case "discrete-laplace":
            return math.exp(-k / scale)
        case "discrete-gaussian":
            return math.exp(-((k / scale) ** 2) / 2)
        case _:
            near, far = ((k + side) / scale / math.sqrt(2) for side in (-0.5, 0.5))
            return (math.erfc(near) - math.erfc(far)) / 2


@pytest.mark.oracle
@pytest.mark.parametrize("noise", EVENTS)
@pytest.mark.parametrize("scale", [1.5, 4.0])
def test_the_deviation_is_that_of_noise_that_is_not_truncated(noise, scale):
    weights = [weight(noise, k, scale) for k in range(300)]
    squares = 2 * sum(k * k * own for k, own in enumerate(weights))
    expected = math.sqrt(squares / (weights[0] + 2 * sum(weights[1:])))
    assert replace(made(noise), scale=scale).deviation == pytest.approx(expected, rel=1e-9)


class Spy(SeededNoise):
    """Notes which noise is drawn, and adds a constant of each kind."""

    def __init__(self) -> None:
        super().__init__(1)
        self.drawn = []

    def discrete_laplace(self, values, *, scale):
        self.drawn.append((LAPLACE, len(values), scale))
        return [value + 1 for value in values]

    def discrete_gaussian(self, values, *, scale):
        self.drawn.append((GAUSSIAN, len(values), scale))
        return [value + 2 for value in values]

    def rounded_gaussian(self, values, *, scale):
        self.drawn.append((ROUNDED_GAUSSIAN, len(values), scale))
        return [value + 3 for value in values]


@pytest.mark.parametrize(("noise", "added"), [(LAPLACE, 1), (GAUSSIAN, 2), (ROUNDED_GAUSSIAN, 3)])
def test_the_noise_that_is_charged_is_drawn_once_for_each_value(noise, added):
    mechanism = replace(made(noise, least=2), scale=2.5, margin=4)
    spy = Spy()
    # The threshold is 6; a value that one holds takes no part, whatever its noise.
    counts = {"one": 1, "below": 5 - added, "at": 6 - added, "b": 20, "a": 20, "most": 30}
    shown = released(mechanism, counts, spy)
    held = [name for name, count in counts.items() if count >= 2]
    assert spy.drawn == [(noise, len(held), 2.5)]
    assert list(shown.items()) == [("most", 30 + added), ("a", 20 + added), ("b", 20 + added), ("at", 6)]
    mechanism.rehearse(spy)
    assert spy.drawn[1:] == [(noise, 1, 2.5)]


class Drawn(SeededNoise):
    """Laplace noise that is these numbers, in order."""

    def __init__(self, *numbers: int) -> None:
        super().__init__(1)
        self.numbers = list(numbers)

    def discrete_laplace(self, values, *, scale):
        return [value + self.numbers.pop(0) for value in values]


def test_laplace_noise_at_the_margin_stays_and_beyond_it_is_drawn_again():
    mechanism = replace(made(), scale=2.0, margin=4)
    noise = Drawn(4, -4, 5, -5, 7, 3, 0)  # the third and the fourth again: 7, which is beyond it too, and 3; then 0
    assert released(mechanism, dict.fromkeys("abcd", 10), noise) == {"a": 14, "d": 13, "c": 10, "b": 6}
    assert noise.numbers == []


def test_the_least_margin_is_1():
    mechanism = made(guarantee="epsilon=4,delta=0.3")
    assert mechanism.margin == 1
    assert accountant.meets(mechanism.event, mechanism.guarantee)


def test_a_margin_below_2_to_the_50_is_allowed_and_one_above_is_not():
    epsilon = 1e-15
    below, above = (epsilon / (2 * math.expm1(size * epsilon)) for size in (2**49.95, 2**50.5))
    assert 2**49 < made(guarantee=f"epsilon={epsilon},delta={below:.6g}").margin < 2**50
    with pytest.raises(GuaranteeUnreachable, match=r"above 2\^50"):
        made(guarantee=f"epsilon={epsilon},delta={above:.6g}")


@pytest.mark.parametrize("noise", EVENTS)
def test_what_fewer_than_are_looked_at_hold_is_never_shown(noise):
    mechanism = replace(made(noise, least=3), scale=5.0, margin=6)
    assert mechanism.probability_shown(2) == 0
    assert mechanism.probability_shown(3) > 0.01


@pytest.mark.parametrize("count", [20, 250, 302, 550])
def test_laplace_noise_of_a_large_scale_is_not_taken_for_normal(count):
    mechanism = replace(made(), scale=50.0, margin=300)
    weights = {k: math.exp(-abs(k) / 50) for k in range(-300, 301)}
    shown = sum(own for k, own in weights.items() if count + k >= 301)
    assert mechanism.probability_shown(count) == pytest.approx(shown / sum(weights.values()), rel=1e-9)
