"""What an audit found: facts, and the verdict that follows from them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from vestry.numerics import format_up

REFUTED, NOT_REFUTED = "refuted", "not refuted"


@dataclass(frozen=True)
class Evidence:
    """One bound: at this epsilon the true delta is at least `lower`.

    Attributes
    ----------
    epsilon, claimed
        A point of the claimed profile.
    lower
        The lower bound on the true delta there.
    direction
        `first over second` or `second over first`: which dataset makes the event likelier.
    event
        The set of outputs that was counted.
    hits
        How often it was seen, from the likelier dataset and from the other.
    cell
        In how many trials each.
    where
        Which neighbours, and which runs, in words.
    """

    epsilon: float
    claimed: float
    lower: float
    direction: str
    event: str
    hits: tuple[int, int]
    cell: int
    where: str = ""

    @property
    def refutes(self) -> bool:
        """Whether the bound exceeds the claim."""
        return self.lower > self.claimed

    @property
    def strength(self) -> tuple[float, float]:
        """How far the bound lies above the claim; where it does not, which share of the claim it reaches."""
        share = self.lower / self.claimed if self.claimed > 0 else 0.0
        return max(0.0, self.lower - self.claimed), share


@dataclass(frozen=True)
class Verdict:
    """All evidence of an audit.

    Attributes
    ----------
    trials
        How often the mechanism ran in all.
    alarm
        The probability, at most, that a true claim is refuted.
    evidence
        One bound for each epsilon and direction.
    """

    trials: int
    alarm: float
    evidence: tuple[Evidence, ...]

    @property
    def refuted(self) -> bool:
        """Whether some bound exceeds the claim."""
        return any(each.refutes for each in self.evidence)

    @property
    def word(self) -> str:
        """`refuted` or `not refuted`; an audit never proves a claim."""
        return REFUTED if self.refuted else NOT_REFUTED

    @property
    def strongest(self) -> Evidence:
        """The bound that lies farthest above the claim, or comes closest to it."""
        return max(self.evidence, key=lambda each: each.strength)

    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers and text, the strongest evidence first."""
        ordered = sorted(self.evidence, key=lambda each: each.strength, reverse=True)
        rows = [{**asdict(each), "refutes": each.refutes} for each in ordered]
        return {"verdict": self.word, "trials": self.trials, "alarm": self.alarm, "evidence": rows}

    def __str__(self) -> str:
        best = self.strongest
        claimed = format_up(best.claimed, digits=4)
        return (
            f"{self.word} in {self.trials} trials, false alarms at most {self.alarm:g}: at epsilon {best.epsilon:.4g}"
            f" delta is at least {best.lower:.4g}, claimed {claimed} ({best.direction}, {best.event})"
        )


def join_verdicts(verdicts: Iterable[Verdict]) -> Verdict:
    """Join audits of one claim: trials and false alarms add up."""
    parts = list(verdicts)
    return Verdict(
        sum(part.trials for part in parts),
        sum(part.alarm for part in parts),
        tuple(each for part in parts for each in part.evidence),
    )
