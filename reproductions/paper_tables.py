"""The three tables of [GeumlekSC17, sec. 5.2], prepared as the paper prepares them, for comparison with it only.

Every column is scaled to [-0.5, 0.5] by its smallest and largest value *in the data*, and every row then to norm 1.
The smallest and the largest value are themselves private, so nothing that starts like this is differentially private,
whatever comes after. Studies declare their bounds.

A categorical column has an indicator for each of its levels but the last in the order of the alphabet, a missing value
being a level: that gives the paper's 9 and 100 dimensions. There is no intercept. The last third is for testing: on
Adult the published one, elsewhere a random one.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from vestry.errors import InvalidParameter, MissingExtra
from vestry.numerics import Array

FILES = {"abalone": "abalone.parquet", "adult": "adult.parquet", "mnist": "mnist_3_8.npz"}
# Identifiers of the same tables on OpenML.
ONLINE = {"abalone": 183, "adult": 1590, "mnist": 554}
TRAINED = {"abalone": 2784, "adult": 32_561, "mnist": 7988}
LABELS = {"abalone": "Abalone", "adult": "Adult", "mnist": "MNIST 3 v 8"}
RINGS = 10
WANTED = (
    "the paper's tables were not found: name the folder with abalone.parquet, adult.parquet and mnist_3_8.npz by"
    " VESTRY_DATA, or connect this computer so that they can be downloaded from OpenML"
)

Split = tuple[Array, Array, Array, Array]


@dataclass(frozen=True, eq=False)
class PaperTable:
    """A table of two classes, prepared.

    Attributes
    ----------
    name
        In pictures and numbers.
    rows
        Of norm 1.
    labels
        -1 or 1.
    trained
        How many rows are for training.
    published
        Whether the first rows are the published training set; otherwise they are drawn.
    """

    name: str
    rows: Array
    labels: Array
    trained: int
    published: bool

    def split(self, rng: np.random.Generator) -> Split:
        """Return rows and labels for training, and rows and labels for testing."""
        order = np.arange(len(self.labels)) if self.published else rng.permutation(len(self.labels))
        first, rest = order[: self.trained], order[self.trained :]
        return self.rows[first], self.labels[first], self.rows[rest], self.labels[rest]


def load(name: str, folder: Path) -> PaperTable:
    """Read one of the tables from a folder."""
    path = folder / FILES[name]
    if not path.is_file():
        raise InvalidParameter("the data", str(folder), f"a folder with {FILES[name]}", "VESTRY_DATA=DIR")
    if name == "mnist":
        with np.load(path) as arrays:
            return _digits(arrays["x_train"], arrays["y_train"])
    import pyarrow.parquet as parquet

    columns = {key: np.array(values) for key, values in parquet.read_table(path).to_pydict().items()}
    return _abalone(columns) if name == "abalone" else _adult(columns)


def download(name: str) -> PaperTable | None:
    """Fetch one of the tables from OpenML, or return None if that is not to be had."""
    try:
        from sklearn.datasets import fetch_openml
    except ModuleNotFoundError:
        raise MissingExtra("a table from OpenML", "glm") from None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it says that it tries again
        try:
            frame = fetch_openml(data_id=ONLINE[name], as_frame=True, n_retries=1, delay=0.5).frame
        except (OSError, ImportError, ValueError):
            return None
    return from_frame(name, frame)


def from_frame(name: str, frame: Any) -> PaperTable:
    """Prepare one of the tables as OpenML has it: a data frame with the outcome as its last column."""
    if name == "mnist":
        digits = frame.iloc[:60_000]
        return _digits(digits.iloc[:, :-1].to_numpy(), digits.iloc[:, -1].to_numpy().astype(int))
    columns = {}
    for key in frame.columns:
        numeric = frame[key].dtype.kind in "iuf"
        columns[key] = frame[key].to_numpy(float) if numeric else frame[key].astype(object).fillna("?").to_numpy(str)
    outcome = columns.pop(frame.columns[-1])
    if name == "abalone":
        return _abalone({**columns, "rings": outcome.astype(float)})
    return _adult({**columns, "income": outcome})


def stand_in(rng: np.random.Generator) -> PaperTable:
    """Simulate a table of Abalone's shape: seven measurements that follow one size, two indicators, two classes."""
    size = rng.normal(size=4177)
    measured = np.exp(0.35 * size[:, None] * np.linspace(0.6, 1.4, 7) + 0.12 * rng.normal(size=(4177, 7)))
    kind = np.array(["F", "I", "M"])[np.digitize(size + 0.7 * rng.normal(size=4177), (-0.5, 0.4))]
    columns = {"kind": kind, **{f"measure {i}": measured[:, i] for i in range(7)}}
    chance = 1 / (1 + np.exp(2.2 * size + 4 * (measured[:, 0] - measured[:, 6] ** 0.5)))
    labels = np.where(rng.random(4177) < chance, 1.0, -1.0)
    return PaperTable("a simulated table", prepare(columns), labels, TRAINED["abalone"], published=False)


def prepare(columns: dict[str, Array]) -> Array:
    """Return the columns as numbers, categories by indicators, scaled by what was observed, rows of norm 1."""
    parts = []
    for values in columns.values():
        if values.dtype.kind in "iuf":
            parts.append(values.astype(float)[:, None])
        else:
            parts.append((values[:, None] == np.unique(values)[None, :-1]).astype(float))
    return _scaled(np.hstack(parts))


def _scaled(rows: Array) -> Array:
    low, high = rows.min(axis=0), rows.max(axis=0)
    # A column with one value only is -0.5 throughout.
    scaled = (rows - low) / np.where(high > low, high - low, 1.0) - 0.5
    return np.asarray(scaled / np.linalg.norm(scaled, axis=1, keepdims=True))


def _abalone(columns: dict[str, Array]) -> PaperTable:
    rings = columns.pop("rings")
    return PaperTable(
        "abalone", prepare(columns), np.where(rings < RINGS, 1.0, -1.0), TRAINED["abalone"], published=False
    )


def _adult(columns: dict[str, Array]) -> PaperTable:
    labels = np.where(columns.pop("income") == ">50K", 1.0, -1.0)
    part = columns.pop("split", None)
    rows = prepare(columns)
    if part is None:
        return PaperTable("adult", rows, labels, TRAINED["adult"], published=False)
    order = np.argsort(part != "train", kind="stable")
    return PaperTable("adult", rows[order], labels[order], TRAINED["adult"], published=True)


def _digits(images: Array, digits: Array) -> PaperTable:
    """Keep the threes and eights of MNIST's training set, the only part whose sizes are the paper's."""
    chosen = (digits == 3) | (digits == 8)
    rows = _scaled(images[chosen].reshape(int(chosen.sum()), -1).astype(float))
    return PaperTable("mnist", rows, np.where(digits[chosen] == 3, 1.0, -1.0), TRAINED["mnist"], published=False)
