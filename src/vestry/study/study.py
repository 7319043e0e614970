"""A study: what its file declares, what it would cost and give, and its releases."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from vestry.data import Table
from vestry.data.source import is_missing
from vestry.errors import IN_LEDGER, DeclarationMismatch, LedgerMissing, VestryError
from vestry.ledger import Ledger
from vestry.ledger.entry import State
from vestry.ledger.privacy_filter import PrivacyFilter
from vestry.model.request import own_columns
from vestry.noise import NoiseSource
from vestry.pipeline import NEW, ChargeIndex
from vestry.planning import (
    DEFAULT_EXPECTED_ROWS,
    Forecast,
    budget_for_width,
    chosen_forecast,
    compare_mechanisms,
    forecast_at,
)
from vestry.privacy.guarantee import Guarantee
from vestry.registry import SOURCES
from vestry.study.config import ReleaseSpec, StudyConfig, read
from vestry.study.release_costs import Cost, assumed_count, calibrated, costs
from vestry.study.runner import ReleaseOutcome, ReleaseRunner, Say
from vestry.study.storage import ReleaseStore, locked
from vestry.study.wishes import WishPlan, plan_wishes

if TYPE_CHECKING:
    import pandas as pd

    from vestry.display.plotting import WidthCurve


@dataclass(frozen=True, repr=False)
class Study:
    """A study file, opened.

    Attributes
    ----------
    config
        What the file says.
    """

    config: StudyConfig

    @classmethod
    def open(cls, path: str | Path) -> Study:
        """Read and check a study file. Neither data nor ledger is touched."""
        return cls(read(path))

    @property
    def table(self) -> Table:
        """The records, with what is declared of them; nothing is read before it is asked for."""
        config, schema = self.config, self.config.schema
        config.require_typed_password("data")
        with config.lines.at("study.data"):
            return Table(
                _beside(config.folder, config.data),
                schema.domains,
                unit=schema.unit,
                neighbours=schema.neighbours,
                max_rows=config.max_rows,
                csv=config.csv,
            )

    @property
    def ledger(self) -> Ledger:
        """The ledger, which must exist and agree with the study."""
        return self._checked_ledger()[0]

    def has_ledger(self) -> bool:
        """Tell whether there is a ledger where the study says, or was: what it paid for tells of it."""
        try:
            return bool(self._ledger)
        except LedgerMissing:
            return bool(self._certified())
        except VestryError:
            return True  # there is one, and `ledger` will say what is wrong with it

    def lacks_data(self) -> bool:
        """Tell whether the file of the records is not there. Nothing is read, and a server is not asked."""
        try:
            return is_missing(_beside(self.config.folder, self.config.data))
        except OSError:
            return False  # a folder that may not be entered: `release` will say so

    def data_faults(self) -> tuple[str, ...]:
        """Say where the names and types of the data's columns do not fit the file. No value is read."""
        with self.config.lines.at("study.data"):
            return self.table.schema_faults()

    def __repr__(self) -> str:
        count = len(self.config.releases)
        noun = "release" if count == 1 else "releases"
        return f"Study({self.config.name!r}, {count} {noun}, budget {self.config.budget})"

    def _repr_html_(self) -> str:
        """Return what the file declares, as a notebook shows it."""
        from vestry.display.templates import joined, paragraph, table, tag

        config, schema = self.config, self.config.schema
        facts = f": unit {schema.unit}, neighbours {schema.neighbours}, budget {config.budget}"
        rows = [(each.name, each.request.model.question(), str(each.request.guarantee)) for each in config.releases]
        head = paragraph(tag("b", config.name), facts)
        return joined([head, table("Releases", ("release", "question", "spend"), rows)])

    def check(self) -> pd.DataFrame:
        """Return what each release would be charged, one row per release. Data are not read.

        `fits` tells whether the ledger, or a new one, would accept it after those above it; `state` is what the ledger
        says of it, or `new`.
        """
        import pandas as pd

        return pd.DataFrame([vars(cost) for cost in self.costs()]).set_index("name").rename_axis("release")

    def plan(self, *names: str) -> pd.DataFrame:
        """Return what each mechanism is expected to give, by simulation from the priors. No data are read.

        One row per release, mechanism and kind of parameter: the mechanism's parameter and value, the expected 90 %
        width with and without privacy and what it is of (not every release has intervals), the Kullback-Leibler
        divergence from the posterior without privacy to the released one, whether it is what `auto` takes, and a note.
        All releases if none is named.
        """
        import pandas as pd

        rows = []
        for spec in self.choose(names):
            forecasts = self.forecasts(spec.name)
            chosen = self.chosen(spec.name, forecasts)
            for forecast in forecasts:
                row = {
                    "release": spec.name,
                    "mechanism": forecast.mechanism,
                    "parameter": forecast.parameter,
                    "value": forecast.value,
                }
                end = {"kl": forecast.kl, "chosen": forecast is chosen, "note": forecast.note}
                first = (forecast.what, forecast.width, forecast.exact_width)
                for what, width, exact in (first, *forecast.further):
                    rows.append({**row, "what": what, "width": width, "width_without_privacy": exact, **end})
        return pd.DataFrame(rows).set_index(["release", "mechanism"])

    def costs(self) -> list[Cost]:
        """Return what each release would be charged, from declarations and the ledger alone."""
        return self._costs(*self.standing())

    def costs_of_new_ledger(self) -> list[Cost]:
        """Return what each release would be charged by a new ledger; the study's own is not asked."""
        return self._costs(*self._new_ledger())

    def _costs(self, index: ChargeIndex, state: State) -> list[Cost]:
        config = self.config
        return costs(
            config,
            config.releases,
            state,
            index,
            lambda spec, past: calibrated(config, spec, assumed_count(config, spec)).mechanism,
        )

    def standing(self) -> tuple[ChargeIndex, State]:
        """Return what was charged and what is spent: by the ledger, or by a new one."""
        if self.has_ledger():
            ledger, state = self._checked_ledger()
            return ChargeIndex.of(ledger), state
        return self._new_ledger()

    def _new_ledger(self) -> tuple[ChargeIndex, State]:
        fresh = PrivacyFilter.new(self.config.budget)
        return ChargeIndex(), State(fresh, fresh.nothing)

    def forecasts(self, name: str) -> list[Forecast]:
        """Return what each mechanism is expected to give for a release, from its prior and declarations alone."""
        with self.config.lines.at(f"release.{name}"):
            request = self.config.release(name).request
            return compare_mechanisms(request, self.config.schema, expected_rows=self.config.expected_rows)

    def chosen(self, name: str, forecasts: Sequence[Forecast]) -> Forecast | None:
        """Return which of a release's forecasts will run: the one that `auto` takes, or the only one."""
        chosen = chosen_forecast(self.config.release(name).request, forecasts)
        return forecasts[0] if chosen is None and len(forecasts) == 1 else chosen

    def wishes(self) -> WishPlan | None:
        """Return the spends that meet what the file wants of new releases, or what would fit; None if it wants nothing.

        Reads no data; prices are those of the ledger, if it is there.
        """
        if all(spec.want is None for spec in self.config.releases):
            return None
        index, state = self.standing()
        new = [
            spec
            for spec in self.config.releases
            if index.find_charge(spec.request.definition(self.config.schema)).state == NEW
        ]
        return plan_wishes(self.config, new, state)

    def width_curve(self, name: str) -> WidthCurve:
        """Return how the expected width of a release falls from a tenth of its spend to ten times as much."""
        from vestry.display.plotting import WidthCurve
        from vestry.report.guarantee_section import Promise

        request, config = self.config.release(name).request, self.config
        guarantee, schema = request.guarantee, config.schema
        spends = [guarantee.at(guarantee.value * 10 ** (step / _STEPS)) for step in range(-_STEPS, _STEPS + 1)]
        forecasts = [forecast_at(request, schema, each.value, expected_rows=config.expected_rows) for each in spends]
        known = [(spend, each.width) for spend, each in zip(spends, forecasts, strict=True) if each.width is not None]
        middle = forecasts[_STEPS]
        return WidthCurve(
            (f"{guarantee.amount} of {name}", middle.what),
            guarantee.value,
            middle.width,
            middle.exact_width,
            tuple((spend.value, width) for spend, width in known),
            tuple(Promise(spend, None, schema.unit, schema.neighbours).best_guess() for spend, _ in known),
        )

    def format_parameter(self, name: str, parameter: str, value: float) -> str:
        """Write a parameter for a reader: the scale of noise on sums of numbers in units of their column."""
        schema, spec = self.config.schema, self.config.release(name)
        model = spec.request.model
        unit = model.sum_unit(schema) if parameter == "scale" and hasattr(model, "sum_unit") else 1
        if unit != 1:
            columns = ", ".join(own_columns(model))
            return f"scale {value * unit:.6g} in units of {getattr(model, 'sum_words', columns)}"
        return f"{parameter} {value:.6g}"

    def budget_for(self, name: str, width: float) -> Guarantee:
        """Return what a release would have to spend for 90 % credible intervals of this width."""
        request = self.config.release(name).request
        return budget_for_width(request, self.config.schema, expected_rows=self.config.expected_rows, width=width)

    def choose(self, names: tuple[str, ...] = ()) -> list[ReleaseSpec]:
        """Return the releases that are named, each once; all if none is."""
        return [self.config.release(name) for name in dict.fromkeys(names)] or list(self.config.releases)

    def runner(
        self, *, again: bool = False, output: Path | None = None, noise: NoiseSource | None = None
    ) -> tuple[ReleaseRunner, State]:
        """Return what runs releases, and the state of its ledger."""
        ledger, state = self._checked_ledger()
        store = ReleaseStore(output or self.config.folder)
        return ReleaseRunner(self.config, ledger, self.table, store, again, noise), state

    def release(
        self,
        *names: str,
        again: bool = False,
        output: Path | None = None,
        progress: Say = lambda text: None,
        noise: NoiseSource | None = None,
        on_outcome: Callable[[ReleaseOutcome], None] = lambda outcome: None,
        on_wait: Say = lambda text: None,
    ) -> list[ReleaseOutcome]:
        """Release what is named, or all: charge, collect, release, and write the files.

        What was released before is not released again, unless `again`; a charge that was not opened is resumed, free;
        one that was opened is never drawn again. What does not fit the budget together is refused before the first
        charge. `on_outcome` is given each outcome as it happens; the report is written last. One process at a time
        writes into a folder: a second one waits, says so by `on_wait`, and then finds what the first has released.
        """
        runner, _ = self.runner(again=again, output=output, noise=noise)
        return runner.release(self.choose(names), progress=progress, on_outcome=on_outcome, on_wait=on_wait)

    def report(self, output: Path | None = None, *, on_wait: Say = lambda text: None) -> Path:
        """Write the page of all releases that lie in the folder."""
        from vestry.study.report_data import write_report

        store, ledger = ReleaseStore(output or self.config.folder), self.ledger
        with locked(store.path, on_wait):
            return write_report(self.config, ledger, ledger.summary(), store, {})

    def remaining(self) -> str:
        """Say what remains of the budget: the ledger's, or all of it where there is no ledger yet."""
        if not self.has_ledger():
            return str(self.config.budget)
        _, state = self._checked_ledger()
        return state.filter.left(state.spent)

    def create_command(self) -> str:
        """Return the command that makes the study's ledger."""
        config, schema = self.config, self.config.schema
        words = [_beside(config.folder, config.ledger), "--dataset", config.dataset or config.name]
        words += ["--unit", str(schema.unit), "--neighbours", str(schema.neighbours), "--budget", str(config.budget)]
        return "vestry ledger create " + " ".join(shlex.quote(word) for word in words)

    @property
    def assumed(self) -> int:
        """The number of records that `plan` takes: the declared one, or 1000."""
        return self.config.expected_rows or DEFAULT_EXPECTED_ROWS

    @cached_property
    def _ledger(self) -> Ledger:
        """The ledger, opened once."""
        self.config.require_typed_password("ledger")
        where = _beside(self.config.folder, self.config.ledger)
        try:
            return Ledger.open(where)
        except LedgerMissing:
            pass
        paid = self._certified()
        if paid:
            raise LedgerMissing(
                f"the ledger at {where} is lost: {' and '.join(paid)} {'was' if len(paid) == 1 else 'were'} paid for"
                " from it, and a new one would not know what was spent; put it back from where it was moved to, or from"
                " a backup."
            )
        raise LedgerMissing(f"there is no ledger at {where}; create it once with: {self.create_command()}")

    def _checked_ledger(self) -> tuple[Ledger, State]:
        """Return the ledger and its state, or refuse one that disagrees with the study."""
        config, lines = self.config, self.config.lines
        with lines.at("study.ledger"):
            ledger = self._ledger
            state = ledger.state()
        with lines.at("study.unit"):
            ledger.require(unit=config.schema.unit)
        with lines.at("study.neighbours"):
            ledger.require(neighbours=config.schema.neighbours)
        dataset, instead = ledger.terms.dataset, "use the ledger of this dataset"
        if config.dataset not in (None, dataset):
            with lines.at("study.dataset"):
                raise DeclarationMismatch("dataset", str(config.dataset), dataset, instead, where=IN_LEDGER)
        budget = str(state.filter.budget)
        if budget != str(config.budget):
            raised = f"vestry ledger amend {config.ledger} --budget {config.budget}"
            instead = f"write the ledger's budget, or raise it with {raised}"
            with lines.at("study.budget"):
                raise DeclarationMismatch("budget", str(config.budget), budget, instead, where=IN_LEDGER)
        return ledger, state

    def _certified(self) -> list[str]:
        """Return the releases beside the study file that have a certificate."""
        store = ReleaseStore(self.config.folder)
        return [spec.name for spec in self.config.releases if store.certified(spec.name) is not None]


# Points of a curve on either side of the present spend.
_STEPS = 6


def _beside(folder: Path, address: str) -> str:
    """Return a path that is relative to the study file; an address of a server as it is."""
    scheme, mark, rest = address.partition("://")
    if not mark:
        return str(folder / address)
    return f"{scheme}://{folder / rest}" if f"{scheme}://FILE/TABLE" in SOURCES else address
