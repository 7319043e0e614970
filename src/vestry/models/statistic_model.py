"""The contract of a model: what it can be read from, and how."""

from __future__ import annotations

from dataclasses import Field
from typing import Any, ClassVar, Protocol, TypeVar

from vestry.models.estimates import Estimates
from vestry.purchases.noisy import Noisy
from vestry.schema.table_schema import TableSchema
from vestry.statistics.statistic import Statistic


class ModelReading(Protocol):
    """What follows from noisy integers."""

    def estimates(self, prob: float = 0.9) -> Estimates:
        """Return the table of results, with intervals of this probability."""


P_co = TypeVar("P_co", bound=ModelReading, covariant=True)


class StatisticModel(Protocol[P_co]):
    """A question; a frozen dataclass. Its prior is a field that no statistic holds."""

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    def statistics(self, schema: TableSchema) -> tuple[Statistic, ...]:
        """Return the statistics from which it can be read, the cheapest first."""

    def read(self, noisy: Noisy, schema: TableSchema) -> P_co:
        """Return the posterior from noisy integers of one of these statistics."""

    def question(self) -> str:
        """Return the question in words."""
