"""Models by name: what each record adds, which family that is, and the path from a table to a release."""

from typing import Any

from vestry.models.beta_bernoulli import BetaBernoulli
from vestry.models.dirichlet_categorical import DirichletCategorical
from vestry.models.gamma_exponential import GammaExponential
from vestry.models.gamma_poisson import GammaPoisson
from vestry.models.hmm import HiddenMarkov
from vestry.models.linear import Linear
from vestry.models.logistic import Logistic
from vestry.models.naive_bayes import NaiveBayes
from vestry.models.normal_inverse_gamma import NormalInverseGamma
from vestry.models.normal_mean import NormalMean
from vestry.models.request import Model
from vestry.models.statistical_query import StatisticalQuery

MODELS: dict[str, Any] = {
    "beta-bernoulli": BetaBernoulli,
    "dirichlet-categorical": DirichletCategorical,
    "normal-mean": NormalMean,
    "gamma-poisson": GammaPoisson,
    "gamma-exponential": GammaExponential,
    "normal-inverse-gamma": NormalInverseGamma,
    "statistical-query": StatisticalQuery,
    "logistic": Logistic,
    "linear": Linear,
    "naive-bayes": NaiveBayes,
    "hmm": HiddenMarkov,
}

__all__ = [
    "MODELS",
    "BetaBernoulli",
    "DirichletCategorical",
    "GammaExponential",
    "GammaPoisson",
    "HiddenMarkov",
    "Linear",
    "Logistic",
    "Model",
    "NaiveBayes",
    "NormalInverseGamma",
    "NormalMean",
    "StatisticalQuery",
]
