"""The probability of one level of a column."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import vestry.families as families
from vestry.errors import InvalidParameter
from vestry.mechanisms.additive import Layout
from vestry.models.conjugate import Conjugate
from vestry.models.model import groups_of, levels_of
from vestry.statistics.domain import Domain
from vestry.statistics.tally import Indicator, Tally


@dataclass(frozen=True)
class BetaBernoulli(Conjugate):
    """A Bernoulli likelihood with a Beta prior.

    Attributes
    ----------
    column
        A column of levels.
    success
        The level whose probability is asked for; all others are failures.
    by
        A column of levels: one probability for each.
    prior
        alpha and beta.
    """

    column: str
    success: str | int | bool
    by: str | None = None
    prior: tuple[float, float] = (1.0, 1.0)

    name: ClassVar[str] = "beta-bernoulli"

    def family(self, domains: Mapping[str, Domain]) -> families.BetaBernoulli:
        """Return the Bernoulli family."""
        levels = levels_of(domains, self.column)
        groups_of(domains, self.by)
        if self.by == self.column:
            raise InvalidParameter("by", self.by, "another column than the model's", "another column")
        if self.success not in levels.values:
            named = ", ".join(map(str, levels.values))
            raise InvalidParameter("success", self.success, f"one of the levels ({named})", f'"{levels.values[-1]}"')
        return families.BetaBernoulli()

    def noisy(self, domains: Mapping[str, Domain], layout: Layout) -> Tally:
        """Collect the successes; and the failures, where the count is private."""
        return Tally(self.keys, self._indicators(domains)[: len(layout.names)])

    def terms(self, domains: Mapping[str, Domain], layout: Layout) -> tuple[Indicator, ...]:
        """Add 1 for a success."""
        return self._indicators(domains)[:1]

    def question(self) -> str:
        """Say what is asked."""
        return f"The probability that {self.column} is {self.success}{self.by_words()}"

    def _indicators(self, domains: Mapping[str, Domain]) -> tuple[Indicator, Indicator]:
        levels = levels_of(domains, self.column)
        name = levels.names[levels.values.index(self.success)]
        others = tuple(level for level in levels.names if level != name)
        return Indicator(self.column, (name,)), Indicator(self.column, others)
