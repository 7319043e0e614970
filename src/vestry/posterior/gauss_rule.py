"""Many weighted points replaced by few with the same moments: Gauss quadrature for discrete measures.

A sum over counts of weight x component is smooth in the count on the scale of the component's own width. Inside panels
about that wide, the K-node Gauss rule of the weights keeps their first 2K moments, so the sum is kept to rounding while
the number of components falls from the width of the noise to a few a panel. The rule is found by Lanczos' process on
the points [GolubM10, ch. 6]; its nodes lie between the points and its weights are positive.
"""

from __future__ import annotations

import numpy as np

from vestry.posterior.discrete_noise import Array

NODES = 8
# A panel spans this many widths of the component: with eight nodes a normal component is kept to 1e-11.
SPAN = 2.0
# A panel never has more points, so that panels of different density fill one array.
_CROWD = 512


def thin(points: Array, log_weights: Array, width: Array) -> tuple[Array, Array]:
    """Return fewer points, and their log weights, of the same sum against any function smooth on the scale `width`.

    Parameters
    ----------
    points
        Increasing.
    log_weights
        Finite, or minus infinity. They may differ by any amount: only those of one panel are compared.
    width
        The local width of the components, in the units of the points.
    """
    if points.size <= NODES:
        return points, log_weights
    gaps = np.diff(points, prepend=points[0])
    panel = np.floor(np.cumsum(np.maximum(gaps / (SPAN * width), 1 / _CROWD))).astype(np.int64)
    starts = np.flatnonzero(np.diff(panel, prepend=-1))
    sizes = np.diff(starts, append=points.size)
    many = np.flatnonzero(sizes > NODES)
    if many.size == 0:
        return points, log_weights
    column = np.arange(sizes[many].max())
    index = np.minimum(starts[many, None] + column, points.size - 1)
    logs = np.where(column < sizes[many, None], log_weights[index], -np.inf)
    top = logs.max(axis=1, keepdims=True)
    nodes, weights = _gauss(points[index], np.exp(logs - np.where(np.isfinite(top), top, 0.0)))
    with np.errstate(divide="ignore"):
        node_logs = np.log(weights) + top
    few = np.repeat(sizes <= NODES, sizes)
    points = np.concatenate([points[few], nodes.ravel()])
    log_weights = np.concatenate([log_weights[few], node_logs.ravel()])
    order = np.argsort(points, kind="stable")
    return points[order], log_weights[order]


def nodes_needed(points: Array, width: Array) -> float:
    """Return about how many points `thin` leaves."""
    return NODES * (1 + float((np.diff(points) / (SPAN * width[1:])).sum()))


def _gauss(points: Array, weights: Array) -> tuple[Array, Array]:
    """Return the Gauss rules of several measures, one a row."""
    total = weights.sum(axis=1)
    share = weights / np.where(total > 0, total, 1.0)[:, None]
    centre = (share * points).sum(axis=1)
    half = np.maximum(points.max(axis=1) - points.min(axis=1), 1e-300)
    x = (points - centre[:, None]) / half[:, None]
    basis = [np.sqrt(share)]
    matrix = np.zeros((len(x), NODES, NODES))
    for k in range(NODES):
        image = x * basis[k]
        matrix[:, k, k] = (basis[k] * image).sum(axis=1)
        if k + 1 == NODES:
            break
        for _ in range(2):  # a second pass restores orthogonality to rounding
            for vector in basis:
                image -= (vector * image).sum(axis=1)[:, None] * vector
        norm = np.sqrt((image * image).sum(axis=1))
        # Fewer points than nodes carry the weight: the process is complete, and the remaining nodes get none.
        norm[norm < 1e-11] = 0.0
        matrix[:, k, k + 1] = matrix[:, k + 1, k] = norm
        basis.append(image / np.where(norm > 0, norm, np.inf)[:, None])
    values, vectors = np.linalg.eigh(matrix)
    return centre[:, None] + half[:, None] * values, total[:, None] * vectors[:, 0, :] ** 2
