"""A release of a noisy table, read as a logistic, multinomial or Poisson regression; with other terms, free."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from vestry.errors import InvalidParameter, VestryError
from vestry.mcmc.hamiltonian import ChainsDisagree
from vestry.numerics import Array
from vestry.posterior.discrete_noise import DiscreteGaussian, Laplace, noise_of
from vestry.posterior.noisy_data import BINOMIAL, MULTINOMIAL, POISSON, NoisyData, statistics_of
from vestry.posterior.reader import NOISE_AWARE, Reader, ReadRelease, refuse_extremes
from vestry.posterior.records import level_places
from vestry.posterior.sample import JointSample, Sample
from vestry.regression.moment_reader import NoPosterior
from vestry.regression.outcome_table import OutcomeTable
from vestry.regression.table_fit import CellFit, misfits
from vestry.regression.table_target import TableTarget, log_softmax, sample_table
from vestry.releases import NoisyStatistics, Release
from vestry.validation import require_number

# The intercept's prior standard deviation, in those of the others.
WIDER = 4.0
# Noise that hides nothing, for a table that is taken as exact.
_NONE = Laplace(0.01)
_DISAGREE = (
    "there is no interval, because the chains that sample the coefficients do not agree; use fewer terms, fewer or"
    " wider cells, or a larger prior_precision."
)


@dataclass(frozen=True, eq=False)
class TablePosterior(JointSample):
    """Draws of a regression's numbers, by column; see `TableReader.parameters`.

    Attributes
    ----------
    theta
        Draws of the coefficients.
    weights
        Draws of the cells' shares of the records.
    fit
        How each cell's numbers fit.
    """

    theta: Array
    weights: Array
    fit: tuple[CellFit, ...]


@dataclass(frozen=True)
class TableReader(Reader):
    """A regression on the cells of a released table.

    Attributes
    ----------
    table
        What was counted.
    terms
        The columns of each term; of several columns, their interaction.
    prior_precision
        1/variance of each coefficient's normal prior; the intercept's standard deviation is four times as large.
    """

    table: OutcomeTable
    terms: tuple[tuple[str, ...], ...]
    prior_precision: float

    parameter = "coefficient"
    display: ClassVar[str] = "table"
    note = (
        "Intervals take account of sampling and of the noise, which is summed out. They assume independent records"
        " whose log odds (of counts: whose log rate) are a sum of the terms."
    )

    def __post_init__(self) -> None:
        require_number("prior_precision", self.prior_precision, "for example a prior of 0.16", above=0)
        if len(set(map(frozenset, self.terms))) < len(self.terms):
            raise InvalidParameter("predictors", [":".join(each) for each in self.terms], "each term once", "each once")

    # Names

    @cached_property
    def features(self) -> tuple[str, ...]:
        """The names of one linear predictor's coefficients, the intercept last."""
        return self.table.feature_names(self.terms)

    @property
    def _compared(self) -> tuple[str, ...]:
        """The classes with a linear predictor of their own, if they are several."""
        return tuple(name for name, _ in self.table.classes[1:]) if len(self.table.classes) > 2 else ()

    def _by_class(self, names: Sequence[str], classes: Sequence[str]) -> tuple[str, ...]:
        return tuple(f"{each}: {name}" for each in classes for name in names) if classes else tuple(names)

    @cached_property
    def coefficients(self) -> tuple[str, ...]:
        """What each coefficient is of."""
        return self._by_class(self.features, self._compared)

    @cached_property
    def ratios(self) -> tuple[str, ...]:
        """What each odds or rate ratio is of: all but the intercepts."""
        return self._by_class(self.features[:-1], self._compared)

    @cached_property
    def moves(self) -> tuple[tuple[str, str], ...]:
        """The column and level of each marginal effect."""
        used = dict.fromkeys(name for term in self.terms for name in term)
        return tuple((name, level) for name in used for level in self.table.column(name).levels[1:])

    @cached_property
    def effects(self) -> tuple[str, ...]:
        """What each marginal effect is of: of several classes, each has its own."""
        classes = [name for name, _ in self.table.classes] if self._compared else []
        return self._by_class([f"{name}[{level}]" for name, level in self.moves], classes)

    @property
    def ratio_words(self) -> str:
        """What e to a coefficient is."""
        return "odds ratio" if self.table.high is None else "rate ratio"

    @property
    def parameters(self) -> tuple[str, ...]:
        """The names of all numbers: coefficients, ratios, marginal effects."""
        return (
            *(f"coefficient[{name}]" for name in self.coefficients),
            *(f"{self.ratio_words}[{name}]" for name in self.ratios),
            *(f"marginal effect[{name}]" for name in self.effects),
        )

    @property
    def dimension(self) -> int:
        """How many numbers there are."""
        return len(self.parameters)

    @cached_property
    def _ratio_places(self) -> list[int]:
        size = len(self.features)
        return [place for place in range(len(self.coefficients)) if place % size != size - 1]

    # The posterior

    def read(self, release: Release, method: str, options: Mapping[str, Any], *, other_prior: bool) -> ReadRelease:
        """Compute the posterior; `options` are other terms."""
        reader = self.selecting(**options)
        distributions: dict[str, Any] = {}
        for group, statistics in release.contents.items():
            with refuse_extremes():
                make = reader.noise_aware if method == NOISE_AWARE else reader.plug_in
                distributions[group] = make(statistics) if isinstance(statistics, NoisyStatistics) else None
        return ReadRelease(reader, distributions, method, release.by)

    def selecting(self, **options: Any) -> TableReader:
        """Return the same table read with other terms."""
        unknown = set(options) - {"predictors"}
        if unknown:
            raise InvalidParameter(
                "an option", sorted(unknown)[0], "predictors", 'predictors=["sex", "ward", "sex:ward"]'
            )
        named = options.get("predictors")
        return self if named is None else replace(self, terms=parse_terms(self.table, named))

    def noise_aware(self, statistics: NoisyStatistics) -> TablePosterior | NoPosterior:
        """Return the posterior, noise summed out; or what refuses every question of it."""
        noise = noise_of(statistics)
        smooth = DiscreteGaussian(max(noise.deviation, 0.05))
        return self._sampled(statistics, noise, smooth)

    def plug_in(self, statistics: NoisyStatistics) -> TablePosterior | NoPosterior:
        """Return the posterior that takes the table as exact, below 0 as 0."""
        values = tuple(max(value, 0) for value in statistics.values)
        return self._sampled(replace(statistics, values=values), _NONE, _NONE)

    def numbers(self, statistics: NoisyStatistics) -> Array:
        """Return the noisy numbers, one row per cell."""
        if len(statistics.values) != self.table.size:
            raise VestryError("the release does not hold the table of its columns; use the file as it was written.")
        return np.array(statistics.values, dtype=float).reshape(-1, len(self.table.kinds))

    def noisy_data(self, release: Release) -> NoisyData:
        """Return the numbers of each cell: counts of the classes, or the sum of outcomes and the number of records."""
        (statistics,) = statistics_of(release).values()
        numbers, cells = self.numbers(statistics), self.table.cells
        kinds, units = self.table.kinds, np.ones(len(self.table.kinds))
        kind = MULTINOMIAL
        if self.table.high is not None:
            kind, units = POISSON, np.array([1.0, 1 / self.table.units])
            numbers, kinds = numbers[:, ::-1], kinds[::-1]
        elif len(kinds) == 2:  # the first class is what the other is compared with
            kind, numbers, kinds = BINOMIAL, numbers[:, ::-1], kinds[::-1]
        columns = [each.name for each in self.table.predictors]
        levels = dict(zip(columns, zip(*cells, strict=True), strict=True))
        groups = tuple(map(self.table.cell_name, cells))
        return NoisyData(kind, groups, levels, kinds, numbers, units, statistics.noise, statistics.scale, None)

    @cached_property
    def precisions(self) -> Array:
        """The prior's, of each feature."""
        return self.prior_precision * np.array([1.0] * (len(self.features) - 1) + [WIDER**-2])

    def target(self, numbers: Array, noise: Any) -> TableTarget:
        """Return the density of the coefficients."""
        features = self.table.features(self.terms, self.table.cells)
        if self.table.high is None:
            return TableTarget.of_levels(features, numbers, noise, self.precisions)
        units = self.table.units
        noises = noise.in_units_of(units), noise
        return TableTarget.of_counts(features, numbers[:, 0] / units, numbers[:, 1], noises, self.precisions)

    def _sampled(self, statistics: NoisyStatistics, noise: Any, smooth: Any) -> TablePosterior | NoPosterior:
        numbers = self.numbers(statistics)
        target = self.target(numbers, noise)
        try:
            draws = sample_table(target, self.target(numbers, smooth), np.random.default_rng(self._seed(statistics)))
        except (ChainsDisagree, np.linalg.LinAlgError):
            return NoPosterior(_DISAGREE, self.dimension)
        theta = draws[:, : target.coefficients]
        means = target.means(draws[:, target.coefficients :])
        if self.table.high is not None:
            means = np.maximum(numbers[:, 0] / self.table.units, 0.0) + np.zeros((len(theta), 1))
        weights = means / np.maximum(means.sum(axis=1, keepdims=True), 1e-9)
        ratios = np.exp(theta[:, self._ratio_places])
        values = np.column_stack([theta, ratios, self._effects(theta, weights)])
        fitted = np.median(self.outcomes_at(theta, self.table.cells), axis=0)  # the mean of a rate may be far out
        fit = misfits(self.table, numbers, fitted, means.mean(axis=0), statistics)
        return TablePosterior(values, theta, weights, fit)

    def _seed(self, statistics: NoisyStatistics) -> int:
        """Return a number that belongs to the release: its posterior is the same whenever it is computed."""
        text = json.dumps([statistics.values, statistics.scale, self.terms, self.prior_precision])
        return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")

    def outcomes_at(self, theta: Array, cells: Sequence[Sequence[str]]) -> Array:
        """Return the probabilities of the classes, or the rates, by draw, class and cell."""
        parts = theta.reshape(len(theta), -1, len(self.features))
        etas = parts @ self.table.features(self.terms, cells).T
        if self.table.high is not None:
            return np.exp(etas)
        return np.exp(log_softmax(np.concatenate([np.zeros_like(etas[:, :1]), etas], axis=1)))

    def _shown(self, outcomes: Array) -> Array:
        """Return what is explained: of two classes the second alone."""
        return outcomes[:, 1:] if len(self.table.classes) == 2 else outcomes

    def _effects(self, theta: Array, weights: Array) -> Array:
        """Return marginal effects: what a level changes against the first, on average over the records."""
        effects = []
        for name, level in self.moves:
            first = self.table.column(name).levels[0]
            there, here = (
                self._shown(self.outcomes_at(theta, self.table.moved(name, each))) for each in (level, first)
            )
            effects.append(np.einsum("nlc,nc->nl", there - here, weights))
        stacked = np.stack(effects, axis=2) if effects else np.empty((len(theta), 1, 0))
        return stacked.reshape(len(theta), -1)

    # What follows from it

    def at_point(self, distribution: Any, point: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
        """Return the probability of each class; or the rate, and the outcome of a new record."""
        unknown = [name for name in point if name not in {each.name for each in self.table.predictors}]
        for name in unknown:
            self.table.column(name)
        cell = [self._level(each.name, point) for each in self.table.predictors]
        outcomes = self._shown(self.outcomes_at(distribution.theta, [cell]))[:, :, 0]
        if self.table.high is None:
            names = [name for name, _ in self.table.classes][-outcomes.shape[1] :]
            return {name: (Sample(values), None) for name, values in zip(names, outcomes.T, strict=True)}
        new = np.random.default_rng(0).poisson(np.minimum(outcomes[:, 0], 1e9)).astype(float)
        return {self.table.outcome: (Sample(outcomes[:, 0]), Sample(new))}

    def _level(self, column: str, point: Mapping[str, Any]) -> str:
        """Return the level of a column at a point; any, if no term has the column."""
        levels = self.table.column(column).levels
        return levels[int(self._places(column, {name: [value] for name, value in point.items()}, 1)[0])]

    def _places(self, column: str, columns: Any, size: int) -> np.ndarray:
        """Return the levels of a column by place; the first, if no term has the column."""
        levels, given = self.table.column(column).levels, column in columns
        if not given and not any(column in term for term in self.terms):
            return np.zeros(size, dtype=np.intp)
        places = level_places(column, columns[column], levels) if given else np.array([-1])
        if (places < 0).any():
            raise InvalidParameter(f"the value of {column}", None, "given", f'{column} = "{levels[0]}"')
        return places

    def at_rows(self, distribution: Any, frame: Any) -> dict[str, Array]:
        """Return mean and sd of the probability of each class, or of the rate, by record: of its cell."""
        columns = self.table.predictors
        places = [self._places(each.name, frame, len(frame)) for each in columns]
        cells, which = np.unique(
            np.ravel_multi_index(tuple(places), tuple(len(each.levels) for each in columns)), return_inverse=True
        )
        parts = [self._cell_moments(distribution.theta, each) for each in np.array_split(cells, len(cells) // 256 + 1)]
        mean, spread = (np.concatenate(each, axis=1)[:, which] for each in zip(*parts, strict=True))
        if len(mean) == 1:
            return {"mean": mean[0], "sd": spread[0]}
        named = [(f"mean[{name}]", f"sd[{name}]") for name, _ in self.table.classes]
        return {key: row for pair, rows in zip(named, zip(mean, spread, strict=True), strict=True)
                for key, row in zip(pair, rows, strict=True)}  # fmt: skip

    def _cell_moments(self, theta: Array, cells: np.ndarray) -> tuple[Array, Array]:
        """Return mean and sd over the draws, by class and cell."""
        outcomes = self._shown(self.outcomes_at(theta, [self.table.cells[place] for place in cells]))
        return outcomes.mean(axis=0), outcomes.std(axis=0)

    def difference(self, distribution: Any, a: str, b: str) -> Sample:
        """Return the difference of two coefficients."""
        for name in (a, b):
            if name not in self.coefficients:
                named = ", ".join(self.coefficients)
                raise InvalidParameter("a coefficient", name, f"one of {named}", self.coefficients[0])
        places = self.coefficients.index(a), self.coefficients.index(b)
        return Sample(distribution.theta[:, places[0]] - distribution.theta[:, places[1]])

    def fit_check(self, distribution: Any) -> tuple[CellFit, ...]:
        """Return how each cell's numbers fit the regression, the worst first."""
        return () if isinstance(distribution, NoPosterior) else tuple(distribution.fit)

    def findings(self, distributions: Mapping[str, Any]) -> tuple[CellFit, ...]:
        """Return the cells that the regression does not describe, the worst three."""
        return tuple(
            each for distribution in distributions.values() for each in self.fit_check(distribution) if each.misfit
        )[:3]

    def is_ready(self, distributions: Any) -> bool:
        """Tell whether there is a posterior to show."""
        return not any(isinstance(each, NoPosterior) for each in distributions.values())

    def variables(self, posterior: Any, rng: np.random.Generator, chains: int, draws: int) -> Any:
        """Return coefficients, ratios and marginal effects."""
        values = posterior.sample(chains * draws, rng)["all"].reshape(chains, draws, -1)
        names = {"coefficient": self.coefficients, self.ratio_words.replace(" ", "_"): self.ratios}
        names["marginal_effect"] = self.effects
        variables, coords, start = {}, {}, 0
        for name, labels in names.items():
            if labels:
                variables[name] = (values[..., start : start + len(labels)], [f"{name}_index"])
                coords[f"{name}_index"] = list(labels)
            start += len(labels)
        return variables, coords


def parse_terms(table: OutcomeTable, named: Any) -> tuple[tuple[str, ...], ...]:
    """Read terms: columns, and interactions of them with `:` between."""
    if isinstance(named, str) or not isinstance(named, Sequence):
        raise InvalidParameter("predictors", named, "a list of released columns", 'predictors=["sex", "sex:ward"]')
    known = {each.name for each in table.predictors}
    terms = []
    for each in named:
        parts = (each,) if each in known else tuple(str(each).split(":"))
        for name in parts:
            table.column(name)
        if len(set(parts)) < len(parts):
            raise InvalidParameter("a term", each, "of different columns", "each column once")
        terms.append(parts)
    return tuple(terms)


def table_reader(family: Mapping[str, Any], prior: tuple[float, ...]) -> TableReader:
    """Read what a release says of its table."""
    try:
        table = OutcomeTable.from_dict(family["table"])
        (precision,) = prior
        predictors = list(family["predictors"])
    except (KeyError, TypeError, ValueError):
        allowed = "the table of its columns, with one number as the prior: 1/variance of each coefficient"
        raise InvalidParameter("a release", "another", allowed, "the original file, prior=(0.16,)") from None
    return TableReader(table, parse_terms(table, predictors), precision)
