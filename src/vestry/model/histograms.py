"""Histograms of several features in cells of declared levels: one query, one noise, and how far a unit moves them.

A record lies in one cell and adds 1 to one level of each of F features, so one record more or less moves F counts by 1.
What one unit of k records can do follows:

    neighbours                                     l1              l2
    add-remove                                     k F             k sqrt(F)
    replace, the record may move to another cell   2 k F           k sqrt(2 F)
    replace, the number of records of every cell
    is the same for neighbours (one row per unit)    sum of c_d      sqrt(sum of c_d),  c_d = 1 for two levels, else 2

The worst of k records are k equal ones: they move the same counts, and l2 grows as k, not as sqrt(k). In the last row a
feature of two levels is counted by its first one alone, which a change moves by 1; the other is what remains of the
cell's total. Of three levels or more a change moves two counts, whichever are omitted.

The number of records of a cell is a margin of each of its histograms, so it is not asked for beside them where it would
cost: that of naive Bayes classes comes for nothing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from vestry.errors import InvalidParameter
from vestry.mechanisms.additive_noise import NOISE_OF, Additive, calibrate_noise
from vestry.mechanisms.statistic_family import Layout
from vestry.privacy.guarantee import Guarantee
from vestry.privacy.neighbours import Adjacency
from vestry.schema.domain import Domain, Levels
from vestry.schema.statistics import Count, Indicator, Term
from vestry.validation import require_choice, require_number

TOTAL = "records"
NOISES = ("laplace", "gaussian", "discrete-gaussian")


@dataclass(frozen=True)
class Histograms:
    """The counts of one cell.

    Attributes
    ----------
    features, levels
        The columns, and the levels of each.
    fixed
        Whether neighbours have the same number of records in every cell.
    total
        Whether that number is counted too. It does not move, so it costs nothing, and takes noise all the same.
    """

    features: tuple[str, ...]
    levels: tuple[tuple[str, ...], ...]
    fixed: bool = False
    total: bool = False

    @property
    def counted(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """The levels of each feature that are counted: of two the first alone, if the cells are fixed."""
        return tuple(
            (feature, names[:1] if self.fixed and len(names) == 2 else names)
            for feature, names in zip(self.features, self.levels, strict=True)
        )

    @property
    def names(self) -> tuple[str, ...]:
        """What each count is of."""
        names = tuple(f"{feature}={level}" for feature, levels in self.counted for level in levels)
        return (TOTAL, *names) if self.total else names

    @property
    def terms(self) -> tuple[Term, ...]:
        """What each record adds."""
        terms = tuple(Indicator(feature, (level,)) for feature, levels in self.counted for level in levels)
        return (Count(), *terms) if self.total else terms

    def sensitivities(self, adjacency: Adjacency) -> tuple[int, float]:
        """Return l1 and l2 for one unit, as the table above has them."""
        if self.fixed:
            if adjacency.rows != 1 or not adjacency.replaces:
                raise InvalidParameter("a cell with a fixed total", adjacency, "rows that are replaced", "unit = row")
            steps = sum(1 if len(names) == 2 else 2 for names in self.levels)
        else:
            steps = (2 if adjacency.replaces else 1) * len(self.features)
        return adjacency.rows * steps, adjacency.rows * math.sqrt(steps)

    def layout(self, adjacency: Adjacency, cells: tuple[str, ...] = ()) -> Layout:
        """Lay out the counts of one group: of each of its cells, or of the group itself."""
        l1, l2 = self.sensitivities(adjacency)
        names = tuple(f"{cell}: {name}" for cell in cells for name in self.names) if cells else self.names
        return Layout(names, l1, l2, count=adjacency.count)


def calibrate_counts(
    name: str, layout: Layout, adjacency: Adjacency, guarantee: Guarantee, *, limits: str = ""
) -> Additive:
    """Calibrate the noise; `limits` says what it does not hide."""
    require_choice("mechanism", name, NOISES, 'mechanism = "laplace"')
    return calibrate_noise(NOISE_OF[name], layout, adjacency, guarantee, limits=limits)


def listed(given: object) -> object:
    """Return a list as a tuple, and anything else as it is."""
    return tuple(given) if isinstance(given, list) else given


def feature_levels(domains: Mapping[str, Domain], features: object) -> tuple[tuple[str, ...], ...]:
    """Return the levels of each feature, or refuse at the key `features`."""
    if not isinstance(features, tuple) or not features:
        raise InvalidParameter("features", features, "a list of columns of levels", 'features = ["type", "outcome"]')
    return tuple(key_levels(domains, column, "features").names for column in features)


def key_levels(domains: Mapping[str, Domain], column: object, key: str) -> Levels:
    """Return the levels of a column, or refuse at a key of the model."""
    if not isinstance(column, str) or column not in domains:
        raise InvalidParameter(key, column, f"declared columns of levels ({', '.join(domains)})", f'{key} = "type"')
    domain = domains[column]
    if not isinstance(domain, Levels):
        raise InvalidParameter(key, column, "columns of levels", f'{column} = {{ levels = ["none", "some"] }}')
    return domain


def level_labels(features: tuple[str, ...], levels: tuple[tuple[str, ...], ...]) -> tuple[str, ...]:
    """Return what each probability is of: a level of a feature."""
    return tuple(f"{f}: {name}" for f, names in zip(features, levels, strict=True) for name in names)


def check_distinct(columns: tuple[str, ...], key: str) -> None:
    """Refuse a column that is used twice."""
    if len(set(columns)) < len(columns):
        raise InvalidParameter(key, list(columns), "each column once", "another column")


def concentration(value: object, key: str = "prior") -> float:
    """Return a Dirichlet's concentration, or refuse one that is not from 1e-30 to 1e30."""
    return require_number(key, value, f"{key} = 1", least=1e-30, most=1e30)
