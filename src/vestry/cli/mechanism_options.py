"""A mechanism as the command line names it: what runs at a value, and the value that meets a guarantee."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vestry.cli.options import NeighboursName, Rows
from vestry.validation import is_whole, require_moderate, require_number, require_whole

if TYPE_CHECKING:
    from vestry.privacy.event import Event
    from vestry.privacy.guarantee import Guarantee
    from vestry.privacy.neighbours import Adjacency

# The value that meets a guarantee, the theorem, and what else there is to say.
Solution = tuple[float, str, dict[str, Any]]
# Options that are above 0, wherever a mechanism has them.
_POSITIVE = ("lipschitz", "strong_convexity", "smoothness", "regularisation", "norm", "prior_precision", "slope")
# Options that are at least 0.
_NOT_NEGATIVE = ("slack", "start", "tolerance")
# The most that whole numbers may be; study files and ledgers have the same limits.
_MOST, _LARGEST = {"draws": 10**6, "dimension": 10**4, "rows": 10**9 - 1}, 10**15


@dataclass(frozen=True)
class CalibrationOption:
    """A value that meets a guarantee, what runs at it, the theorem, and what else there is to say."""

    value: float
    event: Event
    guarantee: Guarantee
    theorem: str
    details: dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class MechanismOption(ABC):
    """The options of one mechanism; each field is an option, but its name and the parameter that is calibrated."""

    mechanism: str
    parameter: str
    neighbours: NeighboursName = "replace"
    rows: Rows = 1

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            instead = f"for example {name}={0 if name in _NOT_NEGATIVE else 1}"
            if is_whole(value):
                require_whole(name, value, instead, most=_MOST.get(name, _LARGEST))
            elif isinstance(value, float) and name in _POSITIVE:
                require_number(name, value, instead, above=0)
            elif isinstance(value, float) and name in _NOT_NEGATIVE:
                require_number(name, value, instead, least=0)
            if isinstance(value, float) and math.isfinite(value):
                require_moderate(name, value, instead)

    @property
    def default_value(self) -> float | None:
        """The parameter's value where none is given; None where it must be given."""
        return None

    @property
    def adjacency(self) -> Adjacency:
        """Whose change is protected."""
        from vestry.privacy.neighbours import Adjacency, Neighbours

        return Adjacency(Neighbours.parse(self.neighbours), self.rows)

    def _values(self, *names: str) -> dict[str, Any]:
        """Return some options by name, and whose change is protected."""
        return {"adjacency": self.adjacency, **{name: getattr(self, name) for name in names}}

    def parse_guarantee(self, guarantee: str) -> Guarantee:
        """Read a guarantee, under the mechanism's neighbours."""
        from vestry.privacy.guarantee import Guarantee

        return Guarantee.parse(guarantee, neighbours=self.neighbours)

    def event(self, value: float) -> Event:
        """Return what runs at a value of the parameter."""
        return self._event(value).under(self.adjacency.neighbours)

    def calibrated(self, guarantee: str) -> CalibrationOption:
        """Return the value that meets a guarantee, on the private side."""
        wanted = self.parse_guarantee(guarantee)
        value, theorem, details = self._solve(wanted)
        return CalibrationOption(value, self.event(value), wanted, theorem, details)

    @abstractmethod
    def _event(self, value: float) -> Event: ...

    @abstractmethod
    def _solve(self, guarantee: Guarantee) -> Solution: ...
