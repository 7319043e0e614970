"""Models by name: a table of strings, each loaded when it is used. A new model is one line here."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from typing import Any


class LazyTable(Mapping[str, Any]):
    """Names, each with the module and attribute where it is found."""

    def __init__(self, homes: Mapping[str, str]) -> None:
        self._homes = dict(homes)

    def __getitem__(self, name: str) -> Any:
        module, _, attribute = self._homes[name].partition(":")
        return getattr(importlib.import_module(module), attribute)

    def __iter__(self) -> Iterator[str]:
        return iter(self._homes)

    def __len__(self) -> int:
        return len(self._homes)

    def register(self, name: str, home: str) -> None:
        """Add a name; `home` is written module:attribute."""
        self._homes[name] = home


MODELS = LazyTable(
    {
        "beta-bernoulli": "vestry.conjugate.beta_bernoulli_model:BetaBernoulli",
        "dirichlet-categorical": "vestry.conjugate.dirichlet_categorical_model:DirichletCategorical",
        "normal-mean": "vestry.conjugate.normal_mean_model:NormalMean",
        "gamma-poisson": "vestry.conjugate.gamma_poisson_model:GammaPoisson",
        "gamma-exponential": "vestry.conjugate.gamma_exponential_model:GammaExponential",
        "normal-inverse-gamma": "vestry.conjugate.normal_inverse_gamma_model:NormalInverseGamma",
        "statistical-query": "vestry.conjugate.statistical_query:StatisticalQuery",
        "logistic": "vestry.regression.logistic_model:LogisticRegression",
        "linear": "vestry.regression.linear_model:LinearRegression",
        "naive-bayes": "vestry.naive_bayes.naive_bayes_model:NaiveBayes",
        "hmm": "vestry.hmm.hmm_model:HiddenMarkovModel",
    }
)
