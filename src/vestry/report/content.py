"""What a page tells: a study's public facts and its releases. Nothing here was read from a record.

What a posterior says of each parameter, computed once for tables, pictures and sentences.

Differences between groups, from draws whose seed is the release's hash: the page is a function of the release.

How much of an interval's width is the noise: what privacy cost in precision.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, islice
from typing import Any

import numpy as np

from vestry.display.formatting import Digits, whole
from vestry.posterior.mixture import Marginal, PosteriorDistribution
from vestry.posterior.posterior import Posterior, Rows
from vestry.posterior.reader import DRAWS
from vestry.releases import NoisyStatistics, Release

# A spread from which on numbers have no decimals.
_WHOLE = 4.0


@dataclass(frozen=True)
class Result:
    """One release of a study.

    Attributes
    ----------
    name
        The release's name in the study.
    question
        What was asked, in words.
    release
        What was published.
    entry
        The number of the ledger's charge.
    spent
        What this release asked for, for example `epsilon=0.3`.
    remaining
        What remained after it, in words.
    labels
        What each parameter of a group is called, for example the levels of a column; the posterior's names if empty.
    given
        What follows from the release, if it was computed already.
    warnings
        What is wrong with the columns that it rests on, in sentences.
    pool
        Whether groups learn from each other.
    unit
        The columns in whose units a mean is; empty where that is not known.
    """

    name: str
    question: str
    release: Release
    entry: int
    spent: str
    remaining: str
    labels: tuple[str, ...] = ()
    given: Posterior | None = None
    warnings: tuple[str, ...] = ()
    pool: bool = False
    unit: str = ""

    @cached_property
    def posterior(self) -> Posterior:
        """What follows from the release; computed when it is first asked for."""
        return Posterior.from_release(self.release, pool=self.pool) if self.given is None else self.given

    def digits(self, spread: float) -> Digits:
        """Return how numbers of this spread are written; counts are whole."""
        return Digits(max(spread, _WHOLE) if self.posterior.reader.parameter == "count" else spread, self.percent)

    @property
    def percent(self) -> bool:
        """Whether people think of its numbers in percent."""
        return bool(self.posterior.reader.parameter == "probability")

    @property
    def measure(self) -> str:
        """What is estimated, with its unit."""
        what = self.posterior.reader.parameter
        return f"{what}, in units of {self.unit}" if what == "mean" and self.unit else str(what)


@dataclass(frozen=True)
class ReportContent:
    """A study with its releases.

    Attributes
    ----------
    title, dataset
        Names.
    unit, neighbours
        Whose change is protected, and which change.
    budget, remaining
        What may be spent in all, and what remains after the last release, in words.
    columns
        The declared domains as a study file writes them, for example {"stay": {"interval": [0, 60]}}.
    public
        Sentences that say what is public.
    source
        The study file's text.
    ledger, head
        The ledger's address and the hash of its last line.
    results
        The releases, in the order of their charges.
    issuer, contact, date, purpose
        Who issues the report, whom to ask, when, and why the data are used; as the study file says, or empty.
    """

    title: str
    dataset: str
    unit: str
    neighbours: str
    budget: str
    remaining: str
    columns: Mapping[str, Mapping[str, Any]]
    public: tuple[str, ...]
    source: str
    ledger: str
    head: str
    results: tuple[Result, ...]
    issuer: str = ""
    contact: str = ""
    date: str = ""
    purpose: str = ""


# The tails of the half and of the wide interval, and how far pictures reach.
HALF, WIDE, _REACH = 0.5, 0.9, 0.999
# A page tells of so many parameters of a release, each with its row.
MOST_ESTIMATES = 200


@dataclass(frozen=True, eq=False)
class Estimate:
    """One parameter of one group.

    Attributes
    ----------
    group, label
        Which one; the label is the parameter's name.
    index
        The parameter's place.
    marginal
        Its distribution.
    mean, sd
        Its moments.
    half, wide
        The equal-tailed 50 % and 90 % credible intervals.
    reach
        Where pictures begin and end.
    """

    group: str
    label: str
    index: int
    marginal: Marginal
    mean: float
    sd: float
    half: tuple[float, float]
    wide: tuple[float, float]
    reach: tuple[float, float]


def labels(result: Result) -> tuple[str, ...]:
    """Return what the parameters are called: as the study says, or by the categories that were counted."""
    dimension = result.posterior.reader.dimension
    if len(result.labels) == dimension:
        return result.labels
    first = next(iter(result.release.contents.values()))
    names = first.names if isinstance(first, NoisyStatistics) else ()
    if len(names) == dimension > 2 and result.posterior.reader.parameter == "probability":
        return names
    return result.posterior.parameters


def estimates(result: Result) -> tuple[Estimate, ...]:
    """Return every parameter of every group, or the first of many; nothing for what has a section of its own."""
    reader = result.posterior.reader
    if result.posterior.label == DRAWS or reader.sampled or reader.display in ("moments", "table", "quality", "levels"):
        return ()
    names = labels(result)
    rows = (
        (distribution, group, names[index], index)
        for group, distribution in result.posterior.distributions.items()
        for index in range(distribution.dimension)
    )
    return tuple(_estimate(*row) for row in islice(rows, MOST_ESTIMATES))


def first_of(shown: int, count: int) -> str:
    """Say that a table has the first of its rows alone, if it has."""
    return "" if shown >= count else f"; the first {shown} of {whole(count)} rows, all of them by vestry posterior"


def size(result: Result) -> int:
    """Return how many parameters there are in all."""
    return len(result.posterior.distributions) * result.posterior.reader.dimension


def prior(posterior: Posterior) -> PosteriorDistribution:
    """Return the prior: the posterior of no records at all."""
    return posterior.reader.before()


def _estimate(distribution: PosteriorDistribution, group: str, label: str, index: int) -> Estimate:
    marginal = distribution.marginal(index)
    levels = np.array([(1 - _REACH) / 2, (1 - WIDE) / 2, (1 - HALF) / 2])
    ends = marginal.quantile(np.concatenate([levels, 1 - levels[::-1]]))
    outer, wide, half = ((float(ends[i]), float(ends[5 - i])) for i in range(3))
    if not getattr(marginal, "equal_tailed", True):
        wide, half = marginal.interval(WIDE), marginal.interval(HALF)
    deviation = float(np.sqrt(marginal.variance()))
    return Estimate(group, label, index, marginal, marginal.mean(), deviation, half, wide, outer)


# Up to this many groups every pair is compared; beyond, each group with the first.
MOST_PAIRED = 4
# How many draws a difference rests on, and how many numbers they have at most.
DRAWN, _NUMBERS = 20_000, 2_000_000
# Draws that ranks rest on.
_RANKED = 2000
# Further rows are omitted from the page.
MOST_ROWS = 66


def contrasts(result: Result) -> Rows:
    """Return the differences of groups, one row for each pair and parameter."""
    posterior = result.posterior
    groups = list(posterior.distributions)
    if posterior.by is None or len(groups) < 2 or posterior.label == DRAWS:
        return []
    pairs = list(combinations(groups, 2)) if len(groups) <= MOST_PAIRED else [(g, groups[0]) for g in groups[1:]]
    seed, names = int(result.release.to_dict()["sha256"], 16), labels(result)
    rows: Rows = []
    for place, (a, b) in enumerate(pairs):
        if len(rows) >= MOST_ROWS:
            break
        frame = posterior.contrast(a, b, rng=np.random.default_rng([seed, place]), draws=draw_count(result))
        records = frame.reset_index().to_dict("records")
        rows += [{**row, "a": a, "b": b, "label": name} for row, name in zip(records, names, strict=True)]
    return rows[:MOST_ROWS]


def ranks(result: Result) -> Rows:
    """Return how pooled groups rank, the first of many."""
    rng = np.random.default_rng([int(result.release.to_dict()["sha256"], 16), 1 << 32])
    rows = result.posterior.ranks(rng=rng, draws=_RANKED).reset_index().to_dict("records")
    return [{str(key): value for key, value in row.items()} for row in rows[:MOST_ESTIMATES]]


def draw_count(result: Result) -> int:
    """Return how many draws a difference rests on: fewer where a group has very many parameters."""
    return max(1000, min(DRAWN, _NUMBERS // result.posterior.reader.dimension))


def compared_groups(result: Result) -> str:
    """Say which groups are compared."""
    groups = list(result.posterior.distributions)
    if len(groups) <= MOST_PAIRED:
        return "every pair of groups"
    return f"each group with {groups[0]}"


@dataclass(frozen=True)
class Share:
    """One parameter's precision with the noise and without.

    Attributes
    ----------
    noise
        The standard deviation of the noise on the estimate itself; None where the noisy count is not above 0.
    exact
        The posterior's standard deviation, had the noisy statistics been exact.
    actual
        The posterior's standard deviation.
    """

    noise: float | None
    exact: float
    actual: float

    @property
    def ratio(self) -> float:
        """How many times as wide the noise makes the interval; infinite where noisy sums alone leave it no width."""
        return self.actual / self.exact if self.exact > 0 else math.inf


def shares(release: Release, posterior: Posterior, posterior_estimates: tuple[Estimate, ...]) -> tuple[Share, ...]:
    """Compare each estimate with the same model at the same numbers without noise."""
    rows, plain = [], dict[str, PosteriorDistribution]()
    for each in posterior_estimates:
        content = release.contents[each.group]
        assert isinstance(content, NoisyStatistics), "estimates come from noisy statistics"  # noqa: S101
        if each.group not in plain:
            plain[each.group] = posterior.reader.plug_in(content)
        exact = plain[each.group].marginal(each.index)
        on_estimate = posterior.reader.noise_on_estimate(content, exact.mean(), each.index)
        rows.append(Share(on_estimate, math.sqrt(exact.variance()), each.sd))
    return tuple(rows)
