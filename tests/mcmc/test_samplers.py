"""Samplers: their laws against integrals, their shapes, their refusals.

False alarms: a law is rejected at p < 1e-8, of a Kolmogorov-Smirnov or a chi-squared test; means are held to within 6
standard errors. Generators are seeded.
"""

from __future__ import annotations

import itertools
import math
import subprocess
import sys
from functools import partial

import numpy as np
import pytest
from scipy import special, stats

from vestry.errors import InvalidParameter, MissingExtra
from vestry.hmm import blocked_gibbs, collapsed_gibbs, held_out_log_likelihood, relabel
from vestry.mcmc import (
    annealed_importance,
    barker_walk,
    metropolis_walk,
    truncated_beta,
    truncated_dirichlet,
    truncated_draws,
)

REJECT = 1e-8
SLOW = pytest.mark.slow


# --- truncated Betas and Dirichlets -----------------------------------------------------------------------------------

# name: (alpha, beta, low, high); the last three have no mass left in doubles
BETAS = {
    "middle": (8.0, 5.0, 0.2, 0.8),
    "both ends": (0.3, 0.4, 0.05, 0.95),
    "low tail": (3.0, 60.0, 0.2, 0.8),
    "high tail": (60.0, 3.0, 0.2, 0.8),
    "far": (2.0, 5000.0, 0.2, 0.8),
    "far, reflected": (5000.0, 2.0, 0.2, 0.8),
    "far, small alpha": (0.4, 40_000.0, 0.02, 0.9),
}


def beta_fit(sample: np.ndarray, a: float, b: float, low: float, high: float) -> float:
    """Fit to the truncated law, by integration of its density on a grid that is fine where the mass is."""
    edge = 0.999 * sample.min() + 0.001 * low, 0.999 * sample.max() + 0.001 * high
    x = np.unique(np.concatenate([np.linspace(low, high, 20_001), np.linspace(*edge, 20_001)]))
    logs = (a - 1) * np.log(x) + (b - 1) * np.log1p(-x)
    density = np.exp(logs - logs.max())
    total = np.concatenate([[0.0], np.cumsum((density[1:] + density[:-1]) / 2 * np.diff(x))])
    return float(stats.kstest(sample, lambda t: np.interp(t, x, total / total[-1])).pvalue)


@pytest.mark.parametrize("name", BETAS)
def test_truncated_beta(name):
    a, b, low, high = BETAS[name]
    sample = truncated_beta(np.random.default_rng(1), np.full(20_000, a), b, low=low, high=high)
    assert low <= sample.min()
    assert sample.max() <= high
    assert beta_fit(sample, a, b, low, high) > REJECT
    if name != "both ends":
        off = (1.2 * a, b) if a > b else (a, 1.2 * b)
        assert beta_fit(sample, *off, low, high) < REJECT


def test_rejection_in_the_tail_agrees_where_doubles_still_see_it(monkeypatch):
    """The way out of the far tail, taken where the tangent alone would be far off."""
    rng, many = np.random.default_rng(16), np.ones(20_000)
    monkeypatch.setattr(truncated_draws, "_LEAST_MASS", 2.0)
    sample = truncated_beta(rng, 3.0 * many, 12.0, low=0.3, high=0.9)
    assert beta_fit(sample, 3.0, 12.0, 0.3, 0.9) > REJECT
    for shape, rate, low, high in ((3.0, 1.0, 4.0, 20.0), (0.4, 2.0, 0.5, 9.0), (9.0, 1.0, 0.1, 5.0)):
        law = stats.gamma(shape, scale=1 / rate)
        for tail in (2.0, 1e-250):
            monkeypatch.setattr(truncated_draws, "_LEAST_MASS", tail)
            sample = truncated_draws.truncated_gamma(rng, shape * many, rate, low=low, high=high)
            part = law.cdf(high) - law.cdf(low)
            fit = stats.kstest(sample, lambda x, law=law, low=low, part=part: (law.cdf(x) - law.cdf(low)) / part)
            assert fit.pvalue > REJECT


DIRICHLETS = {
    "even": ((2.0, 2.0, 2.0), 0.1),
    "uneven": ((20.0, 8.0, 1.5), 0.1),
    "other order": ((1.5, 20.0, 8.0), 0.1),
    "small": ((0.4, 0.6, 3.0), 0.05),
    "all small": ((0.3, 0.5, 0.4), 0.02),
    "crowded": ((30.0, 10.0, 1.0), 0.2),
    "far": ((2000.0, 400.0, 1.0), 0.1),
}
DRAWS = 6_000


def dirichlet_fit(sample: np.ndarray, alphas: tuple[float, ...], low: float) -> float:
    """Chi-squared fit of cells of (theta_1, theta_2), cut at the sample's own quantiles.

    Given theta_1, the second component is a share of the rest, of law Beta(b, c); the first is integrated on a grid.
    """
    a, b, c = alphas
    first, second = (np.quantile(sample[:, i], np.linspace(0, 1, 7)) for i in (0, 1))
    for edges in (first, second):
        edges[[0, -1]] = low, 1 - 2 * low
    shares = np.zeros((6, 6))
    for i in range(6):
        ends = first[i] + (first[i + 1] - first[i]) * np.linspace(0, 1, 1001) ** 2
        theta = (ends[1:] + ends[:-1]) / 2
        logs = (a - 1) * np.log(theta) + (b + c - 1) * np.log1p(-theta)
        below = special.betainc(b, c, np.clip(second[:, None], low, 1 - theta - low) / (1 - theta))
        shares[i] = np.diff(below, axis=0) @ (np.exp(logs) * np.diff(ends))
    seen, _, _ = np.histogram2d(sample[:, 0], sample[:, 1], bins=(first, second))
    expected = (shares / shares.sum()).ravel() * len(sample)
    order = np.argsort(-expected)
    starts = np.arange(int((expected >= 50).sum()))
    observed, wanted = (np.add.reduceat(v[order], starts) for v in (seen.ravel(), expected))
    return float(stats.chisquare(observed, wanted).pvalue)


def dirichlet_sample(name: str) -> np.ndarray:
    alphas, low = DIRICHLETS[name]
    return truncated_dirichlet(np.random.default_rng(2), np.tile(alphas, (DRAWS, 1)), low=low)


@pytest.mark.parametrize(
    "name",
    [*("uneven", "small", "crowded"), *(pytest.param(n, marks=SLOW) for n in ("even", "other order", "all small"))],
)
def test_truncated_dirichlet(name):
    alphas, low = DIRICHLETS[name]
    sample = dirichlet_sample(name)
    assert sample.sum(axis=1) == pytest.approx(1, abs=1e-12)
    assert sample.min() >= low - 1e-12
    assert dirichlet_fit(sample, alphas, low) > REJECT
    off = np.array(alphas)
    off[off.argmax()] *= 1.6
    assert dirichlet_fit(sample, tuple(off), low) < REJECT


def one_pass(rng: np.random.Generator, alphas: tuple[float, ...], low: float) -> np.ndarray:
    """The broken twin: truncated betas, stick by stick, and no correction."""
    a, b, c = alphas
    first = truncated_beta(rng, np.full(DRAWS, a), b + c, low=low, high=1 - 2 * low)
    second = [
        rest * truncated_beta(rng, np.array([b]), c, low=low / rest, high=1 - low / rest)[0] for rest in 1 - first
    ]
    return np.stack([first, second, 1 - first - np.array(second)], axis=1)


@pytest.mark.parametrize("name", ["crowded", pytest.param("uneven", marks=SLOW)])
def test_one_pass_of_truncated_betas_is_rejected(name):
    alphas, low = DIRICHLETS[name]
    assert dirichlet_fit(one_pass(np.random.default_rng(3), alphas, low), alphas, low) < REJECT


def test_the_far_tail_of_a_truncated_dirichlet():
    """Components far beyond their free law sit at the bound: an exponential of the slope there, to first order."""
    sample = dirichlet_sample("far")
    (a, b, c), low = DIRICHLETS["far"]
    assert stats.beta.sf(low, c, a + b) < 1e-100
    # The small component's excess over the bound, at the mode of the others.
    rest = 1 - low
    slope = (a + b - 2) / rest - (c - 1) / low
    excess = sample[:, 2] - low
    assert excess.mean() == pytest.approx(1 / slope, rel=0.05)


@pytest.mark.parametrize(
    ("alphas", "low"), [((3.0, 1.0, 2.0, 1.5), 0.04), pytest.param((0.7, 0.8, 0.9, 0.5, 0.6), 0.01, marks=SLOW)]
)
def test_rejection_from_the_whole_simplex_agrees(alphas, low):
    rng = np.random.default_rng(4)
    ours = truncated_dirichlet(rng, np.tile(alphas, (DRAWS, 1)), low=low)
    plain = rng.dirichlet(alphas, 10 * DRAWS)
    plain = plain[(plain >= low).all(axis=1)]
    assert len(plain) > 5000
    for i in range(len(alphas)):
        assert stats.ks_2samp(ours[:, i], plain[:, i]).pvalue > REJECT
    for i, j in itertools.combinations(range(len(alphas)), 2):
        assert stats.ks_2samp(ours[:, i] * ours[:, j], plain[:, i] * plain[:, j]).pvalue > REJECT


def test_truncated_draws_keep_the_shape_of_their_parameters():
    rng = np.random.default_rng(5)
    assert truncated_dirichlet(rng, np.ones((4, 3, 2)), low=0.1).shape == (4, 3, 2)
    assert truncated_dirichlet(rng, np.ones((4, 3, 6)), low=0.0).shape == (4, 3, 6)
    with pytest.raises(InvalidParameter, match="low must be at least 0 and below 1/4"):
        truncated_dirichlet(rng, np.ones(4), low=0.25)
    with pytest.raises(InvalidParameter, match="0 <= low < high <= 1"):
        truncated_beta(rng, np.ones(1), np.ones(1), low=0.8, high=0.2)


def test_the_proposal_for_a_simplex_stays_where_its_means_add_up():
    """A search that has arrived must not leave again: 11.316 and so on once did, and then nothing was accepted."""
    rng = np.random.default_rng(17)
    shapes = np.concatenate([[[11.31603952, 6.17856964, 1.9041947]], np.exp(rng.normal(1, 1.5, (2000, 3)))])
    rows, largest = np.arange(len(shapes)), shapes.argmax(axis=1)
    last = shapes[rows, largest]
    rest = np.stack([np.delete(row, k) for row, k in zip(shapes, largest, strict=True)])
    tilt = truncated_draws._tilt(rest, last, 1 / 30, 1 - 2 / 30)
    means = truncated_draws._truncated_mean(np.column_stack([rest, last]), tilt[:, None], 1 / 30, 1 - 2 / 30).sum(
        axis=1
    )
    assert np.quantile(np.abs(means - 1), 0.99) < 0.05
    assert np.abs(means - 1).max() < 0.5


# --- hidden Markov models ---------------------------------------------------------------------------------------------


def example(rng: np.random.Generator, regions: int = 3, months: int = 7, per_cell: int = 20) -> list[np.ndarray]:
    """Counts of two features, of 2 and 4 levels, from three states."""
    tables = [np.array([[0.9, 0.1], [0.5, 0.5], [0.1, 0.9]]), rng.dirichlet(np.full(4, 0.5), 3)]
    z = np.minimum(np.arange(months) * 3 // months + rng.integers(2, size=(regions, 1)), 2)
    return [rng.multinomial(per_cell, table[z]).astype(float) for table in tables]


def plain_sweep(tables, moves, uniforms, paths, counts, seen, alpha, months):
    """The update of one cell after the other, as the formula is written, in plain loops."""
    paths, moves = paths.copy(), moves.copy()
    cells, batch = paths.shape
    states = tables.shape[1]
    for b, c in itertools.product(range(batch), range(cells)):
        last = (c + 1) % months == 0
        a = states if c % months == 0 else paths[c - 1, b]
        old, n = paths[c, b], moves[b]
        n[a, old] -= 1
        if not last:
            after = paths[c + 1, b]
            n[old, after] -= 1
        chances = np.empty(states)
        for k in range(states):
            chances[k] = n[a, k] + alpha
            if not last:
                chances[k] *= n[k, after] + (a == k == after) + alpha
                chances[k] /= n[k].sum() + (a == k) + states * alpha
        logs = seen[b, c] * (tables[b] @ counts[0 if len(counts) == 1 else b, c])
        chances *= np.exp(logs - logs.max())
        new = int((np.cumsum(chances) < uniforms[c, b] * chances.sum()).sum())
        n[a, new] += 1
        if not last:
            n[new, after] += 1
        paths[c, b] = new
    return paths, moves


@pytest.mark.parametrize("shared", [True, pytest.param(False, marks=SLOW)])
def test_the_compiled_sweep_is_the_plain_one(shared):
    from vestry.hmm import gibbs_kernels
    from vestry.hmm.state_model import layout

    rng = np.random.default_rng(6)
    counts = example(rng)
    if not shared:
        counts = [np.stack([table, table[::-1], table / 3]) for table in counts]
    data = layout(counts, held_out=rng.random((3, 3, 7)) < 0.2, chains=3, temperature=1.0)
    paths = rng.integers(4, size=(3, 21))
    tables = np.log(rng.dirichlet(np.ones(6), (3, 4)))
    uniforms = np.stack([np.random.default_rng(b).random(21) for b in range(3)])
    moves = counted(paths, states=4, months=7)
    theirs, moved = plain_sweep(tables, moves, uniforms.T, paths.T, data.counts, data.seen, 0.3, 7)
    assert theirs.T.tolist() != paths.tolist()
    assert moved == pytest.approx(counted(theirs.T, states=4, months=7))
    for b, path in enumerate(paths):
        counts, weights, sums = data.counts[b % len(data.counts)], np.empty((21, 4)), np.empty((4, 6))
        ours = np.empty((5, 4))
        gibbs_kernels.count_moves(path, ours, 7)
        assert (ours == moves[b]).all()
        gibbs_kernels.likelihoods(tables[b], counts, data.seen[b], weights)
        gibbs_kernels.collapsed(np.random.default_rng(b), weights, path, ours, 0.3, 7)
        assert (path == theirs[:, b]).all()
        assert ours == pytest.approx(moved[b])
        gibbs_kernels.sum_levels(path, counts, data.seen[b], sums)
        assert sums == pytest.approx(((path == np.arange(4)[:, None]) * data.seen[b]) @ counts)


def counted(paths, *, states, months):
    """The moves of each chain, one by one; the last row is the start's."""
    moves = np.zeros((len(paths), states + 1, states))
    for b, path in enumerate(paths):
        for region in path.reshape(-1, months):
            for before, after in itertools.pairwise([states, *region]):
                moves[b, before, after] += 1
    return moves


def test_products_in_blocks_are_the_whole_product():
    from vestry.hmm import gibbs_kernels

    rng = np.random.default_rng(16)
    for cells in (2, 601, 900):  # a block has 416 rows
        counts, tables, ours = rng.random((cells, 90)), np.log(rng.random((7, 90))), np.empty((cells, 7))
        logs = counts @ tables.T
        gibbs_kernels.likelihoods(tables, counts, np.ones(cells), ours)
        assert ours == pytest.approx(np.exp(logs - logs.max(axis=-1, keepdims=True)))


def test_exponentials_have_all_their_digits():
    from vestry.hmm import gibbs_kernels

    numbers = np.concatenate([np.linspace(-650, 0, 100_001), -np.random.default_rng(0).random(10_000), [-1e-300]])
    ours = numbers.copy()
    gibbs_kernels.exponentials(ours)
    assert np.abs(ours / np.exp(numbers) - 1).max() < 1e-15
    assert (ours[numbers == 0] == 1).all()


@pytest.mark.parametrize("shape", [1.5, 0.3, 0.05])
def test_logs_of_dirichlets(shape):
    """Runs of two and of three neighbours: a component's law is Beta(a, the others'), and 20 % off is rejected.

    What is seen is below 1/2, where doubles keep the digits.
    """
    from vestry.hmm import gibbs_kernels

    rng, logs = np.random.default_rng(22), np.empty((40_000, 5))
    gibbs_kernels.log_dirichlet(rng, np.full(logs.shape, shape / 2), shape / 2, np.array([2, 5]), logs)
    for first, size in ((0, 2), (2, 3)):
        shares = np.exp(logs[:, first : first + size])
        assert shares.sum(axis=1) == pytest.approx(1)
        low = shares[shares[:, -1] < 0.5, -1]
        laws = [stats.beta(a, (size - 1) * a) for a in (shape, 1.2 * shape)]
        right, wrong = (stats.kstest(low, lambda x, law=law: law.cdf(x) / law.cdf(0.5)).pvalue for law in laws)
        assert right > REJECT > wrong
    gibbs_kernels.log_dirichlet(rng, np.zeros(logs.shape), 1e-5, np.array([2, 5]), logs)
    assert np.isfinite(logs).all()
    assert logs.min() < -1000


@pytest.mark.parametrize("sampler", [collapsed_gibbs, blocked_gibbs])
def test_draws_do_not_depend_on_the_number_of_processors(sampler, monkeypatch):
    """Each member of a batch draws what it would draw alone, from its own generator."""
    run = partial(sampler, example(np.random.default_rng(18)), states=3, sweeps=20, burn_in=5)
    alone = [run(rng=rng) for rng in np.random.default_rng(19).spawn(7)]
    assert (alone[0].paths != alone[1].paths).any()
    for processors in (1, 2, 8, None):
        monkeypatch.setattr("os.cpu_count", lambda processors=processors: processors)
        draws = run(rng=np.random.default_rng(19), chains=7)
        assert (draws.paths == np.concatenate([one.paths for one in alone], axis=1)).all()
        assert (draws.transitions == np.concatenate([one.transitions for one in alone], axis=1)).all()
        assert (draws.emissions[1] == np.concatenate([one.emissions[1] for one in alone], axis=1)).all()


@pytest.mark.parametrize("truncation", [None, [1 / 20, 1 / 40]])
def test_a_burn_in_leaves_out_the_first_sweeps_and_changes_nothing_else(truncation):
    run = partial(blocked_gibbs, example(np.random.default_rng(23)), states=3, sweeps=9, truncation=truncation)
    every, later = (run(burn_in=burn_in, rng=np.random.default_rng(24)) for burn_in in (0, 6))
    assert (every.paths[6:] == later.paths).all()
    assert (every.transitions[6:] == later.transitions).all()
    assert (every.emissions[1][6:] == later.emissions[1]).all()


def test_all_layouts_of_the_counts_run_the_same_machine_code():
    """Compilation takes seconds: a mask that all share, or counts the other way round, must not cause another."""
    from vestry.hmm import gibbs_kernels

    counts = example(np.random.default_rng(20))
    mask = np.zeros((4, 3, 7), bool)
    for tables, more in [
        (counts, {}),
        (counts, {"held_out": mask[0], "chains": 4}),
        ([np.asfortranarray(table) for table in counts], {"held_out": np.asfortranarray(mask)}),
        ([np.asfortranarray(table[:1]) for table in counts], {"truncation": [0.1, 0.1]}),
        (counts[:1], {"alpha": np.float64(2), "beta": 1}),
    ]:
        collapsed_gibbs(tables, states=3, sweeps=np.int64(2), burn_in=0, rng=np.random.default_rng(21), **more)
    assert len(gibbs_kernels.run.signatures) == 1


@pytest.mark.parametrize("sampler", [collapsed_gibbs, blocked_gibbs])
def test_the_shapes_and_sums_of_draws(sampler):
    rng = np.random.default_rng(7)
    counts = example(rng)
    mask = rng.random((5, 3, 7)) < 0.2
    draws = sampler(counts, states=3, sweeps=12, burn_in=4, rng=rng, held_out=mask)
    assert draws.paths.shape == (8, 5, 3, 7)
    assert [table.shape for table in draws.emissions] == [(8, 5, 3, 2), (8, 5, 3, 4)]
    assert draws.transitions.shape == (8, 5, 4, 3)
    for shares in (*draws.emissions, draws.transitions, draws.marginals()):
        assert shares.dtype == np.float64
        assert shares.sum(axis=-1) == pytest.approx(1)
    scores = held_out_log_likelihood(draws, counts, mask)
    assert (scores[mask] < 0).all()
    assert (scores[~mask] == 0).all()


@pytest.mark.slow
@pytest.mark.parametrize("sampler", [collapsed_gibbs, blocked_gibbs])
def test_clear_states_are_found(sampler):
    """Counts that leave no doubt: after relabelling every chain has the same states and the tables' own means."""
    rng = np.random.default_rng(8)
    counts = example(rng, per_cell=400)
    draws = relabel(sampler(counts, states=3, sweeps=80, burn_in=60, rng=rng, chains=6), feature=0, level=0)
    good = np.abs(draws.emissions[0].mean(axis=0)[..., 0] - [0.9, 0.5, 0.1]).max(axis=-1) < 0.05
    assert good.mean() >= 0.5  # some chains may still be in a local mode
    shares = counts[0][..., 0] / 400
    truth = np.select([shares > 0.7, shares > 0.3], [0, 1], 2)
    assert (draws.marginals()[good].argmax(axis=-1) == truth).all()


def test_relabelling_changes_names_and_nothing_else():
    rng = np.random.default_rng(9)
    draws = collapsed_gibbs(example(rng), states=3, sweeps=6, burn_in=0, rng=rng, chains=5)
    named = relabel(draws, feature=1, level=2)
    assert (np.diff(named.emissions[1][..., 2], axis=-1) <= 0).all()
    for s, b in itertools.product(range(6), range(5)):
        for table, other in zip(draws.emissions, named.emissions, strict=True):
            assert (table[s, b][draws.paths[s, b]] == other[s, b][named.paths[s, b]]).all()
        before, after = (d.paths[s, b] for d in (draws, named))
        old, new = (d.transitions[s, b] for d in (draws, named))
        assert (old[before[:, :-1], before[:, 1:]] == new[after[:, :-1], after[:, 1:]]).all()
        assert (old[3, before[:, 0]] == new[3, after[:, 0]]).all()
    again = relabel(named, feature=1, level=2)
    assert (again.paths == named.paths).all()


@pytest.mark.parametrize("sampler", [blocked_gibbs, pytest.param(collapsed_gibbs, marks=SLOW)])
def test_temperature_and_truncation(sampler):
    counts = example(np.random.default_rng(10))

    def run(tables, **more):
        return sampler(tables, states=3, sweeps=8, burn_in=2, rng=np.random.default_rng(11), chains=5, **more)

    hot, scaled = run(counts, temperature=5.0), run([table / 5 for table in counts])
    assert (hot.paths == scaled.paths).all()
    assert (hot.paths != run(counts).paths).any()
    cut = run(counts, truncation=[1 / 20, 1 / 40])
    for table, least in zip(cut.emissions, (1 / 20, 1 / 40), strict=True):
        assert least - 1e-12 <= table.min() < 3 * least
    negative = run([table - 2 * (table == 0) for table in counts])
    assert (negative.paths == run(counts).paths).all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"counts": [np.ones((2, 3))]}, "counts must be"),
        ({"counts": [np.full((2, 3, 2), np.nan)]}, "counts must be finite"),
        ({"states": 0}, "states must be a whole number"),
        ({"alpha": 0.0}, "alpha must be a number above 0"),
        ({"beta": math.inf}, "beta must be a number above 0"),
        ({"burn_in": 5}, "burn_in must be below"),
        ({"held_out": np.zeros((3, 2), bool)}, "held_out must be"),
        ({"held_out": np.zeros((4, 2, 3), bool), "chains": 3}, "the batch must be one number"),
        ({"temperature": 0.0}, "temperature must be a number above 0"),
        ({"truncation": [0.1, 0.1]}, "one number per feature"),
        ({"truncation": [0.5]}, "low must be at least 0 and below 1/2"),
    ],
)
def test_what_is_refused(change, message):
    given = {"counts": [np.ones((2, 3, 2))], "states": 2, "sweeps": 5, "burn_in": 1, **change}
    with pytest.raises(InvalidParameter, match=message):
        collapsed_gibbs(given.pop("counts"), rng=np.random.default_rng(0), **given)


# --- Metropolis, Barker, annealing ------------------------------------------------------------------------------------


def log_skew(point):
    """A gamma law of shape 3 on the log scale: e^(3 x - e^x)."""
    import jax.numpy as jnp

    return 3 * point[0] - jnp.exp(point[0])


@pytest.mark.long
@pytest.mark.parametrize("sampler", [metropolis_walk, barker_walk])
@pytest.mark.parametrize("temperature", [pytest.param(1.0, marks=SLOW), 2.0])
def test_walks_have_their_law(sampler, temperature):
    """Last states of independent chains: a log gamma of shape 3/T and rate 1/T; a shape 50 % off is rejected."""
    start = np.random.default_rng(12).normal(size=(1500, 1)) + 1
    draws = sampler(
        log_skew, start, draws=60, burn_in=59, rng=np.random.default_rng(13), scale=1.5, temperature=temperature
    )
    assert draws.shape == (1, 1500, 1)
    law = stats.gamma(3 / temperature, scale=temperature)
    off = stats.gamma(1.5 * 3 / temperature, scale=temperature)
    assert stats.kstest(np.exp(draws[0, :, 0]), law.cdf).pvalue > REJECT
    assert stats.kstest(np.exp(draws[0, :, 0]), off.cdf).pvalue < REJECT


@pytest.mark.long
def test_barker_moves_less_than_metropolis_but_at_least_half_as_much():
    start = np.zeros((1500, 1))
    moved = {}
    for sampler in (metropolis_walk, barker_walk):
        draws = sampler(log_skew, start, draws=60, burn_in=20, rng=np.random.default_rng(14))
        moved[sampler] = (np.diff(draws, axis=0) != 0).mean()
    assert 0.5 * moved[metropolis_walk] <= moved[barker_walk] < 0.9 * moved[metropolis_walk]
    with pytest.raises(InvalidParameter, match="burn_in must be below"):
        barker_walk(log_skew, start, draws=5, burn_in=5, rng=np.random.default_rng(0))


def log_wide(point):
    return -0.5 * (point**2).sum()


def log_sharp(point):
    return -0.5 * ((point - 2.0) ** 2).sum() / 0.25


@pytest.mark.long
def test_annealed_importance_sampling():
    """Base N(0, 1), likelihood exp(-(x - 2)^2/(2/4)): evidence and mean in closed form. Without weights it is off."""
    rng = np.random.default_rng(15)
    start = rng.normal(size=(4_000, 1))
    found = annealed_importance(log_wide, log_sharp, start, powers=np.linspace(0.1, 1, 10), rng=rng, scale=0.5)
    # Integral of N(x; 0, 1) exp(-2 (x - 2)^2): sqrt(1/5) exp(-(4/2)(4/5)); the posterior is N(8/5, 1/5).
    evidence = math.sqrt(1 / 5) * math.exp(-8 / 5)
    raw = np.exp(found.log_weights)
    assert abs(raw.mean() - evidence) < 6 * raw.std() / math.sqrt(len(raw))
    assert found.log_evidence() == pytest.approx(math.log(evidence), abs=0.1)
    weights = found.weights()
    assert weights.sum() == pytest.approx(1)
    error = math.sqrt((weights**2 * (found.points[:, 0] - 1.6) ** 2).sum())
    assert abs(weights @ found.points[:, 0] - 1.6) < 6 * error
    assert abs(found.points[:, 0].mean() - 1.6) > 0.1
    with pytest.raises(InvalidParameter, match="powers must be rising"):
        annealed_importance(log_wide, log_sharp, start, powers=(0.5, 0.2), rng=rng)


# --- manners ----------------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_the_process_keeps_its_own_precision():
    import jax

    barker_walk(log_skew, np.zeros((1500, 1)), draws=60, burn_in=0, rng=np.random.default_rng(0))
    assert not jax.config.jax_enable_x64
    assert jax.numpy.ones(1).dtype == np.float32


@pytest.mark.parametrize(
    ("module", "room", "name"), [("jax", "mcmc", "barker_walk"), ("numba", "hmm", "collapsed_gibbs")]
)
def test_compilers_are_imported_late_and_named_where_they_are_missing(module, room, name):
    code = (
        f"import sys, vestry.{room} as s, vestry.mcmc as m; assert '{module}' not in sys.modules; m.truncated_beta;"
        f"assert '{module}' not in sys.modules; sys.modules['{module}'] = None; s.{name}"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert f"{MissingExtra.__name__}: sampling (here {name}) needs an extra" in done.stderr


def test_other_names_are_not_there():
    import vestry.mcmc

    with pytest.raises(AttributeError, match="no attribute 'crystal_ball'"):
        _ = vestry.mcmc.crystal_ball
