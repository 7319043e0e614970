"""What a study's quality releases say of its columns, beside every release that rests on them.

A finding counts while the column is declared as it was when it was looked at.
"""

from __future__ import annotations

from collections.abc import Mapping

from vestry.data_quality.quality_model import Quality
from vestry.data_quality.quality_warnings import Finding
from vestry.posterior import Posterior
from vestry.study.config import StudyConfig
from vestry.study.storage import Cache, ReleaseStore

Known = Mapping[str, Posterior]


def warnings_by_release(config: StudyConfig, store: ReleaseStore, known: Known) -> dict[str, tuple[str, ...]]:
    """Return the sentences that belong beside each release; none for one whose columns fit, or were not looked at."""
    domains = {name: domain.to_dict() for name, domain in config.schema.domains.items()}
    found = [
        (spec.name, each)
        for spec in config.releases
        if isinstance(spec.request.model, Quality)
        for each in _findings(spec.name, store, known)
        if domains.get(each.column) == each.domain
    ]
    return {
        spec.name: tuple(
            each.sentence + ("" if name == spec.name else f" (see {name})")
            for name, each in found
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
    found = list(posterior.reader.findings(posterior.distributions))
    cache.write(f"findings-{name}", facts, {"findings": [vars(each) for each in found]})
    return found
