"""What a study file declares, read and checked without touching data or ledger.

[study]     name, data, unit, neighbours, budget, ledger; optional: csv, dataset, n, largest
[columns]   one domain for each column that is used
[release.NAME]   model and its keys, spend; optional: mechanism, draws, truncation, purpose
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

from vestry.data.connect import kind_of
from vestry.data.csv_reader import Dialect, dialect_from
from vestry.data.overflow import LARGEST, LIMIT, check_bound
from vestry.errors import InvalidParameter, StudyFileError
from vestry.model.request import TableSchema
from vestry.privacy.guarantee import Guarantee
from vestry.privacy.neighbours import Neighbours, Unit
from vestry.schema.domain import Domain, domain_from
from vestry.schema.statistics import SumQuery
from vestry.server_address import SCHEMES, parse_address
from vestry.study.release_spec import ReleaseSpec, read_release
from vestry.study.toml_table import EXAMPLES, LineIndex, Section, check_keys, check_text

SECTIONS = ("study", "columns", "release")
REQUIRED = ("name", "data", "unit", "neighbours", "budget", "ledger")
OPTIONAL = ("csv", "dataset", "n", "largest")
COLUMN = ("levels", "interval", "count", "missing", "exact", "format")
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
    " without commas, for example n = 2000, and what belongs together in quotation marks or in [ ]",
    "Expected '=' after a key in a key/value pair": "a key is not followed by =; write for example n = 2000, and a key"
    " with spaces in quotation marks",
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
        What the ledger calls the dataset; not compared if it is left out.
    schema
        Domains, unit and neighbours.
    budget
        What may be spent in all, as the ledger owns it.
    n
        A guess at the number of records, by which `check`, `plan` and the choice of `auto` go; None if there is none.
    largest
        How many records there are at most.
    releases
        What is asked, in the order of the file.
    lines
        Where each key stands.
    csv
        How a CSV file is written.
    """

    path: Path
    text: str
    name: str
    data: str
    ledger: str
    dataset: str | None
    schema: TableSchema
    budget: Guarantee
    n: int | None
    largest: int
    releases: tuple[ReleaseSpec, ...]
    lines: LineIndex
    csv: Dialect

    @property
    def folder(self) -> Path:
        """The folder of the file."""
        return self.path.parent

    def release(self, name: str) -> ReleaseSpec:
        """Return a release by its name."""
        for each in self.releases:
            if each.name == name:
                return each
        known = [each.name for each in self.releases]
        instead = " or ".join(get_close_matches(name, known) or known[:3])
        raise InvalidParameter("a release", name, f"one of the study's ({', '.join(known)})", instead)


def read(path: str | Path) -> StudyConfig:
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
    check_keys(file.name, text)
    try:
        record = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise _syntax(file.name, text, str(error)) from None
    return _config_of(file, text, Section("", record, LineIndex.of(file.name, text)))


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
    largest = study.whole("largest", 10**9, most=LIMIT - 1) or LARGEST
    n = study.whole("n", 1000, most=largest)
    unit = _unit(study)
    budget = study.guarantee("budget", neighbours)
    schema = TableSchema(_columns(columns), unit, neighbours, largest)
    if not releases.record:
        raise whole.lines.fault("release", f"there is no release; write {EXAMPLES['release']}.")
    specs = tuple(read_release(each, releases, schema) for each in releases.record)
    return StudyConfig(file, text, name, data, ledger, dataset, schema, budget, n, largest, specs, whole.lines, csv)


def _columns(section: Section) -> dict[str, Domain]:
    columns: dict[str, Domain] = {}
    for name in section.record:
        with section.at(name):
            check_text("a column's name", name)
        column = section.below(name, called="a column", instead=f'{name} = {{ levels = ["no", "yes"] }}')
        column.allow(COLUMN)
        with section.at(name):
            columns[name] = domain_from(column.record)
            check_bound(SumQuery((name,), ()), columns, 1)
    if not columns:
        raise section.lines.fault("columns", 'no column is declared; write for example ward = { levels = ["A", "B"] }.')
    return columns


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
            kind_of(data)
        except InvalidParameter as error:
            raise InvalidParameter("data", error.given, error.allowed, EXAMPLES["data"]) from None


def _check_secretless(key: str, address: str) -> None:
    """Refuse a password that is written out. What may be one is never shown."""
    rest = address.partition("://")[2]
    # Whatever stands before the last @ and after a colon: a password may hold any mark.
    passwords = re.findall(r"(?i)(?:^|[?&])(?:ssl)?password=([^&]*)", rest.partition("?")[2])
    secrets = [*passwords, *([rest.rpartition("@")[0].partition(":")[2]] if "@" in rest else [])]
    if any(secret and not re.fullmatch(r"\$\{[A-Za-z_][A-Za-z0-9_]*\}", secret) for secret in secrets):
        table = "/TABLE" if key == "data" else ""
        instead = f'{key} = "postgresql://USER:${{VARIABLE}}@HOST/DATABASE{table}" and set VARIABLE in the environment'
        raise InvalidParameter(key, "one with a password in it", "free of secrets", instead)
    if address.partition("://")[0] in SCHEMES:
        parse_address(address, name=key, instead=EXAMPLES[key])
