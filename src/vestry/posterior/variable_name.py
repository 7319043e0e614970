"""Names of variables and dimensions in a posterior's file: any column has one, and no two have the same."""

from __future__ import annotations


class Names:
    """Gives each name once. A stroke would be a group of the file and is written _, and so is what cannot be printed.

    Parameters
    ----------
    taken
        Names that are in use already.
    """

    def __init__(self, *taken: str) -> None:
        self._taken = set(taken)

    def __call__(self, name: str) -> str:
        """Return a name that a file can hold, with underscores after it while it is taken."""
        found = "".join("_" if each == "/" or not each.isprintable() else each for each in name).strip() or "_"
        found = f"_{found}" if found.startswith(".") else found
        while found in self._taken:
            found += "_"
        self._taken.add(found)
        return found
