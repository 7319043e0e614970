"""The ledger: one append-only journal for one dataset, which refuses what its budget does not hold.

Tamper-evident, not tamper-proof: every line's hash covers the line before it, so a changed byte is found by `verify`.
Whoever can rewrite the whole file can also rewrite the chain; keep the head hash elsewhere, and `verify(head=...)`
finds a cut tail or a swapped file. Two ledgers about the same people add up: neither can know of the other.
"""

from __future__ import annotations

import getpass
import hashlib
import math
import os
import platform
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import version
from typing import Any

import sqlalchemy as sql

from vestry.errors import IN_LEDGER, AskedBefore, BudgetExceeded, EntryState, InvalidParameter, LedgerCorrupt, Mismatch
from vestry.ledger.address import Address
from vestry.ledger.database import FORMAT, HEAD, JOURNAL, Database, Head, Session
from vestry.ledger.entry import GENESIS, Entry, canonical, joined, seal
from vestry.ledger.filter import Filter
from vestry.ledger.state import BEFORE, State, Walk
from vestry.noise import SystemNoise
from vestry.numerics import up
from vestry.privacy import accountant
from vestry.privacy.event import Event
from vestry.privacy.guarantee import Guarantee
from vestry.privacy.law import event as known_event
from vestry.privacy.law import promised
from vestry.privacy.neighbours import Neighbours, Unit


@dataclass(frozen=True)
class Terms:
    """What a ledger owns about its dataset, fixed when it was made."""

    dataset: str
    unit: Unit
    neighbours: Neighbours
    accepts_unproved: bool

    def to_dict(self) -> dict[str, Any]:
        """Return plain text and truth values."""
        return {
            "dataset": self.dataset,
            "unit": str(self.unit),
            "neighbours": str(self.neighbours),
            "accepts_unproved": self.accepts_unproved,
        }


@dataclass(frozen=True)
class Verified:
    """A journal that holds together: how many lines it has, and the hash to keep elsewhere."""

    entries: int
    head: str


class Ledger:
    """Open it with `Ledger.open`; only `Ledger.create` makes one."""

    def __init__(self, database: Database, terms: Terms, fixed: Filter) -> None:
        self._database = database
        self._fixed = fixed  # its currencies and orders never change; its limits may be raised
        self.terms = terms

    @classmethod
    def create(
        cls,
        address: object,
        *,
        dataset: str,
        unit: Unit | str,
        neighbours: Neighbours | str,
        budget: Guarantee | str,
        orders: Sequence[float] | None = None,
        accepts_unproved: bool = False,
        who: str | None = None,
    ) -> Ledger:
        """Make a new ledger, where none is.

        Parameters
        ----------
        address
            A path, or `postgresql://USER:${VARIABLE}@HOST/DATABASE`.
        dataset, unit, neighbours, budget
            What the ledger owns: a name, whose change is hidden (`row`, or `person=COLUMN,rows=K`), which change
            (`replace` or `add-remove`), and how much may be spent in all.
        orders
            The Renyi orders to follow with an (epsilon, delta) budget; chosen from the budget if left out.
        accepts_unproved
            Whether charges may rest on assumptions that no theorem covers, such as a converged chain.
        who
            Who makes it; the operating system's user if left out.
        """
        relation = Neighbours.parse(neighbours)
        terms = Terms(_text("dataset", dataset), Unit.parse(unit), relation, bool(accepts_unproved))
        fixed = Filter.of(Guarantee.parse(budget, neighbours=relation), orders=orders)
        database = Database(Address.parse(address))
        key = SystemNoise().random_bytes(16).hex()
        owned = {**terms.to_dict(), "filter": fixed.to_dict(), "row_key_sha256": _sha256(key.encode())}
        state = State(fixed, fixed.nothing).text()
        first, content = seal(0, "create", None, canonical({**owned, **_signature(who)}), GENESIS, state=state)
        head = {"id": 1, "format": FORMAT, "row_key": key, **_head(first, content, state)}
        database.create({JOURNAL: vars(first), HEAD: head})
        return cls(database, terms, fixed)

    @classmethod
    def open(cls, address: object) -> Ledger:
        """Open a ledger that exists."""
        database = Database(Address.parse(address))
        with database.reading() as (session, head):
            first = _entry(session, 0)
        return cls(database, _terms(first), State.read(head.state).filter)

    def __repr__(self) -> str:
        return f"Ledger({self.address!r})"

    @property
    def address(self) -> str:
        """Where the ledger is; a password is not shown."""
        return str(self._database.address)

    def state(self) -> State:
        """Return the filter in force and what is spent, as of now."""
        with self._database.reading() as (_, head):
            return State.read(head.state)

    def head(self) -> str:
        """Return the hash of the last line; keep it elsewhere to find a cut tail later."""
        with self._database.reading() as (_, head):
            return str(head.hash)

    def row_key(self) -> str:
        """Return the key by which a person's rows are chosen."""
        with self._database.reading() as (_, head):
            return str(head.row_key)

    def require(self, *, unit: Unit | str | None = None, neighbours: Neighbours | str | None = None) -> None:
        """Refuse to go on if the ledger protects another unit or hides another change."""
        if unit is not None and Unit.parse(unit) != self.terms.unit:
            raise Mismatch(
                "unit", str(unit), str(self.terms.unit), "use the ledger's own unit, or another ledger", where=IN_LEDGER
            )
        if neighbours is not None and Neighbours.parse(neighbours) != self.terms.neighbours:
            owned = str(self.terms.neighbours)
            raise Mismatch(
                "neighbours relation",
                str(neighbours),
                owned,
                f"state it as {owned}, or use another ledger",
                where=IN_LEDGER,
            )

    def charge(
        self,
        what: Event | Guarantee | str,
        *,
        purpose: str,
        definition: str | None = None,
        who: str | None = None,
        assumptions: Sequence[str] = (),
        once: bool = False,
    ) -> Charge:
        """Charge an event, or refuse: one transaction reads the totals, applies the filter and appends.

        Parameters
        ----------
        what
            The event that will run, or a guarantee of which nothing more is known.
        purpose
            Why, in a few words; it is written down.
        definition
            A hash of what is asked, by which a repetition is found.
        who
            Who charges; the operating system's user if left out.
        assumptions
            What no theorem covers; refused unless the ledger was made to accept it.
        once
            Whether to refuse, inside the same transaction, a definition that was charged before: of two processes that
            ask the same question at the same moment one is charged.
        """
        if assumptions and not self.terms.accepts_unproved:
            raise Mismatch(
                "use of unproved samplers", "yes", "no", "make a ledger with --accept-unproved", where=IN_LEDGER
            )
        ran = what if isinstance(what, Event) else promised(Guarantee.parse(what))
        ran = ran.under(self.terms.neighbours)
        price = self._fixed.price(ran)
        record = {
            "event": _journalled(ran, self._fixed).to_dict(),
            "price": price.to_dict(),
            "purpose": _text("purpose", purpose),
            **({"definition": _text("definition", definition)} if definition is not None else {}),
            **({"assumptions": list(assumptions)} if assumptions else {}),
            **_signature(who),
        }
        with self._database.transaction() as (session, head):
            if once and definition is not None:
                _refuse_twice(session, definition)
            state = State.read(head.state)
            spent = state.spent.plus(price)
            if not state.filter.holds(spent):
                asked = _described(ran) if isinstance(what, Event) else str(what)
                remaining, left = state.filter.remaining(state.spent), state.filter.left(state.spent)
                raise BudgetExceeded(asked, str(state.filter.budget), remaining, left)
            entry = _append(session, head, "charge", None, record, State(state.filter, spent))
        return Charge(self, entry)

    def amend(self, budget: Guarantee | str, *, reason: str, who: str | None = None) -> Entry:
        """Raise the budget; from then on the ledger promises the larger one, for all that it holds.

        Every limit must be at least the old one, so that whatever was spent before stays within the new budget.
        """
        wanted = Guarantee.parse(budget, neighbours=self.terms.neighbours)
        signed = {"reason": _text("reason", reason), **_signature(who)}
        with self._database.transaction() as (session, head):
            state = State.read(head.state)
            old = state.filter.budget
            if wanted.names() != old.names():
                raise Mismatch(
                    "currency", str(wanted), str(old), "raise the budget in its own currency", where=IN_LEDGER
                )
            raised = Filter.of(wanted, orders=state.filter.chosen_orders)
            if not raised.covers(state.filter) or str(wanted) == str(old):
                raise InvalidParameter("an amended budget", str(wanted), f"at least {old}, and more", "a larger budget")
            return _append(
                session, head, "amend", None, {"filter": raised.to_dict(), **signed}, State(raised, state.spent)
            )

    def resume(self, sequence: int) -> Charge:
        """Return a charge that was made before, to be opened if it was not yet."""
        with self._database.reading() as (session, _):
            entry = _entry(session, sequence)
        if entry.action != "charge":
            raise EntryState(f"entry {sequence} is of action {entry.action}; name a charge.")
        return Charge(self, entry)

    def entries(self) -> Iterator[Entry]:
        """Yield every line, the first one first."""
        with self._database.reading() as (session, _):
            yield from _lines(session)

    def charges(self) -> Iterator[tuple[Entry, frozenset[str]]]:
        """Yield every charge with what followed it: nothing, `open`, or `open` and `release`."""
        lines = list(self.entries())
        followed: dict[int, set[str]] = {line.sequence: set() for line in lines if line.action == "charge"}
        for line in lines:
            if line.target is not None and line.target in followed:
                followed[line.target].add(line.action)
        for line in lines:
            if line.action == "charge":
                yield line, frozenset(followed[line.sequence])

    def verify(self, *, head: str | None = None) -> Verified:
        """Check every line and every total from the first line on; raise at the first that does not hold.

        Parameters
        ----------
        head
            A hash that was kept elsewhere: it must be one of the chain's.
        """
        walk = Walk()
        with self._database.reading() as (session, kept):
            last, state = walk.over(_lines(session))
            key_hash = _entry(session, 0).facts.get("row_key_sha256")
        expected = _head(last, walk.content, state.text())
        if any(getattr(kept, column) != value for column, value in expected.items()):
            raise LedgerCorrupt("its head does not belong to its last line", last.sequence)
        if _sha256(str(kept.row_key).encode()) != key_hash:
            raise LedgerCorrupt("its row-choice key was changed", 0)
        if head is not None and head not in walk.hashes:
            raise LedgerCorrupt("no line has the hash asked for, so the tail was cut or the file was swapped")
        return Verified(last.sequence + 1, last.hash)

    def _follow(self, action: str, target: int, record: Mapping[str, Any]) -> Entry:
        """Append the line that moves a charge on, in its own transaction."""
        with self._database.transaction() as (session, head):
            done = {action for (action,) in session.run(_OF_TARGET, charge=target)} | {"charge"}
            if action in done:
                raise EntryState(f"charge {target} has its {action} already; charge again to draw again.")
            if BEFORE[action] not in done:
                raise EntryState(f"charge {target} is not opened yet; open it before its release.")
            return _append(session, head, action, target, record, State.read(head.state))


@dataclass(frozen=True)
class Charge:
    """A charge that the ledger has accepted; open it once, just before noise is drawn."""

    ledger: Ledger
    entry: Entry

    @property
    def sequence(self) -> int:
        """The charge's number in the journal."""
        return self.entry.sequence

    def finish(self, content: bytes) -> bool:
        """Commit the release of a charge that was opened, from what was saved just before a crash.

        The saved release is what the one drawing made, so nothing new is drawn. Returns whether the ledger took it.
        """
        record = {"release_sha256": _sha256(content), "when": _now(), "recovered": True}
        try:
            self.ledger._follow("release", self.sequence, record)
        except EntryState:
            return False
        return True

    def open(self) -> Opened:
        """Commit that noise is about to be drawn. An opened charge is never opened again."""
        self.ledger._follow("open", self.sequence, {"when": _now()})
        return Opened(self)


class Opened:
    """The leave to draw noise once."""

    def __init__(self, charge: Charge) -> None:
        self.charge = charge
        self._taken = False

    def take(self) -> None:
        """Use the leave. A mechanism does, just before it draws; a second time is refused."""
        if self._taken:
            raise EntryState(f"charge {self.charge.sequence} was drawn already; charge again to draw again.")
        self._taken = True

    def released(self, content: bytes) -> Entry:
        """Commit that a release with this content is made, by its hash."""
        record = {"release_sha256": _sha256(content), "when": _now()}
        return self.charge.ledger._follow("release", self.charge.sequence, record)


def _append(
    session: Session, head: Head, action: str, target: int | None, record: Mapping[str, Any], after: State
) -> Entry:
    """Add one line after the head's and move the head, inside the caller's transaction."""
    if joined(head.sequence, head.content, head.state) != head.hash:
        raise LedgerCorrupt("its head was changed", head.sequence)
    state = after.text()
    entry, content = seal(head.sequence + 1, action, target, canonical(record), head.hash, state=state)
    session.run(_INSERT, **vars(entry))
    session.run(_MOVE, **_head(entry, content, state))
    return entry


def _refuse_twice(session: Session, definition: str) -> None:
    """Refuse a definition that a charge has; what only looks like one in a line's text does not count."""
    found = [Entry(*row) for row in session.run(_CHARGED, part=canonical({"definition": definition})[1:-1])]
    asked = [entry.sequence for entry in found if entry.facts.get("definition") == definition]
    if asked:
        raise AskedBefore(asked[-1])


def _head(entry: Entry, content: str, state: str) -> dict[str, Any]:
    return {"sequence": entry.sequence, "hash": entry.hash, "content": content, "state": state}


def _lines(session: Session) -> Iterator[Entry]:
    for row in session.run(_ALL):
        yield Entry(*row)


def _entry(session: Session, sequence: int) -> Entry:
    row = session.one(_ONE, number=sequence)
    if row is None and sequence == 0:
        raise LedgerCorrupt("it has no first line", 0)
    if row is None:
        raise EntryState(f"the ledger has no entry {sequence}; see `vestry ledger show`.")
    return Entry(*row)


def _terms(first: Entry) -> Terms:
    try:
        facts = first.facts
        unit, relation = Unit.parse(facts["unit"]), Neighbours.parse(facts["neighbours"])
        return Terms(facts["dataset"], unit, relation, facts["accepts_unproved"])
    except (KeyError, TypeError, ValueError):
        raise LedgerCorrupt("its first line cannot be read", 0) from None


def _journalled(event: Event, fixed: Filter) -> Event:
    """Write an event that holds a function as the Renyi curve at which it is charged."""
    if event.kind != "profile":
        return replace(event, parts=tuple(_journalled(part, fixed) for part in event.parts))
    single = replace(event, count=1)
    curve = {order: up(accountant.renyi(single, order)) for order in fixed.orders}
    known = {order: epsilon for order, epsilon in curve.items() if epsilon < math.inf}
    if not known:
        allowed = "bounded at one of the ledger's Renyi orders"
        raise InvalidParameter("an event given by a profile", event.kind, allowed, "an event of a known kind")
    written = known_event("renyi", orders=tuple(known), epsilons=tuple(known.values()), count=event.count)
    return written if event.neighbours is None else written.under(event.neighbours)


def _described(event: Event) -> str:
    numbers = ", ".join(f"{name}={value:g}" for name, value in event.parameters if isinstance(value, float))
    return f"{event.kind}({numbers})" + (f" x {event.count}" if event.count > 1 else "")


def _signature(who: str | None) -> dict[str, Any]:
    return {"who": _user() if who is None else _text("who", who), "when": _now(), "versions": _versions()}


def _text(name: str, given: object) -> str:
    if not isinstance(given, str) or not given.strip() or len(given) > 1000 or not given.isprintable():
        raise InvalidParameter(name, given, "one line of text, not empty", f'for example {name}="yearly report"')
    return given


@cache
def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return f"uid {os.getuid()}"


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


@cache
def _versions() -> dict[str, str]:
    return {"python": platform.python_version(), **{name: version(name) for name in ("vestry", "opendp")}}


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


_COLUMNS = [JOURNAL.c[name] for name in ("sequence", "action", "target", "body", "previous", "hash")]
_ALL = sql.select(*_COLUMNS).order_by(JOURNAL.c.sequence)
_ONE = sql.select(*_COLUMNS).where(JOURNAL.c.sequence == sql.bindparam("number"))
_CHARGED = (
    sql.select(*_COLUMNS)
    .where(JOURNAL.c.action == "charge", sql.func.replace(JOURNAL.c.body, sql.bindparam("part"), "") != JOURNAL.c.body)
    .order_by(JOURNAL.c.sequence)
)
_OF_TARGET = sql.select(JOURNAL.c.action).where(JOURNAL.c.target == sql.bindparam("charge"))
_INSERT = sql.insert(JOURNAL)
_MOVED = ("sequence", "hash", "content", "state")
_MOVE = sql.update(HEAD).where(HEAD.c.id == 1).values({name: sql.bindparam(name) for name in _MOVED})
