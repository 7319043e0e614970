"""The probability of one level of a column."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from vestry.conjugate.beta_bernoulli import BetaBernoulliFamily
from vestry.conjugate.conjugate_model import Conjugate
from vestry.errors import InvalidParameter
from vestry.mechanisms.additive_noise import Layout
from vestry.model.columns import groups_of, levels_of
from vestry.schema.domain import Domain
from vestry.schema.statistics import Indicator, SumQuery


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

    def family(self, domains: Mapping[str, Domain]) -> BetaBernoulliFamily:
        """Return the Bernoulli family."""
        levels = levels_of(domains, self.column)
        groups_of(domains, self.by)
        if self.by == self.column:
            raise InvalidParameter("by", self.by, "another column than the model's", "another column")
        if self.success not in levels.values:
            named = ", ".join(map(str, levels.values))
            raise InvalidParameter("success", self.success, f"one of the levels ({named})", f'"{levels.values[-1]}"')
        return BetaBernoulliFamily()

    def noisy(self, domains: Mapping[str, Domain], layout: Layout) -> SumQuery:
        """Collect the successes; and the failures, where the count is private."""
        return SumQuery(self.keys, self._indicators(domains)[: len(layout.names)])

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
