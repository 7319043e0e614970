"""The only room that sees a record: where the records are, and the one query that sums over them."""

from vestry.data.source import Source, connect
from vestry.data.table import Table

__all__ = ["Source", "Table", "connect"]
