"""From a method's name to the mechanism of a regression, calibrated, with public rules for what is left open."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from vestry.errors import InvalidParameter
from vestry.privacy.guarantee import Guarantee
from vestry.regression import default_penalty
from vestry.regression.certified_minimum import NEWTON, ONE_BY_ONE, RidgeObjective
from vestry.regression.gradient import gradient
from vestry.regression.langevin import LangevinSample, posterior
from vestry.regression.newton import PLACES, NewtonPoint
from vestry.regression.newton_sums import GradientPass, NewtonPass
from vestry.regression.objective_perturbation import ObjectivePerturbation, objective_perturbation
from vestry.regression.output_perturbation import OutputPerturbation, output_perturbation
from vestry.regression.problem import LinearProblem
from vestry.regression.sdca_rows import Rows
from vestry.validation import require_choice, require_number

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
    public numbers: see `vestry.regression.default_penalty`.
    """
    require_choice("method", method, METHODS, f'method = "{POSTERIOR}"')
    if method == POSTERIOR:
        if regularisation is not None:
            raise InvalidParameter("regularisation", regularisation, f"omitted for {method}", "prior_precision")
        precision = default_penalty.prior_precision(problem) if prior_precision is None else prior_precision
        require_number("prior_precision", precision, "prior_precision = 1.0", above=0)
        sample = posterior(problem, guarantee, prior_precision=precision, draws=draws, accuracy=accuracy)
        return replace(sample, device=device)
    if prior_precision is not None:
        raise InvalidParameter("prior_precision", prior_precision, f"omitted for {method}", "regularisation")
    if draws != 1:
        raise InvalidParameter("draws", draws, f"omitted for {method}: it releases one estimate", "draws = 1")
    lam = regularisation
    if lam is None:
        lam = default_penalty.regularisation(problem, guarantee, method, analysis)
    require_number("regularisation", lam, "regularisation = 1.0", above=0)
    if method == OUTPUT:
        return replace(output_perturbation(problem, guarantee, regularisation=lam), device=device)
    return replace(objective_perturbation(problem, guarantee, regularisation=lam, analysis=analysis), device=device)


def penalty(mechanism: Regression) -> float:
    """Return the precision of the prior, or lam: what keeps coefficients small."""
    return mechanism.prior_precision if isinstance(mechanism, LangevinSample) else mechanism.regularisation


def shrinkage(mechanism: Regression, variances: Sequence[float] | np.ndarray) -> float:
    """Return by which share the penalty shrinks coefficients, averaged over predictors of these variances.

    A coefficient comes out as b n v rho/(b n v rho + m) of itself, with m the penalty, rho the power of the likelihood,
    n the most records, v the variance of a scaled predictor given the others and b the largest curvature of the loss:
    at least so much is lost.
    """
    problem, power = mechanism.problem, mechanism.likelihood_power if isinstance(mechanism, LangevinSample) else 1.0
    known = power * problem.loss.curvature * problem.max_rows * np.asarray(variances)
    return float(np.mean(penalty(mechanism) / (penalty(mechanism) + known)))


def try_out(mechanism: Regression) -> None:
    """Try one made-up row before anything is charged: a missing compiler or a missing device shows here."""
    problem, theta = mechanism.problem, np.zeros(mechanism.problem.dimension)
    made_up = [(np.zeros((1, problem.features), np.float32), np.ones(1))]
    if not isinstance(mechanism, LangevinSample) and mechanism.way == ONE_BY_ONE:
        Rows(problem.loss, made_up).update(np.zeros(1, int), np.zeros(1), theta, theta.copy(), share=0.5, lam=1.0)
    elif not isinstance(mechanism, LangevinSample) and mechanism.way == NEWTON:
        made_up_pass(mechanism)(iter(made_up))
        GradientPass(problem.loss, theta)(iter(made_up))
    else:
        gradient(problem.loss, made_up, device=mechanism.device)(theta)


def made_up_pass(mechanism: Regression) -> NewtonPass:
    """Return a pass of Newton's method at a made-up point, to be tried where the records are: compiled as theirs."""
    problem = mechanism.problem
    point, single = np.ones(problem.features), RidgeObjective(problem, penalty(mechanism)).single
    return NewtonPass(problem.loss, NewtonPoint(point, point, PLACES), single=single)
