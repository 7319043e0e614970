"""A likelihood for Stan: functions, declarations and data, from which a program is put together.

    stan = release.likelihood().to_stan()
    program = f'''
    functions {{ {stan.functions} }}
    data {{ {stan.declarations} }}
    parameters {{ vector[release_groups] logits; }}
    model {{ logits ~ normal(0, 1.5); target += {stan.log_likelihood("logits")}; }}
    '''

The functions are those of `noisy.stan`. What the noise makes of the released numbers is among the data, so a program is
compiled once for all releases of one kind. Nothing here needs Stan.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from vestry.errors import InvalidParameter
from vestry.likelihood.count_terms import CountTerm, KnownTotalTerm, MixtureTerm
from vestry.posterior.noisy_data import BINOMIAL, GRAM

# Stands for the logarithm of 0: Stan's data are finite.
_NOTHING = -1e100
_NOISES = ("discrete-laplace", "discrete-gaussian", "discrete-cube", "rounded-gaussian")
_TOTALS = 3


@dataclass(frozen=True, eq=False)
class StanProgram:
    """Parts of a Stan program.

    Attributes
    ----------
    functions
        For the block `functions`.
    declarations
        For the block `data`.
    data
        What is declared, as numbers and lists that JSON holds.
    function
        The name of the log-likelihood.
    arguments
        The names of the data that it takes after its parameters.
    """

    functions: str
    declarations: str
    data: dict[str, Any]
    function: str
    arguments: tuple[str, ...]

    def __repr__(self) -> str:
        return f"<Stan program: {self.function}, data {', '.join(self.data)}>"

    def log_likelihood(self, *parameters: str) -> str:
        """Return the expression of the log-likelihood of all groups, to be added to the target.

        Parameters are expressions of Stan, in the order of `noisy.stan`: logits, log rates, Gram matrices or true
        numbers by group; where the number of records is private, its mean and shape may follow.
        """
        several = self.function.endswith("private") and not self.function.startswith("noisy_poisson")
        if len(parameters) not in ((1, _TOTALS) if several else (1,)):
            allowed = "one, or three with the mean and the shape of the total" if several else "one"
            raise InvalidParameter("the number of parameters", len(parameters), allowed, 'log_likelihood("logits")')
        name = f"{self.function}_total" if len(parameters) == _TOTALS else self.function
        return f"{name}({', '.join((*parameters, *self.arguments))})"


@dataclass(frozen=True)
class _Datum:
    """One thing among the data: its name, its type in Stan, in which sizes are in braces, and its value."""

    name: str
    type: str
    value: Any


def stan_program(likelihood: Any, name: str) -> StanProgram:
    """Return a likelihood for Stan, its data called `name_groups` and so on."""
    if re.fullmatch(r"[a-z][a-z0-9_]*[a-z0-9]|[a-z]", name) is None:
        raise InvalidParameter("name", name, "small letters, digits and _, a letter first", 'to_stan("release")')
    function, sizes, own = _parts(likelihood)
    named = {size: f"{name}_{size}" for size in sizes}
    lines = [f"int {each};" for each in named.values()]
    lines += [f"{each.type.format(**named)} {name}_{each.name};" for each in own]
    data = {named[size]: value for size, value in sizes.items()} | {f"{name}_{each.name}": each.value for each in own}
    functions = Path(__file__).with_name("noisy.stan").read_text(encoding="utf-8")
    return StanProgram(functions, "\n".join(lines), data, function, tuple(f"{name}_{each.name}" for each in own))


def _parts(likelihood: Any) -> tuple[str, dict[str, int], list[_Datum]]:
    """Return the function, the sizes, and the data in the order in which it takes them."""
    groups, term = len(likelihood.groups), getattr(likelihood, "term", None)
    kind = f"noisy_{likelihood.kind}"
    if isinstance(term, CountTerm):
        records = likelihood.total if likelihood.kind == BINOMIAL else likelihood.records
        return kind, *_count(term, groups, records)
    if isinstance(term, MixtureTerm):
        return f"{kind}_private", *_mixture(term, groups)
    if isinstance(term, KnownTotalTerm):
        return kind, *_known_total(term)
    return kind, *_noise(likelihood, groups)


def _count(term: CountTerm, groups: int, records: Any) -> tuple[dict[str, int], list[_Datum]]:
    counts, logs = (_rows(each, groups) for each in (term.counts, term.log_weights))
    each_group = "array[{groups}] vector[{terms}]"
    return {"groups": groups, "terms": counts.shape[1]}, [
        _Datum("counts", each_group, counts.tolist()),
        _Datum("log_weights", each_group, _finite(logs)),
        _Datum("records", "vector[{groups}]", np.ravel(records).astype(float).tolist()),
    ]


def _mixture(term: MixtureTerm, groups: int) -> tuple[dict[str, int], list[_Datum]]:
    tables = term.tables
    nodes, weights = (np.reshape(each, (-1, groups)).T for each in (term.log_nodes, term.log_weights))
    places = _rows(tables.rows, groups)
    sizes = {"groups": groups, "nodes": nodes.shape[1], "levels": places.shape[1]}
    sizes |= {"tables": tables.cubics.shape[0], "intervals": tables.cubics.shape[1]}
    each_level = "array[{groups}] vector[{levels}]"
    return sizes, [
        _Datum("log_nodes", "array[{groups}] vector[{nodes}]", nodes.tolist()),
        _Datum("log_weights", "array[{groups}] vector[{nodes}]", _finite(weights)),
        *(
            _Datum(name, each_level, _rows(each, groups).tolist())
            for name, each in (("centres", tables.centres), ("widths", tables.widths), ("reaches", tables.ends))
        ),
        _Datum("places", "array[{groups}, {levels}] int", (places + 1).tolist()),
        _Datum("cubics", "array[{tables}] matrix[{intervals}, 4]", tables.cubics.tolist()),
    ]


def _known_total(term: KnownTotalTerm) -> tuple[dict[str, int], list[_Datum]]:
    levels, size = term.counts.shape
    return {"groups": 1, "levels": levels, "terms": size}, [
        _Datum("least", "vector[{levels}]", term.counts[:, 0].tolist()),
        _Datum("log_weights", "array[{levels}] vector[{terms}]", _finite(term.log_weights)),
        _Datum("missing", "int", term.missing),
        _Datum("records", "real", term.total),
    ]


def _noise(likelihood: Any, groups: int) -> tuple[dict[str, int], list[_Datum]]:
    values = _rows(likelihood.values, groups)
    places = []
    if likelihood.kind == GRAM:
        ends = (("row", likelihood.rows), ("column", likelihood.columns))
        places = [_Datum(name, "array[{numbers}] int", [place + 1 for place in own]) for name, own in ends]
    return {"groups": groups, "numbers": values.shape[1]}, [
        *places,
        _Datum("values", "array[{groups}] vector[{numbers}]", values.tolist()),
        _Datum("units", "vector[{numbers}]", np.asarray(likelihood.units, dtype=float).tolist()),
        _Datum("noise", "int", _NOISES.index(likelihood.noise)),
        _Datum("scale", "real", likelihood.scale),
        _Datum("log_top", "real", float(np.max(likelihood.log_prob(likelihood.values)))),
    ]


def _rows(given: Any, groups: int) -> np.ndarray:
    return np.reshape(np.asarray(given), (groups, -1))


def _finite(logs: Any) -> list[Any]:
    finite: list[Any] = np.maximum(logs, _NOTHING).tolist()
    return finite
