"""Logs of events as counts by region and month: simulated ones of the paper's two shapes, and a real one.

The paper's logs, of two wars, are not shipped. What ships is a generator of logs of their shape, with states that are
known: `dense` has about a thousand entries per cell, `sparse` about sixty, growing over time [FouldsGWC16, sec. 5].

The real log is the part on Syria, 2016 to 2019, of the UCDP Georeferenced Event Dataset, read from `events.parquet` in
a folder that the user names. It is prepared as the paper prepares its logs: casualties become 0 or more, by side; a
step is a month; a region is a governorate. The paper drops regions with few entries after it has counted them, which is
a look at private data. Here a region is kept by a rule that no entry can move: at least 900,000 inhabitants at the end
of 2011 by the Central Bureau of Statistics. That leaves out Tartus, As Suwayda and Quneitra.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from vestry.errors import InvalidParameter

Array = np.ndarray

TYPES, CATEGORIES = 12, 100
CASUALTIES = ("enemy casualties", "friendly casualties", "civilian casualties")
# The governorates in the order of the map from north to south and west to east, as the log spells them.
REGIONS = (
    "Latakia", "Idlib", "Aleppo", "Ar Raqqah", "Al Hasakah", "Hamah", "Deir ez Zor", "Homs", "Rif Dimashq", "Damascus",
    "Daraa",
)  # fmt: skip
FILE = "events.parquet"
FIRST_YEAR, YEARS = 2016, 4
VIOLENCE = ("state-based", "non-state", "one-sided")
DEATHS = {"deaths_civilians": "civilian deaths", "deaths_a": "deaths of side A", "deaths_b": "deaths of side B"}


@dataclass(frozen=True, eq=False)
class EventLog:
    """A log as counts, which are all that the model sees.

    Attributes
    ----------
    name
        In pictures and numbers.
    regions, months
        Their names; a month is a year and a number.
    features
        The names of each feature's levels.
    counts
        For each feature (regions, months, levels).
    shown
        How many states its maps have.
    truth
        The planted states, (regions, months), if they are known.
    """

    name: str
    regions: tuple[str, ...]
    months: tuple[str, ...]
    features: dict[str, tuple[str, ...]]
    counts: tuple[Array, ...]
    shown: int
    truth: Array | None = None

    @property
    def levels(self) -> tuple[int, ...]:
        """How many levels each feature has."""
        return tuple(len(names) for names in self.features.values())

    @property
    def entries(self) -> Array:
        """How many entries each cell has."""
        return np.asarray(self.counts[0].sum(axis=-1))


def dense(rng: np.random.Generator, *, entries: int = 950) -> EventLog:
    """Simulate a log of the shape of the paper's larger one: two states, about a thousand entries per cell."""
    regions, months = 7, 59
    size = entries * np.exp(rng.normal(0, 0.5, (regions, 1)) + rng.normal(0, 0.2, (regions, months)))
    return _planted(rng, "simulated, dense", size, states=2)


def sparse(rng: np.random.Generator) -> EventLog:
    """Simulate a log of the shape of the smaller one: three states, about sixty entries per cell, most of them late."""
    regions, months = 7, 72
    growth = np.linspace(-1.6, 1.6, months) + rng.normal(0, 0.7, (regions, 1)) + rng.normal(0, 0.2, (regions, months))
    return _planted(rng, "simulated, sparse", 60 * np.exp(growth), states=3)


def _planted(rng: np.random.Generator, name: str, size: Array, *, states: int) -> EventLog:
    """Draw states that stay with chance 0.93, and entries whose features differ by state."""
    regions, months = size.shape
    truth = np.zeros(size.shape, int)
    truth[:, 0] = rng.integers(states, size=regions)
    for t in range(1, months):
        other = (truth[:, t - 1] + rng.integers(1, states, size=regions)) % states
        truth[:, t] = np.where(rng.random(regions) < 0.93, truth[:, t - 1], other)
    features = {
        "type": tuple(f"type {i + 1}" for i in range(TYPES)),
        "category": tuple(f"category {i + 1}" for i in range(CATEGORIES)),
        **dict.fromkeys(CASUALTIES, ("none", "some")),
    }
    entries = rng.poisson(size)
    tables = [_profiles(rng, states, len(names)) for names in features.values()]
    counts = tuple(rng.multinomial(entries, table[truth]).astype(float) for table in tables)
    names = tuple(f"region {i + 1}" for i in range(regions))
    return EventLog(name, names, _months(2004, months), features, counts, states, truth)


def _profiles(rng: np.random.Generator, states: int, levels: int) -> Array:
    """Draw level probabilities: one profile for all states, of a few common levels and many rare ones, then varied."""
    logs = rng.normal(0, 1.2, levels) + rng.normal(0, 0.7, (states, levels))
    if levels == 2:
        logs += np.array([1.5, 0.0])  # most entries have no casualties
    shares = np.exp(logs)
    return np.asarray(shares / shares.sum(axis=1, keepdims=True))


def events(folder: Path) -> EventLog:
    """Read the real log from `events.parquet`."""
    import pyarrow.parquet as parquet

    path = folder / FILE
    if not path.is_file():
        raise InvalidParameter("the data", str(folder), f"a folder with {FILE}", "VESTRY_DATA=DIR")
    columns = ["extract", "adm_1", "date_start", "violence_type", *DEATHS]
    table = parquet.read_table(path, columns=columns, filters=[("extract", "=", "SYR")]).to_pydict()
    place = {f"{name} Governorate": number for number, name in enumerate(REGIONS)}
    region = np.array([place.get(name, -1) for name in table["adm_1"]])
    month = np.array([12 * (day.year - FIRST_YEAR) + day.month - 1 for day in table["date_start"]])
    inside = (region >= 0) & (month >= 0) & (month < 12 * YEARS)
    kinds = np.array([VIOLENCE.index(kind) for kind in table["violence_type"]])
    levels = [kinds, *((np.array(table[column]) > 0).astype(int) for column in DEATHS)]
    features = {"type": VIOLENCE, **dict.fromkeys(DEATHS.values(), ("none", "some"))}
    counts = []
    for level, names in zip(levels, features.values(), strict=True):
        n = np.zeros((len(REGIONS), 12 * YEARS, len(names)))
        np.add.at(n, (region[inside], month[inside], level[inside]), 1.0)
        counts.append(n)
    return EventLog("Syria 2016-2019", REGIONS, _months(FIRST_YEAR, 12 * YEARS), features, tuple(counts), 3)


def data_folder() -> Path | None:
    """Return the folder that the variable VESTRY_DATA names, if the log is in it; other experiments use it too."""
    named = Path(os.environ.get("VESTRY_DATA") or "/nowhere")
    return named if (named / FILE).is_file() else None


def _months(year: int, number: int) -> tuple[str, ...]:
    return tuple(f"{year + i // 12}-{i % 12 + 1:02d}" for i in range(number))
