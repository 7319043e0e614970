"""The losses that ship: of two classes or several, of residuals, and those of bounded slope on a bounded set only.

A loss of a residual here grows no faster than the residual's size: its slope is bounded, so one record moves little.

[GeumlekSC17, sec. 4] lists probit and complementary log-log regression with slope 1. Their derivatives grow without
bound (probit like |eta|: 10.1 at eta = -10; complementary log-log like e^eta), so releasing them so is not private. On
parameters of norm R and records of norm c, |eta| <= R c =: reach, and the constants on that interval hold.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

from vestry.errors import InvalidParameter
from vestry.registry import LOSSES
from vestry.regression.loss import Arithmetic, Derivative, Loss
from vestry.validation import is_number, require_number, require_whole

# Beyond it the probabilities leave the range of doubles.
_FURTHEST = 30.0


def robust_losses() -> tuple[str, ...]:
    """Return the registered losses of numbers that a threshold describes: those that a linear regression offers."""
    names = (name for name in LOSSES if LOSSES[name].outcomes == "numbers")
    return tuple(name for name in names if [field.name for field in fields(LOSSES[name])] == ["threshold"])


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


@dataclass(frozen=True)
class _Threshold(Loss):
    """A loss of residuals that is a parabola near 0 and has at most this slope."""

    threshold: float

    outcomes, curvature = "numbers", 1.0

    @property
    def slope(self) -> float:
        """The threshold."""
        return self.threshold


@dataclass(frozen=True)
class Huber(_Threshold):
    """phi = r^2/2 for |r| <= h, h |r| - h^2/2 beyond, r = eta - y: slope h, curvature 1."""

    name = "huber"

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
class PseudoHuber(_Threshold):
    """phi = h^2 (sqrt(1 + (r/h)^2) - 1): slope h, curvature 1."""

    name = "pseudo-huber"

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
