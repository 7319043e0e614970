"""From raw noisy statistics to an honest posterior, p(theta | z) = sum over s of p(theta | s) p(s | z)."""

from vestry.posterior.posterior import Posterior, ReleasedDraws
from vestry.posterior.published import Published, open_release

__all__ = ["Posterior", "Published", "ReleasedDraws", "open_release"]
