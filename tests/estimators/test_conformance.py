"""scikit-learn's own checks of each estimator, by every method and under both relations, without noise.

What privacy forbids is exempted, with the reason. `xfail_strict` makes an exemption that is not needed a failure.
"""

import pytest

pytest.importorskip("sklearn", reason="the extra `glm` is not installed")
pytest.importorskip("numba", reason="the extra `glm` is not installed")

from no_noise import remove_noise
from sklearn.utils.estimator_checks import parametrize_with_checks

from vestry.estimators import PrivateLinearRegression, PrivateLogisticRegression, PrivateNaiveBayes

EXEMPT = {
    "check_dtype_object": "the check wants an error that depends on a value; objects are refused by their type",
    "check_supervised_y_no_nan": "the check wants an error that depends on a value of y",
}
OF_CLASSES = {
    "check_classifiers_classes": "classes are declared, and the check's labels are others",
    "check_classifiers_regression_target": "the check wants an error that depends on the values of y",
    "check_classifier_not_supporting_multiclass": "the check wants an error that depends on the values of y",
}
OF_COUNT = {"check_estimators_empty_data_messages": "under add-remove the number of rows is private, even if it is 0"}

OF_MOMENTS = {"check_fit2d_1sample": "one row says nothing of ten coefficients; it is refused before the charge"}

TOO_MANY_CELLS = "a table has a cell for every combination of bins, and at most 5,000 numbers"
OF_TABLES = {
    "check_dtype_object": EXEMPT["check_dtype_object"],
    "check_estimators_dtypes": TOO_MANY_CELLS,
    "check_fit2d_1sample": TOO_MANY_CELLS,
}


def exempt(estimator):
    if estimator.get_params().get("method") == "moments" and estimator.neighbours == "replace":
        return {**EXEMPT, **OF_MOMENTS}
    if estimator.get_params().get("method") == "table":
        return {**OF_TABLES, **OF_CLASSES, **(OF_COUNT if estimator.neighbours == "add-remove" else {})}
    classes = OF_CLASSES if isinstance(estimator, (PrivateLogisticRegression, PrivateNaiveBayes)) else {}
    return {**EXEMPT, **classes, **(OF_COUNT if estimator.neighbours == "add-remove" else {})}


GUARANTEE = "epsilon=300,delta=1e-6"
EDGES = [-4, -2, -1, 0, 1, 2, 4]
ADD_REMOVE = {"neighbours": "add-remove", "max_rows": 200}
REPLACE = {"neighbours": "replace"}


def linear(method, **options):
    return PrivateLinearRegression(
        GUARANTEE, method=method, bounds=(-4, 4), outcome_bounds=(-4, 4), ledger=None, **options
    )


def moments(**options):
    # Whether there is an interval follows from the declared noise, which must be small beside twenty rows, and from the
    # sums of products: rows that are all clipped to one point have none.
    wide = {"guarantee": "epsilon=1e8", "bounds": (-200, 200), "prior_precision": 1e-6}
    return linear("moments", **options).set_params(**wide)


def logistic(method, **options):
    return PrivateLogisticRegression(GUARANTEE, method=method, bounds=(-4, 4), classes=(0, 1), ledger=None, **options)


def table(**options):
    return PrivateLogisticRegression(GUARANTEE, method="table", bins=EDGES, classes=(0, 1), ledger=None, **options)


def naive_bayes(relation):
    return PrivateNaiveBayes(GUARANTEE, bins=EDGES, classes=(0, 1), prior=1.0, ledger=None, neighbours=relation)


POSTERIOR = {"draws": 10, "prior_precision": 1.0}
QUICK = [
    linear("objective", **ADD_REMOVE),
    moments(**REPLACE),
    logistic("output", **REPLACE),
]
LONG = [
    linear("posterior", **REPLACE, **POSTERIOR),
    moments(**ADD_REMOVE),
    logistic("objective", **ADD_REMOVE),
    logistic("posterior", **REPLACE, **POSTERIOR),
    linear("output", **REPLACE),
    naive_bayes("replace"),
    naive_bayes("add-remove"),
]
# A fit by table samples its posterior.
SLOW = [
    linear("posterior", **ADD_REMOVE, **POSTERIOR),
    linear("objective", **REPLACE),
    linear("output", **ADD_REMOVE),
    logistic("posterior", **ADD_REMOVE, **POSTERIOR),
    logistic("objective", **REPLACE),
    logistic("output", **ADD_REMOVE),
    table(**REPLACE),
    table(**ADD_REMOVE),
]


@pytest.fixture(autouse=True)
def _without_noise(monkeypatch):
    remove_noise(monkeypatch)


@parametrize_with_checks(QUICK, expected_failed_checks=exempt, xfail_strict=True)
def test_conformance(estimator, check):
    check(estimator)


@pytest.mark.long
@parametrize_with_checks(LONG, expected_failed_checks=exempt, xfail_strict=True)
def test_conformance_of_further_methods(estimator, check):
    check(estimator)


@pytest.mark.slow
@parametrize_with_checks(SLOW, expected_failed_checks=exempt, xfail_strict=True)
def test_conformance_of_tables_and_the_other_relation(estimator, check):
    check(estimator)
