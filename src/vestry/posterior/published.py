"""A release read back from its file, ready for any posterior."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vestry.posterior.posterior import NOISE_AWARE, Posterior
from vestry.releases import Certificate, Release
from vestry.releases import open_release as read_release


@dataclass(frozen=True)
class Published:
    """A release; whatever is computed from it is free."""

    release: Release

    @property
    def certificate(self) -> Certificate:
        """What was promised."""
        return self.release.certificate

    def posterior(
        self, *, prior: tuple[float, ...] | None = None, posterior: str = NOISE_AWARE, **options: Any
    ) -> Posterior:
        """Compute a posterior, by the release's own prior or another one; see `Posterior.from_release`."""
        return Posterior.from_release(self.release, prior=prior, posterior=posterior, **options)


def open_release(path: str | Path) -> Published:
    """Read a release from its file."""
    return Published(read_release(path))
