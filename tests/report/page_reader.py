"""Reads a page's structure back, by the standard library's parser."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from html.parser import HTMLParser

VOID = {"meta", "br", "link", "img", "hr", "input"}


@dataclass
class Element:
    name: str
    attributes: dict
    children: list = field(default_factory=list)

    def all(self, *names):
        """Return this element's descendants of these names, in reading order."""
        found = []
        for child in self.children:
            if isinstance(child, Element):
                found += [child] if child.name in names or not names else []
                found += child.all(*names)
        return found

    def text(self):
        return "".join(child.text() if isinstance(child, Element) else child for child in self.children)


class Reader(HTMLParser):
    """Builds the tree, and refuses a page whose tags do not match."""

    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.root = Element("root", {})
        self.open = [self.root]

    def handle_starttag(self, name, attributes):
        element = Element(name, dict(attributes))
        assert len(element.attributes) == len(attributes), f"an attribute of {name} is there twice"
        self.open[-1].children.append(element)
        if name not in VOID:
            self.open.append(element)

    def handle_startendtag(self, name, attributes):
        self.open[-1].children.append(Element(name, dict(attributes)))

    def handle_endtag(self, name):
        assert self.open[-1].name == name, f"</{name}> closes <{self.open[-1].name}>"
        self.open.pop()

    def handle_data(self, data):
        self.open[-1].children.append(data)


def read(text):
    reader = Reader()
    reader.feed(text)
    reader.close()
    assert reader.open == [reader.root], f"<{reader.open[-1].name}> is left open"
    return reader.root


def faults(root):
    """Return what is wrong with a page's structure."""
    found, everything = [], root.all()
    ids = [each.attributes["id"] for each in everything if "id" in each.attributes]
    found += [f"id {name} twice" for name in set(ids) if ids.count(name) > 1]
    levels = [int(each.name[1]) for each in root.all("h1", "h2", "h3", "h4")]
    if levels.count(1) != 1 or levels[0] != 1:
        found.append("not one h1 at the top")
    found += [f"h{b} after h{a}" for a, b in itertools.pairwise(levels) if b > a + 1]
    (html,) = root.all("html")
    if not html.attributes.get("lang"):
        found.append("no language")
    for figure in root.all("figure"):
        picture = figure.all("svg")[0].attributes
        if picture.get("role") != "img" or len(picture.get("aria-label") or "") < 30:
            found.append("a picture without an alternative text")
        if not figure.all("figcaption"):
            found.append("a figure without a caption")
    for table in root.all("table"):
        if not (table.all("caption") and table.all("caption")[0].text().strip()):
            found.append("a table without a caption")
        if any(not each.attributes.get("scope") for each in table.all("th")):
            found.append("a heading without a scope")
        widths = {len(row.all("th", "td")) for row in table.all("tr")}
        if len(widths) != 1:
            found.append(f"rows of {widths} cells")
    for each in everything:
        if each.name in ("script", "link", "img", "iframe", "object", "embed", "base", "form"):
            found.append(f"a {each.name}")
        for key, value in each.attributes.items():
            if key in ("src", "href", "xlink:href", "action", "data", "srcset") and not value.startswith("#"):
                found.append(f"{key}={value}")
            if key in ("href", "xlink:href") and value[1:] not in ids:
                found.append(f"{value} leads nowhere")
            if key.startswith(("on", "xmlns")):
                found.append(key)
            if "url(" in value and not value.split("url(")[1].startswith("#"):
                found.append(value)
    for style in root.all("style"):
        if "url(" in style.text() or "@import" in style.text():
            found.append("a stylesheet that asks for more")
    return found
