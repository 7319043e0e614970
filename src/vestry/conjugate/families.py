"""The table of conjugate families by name, and reading one from what a release or the command line says."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from vestry.conjugate.beta_bernoulli import BetaBernoulliFamily
from vestry.conjugate.dirichlet_categorical import DirichletCategoricalFamily
from vestry.conjugate.family import ConjugateFamily
from vestry.conjugate.gamma_exponential import GammaExponentialFamily
from vestry.conjugate.gamma_poisson import GammaPoissonFamily
from vestry.conjugate.normal_inverse_gamma import NormalInverseGammaFamily
from vestry.conjugate.normal_mean import NormalMeanFamily
from vestry.errors import InvalidParameter

FAMILIES: dict[str, Callable[..., ConjugateFamily]] = {
    BetaBernoulliFamily.name: BetaBernoulliFamily,
    DirichletCategoricalFamily.name: DirichletCategoricalFamily,
    NormalMeanFamily.name: NormalMeanFamily,
    GammaPoissonFamily.name: GammaPoissonFamily,
    GammaExponentialFamily.name: GammaExponentialFamily,
    NormalInverseGammaFamily.name: NormalInverseGammaFamily,
}


def family_from(record: Mapping[str, Any]) -> ConjugateFamily:
    """Read a family from its name and declared numbers, as `to_dict` writes them."""
    numbers = dict(record)
    name = numbers.pop("name", None)
    if name not in FAMILIES:
        raise InvalidParameter("a family's name", name, "one of " + ", ".join(FAMILIES), "for example beta-bernoulli")
    try:
        return FAMILIES[name](**numbers)
    except TypeError:
        raise InvalidParameter(
            f"the declaration of {name}", sorted(numbers), "complete, and nothing else", "what `to_dict` writes"
        ) from None
