"""The probability of one level of a column."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import vestry.families as families
from vestry.errors import InvalidParameter
from vestry.mechanisms.additive import Layout
from vestry.models.model import by_words, groups_of, levels_of
from vestry.statistics.domain import Domain
from vestry.statistics.tally import Indicator, One, Tally


@dataclass(frozen=True)
class BetaBernoulli:
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

    @property
    def columns(self) -> tuple[str, ...]:
        """The column, and `by`."""
        return (self.column,) if self.by is None else (self.by, self.column)

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

    def numbers(self, domains: Mapping[str, Domain]) -> tuple[float, ...]:
        """Return alpha and beta."""
        return tuple(float(x) for x in self.prior)

    def noisy(self, domains: Mapping[str, Domain], layout: Layout) -> Tally:
        """Collect the successes; and the failures, where the count is private."""
        return Tally(self._keys, self._indicators(domains)[: len(layout.names)])

    def drawn(self, domains: Mapping[str, Domain], layout: Layout) -> Tally:
        """Collect the successes and the count."""
        return Tally(self._keys, (self._indicators(domains)[0], One()))

    def labels(self, domains: Mapping[str, Domain]) -> tuple[str, ...]:
        """Return nothing: there is one probability."""
        return ()

    def question(self) -> str:
        """Say what is asked."""
        return f"The probability that {self.column} is {self.success}{by_words(self.by)}"

    def to_dict(self) -> dict[str, Any]:
        """Return the declaration."""
        return {"model": self.name, "column": self.column, "success": self.success, "by": self.by,
                "prior": list(self.prior)}  # fmt: skip

    @property
    def _keys(self) -> tuple[str, ...]:
        return () if self.by is None else (self.by,)

    def _indicators(self, domains: Mapping[str, Domain]) -> tuple[Indicator, Indicator]:
        levels = levels_of(domains, self.column)
        name = levels.names[levels.values.index(self.success)]
        others = tuple(level for level in levels.names if level != name)
        return Indicator(self.column, (name,)), Indicator(self.column, others)
