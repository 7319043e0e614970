"""One self-contained page to hand to a data-protection officer. It reads releases, never data.

The end of a page: the budget, what was declared, what is public, the versions, and how to check it all.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from vestry.display import templates as html
from vestry.display.formatting import number
from vestry.display.templates import Album, Content, Markup, code, tag, terms
from vestry.errors import VestryError
from vestry.privacy.guarantee import ApproxDP, Guarantee, PureDP, RenyiDP
from vestry.privacy.neighbours import Neighbours, Unit
from vestry.report import figures
from vestry.report.content import ReportContent, Result, estimates
from vestry.report.guarantee_section import protected
from vestry.report.release_section import headline, section

__all__ = ["Part", "ReportContent", "Result", "page", "part"]


@dataclass(frozen=True)
class Part:
    """What a page tells of one release.

    Attributes
    ----------
    headline, section
        The answer in one line, and all of it; both are HTML.
    figures
        How many pictures the page has after it.
    """

    headline: str
    section: str
    figures: int


def part(result: Result, place: int, figures: int) -> Part:
    """Write what a page tells of one release: its place among them, and how many pictures come before it."""
    album, found = Album(figures), estimates(result)
    described = section(result, place, found, album)
    return Part(html.safe(headline(result, found)), described, album.count)


def page(content: ReportContent, write: Callable[[Result, int, int], Part] = part) -> str:
    """Write the page: a function of its content alone, and the same text each time.

    It holds its own style and pictures, asks for nothing over the network and needs no script. `write` may return a
    part that was written before from the same.
    """
    parts: list[Part] = []
    for place, result in enumerate(content.results, 1):
        parts.append(write(result, place, parts[-1].figures if parts else 0))
    album = Album(parts[-1].figures if parts else 0)
    sections = [Markup(each.section) for each in parts]
    main = tag("main", html.joined([_answers(content, parts), *sections, account(content, album)]), id="main")
    style = files("vestry.report").joinpath("page.css").read_text(encoding="utf-8")
    return _PAGE.format(title=html.safe(content.title), style=style, main=main)


_PAGE = """\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<style>
{style}</style>
</head>
<body>
<a class="skip" href="#main">Skip to the report</a>
{main}
</body>
</html>
"""


def _answers(content: ReportContent, parts: list[Part]) -> Markup:
    rows = [
        (tag("a", result.name, href=f"#release-{place}"), result.question, _warned(result, each), terms(result.spent))
        for place, (result, each) in enumerate(zip(content.results, parts, strict=True), 1)
    ]
    what = protected(Unit.parse(content.unit), Neighbours.parse(content.neighbours))
    known = {"Dataset": content.dataset, "Budget": content.budget, "Remaining": content.remaining, "Protects": what}
    facts = html.definitions(known.items(), class_="facts")
    intro = html.paragraph(
        "These results come from records that stay private. Randomness hides what any single one contributes, and"
        " every number on this page was computed from published releases alone."
    )
    caption = "One line per release: posterior mean and, in brackets, 90 % credible interval"
    answers = html.register(caption, ("release", "question", "answer", "privacy cost"), rows)
    return tag("header", tag("h1", content.title), facts, tag("h2", "Questions and answers"), intro, answers)


def _warned(result: Result, each: Part) -> Markup:
    """Return a release's answer, and below it that its columns may not hold what is declared."""
    if not result.warnings:
        return Markup(each.headline)
    return html.joined([Markup(each.headline), tag("strong", "Warning: see what is said of its columns.")], "<br>")


def account(content: ReportContent, album: Album) -> Markup:
    """Write everything that follows the releases."""
    return html.joined(
        [
            tag("section", *_budget(content, album), id="budget"),
            tag("section", *_declared(content), id="declared"),
            tag("section", *_versions(content), id="versions"),
            tag("section", tag("h2", "The study file"), html.block(content.source, "The study file"), id="study-file"),
            tag("section", *_verify(content), id="verify"),
        ]
    )


def left_in(words: str, budget: Guarantee) -> float | None:
    """Read what remains of a budget from the ledger's words, in the budget's own definition; None if not stated."""
    if words.strip().startswith("nothing"):
        return 0.0
    if isinstance(budget, RenyiDP):
        return None
    # What stands after a comma belongs to another pair, such as order=8,epsilon=0.3.
    found = re.search(rf"(?<![\w,]){budget.amount}=([0-9.]+(?:e[-+]?[0-9]+)?)", words)
    return float(found[1]) if found else None


def _budget(content: ReportContent, album: Album) -> list[Content]:
    rows = [(result.name, str(result.entry), terms(result.spent), result.remaining) for result in content.results]
    said = (
        f"All releases from this dataset together, past and future, keep within {content.budget}. The ledger refuses"
        f" what does not fit. Remaining now: {content.remaining}."
    )
    bar = _bar(content, album)
    taken = html.register("What each release took from the budget", ("release", "charge", "spent", "remaining"), rows)
    return [tag("h2", "Budget"), html.paragraph(said), taken if bar is None else html.beside(bar, taken)]


def _bar(content: ReportContent, album: Album) -> Markup | None:
    """Draw what remains, if the ledger's words say it in the budget's definition at every step."""
    try:
        budget = Guarantee.parse(content.budget)
        first = Guarantee.parse(content.results[0].spent) if content.results else None
    except VestryError:
        return None
    left = [left_in(result.remaining, budget) for result in content.results]
    amounts = [each for each in left if each is not None and 0 <= each <= budget.value]
    if not left or len(amounts) < len(left):
        return None
    steps = [(f"after {result.name}", each) for result, each in zip(content.results, amounts, strict=True)]
    if isinstance(budget, (PureDP, ApproxDP)) and isinstance(first, (PureDP, ApproxDP)):
        steps.insert(0, ("before", min(budget.value, amounts[0] + first.value)))
    described = "; ".join(f"{name}: {number(each)}" for name, each in steps)
    return album.figure(
        figures.budget(steps, budget.value, budget.amount),
        alternative=f"Bars of the remaining {budget.amount}, of {number(budget.value)}. {described}.",
        caption=f"Remaining {budget.amount} (filled) of {number(budget.value)} (outline), before and after each"
        " release.",
    )


def _declared(content: ReportContent) -> list[Content]:
    rows = [(_named(name, domain), *_domain(domain)) for name, domain in content.columns.items()]
    what = protected(Unit.parse(content.unit), Neighbours.parse(content.neighbours))
    parts: list[Content] = [
        tag("h2", "What was declared, and what is public"),
        html.paragraph(
            "Unit: ", code(content.unit), "; neighbours: ", code(content.neighbours), f". Protects: {what}."
        ),
        html.paragraph("Domains were declared beforehand. Nothing was learnt from the data to choose them."),
        html.register("Columns and what they may contain", ("column", "may contain", "missing values"), rows),
    ]
    if content.public:
        parts += [tag("h3", "What is public"), html.listed(content.public)]
    return parts


def _named(column: str, domain: Mapping[str, Any]) -> str:
    return f"{column} = {domain['from']}" if "from" in domain else column


def _domain(domain: Mapping[str, Any]) -> tuple[str, str]:
    missing = domain.get("missing", "never")
    if isinstance(missing, Mapping):
        absent = f"count as {missing.get('value')}"
    else:
        absent = {
            "never": "declared not to occur",
            "drop": "the record is dropped",
            "level": "are a separate level",
        }.get(str(missing), str(missing))
    if "levels" in domain:
        return "one of " + ", ".join(_level(level) for level in domain["levels"]), absent
    if "interval" in domain:
        low, high = domain["interval"]
        return f"numbers from {low} to {high}; others are clipped to the nearer end", absent
    if "count" in domain:
        return f"whole numbers from 0 to {domain['count']}; larger ones are clipped", absent
    rest = ", ".join(f"{key}: {value}" for key, value in domain.items() if key != "missing")
    return rest or "not said", absent


def _level(level: object) -> str:
    return str(level).lower() if isinstance(level, bool) else str(level)


def _versions(content: ReportContent) -> list[Content]:
    known = {result.name: result.release.certificate.versions.items() for result in content.results}
    rows = [(name, ", ".join(" ".join(each) for each in found) or "not recorded") for name, found in known.items()]
    return [tag("h2", "Versions"), html.register("Software that made each release", ("release", "versions"), rows)]


def _verify(content: ReportContent) -> list[Content]:
    ledger = shlex.quote(content.ledger)
    files = [shlex.quote(f"{result.name}/release.json") for result in content.results]
    commands = [f"vestry ledger verify {ledger} --head {shlex.quote(content.head)}"]
    digests = [f"sha256sum {file}" for file in files]
    again = [f"vestry posterior {file}" for file in files]
    parts: list[Content] = [
        tag("h2", "How to verify"),
        html.paragraph(
            "Nothing here needs to be taken on trust. The ledger is a chain of hashes; this command checks every line,"
            " and that none after the one named below is missing:"
        ),
        html.block("\n".join(commands), "Command that verifies the ledger"),
    ]
    if files:
        parts += [
            html.paragraph("The ledger's entry of each release holds the SHA-256 of its file. Compare it:"),
            html.block("\n".join(digests), "Commands that print the hash of each release"),
            html.paragraph(
                "Every estimate above follows from the release's file. To compute it again costs nothing, and neither"
                " does another prior (", code("--prior 2,2"), ") for a release of noisy statistics:",
            ),
            html.block("\n".join(again), "Commands that compute each posterior again"),
        ]  # fmt: skip
    return parts
