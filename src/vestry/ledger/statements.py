"""A ledger's two tables, and every statement that is run on them; the same text for SQLite and PostgreSQL."""

from __future__ import annotations

from typing import NamedTuple

import sqlalchemy as sql

METADATA = sql.MetaData()

HEAD = sql.Table(
    "vestry_head",
    METADATA,
    sql.Column("id", sql.Integer, primary_key=True, autoincrement=False),
    sql.Column("format", sql.Integer, nullable=False),
    sql.Column("sequence", sql.BigInteger, nullable=False),
    sql.Column("hash", sql.Text, nullable=False),
    sql.Column("content", sql.Text, nullable=False),
    sql.Column("state", sql.Text, nullable=False),
    sql.Column("row_key", sql.Text, nullable=False),
)
# A charge is opened once and released once: the database itself refuses a second line.
JOURNAL = sql.Table(
    "vestry_journal",
    METADATA,
    sql.Column("sequence", sql.BigInteger().with_variant(sql.Integer, "sqlite"), primary_key=True, autoincrement=False),
    sql.Column("action", sql.Text, nullable=False),
    sql.Column("target", sql.BigInteger().with_variant(sql.Integer, "sqlite")),
    sql.Column("body", sql.Text, nullable=False),
    sql.Column("previous", sql.Text, nullable=False),
    sql.Column("hash", sql.Text, nullable=False),
)
_NOT_NULL = JOURNAL.c.target.is_not(None)
sql.Index(
    "vestry_journal_once",
    JOURNAL.c.target,
    JOURNAL.c.action,
    unique=True,
    sqlite_where=_NOT_NULL,
    postgresql_where=_NOT_NULL,
)


class Head(NamedTuple):
    """The one row that points at the last line, and keeps what the lines add up to."""

    format: int
    sequence: int
    hash: str
    content: str
    state: str
    row_key: str


_columns = [JOURNAL.c[name] for name in ("sequence", "action", "target", "body", "previous", "hash")]
_line, _action, _target = JOURNAL.c.sequence, JOURNAL.c.action, JOURNAL.c.target
_from_to = (_line >= sql.bindparam("start"), _line <= sql.bindparam("end"))
_moved = ("sequence", "hash", "content", "state")

READ_HEAD = sql.select(*(HEAD.c[name] for name in Head._fields)).where(HEAD.c.id == 1)
LOCKED_HEAD = READ_HEAD.with_for_update()
MOVE_HEAD = sql.update(HEAD).where(HEAD.c.id == 1).values({name: sql.bindparam(name) for name in _moved})
SET_FORMAT = sql.update(HEAD).where(HEAD.c.id == 1).values(format=sql.bindparam("format"))
INSERT_HEAD, INSERT_LINE = sql.insert(HEAD), sql.insert(JOURNAL)

ONE_LINE = sql.select(*_columns).where(_line == sql.bindparam("number"))
HASH_OF = sql.select(JOURNAL.c.hash).where(_line == sql.bindparam("number"))
STRAY_LINE = sql.select(_line).where(sql.or_(_line < 0, _line > sql.bindparam("last"))).limit(1)

# One page, the line's number first.
LINES = sql.select(*_columns).where(*_from_to).order_by(_line).limit(sql.bindparam("size"))
CHARGES = LINES.where(_action == "charge")
FOLLOWING = LINES.with_only_columns(_line, _target, _action).where(sql.or_(_action == "open", _action == "release"))
NEWEST_CHARGES = sql.select(_line).where(_action == "charge").order_by(_line.desc()).limit(sql.bindparam("newest"))
