"""Coordinate slice sampling of a log-concave posterior of a linear model, as [GeumlekSC17] samples: a reference."""

from __future__ import annotations

import math

import numba
import numpy as np

from vestry.errors import InvalidParameter
from vestry.validation import require_number

_CONVERGED = (
    "True here: no theorem bounds how far such a chain is from the posterior, so nothing that it draws is certified"
    " private"
)


def slice_logistic(
    rng: np.random.Generator,
    rows: np.ndarray,
    labels: np.ndarray,
    *,
    likelihood_power: float = 1.0,
    prior_precision: float,
    draws: int,
    burn: int = 1000,
    thin: int = 10,
    radius: float = math.inf,
    assume_converged: bool = False,
) -> np.ndarray:
    """Draw from exp(-power * sum log(1 + exp(-y x.theta)) - (precision/2)|theta|^2) on a ball, a row for each draw.

    Coordinates are updated in turn (Neal 2003): a level below the density, an interval stepped out around the state
    until both ends are below it, and a uniform point of it, the interval shrinking with every point that is not above.
    Outside the ball the density is 0, so that such points are never taken.

    Parameters
    ----------
    rows, labels
        The features (n, d), and -1 or 1 for each.
    burn, thin
        Rounds over all coordinates before the first draw, and for each draw.
    radius
        Of the ball.
    assume_converged
        Must be True: the caller states what no theorem does.
    """
    if assume_converged is not True:
        raise InvalidParameter("assume_converged", assume_converged, _CONVERGED, "assume_converged=True")
    require_number("prior_precision", prior_precision, "prior_precision=1.0", above=0)
    columns = np.ascontiguousarray((np.asarray(rows, float) * np.asarray(labels, float)[:, None]).T)
    thetas = np.empty((draws, len(columns)))
    _walk(columns, likelihood_power, prior_precision, radius, burn, thin, thetas, rng)
    return thetas


@numba.njit
def _walk(columns, power, precision, radius, burn, thin, thetas, rng):  # type: ignore[no-untyped-def] # pragma: no cover
    size, count = columns.shape
    theta, margins = np.zeros(size), np.zeros(count)
    wide = np.full(size, 1.0 / math.sqrt(precision))
    for sweep in range(burn + thin * len(thetas)):
        for j in range(size):
            room = math.sqrt(max(0.0, radius * radius - (np.sum(theta * theta) - theta[j] * theta[j])))
            here = theta[j]
            level = _log_density(margins, columns[j], 0.0, here, power, precision) + math.log(1.0 - rng.random())
            low = max(-room, here - wide[j] * rng.random())
            high = min(room, low + wide[j])
            while low > -room and _log_density(margins, columns[j], low - here, low, power, precision) > level:
                low = max(-room, low - wide[j])
            while high < room and _log_density(margins, columns[j], high - here, high, power, precision) > level:
                high = min(room, high + wide[j])
            # The width follows the intervals while burning in, and is fixed from then on.
            if sweep < burn // 2:
                wide[j] = 0.9 * wide[j] + 0.1 * (high - low)
            while True:
                new = low + (high - low) * rng.random()
                if _log_density(margins, columns[j], new - here, new, power, precision) > level:
                    break
                if new < here:
                    low = new
                else:
                    high = new
            margins += (new - here) * columns[j]
            theta[j] = new
        if sweep >= burn and (sweep - burn + 1) % thin == 0:
            thetas[(sweep - burn) // thin] = theta


@numba.njit
def _log_density(margins, column, move, value, power, precision):  # type: ignore[no-untyped-def] # pragma: no cover
    """Return the log density along one coordinate, at `value`, which is `move` from the state."""
    total = 0.0
    for i in range(len(margins)):
        z = margins[i] + move * column[i]
        total += min(z, 0.0) - math.log1p(math.exp(-abs(z)))
    return power * total - 0.5 * precision * value * value
