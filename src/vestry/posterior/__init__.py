"""From raw noisy statistics to an honest posterior, p(theta | z) = sum over s of p(theta | s) p(s | z)."""

from vestry.posterior.posterior import Posterior
from vestry.posterior.reader import ReleasedDraws

__all__ = ["Posterior", "ReleasedDraws"]
