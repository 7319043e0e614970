"""A fit by a noisy table: features in declared bins, and what is counted over rows in memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from vestry.errors import InvalidParameter
from vestry.mechanisms.additive_noise import Additive, calibrate_noise
from vestry.model.request import check_size
from vestry.privacy.guarantee import Guarantee, PureDP
from vestry.privacy.neighbours import Adjacency
from vestry.regression.moments import LevelColumn
from vestry.regression.outcome_table import OutcomeTable
from vestry.regression.table_model import TABLE, USUAL_PRECISION, size_of_table
from vestry.schema.domain import Bins, Interval
from vestry.schema.private import Private
from vestry.validation import require_number

_INSTEAD = "bins=[[0, 18, 40, 65, 120], [0, 1, 2]], the edges of each feature"


@dataclass(frozen=True, eq=False)
class BinEncoder:
    """Features in bins: which cell of their table a row lies in. What is not a number lies in the first bin."""

    bins: tuple[Bins, ...]

    def cells(self, rows: np.ndarray) -> np.ndarray:
        """Return the cell of each row, numbered as the table's are."""
        values = np.array(rows, dtype=np.float64)
        values[np.isnan(values)] = -np.inf
        places = [np.searchsorted(each.edges[1:-1], values[:, k], side="right") for k, each in enumerate(self.bins)]
        return np.ravel_multi_index(tuple(places), tuple(len(each.names) for each in self.bins))


@dataclass(frozen=True)
class TablePlan:
    """All that a fit by table needs except the ledger's leave and the values; as `FitPlan`."""

    encoder: BinEncoder
    table: OutcomeTable
    mechanism: Additive
    described: dict[str, Any]
    precision: float
    outcomes: Callable[[], np.ndarray]
    labels: tuple[str, ...] = ()

    def collect(self, X: np.ndarray, *, row_key: str) -> Private:  # noqa: N803 - scikit-learn's name
        """Count the rows of each cell and class."""
        places = self.encoder.cells(X) * len(self.table.kinds) + self.outcomes()
        return Private(np.bincount(places.astype(np.int64), minlength=self.table.size).tolist())


def read_bins(given: Any, features: int) -> tuple[Bins, ...]:
    """Return the declared bins of each feature, or refuse."""
    if not isinstance(given, (list, tuple)) or len(given) != features:
        raise InvalidParameter("bins", "another number of them", f"edges for each of the {features} features", _INSTEAD)
    found = []
    for edges in given:
        if not isinstance(edges, (list, tuple, np.ndarray)) or len(edges) < 3:
            raise InvalidParameter("bins", edges, "three edges or more for each feature", _INSTEAD)
        low, *inner, high = (float(require_number("an edge of bins", each, _INSTEAD)) for each in edges)
        found.append(Interval(low, high).bins(low, *inner, high))
    return tuple(found)


def plan_table(
    bins: tuple[Bins, ...],
    names: list[str],
    classes: list[str],
    outcomes: Callable[[], np.ndarray],
    adjacency: Adjacency,
    guarantee: Guarantee,
    *,
    prior_precision: float | None,
    ledger: str,
) -> TablePlan:
    """Calibrate the noise of the table; of Laplace and Gaussian noise the smaller."""
    own = "y"
    while own in names:
        own += "_"
    columns = tuple(LevelColumn(name, tuple(each.names)) for name, each in zip(names, bins, strict=True))
    table = OutcomeTable(columns, own, tuple((name, (name,)) for name in classes))
    check_size(_Sized(table), {})
    layout = table.layout(adjacency)
    kinds = ("discrete-laplace",) if isinstance(guarantee, PureDP) else ("discrete-laplace", "discrete-gaussian")
    mechanism = min((calibrate_noise(k, layout, adjacency, guarantee) for k in kinds), key=lambda m: m.deviation)
    precision = USUAL_PRECISION if prior_precision is None else prior_precision
    require_number("prior_precision", precision, "prior_precision=0.16", above=0)
    described = {
        "name": "logistic",
        "method": TABLE,
        "table": table.to_dict(),
        "predictors": names,
        "ledger": ledger,
    }
    return TablePlan(BinEncoder(bins), table, mechanism, described, float(precision), outcomes)


@dataclass(frozen=True)
class _Sized:
    """A table as `check_size` asks for it."""

    table: OutcomeTable
    columns: tuple[str, ...] = ()

    def size(self, domains: Any) -> Any:
        """Return how many numbers there are."""
        return size_of_table(self.table)
