"""What a posterior says of each parameter, computed once for tables, pictures and sentences."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice

import numpy as np

from vestry.posterior.mixture import Marginal, PosteriorDistribution
from vestry.posterior.posterior import Posterior
from vestry.posterior.reader import DRAWS
from vestry.releases import NoisyStatistics
from vestry.report.content import Result
from vestry.report.formatting import whole

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
        Its law.
    mean, sd
        Its moments.
    half, wide
        The equal-tailed intervals of 50 % and 90 %.
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
    dimension = result.posterior.reading.dimension
    if len(result.labels) == dimension:
        return result.labels
    first = next(iter(result.release.contents.values()))
    names = first.names if isinstance(first, NoisyStatistics) else ()
    if len(names) == dimension > 2 and result.posterior.reading.parameter == "probability":
        return names
    return result.posterior.parameters


def estimates(result: Result) -> tuple[Estimate, ...]:
    """Return every parameter of every group, or the first of many; nothing for released draws and hidden states."""
    if result.posterior.label == DRAWS or result.posterior.reading.sampled:
        return ()
    names = labels(result)
    rows = (
        (law, group, names[index], index)
        for group, law in result.posterior.laws.items()
        for index in range(law.dimension)
    )
    return tuple(_estimate(*row) for row in islice(rows, MOST_ESTIMATES))


def first_of(shown: int, count: int) -> str:
    """Say that a table has the first of its rows alone, if it has."""
    return "" if shown >= count else f"; the first {shown} of {whole(count)} rows, all of them by vestry posterior"


def size(result: Result) -> int:
    """Return how many parameters there are in all."""
    return len(result.posterior.laws) * result.posterior.reading.dimension


def name_of(group: str, label: str, posterior: Posterior) -> str:
    """Return what a row is called: by its group, by its parameter, or by both."""
    if posterior.by is None:
        return label
    return group if posterior.reading.dimension == 1 else f"{group}: {label}"


def prior(posterior: Posterior) -> PosteriorDistribution:
    """Return the prior: the posterior of no records at all."""
    size = posterior.reading.dimension
    zeros = max(2, size) if posterior.reading.parameter == "probability" else size + 1
    names = tuple(str(place) for place in range(zeros))
    return posterior.reading.plug_in(NoisyStatistics(names, (0,) * zeros, "discrete-laplace", 1.0))


def _estimate(law: PosteriorDistribution, group: str, label: str, index: int) -> Estimate:
    marginal = law.marginal(index)
    levels = np.array([(1 - _REACH) / 2, (1 - WIDE) / 2, (1 - HALF) / 2])
    ends = marginal.quantile(np.concatenate([levels, 1 - levels[::-1]]))
    outer, wide, half = ((float(ends[i]), float(ends[5 - i])) for i in range(3))
    deviation = float(np.sqrt(marginal.variance()))
    return Estimate(group, label, index, marginal, marginal.mean(), deviation, half, wide, outer)
