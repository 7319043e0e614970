"""Whether 90 % intervals of a linear regression by noisy moments hold the truth in nine of ten simulated studies.

    python quality/coverage/linear.py                  # each cell to 1,000 studies; goes on where it stopped
    python quality/coverage/linear.py --studies 200 n1e3-d4
    python quality/coverage/linear.py --show           # the table of what was run
    python quality/coverage/linear.py --ranks 1000     # rank calibration of the sampler: so many studies of each kind

A study draws predictors, coefficients from the prior (scaled coefficients N(0, .3^2); `fixed` cells keep them at .3
and -.3 in turn), normal errors of sd .2, and the noise of the release; nothing is clipped. Then the posterior is
computed as a release is read, with the sampler's density compiled (`compiled_gram.py`). Beside it are intervals that
ignore the noise: plug-in, and AdaSSP (a ridge as large as the noise asks for). `linear.json` keeps, by cell: studies,
refusals, and for each coefficient and the residual sd how often the interval held the truth, and the sum of widths.

Rank calibration draws everything from its prior: the Gram matrix (m uniform, correlation uniform over matrices),
coefficients, a residual sd that is uniform on (0, 1), all kept with the probability that the outcome's mean square is
allowed. Then where each truth lies in its posterior is uniform on (0, 1), also among the releases whose Gram matrix was
sampled, and among those in closed form (which has no prior of the Gram matrix, so it need not be). Twenty bins are
compared by chi-squared; a value above 43.8 has probability .001 (19 degrees of freedom).
"""

from __future__ import annotations

import argparse
import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import compiled_gram
import numpy as np

from vestry.mechanisms.additive_noise import calibrate_noise
from vestry.posterior.mixture import NormalMixture
from vestry.privacy.guarantee import Guarantee
from vestry.privacy.neighbours import Adjacency
from vestry.regression.gram_sampler import GramTarget
from vestry.regression.moment_posterior import LinearPosterior
from vestry.regression.moment_reader import MomentReader
from vestry.regression.moments import LevelColumn, Moments, NumberColumn
from vestry.schema.design_matrix import HALF

RESULTS = Path(__file__).with_suffix(".json")
TAU, SIGMA, SPREAD, SAVED = 0.3, 0.2, 0.3, 20


@dataclass(frozen=True)
class Cell:
    """One kind of study."""

    n: int
    d: int = 4
    epsilon: float = 1.0
    noise: str = "discrete-gaussian"
    private: bool = False
    blocks: tuple[int, ...] = ()
    correlation: float = 0.5
    fixed: bool = False

    @property
    def moments(self) -> Moments:
        """Numbers x0, x1 ... and y; columns of levels. d counts the coefficients of numbers and the intercept."""
        numbers = tuple(NumberColumn(name, -1.0, 1.0) for name in (*(f"x{k}" for k in range(self.d - 1)), "y"))
        blocks = tuple(LevelColumn(f"c{k}", tuple("abcdefgh"[:size])) for k, size in enumerate(self.blocks))
        return Moments(numbers, blocks)

    @property
    def reader(self) -> MomentReader:
        """The regression of y on all the others."""
        columns = self.moments
        named = (*(each.name for each in columns.numbers[:-1]), *(each.name for each in columns.blocks))
        return MomentReader(columns, "y", named, 1 / TAU**2)


CELLS = {
    **{f"n1e{k}-d{d}": Cell(10**k, d) for d in (2, 4, 10, 20) for k in (3, 4, 5, 6)},
    "eps0.1": Cell(10_000, epsilon=0.1),
    "eps5": Cell(1_000, epsilon=5.0),
    "laplace": Cell(1_000, 2, noise="discrete-laplace"),
    "laplace-d4": Cell(10_000, noise="discrete-laplace"),
    "private-n": Cell(10_000, private=True),
    "private-n1e3": Cell(1_000, private=True),
    "one-block": Cell(20_000, 3, blocks=(3,)),
    "three-blocks": Cell(50_000, 3, blocks=(3, 2, 4)),
    "correlated": Cell(100_000, correlation=0.9),
    "n100": Cell(100),
    "fixed": Cell(10_000, fixed=True),
}


def mechanism(cell: Cell) -> Any:
    """Return the release's mechanism, as a study would calibrate it."""
    adjacency = Adjacency("add-remove") if cell.private else Adjacency("replace", 1, cell.n)
    text = f"epsilon={cell.epsilon}" + ("" if "laplace" in cell.noise else ",delta=1e-6")
    return calibrate_noise(cell.noise, cell.moments.layout(adjacency), adjacency, Guarantee.parse(text))


def features(cell: Cell, rng: np.random.Generator) -> np.ndarray:
    """Return the Gram matrix of 1, numbers and indicators: from rows, or from its own distribution if rows are many."""
    k = cell.d - 1
    covariance = SPREAD**2 * (cell.correlation * np.ones((k, k)) + (1 - cell.correlation) * np.eye(k))
    root = np.linalg.cholesky(covariance)
    if cell.n > 50_000:
        mean = rng.normal(size=k) @ root.T / math.sqrt(cell.n)
        lower = np.tril(rng.normal(size=(k, k)), -1)
        lower[np.diag_indices(k)] = np.sqrt(rng.chisquare(cell.n - 1 - np.arange(k)))
        scatter = root @ lower @ lower.T @ root.T + cell.n * np.outer(mean, mean)
        return np.block([[np.full((1, 1), float(cell.n)), cell.n * mean[None]], [cell.n * mean[:, None], scatter]])
    columns = [np.ones((cell.n, 1)), rng.normal(size=(cell.n, k)) @ root.T]
    columns += [np.eye(size)[rng.integers(0, size, cell.n)][:, 1:] for size in cell.blocks]
    x = np.concatenate(columns, axis=1)
    return x.T @ x


def study(cell: Cell, run: Any, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, Any]:
    """Return the true coefficients, the exact matrix with the outcome last, and the released statistics."""
    gram = features(cell, rng)
    d = len(gram)
    theta = np.where(np.arange(d) % 2, -TAU, TAU) if cell.fixed else rng.normal(0, TAU, d)
    cross = gram @ theta + SIGMA * np.linalg.cholesky(gram) @ rng.normal(size=d)
    square = SIGMA**2 * rng.chisquare(cell.n - d) + cross @ np.linalg.solve(gram, cross)
    full = np.block([[gram, cross[:, None]], [cross[None], np.full((1, 1), square)]])
    # Among the moments the outcome is the last number, before the indicators.
    order = [*range(cell.d), d, *range(cell.d, d)]
    places = full[np.ix_(order, order)]
    pairs = cell.moments.pairs if cell.private else cell.moments.pairs[:-1]
    exact = [round(float(places[i, j]) * HALF) for i, j in pairs]
    scale = run.scale
    added = (rng.laplace if cell.noise == "discrete-laplace" else rng.normal)(0, scale, len(exact))
    return theta, full, run.statistics(tuple(int(x + round(e)) for x, e in zip(exact, added, strict=True)))


def scaled(found: LinearPosterior) -> list[NormalMixture]:
    """Return the marginals of the scaled coefficients, the intercept first."""
    return [found.combination(row, 0.0) for row in np.eye(len(found.units.shift))]


def ridge(reader: MomentReader, statistics: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return AdaSSP's estimate and the naive standard errors beside it."""
    noisy = reader.gram(statistics)
    d, least = noisy.dimension, max(0.0, float(np.linalg.eigvalsh(noisy.gram)[0]))
    lam = max(0.0, noisy.deviation * math.sqrt(d * math.log(2 * d * d / 0.05)) - least)
    s = noisy.gram + lam * np.eye(d)
    theta = np.linalg.solve(s, noisy.matrix[:-1, -1])
    phi = np.append(-theta, 1.0)
    s2 = max(float(phi @ noisy.matrix @ phi), 1e-6) / noisy.freedom
    return theta, np.sqrt(np.maximum(s2 * np.diag(np.linalg.inv(s)), 0.0))


def run_study(cell: Cell, run: Any, seed: list[int]) -> dict[str, Any]:
    """Return what one study adds to a cell's sums."""
    rng = np.random.default_rng(seed)
    theta, _, statistics = study(cell, run, rng)
    reader = cell.reader
    estimate, errors = ridge(reader, statistics)
    record: dict[str, Any] = {"studies": 1, "refused": 0, "adassp": (np.abs(theta - estimate) < 1.645 * errors) * 1.0}
    record["kappa"] = min(reader.gram(statistics).kappa, 1e3)
    for name, made in (("aware", reader.noise_aware(statistics)), ("plug-in", reader.plug_in(statistics))):
        size = len(theta) + 1
        if not isinstance(made, LinearPosterior):
            record["refused"] += name == "aware"
            record[name], record[f"{name}-width"] = np.zeros(size), np.zeros(size)
            continue
        ends = np.array([each.interval(0.9) for each in (*scaled(made), made.marginal(len(theta)))])
        truth = np.append(theta, SIGMA)
        record[name] = ((ends[:, 0] <= truth) & (truth <= ends[:, 1])) * 1.0
        record[f"{name}-width"] = ends[:, 1] - ends[:, 0]
    return record


RANKED = {
    "rank-d2": Cell(1_000, 2),
    "rank-d4": Cell(1_000, 4),
    "rank-laplace": Cell(1_000, 2, noise="discrete-laplace"),
}
BINS = 20


def prior_gram(cell: Cell, rng: np.random.Generator) -> np.ndarray:
    """Draw n M from its prior: a uniform correlation matrix by the C-vine, as sizes of partial correlations."""
    d = cell.d
    lower = np.zeros((d, d))
    lower[0, 0] = 1.0
    for j in range(1, d):
        rest = 1.0
        for k in range(j):
            shape = (d - k) / 2  # beta(shape, shape) on (-1, 1): LKJ(1)
            lower[j, k] = (2 * rng.beta(shape, shape) - 1) * math.sqrt(rest)
            rest -= lower[j, k] ** 2
        lower[j, j] = math.sqrt(rest)
    lower *= np.sqrt(np.append(1.0, rng.random(d - 1)))[:, None]
    return cell.n * lower @ lower.T


def prior_study(cell: Cell, rng: np.random.Generator) -> tuple[np.ndarray, float, np.ndarray]:
    """Draw coefficients, residual sd and the matrix, the outcome last, until the outcome's mean square is allowed."""
    while True:
        gram, sigma, theta = prior_gram(cell, rng), rng.random(), rng.normal(0, TAU, cell.d)
        cross = gram @ theta + sigma * np.linalg.cholesky(gram) @ rng.normal(size=cell.d)
        square = sigma**2 * rng.chisquare(cell.n - cell.d) + cross @ np.linalg.solve(gram, cross)
        if rng.random() < 1 / (1 + math.exp(min(700.0, (square / cell.n - 1) / 0.02))):
            return theta, sigma, np.block([[gram, cross[:, None]], [cross[None], np.full((1, 1), square)]])


def run_rank(cell: Cell, run: Any, seed: list[int]) -> tuple[str, np.ndarray]:
    """Return which computation answered, and where the coefficients and the residual sd lie in their posteriors."""
    rng = np.random.default_rng(seed)
    theta, sigma, full = prior_study(cell, rng)
    exact = [round(float(full[i, j]) * HALF) for i, j in cell.moments.pairs[:-1]]
    added = (rng.laplace if cell.noise == "discrete-laplace" else rng.normal)(0, run.scale, len(exact))
    made = cell.reader.noise_aware(run.statistics(tuple(int(x + round(e)) for x, e in zip(exact, added, strict=True))))
    if not isinstance(made, LinearPosterior):
        return "refused", np.zeros(0)
    places = [float(each.cdf(value)) for each, value in zip(scaled(made), theta, strict=True)]
    return ("sampled" if made.fit is None else "closed"), np.array([*places, float(made.marginal(cell.d).cdf(sigma))])


def ranks(name: str, studies: int) -> None:
    """Bring a rank calibration to so many studies."""
    cell, place = RANKED[name], 1000 + list(RANKED).index(name)
    run, found = mechanism(cell), load().get(name, {"studies": 0})
    compile_sampler(cell, run)
    for number in range(found["studies"], studies):
        how, places = run_rank(cell, run, [place, number])
        found["studies"] += 1
        counts = np.array(found.get(how, np.zeros((len(places), BINS), int)))
        if len(places):
            counts[np.arange(len(places)), np.minimum((places * BINS).astype(int), BINS - 1)] += 1
        found[how] = counts.tolist() if len(places) else found.get(how, 0) + 1
        if number % SAVED == SAVED - 1 or number == studies - 1:
            RESULTS.write_text(json.dumps({**load(), name: found}, indent=1) + "\n")


def show_ranks() -> None:
    """Print chi-squared of each parameter's bins, by computation."""
    for name, found in load().items():
        for how in ("sampled", "closed") if name in RANKED else ():
            if how in found:
                counts = np.array(found[how], dtype=float)
                expected = counts.sum(axis=1, keepdims=True) / BINS
                chi2 = ((counts - expected) ** 2 / expected).sum(axis=1)
                told = " ".join(f"{x:.1f}" for x in chi2)
                print(f"{name:<14}{int(counts[0].sum()):>8} {how:<8} chi-squared, intercept, slopes, sd: {told}")


def load() -> dict[str, Any]:
    """Return the sums so far."""
    return dict(json.loads(RESULTS.read_text())) if RESULTS.exists() else {}


def compile_sampler(cell: Cell, run: Any) -> None:
    """Sample with the compiled density, after a look whether it is the library's own."""
    rng = np.random.default_rng(0)
    if not cell.blocks:
        noisy = cell.reader.gram(study(cell, run, rng)[2])
        compiled_gram.check(GramTarget(noisy, TAU**2), rng)
        compiled_gram.use()


def run_cell(name: str, studies: int) -> None:
    """Bring a cell to so many studies, and save now and then."""
    cell, place = CELLS[name], list(CELLS).index(name)
    run = mechanism(cell)
    compile_sampler(cell, run)
    sums = {key: np.array(value) for key, value in load().get(name, {}).items()}
    done = int(sums.get("studies", np.zeros(())))
    for number in range(done, studies):
        for key, value in run_study(cell, run, [place, number]).items():
            sums[key] = sums.get(key, 0) + np.array(value)
        if number % SAVED == SAVED - 1 or number == studies - 1:
            every = load()
            every[name] = {key: np.asarray(value).tolist() for key, value in sums.items()}
            RESULTS.write_text(json.dumps(every, indent=1) + "\n")


def show() -> None:
    """Print coverage and mean width of the slopes, by cell."""
    heads = "  intercept slopes     sd  width   plug-in  AdaSSP  of each"
    print(f"{'cell':<14}{'studies':>8}{'refused':>8}{'kappa':>7}{heads}")
    for name, sums in load().items():
        if name in RANKED:
            continue
        answered = sums["studies"] - sums["refused"]
        if not answered:
            print(f"{name:<14}{sums['studies']:>8}{sums['refused']:>8}{sums['kappa'] / sums['studies']:>7.2f}  none")
            continue
        aware = np.array(sums["aware"]) / answered
        width = np.array(sums["aware-width"])[1:-1].mean() / answered
        plug, ada = (np.array(sums[key])[1:].mean() / sums["studies"] for key in ("plug-in", "adassp"))
        each = " ".join(f"{x:.3f}" for x in aware[:-1][:6])
        print(
            f"{name:<14}{sums['studies']:>8}{sums['refused']:>8}{sums['kappa'] / sums['studies']:>7.2f}"
            f"  {aware[0]:>9.3f} {aware[1:-1].mean():>6.3f} {aware[-1]:>6.3f} {width:>6.4f}"
            f"  {plug:>7.3f} {ada:>7.3f}  {each}"
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Coverage of linear regression by noisy moments.")
    parser.add_argument("cells", nargs="*", help="all if none is named")
    parser.add_argument("--studies", type=int, default=1000)
    parser.add_argument("--ranks", type=int, default=0, metavar="STUDIES")
    parser.add_argument("--show", action="store_true")
    given = parser.parse_args()
    if given.ranks:
        for each in given.cells or RANKED:
            ranks(each, given.ranks)
    elif not given.show:
        for each in given.cells or CELLS:
            run_cell(each, given.studies)
    show()
    show_ranks()
