"""What a mechanism over the rows of a linear model may count on: constants that hold for every dataset."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from vestry.errors import InvalidParameter
from vestry.ledger import OpenCharge
from vestry.noise import NoiseSource
from vestry.privacy.event import Event
from vestry.privacy.guarantee import Guarantee
from vestry.privacy.neighbours import Adjacency
from vestry.regression import numpy_math
from vestry.regression.loss import Loss
from vestry.regression.losses import BoundedLoss
from vestry.releases import Draws
from vestry.schema.private import Block, PrivateRows, RemoteRows, reveal_rows
from vestry.validation import require_number, require_whole


@dataclass(frozen=True)
class LinearProblem:
    """A loss of a linear predictor, summed over records of bounded norm.

    Attributes
    ----------
    loss
        The loss of one record.
    features
        How many coefficients a linear predictor has, the intercept included.
    norm
        No record's features, the intercept included, are longer.
    adjacency
        Which neighbours are hidden.
    max_rows
        How many records there are at most: the public count, or a declared bound where the count is private. The
        guarantee covers datasets of at most so many. Of more, those that count are chosen by a key (see
        `vestry.data.row_limit`), and a record that comes or goes may replace another.
    outcome
        The largest size of an outcome that is a number.
    """

    loss: Loss
    features: int
    norm: float
    adjacency: Adjacency
    max_rows: int
    outcome: float = 1.0

    def __post_init__(self) -> None:
        for name in ("features", "max_rows"):
            require_whole(name, getattr(self, name), f"for example {name}=100")
        require_number("norm", self.norm, "for example norm=1.0", above=0)
        if self.adjacency.groups > 1:
            raise InvalidParameter("groups", self.adjacency.groups, "1 for a regression", "the groups as a predictor")

    @property
    def dimension(self) -> int:
        """How many numbers a parameter has."""
        return self.features * self.loss.predictors

    @property
    def lipschitz(self) -> float:
        """Of one record's loss."""
        return self.loss.lipschitz(self.norm)

    @property
    def smoothness(self) -> float:
        """Of one record's loss."""
        return self.loss.smoothness(self.norm)

    @property
    def sensitivity(self) -> float:
        """How far neighbours can move the sum of gradients: 2 L per record under replace, L under add-remove."""
        return self.adjacency.changes * self.lipschitz

    @property
    def ball(self) -> float | None:
        """The radius of the parameters where the loss's constants hold; None if they hold everywhere."""
        return self.loss.reach / self.norm if isinstance(self.loss, BoundedLoss) else None

    @property
    def most(self) -> float:
        """The largest sum of losses at the parameter 0."""
        return self.max_rows * _at_zero(self.loss, self.outcome)


class RowMechanism(ABC):
    """What draws from the rows of a linear problem, calibrated: as `vestry.mechanisms.release.Mechanism` asks."""

    problem: LinearProblem
    guarantee: Guarantee

    @property
    @abstractmethod
    def parameter(self) -> str:
        """What was calibrated."""

    @property
    def value(self) -> float:
        """Its value."""
        return float(getattr(self, self.parameter))

    @property
    def adjacency(self) -> Adjacency:
        """Which neighbours are hidden."""
        return self.problem.adjacency

    @property
    @abstractmethod
    def event(self) -> Event:
        """What runs."""

    @property
    def charge(self) -> Event:
        """What the ledger is charged: what runs, unless a mechanism says otherwise."""
        return self.event

    def release(self, private: PrivateRows, opened: OpenCharge, noise: NoiseSource) -> tuple[Draws, ...]:
        """Use the ledger's leave, and draw from the rows."""
        opened.take()
        return (self.draw(first_rows(reveal_rows(private), self.problem.max_rows), noise),)

    @abstractmethod
    def rehearse(self, noise: NoiseSource) -> tuple[Draws, ...]:
        """Draw the noise of the same scale, and add it to zeros instead of what rows give."""

    @property
    def few_passes(self) -> bool:
        """Whether so few passes over the records do that they can stay where they are."""
        return False

    @abstractmethod
    def draw(self, rows: Any, noise: NoiseSource) -> Draws:
        """Draw from blocks of features and outcomes, in a number of steps that public constants fix.

        Where few passes do, the rows may be `RemoteRows`.
        """


def _at_zero(loss: Loss, outcome: float) -> float:
    """Bound the loss of one record at eta = 0; it grows by at most the slope times |y|."""
    if loss.outcomes == "classes":
        return math.log(loss.predictors)
    ends = np.array([-1.0, 1.0] if loss.outcomes == "signs" else [-outcome, outcome])
    largest = float(np.max(loss.value(numpy_math)(np.zeros(2), ends)))
    return largest * (1 + 2.0**-48) + 2.0**-48  # what its formula may lose, where the loss is small


def first_rows(rows: Sequence[Block] | RemoteRows, max_rows: int) -> tuple[Block, ...] | RemoteRows:
    """Keep to the declared number, whoever made the rows: the constants hold for no more.

    Rows of a table or an estimator were chosen before, by key and not by order.
    """
    if isinstance(rows, RemoteRows):
        return rows.at_most(max_rows)
    chosen, room = [], max_rows
    for features, outcomes in rows:
        if room > 0:
            chosen.append((features[:room], outcomes[:room]))
        room -= len(outcomes)
    return tuple(chosen)
