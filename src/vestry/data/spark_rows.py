"""Rows of a regression that stay on Spark's executors: a function is sent to them in each pass, and sums come back.

A pass is one job over the query of rows. Batches of Arrow go from Spark to a Python process on the executor, which has
Vestry and makes features of them. What returns from each part of the table is one array of sums. Nothing is cached or
written, so the table is read as often as there are passes; it must not change meanwhile, and what a pass proves is
proved of the records that it read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from importlib.metadata import version
from typing import Any

import numpy as np

from vestry.data.quiet_reading import quietly
from vestry.data.row_limit import places_of
from vestry.data.source import Expression, Source
from vestry.errors import VestryError
from vestry.schema.design_matrix import Design
from vestry.schema.private import Block, RemoteRows

_FAILED = (
    "the data could not be read on Spark; what it said may quote a record and is not shown. "
    "Check that the table is whole, and that its executors can be reached."
)
_UNTRIED = (
    "Spark's executors could not sum, and nothing was charged; what they said is not shown. Regressions on Spark need "
    "Python on each of them, with the version of vestry that this process has installed, and memory for its processes: "
    "set the environment variable PYSPARK_PYTHON to the path of that Python before the session is started."
)
Function = Callable[[Iterator[Block]], np.ndarray]


@dataclass(frozen=True, eq=False, repr=False)
class SparkRows(RemoteRows):
    """The rows of a query on Spark.

    Attributes
    ----------
    source
        The table and its session.
    frame
        The records as whole numbers: a data frame of Spark that nothing has been asked of.
    design, names
        How such a record becomes features, and what its columns are called there.
    row_key
        Which records count, where there are too many.
    """

    source: Source
    frame: Any
    design: Design
    names: tuple[str, ...]
    row_key: str

    def at_most(self, count: int) -> SparkRows:
        """Return all rows, or those of the lowest places by key, where there are more: as `row_limit` says."""

        def limited() -> SparkRows:
            with self.source.around():
                return self if self.frame.count() <= count else replace(self, frame=self._lowest(count))

        return quietly(limited, VestryError(_FAILED))

    def sums(self, function: Function) -> list[np.ndarray]:
        """Return what the function makes of the blocks of each part, in one job."""

        def summed() -> list[np.ndarray]:
            with self.source.around():
                return _collect(self.frame, _on_parts(function, self.design, self.names))

        return quietly(summed, VestryError(_FAILED))

    def _lowest(self, count: int) -> Any:
        """Return the records of the lowest places: equal records are numbered, hashed, sorted, and cut."""
        from pyspark.sql import Window, functions

        columns = list(self.frame.columns)
        order = Window.partitionBy(*columns).orderBy(functions.lit(0))
        numbered = self.frame.withColumn("number", functions.row_number().over(order))
        kinds = ", ".join(f"{column} int" for column in columns)
        placed = numbered.mapInArrow(_on_places(self.row_key, self.design, self.names), f"{kinds}, place string")
        return placed.orderBy("place").limit(count).select(*columns)


def remote_rows(source: Source, records: Expression, design: Design, names: tuple[str, ...], row_key: str) -> SparkRows:
    """Return the records of a query as rows that stay on Spark."""
    return SparkRows(source, source.backend._session.sql(source.compile(records)), design, names, row_key)


def try_executors(source: Source, function: Function, design: Design, names: tuple[str, ...]) -> None:
    """Try a function on a made-up record where the executors are, before anything is charged."""

    def tried() -> None:
        with source.around():
            # One part: of several, one would fail alone, and Spark would log the others after the log is on again.
            one_record = source.backend._session.range(0, 1, numPartitions=1)
            zeros = [f"CAST(0 AS int) AS r{index}" for index in range(len(names))]
            made_up = one_record.selectExpr(*zeros)
            _collect(made_up, _on_parts(function, design, names))

    quietly(tried, VestryError(_UNTRIED))


def _collect(frame: Any, batches: Callable[[Iterable[Any]], Iterator[Any]]) -> list[np.ndarray]:
    """Return the one array of each part of a data frame."""
    rows = frame.mapInArrow(batches, "version string, sums binary").collect()
    if any(row.version != version("vestry") for row in rows):
        raise VestryError(
            f"Spark's executors have another version of vestry than this process, {version('vestry')}; install this one"
            " there, or set the environment variable PYSPARK_PYTHON to a Python that has it, and start anew"
        )
    return [np.frombuffer(row.sums) for row in rows]


def _on_parts(function: Function, design: Design, names: tuple[str, ...]) -> Callable[[Iterable[Any]], Iterator[Any]]:
    """Return what an executor runs over the batches of a part: it yields one record, of the sums."""

    def batches(given: Iterable[Any]) -> Iterator[Any]:
        import pyarrow

        sums = function(_block(batch, design, names) for batch in given)
        yield pyarrow.RecordBatch.from_pydict({"version": [version("vestry")], "sums": [sums.tobytes()]})

    return batches


def _on_places(row_key: str, design: Design, names: tuple[str, ...]) -> Callable[[Iterable[Any]], Iterator[Any]]:
    """Return what an executor runs to give each record its place."""

    def batches(given: Iterable[Any]) -> Iterator[Any]:
        import pyarrow

        for batch in given:
            numbers = batch.column(len(names)).to_numpy(zero_copy_only=False) - 1
            places = places_of(_block(batch, design, names), numbers, row_key)
            columns = {f"r{place}": batch.column(place) for place in range(len(names))}
            yield pyarrow.RecordBatch.from_pydict({**columns, "place": pyarrow.array(places, pyarrow.string())})

    return batches


def _block(batch: Any, design: Design, names: tuple[str, ...]) -> Block:
    return design.block({name: batch.column(place).to_numpy(zero_copy_only=False) for place, name in enumerate(names)})
