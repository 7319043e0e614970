"""A private naive Bayes classifier: noisy counts of the features' bins by class."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, cast

import numpy as np

from vestry.errors import InvalidParameter
from vestry.estimators.binned_fit import BinEncoder, read_bins
from vestry.estimators.declared_classes import PrivateClassifier, check_classes, class_coding, log_odds
from vestry.estimators.fit_plan import FitPlan, feature_names, outcome_name
from vestry.estimators.private_fit import FittedPosterior, PrivateFit
from vestry.ledger import Ledger
from vestry.model.request import PreparedSums, Request
from vestry.naive_bayes.naive_bayes_model import NaiveBayes
from vestry.planning import choose_mechanism
from vestry.posterior import Posterior
from vestry.privacy.guarantee import Guarantee
from vestry.privacy.neighbours import Neighbours, Unit
from vestry.releases import Release
from vestry.schema.domain import Bins, Levels
from vestry.schema.private import Private
from vestry.schema.table_schema import TableSchema
from vestry.validation import require_whole


@dataclass(frozen=True)
class ClassTables(FitPlan):
    """A fit by tables of the features' bins, one for each class."""

    prepared: PreparedSums

    @property
    def by(self) -> str:
        """The column of the classes."""
        return cast(str, self.described["target"])

    @property
    def groups(self) -> tuple[str, ...]:
        """The classes."""
        return self.prepared.groups

    @property
    def prior(self) -> tuple[float, ...]:
        """The concentration; nothing if it is unknown."""
        return self.prepared.numbers

    def collect(self, X: np.ndarray, *, row_key: str) -> Private:  # noqa: N803 - scikit-learn's name
        """Count the rows of each class in each bin of every feature."""
        classes, encoder = self.outcomes().astype(np.int64), cast(BinEncoder, self.encoder)
        counts = [
            np.bincount(classes * size + places, minlength=len(self.groups) * size).reshape(-1, size)
            for size, places in zip(encoder.sizes, encoder.places(X), strict=True)
        ]
        return Private(np.concatenate(counts, axis=1).ravel().tolist())


@dataclass(eq=False, repr=False)
class PrivateNaiveBayes(PrivateClassifier, PrivateFit):
    """Naive Bayes whose tables may be published: the features are taken as independent, given the class.

    `fit` is one release of noisy counts, charged to the ledger before the rows are read. Bins and classes are declared,
    never learnt. A label that is not declared counts as the first declared class, and no value is ever an error.

    Parameters
    ----------
    guarantee
        What one fit may cost: a guarantee, or text such as "epsilon=1".
    bins
        The edges of each feature, three or more; or one list for all. A bin holds its lower edge; values beyond the
        first and the last edge are clipped, and what is not a number lies in the first bin.
    classes
        The declared classes, all text or all numbers.
    prior
        The concentration of every table's Dirichlet prior. None: it is unknown, and so is the share of bins that never
        occur.
    ledger
        A `Ledger` or its address. None, which must be written, means that nothing is charged: you account for the
        release elsewhere.
    neighbours
        "add-remove" or "replace"; taken from the ledger where there is one.

    Attributes
    ----------
    classes_
        The declared classes, sorted.
    posterior_
        The posterior of all tables and of the classes' own probabilities, the noise summed out.
    certificate_, release_
        What is promised, and what may be published.
    spent_
        What the fit cost.

    Notes
    -----
    Privacy: a row adds 1 to one bin of each of F features, so noise is calibrated to l1 = F and l2 = sqrt(F), twice
    and sqrt(2) times that under replace; `vestry.model.histograms` has the proof. Laplace or Gaussian, whichever is
    smaller. The number of rows is never used.
    """

    _: KW_ONLY
    bins: Any = None
    classes: Any = None
    prior: float | None = None

    def _plan(self, rows: np.ndarray, y: np.ndarray, names: np.ndarray | None, ledger: Ledger | None) -> ClassTables:
        neighbours, guarantee = self._promised(ledger)
        if neighbours is Neighbours.REPLACE:
            require_whole("the number of rows", len(rows), "a table with rows")
        classes, places = class_coding(self.classes, y)
        bins, features = read_bins(self.bins, rows.shape[1]), feature_names(names, rows.shape[1])
        prepared = self._prepared(bins, features, classes, neighbours, guarantee)
        described, labels = dict(prepared.described), prepared.labels
        return ClassTables(BinEncoder(bins), prepared.mechanism, described, places, prepared, labels=labels)

    def _prepared(
        self, bins: tuple[Bins, ...], features: list[str], classes: list[str], near: Neighbours, guarantee: Guarantee
    ) -> PreparedSums:
        """Calibrate as a study would; of Laplace and Gaussian noise the smaller."""
        if len(set(features)) < len(features):
            raise InvalidParameter("X", "columns of one name", "columns of different names", "other names")
        target = outcome_name(features)
        model = NaiveBayes(tuple(features), target, self.prior)
        schema = TableSchema({target: Levels(*classes), **dict(zip(features, bins, strict=True))}, Unit("row"), near)
        request = Request(model, guarantee)
        chosen = request.settled() or choose_mechanism(request, schema, None)
        return model.prepare(chosen, schema, None)

    def _read(self, plan: Any, release: Release) -> FittedPosterior:
        self.classes_ = np.array(sorted(check_classes(self.classes)))
        return FittedPosterior(Posterior.from_release(release))

    def predict_proba(self, X: Any) -> np.ndarray:  # noqa: N803
        """Return the predictive probability of each class, the noise summed out."""
        rows = self._known_rows(X)
        reader: Any = self.posterior_.reader
        places = dict(zip(reader.features, self._encoder.places(rows), strict=True))
        return np.asarray(reader.class_chances(self.posterior_, places, len(rows)))

    def decision_function(self, X: Any) -> np.ndarray:  # noqa: N803
        """Return the log odds of the second of two classes; of several, the log probability of each."""
        return log_odds(self.predict_log_proba(X))

    def predict(self, X: Any) -> np.ndarray:  # noqa: N803
        """Return the most probable class of each row."""
        chance = self.predict_proba(X)
        return np.asarray(self.classes_[chance.argmax(axis=1)])

    def to_arviz(self) -> Any:
        """Return draws from the posterior as an ArviZ tree, without data."""
        return self.posterior_.to_arviz()
