"""scikit-learn's own checks of an estimator, on each method. What privacy forbids is exempted, with its reason."""

import pytest

pytest.importorskip("sklearn", reason="the extra `glm` is not installed")
pytest.importorskip("numba", reason="the extra `glm` is not installed")

from sklearn.utils.estimator_checks import parametrize_with_checks

from vestry.estimators import PrivateLinearRegression, PrivateLogisticRegression


EXEMPT = {}


def exempt(estimator):
    return EXEMPT


COMMON = {"guarantee": "epsilon=300,delta=1e-6", "bounds": (-4, 4), "ledger": None}
CASES = [
    PrivateLogisticRegression(**COMMON, method=m, neighbours=n, at_most=a, classes=(0, 1), prior_precision=p)
    for m in ("posterior", "objective", "output") for n,a in (("replace",None),("add-remove",1000)) for p in ((1.0 if m=="posterior" else None),)
]+[PrivateLinearRegression(**COMMON, method=m, neighbours=n, at_most=a, outcome_bounds=(-300,300))
    for m in ("posterior", "objective", "output") for n,a in (("replace",None),("add-remove",1000)) ]


@parametrize_with_checks(CASES, expected_failed_checks=exempt)
def test_conformance(estimator, check):
    check(estimator)
