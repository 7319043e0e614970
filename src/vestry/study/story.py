"""What a report tells of a study: its public facts, and the releases that lie in its folder."""

from __future__ import annotations

from vestry.ledger import Ledger
from vestry.posterior import Posterior
from vestry.report.page import Result, Story, page
from vestry.study.declaration import Declaration
from vestry.study.folder import Folder


def told(declaration: Declaration, ledger: Ledger, folder: Folder) -> str:
    """Write the page."""
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
                posterior=Posterior.from_release(release),
                entry=int(facts.get("entry", 0)),
                spent=str(facts.get("spent", asked.request.guarantee)),
                remaining=str(facts.get("remaining", "")),
                labels=release.labels,
            )
        )
    return page(
        Story(
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
    )


def _public(declaration: Declaration) -> tuple[str, ...]:
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
