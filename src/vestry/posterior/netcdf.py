"""The file of a posterior's draws, posterior.nc: netCDF as ArviZ reads it, a function of the release."""

from __future__ import annotations

from typing import Any

import numpy as np

from vestry.posterior.posterior import Posterior
from vestry.posterior.reader import DRAWS

# So many numbers of draws a release's own file holds.
MOST_NUMBERS = 10_000
CHAINS, LENGTH = 4, 1000


def draw_file(posterior: Posterior, seed: str, *, most: int | None = MOST_NUMBERS) -> memoryview | None:
    """Return the file: 4 chains of 1000 draws, or as many as there are; None if there is nothing, or too much, to draw.

    Parameters
    ----------
    posterior
        What is drawn from.
    seed
        The hash of the release, by which draws are made.
    most
        How many numbers the file holds at most: fewer draws then, and the first of them where they are given; None for
        all.
    """
    if not posterior.distributions:
        return None
    rng = np.random.default_rng(list(bytes.fromhex(seed)))
    if posterior.label == DRAWS or posterior.reader.sampled:
        tree = _thin(posterior.to_arviz(rng), most)
    else:
        numbers = len(posterior.distributions) * posterior.reader.dimension
        chains, draws = _size(numbers, most)
        tree = posterior.to_arviz(rng, chains=chains, draws=draws) if draws else None
    return None if tree is None else tree.to_netcdf(engine="h5netcdf")


def _size(numbers: int, most: int | None) -> tuple[int, int]:
    """Return how many chains and draws of so many numbers each a file holds."""
    if most is None or CHAINS * LENGTH * numbers <= most:
        return CHAINS, LENGTH
    if CHAINS * CHAINS * numbers <= most:  # no fewer draws than chains
        return CHAINS, most // (CHAINS * numbers)
    return 1, most // numbers


def _thin(tree: Any, most: int | None) -> Any:
    """Leave out draws that are given, so that no more than so many numbers are left; None if one is too many."""
    values = tree["posterior"].dataset
    chains, draws = values.sizes["chain"], values.sizes["draw"]
    numbers = sum(each.size for each in values.data_vars.values()) // (chains * draws)
    if most is None or chains * draws * numbers <= most:
        return tree
    if numbers > most:
        return None
    kept = (
        {"draw": slice(most // (chains * numbers))}
        if chains * numbers <= most
        else {"chain": slice(1), "draw": slice(1)}
    )
    return tree.isel(kept)
