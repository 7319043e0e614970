"""A fit by noisy moments: what is summed over rows in memory, and how the release is read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from vestry.errors import InvalidParameter, NoInterval
from vestry.estimators.fit_plan import FitPlan, outcome_name, smaller_noise
from vestry.privacy.guarantee import Guarantee
from vestry.privacy.neighbours import Adjacency
from vestry.regression.moment_model import MOMENTS, USUAL_PRECISION, expected_widths
from vestry.regression.moment_reader import MomentReader
from vestry.regression.moments import Moments, NumberColumn
from vestry.schema.design_matrix import RowEncoder
from vestry.schema.private import Private
from vestry.validation import require_number


@dataclass(frozen=True)
class MomentPlan(FitPlan):
    """A fit by noisy moments."""

    moments: Moments

    def require_answer(self, rows: int, words: str) -> None:
        """Refuse what is expected to have no answer with this number of rows, which `words` name.

        Raises
        ------
        NoInterval
            If the noise is expected to hide the Gram matrix where that has no answer.
        """
        predictors = tuple(self.described["predictors"])
        reader = MomentReader(self.moments, self.described["outcome_column"], predictors, self.precision)
        try:
            expected_widths(reader, self.mechanism, rows, np.random.default_rng(0))
        except NoInterval as error:
            reason = str(error)
        else:
            return
        raise NoInterval(f"nothing was charged: {words} {reason}")

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
) -> MomentPlan:
    """Calibrate the noise of the moments; of Laplace and Gaussian noise the smaller."""
    if not encoder.intercept:
        raise InvalidParameter("fit_intercept", False, f"True for the method {MOMENTS}", "fit_intercept=True")
    if not encoder.boxed:
        raise InvalidParameter("bounds", "a Ball", f"a pair (low, high) for the method {MOMENTS}", "bounds=(low, high)")
    if encoder.radius is not None:
        raise InvalidParameter("radius", encoder.radius, f"omitted for the method {MOMENTS}", "no radius")
    own = outcome_name(names)
    ends = zip(names, encoder.middle - encoder.reach, encoder.middle + encoder.reach, strict=True)
    columns = [NumberColumn(name, float(low), float(high)) for name, low, high in ends]
    moments = Moments((*columns, NumberColumn(own, outcome[0] - outcome[1], outcome[0] + outcome[1])))
    mechanism = smaller_noise(moments.layout(adjacency), adjacency, guarantee)
    precision = USUAL_PRECISION if prior_precision is None else prior_precision
    require_number("prior_precision", precision, "prior_precision=1.0", above=0)
    described = {
        "name": "linear",
        "method": MOMENTS,
        "columns": moments.to_dict(),
        "outcome_column": own,
        "predictors": names,
    }
    return MomentPlan(encoder, mechanism, described, outcomes, moments, precision=float(precision))
