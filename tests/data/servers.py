"""Tables of PostgreSQL and Parquet files for Spark: the same columns in the types that these have."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from random import Random
from typing import Any
from uuid import uuid4

from data.columns import Cells
from data.writers import Columns, Made, Writer, Written, as_text, carried, spelled, typed

# For each kind, the types of PostgreSQL that carry it without loss.
POSTGRES = {
    "truth": ["boolean", "smallint", "float8", "numeric"],
    "whole": ["integer", "bigint", "float8", "real", "numeric", "numeric(20,2)", "smallint"],
    "big": ["bigint", "numeric"],
    "real": ["float8", "numeric"],
    "double": ["float8"],
    "decimal": ["numeric(10,2)", "numeric", "float8"],
    "day": ["date", "timestamp"],
    "moment": ["timestamp"],
    "zoned": ["timestamptz"],
    "clock": ["time"],
    "uuid": ["uuid"],
}
# Values that only PostgreSQL has; as text they are text.
ITS_OWN = ["infinity", "-infinity", "NaN", "4713-01-01 BC", "1e131000", "-1e-16000", "294276-12-31", "24:00:00"]


def postgres_text(value: Any, kind: str) -> str | None:
    if isinstance(value, bool) and kind != "text":
        return str(value).lower() if kind == "boolean" else str(int(value))
    text = spelled(value)
    return text.decode("utf-8") if isinstance(text, bytes) else text


def postgres(server: Path) -> Writer:
    """Return a writer of tables: the odd value decides which type a column can have, as it would for a holder."""
    import psycopg

    numbers = count()

    def column(connection: Any, cells: Cells, rng: Random) -> tuple[str, list]:
        kinds = rng.sample(POSTGRES.get(cells.kind, []), len(POSTGRES.get(cells.kind, [])))
        values = list(cells.values)
        if cells.changed is not None and rng.random() < 0.2:
            values[cells.changed] = rng.choice(ITS_OWN)
        for kind in [*kinds, "text"]:
            try:
                given = [postgres_text(value, kind) for value in values]
                for text in set(given):
                    connection.execute(f"SELECT CAST(%s AS {kind})", [text])
            except Exception:
                if kind == "text":
                    raise
                continue
            return kind, given
        raise AssertionError("a column has a type")

    def write(folder: Path, columns: Columns, rng: Random) -> Written:
        name = f"reading{next(numbers)}_{uuid4().hex}"
        seen: dict[str, list] = {}

        with psycopg.connect(f"postgresql://postgres@/postgres?host={server}", autocommit=True) as connection:

            def make(cells: Cells) -> Made:
                kind, given = column(connection, cells, rng)
                return (kind, given), list(cells.values) if kind != "text" else given

            made, seen, refused = carried(columns, make)
            quoted = {each: '"' + each.replace('"', '""') + '"' for each in made}
            declared = ", ".join(f"{quoted[each]} {kind}" for each, (kind, _) in made.items())
            connection.execute(f'CREATE TABLE "{name}" ({declared})')
            holes = ", ".join(f"%s::{kind}" for kind, _ in made.values())
            rows = list(zip(*(given for _, given in made.values()), strict=True))
            connection.cursor().executemany(f'INSERT INTO "{name}" VALUES ({holes})', rows)
        return Written(lambda: f"postgresql://postgres@/postgres/{name}?host={server}", seen, refused)

    return write


def spark_column(cells: Cells, rng: Random) -> Made:
    """Return a column in a type that Spark reads from Parquet."""
    import pyarrow as pa

    unread = ("time", "duration", "timestamp[ns", "timestamp[s", "decimal256", "uint64")
    ways = [way for way in typed(cells.kind) if not str(way[0]).startswith(unread)]
    rng.shuffle(ways)
    for kind, convert in ways:
        try:
            array = pa.array([None if value is None else convert(value) for value in cells.values], kind)
        except Exception:
            continue
        return array, list(cells.values)
    return as_text(cells, rng, ("text", "large", "binary"))


def spark_parquet(folder: Path, columns: Columns, rng: Random) -> Written:
    import pyarrow as pa
    import pyarrow.parquet as pq

    made, seen, refused = carried(columns, lambda cells: spark_column(cells, rng))
    path = folder / "a.parquet"
    pq.write_table(pa.table(made), path, row_group_size=rng.choice([2, 100]))
    return Written(lambda: f"pyspark://{path}", seen, refused)


def written_by_spark(spark: Any) -> Writer:
    """Return a writer of folders of Parquet files that Spark itself makes, one file a partition."""

    def write(folder: Path, columns: Columns, rng: Random) -> Written:
        made = spark_parquet(folder, columns, rng)
        below = folder / "spark"
        spark.read.parquet(str(folder / "a.parquet")).repartition(3).write.parquet(str(below))
        return Written(lambda: below / "*.parquet", made.seen, made.refused)

    return write
