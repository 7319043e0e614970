"""The servers that hold records, as in `tests/data`."""

from data.conftest import server, spark, spark_folder, spark_log

__all__ = ["server", "spark", "spark_folder", "spark_log"]
