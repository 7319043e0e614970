"""The mechanisms of linear models: gibbs, glm-concentrated, glm-diffused, langevin, objective and output."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from vestry.cli.mechanism_options import CalibrationOption, MechanismOption, Solution
from vestry.cli.options import DrawCount, numbers
from vestry.errors import InvalidParameter
from vestry.validation import require_number

if TYPE_CHECKING:
    from vestry.privacy.event import Event
    from vestry.privacy.guarantee import Guarantee

Lipschitz = Annotated[float, Option(help="The Lipschitz constant of one record's loss.")]
StrongConvexity = Annotated[float, Option(help="The strong convexity of the prior term, for every dataset.")]
Regularisation = Annotated[float, Option(help="lam in the term (lam/2)|theta|^2 beside the sum of losses.")]
Slope = Annotated[float, Option(help="The greatest slope of the loss in its linear predictor; 1 for logistic.")]


@dataclass(frozen=True, kw_only=True)
class Gibbs(MechanismOption):
    """Draws from a density exp(-likelihood_power * sum of losses) * prior."""

    lipschitz: Lipschitz
    strong_convexity: StrongConvexity
    draws: DrawCount = 1
    analysis: Annotated[str, Option(help="gdp (exact); to compare, renyi, minami-theorem-7 or minami-corollary-8.")] = (
        "gdp"
    )

    def _event(self, value: float) -> Event:
        from vestry.regression.gibbs_calibration import draw_event

        return draw_event(value, **self._known())

    def _solve(self, guarantee: Guarantee) -> Solution:
        from vestry.regression.gibbs_calibration import THEOREM, likelihood_power

        power = likelihood_power(guarantee, analysis=self.analysis, **self._known())
        return power, THEOREM, {"analysis": self.analysis}

    def _known(self) -> dict[str, Any]:
        return self._values("lipschitz", "strong_convexity", "draws")


@dataclass(frozen=True, kw_only=True)
class Glm(MechanismOption):
    """Draws from a linear model's posterior whose prior is N(0, I/(n prior_precision)) [GeumlekSC17, Alg. 4 and 5]."""

    n: Annotated[int, Option("--n", help="The number of records, where it is public.")]
    norm: Annotated[float, Option(help="The largest norm of a record's features, the intercept included.")]
    prior_precision: Annotated[float, Option(help="beta: the prior's precision is n beta.")]
    slope: Slope = 1.0
    draws: DrawCount = 1

    def _event(self, value: float) -> Event:
        from vestry.regression.gibbs_calibration import draw_event

        power, precision = self._both(value)
        return draw_event(power, strong_convexity=self.n * precision, **self._known())

    def _solve(self, guarantee: Guarantee) -> Solution:
        from vestry.regression.gibbs_calibration import THEOREM, likelihood_power, prior_precision

        if self.parameter == "prior_precision":
            value = prior_precision(guarantee, count=self.n, at_least=self.prior_precision, **self._known())
        else:
            convexity = self.n * self.prior_precision
            value = likelihood_power(guarantee, at_most=1.0, strong_convexity=convexity, **self._known())
        power, precision = self._both(value)
        return value, THEOREM, {"prior_precision": precision, "likelihood_power": power}

    def _both(self, value: float) -> tuple[float, float]:
        return (1.0, value) if self.parameter == "prior_precision" else (value, self.prior_precision)

    def _known(self) -> dict[str, Any]:
        return {"lipschitz": self.slope * self.norm, **self._values("draws")}


@dataclass(frozen=True, kw_only=True)
class Langevin(MechanismOption):
    """A Langevin chain of finitely many steps; of several draws, each by as many steps."""

    lipschitz: Lipschitz
    strong_convexity: StrongConvexity
    smoothness: Annotated[float, Option(help="The smoothness of the whole potential, for every dataset.")]
    steps: Annotated[str, Option(help="The number of steps; of several phases, separated by commas.")]
    step_size: Annotated[str, Option(help="The step size; of several phases, separated by commas.")]
    slack: Annotated[float, Option(help="How far a computed step may be from the exact one.")] = 0.0
    start: Annotated[float, Option(help="How far apart neighbours' chains may start; 0 if at one point.")] = 0.0
    draws: DrawCount = 1

    default_value = 1.0

    def _event(self, value: float) -> Event:
        from vestry.privacy.pricing import event

        require_number(self.parameter, value, f"for example {self.parameter}=1", above=0)
        sizes, counts = self._phases()
        return event(
            "langevin",
            sensitivity=value * self.adjacency.changes * self.lipschitz,
            strong_convexity=self.strong_convexity,
            smoothness=self.smoothness,
            step_sizes=sizes,
            steps=counts,
            slacks=(self.slack,) * len(sizes),
            start=self.start,
        ).times(self.draws)

    def _phases(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Return each phase's step size and number of steps."""
        sizes, counts = numbers("--step-size", self.step_size, "0.01"), numbers("--steps", self.steps, "1000")
        if len(sizes) != len(counts):
            instead = "--steps 1000 --step-size 0.01"
            raise InvalidParameter("--steps", self.steps, "one number for each step size", instead)
        if not all(count >= 1 and count.is_integer() for count in counts):
            raise InvalidParameter("--steps", self.steps, "whole numbers of at least 1", "for example --steps 1000")
        if self.smoothness < self.strong_convexity:
            instead = f"smoothness={self.strong_convexity:g}"
            raise InvalidParameter("smoothness", self.smoothness, "at least the strong convexity", instead)
        if not all(0 < size * self.smoothness < 2 for size in sizes):
            allowed = f"above 0 and below 2/smoothness = {2 / self.smoothness:g}"
            raise InvalidParameter("--step-size", self.step_size, allowed, "a shorter step")
        return sizes, counts

    def _solve(self, guarantee: Guarantee) -> Solution:
        raise InvalidParameter("--guarantee", str(guarantee), "omitted for langevin", "the likelihood power by --at")

    def find_mu(self, power: float) -> CalibrationOption:
        """Return the exact mu of the chain."""
        from vestry.numerics import root, up
        from vestry.privacy import accountant
        from vestry.privacy.guarantee import GaussianDP
        from vestry.regression.langevin import THEOREM

        event = self.event(power)
        mu = up(root(accountant.squared_mu(event)))
        return CalibrationOption(mu, event, GaussianDP(mu, neighbours=event.neighbours), THEOREM, {})


@dataclass(frozen=True, kw_only=True)
class Objective(MechanismOption):
    """The minimum of the losses with a random linear term of standard deviation scale."""

    lipschitz: Lipschitz
    smoothness: Annotated[float, Option(help="The smoothness of one record's loss.")]
    regularisation: Regularisation
    analysis: Annotated[
        str, Option(help="auto (the tightest), general, one-sided, one-sided-replace, redberg or lecture.")
    ] = "auto"
    one_sided: Annotated[
        bool, Option("--one-sided/--two-sided", help="Whether a record's derivative keeps its sign.")
    ] = True

    def _event(self, value: float) -> Event:
        from vestry.regression.objective_perturbation import objective_event

        names = ("lipschitz", "smoothness", "regularisation", "one_sided", "analysis")
        return objective_event(value, **self._values(*names))

    def _solve(self, guarantee: Guarantee) -> Solution:
        from vestry.regression.objective_perturbation import THEOREMS, objective_scale

        scale = objective_scale(self.event, guarantee, self.regularisation)
        kind = self.event(scale).kind
        return scale, THEOREMS[kind], {"analysis": kind}


@dataclass(frozen=True, kw_only=True)
class Output(MechanismOption):
    """The minimum of the losses, with noise of standard deviation scale added to it."""

    lipschitz: Lipschitz
    regularisation: Regularisation
    smoothness: Annotated[float | None, Option(help="Not used: the minimum moves as far without it.")] = None
    tolerance: Annotated[float, Option(help="How far a computed minimum may be from the exact one.")] = 0.0

    def _event(self, value: float) -> Event:
        from vestry.regression.output_perturbation import output_event

        return output_event(value, self._moves())

    def _solve(self, guarantee: Guarantee) -> Solution:
        from vestry.privacy.accountant import smallest_parameter
        from vestry.regression.output_perturbation import THEOREM

        return smallest_parameter(self.event, guarantee), THEOREM, {"sensitivity": self._moves()}

    def _moves(self) -> float:
        """Return how far neighbours' computed minima may be apart."""
        return self.adjacency.changes * self.lipschitz / self.regularisation + 2 * self.tolerance
