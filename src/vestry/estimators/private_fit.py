"""A fit is one release: check, charge, then read the rows. What every private estimator shares."""

from __future__ import annotations

import copy
import warnings
from abc import abstractmethod
from dataclasses import KW_ONLY, dataclass
from functools import cache
from typing import Any, Self, cast

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted, validate_data

import vestry.estimators.input_checks as checks
from vestry.data.quiet_reading import quietly
from vestry.errors import InvalidParameter, UnpaidRelease, VestryError
from vestry.interrupts import HeldInterrupts
from vestry.ledger import Ledger, OpenCharge
from vestry.mechanisms.release import Mechanism, certify, publish, rehearse
from vestry.noise import SystemNoise
from vestry.numerics import up
from vestry.pipeline import charge_for
from vestry.posterior import Posterior
from vestry.privacy import accountant
from vestry.privacy.guarantee import Guarantee
from vestry.privacy.neighbours import Neighbours
from vestry.releases import Release

_LEDGER = 'ledger=vestry.Ledger.open("study.ledger"), or ledger=None if the release is accounted for elsewhere'
_UNPAID = (
    "a score on private rows is a release that no ledger is charged for; score on public rows, and if these are public"
    ' write warnings.simplefilter("ignore", vestry.errors.UnpaidRelease).'
)


_UNREAD = "the rows could not be read, and nothing was drawn; what failed is not shown, since it may quote a value."


class Required:
    """Stands for a ledger that was not named; None is a declaration too."""


REQUIRED = Required  # a type, which scikit-learn's checks allow as a default and its copies leave as it is


class Unledgered:
    """The leave to draw, for a release that its maker accounts for elsewhere."""

    def take(self) -> None:
        """Use the leave: there is no ledger to ask."""


@dataclass(frozen=True, eq=False)
class FittedPosterior:
    """What was computed from the release of a fit.

    Attributes
    ----------
    posterior
        The posterior.
    """

    posterior: Posterior


@dataclass(frozen=True)
class UnreadRelease:
    """Stands for what cannot be computed from the release of a fit, with the reason."""

    reason: str


@dataclass(eq=False, repr=False)
class PrivateFit(BaseEstimator):  # type: ignore[misc]
    """A learner whose `fit` is one release. Not to be used itself."""

    guarantee: Any = None
    _: KW_ONLY
    ledger: Any = REQUIRED
    neighbours: Any = None

    @abstractmethod
    def _plan(self, rows: np.ndarray, y: np.ndarray, names: np.ndarray | None, ledger: Ledger | None) -> Any:
        """Try all that can fail without touching values; return what the release needs."""

    @abstractmethod
    def _read(self, plan: Any, release: Release) -> Any:
        """Set the fitted attributes that do not depend on what was released, and return what is computed from it."""

    def fit(self, X: Any, y: Any = None) -> Self:  # noqa: N803
        """Release the coefficients: check, charge the ledger, then read the rows. Every call is charged.

        Parameters
        ----------
        X
            Rows of numbers (n, features): an array, a list, or a data frame. Values beyond the declared bounds are
            clipped; those that are not numbers become the middle of their interval, or 0 in a ball.
        y
            One outcome for each row.
        """
        probe = BaseEstimator()
        features, outcomes = checks.features(X), checks.outcomes(y, type(self).__name__)
        checks.same_length(features, outcomes)
        validate_data(probe, X, skip_check_array=True)
        names = getattr(probe, "feature_names_in_", None)
        ledger = self._ledger()
        plan = self._plan(features, outcomes, names, ledger)
        purpose = f"{type(self).__name__} of {features.shape[1]} features"
        spent = _spent(plan.mechanism)
        with HeldInterrupts():  # from the charge on: no later fit resumes it
            release = _release(plan, features, ledger, purpose=purpose)
            if hasattr(self, "feature_names_in_"):
                del self.feature_names_in_
            for name, value in vars(probe).items():
                setattr(self, name, value)
            self._encoder = plan.encoder
            self.release_ = release
            self.certificate_ = release.certificate
            self.spent_ = spent
        try:
            self._reading = self._read(plan, release)
        except VestryError as error:  # it is paid for, and stays
            self._reading = UnreadRelease(str(error))
        return self

    @property
    def posterior_(self) -> Posterior:
        """The posterior."""
        posterior: Posterior = self._known_reading().posterior
        return posterior

    def _known_reading(self) -> Any:
        """Return what was computed from the release.

        Raises
        ------
        NotFittedError
            If there is no release, or nothing can be computed from it; it says why.
        """
        check_is_fitted(self, "release_")
        if isinstance(self._reading, UnreadRelease):
            raise NotFittedError(f"There is a release, and no model: {self._reading.reason}")
        return self._reading

    def _known_rows(self, X: Any) -> np.ndarray:  # noqa: N803
        """Return rows to predict for, which have the features of the fit."""
        self._known_reading()
        rows = checks.features(X)
        validate_data(self, X, reset=False, skip_check_array=True)
        return rows

    def _ledger(self) -> Ledger | None:
        given = self.ledger
        if given is REQUIRED:
            raise InvalidParameter("ledger", "omitted", "named, since a fit spends privacy", _LEDGER)
        return given if given is None or isinstance(given, Ledger) else Ledger.open(given)

    def _promised(self, ledger: Ledger | None) -> tuple[Neighbours, Guarantee]:
        """Return which neighbours are hidden and what the release may cost."""
        neighbours = self._neighbours(ledger)
        if self.guarantee is None:
            instead = 'guarantee="epsilon=1,delta=1e-6"'
            raise InvalidParameter("guarantee", None, "what the release may cost", instead)
        return neighbours, Guarantee.parse(self.guarantee, neighbours=neighbours)

    def _neighbours(self, ledger: Ledger | None) -> Neighbours:
        if ledger is not None:
            ledger.require(unit="row", neighbours=self.neighbours)
            return ledger.terms.neighbours
        if self.neighbours is None:
            raise InvalidParameter(
                "neighbours", None, "declared where no ledger states them", 'neighbours="add-remove" or "replace"'
            )
        return Neighbours.parse(self.neighbours)

    def __sklearn_clone__(self) -> Self:
        """Return an unfitted copy that charges the same ledger."""
        parameters = self.get_params(deep=False)
        ledger = parameters.pop("ledger")
        unfitted = type(self)(**{name: clone(value, safe=False) for name, value in parameters.items()}, ledger=ledger)
        for own in ("_metadata_request", "_sklearn_output_config"):
            if own in vars(self):
                setattr(unfitted, own, copy.deepcopy(vars(self)[own]))
        return unfitted

    def __getstate__(self) -> dict[str, Any]:
        """Pickle the ledger as its address: a connection belongs to one process."""
        state = dict(super().__getstate__())
        if isinstance(self.ledger, Ledger):
            state["ledger"] = self.ledger.address
        return state

    def __sklearn_tags__(self) -> Any:
        """Say that noise has no seed, and that missing values are allowed."""
        tags = super().__sklearn_tags__()
        tags.non_deterministic = True
        tags.input_tags.allow_nan = True
        tags.target_tags.required = True
        return tags


def warn_uncharged(ledger: Ledger | None) -> None:
    """Warn the caller of `score`, if there is a ledger that a score is not charged to."""
    if ledger is not None:
        _warn()


@cache
def _warn() -> None:
    """Warn once per process: scikit-learn's tools make Python forget what it has shown. An error is always one."""
    warnings.warn(_UNPAID, UnpaidRelease, stacklevel=4)


def _release(plan: Any, rows: np.ndarray, ledger: Ledger | None, *, purpose: str) -> Release:
    """Charge, read the rows, open, draw; without a ledger, draw.

    Every fit is a new question: which rows it is of is not a public fact, by which a charge could be found again.
    """
    mechanism, prior = plan.mechanism, plan.prior
    family = {**plan.described, "ledger": "elsewhere" if ledger is None else ledger.terms.dataset}
    if ledger is not None:
        named = {"family": family, "prior": prior, "by": plan.by, "groups": plan.groups, "labels": plan.labels}
        rehearse(mechanism, **named)
        charge = charge_for(mechanism, ledger, purpose)
        private = _collect(plan, rows, ledger.row_key())
        return publish(mechanism, private, charge, **named)
    noise = SystemNoise()
    private = _collect(plan, rows, noise.random_bytes(16).hex())
    contents = mechanism.release(private, cast(OpenCharge, Unledgered()), noise)
    contents_by_group = dict(zip(plan.groups, contents, strict=True))
    return Release(family, prior, contents_by_group, certify(mechanism), plan.by, plan.labels)


def _collect(plan: Any, rows: np.ndarray, row_key: str) -> Any:
    """Read the rows behind the wall: they are private, and the charge is made."""
    return quietly(lambda: plan.collect(rows, row_key=row_key), VestryError(_UNREAD))


def _spent(mechanism: Mechanism) -> Guarantee:
    """Return what the release cost, in the privacy definition that was asked for."""
    return mechanism.guarantee.at(up(accountant.amount(mechanism.charge, mechanism.guarantee)))
