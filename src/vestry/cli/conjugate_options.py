"""The mechanisms of conjugate families: noise on their statistics, and draws from their posteriors."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from vestry.cli.mechanism_options import MechanismOption, Solution
from vestry.cli.options import DrawCount, numbers
from vestry.errors import InvalidParameter
from vestry.validation import require_choice

if TYPE_CHECKING:
    from vestry.privacy.event import Event
    from vestry.privacy.guarantee import Guarantee
    from vestry.privacy.neighbours import Adjacency


@dataclass(frozen=True, kw_only=True)
class Conjugate(MechanismOption):
    """A mechanism of a conjugate family."""

    family: Annotated[str, Option(help="For example beta-bernoulli, normal-mean or gamma-poisson.")]
    prior: Annotated[
        str | None,
        Option(help="alpha,beta; one alpha per category; mean,variance; or shape,rate. Noise needs only their number."),
    ] = None
    n: Annotated[int | None, Option("--n", help="The number of records, where it is public.")] = None
    count: Annotated[str | None, Option(help="public or private; public under replace if omitted.")] = None
    draws: DrawCount = 1
    truncation: Annotated[float | None, Option(help="ops: the smallest probability that is allowed.")] = None
    variance: Annotated[float | None, Option(help="normal-mean: the known variance of a record.")] = None
    low: Annotated[float | None, Option(help="The lower end of the interval to which records are clipped.")] = None
    high: Annotated[float | None, Option(help="The upper end of that interval.")] = None
    dimension: Annotated[int, Option(help="normal-mean: the number of coordinates.")] = 1
    grid: Annotated[float | None, Option(help="The step to which the records of a sum are rounded.")] = None
    average: Annotated[
        str, Option(help="Of noise on persons' rows: row, or person for averages in which each person weighs 1.")
    ] = "row"
    analysis: Annotated[str, Option(help="exact, or renyi: through the Renyi curve, as in the papers.")] = "exact"

    @property
    def default_value(self) -> float | None:
        """A direct draw takes the likelihood as it is."""
        return 1.0 if self.mechanism == "direct" else None

    def _event(self, value: float) -> Event:
        from vestry.mechanisms.release import event_at

        return event_at(*self._what(), value, **self._how())

    def _solve(self, guarantee: Guarantee) -> Solution:
        mechanism = self.calibrate_mechanism(guarantee)
        return mechanism.value, mechanism.theorem, {}

    def calibrate_mechanism(self, guarantee: Guarantee) -> Any:
        """Return the mechanism itself, calibrated."""
        from vestry.mechanisms import posterior_sample
        from vestry.mechanisms.release import calibrate_mechanism

        analyses = {"exact": posterior_sample.meets_exactly, "renyi": posterior_sample.meets_through_renyi}
        meets = analyses[require_choice("analysis", self.analysis, analyses, "analysis=exact")]
        return calibrate_mechanism(*self._what(), guarantee, **self._how(), meets=meets)

    @property
    def pair(self) -> Any:
        """The likelihood and its conjugate prior that --family names; or the parts of a person's weight."""
        from vestry.conjugate.family import family_names, family_type

        make: Any = family_type(require_choice("family", self.family, family_names(), "family=beta-bernoulli"))
        if require_choice("average", self.average, ("row", "person"), "average=person") == "person":
            return self._parts(make)
        known = {"categories": len(self._prior_numbers()), **vars(self)}
        given = {field.name: known[field.name] for field in fields(make)}
        if given.get("categories", 2) < 2:
            raise InvalidParameter("prior", self.prior, "one number for each category, of at least two", "prior=1,1,1")
        for name, value in given.items():
            if value is None:
                allowed = f"given: {self.family} needs {'it' if name == 'variance' else 'clipping'}"
                raise InvalidParameter(name, None, allowed, f"for example {name}=1")
        return make(**given)

    def _parts(self, make: Any) -> Any:
        """Return the parts of a person's weight, for families whose rows can be averaged, and for noise alone."""
        from vestry.persons.person_parts import LEVELS, NUMBERS, PersonParts
        from vestry.registry import MODELS

        if not hasattr(MODELS[self.family], "averaged") or self.parameter != "scale":
            allowed = f"row for {self.mechanism} and {self.family}"
            raise InvalidParameter("average", self.average, allowed, "average=row")
        if "categories" in {field.name for field in fields(make)}:
            levels = max(2, len(self._prior_numbers()))
            return PersonParts(LEVELS, labels=tuple(f"level {place}" for place in range(1, levels + 1)))
        return PersonParts(NUMBERS, labels=tuple(f"number {place}" for place in range(1, self.dimension + 1)))

    @property
    def adjacency(self) -> Adjacency:
        """Whose change is protected, and the number of records where it is public."""
        from vestry.privacy.neighbours import Adjacency

        whose = super().adjacency
        known = self.count or ("public" if whose.replaces and self.average == "row" else "private")
        if require_choice("count", known, ("public", "private"), "count=private") == "private":
            return whose
        if self.n is None:
            raise InvalidParameter("--n", None, "given where the count is public", "--n 100, or --count private")
        return Adjacency(whose.neighbours, self.rows, self.n)

    def _what(self) -> tuple[str, Any, Any, Adjacency]:
        given, pair = self._prior_numbers(), self.pair
        prior = pair.prior(given) if given or self.parameter != "scale" else None
        return self.mechanism, pair, prior, self.adjacency

    def _how(self) -> dict[str, Any]:
        return {"draws": self.draws, "truncation": self.truncation, "grid": self.grid}

    def _prior_numbers(self) -> tuple[float, ...]:
        return () if self.prior is None else numbers("--prior", self.prior, "6,12")
