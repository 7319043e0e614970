"""What a report tells of a study: its public facts, and the releases that lie in its folder."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from vestry.ledger import Ledger
from vestry.posterior import Posterior
from vestry.report.page import Part, ReportContent, Result, page, part
from vestry.study.cache import Cache
from vestry.study.config import StudyConfig
from vestry.study.storage import REPORT, ReleaseStore


def told(
    declaration: StudyConfig, ledger: Ledger, folder: ReleaseStore, known: Mapping[str, Posterior] | None = None
) -> Path:
    """Write the page, from what changed since it was written; nothing, if nothing did.

    `known` are posteriors that were computed already, by the name of their release.
    """
    story, cache = story_of(declaration, ledger, folder, known or {}), Cache(folder.path)
    facts = {**vars(replace(story, results=())), "results": [_facts(result) for result in story.results]}
    kept = cache.read("page", facts)
    if kept is not None and kept["page"] == folder.report_hash():
        return folder.path / REPORT
    html = page(story, lambda result, place, figures: _part(cache, result, place, figures))
    path = folder.report(html)
    cache.keep("page", facts, {"page": hashlib.sha256(html.encode()).hexdigest()})
    return path


def _part(cache: Cache, result: Result, place: int, figures: int) -> Part:
    """Return what the page tells of a release, as it was written before from the same."""
    name, facts = f"section-{result.name}", {**_facts(result), "place": place, "figures": figures}
    kept = cache.read(name, facts)
    if kept is not None:
        return Part(**kept)
    made = part(result, place, figures)
    cache.keep(name, facts, vars(made))
    return made


def _facts(result: Result) -> dict[str, Any]:
    """Return everything that a page's part follows from."""
    told = {key: getattr(result, key) for key in ("name", "question", "entry", "spent", "remaining", "labels")}
    return {**told, "release": result.release.to_dict()["sha256"]}


def story_of(
    declaration: StudyConfig, ledger: Ledger, folder: ReleaseStore, known: Mapping[str, Posterior]
) -> ReportContent:
    """Return what the page tells."""
    state = ledger.state()
    results = []
    for asked in declaration.releases:
        release = folder.release(asked.name)
        if release is None:
            continue
        facts = folder.facts(asked.name)
        results.append(
            Result(
                name=asked.name,
                question=str(facts.get("question", asked.request.model.question())),
                release=release,
                entry=int(facts.get("entry", 0)),
                spent=str(facts.get("spent", asked.request.guarantee)),
                remaining=str(facts.get("remaining", "")),
                labels=release.labels,
                given=known.get(asked.name),
            )
        )
    return ReportContent(
        title=declaration.name,
        dataset=ledger.terms.dataset,
        unit=str(ledger.terms.unit),
        neighbours=str(ledger.terms.neighbours),
        budget=str(state.filter.budget),
        remaining=state.filter.left(state.spent),
        columns={name: domain.to_dict() for name, domain in declaration.frame.domains.items()},
        public=_public(declaration),
        source=declaration.text,
        ledger=ledger.address,
        head=ledger.head(),
        results=tuple(sorted(results, key=lambda result: result.entry)),
    )


def _public(declaration: StudyConfig) -> tuple[str, ...]:
    """Say what is public, in sentences."""
    frame = declaration.frame
    said = ["This page, the study file below and the ledger's entries are public.",
            "What the columns may contain was declared, and not learnt from the records."]  # fmt: skip
    public = [asked.name for asked in declaration.releases if frame.counts_publicly(asked.request.model)]
    if public:
        said.append(f"The number of records is public; the releases {', '.join(public)} use it.")
    else:
        said.append("The number of records is private; where it matters it takes noise too.")
    known = [asked.name for asked in declaration.releases if getattr(asked.request.model, "cell", "") == "public"]
    if known:
        said.append(f"In {', '.join(known)} the region and the time of each record are public too, and are not hidden.")
    if frame.unit.person is not None:
        said.append(f"Of each {frame.unit.person} at most {frame.unit.rows} rows count, chosen by a key in the ledger.")
    return tuple(said)
