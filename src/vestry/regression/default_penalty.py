"""What a penalty is where none is declared: a rule of public numbers, never of the records.

Every number here is declared or follows from declarations: the method, the guarantee, the neighbours, the norm of the
rows, the number of coefficients, the loss. The constants were chosen on two public datasets and are the same for all.

With beta the smoothness of one record's loss, L its Lipschitz constant and c the norm of a row:

- `objective`: lam = beta/(e^(epsilon/4k) - 1). The Jacobian costs log(1 + beta/lam) for each of the k records that its
  analysis counts, so that it takes a quarter of epsilon; the noise gets the rest. Less than that shrinks more than it
  saves; more leaves too little for the noise.
- `output`: lam = S c s/t, with S the sensitivity of the gradient, s the scale of normal noise that hides a change of 1,
  and t = 1/3 for classes, 1/25 for numbers. The noise on the coefficients then moves no linear predictor by more than
  t, as a standard deviation; numbers are scaled to [-1, 1].
- `posterior`: the prior expects |theta|^2 = 20, on scaled features, for classes, and 1 for numbers, whose scaled
  outcome is at most 1 in size: the precision is the number of coefficients over that.
- All are at least n beta/10,000, with n the declared number of rows. The objective is then at most 10,001 times as
  curved in one direction as in another, so that the number of steps is bounded and time is linear in n. It is little
  beside n rows, and binds only where there are many of them or epsilon is large.
"""

from __future__ import annotations

import math

from vestry.privacy.accountant import smallest_parameter
from vestry.privacy.guarantee import ApproxDP, Guarantee, RenyiDP
from vestry.regression.objective_perturbation import minimum_event
from vestry.regression.output_perturbation import output_event
from vestry.regression.problem import LinearProblem

# The Jacobian's share of epsilon.
JACOBIAN = 1 / 4
# The most that noise on the coefficients moves a linear predictor, as a standard deviation.
MOVE = {"signs": 1 / 3, "classes": 1 / 3, "numbers": 1 / 25}
# What the prior expects of |theta|^2, on scaled features.
SIZE = {"signs": 20.0, "classes": 20.0, "numbers": 1.0}
# The losses of all rows together are never more than so many times as curved as the penalty.
CURVED = 10_000


def prior_precision(problem: LinearProblem) -> float:
    """Return the precision of each coefficient's prior, for draws from the posterior."""
    return max(_floor(problem), problem.dimension / SIZE[problem.loss.outcomes])


def regularisation(problem: LinearProblem, guarantee: Guarantee, method: str, analysis: str = "auto") -> float:
    """Return lam, for objective and output perturbation; a definition without epsilon is the mechanism's to refuse."""
    floor = _floor(problem)
    if method == "output":
        bound = guarantee.under(problem.adjacency.neighbours)
        unit = smallest_parameter(lambda scale: output_event(scale, 1.0), bound)
        return max(floor, problem.sensitivity * problem.norm * unit / MOVE[problem.loss.outcomes])
    if not isinstance(guarantee, (ApproxDP, RenyiDP)):
        return floor
    share = JACOBIAN * guarantee.epsilon / _records(problem, analysis)
    return floor if share > 100 else max(floor, problem.smoothness / math.expm1(share))


def _floor(problem: LinearProblem) -> float:
    return problem.max_rows * problem.smoothness / CURVED


def _records(problem: LinearProblem, analysis: str) -> int:
    """Return how often the analysis counts the Jacobian."""
    event = minimum_event(problem, 1.0, analysis)(1.0)
    return int(dict(event.parameters)["records"])  # type: ignore[arg-type]
