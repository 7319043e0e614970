"""What a study file declares, read and checked without touching data or ledger.

[study]     name, data, unit, neighbours, budget, ledger; optional: dataset, n, largest
[columns]   one domain for each column that is used
[release.NAME]   model and its keys, spend; optional: mechanism, draws, truncation, purpose
"""

from __future__ import annotations

import difflib
import json
import math
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import Any

from vestry.data.bound import LIMIT, check_bound
from vestry.data.source import kind_of
from vestry.errors import InvalidParameter, StudyFault
from vestry.models import MODELS, Model, NormalMean
from vestry.models.model import levels_of
from vestry.models.request import AUTO, Frame, Request
from vestry.privacy.guarantee import ZCDP, ApproxDP, GaussianDP, Guarantee, PureDP, RenyiDP
from vestry.privacy.neighbours import Neighbours, Unit
from vestry.statistics.domain import Domain, Levels, domain_from
from vestry.statistics.tally import Tally
from vestry.study.place import Places

REQUIRED = ("name", "data", "unit", "neighbours", "budget", "ledger")
OPTIONAL = ("dataset", "n", "largest")
SECTIONS = ("study", "columns", "release")
COLUMN = ("levels", "interval", "count", "missing")
PERSON = ("person", "rows")
GUARANTEE = ("epsilon", "delta", "order", "rho", "mu")
RELEASE = ("model", "spend", "mechanism", "draws", "truncation", "purpose")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_\-]{0,63}")
LARGEST = 10**12
_DRAWS = 10**6
# What a ledger can write.
_ROWS = 10**9 - 1
_LONGEST = 1000
# As for the ends of intervals: beyond it no calibration computes well.
_GREATEST = 1e30


@dataclass(frozen=True)
class Asked:
    """One release of a study: its name, what is asked, and why."""

    name: str
    request: Request
    purpose: str


@dataclass(frozen=True)
class Declaration:
    """A study as it is declared.

    Attributes
    ----------
    path, text
        The file, and what it says.
    name, data, ledger
        The study's name, where the records are, and where the ledger is; relative paths follow the file's folder.
    dataset
        What the ledger calls the dataset; not compared if it is left out.
    frame
        Domains, unit and neighbours.
    budget
        What may be spent in all, as the ledger owns it.
    n
        A guess at the number of records, for `plan` alone; None if there is none.
    largest
        How many records there are at most.
    releases
        What is asked, in the order of the file.
    places
        Where each key stands.
    """

    path: Path
    text: str
    name: str
    data: str
    ledger: str
    dataset: str | None
    frame: Frame
    budget: Guarantee
    n: int | None
    largest: int
    releases: tuple[Asked, ...]
    places: Places

    @property
    def folder(self) -> Path:
        """The folder of the file."""
        return self.path.parent

    def release(self, name: str) -> Asked:
        """Return a release by its name."""
        for asked in self.releases:
            if asked.name == name:
                return asked
        known = ", ".join(asked.name for asked in self.releases)
        raise InvalidParameter("a release", name, f"one of the study's ({known})", f"[release.{name}] into the file")


def read(path: str | Path) -> Declaration:
    """Read a study file, or raise a fault that names file, line, key and what to write instead."""
    file = Path(path)
    try:
        text = file.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise InvalidParameter("a study file", str(path), f"readable ({error.strerror})", "another path") from None
    except UnicodeDecodeError:
        raise InvalidParameter("a study file", str(path), "text in UTF-8", "the file again, saved as UTF-8") from None
    except ValueError:
        raise InvalidParameter("a study file", str(path), "a path", "another path") from None
    try:
        record = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise _syntax(file.name, text, str(error)) from None
    return _declared(file, text, record, Places.of(file.name, text))


def _syntax(path: str, text: str, message: str) -> StudyFault:
    """Point at the line that tomllib names."""
    found = re.search(r"\s*\(at (?:line (?P<line>\d+), column \d+|end of document)\)", message)
    if found is None:  # nested too deeply, or a number of thousands of digits
        return StudyFault(path, 1, "the file", "it is nested too deeply, or a number is too long; write it plainly.")
    line = int(found["line"] or text.rstrip().count("\n") + 1)
    words = message[: found.start()]
    if (twice := re.fullmatch(r"Cannot declare \((?P<parts>.*)\) twice", words)) is not None:
        header = ".".join(re.findall(r"'([^']*)'", twice["parts"]))
        return StudyFault(path, line, header, f"[{header}] is written twice; write it once.")
    said = _SYNTAX.get(words, f'{words[:1].lower()}{words[1:]}; write it as TOML, for example name = "readmissions"')
    return StudyFault(path, line, "the file", said + ".")


def _declared(file: Path, text: str, record: Mapping[str, Any], places: Places) -> Declaration:
    _known(record, SECTIONS, places, "")
    for section in SECTIONS:
        if section not in record:
            raise places.fault(section, f"this section is missing; write {_EXAMPLES[section]}.")
        with places.at(section):
            _table(section, record[section], _EXAMPLES[section])
    study = record["study"]
    _known(study, (*REQUIRED, *OPTIONAL), places, "study")
    _needed(study, REQUIRED, places, "study")
    for key in ("name", "data", "ledger"):
        with places.at(f"study.{key}"):
            _text(key, study[key])
    if "dataset" in study:
        with places.at("study.dataset"):
            _text("dataset", study["dataset"])
    for key in ("data", "ledger"):
        with places.at(f"study.{key}"):
            _secretless(key, study[key])
    with places.at("study.data"):
        _readable(study["data"])
    with places.at("study.neighbours"):
        neighbours = Neighbours.parse(study["neighbours"])
    largest = _whole(study, "largest", places, "study", 10**9, most=LIMIT - 1) or LARGEST
    n = _whole(study, "n", places, "study", 1000, most=largest)
    unit = _unit(study["unit"], places)
    budget = _guarantee("budget", study["budget"], neighbours, places, "study")
    frame = Frame(_columns(record["columns"], places), unit, neighbours, largest)
    if not record["release"]:
        raise places.fault("release", f"there is no release; write {_EXAMPLES['release']}.")
    return Declaration(
        path=file,
        text=text,
        name=study["name"],
        data=study["data"],
        ledger=study["ledger"],
        dataset=study.get("dataset"),
        frame=frame,
        budget=budget,
        n=n,
        largest=largest,
        releases=tuple(_asked(name, each, frame, places) for name, each in record["release"].items()),
        places=places,
    )


def _columns(record: Mapping[str, Any], places: Places) -> dict[str, Domain]:
    columns: dict[str, Domain] = {}
    for name, each in record.items():
        key = f"columns.{name}"
        with places.at(key):
            _text("a column's name", name)
            _table("a column", each, f'{name} = {{ levels = ["no", "yes"] }}')
        _known(each, COLUMN, places, key)
        with places.at(key):
            columns[name] = domain_from(each)
            check_bound(Tally((name,), ()), columns, 1)
    if not columns:
        raise places.fault("columns", 'no column is declared; write for example ward = { levels = ["A", "B"] }.')
    return columns


def _asked(name: str, record: object, frame: Frame, places: Places) -> Asked:
    key = f"release.{name}"
    with places.at(key):
        if not _NAME.fullmatch(name):
            raise InvalidParameter(
                "a release's name", name, "at most 64 letters, digits, - and _", "for example [release.readmission]"
            )
        found = _table("a release", record, f'[release.{name}] and model = "beta-bernoulli" below it')
    _needed(found, ("model",), places, key)
    kind = found["model"]
    if not isinstance(kind, str) or kind not in MODELS:
        near = difflib.get_close_matches(str(kind), MODELS, 1) or list(MODELS)
        with places.at(f"{key}.model"):
            raise InvalidParameter("model", kind, "one of " + ", ".join(MODELS), f'model = "{near[0]}"')
    own = fields(MODELS[kind])
    _known(found, (*RELEASE, *(field.name for field in own)), places, key)
    _needed(found, ("spend", *(field.name for field in own if field.default is MISSING)), places, key)
    spend = _guarantee("spend", found["spend"], frame.neighbours, places, key)
    model = _model(kind, found, frame, places, key)
    draws = _whole(found, "draws", places, key, 1, most=_DRAWS)
    with places.at(f"{key}.truncation"):
        truncation = None if "truncation" not in found else _number("truncation", found["truncation"], "0.05")
        if truncation is not None and draws is None:
            raise InvalidParameter("truncation", truncation, "left out where there are no draws", "draws = 1 beside it")
    with places.at(f"{key}.mechanism"):
        request = Request(model, spend, found.get("mechanism", AUTO), draws, truncation)
        if request.mechanism == "ops" and truncation is None:
            raise InvalidParameter("truncation", None, "given for ops", "truncation = 0.05")
    with places.at(f"{key}.purpose"):
        purpose = _text("purpose", found.get("purpose", model.question()))
    return Asked(name, request, purpose)


def _model(kind: str, record: Mapping[str, Any], frame: Frame, places: Places, key: str) -> Model:
    names = [field.name for field in fields(MODELS[kind]) if field.name in record]
    values: dict[str, Any] = {
        name: tuple(record[name]) if isinstance(record[name], list) else record[name] for name in names
    }
    if hasattr(MODELS[kind], "column_keys"):
        return _own_model(MODELS[kind], values, frame, places, key)
    _columns_of(kind, values["column"], frame, places, f"{key}.column")
    if "by" in values:
        _declared_column(values["by"], frame, places, f"{key}.by")
        with places.at(f"{key}.by"):
            levels_of(frame.domains, values["by"])
    if "prior" in values:
        with places.at(f"{key}.prior"):
            values["prior"] = _numbers("prior", values["prior"])
    if "variance" in values:
        with places.at(f"{key}.variance"):
            values["variance"] = _number("variance", values["variance"], "100")
    if "success" in values:
        with places.at(f"{key}.column"):
            _success(values["success"], levels_of(frame.domains, values["column"]))
    make: Any = MODELS[kind]
    model: Model = make(**values)
    with places.at(f"{key}.column"):
        family = model.family(frame.domains)
    with places.at(f"{key}.prior"):
        try:
            family.prior(model.numbers(frame.domains))
        except InvalidParameter as error:
            default = next(field.default for field in fields(MODELS[kind]) if field.name == "prior")
            flat = _PRIORS.get(kind) or make(**{**values, "prior": default}).numbers(frame.domains)
            instead = f"prior = [{', '.join(f'{x:g}' for x in flat)}]"
            raise InvalidParameter(error.name, error.given, error.allowed, instead) from None
    return model


def _own_model(make: Any, values: Mapping[str, Any], frame: Frame, places: Places, key: str) -> Model:
    """Make a model that checks its own keys; a fault is told at the key that its error names."""
    for name in make.column_keys:
        if name not in values:
            continue  # it has a default
        given = values[name]
        named = given.values() if isinstance(given, Mapping) else given if isinstance(given, tuple) else (given,)
        for column in named:
            _declared_column(column, frame, places, f"{key}.{name}")
    model: Model = make(**values)
    try:
        model.check(frame.domains)  # type: ignore[attr-defined]
    except InvalidParameter as error:
        with places.at(f"{key}.{error.name}" if error.name in values else key):
            raise
    return model


# What to write where a model has no default prior.
_PRIORS = {"normal-mean": (0.0, 100.0), "normal-inverse-gamma": (0.0, 1.0, 2.0, 1.0)}


def _columns_of(kind: str, given: object, frame: Frame, places: Places, key: str) -> None:
    """Let one declared column through, or several different ones where the model takes them."""
    several = given if isinstance(given, tuple) else (given,)
    with places.at(key):
        if isinstance(given, tuple) and kind != NormalMean.name:
            raise InvalidParameter("column", list(given), f"one column for {kind}", _EXAMPLES["column"])
        if not several or any(column in several[:place] for place, column in enumerate(several)):
            raise InvalidParameter("column", list(several), "one column, or several, each once", _EXAMPLES["column"])
    for column in several:
        _declared_column(column, frame, places, key)


def _declared_column(column: object, frame: Frame, places: Places, key: str) -> None:
    if isinstance(column, str) and column in frame.domains:
        return
    with places.at(key):
        if not isinstance(column, str):
            raise InvalidParameter(
                "a column", column, "the name of one that is declared", f'"{next(iter(frame.domains))}"'
            )
        near = difflib.get_close_matches(column, frame.domains, 1)
        named = ", ".join(frame.domains)
        instead = f'"{near[0]}"' if near else f'{column} = {{ levels = ["no", "yes"] }} under [columns]'
        raise InvalidParameter("a column", column, f"one that is declared ({named})", instead)


def _success(given: object, levels: Levels) -> None:
    """Refuse what is no level; 1 is no truth value, though Python holds it equal to one."""
    if type(given) is not type(levels.values[0]) or given not in levels.values:
        named, last = ", ".join(map(_toml, levels.values)), _toml(levels.values[-1])
        raise InvalidParameter("success", given, f"one of the levels ({named})", f"success = {last}")


def _known(record: Mapping[str, Any], allowed: Iterable[str], places: Places, key: str) -> None:
    names = list(allowed)
    for name in record:
        if name not in names:
            near = difflib.get_close_matches(name, names, 1)
            instead = near[0] if near else "one of " + ", ".join(names)
            raise places.fault(f"{key}.{name}" if key else name, f"this key is not known; write {instead}.")


def _needed(record: Mapping[str, Any], names: Iterable[str], places: Places, key: str) -> None:
    for name in names:
        if name not in record:
            raise places.fault(f"{key}.{name}", f"this key is missing; write {_EXAMPLES[name]}.")


def _table(name: str, given: object, instead: str) -> Mapping[str, Any]:
    if not isinstance(given, Mapping):
        raise InvalidParameter(name, given, "a table", instead)
    return given


def _unit(given: object, places: Places) -> Unit:
    if isinstance(given, Mapping):
        _known(given, PERSON, places, "study.unit")
    with places.at("study.unit"):
        if given == "row":
            return Unit()
        if not isinstance(given, Mapping) or set(given) != set(PERSON):
            raise InvalidParameter("unit", given, '"row", or a person and rows', _EXAMPLES["unit"])
        instead = 'unit = { person = "patient_id", rows = 3 }'
        try:
            unit = Unit(given["person"], given["rows"])
        except InvalidParameter as error:
            raise InvalidParameter(error.name, error.given, error.allowed, instead) from None
        if unit.rows > _ROWS:
            raise InvalidParameter("rows", unit.rows, f"at most {_ROWS}", instead)
        return unit
    raise AssertionError  # pragma: no cover - `at` raises


def _guarantee(name: str, given: object, neighbours: Neighbours, places: Places, section: str) -> Guarantee:
    key = f"{section}.{name}"
    with places.at(key):
        numbers = _table(name, given, _EXAMPLES[name])
    _known(numbers, GUARANTEE, places, key)
    with places.at(key):
        if set(numbers) not in [set(kind.names()) for kind in (PureDP, ApproxDP, RenyiDP, ZCDP, GaussianDP)]:
            raise InvalidParameter(name, dict(numbers), "a known combination of keys", f"{name} = {_WAYS}")
        return Guarantee.parse(numbers, neighbours=neighbours)
    raise AssertionError  # pragma: no cover - `at` raises


def _secretless(key: str, address: str) -> None:
    """Refuse a password that is written out. What may be one is never shown."""
    rest = address.partition("://")[2]
    # Whatever stands before the last @ and after a colon: a password may hold any mark.
    asked = re.findall(r"(?:^|[?&])(?:ssl)?password=([^&]*)", rest.partition("?")[2])
    secrets = [*asked, *([rest.rpartition("@")[0].partition(":")[2]] if "@" in rest else [])]
    if any(secret and not re.fullmatch(r"\$\{[A-Za-z_][A-Za-z0-9_]*\}", secret) for secret in secrets):
        table = "/TABLE" if key == "data" else ""
        instead = f'{key} = "postgresql://USER:${{VARIABLE}}@HOST/DATABASE{table}" and set VARIABLE in the environment'
        raise InvalidParameter(key, "one with a password in it", "free of secrets", instead)


def _readable(address: str) -> None:
    try:
        kind_of(address)
    except InvalidParameter as error:
        raise InvalidParameter("data", error.given, error.allowed, _EXAMPLES["data"]) from None


def _whole(record: Mapping[str, Any], key: str, places: Places, section: str, example: int, *, most: int) -> int | None:
    value = record.get(key)
    if value is None or (isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= most):
        return value
    with places.at(f"{section}.{key}"):
        raise InvalidParameter(key, value, f"a whole number from 1 to {most}", f"{key} = {min(example, most)}")


def _numbers(name: str, values: object) -> tuple[float, ...]:
    instead = f"{name} = [1, 1]"
    if not isinstance(values, tuple):
        raise InvalidParameter(name, values, "a list of numbers", instead)
    return tuple(_number(f"each number of {name}", value, instead) for value in values)


def _number(name: str, value: object, instead: str) -> float:
    try:
        found = float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else math.nan
    except OverflowError:
        found = math.inf
    example = instead if "=" in instead else f"{name} = {instead}"
    if not math.isfinite(found):
        raise InvalidParameter(name, value, "a finite number", example)
    if found != 0 and not 1 / _GREATEST <= abs(found) <= _GREATEST:
        allowed = f"0, or from {1 / _GREATEST:g} to {_GREATEST:g} in size"
        raise InvalidParameter(name, value, allowed, example)
    return found


def _text(name: str, value: object) -> str:
    if not isinstance(value, str) or not value.strip() or not value.isprintable() or len(value) > _LONGEST:
        allowed = f"one line of text of at most {_LONGEST} characters, not empty"
        raise InvalidParameter(name, value, allowed, _EXAMPLES.get(name, "another name"))
    return value


def _toml(level: str | int | bool) -> str:
    return json.dumps(level, ensure_ascii=False)


# What tomllib says, in words that tell what to do.
_SYNTAX = {
    "Cannot overwrite a value": "this key is written twice; write it once",
    r"Illegal character '\n'": "a text is not closed on its line; write the closing quotation mark",
    "Unterminated string": "a text is not closed; write the closing quotation mark",
    "Unclosed array": "an array is not closed; write ]",
    "Unclosed inline table": "an inline table is not closed on its line; write }",
}
_WAYS = (
    "{ epsilon = 0.3 }, or { epsilon = 0.3, delta = 1e-6 }, or { order = 10, epsilon = 0.1 }, or { rho = 0.1 }, or"
    " { mu = 0.5 }"
)
_EXAMPLES = {
    "study": "[study] with name, data, unit, neighbours, budget and ledger",
    "columns": '[columns] and for example ward = { levels = ["A", "B"] } below it',
    "release": "[release.NAME] with a model and what it may spend",
    "model": 'model = "beta-bernoulli", or another of ' + ", ".join(MODELS),
    "name": 'name = "readmissions"',
    "dataset": 'dataset = "patients"',
    "data": 'data = "patients.parquet"',
    "unit": 'unit = "row", or unit = { person = "patient_id", rows = 3 }',
    "neighbours": 'neighbours = "add-remove", or "replace"',
    "budget": "budget = { epsilon = 1.0, delta = 1e-6 }",
    "ledger": 'ledger = "patients.ledger"',
    "spend": "spend = { epsilon = 0.3 }",
    "column": 'column = "readmitted"',
    "success": 'success = "yes"',
    "variance": "variance = 100",
    "prior": "prior = [0, 100]",
    "purpose": 'purpose = "quarterly report"',
    "outcome": 'outcome = "readmitted"',
    "predictors": 'predictors = ["age", "ward"]',
    "features": 'features = ["type", "outcome"]',
    "sequence": 'sequence = { region = "region", time = "month" }',
}
