"""The papers' figures, computed again: one experiment a file, all of one shape. Nothing here is private data."""

from __future__ import annotations

from vestry.papers import (
    foulds_adversary,
    foulds_ais,
    foulds_are,
    foulds_fig1,
    foulds_fig2,
    foulds_hmm,
    foulds_mh,
    geumlek_fig1,
    geumlek_fig2,
    geumlek_fig3,
    geumlek_match,
    geumlek_tightness,
    lecture_utility,
    minami_fig1,
    minami_temperatures,
)
from vestry.papers.experiment import Experiment

EXPERIMENTS: dict[str, Experiment] = {
    module.EXPERIMENT.name: module.EXPERIMENT
    for module in (
        geumlek_fig1,
        geumlek_fig2,
        geumlek_match,
        geumlek_fig3,
        geumlek_tightness,
        foulds_fig1,
        foulds_fig2,
        foulds_are,
        foulds_adversary,
        foulds_hmm,
        foulds_ais,
        foulds_mh,
        minami_fig1,
        minami_temperatures,
        lecture_utility,
    )
}

__all__ = ["EXPERIMENTS", "Experiment"]
