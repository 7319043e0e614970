"""`vestry init`: a new study, ready to run."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from vestry.cli.output import Json, emit, examples
from vestry.errors import InvalidParameter
from vestry.files import write_new

EXAMPLES = examples(
    "vestry init readmissions",
    "cd readmissions && vestry check study.toml",
    "vestry init clinic --from patients.parquet",
    "vestry init ward --from patients.csv --header",
    "vestry init survey --from dictionary.csv",
)


def init(
    folder: Annotated[Path, Argument(metavar="DIR", help="A new or empty folder; with --from one without study.toml.")],
    source: Annotated[
        str | None,
        Option("--from", metavar="FILE", help="Begin from a data dictionary, or from a table's names and types."),
    ] = None,
    header: Annotated[
        bool, Option("--header", help="The first line of a CSV file holds the columns' names, and not a record.")
    ] = False,
    json: Json = False,
) -> None:
    """Create a study: a commented study file, fictional example data and an empty ledger.

    With --from the study file is for your own table, and there is no example. FILE is the table itself (a file or an
    address, as data in a study file): its columns' names and types are used, never a value. Of a CSV file say by
    --header that its first line holds names: a record there would be shown. Or FILE is a data dictionary: a CSV file
    with the columns name, type (levels, number, count, date, person), levels (divided by ;), and optionally low, high,
    missing, unit, description. What is not known is left as a line that begins with # and says what to declare. The
    ledger is made once the file is complete: vestry check prints the command.
    """
    if source is not None:
        _init_from(folder, source, header=header, as_json=json)
        return
    if header:
        raise InvalidParameter("--header", "alone", "given with --from", "--from FILE beside it")
    from vestry.ledger import Ledger
    from vestry.study import Study
    from vestry.study.example_study import EXAMPLE, example_records

    try:
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise InvalidParameter("a new study's folder", str(folder), "new or empty", "another name")
        folder.mkdir(parents=True, exist_ok=True)
        write_new(folder / "study.toml", [EXAMPLE.encode()])
        write_new(folder / "patients.csv", [example_records().encode()])
    except OSError as error:
        raise InvalidParameter(
            "a new study's folder", str(folder), f"writable ({error.strerror})", "another name"
        ) from None
    config = Study.open(folder / "study.toml").config
    Ledger.create(
        folder / config.ledger,
        dataset=config.name,
        unit=config.schema.unit,
        neighbours=config.schema.neighbours,
        budget=config.budget,
    )
    text = (
        f"A study in {folder}: study.toml, patients.csv (fictional) and patients.ledger.\n"
        "It protects single rows. If a person may have several, see the lines above unit in study.toml.\n"
        f"Next: cd {folder} && vestry check study.toml"
    )
    emit({"folder": str(folder), "study": str(folder / "study.toml")}, text, as_json=json)


def _init_from(folder: Path, source: str, *, header: bool, as_json: bool) -> None:
    """Write a study file for a table, and say what is to be completed."""
    from vestry.study.study_template import template_from

    file = folder / "study.toml"
    if os.path.lexists(file):
        raise InvalidParameter("a new study's folder", str(folder), "without a study.toml", "another name")
    template = template_from(source, folder, header=header)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_new(file, [template.text.encode()])
    except OSError as error:
        allowed = f"writable ({error.strerror})"
        raise InvalidParameter("a new study's folder", str(folder), allowed, "another name") from None
    record = {"study": str(file), "columns": template.columns, "declared": template.declared}
    text = (
        f"{file}: {template.declared} of {template.columns} columns are declared; no value was read.\n"
        "Complete the lines that begin with # under [columns], and take the # away.\n"
        f"Next: vestry check {file} --data"
    )
    emit(record, text, as_json=as_json)
