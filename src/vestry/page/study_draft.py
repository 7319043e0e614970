"""A study file that is being written: its text, what it says so far, and edits that keep every comment.

An edit is made of the file as the form saw it. If the file has another hash by then, someone else has changed it, and
nothing is saved.
"""

from __future__ import annotations

import hashlib
import re
import threading
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tomlkit

from vestry.errors import InvalidParameter, StudyFileError, VestryError
from vestry.files import MOST_TEXT, read_bytes, write_new
from vestry.study import Study
from vestry.study.config import read_text
from vestry.study.storage import write

_SAVING = threading.Lock()


class FileChanged(VestryError):  # noqa: N818 - the name is the fact
    """The study file is not what the form was written for."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"{name} was changed meanwhile, in another tab or in an editor, and nothing was saved; look at it again."
        )


@dataclass(frozen=True)
class StudyDraft:
    """What a study file says at one moment.

    Attributes
    ----------
    path, text
        The file, and what it says.
    seal
        The hash of the file, which forms carry.
    """

    path: Path
    text: str
    seal: str

    @classmethod
    def of(cls, path: Path) -> StudyDraft:
        """Read the file; it must be TOML, and need not be a whole study."""
        try:
            content = read_bytes(path, MOST_TEXT)
            text = content.decode("utf-8-sig")
        except OSError as error:
            raise InvalidParameter("a study file", str(path), f"readable ({error.strerror})", "another path") from None
        except UnicodeDecodeError:
            raise InvalidParameter("a study file", str(path), "text in UTF-8", "it again as UTF-8") from None
        return cls(path, text, hashlib.sha256(content).hexdigest())

    @property
    def record(self) -> dict[str, Any]:
        """What the file says, as plain values."""
        try:
            return tomllib.loads(self.text)
        except (ValueError, RecursionError):
            read_text(self.path, self.text)  # says where it is wrong
            raise

    def section(self, *keys: str) -> dict[str, Any]:
        """Return a table of the file; an empty one if it is not there."""
        table: Any = self.record
        for key in keys:
            table = table.get(key) if isinstance(table, Mapping) else None
        return dict(table) if isinstance(table, Mapping) else {}

    def fault(self) -> StudyFileError | VestryError | None:
        """Return what is still wrong with the file or missing from it; None if it is whole."""
        try:
            read_text(self.path, self.text)
        except VestryError as error:
            return error
        return None

    def study(self) -> Study:
        """Return the study, which must be whole."""
        return Study(read_text(self.path, self.text))

    def with_value(self, section: tuple[str, ...], key: str, value: Any) -> StudyDraft:
        """Return the draft with one key set, or without it if the value is None.

        A line that was left to be completed (`# key = ...`) is taken for the key's place.
        """
        if value is not None and key not in self.section(*section):
            placed = self._completed(section, key, value)
            if placed is not None:
                return placed
        document = tomlkit.parse(self.text)
        table: Any = document
        for name in section:
            if name not in table:
                table[name] = tomlkit.table()
            table = table[name]
        if value is None:
            table.pop(key, None)
        elif not (key in table and _plain(table[key]) == value):
            table[key] = _item(value)
        return self._with(tomlkit.dumps(document))

    def with_release(self, name: str, record: Mapping[str, Any]) -> StudyDraft:
        """Return the draft with a release that says this; what it says already is left as it stands."""
        known = self.section("release", name)
        if not known:
            lines = [f"{_key(key)} = {_item(value).as_string()}\n" for key, value in record.items()]
            return self._with(f"{self.text.rstrip()}\n\n[release.{_key(name)}]\n{''.join(lines)}")
        draft = self
        for key in dict.fromkeys([*known, *record]):
            if record.get(key) != known.get(key):
                draft = draft.with_value(("release", name), key, record.get(key))
        return draft

    def without(self, section: tuple[str, ...], key: str) -> StudyDraft:
        """Return the draft without a key or a table."""
        return self.with_value(section, key, None)

    def save(self, seal: str) -> None:
        """Write the draft over the file that has this hash; whole, or not at all."""
        with _SAVING:
            try:
                status = self.path.stat()
                file_seal = hashlib.sha256(read_bytes(self.path, MOST_TEXT)).hexdigest()
            except OSError:
                raise FileChanged(self.path.name) from None
            if file_seal != seal:
                raise FileChanged(self.path.name)
            content = self.text.encode()
            if hashlib.sha256(content).hexdigest() == seal:
                return
            write(self.path, content)
            if self.path.stat().st_mode != status.st_mode:
                self.path.chmod(status.st_mode & 0o777)

    def _with(self, text: str) -> StudyDraft:
        tomllib.loads(text)
        return StudyDraft(self.path, text, self.seal)

    def _completed(self, section: tuple[str, ...], key: str, value: Any) -> StudyDraft | None:
        """Return the draft with a line completed that was left for this key; None if there is none."""
        lines, inside = self.text.split("\n"), False
        header = re.compile(r"\s*\[\s*" + r"\s*\.\s*".join(map(re.escape, map(_key, section))) + r"\s*\]")
        left = re.compile(r"#\s?" + re.escape(_key(key)) + r"\s*=")
        for place, line in enumerate(lines):
            if re.match(r"\s*\[", line):
                inside = header.match(line) is not None
            elif inside and left.match(line):
                new_lines = [*lines[:place], f"{_key(key)} = {_item(value).as_string()}", *lines[place + 1 :]]
                try:
                    draft = self._with("\n".join(new_lines))
                except tomllib.TOMLDecodeError:
                    return None
                return draft if draft.section(*section).get(key) == value else None
        return None


def create(path: Path, text: str) -> None:
    """Write a new study file; one that is there is never overwritten."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_new(path, [text.encode()])
    except FileExistsError:
        raise InvalidParameter("a new study file", path.name, "not there yet", "another name") from None
    except OSError as error:
        raise InvalidParameter(
            "a new study file", str(path), f"writable ({error.strerror})", "another folder"
        ) from None


def _item(value: Any) -> Any:
    """Return a value as TOML; tables on one line."""
    if isinstance(value, Mapping):
        return tomlkit.value(
            "{ " + ", ".join(f"{_key(k)} = {_item(each).as_string()}" for k, each in value.items()) + " }"
        )
    return tomlkit.item(list(value) if isinstance(value, tuple) else value)


def _plain(item: Any) -> Any:
    return item.unwrap() if hasattr(item, "unwrap") else item


def _key(name: str) -> str:
    return name if re.fullmatch("[A-Za-z0-9_-]+", name) else str(tomlkit.key([name]).as_string())
