"""Models and losses by name: tables of strings, each loaded when it is used. A new model, family or loss is one line.

A model's class knows how its releases are read (`reader`), and a conjugate one which family it is (`family_type`).
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping, MutableMapping
from typing import Any


class LazyTable(MutableMapping[str, Any]):
    """Names, each with the thing itself or where it is found, written module:attribute."""

    def __init__(self, homes: Mapping[str, Any]) -> None:
        self._homes: dict[str, Any] = dict(homes)

    def __getitem__(self, name: str) -> Any:
        home = self._homes[name]
        if not isinstance(home, str):
            return home
        module, _, attribute = home.partition(":")
        return getattr(importlib.import_module(module), attribute)

    def __iter__(self) -> Iterator[str]:
        return iter(self._homes)

    def __len__(self) -> int:
        return len(self._homes)

    def __setitem__(self, name: str, home: Any) -> None:
        self._homes[name] = home

    def __delitem__(self, name: str) -> None:
        del self._homes[name]


MODELS = LazyTable(
    {
        "beta-bernoulli": "vestry.conjugate.beta_bernoulli:BetaBernoulli",
        "dirichlet-categorical": "vestry.conjugate.dirichlet_categorical:DirichletCategorical",
        "normal-mean": "vestry.conjugate.normal_mean:NormalMean",
        "gamma-poisson": "vestry.conjugate.gamma_poisson:GammaPoisson",
        "gamma-exponential": "vestry.conjugate.gamma_exponential:GammaExponential",
        "normal-inverse-gamma": "vestry.conjugate.normal_inverse_gamma:NormalInverseGamma",
        "statistical-query": "vestry.conjugate.statistical_query:StatisticalQuery",
        "logistic": "vestry.regression.logistic_model:LogisticRegression",
        "linear": "vestry.regression.linear_model:LinearRegression",
        "naive-bayes": "vestry.naive_bayes.naive_bayes_model:NaiveBayes",
        "hmm": "vestry.hmm.hmm_model:HiddenMarkovModel",
    }
)

# Losses of linear models: a new one is its class and one line here.
LOSSES = LazyTable(
    {
        "logistic": "vestry.regression.losses:Logistic",
        "huber": "vestry.regression.losses:Huber",
        "pseudo-huber": "vestry.regression.losses:PseudoHuber",
        "log-cosh": "vestry.regression.losses:LogCosh",
        "smooth-hinge": "vestry.regression.losses:SmoothHinge",
        "softplus-hinge": "vestry.regression.losses:SoftplusHinge",
        "smooth-quantile": "vestry.regression.losses:SmoothQuantile",
        "multinomial": "vestry.regression.losses:Multinomial",
        "probit": "vestry.regression.losses:Probit",
        "complementary-log-log": "vestry.regression.losses:ComplementaryLogLog",
    }
)

# What a release becomes, and how a posterior is shown, without importing upward.
FACADE = LazyTable(
    {
        "posterior": "vestry.posterior.posterior:Posterior",
        "plot": "vestry.display.plotting:plot",
        "posterior_html": "vestry.display.plotting:posterior_html",
    }
)
