"""The few elements that a page is made of. Text goes in, and comes out escaped; only `Markup` is trusted."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


Content = str | Markup


def safe(content: Content) -> Markup:
    """Escape text, and let markup through."""
    return content if isinstance(content, Markup) else Markup(escape(content, quote=True))


def joined(parts: Iterable[Content], between: str = "\n") -> Markup:
    """Put pieces together, each escaped unless it is markup."""
    return Markup(between.join(safe(part) for part in parts if part))


def tag(name: str, *contents: Content, **attributes: str) -> Markup:
    """Write an element. An attribute's underscores become dashes, and a trailing one is dropped (`class_`)."""
    given = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(value, quote=True)}"' for key, value in attributes.items()
    )
    return Markup(f"<{name}{given}>{joined(contents, '')}</{name}>")


def paragraph(*contents: Content) -> Markup:
    """Write a paragraph of text and markup."""
    return tag("p", *contents)


def listed(items: Iterable[Content]) -> Markup:
    """Write a list."""
    return tag("ul", *(tag("li", item) for item in items))


def code(text: str) -> Markup:
    """Write a literal inside a sentence."""
    return tag("code", text)


def block(text: str, label: str) -> Markup:
    """Write literal lines, in a box that scrolls by itself."""
    return tag("pre", tag("code", text), tabindex="0", role="region", aria_label=label)


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
    head = tag("thead", tag("tr", *(tag("th", name, scope="col") for name in heads)))
    body = [
        tag("tr", *(tag("th", cell, scope="row") for cell in row[:names]), *(tag("td", cell) for cell in row[names:]))
        for row in rows
    ]
    whole = tag("table", tag("caption", caption), head, tag("tbody", joined(body)), class_="numbers")
    return tag("div", whole, class_="scroll", tabindex="0", role="region", aria_label=caption)


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
