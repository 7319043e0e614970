"""What became of a release, and what follows from it: the rows of its posterior and the file of its draws."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from vestry.errors import MissingExtra
from vestry.ledger.ledger import Summary
from vestry.posterior.posterior import Posterior, Rows
from vestry.posterior.reader import DRAWS
from vestry.releases import Release
from vestry.study.storage import POSTERIOR, Cache, ReleaseStore


@dataclass(frozen=True)
class ReleaseOutcome:
    """What became of a release.

    Attributes
    ----------
    name, done
        The release, and what was done.
    release
        What was published.
    summary
        The posterior's rows; or the draws, where draws were released.
    moved
        Where another release went that lay in its place; None if none did.
    after
        The ledger when the certificate was written; None if it was there before.
    """

    name: str
    done: str
    release: Release
    summary: Rows
    moved: Path | None = None
    after: Summary | None = None

    @cached_property
    def posterior(self) -> Posterior:
        """The posterior, computed when it is first asked for."""
        return Posterior.from_release(self.release)

    @property
    def computed(self) -> Posterior | None:
        """The posterior, if it was asked for; None if it was not."""
        return self.__dict__.get("posterior")


def summarise(outcome: ReleaseOutcome, store: ReleaseStore, sha256: str) -> Rows:
    """Return the posterior's rows, and see that the file of its draws is there; both as they were cached."""
    from vestry.posterior.draw_file import draw_file

    cache, name, facts = Cache(store.path), f"summary-{outcome.name}", {"release": sha256, "level": 0.9}
    cached = cache.read(name, facts)
    if cached is not None and cached["draws"] == store.hash_of(outcome.name, POSTERIOR):
        return list(cached["rows"]) if cached["rows"] is not None else summary_of(outcome.posterior)
    with suppress(MissingExtra):  # hidden states are sampled by an extra; a later run writes them
        store.save_posterior(outcome.name, draw_file(outcome.posterior, sha256))
        rows = summary_of(outcome.posterior)
        only_draws = outcome.posterior.label == DRAWS
        file_hash = store.hash_of(outcome.name, POSTERIOR)
        cache.write(name, facts, {"rows": None if only_draws else rows, "draws": file_hash})
        return rows
    return []


def summary_of(posterior: Posterior) -> Rows:
    """Return the rows of a posterior's table; of released draws, the draws."""
    if posterior.label == DRAWS:
        return [{"group": group, "draw": row.tolist()} for group, rows in posterior.draw().items() for row in rows]
    return posterior.summary()
