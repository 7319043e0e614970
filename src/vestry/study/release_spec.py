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


def read_release(name: str, releases: Section, schema: TableSchema) -> ReleaseSpec:
    """Read one release."""
    with releases.at(name):
        if not _NAME.fullmatch(name):
            raise InvalidParameter(
                "a release's name", name, "at most 64 letters, digits, - and _", "for example [release.readmission]"
            )
    instead = f'[release.{name}] and model = "beta-bernoulli" below it'
    section = releases.below(name, called="a release", instead=instead)
    model_type = _model_type(section)
    own = fields(model_type)
    section.allow((*KEYS, *(field.name for field in own)))
    section.require(("spend", *(field.name for field in own if field.default is MISSING)))
    spend = section.guarantee("spend", schema.neighbours)
    model = _model(model_type, section, schema)
    with releases.at(name):
        check_size(model, schema.domains)
    draws = section.whole("draws", 1, most=_DRAWS)
    truncation = section.number("truncation", "0.05")
    with section.at("truncation"):
        if truncation is not None and draws is None:
            raise InvalidParameter("truncation", truncation, "left out where there are no draws", "draws = 1 beside it")
    with section.at("mechanism") if "mechanism" in section.record else releases.at(name):
        request = Request(model, spend, section.record.get("mechanism", AUTO), draws, truncation)
        if request.mechanism == "ops" and truncation is None:
            raise InvalidParameter("truncation", None, "given for ops", "truncation = 0.05")
    return ReleaseSpec(name, request, section.text("purpose", purpose_of(model.question())))


def _model_type(section: Section) -> Any:
    """Return the model that is named."""
    section.require(("model",))
    kind = section.record["model"]
    with section.at("model"):
        if not isinstance(kind, str) or kind not in MODELS:
            near = difflib.get_close_matches(str(kind), MODELS, 1) or list(MODELS)
            raise InvalidParameter("model", kind, "one of " + ", ".join(MODELS), f'model = "{near[0]}"')
    return MODELS[kind]


def _model(model_type: Any, section: Section, schema: TableSchema) -> Any:
    given = {field.name: section.record[field.name] for field in fields(model_type) if field.name in section.record}
    values: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in given.items()}
    if hasattr(model_type, "column_keys"):
        return _own_model(model_type, values, section, schema)
    _check_columns(model_type, values["column"], section, schema)
    if "by" in values:
        _check_column(values["by"], section, "by", schema)
        with section.at("by"):
            levels_of(schema.domains, values["by"])
    if "prior" in values:
        with section.at("prior"):
            values["prior"] = _numbers("prior", values["prior"])
    if "variance" in values:
        values["variance"] = section.number("variance", "100")
    if "success" in values:
        with section.at("column"):
            _check_success(values["success"], levels_of(schema.domains, values["column"]))
    model = model_type(**values)
    _check_prior(model, values, section, schema)
    return model


def _own_model(model_type: Any, values: Mapping[str, Any], section: Section, schema: TableSchema) -> Any:
    """Make a model that checks its own keys; a fault is told at the key that its error names."""
    for name in model_type.column_keys:
        if name not in values:
            continue  # it has a default
        given = values[name]
        named = given.values() if isinstance(given, Mapping) else given if isinstance(given, tuple) else (given,)
        for column in named:
            _check_column(column, section, name, schema)
    model = model_type(**values)
    try:
        model.check(schema.domains)
    except InvalidParameter as error:
        with section.lines.at(section.path(error.name) if error.name in values else section.key):
            raise
    return model


def _check_prior(model: Any, values: Mapping[str, Any], section: Section, schema: TableSchema) -> None:
    """Refuse a prior that the family refuses, with one that it takes."""
    with section.at("column"):
        family = model.family(schema.domains)
    with section.at("prior"):
        try:
            family.prior(model.numbers(schema.domains))
        except InvalidParameter as error:
            default = next(field.default for field in fields(model) if field.name == "prior")
            flat = _PRIORS.get(model.name) or type(model)(**{**values, "prior": default}).numbers(schema.domains)
            instead = f"prior = [{', '.join(f'{x:g}' for x in flat)}]"
            raise InvalidParameter(error.name, error.given, error.allowed, instead) from None


def _check_columns(model_type: Any, given: object, section: Section, schema: TableSchema) -> None:
    """Let one declared column through, or several different ones where the model takes them."""
    several = given if isinstance(given, tuple) else (given,)
    with section.at("column"):
        if isinstance(given, tuple) and model_type is not NormalMean:
            raise InvalidParameter("column", list(given), f"one column for {model_type.name}", EXAMPLES["column"])
        if not several or any(column in several[:place] for place, column in enumerate(several)):
            raise InvalidParameter("column", list(several), "one column, or several, each once", EXAMPLES["column"])
    for column in several:
        _check_column(column, section, "column", schema)


def _check_column(column: object, section: Section, name: str, schema: TableSchema) -> None:
    """Refuse a column that is not declared, with the nearest that is."""
    if isinstance(column, str) and column in schema.domains:
        return
    with section.at(name):
        if not isinstance(column, str):
            given = list(column) if isinstance(column, tuple) else column
            known = [each for each in schema.domains if isinstance(column, tuple) and each in column]
            instead = f'"{[*known, *schema.domains][0]}"'
            raise InvalidParameter("a column", given, "the name of one that is declared", instead)
        near = difflib.get_close_matches(column, schema.domains, 1)
        named = ", ".join(schema.domains)
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
