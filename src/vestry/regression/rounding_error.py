"""How far a computed gradient can be from the exact one, for every dataset: what a proof of privacy has to pay for.

All arithmetic is in doubles, u = 2^-53, and gamma(k) = k u/(1 - k u) bounds the relative error of k roundings in any
order, fused or not (Higham 2002, Lemma 3.1).
"""

from __future__ import annotations

import math

from vestry.errors import InvalidParameter
from vestry.numerics import outward
from vestry.regression.loss import Loss
from vestry.validation import require_number, require_whole

# Rows that are summed on their own; the sums of the blocks are then added.
BLOCK = 2048
SPARE = 8

_U = 2.0**-53
# More than what is lost to underflow in one operation, even where small numbers are flushed to zero.
_TINY = 2.0**-1000


def additions(rows: int) -> int:
    """Return how many additions any term of a gradient may pass through.

    A block is summed in any order: at most BLOCK additions. Rows come in pieces, all but the last of at least BLOCK
    rows; a piece of n rows has at most n/BLOCK + 1 blocks, so there are at most 2 rows/BLOCK + 1 sums of blocks, added
    in any order. Some are left to spare for those who cut the work otherwise.
    """
    return BLOCK + 2 * -(-rows // BLOCK) + SPARE


def gradient_error(loss: Loss, *, rows: int, features: int, norm: float, radius: float, outcome: float = 0.0) -> float:
    """Bound |computed - exact| of G(theta) = sum of phi'(x_i . theta, y_i) x_i, in the Euclidean norm.

    It holds for every dataset of at most `rows` rows with |x_i| <= norm as stored, |y_i| <= outcome if outcomes are
    numbers, and every theta as stored with |theta| <= radius.

    Proof. Write c = norm, R = radius, d = features, n = rows.

    1. The predictor: |eta^ - eta| <= gamma(d) |x||theta| <= gamma(d) c R, for any order of the sum, by Cauchy-Schwarz;
       for several predictors this holds for the vector of them with the Frobenius norm of theta. So phi' moves by at
       most curvature * gamma(d) c R.
    2. The formula of phi' at eta^: its argument (a residual, a margin 1 - y eta, a difference to the largest
       predictor) is off by at most 4 u (1 + c R + outcome) and phi' moves by curvature times that. The functions called
       are taken to be right to 10 u, relatively: a tested 4 u for our tanh, documented for the C library and CUDA, an
       assumption for XLA on the processor. With the operations on their values, of at most slope + 1, this is together
       less than 32 u (slope + 1 + curvature (1 + c R + outcome)). A sum over K classes adds K u slope. For losses on
       |eta| <= reach the quotients amplify relative errors by at most 1 + reach^2, hence the factor.
    3. The sum: each product is rounded once, each term passes through at most `additions(n)` roundings, and each
       component errs by gamma(additions + 1) times the sum of the sizes of its terms; the norm of these is at most the
       sum of |phi'^||x| <= n c (slope + e), e the sum of 1 and 2.

    In all n c e + gamma(additions + 1) n c (slope + e), and underflow.
    """
    _check(loss, rows=rows, features=features, norm=norm, radius=radius, outcome=outcome)
    reach = getattr(loss, "reach", 0.0)
    extent = norm * radius
    predictor = loss.curvature * _gamma(features + 2) * extent
    formula = (
        _U
        * (1 + reach * reach)
        * (32 * (loss.slope + 1 + loss.curvature * (1 + extent + outcome)) + loss.predictors * loss.slope)
    )
    each = predictor + formula
    total = rows * norm * (each + _gamma(additions(rows) + 1) * (loss.slope + each))
    lost = _TINY * rows * (features + 16) * (1 + norm) * (1 + radius) * (1 + loss.slope + loss.curvature)
    return outward(total + lost)


def step_error(
    loss: Loss,
    *,
    rows: int,
    features: int,
    norm: float,
    radius: float,
    likelihood_power: float,
    prior_precision: float,
    step_size: float,
    noise_norm: float,
    outcome: float = 0.0,
) -> float:
    """Bound |computed - exact| of a step Proj(theta - h (rho G(theta) + m theta) + sqrt(2 h) z), of the same theta, z.

    rho = likelihood_power, m = prior_precision, h = step_size, |sqrt(2 h) z| <= noise_norm, and Proj is onto the ball
    of the radius.

    Proof. A projected state is v R/|v| with |v| computed to gamma(p + 2), p the number of parameters, one division and
    one product: its norm is at most R' = R (1 + gamma(p + 5)), and it is within gamma(p + 5) R' of the exact projection
    of the same v; a v that is not projected has a computed norm of at most R, and the same bounds. The exact projection
    brings no two points further apart. Before it, G^ is off by E = gradient_error at R', so that |G^| <= g = n slope c
    + E; the eight operations on rho G^, m theta, theta, h and the noise round numbers of at most R' + h (rho g + m R')
    + noise_norm each. In all h rho E + gamma(8) (R' + h (rho g + m R') + noise_norm) + gamma(p + 5) R'.
    """
    for name, value in (
        ("likelihood_power", likelihood_power), ("prior_precision", prior_precision), ("step_size", step_size),
        ("noise_norm", noise_norm),
    ):  # fmt: skip
        require_number(name, value, f"{name}=1.0", least=0)
    projected = _gamma(features * loss.predictors + 5)
    wide = outward(radius * (1 + projected))
    error = gradient_error(loss, rows=rows, features=features, norm=norm, radius=wide, outcome=outcome)
    gradient = rows * loss.slope * norm + error
    size = wide + step_size * (likelihood_power * gradient + prior_precision * wide) + noise_norm
    return outward(step_size * likelihood_power * error + _gamma(8) * size + projected * wide + _TINY * features)


def _gamma(count: int) -> float:
    return count * _U / (1 - count * _U)


def _check(loss: Loss, *, rows: int, features: int, norm: float, radius: float, outcome: float) -> None:
    for name, count in (("rows", rows), ("features", features)):
        require_whole(name, count, f"{name}=100", least=0, most=2**50)
    for name, value in (("norm", norm), ("radius", radius), ("outcome", outcome)):
        require_number(name, value, f"{name}=1.0", least=0)
    reach = getattr(loss, "reach", math.inf)
    # A predictor may pass the reach by its rounding, which the factor of the formula covers.
    if norm * radius > reach * (1 + 1e-9):
        raise InvalidParameter(
            "radius", radius, f"at most reach/norm for the {loss.name} loss", f"reach={norm * radius:g}"
        )
