"""What a fit needs except the ledger's leave and the values; the same for every way to fit."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

import numpy as np

from vestry.errors import GuaranteeUnreachable
from vestry.mechanisms.additive_noise import GAUSSIAN, LAPLACE, ROUNDED_GAUSSIAN, Additive, calibrate_noise
from vestry.mechanisms.statistic_family import Layout
from vestry.planning import MOSTLY_ROUNDING, TOO_WIDE
from vestry.privacy.guarantee import Guarantee, PureDP
from vestry.privacy.neighbours import Adjacency


@dataclass(frozen=True)
class FitPlan(ABC):
    """A calibrated fit.

    Attributes
    ----------
    encoder, mechanism
        How rows are encoded, and what is run over them.
    described, precision, labels
        As the release will name them.
    outcomes
        Returns encoded outcomes; it is called after the charge.
    """

    encoder: Any
    mechanism: Any
    described: dict[str, Any]
    outcomes: Callable[[], np.ndarray]
    _: KW_ONLY
    precision: float = 0.0
    labels: tuple[str, ...] = ()

    by: ClassVar[Any] = None
    groups: ClassVar[Any] = ("all",)

    @property
    def prior(self) -> tuple[float, ...]:
        """The prior's numbers, as a release holds them."""
        return (self.precision,)

    @abstractmethod
    def collect(self, X: np.ndarray, *, row_key: str) -> Any:  # noqa: N803 - scikit-learn's name
        """Sum over the rows, or encode them; what is returned only a mechanism opens."""


def smaller_noise(layout: Layout, adjacency: Adjacency, guarantee: Guarantee) -> Additive:
    """Calibrate Laplace and Gaussian noise, and return the smaller; discrete noise where rounding is most of it."""
    laplace = calibrate_noise(LAPLACE, layout, adjacency, guarantee)
    if isinstance(guarantee, PureDP):
        return laplace
    gaussian = calibrate_noise(ROUNDED_GAUSSIAN, layout, adjacency, guarantee)
    smaller = min(laplace, gaussian, key=lambda mechanism: mechanism.deviation)
    if gaussian.deviation < MOSTLY_ROUNDING:
        with suppress(GuaranteeUnreachable):  # it has no price in mu
            discrete = calibrate_noise(GAUSSIAN, layout, adjacency, guarantee)
            if smaller.deviation > TOO_WIDE * discrete.deviation:
                return discrete
    return smaller


def feature_names(names: np.ndarray | None, size: int) -> list[str]:
    """Return the features' names: those of a frame, or x0, x1 and so on."""
    return [f"x{place}" for place in range(size)] if names is None else [str(name) for name in names]


def outcome_name(names: Sequence[str]) -> str:
    """Return a name for the outcome that no feature has."""
    own = "y"
    while own in names:
        own += "_"
    return own
