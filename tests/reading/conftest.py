"""PostgreSQL and Spark, started as for the tests of backends."""

from backends.conftest import server, spark, spark_folder, spark_log

__all__ = ["server", "spark", "spark_folder", "spark_log"]
