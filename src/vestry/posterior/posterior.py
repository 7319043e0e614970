"""A posterior, and the release that it rests on.

A function of the release, and of a generator where draws are asked for: it may be computed again, with another prior
or in another way, permanently and at no cost.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from vestry.errors import ExtremeNumbers, InvalidParameter
from vestry.numerics import Array
from vestry.posterior.mixture import Marginal, PosteriorDistribution, tail_of
from vestry.posterior.reader import (
    NOISE_AWARE,
    PLUG_IN,
    Reader,
    ReleasedDraws,
    edge_method,
    reader_of,
    refuse_extremes,
)
from vestry.registry import FACADE
from vestry.releases import Certificate, Draws, Release
from vestry.validation import is_number, require_choice, require_number, require_whole

if TYPE_CHECKING:
    from pandas import DataFrame

Rows = list[dict[str, Any]]
# The prior of a table whose concentration is unknown.
SPARSE = "sparse"


@dataclass(frozen=True, eq=False, repr=False)
class Posterior:
    """The posterior of each group's parameters.

    Where no generator is given, a fresh one draws: post-processing has no secret.

    Attributes
    ----------
    distributions
        The joint distribution of the parameters, by group; the one group of an ungrouped release is called `all`.
    label
        `noise-aware`: the noise is summed out, and intervals have their nominal coverage. `plug-in`: the papers'
        version, for comparison; its intervals are too short. `released draws`: what a posterior sampler released.
    reader
        The model with its prior.
    certificate
        What the release promised.
    by
        The column whose levels are the groups, of several `ward, sex`; None if there are none.
    labels
        What each parameter of a group is of; numbers if empty.
    """

    distributions: Mapping[str, PosteriorDistribution]
    label: str
    reader: Reader
    certificate: Certificate
    by: str | None = None
    labels: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        dimension = self.reader.dimension
        if len(self.labels) not in (0, dimension):
            allowed = f"{dimension}, one for each parameter, or none"
            raise InvalidParameter("the number of labels", len(self.labels), allowed, "the original release")

    @classmethod
    def from_release(
        cls,
        release: Any,
        *,
        prior: tuple[float, ...] | str | None = None,
        method: str = NOISE_AWARE,
        pool: bool = False,
        **options: Any,
    ) -> Posterior:
        """Compute the posterior from a release, by any prior.

        From noisy statistics, p(theta | z) = sum over s of p(theta | s) p(s | z), with p(s) the prior predictive and
        the distribution of the noise as released; or the plug-in posterior. The prior "sparse" leaves the concentration
        of a table's Dirichlet unknown. From draws, the draws. Hidden states are sampled, by `options` (see
        `vestry.hmm.hidden_states.Options`). With `pool` the groups learn from each other, and no prior is used.
        """
        require_choice("method", method, (NOISE_AWARE, PLUG_IN), f'method="{NOISE_AWARE}"')
        if not isinstance(release, Release):
            instead = 'for example vestry.open_release("release.json")'
            raise InvalidParameter("release", type(release).__name__, "a release", instead)
        if isinstance(prior, str):
            require_choice("prior", prior, (SPARSE,), 'prior="sparse", or numbers')
            prior = ()
        reader = reader_of(release.family, release.prior if prior is None else prior)
        if pool and (prior is not None or method == PLUG_IN or options):
            raise InvalidParameter("pool", "a prior or a method", "alone: the population is learnt", "pool=True alone")
        result = (
            reader.read_pooled(release)
            if pool
            else reader.read(release, method, options, other_prior=prior is not None)
        )
        return cls(result.distributions, result.label, result.reader, release.certificate, result.by, release.labels)

    @property
    def note(self) -> str:
        """What is averaged and taken as independent, in one sentence; empty where every row is a unit."""
        return _note(self.reader, self.certificate) if self.label in (NOISE_AWARE, self.reader.label) else ""

    def __repr__(self) -> str:
        groups = f" in {len(self.distributions)} groups by {self.by}" if self.by is not None else ""
        size = f" ({self.reader.dimension})" if self.reader.dimension > 1 else ""
        return f"<{self.label} posterior: {self.reader.parameter}{size}{groups}>"

    def _repr_html_(self) -> str | None:
        """Return the summary and the plot, for a notebook; None while states are not sampled, which may take long."""
        return FACADE["posterior_html"](self) if self.reader.is_ready(self.distributions) else None

    @property
    def parameters(self) -> tuple[str, ...]:
        """The names of a group's parameters."""
        if self.reader.parameters:
            return tuple(self.reader.parameters)
        name, dimension = self.reader.parameter, self.reader.dimension
        labels = self.labels or range(dimension)
        return (name,) if dimension == 1 else tuple(f"{name}[{label}]" for label in labels)

    @property
    def interval_method(self) -> str:
        """How the credible intervals are made, in a few words; one that is not calibrated says so."""
        return self.reader.interval_method(self.label, several_rows=_has_several_rows(self.certificate))

    def summary(self, prob: float = 0.9) -> DataFrame:
        """Return mean, sd and the ends of the equal-tailed credible interval, by group and parameter.

        The name of the columns says how the intervals are made; a column `note` says what is wrong with single ones, if
        something is. Refused for released draws: k draws are not an interval.
        """
        return _frame(self.rows(prob), "group", "parameter")

    def interval(self, prob: float = 0.9) -> DataFrame:
        """Return the ends, low and high, of the equal-tailed credible intervals, by group and parameter.

        How they are made is said as in `summary`. Refused for released draws: k draws are not an interval.
        """
        return _frame(self._rows(lambda marginal: _ends(marginal, prob)), "group", "parameter")

    def rows(self, prob: float = 0.9) -> Rows:
        """Return the summary as plain records, one for each group and parameter, as JSON writes them."""
        return self._rows(lambda marginal: _numbers(marginal, prob), remarked=True)

    def _rows(self, numbers: Callable[[Marginal], dict[str, float]], *, remarked: bool = False) -> Rows:
        method, parameters = self.interval_method, self.parameters
        rows: dict[int, Rows] = {}  # groups may share their distribution

        def describe(distribution: Any, index: int) -> dict[str, Any]:
            row = {**numbers(distribution.marginal(index)), "interval_method": method}
            said = self.reader.remark(distribution, index) if remarked else ""
            return {**row, "note": said} if said else row

        with refuse_extremes():
            for distribution in self.distributions.values():
                if id(distribution) not in rows:
                    rows[id(distribution)] = [describe(distribution, index) for index in range(len(parameters))]
        return [
            {"group": group, "parameter": parameter, **row}
            for group, distribution in self.distributions.items()
            for parameter, row in zip(parameters, rows[id(distribution)], strict=True)
        ]

    def plot(self, ax: Any = None, *, prob: float = 0.9) -> Any:
        """Draw the posterior into these axes, or into new ones, and return them; see `vestry.plot`."""
        return FACADE["plot"](self, ax, prob=prob)

    def sample(self, draws: int | None = None, rng: np.random.Generator | None = None) -> dict[str, Array]:
        """Return joint draws by group, one per row: 1000 by default; of released draws, those that were released."""
        return self._sample(tuple(self.distributions), draws, generator_of(rng))

    def predict(
        self, size: int, rng: np.random.Generator | None = None, *, draws: int | None = None
    ) -> dict[str, Array]:
        """Return what `size` new records would give, by group, once for each of `draws` posterior draws.

        Successes for a proportion, counts for categories, the mean of the new records for a normal mean.
        """
        require_whole("size", size, "for example size=100")
        generator = generator_of(rng)
        samples = self._sample(tuple(self.distributions), draws, generator)
        return {group: self.reader.predict(table, size, generator) for group, table in samples.items()}

    def classify(self, records: Mapping[str, str | int | bool] | DataFrame) -> Any:
        """Return the predictive probability of each class, for naive Bayes.

        Of one record, given as a mapping of features to levels, by class; of a frame of records, a frame of them.
        """
        return self.reader.classify(records, self)

    def states(self) -> Any:
        """Return the map of hidden states with their tables; sampled when first asked for."""
        return self.reader.state_map(self.distributions)

    def contrast(
        self,
        a: str,
        b: str,
        prob: float = 0.9,
        *,
        scale: str = "difference",
        rng: np.random.Generator | None = None,
        draws: int = 20_000,
    ) -> DataFrame:
        """Return the difference of group a's parameters from group b's, from joint draws of both.

        `scale` may be "ratio" (of proportions the relative risk) or "odds ratio". The groups' noise is independent,
        and so are their posteriors, unless they are pooled; of classes, whose probabilities add up to 1, the
        probabilities are drawn together. `prob_positive` is P(difference > 0), the same as P(ratio > 1). How intervals
        are made is said as in `summary`. Of a regression by moments a and b are two coefficients.
        """
        require_choice("scale", scale, tuple(_SCALES))
        if self.by is None:
            if scale != "difference":
                raise InvalidParameter("scale", scale, "difference for coefficients", 'scale="difference"')
            return self._contrast_coefficients(a, b, prob)
        for group in (a, b):
            require_choice("a group", group, self.distributions)
        if a == b:
            raise InvalidParameter("a contrast", f"{a} and itself", "between two groups", "two different groups")
        tail, generator = tail_of(prob), generator_of(rng)
        pair = self.reader.joint(self._sample((a, b), draws, generator), generator)
        rows = contrast_rows((a, b), (pair[a], pair[b]), self.parameters, tail, scale, self.reader.outer)
        return _frame([{**row, "interval_method": self.interval_method} for row in rows], "contrast", "parameter")

    def _contrast_coefficients(self, a: str, b: str, prob: float) -> DataFrame:
        marginal = self.reader.difference(self.distributions["all"], a, b)
        how = {"interval_method": self.interval_method}
        named = {"contrast": f"{a} - {b}", "parameter": self.reader.parameter, **how}
        above = float(1 - marginal.cdf(0.0))
        rows = [{**named, **_numbers(marginal, prob), "prob_positive": above}]
        return _frame(rows, "contrast", "parameter")

    def predict_at(
        self, points: Mapping[str, Any] | Sequence[Mapping[str, Any]] | DataFrame, prob: float = 0.9
    ) -> DataFrame:
        """Return the mean outcome at given predictors, and where a new record's outcome lies, for a regression.

        One row for each group and point: mean, sd and the ends of the mean's credible interval, then, of numbers, the
        ends of the predictive interval of one new record. Of levels it is the probability; of several, one row each.
        Of a frame of records, a million a second: mean and sd alone, and of numbers the sd of a new record's outcome.
        """
        if hasattr(points, "columns"):
            return self._predict_rows(points)
        given = [points] if isinstance(points, Mapping) else list(points)
        rows, index = [], ["group", "point"]
        for group, distribution in self.distributions.items():
            for place, point in enumerate(given):
                predictions = self.reader.at_point(distribution, point)
                index = ["group", "point", "level"] if len(predictions) > 1 else index
                for name, (mean, new) in predictions.items():
                    low, high = (0.0, 0.0) if new is None else _ends(new, prob).values()
                    new_ends = {} if new is None else {"new_low": low, "new_high": high}
                    how = {"interval_method": self.interval_method}
                    at = {"group": group, "point": place, **({"level": name} if len(predictions) > 1 else {})}
                    rows.append({**at, **_numbers(mean, prob), **new_ends, **how})
        return _frame(rows, *index)

    def _predict_rows(self, frame: Any) -> DataFrame:
        from pandas import DataFrame, concat

        index = getattr(frame, "index", None)
        frames = {
            group: DataFrame(self.reader.at_rows(distribution, frame), index=index)
            for group, distribution in self.distributions.items()
        }
        return frames["all"] if self.by is None else concat(frames, names=["group"])

    def fit_check(self) -> DataFrame:
        """Return how each cell's numbers fit a regression by table, the worst first.

        `observed` is the share (or rate) in the noisy table, `expected` that of the regression, `score` how far they
        are apart in standard deviations; `misfit` is true where chance and noise do not explain it.
        """
        from pandas import DataFrame

        (distribution,) = self.distributions.values()
        return DataFrame([vars(each) for each in self.reader.fit_check(distribution)])

    def table(self, draws: int = 4000, rng: np.random.Generator | None = None) -> Any:
        """Return joint draws of a table of several columns: margins, conditional proportions, ratios, association.

        All that is asked of it comes from the same draws, so that no two answers disagree.
        """
        group = next(iter(self.distributions))
        sample = self._sample((group,), draws, generator_of(rng))[group]
        method = f"{self.interval_method}, {draws} joint draws"
        return self.reader.joint_table(sample, method, self.distributions[group])

    def distribution_function(self, prob: float = 0.9) -> DataFrame:
        """Return the probability of a value below each edge of the bins, by group: for histograms and quantiles."""
        method = Reader.interval_method(self.reader, self.label, several_rows=_has_several_rows(self.certificate))
        with refuse_extremes():
            rows = [
                {"group": group, "below": edge, **_numbers(bins.below(index), prob), "interval_method": method}
                for group, bins in self._bins()
                for index, edge in enumerate(bins.edges.tolist())
            ]
        return _frame(rows, "group", "below")

    def quantiles(self, *quantiles: float, prob: float = 0.9) -> DataFrame:
        """Return any quantiles of numbers in bins, by group, each with an interval from edge to edge of bins."""
        method = edge_method(self.label, several_rows=_has_several_rows(self.certificate))
        probabilities = [
            require_number("a quantile", q, "for example quantiles(0.25, 0.5)", above=0, below=1) for q in quantiles
        ]
        with refuse_extremes():
            rows = [
                {"group": group, "quantile": q, **_numbers(bins.quantile(q), prob), "interval_method": method}
                for group, bins in self._bins()
                for q in probabilities
            ]
        return _frame(rows, "group", "quantile")

    def _bins(self) -> list[tuple[str, Any]]:
        return [(group, self.reader.binned(each)) for group, each in self.distributions.items()]

    def compare(self, *choices: Sequence[str]) -> DataFrame:
        """Return how well regressions on some of the predictors explain the release, for a regression by moments.

        `log_evidence` is the log marginal likelihood, and `probability` the posterior one of the choices given here,
        if all were equally likely.
        """
        from pandas import DataFrame

        groups = self.distributions.values()  # independent, so that what they say adds up
        logs = np.array([sum(self.reader.log_evidence(each, choice) for each in groups) for choice in choices])
        shares = np.exp(logs - logs.max()) / np.exp(logs - logs.max()).sum()
        names = [" + ".join(choice) or "intercept alone" for choice in choices]
        return DataFrame({"predictors": names, "log_evidence": logs, "probability": shares}).set_index("predictors")

    def ranks(self, prob: float = 0.9, *, rng: np.random.Generator | None = None, draws: int = 4000) -> DataFrame:
        """Return each group's rank among all, 1 the largest, by group and parameter, from joint draws.

        Mean and equal-tailed credible interval of the rank, and the probabilities of the largest and of the smallest.
        """
        if self.by is None:
            raise InvalidParameter("ranks", "a release without groups", "asked of groups", "a release with by")
        tail, generator = tail_of(prob), generator_of(rng)
        tables = self.reader.joint(self._sample(tuple(self.distributions), draws, generator), generator)
        rows: Rows = []
        for index, parameter in enumerate(self.parameters):
            values = np.column_stack([table[:, index] for table in tables.values()])
            ranks = np.argsort(np.argsort(-values, axis=1), axis=1) + 1
            ends = np.quantile(ranks, [tail, 1 - tail], axis=0, method="inverted_cdf")
            for group, own, low, high in zip(tables, ranks.T, *ends, strict=True):
                first, last = float((own == 1).mean()), float((own == len(tables)).mean())
                row = {"mean": float(own.mean()), "low": int(low), "high": int(high), "prob_largest": first}
                named = {"group": group, "parameter": parameter, "interval_method": self.interval_method}
                rows.append({**named, **row, "prob_smallest": last})
        return _frame(rows, "group", "parameter")

    def population(self, prob: float = 0.9) -> DataFrame:
        """Return what pooled groups have in common: mean, sd and equal-tailed interval of each hyperparameter."""
        return _frame(self.population_rows(prob), "parameter")

    def population_rows(self, prob: float = 0.9) -> Rows:
        """Return the same as plain records."""
        hyperparameters, tail = dict(self.reader.population()), tail_of(prob)
        weights, rows = hyperparameters.pop("weight"), []
        for name, values in hyperparameters.items():
            order = np.argsort(values)
            ladder = np.cumsum(weights[order]) - weights[order] / 2
            low, high = np.interp([tail, 1 - tail], ladder, values[order])
            mean = weights @ values
            sd = np.sqrt(weights @ (values - mean) ** 2)
            ends = {"low": float(low), "high": float(high)}
            method = {"interval_method": self.interval_method}
            rows.append({"parameter": name, "mean": float(mean), "sd": float(sd), **ends, **method})
        return rows

    def to_arviz(self, rng: np.random.Generator | None = None, *, chains: int = 4, draws: int = 1000) -> Any:
        """Return the draws as an ArviZ tree (dimensions chain and draw), without data or likelihoods.

        Released draws are one chain. The tree's attributes hold the label, how intervals are made, what is wrong with
        single ones (`remarks`), and the certificate.
        """
        return FACADE["arviz_tree"](self, generator_of(rng), chains, draws)

    def _sample(self, groups: tuple[str, ...], draws: int | None, rng: np.random.Generator) -> dict[str, Array]:
        """Return draws of these groups that belong together."""
        if draws is None:
            first = self.distributions[groups[0]] if groups else None
            draws = len(first.values) if isinstance(first, ReleasedDraws) else _DRAWS
        return self.reader.draw_groups(self.distributions, groups, require_whole("draws", draws), rng)


def note_of(release: Release) -> str:
    """Return a posterior's note, without computing it."""
    if any(isinstance(content, Draws) for content in release.contents.values()):
        return ""
    return _note(reader_of(release.family, release.prior), release.certificate)


def _note(reader: Reader, certificate: Certificate) -> str:
    return reader.average_words if _has_several_rows(certificate) else ""


def _has_several_rows(certificate: Certificate) -> bool:
    """Tell whether a unit may have several rows."""
    rows = certificate.population.get("rows", 1)
    return bool(is_number(rows) and rows > 1)


NOTHING = "nothing reached the threshold, so there is nothing to draw; spend more, or ask a column with fewer values."
# Draws where the caller names no number.
_DRAWS = 1000


def _frame(rows: Rows, *index: str) -> DataFrame:
    """Return rows as a frame that says above its columns how intervals are made."""
    from pandas import DataFrame

    if not rows:
        return DataFrame([], columns=[*index, "mean", "sd", "low", "high"]).set_index(list(index))
    frame = DataFrame(rows).set_index(list(index))
    frame = frame.fillna({"note": ""}) if "note" in frame else frame
    return frame.drop(columns="interval_method").rename_axis(columns=rows[0]["interval_method"])


def _ends(marginal: Marginal, prob: float) -> dict[str, float]:
    """Return an interval whose low end is not above its high end; each end is exact to 1e-12 of its size or of 1."""
    low, high = map(_finite, marginal.interval(prob))
    if low > high and low - high <= _TOLERANCE * (1 + abs(low)):
        low = high = (low + high) / 2
    if low > high:
        raise ExtremeNumbers
    return {"low": low, "high": high}


def _numbers(marginal: Marginal, prob: float) -> dict[str, float]:
    """Return mean, sd and the ends of an interval."""
    ends = _ends(marginal, prob)
    return {"mean": _finite(marginal.mean()), "sd": _finite(np.sqrt(marginal.variance())), **ends}


def _finite(number: float) -> float:
    if not math.isfinite(number):
        raise ExtremeNumbers
    return float(number)


_TOLERANCE = 1e-9


def generator_of(rng: np.random.Generator | None) -> np.random.Generator:
    """Return the generator that is given, or a fresh one."""
    if rng is None:
        return np.random.default_rng()
    if not isinstance(rng, np.random.Generator):
        raise InvalidParameter("rng", rng, "a numpy generator", "rng=numpy.random.default_rng()")
    return rng


def _ratio(a: Array, b: Array) -> Array:
    if min(a.min(), b.min()) <= 0:
        raise InvalidParameter("scale", "ratio", "asked of what is above 0", 'scale="difference"')
    return a / b


def _odds_ratio(a: Array, b: Array) -> Array:
    if max(a.max(), b.max()) >= 1:
        raise InvalidParameter("scale", "odds ratio", "asked of probabilities", 'scale="ratio"')
    return _ratio(a / (1 - a), b / (1 - b))


# The name of each way, the sign between the groups, and the number itself.
_SCALES: dict[str, tuple[str, Callable[[Array, Array], Array]]] = {
    "difference": ("-", np.subtract),
    "ratio": ("/", _ratio),
    "odds ratio": ("odds /", _odds_ratio),
}


def contrast_rows(
    groups: tuple[str, str],
    draws: tuple[Array, Array],
    parameters: Sequence[str],
    tail: float,
    scale: str,
    outer: Callable[[Array], tuple[Array, Array]] = lambda draws: (draws, draws),
) -> list[dict[str, Any]]:
    """Return one row for each parameter; `tail` is the probability below an interval. `prob_positive` is P(a > b).

    `outer` says how low and how high draws leave what they are of; an interval takes that in.
    """
    sign, compare = _SCALES[scale]
    compared = compare(*draws)
    above = (draws[0] > draws[1]).mean(axis=0)
    (a_low, a_high), (b_low, b_high) = map(outer, draws)
    lows, highs = compare(a_low, b_high), compare(a_high, b_low)
    ends = np.array([np.quantile(lows, tail, axis=0), np.quantile(highs, 1 - tail, axis=0)])
    return [
        {
            "contrast": f"{groups[0]} {sign} {groups[1]}",
            "parameter": parameter,
            "mean": float(values.mean()),
            "sd": float(values.std()),
            "low": float(low),
            "high": float(high),
            "prob_positive": float(positive),
        }
        for parameter, values, (low, high), positive in zip(parameters, compared.T, ends.T, above, strict=True)
    ]
