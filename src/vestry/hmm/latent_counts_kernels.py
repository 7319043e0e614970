"""Sums over a true count that noise hides, and the sweeps that use them, compiled for the processor.

A true count n has weight w(n) = prior(n) P(z - n), z the noisy count. The prior is Poisson or binomial, the noise
discrete Laplace or Gaussian, or a rounded normal number. prior(n + 1)/prior(n) is mu/(n + 1) for a Poisson of mean mu,
and (N - n)/(n + 1) times p/(1 - p) for a binomial of N and p. Both fall with n, and so does P(z - n - 1)/P(z - n), so w
is log-concave: it has one summit, and falls on both sides at least as fast as a geometric series. The window is what
lies around the summit until a term is below 1e-17 of the sum so far. Sum and draw take the same terms in the same
order, outward from the summit, so a draw by the inverse of that sum looks at few of them.

Sums of Poisson weights are needed for every cell, level and state of every sweep, but z is a whole number, and log
sum_n Poisson(n; t^2) P(z - n) is smooth in t. So it is tabulated, as polynomials over panels of t, each made when it
is first needed and checked at two points; where it is not good to 1e-11, or no place is left, the sum is made anew. A
draw takes its total from there, too, where the logarithms of its terms are good to as much: counts up to 1e4.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from vestry.hmm.gibbs_kernels import blocked, compiled, count_moves, draw_tables, exponentials

Array = np.ndarray

POISSON, BINOMIAL, REST = 0, 1, 2
_NEGLIGIBLE = 1e-17
_LEAST, _LARGEST = -650.0, 600.0  # of exponents
_EXACT = 1e4  # counts and means up to which the logarithm of a weight is good to 1e-11

# Polynomials on panels of width 1/_PANELS by values at Chebyshev nodes in [-1, 1]: coefficients = values @ _FROM_NODES.
_PANELS, _NODES, _GOOD = 4.0, 12, 1e-11
_AT = np.cos(np.pi * (np.arange(_NODES) + 0.5) / _NODES)
_FROM_NODES = np.linalg.inv(np.vander(_AT, increasing=True)).T.copy()
_CHECKS = (-0.97, 0.31)
PANEL_WIDTH = _NODES + 2  # a key, whether it is good, coefficients


LAPLACE, GAUSSIAN, ROUNDED = 0, 1, 2


class NoiseForm(NamedTuple):
    """Noise k with log P(k) = -slope |k|, or -slope k^2 if Gaussian; `ratio` is exp(slope), or exp(-2 slope).

    Attributes
    ----------
    law
        LAPLACE, GAUSSIAN, or ROUNDED: the noise is Gaussian but for what `extra` adds.
    slope, ratio
        See above.
    extra
        What rounding adds to log P(k), at k = 0, 1, 2 ...; beyond the table its last slope goes on.
    """

    law: int
    slope: float
    ratio: float
    extra: Array


class NoisyChain(NamedTuple):
    """One member of a batch: what it is given, where it is, and what is kept of it.

    Attributes
    ----------
    rng
        Its own generator.
    noisy, totals
        Noisy counts, (cells, levels of all features), and noisy totals, (cells), or none.
    kinds
        Of each level: POISSON; BINOMIAL, the first of two beside a total; REST, the second of two, which has no count.
    seen
        1 where a cell is in training, (cells).
    ends
        Where the levels of each feature end.
    noise
        The distribution of the noise.
    shape, rate, exposure
        A cell's rate is Gamma(shape, rate) before, and `exposure` sums of counts are Poisson of that mean.
    months, alpha, beta, burn_in
        As in `gibbs_kernels.ChainState`.
    panels
        Tabulated likelihoods, (a power of two, PANEL_WIDTH); keys are -infinity at first.
    weights, moves, sums
        Of this sweep: likelihoods, (cells, states); moves, (states + 1, states); counts of levels, (states, levels).
    counts, sizes
        True counts, (cells, levels), and true totals, (cells), of this sweep.
    paths, tables, transitions, rates
        Kept draws, (kept sweeps, ...), the emission tables as logarithms. Until the first is kept, its place is used.
    """

    rng: np.random.Generator
    noisy: Array
    totals: Array
    kinds: Array
    seen: Array
    ends: Array
    noise: NoiseForm
    shape: float
    rate: float
    exposure: float
    months: int
    alpha: float
    beta: float
    burn_in: int
    panels: Array
    weights: Array
    moves: Array
    sums: Array
    counts: Array
    sizes: Array
    paths: Array
    tables: Array
    transitions: Array
    rates: Array


@compiled
def run(chain, first, stop):  # type: ignore[no-untyped-def]
    """Alternate draws of states with counts, of totals, and of tables, transitions and rates.

    Sweeps are counted from 1; number 0 leaves states and counts as they are.
    """
    for number in range(first, stop):
        before, now = max(number - chain.burn_in - 2, 0), max(number - chain.burn_in - 1, 0)
        path, tables, rates = chain.paths[now], chain.tables[before], chain.rates[before]
        if number > 0:
            likelihoods(chain, tables, rates, chain.weights)
            exponentials(chain.weights.reshape(-1))
            blocked(chain.rng, chain.weights, path, chain.transitions[before], chain.months)
            draw_counts(chain, path, tables, rates)
            draw_sizes(chain, path, tables, rates)
        count_moves(path, chain.moves, chain.months)
        draw_tables(chain, path, now)
        draw_rates(chain, chain.rates[now])


@compiled
def likelihoods(chain, tables, rates, logs):  # type: ignore[no-untyped-def]
    """Write the log likelihood of each cell in each state, (cells, states), the largest made 0; 0 where held out."""
    cells, states = logs.shape
    roots = np.exp(tables / 2.0)
    logs[:] = 0.0
    for cell in range(cells):
        if chain.seen[cell] == 0.0:
            continue
        root, log_rate, top = np.sqrt(rates[cell]), np.log(rates[cell]), -np.inf
        for v in range(len(chain.kinds)):
            z = chain.noisy[cell, v]
            for k in range(states):
                if chain.kinds[v] == POISSON:
                    logs[cell, k] += log_sum_by_panel(chain.panels, z, root * roots[k, v], chain.noise)
                elif chain.kinds[v] == BINOMIAL:
                    prior = count_prior(chain, cell, v, tables[k], log_rate)
                    logs[cell, k] += log_sum(prior, z, chain.noise)
        for k in range(states):
            top = max(top, logs[cell, k])
        for k in range(states):
            logs[cell, k] = max(logs[cell, k] - top, _LEAST)


@compiled
def log_sum_by_panel(panels, z, root, noise):  # type: ignore[no-untyped-def]
    """Return log sum_n Poisson(n; root^2) P(z - n), from its panel if there is one."""
    panel = np.floor(root * _PANELS)
    key, x = z * 2.0**20 + panel, 2.0 * (root * _PANELS - panel) - 1.0
    slot = (np.int64(z) * 211 + np.int64(panel)) & (len(panels) - 1)  # panels of one z lie side by side
    for _ in range(2):
        if panels[slot, 0] == -np.inf:
            fill_panel(panels, slot, z, panel, noise)
            panels[slot, 0] = key
        if panels[slot, 0] == key:
            if panels[slot, 1] == 0.0:
                break
            return polynomial(panels, slot, x)
        slot = (slot + len(panels) // 2) & (len(panels) - 1)
    return log_sum(poisson(root), z, noise)


@compiled
def polynomial(panels, slot, x):  # type: ignore[no-untyped-def]
    """Return the value of a panel's polynomial."""
    even, odd, square = 0.0, 0.0, x * x  # two sums side by side take half the time
    for i in range(_NODES, 0, -2):
        even, odd = even * square + panels[slot, i], odd * square + panels[slot, i + 1]
    return even + x * odd


@compiled
def fill_panel(panels, slot, z, panel, noise):  # type: ignore[no-untyped-def]
    """Make a panel's polynomial, and note whether it is good."""
    centre = log_sum(poisson((panel + 0.5) / _PANELS), z, noise)
    for j in range(_NODES):
        panels[slot, 2 + j] = 0.0
    for i in range(_NODES):
        value = log_sum(poisson((panel + 0.5 + 0.5 * _AT[i]) / _PANELS), z, noise) - centre
        for j in range(_NODES):
            panels[slot, 2 + j] += value * _FROM_NODES[i, j]
    panels[slot, 2] += centre
    panels[slot, 1] = 1.0
    for x in _CHECKS:
        wanted = log_sum(poisson((panel + 0.5 + 0.5 * x) / _PANELS), z, noise)
        if not abs(polynomial(panels, slot, x) - wanted) < _GOOD:
            panels[slot, 1] = 0.0


@compiled
def draw_counts(chain, path, tables, rates):  # type: ignore[no-untyped-def]
    """Draw every true count given its cell's state; what a total leaves is not drawn here."""
    roots = np.exp(tables / 2.0)
    for cell in range(len(path)):
        if chain.seen[cell] > 0.0:
            root, log_rate, k = np.sqrt(rates[cell]), np.log(rates[cell]), path[cell]
            for v in range(len(chain.kinds)):
                if chain.kinds[v] != REST:
                    prior, z = count_prior(chain, cell, v, tables[k], log_rate), chain.noisy[cell, v]
                    start = summit(prior, z, chain.noise)
                    if prior.size < 0.0 and max(start, prior.factor) < _EXACT:
                        log = log_sum_by_panel(chain.panels, z, root * roots[k, v], chain.noise)
                        total = np.exp(log - log_weight(prior, start, z, chain.noise))
                    else:
                        total, _ = walk(prior, start, z, chain.noise, np.inf)
                    place = chain.rng.random() * total
                    _, chain.counts[cell, v] = walk(prior, start, z, chain.noise, place)


@compiled
def draw_sizes(chain, path, tables, rates):  # type: ignore[no-untyped-def]
    """Draw every true total given the counts beside it, then what it leaves for the second of two levels.

    The weight is Poisson(N; lambda) P(z - N) prod Binomial(n_f; N, p_f), N at least every n_f. Its ratio from N to N +
    1, lambda/(N + 1) prod (1 - p_f) (N + 1)/(N + 1 - n_f) times the noise's, falls with N.
    """
    for cell in range(len(chain.totals)):
        if chain.seen[cell] > 0.0:
            log_factor, counts = np.log(rates[cell]), chain.counts[cell]
            for v in range(len(chain.kinds)):
                if chain.kinds[v] == REST:
                    log_factor += tables[path[cell], v]
            size = draw_size(chain, counts, cell, log_factor)
            chain.sizes[cell] = size
            for v in range(len(chain.kinds)):
                if chain.kinds[v] == REST:
                    counts[v] = size - counts[v - 1]


@compiled
def draw_size(chain, counts, cell, log_factor):  # type: ignore[no-untyped-def]
    """Draw one total; see `draw_sizes`."""
    total, _ = walk_sizes(chain, counts, cell, log_factor, np.inf)
    _, new = walk_sizes(chain, counts, cell, log_factor, chain.rng.random() * total)
    return new


@compiled
def walk_sizes(chain, counts, cell, log_factor, place):  # type: ignore[no-untyped-def]
    """Add up weights of totals, as `walk` does those of counts, from the total of the sweep before."""
    start, z = chain.sizes[cell], chain.totals[cell]
    total, n, term = 1.0, start, 1.0
    if place < total:
        return total, start
    while term > _NEGLIGIBLE * total:
        term *= np.exp(min(size_step(chain, counts, n, z, log_factor), _LARGEST))
        n, total = n + 1.0, total + term
        if place < total:
            return total, n
    n, term = start, 1.0
    while term > _NEGLIGIBLE * total:
        n -= 1.0
        term *= np.exp(min(-size_step(chain, counts, n, z, log_factor), _LARGEST))
        total += term
        if place < total:
            return total, n
    return total, start


@compiled
def size_step(chain, counts, n, z, log_factor):  # type: ignore[no-untyped-def]
    """Return the log weight of n + 1 less that of n; infinite where n is too small."""
    if n < 0.0:
        return np.inf
    log = log_factor - np.log(n + 1.0) + noise_step(n, z, chain.noise)
    for v in range(len(chain.kinds)):
        if chain.kinds[v] == BINOMIAL:
            left = n + 1.0 - counts[v]
            if left <= 0.0:
                return np.inf
            log += np.log((n + 1.0) / left)
    return log


@compiled
def draw_rates(chain, rates):  # type: ignore[no-untyped-def]
    """Draw lambda ~ Gamma(shape + the counts that have their own Poisson, rate + exposure); 0 where held out."""
    for cell in range(len(rates)):
        shape = chain.shape
        for v in range(len(chain.kinds)):
            if chain.kinds[v] == POISSON:
                shape += chain.counts[cell, v]
        if len(chain.totals) > 0:
            shape += chain.sizes[cell]
        rates[cell] = 0.0
        if chain.seen[cell] > 0.0:
            rates[cell] = max(chain.rng.standard_gamma(shape) / (chain.rate + chain.exposure), 1e-300)


# --- one count --------------------------------------------------------------------------------------------------------


class CountPrior(NamedTuple):
    """A Poisson or a binomial: prior(n + 1)/prior(n) = mean/(n + 1), or odds (size - n)/(n + 1).

    Attributes
    ----------
    factor
        The mean, or the odds p/(1 - p).
    size
        The binomial's N; -1 for a Poisson.
    log_p, log_q
        Logarithms of p and 1 - p; of the mean and 1 for a Poisson.
    """

    factor: float
    size: float
    log_p: float
    log_q: float


@compiled
def poisson(root):  # type: ignore[no-untyped-def]
    """Return a Poisson of mean root^2."""
    return CountPrior(root * root, -1.0, 2.0 * np.log(root) if root > 0.0 else -np.inf, 0.0)


@compiled
def count_prior(chain, cell, v, logs, log_rate):  # type: ignore[no-untyped-def]
    """Return the prior of a level's count in a cell, by a state's log table."""
    if chain.kinds[v] == POISSON:
        log_mean = log_rate + logs[v]
        return CountPrior(np.exp(log_mean), -1.0, log_mean, 0.0)
    odds = np.exp(min(logs[v] - logs[v + 1], _LARGEST))
    return CountPrior(odds, chain.sizes[cell], logs[v], logs[v + 1])


@compiled
def prior_step(prior, n):  # type: ignore[no-untyped-def]
    """Return (n + 1) prior(n + 1)/prior(n)."""
    return prior.factor if prior.size < 0.0 else prior.factor * (prior.size - n)


@compiled
def noise_step(n, z, noise):  # type: ignore[no-untyped-def]
    """Return log P(z - n - 1) - log P(z - n)."""
    if noise.law == LAPLACE:
        return noise.slope if n < z else -noise.slope
    step = noise.slope * (2.0 * (z - n) - 1.0)
    if noise.law == ROUNDED:
        step += extra_at(noise.extra, z - n - 1.0) - extra_at(noise.extra, z - n)
    return step


@compiled
def extra_at(extra, k):  # type: ignore[no-untyped-def]
    """Return what rounding adds to log P(k)."""
    size, last = abs(k), len(extra) - 1
    if size <= last:
        return extra[np.int64(size)]
    return extra[last] + (size - last) * (extra[last] - extra[last - 1])


@compiled
def summit(prior, z, noise):  # type: ignore[no-untyped-def]
    """Return a count at or beside the largest weight."""
    if prior_step(prior, 0.0) == 0.0:
        return 0.0
    if noise.law == LAPLACE:
        low, high = sloped_summit(prior, 1.0 / noise.ratio), sloped_summit(prior, noise.ratio)
        return min(max(z, low), high)
    if prior.size < 0.0:
        start = np.floor(gaussian_summit(prior.log_p, z, noise.slope))
        return start if noise.law == GAUSSIAN else climbed(prior, start, z, noise)
    low, high = 0.0, prior.size
    while low < high:
        n = np.floor((low + high) / 2.0)
        if np.log(prior_step(prior, n) / (n + 1.0)) + noise_step(n, z, noise) > 0.0:
            low = n + 1.0
        else:
            high = n
    return low


@compiled
def climbed(prior, n, z, noise):  # type: ignore[no-untyped-def]
    """Return the count of the largest weight, from one near it."""
    while prior.log_p - np.log(n + 1.0) + noise_step(n, z, noise) > 0.0:
        n += 1.0
    while n > 0.0 and prior.log_p - np.log(n) + noise_step(n - 1.0, z, noise) < 0.0:
        n -= 1.0
    return n


@compiled
def sloped_summit(prior, slope):  # type: ignore[no-untyped-def]
    """Return the first count from which prior(n) slope^n does not rise."""
    factor = prior.factor * slope
    if prior.size < 0.0:
        return max(np.ceil(factor - 1.0), 0.0)
    return max(np.ceil((factor * prior.size - 1.0) / (1.0 + factor)), 0.0)


@compiled
def gaussian_summit(log_mean, z, slope):  # type: ignore[no-untyped-def]
    """Return x with log(mean) - log(x) + slope (2 (z - x) + 1) = 0: y + log y = D for y = 2 slope x, by Newton."""
    top = log_mean + slope * (2.0 * z + 1.0) + np.log(2.0 * slope)
    y = top - np.log(top) if top > 2.0 else np.exp(min(top, 0.5))
    for _ in range(4):
        y *= (1.0 + top - np.log(y)) / (1.0 + y) if y > 0.0 else 1.0
    return y / (2.0 * slope)


@compiled
def log_weight(prior, n, z, noise):  # type: ignore[no-untyped-def]
    """Return log prior(n) P(z - n), but for the noise's own constant."""
    far = z - n
    log = -noise.slope * abs(far) if noise.law == LAPLACE else -noise.slope * far * far
    if noise.law == ROUNDED:
        log += extra_at(noise.extra, far)
    log -= math.lgamma(n + 1.0)
    if prior.size < 0.0:
        log -= prior.factor
    else:
        left = prior.size - n
        log += math.lgamma(prior.size + 1.0) - math.lgamma(left + 1.0)
        if left > 0.0:
            log += left * prior.log_q
    return log + n * prior.log_p if n > 0.0 else log


@compiled
def log_sum(prior, z, noise):  # type: ignore[no-untyped-def]
    """Return log sum_n prior(n) P(z - n), but for the noise's own constant."""
    n = summit(prior, z, noise)
    total, _ = walk(prior, n, z, noise, np.inf)
    return log_weight(prior, n, z, noise) + np.log(total)


@compiled
def walk(prior, start, z, noise, place):  # type: ignore[no-untyped-def]
    """Add up weights relative to the start's, outward from it, above and below in turn; stop where the sum passes.

    Returns
    -------
    The sum, and the count at which it passed `place`.
    """
    total, above, below, high, low = 1.0, 1.0, 1.0, start, start
    if place < total or prior_step(prior, 0.0) == 0.0:
        return total, start
    rise, fall = noise_ratio(start, z, noise), noise_ratio(start - 1.0, z, noise)
    while above > _NEGLIGIBLE * total or below > _NEGLIGIBLE * total:
        above *= prior_step(prior, high) / (high + 1.0) * rise
        high, total = high + 1.0, total + above
        if place < total:
            return total, high
        if low > 0.0:
            low -= 1.0
            below *= (low + 1.0) / (prior_step(prior, low) * fall)
            total += below
            if place < total:
                return total, low
        else:
            below = 0.0
        if noise.law == GAUSSIAN:
            rise, fall = rise * noise.ratio, fall / noise.ratio
        else:
            rise, fall = noise_ratio(high, z, noise), noise_ratio(low - 1.0, z, noise)
    return total, start


@compiled
def noise_ratio(n, z, noise):  # type: ignore[no-untyped-def]
    """Return P(z - n - 1)/P(z - n)."""
    if noise.law == LAPLACE:
        return noise.ratio if n < z else 1.0 / noise.ratio
    return np.exp(min(noise_step(n, z, noise), _LARGEST))
