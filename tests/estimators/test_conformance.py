"""scikit-learn's own checks of an estimator, for each method and relation. What privacy forbids is exempted, with why.

`xfail_strict` makes an exemption that is not needed a failure. Noise is seeded here, so that checks which compare two
fits hold for every method.
"""

import pytest

pytest.importorskip("sklearn", reason="the extra `glm` is not installed")
pytest.importorskip("numba", reason="the extra `glm` is not installed")

from seeded_noise import SeededNoise
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


def exempt(estimator):
    classes = OF_CLASSES if isinstance(estimator, (PrivateLogisticRegression, PrivateNaiveBayes)) else {}
    return {**EXEMPT, **classes, **(OF_COUNT if estimator.neighbours == "add-remove" else {})}


def cases(relations):
    for method, neighbours in relations.items():
        common = {
            "guarantee": "epsilon=300,delta=1e-6", "bounds": (-4, 4), "ledger": None, "method": method,
            "neighbours": neighbours, "max_rows": 200 if neighbours == "add-remove" else None,
        }  # fmt: skip
        if method == "posterior":
            common |= {"draws": 10, "prior_precision": 1.0}
        yield PrivateLogisticRegression(**common, classes=(0, 1))
        yield PrivateLinearRegression(**common, outcome_bounds=(-4, 4))


def tables(neighbours):
    return PrivateNaiveBayes(
        "epsilon=300", bins=[-4, -2, -1, 0, 1, 2, 4], classes=(0, 1), prior=1.0, ledger=None, neighbours=neighbours
    )


ONE = list(cases({"posterior": "replace", "objective": "add-remove"}))
OUTPUT = list(cases({"output": "replace"}))
OTHER = list(cases({"posterior": "add-remove", "objective": "replace", "output": "add-remove"}))


@pytest.fixture(autouse=True)
def _seeded(monkeypatch):
    monkeypatch.setattr("vestry.estimators.private_fit.SystemNoise", lambda: SeededNoise(0))


@parametrize_with_checks(ONE, expected_failed_checks=exempt, xfail_strict=True)
def test_conformance(estimator, check):
    check(estimator)


@pytest.mark.long
@parametrize_with_checks(OUTPUT, expected_failed_checks=exempt, xfail_strict=True)
def test_conformance_of_output_perturbation(estimator, check):
    check(estimator)


@pytest.mark.long
@parametrize_with_checks([tables("replace"), tables("add-remove")], expected_failed_checks=exempt, xfail_strict=True)
def test_conformance_of_tables(estimator, check):
    check(estimator)


@pytest.mark.slow
@parametrize_with_checks(OTHER, expected_failed_checks=exempt, xfail_strict=True)
def test_conformance_under_the_other_relation(estimator, check):
    check(estimator)
