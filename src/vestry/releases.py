"""What is published: a release and the certificate that says what it promises.

Both are plain numbers and text, saved as one JSON file. The raw noisy statistics are the release, so that another
prior, another number of draws or another model of the same statistics costs nothing.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from vestry.errors import InvalidParameter
from vestry.files import MOST_WRITTEN, read_text
from vestry.notebook import html_table
from vestry.privacy.guarantee import decimal
from vestry.registry import FACADE
from vestry.release_schema import check_release
from vestry.validation import is_number, require_path

SCHEMA = "vestry-release-1"


@dataclass(frozen=True)
class NoisyStatistics:
    """Integers with integer noise.

    Attributes
    ----------
    names
        What each integer counts or sums.
    values
        The noisy integers, exactly as drawn: they may be negative, or larger than the count.
    noise
        `discrete-laplace`: P(k) ~ exp(-|k|/scale); `rounded-gaussian`: round(N(0, scale^2)); `discrete-gaussian`: P(k)
        ~ exp(-k^2/(2 scale^2)); or, of all integers together, `discrete-cube`: P(k) ~ exp(-max |k_i|/scale).
    scale
        The noise's scale, in integer units; that of a rounded normal number is its deviation before rounding.
    grid
        What one unit of a sum stands for; 1 for counts.
    count
        The number of records where it is public; None where it is not, and is then among the values.
    count_grid
        What one unit of a noisy count beside sums stands for: it is counted in fractions to balance the noise.
    """

    names: tuple[str, ...]
    values: tuple[int, ...]
    noise: str
    scale: float
    grid: float = 1.0
    count: int | None = None
    count_grid: float = 1.0


@dataclass(frozen=True)
class Draws:
    """Draws from a posterior that was made private: each a point of the parameter space.

    Attributes
    ----------
    values
        One row per draw. Each number was drawn exactly, as a real number, and rounded once to the nearest multiple of
        the grid: no draw was made in floating-point arithmetic. A probability may be 0 or 1 by rounding, and the
        probabilities of several categories add up to 1 only to within as many steps of the grid.
    grid
        The step of the grid, a power of two: 2^-40 for probabilities, and 2^-40 of a declared unit for rates and means.
    """

    values: tuple[tuple[float, ...], ...]
    grid: float = 2.0**-40


@dataclass(frozen=True, repr=False)
class Certificate:
    """What is promised, by which theorem, and what is needed to compute the claim again.

    Attributes
    ----------
    guarantee
        The guarantee as it was asked for and met, with its neighbours.
    event
        The event from which the privacy curve follows.
    mechanism, parameter, value
        What ran, and the calibrated parameter.
    theorem
        The results that the claim rests on, by key and number, with their conditions.
    unit
        Whose change is hidden.
    population
        Neighbours, rows per unit, and the count where it is public.
    assumptions
        What no theorem covers; empty in almost every case.
    versions
        Of the software that made the release.
    """

    guarantee: Mapping[str, Any]
    event: Mapping[str, Any]
    mechanism: str
    parameter: str
    value: float
    theorem: str
    unit: str
    population: Mapping[str, Any]
    assumptions: tuple[str, ...] = ()
    versions: Mapping[str, str] = field(default_factory=dict)

    @property
    def _promise(self) -> str:
        """The guarantee as it is written elsewhere; a file may hold anything there."""
        numbers = ((key, value) for key, value in self.guarantee.items() if key != "neighbours")
        return ",".join(f"{key}={decimal(value) if is_number(value) else value}" for key, value in numbers)

    @property
    def _facts(self) -> dict[str, str]:
        facts = {
            "guarantee": self._promise,
            "neighbours": str(self.guarantee.get("neighbours", "not stated")),
            "unit": self.unit,
            "mechanism": f"{self.mechanism} ({self.parameter}={self.value:g})",
            "theorem": self.theorem,
        }
        return {**facts, "assumptions": " ".join(self.assumptions)} if self.assumptions else facts

    def __repr__(self) -> str:
        return f"Certificate({self._promise!r}, mechanism={self.mechanism!r})"

    def _repr_html_(self) -> str:
        return html_table("Certificate", self._facts)


@dataclass(frozen=True, repr=False)
class Release:
    """A published result.

    Attributes
    ----------
    family
        The model's name and its declared numbers, for example {"name": "beta-bernoulli"}.
    prior
        The prior's numbers as declared.
    contents
        Noisy statistics, or draws, by group; the one group of an ungrouped release is called `all`.
    certificate
        What is promised.
    by
        The column whose levels are the groups, of several `ward, sex`; None if there are none.
    labels
        What each parameter of a group is of, for example the levels of a column; empty if there is one.
    """

    family: Mapping[str, Any]
    prior: tuple[float, ...]
    contents: Mapping[str, NoisyStatistics | Draws]
    certificate: Certificate
    by: str | None = None
    labels: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"Release({self.family['name']!r}, groups={len(self.contents)}, certificate={self.certificate!r})"

    def _repr_html_(self) -> str:
        """Return what was released of whom, without the numbers, and what is promised."""
        kinds = {_KINDS[type(each)].replace("-", " ") for each in self.contents.values()}
        groups = ", ".join(self.contents) if self.by is None else f"{', '.join(self.contents)} (by {self.by})"
        released = {"model": str(self.family["name"]), "released": " and ".join(sorted(kinds)), "groups": groups}
        return html_table("Release", {**released, **self.certificate._facts})

    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers and text, and their hash, which finds a file that was changed by accident."""
        record = {
            "schema": SCHEMA,
            "family": dict(self.family),
            "prior": list(self.prior),
            "by": self.by,
            "labels": list(self.labels),
            "contents": {group: {_KINDS[type(each)]: asdict(each)} for group, each in self.contents.items()},
            "certificate": asdict(self.certificate),
        }
        return {**record, "sha256": _hash(record)}

    def posterior(
        self,
        *,
        prior: tuple[float, ...] | str | None = None,
        method: str = "noise-aware",
        pool: bool = False,
        **options: Any,
    ) -> Any:
        """Compute a posterior, by the release's own prior or another one; see `Posterior.from_release`. It is free."""
        return FACADE["posterior"].from_release(self, prior=prior, method=method, pool=pool, **options)

    def likelihood(self, group: str | None = None) -> Any:
        """Return the exact log-likelihood of the noisy statistics, as data for any model; see `vestry.likelihood`.

        Of one group, or of all at once. It is free.
        """
        return FACADE["likelihood"](self, group)

    def text(self) -> str:
        """Return the JSON that is saved, and whose hash the ledger keeps."""
        return json.dumps(self.to_dict(), indent=2, allow_nan=False) + "\n"

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Release:
        """Read `to_dict` back."""
        if record.get("schema") != SCHEMA:
            raise InvalidParameter("a release's schema", record.get("schema"), SCHEMA, "a file that vestry has written")
        body = {key: value for key, value in record.items() if key != "sha256"}
        if record.get("sha256") != _hash(body):
            raise InvalidParameter("a release", "one that was changed", "as it was written", "the original file")
        check_release(record)
        return cls(
            family=body["family"],
            prior=tuple(body["prior"]),
            contents={group: _content(each) for group, each in body["contents"].items()},
            certificate=Certificate(**_freeze(body["certificate"])),
            by=body["by"],
            labels=tuple(body["labels"]),
        )


def _hash(record: Mapping[str, Any]) -> str:
    text = json.dumps(record, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def open_release(path: str | Path) -> Release:
    """Read a release from its file."""
    file = require_path("a release file", path, "another path")
    try:
        record = json.loads(read_text(file, MOST_WRITTEN))
    except OSError as error:
        raise InvalidParameter("a release file", str(path), f"readable ({error.strerror})", "another path") from None
    except (ValueError, RecursionError):
        raise InvalidParameter("a release file", str(path), "JSON", "a file that vestry has written") from None
    if not isinstance(record, dict):
        raise InvalidParameter("a release file", str(path), "a JSON object", "a file that vestry has written")
    return Release.from_dict(record)


def _content(record: Mapping[str, Any]) -> NoisyStatistics | Draws:
    if "draws" in record:
        draws = record["draws"]
        return Draws(tuple(tuple(float(x) for x in draw) for draw in draws["values"]), float(draws["grid"]))
    return NoisyStatistics(**_freeze(record["noisy-statistics"]))


_KINDS: dict[type, str] = {NoisyStatistics: "noisy-statistics", Draws: "draws"}


def _freeze(record: Mapping[str, Any]) -> dict[str, Any]:
    return {key: tuple(value) if isinstance(value, list) else value for key, value in record.items()}
