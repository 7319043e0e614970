"""Puts pictures into a page: inline SVG that keeps text as text, and takes its colours from the page.

Every identifier is either dropped, if nothing refers to it, or made the picture's own, so that several pictures share a
page. Nothing refers to anything outside.
"""

from __future__ import annotations

import io
import re
import warnings
from typing import Any

from vestry.display.plotting import COLOURS, GRID, PAPER, WIDTH
from vestry.display.templates import Markup, safe, tag

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

    def figure(self, drawn: Any, *, alternative: str, caption: str) -> Markup:
        """Return a picture with its alternative text and its caption."""
        self._count += 1
        picture = _inline(drawn, prefix=f"figure-{self._count}", alternative=alternative)
        if drawn.get_figwidth() > WIDTH:  # too wide to be read on a telephone, so it scrolls by itself
            label = f"Figure {self._count}, which may be scrolled"
            picture = tag("div", picture, class_="scroll", tabindex="0", role="region", aria_label=label)
        number = tag("b", f"Figure {self._count}.")
        return tag("figure", picture, tag("figcaption", number, " ", caption.replace(" %", "\u00a0%")))


def _inline(drawn: Any, *, prefix: str, alternative: str) -> Markup:
    import matplotlib

    written = io.StringIO()
    nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
    with warnings.catch_warnings(), matplotlib.rc_context({"svg.fonttype": "none"}):
        # The browser has the letter that the font of the layout lacks.
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        drawn.savefig(written, format="svg", metadata=nothing, transparent=True)
    body = _UNSEEN.sub("", written.getvalue()).strip()
    own = {name: f"{prefix}-{place}" for place, name in enumerate(dict.fromkeys(_REFERENCE.findall(body)), 1)}
    body = _TAG.sub(lambda found: _plain(found[0], own), body)
    size = _SIZE.match(body)
    assert size is not None, "matplotlib writes a view box"  # noqa: S101
    width, height = (float(part) for part in size.groups())
    opening = (
        f'<svg role="img" aria-label="{safe(alternative)}" viewBox="0 0 {width:g} {height:g}"'
        f' width="{width * 4 / 3:.0f}" height="{height * 4 / 3:.0f}">'
    )
    return Markup(opening + re.sub(r"\s*\n\s*", "\n", body[size.end() :]))


def _plain(element: str, own: dict[str, str]) -> str:
    """Rewrite one tag: its identifiers, its references, its colours and its font."""
    element = re.sub(r' id="([^"]*)"', lambda found: f' id="{own[found[1]]}"' if found[1] in own else "", element)
    element = re.sub(r'xlink:href="#([\w.-]+)"', lambda found: f'href="#{own[found[1]]}"', element)
    element = re.sub(r"url\(#([\w.-]+)\)", lambda found: f"url(#{own[found[1]]})", element)
    for colour, variable in _VARIABLES.items():
        element = element.replace(f": {colour}", f": {variable}")
    element = _FAMILY.sub(r"font-size: \2", element)
    return re.sub(r'<style type="text/css">|</style>', "", element)
