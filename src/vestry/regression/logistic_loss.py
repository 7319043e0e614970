"""Logistic losses: of two classes, and of several."""

from __future__ import annotations

import math
from dataclasses import dataclass

from vestry.regression.loss import Arithmetic, Derivative, Loss
from vestry.validation import require_whole


@dataclass(frozen=True)
class Logistic(Loss):
    """phi = log(1 + exp(-y eta)), y in {-1, 1}: slope 1, curvature 1/4."""

    name, outcomes, one_sided = "logistic", "signs", True
    slope, curvature = 1.0, 0.25

    def value(self, arithmetic: Arithmetic) -> Derivative:
        """Return log(1 + exp(-y eta)), without overflow."""
        m = arithmetic
        return lambda eta, y: m.maximum(-y * eta, 0.0) + m.log1p(m.exp(-m.absolute(y * eta)))

    def derivative(self, arithmetic: Arithmetic) -> Derivative:
        """Return -y / (1 + exp(y eta)), written by tanh so that nothing overflows."""
        m = arithmetic
        return lambda eta, y: -0.5 * y * (1.0 - m.tanh(0.5 * y * eta))


@dataclass(frozen=True)
class Multinomial(Loss):
    """phi = log sum_k exp(eta_k) - eta_y, K >= 3 classes: slope sqrt(2), curvature 1/2.

    The derivative in eta is p - e_y, of norm at most sqrt(2); its Jacobian diag(p) - p p' has eigenvalues of at most
    1/2. Both hold for all K rows of coefficients, and for K - 1 against a reference class.
    """

    classes: int

    name, outcomes = "multinomial", "classes"
    slope, curvature = math.sqrt(2), 0.5

    def __post_init__(self) -> None:
        require_whole("classes", self.classes, "the logistic loss for two", least=3)

    @property
    def predictors(self) -> int:
        """One for each class."""
        return self.classes

    def value(self, arithmetic: Arithmetic) -> Derivative:
        """Return the loss for predictors (n, K) and classes y."""
        m = arithmetic

        def loss(eta, y):  # type: ignore[no-untyped-def]
            top = eta.max(axis=-1)
            rest = m.log(m.exp(eta - top[..., None]).sum(axis=-1))
            return top + rest - m.take_along(eta, y)

        return loss

    def derivative(self, arithmetic: Arithmetic) -> Derivative:
        """Return the probabilities less the indicator of the class, (n, K)."""
        m, classes = arithmetic, self.classes

        def slope(eta, y):  # type: ignore[no-untyped-def]
            weight = m.exp(eta - eta.max(axis=-1)[..., None])
            return weight / weight.sum(axis=-1)[..., None] - m.one_hot(y, classes)

        return slope
