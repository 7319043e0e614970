"""Naive Bayes from noisy counts: a table for each class and feature, and the classes' own probabilities.

A class's table of a feature is a Dirichlet posterior from that table's noisy counts, the noise summed out. The number
of records of a class is a margin of each of its tables, and all of them tell of it: with z the noisy counts,

    p(n_c | z) ~ product over features d of n_c!/Gamma(n_c + K_d a) [sum over s, s_1 + ... + s_K = n_c, of
                 product over levels j of Gamma(s_j + a)/s_j! P(noise = z_dj - s_j)],

and the class probabilities follow by summing over n_c. Where the concentration a is unknown (the default), a table of
three levels or more is a sparse one, whose own posterior of n_c takes the place of its factor here. Each table uses its
own counts alone, so tables of one class are independent here, though the unknown n_c ties them a little.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
from scipy.special import gammaln

from vestry.conjugate.dirichlet_categorical import DirichletCategoricalFamily
from vestry.conjugate.sparse_dirichlet import SparseDirichlet
from vestry.errors import InvalidParameter
from vestry.numerics import Array
from vestry.posterior.arviz_tree import Names
from vestry.posterior.discrete_noise import Noise, noise_of
from vestry.posterior.mixture import BetaMixture, DirichletMixture, Marginal, PosteriorDistribution
from vestry.posterior.reader import DRAWS, NOISE_AWARE, Reader, ReadRelease
from vestry.posterior.records import level_places
from vestry.releases import NoisyStatistics, Release
from vestry.validation import is_number, require_choice

# Log weight below which counts are omitted; points of a window; joint class sizes that stand for their distribution.
_DROP, _POINTS, _SIZES = 40.0, 1 << 17, 4096
_LARGEST = 2**50


@dataclass(frozen=True, eq=False)
class TableProduct:
    """Independent distributions side by side."""

    parts: tuple[PosteriorDistribution, ...]

    @property
    def dimension(self) -> int:
        """How many numbers there are."""
        return sum(part.dimension for part in self.parts)

    def marginal(self, index: int) -> Marginal:
        """Return the distribution of one number."""
        for part in self.parts:
            if index < part.dimension:
                return part.marginal(index)
            index -= part.dimension
        raise IndexError(index)

    def mean(self) -> Array:
        """Return the mean of each number."""
        return np.concatenate([np.atleast_1d(cast(Any, part).mean()) for part in self.parts])

    def remark(self, index: int) -> str:
        """Say what is wrong with the interval of one number; nothing if all is well."""
        for part in self.parts:
            if index < part.dimension:
                return part.remark(index) if hasattr(part, "remark") else ""
            index -= part.dimension
        raise IndexError(index)

    def draw(self, rng: np.random.Generator, size: int) -> Array:
        """Draw from each part."""
        return np.concatenate([part.draw(rng, size) for part in self.parts], axis=1)


@dataclass(frozen=True, eq=False)
class NaiveBayesReader(Reader):
    """The tables of all features by class.

    Attributes
    ----------
    features, levels
        The features, and the levels of each.
    target, classes
        The column of the classes and its levels; None and nothing for a density.
    alpha
        The concentration of every Dirichlet prior.
    sparse
        Whether it is unknown, for tables of three levels or more.
    shares
        The distribution of the class probabilities, once a release is read.
    total
        The number of records of all classes, projected, once a release is read.
    """

    features: tuple[str, ...]
    levels: tuple[tuple[str, ...], ...]
    target: str | None
    classes: tuple[str, ...]
    alpha: float
    sparse: bool = False
    shares: DirichletMixture | None = None
    total: float = 0.0

    parameter = "probability"

    @property
    def dimension(self) -> int:
        """Every level of every feature; and before them the class's own probability."""
        return sum(map(len, self.levels)) + (self.target is not None)

    def read_statistics(self, release: Release, method: str) -> ReadRelease:
        """Return the reading with its class probabilities, and the distribution of each class's tables."""
        if self.target is None:
            return super().read_statistics(release, method)
        contents = {group: each for group, each in release.contents.items() if isinstance(each, NoisyStatistics)}
        sizes = [self._size(each) for each in contents.values()]
        aware = method == NOISE_AWARE
        flat = DirichletMixture(np.ones(1), self.alpha + np.array([sizes]))
        parts = {group: self.noise_aware(each).parts for group, each in contents.items()} if aware else {}
        shares = self._shares(contents, parts) if aware else flat
        bound = replace(self, shares=shares, total=sum(sizes))
        tables: dict[str, PosteriorDistribution] = {
            group: TableProduct((shares.marginal(place), *parts[group])) if aware else bound.plug_in(each)
            for place, (group, each) in enumerate(contents.items())
        }
        return ReadRelease(bound, tables, method, release.by)

    def noise_aware(self, statistics: NoisyStatistics) -> TableProduct:
        """Return one class's tables, the noise summed out; the class's own probability needs the other classes."""
        return TableProduct(tuple(family.noise_aware(*table) for family, *table in self._tables(statistics)))

    def plug_in(self, statistics: NoisyStatistics) -> TableProduct:
        """Return one class's tables, the projected counts taken as exact."""
        rest = self.alpha * (len(self.classes) - 1)
        if len(statistics.values) == self.dimension and self.target is not None:  # of no records: the prior
            empty = replace(statistics, names=(), values=(0,) * sum(map(len, self.levels)))
            before = [family.plug_in(*table) for family, *table in self._tables(empty)]
            return TableProduct((BetaMixture(np.ones(1), np.array([self.alpha]), np.array([rest])), *before))
        tables = tuple(family.plug_in(*table) for family, *table in self._tables(statistics))
        if self.target is None:
            return TableProduct(tables)
        size = self._size(statistics)
        others = rest + max(self.total - size, 0.0)
        return TableProduct((BetaMixture(np.ones(1), np.array([self.alpha + size]), np.array([others])), *tables))

    def _tables(self, statistics: NoisyStatistics) -> Iterator[tuple[Any, ...]]:
        """Yield each feature's family and prior, and its noisy counts."""
        for values, names in zip(self._values(statistics), self.levels, strict=True):
            family = DirichletCategoricalFamily(len(names))
            prior = family.prior(() if self.sparse else (self.alpha,) * len(names))
            yield family, prior, replace(statistics, names=names[: len(values)], values=tuple(values))

    def remark(self, distribution: Any, index: int) -> str:
        """Say which levels of a table are faint."""
        said: str = distribution.remark(index)
        return said

    def predict(self, theta: Array, size: int, rng: np.random.Generator) -> Array:
        """Draw how many of `size` new records of the class have each level; and how many of `size` are of the class."""
        columns, start = [], 0
        if self.target is not None:
            columns, start = [rng.binomial(size, np.clip(theta[:, 0], 0.0, 1.0))[:, None]], 1
        for names in self.levels:
            part = theta[:, start : start + len(names)]
            columns.append(rng.multinomial(size, part / part.sum(axis=1, keepdims=True)))
            start += len(names)
        return np.concatenate(columns, axis=1).astype(float)

    def joint(self, tables: dict[str, Array], rng: np.random.Generator) -> dict[str, Array]:
        """Return draws of each class with class probabilities that add up to 1, as released draws have them."""
        if self.target is None or self.shares is None:
            return tables
        shares = self.shares.draw(rng, len(next(iter(tables.values()))))
        return {
            group: np.column_stack([shares[:, self.classes.index(group)], table[:, 1:]])
            for group, table in tables.items()
        }

    def classify(self, records: Any, posterior: Any) -> Any:
        """Return the predictive probability of each class, given the features' levels.

        p(c | x) ~ p(c, x) = E[probability of c x product over features j of the probability of x_j in c], over the
        posterior. A class's tables are independent there, so this is the product of their means; of released draws it
        is the mean of the products. One record is a mapping, of some features or all. Many are a frame, whose missing
        values are not looked at; nothing is drawn, and a million take about a second. A level is written as it was
        declared, or as text.
        """
        if self.target is None:
            raise InvalidParameter("target", None, "given to classify by", "a release with a target")
        if isinstance(records, Mapping):
            for name in records:
                require_choice("a feature", name, self.features, self.features[0])
            places = self._feature_places({name: [level] for name, level in records.items()}, list(records))
            return dict(zip(self.classes, self.class_chances(posterior, places, 1)[0].tolist(), strict=True))
        from pandas import DataFrame

        lacking = [name for name in self.features if name not in records.columns]
        if lacking:
            raise InvalidParameter("a frame to classify", f"one without {lacking[0]}", "of all features", lacking[0])
        chance = self.class_chances(posterior, self._feature_places(records, self.features), len(records))
        return DataFrame(chance, columns=list(self.classes), index=getattr(records, "index", None))

    def _feature_places(self, columns: Any, names: Sequence[str]) -> dict[str, np.ndarray]:
        """Return the levels of these features by place, -1 where one is missing."""
        levels = dict(zip(self.features, self.levels, strict=True))
        return {name: level_places(name, columns[name], levels[name]) for name in names}

    def class_chances(self, posterior: Any, places: Mapping[str, np.ndarray], size: int) -> Array:
        """Return the probabilities of the classes (records, classes); -1 is a level that is not looked at."""
        starts = dict(zip(self.features, 1 + np.cumsum([0, *map(len, self.levels)]), strict=False))
        widths = dict(zip(self.features, map(len, self.levels), strict=True))
        with np.errstate(divide="ignore"):
            tables = np.log(self._class_tables(posterior))
            total = np.full((size, len(self.classes)), -np.inf)
            for table in tables:  # one of means, or one for each draw
                logs = np.repeat(table[None, :, 0], size, axis=0)
                for name, its in places.items():
                    own = table[:, starts[name] : starts[name] + widths[name]]
                    logs += np.column_stack([own, np.zeros(len(own))]).T[its]
                np.logaddexp(total, logs, out=total)
        shares = np.logaddexp.reduce(tables[:, :, 0], axis=0)
        total = np.where(np.isfinite(total.max(axis=1))[:, None], total, shares)  # no draw may have such a record
        chance = np.exp(total - total.max(axis=1, keepdims=True))
        return np.asarray(chance / chance.sum(axis=1, keepdims=True))

    def _class_tables(self, posterior: Any) -> Array:
        """Return probabilities (tables, classes, numbers): of every released draw, or the posterior's means alone."""
        if posterior.label == DRAWS:
            draws = posterior.sample()
            return np.stack([draws[group] for group in self.classes], axis=1)
        return np.array([[posterior.distributions[group].mean() for group in self.classes]])

    def variables(
        self, posterior: Any, rng: np.random.Generator, chains: int, draws: int
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return each variable as (joint draws by chain, dimensions), and the coordinates of the dimensions."""
        size = None if posterior.label == DRAWS else chains * draws
        tables, coords = self.tables(self.joint(posterior.sample(size, rng), rng))
        chained = {name: (each.reshape(chains, -1, *each.shape[1:]), dims) for name, (each, dims) in tables.items()}
        return chained, coords

    def tables(self, tables: dict[str, Array]) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return each variable as (joint draws, dimensions), and the coordinates of the dimensions."""
        variables: dict[str, Any] = {}
        coords: dict[str, Any] = {}
        start, named = 0, Names("chain", "draw", "class_probability")
        target = "" if self.target is None else named(self.target)
        if self.target is not None:
            coords[target], start = list(self.classes), 1
            variables["class_probability"] = np.column_stack([table[:, 0] for table in tables.values()]), [target]
        for feature, names in zip(self.features, self.levels, strict=True):
            variable, level = named(f"probability_{feature}"), named(f"{feature}_level")
            coords[level] = list(names)
            parts = [table[:, start : start + len(names)] for table in tables.values()]
            if self.target is None:
                variables[variable] = parts[0], [level]
            else:
                variables[variable] = np.stack(parts, axis=1), [target, level]
            start += len(names)
        return variables, coords

    def _values(self, statistics: NoisyStatistics) -> list[Array]:
        """Return the noisy counts of each feature: of all its levels, or of the first of two beside a public total."""
        public = statistics.count is not None
        sizes = [1 if public and len(names) == 2 else len(names) for names in self.levels]
        if len(statistics.values) != sum(sizes):
            raise InvalidParameter(
                "the number of noisy statistics", len(statistics.values), str(sum(sizes)), "the release's own"
            )
        values = np.array([float(value) for value in statistics.values])
        if statistics.scale > _LARGEST or np.abs(values).max() > _LARGEST:
            raise InvalidParameter("a noisy count or its scale", "one beyond it", "at most 2^50", "the release's own")
        ends = np.cumsum(sizes)
        return [values[end - size : end] for end, size in zip(ends, sizes, strict=True)]

    def _size(self, statistics: NoisyStatistics) -> float:
        """Return about how many records per class has: the mean of its tables' sums, at least 0."""
        return max(0.0, float(np.mean([values.sum() for values in self._values(statistics)])))

    def _shares(self, contents: Mapping[str, NoisyStatistics], parts: Mapping[str, Any]) -> DirichletMixture:
        """Return the distribution of the class probabilities, the classes' sizes summed out.

        The prior of the number of all records is the improper uniform one. Sizes are drawn from their own
        distributions, each stratified, and weighted by n!/Gamma(n + C a) product of Gamma(n_c + a)/n_c!. The generator
        is seeded by the noisy counts.
        """
        seed = [int(z) & 0xFFFFFFFF for each in contents.values() for z in each.values]
        rng = np.random.default_rng(seed)
        sizes = np.stack([self._draw_sizes(each, parts[group], rng) for group, each in contents.items()], axis=1)
        total, own = sizes.sum(axis=1), gammaln(sizes + self.alpha) - gammaln(sizes + 1)
        logs = own.sum(axis=1) + gammaln(total + 1) - gammaln(total + len(self.classes) * self.alpha)
        weights = np.exp(logs - logs.max())
        return DirichletMixture(weights / weights.sum(), self.alpha + sizes)

    def _draw_sizes(self, statistics: NoisyStatistics, parts: Sequence[Any], rng: np.random.Generator) -> Array:
        unknown = [self.sparse and len(names) > 2 for names in self.levels]  # two levels are a proportion
        sparse = [part if each else None for part, each in zip(parts, unknown, strict=True)]
        tables, noise = self._values(statistics), noise_of(statistics)
        counts, logs = size_weights(tables, alpha=self.alpha, noise=noise, sparse=sparse)
        ladder = np.cumsum(np.exp(logs - logs.max()))
        places = (rng.permutation(_SIZES) + rng.random(_SIZES)) / _SIZES * ladder[-1]
        return np.asarray(counts[np.minimum(np.searchsorted(ladder, places), len(counts) - 1)])


def size_weights(
    tables: list[Array], *, alpha: float, noise: Noise, sparse: Sequence[SparseDirichlet | None] = ()
) -> tuple[Array, Array]:
    """Return numbers of records, and the log of how well each agrees with all noisy tables of a class.

    Where the noise is so large that windows would be long, counts are taken in steps, and the step is the unit of the
    model too: what matters then is their size relative to each other. `sparse` holds the posterior of each table whose
    concentration is unknown.
    """
    reach = math.ceil(noise.reach(_DROP))
    step = max(1, math.ceil(2 * reach * max(map(len, tables)) / _POINTS))
    known = sparse or [None] * len(tables)
    table_sums = [
        _table_sums(values, alpha, noise, reach, step) if part is None else _sparse_sums(part, values, reach, step)
        for values, part in zip(tables, known, strict=True)
    ]
    low = max(float(sums[0]) for sums, _ in table_sums)
    high = max(low, min(float(sums[-1]) for sums, _ in table_sums))
    counts = np.arange(low, high + step, step)
    logs = np.zeros(len(counts))
    for (sums, own), values, part in zip(table_sums, tables, known, strict=True):
        logs += np.interp(counts, sums, own)
        if part is None:
            logs += gammaln(counts / step + 1) - gammaln(counts / step + len(values) * alpha)
    return counts, logs


def _sparse_sums(part: SparseDirichlet, values: Array, reach: int, step: int) -> tuple[Array, Array]:
    """Return numbers of records that a sparse table leaves possible, and their log weights."""
    away = math.ceil(reach * math.sqrt(len(values)))
    start = step * math.floor(max(0.0, values.sum() - away) / step)
    counts = np.arange(start, max(values.sum(), 0.0) + away + step, step)
    return counts, part.log_total(counts)


def _table_sums(values: Array, alpha: float, noise: Noise, reach: int, step: int) -> tuple[Array, Array]:
    """Return the sums of one table's counts, and their log weights: a convolution of the levels' own."""
    low, mass, scale = 0.0, np.ones(1), 0.0
    for z in values:
        start = step * math.floor(max(0.0, z - reach) / step)
        counts = np.arange(start, max(z, 0.0) + reach + step, step)
        nearest = np.full_like(counts, max(z, 0.0))
        logs = noise.log_weight(counts, np.full_like(counts, z), nearest)
        logs = logs + gammaln(counts / step + alpha) - gammaln(counts / step + 1)
        top = float(logs.max())
        own = np.exp(logs - top)
        # Direct sums keep small weights; where they would be long, a transform does.
        mass = np.convolve(mass, own) if len(mass) * len(own) < 4e7 else _convolve_by_fft(mass, own)
        peak = float(mass.max())
        mass, scale, low = mass / peak, scale + top + math.log(peak), low + start
    with np.errstate(divide="ignore"):
        logs = np.log(np.maximum(mass, 1e-300)) + scale
    return np.asarray(low + step * np.arange(len(mass), dtype=np.float64)), np.asarray(logs)


def _convolve_by_fft(a: Array, b: Array) -> Array:
    """Return the convolution by Fourier transforms; what is below rounding becomes next to nothing."""
    size = len(a) + len(b) - 1
    whole = 1 << (size - 1).bit_length()
    convolution = np.fft.irfft(np.fft.rfft(a, whole) * np.fft.rfft(b, whole), whole)[:size]
    return np.maximum(convolution, 1e-300)


def naive_bayes_reader(family: Mapping[str, Any], prior: tuple[float, ...]) -> NaiveBayesReader:
    """Read what a release says of its naive Bayes model."""
    if prior and (len(prior) != 1 or not (is_number(prior[0]) and prior[0] > 0)):
        raise InvalidParameter("a naive Bayes prior", prior, "one finite number above 0", "for example prior=(1,)")
    return NaiveBayesReader(
        features=tuple(family["features"]),
        levels=tuple(tuple(names) for names in family["levels"]),
        target=family["target"],
        classes=tuple(family["classes"]),
        alpha=prior[0] if prior else 1.0,
        sparse=not prior,
    )
