"""A loss of residuals as the likelihood of normal ones: what a declared residual standard deviation makes of it.

A Gibbs posterior exp(-rho sum phi) has the spread of a Bayesian one only if phi is a negative log-likelihood. For
normal residuals of standard deviation s it is r^2/(2 s^2); Huber's loss and its kin are r^2/2 within their threshold h,
so that phi/s^2 is this likelihood for residuals of at most h, and grows slower beyond. A power rho of 1 is then the
whole likelihood, and rho < 1 a tempered one: draws spread about 1/sqrt(rho) times as far. Without s there is no such
power.

With h = 2 s and normal residuals the posterior's variance is E psi'/E psi^2 = 1.037 times the sampling variance of its
mode, psi Huber's derivative: its spread is 1.8 % too large.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from vestry.errors import InvalidParameter
from vestry.numerics import outward
from vestry.regression.loss import Arithmetic, Derivative, Loss
from vestry.validation import require_number

# The threshold where none is declared, in residual standard deviations.
THRESHOLD = 2.0
# The least standard deviation, as a share of half the outcome's interval; the most is 1, that of outcomes at both ends.
LEAST = 1e-6


@dataclass(frozen=True)
class ResidualScale(Loss):
    """phi/s^2 of a loss phi of residuals: slope and curvature are 1/s^2 times those of phi.

    Rounding: phi' is off by less than 4 u (1 + |eta| + |y|) + 28 u (slope of phi + 1), where phi has curvature 1
    (`rounding_error`, step 2). Times w = 1/s^2, and with one rounding more, that is less than
    4 u w (1 + |eta| + |y|) + 29 u slope + 28 u w, and so below the 32 u (slope + 1 + w (1 + |eta| + |y|)) that is paid.

    Attributes
    ----------
    loss
        Of a residual, with curvature 1: r^2/2 near 0.
    residual_sd
        s, as the outcome is scaled.
    """

    loss: Loss
    residual_sd: float

    name, outcomes = "residual-scale", "numbers"

    def __post_init__(self) -> None:
        require_number("residual_sd", self.residual_sd, "residual_sd=0.2", least=LEAST / 2, most=1)
        if self.loss.curvature != 1:
            allowed = "omitted: the loss is not r^2/2 near 0"
            raise InvalidParameter("residual_sd", self.residual_sd, allowed, "the huber loss")

    @property
    def weight(self) -> float:
        """1/s^2, as it is stored: the loss is defined by it."""
        return 1 / (self.residual_sd * self.residual_sd)

    @property
    def slope(self) -> float:
        """That of the loss over s^2, rounded up."""
        return outward(self.loss.slope * self.weight)

    @property
    def curvature(self) -> float:
        """That of the loss over s^2, rounded up."""
        return outward(self.loss.curvature * self.weight)

    def value(self, arithmetic: Arithmetic) -> Derivative:
        """Return phi/s^2."""
        weight, phi = self.weight, arithmetic.inner(self.loss.value(arithmetic))
        return lambda eta, y: weight * phi(eta, y)

    def derivative(self, arithmetic: Arithmetic) -> Derivative:
        """Return phi'/s^2."""
        weight, slope = self.weight, arithmetic.inner(self.loss.derivative(arithmetic))
        return lambda eta, y: weight * slope(eta, y)

    def to_dict(self) -> dict[str, Any]:
        """Return the loss, and the residual standard deviation."""
        return {**self.loss.to_dict(), "residual_sd": self.residual_sd}


def check_residual_sd(value: float, *, reach: float, method: str, sampling_method: str) -> float:
    """Return it scaled; refuse what outcomes within `reach` of their middle cannot have, and where nothing is drawn."""
    residual_sd = require_number("residual_sd", value, "residual_sd = 3.0", least=LEAST * reach, most=reach)
    if method != sampling_method:
        allowed = f"omitted for the method {method}: what it releases does not depend on it"
        raise InvalidParameter("residual_sd", value, allowed, f'method = "{sampling_method}"')
    return residual_sd / reach


def with_residual_scale(loss: type, *, threshold: float | None, residual_sd: float | None, usual: float) -> Loss:
    """Return a loss of residuals by its threshold, of a residual standard deviation if there is one; all scaled.

    Without a threshold it is twice the standard deviation; and `usual`, where there is neither.
    """
    if residual_sd is None:
        plain: Loss = loss(usual if threshold is None else threshold)
        return plain
    return ResidualScale(loss(THRESHOLD * residual_sd if threshold is None else threshold), residual_sd)
