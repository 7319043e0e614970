"""A release file may come from anyone: whatever a field holds, reading it gives a release or one sentence of ours.

Every field of a release of every model is replaced by a value of every type of JSON, removed, or given a neighbour
that nobody knows, and the file's hash is written anew.
"""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Iterator
from typing import Any

import pytest
from share import cases

from vestry import open_release
from vestry.errors import InvalidParameter, VestryError
from vestry.registry import MODELS
from vestry.releases import SCHEMA, Release
from vestry.study.storage import ReleaseStore

VALUES = [
    None, True, False, 0, 1, -1, 3, 2**70, 0.5, -1e308, 1e-320, "", "all", "posterior", "\x00", [], [[]], [None],
    ["a", "a"], [0.5, 0.5], [[1, 2]], {}, {"name": "all"}, {"name": []}, {"all": {}}, [{"name": "a"}],
]  # fmt: skip

CERTIFICATE = {
    "guarantee": {"epsilon": 1.0, "neighbours": "add-remove"},
    "event": {"kind": "pure", "count": 1},
    "mechanism": "discrete-laplace",
    "parameter": "scale",
    "value": 1.0,
    "theorem": "",
    "unit": "row",
    "population": {"neighbours": "add-remove", "rows": 1},
    "assumptions": [],
    "versions": {"vestry": "0.2.0"},
}
LEVELS = [{"name": "ward", "levels": ["A", "B"]}]
REGRESSION = {"features": ["intercept", "age"], "classes": [], "intercept": True, "scales": [None], "outcome": None}
BINS = {"column": "stay", "edges": [0.0, 1.0, 2.0], "since": None, "missing": False}


def noisy(*values: int) -> dict[str, Any]:
    """Return noisy statistics as a file has them."""
    names = [f"s{number}" for number in range(len(values))]
    facts = {"noise": "discrete-laplace", "scale": 1.0, "grid": 1.0, "count": None, "count_grid": 1.0}
    return {"noisy-statistics": {"names": names, "values": list(values), **facts}}


def drawn(*values: float) -> dict[str, Any]:
    """Return one released draw as a file has it."""
    return {"draws": {"values": [list(values)], "grid": 2.0**-40}}


def all_of(content: dict[str, Any]) -> dict[str, Any]:
    return {"all": content}


# A family's own fields, its contents and its labels.
FAMILIES: dict[str, tuple[dict[str, Any], dict[str, Any], list[str]]] = {
    "beta-bernoulli": ({"name": "beta-bernoulli"}, all_of(noisy(7, 3)), []),
    "beta-bernoulli drawn": ({"name": "beta-bernoulli"}, all_of(drawn(0.5)), []),
    "dirichlet-categorical": ({"name": "dirichlet-categorical"}, all_of(noisy(7, 3)), ["A", "B"]),
    "normal-mean": (
        {"name": "normal-mean", "variance": 1.0, "low": 0.0, "high": 9.0, "dimension": 1}, all_of(noisy(7, 3)), [],
    ),
    "gamma-poisson": ({"name": "gamma-poisson", "high": 5}, all_of(noisy(7, 3)), []),
    "gamma-exponential": ({"name": "gamma-exponential", "low": 1.0, "high": 5.0}, all_of(noisy(7, 3)), []),
    "normal-inverse-gamma": (
        {"name": "normal-inverse-gamma", "low": 0.0, "high": 5.0}, all_of(noisy(7, 3, 9)), [],
    ),
    "statistical-query": ({"name": "statistical-query"}, all_of(drawn(0.5)), []),
    "logistic": ({"name": "logistic", "method": "output", **REGRESSION}, all_of(drawn(0.5, 1.0)), ["intercept", "age"]),
    "linear": ({"name": "linear", "method": "output", **REGRESSION}, all_of(drawn(0.5, 1.0)), ["intercept", "age"]),
    "linear moments": (
        {
            "name": "linear", "method": "moments", "outcome_column": "stay", "predictors": ["age"],
            "columns": {
                "numbers": [{"name": "age", "low": 0.0, "high": 1.0}, {"name": "stay", "low": 0.0, "high": 2.0}],
                "levels": [],
            },
        },
        all_of(noisy(9, 5, 5, 4, 4, 4)), [],
    ),
    "logistic table": (
        {
            "name": "logistic", "method": "table", "predictors": ["ward"],
            "table": {"predictors": LEVELS, "outcome": "ill", "high": None,
                      "classes": [{"name": "no", "levels": ["no"]}, {"name": "yes", "levels": ["yes"]}]},
        },
        all_of(noisy(5, 4, 3, 2)), [],
    ),
    "poisson table": (
        {
            "name": "poisson", "method": "table", "predictors": ["ward"],
            "table": {"predictors": LEVELS, "outcome": "falls", "classes": [], "high": 5},
        },
        all_of(noisy(5, 4, 3, 2)), [],
    ),
    "naive-bayes": (
        {
            "name": "naive-bayes", "target": "ill", "classes": ["no", "yes"], "features": ["ward"],
            "levels": [["A", "B"]],
        },
        {"no": noisy(3, 4), "yes": noisy(5, 6)}, [],
    ),
    "quality": ({"name": "quality", "columns": {"ward": {"levels": ["A", "B"]}}}, all_of(noisy(9, 1, 0)), []),
    "table": ({"name": "table", "columns": [*LEVELS, {"name": "sex", "levels": ["f", "m"]}], "zeros": []},
              all_of(noisy(4, 3, 2, 1)), []),
    "count": ({"name": "count", "of": "records"}, all_of(noisy(9)), []),
    "histogram": ({"name": "histogram", **BINS}, all_of(noisy(4, 5)), []),
    "quantile": ({"name": "quantile", **BINS, "quantiles": [0.5]}, all_of(noisy(4, 5)), []),
    "levels": ({"name": "levels", "column": "ward", "of": "records", "least": 1, "margin": 3}, all_of(noisy(7, 9)), []),
    "hmm": (
        {
            "name": "hmm", "states": 2, "sequence": {"region": "ward", "time": "week"}, "regions": ["A"],
            "times": ["1", "2"], "features": ["ill"], "levels": [["no", "yes"]], "totals": False,
        },
        {"A": noisy(1, 2, 3, 4)}, [],
    ),
    "averaged": (
        {"name": "beta-bernoulli", "average": "person", "kind": "levels", "grouped": False, "dimension": 1,
         "low": 0.0, "high": 1.0},
        all_of(noisy(7, 3)), [],
    ),
}  # fmt: skip


# Of the families whose prior is not two numbers.
PRIORS = {
    "dirichlet-categorical": [1.0, 1.0],
    "normal-inverse-gamma": [0.0, 1.0, 2.0, 1.0],
    "logistic": [1.0],
    "linear": [1.0],
    "linear moments": [1.0],
    "logistic table": [1.0],
    "poisson table": [1.0],
    "naive-bayes": [1.0],
    "quality": [1.0],
    "table": [1.0],
    "count": [],
    "histogram": [0.5],
    "quantile": [0.5],
    "levels": [],
}


def record_of(name: str) -> dict[str, Any]:
    """Return what the file of a release holds."""
    family, contents, labels = FAMILIES[name]
    record = {
        "schema": SCHEMA,
        "family": family,
        "prior": PRIORS.get(name, [1.0, 1.0]),
        "by": None,
        "labels": labels,
        "contents": contents,
        "certificate": CERTIFICATE,
    }
    return copy.deepcopy(record)


def hashed(record: Any) -> Any:
    """Write the hash of what is there now."""
    if isinstance(record, dict):
        body = {key: value for key, value in record.items() if key != "sha256"}
        text = json.dumps(body, sort_keys=True, separators=(",", ":"))
        return {**body, "sha256": hashlib.sha256(text.encode()).hexdigest()}
    return record


def places(record: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path to every value inside."""
    if isinstance(record, dict):
        pairs: Any = record.items()
    elif isinstance(record, list):
        pairs = enumerate(record)
    else:
        return
    for key, value in pairs:
        yield (*path, key)
        yield from places(value, (*path, key))


def mutants(record: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield every record that differs in one field, with words that say which."""
    for path in places(record):
        for value in VALUES:
            changed = copy.deepcopy(record)
            inner = inside(changed, path[:-1])
            inner[path[-1]] = value
            yield f"{path} = {value!r}", changed
        changed = copy.deepcopy(record)
        del inside(changed, path[:-1])[path[-1]]
        yield f"{path} removed", changed
        parent = inside(changed, path[:-1])
        if isinstance(parent, dict):
            parent["another"] = []
            yield f"{path} under another name", changed


def inside(record: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        record = record[key]
    return record


def test_every_model_is_here():
    assert {family["name"] for family, _, _ in FAMILIES.values()} == set(MODELS)


@pytest.mark.parametrize("name", FAMILIES)
def test_what_is_whole_is_read(name):
    assert Release.from_dict(hashed(record_of(name))).family["name"] == FAMILIES[name][0]["name"]


# Posteriors of these take too long to compute for every mutant.
SLOW = {"logistic table", "poisson table", "table", "histogram", "quantile"}


@pytest.mark.property
@pytest.mark.parametrize("name", cases(FAMILIES, quick=["beta-bernoulli", "linear moments", "levels"]))
def test_a_changed_field_gives_a_release_or_a_sentence(name):
    refused = 0
    for words, changed in mutants(record_of(name)):
        try:
            release = Release.from_dict(hashed(changed))
            assert repr(release), words
            assert release._repr_html_(), words
            assert Release.from_dict(json.loads(release.text())) == release, words
            if name not in SLOW:
                release.posterior()
        except VestryError:
            refused += 1
        except Exception as error:
            pytest.fail(f"{words}: {error!r}")
    assert refused > 100


@pytest.mark.property
def test_a_changed_certificate_is_read_or_left_alone(tmp_path):
    facts = {
        "certificate": CERTIFICATE, "release": "a", "question": "b", "purpose": "", "ledger": "d", "entry": 1,
        "spent": "epsilon=1", "remaining": "nothing", "release_sha256": "0" * 64,
    }  # fmt: skip
    store = ReleaseStore(tmp_path)
    store.write_certificate("a", facts)
    assert store.read_certificate("a") == facts
    for words, changed in [*mutants(facts), *((repr(value), value) for value in VALUES)]:
        store.write_certificate("a", changed)
        read = store.read_certificate("a")
        assert read in ({}, changed), words
        assert store.certified("a") in (None, "0" * 64), words


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_a_file_that_holds_another_value_is_refused(tmp_path, value):
    path = tmp_path / "release.json"
    path.write_text(json.dumps(value))
    with pytest.raises(InvalidParameter, match="a release"):
        open_release(path)
