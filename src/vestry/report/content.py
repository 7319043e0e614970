"""What a page tells: a study's public facts and its releases. Nothing here was read from a record."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from vestry.posterior import Posterior
from vestry.releases import Release


@dataclass(frozen=True)
class Result:
    """One release of a study.

    Attributes
    ----------
    name
        The release's name in the study.
    question
        What was asked, in words.
    release
        What was published.
    entry
        The number of the ledger's charge.
    spent
        What this release asked for, for example `epsilon=0.3`.
    remaining
        What the ledger had left after it, in words.
    labels
        What each parameter of a group is called, for example the levels of a column; the posterior's names if empty.
    given
        What follows from the release, if it was computed already.
    """

    name: str
    question: str
    release: Release
    entry: int
    spent: str
    remaining: str
    labels: tuple[str, ...] = ()
    given: Posterior | None = None

    @cached_property
    def posterior(self) -> Posterior:
        """What follows from the release; computed when it is first asked for."""
        return Posterior.from_release(self.release) if self.given is None else self.given


@dataclass(frozen=True)
class ReportContent:
    """A study with its releases.

    Attributes
    ----------
    title, dataset
        Names.
    unit, neighbours
        Whose change is hidden, and which change.
    budget, remaining
        What may be spent in all, and what is left after the last release, in words.
    columns
        The declared domains as a study file writes them, for example {"stay": {"interval": [0, 60]}}.
    public
        Sentences that say what is public.
    source
        The study file's text.
    ledger, head
        The ledger's address and the hash of its last line.
    results
        The releases, in the order of their charges.
    """

    title: str
    dataset: str
    unit: str
    neighbours: str
    budget: str
    remaining: str
    columns: Mapping[str, Mapping[str, Any]]
    public: tuple[str, ...]
    source: str
    ledger: str
    head: str
    results: tuple[Result, ...]
