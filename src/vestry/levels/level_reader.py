"""How a release of discovered values is read: each value with the distribution of how many hold it.

    p(N | z) ~ P(noise = z - N),  N = least, least + 1, ...,

every count equally probable before, as for any count (`vestry.tables`). A value was shown because its noisy count
reached the threshold, which z itself says, so the posterior is the same as without a threshold. The intervals hold the
counts of values in 9 of 10 cases where counts are spread over many scales of the noise; of the values that few hold
hardly any is shown, and of those that are the count is overestimated: see `LevelReader.remark`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np

from vestry.errors import InvalidParameter
from vestry.mechanisms.level_threshold import probability_found
from vestry.numerics import Array
from vestry.posterior.discrete_noise import Laplace, noise_of
from vestry.posterior.noisy_data import NoisyData
from vestry.posterior.reader import NOISE_AWARE, Reader, ReadRelease
from vestry.posterior.whole_number import WholeNumber, whole_number
from vestry.releases import NoisyStatistics, Release

# Which values are named when it is said how often one is found: by the probability.
_SELDOM, _HALF, _NEARLY = 0.01, 0.5, 0.99
_KEY = re.compile("[A-Za-z0-9_-]+")


@dataclass(frozen=True)
class LevelReader(Reader):
    """How a release of values is read.

    Attributes
    ----------
    column
        Whose values they are.
    of
        What was counted: `records` or `persons`.
    least
        Values that fewer hold were not looked at.
    margin
        The noise that shows a value which `least` hold; Laplace noise is no larger.
    noise, scale
        Its distribution, once a release was read.
    """

    column: str
    of: str
    least: int
    margin: int
    noise: str = "discrete-laplace"
    scale: float = 1.0

    parameter = "count"
    display: ClassVar[str] = "levels"
    prior_words: ClassVar[str] = ""
    dimension = 1
    average_words: ClassVar[str] = ""

    @property
    def threshold(self) -> int:
        """The least noisy count that is shown."""
        return self.least + self.margin

    @property
    def note(self) -> str:
        """Say what is shown."""
        hidden = _hidden_words(self.of, self.least)
        return f"The values are texts from the records, as they stand there. {hidden.capitalize()}."

    def read_statistics(self, release: Release, method: str) -> ReadRelease:
        """Compute the distribution of how many hold each value: the values are the groups."""
        statistics = release.contents["all"]
        assert isinstance(statistics, NoisyStatistics)  # noqa: S101 - the schema has seen to it
        distributions = self.counts(statistics) if method == NOISE_AWARE else self._plugged(statistics)
        reader = replace(self, noise=statistics.noise, scale=statistics.scale)
        return ReadRelease(reader, distributions, method, self.column)

    def counts(self, statistics: NoisyStatistics) -> dict[str, WholeNumber]:
        """Return the distribution of each count, the noise summed out; equal noisy counts share it."""
        bound = self.margin if isinstance(noise_of(statistics), Laplace) else None
        distributions = {z: whole_number(z, statistics, least=self.least, bound=bound) for z in set(statistics.values)}
        return {name: distributions[z] for name, z in zip(statistics.names, statistics.values, strict=True)}

    def _plugged(self, statistics: NoisyStatistics) -> dict[str, WholeNumber]:
        pairs = zip(statistics.names, statistics.values, strict=True)
        return {name: WholeNumber(np.array([float(max(self.least, z))]), np.ones(1)) for name, z in pairs}

    def noisy_data(self, release: Release) -> NoisyData:
        """Refuse: which values are shown depends on their noise."""
        allowed = "one whose numbers are all released: values below the threshold are not"
        raise InvalidParameter("a release", "values that occur", allowed, "a count by the levels that were found")

    def predict(self, theta: Array, size: int, rng: np.random.Generator) -> Array:
        """Refuse: values that occur say nothing of new records."""
        raise InvalidParameter("predict", "values that occur", "asked of a model of records", "declare them as levels")

    def noise_on_estimate(self, content: NoisyStatistics, mean: float, index: int) -> float:
        """Return the noise's standard deviation."""
        return float(noise_of(content).deviation)

    def interval_method(self, label: str, *, several_rows: bool) -> str:
        """Say that intervals are the shortest ones; rows need not be independent, as nothing is inferred from them."""
        method = super().interval_method(label, several_rows=False)
        return f"{method}, shortest interval" if label == NOISE_AWARE else method

    def remark(self, distribution: Any, index: int) -> str:
        """Say that a count near the threshold may be smaller: of many values that few hold the noisiest are shown."""
        low, _ = distribution.interval(_REMARKED)
        return "near the threshold: it may be smaller" if low < self.threshold else ""

    @property
    def finding(self) -> str:
        """Say how often a value is found, by how many hold it."""
        probability = partial(probability_found, self.noise, self.scale, self.margin)
        return found_words(lambda count: probability(count - self.least + 1), self.threshold, self.of)

    def declaration(self, values: Any) -> str:
        """Return the line that declares these values as the levels of the column, as a study file writes it."""
        key = self.column if _KEY.fullmatch(self.column) else quoted(self.column)
        return f'{key} = {{ levels = [{", ".join(map(quoted, values))}], missing = "level" }}'


_REMARKED = 0.9


def quoted(text: str) -> str:
    """Return a text as a study file writes it; what cannot be printed is escaped."""
    return '"' + "".join(_SPELLED.get(each) or (each if each.isprintable() else _escape(each)) for each in text) + '"'


_SPELLED = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def _escape(mark: str) -> str:
    return f"\\u{ord(mark):04X}" if ord(mark) < 2**16 else f"\\U{ord(mark):08X}"


def shown_words(of: str, least: int) -> str:
    """Say what is shown, and what never is."""
    return f"texts from the records are shown; {_hidden_words(of, least)}"


def _hidden_words(of: str, least: int) -> str:
    never = f"none that fewer than {least} {of} hold is shown, and " if least > 1 else ""
    return f"{never}how many values are not shown is not told"


def found_words(probability: Callable[[int], float], threshold: int, of: str) -> str:
    """Say which values are found how often, from the probability for each count."""
    seldom, half, nearly = (_first(probability, chance, threshold) for chance in (_SELDOM, _HALF, _NEARLY))
    few = f", by {seldom - 1} or fewer below {_SELDOM:g}" if seldom > 1 else ""
    return (
        f"a value that {half} {of} hold is found with probability {probability(half):.2f}, one held by {nearly} or more"
        f" with at least {_NEARLY:g}{few}"
    )


def _first(probability: Callable[[int], float], chance: float, start: int) -> int:
    """Return the least count that is found with this probability."""
    low, high = 0, max(1, start)
    while probability(high) < chance:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if probability(middle) >= chance else (middle, high)
    return high


def level_reader(described: Mapping[str, Any], prior: tuple[float, ...]) -> LevelReader:
    """Read what a release says of itself; there is no prior to choose."""
    if prior:
        raise InvalidParameter("prior", prior, "omitted for values that occur", "no prior")
    return LevelReader(*(described[key] for key in ("column", "of", "least", "margin")))
