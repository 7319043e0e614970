"""A fit by a noisy table: features in declared bins, and what is counted over rows in memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from vestry.errors import InvalidParameter
from vestry.estimators.fit_plan import FitPlan, outcome_name, smaller_noise
from vestry.model.request import check_size
from vestry.privacy.guarantee import Guarantee
from vestry.privacy.neighbours import Adjacency
from vestry.regression.moments import LevelColumn
from vestry.regression.outcome_table import OutcomeTable
from vestry.regression.table_model import TABLE, USUAL_PRECISION, size_of_table
from vestry.schema.domain import Bins, Interval
from vestry.schema.private import Private
from vestry.validation import require_number

_INSTEAD = "bins=[[0, 18, 40, 65, 120], [0, 1, 2]], the edges of each feature, or bins=[0, 5, 10] for all"


@dataclass(frozen=True, eq=False)
class BinEncoder:
    """Features in bins: which cell of their table a row lies in. What is not a number lies in the first bin."""

    bins: tuple[Bins, ...]

    @property
    def sizes(self) -> tuple[int, ...]:
        """How many bins each feature has."""
        return tuple(len(each.names) for each in self.bins)

    def places(self, rows: np.ndarray) -> list[np.ndarray]:
        """Return the bin of each row, by feature."""
        values = np.array(rows, dtype=np.float64)
        values[np.isnan(values)] = -np.inf
        return [np.searchsorted(each.edges[1:-1], values[:, k], side="right") for k, each in enumerate(self.bins)]

    def cells(self, rows: np.ndarray) -> np.ndarray:
        """Return the cell of each row, numbered as the table's are."""
        return np.ravel_multi_index(tuple(self.places(rows)), self.sizes)


@dataclass(frozen=True)
class TablePlan(FitPlan):
    """A fit by a noisy table."""

    table: OutcomeTable

    def collect(self, X: np.ndarray, *, row_key: str) -> Private:  # noqa: N803 - scikit-learn's name
        """Count the rows of each cell and class."""
        places = self.encoder.cells(X) * len(self.table.kinds) + self.outcomes()
        return Private(np.bincount(places.astype(np.int64), minlength=self.table.size).tolist())


def read_bins(given: Any, features: int) -> tuple[Bins, ...]:
    """Return the declared bins of each feature, or refuse; edges that are numbers are those of every feature."""
    if isinstance(given, (list, tuple, np.ndarray)) and len(given) and all(np.ndim(each) == 0 for each in given):
        given = [given] * features
    if not isinstance(given, (list, tuple, np.ndarray)) or len(given) != features:
        raise InvalidParameter("bins", "another number of them", f"edges for each of the {features} features", _INSTEAD)
    bins = []
    for edges in given:
        if not isinstance(edges, (list, tuple, np.ndarray)) or len(edges) < 3:
            raise InvalidParameter("bins", edges, "three edges or more for each feature", _INSTEAD)
        low, *inner, high = (float(require_number("an edge of bins", each, _INSTEAD)) for each in edges)
        bins.append(Interval(low, high).bins(low, *inner, high))
    return tuple(bins)


def plan_table(
    bins: tuple[Bins, ...],
    names: list[str],
    classes: list[str],
    outcomes: Callable[[], np.ndarray],
    adjacency: Adjacency,
    guarantee: Guarantee,
    *,
    prior_precision: float | None,
) -> TablePlan:
    """Calibrate the noise of the table; of Laplace and Gaussian noise the smaller."""
    columns = tuple(LevelColumn(name, tuple(each.names)) for name, each in zip(names, bins, strict=True))
    table = OutcomeTable(columns, outcome_name(names), tuple((name, (name,)) for name in classes))
    check_size(_Sized(table), {})
    mechanism = smaller_noise(table.layout(adjacency), adjacency, guarantee)
    precision = USUAL_PRECISION if prior_precision is None else prior_precision
    require_number("prior_precision", precision, "prior_precision=0.16", above=0)
    described = {
        "name": "logistic",
        "method": TABLE,
        "table": table.to_dict(),
        "predictors": names,
    }
    return TablePlan(BinEncoder(bins), mechanism, described, outcomes, table, precision=float(precision))


@dataclass(frozen=True)
class _Sized:
    """A table as `check_size` asks for it."""

    table: OutcomeTable
    columns: tuple[str, ...] = ()

    def size(self, domains: Any) -> Any:
        """Return how many numbers there are."""
        return size_of_table(self.table)
