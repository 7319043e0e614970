"""Which values occur: noise on the count of each, and a threshold below which nothing is shown.

The only release that consists of texts from the records. Its price and the proof: `vestry.privacy.discovery_cost`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np
from scipy.special import ndtr

from vestry.errors import GuaranteeUnreachable
from vestry.ledger import OpenCharge
from vestry.mechanisms.additive_noise import GAUSSIAN, LAPLACE, MECHANISM_OF, ROUNDED_GAUSSIAN, rounded_normal_deviation
from vestry.noise import NoiseSource
from vestry.numerics import exact, outward, ratio_up, smallest, up
from vestry.privacy import accountant
from vestry.privacy.event import Event
from vestry.privacy.guarantee import ApproxDP, Guarantee
from vestry.privacy.neighbours import Adjacency
from vestry.privacy.pricing import event
from vestry.releases import NoisyStatistics
from vestry.schema.private import PrivateCounts, reveal_counts

THEOREMS = {
    LAPLACE: "Noise P(k) ~ exp(-|k|/scale), |k| <= margin, on each count of a value that occurs, shown from margin + 1"
    " on: v counts that one unit moves by 1 are (v/scale, 1 - (1 - P(k = margin))^v)-DP [DesfontainesVGM22;"
    " KairouzOV15].",
    ROUNDED_GAUSSIAN: "Noise round(N(0, scale^2)) on each count of a value that occurs, shown from margin + 1 on: v"
    " counts that one unit moves by 1 are (sqrt(v)/scale)-GDP except with probability 1 - (1 - P(k >= margin))^v"
    " [DongRS22, Cor. 3.3].",
    GAUSSIAN: "Noise P(k) ~ exp(-k^2/(2 scale^2)) on each count of a value that occurs, shown from margin + 1 on: v"
    " counts that one unit moves by 1 are v/(2 scale^2)-zCDP except with probability 1 - (1 - P(k >= margin))^v"
    " [CanonneKS20, Thm 14; BunS16, Lemma 8.2].",
}
THRESHOLD = "threshold"
_KINDS = {
    LAPLACE: "discovery-laplace",
    ROUNDED_GAUSSIAN: "discovery-rounded-gaussian",
    GAUSSIAN: "discovery-gaussian",
}
_ONLY = (
    "a value that one unit alone holds may be shown, and only (epsilon, delta) allows that; write for example"
    " spend = { epsilon = 0.5, delta = 1e-7 }"
)
# Which part of delta a Gaussian threshold gets at first; counts whose noise is drawn at once; the largest margin; the
# largest scale at which probabilities are summed for words.
_SHARE, _BATCH, _FURTHEST, _SUMMED = 0.25, 100_000, 2**50, 30.0


@dataclass(frozen=True)
class LevelThreshold:
    """Noise on the count of every value that occurs; those that reach the threshold are shown with their noisy counts.

    Attributes
    ----------
    noise, scale
        The distribution of the noise; Laplace noise is truncated at the margin.
    margin
        The noise that shows a value which as few hold as are looked at.
    values
        How many counts one unit moves, each by at most 1.
    least
        Values that fewer hold are never looked at, whatever the noise says.
    of
        What is counted: `records` or `persons`.
    adjacency, guarantee
        Which neighbours are hidden, and what was asked for.

    Privacy
    -------
    Laplace: (values/scale)-DP except with a probability that the margin makes small enough; exact. Gaussian:
    (sqrt(values)/scale)-GDP, and discrete Gaussian: values/(2 scale^2)-zCDP, except with such a probability. See
    `vestry.privacy.discovery_cost`. A `least` above 1 subtracts least - 1 from every count that is at least that, and
    1 from none: one unit still moves each by 1 at most.
    """

    noise: str
    scale: float
    margin: int
    values: int
    least: int
    of: str
    adjacency: Adjacency
    guarantee: Guarantee

    parameter = THRESHOLD

    @property
    def name(self) -> str:
        """`laplace`, `gaussian` or `discrete-gaussian`."""
        return MECHANISM_OF[self.noise]

    @property
    def threshold(self) -> int:
        """The least noisy count that is shown."""
        return self.margin + self.least

    @property
    def value(self) -> float:
        """The threshold."""
        return float(self.threshold)

    @property
    def event(self) -> Event:
        """What runs."""
        return event_of(self.noise, self.scale, self.margin, self.values).under(self.adjacency.neighbours)

    charge = event  # the ledger is charged what runs

    @property
    def theorem(self) -> str:
        """The result that the claim rests on, and what is shown."""
        return f"{THEOREMS[self.noise]} What is shown are texts from the records, as they stand there."

    @property
    def deviation(self) -> float:
        """The standard deviation of the noise."""
        if self.noise == ROUNDED_GAUSSIAN:
            return rounded_normal_deviation(self.scale)
        if self.noise == GAUSSIAN:
            return self.scale
        return math.sqrt(2) * math.exp(-0.5 / self.scale) / -math.expm1(-1 / self.scale)

    def probability_shown(self, count: int) -> float:
        """Return the probability that a value of this count is shown."""
        return probability_found(self.noise, self.scale, self.margin, count - self.least + 1)

    def release(self, private: PrivateCounts, opened: OpenCharge, noise: NoiseSource) -> tuple[NoisyStatistics, ...]:
        """Add noise to every count, and return what reaches the threshold, the largest first."""
        opened.take()
        shown = sorted(self._shown(reveal_counts(private), noise), key=lambda each: (-each[1], each[0]))
        texts, counts = tuple(text for text, _ in shown), tuple(count for _, count in shown)
        return (NoisyStatistics(texts, counts, self.noise, self.scale),)

    def rehearse(self, noise: NoiseSource) -> tuple[NoisyStatistics, ...]:
        """Draw the noise of one count, and show no value."""
        self._noise(1, noise)
        return (NoisyStatistics((), (), self.noise, self.scale),)

    def _shown(self, counts: Iterator[tuple[str, int]], noise: NoiseSource) -> Iterator[tuple[str, int]]:
        """Yield the values that reach the threshold. One that fewer than `least` hold takes no part."""
        held = ((text, count) for text, count in counts if count >= self.least)
        while part := list(islice(held, _BATCH)):
            for (text, count), extra in zip(part, self._noise(len(part), noise), strict=True):
                if count + extra >= self.threshold:
                    yield text, count + extra

    def _noise(self, size: int, noise: NoiseSource) -> Sequence[int]:
        if self.noise == ROUNDED_GAUSSIAN:
            return noise.rounded_gaussian([0] * size, scale=self.scale)
        if self.noise == GAUSSIAN:
            return noise.discrete_gaussian([0] * size, scale=self.scale)
        draws = noise.discrete_laplace([0] * size, scale=self.scale)
        while beyond := [place for place, each in enumerate(draws) if abs(each) > self.margin]:
            again = noise.discrete_laplace([0] * len(beyond), scale=self.scale)
            for place, each in zip(beyond, again, strict=True):
                draws[place] = each
        return draws


def probability_found(noise: str, scale: float, margin: int, count: int) -> float:
    """Return P(count + X >= margin + 1): that a value is shown, its count taken from `least` on as 1."""
    if count < 1:
        return 0.0
    needed = margin + 1 - count
    if noise == ROUNDED_GAUSSIAN or (noise == GAUSSIAN and scale > _SUMMED):
        return float(ndtr((0.5 - needed) / scale))
    if noise == GAUSSIAN:
        points = np.arange(-math.ceil(40 * scale + 40), math.ceil(40 * scale + 41))
        weights = np.exp(-((points / scale) ** 2) / 2)
        return float(weights[points >= needed].sum() / weights.sum())
    if needed <= -margin:
        return 1.0
    half = _geometric(scale, 0, margin)
    above = _geometric(scale, needed, margin) if needed >= 0 else half - 1 + _geometric(scale, 0, -needed)
    return above / (2 * half - 1)


def _geometric(scale: float, low: int, high: int) -> float:
    """Return the sum of e^(-k/scale), k from low to high."""
    return math.exp(-low / scale) * math.expm1(-(high - low + 1) / scale) / math.expm1(-1 / scale)


def event_of(noise: str, scale: float, margin: int, values: int) -> Event:
    """Record the discovery of values."""
    return event(_KINDS[noise], scale=scale, margin=margin, values=values)


def calibrate_threshold(
    noise: str, adjacency: Adjacency, guarantee: Guarantee, *, values: int, least: int, of: str
) -> LevelThreshold:
    """Calibrate the least threshold that meets an (epsilon, delta); other guarantees are refused.

    Laplace: the scale is values/epsilon, so that the whole of delta is the threshold's. Gaussian: a part of delta is
    the threshold's, and then the scale is as small as the rest allows; the margin is within a few parts in a hundred of
    the best division.
    """
    bound = guarantee.under(adjacency.neighbours)
    if not isinstance(bound, ApproxDP):
        raise GuaranteeUnreachable(f"{guarantee} by showing which values occur", _ONLY)
    if noise == LAPLACE:
        scale, margin = _truncated(bound, values)
    else:
        scale, margin = _gaussian(noise, bound, values)
    if margin > _FURTHEST:
        raise GuaranteeUnreachable(f"{guarantee} by a threshold", "spend more: the threshold would be above 2^50")
    return LevelThreshold(noise, scale, margin, values, least, of, adjacency, bound)


def _truncated(guarantee: ApproxDP, values: int) -> tuple[float, int]:
    scale = up(values / exact(guarantee.epsilon))
    while ratio_up(values, scale) > exact(guarantee.epsilon):
        scale = math.nextafter(scale, math.inf)

    def fits(margin: int) -> bool:
        return accountant.meets(event_of(LAPLACE, scale, margin, values), guarantee)

    # Noise that is truncated far below its scale would be drawn again too often.
    return scale, _least(fits, max(1, math.ceil(scale / 16)))


def _gaussian(noise: str, guarantee: ApproxDP, values: int) -> tuple[float, int]:
    rest = ApproxDP(guarantee.epsilon, guarantee.delta * (1 - _SHARE))
    if noise == ROUNDED_GAUSSIAN:
        mu = accountant.largest_parameter(lambda x: event("gdp", mu=x), rest, tolerance=1e-6)
        scale = outward(math.sqrt(values) / mu)
    else:
        rho = accountant.largest_parameter(lambda x: event("zcdp", rho=x), rest, tolerance=1e-6)
        scale = outward(math.sqrt(values / (2 * rho)))

    def fits(scale: float, margin: int) -> bool:
        return accountant.meets(event_of(noise, scale, margin, values), guarantee)

    margin = _least(lambda each: fits(scale, each), math.ceil(scale) + 1)
    # The threshold is a whole number, and leaves a little of delta for less noise.
    return smallest(lambda each: fits(each, margin), low=scale / 2, high=scale, tolerance=1e-9), margin


def _least(fits: Callable[[int], bool], low: int) -> int:
    """Return the least whole number from `low` on that fits; one beyond the furthest margin if none does."""
    below, high = low - 1, low
    while not fits(high):
        below, high = high, 2 * high
        if high > 2 * _FURTHEST:
            return high
    while high - below > 1:
        middle = (below + high) // 2
        below, high = (below, middle) if fits(middle) else (middle, high)
    return high
