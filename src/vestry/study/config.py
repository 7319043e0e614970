"""What a study file declares, read and checked without touching data or ledger.

[study]     name, data, unit, neighbours, budget, ledger; optional: csv, dataset, expected_rows, max_rows, and for the
            report's first page title, issuer, contact, date, purpose
[columns]   one domain for each column that is used
[release.NAME]   model and its keys, spend; optional: mechanism, draws, truncation, purpose, average, want

One release of a study: [release.NAME], a model and its keys, and what it may spend.
"""

from __future__ import annotations

import datetime
import difflib
import re
import tomllib
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from difflib import get_close_matches
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

from vestry.data.source import Dialect, dialect_from, find_way
from vestry.data.table import LIMIT, check_bound
from vestry.errors import InvalidParameter, StudyFileError
from vestry.files import read_text as read_file
from vestry.model.request import AUTO, Request, averaged_model, check_size, purpose_of
from vestry.pipeline import is_drawn
from vestry.privacy.guarantee import Guarantee
from vestry.privacy.neighbours import Neighbours, Unit
from vestry.registry import MODELS, SOURCES
from vestry.schema.derivation import check_derived
from vestry.schema.domain import Domain, domain_from
from vestry.schema.statistics import SumQuery
from vestry.schema.table_schema import DEFAULT_MAX_ROWS, TableSchema
from vestry.server_address import SCHEMES, ServerAddress, parse_address
from vestry.study.toml_table import EXAMPLES, LineIndex, Section, check_keys, check_text
from vestry.validation import require_moderate, require_number, require_path

SECTIONS = ("study", "columns", "release")
REQUIRED = ("name", "data", "unit", "neighbours", "budget", "ledger")
# What the first page of the report says. No question and no price depends on it.
IMPRINT = ("title", "issuer", "contact", "date", "purpose")
OPTIONAL = ("csv", "dataset", "expected_rows", "max_rows", *IMPRINT)
COLUMN = ("levels", "interval", "count", "missing", "exact", "format", "bins", "from")
PERSON = ("person", "rows")
# What a ledger can write.
_ROWS = 10**9 - 1
# What tomllib says, in words that tell what to do.
_SYNTAX = {
    "Cannot overwrite a value": "this key is written twice; write it once",
    r"Illegal character '\n'": "a text is not closed on its line; write the closing quotation mark",
    "Unterminated string": "a text is not closed; write the closing quotation mark",
    "Unclosed array": "an array is not closed; write ]",
    "Unclosed inline table": "an inline table is not closed on its line; write }",
    "Invalid value": 'this value cannot be read; write text in quotation marks, for example name = "readmissions"',
    "Unescaped '\\' in a string": "a text has a backslash; write / in a path, or two backslashes for one",
    "Expected newline or end of document after a statement": "there is more than one value on this line; write a number"
    " without commas, for example expected_rows = 2000, and what belongs together in quotation marks or in [ ]",
    "Expected '=' after a key in a key/value pair": "a key is not followed by =; write for example"
    " expected_rows = 2000, and a key with spaces in quotation marks",
}


@dataclass(frozen=True)
class StudyConfig:
    """A study as it is declared.

    Attributes
    ----------
    path, text
        The file, and what it says.
    name, data, ledger
        The study's name, where the records are, and where the ledger is; relative paths follow the file's folder.
    dataset
        What the ledger calls the dataset; not compared if it is omitted.
    schema
        Domains, unit and neighbours.
    budget
        What may be spent in all, as the ledger owns it.
    expected_rows
        A guess at the number of records, by which `check`, `plan` and the choice of `auto` go; None if there is none.
    max_rows
        How many records there are at most.
    releases
        What is asked, in the order of the file.
    lines
        Where each key stands.
    csv
        How a CSV file is written.
    imprint
        What the first page of the report says, by key: who issues it, and why.
    """

    path: Path
    text: str
    name: str
    data: str
    ledger: str
    dataset: str | None
    schema: TableSchema
    budget: Guarantee
    expected_rows: int | None
    max_rows: int
    releases: tuple[ReleaseSpec, ...]
    lines: LineIndex
    csv: Dialect
    imprint: Mapping[str, str] = field(default_factory=dict)

    @property
    def folder(self) -> Path:
        """The folder of the file."""
        return self.path.parent

    @property
    def ledger_name(self) -> str:
        """The ledger's address without the folders of this machine: what a certificate and a report say."""
        return without_folders(self.ledger)

    @property
    def servers(self) -> Mapping[str, ServerAddress]:
        """The servers that the file names, by the key that names them."""
        addresses = {"data": self.data, "ledger": self.ledger}
        return {
            key: parse_address(address, name=key)
            for key, address in addresses.items()
            if address.partition("://")[0] in SCHEMES
        }

    def require_typed_password(self, key: str) -> None:
        """Refuse to connect to a server that would be sent the password of another one."""
        if key in self.servers:
            with self.lines.at(f"study.{key}"):
                self.servers[key].require_typed_password(key, _server_example(key))

    @property
    def public_text(self) -> str:
        """What the file says, as a report shows it: without the folders of this machine."""
        text = self.text
        for address in (self.data, self.ledger):
            for written in (address, address.replace("\\", "\\\\")):  # as it is, and as TOML has it
                text = text.replace(written, without_folders(address))
        return text

    def release(self, name: str) -> ReleaseSpec:
        """Return a release by its name."""
        for each in self.releases:
            if each.name == name:
                return each
        known = [each.name for each in self.releases]
        instead = " or ".join(get_close_matches(name, known) or known[:3])
        raise InvalidParameter("a release", name, f"one of the study's ({', '.join(known)})", instead)


def without_folders(address: str) -> str:
    """Return an address as a report shows it: of an absolute path the file's name, of a server no user and no key.

    A relative path says where a file is beside the study; an absolute one tells of the machine and its users.
    """
    scheme, mark, rest = address.partition("://")
    if not mark:
        return _name(address)
    if scheme in SCHEMES:
        return parse_address(address).public
    if f"{scheme}://FILE/TABLE" in SOURCES:
        file, _, table = rest.rpartition("/")
        return f"{scheme}://{_name(file)}/{table}"
    return f"sqlite:///{_name(rest.removeprefix('/'))}" if scheme == "sqlite" else f"{scheme}://{_name(rest)}"


def _name(path: str) -> str:
    """Return the name of a file whose path begins at a disk's root or at a home; any other path as it is."""
    absolute = PurePosixPath(path).is_absolute() or PureWindowsPath(path).is_absolute() or path.startswith("~")
    return PureWindowsPath(path).name if absolute else path


def read(path: str | Path) -> StudyConfig:
    """Read a study file, or raise a fault that names file, line, key and what to write instead."""
    file = require_path("a study file", path, "another path")
    try:
        text = read_file(file, encoding="utf-8-sig")
    except OSError as error:
        raise InvalidParameter("a study file", str(path), f"readable ({error.strerror})", "another path") from None
    except UnicodeDecodeError:
        raise InvalidParameter("a study file", str(path), "text in UTF-8", "the file again, saved as UTF-8") from None
    except ValueError:
        raise InvalidParameter("a study file", str(path), "a path", "another path") from None
    return read_text(file, text)


def read_text(file: Path, text: str) -> StudyConfig:
    """Read what a study file says, or would say."""
    check_keys(file.name, text)
    try:
        record = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise _syntax(file.name, text, str(error)) from None
    lines = LineIndex.of(file.name, text)
    return _config_of(file, text, Section("", record, lines))


def _syntax(path: str, text: str, message: str) -> StudyFileError:
    """Point at the line that tomllib names."""
    place = re.search(r"\s*\(at (?:line (?P<line>\d+), column \d+|end of document)\)", message)
    if place is None:  # nested too deeply, or a number of thousands of digits
        return StudyFileError(
            path, 1, "the file", "it is nested too deeply, or a number is too long; write it plainly."
        )
    line = int(place["line"] or text.rstrip().count("\n") + 1)
    words = message[: place.start()]
    if (twice := re.fullmatch(r"Cannot declare \((?P<parts>.*)\) twice", words)) is not None:
        header = ".".join(re.findall(r"'([^']*)'", twice["parts"]))
        return StudyFileError(path, line, header, f"[{header}] is written twice; write it once.")
    reason = _SYNTAX.get(words, f'{words[:1].lower()}{words[1:]}; write it as TOML, for example name = "readmissions"')
    return StudyFileError(path, line, "the file", reason + ".")


def _config_of(file: Path, text: str, whole: Section) -> StudyConfig:
    whole.allow(SECTIONS)
    whole.require(SECTIONS, "section")
    study, columns, releases = [whole.below(name) for name in SECTIONS]
    study.allow((*REQUIRED, *OPTIONAL))
    study.require(REQUIRED)
    name, data, ledger = [study.text(key) for key in ("name", "data", "ledger")]
    dataset = study.text("dataset") if "dataset" in study.record else None
    _check_addresses(study, data, ledger)
    with study.at("neighbours"):
        neighbours = Neighbours.parse(study.record["neighbours"])
    with study.at("csv" if "csv" in study.record else "data"):
        csv = dialect_from(study.record.get("csv"))
        csv.resolve(data)
    max_rows = study.whole("max_rows", 10**9, most=LIMIT - 1) or DEFAULT_MAX_ROWS
    expected_rows = study.whole("expected_rows", 1000, most=max_rows)
    unit = _unit(study)
    budget = study.guarantee("budget", neighbours)
    schema = TableSchema(_columns(columns, unit.person), unit, neighbours, max_rows)
    if not schema.domains and not all(map(_needs_no_column, releases.record.values())):
        raise columns.lines.fault("columns", 'no column is declared; write for example ward = { levels = ["A", "B"] }.')
    if not releases.record:
        raise whole.lines.fault("release", f"there is no release; write {EXAMPLES['release']}.")
    specs = tuple(read_release(each, releases, schema) for each in releases.record)
    rows = expected_rows, max_rows
    names = name, data, ledger, dataset
    imprint = _imprint(study)
    return StudyConfig(file, text, *names, schema, budget, *rows, specs, whole.lines, csv, imprint=imprint)


def _imprint(study: Section) -> dict[str, str]:
    """Read what the first page of the report says; a date may be written as one."""
    given = study.record.get("date")
    dated = {"date": given.isoformat()} if type(given) is datetime.date else {}
    return {key: study.text(key) for key in IMPRINT if key in study.record and key not in dated} | dated


def _columns(section: Section, person: str | None) -> dict[str, Domain]:
    columns: dict[str, Domain] = {}
    for name in section.record:
        with section.at(name):
            check_text("a column's name", name)
        column = section.below(name, called="a column", instead=f'{name} = {{ levels = ["no", "yes"] }}')
        column.allow(COLUMN)
        with column.at("from") if "from" in column.record else section.at(name):
            columns[name] = domain_from(column.record)
            check_bound(SumQuery((name,), ()), columns, 1)
    derived = [name for name, domain in columns.items() if domain.derived is not None]
    for name in derived:
        with section.lines.at(f"{section.path(name)}.from"):
            check_derived(name, columns, person)
    return columns


def _needs_no_column(release: object) -> bool:
    """Tell whether a release asks nothing of declared columns."""
    kind = release.get("model") if isinstance(release, Mapping) else None
    return isinstance(kind, str) and kind in MODELS and getattr(MODELS[kind], "asks_undeclared", False)


def _unit(study: Section) -> Unit:
    given = study.record["unit"]
    if given == "row":
        return Unit()
    if isinstance(given, Mapping):
        study.below("unit").allow(PERSON)
    with study.at("unit"):
        if not isinstance(given, Mapping) or set(given) != set(PERSON):
            raise InvalidParameter("unit", given, '"row", or a person and rows', EXAMPLES["unit"])
        instead = 'unit = { person = "patient_id", rows = 3 }'
        try:
            unit = Unit(given["person"], given["rows"])
        except InvalidParameter as error:
            raise InvalidParameter(error.name, error.given, error.allowed, instead) from None
        if unit.rows > _ROWS:
            raise InvalidParameter("rows", unit.rows, f"at most {_ROWS}", instead)
    return unit


def _check_addresses(study: Section, data: str, ledger: str) -> None:
    for key, address in (("data", data), ("ledger", ledger)):
        with study.at(key):
            _check_secretless(key, address)
    with study.at("data"):
        try:
            find_way(data)
        except InvalidParameter as error:
            raise InvalidParameter("data", error.given, error.allowed, EXAMPLES["data"]) from None


def _check_secretless(key: str, address: str) -> None:
    """Refuse a password that is written out. What may be one is never shown."""
    rest = address.partition("://")[2]
    # Whatever stands before the last @ and after a colon: a password may hold any mark.
    passwords = re.findall(r"(?i)(?:^|[?&])(?:ssl)?password=([^&]*)", rest.partition("?")[2])
    secrets = [*passwords, *([rest.rpartition("@")[0].partition(":")[2]] if "@" in rest else [])]
    if any(secret and not re.fullmatch(r"\$\{[A-Za-z_][A-Za-z0-9_]*\}", secret) for secret in secrets):
        raise InvalidParameter(key, "one with a password in it", "free of secrets", _server_example(key))
    if address.partition("://")[0] in SCHEMES:
        server = parse_address(address, name=key, instead=EXAMPLES[key])
        server.require_harmless(key, _server_example(key))


def _server_example(key: str) -> str:
    table = "/TABLE" if key == "data" else ""
    return f'{key} = "postgresql://USER:${{VESTRY_PASSWORD}}@HOST/DATABASE{table}" and set it in the environment'


KEYS = ("model", "spend", "mechanism", "draws", "truncation", "purpose", "average", "want")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_\-]{0,63}")
_DRAWS = 10**6


@dataclass(frozen=True)
class ReleaseSpec:
    """One release of a study: its name, what is asked, and why.

    `want` is how wide its interval should be at most; plans go by it, and neither the question nor its price does.
    """

    name: str
    request: Request
    purpose: str
    want: float | None = None


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
    section = _with_formula(model_type, section, schema)
    own = fields(model_type)
    section.allow((*KEYS, *(field.name for field in own)))
    section.require(("spend", *(field.name for field in own if field.default is MISSING)))
    spend = section.guarantee("spend", schema.neighbours)
    model = _model(model_type, section, schema)
    draws = section.whole("draws", 1, most=_DRAWS)
    truncation = section.number("truncation", "0.05")
    with section.at("truncation"):
        if truncation is not None and draws is None:
            raise InvalidParameter("truncation", truncation, "omitted where there are no draws", "draws = 1 beside it")
    mechanism = section.record.get("mechanism", AUTO)
    with section.at("average") if "average" in section.record else releases.at(name):
        of_draws = is_drawn(mechanism, draws)
        model = averaged_model(model, schema.unit, section.record.get("average"), of_draws=of_draws)
    with releases.at(name):
        check_size(model, schema.domains)
    with section.at("mechanism") if "mechanism" in section.record else releases.at(name):
        request = Request(model, spend, mechanism, draws, truncation)
        if request.mechanism == "ops" and truncation is None:
            raise InvalidParameter("truncation", None, "given for ops", "truncation = 0.05")

    purpose = section.text("purpose", purpose_of(model.question()))
    return ReleaseSpec(name, request, purpose, _want(section))


def _want(section: Section) -> float | None:
    """Read how wide an interval should be at most; None if nothing is said."""
    if "want" not in section.record:
        return None
    wish = section.below("want")
    wish.allow(("width",))
    wish.require(("width",))
    with wish.at("width"):
        return require_number("width", wish.record["width"], EXAMPLES["want"], above=0)


def _with_formula(model_type: Any, section: Section, schema: TableSchema) -> Section:
    """Return the section with the keys that its formula stands for, if it has one."""
    if "formula" not in section.record or not hasattr(model_type, "formula_keys"):
        return section
    with section.at("formula"):
        keys = model_type.formula_keys(section.record["formula"], schema.domains)
        for name in keys:
            if name in section.record:
                raise InvalidParameter(name, section.record[name], "omitted beside a formula", f"no {name}")
    rest = {name: value for name, value in section.record.items() if name != "formula"}
    return Section(section.key, {**rest, **keys}, section.lines)


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
    """Make a model, which checks its own keys; a fault points at the key that it is about."""
    given = {field.name: section.record[field.name] for field in fields(model_type) if field.name in section.record}
    values: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in given.items()}
    if "method" not in values and hasattr(model_type, "default_method"):
        values["method"] = model_type.default_method(section.record)
    for name in getattr(model_type, "number_keys", ()):
        if isinstance(values.get(name), tuple | int | float):
            with section.at(name):
                values[name] = _floats(name, values[name])
    if hasattr(model_type, "defaults"):  # what an omitted key means depends on what is declared
        values = {**model_type.defaults(schema.domains), **values}
    for name in model_type.column_keys:
        named = values.get(name, ())  # one that is omitted has a default
        columns = named.values() if isinstance(named, Mapping) else named if isinstance(named, tuple) else (named,)
        for column in columns:
            _check_column(column, section, name, schema)
    model = model_type(**values)
    try:
        model.check(schema.domains)
    except InvalidParameter as error:
        key = _key_of(error, values)
        with section.lines.at(section.key if key is None else section.path(key)):
            raise
    return model


def _floats(name: str, value: Any) -> float | tuple[float, ...]:
    """Read a number or several as floats of moderate size."""
    if isinstance(value, tuple):
        return tuple(require_moderate(f"each number of {name}", x, f"{name} = [1, 1]") for x in value)
    return require_moderate(name, value, f"{name} = 100")


def _key_of(error: InvalidParameter, values: Mapping[str, Any]) -> str | None:
    """Return the key that a refusal is about: it names it, says what to write for it, or names its column."""
    for word in (error.name, error.instead.partition(" = ")[0]):
        if word in values:
            return word
    column = error.name.removeprefix("the column ")
    return next(
        (key for key, value in values.items() if value == column or (isinstance(value, tuple) and column in value)),
        None,
    )


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
