"""The papers' figures, computed again: one experiment a file, all of one shape. Nothing here is private data."""

from __future__ import annotations

from vestry.experiments import (
    foulds_adversary,
    foulds_are,
    foulds_fig1,
    foulds_fig2,
    geumlek_fig1,
    geumlek_fig2,
    geumlek_match,
)
from vestry.experiments.experiment import Experiment

EXPERIMENTS: dict[str, Experiment] = {
    module.EXPERIMENT.name: module.EXPERIMENT
    for module in (
        geumlek_fig1,
        geumlek_fig2,
        geumlek_match,
        foulds_fig1,
        foulds_fig2,
        foulds_are,
        foulds_adversary,
    )
}

__all__ = ["EXPERIMENTS", "Experiment"]
