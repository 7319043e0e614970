"""Hinge losses, made smooth: of two classes."""

from __future__ import annotations

from dataclasses import dataclass

from vestry.regression.loss import Arithmetic, Derivative, Loss


@dataclass(frozen=True)
class SmoothHinge(Loss):
    """The hinge max(0, 1 - z), z = y eta, with a parabola for |1 - z| <= h: slope 1, curvature 1/(2 h)."""

    width: float

    name, outcomes, one_sided = "smooth-hinge", "signs", True
    slope = 1.0

    @property
    def curvature(self) -> float:
        """1/(2 h)."""
        return 0.5 / self.width

    def value(self, arithmetic: Arithmetic) -> Derivative:
        """Return (1 - z + h)^2/(4 h) inside, 1 - z or 0 outside."""
        m, h = arithmetic, self.width

        def loss(eta, y):  # type: ignore[no-untyped-def]
            short = 1.0 - y * eta
            inside = m.minimum(m.maximum(short + h, 0.0), 2.0 * h)
            return inside * inside / (4.0 * h) + m.maximum(short - h, 0.0)

        return loss

    def derivative(self, arithmetic: Arithmetic) -> Derivative:
        """Return -y times (1 - z + h)/(2 h), clipped to [0, 1]."""
        m, h = arithmetic, self.width
        return lambda eta, y: -y * m.minimum(m.maximum((1.0 - y * eta + h) / (2.0 * h), 0.0), 1.0)


@dataclass(frozen=True)
class SoftplusHinge(Loss):
    """phi = g log(1 + exp((1 - z)/g)), z = y eta: slope 1, curvature 1/(4 g)."""

    width: float

    name, outcomes, one_sided = "softplus-hinge", "signs", True
    slope = 1.0

    @property
    def curvature(self) -> float:
        """1/(4 g)."""
        return 0.25 / self.width

    def value(self, arithmetic: Arithmetic) -> Derivative:
        """Return the loss without overflow."""
        m, g = arithmetic, self.width
        return lambda eta, y: m.maximum(1.0 - y * eta, 0.0) + g * m.log1p(m.exp(-m.absolute(1.0 - y * eta) / g))

    def derivative(self, arithmetic: Arithmetic) -> Derivative:
        """Return -y sigmoid((1 - z)/g)."""
        m, g = arithmetic, self.width
        return lambda eta, y: -0.5 * y * (1.0 + m.tanh(0.5 * (1.0 - y * eta) / g))
