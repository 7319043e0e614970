"""Prices a batch whose mechanisms were all fixed beforehand, by convolving privacy loss distributions.

Not for adaptive use: the ledger charges by filters (`vestry.ledger.privacy_filter`). dp-accounting does the
convolution; the distributions are built here from our own profiles, so none of its prices is used.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from vestry.numerics import outward
from vestry.privacy import accountant
from vestry.privacy.event import Event
from vestry.privacy.guarantee import ApproxDP, Guarantee
from vestry.privacy.pricing import PRICINGS
from vestry.validation import require_number


class PLDAccountant:
    """The price of an event's parts, run side by side: the better of two valid bounds.

    One convolves privacy loss distributions: each part's profile is joined by chords on a grid of losses
    [DoroshenkoGKKM22, Alg. 1], which is never below the true one. It needs a profile of every part. The other is the
    accountant's, which wins for exponential mechanisms: their profile is a maximum over pairs.

    Parameters
    ----------
    event
        What runs; all of it must be decided before anything is seen.
    interval
        The grid's step. A finer one is tighter and slower.
    """

    def __init__(self, event: Event, *, interval: float = 1e-4) -> None:
        require_number("interval", interval, "for example interval=1e-4", above=0, most=1)
        self._event = event
        self._rounding = _ROUNDING + 1e-15 * sum(count for _, count in event.leaves())
        self._distribution = _distribution(event, interval)

    def delta(self, epsilon: float) -> float:
        """Return a delta that holds at this epsilon."""
        adaptive = accountant.delta(self._event, epsilon)
        if self._distribution is None:
            return adaptive
        return min(adaptive, float(self._distribution.get_delta_for_epsilon(epsilon)) + self._rounding)

    def epsilon(self, delta: float) -> float:
        """Return an epsilon that holds at this delta."""
        adaptive = accountant.epsilon(self._event, delta)
        if self._distribution is None or delta <= self._rounding:
            return adaptive
        return min(adaptive, outward(float(self._distribution.get_epsilon_for_delta(delta - self._rounding))))


def price(event: Event, guarantee: Guarantee, *, interval: float = 2e-3) -> Guarantee:
    """Return the event's guarantee in the definition of `guarantee`, its runs being charged at once."""
    adaptive = accountant.price(event, guarantee)
    if event.count == 1 or not isinstance(adaptive, ApproxDP):
        return adaptive
    return adaptive.at(min(adaptive.epsilon, PLDAccountant(event, interval=interval).epsilon(adaptive.delta)))


def _distribution(event: Event, interval: float) -> Any:
    leaves = list(event.leaves())
    if any(PRICINGS[leaf.kind].profile is None for leaf, _ in leaves):
        return None
    composed = None
    for leaf, count in leaves:
        part = _distribution_of_one(leaf, interval).self_compose(count)
        composed = part if composed is None else composed.compose(part)
    return composed


def _distribution_of_one(leaf: Event, interval: float) -> Any:
    from dp_accounting.pld import pld_pmf, privacy_loss_distribution

    exactly = PRICINGS[leaf.kind].profile
    assert exactly is not None  # noqa: S101 - the caller has looked
    profile = partial(exactly, **dict(leaf.parameters))
    steps = _steps(profile, interval)
    right = np.arange(steps + 1) * interval
    deltas = np.array([profile(x) for x in right])
    # delta(-x) = 1 - e^-x + e^-x delta(x)
    left = -np.expm1(-right[:0:-1]) + np.exp(-right[:0:-1]) * deltas[:0:-1]
    falling = np.minimum.accumulate(np.minimum(1.0, np.concatenate([left, deltas])))
    return privacy_loss_distribution.PrivacyLossDistribution(
        pld_pmf.create_pmf_pessimistic_connect_dots(interval, np.arange(-steps, steps + 1), falling)
    )


def _steps(profile: Callable[[float], float], interval: float) -> int:
    """Count the grid's steps up to where the profile is flat or below the tail that is given away."""
    end = interval
    while (here := profile(end)) > _TAIL and profile(2 * end) < here * (1 - 1e-9) and end < _LONGEST:
        end *= 2
    return math.ceil(min(end, _LONGEST) / interval)


_TAIL = 1e-15
# More than the fast Fourier transforms were seen to lose, on the wrong side: 3e-15 for hundreds of runs, 1e-10 for a
# million. 1e-15 per run is added.
_ROUNDING = 1e-12
_LONGEST = 64.0
