"""The papers' figures, computed again: one experiment per file, all of one shape. Nothing here is private data."""

from __future__ import annotations

from importlib import import_module

from reproductions.experiment import Experiment

NAMES = (
    "geumlek-fig1", "geumlek-fig2", "geumlek-match", "geumlek-fig3", "geumlek-tightness", "foulds-fig1", "foulds-fig2",
    "foulds-are", "foulds-adversary", "foulds-hmm", "foulds-ais", "foulds-mh", "minami-fig1", "minami-temperatures",
    "lecture-utility",
)  # fmt: skip
EXPERIMENTS: dict[str, Experiment] = {
    name: import_module(f"reproductions.{name.replace('-', '_')}").EXPERIMENT for name in NAMES
}

__all__ = ["EXPERIMENTS", "Experiment"]
