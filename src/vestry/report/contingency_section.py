"""What follows from a table of several columns, on a page: margins, conditional proportions and association."""

from __future__ import annotations

from typing import Any

import numpy as np

from vestry.display.formatting import Digits
from vestry.display.templates import Content, paragraph, table, tag
from vestry.report.content import MOST_ESTIMATES, Result, draw_count, first_of


def table_parts(result: Result) -> list[Content]:
    """Write one table for each question, from the same joint draws."""
    reader: Any = result.posterior.reader
    rng = np.random.default_rng(int(result.release.to_dict()["sha256"], 16))
    joint = result.posterior.table(draw_count(result), rng)
    *given, last = reader.columns
    caution = f" ({joint.margin_words})" if joint.margin_words else ""
    alone = [(column, str(level), row) for column in reader.columns for level, row in joint.margin(column).iterrows()]
    shares = [(*map(str, key), row) for key, row in joint.conditional(last, tuple(given)).iterrows()]
    pairs = [(one, other) for place, one in enumerate(reader.columns) for other in reader.columns[place + 1 :]]
    measures = [(f"{one}, {other}", joint.association(one, other).iloc[0]) for one, other in pairs]
    return [
        tag("h4", "What follows from the cells"),
        paragraph(_MEANING),
        _rows(f"Probability of each level of each column{caution}", ("column", "level"), alone, percent=True),
        _rows(f"Proportion of each {last}, given {' and '.join(given)}", reader.columns, shares, percent=True),
        _rows("Association: Cramer's V", ("columns",), measures, percent=False),
    ]


def _rows(caption: str, heads: tuple[str, ...], rows: list[tuple[Any, ...]], *, percent: bool) -> Content:
    cells = []
    for *names, row in rows[:MOST_ESTIMATES]:
        digits = Digits(row["sd"], percent)
        cells.append((*names, digits(row["mean"]), digits.interval(row["low"], row["high"])))
    whole = caption + ": mean and 90 % credible interval" + first_of(len(cells), len(rows))
    return table(whole, (*heads, "mean", "90 %"), cells, names=len(heads))


_MEANING = (
    "All of it comes from the same joint draws of the cells, seeded by the release's hash, so that no two numbers"
    " disagree. V is 0 for independent columns and 1 where one determines the other. It cannot be below 0, so its"
    " interval begins above 0 for independent columns, too: near 0 it is not calibrated."
)
