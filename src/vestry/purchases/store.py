"""The folder of releases beside a ledger: one file each, whose hash stands in the ledger.

A release is written and synchronised under a temporary name, its hash enters the ledger, and then it is renamed.
Whoever opens the store next finishes what a crash left.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from vestry.errors import InvalidParameter, MissingRelease
from vestry.files import MOST_WRITTEN, read_bytes, synchronise, write_new
from vestry.ledger import Charge, Ledger
from vestry.ledger.entry import Entry
from vestry.purchases.bought import Bought

_SUFFIX = ".json"
_UNFINISHED = ".new"
_LOCK = "lock"


@dataclass(frozen=True)
class PurchaseStore:
    """The folder in which the releases of a ledger lie.

    Attributes
    ----------
    folder
        Where they lie.
    """

    folder: Path

    @classmethod
    def beside(cls, ledger: Ledger) -> PurchaseStore:
        """Return the store beside a ledger's file; it is made if there is none."""
        if "://" in ledger.address:
            instead = "a folder for its releases"
            raise InvalidParameter("the store of a ledger on a server", ledger.address, "named", instead)
        store = cls(Path(f"{ledger.address}.releases"))
        try:
            store.folder.mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            raise store.refused(error) from None
        return store

    def refused(self, error: OSError) -> InvalidParameter:
        """Return the error of a folder that cannot be used."""
        allowed = f"a folder that can be written ({error.strerror})"
        return InvalidParameter("the folder of releases", str(self.folder), allowed, "another folder, or more room")

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Wait until no other process asks the same ledger for a release."""
        handle = os.open(self.folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            os.close(handle)

    def rehearse(self, size: int) -> None:
        """Try to write a file of this size, and remove it."""
        trial = self.folder / f"trial-{os.getpid()}{_UNFINISHED}"
        try:
            write_new(trial, [b" " * size])
        except OSError as error:
            raise self.refused(error) from None
        finally:
            with suppress(OSError):
                trial.unlink(missing_ok=True)

    def write_unfinished(self, charge: int, text: str) -> Path:
        """Write a release under a temporary name, and return it."""
        unfinished = self._path(charge).with_suffix(_UNFINISHED)
        write_new(unfinished, [text.encode()])
        return unfinished

    def finish(self, unfinished: Path) -> None:
        """Give a release its name: the ledger has its hash."""
        unfinished.rename(unfinished.with_suffix(_SUFFIX))
        synchronise(self.folder)

    def recover(self, ledger: Ledger) -> None:
        """Finish what a crash left between the writing of a release and its last name."""
        for unfinished in sorted(self.folder.glob(f"[0-9]*{_UNFINISHED}")):
            content = read_bytes(unfinished)
            journal = ledger.journal()
            known = journal.charge_of_release(_sha256(content))
            if known is None and not self._complete(ledger, content):
                continue
            self.finish(unfinished)

    def _complete(self, ledger: Ledger, content: bytes) -> bool:
        """Tell the ledger of a release that was drawn for an open charge; False if it is none."""
        try:
            charge = Bought.from_text(content.decode(errors="replace")).charge
        except InvalidParameter:
            return False  # a file of somebody else does not hold up the others
        journal = ledger.journal()
        if journal.stage(charge) != "open":
            return False
        return Charge(ledger, journal.line(charge)).finish(content)

    def all(self, ledger: Ledger) -> Iterator[Bought]:
        """Yield every release that is here and that the ledger knows, the oldest first."""
        journal = ledger.journal()
        for path in sorted(self.folder.glob(f"[0-9]*{_SUFFIX}")):
            content = read_bytes(path, MOST_WRITTEN)
            if journal.charge_of_release(_sha256(content)) is not None:
                yield Bought.from_text(content.decode())

    def read(self, entry: Entry, sha256: str) -> Bought:
        """Return the release of a charge; raise if its file is not here, or is not the one that the ledger knows."""
        path = self._path(entry.sequence)
        try:
            content = read_bytes(path, MOST_WRITTEN)
        except FileNotFoundError:
            raise MissingRelease(entry.sequence, str(entry.facts.get("when", "")), path) from None
        except OSError as error:
            raise self.refused(error) from None
        if _sha256(content) != sha256:
            instead = "the file as it was written"
            raise InvalidParameter(f"the release {path.name}", "changed", "the one that the ledger knows", instead)
        return Bought.from_text(content.decode())

    def _path(self, charge: int) -> Path:
        return self.folder / f"{charge:06d}{_SUFFIX}"


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
