"""The options by which `calibrate` and `curve` name a mechanism, and the mechanism they name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from vestry.errors import InvalidParameter

if TYPE_CHECKING:
    from vestry.families import Family
    from vestry.privacy.guarantee import Guarantee
    from vestry.statistics.population import Population

# What each mechanism is calibrated by.
PARAMETERS = {
    "laplace": "scale",
    "gaussian": "scale",
    "direct": "likelihood_power",
    "diffused": "likelihood_power",
    "concentrated": "prior_scale",
    "ops": "temperature",
}

FamilyName = Annotated[
    str,
    typer.Option(
        "--family",
        help="For example beta-bernoulli, dirichlet-categorical, normal-mean or gamma-poisson.",
    ),
]
Prior = Annotated[
    str | None, typer.Option(help="The prior's numbers: alpha,beta; one alpha a category; or mean,variance.")
]
Count = Annotated[int | None, typer.Option("--n", help="The number of records, where it is public.")]
NeighboursName = Annotated[str, typer.Option("--neighbours", help="replace or add-remove.")]
Rows = Annotated[int, typer.Option(help="How many records one unit has at most.")]
Known = Annotated[str | None, typer.Option("--count", help="public or private; public under replace unless told.")]
DrawCount = Annotated[int, typer.Option("--draws", help="How many draws are bought together.")]
Truncation = Annotated[float | None, typer.Option(help="ops: the least that each probability may be.")]
Variance = Annotated[float | None, typer.Option(help="normal-mean: the known variance of a record.")]
Low = Annotated[float | None, typer.Option(help="normal-mean: values are clipped from below.")]
High = Annotated[float | None, typer.Option(help="normal-mean: values are clipped from above.")]
Dimension = Annotated[int, typer.Option(help="normal-mean: the number of coordinates.")]
Grid = Annotated[float | None, typer.Option(help="normal-mean: what one unit of an integer sum stands for.")]


@dataclass(frozen=True)
class Declared:
    """Everything but the guarantee."""

    mechanism: str
    family: Family
    prior: Any
    population: Population
    draws: int
    truncation: float | None
    grid: float | None

    def calibrated(self, guarantee: Guarantee, *, analysis: str = "exact") -> Any:
        """Calibrate to a guarantee."""
        from vestry.mechanisms import posterior_sample
        from vestry.mechanisms.calibrated import calibrated

        analyses = {"exact": posterior_sample.exactly, "renyi": posterior_sample.through_renyi}
        if analysis not in analyses:
            raise InvalidParameter("--analysis", analysis, "exact or renyi", "--analysis exact")
        return calibrated(
            self.mechanism,
            self.family,
            self.prior,
            self.population,
            guarantee,
            draws=self.draws,
            truncation=self.truncation,
            grid=self.grid,
            meets=analyses[analysis],
        )

    def at(self, value: float) -> Any:
        """Return the event at a given value of the mechanism's parameter."""
        from vestry.mechanisms import additive, exponential

        if self.mechanism in ("laplace", "gaussian"):
            self._refuse_draws()
            layout = additive.layout(self.family, self.population, grid=self.grid)
            return additive.event_of(f"discrete-{self.mechanism}", layout, value)
        if self.mechanism == "ops":
            if self.truncation is None:
                raise InvalidParameter("--truncation", None, "given for ops", "for example --truncation 0.05")
            return exponential.event_of(self.family, self.population, self.truncation, value, self.draws)
        if self.mechanism == "direct" and value != 1:
            raise InvalidParameter("--at", value, "1 for a direct draw", "--at 1, or the diffused posterior")
        if not 0 < value <= 1:
            raise InvalidParameter("--at", value, "above 0 and at most 1", "for example --at 0.5")
        single = self.family.worst_draw(self.prior, self.population, **{PARAMETERS[self.mechanism]: value})
        return single.times(self.draws)

    def _refuse_draws(self) -> None:
        if self.draws != 1:
            raise InvalidParameter("--draws", self.draws, "left out for noisy statistics", "draws from them are free")


def declared(
    mechanism: str,
    family: str,
    prior: str | None,
    n: int | None,
    neighbours: str,
    rows: int,
    count: str | None,
    draws: int,
    truncation: float | None,
    variance: float | None,
    low: float | None,
    high: float | None,
    dimension: int,
    grid: float | None,
) -> Declared:
    """Read the options."""
    if n is not None and n < 1:
        raise InvalidParameter("--n", n, "a whole number of at least 1", "for example --n 100")
    if mechanism not in PARAMETERS:
        raise InvalidParameter("a mechanism", mechanism, "one of " + ", ".join(PARAMETERS), "for example diffused")
    numbers = _numbers(prior)
    made = _family(family, numbers, variance, low, high, dimension)
    drawn = made.prior(numbers) if numbers or mechanism not in ("laplace", "gaussian") else None
    return Declared(mechanism, made, drawn, _population(n, neighbours, rows, count), draws, truncation, grid)


def _numbers(text: str | None) -> tuple[float, ...]:
    try:
        return () if text is None else tuple(float(part) for part in text.split(","))
    except ValueError:
        raise InvalidParameter(
            "--prior", text, "numbers with commas between them", "for example --prior 6,12"
        ) from None


def _family(
    name: str,
    numbers: tuple[float, ...],
    variance: float | None,
    low: float | None,
    high: float | None,
    dimension: int,
) -> Family:
    from vestry.families import (
        BetaBernoulli,
        DirichletCategorical,
        GammaExponential,
        GammaPoisson,
        NormalInverseGamma,
        NormalMean,
    )

    if name == "beta-bernoulli":
        return BetaBernoulli()
    if name == "dirichlet-categorical":
        return DirichletCategorical(len(numbers))
    if name == "normal-mean":
        if variance is None or low is None or high is None:
            given = {"--variance": variance, "--low": low, "--high": high}
            missing = next(key for key, value in given.items() if value is None)
            raise InvalidParameter(missing, None, "given: a normal mean needs clipping", f"for example {missing} 1")
        return NormalMean(variance, low, high, dimension)
    if name in ("gamma-poisson", "gamma-exponential", "normal-inverse-gamma"):
        if high is None or (low is None and name != "gamma-poisson"):
            missing = "--high" if high is None else "--low"
            raise InvalidParameter(missing, None, f"given: {name} needs clipping", f"for example {missing} 1")
        if name == "gamma-poisson":
            return GammaPoisson(high)  # type: ignore[arg-type]
        ends = (0.0 if low is None else low, high)
        return GammaExponential(*ends) if name == "gamma-exponential" else NormalInverseGamma(*ends)
    raise InvalidParameter("--family", name, "a known family", "beta-bernoulli, or see --help")


def _population(n: int | None, neighbours: str, rows: int, count: str | None) -> Population:
    from vestry.privacy.neighbours import Neighbours
    from vestry.statistics.population import Population

    relation = Neighbours.parse(neighbours)
    known = count or ("public" if relation is Neighbours.REPLACE else "private")
    if known not in ("public", "private"):
        raise InvalidParameter("--count", count, "public or private", "--count private")
    if known == "private":
        return Population(relation, rows)
    if n is None:
        raise InvalidParameter("--n", None, "given where the count is public", "--n 100, or --count private")
    return Population(relation, rows, n)
