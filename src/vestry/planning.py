"""What each mechanism would give, before anything is spent: from the prior and from declarations alone.

Parameters are drawn from the prior and records from the model; what the noise adds to an interval has a closed form
wherever one is right. No record is read. The generator is seeded by the request, so that two looks at one plan agree.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from decimal import ROUND_CEILING, Decimal
from typing import Any

import numpy as np

from vestry.errors import GuaranteeUnreachable, InvalidParameter, NoInterval, VestryError
from vestry.mechanisms.additive_noise import GAUSSIAN, MECHANISM_OF, ROUNDED_GAUSSIAN, Additive
from vestry.mechanisms.level_threshold import THRESHOLD, LevelThreshold
from vestry.mechanisms.release import Mechanism
from vestry.model.request import AUTO, Model, Request, groups_of, own_columns
from vestry.posterior.reader import reader_of
from vestry.privacy.guarantee import Guarantee
from vestry.schema.table_schema import TableSchema
from vestry.validation import require_number

# The number of records where none is declared.
DEFAULT_EXPECTED_ROWS = 1000
_SWAMPED = 2.0
# Rounded normal noise of a smaller deviation may have 1.5 times that of discrete Gaussian noise.
MOSTLY_ROUNDING = 0.5
# No choice makes an answer so many times as wide as another would.
TOO_WIDE = 1.5
DISCRETE = MECHANISM_OF[GAUSSIAN]


@dataclass(frozen=True)
class Forecast:
    """What one mechanism is expected to give.

    Attributes
    ----------
    mechanism, parameter, value
        The mechanism and what it was calibrated to; value is None where it cannot meet the guarantee.
    width
        The expected width of what `what` says: of the 90 % credible interval of a parameter where the release has one;
        else of the range that holds what is released in 90 %.
    exact_width
        The same without privacy.
    kl
        The expected Kullback-Leibler divergence from the posterior without privacy to the released one; None where it
        is infinite, or where widths are closed forms.
    noise
        The standard deviation of the noise, in units of the statistics; None for draws.
    reason
        Why the guarantee cannot be met, or why there would be no interval; empty if all is well.
    caution
        What a declared prior would do to the answer; empty if nothing.
    what
        What the width is of, for example `interval of the mean, in units of stay`, or that there is no interval.
    answer
        What kind of answer a regression over rows is: an estimate with noise, or draws and from what.
    further
        Of parameters of another kind, such as a variance beside a mean: what, width and exact width of each.
    """

    mechanism: str
    parameter: str
    value: float | None = None
    width: float | None = None
    exact_width: float | None = None
    kl: float | None = None
    noise: float | None = None
    reason: str = ""
    caution: str = ""
    what: str = ""
    answer: str = ""
    further: tuple[tuple[str, float, float], ...] = ()

    @property
    def has_interval(self) -> bool:
        """Whether the release will have the interval whose width is forecast."""
        return self.what.startswith("interval")

    @property
    def swamped(self) -> bool:
        """Whether privacy makes an interval more than twice as wide."""
        widths = ((self.width, self.exact_width), *((width, exact) for _, width, exact in self.further))
        # What is known without noise has no width of its own.
        return any(width and exact and width > _SWAMPED * exact for width, exact in widths)

    @property
    def note(self) -> str:
        """Why the guarantee or an interval cannot be had, or that privacy or the prior swamps the data; or nothing."""
        notes = ("privacy more than doubles the width" if self.swamped else "", self.caution)
        return self.reason or "; ".join(filter(None, notes))

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, one per attribute, and whether noise swamps the answer."""
        return {**asdict(self), "swamped": self.swamped}


def compare_mechanisms(
    request: Request, schema: TableSchema, *, expected_rows: int | None, simulate: bool = True
) -> list[Forecast]:
    """Forecast every mechanism that the request leaves open, at the expected number of records.

    Noise of which rounding is the larger part is compared with discrete Gaussian noise, too.
    """
    forecasts = [_forecast(request.by(name), schema, expected_rows, simulate=simulate) for name in request.candidates()]
    if request.mechanism == AUTO and any(_is_mostly_rounding(forecast) for forecast in forecasts):
        forecasts.append(_forecast(request.by(DISCRETE), schema, expected_rows, simulate=simulate))
    return forecasts


def _is_mostly_rounding(forecast: Forecast) -> bool:
    """Tell whether discrete Gaussian noise of the same scale may have a much smaller deviation."""
    return forecast.mechanism == MECHANISM_OF[ROUNDED_GAUSSIAN] and (forecast.noise or math.inf) < MOSTLY_ROUNDING


def chosen_forecast(request: Request, forecasts: Sequence[Forecast]) -> Forecast | None:
    """Return which of a request's forecasts `auto` takes; None where the mechanism is named, or none is possible."""
    reachable = [forecast for forecast in forecasts if forecast.value is not None]
    if request.mechanism != AUTO or not reachable:
        return None
    return best_forecast(reachable)


def choose_mechanism(request: Request, schema: TableSchema, expected_rows: int | None) -> Request:
    """Return the request with its mechanism chosen: the least noise, or for draws the nearest distribution.

    Where the number of records is private the expected one stands for it, so that the advice does not depend on the
    records.
    """
    simulate = request.draws is not None
    forecasts = compare_mechanisms(request, schema, expected_rows=expected_rows, simulate=simulate)
    return request.by(best_forecast(forecasts).mechanism)


def best_forecast(forecasts: Sequence[Forecast]) -> Forecast:
    """Return the one to take: the least noise, or threshold, or of draws the smallest divergence.

    All noise is added to the same statistics, and the width of an interval grows with the noise's deviation. Discrete
    Gaussian noise, whose price is an upper bound, is taken only where another would be more than 1.5 times as wide.
    """
    reachable = [each for each in forecasts if each.value is not None]
    if not reachable:
        reasons = "; ".join(each.reason for each in forecasts)
        raise GuaranteeUnreachable("the guarantee by any of the mechanisms", reasons)
    if reachable[0].parameter == THRESHOLD:
        return min(reachable, key=lambda each: each.value or math.inf)
    if reachable[0].noise is not None:
        return min(reachable, key=_handicapped_noise)
    return min(reachable, key=lambda each: math.inf if each.kl is None else each.kl)


def _handicapped_noise(forecast: Forecast) -> float:
    """Return the deviation by which noise is compared."""
    noise = forecast.noise or math.inf
    return noise * TOO_WIDE if forecast.mechanism == DISCRETE else noise


def budget_for_width(request: Request, schema: TableSchema, *, expected_rows: int | None, width: float) -> Guarantee:
    """Return the budget at which the expected 90 % credible interval is as short as wanted.

    It is the request's guarantee with another epsilon (mu, rho), found by bisection with the same simulated parameters
    and records, and rounded up.
    """
    wanted = require_number("width", width, "for example --width 0.1", above=0)
    if not best_forecast(compare_mechanisms(request, schema, expected_rows=expected_rows)).has_interval:
        raise InvalidParameter(
            "width", width, "asked of a release that has intervals", "no --width, or noisy statistics"
        )

    def width_at(amount: float) -> float:
        expected_width = forecast_at(request, schema, amount, expected_rows=expected_rows).width
        return math.inf if expected_width is None else expected_width  # that of a count may be 0

    low, high = 1e-3, 32.0
    if width_at(high) > wanted:
        nearest = f"{width_at(high):.3g} is the shortest with this many records"
        raise GuaranteeUnreachable(f"an interval of width {wanted:g}", nearest)
    while high / low > 1.02:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if width_at(middle) <= wanted else (middle, high)
    return request.guarantee.at(rounded(high, ROUND_CEILING))


def forecast_at(request: Request, schema: TableSchema, amount: float, *, expected_rows: int | None) -> Forecast:
    """Return what the best mechanism is expected to give if the guarantee had another epsilon (mu, rho)."""
    other = replace(request, guarantee=request.guarantee.at(amount))
    return best_forecast(compare_mechanisms(other, schema, expected_rows=expected_rows))


def quick_mechanism(request: Request, schema: TableSchema, *, expected_rows: int | None) -> Mechanism:
    """Return what would run: for plans of several releases."""
    n = expected_rows or DEFAULT_EXPECTED_ROWS
    chosen = choose_mechanism(request, schema, expected_rows) if request.draws is not None else request
    mechanisms: list[Mechanism] = []
    refused: list[VestryError] = []
    for name in chosen.candidates():
        try:
            mechanisms.append(chosen.by(name).prepare(schema, n).mechanism)
        except VestryError as error:  # not every mechanism is for every table
            refused.append(error)
    if not mechanisms:
        raise refused[0]
    return min(mechanisms, key=_burden)


def _burden(mechanism: Mechanism) -> float:
    """Return what `auto` makes as small as it can: the noise, or the threshold."""
    if isinstance(mechanism, LevelThreshold):
        return mechanism.value
    return mechanism.deviation if isinstance(mechanism, Additive) else math.inf


def rounded(amount: float, rounding: str) -> float:
    """Round to three significant digits."""
    exact = Decimal(repr(amount))
    return float(exact.quantize(Decimal(1).scaleb(exact.adjusted() - 2), rounding))


def _forecast(request: Request, schema: TableSchema, expected_rows: int | None, *, simulate: bool) -> Forecast:
    n = expected_rows or DEFAULT_EXPECTED_ROWS
    per_group = max(1, n // len(groups_of(schema.domains, request.model.by)))
    try:
        prepared = request.prepare(schema, n)
    except VestryError as error:
        return Forecast(request.mechanism, "", reason=str(error).rstrip("."))
    mechanism = prepared.mechanism
    noise = mechanism.deviation if isinstance(mechanism, Additive | LevelThreshold) else None
    forecast = Forecast(mechanism.name, mechanism.parameter, mechanism.value, noise=noise)
    if not simulate:
        return forecast
    if hasattr(request.model, "caution"):
        forecast = replace(forecast, caution=request.model.caution(prepared, schema, per_group))
    rng = np.random.default_rng(_seed(request, schema, n))
    try:
        width, exact_width, kl = request.model.forecast(prepared, schema, per_group, rng)
    except NoInterval as error:
        return replace(forecast, reason=str(error).rstrip("."))
    reader = reader_of(prepared.described, prepared.numbers)
    words = [_in_units(each, request.model) for each in reader.widths_of(of_draws=noise is None)]
    widths, exact = (np.atleast_1d(each).tolist() for each in (width, exact_width))
    (what, first, second), *further = zip(words, widths, exact, strict=True)
    forecast = replace(forecast, width=first, exact_width=second, kl=kl, what=what, further=tuple(further))
    return replace(forecast, answer=reader.answer(mechanism))


def _in_units(what: str, model: Model) -> str:
    """Add the unit of a mean or a variance: that of its column."""
    columns = ", ".join(own_columns(model))
    units = {"interval of the mean": columns, "interval of the variance": f"{columns} squared"}
    return f"{what}, in units of {units[what]}" if what in units else what


def _seed(request: Request, schema: TableSchema, n: int) -> list[int]:
    """Seed by the question, not by mechanism or guarantee: mechanisms are compared on the same parameters."""
    columns = {column: schema.domains[column].to_dict() for column in request.model.columns}
    text = json.dumps([request.model.to_dict(), columns, n], sort_keys=True)
    return list(hashlib.sha256(text.encode()).digest())
