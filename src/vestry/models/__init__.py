"""Models by name: what each record adds, which family that is, and the path from a table to a release."""

from vestry.models.beta_bernoulli import BetaBernoulli
from vestry.models.dirichlet_categorical import DirichletCategorical
from vestry.models.model import Model
from vestry.models.normal_mean import NormalMean

MODELS: dict[str, type[BetaBernoulli] | type[DirichletCategorical] | type[NormalMean]] = {
    "beta-bernoulli": BetaBernoulli,
    "dirichlet-categorical": DirichletCategorical,
    "normal-mean": NormalMean,
}

__all__ = ["MODELS", "BetaBernoulli", "DirichletCategorical", "Model", "NormalMean"]
