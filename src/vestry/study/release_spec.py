"""One release of a study: [release.NAME], a model and its keys, and what it may spend."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from typing import Any

from vestry.conjugate.normal_mean import NormalMean
from vestry.errors import InvalidParameter
from vestry.model.columns import levels_of, purpose_of
from vestry.model.request import AUTO, Request, TableSchema
from vestry.model.size_limit import check_size
from vestry.registry import MODELS
from vestry.schema.domain import Levels
from vestry.study.toml_table import EXAMPLES, Section, finite

KEYS = ("model", "spend", "mechanism", "draws", "truncation", "purpose")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_\-]{0,63}")
_DRAWS = 10**6
# What to write where a model has no default prior.
_PRIORS = {"normal-mean": (0.0, 100.0), "normal-inverse-gamma": (0.0, 1.0, 2.0, 1.0)}


@dataclass(frozen=True)
class ReleaseSpec:
    """One release of a study: its name, what is asked, and why."""

    name: str
    request: Request
    purpose: str


def asked(name: str, releases: Section, frame: TableSchema) -> ReleaseSpec:
    """Read one release."""
    with releases.at(name):
        if not _NAME.fullmatch(name):
            raise InvalidParameter(
                "a release's name", name, "at most 64 letters, digits, - and _", "for example [release.readmission]"
            )
    instead = f'[release.{name}] and model = "beta-bernoulli" below it'
    found = releases.below(name, called="a release", instead=instead)
    make = _chosen(found)
    own = fields(make)
    found.allow((*KEYS, *(field.name for field in own)))
    found.require(("spend", *(field.name for field in own if field.default is MISSING)))
    spend = found.guarantee("spend", frame.neighbours)
    model = _model(make, found, frame)
    with releases.at(name):
        check_size(model, frame.domains)
    draws = found.whole("draws", 1, most=_DRAWS)
    truncation = found.number("truncation", "0.05")
    with found.at("truncation"):
        if truncation is not None and draws is None:
            raise InvalidParameter("truncation", truncation, "left out where there are no draws", "draws = 1 beside it")
    with found.at("mechanism") if "mechanism" in found.record else releases.at(name):
        request = Request(model, spend, found.record.get("mechanism", AUTO), draws, truncation)
        if request.mechanism == "ops" and truncation is None:
            raise InvalidParameter("truncation", None, "given for ops", "truncation = 0.05")
    return ReleaseSpec(name, request, found.text("purpose", purpose_of(model.question())))


def _chosen(found: Section) -> Any:
    """Return the model that is named."""
    found.require(("model",))
    kind = found.record["model"]
    with found.at("model"):
        if not isinstance(kind, str) or kind not in MODELS:
            near = difflib.get_close_matches(str(kind), MODELS, 1) or list(MODELS)
            raise InvalidParameter("model", kind, "one of " + ", ".join(MODELS), f'model = "{near[0]}"')
    return MODELS[kind]


def _model(make: Any, found: Section, frame: TableSchema) -> Any:
    given = {field.name: found.record[field.name] for field in fields(make) if field.name in found.record}
    values: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in given.items()}
    if hasattr(make, "column_keys"):
        return _own_model(make, values, found, frame)
    _check_columns(make, values["column"], found, frame)
    if "by" in values:
        _check_column(values["by"], found, "by", frame)
        with found.at("by"):
            levels_of(frame.domains, values["by"])
    if "prior" in values:
        with found.at("prior"):
            values["prior"] = _numbers("prior", values["prior"])
    if "variance" in values:
        values["variance"] = found.number("variance", "100")
    if "success" in values:
        with found.at("column"):
            _check_success(values["success"], levels_of(frame.domains, values["column"]))
    model = make(**values)
    _check_prior(model, values, found, frame)
    return model


def _own_model(make: Any, values: Mapping[str, Any], found: Section, frame: TableSchema) -> Any:
    """Make a model that checks its own keys; a fault is told at the key that its error names."""
    for name in make.column_keys:
        if name not in values:
            continue  # it has a default
        given = values[name]
        named = given.values() if isinstance(given, Mapping) else given if isinstance(given, tuple) else (given,)
        for column in named:
            _check_column(column, found, name, frame)
    model = make(**values)
    try:
        model.check(frame.domains)
    except InvalidParameter as error:
        with found.places.at(found.path(error.name) if error.name in values else found.key):
            raise
    return model


def _check_prior(model: Any, values: Mapping[str, Any], found: Section, frame: TableSchema) -> None:
    """Refuse a prior that the family refuses, with one that it takes."""
    with found.at("column"):
        family = model.family(frame.domains)
    with found.at("prior"):
        try:
            family.prior(model.numbers(frame.domains))
        except InvalidParameter as error:
            default = next(field.default for field in fields(model) if field.name == "prior")
            flat = _PRIORS.get(model.name) or type(model)(**{**values, "prior": default}).numbers(frame.domains)
            instead = f"prior = [{', '.join(f'{x:g}' for x in flat)}]"
            raise InvalidParameter(error.name, error.given, error.allowed, instead) from None


def _check_columns(make: Any, given: object, found: Section, frame: TableSchema) -> None:
    """Let one declared column through, or several different ones where the model takes them."""
    several = given if isinstance(given, tuple) else (given,)
    with found.at("column"):
        if isinstance(given, tuple) and make is not NormalMean:
            raise InvalidParameter("column", list(given), f"one column for {make.name}", EXAMPLES["column"])
        if not several or any(column in several[:place] for place, column in enumerate(several)):
            raise InvalidParameter("column", list(several), "one column, or several, each once", EXAMPLES["column"])
    for column in several:
        _check_column(column, found, "column", frame)


def _check_column(column: object, found: Section, name: str, frame: TableSchema) -> None:
    """Refuse a column that is not declared, with the nearest that is."""
    if isinstance(column, str) and column in frame.domains:
        return
    with found.at(name):
        if not isinstance(column, str):
            given = list(column) if isinstance(column, tuple) else column
            known = [each for each in frame.domains if isinstance(column, tuple) and each in column]
            instead = f'"{[*known, *frame.domains][0]}"'
            raise InvalidParameter("a column", given, "the name of one that is declared", instead)
        near = difflib.get_close_matches(column, frame.domains, 1)
        named = ", ".join(frame.domains)
        instead = f'"{near[0]}"' if near else f'{column} = {{ levels = ["no", "yes"] }} under [columns]'
        raise InvalidParameter("a column", column, f"one that is declared ({named})", instead)


def _check_success(given: object, levels: Levels) -> None:
    """Refuse what is no level; 1 is no truth value, though Python holds it equal to one."""
    if type(given) is not type(levels.values[0]) or given not in levels.values:
        named = [json.dumps(level, ensure_ascii=False) for level in levels.values]
        raise InvalidParameter("success", given, f"one of the levels ({', '.join(named)})", f"success = {named[-1]}")


def _numbers(name: str, values: object) -> tuple[float, ...]:
    example = f"{name} = [1, 1]"
    if not isinstance(values, tuple):
        raise InvalidParameter(name, values, "a list of numbers", example)
    return tuple(finite(f"each number of {name}", value, example) for value in values)
