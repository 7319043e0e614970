"""What a mechanism must know of a loss: how steep and how curved it can be, for every record and every parameter.

A loss is phi(eta, y) with the linear predictor eta = x . theta. Its gradient in theta is phi'(eta, y) x, so with
|x| <= c it is Lipschitz with slope * c and smooth with curvature * c^2, where slope and curvature bound |phi'| and
phi''. With an intercept x is augmented by a constant, and c bounds the augmented norm: [MinamiAS16, sec. 3.3] takes the
bare norm, which is too small.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, fields
from types import ModuleType
from typing import Any, ClassVar

from vestry.validation import require_number

# The arithmetic that a derivative is written in: `numba_math` (compiled), `numpy_math` or `jax_math` (JAX).
Arithmetic = ModuleType
Derivative = Callable[[Any, Any], Any]


@dataclass(frozen=True)
class LangevinStep:
    """The constants of a Langevin chain: rho, m and h of a step, and the radius of the ball it is projected onto."""

    likelihood_power: float
    prior_precision: float
    step_size: float
    radius: float = math.inf


@dataclass(frozen=True)
class Loss(ABC):
    """A convex loss of one linear predictor, or of several (see `predictors`); its own parameters are numbers above 0.

    Attributes
    ----------
    name
        Its name on the command line and in study files.
    outcomes
        `signs`: y is -1 or 1. `classes`: y is 0 ... K-1. `numbers`: y is a number.
    one_sided
        Whether each record's derivative keeps its sign for every parameter: the tighter analyses of objective
        perturbation need it.
    """

    name: ClassVar[str]
    outcomes: ClassVar[str]
    one_sided: ClassVar[bool] = False

    def __post_init__(self) -> None:
        for field in fields(self):
            value = require_number(field.name, getattr(self, field.name), f"{field.name}=0.5", above=0)
            object.__setattr__(self, field.name, value)

    @property
    @abstractmethod
    def slope(self) -> float:
        """The supremum of |phi'|: of the norm of the derivative, where there are several predictors."""

    @property
    @abstractmethod
    def curvature(self) -> float:
        """The supremum of phi''."""

    @property
    def predictors(self) -> int:
        """How many linear predictors the loss has; 1 except for several classes."""
        return 1

    @abstractmethod
    def value(self, arithmetic: Arithmetic) -> Derivative:
        """Return phi as a function of eta and y."""

    @abstractmethod
    def derivative(self, arithmetic: Arithmetic) -> Derivative:
        """Return the derivative in eta, as a function of eta and y."""

    def lipschitz(self, norm: float) -> float:
        """Return the Lipschitz constant in theta where |x| <= norm."""
        return self.slope * norm

    def smoothness(self, norm: float) -> float:
        """Return the smoothness in theta where |x| <= norm."""
        return self.curvature * norm * norm

    def to_dict(self) -> dict[str, Any]:
        """Return the name and the numbers."""
        return {"name": self.name, **{field.name: getattr(self, field.name) for field in fields(self)}}
