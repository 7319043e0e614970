"""Which files may be chosen: those in the folders that the command was given, wherever links lead."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from vestry.errors import InvalidParameter
from vestry.registry import SOURCES

# How deep below a folder files are looked for, and how many are shown.
_DEPTH, _MOST = 3, 200


@dataclass(frozen=True)
class FileChoice:
    """The folders; links in their own names are resolved once."""

    folders: tuple[Path, ...]

    @classmethod
    def of(cls, *folders: Path) -> FileChoice:
        """Return the choice among these folders, each once."""
        return cls(tuple(dict.fromkeys(folder.resolve() for folder in folders)))

    def files(self) -> list[str]:
        """Return the tables that lie in the folders, by name; nothing of them is read."""
        names = [name for folder in self.folders for name in self._below(folder)]
        return sorted(dict.fromkeys(names))[:_MOST]

    def find(self, name: str) -> Path:
        """Return the file of this name, or refuse one that is not among those that are shown."""
        if name not in self.files():
            raise InvalidParameter(
                "a file", name, "one of those that are shown", "one of them, or start vestry open with its folder"
            )
        path = Path(name) if Path(name).is_absolute() else self.folders[0] / name
        return self._inside(path)

    def _inside(self, path: Path) -> Path:
        """Resolve links, and refuse what they lead to outside the folders."""
        try:
            real = path.resolve(strict=True)
        except (OSError, ValueError, RuntimeError):
            real = Path("/")
        if not any(real.is_relative_to(folder) for folder in self.folders) or not real.is_file():
            raise InvalidParameter(
                "a file", path.name, "inside the folders that vestry open was given", "one of those that are shown"
            )
        return real

    def _below(self, folder: Path) -> list[str]:
        suffixes = tuple(name for name in SOURCES if name.startswith("."))
        names: list[str] = []
        for where, folders, files in os.walk(folder):
            here = Path(where)
            depth = len(here.relative_to(folder).parts)
            folders[:] = [] if depth >= _DEPTH else sorted(each for each in folders if not each.startswith("."))
            for file in sorted(files):
                if not file.lower().endswith(suffixes) or file.startswith(".") or not file.isprintable():
                    continue
                if file == "report.csv" and (here / "report.html").exists():
                    continue  # what was released
                try:
                    self._inside(here / file)
                except InvalidParameter:
                    continue
                path = here / file
                names.append(str(path.relative_to(self.folders[0]) if folder == self.folders[0] else path))
                if len(names) >= _MOST:
                    return names
        return names
