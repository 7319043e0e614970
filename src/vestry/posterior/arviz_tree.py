"""A posterior's draws as ArviZ has them: the tree, and its netCDF file, posterior.nc, a function of the release."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np

from vestry.errors import VestryError
from vestry.posterior.posterior import NOTHING, Posterior
from vestry.posterior.reader import DRAWS

# So many numbers of draws a release's own file holds.
MOST_NUMBERS = 10_000
CHAINS, LENGTH = 4, 1000
# Parameters that an attribute names.
_NAMED = 100


def tree_of(posterior: Posterior, rng: np.random.Generator, chains: int, draws: int) -> Any:
    """Return the draws as a tree; see `Posterior.to_arviz`."""
    import arviz_base as arviz

    if not posterior.distributions:
        raise VestryError(NOTHING)
    reader, of_draws = posterior.reader, posterior.label == DRAWS
    own = reader.variables(posterior, rng, 1 if of_draws else chains, draws)
    if own is not None:
        return _tree(arviz, posterior, *own)
    if of_draws:
        tables = [each[None] for each in posterior.sample().values()]
    else:
        tables = [each.reshape(chains, draws, -1) for each in posterior.sample(chains * draws, rng).values()]
    values = np.stack(tables, axis=2)
    name, dims = reader.parameter, ["group", f"{reader.parameter}_index"]
    coords = {"group": list(posterior.distributions), dims[1]: list(posterior.labels or range(reader.dimension))}
    if posterior.by is None:
        values, dims = values[:, :, 0], dims[1:]
    if reader.dimension == 1:
        values, dims = values[..., 0], dims[:-1]
    return _tree(arviz, posterior, {name: (values, dims)}, {key: coords[key] for key in dims})


def _tree(arviz: Any, posterior: Posterior, variables: Mapping[str, Any], coords: Mapping[str, Any]) -> Any:
    values, dims = ({name: each[place] for name, each in variables.items()} for place in (0, 1))
    tree = arviz.from_dict({"posterior": values}, dims=dims, coords=dict(coords))
    certificate = json.dumps(asdict(posterior.certificate), default=dict)
    tree.attrs.update({"note": posterior.note} if posterior.note else {})
    if remarks := _remarks(posterior):
        tree.attrs["remarks"] = json.dumps(remarks)
    tree.attrs.update(posterior=posterior.label, interval_method=posterior.interval_method, certificate=certificate)
    return tree


def _remarks(posterior: Posterior) -> dict[str, list[str]]:
    """Return of which parameters each remark is; the first of very many, as an attribute is short."""
    remarks: dict[str, list[str]] = {}
    for group, distribution in posterior.distributions.items() if posterior.label != DRAWS else ():
        for index, parameter in enumerate(posterior.parameters):
            if said := posterior.reader.remark(distribution, index):
                remarks.setdefault(said, []).append(parameter if posterior.by is None else f"{group} {parameter}")
    more = {said: len(names) - _NAMED for said, names in remarks.items()}
    return {said: names[:_NAMED] + [f"and {more[said]} more"] * (more[said] > 0) for said, names in remarks.items()}


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
    part = (
        {"draw": slice(most // (chains * numbers))}
        if chains * numbers <= most
        else {"chain": slice(1), "draw": slice(1)}
    )
    return tree.isel(part)


class Names:
    """Gives each name once. A stroke would be a group of the file and is written _, and so is what cannot be printed.

    Parameters
    ----------
    taken
        Names that are in use already.
    """

    def __init__(self, *taken: str) -> None:
        self._taken = set(taken)

    def __call__(self, name: str) -> str:
        """Return a name that a file can hold, with underscores after it while it is taken."""
        unique = "".join("_" if each == "/" or not each.isprintable() else each for each in name).strip() or "_"
        unique = f"_{unique}" if unique.startswith(".") else unique
        while unique in self._taken:
            unique += "_"
        self._taken.add(unique)
        return unique
