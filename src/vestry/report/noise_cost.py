"""How much of an interval's width is the noise: what privacy cost in precision."""

from __future__ import annotations

import math
from dataclasses import dataclass

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
        on_estimate = posterior.reading.noise_on_estimate(content, exact.mean(), each.index)
        rows.append(Share(on_estimate, math.sqrt(exact.variance()), each.sd))
    return tuple(rows)
