"""How a release gets to the disk: room for it is taken before anything is charged, and it loses nothing on the way.

Before the charge a file as long as the release may become is written and synchronised beside where it will lie. What is
drawn is written into that file, which takes the name of its charge, `release-7-1f0c5a2e.json`; then the ledger is told,
and then the file takes the release's name. So a full disk shows before the charge, and whatever ends the program later
leaves a file that says by its name which charge it was drawn for.
"""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self

from vestry.errors import VestryError
from vestry.files import open_part, read_bytes, synchronise, write_new, write_over
from vestry.ledger.entry import Entry
from vestry.releases import open_release

# Room for a release of unknown length, in bytes: of levels that are found.
_LEAST_ROOM = 2**16


class SavedElsewhere(VestryError):  # noqa: N818 - the name is the fact
    """A release could not be written where it belongs, and was saved in another folder."""


class ReleaseFile:
    """Where one release will lie, with room for it; used in a `with` statement, which gives back room that is left.

    All of it raises `OSError`; who asked knows what to say.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._room: BinaryIO | None = None
        self._folder_is_new = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.give_back()

    def staging(self, charge: Entry) -> Path:
        """Return the name of what was drawn for a charge, until the ledger was told; no other ledger's has it."""
        name = f"{self.path.stem}-{charge.sequence}-{charge.hash[:8]}{self.path.suffix}"
        return self.path.with_name(name)

    def make_room(self, size: int) -> None:
        """Take room for so many bytes at least, on the disk."""
        wanted = max(size, _LEAST_ROOM)
        if self._room is None:
            self._folder_is_new = not self.path.parent.exists()
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._room = open_part(self.path)
        held = self._room.seek(0, os.SEEK_END)
        if held < wanted:
            self._room.write(bytes(wanted - held))
            self._room.flush()
            os.fsync(self._room.fileno())

    def stage(self, charge: Entry, text: str) -> None:
        """Save what was drawn, into the room that was taken; where that fails, anew; and at last in another folder."""
        content = text.encode()
        staging = self.staging(charge)
        try:
            self._fill_room(content, staging)
        except OSError:
            self._write_anew(content, staging)

    def staged(self, charge: Entry) -> bytes | None:
        """Return what was saved under a charge, whole; None if nothing was."""
        path = self.staging(charge)
        if not os.path.lexists(path):
            return None
        open_release(path)  # refuses a file that was changed
        return read_bytes(path)

    def settle(self, charge: Entry) -> None:
        """Give what was saved under a charge the release's name, which must be free."""
        staging = self.staging(charge)
        if not (self.path.exists() and self.path.samefile(staging)):
            os.link(staging, self.path)
        staging.unlink()
        synchronise(self.path.parent)

    def give_back(self) -> None:
        """Remove the room that was not used."""
        if self._room is None:
            return
        room = self._room
        self._room = None
        with suppress(OSError):
            room.close()
        with suppress(OSError):
            Path(room.name).unlink(missing_ok=True)
            if self._folder_is_new:
                self.path.parent.rmdir()

    def _fill_room(self, content: bytes, staging: Path) -> None:
        if self._room is None:
            self.make_room(len(content))
        room = self._room
        assert room is not None  # noqa: S101 - it was made just now
        room.seek(0)
        room.write(content)
        room.truncate()
        room.flush()
        os.fsync(room.fileno())
        Path(room.name).replace(staging)
        room.close()
        self._room = None
        synchronise(staging.parent)

    def _write_anew(self, content: bytes, staging: Path) -> None:
        try:
            write_over(staging, [content])
        except OSError as error:
            other = Path(tempfile.gettempdir()) / staging.name
            with suppress(OSError):
                write_new(other, [content])
                raise SavedElsewhere(
                    f"{staging} cannot be written ({error.strerror}), so what was drawn is saved as {other}; move it to"
                    f" {staging}, and run this again: it is free."
                ) from None
            raise
