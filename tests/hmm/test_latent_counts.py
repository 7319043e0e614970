"""States from noisy counts, the noise summed out: shapes, splits, held-out cells, refusals."""

from __future__ import annotations

import numpy as np
import pytest

from vestry.errors import InvalidParameter
from vestry.hmm.latent_counts import RatePrior, noise_aware_gibbs
from vestry.posterior.discrete_noise import DiscreteGaussian, Laplace

TABLES = (np.array([[0.7, 0.2, 0.1], [0.1, 0.3, 0.6]]), np.array([[0.9, 0.1], [0.4, 0.6]]))


def planted(seed: int = 3, entries: int = 40, totals: bool = False):
    """Two regions, one of each state until month 5, then the other; noise of scale 3."""
    rng = np.random.default_rng(seed)
    path = np.array([[0] * 5 + [1] * 7, [1] * 5 + [0] * 7])
    counts = [rng.multinomial(entries, table[path]) for table in TABLES]
    if totals:
        counts[1] = counts[1][..., :1]
    noisy = [np.rint(n + rng.laplace(0, 3.0, n.shape)) for n in counts]
    return path, noisy, np.rint(entries + rng.laplace(0, 3.0, path.shape)) if totals else None


def sample(noisy, *, seed=1, **given):
    options = {"noise": Laplace(3.0), "states": 2, "sweeps": 40, "burn_in": 20} | given
    return noise_aware_gibbs(noisy, rng=np.random.default_rng(seed), **options)


@pytest.mark.parametrize("totals", [False, True])
@pytest.mark.parametrize("noise", [Laplace(3.0), DiscreteGaussian(4.0)])
def test_planted_states_come_back(totals, noise):
    path, noisy, whole = planted(totals=totals)
    draws = sample(noisy, noise=noise, totals=whole, chains=3)
    assert draws.states.paths.shape == (20, 3, 2, 12)
    assert [table.shape for table in draws.states.emissions] == [(20, 3, 2, 3), (20, 3, 2, 2)]
    assert draws.states.transitions.shape == (20, 3, 3, 2)
    assert draws.rates.shape == (20, 3, 2, 12)
    for chain in range(3):
        found = draws.states.marginals()[chain].argmax(axis=-1)
        assert max((found == path).mean(), (found != path).mean()) > 0.9
    assert draws.states.emissions[1].sum(axis=-1) == pytest.approx(1)
    assert draws.rates.mean() == pytest.approx(40, abs=5)


def test_the_same_seed_gives_the_same_draws():
    _, noisy, _ = planted()
    one, again, other = (sample(noisy, seed=seed, chains=2, sweeps=6, burn_in=2) for seed in (1, 1, 2))
    assert np.array_equal(one.rates, again.rates)
    assert np.array_equal(one.states.paths, again.states.paths)
    assert not np.array_equal(one.rates, other.rates)


def test_held_out_cells_say_nothing():
    """Whatever stands in a held-out cell, the draws are the same, and the cell has no rate."""
    _, noisy, _ = planted()
    hidden = np.zeros((2, 12), bool)
    hidden[0, 3] = True
    changed = [table.copy() for table in noisy]
    changed[0][0, 3] += 500
    one, other = (sample(each, held_out=hidden, sweeps=6, burn_in=2) for each in (noisy, changed))
    assert np.array_equal(one.states.paths, other.states.paths)
    assert (one.rates[..., 0, 3] == 0).all()
    assert (np.delete(one.rates.reshape(4, -1), 3, axis=1) > 0).all()


def test_splits_have_their_own_counts():
    _, noisy, totals = planted(totals=True)
    two = [np.stack([table, table + 30]) for table in noisy]
    draws = sample(two, totals=np.stack([totals, totals + 90]), sweeps=30, burn_in=10)
    low, high = draws.rates.mean(axis=(0, 2, 3))
    assert high > low + 60


def test_extreme_numbers():
    """Counts far below 0 and far apart, next to no noise, and concentrations so small that levels vanish."""
    _, noisy, totals = planted(totals=True)
    noisy[0][0, 0], totals[0, 1] = -400, 9000
    for noise in (Laplace(0.001), Laplace(300.0), DiscreteGaussian(0.01), DiscreteGaussian(300.0)):
        draws = sample(noisy, noise=noise, totals=totals, beta=1e-6, sweeps=8, burn_in=4)
        assert np.isfinite(draws.rates).all()
        assert all(np.isfinite(table).all() for table in draws.states.emissions)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"counts": [np.full((2, 12, 3), 0.5)]}, "counts must be whole numbers"),
        ({"totals": np.zeros((3, 2, 12))}, "totals must be as many splits as the counts have"),
        ({"counts": [np.full((2, 12, 3), 1e9)]}, 'noisy counts must be at most 1e.08.*method="plug-in"'),
        ({"noise": Laplace(1e7)}, "of noise of scale 1e.06"),
        ({"rates": RatePrior(shape=0.0)}, "shape must be a number above 0"),
        ({"rates": RatePrior(rate=-1.0)}, "rate must be a number at least 0"),
        ({"burn_in": 40}, "burn_in must be a whole number from 0 to 39"),
    ],
)
def test_bad_numbers_are_refused(change, sentence):
    _, noisy, _ = planted()
    if "totals" in change:
        noisy = [np.zeros((2, 2, 12, 3))]
    noisy = change.get("counts", noisy)
    with pytest.raises(InvalidParameter, match=sentence):
        sample(noisy, **{key: value for key, value in change.items() if key != "counts"})
