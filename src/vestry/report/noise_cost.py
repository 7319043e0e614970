"""How much of an interval's width is the noise: what privacy cost in precision."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from vestry.posterior.mixture import PosteriorDistribution
from vestry.posterior.posterior import Posterior
from vestry.releases import NoisyStatistics, Release
from vestry.report.estimates import Estimate


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
        """How many times as wide the noise makes the interval."""
        return self.actual / self.exact


def shares(release: Release, posterior: Posterior, found: tuple[Estimate, ...]) -> tuple[Share, ...]:
    """Compare each estimate with the same model at the same numbers without noise."""
    rows, plain = [], dict[str, PosteriorDistribution]()
    for each in found:
        content = release.contents[each.group]
        assert isinstance(content, NoisyStatistics), "estimates come from noisy statistics"  # noqa: S101
        if each.group not in plain:
            plain[each.group] = posterior.reading.plug_in(content)
        exact = plain[each.group].marginal(each.index)
        on_estimate = _on_estimate(release.family, content, posterior.reading.dimension, exact.mean(), each.index)
        rows.append(Share(on_estimate, math.sqrt(exact.variance()), each.sd))
    return tuple(rows)


def deviation(noise: str, scale: float) -> float:
    """Return the standard deviation of integer noise."""
    if noise == "discrete-laplace":
        # With q = e^(-1/scale) the variance is 2q/(1 - q)^2 = 1/(2 sinh^2(1/(2 scale))).
        return 1 / (math.sqrt(2) * math.sinh(1 / (2 * scale))) if scale > 1e-3 else 0.0
    if scale > 5:
        return scale
    k = np.arange(-60, 61)
    weights = np.exp(-(k**2) / (2 * scale**2))
    return float(np.sqrt(weights @ k**2 / weights.sum()))


def _on_estimate(
    family: Mapping[str, Any], content: NoisyStatistics, dimension: int, mean: float, index: int
) -> float | None:
    """Return the noise's standard deviation on a proportion or mean, to first order.

    A proportion s/n with n public: sd/n. With every count noisy: sd/n sqrt((1-p)^2 + (d-1) p^2), d counts. A mean
    middle + y/n: grid sd/n, and with n noisy also (mean - middle) count_grid sd/n.
    """
    sd, public = deviation(content.noise, content.scale), content.count is not None
    if family["name"] == "normal-mean":
        n = float(content.count) if content.count is not None else content.values[-1] * content.count_grid
        away = 0.0 if public else (mean - (float(family["low"]) + float(family["high"])) / 2) * content.count_grid
        return math.hypot(content.grid, away) * sd / n if n > 0 else None
    if family["name"] not in ("beta-bernoulli", "dirichlet-categorical"):
        return None
    n = float(content.count) if content.count is not None else float(sum(content.values))
    if n <= 0:
        return None
    others = 0 if public else len(content.values) - 1
    p = min(max(content.values[index] / n, 0.0), 1.0) if others else 0.0
    return sd / n * math.sqrt((1 - p) ** 2 + others * p**2)
