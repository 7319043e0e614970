"""Worst-case neighbours of every mechanism of the package: the two datasets that are easiest to tell apart."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from vestry.conjugate.family import ConjugateFamily
from vestry.mechanisms.additive_noise import Additive
from vestry.mechanisms.posterior_sample import PosteriorSample
from vestry.mechanisms.truncated_posterior import TruncatedSample
from vestry.model.worst_pair import Dataset, Pair
from vestry.privacy.neighbours import Adjacency, Neighbours

BuiltinMechanism = Additive | PosteriorSample | TruncatedSample

__all__ = ["BuiltinMechanism", "Dataset", "Pair", "worst_pairs"]


def worst_pairs(mechanism: BuiltinMechanism, family: ConjugateFamily) -> tuple[Pair, ...]:
    """Return the neighbours at which the mechanism's claim is attained, as far as that is known.

    Noisy statistics and posterior draws have one such pair. One truncated draw (ops) has none: its claim is a supremum
    over datasets that none attains, so two are tried. Groups under replace: a unit that moves between two groups, and
    one that changes within its own.
    """
    adjacency = mechanism.adjacency
    if adjacency.groups > 1:
        return tuple(_grouped(mechanism, family))
    match mechanism:
        case Additive():
            return (family.noise_pair(mechanism.layout, adjacency, mechanism.noise),)
        case TruncatedSample():
            return family.truncated_pairs(mechanism.prior, adjacency)
        case _:
            return (family.draw_pair(mechanism.prior, adjacency),)


def _grouped(mechanism: BuiltinMechanism, family: ConjugateFamily) -> Iterator[Pair]:
    """Yield an addition to one group; or a move out of one group into the next, and a change within one."""
    groups, rows = mechanism.adjacency.groups, mechanism.adjacency.rows
    for pair in worst_pairs(replace(mechanism, adjacency=Adjacency(Neighbours.ADD_REMOVE, rows)), family):
        without, present, others = pair.first, pair.second, pair.first * (groups - 2)
        if mechanism.adjacency.replaces:
            yield Pair(
                f"{pair.name}: to one group or to another", present + without + others, without + present + others
            )
        else:
            yield Pair(f"{pair.name}, in one group", without * 2 + others, present + without + others)
    if mechanism.adjacency.replaces:
        for pair in worst_pairs(replace(mechanism, adjacency=Adjacency(Neighbours.REPLACE, rows)), family):
            rest = pair.first * (groups - 1)
            yield Pair(f"{pair.name}, in one group", pair.first + rest, pair.second + rest)
