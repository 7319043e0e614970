"""Hidden states from noisy counts whose noise is summed out: a Gibbs sampler in which the true counts are latent.

Noisy counts z[c,f,l] of cell c (a region and a month), feature f, level l; states s and transitions as in
`vestry.hmm.state_model`; P is the published distribution of the noise. Given the cell's rate lambda_c,

    n[c,f,l] ~ Poisson(lambda_c p[s_c,f,l]),    z[c,f,l] = n[c,f,l] + noise,    lambda_c ~ Gamma(shape, rate).

One sweep draws, each given all that is not named,

1. states, the counts summed out: L_c(s) = prod_(f,l) sum_n Poisson(n; lambda_c p[s,f,l]) P(z[c,f,l] - n), by forward
   filtering and backward sampling; then counts given their states, by inverse CDF over the terms of the same sums;
2. tables p[s,f,.] ~ Dirichlet(beta + the counts of the cells in s), for as sum_l p = 1 the Poissons add only a factor
   exp(-lambda_c) that does not hold p; transitions ~ Dirichlet(alpha + moves);
3. rates lambda_c ~ Gamma(shape + sum_(f,l) n, rate + F), F the number of features: each adds a factor exp(-lambda_c).

Given its rate, a cell whose every level is counted has, without noise, the same likelihood of states and tables as the
multinomial model of `vestry.hmm.gibbs`: prod_l Poisson(n_l; lambda p_l) = Poisson(N; lambda) Multinomial(n; N, p). That
the features of a cell share one total is not used.

Beside a noisy total (public cells), a feature of two levels is counted by the first alone. There N_c ~
Poisson(lambda_c) is latent, too, and shared: n[c,f,1] ~ Binomial(N_c, p[s,f,1]), and the second level has N_c -
n[c,f,1]. States and these counts are drawn given N_c, then N_c ~ Poisson(N; lambda_c) P(z_c - N) prod_f Binomial(n_f;
N, p_f). Such features add nothing to the rates, and the total counts as one feature.

Conditions: the noise is independent between counts and its scale is known; shape > 0 and rate >= 0. With rate 0 the
prior of lambda_c is improper, and its posterior is proper all the same: the noise's tails fall exponentially, and near
0 the density is lambda^(shape - 1). The true counts as data augmentation: [JuAGR22]; sums over them: [BernsteinS18].
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from vestry.errors import InvalidParameter
from vestry.hmm import latent_counts_kernels as kernels
from vestry.hmm.hidden_states import LARGEST_COUNT, LARGEST_SCALE
from vestry.hmm.state_model import CellLayout, StateDraws, StatePrior, chain, layout, prior
from vestry.posterior.discrete_noise import IntegerNoise, Laplace, RoundedGaussian
from vestry.validation import require_number, require_whole

Array = np.ndarray
Noise = IntegerNoise

# Noise so small that one step has probability e^-80 is none; a larger slope would overflow.
_STEEPEST = 80.0
# Rounded noise of a smaller scale is none, too: one step has probability e^-92.
_UNROUNDED = 0.037
# The law of rounded noise is tabulated over so many scales, and at most so many steps: then its slope is a density's.
_TABLED = 40
_MOST_TABLED = 2**16
# Of tabulated likelihoods in each chain: 14 megabytes.
_MOST_PANELS = 2**17
# Sweeps that take noisy counts as exact, of which the last path starts the chain: from a random path it needs longer.
START = 50


@dataclass(frozen=True)
class NoiseAwareDraws:
    """Kept draws of a hidden Markov model from noisy counts.

    Attributes
    ----------
    states
        Paths, emission tables (both levels of a feature that is counted by one) and transitions.
    rates
        Each cell's expected number of entries, (sweeps, batch, regions, months); 0 where a cell is held out.
    """

    states: StateDraws
    rates: Array


@dataclass(frozen=True)
class RatePrior:
    """Gamma(shape, rate) of a cell's expected number of entries; shape 1 and rate 0 is flat."""

    shape: float = 1.0
    rate: float = 0.0


FLAT = RatePrior()


@dataclass(frozen=True)
class NoisyCells:
    """Noisy counts in the form that sweeps use.

    Attributes
    ----------
    data
        The layout of the cells, with the counts cut at 0, from which a chain starts.
    noisy
        (batch or 1, cells, levels of all features); what stands for a second level without a count is not used.
    totals
        (batch or 1, cells); (1, 0) if there are none.
    kinds
        How each level is counted; see `latent_counts_kernels.NoisyChain`.
    noise
        The distribution of the noise.
    """

    data: CellLayout
    noisy: Array
    totals: Array
    kinds: Array
    noise: Noise

    @property
    def exposure(self) -> float:
        """How many sums of counts are Poisson(lambda_c): features whose every level is counted, and the total."""
        full = sum(self.kinds[at][0] == kernels.POISSON for at in self.data.features)
        return float(full + (self.totals.size > 0))

    @property
    def form(self) -> kernels.NoiseForm:
        """The noise as sums over counts use it."""
        nothing = np.zeros(2)
        if isinstance(self.noise, Laplace):
            slope = min(1 / self.noise.scale, _STEEPEST)
            return kernels.NoiseForm(kernels.LAPLACE, slope, math.exp(slope), nothing)
        slope = min(0.5 / self.noise.scale**2, _STEEPEST)
        if isinstance(self.noise, RoundedGaussian) and self.noise.scale > _UNROUNDED:
            k = np.arange(min(math.ceil(_TABLED * self.noise.scale), _MOST_TABLED) + 2.0)
            extra = self.noise.log_mass(k) + slope * k**2
            return kernels.NoiseForm(kernels.ROUNDED, slope, math.exp(-2 * slope), extra)
        return kernels.NoiseForm(kernels.GAUSSIAN, slope, math.exp(-2 * slope), nothing)


def noise_aware_gibbs(
    counts: Sequence[Array],
    *,
    noise: Noise,
    states: int,
    sweeps: int,
    burn_in: int,
    rng: np.random.Generator,
    totals: Array | None = None,
    alpha: float = 1.0,
    beta: float = 1.0,
    rates: RatePrior = FLAT,
    chains: int = 1,
    held_out: Array | None = None,
) -> NoiseAwareDraws:
    """Draw states, emission tables, transitions and rates from noisy counts, the noise summed out.

    Parameters
    ----------
    counts
        For each feature (regions, months, levels), or with a leading axis over splits: noisy whole numbers as they were
        released, negative ones too. Beside totals, a feature of one column has two levels, of which it is the first.
    noise
        The noise of every count and total: `vestry.posterior.discrete_noise.noise_of` reads it.
    totals
        Noisy totals, (regions, months), or with the leading axis; None if every level is counted.
    rates
        The prior of a cell's expected number of entries.
    states, alpha, beta, sweeps, burn_in, rng, chains, held_out
        As in `vestry.hmm.gibbs.collapsed_gibbs`.
    """
    cells = noisy_cells(counts, noise=noise, totals=totals, held_out=held_out, chains=chains)
    model = prior(states, alpha, beta, cells.data.levels, None)
    require_number("shape", rates.shape, above=0)
    require_number("rate", rates.rate, least=0)
    return _chain(cells, model, rates, sweeps, burn_in, rng)


def noisy_cells(
    counts: Sequence[Array], *, noise: Noise, totals: Array | None, held_out: Array | None, chains: int
) -> NoisyCells:
    """Put noisy counts side by side; a second level that has no count gets what the noisy total leaves."""
    tables, kinds = [], []
    for table in (np.asarray(table, float) for table in counts):
        short = totals is not None and table.shape[-1] == 1
        tables.append(np.concatenate([table, np.asarray(totals)[..., None] - table], axis=-1) if short else table)
        kinds += [kernels.BINOMIAL, kernels.REST] if short else [kernels.POISSON] * table.shape[-1]
    data = layout(tables, held_out=held_out, chains=chains, temperature=1.0)
    size = data.regions * data.months
    noisy = np.concatenate(tables, axis=-1).reshape(-1, size, len(kinds))
    whole = np.zeros((1, 0)) if totals is None else np.asarray(totals, float).reshape(-1, size)
    if len({len(noisy), len(whole), data.batch} - {1}) > 1:
        raise InvalidParameter("totals", whole.shape, "as many splits as the counts have", "one for each split")
    if not (np.isfinite(whole).all() and (np.rint(whole) == whole).all() and (np.rint(noisy) == noisy).all()):
        raise InvalidParameter("counts", "some that are not", "whole numbers", "the noisy counts as they were released")
    largest = max(np.abs(noisy).max(), np.abs(whole).max(initial=0.0))
    if largest > LARGEST_COUNT or noise.scale > LARGEST_SCALE:
        allowed = f"at most {LARGEST_COUNT:.0e}, of noise of scale {LARGEST_SCALE:.0e}, where it is summed out"
        raise InvalidParameter("noisy counts", largest, allowed, 'method="plug-in", which takes them as exact')
    return NoisyCells(data, np.ascontiguousarray(noisy), np.ascontiguousarray(whole), np.array(kinds), noise)


def _chain(
    cells: NoisyCells, model: StatePrior, rates: RatePrior, sweeps: int, burn_in: int, rng: np.random.Generator
) -> NoiseAwareDraws:
    """Run every member of the batch."""
    require_whole("sweeps", sweeps)
    require_whole("burn_in", burn_in, least=0, most=sweeps - 1)
    data = cells.data
    start = chain(data, model, blocked=True, sweeps=START, burn_in=START - 1, rng=rng).paths[0]

    def run(member: int, rng: np.random.Generator) -> tuple[Array, ...]:
        one = _member(cells, model, rates, member, rng, burn_in=burn_in, length=sweeps - burn_in)
        one.paths[0] = start[member].ravel()
        kernels.run(one, 0, sweeps + 1)
        return one.paths, np.exp(one.tables), one.transitions, one.rates

    with ThreadPoolExecutor(min(data.batch, os.cpu_count() or 1)) as pool:
        done = list(pool.map(run, range(data.batch), [rng] if data.batch == 1 else rng.spawn(data.batch)))
    shape = sweeps - burn_in, data.batch, data.regions, data.months
    paths, tables, transitions, chain_rates = (np.stack(parts, axis=1) for parts in zip(*done, strict=True))
    emissions = tuple(tables[..., feature] for feature in data.features)
    return NoiseAwareDraws(StateDraws(paths.reshape(shape), emissions, transitions), chain_rates.reshape(shape))


def _slots(wanted: int) -> int:
    """Return the power of two above, at most `_MOST_PANELS`."""
    return min(1 << max(wanted, 2).bit_length(), _MOST_PANELS)


def _member(
    cells: NoisyCells, model: StatePrior, rates: RatePrior, member: int, rng: np.random.Generator, *, burn_in: int,
    length: int,
) -> kernels.NoisyChain:  # fmt: skip
    """Make room for one chain, and start it."""
    data, states = cells.data, model.states
    size, levels = data.regions * data.months, sum(data.levels)
    noisy, totals = cells.noisy[member % len(cells.noisy)], cells.totals[member % len(cells.totals)]
    true = np.maximum(noisy, 0.0)
    firsts = np.flatnonzero(cells.kinds == kernels.BINOMIAL)
    sizes = np.maximum(totals, true[:, firsts].max(axis=1, initial=0.0)) if totals.size else np.zeros(size)
    true[:, firsts + 1] = sizes[:, None] - true[:, firsts]
    return kernels.NoisyChain(
        rng=rng,
        noisy=noisy,
        totals=totals,
        kinds=cells.kinds,
        seen=data.seen[member],
        ends=np.cumsum(data.levels, dtype=int),
        noise=cells.form,
        shape=float(rates.shape),
        rate=float(rates.rate),
        exposure=cells.exposure,
        months=data.months,
        alpha=model.alpha,
        beta=model.beta,
        burn_in=burn_in,
        panels=np.full((_slots(8 * states * noisy.size), kernels.PANEL_WIDTH), -np.inf),
        weights=np.empty((size, states)),
        moves=np.empty((states + 1, states)),
        sums=np.empty((states, levels)),
        counts=true,
        sizes=sizes,
        paths=np.zeros((length, size), int),
        tables=np.empty((length, states, levels)),
        transitions=np.empty((length, states + 1, states)),
        rates=np.empty((length, size)),
    )
