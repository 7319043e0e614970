"""How a release is read: what a model hands the posterior's facade, found by the name that the release bears."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar, NoReturn

import numpy as np

from vestry.errors import ExtremeNumbers, InvalidParameter, VestryError
from vestry.numerics import Array
from vestry.posterior.mixture import PosteriorDistribution
from vestry.posterior.noisy_data import SUMS, NoisyData, noisy_data
from vestry.registry import AVERAGES, MODELS
from vestry.releases import Draws, NoisyStatistics, Release
from vestry.validation import require_numbers

NOISE_AWARE, PLUG_IN, DRAWS, POOLED = "noise-aware", "plug-in", "released draws", "pooled noise-aware"
# What an interval says that does not have its nominal coverage.
NOT_CALIBRATED = "not calibrated"
# How intervals are made, by the posterior's label; another label says it itself.
_INTERVALS = {
    NOISE_AWARE: "noise summed out",
    PLUG_IN: f"plug-in: {NOT_CALIBRATED}",
    POOLED: "noise and population summed out",
    DRAWS: "no interval: released draws",
}


@dataclass(frozen=True, eq=False)
class ReleasedDraws:
    """The k draws that a mechanism released. They are all there is: no distribution, and no interval.

    Attributes
    ----------
    values
        The draws, one per row.
    regression
        How a regression's coefficients were released (see `Coefficients`); None for other models.
    """

    values: Array
    regression: str | None = None

    @property
    def dimension(self) -> int:
        """How many numbers a draw has."""
        return int(self.values.shape[1])

    def marginal(self, index: int) -> NoReturn:
        """Refuse: draws are not a distribution."""
        instead = (
            "release noisy statistics (laplace or gaussian) for a posterior that has intervals"
            if self.regression is None
            else "read the coefficients themselves, by sample()"
        )
        raise VestryError(
            f"there is no interval from {self._subject}, which {self._verb} that was released, and more would cost"
            f" more; {instead}."
        )

    def draw(self, rng: np.random.Generator | None, size: int) -> Array:
        """Return the first released draws; the generator is not used."""
        if size > len(self.values):
            instead = ", or release noisy statistics (laplace or gaussian)" if self.regression is None else ""
            raise VestryError(
                f"{size} draws cannot be had: {self._subject} {self._verb} there is; ask for no more{instead}."
            )
        return self.values[:size]

    @property
    def _subject(self) -> str:
        thing = "released draw" if self.regression in (None, "posterior") else "noisy estimate"
        return f"one {thing}" if len(self.values) == 1 else f"{len(self.values)} {thing}s"

    @property
    def _verb(self) -> str:
        return "is all" if len(self.values) == 1 else "are all"


@dataclass(frozen=True, eq=False)
class ReadRelease:
    """What a reader makes of a release: distributions by group, what they are called, and by what they are grouped."""

    reader: Reader
    distributions: Mapping[str, PosteriorDistribution]
    label: str
    by: str | None


class Reader:
    """A model's release with a prior. What a model does not have is refused here.

    Attributes
    ----------
    parameter
        What the parameter is called.
    parameters
        The names of its numbers, where they are of different kinds.
    display
        Which part of a report shows it: `parameters`, `coefficients`, `states`, `quality` or `levels`.
    note
        What a report says of how records were read.
    prior_words
        What is known of a group before its own records: the prior, or the population that it comes from; empty where
        nothing of the kind is used.
    released_words
        What released sums of numbers are of.
    has_statistics
        Whether the model may release noisy statistics.
    sampled
        Whether draws are computed once, and asked for as they are.
    has_table
        Whether it is of a table of several columns, from which more follows.
    has_bins
        Whether it is of ordered bins, so that there is a distribution function (`binned`).
    label
        What its posterior is called, where it is not a plug-in.
    average_words
        What is averaged, and taken as independent, where a unit has several rows.
    data_kind
        Of which kind its noisy numbers are; see `vestry.posterior.noisy_data`.
    """

    parameter: Any
    parameters: Any = ()
    display: ClassVar[str] = "parameters"
    has_statistics: ClassVar[bool] = True
    note: Any = ""
    prior_words: ClassVar[str] = "prior"
    released_words: ClassVar[str] = "Sums are in the units of the column, counted from the middle of its interval."
    sampled: ClassVar[bool] = False
    has_table: ClassVar[bool] = False
    has_bins: ClassVar[bool] = False
    label: ClassVar[str] = NOISE_AWARE
    data_kind: ClassVar[str] = SUMS
    average_words: ClassVar[str] = (
        "Each row counts once. The interval takes a person's rows as independent: it is too short where they are alike."
    )

    @property
    def dimension(self) -> int:
        """How many numbers a parameter has."""
        raise NotImplementedError

    def read(self, release: Release, method: str, options: Mapping[str, Any], *, other_prior: bool) -> ReadRelease:
        """Compute the posterior of each group; `other_prior` tells that the prior is not the release's own."""
        if options:
            raise InvalidParameter(
                "options", sorted(options), "options of this model, which has none", "no such option"
            )
        if not any(isinstance(content, Draws) for content in release.contents.values()):
            with refuse_extremes():
                return self.read_statistics(release, method)
        if other_prior or method == PLUG_IN:
            instead = ", or release noisy statistics" if self.has_statistics else ""
            raise InvalidParameter(
                "a posterior of released draws",
                "another one",
                "the one that was drawn from",
                f"no prior and no plug-in{instead}",
            )
        with refuse_extremes():
            draws = {group: self._released(content) for group, content in release.contents.items()}
        return ReadRelease(self, draws, DRAWS, release.by)

    def read_statistics(self, release: Release, method: str) -> ReadRelease:
        """Compute the posterior of each group from its noisy statistics; groups with the same ones share it."""
        make: Any = self.noise_aware if method == NOISE_AWARE else self.plug_in
        label = self.label if method == NOISE_AWARE else method
        distributions = {each: make(each) for each in dict.fromkeys(release.contents.values())}
        groups = {group: distributions[each] for group, each in release.contents.items()}
        return ReadRelease(self, groups, label, release.by)

    def _released(self, content: Any) -> ReleasedDraws:
        values = np.array(content.values, dtype=float).reshape(len(content.values), -1)
        if values.shape[1] != self.dimension:
            raise ExtremeNumbers
        return self.released(values)

    def released(self, values: Array) -> ReleasedDraws:
        """Return the draws that were released."""
        return ReleasedDraws(values)

    def noise_aware(self, statistics: NoisyStatistics) -> PosteriorDistribution:
        """Return the posterior, the noise summed out."""
        raise NotImplementedError

    def plug_in(self, statistics: NoisyStatistics) -> PosteriorDistribution:
        """Return the posterior that takes the statistics as exact."""
        raise NotImplementedError

    def combined(self, contents: Sequence[NoisyStatistics], *, same_people: bool) -> PosteriorDistribution:
        """Return the posterior from what several releases hold of one group; refused for other models."""
        allowed = "asked of proportions, categories, means, rates, counts, tables and moments"
        raise InvalidParameter("combine", self.parameter, allowed, "each release by itself")

    def noisy_data(self, release: Release) -> NoisyData:
        """Return what the release holds, as data for any model."""
        return noisy_data(release, self.data_kind)

    def predict(self, theta: Array, size: int, rng: np.random.Generator) -> Array:
        """Draw what `size` new records would give, once for each row of parameters; refused by regressions."""
        raise InvalidParameter("predict", self.parameter, "asked for given predictors", "predict_at")

    def noise_on_estimate(self, content: NoisyStatistics, mean: float, index: int) -> float | None:
        """Return the noise's standard deviation on one parameter, to first order; None where there is no formula."""
        return None

    def before(self) -> PosteriorDistribution:
        """Return the prior: the posterior of no records at all."""
        zeros = max(2, self.dimension) if self.parameter == "probability" else self.dimension + 1
        names = tuple(str(place) for place in range(zeros))
        return self.plug_in(NoisyStatistics(names, (0,) * zeros, "discrete-laplace", 1.0))

    def interval_method(self, label: str, *, several_rows: bool) -> str:
        """Say in a few words how the intervals of a posterior of this label are made, and if they are not calibrated.

        `several_rows` tells that a unit may have several, which the model takes as independent.
        """
        return _plain_method(label, several_rows=several_rows)

    def answer(self, calibrated: Any) -> str:
        """Say what kind of answer draws are, given their mechanism or certificate; nothing where it is plain."""
        return ""

    def widths_of(self, *, of_draws: bool) -> tuple[str, ...]:
        """Say what the widths of a forecast are of: what the release will have, or that it has no interval."""
        return ("range of a draw (no interval)" if of_draws else f"interval of the {self.parameter}",)

    def remark(self, distribution: Any, index: int) -> str:
        """Say what is wrong with the interval of one of a group's parameters; nothing if all is well."""
        return ""

    def read_pooled(self, release: Release) -> ReadRelease:
        """Compute the posterior of groups that learn from each other; refused for other models."""
        raise InvalidParameter("pool", self.parameter, "asked of proportions, means and rates by group", "no pool")

    def population(self) -> dict[str, Array]:
        """Return what pooled groups have in common; refused for others."""
        raise InvalidParameter("population", "no pool", "asked of pooled groups", "posterior(pool=True)")

    def draw_groups(
        self, distributions: Mapping[str, Any], names: Sequence[str], size: int, rng: np.random.Generator
    ) -> dict[str, Array]:
        """Return draws of these groups; they are independent unless a model says otherwise."""
        return {name: distributions[name].draw(rng, size) for name in names}

    def joint(self, tables: dict[str, Array], rng: np.random.Generator) -> dict[str, Array]:
        """Return draws of several groups that belong together; they are independent unless a model says otherwise."""
        return tables

    def outer(self, draws: Array) -> tuple[Array, Array]:
        """Return how low and how high each draw leaves its number: as it is, unless a model leaves it open."""
        return draws, draws

    def binned(self, distribution: Any) -> Any:
        """Return the probabilities of ordered bins; refused for other models."""
        raise InvalidParameter("bins", self.parameter, "asked of numbers in bins", 'model = "histogram"')

    def classify(self, records: Any, posterior: Any) -> Any:
        """Return the predictive probability of each class; refused for other models."""
        raise InvalidParameter("classify", self.parameter, "asked of naive Bayes", "a model of classes")

    def at_point(self, distribution: Any, point: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
        """Return by outcome its mean (probability) at given predictors, and that of a new record or None.

        Refused for other models.
        """
        raise InvalidParameter("predict_at", self.parameter, "asked of a regression with intervals", "model linear")

    def at_rows(self, distribution: Any, frame: Any) -> dict[str, Array]:
        """Return mean and standard deviation of the mean outcome, by record; refused for other models."""
        raise InvalidParameter("predict_at", self.parameter, "asked of a regression with intervals", "model linear")

    def fit_check(self, distribution: Any) -> tuple[Any, ...]:
        """Return how each cell of a table fits; refused for other models."""
        raise InvalidParameter("fit_check", self.parameter, "asked of a regression by table", 'method = "table"')

    def difference(self, distribution: Any, a: str, b: str) -> Any:
        """Return the difference of two coefficients; refused for other models."""
        raise InvalidParameter("a contrast", "a release without groups", "between two groups", "a release with by")

    def log_evidence(self, distribution: Any, predictors: Any) -> float:
        """Return the log marginal likelihood of a smaller model; refused for other models."""
        raise InvalidParameter("compare", self.parameter, "asked of a regression by moments", "model linear")

    def is_ready(self, distributions: Any) -> bool:
        """Tell whether the distributions are computed, and not sampled when they are first looked at."""
        return True

    def joint_table(self, draws: Array, interval_method: str, distribution: Any) -> Any:
        """Return joint draws with the shape of a table of several columns; refused for other models."""
        raise InvalidParameter("table", self.parameter, "asked of a table of several columns", 'model = "table"')

    def findings(self, distributions: Mapping[str, Any]) -> tuple[Any, ...]:
        """Return which columns do not fit what is declared of them; nothing for models that do not look."""
        return ()

    def state_map(self, distributions: Any) -> Any:
        """Return the map of hidden states; refused for other models."""
        raise InvalidParameter("states", self.parameter, "asked of a model of hidden states", "model hmm")

    def variables(self, posterior: Any, rng: np.random.Generator, chains: int, draws: int) -> Any:
        """Return the variables of a tree of draws, as (values with chain and draw, dimensions), and coordinates.

        None for the one variable that every other model has.
        """
        return None


def _plain_method(label: str, *, several_rows: bool) -> str:
    if several_rows and label in (NOISE_AWARE, POOLED):
        return f"{_INTERVALS[label]}, rows as independent: {NOT_CALIBRATED}"
    return _INTERVALS.get(label, label)


def edge_method(label: str, *, several_rows: bool) -> str:
    """Say how intervals of quantiles are made: they reach to the edges of bins, and hold the truth more often."""
    method = _plain_method(label, several_rows=several_rows)
    return method if NOT_CALIBRATED in method else f"{method}, to the edges of bins: conservative"


def reader_of(family: Mapping[str, Any], prior: tuple[float, ...]) -> Reader:
    """Find the model that a release names, and read its release with a prior."""
    name = family.get("name")
    if not isinstance(name, str) or name not in MODELS:
        raise InvalidParameter("the release's family", name, "one of " + ", ".join(MODELS), "one of these")
    average = family.get("average")
    if average is not None and (not isinstance(average, str) or average not in AVERAGES):
        raise InvalidParameter("the release's average", average, "one of " + ", ".join(AVERAGES), "the original file")
    model = MODELS[name] if average is None else AVERAGES[average]
    numbers = require_numbers("prior", prior, "for example prior=(2, 2)")
    try:
        reader: Reader = model.reader(family, numbers)
    except InvalidParameter as error:
        if isinstance(error.given, tuple) and error.given == numbers:  # shown as it was given
            raise InvalidParameter(error.name, prior, error.allowed, error.instead) from None
        raise
    return reader


_ARITHMETIC: dict[str, Any] = {"over": "ignore", "under": "ignore", "divide": "raise", "invalid": "raise"}


@contextmanager
def refuse_extremes() -> Iterator[None]:
    """Turn what arithmetic raises into a sentence: a release or a prior may hold numbers of any size.

    A number that overflows is infinite, and one that underflows is 0; what is undefined is an error of arithmetic.
    Every other error or warning is a bug, and passes.
    """
    try:
        with np.errstate(**_ARITHMETIC):
            yield
    except (FloatingPointError, OverflowError, ZeroDivisionError, np.linalg.LinAlgError) as error:
        raise ExtremeNumbers from error
