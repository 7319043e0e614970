"""Runs a mechanism on two neighbouring datasets and bounds delta(epsilon) from below."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import numpy as np

from vestry.audit.claim import Claim
from vestry.audit.clopper_pearson import at_least, at_most
from vestry.audit.evidence import Evidence, Verdict
from vestry.audit.rejection_region import Choice, RejectionRegion, choose
from vestry.audit.test_statistic import as_outputs, scores
from vestry.errors import InvalidParameter
from vestry.numerics import Array
from vestry.validation import require_number, require_whole

Run = Callable[[Any, Any, int], Any]
LEAST_TRIALS = 1000
DIRECTIONS = ("first over second", "second over first")


def audit(
    run: Run,
    neighbours: Sequence[Any],
    claim: Any,
    *,
    source: Any,
    trials: int = 100_000,
    alarm: float = 1e-6,
    log_ratio: Callable[[Any], Any] | None = None,
    epsilons: Sequence[float] | None = None,
    where: str = "",
) -> Verdict:
    """Try to refute a claim of privacy by running the mechanism.

    Parameters
    ----------
    run
        (dataset, source, trials) -> one real output per trial, or one row of them. Trials must be independent.
    neighbours
        Two datasets that the claim calls neighbours, in any form that `run` understands.
    claim
        An event, a guarantee, a profile delta(epsilon), or a tuple of such of which each is claimed.
    source
        Handed to `run` as it is: a numpy generator, or a noise source.
    trials
        How often the mechanism runs in all, half of it on each dataset.
    alarm
        The probability, at most, of refuting a true claim.
    log_ratio
        The log-likelihood ratio of outputs under the two datasets, or any other score that orders outputs by how much
        they tell, one number per trial. It takes what `run` returns, as rows. It needs no normalisation.
    epsilons
        Where to look; chosen from the claim and the number of trials if omitted.
    where
        Which neighbours these are, in words, kept with the evidence.

    Notes
    -----
    *Validity.* Half of the outputs choose one event S for each of E epsilons and both directions. Given that half, the
    events are fixed, and the hits on the other half are binomial. Each of the 4 E Clopper-Pearson bounds, one from
    below and one from above for each choice, fails with probability at most alarm/(4 E); so all hold at once with
    probability at least 1 - alarm, whatever the choice was. Then P(S) >= low and Q(S) <= high, and
    delta(epsilon) >= P(S) - e^epsilon Q(S) >= low - e^epsilon high. A true claim is below none of these. The
    epsilons depend on the claim and the number of trials, never on outputs.
    """
    first, second = _two(neighbours)
    claimed = Claim.of(claim)
    cell = _cell(run, trials, alarm)
    looked = np.array(claimed.epsilons(cell) if epsilons is None else _epsilons(epsilons))
    level = alarm / (4 * len(looked))
    outputs = [as_outputs(run(dataset, source, 2 * cell), 2 * cell) for dataset in (first, second)]
    if outputs[0].shape != outputs[1].shape:
        raise InvalidParameter(
            "the outputs' shapes", [each.shape for each in outputs], "equal", "as many numbers per trial for both"
        )
    chosen = _choose([each[:cell] for each in outputs], looked, level, log_ratio)
    evidence = _bounds([each[cell:] for each in outputs], chosen, looked, level, claimed, where)
    return Verdict(4 * cell, alarm, evidence)


def _choose(
    half: list[Array], epsilons: Array, level: float, log_ratio: Callable[[Any], Any] | None
) -> tuple[Choice, Choice]:
    """Choose an event for each epsilon, in both directions."""
    tried = []
    for score in scores(half[0], half[1], log_ratio):
        p, q = (score(each) for each in half)
        tried.append((choose(score, p, q, epsilons, level=level), choose(score, q, p, epsilons, level=level)))
    forward, backward = (reduce(Choice.better, choices) for choices in zip(*tried, strict=True))
    return forward, backward


def _bounds(
    half: list[Array], chosen: tuple[Choice, Choice], epsilons: Array, level: float, claim: Claim, where: str
) -> tuple[Evidence, ...]:
    """Count the chosen events on the other half, and bound delta."""
    cell, values, evidence = len(half[0]), {}, []

    def hits(cut: RejectionRegion, side: int) -> int:
        if (cut.score.name, side) not in values:
            values[cut.score.name, side] = cut.score(half[side])
        return cut.hits(values[cut.score.name, side])

    for direction, choice in enumerate(chosen):
        for epsilon, cut in zip(epsilons.tolist(), choice.cuts, strict=True):
            seen = hits(cut, direction), hits(cut, 1 - direction)
            low, high = at_least(seen[0], cell, level=level), at_most(seen[1], cell, level=level)
            # Doubles lose a little; what they may have added is taken off.
            lower = max(0.0, float(low) * (1 - 1e-9) - math.exp(epsilon) * float(high) * (1 + 1e-9))
            claimed = claim.delta(epsilon)
            evidence.append(Evidence(epsilon, claimed, lower, DIRECTIONS[direction], str(cut), seen, cell, where))
    return tuple(evidence)


def _two(neighbours: Sequence[Any]) -> tuple[Any, Any]:
    if isinstance(neighbours, str) or not isinstance(neighbours, Sequence) or len(neighbours) != 2:
        raise InvalidParameter("neighbours", neighbours, "two datasets", "for example (first, second)")
    return neighbours[0], neighbours[1]


def _cell(run: object, trials: object, alarm: object) -> int:
    """Check what is asked, and return the number of trials in each cell: two datasets, two halves."""
    if not callable(run):
        raise InvalidParameter("a mechanism", run, "a function of (dataset, source, trials)", "def run(...)")
    require_number("alarm", alarm, "for example alarm=1e-6", above=0, below=1)
    return require_whole("trials", trials, "for example trials=100_000", least=LEAST_TRIALS) // 4


def _epsilons(given: Sequence[float]) -> list[float]:
    wanted = [float(x) for x in given]
    if not wanted or not all(0 <= x < 50 for x in wanted):
        raise InvalidParameter("epsilons", given, "numbers from 0 to 50, at least one", "for example (0.5, 1)")
    return wanted
