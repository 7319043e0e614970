"""What a release promises, as a page tells it: words, curves, and what stands behind them."""

from __future__ import annotations

import hashlib

from vestry.report import figures
from vestry.report.content import Result
from vestry.report.formatting import number, upward
from vestry.report.interpretation import KINDS, Promise, hidden, references, sentences
from vestry.report.plot_style import COLOURS, figure
from vestry.report.plotting import profile_panel, renyi_panel
from vestry.report.svg import Album
from vestry.report.templates import Content, Markup, beside, code, definitions, listed, paragraph, tag


def claim(result: Result, album: Album) -> list[Content]:
    """Write what is promised, what an attacker could gain, and what the promise rests on."""
    certificate = result.release.certificate
    promise = Promise.of(certificate)
    kind = KINDS[type(promise.guarantee)]
    parts: list[Content] = [
        tag("h3", "The promise"),
        paragraph(
            tag("strong", f"{promise.guarantee}"),
            f", {kind}. What is hidden: that {hidden(promise.unit, promise.neighbours)}.",
        ),
        *_inside(result),
        listed(sentences(promise)),
    ]
    if certificate.assumptions:
        parts += [paragraph(tag("strong", "No theorem covers this: ")), listed(certificate.assumptions)]
    if promise.event is None:
        parts.append(paragraph("The law of this mechanism is not known to this version, so no privacy curve is drawn."))
    else:
        parts.append(beside(*_curves(promise, album)))
    keys = references(certificate.theorem)
    mechanism = f"{certificate.mechanism}, {certificate.parameter} = {number(certificate.value)}"
    digest = hashlib.sha256(result.release.text().encode()).hexdigest()
    facts: list[tuple[str, Content]] = [
        ("Mechanism", mechanism),
        ("Theorem", certificate.theorem or "none stated"),
        ("Papers cited", ", ".join(keys) or "none"),
        ("Ledger", f"charge {result.entry}, asked {result.spent}; left after it: {result.remaining}"),
        ("SHA-256 of release.json", code(digest)),
    ]
    return [*parts, definitions(facts, class_="behind")]


def _inside(result: Result) -> list[Content]:
    """Say where a replacement is hidden inside its cell only, since the noise rests on public cells."""
    family = result.release.family
    if not family.get("totals"):
        return []
    region, time = family["sequence"]["region"], family["sequence"]["time"]
    return [
        paragraph(
            tag("strong", "Not hidden: "),
            f"the {region} and the {time} of each row, which are declared public. Any other row means here any other"
            f" row of the same {region} and {time}.",
        )
    ]


def _curves(promise: Promise, album: Album) -> list[Markup]:
    event = promise.event
    assert event is not None, "asked for a known law"  # noqa: S101
    with figure(1, path=None, width=figures.WIDTH, height=2.7) as (profile, (axes,)):
        profile_panel(axes, event)
        stated = promise.at_delta()
        if stated is not None:
            axes.axvline(stated[0], color=COLOURS[1], linestyle="--", linewidth=1.2)
    with figure(1, path=None, width=figures.WIDTH, height=2.7) as (curve, (axes,)):
        renyi_panel(axes, event)
    where = "" if stated is None else f" Dashed: epsilon = {upward(stated[0])}."
    return [
        album.figure(
            profile,
            alternative="Falling curve of delta against epsilon, for what ran." + where,
            caption=f"Epsilon (across) and the delta that it holds with (up, powers of ten): every pair on this curve"
            f" holds for what ran.{where}",
        ),
        album.figure(
            curve,
            alternative="Rising curve of the Renyi divergence against its order, for what ran.",
            caption="The same promise as Renyi divergence (up) at each order (across): how far apart the results of two"
            " neighbouring datasets can be. Of many releases these numbers are added up.",
        ),
    ]
