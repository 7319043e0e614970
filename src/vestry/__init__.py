"""Differentially private Bayesian data analysis.

The names below are the front door. Each is imported when it is first used, so `import vestry` is cheap.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from vestry import events
    from vestry.conjugate.beta_bernoulli import BetaBernoulli
    from vestry.conjugate.dirichlet_categorical import DirichletCategorical
    from vestry.conjugate.gamma_exponential import GammaExponential
    from vestry.conjugate.gamma_poisson import GammaPoisson
    from vestry.conjugate.normal_inverse_gamma import NormalInverseGamma
    from vestry.conjugate.normal_mean import NormalMean
    from vestry.conjugate.statistical_query import StatisticalQuery
    from vestry.data import Table
    from vestry.data_quality.quality_model import Quality
    from vestry.display.plotting import plot
    from vestry.errors import VestryError
    from vestry.hmm.hmm_model import HiddenMarkovModel
    from vestry.ledger import Ledger
    from vestry.naive_bayes.naive_bayes_model import NaiveBayes
    from vestry.pipeline import release
    from vestry.posterior import Posterior
    from vestry.posterior.combination import combine
    from vestry.privacy.accountant import convert, price
    from vestry.privacy.event import Event, compose
    from vestry.privacy.guarantee import ZCDP, ApproxDP, GaussianDP, Guarantee, PureDP, RenyiDP
    from vestry.privacy.neighbours import Adjacency, Neighbours, Unit
    from vestry.privacy.pld import PLDAccountant
    from vestry.privacy.pricing import event
    from vestry.regression.linear_model import LinearRegression
    from vestry.regression.logistic_model import LogisticRegression
    from vestry.releases import open_release
    from vestry.schema.domain import Interval, Levels
    from vestry.study import Study

_HOMES = {
    "vestry.conjugate.beta_bernoulli": "BetaBernoulli",
    "vestry.conjugate.dirichlet_categorical": "DirichletCategorical",
    "vestry.conjugate.gamma_exponential": "GammaExponential",
    "vestry.conjugate.gamma_poisson": "GammaPoisson",
    "vestry.conjugate.normal_inverse_gamma": "NormalInverseGamma",
    "vestry.conjugate.normal_mean": "NormalMean",
    "vestry.conjugate.statistical_query": "StatisticalQuery",
    "vestry.data": "Table",
    "vestry.data_quality.quality_model": "Quality",
    "vestry.display.plotting": "plot",
    "vestry.errors": "VestryError",
    "vestry.hmm.hmm_model": "HiddenMarkovModel",
    "vestry.ledger": "Ledger",
    "vestry.naive_bayes.naive_bayes_model": "NaiveBayes",
    "vestry.pipeline": "release",
    "vestry.posterior": "Posterior",
    "vestry.posterior.combination": "combine",
    "vestry.privacy.accountant": "convert price",
    "vestry.privacy.event": "Event compose",
    "vestry.privacy.guarantee": "ZCDP ApproxDP GaussianDP Guarantee PureDP RenyiDP",
    "vestry.privacy.neighbours": "Adjacency Neighbours Unit",
    "vestry.privacy.pld": "PLDAccountant",
    "vestry.privacy.pricing": "event",
    "vestry.regression.linear_model": "LinearRegression",
    "vestry.regression.logistic_model": "LogisticRegression",
    "vestry.releases": "open_release",
    "vestry.schema.domain": "Interval Levels",
    "vestry.study": "Study",
}

__all__ = [
    "ZCDP",
    "Adjacency",
    "ApproxDP",
    "BetaBernoulli",
    "DirichletCategorical",
    "Event",
    "GammaExponential",
    "GammaPoisson",
    "GaussianDP",
    "Guarantee",
    "HiddenMarkovModel",
    "Interval",
    "Ledger",
    "Levels",
    "LinearRegression",
    "LogisticRegression",
    "NaiveBayes",
    "Neighbours",
    "NormalInverseGamma",
    "NormalMean",
    "PLDAccountant",
    "Posterior",
    "PureDP",
    "Quality",
    "RenyiDP",
    "StatisticalQuery",
    "Study",
    "Table",
    "Unit",
    "VestryError",
    "combine",
    "compose",
    "convert",
    "event",
    "events",
    "open_release",
    "plot",
    "price",
    "release",
]


def __getattr__(name: str) -> Any:
    if name == "events":
        return importlib.import_module("vestry.events")
    for home, names in _HOMES.items():
        if name in names.split():
            return getattr(importlib.import_module(home), name)
    raise AttributeError(f"module 'vestry' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
