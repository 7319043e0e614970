"""The minimum of a regularised sum of losses, one record at a time, each read as often as public constants say.

Stochastic dual coordinate ascent [ShalevShwartzZ13]. The objective is

    P(theta) = sum phi_i(x_i . theta) + (lam/2)|theta|^2 + b . theta,

each phi_i convex, nowhere negative and c-smooth, |x_i| <= R, of n records. Its dual, of one number per record, is

    D(a) = -sum phi_i*(-a_i) - (lam/2)|theta(a)|^2,  theta(a) = (sum a_i x_i - b)/lam,

whose maximum D* is the minimum of P, at theta(a). From a = 0, an update picks a record at random and moves a_i by the
share s = 1/(1 + c R^2/lam) of the way to u_i = -phi_i'(x_i . theta(a)).

Theorem. After t updates E[D* - D(a)] <= (1 - s/n)^t (P(0) + |b|^2/(2 lam)), whatever the records; and always
(lam/2)|theta(a) - minimum|^2 <= D* - D(a).

Proof. Write eta = x_i . theta(a), z = u_i - a_i. phi_i* is (1/c)-strongly convex, and phi_i*(-u_i) = -u_i eta -
phi_i(eta). So an update raises D by at least

    s [phi_i(eta) + phi_i*(-a_i) + a_i eta] + (s z^2/2) [(1 - s)/c - s |x_i|^2/lam].

The second bracket is at least 0, by the choice of s. The first, summed over the records, is P(theta(a)) - D(a), which
is at least D* - D(a): so D gains (s/n)(D* - D(a)) or more in the mean. At the start D* <= P(0), and D(0) =
sum inf phi_i - |b|^2/(2 lam), where no phi_i is negative. Last, -D is the sum of a convex function and of (lam/2) times
the square of theta(a), which is affine in a. QED

A full gradient reads every record for one step, and the number of steps grows with the root of the condition
n c R^2/lam. Here 1 + c R^2/lam readings of every record lower D* - D by a factor e, however many records there are.
"""

from __future__ import annotations

import math

import numpy as np

from vestry.regression.sdca_rows import Rows

# Once in so many runs, at most, the updates do not do: Markov's inequality on D* - D.
SELDOM = 1e9
_CHUNK = 2**16


def share_of(smoothness: float, regularisation: float) -> float:
    """Return s, for losses whose smoothness c R^2 is that of one record in theta."""
    return 1 / (1 + smoothness / regularisation)


def readings(*, smoothness: float, regularisation: float, most: float, longest: float, near: float) -> float:
    """Return how many updates per record bring theta(a) within `near` of the minimum, except once in `SELDOM` runs.

    `most` bounds the sum of losses at 0, and `longest` the norm of b. (1 - s/n)^t <= exp(-s t/n), so t/n is enough.
    """
    start = most + longest * longest / (2 * regularisation)
    factor = SELDOM * start / (regularisation / 2 * near * near)
    return max(1.0, math.log(max(factor, 1.0)) / share_of(smoothness, regularisation))


def ascend(
    rows: Rows,
    linear: np.ndarray,
    stream: np.random.Generator,
    *,
    smoothness: float,
    regularisation: float,
    times: float,
) -> np.ndarray:
    """Return theta(a) after so many updates times the number of records, which the stream picks."""
    share, dual, theta = share_of(smoothness, regularisation), np.zeros(len(rows)), -linear / regularisation
    low = np.zeros_like(theta)
    count = math.ceil(times * len(rows))
    for done in range(0, count, _CHUNK):
        order = stream.integers(len(rows), size=min(_CHUNK, count - done))
        rows.update(order, dual, theta, low, share=share, lam=regularisation)
    return theta
