"""The mean of any function of a record into [0, 1], released as a draw from a Beta posterior.

S = phi(x) in the place of a success: the Beta family with real-valued sums, whose boundary pairs are the same four
[GeumlekSC17, appendix; checked for real sums by brute force]. The function is a column, computed where the data live.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, NoReturn

from vestry.conjugate.beta_bernoulli import BetaBernoulliFamily
from vestry.conjugate.conjugate_model import ConjugateModel
from vestry.errors import InvalidParameter
from vestry.mechanisms.statistic_family import Layout
from vestry.model.request import By, interval_of
from vestry.schema.domain import Domain
from vestry.schema.statistics import Sum


@dataclass(frozen=True)
class StatisticalQuery(ConjugateModel):
    """The mean of a column in [0, 1].

    Attributes
    ----------
    column
        A column with the interval [0, 1].
    by
        A column of levels, or several: one mean for each.
    prior
        alpha and beta.
    """

    column: str
    by: By = None
    prior: tuple[float, float] = (1.0, 1.0)

    name: ClassVar[str] = "statistical-query"
    family_type: ClassVar[type[BetaBernoulliFamily]] = BetaBernoulliFamily
    # What one unit of the sum stands for; one record spans exactly [0, 1].
    unit: ClassVar[float] = 2.0**-20

    def family(self, domains: Mapping[str, Domain]) -> BetaBernoulliFamily:
        """Return the Beta family; its records may be anything between 0 and 1."""
        self.groups(domains)
        interval = interval_of(domains, self.column)
        if (interval.low, interval.high) != (0, 1):
            given = [interval.low, interval.high]
            raise InvalidParameter(f"the interval of {self.column}", given, "[0, 1]", "a column that is scaled to it")
        return BetaBernoulliFamily()

    def noisy(self, domains: Mapping[str, Domain], layout: Layout) -> NoReturn:
        """Refuse: a function is no Bernoulli record, and its noisy sum has no such posterior."""
        raise InvalidParameter(
            "mechanism", "laplace or gaussian", "one that releases draws for a statistical query",
            'mechanism = "diffused" and draws = 1, or normal-mean for the mean of a column',
        )  # fmt: skip

    def terms(self, domains: Mapping[str, Domain], layout: Layout) -> tuple[Sum, ...]:
        """Add the value, in units of 2^-20."""
        return (Sum(self.column, 0.0, self.unit),)

    def question(self) -> str:
        """Say what is asked."""
        return f"The mean of {self.column}, between 0 and 1{self.by_words()}"
