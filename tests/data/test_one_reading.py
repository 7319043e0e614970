"""What a record adds depends on its own values alone: the law, for every format and its writers.

A table has many columns. In each of them one record is changed, another one in each column, and the records are put
into another order, into other parts, in other types. Then every other record adds what it added before, bit for bit.
A pair is a column before and after.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from random import Random

import pytest
from data.columns import KINDS
from data.laws import Score, trial
from data.servers import postgres, spark_parquet, written_by_spark
from data.writers import NEWER, WRITERS, Writer
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from share import cases

EVERY = {**WRITERS, **NEWER}
ONCE = {"arrow-reader"}
# A file of its own types a part, and so a query of many parts.
PARTS = {"hive", "parquet-files", "pandas-files"}
# One scan of many: what the other formats share is tried by them.
QUICK = ["pandas-frame", "pandas-csv", "csv", "parquet", "arrow-table", "duckdb-file", "polars-frame"]
# At most this share of the pairs may be refused by the writer itself: frames that take one type a column refuse most.
REFUSED = {"pandas-parquet": 0.9, "pandas-files": 0.9}


def held(
    name: str, writer: Writer, *, examples: int, changes: int, width: int = 8, kinds: tuple = tuple(KINDS)
) -> Score:
    """Look at many tables, and return how many pairs there were."""
    total = Score()

    @settings(max_examples=examples, phases=[Phase.explicit, Phase.generate])
    @given(seed=st.integers(0, 2**32 - 1))
    def law(seed: int) -> None:
        with tempfile.TemporaryDirectory() as folder:
            score = trial(writer, Path(folder), Random(seed), list(kinds), width=width, changes=changes,
                          counted=name not in ONCE)  # fmt: skip
        total.add(score)
        assert not score.failures, "\n".join(score.failures[:5])

    law()
    print(f"{name}: {total.pairs} pairs, {total.refused} refused by the writer, {total.rewritten} values rewritten")
    assert total.refused <= REFUSED.get(name, 0.35) * total.pairs
    assert total.rewritten <= 0.35 * total.pairs
    return total


@pytest.mark.parametrize("name", cases(EVERY, quick=QUICK))
def test_one_record_changes_no_other(name):
    kinds = [kind for kind in KINDS if kind not in ("moment", "zoned") or name == "arrow-table"]  # these take longer
    width = 3 if name in PARTS else 8
    assert held(name, EVERY[name], examples=1, changes=1, width=width, kinds=tuple(kinds)).pairs == width


@pytest.mark.slow
@pytest.mark.parametrize("name", EVERY)
def test_one_record_changes_no_other_in_many_tables(name):
    """20,000 pairs over all formats: 704 each."""
    assert held(name, EVERY[name], examples=22, changes=4).pairs >= 700


@pytest.mark.slow
def test_one_record_changes_no_other_on_postgresql(server):
    assert held("postgresql", postgres(server), examples=10, changes=4).pairs >= 300


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of Spark, about Pandas
def test_one_record_changes_no_other_on_spark(spark):
    assert held("pyspark", spark_parquet, examples=10, changes=4).pairs >= 300


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_one_record_changes_no_other_where_spark_wrote(spark):
    assert held("spark-files", written_by_spark(spark), examples=7, changes=4).pairs >= 200
