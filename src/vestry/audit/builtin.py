"""Audits a mechanism of the package at its worst-case neighbours: the release itself, and simulations of it in bulk."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from vestry.audit.auditor import LEAST_TRIALS, audit
from vestry.audit.bulk_simulation import log_ratio, simulate
from vestry.audit.claim import Claim
from vestry.audit.evidence import Verdict, join_verdicts
from vestry.audit.release_runs import run_release
from vestry.audit.worst_pairs import BuiltinMechanism, worst_pairs
from vestry.conjugate.family import ConjugateFamily
from vestry.errors import InvalidParameter
from vestry.mechanisms.additive_noise import Additive
from vestry.mechanisms.posterior_sample import PosteriorSample
from vestry.mechanisms.truncated_posterior import TruncatedSample
from vestry.noise import NoiseSource
from vestry.validation import is_whole

# How often the release itself runs by default: exact draws are slower than integer noise.
NOISY_RELEASES, DRAWN_RELEASES = 20_000, 4_000


def audit_shipped(
    mechanism: BuiltinMechanism,
    family: ConjugateFamily,
    *,
    noise: NoiseSource,
    trials: int = 400_000,
    releases: int | None = None,
    alarm: float = 1e-6,
    claim: Any = None,
    progress: Callable[[str], None] = lambda what: None,
) -> Verdict:
    """Audit a calibrated mechanism against its own event and the guarantee it was calibrated to.

    Parameters
    ----------
    mechanism, family
        What `vestry.mechanisms.release` made, and the family it made it for.
    noise
        The noise source of the releases; its stream draws the simulations.
    trials
        How often what is released is simulated, over all pairs.
    releases
        How often the code that releases runs, over all pairs; 0 for not at all. Omitted, often enough to catch a gross
        mistake in a few seconds.
    alarm
        The probability of a false alarm, at most, over everything.
    claim
        Something else to hold the runs against.
    progress
        Called with what is about to run.
    """
    if not isinstance(mechanism, Additive | PosteriorSample | TruncatedSample):
        raise InvalidParameter("a mechanism", mechanism, "one of the package's", "what `calibrated` returns, or audit")
    if releases is None:
        releases = NOISY_RELEASES if isinstance(mechanism, Additive) else DRAWN_RELEASES
    if not is_whole(releases) or 0 != releases < LEAST_TRIALS:
        allowed = f"0, or a whole number of at least {LEAST_TRIALS}"
        raise InvalidParameter("releases", releases, allowed, f"for example releases={NOISY_RELEASES}")
    asserted = Claim.of((mechanism.event, mechanism.guarantee) if claim is None else claim)
    pairs = worst_pairs(mechanism, family)
    routes: list[tuple[str, Any, Any, int]] = [("simulation", partial(simulate, mechanism), noise.stream(), trials)]
    if releases:
        routes.append(("release", partial(run_release, mechanism), noise, max(releases, len(pairs) * LEAST_TRIALS)))
    share = alarm / (len(pairs) * len(routes))
    verdicts = []
    for pair in pairs:
        for name, run, source, count in routes:
            progress(f"{name}: {pair.name}")
            verdicts.append(
                audit(
                    run,
                    pair.datasets,
                    asserted,
                    source=source,
                    trials=count // len(pairs),
                    alarm=share,
                    log_ratio=log_ratio(mechanism, pair),
                    where=f"{name}: {pair.name}",
                )
            )
    return join_verdicts(verdicts)
