"""The few elements that a page is made of. Text goes in, and comes out escaped; only `Markup` is trusted.

Puts pictures into a page: inline SVG that keeps text as text, and takes its colours from the page.

Every identifier is either dropped, if nothing refers to it, or made the picture's own, so that several pictures share a
page. Nothing refers to anything outside.
"""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Iterable, Sequence
from typing import Any

from markupsafe import Markup as Markup
from markupsafe import escape

from vestry.display.plotting import COLOURS, GRID, PAPER, WIDTH
from vestry.errors import printable

Content = str | Markup


def shown(content: Any) -> Any:
    """Return a text with escapes for what a reader would not see or would be misled by; markup as it is.

    A tab is left, since it only indents.
    """
    if not isinstance(content, str) or isinstance(content, Markup):
        return content
    return "\t".join(printable(part) for part in content.split("\t"))


def joined(parts: Iterable[Content], between: str = "\n") -> Markup:
    """Put pieces together, each escaped unless it is markup."""
    return Markup(between).join(  # noqa: S704 - what stands between is written here
        shown(part) for part in parts if part
    )


def tag(name: str, *contents: Content, **attributes: str) -> Markup:
    """Write an element. An attribute's underscores become dashes, and a trailing one is dropped (`class_`)."""
    pairs = ((key.rstrip("_").replace("_", "-"), escape(shown(value))) for key, value in attributes.items())
    given = "".join(f' {key}="{value}"' for key, value in pairs)
    return Markup(f"<{name}{given}>{joined(contents, '')}</{name}>")  # noqa: S704 - its parts are escaped


def paragraph(*contents: Content) -> Markup:
    """Write a paragraph of text and markup."""
    return tag("p", *contents)


def listed(items: Iterable[Content]) -> Markup:
    """Write a list."""
    return tag("ul", *(tag("li", item) for item in items))


def beside(*parts: Markup) -> Markup:
    """Put parts side by side where there is room."""
    return tag("div", *parts, class_="beside")


def terms(guarantee: str) -> Markup:
    """Write a guarantee such as epsilon=1,delta=1e-5, to be broken between its terms only."""
    return joined([tag("span", part.strip(), class_="term") for part in guarantee.split(",")], ", ")


def definitions(pairs: Iterable[tuple[str, Content]], *, class_: str) -> Markup:
    """Write names and what they stand for."""
    return tag("dl", *(tag("div", tag("dt", name), tag("dd", content)) for name, content in pairs), class_=class_)


def table(caption: str, heads: Sequence[str], rows: Iterable[Sequence[Content]], *, names: int = 1) -> Markup:
    """Write a table of numbers, in a box that scrolls by itself.

    Parameters
    ----------
    caption
        What the table shows.
    heads
        The columns' names.
    rows
        The cells; the first `names` of each are the row's heading.
    names
        How many cells of a row name it.
    """
    caption = _join_percent(caption)
    head = tag("thead", tag("tr", *(tag("th", _join_percent(name), scope="col") for name in heads)))
    body = [
        tag("tr", *(tag("th", cell, scope="row") for cell in row[:names]), *(tag("td", cell) for cell in row[names:]))
        for row in rows
    ]
    whole = tag("table", tag("caption", caption), head, tag("tbody", joined(body)), class_="numbers")
    return tag("div", whole, class_="scroll", tabindex="0", role="group", aria_label=caption)


def _join_percent(text: str) -> str:
    """Keep a percent sign with its number."""
    return text.replace(" %", "\u00a0%")


def register(caption: str, heads: Sequence[str], rows: Iterable[Sequence[Content]]) -> Markup:
    """Write a table of words, whose cells stand below each other on a narrow screen.

    Its roles are spelled out, since a table that is laid out as blocks would lose them.
    """
    named = [tag("th", name, scope="col", role="columnheader") for name in heads]
    head = tag("thead", tag("tr", *named, role="row"), role="rowgroup")
    body = []
    for first, *others in rows:
        cells = [
            tag("td", tag("span", name, class_="label", aria_hidden="true"), cell, role="cell")
            for name, cell in zip(heads[1:], others, strict=True)
        ]
        body.append(tag("tr", tag("th", first, scope="row", role="rowheader"), *cells, role="row"))
    return tag(
        "table",
        tag("caption", caption),
        head,
        tag("tbody", joined(body), role="rowgroup"),
        class_="words",
        role="table",
    )


# Which variable of the page's stylesheet stands for which colour of the house style.
_VARIABLES = {
    **{colour: f"var(--ink-{place})" for place, colour in enumerate(COLOURS, 1)},
    "#000000": "var(--faint)",
    GRID: "var(--line)",
    PAPER: "var(--paper)",
}
_TAG = re.compile(r"<[^>]*>")
_UNSEEN = re.compile(r"<\?xml.*?\?>|<!DOCTYPE.*?>|<!--.*?-->|<metadata>.*?</metadata>", re.DOTALL)
_REFERENCE = re.compile(r'(?:href="#|url\(#)([\w.-]+)')
_FAMILY = re.compile(r"font: ((?:[\w.]+ )*?)([\d.]+px) [^;\"]*")
_SIZE = re.compile(r'<svg [^>]*viewBox="0 0 ([\d.]+) ([\d.]+)"[^>]*>')


class Album:
    """The pictures of one page, numbered as they are put in."""

    def __init__(self, count: int = 0) -> None:
        self._count = count

    @property
    def count(self) -> int:
        """How many pictures there are so far."""
        return self._count

    def figure(self, fig: Any, *, alternative: str, caption: str) -> Markup:
        """Return a picture with its alternative text and its caption."""
        self._count += 1
        picture = _inline(fig, prefix=f"figure-{self._count}", alternative=alternative)
        if fig.get_figwidth() > WIDTH:  # too wide to be read on a telephone, so it scrolls by itself
            label = f"Figure {self._count}, which may be scrolled"
            picture = tag("div", picture, class_="scroll", tabindex="0", role="group", aria_label=label)
        number = tag("b", f"Figure {self._count}.")
        return tag("figure", picture, tag("figcaption", number, " ", _join_percent(caption)))


def _inline(fig: Any, *, prefix: str, alternative: str) -> Markup:
    import matplotlib

    written = io.StringIO()
    nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
    with warnings.catch_warnings(), matplotlib.rc_context({"svg.fonttype": "none"}):
        # The browser has the letter that the font of the layout lacks.
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        fig.savefig(written, format="svg", metadata=nothing, transparent=True)
    body = _UNSEEN.sub("", shown(written.getvalue())).strip()
    own = {name: f"{prefix}-{place}" for place, name in enumerate(dict.fromkeys(_REFERENCE.findall(body)), 1)}
    body = _TAG.sub(lambda match: _plain(match[0], own), body)
    size = _SIZE.match(body)
    assert size is not None, "matplotlib writes a view box"  # noqa: S101
    width, height = (float(part) for part in size.groups())
    opening = (
        f'<svg role="img" aria-label="{escape(shown(alternative))}" viewBox="0 0 {width:g} {height:g}"'
        f' width="{width * 4 / 3:.0f}" height="{height * 4 / 3:.0f}">'
    )
    return Markup(opening + re.sub(r"\s*\n\s*", "\n", body[size.end() :]))  # noqa: S704 - matplotlib escapes its text


def _plain(element: str, own: dict[str, str]) -> str:
    """Rewrite one tag: its identifiers, its references, its colours and its font."""
    element = re.sub(r' id="([^"]*)"', lambda match: f' id="{own[match[1]]}"' if match[1] in own else "", element)
    element = re.sub(r'xlink:href="#([\w.-]+)"', lambda match: f'href="#{own[match[1]]}"', element)
    element = re.sub(r"url\(#([\w.-]+)\)", lambda match: f"url(#{own[match[1]]})", element)
    for colour, variable in _VARIABLES.items():
        element = element.replace(f": {colour}", f": {variable}")
    element = _FAMILY.sub(r"font-size: \2", element)
    return re.sub(r'<style type="text/css">|</style>', "", element)
