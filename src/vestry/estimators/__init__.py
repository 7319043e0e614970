"""Private linear learners for scikit-learn: `fit` releases coefficients, charged to a ledger."""

from vestry.errors import MissingExtra

try:
    import sklearn  # noqa: F401
except ImportError:
    raise MissingExtra("vestry.estimators", "glm") from None

from vestry.estimators.bounds import Ball
from vestry.estimators.linear_regression import PrivateLinearRegression
from vestry.estimators.logistic_regression import PrivateLogisticRegression

__all__ = ["Ball", "PrivateLinearRegression", "PrivateLogisticRegression"]
