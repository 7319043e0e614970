"""`vestry calibrate` and `vestry curve` for the mechanisms of linear models: gibbs, langevin, objective, output."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from vestry.cli.output import Json, emit
from vestry.errors import InvalidParameter

if TYPE_CHECKING:
    from vestry.privacy.event import Event
    from vestry.privacy.guarantee import Guarantee
    from vestry.statistics.population import Population

Wanted = Annotated[str, typer.Option("--guarantee", help="What to meet, for example epsilon=1,delta=1e-6.")]
Lipschitz = Annotated[float, typer.Option(help="The Lipschitz constant of one record's loss.")]
StrongConvexity = Annotated[float, typer.Option(help="Of the prior term, for every dataset.")]
Smoothness = Annotated[float, typer.Option(help="The smoothness of one record's loss.")]
Regularisation = Annotated[float, typer.Option(help="lam, of the sum of losses: (lam/2)|theta|^2.")]
NeighboursName = Annotated[str, typer.Option("--neighbours", help="replace or add-remove.")]
Rows = Annotated[int, typer.Option(help="How many records one unit has at most.")]
DrawCount = Annotated[int, typer.Option("--draws", help="How many draws are bought together.")]
Records = Annotated[int, typer.Option("--n", help="The number of records, where it is public.")]
Norm = Annotated[float, typer.Option(help="The largest norm of a record's features, the intercept included.")]
PriorPrecision = Annotated[float, typer.Option(help="beta: the prior's precision is n beta.")]
Slope = Annotated[float, typer.Option(help="The steepest the loss is in its linear predictor; 1 for logistic.")]
Steps = Annotated[str, typer.Option(help="How many steps; of several phases, with commas.")]
StepSize = Annotated[str, typer.Option(help="The step size; of several phases, with commas.")]
OneSided = Annotated[
    bool, typer.Option("--one-sided/--two-sided", help="Whether each record's derivative keeps its sign, as logistic.")
]
ObjectiveAnalysis = Annotated[
    str, typer.Option("--analysis", help="auto (the tightest that holds), general, one-sided, redberg or lecture.")
]
At = Annotated[float, typer.Option(help="The parameter's value.")]
Orders = Annotated[str, typer.Option(help="Renyi orders, with commas.")]
Epsilons = Annotated[str, typer.Option(help="Epsilons of the profile, with commas.")]
Delta = Annotated[float | None, typer.Option(help="Also print the epsilon at this delta.")]
Plot = Annotated[Path | None, typer.Option(help="Also draw the curves into this file (png, svg or pdf).")]
ORDERS, EPSILONS = "1.5,2,3,5,10,20,50", "0.1,0.25,0.5,1,2,4"


def gibbs(
    lipschitz: Lipschitz,
    strong_convexity: StrongConvexity,
    guarantee: Wanted,
    analysis: Annotated[
        str, typer.Option(help="gdp (exact), renyi, minami-theorem-7 or minami-corollary-8, the last three to compare.")
    ] = "gdp",
    neighbours: NeighboursName = "replace",
    rows: Rows = 1,
    draws: DrawCount = 1,
    json: Json = False,
) -> None:
    """Calibrate: the likelihood power of draws from a Gibbs posterior."""
    from vestry.mechanisms.gibbs import THEOREM, draw_event, likelihood_power

    _positive(lipschitz=lipschitz, strong_convexity=strong_convexity)
    wanted, population = _asked(guarantee, neighbours, rows)
    known: dict[str, Any] = {
        "lipschitz": lipschitz, "strong_convexity": strong_convexity, "population": population, "draws": draws
    }  # fmt: skip
    power = likelihood_power(wanted, analysis=analysis, **known)
    _emit("gibbs", "likelihood_power", power, wanted, draw_event(power, **known), THEOREM, json, analysis=analysis)


def glm_concentrated(
    n: Records,
    norm: Norm,
    prior_precision: PriorPrecision,
    guarantee: Wanted,
    slope: Slope = 1.0,
    neighbours: NeighboursName = "replace",
    rows: Rows = 1,
    draws: DrawCount = 1,
    json: Json = False,
) -> None:
    """Calibrate: the prior precision of draws from a linear model's posterior, untempered (algorithm 4)."""
    from vestry.mechanisms.gibbs import THEOREM, draw_event
    from vestry.mechanisms.gibbs import prior_precision as least_precision

    _positive(n=n, norm=norm, prior_precision=prior_precision, slope=slope)
    wanted, population = _asked(guarantee, neighbours, rows)
    lipschitz = slope * norm
    beta = least_precision(
        wanted, lipschitz=lipschitz, count=n, at_least=prior_precision, population=population, draws=draws
    )
    made = draw_event(1.0, lipschitz=lipschitz, strong_convexity=n * beta, population=population, draws=draws)
    extra = {"prior_precision": beta, "likelihood_power": 1.0}
    _emit("glm-concentrated", "prior_precision", beta, wanted, made, THEOREM, json, **extra)


def glm_diffused(
    n: Records,
    norm: Norm,
    prior_precision: PriorPrecision,
    guarantee: Wanted,
    slope: Slope = 1.0,
    neighbours: NeighboursName = "replace",
    rows: Rows = 1,
    draws: DrawCount = 1,
    json: Json = False,
) -> None:
    """Calibrate: the likelihood power, at most 1, of draws from a linear model's posterior (algorithm 5)."""
    from vestry.mechanisms.gibbs import THEOREM, draw_event, likelihood_power

    _positive(n=n, norm=norm, prior_precision=prior_precision, slope=slope)
    wanted, population = _asked(guarantee, neighbours, rows)
    known: dict[str, Any] = {
        "lipschitz": slope * norm, "strong_convexity": n * prior_precision, "population": population, "draws": draws
    }  # fmt: skip
    power = likelihood_power(wanted, at_most=1.0, **known)
    extra = {"prior_precision": prior_precision, "likelihood_power": power}
    _emit("glm-diffused", "likelihood_power", power, wanted, draw_event(power, **known), THEOREM, json, **extra)


def langevin(
    lipschitz: Lipschitz,
    strong_convexity: StrongConvexity,
    smoothness: Annotated[float, typer.Option(help="M, of the whole potential, for every dataset.")],
    steps: Steps,
    step_size: StepSize,
    likelihood_power: Annotated[float, typer.Option(help="The power of the likelihood.")] = 1.0,
    slack: Annotated[float, typer.Option(help="How far a computed step may be from the exact one.")] = 0.0,
    start: Annotated[float, typer.Option(help="How far apart neighbours' chains may start; 0 if at one point.")] = 0.0,
    neighbours: NeighboursName = "replace",
    rows: Rows = 1,
    draws: DrawCount = 1,
    json: Json = False,
) -> None:
    """Price: the exact mu of a Langevin chain of finitely many steps; of several draws, each by as many steps."""
    from vestry.mechanisms.langevin import THEOREM
    from vestry.numerics import root, up
    from vestry.privacy import accountant
    from vestry.privacy.guarantee import GaussianDP

    made = _chain_event(
        lipschitz, strong_convexity, smoothness, steps, step_size, likelihood_power, slack, start, neighbours, rows,
        draws,
    )  # fmt: skip
    mu = up(root(accountant.squared_mu(made)))
    promise = GaussianDP(mu, neighbours=made.neighbours)
    _emit("langevin", "mu", mu, promise, made, THEOREM, json)


def objective(
    lipschitz: Lipschitz,
    smoothness: Smoothness,
    regularisation: Regularisation,
    guarantee: Wanted,
    analysis: ObjectiveAnalysis = "auto",
    one_sided: OneSided = True,
    neighbours: NeighboursName = "replace",
    rows: Rows = 1,
    json: Json = False,
) -> None:
    """Calibrate: the standard deviation of the random linear term of objective perturbation."""
    from vestry.mechanisms.objective import THEOREMS, objective_event, objective_scale

    _positive(lipschitz=lipschitz, smoothness=smoothness, regularisation=regularisation)
    wanted, population = _asked(guarantee, neighbours, rows)

    def make(scale: float) -> Event:
        return objective_event(
            scale,
            lipschitz=lipschitz,
            smoothness=smoothness,
            regularisation=regularisation,
            population=population,
            one_sided=one_sided,
            analysis=analysis,
        )

    scale = objective_scale(make, wanted, regularisation)
    made = make(scale)
    _emit("objective", "scale", scale, wanted, made, THEOREMS[made.kind], json, analysis=made.kind)


def output(
    lipschitz: Lipschitz,
    regularisation: Regularisation,
    guarantee: Wanted,
    smoothness: Annotated[float | None, typer.Option(help="Not needed: how far the minimum moves is the same.")] = None,
    tolerance: Annotated[float, typer.Option(help="How far a computed minimum may be from the exact one.")] = 0.0,
    neighbours: NeighboursName = "replace",
    rows: Rows = 1,
    json: Json = False,
) -> None:
    """Calibrate: the standard deviation of the noise of output perturbation."""
    from vestry.mechanisms.output import THEOREM, output_event
    from vestry.privacy.calibrate import least

    _positive(lipschitz=lipschitz, regularisation=regularisation)
    if not tolerance >= 0:
        raise InvalidParameter("--tolerance", tolerance, "at least 0", "--tolerance 0")
    wanted, population = _asked(guarantee, neighbours, rows)
    moves = _records(population) * lipschitz / regularisation + 2 * tolerance
    scale = least(lambda x: output_event(x, moves), wanted)
    made = output_event(scale, moves)
    _emit("output", "scale", scale, wanted, made, THEOREM, json, sensitivity=moves)


def add_calibrations(app: typer.Typer) -> None:
    """Add these commands to `vestry calibrate`."""
    commands: dict[str, Callable[..., None]] = {
        "gibbs": gibbs,
        "glm-concentrated": glm_concentrated,
        "glm-diffused": glm_diffused,
        "langevin": langevin,
        "objective": objective,
        "output": output,
    }
    for name, command in commands.items():
        app.command(name)(command)


def add_curves(app: typer.Typer, show: Callable[..., None]) -> None:
    """Add the same mechanisms to `vestry curve`, whose `show` prints an event."""

    def gibbs_curve(
        lipschitz: Lipschitz,
        strong_convexity: StrongConvexity,
        at: At,
        neighbours: NeighboursName = "replace",
        rows: Rows = 1,
        draws: DrawCount = 1,
        orders: Orders = ORDERS,
        epsilons: Epsilons = EPSILONS,
        delta: Delta = None,
        plot: Plot = None,
        json: Json = False,
    ) -> None:
        """Curve: draws from a Gibbs posterior at a likelihood power."""
        from vestry.mechanisms.gibbs import draw_event

        _positive(lipschitz=lipschitz, strong_convexity=strong_convexity, at=at)
        known = {"lipschitz": lipschitz, "strong_convexity": strong_convexity}
        made = draw_event(at, **known, population=_population(neighbours, rows), draws=draws)
        kept = {"orders": orders, "epsilons": epsilons, "delta": delta, "plot": plot, "json": json}
        show("gibbs", "likelihood_power", at, made, **kept)

    def langevin_curve(
        lipschitz: Lipschitz,
        strong_convexity: StrongConvexity,
        smoothness: Annotated[float, typer.Option(help="M, of the whole potential, for every dataset.")],
        steps: Steps,
        step_size: StepSize,
        at: Annotated[float, typer.Option(help="The power of the likelihood.")] = 1.0,
        slack: Annotated[float, typer.Option(help="How far a computed step may be from the exact one.")] = 0.0,
        start: Annotated[float, typer.Option(help="How far apart neighbours' chains may start.")] = 0.0,
        neighbours: NeighboursName = "replace",
        rows: Rows = 1,
        draws: DrawCount = 1,
        orders: Orders = ORDERS,
        epsilons: Epsilons = EPSILONS,
        delta: Delta = None,
        plot: Plot = None,
        json: Json = False,
    ) -> None:
        """Curve: a Langevin chain of finitely many steps."""
        made = _chain_event(
            lipschitz, strong_convexity, smoothness, steps, step_size, at, slack, start, neighbours, rows, draws
        )
        kept = {"orders": orders, "epsilons": epsilons, "delta": delta, "plot": plot, "json": json}
        show("langevin", "likelihood_power", at, made, **kept)

    def objective_curve(
        lipschitz: Lipschitz,
        smoothness: Smoothness,
        regularisation: Regularisation,
        at: At,
        analysis: ObjectiveAnalysis = "auto",
        one_sided: OneSided = True,
        neighbours: NeighboursName = "replace",
        rows: Rows = 1,
        orders: Orders = ORDERS,
        epsilons: Epsilons = EPSILONS,
        delta: Delta = None,
        plot: Plot = None,
        json: Json = False,
    ) -> None:
        """Curve: objective perturbation with a random linear term of a given standard deviation."""
        from vestry.mechanisms.objective import objective_event

        _positive(lipschitz=lipschitz, smoothness=smoothness, regularisation=regularisation, at=at)
        made = objective_event(
            at,
            lipschitz=lipschitz,
            smoothness=smoothness,
            regularisation=regularisation,
            population=_population(neighbours, rows),
            one_sided=one_sided,
            analysis=analysis,
        )
        kept = {"orders": orders, "epsilons": epsilons, "delta": delta, "plot": plot, "json": json}
        show("objective", "scale", at, made, **kept)

    def output_curve(
        lipschitz: Lipschitz,
        regularisation: Regularisation,
        at: At,
        tolerance: Annotated[float, typer.Option(help="How far a computed minimum may be from the exact one.")] = 0.0,
        neighbours: NeighboursName = "replace",
        rows: Rows = 1,
        orders: Orders = ORDERS,
        epsilons: Epsilons = EPSILONS,
        delta: Delta = None,
        plot: Plot = None,
        json: Json = False,
    ) -> None:
        """Curve: output perturbation with noise of a given standard deviation."""
        from vestry.mechanisms.output import output_event

        _positive(lipschitz=lipschitz, regularisation=regularisation, at=at)
        moves = _records(_population(neighbours, rows)) * lipschitz / regularisation + 2 * tolerance
        kept = {"orders": orders, "epsilons": epsilons, "delta": delta, "plot": plot, "json": json}
        show("output", "scale", at, output_event(at, moves), **kept)

    commands: dict[str, Callable[..., None]] = {
        "gibbs": gibbs_curve,
        "langevin": langevin_curve,
        "objective": objective_curve,
        "output": output_curve,
    }
    for name, command in commands.items():
        command.__annotations__ = {key: globals().get(value, value) for key, value in command.__annotations__.items()}
        app.command(name)(command)


def _chain_event(
    lipschitz: float,
    strong_convexity: float,
    smoothness: float,
    steps: str,
    step_size: str,
    likelihood_power: float,
    slack: float,
    start: float,
    neighbours: str,
    rows: int,
    draws: int,
) -> Event:
    from vestry.privacy.law import event

    _positive(lipschitz=lipschitz, strong_convexity=strong_convexity, smoothness=smoothness)
    _positive(likelihood_power=likelihood_power)
    sizes, counts = _list("--step-size", step_size), _list("--steps", steps)
    if len(sizes) != len(counts):
        raise InvalidParameter("--steps", steps, "one number for each step size", "--steps 1000 --step-size 0.01")
    if smoothness < strong_convexity or not all(0 < eta * smoothness < 2 for eta in sizes):
        raise InvalidParameter(
            "--step-size", step_size, f"above 0 and below 2/smoothness = {2 / smoothness:g}", "a shorter step"
        )
    population = _population(neighbours, rows)
    single = event(
        "langevin",
        sensitivity=likelihood_power * _records(population) * lipschitz,
        strong_convexity=strong_convexity,
        smoothness=smoothness,
        step_sizes=tuple(sizes),
        steps=tuple(counts),
        slacks=tuple(slack for _ in sizes),
        start=start,
    )
    return single.times(draws).under(population.neighbours)


def _asked(guarantee: str, neighbours: str, rows: int) -> tuple[Guarantee, Population]:
    from vestry.privacy.guarantee import Guarantee

    population = _population(neighbours, rows)
    return Guarantee.parse(guarantee, neighbours=population.neighbours), population


def _population(neighbours: str, rows: int) -> Population:
    from vestry.privacy.neighbours import Neighbours
    from vestry.statistics.population import Population

    return Population(Neighbours.parse(neighbours), rows)


def _records(population: Population) -> int:
    return population.rows * (2 if population.replaces else 1)


def _positive(**given: float) -> None:
    for name, value in given.items():
        if not 0 < value < float("inf"):
            option = "--" + name.replace("_", "-")
            raise InvalidParameter(option, value, "a number above 0", f"{option} 1")


def _list(name: str, text: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise InvalidParameter(name, text, "numbers with commas between them", f"for example {name} 0.01") from None


def _emit(
    mechanism: str,
    parameter: str,
    value: float,
    guarantee: Guarantee,
    made: Event,
    theorem: str,
    as_json: bool,
    **extra: Any,
) -> None:
    from vestry.privacy.guarantee import decimal

    record = {
        "mechanism": mechanism,
        "parameter": parameter,
        "value": value,
        **extra,
        "guarantee": guarantee.to_dict(),
        "event": made.to_dict(),
        "theorem": theorem,
    }
    emit(record, f"{parameter} = {decimal(value)}\nmeets {guarantee} under {guarantee.neighbours}", as_json=as_json)
