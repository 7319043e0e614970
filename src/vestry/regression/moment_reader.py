"""A release of noisy moments, read as a linear regression: its own, or any other among the released columns, free."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from vestry.errors import InvalidParameter, NoInterval, VestryError
from vestry.numerics import Array
from vestry.posterior.discrete_noise import Laplace, noise_of
from vestry.posterior.joined_noise import averaged, summed
from vestry.posterior.mixture import NormalMixture
from vestry.posterior.noisy_data import GRAM, NoisyData, noisy_data
from vestry.posterior.reader import NOISE_AWARE, Reader, ReadRelease, refuse_extremes
from vestry.posterior.records import column_numbers, level_places
from vestry.regression.moment_posterior import (
    LinearMap,
    LinearPosterior,
    linear_posterior,
    plug_in_posterior,
)
from vestry.regression.moments import Moments
from vestry.regression.released_gram import ReleasedGram
from vestry.releases import NoisyStatistics, Release
from vestry.schema.design_matrix import INTERCEPT
from vestry.validation import require_number

_BETWEEN = (
    "Each person is one record, her rows averaged: a coefficient is the slope between persons, which is that of rows"
    " only if persons with other predictors do not differ otherwise."
)
RESIDUAL_SD, R_SQUARED = "residual sd", "R squared"


@dataclass(frozen=True)
class MomentReader(Reader):
    """A linear regression among released columns.

    Attributes
    ----------
    moments
        The columns.
    outcome, predictors
        Which is explained by which.
    prior_precision
        1/variance of each coefficient's normal prior, on scaled columns.
    persons
        Whether a record is a person, her rows averaged.
    """

    moments: Moments
    outcome: str
    predictors: tuple[str, ...]
    prior_precision: float
    persons: bool = False

    parameter = "coefficient"
    display: ClassVar[str] = "moments"

    @property
    def note(self) -> str:
        """What the intervals rest on."""
        return (
            "Intervals take account of sampling and of the noise. They assume a mean that is linear in the predictors,"
            f" independent {'persons' if self.persons else 'records'} with equal error variance, and values within the"
            " declared intervals."
        )

    @property
    def average_words(self) -> str:  # type: ignore[override]
        """What is averaged, and taken as independent, where a unit has several rows."""
        return _BETWEEN if self.persons else super().average_words

    def interval_method(self, label: str, *, several_rows: bool) -> str:
        """Say how intervals are made; persons' means are independent."""
        return super().interval_method(label, several_rows=several_rows and not self.persons)

    def __post_init__(self) -> None:
        if self.outcome in self.predictors or len(set(self.predictors)) < len(self.predictors):
            raise InvalidParameter("predictors", list(self.predictors), "other columns than the outcome", "each once")
        if len(self.moments.require(self.outcome)) > 1:
            raise InvalidParameter("outcome", self.outcome, "a number, or of two levels", self.moments.numbers[0].name)
        require_number("prior_precision", self.prior_precision, "for example a prior of 1", above=0)

    @cached_property
    def features(self) -> tuple[str, ...]:
        """The names of the coefficients, the intercept last."""
        return (*(self.moments.basis[place] for place in self.feature_places[1:]), INTERCEPT)

    @cached_property
    def feature_places(self) -> tuple[int, ...]:
        """Where the features are among the released columns: the intercept first."""
        return (0, *(place for column in self.predictors for place in self.moments.require(column)))

    @property
    def parameters(self) -> tuple[str, ...]:
        """The names of all numbers."""
        return (*(f"coefficient[{name}]" for name in self.features), RESIDUAL_SD, R_SQUARED)

    @property
    def dimension(self) -> int:
        """How many numbers there are."""
        return len(self.features) + 2

    @property
    def prior_variance(self) -> float:
        """Of each scaled coefficient."""
        return 1 / self.prior_precision

    def read(self, release: Release, method: str, options: Mapping[str, Any], *, other_prior: bool) -> ReadRelease:
        """Compute the posterior; `options` are another outcome, or other predictors."""
        reader = self.selecting(**options)
        make = reader.noise_aware if method == NOISE_AWARE else reader.plug_in
        distributions: dict[str, Any] = {}
        for group, statistics in release.contents.items():
            with refuse_extremes():
                distributions[group] = make(statistics) if isinstance(statistics, NoisyStatistics) else None
        return ReadRelease(reader, distributions, method, release.by)

    def selecting(self, **options: Any) -> MomentReader:
        """Return the same moments read as another regression."""
        unknown = set(options) - {"outcome", "predictors"}
        if unknown:
            raise InvalidParameter("an option", sorted(unknown)[0], "outcome or predictors", 'predictors=["age"]')
        chosen = {key: value for key, value in options.items() if value is not None}
        if "predictors" in chosen:
            named = chosen["predictors"]
            if isinstance(named, str) or not isinstance(named, Sequence):
                raise InvalidParameter("predictors", named, "a list of released columns", 'predictors=["age"]')
            chosen["predictors"] = tuple(named)
        elif chosen.get("outcome", self.outcome) != self.outcome:
            chosen["predictors"] = tuple(name for name in self.predictors if name != chosen["outcome"])
        return replace(self, **chosen)

    # The posterior

    def noise_aware(self, statistics: NoisyStatistics) -> LinearPosterior | NoPosterior:
        """Return the posterior, noise and Gram matrix summed out; or what refuses every question of it."""
        try:
            return linear_posterior(self.gram(statistics), self.prior_variance, self._units)
        except NoInterval as refusal:
            return NoPosterior(str(refusal), self.dimension)

    def plug_in(self, statistics: NoisyStatistics) -> LinearPosterior | NoPosterior:
        """Return the posterior that takes the moments as exact."""
        try:
            return plug_in_posterior(self.gram(statistics), self.prior_variance, self._units)
        except NoInterval as refusal:
            return NoPosterior(str(refusal), self.dimension)

    def combined(self, contents: Sequence[NoisyStatistics], *, same_people: bool) -> LinearPosterior | NoPosterior:
        """Return the posterior from several releases of the same columns."""
        return self.noise_aware((averaged if same_people else summed)(contents))

    def noisy_data(self, release: Release) -> NoisyData:
        """Return the sums of products, and which entries of the Gram matrix they are."""
        places = range(1, len(self.moments.basis))
        scales = [(0.0, 1.0), *(self._scale(place) for place in places)]
        middles, reaches = (tuple(each) for each in zip(*scales, strict=True))
        basis, pairs = self.moments.basis, self.moments.pairs
        return noisy_data(release, GRAM, basis=basis, pairs=pairs, middles=middles, reaches=reaches)

    def gram(self, statistics: NoisyStatistics) -> ReleasedGram:
        """Return the noisy Gram matrix of the features and the outcome."""
        private = statistics.count is None
        pairs = self.moments.pairs if private else self.moments.pairs[:-1]
        if len(statistics.values) != len(pairs):
            raise VestryError("the release does not hold the moments of its columns; use the file as it was written.")
        sums = [value * statistics.grid for value in statistics.values]
        count = float(sums[-1]) if statistics.count is None else float(statistics.count)
        chosen = [*self.feature_places, *self.moments.require(self.outcome)]
        at = {place: new for new, place in enumerate(chosen)}
        matrix, entries = np.zeros((len(chosen), len(chosen))), []
        matrix[0, 0] = count
        for k, (i, j) in enumerate(pairs):
            for row, column in self._filled(i, j):
                if row in at and column in at:
                    matrix[at[row], at[column]] = sums[k]
                    entries.append((k, at[row], at[column]))
        statistic, rows, columns = (np.array(each) for each in zip(*entries, strict=True))
        own = np.unique(statistic, return_inverse=True)[1]
        noise = noise_of(statistics)
        width = len(self.moments.numbers)
        return ReleasedGram(
            matrix,
            own,
            rows,
            columns,
            noise.deviation * statistics.grid,
            count,
            levels=any(place > width for place in chosen),
            laplace=isinstance(noise, Laplace),
            private=private,
        )

    def _filled(self, i: int, j: int) -> set[tuple[int, int]]:
        """Return the places of the full matrix that a statistic fills: an indicator is its own square."""
        places = {(i, j), (j, i)}
        return places | {(j, j)} if i == 0 and j > len(self.moments.numbers) else places

    @cached_property
    def _units(self) -> LinearMap:
        """Return how scaled coefficients, the intercept first, become those of the columns, the intercept last."""
        middle, reach = self._scale(self.moments.require(self.outcome)[0])
        size = len(self.feature_places)
        matrix = np.zeros((size, size))
        for row, place in enumerate(self.feature_places[1:]):
            its_middle, its_reach = self._scale(place)
            matrix[row, row + 1] = reach / its_reach
            matrix[-1, row + 1] = -reach * its_middle / its_reach
        matrix[-1, 0] = reach
        shift = np.zeros(size)
        shift[-1] = middle
        return LinearMap(matrix, shift, reach)

    def _scale(self, place: int) -> tuple[float, float]:
        """Return the middle and half-width of a number; 0 and 1 for an indicator."""
        if place > len(self.moments.numbers):
            return 0.0, 1.0
        number = self.moments.numbers[place - 1]
        return number.middle, number.reach

    # What follows from it

    def row_of(self, point: Mapping[str, Any]) -> Array:
        """Return the scaled features, the intercept first, of a record with these values; refuse what is missing."""
        unknown = [name for name in point if name not in self.predictors]
        if unknown:
            raise InvalidParameter("a predictor", unknown[0], f"one of {', '.join(self.predictors)}", "one of these")
        return np.asarray(self.rows_of({name: [value] for name, value in point.items()}, 1)[0])

    def rows_of(self, columns: Any, size: int) -> Array:
        """Return the same for records, given by column; columns that are no predictors are not looked at."""
        blocks = [np.ones((size, 1))]
        for column in self.predictors:
            if column not in columns:
                raise InvalidParameter(f"the value of {column}", None, "given", f"{column} = ...")
            blocks.append(self._values(column, columns[column]))
        return np.concatenate(blocks, axis=1)

    def _values(self, column: str, values: Any) -> Array:
        for number in self.moments.numbers:
            if number.name == column:
                numbers = column_numbers(column, values, f"{number.middle:g}")
                return ((numbers - number.middle) / number.reach)[:, None]
        levels = next(block.levels for block in self.moments.blocks if block.name == column)
        places = level_places(column, values, levels)
        if (places < 0).any():
            raise InvalidParameter(f"the value of {column}", None, "given", f'{column} = "{levels[0]}"')
        return np.asarray(np.eye(len(levels))[places][:, 1:])

    def at_rows(self, distribution: LinearPosterior, frame: Any) -> dict[str, Array]:
        """Return mean and sd of the mean outcome of records, and the sd of a new record's outcome, by closed form."""
        middle, reach = self._scale(self.moments.require(self.outcome)[0])
        rows, mixture = reach * self.rows_of(frame, len(frame)), distribution.mixture
        mean = mixture.weights @ mixture.means
        apart = mixture.means - mean
        covariance = np.einsum("n,nij->ij", mixture.weights, mixture.covariances) + (apart.T * mixture.weights) @ apart
        variance = np.einsum("ni,ij,nj->n", rows, covariance, rows, optimize=True)
        residual = mixture.weights @ (distribution.units.reach * mixture.sigma) ** 2
        return {"mean": rows @ mean + middle, "sd": np.sqrt(variance), "new_sd": np.sqrt(variance + residual)}

    def at_point(self, distribution: LinearPosterior, point: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
        """Return the mean outcome of records with these predictors, and the outcome of a new one."""
        middle, reach = self._scale(self.moments.require(self.outcome)[0])
        row = reach * self.row_of(point)
        mean, new = (distribution.combination(row, middle, residual=each) for each in (False, True))
        return {self.outcome: (mean, new)}

    def difference(self, distribution: LinearPosterior, a: str, b: str) -> NormalMixture:
        """Return the difference of two coefficients."""
        for name in (a, b):
            if name not in self.features:
                raise InvalidParameter("a coefficient", name, f"one of {', '.join(self.features)}", self.features[0])
        units = distribution.units
        places = self.features.index(a), self.features.index(b)
        row = units.matrix[places[0]] - units.matrix[places[1]]
        return distribution.combination(row, float(units.shift[places[0]] - units.shift[places[1]]))

    def log_evidence(self, distribution: LinearPosterior, predictors: Sequence[str]) -> float:
        """Return the log marginal likelihood of the regression on some of the predictors alone."""
        places = {0}
        for column in predictors:
            if column not in self.predictors:
                raise InvalidParameter("a predictor", column, f"one of {', '.join(self.predictors)}", "one of these")
            places |= set(self.moments.require(column))
        variances = [self.prior_variance if place in places else 0.0 for place in self.feature_places]
        return distribution.log_evidence(np.array(variances))

    def is_ready(self, distributions: Any) -> bool:
        """Tell whether there is a posterior to show."""
        return not any(isinstance(each, NoPosterior) for each in distributions.values())

    def variables(self, posterior: Any, rng: np.random.Generator, chains: int, draws: int) -> Any:
        """Return coefficients, residual sd and R squared, by group where there are groups."""
        tables = posterior.sample(chains * draws, rng)
        values = np.stack([each.reshape(chains, draws, -1) for each in tables.values()], axis=2)
        dims, coords = ["group"], {"group": list(tables), "coefficient_index": list(self.features)}
        if posterior.by is None:
            values, dims = values[:, :, 0], []
            del coords["group"]
        variables = {
            "coefficient": (values[..., :-2], [*dims, "coefficient_index"]),
            "residual_sd": (values[..., -2], dims),
            "r_squared": (values[..., -1], dims),
        }
        return variables, coords


@dataclass(frozen=True)
class NoPosterior:
    """Stands for a posterior that cannot be computed, and says why."""

    reason: str
    dimension: int

    def marginal(self, index: int) -> Any:
        """Refuse."""
        raise NoInterval(self.reason)

    def draw(self, rng: np.random.Generator, size: int) -> Any:
        """Refuse."""
        raise NoInterval(self.reason)

    @property
    def units(self) -> Any:
        """Refused."""
        raise NoInterval(self.reason)

    @property
    def theta(self) -> Any:
        """Refused."""
        raise NoInterval(self.reason)

    def combination(self, row: Array, shift: float, *, residual: bool = False) -> Any:
        """Refuse."""
        raise NoInterval(self.reason)

    def log_evidence(self, prior_variance: Array) -> float:
        """Refuse."""
        raise NoInterval(self.reason)


def moment_reader(family: Mapping[str, Any], prior: tuple[float, ...]) -> MomentReader:
    """Read what a release says of its columns."""
    try:
        moments = Moments.from_dict(family["columns"])
        outcome, predictors = str(family["outcome_column"]), tuple(map(str, family["predictors"]))
        (precision,) = prior
    except (KeyError, TypeError, ValueError):
        allowed = "the moments of its columns, with one number as the prior: 1/variance of each scaled coefficient"
        raise InvalidParameter("a release", "another", allowed, "the original file, prior=(1,)") from None
    return MomentReader(moments, outcome, predictors, precision, bool(family.get("persons", False)))
