"""Private learners for scikit-learn: `fit` is one release, charged to a ledger."""

from vestry.errors import MissingExtra

try:
    import sklearn  # noqa: F401
except ImportError:
    raise MissingExtra("vestry.estimators", "glm") from None

from vestry.estimators.bounds import Ball
from vestry.estimators.linear_regression import PrivateLinearRegression
from vestry.estimators.logistic_regression import PrivateLogisticRegression
from vestry.estimators.naive_bayes import PrivateNaiveBayes

__all__ = ["Ball", "PrivateLinearRegression", "PrivateLogisticRegression", "PrivateNaiveBayes"]
