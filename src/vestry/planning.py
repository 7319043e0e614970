"""What each mechanism would give, before anything is spent: simulated from the prior and from declarations alone.

Parameters are drawn from the prior, records from the model, noise from its law; then the posterior is computed as it
will be. No record is read. The generator is seeded by the request, so that two looks at one plan agree.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, Decimal
from typing import Any

import numpy as np

from vestry.errors import GuaranteeUnreachable, InvalidParameter, VestryError
from vestry.mechanisms.additive_noise import Additive
from vestry.model.request import Request, TableSchema, groups_of
from vestry.privacy.guarantee import Guarantee

# The number of records where none is declared.
ASSUMED = 1000
_SWAMPED = 2.0


@dataclass(frozen=True)
class Forecast:
    """What one mechanism is expected to give.

    Attributes
    ----------
    mechanism, parameter, value
        The mechanism and what it was calibrated to; value is None where it cannot meet the guarantee.
    width
        The expected width of the 90 % interval of a parameter: of the noise-aware posterior, or of the law that draws
        come from.
    exact_width
        The same without privacy.
    kl
        The expected Kullback-Leibler divergence from the posterior without privacy to the released one; None where it
        is infinite.
    noise
        The standard deviation of the noise, in units of the statistics; None for draws.
    reason
        Why the guarantee cannot be met; empty if it can.
    """

    mechanism: str
    parameter: str
    value: float | None
    width: float | None
    exact_width: float | None
    kl: float | None
    noise: float | None = None
    reason: str = ""

    @property
    def swamped(self) -> bool:
        """Whether privacy makes the interval more than twice as wide."""
        return self.width is not None and self.exact_width is not None and self.width > _SWAMPED * self.exact_width

    @property
    def note(self) -> str:
        """Why the guarantee cannot be met, or that privacy swamps the data; empty if all is well."""
        return self.reason or ("privacy more than doubles the width" if self.swamped else "")

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return {**vars(self), "swamped": self.swamped}


def forecasts(request: Request, frame: TableSchema, *, n: int | None) -> list[Forecast]:
    """Compare the mechanisms that the request leaves open, at n records, or at the assumed number."""
    return [_forecast(request.by(name), frame, n or ASSUMED, simulate=True) for name in request.candidates()]


def choose_mechanism(request: Request, frame: TableSchema, n: int | None) -> Request:
    """Return the request with its mechanism chosen: the least noise, or for draws the nearest law.

    Where n is private the assumed number stands for it, so that the advice does not depend on the records.
    """
    looks = [_forecast(request.by(name), frame, n or ASSUMED, simulate=request.draws is not None)
             for name in request.candidates()]  # fmt: skip
    return request.by(best(looks).mechanism)


def best(known: Iterable[Forecast]) -> Forecast:
    """Return the one to take: the least noise, or of draws the smallest divergence.

    All noise is added to the same statistics, and the width of an interval grows with the noise's deviation.
    """
    listed = list(known)
    met = [each for each in listed if each.value is not None]
    if not met:
        raise GuaranteeUnreachable("the guarantee by any of the mechanisms", "; ".join(each.reason for each in listed))
    if met[0].noise is not None:
        return min(met, key=lambda each: each.noise or math.inf)
    return min(met, key=lambda each: math.inf if each.kl is None else each.kl)


def budget_for_width(request: Request, frame: TableSchema, *, n: int | None, width: float) -> Guarantee:
    """Return the budget at which the expected 90 % interval is as short as wanted: the guarantee, with another epsilon.

    Bisects on epsilon (mu, rho) with the same simulated parameters, records and noise quantiles.
    """
    asked = request.guarantee
    name = "epsilon" if hasattr(asked, "epsilon") else "mu" if hasattr(asked, "mu") else "rho"
    if not width > 0:
        raise InvalidParameter("width", width, "above 0", "for example --width 0.1")

    def at(amount: float) -> float:
        found = best(forecasts(replace(request, guarantee=_with(asked, name, amount)), frame, n=n))
        return found.width or math.inf

    low, high = 1e-3, 32.0
    if at(high) > width:
        raise GuaranteeUnreachable(
            f"an interval of width {width:g}", f"{at(high):.3g} is the shortest with this many records"
        )
    while high / low > 1.05:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if at(middle) <= width else (middle, high)
    exact = Decimal(repr(high))
    return _with(asked, name, float(exact.quantize(Decimal(1).scaleb(exact.adjusted() - 2), ROUND_CEILING)))


def _with(guarantee: Guarantee, name: str, amount: float) -> Guarantee:
    numbers = {key: value for key, value in guarantee.to_dict().items() if key != "neighbours"}
    return Guarantee.parse({**numbers, name: amount}, neighbours=guarantee.neighbours)


def _forecast(request: Request, frame: TableSchema, n: int, *, simulate: bool) -> Forecast:
    groups = len(groups_of(frame.domains, request.model.by))
    each = max(1, n // groups)
    try:
        prepared = request.prepared(frame, n)
    except VestryError as error:
        return Forecast(request.mechanism, "", None, None, None, None, reason=str(error).rstrip("."))
    mechanism = prepared.mechanism
    noise = mechanism.deviation if isinstance(mechanism, Additive) else None
    found = Forecast(mechanism.name, mechanism.parameter, mechanism.value, None, None, None, noise)
    if not simulate:
        return found
    rng = np.random.default_rng(_seed(request, frame, n))
    width, exact, kl = request.model.forecast(prepared, frame, each, rng)
    return replace(found, width=width, exact_width=exact, kl=kl)


def _seed(request: Request, frame: TableSchema, n: int) -> list[int]:
    """Seed by the question, not by mechanism or guarantee: mechanisms are compared on the same parameters."""
    columns = {column: frame.domains[column].to_dict() for column in request.model.columns}
    text = json.dumps([request.model.to_dict(), columns, n], sort_keys=True)
    return list(hashlib.sha256(text.encode()).digest())
