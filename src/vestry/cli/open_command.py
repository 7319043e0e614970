"""`vestry open`: the whole journey in a browser on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from vestry.cli.output import Json, emit, examples, say
from vestry.errors import InvalidParameter, MissingExtra

EXAMPLES = examples("vestry open", "vestry open readmissions/study.toml", "vestry open --no-browser --port 8000")


def open_page(
    study: Annotated[
        Path | None,
        Argument(metavar="STUDY", help="A study file, which may be new, or a folder; study.toml here if omitted."),
    ] = None,
    data: Annotated[
        list[Path] | None,
        Option("--data", metavar="FOLDER", help="A further folder whose files may be chosen; may be repeated."),
    ] = None,
    port: Annotated[int, Option(min=0, max=65535, help="The port; a free one if omitted.")] = 0,
    browser: Annotated[
        bool, Option("--browser/--no-browser", help="Open the page in the browser, or only print how to.")
    ] = True,
    json: Json = False,
) -> None:
    """Open a page for the whole journey: choose a file, declare, plan, check, release, read the report.

    The page is on this machine and for this user alone; nothing is sent anywhere. It edits the study file that the
    other commands read, and keeps its comments. Files may be chosen in the study's folder and in those of --data. No
    value of a column is ever shown, and nothing is spent without a typed confirmation. Needs the extra page.
    """
    path = Path("study.toml") if study is None else study
    try:
        if path.is_dir():
            path = path / "study.toml"
        wrong = path.suffix != ".toml" or not path.parent.is_dir()
        missing = next((folder for folder in data or () if not folder.is_dir()), None)
    except (OSError, ValueError):
        raise InvalidParameter("a study file", str(path), "a path", "study.toml") from None
    if wrong:
        raise InvalidParameter("a study file", str(path), "a .toml file in a folder that is there", "study.toml")
    if missing is not None:
        raise InvalidParameter("--data", str(missing), "a folder that is there", "another folder")
    try:
        from vestry.page.page_server import serve
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("vestry"):
            raise
        raise MissingExtra("vestry open", "page") from None

    def announce(origin: str, file: Path) -> None:
        text = (
            f"Vestry is at {origin} for this user alone. To let a browser in, open this file in it:\n  {file}\n"
            "It ends by Ctrl-C, by its button, or after an hour without use."
        )
        emit({"address": origin, "file": str(file)}, text, as_json=json)

    serve(path, data or (), port=port, browser=browser, announce=announce, say=lambda text: say(text, err=True))
