"""What a release file and a certificate file may hold, checked when they are read: types, ranges, lengths.

A file may come from anyone, and its hash only finds an accident. What passes here can be computed with; what does not
is refused by the place in the file. `docs/release.schema.json` says the same of types.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any

from vestry.errors import InvalidParameter
from vestry.registry import AVERAGES, MODELS
from vestry.validation import is_number, is_whole

Check = Callable[[Any, str], None]

# Beyond these no number of a release lies: integers of sums are below 2^62, and noise is drawn in 64 bits.
_LARGEST, _INTEGER, _TEXT = 1e300, 2**64, 100_000
_NOISES = ("discrete-laplace", "discrete-gaussian", "rounded-gaussian", "discrete-cube")


def check_release(record: Mapping[str, Any]) -> None:
    """Refuse a release that is not as `Release.to_dict` writes it."""
    _check_characters(record)
    _RELEASE(record, "")
    _check_family(record)
    contents = list(record["contents"].values())
    filled = all(each.get("noisy-statistics", _SOME)["values"] for each in contents)
    if not filled and record["family"]["name"] != "levels":  # of levels nothing may be found
        raise _refusal("contents", "empty", "a list of at least 1")
    _agree("contents", {next(iter(each)) for each in contents})
    if "draws" in contents[0]:
        _agree("the draws", {len(row) for each in contents for row in each["draws"]["values"]})
    else:
        _agree("the noisy statistics", {len(each["noisy-statistics"]["values"]) for each in contents})


_SOME = {"values": [0]}


def check_facts(record: Mapping[str, Any]) -> None:
    """Refuse a certificate file that is not as a study writes it."""
    _check_characters(record)
    _FACTS(record, "")


# --- pieces ---------------------------------------------------------------------------------------------------------


def _check_characters(record: Any) -> None:
    """Refuse what cannot be written again: half a character, which JSON may spell, and numbers that are not finite."""
    try:
        json.dumps(record, ensure_ascii=False, allow_nan=False).encode()
    except (ValueError, RecursionError):
        raise _refusal("its text", "half a character, nan, or nested too deeply", "whole and plain") from None


def _refusal(where: str, given: Any, allowed: str) -> InvalidParameter:
    allowed = f"{allowed} in a file that vestry has written"
    return InvalidParameter(where or "a release", given, allowed, "the original file")


def _check_that(test: Callable[[Any], bool], allowed: str) -> Check:
    def check(value: Any, where: str) -> None:
        if not test(value):
            raise _refusal(where, value, allowed)

    return check


def _is_number(value: Any) -> bool:
    return is_number(value) and abs(value) <= _LARGEST


def _is_listed(value: Any) -> bool:
    return isinstance(value, list) and len(value) >= 2 and all(isinstance(each, (str, int, float)) for each in value)


def _is_integer(value: Any) -> bool:
    return is_whole(value) and abs(value) <= _INTEGER


def _list(item: Check, *, least: int = 0) -> Check:
    def check(value: Any, where: str) -> None:
        if not isinstance(value, (list, tuple)) or len(value) < least:
            raise _refusal(where, value, f"a list of at least {least}")
        for place, each in enumerate(value):
            item(each, f"{where}[{place}]")

    return check


def _object(fields: Mapping[str, Check], *, more: bool = False) -> Check:
    """Check an object with these fields, and no others unless `more`."""

    def check(value: Any, where: str) -> None:
        if not isinstance(value, Mapping):
            raise _refusal(where, value, "an object")
        for name, inside in fields.items():
            if name not in value:
                raise _refusal(f"{where}.{name}".lstrip("."), "missing", "given")
            inside(value[name], f"{where}.{name}".lstrip("."))
        if not more and len(value) > len(fields):
            raise _refusal(where, sorted(set(value) - set(fields))[:1], "an object of the known keys")

    return check


def _table(item: Check, *, least: int = 0) -> Check:
    def check(value: Any, where: str) -> None:
        if not isinstance(value, Mapping) or len(value) < least:
            raise _refusal(where, value, f"an object of at least {least}")
        for name, each in value.items():
            item(each, f"{where}.{name}")

    return check


def _or_null(check: Check) -> Check:
    return lambda value, where: None if value is None else check(value, where)


_text = _check_that(lambda value: isinstance(value, str) and len(value) <= _TEXT, "text")
_number = _check_that(_is_number, "a finite number")
_positive = _check_that(lambda value: _is_number(value) and value > 0, "a finite number above 0")
_integer = _check_that(_is_integer, "a whole number below 2^64 in size")
_count = _check_that(lambda value: _is_integer(value) and value >= 0, "a whole number of at least 0")
_one = _check_that(lambda value: _is_integer(value) and value >= 1, "a whole number of at least 1")
_truth = _check_that(lambda value: isinstance(value, bool), "true or false")
_texts, _any_object = _list(_text), _object({}, more=True)


def _pair(value: Any, where: str) -> None:
    """Check the middle and the half-width of an interval."""
    _list(_number, least=2)(value, where)
    if len(value) != 2 or not value[1] > 0:
        raise _refusal(where, value, "a middle and a half-width above 0")


# --- a release ------------------------------------------------------------------------------------------------------


def _statistics(value: Any, where: str) -> None:
    _STATISTICS(value, where)
    if len(value["names"]) != len(value["values"]):
        raise _refusal(f"{where}.names", len(value["names"]), "as many names as values")
    if value["count_grid"] > 1:
        raise _refusal(f"{where}.count_grid", value["count_grid"], "at most 1")


def _draws(value: Any, where: str) -> None:
    _DRAWS(value, where)
    _agree(f"{where}.values", {len(row) for row in value["values"]})


def _content(value: Any, where: str) -> None:
    known = {"noisy-statistics": _statistics, "draws": _draws}
    if not isinstance(value, Mapping) or len(value) != 1 or next(iter(value)) not in known:
        raise _refusal(where, value, "noisy statistics or draws")
    ((kind, inside),) = value.items()
    known[kind](inside, f"{where}.{kind}")


def _agree(where: str, values: set[Any]) -> None:
    if len(values) > 1:
        raise _refusal(where, "several", "of one kind and length")


_STATISTICS = _object(
    {
        "names": _texts,
        "values": _list(_integer),
        "noise": _check_that(lambda value: value in _NOISES, "a known noise"),
        "scale": _positive,
        "grid": _positive,
        "count": _or_null(_count),
        "count_grid": _positive,
    }
)
_DRAWS = _object({"values": _list(_list(_number, least=1), least=1), "grid": _positive})
_CERTIFICATE = _object(
    {
        "guarantee": _any_object,
        "event": _object({"kind": _text, "count": _one}, more=True),
        "mechanism": _text,
        "parameter": _text,
        "value": _number,
        "theorem": _text,
        "unit": _text,
        "population": _any_object,
        "assumptions": _texts,
        "versions": _table(_text),
    }
)
_RELEASE = _object(
    {
        "schema": _text,
        "family": _object({"name": _text}, more=True),
        "prior": _list(_number),
        "by": _or_null(_text),
        "labels": _texts,
        "contents": _table(_content, least=1),
        "certificate": _CERTIFICATE,
        "sha256": _text,
    }
)
_FACTS = _object(
    {
        "certificate": _CERTIFICATE,
        "release": _text,
        "question": _text,
        "purpose": _text,
        "ledger": _text,
        "entry": _one,
        "spent": _text,
        "remaining": _text,
        "release_sha256": _text,
    },
    more=True,
)

# --- families -------------------------------------------------------------------------------------------------------

_LEVELS = _list(_list(_text, least=2), least=1)
_FEATURES = _list(_text, least=1)
# The first releases draws, the others one estimate.
_METHODS = ("posterior", "objective", "output")
_REGRESSION: dict[str, Check] = {
    "method": _check_that(lambda value: value in _METHODS, "one of " + ", ".join(_METHODS)),
    "features": _FEATURES,
    "classes": _texts,
    "intercept": _truth,
    "scales": _list(_or_null(_pair)),
    "outcome": _or_null(_pair),
}
# Of linear regression by the method moments: what was multiplied, and what is explained by which.
_MOMENTS: dict[str, Check] = {
    "columns": _object(
        {
            "numbers": _list(_object({"name": _text, "low": _number, "high": _number}), least=1),
            "levels": _list(_object({"name": _text, "levels": _list(_text, least=2)})),
        }
    ),
    "outcome_column": _text,
    "predictors": _texts,
}
# Of regression by the method table: what was counted in which cells, and the terms.
_TABLE: dict[str, Check] = {
    "table": _object(
        {
            "predictors": _list(_object({"name": _text, "levels": _list(_text, least=2)}), least=1),
            "outcome": _text,
            "classes": _list(_object({"name": _text, "levels": _FEATURES})),
            "high": _or_null(_one),
        }
    ),
    "predictors": _texts,
}
_DOMAIN = _check_that(
    lambda value: isinstance(value, Mapping) and (_is_listed(value.get("levels")) or _is_listed(value.get("interval"))),
    "a column as it was declared",
)
_COUNTED = _check_that(lambda value: value in ("records", "persons"), "records or persons")
_BINS: dict[str, Check] = {
    "column": _text,
    "edges": _list(_number, least=3),
    "since": _or_null(_text),
    "missing": _truth,
}
_FAMILIES: dict[str, dict[str, Check]] = {
    "beta-bernoulli": {},
    "dirichlet-categorical": {},
    "normal-mean": {"variance": _positive, "low": _number, "high": _number, "dimension": _one},
    "gamma-poisson": {"high": _positive},
    "gamma-exponential": {"low": _number, "high": _number},
    "normal-inverse-gamma": {"low": _number, "high": _number},
    "logistic": _REGRESSION,
    "linear": _REGRESSION,
    "naive-bayes": {"target": _or_null(_text), "classes": _texts, "features": _FEATURES, "levels": _LEVELS},
    "quality": {"columns": _table(_DOMAIN, least=1)},
    "table": {
        "columns": _list(_object({"name": _text, "levels": _list(_text, least=2)}), least=2),
        "zeros": _list(_count),
    },
    "count": {"of": _COUNTED},
    "histogram": _BINS,
    "quantile": {**_BINS, "quantiles": _list(_number, least=1)},
    "levels": {"column": _text, "of": _COUNTED, "least": _one, "margin": _one},
    "hmm": {
        "states": _one,
        "sequence": _object({"region": _text, "time": _text}),
        "regions": _FEATURES,
        "times": _FEATURES,
        "features": _FEATURES,
        "levels": _LEVELS,
        "totals": _truth,
    },
}
# An average over persons, whatever the model.
_AVERAGED: dict[str, Check] = {
    "average": _check_that(lambda value: isinstance(value, str) and value in AVERAGES, "a known average"),
    "kind": _check_that(lambda value: value in ("numbers", "levels"), "numbers or levels"),
    "grouped": _truth,
    "dimension": _one,
    "low": _number,
    "high": _number,
}


def _check_family(record: Mapping[str, Any]) -> None:
    """Refuse a family whose own fields are missing, or do not go with the contents."""
    family = record["family"]
    name = family["name"]
    if name not in MODELS:
        raise _refusal("family.name", name, "one of " + ", ".join(MODELS))
    method = family.get("method", "")
    _text(method, "family.method")
    # What a model of somebody else's needs, its reader refuses.
    fields = _AVERAGED if "average" in family else _FAMILIES.get(name, {})
    summed = _SUMMED.get((name, method))
    _object(fields if summed is None else summed[0], more=True)(family, "family")
    if summed is not None:
        for check in summed[1:]:
            check(record, family)
        return
    if "low" in fields and not family["low"] < family["high"]:
        raise _refusal("family.low", family["low"], "below family.high")
    for check in _CHECKS.get(name, ()):
        check(record, family)


def _check_levels(record: Mapping[str, Any], family: Mapping[str, Any]) -> None:
    if len(family["levels"]) != len(family["features"]):
        raise _refusal("family.levels", len(family["levels"]), "one list for each feature")


def _check_classes(record: Mapping[str, Any], family: Mapping[str, Any]) -> None:
    groups = ["all"] if family["target"] is None else family["classes"]
    if list(record["contents"]) != groups:
        raise _refusal("contents", "of other groups", "of each class")


def _check_coefficients(record: Mapping[str, Any], family: Mapping[str, Any]) -> None:
    size = len(family["features"]) * max(1, len(family["classes"]))
    if list(record["contents"]) != ["all"] or "draws" not in record["contents"]["all"]:
        raise _refusal("contents", "of another kind", "draws of the group all")
    values = record["contents"]["all"]["draws"]["values"]
    if any(len(row) != size for row in values):
        raise _refusal("the draws", "of another length", f"{size} coefficients each")
    if family["method"] != "posterior" and len(values) != 1:
        raise _refusal("the draws", len(values), f"one estimate of the method {family['method']}")
    if len(record["labels"]) != size:
        raise _refusal("labels", len(record["labels"]), f"{size}, one for each coefficient")
    if len(family["scales"]) != len(family["features"]) - family["intercept"]:
        raise _refusal("family.scales", len(family["scales"]), "one for each feature except the intercept")


def _check_moments(record: Mapping[str, Any], family: Mapping[str, Any]) -> None:
    numbers = family["columns"]["numbers"]
    if any(not each["low"] < each["high"] for each in numbers):
        raise _refusal("family.columns.numbers", "an empty interval", "low below high")


def _check_table(record: Mapping[str, Any], family: Mapping[str, Any]) -> None:
    counts, classes = family["table"]["high"] is not None, len(family["table"]["classes"])
    if counts != (family["name"] == "poisson") or (classes != 0 if counts else classes < 2):
        raise _refusal("family.table.classes", classes, "two or more, or none and a largest count")


def _check_noisy(record: Mapping[str, Any], family: Mapping[str, Any]) -> None:
    for group in record["contents"].values():
        if "noisy-statistics" not in group:
            raise _refusal("contents", "of another kind", "noisy statistics")


def _check_edges(record: Mapping[str, Any], family: Mapping[str, Any]) -> None:
    if any(not low < high for low, high in pairwise(family["edges"])):
        raise _refusal("family.edges", "not increasing", "increasing")
    if any(not 0 < q < 1 for q in family.get("quantiles", ())):
        raise _refusal("family.quantiles", "not a probability", "between 0 and 1")


def _check_whole(record: Mapping[str, Any], family: Mapping[str, Any]) -> None:
    if list(record["contents"]) != ["all"]:
        raise _refusal("contents", "of other groups", "of the group all")


def _check_values(record: Mapping[str, Any], family: Mapping[str, Any]) -> None:
    statistics = record["contents"]["all"]["noisy-statistics"]
    if len(set(statistics["names"])) < len(statistics["names"]):
        raise _refusal("the values", "one of them twice", "different from each other")
    if any(value < family["least"] + family["margin"] for value in statistics["values"]):
        raise _refusal("the noisy counts", "below the threshold", "as many as are shown")


def _check_cells(record: Mapping[str, Any], family: Mapping[str, Any]) -> None:
    if list(record["contents"]) != family["regions"]:
        raise _refusal("contents", "of other groups", "of each region")
    if not 2 <= family["states"] <= len(family["regions"]) * len(family["times"]):
        raise _refusal("family.states", family["states"], "at least 2, and at most the number of cells")


_CHECKS: dict[str, tuple[Callable[[Mapping[str, Any], Mapping[str, Any]], None], ...]] = {
    "naive-bayes": (_check_levels, _check_classes),
    "hmm": (_check_levels, _check_cells),
    "quality": (_check_whole,),
    "table": (_check_whole,),
    "histogram": (_check_edges, _check_noisy),
    "quantile": (_check_edges, _check_noisy),
    "levels": (_check_whole, _check_noisy, _check_values),
    "logistic": (_check_coefficients,),
    "linear": (_check_coefficients,),
}

# What has noisy statistics by one method and coefficients by others: fields and checks by model and method.
_SUMMED: dict[Any, tuple[Any, ...]] = {
    ("linear", "moments"): (_MOMENTS, _check_moments, _check_noisy),
    ("logistic", "table"): (_TABLE, _check_table, _check_noisy),
    ("poisson", "table"): (_TABLE, _check_table, _check_noisy),
}
