"""The trial that [GeumlekSC17, sec. 5.1] repeats: a hundred yes-or-no records, the prior Beta(6, 12), five mechanisms.

All are held to one promise, (order, epsilon)-Renyi privacy under replacement:

- `diffused` and `concentrated`: algorithms 2 and 3, which are the direct draw wherever that keeps the promise;
- `gaussian`: the paper's baseline, continuous Gaussian noise on the successes, cut to [0, n], plugged in as if exact;
- `noise-aware`: ours, integer Gaussian noise of the same scale, summed out;
- `exact-profile`: ours, the diffused posterior held only to what the promise says in (epsilon, delta) at delta = 1e-5.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import betainc, betaln, expit, log_ndtr, logsumexp, xlog1py, xlogy

from reproductions.experiment import Numbers
from reproductions.proportion import aware_draws, count_posteriors, discrete_noise, noise_table
from vestry.conjugate.beta_bernoulli import Beta, BetaBernoulliFamily
from vestry.mechanisms.additive_noise import GAUSSIAN, calibrate_noise
from vestry.mechanisms.posterior_sample import concentrated, diffused, direct
from vestry.numerics import Array
from vestry.posterior.discrete_noise import DiscreteGaussian
from vestry.privacy import accountant
from vestry.privacy.guarantee import ApproxDP, RenyiDP
from vestry.privacy.neighbours import Adjacency, Neighbours

FAMILY, PRIOR, RECORDS, DELTA = BetaBernoulliFamily(), Beta(6.0, 12.0), 100, 1e-5
ADJACENCY = Adjacency(Neighbours.REPLACE, count=RECORDS)
NAMES = ("diffused", "concentrated", "gaussian", "noise-aware", "exact-profile")


def epsilons(per_decade: int) -> list[float]:
    """List epsilons from 0.001 to 100, evenly on the scale of the logarithm, 0.01, 0.1 and 1 exactly among them."""
    return [float(f"{10 ** (k / per_decade):.12g}") for k in range(-3 * per_decade, 2 * per_decade + 1)]


@dataclass(frozen=True)
class Calibration:
    """The parameters at which each mechanism keeps one Renyi promise.

    Attributes
    ----------
    power, scale
        The r of algorithm 2 and the m of algorithm 3.
    sigma
        The deviation of the Gaussian noise: sqrt(order/(2 epsilon)).
    exact_power
        The r of the diffused posterior at (implied_epsilon, 1e-5), by its exact profile.
    implied_epsilon
        What the Renyi promise alone implies at delta = 1e-5.
    direct
        Whether a draw from the posterior itself keeps the promise.
    """

    power: float
    scale: float
    sigma: float
    exact_power: float
    implied_epsilon: float
    direct: bool

    def shapes(self, name: str, successes: Array) -> tuple[Array, Array]:
        """Return the Beta parameters that a posterior draw comes from."""
        power = {"diffused": self.power, "exact-profile": self.exact_power}.get(name, 1.0)
        scale = self.scale if name == "concentrated" else 1.0
        return PRIOR.alpha / scale + power * successes, PRIOR.beta / scale + power * (RECORDS - successes)

    def draw(self, name: str, rng: np.random.Generator, successes: Array) -> Array:
        """Return one draw of the proportion for each dataset; `posterior` draws from the true posterior."""
        if name == "noise-aware":
            return aware_draws(rng, successes, n=RECORDS, prior=PRIOR, noise=DiscreteGaussian(self.sigma))[0]
        if name == "gaussian":
            successes = np.clip(successes + rng.normal(0, self.sigma, successes.size), 0, RECORDS)
        return rng.beta(*self.shapes(name, successes))

    def covers(self, name: str, rng: np.random.Generator, repeats: int) -> float:
        """Return how often a nominal 90 % interval from noisy statistics holds the truth, drawn from the prior."""
        theta = rng.beta(PRIOR.alpha, PRIOR.beta, repeats)
        successes = rng.binomial(RECORDS, theta).astype(float)
        if name == "gaussian":
            successes = np.clip(successes + rng.normal(0, self.sigma, repeats), 0, RECORDS)
            below = betainc(*self.shapes(name, successes), theta)
        else:
            noise = DiscreteGaussian(self.sigma)
            noisy = successes + discrete_noise(rng, noise, repeats)
            posteriors = count_posteriors(noisy, n=RECORDS, prior=PRIOR, noise=noise)
            shapes = PRIOR.alpha + posteriors.counts, PRIOR.beta + RECORDS - posteriors.counts
            below = (posteriors.weights * betainc(*shapes, theta[:, None])).sum(axis=1)
        return float(((below > 0.05) & (below < 0.95)).mean())

    def divergence(self, name: str, successes: float) -> float:
        """Return KL(P || A), P the true posterior and A the distribution of what the mechanism draws."""
        truth: Beta = FAMILY.update(PRIOR, [successes], RECORDS)
        if name == "gaussian":
            return kl_to_mixture(truth, *self._plug_in(successes))
        if name == "noise-aware":
            return kl_to_mixture(truth, *self._aware(successes))
        alpha, beta = self.shapes(name, np.array([successes]))
        return truth.kl(Beta(float(alpha[0]), float(beta[0])))

    def _plug_in(self, successes: float) -> tuple[Array, Array]:
        """Return the successes that are plugged in and their log weights: a cut normal, with an atom at each end."""
        low, high = max(0.0, successes - 12 * self.sigma), min(float(RECORDS), successes + 12 * self.sigma)
        nodes, rule = np.polynomial.legendre.leggauss(160)
        inside = (low + high) / 2 + (high - low) / 2 * nodes
        norm = np.log(rule * (high - low) / 2) - 0.5 * math.log(2 * math.pi) - math.log(self.sigma)
        ends = log_ndtr(np.array([-successes, successes - RECORDS]) / self.sigma)
        logs = norm - ((inside - successes) / self.sigma) ** 2 / 2
        return np.concatenate([inside, [0.0, RECORDS]]), np.concatenate([logs, ends])

    def _aware(self, successes: float) -> tuple[Array, Array]:
        """Return the hidden counts and their log weights, averaged over the noise."""
        noise = DiscreteGaussian(self.sigma)
        shifts, mass = noise_table(noise)
        posteriors = count_posteriors(successes + shifts, n=RECORDS, prior=PRIOR, noise=noise)
        weights = np.bincount(
            np.rint(posteriors.counts).astype(np.int64).ravel(),
            (posteriors.weights * mass[:, None]).ravel(),
            RECORDS + 1,
        )
        with np.errstate(divide="ignore"):
            return np.arange(RECORDS + 1.0), np.log(weights)


def calibrate(order: float, epsilon: float) -> Calibration:
    """Find every mechanism's parameter for (order, epsilon)-Renyi privacy."""
    promise = RenyiDP(order=order, epsilon=epsilon)
    implied = accountant.convert(promise, ApproxDP(epsilon=1.0, delta=DELTA))
    single = direct(FAMILY, PRIOR, ADJACENCY, ApproxDP(epsilon=1.0, delta=0.5))
    return Calibration(
        power=diffused(FAMILY, PRIOR, ADJACENCY, promise).value,
        scale=concentrated(FAMILY, PRIOR, ADJACENCY, promise).value,
        sigma=calibrate_noise(GAUSSIAN, FAMILY.layout(ADJACENCY), ADJACENCY, promise).scale,
        exact_power=diffused(FAMILY, PRIOR, ADJACENCY, implied).value,
        implied_epsilon=float(implied.value),
        direct=accountant.meets(single.event, promise),
    )


def kl_to_mixture(truth: Beta, successes: Array, log_weights: Array) -> float:
    """Return KL from a Beta distribution to a mixture of Beta(6 + s, 12 + n - s), by the trapezoid rule on the logit.

    Smooth integrands that vanish at both ends lose nothing to this rule but what the step cannot resolve.
    """
    middle = math.log(truth.alpha / truth.beta)
    width = math.sqrt(1 / truth.alpha + 1 / truth.beta)
    logit = middle + width * np.linspace(-12, 12, 481)
    p = expit(logit)
    own = truth.log_density(p)
    alpha, beta = PRIOR.alpha + successes, PRIOR.beta + RECORDS - successes
    at = p[:, None]
    parts = log_weights - betaln(alpha, beta) + xlogy(alpha - 1, at) + xlog1py(beta - 1, -at)
    mass = np.exp(own) * p * expit(-logit)
    return max(0.0, float((mass * (own - logsumexp(parts, axis=1))).sum() * (logit[1] - logit[0])))


def held_out(
    rng: np.random.Generator, calibrations: list[Calibration], *, rho: float, repeats: int
) -> dict[str, Numbers]:
    """Return the mean and deviation of log p(X_H | theta), X and X_H of 100 records, for every mechanism.

    The datasets are the same at every epsilon, so that curves differ by the mechanisms alone.
    """
    data, held = (rng.binomial(RECORDS, rho, repeats).astype(float) for _ in range(2))

    def scored(theta: Array) -> tuple[float, float]:
        score = xlogy(held, theta) + xlog1py(RECORDS - held, -theta)
        return float(score.mean()), float(score.std(ddof=1))

    scores: dict[str, Numbers] = {}
    for name in NAMES:
        pairs = [scored(each.draw(name, rng, data)) for each in calibrations]
        scores[name] = {"mean": [pair[0] for pair in pairs], "deviation": [pair[1] for pair in pairs]}
    mean, deviation = scored(calibrations[0].draw("posterior", rng, data))
    scores["posterior"] = {"mean": mean, "deviation": deviation}
    return scores
