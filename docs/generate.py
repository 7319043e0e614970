"""Makes the pages that are read from the source: commands, API, references, benchmarks; MkDocs calls the `on_` ones."""

from __future__ import annotations

import importlib
import inspect
import json
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from vestry.report.page import bibliography, reference

HERE = Path(__file__).parent
# What the API reference shows: the rooms, and the titles of their pages.
ROOMS = {
    "privacy": "Privacy: guarantees, events, prices",
    "events": "Events, by kind",
    "schema": "Schema: domains, sums, designs",
    "conjugate": "Conjugate models",
    "regression": "Regression: losses and mechanisms over rows",
    "naive_bayes": "Naive Bayes",
    "hmm": "Hidden states",
    "data_quality": "Data quality",
    "tables": "Counts and tables",
    "levels": "Level discovery",
    "mechanisms": "Mechanisms",
    "noise": "Noise",
    "model": "What a model is",
    "planning": "Planning",
    "pipeline": "The release path",
    "registry": "Models by name",
    "data": "Data",
    "ledger": "Ledger",
    "releases": "Certificates and releases",
    "posterior": "Posteriors",
    "likelihood": "Likelihoods: a release as data for any model",
    "study": "Studies",
    "estimators": "Estimators",
    "mcmc": "Samplers",
    "audit": "Audit",
    "errors": "Errors",
}
CITED = re.compile(r"\b([A-Z][A-Za-z]+\d\d)\b")


# --- commands ---------------------------------------------------------------------------------------------------------


def commands() -> str:
    """Return the page of every command: its help, its options and its examples."""
    from typer.main import get_command

    from vestry.cli import app

    text = "# Commands\n\nEvery command has `--help`, and `--json` prints one JSON object. "
    text += "Errors go to standard error: exit code 2 is bad input, 3 a refused budget.\n"
    return text + "".join(_command(get_command(app), "vestry"))


def _command(command: Any, path: str) -> Iterator[str]:
    """Yield the section of a command, and of those below it."""
    if path != "vestry":
        yield f"\n## {path}\n\n{_prose(command.help)}\n{_options(command.params)}{_examples(command.epilog)}"
    for name, each in getattr(command, "commands", {}).items():
        yield from _command(each, f"{path} {name}")


def _options(params: list[Any]) -> str:
    shown = [param for param in params if not getattr(param, "hidden", False)]
    if not shown:
        return ""
    return "\n| argument or option | meaning | default |\n|---|---|---|\n" + "".join(map(_option, shown))


def _option(param: Any) -> str:
    named = param.opts[0].startswith("-")
    name = ", ".join(param.opts) if named else param.metavar or param.name.upper()
    default = "" if param.default in (None, False, ()) else f"`{param.default}`"
    meaning = _prose(param.help).replace("|", r"\|")
    return f"| `{name}` | {meaning} | {'required' if param.required else default} |\n"


def _examples(epilog: str | None) -> str:
    lines = [line for line in (epilog or "").replace("\\[", "[").split("\n\n")[1:] if line]
    return "\nExamples:\n\n" + "".join(f"    {line}\n" for line in lines) if lines else ""


def _prose(text: str | None) -> str:
    return re.sub(r"([<*_$])", r"\\\1", " ".join((text or "").split()))


# --- API --------------------------------------------------------------------------------------------------------------


def front_door() -> str:
    """Return the page of the names that `import vestry` gives."""
    import vestry

    names = "".join(_directive(getattr(vestry, name), 2) for name in vestry.__all__)
    return f"# vestry: the front door\n\nThese names are enough for most work, and `import vestry` is cheap.\n{names}"


def room(name: str) -> str:
    """Return the page of one room: what it exports, or else the public names of each of its modules."""
    module = importlib.import_module(f"vestry.{name}")
    text = f"# {ROOMS[name]}\n\n`vestry.{name}`. {module.__doc__}\n"
    if hasattr(module, "__all__"):
        return text + "".join(_shown(getattr(module, each), 2) for each in sorted(module.__all__, key=str.lower))
    if not hasattr(module, "__path__"):
        return text + _members(module, 2)
    for each in pkgutil.iter_modules(module.__path__):
        inner = importlib.import_module(f"vestry.{name}.{each.name}")
        text += f"\n## vestry.{name}.{each.name}\n\n{inner.__doc__}\n{_members(inner, 3)}"
    return text


def _members(module: Any, level: int) -> str:
    public = [thing for name, thing in vars(module).items() if not name.startswith("_")]
    own = [thing for thing in public if getattr(thing, "__module__", "") == module.__name__]
    return "".join(_shown(thing, level) for thing in own)


def _shown(thing: Any, level: int) -> str:
    """Return what shows a name of a room: a link where it stands on the front door."""
    import vestry

    name = getattr(thing, "__name__", "")
    if name in vestry.__all__ and getattr(vestry, name) is thing:
        return f"\n{'#' * level} {name}\n\nOn [the front door](vestry.md#{_path(thing)}).\n"
    return _directive(thing, level)


def _directive(thing: Any, level: int) -> str:
    """Return the directive that shows a class or a function in full, the link to a module; nothing for the rest."""
    if inspect.ismodule(thing):
        name, claim = thing.__name__.removeprefix("vestry."), (thing.__doc__ or "").splitlines()[0]
        return f"\n{'#' * level} {name}\n\n{claim} They have [a page]({name}.md).\n"
    if not (isinstance(thing, type) or inspect.isfunction(thing)):
        return ""
    whole = str("estimators" in thing.__module__).lower()  # what they share, such as `fit`, is inherited
    return f"\n::: {_path(thing)}\n    options:\n      heading_level: {level}\n      inherited_members: {whole}\n"


def _path(thing: Any) -> str:
    return f"{thing.__module__}.{thing.__qualname__}"


# --- bibliography -----------------------------------------------------------------------------------------------------


def references() -> str:
    """Return the page of references, each with its key as anchor."""
    text = "# References\n"
    for key in sorted(bibliography()):
        people, title, where = reference(key)
        text += f"\n### {key} {{ #{key.lower()} }}\n\n{people}. *{title}*. {where}.\n"
    return text


def linked(page: str, to: str) -> str:
    """Link the keys of citations such as [BokSA24, Thm 4.1] to the page of references; code is left alone."""
    known = bibliography()

    def key(found: re.Match[str]) -> str:
        return f'<a href="{to}#{found[1].lower()}">{found[1]}</a>' if found[1] in known else found[0]

    def citation(found: re.Match[str]) -> str:
        return found[0] if found[1] else CITED.sub(key, found[0])

    return re.sub(
        r"(<(?:pre|code|a)\b.*?</(?:pre|code|a)>|<[^>]*>)|\[[A-Z][^\[\]<>]*\]", citation, page, flags=re.DOTALL
    )


# --- benchmarks -------------------------------------------------------------------------------------------------------


def benchmarks() -> str:
    """Return the table of `make bench`, and a sentence on the rows that miss their limit."""
    rows = json.loads((HERE / "benchmarks.json").read_text(encoding="utf-8"))
    limited = [row for row in rows if row.get("limit") is not None]
    missed = [row["name"] for row in limited if _misses(row)]
    verdict = f"**{len(missed)} miss{'es' * (len(missed) == 1)} it: {'; '.join(missed)}.**"
    text = f"Of {len(rows)} rows {len(limited)} have a limit. {verdict if missed else 'All of them hold it.'}\n\n"
    text += "| what | value | ratio | limit | against |\n|---|---|---|---|---|\n"
    return text + "".join(map(_row, rows))


def _row(row: dict[str, Any]) -> str:
    ratio = f"{row['ratio']:.3g}" if row.get("ratio") is not None else ""
    value = f"{float(format(row['value'], '.4g')):,.12g} {row['unit']}"
    return f"| {row['name']} | {value} | {ratio} | {_limit(row)} | {row.get('peer') or ''} |\n"


def _limit(row: dict[str, Any]) -> str:
    if row.get("limit") is None:
        return ""
    return f"**{row['limit']:g}, missed**" if _misses(row) else f"{row['limit']:g}, held"


def _misses(row: dict[str, Any]) -> bool:
    return bool(row["ratio"] > row["limit"])


# --- MkDocs -----------------------------------------------------------------------------------------------------------


def pages() -> dict[str, str]:
    """Return every generated page, by its path."""
    rooms = {f"reference/{name}.md": room(name) for name in ROOMS}
    front = {"reference/commands.md": commands(), "reference/vestry.md": front_door()}
    return {**front, **rooms, "references.md": references()}


def on_files(files: Any, config: Any) -> Any:
    """Add the generated pages."""
    from mkdocs.structure.files import File

    for path, text in pages().items():
        files.append(File.generated(config, path, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Put the table of benchmarks into its page."""
    return markdown.replace("<!-- the table of make bench -->", benchmarks())


def on_page_content(content: str, page: Any, config: Any, files: Any) -> str:
    """Link citations to the bibliography, and pictures to themselves in full size."""
    from mkdocs.utils import get_relative_url

    shown = re.sub(r'<img [^>]*src="([^"]+)"[^>]*>', r'<a href="\1">\g<0></a>', content)
    return linked(shown, get_relative_url("references.html", page.url))
