"""One self-contained page to sign and hand on. It reads releases, never data; its words are in `page.html`.

What comes first: what is protected, what was spent, the answers, and what may not be concluded.
"""

from __future__ import annotations

import hashlib
import re
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, StrictUndefined

from vestry.display import templates as html
from vestry.display.csv_text import Cell, csv_text
from vestry.display.formatting import percent_up
from vestry.display.templates import Album, Markup
from vestry.errors import MissingExtra, NoInterval
from vestry.posterior.reader import DRAWS, NOT_CALIBRATED
from vestry.privacy.guarantee import Guarantee
from vestry.privacy.neighbours import Neighbours, Unit
from vestry.releases import Draws
from vestry.report import figures
from vestry.report.content import ReportContent, Result, estimates, labels
from vestry.report.guarantee_section import Promise, profile_of, promise_row, protected, sentences
from vestry.report.release_section import answer, proof_section, section

__all__ = ["Part", "ReportContent", "Result", "page", "part", "results_csv"]

Cells = list[Cell]
# What a line of results says of an estimate; curves of one figure.
_NUMBERS = ("mean", "sd", "low", "high")
_MOST_CURVES = 5
_UNSTATED = "not stated"
COLUMNS = ("release", "question", "group", "parameter", "kind", "value", "sd", "low", "high", "prob", "interval_method",
           "note", "unit", "spent")  # fmt: skip


@dataclass(frozen=True)
class Part:
    """What a page tells of one release.

    Attributes
    ----------
    answer
        The answer in one sentence.
    section, proof
        What it says, and what it rests on; both are HTML.
    figures
        How many pictures the page has after it.
    profile
        Epsilons and deltas of what ran; None where that is not known.
    rows
        The lines of the table of results, without the column names.
    """

    answer: str
    section: str
    proof: str
    figures: int
    profile: Sequence[list[float]] | None
    rows: list[Cells]


def part(result: Result, place: int, figures: int) -> Part:
    """Write what a page tells of one release: its place among them, and how many pictures come before it."""
    album, posterior_estimates = Album(figures), estimates(result)
    described = section(result, place, posterior_estimates, album)
    proved = proof_section(result, place, posterior_estimates)
    return Part(answer(result, posterior_estimates), described, proved, album.count, profile_of(result), _rows(result))


def page(content: ReportContent, write: Callable[[Result, int, int], Part] = part) -> str:
    """Write the page: a function of its content alone, and the same text each time.

    It holds its own style and pictures, asks for nothing over the network and needs no script. `write` may return a
    part that was written before from the same.
    """
    parts: list[Part] = []
    for place, result in enumerate(content.results, 1):
        parts.append(write(result, place, parts[-1].figures if parts else 0))
    template = Environment(
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        finalize=html.shown,
    ).from_string(_text("page.html"))
    promise, profile = _promise(content), _profile(content, parts)
    return template.render(
        content=content,
        style=Markup(_text("page.css")),
        facts=html.definitions(_facts(content), class_="facts"),
        protection=_protection(promise),
        spent=_spent(content),
        answers=list(zip(content.results, parts, strict=True)),
        limits=_limits(content, [each.answer for each in parts]),
        sections=[Markup(each.section) for each in parts],
        proofs=[Markup(each.proof) for each in parts if each.proof],
        theorems=_theorems(content),
        meaning=sentences(promise),
        guarantees=_guarantees(content, profile),
        references=_references(content),
        declared=_declared(content),
        declared_how=_declared_how(content),
        protects=protected(promise.unit, promise.neighbours),
        budget=_budget(content),
        versions=_versions(content),
        commands=_commands(content),
    )


def _facts(content: ReportContent) -> list[tuple[str, str]]:
    """Return who issues the report, whom to ask, when, why, and about which data."""
    said = {"Issued by": content.issuer, "Contact": content.contact, "Date": content.date, "Purpose": content.purpose}
    return [*((name, text or _UNSTATED) for name, text in said.items()), ("Dataset", content.dataset)]


def _promise(content: ReportContent) -> Promise:
    """Return what is guaranteed of everything that is ever released within the budget."""
    neighbours = Neighbours.parse(content.neighbours)
    budget = Guarantee.parse(content.budget, neighbours=neighbours)
    return Promise(budget, None, Unit.parse(content.unit), neighbours, "everything released within the budget")


def _protection(promise: Promise) -> str:
    """Say in one sentence what is protected, and how well."""
    share, thing = promise.best_guess(), "person" if promise.unit.person is not None else "row"
    known = f"no more than {percent_up(share)} of the time" if share < 1 else "with a probability that is not bounded"
    return (
        f"Protected is {protected(promise.unit, promise.neighbours)}: someone who knows everything about all others,"
        f" reads all that is ever released within the budget and guesses about one {thing} at even odds is right"
        f" {known}, where a coin is right half of the time."
    )


def _spent(content: ReportContent) -> str:
    """Say what was spent and what remains."""
    spends = ", ".join(f"{result.spent} on {result.name}" for result in content.results) or "nothing yet"
    return f"Of {content.budget} for all releases from these data: spent {spends}; remaining {content.remaining}."


def _limits(content: ReportContent, answers: Sequence[str]) -> list[str]:
    """Return what a reader may not conclude, given the answers of the releases."""
    results, person = content.results, Unit.parse(content.unit).person is not None
    loose = [each.name for each, said in zip(results, answers, strict=True) if NOT_CALIBRATED in said]
    return [*_about_intervals(results, loose), *_always("person" if person else "row"), *_about_values(results)]


def _about_intervals(results: Sequence[Result], loose: list[str]) -> Iterable[str]:
    draw_names = [each.name for each in results if any(isinstance(c, Draws) for c in each.release.contents.values())]
    if len(draw_names) < len(results):
        yield (
            "That a value lies inside its interval for sure: of ten 90\u00a0% credible intervals one is expected to"
            " miss, if the model is right."
        )
    if any(each.release.by is not None for each in results):
        yield "That two groups differ, unless the interval of their difference leaves out 0."
    if loose:
        yield f"That the intervals of {', '.join(loose)} are right nine times in ten: they are not calibrated."
    if draw_names:
        yield f"How far {', '.join(draw_names)} may be from the truth: draws have no interval."


def _always(thing: str) -> Iterable[str]:
    others = "families or other groups" if thing == "person" else "several rows of one person"
    yield f"Anything about one {thing} in particular; nor that the promise holds for {others} as for one {thing}."
    yield "That one thing causes another, or that the results hold for people whom the data do not describe."


def _about_values(results: Sequence[Result]) -> Iterable[str]:
    if not any(each.release.family.get("name") == "quality" for each in results):
        yield (
            "That the records fit what was declared of them: values outside were moved to the nearest end or counted as"
            " declared, and how many is not told here."
        )


def _declared_how(content: ReportContent) -> str:
    """Say where domains come from; levels may be what a release on the page has found."""
    names = [each.name for each in content.results if each.release.family.get("name") == "levels"]
    if not names:
        return "Domains were declared beforehand. Nothing was learnt from the data to choose them."
    return (
        f"Domains were declared. What was learnt from the data to choose levels, {', '.join(names)} released: it is on"
        " this page and was paid for."
    )


def _text(name: str) -> str:
    return files("vestry.report").joinpath(name).read_text(encoding="utf-8")


def results_csv(parts: Iterable[Part]) -> str:
    """Write every estimate and every released draw as a table, with all of its digits."""
    return csv_text([COLUMNS, *(row for part in parts for row in part.rows)])


def _rows(result: Result) -> list[Cells]:
    """Return a release's lines of the table: its draws, or its estimates."""
    posterior = result.posterior
    first, last = (result.name, result.question), (result.unit, result.spent)
    if posterior.label == DRAWS:
        names, rest = labels(result), ["", "", "", "", posterior.interval_method, "", *last]
        return [
            [*first, group, name, f"draw {place}", float(value), *rest]
            for group, draws in posterior.sample().items()
            for place, draw in enumerate(draws, 1)
            for name, value in zip(names, draw, strict=True)
        ]
    try:
        rows = posterior.rows()
    except (MissingExtra, NoInterval):  # hidden states are sampled by an extra
        return []
    return [
        [*first, row["group"], row["parameter"], "mean", *(float(row[key]) for key in _NUMBERS), 0.9,
         row["interval_method"], str(row.get("note", "")), *last]
        for row in rows
    ]  # fmt: skip


def _profile(content: ReportContent, parts: Sequence[Part]) -> Markup | None:
    """Draw the profile of each release whose cost is known, the first of many."""
    known = {result.name: each.profile for result, each in zip(content.results, parts, strict=True) if each.profile}
    curves = {name: (each[0], each[1]) for name, each in list(known.items())[:_MOST_CURVES]}
    if not curves:
        return None
    few = f" The first {len(curves)} of {len(known)}." if len(curves) < len(known) else ""
    return Album(parts[-1].figures).figure(
        figures.profiles(curves),
        alternative=f"Falling curves of delta against epsilon, for what ran: {', '.join(curves)}.",
        caption="Privacy profile: delta against epsilon. What ran is (epsilon, delta)-differentially private at every"
        f" point of its curve.{few}",
    )


def _guarantees(content: ReportContent, profile: Markup | None) -> Markup:
    heads = ("release", "guarantee", "factor", "best guess", "mechanism")
    caption = (
        "What each release guarantees by itself: its guarantee, the factor by which it may change the odds, how often"
    )
    caption += " a guess at even odds can be right at most, and what ran"
    rows = html.table(caption, heads, [promise_row(result) for result in content.results])
    return html.joined([rows, profile or ""])


def _references(content: ReportContent) -> list[tuple[str, ...]]:
    """Return key, authors, title and place of every paper that a theorem cites."""
    keys = cited(*(result.release.certificate.theorem for result in content.results))
    return [(key, *reference(key)) for key in keys if key in bibliography()]


@cache
def bibliography() -> dict[str, dict[str, str]]:
    """Return the fields of every reference, by its key."""
    text = _text("references.bib")
    entries = re.findall(r"^@\w+\{(\w+), (.*)\}$", text, re.MULTILINE)
    return {key: dict(re.findall(r"(\w+)=\{(.*?)\}(?:, |$)", fields)) for key, fields in entries}


def reference(key: str) -> tuple[str, str, str]:
    """Return the authors of a paper, its title, and where and when it was published."""
    entry = bibliography()[key]
    people = [" ".join(reversed(name.split(", "))) for name in entry["author"].split(" and ")]
    where = entry.get("booktitle") or entry.get("journal") or entry.get("publisher", "")
    note = f"; {entry['note']}" if "note" in entry else ""
    return ", ".join(people), entry["title"], f"{where} {entry['year']}{note}"


def cited(*theorems: str) -> list[str]:
    """Return the keys of the papers that theorems cite, in the order of the alphabet."""
    return sorted({key for text in theorems for key in re.findall(r"[A-Z][A-Za-z]+\d\d[a-z]?\b", text)})


def _budget(content: ReportContent) -> Markup:
    rows = [(each.name, str(each.entry), html.terms(each.spent), each.remaining) for each in content.results]
    return html.register("What each release took from the budget", ("release", "charge", "spent", "remaining"), rows)


def _declared(content: ReportContent) -> Markup:
    rows = [(_named(name, domain), *_domain(domain)) for name, domain in content.columns.items()]
    return html.register("Columns and what they may contain", ("column", "may contain", "missing values"), rows)


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
        return f"numbers from {_end(low)} to {_end(high)}; others are clipped to the nearer end", absent
    if "count" in domain:
        return f"whole numbers from 0 to {domain['count']}; larger ones are clipped", absent
    rest = ", ".join(f"{key}: {value}" for key, value in domain.items() if key != "missing")
    return rest or "not said", absent


def _end(end: object) -> str:
    return f"{end:.15g}" if isinstance(end, float) else str(end)


def _level(level: object) -> str:
    return str(level).lower() if isinstance(level, bool) else str(level)


def _theorems(content: ReportContent) -> list[tuple[str, str]]:
    """Return the theorems that releases rest on, each with their names."""
    return _shared(content, lambda result: result.release.certificate.theorem or "none stated")


def _versions(content: ReportContent) -> list[tuple[str, str]]:
    """Return the software that made the releases, with their names."""

    def known(result: Result) -> str:
        return ", ".join(" ".join(each) for each in result.release.certificate.versions.items()) or "not recorded"

    return _shared(content, known)


def _shared(content: ReportContent, fact: Callable[[Result], str]) -> list[tuple[str, str]]:
    """Return each value of a fact once, with the names of the releases that have it."""
    names: dict[str, list[str]] = {}
    for result in content.results:
        names.setdefault(fact(result), []).append(result.name)
    return [(", ".join(each), value) for value, each in names.items()]


def _commands(content: ReportContent) -> str:
    """Return what verifies the ledger, prints the hash of each release and computes its posterior again."""
    lines = [f"vestry ledger verify {shlex.quote(content.ledger)} --head {shlex.quote(content.head)}"]
    named = [(shlex.quote(f"{each.name}/release.json"), each.release.text().encode()) for each in content.results]
    lines += [f"sha256sum {file}  # {hashlib.sha256(text).hexdigest()}" for file, text in named]
    return "\n".join([*lines, *(f"vestry posterior {file}" for file, _ in named)])
