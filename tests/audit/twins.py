"""Broken twins: mechanisms with one mistake each, and the claim of the mechanism that they take after.

Each twin is a function of the trials and a seed that audits it. `exposed` says which neighbours show the mistake.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from seeded_noise import SeededNoise

from vestry.audit import Verdict, audit, audit_shipped
from vestry.audit.bulk_simulation import simulate
from vestry.conjugate.beta_bernoulli import BetaBernoulliFamily
from vestry.conjugate.dirichlet_categorical import DirichletCategoricalFamily
from vestry.conjugate.draw_cost import draw
from vestry.conjugate.normal_mean import NormalMeanFamily
from vestry.conjugate.simulation import simulated_noise
from vestry.mechanisms.additive_noise import GAUSSIAN, LAPLACE, ROUNDED_GAUSSIAN, calibrate_noise
from vestry.mechanisms.posterior_sample import PosteriorSample, diffused
from vestry.mechanisms.truncated_posterior import ops
from vestry.privacy.guarantee import Guarantee
from vestry.privacy.neighbours import Adjacency
from vestry.privacy.pricing import event

BETA, THREE = BetaBernoulliFamily(), DirichletCategoricalFamily(3)
PUBLIC = Adjacency("replace", 1, 100)


@dataclass(frozen=True)
class Twin:
    """A mistake, the neighbours that expose it, and how many trials find it."""

    mistake: str
    exposed: str
    trials: int
    find: Callable[[int, int], Verdict]

    def audited(self, seed: int = 5) -> Verdict:
        return self.find(self.trials, seed)


def noisy(noise: str, family, adjacency: Adjacency, guarantee: str):
    return calibrate_noise(noise, family.layout(adjacency), adjacency, Guarantee.parse(guarantee))


def quieter(noise: str, guarantee: str, factor: float) -> Callable[[int, int], Verdict]:
    """Audit a count whose noise is smaller than what was calibrated, by a factor."""

    def find(trials: int, seed: int) -> Verdict:
        real = noisy(noise, BETA, PUBLIC, guarantee)
        twin = dataclasses.replace(real, scale=real.scale / factor)
        return audit_shipped(twin, BETA, noise=SeededNoise(seed), trials=trials, claim=real.event)

    return find


def one_sided(noise: str, guarantee: str) -> Callable[[int, int], Verdict]:
    """Audit three counts whose sensitivity was taken for that of an addition."""

    def find(trials: int, seed: int) -> Verdict:
        real = noisy(noise, THREE, PUBLIC, guarantee)
        lone = dataclasses.replace(real.layout, l1=1, l2=1.0)
        twin = calibrate_noise(noise, lone, PUBLIC, Guarantee.parse(guarantee))
        return audit_shipped(twin, THREE, noise=SeededNoise(seed), trials=trials, claim=real.event)

    return find


def averaged(trials: int, seed: int) -> Verdict:
    """Audit the mean of two noisy copies."""
    real = noisy(LAPLACE, BETA, PUBLIC, "epsilon=1")

    def run(dataset: int, rng: np.random.Generator, count: int) -> np.ndarray:
        return dataset + simulated_noise(real, (count, 2), rng).mean(axis=1)

    return audit(run, (0, 1), real.event, source=np.random.default_rng(seed), trials=trials)


def half_ops(trials: int, seed: int) -> Verdict:
    """Audit a draw at half the temperature: D for the range, where under replace it is 2 D."""
    pair = Adjacency("replace", 1, 2)
    real = ops(BETA, BETA.prior((0.01, 0.01)), pair, Guarantee.parse("epsilon=2"), truncation=0.2)
    twin = dataclasses.replace(real, temperature=real.temperature / 2)
    return audit(
        partial(simulate, twin),
        ((0, 2), (1, 2)),
        real.event,
        source=np.random.default_rng(seed),
        trials=trials,
        epsilons=(1.5, 1.75, 2),
    )


def untruncated(trials: int, seed: int) -> Verdict:
    """Audit a tempered draw that may lie anywhere."""
    adjacency, prior = Adjacency("replace"), BETA.prior((0.2, 0.2))
    real = ops(BETA, prior, adjacency, Guarantee.parse("epsilon=1"), truncation=0.2)
    twin = PosteriorSample("ops", BETA, prior, adjacency, 1 / real.temperature, 1.0, 1, real.guarantee)
    return audit_shipped(twin, BETA, noise=SeededNoise(seed), trials=trials, claim=real.event)


def tempered(trials: int, seed: int) -> Verdict:
    """Audit a diffused draw whose prior was raised to the likelihood's power too."""
    real = diffused(BETA, BETA.prior((6, 12)), PUBLIC, Guarantee.parse("epsilon=0.1,delta=0.01"))
    twin = dataclasses.replace(real, prior_scale=1 / real.likelihood_power)
    return audit_shipped(twin, BETA, noise=SeededNoise(seed), trials=trials, claim=real.event)


def unscaled(trials: int, seed: int) -> Verdict:
    """Audit a diffused draw against the pairs of Corollary 2 as printed, with n other records in place of r n."""
    n, power, adjacency = 4, 0.5, Adjacency("replace", 1, 4)
    printed = draw(betas=((1.0, 1.0 + n, power),))
    made = PosteriorSample("diffused", BETA, BETA.prior((1, 1)), adjacency, power, 1.0, 1, Guarantee.parse("mu=1"))
    return audit_shipped(made, BETA, noise=SeededNoise(seed), trials=trials, claim=printed)


def dropped(trials: int, seed: int) -> Verdict:
    """Audit a diffused draw, calibrated for 5000 records, of which all but one are missing and dropped."""
    real = diffused(BETA, BETA.prior((1, 1)), Adjacency("replace", 1, 5000), Guarantee.parse("epsilon=1,delta=0.01"))
    twin = dataclasses.replace(real, adjacency=Adjacency("replace"))
    return audit_shipped(twin, BETA, noise=SeededNoise(seed), trials=trials, claim=real.event)


def counted(trials: int, seed: int) -> Verdict:
    """Audit noisy successes beside the exact number of records, one of which can be dropped."""
    real = noisy(LAPLACE, BETA, PUBLIC, "epsilon=1")

    def run(dataset: tuple[int, int], rng: np.random.Generator, count: int) -> np.ndarray:
        successes, records = dataset
        noise = simulated_noise(real, (count,), rng)
        return np.stack([successes + noise, np.full(count, records)], axis=1)

    return audit(run, ((0, 99), (1, 100)), real.event, source=np.random.default_rng(seed), trials=trials)


def coarse(trials: int, seed: int) -> Verdict:
    """Audit a normal draw whose randomness was rounded before the mean was added: the mean shows in the last digits."""
    family, prior = NormalMeanFamily(1.0, -1.0, 1.0), NormalMeanFamily(1.0, -1.0, 1.0).prior((0, 1))
    precision = prior.precision + 100

    def run(total: float, rng: np.random.Generator, count: int) -> np.ndarray:
        steps = np.round(rng.standard_normal(count) / math.sqrt(precision), 3)
        return total / precision + steps

    claim = family.worst_draw(prior, PUBLIC)
    return audit(run, (-1.0, 1.0), claim, source=np.random.default_rng(seed), trials=trials)


def printed_gaussian(trials: int, seed: int) -> Verdict:
    """Audit Gaussian noise calibrated by a D^2/sigma^2, as [GeumlekSC17, sec. 5.1] prints it: too much, and safe."""
    real = noisy(ROUNDED_GAUSSIAN, BETA, PUBLIC, "rho=0.5")
    twin = dataclasses.replace(real, scale=real.scale * math.sqrt(2))
    return audit_shipped(twin, BETA, noise=SeededNoise(seed), trials=trials, claim=real.event)


def printed_gaussian_claim(trials: int, seed: int) -> Verdict:
    """Audit the same 2 dropped on the other side: sigma^2 = a D^2/(4 epsilon)."""
    return quieter(ROUNDED_GAUSSIAN, "rho=0.5", math.sqrt(2))(trials, seed)


HALVES = event("rounded-gaussian", sensitivity=0.6, scale=1.0)


def rounded_first(trials: int, seed: int) -> Verdict:
    """Audit a real statistic of sensitivity 0.6 that is rounded before the noise: it moves by 1."""
    noise = SeededNoise(seed)

    def run(statistic: float, _: object, count: int) -> np.ndarray:
        return np.array(noise.rounded_gaussian([round(statistic)] * count, scale=1.0))

    return audit(run, (0.2, 0.8), HALVES, source=None, trials=trials)


def rounded_last(trials: int, seed: int) -> Verdict:
    """Audit the same statistic with normal noise before it is rounded, which is safe."""
    rng = np.random.default_rng(seed)

    def run(statistic: float, _: object, count: int) -> np.ndarray:
        return np.rint(statistic + rng.normal(0, 1.0, count))

    return audit(run, (0.2, 0.8), HALVES, source=None, trials=trials)


def zero(trials: int, seed: int) -> Verdict:
    """Audit a mechanism without any noise."""

    def run(dataset: int, _: object, count: int) -> np.ndarray:
        return np.full(count, dataset)

    return audit(run, (0, 1), event("pure", epsilon=1.0), source=None, trials=trials)


TWINS = {
    "halved Laplace noise": Twin("scale/2", "a failure becomes a success", 40_000, quieter(LAPLACE, "epsilon=1", 2)),
    "halved Gaussian noise": Twin("scale/2", "a failure becomes a success", 40_000,
                                  quieter(ROUNDED_GAUSSIAN, "mu=1", 2)),
    "halved discrete Gaussian noise": Twin("scale/2", "a failure becomes a success", 40_000,
                                           quieter(GAUSSIAN, "rho=0.5", 2)),
    "rounding before the noise": Twin("round(x) + k", "a sum moves by 0.6 across a half", 40_000, rounded_first),
    "factor 2 forgotten, Laplace": Twin("l1 of an addition", "a record changes category", 40_000,
                                        one_sided(LAPLACE, "epsilon=1")),
    "factor 2 forgotten, Gaussian": Twin("l2 of an addition", "a record changes category", 400_000,
                                         one_sided(ROUNDED_GAUSSIAN, "mu=1")),
    "factor 2 forgotten, ops": Twin("T = D/epsilon", "no success or one, 1 failure", 400_000, half_ops),
    "prior tempered too": Twin("eta0 r", "no success or one, 99 failures", 200_000, tempered),
    "truncation forgotten": Twin("any theta", "one record, alone", 40_000, untruncated),
    "neighbours not scaled": Twin("n for r n", "no success or one, 3 failures", 2_000_000, unscaled),
    "Gaussian Renyi without its 2": Twin("D^2/(4 sigma^2)", "a failure becomes a success", 400_000,
                                         printed_gaussian_claim),
    "coarse rounding": Twin("rounded, then moved", "one record from end to end", 40_000, coarse),
    "drawn twice and averaged": Twin("mean of two", "a failure becomes a success", 40_000, averaged),
    "count taken as public, draw": Twin("n = 5000", "one record, all others dropped", 200_000, dropped),
    "count taken as public, printed": Twin("exact n", "a record is dropped", 4000, counted),
    "no noise": Twin("none", "any", 1000, zero),
}  # fmt: skip
