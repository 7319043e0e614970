"""Likelihoods as trees of arrays, so that JAX can trace them as arguments of compiled functions.

A model that is given its data as arguments is compiled once for all data of one shape; one that has them in its text is
compiled again for each.
"""

from __future__ import annotations

from dataclasses import fields

from jax.tree_util import register_dataclass

from vestry.likelihood import count_terms, release_likelihood

_ARRAYS: dict[type, tuple[str, ...]] = {
    count_terms.CountTerm: ("counts", "log_weights"),
    count_terms.CubicTables: ("centres", "widths", "ends", "rows", "cubics"),
    count_terms.MixtureTerm: ("log_nodes", "log_weights", "tables"),
    count_terms.KnownTotalTerm: ("counts", "log_weights"),
    release_likelihood.Likelihood: ("values", "units"),
    release_likelihood.BinomialLikelihood: ("values", "units", "term", "total"),
    release_likelihood.MultinomialLikelihood: ("values", "units", "term"),
    release_likelihood.PoissonLikelihood: ("values", "units", "term", "records"),
    release_likelihood.GramLikelihood: ("values", "units"),
}

for _type, _arrays in _ARRAYS.items():
    _rest = [each.name for each in fields(_type) if each.name not in _arrays]
    register_dataclass(_type, list(_arrays), _rest)
