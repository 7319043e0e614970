"""What a study file declares, read and checked without touching data or ledger.

[study]     name, data, unit, neighbours, budget, ledger; optional: n, largest
[columns]   one domain for each column that is used
[release.NAME]   model and its keys, spend; optional: mechanism, draws, truncation, purpose
"""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import Any

from vestry.errors import InvalidParameter, StudyFault
from vestry.models import MODELS, Model
from vestry.models.request import AUTO, Frame, Request
from vestry.privacy.guarantee import Guarantee
from vestry.privacy.neighbours import Neighbours, Unit
from vestry.statistics.domain import Domain, domain_from
from vestry.study.place import Places

_REQUIRED = ("name", "data", "unit", "neighbours", "budget", "ledger")
_OPTIONAL = ("n", "largest")
_RELEASE = ("model", "spend", "mechanism", "draws", "truncation", "purpose")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_\-]{0,63}")
LARGEST = 10**12


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
        text = file.read_text(encoding="utf-8")
    except OSError as error:
        raise InvalidParameter("a study file", str(path), f"readable ({error.strerror})", "another path") from None
    except UnicodeDecodeError:
        raise InvalidParameter("a study file", str(path), "text in UTF-8", "another path") from None
    places = Places.of(file.name, text)
    try:
        record = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise _syntax(file.name, str(error)) from None
    return _declared(file, text, record, places)


def _syntax(path: str, message: str) -> StudyFault:
    """Point at the line that tomllib names."""
    found = re.search(r"\s*\(at (?:line (?P<line>\d+), column \d+|end of document)\)", message)
    line = int(found["line"]) if found and found["line"] else 1
    words = message[: found.start()] if found else message
    said = f'{words[:1].lower()}{words[1:]}; write it as TOML, for example name = "readmissions".'
    return StudyFault(path, line, "the file", said)


def _declared(file: Path, text: str, record: Mapping[str, Any], places: Places) -> Declaration:
    _known(record, ("study", "columns", "release"), places, "")
    study = _section(record, "study", places)
    _known(study, (*_REQUIRED, *_OPTIONAL), places, "study")
    for key in _REQUIRED:
        if key not in study:
            raise places.fault("study", f"{key} is missing; write {_EXAMPLES[key]}.")
    for key in ("name", "data", "ledger"):
        with places.at(f"study.{key}"):
            _text(key, study[key])
    with places.at("study.neighbours"):
        neighbours = Neighbours.parse(study["neighbours"])
    with places.at("study.unit"):
        unit = _unit(study["unit"])
    with places.at("study.budget"):
        budget = _guarantee("budget", study["budget"], neighbours)
    whole = {key: _whole(study, key, places) for key in _OPTIONAL}
    frame = Frame(_columns(record, places), unit, neighbours)
    releases = _section(record, "release", places)
    if not releases:
        raise places.fault("release", "there is no release; write [release.NAME] with a model and what it may spend.")
    asked = tuple(_asked(name, each, frame, places) for name, each in releases.items())
    return Declaration(
        path=file,
        text=text,
        name=study["name"],
        data=study["data"],
        ledger=study["ledger"],
        frame=frame,
        budget=budget,
        n=whole["n"],
        largest=whole["largest"] or LARGEST,
        releases=asked,
        places=places,
    )


def _columns(record: Mapping[str, Any], places: Places) -> dict[str, Domain]:
    columns: dict[str, Domain] = {}
    for name, each in _section(record, "columns", places).items():
        with places.at(f"columns.{name}"):
            if not isinstance(each, Mapping):
                raise InvalidParameter("a column", each, "a table", f'{name} = {{ levels = ["no", "yes"] }}')
            columns[name] = domain_from(each)
    if not columns:
        raise places.fault("columns", 'no column is declared; write for example ward = { levels = ["A", "B"] }.')
    return columns


def _asked(name: str, record: object, frame: Frame, places: Places) -> Asked:
    key = f"release.{name}"
    if not isinstance(record, Mapping):
        raise places.fault(key, f"a release must be a table, not {record!r}; write [release.NAME].")
    with places.at(key):
        if not _NAME.fullmatch(name):
            raise InvalidParameter("a release's name", name, "letters, digits, - and _", "[release.readmission]")
    if "model" not in record:
        raise places.fault(key, f'model is missing; write model = "beta-bernoulli" or another of {", ".join(MODELS)}.')
    kind = record["model"]
    if not isinstance(kind, str) or kind not in MODELS:
        near = difflib.get_close_matches(str(kind), MODELS, 1) or ["beta-bernoulli"]
        raise places.fault(f"{key}.model", f'model must be one of {", ".join(MODELS)}, not {kind}; write "{near[0]}".')
    own = fields(MODELS[kind])
    _known(record, (*_RELEASE, *(field.name for field in own)), places, key)
    for needed in ["spend", *(field.name for field in own if field.default is MISSING)]:
        if needed not in record:
            raise places.fault(key, f"{needed} is missing; write {_EXAMPLES.get(needed, needed + ' = ...')}.")
    model = _model(kind, record, frame, places, key)
    with places.at(f"{key}.spend"):
        spend = _guarantee("spend", record["spend"], frame.neighbours)
    draws, truncation = _whole(record, "draws", places, key), record.get("truncation")
    with places.at(f"{key}.mechanism"):
        request = Request(model, spend, record.get("mechanism", AUTO), draws, truncation)
    with places.at(f"{key}.purpose"):
        purpose = _text("purpose", record.get("purpose", model.question()))
    return Asked(name, request, purpose)


def _model(kind: str, record: Mapping[str, Any], frame: Frame, places: Places, key: str) -> Model:
    values = {
        field.name: tuple(record[field.name]) if isinstance(record[field.name], list) else record[field.name]
        for field in fields(MODELS[kind])
        if field.name in record
    }
    for column in values["column"] if isinstance(values["column"], tuple) else (values["column"],):
        _declared_column(column, frame, places, f"{key}.column")
    if values.get("by") is not None:
        _declared_column(values["by"], frame, places, f"{key}.by")
    if "prior" in values:
        with places.at(f"{key}.prior"):
            _numbers("prior", values["prior"])
    make: Any = MODELS[kind]
    model: Model = make(**values)
    # The first key that the model's own check concerns: what it refuses names the value.
    with places.at(f"{key}.success" if "success" in values else f"{key}.column"):
        family = model.family(frame.domains)
    with places.at(f"{key}.prior"):
        family.prior(model.numbers(frame.domains))
    return model


def _declared_column(column: object, frame: Frame, places: Places, key: str) -> None:
    if isinstance(column, str) and column in frame.domains:
        return
    near = difflib.get_close_matches(str(column), frame.domains, 1)
    instead = f'"{near[0]}"' if near else f'{column} = {{ levels = ["no", "yes"] }} under [columns]'
    raise places.fault(key, f"the column {column} is not declared; write {instead}.")


def _known(record: Mapping[str, Any], allowed: Iterable[str], places: Places, key: str) -> None:
    names = list(allowed)
    for name in record:
        if name not in names:
            near = difflib.get_close_matches(name, names, 1)
            instead = near[0] if near else "one of " + ", ".join(names)
            raise places.fault(f"{key}.{name}" if key else name, f"this key is not known; write {instead}.")


def _section(record: Mapping[str, Any], name: str, places: Places) -> Mapping[str, Any]:
    found = record.get(name, {})
    if not isinstance(found, Mapping):
        raise places.fault(name, f"{name} must be a table, not {found!r}; write [{name}].")
    if name == "study" and not found:
        raise places.fault("", "the section [study] is missing; write [study] with name, data, unit, neighbours,"
                               " budget and ledger.")  # fmt: skip
    return found


def _unit(given: object) -> Unit:
    if isinstance(given, Mapping):
        if set(given) != {"person", "rows"}:
            allowed = '"row", or a person with rows'
            raise InvalidParameter("unit", ", ".join(given) or "nothing", allowed, _EXAMPLES["unit"])
        return Unit(person=given["person"], rows=given["rows"])
    if given != "row":
        raise InvalidParameter("unit", given, '"row", or a person with rows', _EXAMPLES["unit"])
    return Unit()


def _guarantee(name: str, given: object, neighbours: Neighbours) -> Guarantee:
    if not isinstance(given, Mapping):
        raise InvalidParameter(name, given, "a table of numbers", f"{name} = {{ epsilon = 0.3 }}")
    return Guarantee.parse(given, neighbours=neighbours)


def _whole(record: Mapping[str, Any], key: str, places: Places, section: str = "study") -> int | None:
    value = record.get(key)
    if value is None or (isinstance(value, int) and not isinstance(value, bool) and value >= 1):
        return value
    reason = f"{key} must be a whole number of at least 1, not {value!r}; write {key} = 1000."
    raise places.fault(f"{section}.{key}", reason)


def _numbers(name: str, values: object) -> None:
    if not isinstance(values, tuple) or not all(
        isinstance(x, (int, float)) and not isinstance(x, bool) for x in values
    ):
        raise InvalidParameter(name, values, "a list of numbers", f"{name} = [1, 1]")


def _text(name: str, value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        raise InvalidParameter(name, value, "text", _EXAMPLES[name])
    return value


_EXAMPLES = {
    "name": 'name = "readmissions"',
    "data": 'data = "patients.parquet"',
    "unit": 'unit = "row", or unit = { person = "patient_id", rows = 3 }',
    "neighbours": 'neighbours = "add-remove", or "replace"',
    "budget": "budget = { epsilon = 1.0, delta = 1e-6 }",
    "ledger": 'ledger = "patients.ledger"',
    "spend": "spend = { epsilon = 0.3 }",
    "column": 'column = "readmitted"',
    "success": 'success = "yes"',
    "variance": "variance = 100",
    "purpose": 'purpose = "quarterly report"',
}
