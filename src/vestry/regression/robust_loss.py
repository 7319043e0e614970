"""Losses of a residual that grow no faster than its size: their slope is bounded, so one record moves little."""

from __future__ import annotations

from dataclasses import dataclass

from vestry.regression.loss import Arithmetic, Derivative, Loss
from vestry.validation import require_number


@dataclass(frozen=True)
class Huber(Loss):
    """phi = r^2/2 for |r| <= h, h |r| - h^2/2 beyond, r = eta - y: slope h, curvature 1."""

    threshold: float

    name, outcomes = "huber", "numbers"
    curvature = 1.0

    @property
    def slope(self) -> float:
        """The threshold."""
        return self.threshold

    def value(self, arithmetic: Arithmetic) -> Derivative:
        """Return the loss of a residual."""
        m, h = arithmetic, self.threshold

        def loss(eta, y):  # type: ignore[no-untyped-def]
            size = m.absolute(eta - y)
            inside = m.minimum(size, h)
            return inside * (size - 0.5 * inside)

        return loss

    def derivative(self, arithmetic: Arithmetic) -> Derivative:
        """Return the residual, clipped to [-h, h]."""
        m, h = arithmetic, self.threshold
        return lambda eta, y: m.maximum(m.minimum(eta - y, h), -h)


@dataclass(frozen=True)
class PseudoHuber(Loss):
    """phi = h^2 (sqrt(1 + (r/h)^2) - 1): slope h, curvature 1."""

    threshold: float

    name, outcomes = "pseudo-huber", "numbers"
    curvature = 1.0

    @property
    def slope(self) -> float:
        """The threshold."""
        return self.threshold

    def value(self, arithmetic: Arithmetic) -> Derivative:
        """Return the loss of a residual."""
        m, h = arithmetic, self.threshold

        def loss(eta, y):  # type: ignore[no-untyped-def]
            r = (eta - y) / h
            return h * h * r * r / (1.0 + m.sqrt(1.0 + r * r))

        return loss

    def derivative(self, arithmetic: Arithmetic) -> Derivative:
        """Return r / sqrt(1 + (r/h)^2)."""
        m, h = arithmetic, self.threshold
        return lambda eta, y: (eta - y) / m.sqrt(1.0 + ((eta - y) / h) * ((eta - y) / h))


@dataclass(frozen=True)
class LogCosh(Loss):
    """phi = log cosh r: slope 1, curvature 1."""

    name, outcomes = "log-cosh", "numbers"
    slope, curvature = 1.0, 1.0

    def value(self, arithmetic: Arithmetic) -> Derivative:
        """Return |r| + log((1 + e^(-2|r|))/2)."""
        m = arithmetic
        return lambda eta, y: m.absolute(eta - y) + m.log1p(m.exp(-2.0 * m.absolute(eta - y))) - 0.6931471805599453

    def derivative(self, arithmetic: Arithmetic) -> Derivative:
        """Return tanh r."""
        m = arithmetic
        return lambda eta, y: m.tanh(eta - y)


@dataclass(frozen=True)
class SmoothQuantile(Loss):
    """phi = -tau r + g log(1 + exp(r/g)), r = eta - y: slope max(tau, 1 - tau), curvature 1/(4 g)."""

    quantile: float
    width: float

    name, outcomes = "smooth-quantile", "numbers"

    def __post_init__(self) -> None:
        super().__post_init__()
        require_number("quantile", self.quantile, "quantile=0.5", below=1)

    @property
    def slope(self) -> float:
        """The larger of tau and 1 - tau."""
        return max(self.quantile, 1 - self.quantile)

    @property
    def curvature(self) -> float:
        """1/(4 g)."""
        return 0.25 / self.width

    def value(self, arithmetic: Arithmetic) -> Derivative:
        """Return the loss of a residual."""
        m, tau, g = arithmetic, self.quantile, self.width

        def loss(eta, y):  # type: ignore[no-untyped-def]
            r = eta - y
            return m.maximum(r, 0.0) - tau * r + g * m.log1p(m.exp(-m.absolute(r) / g))

        return loss

    def derivative(self, arithmetic: Arithmetic) -> Derivative:
        """Return sigmoid(r/g) - tau."""
        m, tau, g = arithmetic, self.quantile, self.width
        return lambda eta, y: 0.5 * (1.0 + m.tanh(0.5 * (eta - y) / g)) - tau
