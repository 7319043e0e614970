"""What a table of probabilities says: margins, conditional proportions, differences, ratios and association.

Every answer is a function of the same joint draws of all cells. So margins are the sums of the cells, conditional
proportions are their quotients, and no two answers disagree.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from vestry.errors import InvalidParameter
from vestry.numerics import Array
from vestry.posterior.mixture import tail_of
from vestry.posterior.reader import NOT_CALIBRATED
from vestry.validation import require_choice

if TYPE_CHECKING:
    from pandas import DataFrame

# What is said of margins that the prior pulls.
_LEANING = f"few records for so many cells, margins lean towards even ones: {NOT_CALIBRATED}"


@dataclass(frozen=True, eq=False)
class JointTable:
    """Joint draws of the probabilities of all cells.

    Attributes
    ----------
    columns, levels
        The columns, and the levels of each.
    cells
        One draw per row, and then one axis for each column.
    interval_method
        How intervals are made, in a few words.
    leans
        Whether the prior of even cells weighs so much that margins are pulled towards even ones.
    """

    columns: tuple[str, ...]
    levels: tuple[tuple[str, ...], ...]
    cells: Array
    interval_method: str
    leans: bool = False

    @property
    def margin_words(self) -> str:
        """What is to be said of margins; nothing if they are calibrated."""
        return _LEANING if self.leans else ""

    def margin(self, *columns: str, prob: float = 0.9) -> DataFrame:
        """Return the probabilities of the levels of some columns, the others summed out.

        With few records for many cells they lean towards even margins; the frame then says so.
        """
        values = self._margin(columns)
        frame = self._frame(columns, values.reshape(len(values), -1), prob)
        labelled = self.margin_words and len(columns) < len(self.columns)
        return frame.rename_axis(columns=f"{self.interval_method}; {self.margin_words}") if labelled else frame

    def conditional(self, column: str, given: str | Sequence[str], prob: float = 0.9) -> DataFrame:
        """Return the probability of each level of a column, given each combination of levels of one or more others.

        A combination that cannot occur is omitted; where it is open whether one occurs, it is taken that it does.
        """
        known = (given,) if isinstance(given, str) else tuple(given)
        return self._frame((*known, column), self._shares(column, known).reshape(len(self.cells), -1), prob).dropna()

    def difference(self, column: str, level: str, given: str, a: str, b: str, prob: float = 0.9) -> DataFrame:
        """Return P(level | a) - P(level | b), for two levels a and b of another column, and P(difference > 0)."""
        first, second = self._pair(column, level, given, a, b)
        row = {**_summary(first - second, prob), "prob_positive": float((first > second).mean())}
        return self._rows({f"P({column}={level} | {given}={a}) - P(... | {given}={b})": row}, "difference")

    def ratio(self, column: str, level: str, given: str, a: str, b: str, prob: float = 0.9) -> DataFrame:
        """Return P(level | a)/P(level | b), the relative risk: its median, and the ends of its interval."""
        first, second = self._pair(column, level, given, a, b)
        quotient = np.divide(first, second, out=np.full_like(first, np.inf), where=second > 0)
        tail = tail_of(prob)
        low, median, high = np.quantile(quotient, [tail, 0.5, 1 - tail], method="inverted_cdf")
        row = {"median": float(median), "low": float(low), "high": float(high)}
        return self._rows({f"P({column}={level} | {given}={a}) / P(... | {given}={b})": row}, "ratio")

    def association(self, one: str, other: str, prob: float = 0.9) -> DataFrame:
        """Return Cramer's V of two columns: 0 if they are independent, 1 if one determines the other.

        V^2 = sum over cells of (p_ij - p_i p_j)^2/(p_i p_j), divided by the smaller number of levels less 1. It cannot
        be below 0, so its interval never holds 0, and is labelled: that it begins above 0 does not show that the
        columns go together.
        """
        if one == other:
            raise InvalidParameter("an association", f"{one} and itself", "of two columns", "another column")
        joint = self._margin((one, other))
        rows, sides = joint.sum(axis=2, keepdims=True), joint.sum(axis=1, keepdims=True)
        alone = rows * sides
        with np.errstate(divide="ignore", invalid="ignore"):
            terms = np.where(alone > 0, (joint - alone) ** 2 / alone, 0.0)
        measure = np.sqrt(terms.sum(axis=(1, 2)) / (min(joint.shape[1:]) - 1))
        frame = self._rows({f"{one}, {other}": _summary(measure, prob)}, "Cramer's V")
        return frame.rename_axis(columns=f"{self.interval_method}; near 0 {NOT_CALIBRATED}")

    def _place(self, column: str) -> int:
        return self.columns.index(require_choice("a column", column, self.columns, f'"{self.columns[0]}"'))

    def _level(self, column: str, level: str) -> int:
        names = self.levels[self._place(column)]
        return names.index(require_choice(f"a level of {column}", level, names, f'"{names[0]}"'))

    def _margin(self, columns: Sequence[str]) -> Array:
        """Return the probabilities of some columns, in the order in which they are named."""
        places = [self._place(column) for column in columns]
        if not places or len(set(places)) < len(places):
            raise InvalidParameter("columns", list(columns), "one or more, each once", f'"{self.columns[0]}"')
        others = tuple(1 + at for at in range(len(self.columns)) if at not in places)
        axes = sorted(places)
        summed = self.cells.sum(axis=others) if others else self.cells
        return np.asarray(np.transpose(summed, [0, *(1 + axes.index(place) for place in places)]))

    def _shares(self, column: str, given: tuple[str, ...]) -> Array:
        """Return conditional proportions, NaN in a draw in which what is given does not occur."""
        joint = self._margin((*given, column))
        whole = np.broadcast_to(joint.sum(axis=-1, keepdims=True), joint.shape)
        return np.asarray(np.divide(joint, whole, out=np.full_like(joint, np.nan), where=whole > 0))

    def _pair(self, column: str, level: str, given: str, a: str, b: str) -> tuple[Array, Array]:
        if a == b:
            raise InvalidParameter("a comparison", f"{a} and itself", "of two levels", "two different levels")
        shares, at = self._shares(column, (given,)), self._level(column, level)
        first, second = shares[:, self._level(given, a), at], shares[:, self._level(given, b), at]
        both = np.isfinite(first) & np.isfinite(second)
        if not both.any():
            raise InvalidParameter("a comparison", f"{a} and {b}", "of levels that may occur", "other levels")
        return first[both], second[both]

    def _frame(self, columns: tuple[str, ...], values: Array, prob: float) -> DataFrame:
        from pandas import DataFrame, Index, MultiIndex

        names = [self.levels[self._place(column)] for column in columns]
        rows = [_summary(each, prob) for each in values.T]
        several = len(columns) > 1
        index = MultiIndex.from_product(names, names=columns) if several else Index(names[0], name=columns[0])
        return DataFrame(rows, index=index).rename_axis(columns=self.interval_method)

    def _rows(self, rows: dict[str, dict[str, float]], name: str) -> DataFrame:
        from pandas import DataFrame

        return DataFrame.from_dict(rows, orient="index").rename_axis(index=name, columns=self.interval_method)


def _summary(values: Array, prob: float) -> dict[str, Any]:
    tail, values = tail_of(prob), values[np.isfinite(values)]
    if not values.size:
        return dict.fromkeys(("mean", "sd", "low", "high"), float("nan"))
    low, high = np.quantile(values, [tail, 1 - tail])
    return {"mean": float(values.mean()), "sd": float(values.std()), "low": float(low), "high": float(high)}
