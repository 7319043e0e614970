"""Differentially private Bayesian data analysis.

The names below are the front door. Each is imported when it is first used, so `import vestry` is cheap.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from vestry.data import Table
    from vestry.errors import VestryError
    from vestry.ledger import Ledger
    from vestry.models import (
        BetaBernoulli,
        DirichletCategorical,
        GammaExponential,
        GammaPoisson,
        HiddenMarkov,
        Linear,
        Logistic,
        NaiveBayes,
        NormalInverseGamma,
        NormalMean,
        StatisticalQuery,
    )
    from vestry.models.run import release
    from vestry.posterior import Posterior, open_release
    from vestry.privacy.accountant import convert, price
    from vestry.privacy.batch import Batch
    from vestry.privacy.event import Event, compose
    from vestry.privacy.guarantee import ZCDP, ApproxDP, GaussianDP, Guarantee, PureDP, RenyiDP
    from vestry.privacy.law import event
    from vestry.privacy.neighbours import Neighbours, Unit
    from vestry.report.plot import plot
    from vestry.statistics.domain import Interval, Levels
    from vestry.statistics.population import Population
    from vestry.study import Study

_HOMES = {
    "vestry.data": ("Table",),
    "vestry.errors": ("VestryError",),
    "vestry.ledger": ("Ledger",),
    "vestry.models": (
        "BetaBernoulli",
        "DirichletCategorical",
        "GammaExponential",
        "GammaPoisson",
        "HiddenMarkov",
        "Linear",
        "Logistic",
        "NaiveBayes",
        "NormalInverseGamma",
        "NormalMean",
        "StatisticalQuery",
    ),
    "vestry.models.run": ("release",),
    "vestry.posterior": ("Posterior", "open_release"),
    "vestry.privacy.accountant": ("convert", "price"),
    "vestry.privacy.batch": ("Batch",),
    "vestry.privacy.event": ("Event", "compose"),
    "vestry.privacy.guarantee": ("ApproxDP", "GaussianDP", "Guarantee", "PureDP", "RenyiDP", "ZCDP"),
    "vestry.privacy.law": ("event",),
    "vestry.privacy.neighbours": ("Neighbours", "Unit"),
    "vestry.report.plot": ("plot",),
    "vestry.statistics.domain": ("Interval", "Levels"),
    "vestry.statistics.population": ("Population",),
    "vestry.study": ("Study",),
}

__all__ = [
    "ZCDP",
    "ApproxDP",
    "Batch",
    "BetaBernoulli",
    "DirichletCategorical",
    "Event",
    "GammaExponential",
    "GammaPoisson",
    "GaussianDP",
    "Guarantee",
    "HiddenMarkov",
    "Interval",
    "Ledger",
    "Levels",
    "Linear",
    "Logistic",
    "NaiveBayes",
    "Neighbours",
    "NormalInverseGamma",
    "NormalMean",
    "Population",
    "Posterior",
    "PureDP",
    "RenyiDP",
    "StatisticalQuery",
    "Study",
    "Table",
    "Unit",
    "VestryError",
    "compose",
    "convert",
    "event",
    "open_release",
    "plot",
    "price",
    "release",
]


def __getattr__(name: str) -> Any:
    for home, names in _HOMES.items():
        if name in names:
            return getattr(importlib.import_module(home), name)
    raise AttributeError(f"module 'vestry' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
