"""Conjugate pairs, one a file: a likelihood of the exponential family, its prior, and what one draw may cost."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from vestry.errors import InvalidParameter
from vestry.families.beta_bernoulli import Beta, BetaBernoulli
from vestry.families.dirichlet_categorical import Dirichlet, DirichletCategorical
from vestry.families.family import Family, Member
from vestry.families.gamma import Gamma
from vestry.families.gamma_exponential import GammaExponential
from vestry.families.gamma_poisson import GammaPoisson
from vestry.families.normal_inverse_gamma import MeanVariance, NormalInverseGamma
from vestry.families.normal_mean import Normal, NormalMean

FAMILIES: dict[str, Callable[..., Family]] = {
    BetaBernoulli.name: BetaBernoulli,
    DirichletCategorical.name: DirichletCategorical,
    NormalMean.name: NormalMean,
    GammaPoisson.name: GammaPoisson,
    GammaExponential.name: GammaExponential,
    NormalInverseGamma.name: NormalInverseGamma,
}


def family_from(record: Mapping[str, Any]) -> Family:
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


__all__ = [
    "FAMILIES",
    "Beta",
    "BetaBernoulli",
    "Dirichlet",
    "DirichletCategorical",
    "Family",
    "Gamma",
    "GammaExponential",
    "GammaPoisson",
    "MeanVariance",
    "Member",
    "Normal",
    "NormalInverseGamma",
    "NormalMean",
    "family_from",
]
