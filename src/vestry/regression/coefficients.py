"""The coefficients of a regression, as they were released."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np

from vestry.errors import ExtremeNumbers, InvalidParameter, VestryError
from vestry.numerics import Array
from vestry.posterior.reader import Reader, ReleasedDraws
from vestry.releases import NoisyStatistics


@dataclass(frozen=True)
class Coefficients(Reader):
    """A regression: the names of its coefficients, and how its columns were scaled.

    Attributes
    ----------
    method
        `posterior`: the release holds draws. `objective` or `output`: one estimate with noise.
    features
        The names of one predictor's coefficients.
    classes
        The classes that have their own coefficients; empty if there is one linear predictor.
    scales
        The middle and the half-width of each feature's interval; None for an indicator.
    outcome
        The same of the outcome, where it is a number.
    intercept
        Whether the last feature is one.
    residual_sd
        Of the residuals, on the scale of the outcome, where it was declared.
    shrinkage
        By which share the penalty shrinks coefficients at least; None for releases that do not say.
    """

    method: str
    features: tuple[str, ...]
    classes: tuple[str, ...]
    scales: tuple[tuple[float, float] | None, ...]
    outcome: tuple[float, float] | None
    intercept: bool
    residual_sd: float | None = None
    shrinkage: float | None = None

    parameter = "coefficient"
    display = "coefficients"
    has_statistics = False

    @property
    def dimension(self) -> int:
        """How many coefficients there are."""
        return len(self.features) * max(1, len(self.classes))

    def noise_aware(self, statistics: NoisyStatistics) -> NoReturn:
        """Refuse: a regression releases no statistics."""
        raise VestryError("a regression has no noisy statistics; read its released coefficients.")

    plug_in = noise_aware

    def interval_method(self, label: str, *, several_rows: bool) -> str:
        """Say what was released, for it has no interval."""
        if self.method == "posterior" and self.outcome is not None and self.residual_sd is None:
            return "no interval: draws without a residual scale"
        what = "draws of a tempered posterior" if self.method == "posterior" else "one noisy estimate"
        return f"no interval: {what}"

    def answer(self, calibrated: Any) -> str:
        """Say what the coefficients are, and how far the penalty shrinks them."""
        said = [self._kind(calibrated.value if calibrated.parameter == "likelihood_power" else 1.0)]
        if self.shrinkage is not None:
            what = "prior" if self.method == "posterior" else "penalty"
            lost = f"at least {100 * self.shrinkage:.2g} %"
            said.append(f"the {what} shrinks coefficients by {lost}, for predictors uniform on their domains")
        return "; ".join(said)

    def _kind(self, power: float) -> str:
        if self.method != "posterior":
            return "an estimate with noise, not an interval"
        counts = f"each record counts {100 * power:.2g} %" if power < 1 else "each record counts in full"
        if self.outcome is not None and self.residual_sd is None:
            return f"draws without a residual scale: {counts}, and their spread is not a standard error"
        if power < 1:
            return f"tempered draws: {counts}, so they spread about {power**-0.5:.2g} times as far as at full power"
        return f"draws from the posterior: {counts}"

    def predict(self, theta: Array, size: int, rng: np.random.Generator) -> NoReturn:
        """Refuse: what new records give depends on their predictors."""
        raise VestryError(
            "a regression predicts for given predictors only; use the coefficients, or an estimator's predict."
        )

    def widths_of(self, *, of_draws: bool) -> tuple[str, ...]:
        """Say that a forecast is of what is released, which has no interval."""
        what = "a draw" if self.method == "posterior" else "the estimate"
        return (f"range of {what} (no interval)",)

    def released(self, values: Array) -> ReleasedDraws:
        """Return the coefficients for the columns as they are."""
        unscaled = self.unscaled(values)
        if not np.isfinite(unscaled).all():
            raise ExtremeNumbers
        return ReleasedDraws(unscaled, self.method)

    def unscaled(self, values: Array) -> Array:
        """Return coefficients for the columns as they are: each interval was scaled to [-1, 1]."""
        coefficients = np.array(values, dtype=float).reshape(len(values), -1, len(self.features))
        shift = np.zeros(coefficients.shape[:-1])
        for place, scale in enumerate(self.scales):
            if scale is not None:
                coefficients[..., place] /= scale[1]
                shift += coefficients[..., place] * scale[0]
        if self.intercept:
            coefficients[..., -1] -= shift
        if self.outcome is not None:
            coefficients *= self.outcome[1]
            if self.intercept:
                coefficients[..., -1] += self.outcome[0]
        return coefficients.reshape(len(values), -1)


def _optional(value: Any) -> float | None:
    return None if value is None else float(value)


def coefficients_reader(family: Mapping[str, Any], prior: tuple[float, ...]) -> Coefficients:
    """Read what a release says of its regression."""
    try:
        outcome = family["outcome"]
        return Coefficients(
            method=str(family["method"]),
            features=tuple(family["features"]),
            classes=tuple(family["classes"]),
            scales=tuple(None if each is None else (float(each[0]), float(each[1])) for each in family["scales"]),
            outcome=None if outcome is None else (float(outcome[0]), float(outcome[1])),
            intercept=bool(family["intercept"]),
            residual_sd=_optional(family.get("loss", {}).get("residual_sd")),
            shrinkage=_optional(family.get("shrinkage")),
        )
    except (KeyError, TypeError, ValueError, IndexError, AttributeError):
        raise InvalidParameter(
            "a release", "one that lacks a part of its regression", "whole", "the original file"
        ) from None
