"""What an experiment is: numbers computed from a seed, a picture of them, and what the paper says of it."""

from __future__ import annotations

import json
import math
import platform
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from vestry import __version__
from vestry.display.plotting import figure
from vestry.errors import InvalidParameter
from vestry.numerics import Array

Numbers = dict[str, Any]
# Pictures are small enough for a page of them.
DOTS_PER_INCH = 85


@dataclass(frozen=True)
class Experiment:
    """One figure or statement of a paper, computed again.

    Attributes
    ----------
    name
        On the command line, and of the files.
    paper, figure
        Its key in `report/references.bib`, and which figure or section.
    seed
        Of the ordinary generator: nothing here is private.
    run
        From `quick` and the generator to plain JSON, with `settings` and `claims` among it.
    draw
        From those numbers to a picture.
    summary
        One line.
    erratum
        What the paper prints wrongly, and what is done here instead.
    """

    name: str
    paper: str
    figure: str
    seed: int
    run: Callable[[bool, np.random.Generator], Numbers]
    draw: Callable[[Numbers, Path], None]
    _: KW_ONLY
    summary: str
    erratum: str | None = None

    def record(self, *, quick: bool) -> Numbers:
        """Run, and return what the JSON file holds."""
        numbers = self.run(quick, np.random.default_rng(self.seed))
        versions = {"vestry": __version__, "numpy": version("numpy"), "scipy": version("scipy")}
        return {
            **{key: getattr(self, key) for key in ("name", "paper", "figure", "summary", "erratum")},
            "quick": quick,
            "seed": self.seed,
            "versions": {**versions, "python": platform.python_version()},
            **numbers,
        }

    def perform(self, folder: Path, *, quick: bool) -> Numbers:
        """Run, write NAME.json and NAME.png into the folder, and return what the JSON file holds."""
        record = self.record(quick=quick)
        text = json.dumps(record, indent=1, allow_nan=False) + "\n"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            (folder / f"{self.name}.json").write_text(text)
            self.draw(record, folder / f"{self.name}.png")
        except OSError as error:
            allowed = f"a folder that can be written ({error.strerror or 'refused'})"
            raise InvalidParameter("--output", str(folder), allowed, "for example --output reproductions") from None
        return record


def claim(says: str, evidence: str, *, holds: bool) -> dict[str, Any]:
    """Set down one statement of the paper, what was found, and whether it came out."""
    return {"says": says, "found": evidence, "holds": bool(holds)}


def finite(value: float) -> float | None:
    """Return the number, or None, which JSON has, for one that is infinite."""
    return float(value) if math.isfinite(value) else None


def mean_and_error(values: Array) -> list[float]:
    """Return the mean of several runs, and its standard error; 0 for that of one."""
    error = values.std(ddof=1) / math.sqrt(len(values)) if len(values) > 1 else 0.0
    return [float(values.mean()), float(error)]


@contextmanager
def picture(columns: int, *, path: Path, **options: Any) -> Iterator[tuple[Any, Any]]:
    """Yield a figure and its axes, as `figure` does, and save it at fewer dots per inch."""
    with figure(columns, path=None, **options) as (fig, axes):
        yield fig, axes
        fig.savefig(path, dpi=DOTS_PER_INCH, pil_kwargs={"optimize": True})
