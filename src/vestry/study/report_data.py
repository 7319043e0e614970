"""What a report tells of a study: its public facts, its columns, and the releases that lie in its folder."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from vestry.data_quality.quality_warnings import Finding
from vestry.ledger import Ledger
from vestry.ledger.ledger import Summary
from vestry.model.request import counts_publicly, inspects, own_columns, pools
from vestry.posterior import Posterior
from vestry.report.page import Part, ReportContent, Result, page, part, results_csv
from vestry.study.config import StudyConfig
from vestry.study.storage import REPORT, Cache, ReleaseStore

Known = Mapping[str, Posterior]


def write_report(config: StudyConfig, ledger: Ledger, summary: Summary, store: ReleaseStore, known: Known) -> Path:
    """Write the page, from what changed since it was written; nothing, if nothing did.

    `summary` is the ledger's, and `known` are posteriors that were computed already, by the name of their release.
    """
    content, cache = report_content(config, ledger, summary, store, known), Cache(store.path)
    facts = {**vars(replace(content, results=())), "results": [_facts(result) for result in content.results]}
    cached = cache.read("page", facts)
    if cached is not None and cached["page"] == store.report_hash() and store.holds_results():
        return store.path / REPORT
    parts: list[Part] = []

    def written(result: Result, place: int, figures: int) -> Part:
        parts.append(_part(cache, result, place, figures))
        return parts[-1]

    html = page(content, written)
    path = store.write_report(html, results_csv(parts))
    cache.write("page", facts, {"page": hashlib.sha256(html.encode()).hexdigest()})
    return path


def _part(cache: Cache, result: Result, place: int, figures: int) -> Part:
    """Return what the page tells of a release, as it was written before from the same."""
    name, facts = f"section-{result.name}", {**_facts(result), "place": place, "figures": figures}
    cached = cache.read(name, facts)
    if cached is not None:
        return Part(**cached)
    written = part(result, place, figures)
    cache.write(name, facts, vars(written))
    return written


def _facts(result: Result) -> dict[str, Any]:
    """Return everything that a page's part follows from."""
    keys = ("name", "question", "entry", "spent", "remaining", "labels", "warnings", "unit")
    facts = {key: getattr(result, key) for key in keys}
    pooled = {"pool": True} if result.pool else {}
    return {**facts, **pooled, "release": result.release.to_dict()["sha256"]}


def report_content(
    config: StudyConfig, ledger: Ledger, summary: Summary, store: ReleaseStore, known: Known
) -> ReportContent:
    """Return what the page tells."""
    state, results, warned = summary.state, [], warnings_by_release(config, store, known)
    for spec in config.releases:
        release = store.release(spec.name)
        if release is None:
            continue
        facts = store.read_certificate(spec.name)
        results.append(
            Result(
                name=spec.name,
                question=str(facts.get("question", spec.request.model.question())),
                release=release,
                entry=int(facts.get("entry", 0)),
                spent=str(facts.get("spent", spec.request.guarantee)),
                remaining=str(facts.get("remaining", "")),
                labels=release.labels,
                given=known.get(spec.name),
                warnings=warned[spec.name],
                pool=pools(spec.request.model),
                unit=", ".join(own_columns(spec.request.model)),
            )
        )
    return ReportContent(
        title=config.imprint.get("title", config.name),
        dataset=ledger.terms.dataset,
        unit=str(ledger.terms.unit),
        neighbours=str(ledger.terms.neighbours),
        budget=str(state.filter.budget),
        remaining=state.filter.left(state.spent),
        columns={name: domain.to_dict() for name, domain in config.schema.domains.items()},
        public=_public(config),
        source=config.public_text,
        ledger=config.ledger_name,
        head=summary.head,
        results=tuple(sorted(results, key=lambda result: result.entry)),
        issuer=config.imprint.get("issuer", ""),
        contact=config.imprint.get("contact", ""),
        date=config.imprint.get("date") or _last_day(ledger),
        purpose=config.imprint.get("purpose", ""),
    )


def _last_day(ledger: Ledger) -> str:
    """Return the day of the ledger's newest charge; empty where it does not say."""
    return next((str(entry.facts.get("when", ""))[:10] for entry, _ in ledger.charges(newest=1)), "")


def warnings_by_release(config: StudyConfig, store: ReleaseStore, known: Known) -> dict[str, tuple[str, ...]]:
    """Return what quality releases say of the columns that each release rests on.

    A finding counts while the column is declared as it was when it was looked at.
    """
    domains = {name: domain.to_dict() for name, domain in config.schema.domains.items()}
    findings = [
        (spec.name, each)
        for spec in config.releases
        if inspects(spec.request.model)
        for each in _findings(spec.name, store, known)
        if domains.get(each.column) == each.domain
    ]
    return {
        spec.name: tuple(
            each.sentence + ("" if name == spec.name else f" (see {name})")
            for name, each in findings
            if each.column in spec.request.model.columns
        )
        for spec in config.releases
    }


def _findings(name: str, store: ReleaseStore, known: Known) -> list[Finding]:
    """Return what a quality release found, as it was computed before from the same file."""
    release = store.release(name)
    if release is None:
        return []
    cache, facts = Cache(store.path), {"release": release.to_dict()["sha256"]}
    cached = cache.read(f"findings-{name}", facts)
    if cached is not None:
        return [Finding(**each) for each in cached["findings"]]
    posterior = known[name] if name in known else Posterior.from_release(release)
    findings = list(posterior.reader.findings(posterior.distributions))
    cache.write(f"findings-{name}", facts, {"findings": [vars(each) for each in findings]})
    return findings


def _public(config: StudyConfig) -> tuple[str, ...]:
    """Say what is public, in sentences."""
    schema = config.schema
    shown = [spec.name for spec in config.releases if hasattr(spec.request.model, "shows")]
    released = f", except by what {' and '.join(shown)} released" if shown else ""
    sentences = [
        "This page, the study file below and the ledger's entries are public.",
        f"What the columns may contain was declared, and not learnt from the records{released}.",
    ]
    if shown:
        sentences.append(f"The values that {' and '.join(shown)} found are texts from the records as they stand there.")
    public = [spec.name for spec in config.releases if counts_publicly(schema, spec.request.model)]
    if public:
        sentences.append(f"The number of records is public; the releases {', '.join(public)} use it.")
    else:
        sentences.append("The number of records is private; where it matters it takes noise too.")
    known = [spec.name for spec in config.releases if getattr(spec.request.model, "cell", "") == "public"]
    if known:
        sentences.append(
            f"In {', '.join(known)} the region and the time of each record are public too, and are not hidden."
        )
    if schema.unit.person is not None:
        sentences.append(
            f"Of each {schema.unit.person} at most {schema.unit.rows} rows count, chosen by a key in the ledger."
        )
    return tuple(sentences)
