"""Posterior draws by a Langevin chain whose privacy is certified for the steps that really run.

theta <- theta - eta (rho sum_i grad l_i(theta) + m theta) + sqrt(2 eta) N(0, I), from 0, with step sizes and a number
of steps that follow from public constants, projected onto a ball that the chain all but never leaves. The claim is for
this chain, started at a point that no record has touched; it does not assume that the chain has converged
[BokSA24, Thm 4.1]. How near the draw is to one from the posterior is another matter, and is stated beside it.

Not covered by the theorem: Metropolis corrections, momentum, minibatches, steps or stopping that look at the data.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from vestry.noise import NoiseSource
from vestry.privacy import accountant
from vestry.privacy.accountant import largest_parameter, smallest_parameter
from vestry.privacy.event import Event
from vestry.privacy.guarantee import Guarantee
from vestry.privacy.pricing import event
from vestry.regression.gibbs_calibration import draw_event
from vestry.regression.gradient import Chain, Gradient
from vestry.regression.loss import LangevinStep
from vestry.regression.problem import LinearProblem, RowMechanism
from vestry.regression.step_schedule import Schedule, schedule
from vestry.releases import Draws
from vestry.schema.private import Block
from vestry.validation import require_number, require_whole

if TYPE_CHECKING:
    from vestry.noise.bits import BitSource

THEOREM = (
    "The last state of a Langevin chain on a potential that is m-strongly convex and M-smooth for every dataset, from a"
    " start that no record has touched, is mu-GDP for the steps that ran [BokSA24, Thm 4.1], with the gradients of"
    " neighbours at most S apart and rounding as slack; no convergence is assumed."
)
# So many standard deviations beyond its expected distance the chain is projected back.
_BEYOND = 9.0
# Normals that are drawn at once.
_CHUNK = 2**20


@dataclass(frozen=True)
class LangevinSample(RowMechanism):
    """Draws by a certified chain from the posterior of a linear problem with the prior N(0, I/prior_precision).

    Attributes
    ----------
    problem
        What is known of every dataset.
    likelihood_power
        The power of the likelihood.
    prior_precision
        Of each coefficient, on the scale of the features as the mechanism sees them.
    schedule
        Step sizes and numbers of steps, and how near they come.
    draws
        How many: each one starts where the one before was released, and costs the same.
    guarantee
        What was asked for and is met.
    calibrated
        `likelihood_power` or `prior_precision`: what was set to meet it.
    device
        `cpu`, `gpu` or `auto`.
    """

    problem: LinearProblem
    likelihood_power: float
    prior_precision: float
    schedule: Schedule
    draws: int
    guarantee: Guarantee
    calibrated: str = "likelihood_power"
    device: str = "auto"

    name = "posterior"

    @property
    def parameter(self) -> str:
        """What was calibrated."""
        return self.calibrated

    @property
    def radius(self) -> float:
        """The ball that the chain is projected onto: so far from 0 that it all but never matters.

        A loss whose slope is bounded on a bounded set only is drawn on that set.
        """
        if self.problem.ball is not None:
            return self.problem.ball
        reach = _reach(self.problem, self.likelihood_power, self.prior_precision)
        return 2 * (reach + (math.sqrt(self.problem.dimension) + _BEYOND) / math.sqrt(self.prior_precision))

    @property
    def event(self) -> Event:
        """What runs."""
        p, rho, m = self.problem, self.likelihood_power, self.prior_precision
        single = event(
            "langevin",
            sensitivity=rho * p.sensitivity,
            strong_convexity=m,
            smoothness=rho * p.max_rows * p.smoothness + m,
            step_sizes=self.schedule.step_sizes,
            steps=self.schedule.steps,
            slacks=tuple(self._slack(eta) for eta in self.schedule.step_sizes),
            start=0.0,
        )
        return single.times(self.draws).under(p.adjacency.neighbours)

    @property
    def theorem(self) -> str:
        """The result that the claim rests on, and how near the chain comes."""
        s = self.schedule
        return (
            f"{THEOREM} Accuracy: after {sum(s.steps)} steps, for a quadratic potential, the variance along every"
            f" direction is right to {s.inflation:.2g} of itself and the mean to {s.distance:.2g} standard deviations."
        )

    def _slack(self, step_size: float) -> float:
        """Bound how far a computed step is from the exact one: rounding, and noise that is not quite normal."""
        from vestry.noise.bounded_error_normals import ERROR
        from vestry.regression.rounding_error import step_error

        p, size = self.problem, math.sqrt(2 * step_size * self.problem.dimension)
        rounding = step_error(
            p.loss,
            rows=p.max_rows,
            features=p.features,
            norm=p.norm,
            radius=self.radius,
            outcome=p.outcome,
            likelihood_power=self.likelihood_power,
            prior_precision=self.prior_precision,
            step_size=step_size,
            noise_norm=40 * size,
        )
        return rounding + ERROR * size

    def rehearse(self, noise: NoiseSource) -> tuple[Draws, ...]:
        """Draw the noise of one step, and that of the last one exactly, once."""
        from vestry.noise import exact_sampling
        from vestry.noise.bits import Bits
        from vestry.noise.bounded_error_normals import normals
        from vestry.noise.grid import declared_grid

        size = self.problem.dimension
        normals(noise.stream(), size)
        grid = declared_grid(1 / math.sqrt(self.prior_precision))
        sharpness = _sharpness(self.schedule.step_sizes[-1])
        last, *_ = exact_sampling.normal(Bits(noise), 0.0, sharpness, grid=grid)
        point = (float(last),) * size
        return (Draws((point,) * self.draws, grid),)

    def draw(self, blocks: Sequence[Block], noise: NoiseSource) -> Draws:
        """Run the chain, once for each draw; the last step's noise is drawn exactly and rounded to a declared grid."""
        from vestry.noise.bits import Bits
        from vestry.noise.grid import declared_grid
        from vestry.regression.gradient import gradient

        stream, bits = noise.stream(), Bits(noise)
        grid = declared_grid(1 / math.sqrt(self.prior_precision))
        along = gradient(self.problem.loss, blocks, device=self.device)
        theta, values = np.zeros(self.problem.dimension), []
        for _ in range(self.draws):
            theta = self._run(along, _projected(theta, self.radius), stream, bits, grid)
            values.append(tuple(float(x) for x in theta))
        return Draws(tuple(values), grid)

    def _run(
        self, along: Gradient, theta: np.ndarray, stream: np.random.Generator, bits: BitSource, grid: float
    ) -> np.ndarray:
        """Return the state after all steps, the noise of the last one drawn exactly."""
        from vestry.noise import exact_sampling
        from vestry.noise.bounded_error_normals import normals

        size = self.problem.dimension
        most = max(1, _CHUNK // size)
        steps = list(self.schedule.steps)
        steps[-1] -= 1  # the last one is drawn exactly
        power, precision, sizes = self.likelihood_power, self.prior_precision, self.schedule.step_sizes
        phases = [Chain(along, LangevinStep(power, precision, eta, self.radius)) for eta in sizes]
        for phase, count in zip(phases, steps, strict=True):
            for start in range(0, count, most):
                theta = phase.run(theta, normals(stream, (min(most, count - start), size)))
        sharpness = _sharpness(sizes[-1])
        means = np.ravel(phases[-1].mean(theta))
        return np.array([exact_sampling.normal(bits, float(mean), sharpness, grid=grid)[0] for mean in means])


def _sharpness(step_size: float) -> float:
    """Return the precision of a step's noise, never less noise than was priced."""
    return 1 / (2 * step_size) * (1 - 2.0**-50)


def _projected(theta: np.ndarray, radius: float) -> np.ndarray:
    """Return a released point inside the ball where the constants hold; it is public, and so is this."""
    norm = float(np.linalg.norm(theta))
    return theta if norm <= radius else theta * (radius / norm)


def _reach(problem: LinearProblem, power: float, precision: float) -> float:
    """Bound the distance of the mode from 0: by the gradient there, and by the potential there."""
    steep = power * problem.max_rows * problem.lipschitz / precision
    return min(steep, math.sqrt(2 * power * problem.most / precision))


def posterior(
    problem: LinearProblem, guarantee: Guarantee, *, prior_precision: float, draws: int = 1, accuracy: float = 0.05
) -> LangevinSample:
    """Find the largest likelihood power, at most 1, by which the draws meet the guarantee [GeumlekSC17, Alg. 5].

    Their privacy is that of the chain, not of an exact draw.
    """
    make = _maker(problem, guarantee, draws, accuracy)
    bound = guarantee.under(problem.adjacency.neighbours)
    power = largest_parameter(lambda rho: make(rho, prior_precision).event, bound, at_most=1.0, tolerance=1e-6)
    return make(power, prior_precision)


def concentrated_posterior(
    problem: LinearProblem, guarantee: Guarantee, *, prior_precision: float, draws: int = 1, accuracy: float = 0.05
) -> LangevinSample:
    """Find the least prior precision, from the given one on, by which untempered draws do [GeumlekSC17, Alg. 4]."""
    make = _maker(problem, guarantee, draws, accuracy)
    bound = guarantee.under(problem.adjacency.neighbours)

    def exact_draws(precision: float) -> Event:
        return draw_event(
            1.0, lipschitz=problem.lipschitz, strong_convexity=precision, adjacency=problem.adjacency, draws=draws
        )

    precision = prior_precision
    if not accountant.meets(make(1.0, precision).event, bound):
        # An exact draw costs as much or more than the chain, except for the slack of rounding.
        precision = max(prior_precision, smallest_parameter(exact_draws, bound)) * (1 + 1e-6)
        while not accountant.meets(make(1.0, precision).event, bound):
            precision *= 1.01
    return replace(make(1.0, precision), calibrated="prior_precision")


def _maker(
    problem: LinearProblem, guarantee: Guarantee, draws: int, accuracy: float
) -> Callable[[float, float], LangevinSample]:
    require_whole("draws", draws)
    bound = guarantee.under(problem.adjacency.neighbours)

    def make(power: float, precision: float) -> LangevinSample:
        require_number("prior_precision", precision, "prior_precision=1.0", above=0)
        plan = schedule(
            strong_convexity=precision,
            smoothness=power * problem.max_rows * problem.smoothness + precision,
            reach=_reach(problem, power, precision) + math.sqrt(problem.dimension / precision),
            accuracy=accuracy,
        )
        return LangevinSample(problem, power, precision, plan, draws, bound)

    return make
