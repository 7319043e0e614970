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

from vestry.display.formatting import number
from vestry.display.templates import (
    Album,
    Content,
    Markup,
    beside,
    block,
    code,
    definitions,
    joined,
    listed,
    paragraph,
    register,
    safe,
    tag,
    terms,
)
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
    return Part(safe(headline(result, found)), described, album.count)


def page(story: ReportContent, write: Callable[[Result, int, int], Part] = part) -> str:
    """Write the page: a function of the story alone, and the same text each time.

    It holds its own style and pictures, asks for nothing over the network and needs no script. `write` may return a
    part that was written before from the same.
    """
    parts: list[Part] = []
    for place, result in enumerate(story.results, 1):
        parts.append(write(result, place, parts[-1].figures if parts else 0))
    album = Album(parts[-1].figures if parts else 0)
    sections = [Markup(each.section) for each in parts]
    main = tag("main", joined([_answers(story, parts), *sections, account(story, album)]), id="main")
    style = files("vestry.report").joinpath("page.css").read_text(encoding="utf-8")
    return "\n".join(
        [
            "<!DOCTYPE html>",
            '<html lang="en">',
            "<head>",
            '<meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            '<meta name="color-scheme" content="light dark">',
            f"<title>{safe(story.title)}</title>",
            f"<style>\n{style}</style>",
            "</head>",
            "<body>",
            '<a class="skip" href="#main">Skip to the report</a>',
            main,
            "</body>",
            "</html>",
            "",
        ]
    )


def _answers(story: ReportContent, parts: list[Part]) -> Markup:
    rows = [
        (
            tag("a", result.name, href=f"#release-{place}"),
            result.question,
            Markup(each.headline),
            terms(result.spent),
        )
        for place, (result, each) in enumerate(zip(story.results, parts, strict=True), 1)
    ]
    facts = definitions(
        [
            ("Dataset", story.dataset),
            ("Budget", story.budget),
            ("Remaining", story.remaining),
            ("Protects", protected(Unit.parse(story.unit), Neighbours.parse(story.neighbours))),
        ],
        class_="facts",
    )
    intro = paragraph(
        "These results come from records that stay private. Randomness hides what any single one contributes, and"
        " every number on this page was computed from published releases alone."
    )
    what = "One line per release: posterior mean and, in brackets, 90 % credible interval"
    return tag(
        "header",
        tag("h1", story.title),
        facts,
        tag("h2", "Questions and answers"),
        intro,
        register(what, ("release", "question", "answer", "privacy cost"), rows),
    )


def account(story: ReportContent, album: Album) -> Markup:
    """Write everything that follows the releases."""
    return joined(
        [
            tag("section", *_budget(story, album), id="budget"),
            tag("section", *_declared(story), id="declared"),
            tag("section", *_versions(story), id="versions"),
            tag("section", tag("h2", "The study file"), block(story.source, "The study file"), id="study-file"),
            tag("section", *_verify(story), id="verify"),
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


def _budget(story: ReportContent, album: Album) -> list[Content]:
    rows = [(result.name, str(result.entry), terms(result.spent), result.remaining) for result in story.results]
    said = (
        f"All releases from this dataset together, past and future, keep within {story.budget}. The ledger refuses"
        f" what does not fit. Remaining now: {story.remaining}."
    )
    bar = _bar(story, album)
    taken = register("What each release took from the budget", ("release", "charge", "spent", "remaining"), rows)
    return [tag("h2", "Budget"), paragraph(said), taken if bar is None else beside(bar, taken)]


def _bar(story: ReportContent, album: Album) -> Markup | None:
    """Draw what remains, if the ledger's words say it in the budget's definition at every step."""
    try:
        budget = Guarantee.parse(story.budget)
        first = Guarantee.parse(story.results[0].spent) if story.results else None
    except VestryError:
        return None
    left = [left_in(result.remaining, budget) for result in story.results]
    amounts = [each for each in left if each is not None and 0 <= each <= budget.value]
    if not left or len(amounts) < len(left):
        return None
    steps = [(f"after {result.name}", each) for result, each in zip(story.results, amounts, strict=True)]
    if isinstance(budget, (PureDP, ApproxDP)) and isinstance(first, (PureDP, ApproxDP)):
        steps.insert(0, ("before", min(budget.value, amounts[0] + first.value)))
    described = "; ".join(f"{name}: {number(each)}" for name, each in steps)
    return album.figure(
        figures.budget(steps, budget.value, budget.amount),
        alternative=f"Bars of the remaining {budget.amount}, of {number(budget.value)}. {described}.",
        caption=f"Remaining {budget.amount} (filled) of {number(budget.value)} (outline), before and after each"
        " release.",
    )


def _declared(story: ReportContent) -> list[Content]:
    rows = [(name, *_domain(domain)) for name, domain in story.columns.items()]
    what = protected(Unit.parse(story.unit), Neighbours.parse(story.neighbours))
    parts: list[Content] = [
        tag("h2", "What was declared, and what is public"),
        paragraph("Unit: ", code(story.unit), "; neighbours: ", code(story.neighbours), f". Protects: {what}."),
        paragraph("Domains were declared beforehand. Nothing was learnt from the data to choose them."),
        register("Columns and what they may contain", ("column", "may contain", "missing values"), rows),
    ]
    if story.public:
        parts += [tag("h3", "What is public"), listed(story.public)]
    return parts


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


def _versions(story: ReportContent) -> list[Content]:
    known = {result.name: result.release.certificate.versions.items() for result in story.results}
    rows = [(name, ", ".join(" ".join(each) for each in found) or "not recorded") for name, found in known.items()]
    return [tag("h2", "Versions"), register("Software that made each release", ("release", "versions"), rows)]


def _verify(story: ReportContent) -> list[Content]:
    ledger = shlex.quote(story.ledger)
    files = [shlex.quote(f"{result.name}/release.json") for result in story.results]
    commands = [f"vestry ledger verify {ledger} --head {shlex.quote(story.head)}"]
    digests = [f"sha256sum {file}" for file in files]
    again = [f"vestry posterior {file}" for file in files]
    parts: list[Content] = [
        tag("h2", "How to verify"),
        paragraph(
            "Nothing here needs to be taken on trust. The ledger is a chain of hashes; this command checks every line,"
            " and that none after the one named below is missing:"
        ),
        block("\n".join(commands), "Command that verifies the ledger"),
    ]
    if files:
        parts += [
            paragraph("The ledger's line for each release holds the SHA-256 of its file. Compare it with this page:"),
            block("\n".join(digests), "Commands that print the hash of each release"),
            paragraph(
                "Every estimate above follows from the release's file. To compute it again costs nothing, and neither"
                " does another prior (", code("--prior 2,2"), ") for a release of noisy statistics:",
            ),
            block("\n".join(again), "Commands that compute each posterior again"),
        ]  # fmt: skip
    return parts
