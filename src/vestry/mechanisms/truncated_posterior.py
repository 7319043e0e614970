"""One posterior sample by the exponential mechanism, truncated and tempered (OPS) [FouldsGWC16, sec. 3.1].

Draws from the posterior restricted to parameters of which every component is at least `truncation`, the likelihood
raised to the power 1/temperature. There one record's log-likelihood spans
D = log((1 - (d-1) a)/a), so the privacy loss of a draw spans at most 2 k D/T under replace and k D/T under add-remove,
k records a unit: a bounded range, which is that much pure epsilon and composes as the square over 8 in zCDP.
The prior is not tempered; the guarantee holds either way.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import betaincc, betainccinv

from vestry.errors import GuaranteeUnreachable, InvalidParameter
from vestry.ledger import OpenCharge
from vestry.mechanisms.posterior_sample import check_draws, grouped
from vestry.mechanisms.statistic_family import StatisticFamily
from vestry.noise import NoiseSource
from vestry.numerics import outward
from vestry.privacy.accountant import largest_parameter
from vestry.privacy.event import Event
from vestry.privacy.guarantee import Guarantee
from vestry.privacy.neighbours import Adjacency
from vestry.privacy.pricing import event
from vestry.releases import Draws
from vestry.schema.private import Private, reveal

if TYPE_CHECKING:
    from vestry.noise.bits import BitSource

STRONGEST = 1e20
THEOREM = (
    "The exponential mechanism over a truncated posterior: the privacy loss of a draw spans at most epsilon, which is"
    " epsilon-DP [FouldsGWC16, sec. 3.1] and epsilon^2/8-zCDP [CesarR21]."
)


@dataclass(frozen=True)
class TruncatedSample:
    """Draws from the truncated, tempered posterior.

    Privacy
    -------
    Bounded range 2 k D/T (replace) or k D/T (add-remove) for each draw, D = log((1 - (d-1) a)/a). By group the same:
    the ranges of the groups that a unit's records lie in add up, and a record that moves costs D/T where it was and
    where it comes to be.
    """

    family: StatisticFamily
    prior: Any
    adjacency: Adjacency
    truncation: float
    temperature: float
    draws: int
    guarantee: Guarantee
    unit: float = 1.0

    name = "ops"
    parameter = "temperature"
    theorem = THEOREM

    @property
    def value(self) -> float:
        """The temperature."""
        return self.temperature

    @property
    def event(self) -> Event:
        """What runs."""
        single = event_of(self.family, self.adjacency, self.truncation, self.temperature, self.draws)
        return single.under(self.adjacency.neighbours)

    charge = event  # the ledger is charged what runs

    def release(self, private: Private, opened: OpenCharge, noise: NoiseSource) -> tuple[Draws, ...]:
        """Update the prior by each group's private statistics (sums, then the count), tempered, and draw."""
        from vestry.noise.bits import Bits

        opened.take()
        bits = Bits(noise)
        return tuple(self._drawn(group, bits) for group in grouped(reveal(private), self.adjacency))

    def _drawn(self, statistics: Sequence[int], bits: BitSource) -> Draws:
        *units, count = statistics
        sums = [Fraction(self.unit) * each for each in units]
        parameters = self.family.exact_parameters(self.prior, sums, count, likelihood_power=1 / self.temperature)
        return self.family.exact_draws(bits, parameters, self.draws, truncation=self.truncation)


def ops(
    family: StatisticFamily,
    prior: Any,
    adjacency: Adjacency,
    guarantee: Guarantee,
    *,
    truncation: float,
    draws: int = 1,
) -> TruncatedSample:
    """Find the lowest temperature, at least 1, that meets the guarantee."""
    spans = outward(span(family, adjacency, truncation))
    check_draws(draws)
    check_prior(prior.concentrations)
    bound = guarantee.under(adjacency.neighbours)
    temperature = coolest(spans, bound, draws)
    return TruncatedSample(family, prior, adjacency, truncation, temperature, draws, bound)


def check_prior(numbers: Sequence[float]) -> None:
    """Refuse a prior so strong that an exact draw would take for ever, before anything is charged."""
    if max(numbers) > STRONGEST:
        raise InvalidParameter("a prior", max(numbers), f"at most {STRONGEST:g} for ops", "a smaller number")


def coolest(spans: float, guarantee: Guarantee, draws: int) -> float:
    """Return the lowest temperature, at least 1, at which draws meet the guarantee; `spans` is at temperature 1."""
    try:
        epsilon = largest_parameter(lambda x: event("exponential", epsilon=x, count=draws), guarantee, at_most=spans)
    except GuaranteeUnreachable:
        raise GuaranteeUnreachable(f"{guarantee} by ops", "ask for a pure epsilon, or for epsilon and delta") from None
    return max(1.0, outward(outward(spans / epsilon)))


def event_of(family: StatisticFamily, adjacency: Adjacency, truncation: float, temperature: float, draws: int) -> Event:
    """Record draws at this temperature, checking truncation and temperature."""
    spans = span(family, adjacency, truncation)
    if not 1 <= temperature < math.inf:
        raise InvalidParameter("temperature", temperature, "at least 1", "for example temperature=2.5")
    return event("exponential", epsilon=outward(spans / temperature), count=draws)


def span(family: StatisticFamily, adjacency: Adjacency, truncation: float) -> float:
    """Return how much one unit can move the log-likelihood over the truncated parameters, at temperature 1."""
    categories = family.probabilities()
    if categories is None:
        instead = "its log-likelihood has no bound; use laplace, gaussian or diffused"
        raise GuaranteeUnreachable(f"ops for {family.name}", instead)
    if isinstance(truncation, bool) or not isinstance(truncation, float) or not 0 < truncation < 1 / categories:
        allowed = f"above 0 and below 1/{categories}"
        raise InvalidParameter("truncation", truncation, allowed, f"for example {0.2 / categories:g}")
    single = math.log((1 - (categories - 1) * truncation) / truncation)
    return adjacency.changes * single


def truncated_beta(
    rng: np.random.Generator, alpha: float, beta: float, low: float, high: float, size: int
) -> np.ndarray:
    """Draw from Beta(alpha, beta) restricted to [low, high] in doubles, by its inverse distribution function.

    The fast path, for experiments and comparisons. A release never uses it: see `vestry.noise.exact_sampling`.

    Far in a tail, where doubles have no mass left, by rejection from the exponential that touches the log-density.
    """
    if alpha / (alpha + beta) > (low + high) / 2:  # reflect, so that the mass lies towards low
        return 1 - truncated_beta(rng, beta, alpha, 1 - high, 1 - low, size)
    above = betaincc(alpha, beta, np.array([low, high]))
    if above[0] < 1e-250:
        return _beta_tail(rng, alpha, beta, low, high, size)
    points = above[1] + (above[0] - above[1]) * rng.random(size)
    drawn: np.ndarray = np.clip(betainccinv(alpha, beta, points), low, high)
    return drawn


def _beta_tail(rng: np.random.Generator, alpha: float, beta: float, low: float, high: float, size: int) -> np.ndarray:
    """Draw beyond `low`, where the log-density falls: its tangent at `low` is above it where it is concave.

    With alpha below 1 the part (alpha - 1) log(theta) is not concave, but falls; there the tangent is of the rest.
    """
    slope = (beta - 1) / (1 - low) - max(0.0, alpha - 1) / low
    span = -math.expm1(-slope * (high - low))
    drawn = np.empty(size)
    for i in range(size):
        while True:
            step = -math.log1p(-rng.random() * span) / slope
            theta = low + step
            log_ratio = (alpha - 1) * math.log1p(step / low) + (beta - 1) * math.log1p(-step / (1 - low))
            if math.log(1 - rng.random()) < log_ratio + slope * step:
                break
        drawn[i] = min(theta, high)
    return drawn


def truncated_dirichlet(rng: np.random.Generator, alphas: np.ndarray, low: float, size: int) -> np.ndarray:
    """Draw from a Dirichlet whose components are all at least `low`, in doubles.

    The fast path, for experiments and comparisons. A release never uses it: see `vestry.noise.exact_sampling`.

    One pass of truncated Betas, stick by stick, is *not* that law for three or more categories: it forgets the mass
    that each stage leaves for the rest. So the pass only proposes, and is accepted with that mass, relative to the
    most it can be. Small components go first, which keeps the stick long and the acceptance high.
    """
    order = np.argsort(alphas, kind="stable")
    best = sum(_log_mass(alphas[order], i, 1 - i * low, low) for i in range(1, len(alphas) - 1))
    rows: list[np.ndarray] = []
    while len(rows) < size:
        row, log_mass = _stick_pass(rng, alphas[order], low)
        if math.log(1 - rng.random()) < log_mass - best:
            rows.append(row[np.argsort(order)])
    return np.array(rows)


def _stick_pass(rng: np.random.Generator, alphas: np.ndarray, low: float) -> tuple[np.ndarray, float]:
    """Break the stick once; return the pieces and the log of the masses that the later stages left out."""
    d, rest, log_mass = len(alphas), 1.0, 0.0
    row = np.empty(d)
    for i in range(d - 1):
        if i > 0:  # the first stage's mass is the same for every proposal
            log_mass += _log_mass(alphas, i, rest, low)
        ends = low / rest, 1 - (d - 1 - i) * low / rest
        share = truncated_beta(rng, float(alphas[i]), float(alphas[i + 1 :].sum()), *ends, 1)
        row[i] = rest * float(share[0])
        rest -= row[i]
    row[d - 1] = rest
    return row, log_mass


def _log_mass(alphas: np.ndarray, i: int, rest: float, low: float) -> float:
    """Return the log-probability that stage i stays inside the truncation, with `rest` of the stick left."""
    a, b = float(alphas[i]), float(alphas[i + 1 :].sum())
    ends = low / rest, 1 - (len(alphas) - 1 - i) * low / rest
    mass = float(np.diff(betaincc(a, b, np.array(ends[::-1])))[0])
    if mass > 1e-250:
        return math.log(mass)
    import flint

    with flint.ctx.workprec(256):
        lower, upper = (1 - flint.arb(end) for end in ends)
        inside = lower.beta_lower(b, a, regularized=True) - upper.beta_lower(b, a, regularized=True)
        return float(inside.log())
