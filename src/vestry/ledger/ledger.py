"""The ledger: one append-only journal for one dataset, which refuses what its budget does not hold.

Tamper-evident, not tamper-proof: every line's hash covers the line before it, so `verify` finds a change of any
bit that a line, the head, the index or the schema is read from.
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
from functools import cache, reduce
from importlib.metadata import version
from typing import Any

import vestry.ledger.statements as statements
from vestry.errors import (
    IN_LEDGER,
    AskedBefore,
    BudgetExceeded,
    DeclarationMismatch,
    InvalidParameter,
    LedgerCorrupt,
    LedgerStateError,
    LedgerUnavailable,
)
from vestry.ledger.database import COPY_FORMAT, FORMAT, Database, Session
from vestry.ledger.entry import BEFORE, GENESIS, Entry, JournalWalk, State, canonical_json, seal
from vestry.ledger.journal import JournalMoment, WalkedJournal
from vestry.ledger.privacy_filter import PrivacyFilter, Spent
from vestry.ledger.sqlite import Address
from vestry.ledger.statements import Head
from vestry.noise import SystemNoise
from vestry.notebook import html_table
from vestry.numerics import up
from vestry.privacy import accountant
from vestry.privacy.event import Event, compose
from vestry.privacy.guarantee import Guarantee
from vestry.privacy.neighbours import Neighbours, Unit
from vestry.privacy.pricing import event as known_event
from vestry.privacy.pricing import event_of_guarantee


@dataclass(frozen=True)
class LedgerTerms:
    """What a ledger owns about its dataset, fixed when it was made."""

    dataset: str
    unit: Unit
    neighbours: Neighbours
    accepts_unproved: bool

    def to_dict(self) -> dict[str, Any]:
        """Return plain text and truth values."""
        return {**vars(self), "unit": str(self.unit), "neighbours": str(self.neighbours)}


@dataclass(frozen=True)
class Verified:
    """A journal that holds together: how many lines it has, and the hash to keep elsewhere."""

    entries: int
    head: str


@dataclass(frozen=True)
class Summary:
    """One moment of a ledger: its state, how many lines it has, its last hash, and whether it is only a copy."""

    state: State
    entries: int
    head: str
    is_copy: bool


@dataclass(frozen=True)
class Ask:
    """What is to be charged: what will run, why, the hash of the question, and what no theorem covers."""

    what: Event | Guarantee | str
    purpose: str
    definition: str | None = None
    assumptions: tuple[str, ...] = ()

    def event(self) -> Event:
        """Return what will run; of a guarantee nothing more is known."""
        known = self._known()
        return known if isinstance(known, Event) else event_of_guarantee(known)

    def facts(self) -> dict[str, Any]:
        """Return what the ledger writes down beside the price."""
        return {
            "purpose": _text("purpose", self.purpose),
            **({"definition": _text("definition", self.definition)} if self.definition is not None else {}),
            **({"assumptions": list(self.assumptions)} if self.assumptions else {}),
        }

    def __str__(self) -> str:
        known = self._known()
        return _describe(known) if isinstance(known, Event) else str(known)

    def _known(self) -> Event | Guarantee:
        return self.what if isinstance(self.what, Event) else Guarantee.parse(self.what)


class Ledger:
    """One dataset's budget and all that was charged to it: `open` opens one, and only `create` makes one."""

    def __init__(self, database: Database, first: Entry, seen: PrivacyFilter) -> None:
        self._database = database
        self._filter = seen  # as it was seen last
        self._journal = WalkedJournal(database, first)
        self.terms = _terms(first)

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
            The Renyi orders to follow with an (epsilon, delta) budget; chosen from the budget if omitted.
        accepts_unproved
            Whether charges may rest on assumptions that no theorem covers, such as a converged chain.
        who
            Who makes it; the operating system's user if omitted.
        """
        relation = Neighbours.parse(neighbours)
        terms = LedgerTerms(_text("dataset", dataset), Unit.parse(unit), relation, bool(accepts_unproved))
        fixed = PrivacyFilter.new(Guarantee.parse(budget, neighbours=relation), orders=orders)
        database = Database(Address.parse(address))
        key = SystemNoise().random_bytes(16).hex()
        owned = {**terms.to_dict(), "filter": fixed.to_dict(), "row_key_sha256": _sha256(key.encode())}
        state = State(fixed, fixed.nothing).text()
        first, content = seal(0, "create", None, canonical_json({**owned, **_signature(who)}), GENESIS, state=state)
        head = {"id": 1, "format": FORMAT, "row_key": key, **_head(first, content, state)}
        database.create(head, [vars(first)])
        return cls(database, first, fixed)

    @classmethod
    def open(cls, address: object) -> Ledger:
        """Open a ledger that exists."""
        database = Database(Address.parse(address))
        with database.reading() as (session, head):
            first = _entry(session, 0)
        JournalWalk().over([first])
        return cls(database, first, State.read(head.state).filter)

    def __repr__(self) -> str:
        return f"Ledger({self.address!r})"

    def _repr_html_(self) -> str:
        """Return the terms, what is spent and what remains, as of now."""
        now = self.summary()
        limits, spent = now.state
        facts = {
            "dataset": self.terms.dataset,
            "unit": str(self.terms.unit),
            "neighbours": str(self.terms.neighbours),
            "budget": str(limits.budget),
            "spent": limits.amounts_spent(spent),
            "remains": limits.left(spent),
            "entries": str(now.entries),
        }
        return html_table(f"{'Copy of a ledger' if now.is_copy else 'Ledger'} {self.address}", facts)

    @property
    def address(self) -> str:
        """Where the ledger is; a password is not shown."""
        return str(self._database.address)

    def state(self) -> State:
        """Return the filter in force and what is spent, as of now."""
        return self.summary().state

    def summary(self) -> Summary:
        """Return state, number of lines and head of one moment."""
        with self._database.reading() as (_, head):
            return Summary(State.read(head.state), head.sequence + 1, head.hash, head.format == COPY_FORMAT)

    def head(self) -> str:
        """Return the hash of the last line; keep it elsewhere to find a cut tail later."""
        return self.summary().head

    def row_key(self) -> str:
        """Return the key by which a person's rows are chosen."""
        with self._database.reading() as (_, head):
            return _row_key(self._journal.first, head)

    def journal(self) -> JournalMoment:
        """Walk the journal up to now, and return what it says; refuse the first line that does not hold."""
        return self._journal.now()

    def require(self, *, unit: Unit | str | None = None, neighbours: Neighbours | str | None = None) -> None:
        """Refuse to go on if the ledger protects another unit or hides another change."""
        own, relation = self.terms.unit, self.terms.neighbours
        if unit is not None and Unit.parse(unit) != own:
            instead = "use the ledger's own unit, or another ledger"
            raise DeclarationMismatch("unit", str(unit), str(own), instead, where=IN_LEDGER)
        if neighbours is not None and Neighbours.parse(neighbours) != relation:
            instead = f"state it as {relation}, or use another ledger"
            raise DeclarationMismatch("neighbours relation", str(neighbours), str(relation), instead, where=IN_LEDGER)

    def require_entries(self, releases: Mapping[int, str | None]) -> None:
        """Refuse to go on if the ledger lacks what certificates name: an old copy was put back, or it was made again.

        Parameters
        ----------
        releases
            Of each certificate its `entry`, the number of the charge, and its `release_sha256`; None in place of the
            hash asks only that the number is a charge's.
        """
        if not releases:
            return
        journal = self.journal()
        for number, release in releases.items():
            lacks_release = release is not None and journal.release_of(number) != release
            if journal.stage(number) is None or lacks_release:
                raise LedgerCorrupt(_GONE.format(number=number), number)

    def charge(
        self,
        what: Event | Guarantee | str,
        *,
        purpose: str,
        definition: str | None = None,
        who: str | None = None,
        assumptions: Sequence[str] = (),
        once: bool = False,
        done: bool = False,
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
            Who charges; the operating system's user if omitted.
        assumptions
            What no theorem covers; refused unless the ledger was made to accept it.
        once
            Whether to refuse, inside the same transaction, a definition that was charged before: of two processes that
            ask the same question at the same moment one is charged.
        done
            Whether the charge is for work that was done before. Its output may have been seen, so it cannot choose how
            a new ledger shares out its delta.
        """
        ask = Ask(what, purpose, definition, tuple(assumptions))
        (charge,) = self.charge_together([ask], who=who, once=once, done=done)
        return charge

    def charge_together(
        self, asks: Sequence[Ask], *, who: str | None = None, once: bool = False, done: bool = False
    ) -> list[Charge]:
        """Charge what is decided together, before any of it is seen, or refuse all: one transaction, a line for each.

        Each is opened and released by itself. As the first charge of a ledger it is priced by its joint profile where
        that is better; see `vestry.ledger.privacy_filter`. For the parameters see `charge`.
        """
        if any(ask.assumptions for ask in asks) and not self.terms.accepts_unproved:
            raise DeclarationMismatch(
                "use of unproved samplers", "yes", "no", "make a ledger with --accept-unproved", where=IN_LEDGER
            )
        self._journal.prepare()
        for _ in range(_TRIES):
            bill = self._bill(asks, who=who, done=done)
            with self._database.transaction() as (session, head):
                journal = self._journal.within(session, head)
                state = State.read(head.state)
                if not state.filter.priced_like(self._filter):  # another charge chose the filter, or it was amended
                    self._filter = state.filter
                    continue
                if once:
                    _refuse_repeats(journal, asks)
                return self._append_charges(session, head, state, bill)
        raise LedgerUnavailable(f"the ledger at {self.address} was changed again and again meanwhile; try again.")

    def _append_charges(self, session: Session, head: Head, state: State, bill: _Bill) -> list[Charge]:
        decided = bill.filter if state.filter.undecided else state.filter
        spent = decided.nothing if state.filter.undecided else state.spent
        _require_room(State(decided, spent), bill)
        charges = []
        for price, record in zip(bill.prices, bill.records, strict=True):
            spent = spent.plus(price)
            entry, head = _append(session, head, "charge", None, record, State(decided, spent))
            charges.append(Charge(self, entry))
        self._filter = decided
        return charges

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
                instead = "raise the budget in its own definition"
                raise DeclarationMismatch("privacy definition", str(wanted), str(old), instead, where=IN_LEDGER)
            raised = state.filter.with_budget(wanted)
            if not raised.covers(state.filter) or str(wanted) == str(old):
                raise InvalidParameter("an amended budget", str(wanted), f"at least {old}, and more", "a larger budget")
            record = {"filter": raised.to_dict(), **signed}
            return _append(session, head, "amend", None, record, State(raised, state.spent))[0]

    def resume(self, sequence: int) -> Charge:
        """Return a charge that was made before, to be opened if it was not yet."""
        entry = self.journal().line(sequence)
        if entry.action != "charge":
            raise LedgerStateError(f"entry {sequence} is of action {entry.action}; name a charge.")
        return Charge(self, entry)

    def entries(self) -> Iterator[Entry]:
        """Yield every line up to the last one of now, the first one first; nobody waits for you in between.

        Lines are only ever added, so that pages read one after another are one moment of the ledger.
        """
        return (Entry.read(row) for row in self._database.pages(statements.LINES))

    def charges(self, *, newest: int | None = None) -> Iterator[tuple[Entry, frozenset[str]]]:
        """Yield every charge with what followed it: nothing, `open`, or `open` and `release`.

        Parameters
        ----------
        newest
            Only so many, the newest ones; all if omitted.
        """
        start = 0
        if newest is not None:
            with self._database.reading() as (session, _):
                start = min(
                    (number for (number,) in session.run(statements.NEWEST_CHARGES, newest=max(newest, 1))), default=0
                )
        followed: dict[int, frozenset[str]] = {}
        for _, target, action in self._database.pages(statements.FOLLOWING, start=start):
            followed[target] = _TOGETHER[followed.get(target, frozenset()) | {action}]
        for row in self._database.pages(statements.CHARGES, start=start) if newest != 0 else ():
            yield Entry.read(row), followed.get(row[0], frozenset())

    def verify(self, *, head: str | None = None) -> Verified:
        """Check every line and every total from the first line on; raise at the first that does not hold.

        Parameters
        ----------
        head
            A hash that was kept elsewhere: it must be one of the chain's.
        """
        self._database.require_sound()
        walk = JournalWalk()
        with self._database.reading() as (session, now):
            _row_key(_entry(session, 0), now)
            stray = session.one(statements.STRAY_LINE, last=now.sequence)
        rows = self._database.line_pages(0, now.sequence)
        end = walk.over(map(Entry.read, rows), head=head)
        # The head's hash covers its number, its content and its state, which was checked as the head was read.
        if end.hash != now.hash:
            raise LedgerCorrupt("its head does not belong to its last line", end.sequence)
        if stray is not None:
            raise LedgerCorrupt("it has lines before its first or after its last", end.sequence)
        return Verified(end.sequence + 1, end.hash)

    def backup(self, file: object) -> Verified:
        """Write a copy into a new file and verify it. The copy can be looked at, and not charged: see `restore`.

        It is a SQLite file, wherever the ledger is. The key by which a person's rows are chosen is in it.
        """
        with self._database.reading() as (session, now):
            key = _row_key(_entry(session, 0), now)
        address = Address.parse(file)
        if address.path is None:
            raise InvalidParameter("a copy", "on a server", "a new file", "for example patients-copy.ledger")
        Database(address).create(_copy_head(now, key), self._rows(now))
        try:
            return Ledger.open(address).verify(head=now.hash)
        except BaseException:
            address.path.unlink(missing_ok=True)  # made a moment ago, and not what it should be
            raise

    @classmethod
    def restore(
        cls, copy: object, address: object, *, lost: Guarantee | str | None, reason: str, who: str | None = None
    ) -> Ledger:
        """Make a ledger of a copy, after the ledger itself was lost; charge what may be missing from the copy.

        Valid if `lost` covers all that was charged between the copy and the loss. What the copy has as charged and not
        opened may have been drawn since, so it is opened here, and never drawn again.

        Parameters
        ----------
        copy, address
            The copy, and where the new ledger shall be; nothing is overwritten.
        lost
            A bound on what was charged after the copy was made; None if that is nothing.
        reason, who
            Why, and who does it; both are written down.
        """
        source = cls.open(copy)
        source.verify()
        why = f"restored from a copy: {_text('reason', reason)}"
        signed = {"reason": _text("reason", why), **_signature(who)}
        paid = None if lost is None else source._bill([Ask(lost, signed["reason"])], who=who, done=True)
        waiting = source.journal().index.never_opened()
        with source._database.reading() as (session, now):
            state = State.read(now.state)
            key = _row_key(_entry(session, 0), now)
        if paid is not None:
            _require_room(state, paid)
        database = Database(Address.parse(address))
        # It is a copy too, and refuses charges, until what may be missing is charged.
        database.create(_copy_head(now, key), source._rows(now))
        with database.transaction(of_copy=True) as (session, head):
            head = _append(session, head, "amend", None, {"filter": state.filter.to_dict(), **signed}, state)[1]
            if paid is not None:
                state = State(state.filter.decided(), state.spent.plus(paid.prices[0]))
                head = _append(session, head, "charge", None, paid.records[0], state)[1]
            for number in waiting:
                head = _append(session, head, "open", number, {"when": _now(), "restored": True}, state)[1]
            session.run(statements.SET_FORMAT, format=FORMAT)
        return cls.open(address)

    def _rows(self, now: Head) -> Iterator[dict[str, Any]]:
        """Yield every line up to a head's as a row."""
        return (vars(Entry.read(row)) for row in self._database.pages(statements.LINES, end=now.sequence))

    def _bill(self, asks: Sequence[Ask], *, who: str | None, done: bool) -> _Bill:
        """Price what is charged together and write down its lines, outside of any transaction."""
        events = [ask.event().under(self.terms.neighbours) for ask in asks]
        seen, joint = self._filter, compose(*events) if len(events) > 1 else events[0]
        decided = seen.decided() if done else seen.decided_by(joint)
        prices, records = decided.prices(events), []
        for ask, ran, price in zip(asks, events, prices, strict=True):
            journalled = _as_journalled(ran, decided).to_dict()
            records.append({"event": journalled, "price": price.to_dict(), **ask.facts(), **_signature(who)})
        if decided != seen.decided():
            records[0]["filter"] = decided.to_dict()
        return _Bill(" and ".join(map(str, asks)), decided, prices, records)

    def _follow(self, action: str, target: int, record: Mapping[str, Any]) -> Entry:
        """Append the line that moves a charge on, in its own transaction."""
        self._journal.prepare()
        with self._database.transaction() as (session, head):
            stage = self._journal.within(session, head).stage(target)
            if stage is None:
                raise LedgerStateError(f"entry {target} is no charge; name a charge.")
            if action in _DONE_BY[stage]:
                raise LedgerStateError(f"charge {target} has its {action} already; charge again to draw again.")
            if BEFORE[action] not in _DONE_BY[stage]:
                raise LedgerStateError(f"charge {target} is not opened yet; open it before its release.")
            return _append(session, head, action, target, record, State.read(head.state))[0]


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
        except LedgerStateError:
            return False
        return True

    def open(self) -> OpenCharge:
        """Commit that noise is about to be drawn. An opened charge is never opened again."""
        self.ledger._follow("open", self.sequence, {"when": _now()})
        return OpenCharge(self)


class OpenCharge:
    """The leave to draw noise once."""

    def __init__(self, charge: Charge) -> None:
        self.charge = charge
        self._taken = False

    def take(self) -> None:
        """Use the leave. A mechanism does, just before it draws; a second time is refused."""
        if self._taken:
            raise LedgerStateError(f"charge {self.charge.sequence} was drawn already; charge again to draw again.")
        self._taken = True

    def released(self, content: bytes) -> Entry:
        """Commit that a release with this content is made, by its hash."""
        record = {"release_sha256": _sha256(content), "when": _now()}
        return self.charge.ledger._follow("release", self.charge.sequence, record)


def _append(
    session: Session, head: Head, action: str, target: int | None, record: Mapping[str, Any], after: State
) -> tuple[Entry, Head]:
    """Add one line after the head's and move the head, inside the caller's transaction; return both."""
    state = after.text()
    entry, content = seal(head.sequence + 1, action, target, canonical_json(record), head.hash, state=state)
    moved = _head(entry, content, state)
    session.run(statements.INSERT_LINE, **vars(entry))
    session.run(statements.MOVE_HEAD, **moved)
    session.appended = entry.sequence, entry.hash
    return entry, head._replace(**moved)


def _refuse_repeats(journal: JournalMoment, asks: Sequence[Ask]) -> None:
    """Refuse what was charged before, by its definition."""
    for ask in asks:
        charged = None if ask.definition is None else journal.newest_charge(ask.definition)
        if charged is not None:
            raise AskedBefore(charged.sequence)


@dataclass(frozen=True)
class _Bill:
    """Charges before they are made: in words, the filter they leave in force, their prices, and the lines to write."""

    words: str
    filter: PrivacyFilter
    prices: Sequence[Spent]
    records: Sequence[Mapping[str, Any]]

    @property
    def price(self) -> Spent:
        """The sum of the prices."""
        return reduce(Spent.plus, self.prices)


def _require_room(state: State, bill: _Bill) -> None:
    """Refuse charges after which no alternative of the filter would hold."""
    if not state.filter.holds(state.spent.plus(bill.price)):
        limits, spent = state.filter, state.spent
        raise BudgetExceeded(
            "the charge",
            bill.words,
            str(limits.budget),
            limits.remaining(spent),
            limits.epsilon_left(spent),
            limits.delta_note(spent, bill.price),
        )


def _copy_head(head: Head, row_key: str) -> dict[str, Any]:
    return {"id": 1, **head._asdict(), "format": COPY_FORMAT, "row_key": row_key}


def _row_key(first: Entry, head: Head) -> str:
    """Return the key, if it is the one whose hash the first line has."""
    if _sha256(head.row_key.encode()) != first.facts.get("row_key_sha256"):
        raise LedgerCorrupt("its row-choice key was changed", 0)
    return head.row_key


def _head(entry: Entry, content: str, state: str) -> dict[str, Any]:
    return {"sequence": entry.sequence, "hash": entry.hash, "content": content, "state": state}


def _entry(session: Session, sequence: int) -> Entry:
    row = session.one(statements.ONE_LINE, number=sequence)
    if row is None and sequence == 0:
        raise LedgerCorrupt("it has no first line", 0)
    if row is None:
        raise LedgerStateError(f"the ledger has no entry {sequence}; see `vestry ledger show`.")
    return Entry.read(row)


def _terms(first: Entry) -> LedgerTerms:
    try:
        facts = first.facts
        unit, relation = Unit.parse(facts["unit"]), Neighbours.parse(facts["neighbours"])
        return LedgerTerms(facts["dataset"], unit, relation, facts["accepts_unproved"])
    except (KeyError, TypeError, ValueError):
        raise LedgerCorrupt("its first line cannot be read", 0) from None


def _as_journalled(event: Event, fixed: PrivacyFilter) -> Event:
    """Write an event that holds a function as the Renyi curve at which it is charged."""
    if event.kind != "profile":
        return replace(event, parts=tuple(_as_journalled(part, fixed) for part in event.parts))
    single = replace(event, count=1)
    curve = {order: up(accountant.renyi(single, order)) for order in fixed.orders}
    known = {order: epsilon for order, epsilon in curve.items() if epsilon < math.inf}
    if not known:
        allowed = "bounded at one of the ledger's Renyi orders"
        raise InvalidParameter("an event given by a profile", event.kind, allowed, "an event of a known kind")
    written = known_event("renyi", orders=tuple(known), epsilons=tuple(known.values()), count=event.count)
    return written.under(event.neighbours)


def _describe(event: Event) -> str:
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


_TRIES = 20
# What was done for a charge, by its last action.
_DONE_BY = {"charge": ("charge",), "open": ("charge", "open"), "release": ("charge", "open", "release")}
_TOGETHER = {each: each for each in map(frozenset, (("open",), ("release",), ("open", "release")))}
_GONE = (
    "a certificate names charge {number} with its release, and they are not here, so an older copy was put back or the"
    " ledger was made again"
)
