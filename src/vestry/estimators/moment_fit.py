"""A fit by noisy moments: what is summed over rows in memory, and how the release is read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from vestry.errors import InvalidParameter
from vestry.mechanisms.additive_noise import Additive, calibrate_noise
from vestry.privacy.guarantee import Guarantee, PureDP
from vestry.privacy.neighbours import Adjacency
from vestry.regression.moment_model import MOMENTS, USUAL_PRECISION
from vestry.regression.moments import Moments, NumberColumn
from vestry.schema.design_matrix import RowEncoder
from vestry.schema.private import Private
from vestry.validation import require_number


@dataclass(frozen=True)
class MomentPlan:
    """All that a fit by moments needs except the ledger's leave and the values; as `FitPlan`."""

    encoder: RowEncoder
    moments: Moments
    mechanism: Additive
    described: dict[str, Any]
    precision: float
    outcomes: Callable[[], np.ndarray]
    labels: tuple[str, ...] = ()

    def collect(self, X: np.ndarray, *, row_key: str) -> Private:  # noqa: N803 - scikit-learn's name
        """Sum the products of scaled features and outcomes, as whole numbers."""
        scaled = np.column_stack([self.encoder.encode(X)[:, : len(self.encoder.middle)], self.outcomes()])
        sums = self.moments.sums(scaled)
        return Private(sums if self.mechanism.layout.count is None else sums[:-1])


def plan_moments(
    encoder: RowEncoder,
    names: list[str],
    outcome: tuple[float, float],
    outcomes: Callable[[], np.ndarray],
    adjacency: Adjacency,
    guarantee: Guarantee,
    *,
    prior_precision: float | None,
    ledger: str,
) -> MomentPlan:
    """Calibrate the noise of the moments; of Laplace and Gaussian noise the smaller."""
    if not encoder.boxed or encoder.radius is not None or not encoder.intercept:
        allowed = f"a pair (low, high) without a radius, and fit_intercept=True, for the method {MOMENTS}"
        raise InvalidParameter("bounds", "another kind", allowed, "bounds=(low, high)")
    own = "y"
    while own in names:
        own += "_"
    ends = zip(names, encoder.middle - encoder.reach, encoder.middle + encoder.reach, strict=True)
    columns = [NumberColumn(name, float(low), float(high)) for name, low, high in ends]
    moments = Moments((*columns, NumberColumn(own, outcome[0] - outcome[1], outcome[0] + outcome[1])))
    layout = moments.layout(adjacency)
    kinds = ("discrete-laplace",) if isinstance(guarantee, PureDP) else ("discrete-laplace", "discrete-gaussian")
    mechanism = min((calibrate_noise(k, layout, adjacency, guarantee) for k in kinds), key=lambda m: m.deviation)
    precision = USUAL_PRECISION if prior_precision is None else prior_precision
    require_number("prior_precision", precision, "prior_precision=1.0", above=0)
    described = {
        "name": "linear",
        "method": MOMENTS,
        "columns": moments.to_dict(),
        "outcome_column": own,
        "predictors": names,
        "ledger": ledger,
    }
    return MomentPlan(encoder, moments, mechanism, described, float(precision), outcomes)
