"""A release as data for any model: the exact log-likelihood of its noisy numbers.

Two functions of one release. `log_prob(statistic)` is log P(noise = noisy - true), for any true statistic, of which a
model may make what it likes. `log_likelihood(...)` is log p(noisy | parameters) with the true counts summed out: see
`count_terms`. Both take arrays of NumPy, of JAX, which differentiates them, and of PyTensor. They are free: a function
of what was published.

Given its parameters, a group's noisy numbers are independent of those of other groups, so a model adds up the
log-likelihoods of all groups. That holds for noise on disjoint groups; it assumes independent records, as every model
of counts does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from vestry.errors import ExtremeNumbers, InvalidParameter
from vestry.likelihood.array_math import ArrayMath, math_of
from vestry.likelihood.count_terms import (
    CountTerm,
    KnownTotalTerm,
    MixtureTerm,
    binomial_term,
    known_total_term,
    mean_term,
    poisson_term,
    rate_term,
)
from vestry.likelihood.stan_program import StanProgram, stan_program
from vestry.numerics import Array
from vestry.posterior.discrete_noise import Cube, IntegerNoise, law
from vestry.posterior.noisy_data import BINOMIAL, GRAM, MULTINOMIAL, POISSON, SUMS, NoisyData
from vestry.posterior.posterior import note_of
from vestry.posterior.reader import reader_of, refuse_extremes
from vestry.releases import Release
from vestry.validation import require_choice

# Counts and scales from which doubles skip whole numbers.
_LARGEST = 2**50


@dataclass(frozen=True, eq=False)
class Likelihood:
    """The log-likelihood of noisy numbers: of one group, or of all at once, one row each.

    Attributes
    ----------
    values
        The noisy numbers, in records and in units of the columns: by group, if there are several, and name.
    units
        What one unit of the integer noise stands for, of each number.
    groups, names
        What the rows and the columns of `values` are of.
    levels
        The level of each group, by column.
    noise, scale
        The distribution of the noise, and its scale in integer units; see `NoisyStatistics`.
    note
        What is taken as independent, where a unit may have several rows; else empty.
    """

    values: Any
    units: Any
    groups: tuple[str, ...]
    names: tuple[str, ...]
    levels: tuple[tuple[str, tuple[str, ...]], ...]
    noise: str
    scale: float
    note: str = ""

    kind: ClassVar[str] = SUMS

    def __repr__(self) -> str:
        size = f", groups={len(self.groups)}" if self.is_batch else ""
        return f"<{self.kind} likelihood: {', '.join(self.names)}{size}>"

    @property
    def is_batch(self) -> bool:
        """Whether it is of several groups."""
        return len(self.levels) > 0

    @property
    def batch_shape(self) -> tuple[int, ...]:
        """The shape of what is returned, for one set of parameters."""
        return (len(self.groups),) if self.is_batch else ()

    def index(self, column: str) -> np.ndarray:
        """Return the place of each group's level among those of a column, from 0 on: an index for a model's effects."""
        labels = self.labels(column)
        own = dict(self.levels)[column]
        return np.array([labels.index(each) for each in own])

    def labels(self, column: str) -> tuple[str, ...]:
        """Return the levels of a column by which records are grouped, in the order of the release."""
        levels = dict(self.levels)
        if column not in levels:
            allowed = f"one of {', '.join(levels)}" if levels else "one by which records are grouped: there is none"
            raise InvalidParameter("a column", column, allowed, next(iter(levels), "a release with by"))
        return tuple(dict.fromkeys(levels[column]))

    def log_prob(self, statistic: Any) -> Any:
        """Return log P(noise = noisy - true), at true numbers in the units of `values`, along the last axis.

        It is exact at whole numbers of units; between them the same formula is a smooth (of Laplace noise, a
        continuous) function of the statistic.
        """
        maths = math_of(statistic, self.values)
        given = statistic if hasattr(statistic, "shape") else np.asarray(statistic, dtype=float)
        self._check_last(given, len(self.names), "a statistic")
        gap = (given - self.values) / self.units
        return law(self.noise, self.scale, len(self.names)).log_probability(maths, gap)

    def log_likelihood(self, **parameters: Any) -> Any:
        """Return log p(noisy | parameters), by group; refused where the numbers are not of a kind that has some."""
        allowed = "asked of successes, counts, levels or products; log_prob(statistic) is there for every release"
        raise InvalidParameter("log_likelihood", ", ".join(self.names), allowed, "log_prob(statistic)")

    def to_stan(self, name: str = "release") -> StanProgram:
        """Return functions, declarations and data for Stan, the data called after `name`; see `stan_program`."""
        return stan_program(self, name)

    def _check_last(self, given: Any, size: int, what: str) -> None:
        shape = getattr(given, "shape", ())
        if isinstance(shape, tuple) and (not shape or shape[-1] != size):
            named = f"{size} along its last axis ({', '.join(self.names[:6])}{', ...' if size > 6 else ''})"
            raise InvalidParameter(f"the shape of {what}", shape, named, "one number for each")


def one_of(first: tuple[str, Any, Any], second: tuple[str, Any, Any]) -> Any:
    """Return the one of two parameters that is given, as the first one's kind."""
    given = [(make(value) if make else value) for _, value, make in (first, second) if value is not None]
    if len(given) != 1:
        names = f"{first[0]} and {second[0]}"
        raise InvalidParameter(names, "both" if given else "none", "given as one of the two", f"{first[0]}=...")
    return given[0]


def array_of(given: Any) -> Any:
    """Return a parameter as an array; those of other libraries are left alone."""
    return given if given is None or hasattr(given, "shape") else np.asarray(given, dtype=float)


@dataclass(frozen=True, eq=False, repr=False)
class BinomialLikelihood(Likelihood):
    """Successes among records: of a public number of records, or beside noisy failures where it is private.

    Attributes
    ----------
    term
        The sum over counts.
    total
        The number of records of each group where it is public; else None.
    """

    term: Any = None
    total: Any = None

    kind: ClassVar[str] = BINOMIAL

    def log_likelihood(  # type: ignore[override]
        self, *, logits: Any = None, probs: Any = None, total_mean: Any = None, total_shape: Any = 1.0
    ) -> Any:
        """Return log p(noisy | probability of success), by group.

        Parameters
        ----------
        logits, probs
            One of the two: log odds, or probability, of each group along the last axis.
        total_mean, total_shape
            Of the negative binomial distribution of a private number of records; a shape of 1 is geometric. Both may be
            parameters of the model. Without a mean every number of records is equally likely.
        """
        logits, probs = array_of(logits), array_of(probs)
        maths = math_of(logits, probs, self.values)
        eta = one_of(("logits", logits, None), ("probs", probs, maths.logit))
        if isinstance(self.term, CountTerm):
            _refuse_totals(total_mean)
            return self.term.log_sum(maths, eta) + self.total * maths.log_expit(-eta)
        shifts = maths.xp.stack([maths.log_expit(eta), maths.log_expit(-eta)], axis=-1)
        return _with_total(maths, self.term, shifts, total_mean, total_shape)


@dataclass(frozen=True, eq=False, repr=False)
class MultinomialLikelihood(Likelihood):
    """Counts of levels, whose total is public or not.

    Attributes
    ----------
    term
        The sum over counts.
    """

    term: Any = None

    kind: ClassVar[str] = MULTINOMIAL

    def log_likelihood(  # type: ignore[override]
        self, *, logits: Any = None, probs: Any = None, total_mean: Any = None, total_shape: Any = 1.0
    ) -> Any:
        """Return log p(noisy | probabilities of the levels), by group; the levels are the last axis.

        `logits` are logarithms of the probabilities up to a constant; the rest is as in `BinomialLikelihood`.
        """
        logits, probs = array_of(logits), array_of(probs)
        maths = math_of(logits, probs, self.values)
        log_p = one_of(("logits", logits, maths.log_softmax), ("probs", probs, maths.log))
        self._check_last(log_p, len(self.names), "probabilities")
        if isinstance(self.term, KnownTotalTerm):
            _refuse_totals(total_mean)
            return self.term.log_sum(maths, log_p)
        return _with_total(maths, self.term, log_p, total_mean, total_shape)


def _refuse_totals(total_mean: Any) -> None:
    if total_mean is not None:
        raise InvalidParameter("total_mean", "given", "omitted where the number of records is public", "no total_mean")


def _with_total(maths: ArrayMath, term: MixtureTerm, shifts: Any, mean: Any, shape: Any) -> Any:
    """Return (3) of `count_terms`, with the density of the total's mean: flat, or gamma."""
    if mean is None:
        return term.log_sum(maths, shifts)
    mean, shape = array_of(mean), array_of(shape)
    maths = math_of(shifts, mean, shape)
    rate = shape / mean
    # Nodes are the first axis but those of parameters; groups come after it.
    if getattr(mean, "ndim", 0) or getattr(shape, "ndim", 0):
        rate, shape = (maths.xp.expand_dims(each + 0.0 * rate, -term.tables.rows.ndim) for each in (rate, shape))
    nodes = maths.xp.exp(term.log_nodes)
    density = shape * maths.xp.log(rate) - maths.log_gamma(shape) + (shape - 1.0) * term.log_nodes - rate * nodes
    return term.log_sum(maths, shifts, density)


@dataclass(frozen=True, eq=False, repr=False)
class PoissonLikelihood(Likelihood):
    """Sums of counts, of public or noisy numbers of records; or numbers of records themselves.

    Attributes
    ----------
    term
        The sum over counts.
    records
        The number of records where it is public, 1 where records are counted; None where it is noisy.
    """

    term: Any = None
    records: Any = None

    kind: ClassVar[str] = POISSON

    def log_likelihood(self, *, rate: Any = None, log_rate: Any = None) -> Any:  # type: ignore[override]
        """Return log p(noisy | rate), by group.

        The rate is that of one record, given as itself or by its logarithm; of a count of records it is their expected
        number. A private number of records is summed out, each equally likely.
        """
        rate, log_rate = array_of(rate), array_of(log_rate)
        maths = math_of(rate, log_rate, self.values)
        t = one_of(("log_rate", log_rate, None), ("rate", rate, maths.log))
        if isinstance(self.term, CountTerm):
            t = t + maths.xp.log(self.records)
            return self.term.log_sum(maths, t) - maths.xp.exp(t)
        return self.term.log_sum(maths, maths.xp.expand_dims(t, -1))


@dataclass(frozen=True, eq=False, repr=False)
class GramLikelihood(Likelihood):
    """Sums of all products of a record's columns: a noisy Gram matrix.

    The matrix is A = sum of zz' over z = (1, numbers, indicators): a number is scaled so that its declared interval
    becomes [-1, 1], levels are indicators against the first one.

    Attributes
    ----------
    basis
        The names of z.
    middles, reaches
        A number is middle + reach times its scaled value; 0 and 1 for the rest.
    rows, columns
        The place in A of each noisy number.
    count
        The number of records where it is public; else A[0, 0] is among the noisy numbers.
    """

    basis: tuple[str, ...] = ()
    middles: tuple[float, ...] = ()
    reaches: tuple[float, ...] = ()
    rows: tuple[int, ...] = ()
    columns: tuple[int, ...] = ()
    count: float | None = None

    kind: ClassVar[str] = GRAM

    def log_likelihood(self, *, gram: Any) -> Any:  # type: ignore[override]
        """Return log p(noisy | Gram matrix), by group: the density of the noise there."""
        gram = array_of(gram)
        size = len(self.basis)
        shape = getattr(gram, "shape", ())
        if isinstance(shape, tuple) and shape[-2:] != (size, size):
            allowed = f"({size}, {size}) in its last axes: {', '.join(self.basis)}"
            raise InvalidParameter("the shape of gram", shape, allowed, "the sum of zz'")
        return self.log_prob(gram[..., np.array(self.rows), np.array(self.columns)])

    def noisy_gram(self) -> Array:
        """Return the noisy Gram matrix itself, by group; noise may have made it indefinite."""
        values = np.asarray(self.values)
        gram = np.zeros((*values.shape[:-1], len(self.basis), len(self.basis)))
        if self.count is not None:
            gram[..., 0, 0] = self.count
        gram[..., self.rows, self.columns] = gram[..., self.columns, self.rows] = values
        own = set(zip(self.rows, self.columns, strict=True))
        for place in range(1, len(self.basis)):
            if (place, place) not in own:  # an indicator is its own square
                gram[..., place, place] = gram[..., 0, place]
        return gram


def likelihood_of(release: Release, group: str | None = None) -> Likelihood:
    """Return the log-likelihood of a release: of one group, or of all at once, one row each.

    Parameters
    ----------
    release
        One of noisy statistics.
    group
        A group's name, of a regression by table a cell's; if omitted, all of them.
    """
    reader = reader_of(release.family, release.prior)
    if group in release.contents and release.by is not None:
        release = Release(
            release.family, release.prior, {str(group): release.contents[str(group)]},
            release.certificate, release.by, release.labels,
        )  # fmt: skip
    data = reader.noisy_data(release)
    if group is not None:
        require_choice("a group", group, data.groups)
    _check_numbers(data)
    rows: Any = slice(None) if group is None and not data.is_one else 0 if group is None else data.groups.index(group)
    facts = _facts(data, rows, release)
    with refuse_extremes():
        return _MAKERS.get(data.kind, _sums)(data, data.values[rows], facts)


def _check_numbers(data: NoisyData) -> None:
    noise = law(data.noise, data.scale, len(data.names))
    if data.kind != GRAM and (data.scale > _LARGEST or np.abs(data.values).max(initial=0.0) > _LARGEST):
        raise InvalidParameter("a noisy number or its scale", "one beyond it", "at most 2^50", "the release's own")
    if data.kind != SUMS and isinstance(noise, Cube):
        raise InvalidParameter("noise", data.noise, "noise of each number for itself", "laplace or gaussian")


def _facts(data: NoisyData, rows: Any, release: Release) -> dict[str, Any]:
    several = isinstance(rows, slice)
    named = data.kind == MULTINOMIAL and len(release.labels) == len(data.names)
    return {
        "values": data.values[rows] * data.units,
        "units": data.units,
        "groups": data.groups if several else (data.groups[rows],),
        "names": release.labels if named else data.names,
        "levels": tuple(data.levels.items()) if several else (),
        "noise": data.noise,
        "scale": float(data.scale),
        "note": note_of(release),
    }


def _sums(data: NoisyData, noisy: Array, facts: Mapping[str, Any]) -> Likelihood:
    return Likelihood(**facts)


def _own_noise(data: NoisyData) -> IntegerNoise:
    """Return the law of each number; that there is one was checked."""
    noise = law(data.noise, data.scale, len(data.names))
    assert isinstance(noise, IntegerNoise)  # noqa: S101
    return noise


def _binomial(data: NoisyData, noisy: Array, facts: Mapping[str, Any]) -> Likelihood:
    noise = _own_noise(data)
    if noisy.shape[-1] == 1 and data.count is not None:
        totals = np.full(noisy.shape[:-1], float(data.count))
        return BinomialLikelihood(**facts, term=binomial_term(noisy[..., 0], noise, totals), total=totals)
    return BinomialLikelihood(**facts, term=mean_term(noisy, noise))


def _multinomial(data: NoisyData, noisy: Array, facts: Mapping[str, Any]) -> Likelihood:
    noise = _own_noise(data)
    if data.count is None or noisy.ndim > 1:
        return MultinomialLikelihood(**facts, term=mean_term(noisy, noise))
    return MultinomialLikelihood(**facts, term=known_total_term(noisy, noise, data.count))


def _poisson(data: NoisyData, noisy: Array, facts: Mapping[str, Any]) -> Likelihood:
    noise = _own_noise(data)
    if noisy.shape[-1] == 1:
        records = np.full(noisy.shape[:-1], 1.0 if data.count is None else float(data.count))
        return PoissonLikelihood(**facts, term=poisson_term(noisy[..., 0], noise), records=records)
    units = round(1 / float(data.units[1]))
    if units < 1:
        raise ExtremeNumbers
    return PoissonLikelihood(**facts, term=rate_term(noisy[..., 1] / units, noisy[..., 0], noise, units))


def _gram(data: NoisyData, noisy: Array, facts: Mapping[str, Any]) -> Likelihood:
    rows, columns = zip(*data.described["pairs"][: noisy.shape[-1]], strict=True)
    shown = {key: data.described[key] for key in ("basis", "middles", "reaches")}
    return GramLikelihood(**facts, **shown, rows=rows, columns=columns, count=data.count)


_MAKERS = {BINOMIAL: _binomial, MULTINOMIAL: _multinomial, POISSON: _poisson, GRAM: _gram}
