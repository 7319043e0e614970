"""Losses whose slope has no bound: allowed on a bounded set of parameters only.

[GeumlekSC17, sec. 4] lists probit and complementary log-log regression with slope 1. Their derivatives grow without
bound (probit like |eta|: 10.1 at eta = -10; complementary log-log like e^eta), so releasing them so is not private. On
parameters of norm R and records of norm c, |eta| <= R c =: reach, and the constants on that interval hold.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from vestry.errors import InvalidParameter
from vestry.regression.loss import Arithmetic, Derivative, Loss
from vestry.validation import is_number

# Beyond it the probabilities leave the range of doubles.
_FURTHEST = 30.0


@dataclass(frozen=True)
class BoundedLoss(Loss):
    """A loss whose constants hold where |x . theta| is at most its reach."""

    reach: float

    def __post_init__(self) -> None:
        if not is_number(self.reach) or not 0 < self.reach <= _FURTHEST:
            raise InvalidParameter(
                "reach",
                self.reach,
                f"a bound on |x . theta| above 0 and at most {_FURTHEST:g}: without one the slope of the {self.name}"
                " loss is unbounded, and nothing is private",
                "reach = the radius of the parameters times the norm of the records, or the logistic loss",
            )
        object.__setattr__(self, "reach", float(self.reach))


@dataclass(frozen=True)
class Probit(BoundedLoss):
    """phi = -log Phi(z), z = y eta, |z| <= reach: slope Mills(-reach), curvature at most 1.

    phi' = -y pdf(z)/Phi(z) is largest at z = -reach; phi'' = m (m + z), m = pdf(z)/Phi(z), is below 1.
    """

    name, outcomes, one_sided = "probit", "signs", True
    curvature = 1.0

    @property
    def slope(self) -> float:
        """pdf(-reach)/Phi(-reach), rounded up."""
        r = self.reach
        return math.sqrt(2 / math.pi) * math.exp(-r * r / 2) / math.erfc(r / math.sqrt(2)) * (1 + 1e-12)

    def value(self, arithmetic: Arithmetic) -> Derivative:
        """Return -log Phi(z)."""
        m = arithmetic
        return lambda eta, y: -m.log(0.5 * m.erfc(-0.7071067811865476 * y * eta))

    def derivative(self, arithmetic: Arithmetic) -> Derivative:
        """Return -y pdf(z)/Phi(z)."""
        m = arithmetic
        return lambda eta, y: -0.7978845608028654 * y * m.exp(-0.5 * eta * eta) / m.erfc(-0.7071067811865476 * y * eta)


@dataclass(frozen=True)
class ComplementaryLogLog(BoundedLoss):
    """P(y = 1) = 1 - exp(-e^eta), |eta| <= reach: slope and curvature e^reach, from y = -1.

    For y = -1 phi = e^eta. For y = 1 phi' = -e^eta/(e^(e^eta) - 1) lies in [-1, 0], and phi'' is below 1.
    """

    name, outcomes, one_sided = "complementary-log-log", "signs", True

    @property
    def slope(self) -> float:
        """e^reach, rounded up."""
        return math.exp(self.reach) * (1 + 1e-12)

    @property
    def curvature(self) -> float:
        """e^reach, rounded up."""
        return self.slope

    def value(self, arithmetic: Arithmetic) -> Derivative:
        """Return e^eta for y = -1, -log(1 - exp(-e^eta)) for y = 1."""
        m = arithmetic

        def loss(eta, y):  # type: ignore[no-untyped-def]
            rate = m.exp(eta)
            return m.where(y > 0, -m.log(-m.expm1(-rate)), rate)

        return loss

    def derivative(self, arithmetic: Arithmetic) -> Derivative:
        """Return e^eta for y = -1, -e^eta exp(-e^eta)/(1 - exp(-e^eta)) for y = 1."""
        m = arithmetic

        def slope(eta, y):  # type: ignore[no-untyped-def]
            rate = m.exp(eta)
            return m.where(y > 0, rate * m.exp(-rate) / m.expm1(-rate), rate)

        return slope
