"""Classes that are declared, and never learnt from y."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin

from vestry.errors import InvalidParameter
from vestry.estimators.input_checks import class_places
from vestry.estimators.private_fit import warn_uncharged
from vestry.schema.meaning import level_text


class PrivateClassifier(ClassifierMixin):  # type: ignore[misc]
    """What private classifiers share; before their other base."""

    ledger: Any
    classes: Any

    @abstractmethod
    def predict_proba(self, X: Any) -> np.ndarray:  # noqa: N803 - scikit-learn's name
        """Return the probability of each class."""

    def predict_log_proba(self, X: Any) -> np.ndarray:  # noqa: N803
        """Return the log probability of each class."""
        probabilities = self.predict_proba(X)
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(probabilities))

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:  # noqa: N803
        """Return the accuracy. On private rows this is a release that no ledger is charged for, as cross-validation is.

        Use public rows, or rows whose accuracy you pay for in another way. With a ledger, the first score of a process
        warns (`vestry.errors.UnpaidRelease`).
        """
        warn_uncharged(self.ledger)
        return float(super().score(X, y, sample_weight))

    def __sklearn_tags__(self) -> Any:
        """Say that two declared classes are all there are."""
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = not isinstance(self.classes, (list, tuple)) or len(self.classes) > 2
        return tags


def log_odds(log_probabilities: np.ndarray) -> np.ndarray:
    """Return the log odds of the second of two classes; of several, their log probabilities as they are."""
    if log_probabilities.shape[1] > 2:
        return log_probabilities
    return np.asarray(log_probabilities[:, 1] - log_probabilities[:, 0])


def class_coding(given: Any, y: np.ndarray) -> tuple[list[str], Callable[[], np.ndarray]]:
    """Return the names of the declared classes, sorted, and what reads labels as places among them."""
    classes = check_classes(given)
    ordered = sorted(classes)
    return [str(label) for label in ordered], partial(class_places, y, ordered, ordered.index(classes[0]))


def check_classes(given: Any) -> list[Any]:
    """Return the declared classes as Python's own numbers or text. No message shows many: y may have been passed."""
    classes = given.tolist() if isinstance(given, np.ndarray) else given
    instead = 'for example classes=("no", "yes")'
    if not isinstance(classes, (list, tuple)) or len(classes) < 2:
        shown = given if given is None or isinstance(classes, (str, list, tuple)) else f"a {type(given).__name__}"
        raise InvalidParameter("classes", shown, "two or more, declared in a tuple and never learnt from y", instead)
    plain = [label.item() if isinstance(label, np.generic) else label for label in classes]
    text = all(isinstance(label, str) for label in plain)
    if not text and not all(isinstance(label, (int, float)) and label == label for label in plain):
        raise InvalidParameter("classes", "a mixture", "all text or all numbers", instead)
    if len(set(map(level_text, plain))) < len(plain):
        raise InvalidParameter("classes", "repeated", "different from each other", instead)
    return plain
