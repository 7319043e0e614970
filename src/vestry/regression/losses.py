"""Losses of a linear predictor: how steep and how curved they can be, and the sums of their gradients."""

from vestry.regression.hinge_loss import SmoothHinge, SoftplusHinge
from vestry.regression.logistic_loss import Logistic, Multinomial
from vestry.regression.loss import Loss
from vestry.regression.probit_cloglog import ComplementaryLogLog, Probit
from vestry.regression.robust_loss import Huber, LogCosh, PseudoHuber, SmoothQuantile

LOSSES: dict[str, type[Loss]] = {
    "logistic": Logistic,
    "huber": Huber,
    "pseudo-huber": PseudoHuber,
    "log-cosh": LogCosh,
    "smooth-hinge": SmoothHinge,
    "softplus-hinge": SoftplusHinge,
    "smooth-quantile": SmoothQuantile,
    "multinomial": Multinomial,
    "probit": Probit,
    "complementary-log-log": ComplementaryLogLog,
}

__all__ = [
    "LOSSES",
    "ComplementaryLogLog",
    "Huber",
    "LogCosh",
    "Logistic",
    "Loss",
    "Multinomial",
    "Probit",
    "PseudoHuber",
    "SmoothHinge",
    "SmoothQuantile",
    "SoftplusHinge",
]
