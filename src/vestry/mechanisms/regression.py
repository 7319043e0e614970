"""From a method's name to the mechanism of a regression, calibrated, with public rules for what is left open."""

from __future__ import annotations

import math
from dataclasses import replace

from vestry.errors import InvalidParameter
from vestry.mechanisms.langevin import LangevinSample, posterior
from vestry.mechanisms.linear import LinearProblem
from vestry.mechanisms.objective import ObjectivePerturbation, least_regularisation, objective_perturbation
from vestry.mechanisms.output import OutputPerturbation, output_perturbation
from vestry.privacy.guarantee import Guarantee

POSTERIOR, OBJECTIVE, OUTPUT = "posterior", "objective", "output"
METHODS = (POSTERIOR, OBJECTIVE, OUTPUT)

Regression = LangevinSample | ObjectivePerturbation | OutputPerturbation


def regression(
    problem: LinearProblem,
    guarantee: Guarantee,
    *,
    method: str = POSTERIOR,
    prior_precision: float | None = None,
    regularisation: float | None = None,
    draws: int = 1,
    accuracy: float = 0.05,
    analysis: str = "auto",
    device: str = "auto",
) -> Regression:
    """Return the mechanism that meets the guarantee.

    `prior_precision` belongs to the posterior and `regularisation` to the other two. What is None follows a rule of
    public numbers: see `default_precision` and `default_regularisation`.
    """
    if method not in METHODS:
        raise InvalidParameter("method", method, "one of " + ", ".join(METHODS), f'method = "{POSTERIOR}"')
    if method == POSTERIOR:
        if regularisation is not None:
            raise InvalidParameter("regularisation", regularisation, f"left out for {method}", "prior_precision")
        precision = default_precision(problem) if prior_precision is None else prior_precision
        _positive("prior_precision", precision)
        made = posterior(problem, guarantee, prior_precision=precision, draws=draws, accuracy=accuracy)
        return replace(made, device=device)
    if prior_precision is not None:
        raise InvalidParameter("prior_precision", prior_precision, f"left out for {method}", "regularisation")
    if draws != 1:
        raise InvalidParameter("draws", draws, f"left out for {method}: it releases one estimate", "draws = 1")
    lam = default_regularisation(problem, guarantee, method) if regularisation is None else regularisation
    _positive("regularisation", lam)
    if method == OBJECTIVE:
        return objective_perturbation(problem, guarantee, regularisation=lam, analysis=analysis)
    return output_perturbation(problem, guarantee, regularisation=lam)


def default_precision(problem: LinearProblem) -> float:
    """Return the prior precision of a coefficient: 1 on features of norm 1, whatever the records."""
    return problem.norm * problem.norm


def default_regularisation(problem: LinearProblem, guarantee: Guarantee, method: str) -> float:
    """Return lam from public numbers alone.

    The random linear term is about L sqrt(d)/epsilon long, and pulls the minimum by that over lam: lam of that size
    keeps the pull near one unit of a coefficient. Objective perturbation also needs room for the Jacobian's share of
    epsilon: it is given an eighth.
    """
    pull = problem.lipschitz * math.sqrt(problem.dimension)
    if method == OUTPUT:
        return pull * problem.records
    return max(pull / 4, 8 * least_regularisation(problem, guarantee))


def _positive(name: str, value: float) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < math.inf:
        raise InvalidParameter(name, value, "a number above 0", f"{name} = 1.0")
