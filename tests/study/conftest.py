"""The servers that hold records, as in `tests/backends`."""

from backends.conftest import server, spark, spark_folder, spark_log

__all__ = ["server", "spark", "spark_folder", "spark_log"]
