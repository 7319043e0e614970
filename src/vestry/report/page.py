"""One self-contained page to hand to a data-protection officer. It reads releases, never data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.resources import files

from vestry.privacy.neighbours import Neighbours, Unit
from vestry.report.appendix import account
from vestry.report.content import ReportContent, Result
from vestry.report.estimates import estimates
from vestry.report.interpretation import hidden
from vestry.report.release_section import headline, section
from vestry.report.svg import Album
from vestry.report.templates import Markup, definitions, joined, paragraph, register, safe, tag, terms

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
    told = section(result, place, found, album)
    return Part(safe(headline(result, found)), told, album.count)


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
    main = tag("main", joined([_asked(story, parts), *sections, account(story, album)]), id="main")
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


def _asked(story: ReportContent, parts: list[Part]) -> Markup:
    rows = [
        (
            tag("a", result.name, href=f"#release-{place}"),
            result.question,
            Markup(each.headline),
            terms(result.spent),
        )
        for place, (result, each) in enumerate(zip(story.results, parts, strict=True), 1)
    ]
    change = hidden(Unit.parse(story.unit), Neighbours.parse(story.neighbours))
    facts = definitions(
        [
            ("Dataset", story.dataset),
            ("Budget", story.budget),
            ("Left", story.remaining),
            ("Hidden", f"that {change}"),
        ],
        class_="facts",
    )
    intro = paragraph(
        "These results come from records that stay private. Noise or chance hides what any single one adds, and every"
        " number on this page was computed from published releases alone."
    )
    what = "One line for each release: mean and, in brackets, the interval that holds it with 90 % probability"
    return tag(
        "header",
        tag("h1", story.title),
        facts,
        tag("h2", "What was asked"),
        intro,
        register(what, ("release", "question", "answer", "price"), rows),
    )
