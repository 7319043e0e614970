"""The parameters of a posterior as exact numbers, for draws whose privacy rests on how far neighbours are apart.

A sum in doubles is rounded to its own size. Where that is large next to what one record adds (times in milliseconds
since 1970, one second wide; a strong prior; ten million records), rounding alone can move a posterior further than the
record does. So the doubles that were declared, and the integers that were summed, are added and multiplied as
fractions, and neighbours are exactly as far apart as the event says.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from vestry.conjugate.beta_bernoulli import BetaBernoulliFamily
from vestry.conjugate.dirichlet_categorical import DirichletCategoricalFamily
from vestry.conjugate.family import ConjugateFamily, check_scales
from vestry.conjugate.gamma_exponential import GammaExponentialFamily
from vestry.conjugate.gamma_poisson import GammaPoissonFamily
from vestry.conjugate.normal_mean import NormalMeanFamily
from vestry.errors import GuaranteeUnreachable


def exact_posterior(
    family: ConjugateFamily,
    prior: Any,
    sums: Sequence[Fraction],
    count: int,
    *,
    likelihood_power: float = 1.0,
    prior_scale: float = 1.0,
) -> tuple[Fraction, ...]:
    """Return what `family.update` returns, not rounded: alpha and beta; alphas; shape and rate; means and precision.

    The prior divided by its scale, and a record's weight, are the doubles that `worst_draw` prices.
    """
    power, scale = check_scales(likelihood_power, prior_scale)
    r, n = Fraction(power), Fraction(count)
    match family:
        case BetaBernoulliFamily():
            (total,) = sums
            return Fraction(prior.alpha / scale) + r * total, Fraction(prior.beta / scale) + r * (n - total)
        case DirichletCategoricalFamily():
            return tuple(Fraction(alpha / scale) + r * each for alpha, each in zip(prior.alphas, sums, strict=True))
        case GammaPoissonFamily():
            (total,) = sums
            return Fraction(prior.shape / scale) + r * total, Fraction(prior.rate / scale) + r * n
        case GammaExponentialFamily():
            (total,) = sums
            return Fraction(prior.shape / scale) + r * n, Fraction(prior.rate / scale) + r * total
        case NormalMeanFamily():
            start, weight = (Fraction(x) for x in family.weights(prior, power, scale))
            precision = start + weight * n
            at = (Fraction(mean) for mean in prior.location)
            return *((start * m + weight * each) / precision for m, each in zip(at, sums, strict=True)), precision
        case _:
            raise GuaranteeUnreachable(f"an exact draw of {family.name}", "release noisy statistics instead")
