"""Hidden states from noisy counts: Gibbs sweeps over what was released, as many as one likes, for nothing.

Noise-aware, the default: true counts are latent, and states see the noisy ones with the noise summed out
(`vestry.hmm.latent_counts`). Plug-in, for that paper's figures: the noisy counts, none below 0, are put into the model
as if they were exact [FouldsGWC16, sec. 5], and probabilities near a boundary between states are too sure.

States have no names of their own. Every draw's states are matched to those of the last draw of the first chain, by
their emission tables; then all are numbered by decreasing mean probability of the first feature's first level.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NoReturn

import numpy as np

from vestry.errors import InvalidParameter, VestryError
from vestry.mcmc.late_import import require_burn_in
from vestry.numerics import Array
from vestry.posterior.arviz_tree import Names
from vestry.posterior.discrete_noise import IntegerNoise, noise_of
from vestry.posterior.posterior import generator_of
from vestry.posterior.reader import NOISE_AWARE, NOT_CALIBRATED, PLUG_IN, Reader, ReadRelease
from vestry.posterior.sample import JointSample
from vestry.releases import NoisyStatistics, Release
from vestry.validation import is_number, require_choice, require_number, require_whole

SWEEPS, CHAINS = 200, 4
# Beyond these a sum over true counts takes too many terms, and the posterior is plug-in.
LARGEST_COUNT, LARGEST_SCALE = 1e8, 1e6


@dataclass(frozen=True)
class Options:
    """How states are sampled.

    Attributes
    ----------
    states
        How many there are; the release's own number if None.
    sweeps, burn_in, chains
        Sweeps of each chain, how many of the first are omitted (half, if None), and how many chains run.
    sampler
        `blocked` (a region's whole path at a time) or, for the plug-in posterior alone, `collapsed` (a cell at a time).
    held_out
        The share of cells that are omitted and predicted; None for none.
    rng
        A generator; if None, one that is seeded by the release's hash.
    """

    states: int | None = None
    sweeps: int = SWEEPS
    burn_in: int | None = None
    chains: int = CHAINS
    sampler: str = "blocked"
    held_out: float | None = None
    rng: np.random.Generator | None = None

    def __post_init__(self) -> None:
        require_whole("states", 2 if self.states is None else self.states, least=2)
        require_whole("chains", self.chains)
        require_burn_in(self.sweeps, 0 if self.burn_in is None else self.burn_in, "sweeps")
        require_choice("sampler", self.sampler, ("blocked", "collapsed"))
        if self.held_out is not None:
            require_number("held_out", self.held_out, "held_out=0.1", above=0, below=1)
        generator_of(self.rng)

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Options:
        """Read keywords, or refuse one that is not known."""
        unknown = set(given) - set(cls.__dataclass_fields__)
        if unknown:
            named = ", ".join(cls.__dataclass_fields__)
            raise InvalidParameter("an option", sorted(unknown)[0], f"one of {named}", "states=3")
        return cls(**given)


@dataclass(frozen=True, eq=False)
class States:
    """What the sweeps say.

    Attributes
    ----------
    regions, times
        The rows and columns of the map.
    probabilities
        How often each cell was in each state, (regions, times, states).
    emissions
        By feature, the mean probability of each level in each state, (states, levels).
    transitions
        The mean probability of each move, (states, states).
    start
        The same of the first time's state.
    log_likelihood
        The log predictive probability of the cells that were held out, by their noisy counts, averaged over chains;
        None if none were.
    held_out
        Which cells these are, (regions, times).
    """

    regions: tuple[str, ...]
    times: tuple[str, ...]
    probabilities: Array
    emissions: Mapping[str, Array]
    transitions: Array
    start: Array
    log_likelihood: float | None
    held_out: np.ndarray | None

    @property
    def most_probable(self) -> np.ndarray:
        """The most probable state of each cell, counted from 1, (regions, times)."""
        return np.asarray(self.probabilities.argmax(axis=-1) + 1)


@dataclass(frozen=True, eq=False)
class NoisyTable:
    """What a release says of its cells, negative counts too.

    Attributes
    ----------
    counts
        By feature, (regions, times, levels); beside totals, a feature of two levels has the first alone.
    totals
        The number of entries, (regions, times); None if every level is counted.
    noise
        The noise of every count and total.
    """

    counts: list[Array]
    totals: Array | None
    noise: IntegerNoise

    @property
    def can_be_summed(self) -> bool:
        """Whether the noise can be summed out."""
        tables = [*self.counts, *([] if self.totals is None else [self.totals])]
        return self.noise.scale <= LARGEST_SCALE and max(np.abs(table).max() for table in tables) <= LARGEST_COUNT


@dataclass(frozen=True, eq=False)
class HiddenStates(Reader):
    """A hidden Markov model with naive Bayes emissions, and how its release lays out the counts.

    Attributes
    ----------
    states, alpha, beta
        The number of states, and the concentrations of transition rows and emission tables.
    sequence
        The columns of regions and times.
    regions, times, features, levels
        Their levels, in order.
    totals
        Whether each cell has a noisy total, beside which features of two levels are counted by the first alone.
    """

    states: int
    alpha: float
    beta: float
    sequence: Mapping[str, str]
    regions: tuple[str, ...]
    times: tuple[str, ...]
    features: tuple[str, ...]
    levels: tuple[tuple[str, ...], ...]
    totals: bool

    parameter = "probability"
    display = "states"
    sampled = True

    @property
    def dimension(self) -> int:
        """Every level of every feature."""
        return sum(map(len, self.levels))

    def noise_aware(self, statistics: NoisyStatistics) -> NoReturn:
        """Refuse: states are sampled from all regions together."""
        raise VestryError("states are sampled from all regions together; compute the posterior from the release.")

    def plug_in(self, statistics: NoisyStatistics) -> NoReturn:
        """Refuse, as `noise_aware`."""
        self.noise_aware(statistics)

    def predict(self, theta: Array, size: int, rng: np.random.Generator) -> Array:
        """Draw how many of `size` new entries in a state have each level."""
        ends = np.cumsum([len(names) for names in self.levels])
        parts = [theta[:, end - len(names) : end] for end, names in zip(ends, self.levels, strict=True)]
        counted = [rng.multinomial(size, part / part.sum(axis=1, keepdims=True)) for part in parts]
        return np.concatenate(counted, axis=1).astype(float)

    def noisy(self, release: Release) -> NoisyTable:
        """Return the noisy counts as they were released, and their noise."""
        sizes = [1 if self.totals and len(names) == 2 else len(names) for names in self.levels]
        width = sum(sizes) + self.totals
        rows, noises = [], set()
        for region in self.regions:
            content = release.contents.get(region)
            if not isinstance(content, NoisyStatistics) or len(content.values) != width * len(self.times):
                raise InvalidParameter(f"the counts of {region}", "others", "those of the layout", "the release's own")
            rows.append([float(value) for value in content.values])
            noises.add(noise_of(content))
        if len(noises) > 1:
            raise InvalidParameter("the noise of the regions", noises, "the same in each", "the release's own")
        table = np.array(rows).reshape(len(self.regions), len(self.times), width)
        ends = np.cumsum(sizes) + self.totals
        counts = [table[..., end - size : end] for end, size in zip(ends, sizes, strict=True)]
        return NoisyTable(counts, table[..., 0] if self.totals else None, noises.pop())

    def counts(self, release: Release) -> list[Array]:
        """Return the noisy counts of each feature, none below 0, (regions, times, levels)."""
        noisy, tables = self.noisy(release), []
        for part, names in zip(noisy.counts, self.levels, strict=True):
            rest = [] if noisy.totals is None or part.shape[-1] == len(names) else [noisy.totals[..., None] - part]
            tables.append(np.maximum(np.concatenate([part, *rest], axis=-1), 0.0))
        return tables

    def read(self, release: Release, method: str, options: Mapping[str, Any], *, other_prior: bool) -> ReadRelease:
        """Return the states, sampled when they are first looked at; plug-in where the noise cannot be summed out."""
        chosen, cells = Options.of(options), len(self.regions) * len(self.times)
        states = self.states if chosen.states is None else chosen.states
        if states > cells:
            raise InvalidParameter("states", states, f"from 2 to {cells}, the number of cells", "states=2")
        if method == NOISE_AWARE and chosen.sampler != "blocked":
            instead = f'sampler="blocked", or method="{PLUG_IN}"'
            raise InvalidParameter("sampler", chosen.sampler, "blocked where the noise is summed out", instead)
        if method == NOISE_AWARE and not self.noisy(release).can_be_summed:
            method = PLUG_IN
        distributions: Any = StateDistributions(self, release, method, chosen, states)
        return ReadRelease(self, distributions, method, "state")

    def interval_method(self, label: str, *, several_rows: bool) -> str:
        """Say that intervals come from draws of a Markov chain; measured, they cover .82 to .89."""
        method = f"Markov chain, {super().interval_method(label, several_rows=several_rows)}"
        return method if NOT_CALIBRATED in method else f"{method}: {NOT_CALIBRATED}"

    def widths_of(self, *, of_draws: bool) -> tuple[str, ...]:
        """Say that a forecast is of counts, for which the release has no interval."""
        return ("range of a cell's count (no interval)",)

    def is_ready(self, distributions: Any) -> bool:
        """Tell whether the states were sampled."""
        return "sampled" in vars(distributions)

    def state_map(self, distributions: Any) -> States:
        """Return the map of hidden states with their tables."""
        return distributions.states()  # type: ignore[no-any-return]

    def variables(self, posterior: Any, rng: np.random.Generator, chains: int, draws: int) -> Any:
        """Return what was sampled."""
        return posterior.distributions.variables()


@dataclass(frozen=True, eq=False)
class Sampled:
    """Draws whose states have names: the axes are chain, draw, then those of the variable."""

    paths: np.ndarray
    emissions: tuple[Array, ...]
    transitions: Array
    log_likelihood: float | None
    held_out: np.ndarray | None


class StateDistributions(Mapping[str, JointSample]):
    """The emission tables of each state, and the map of states; sampled once, when asked for.

    After the release nothing here depends on the number of entries: neither what is held nor how long a sweep takes.
    """

    def __init__(self, reading: HiddenStates, release: Release, method: str, options: Options, states: int) -> None:
        self.reader, self.release, self.method, self.options, self.number = reading, release, method, options, states

    def __getitem__(self, name: str) -> JointSample:
        return self._by_state[name]

    def __iter__(self) -> Iterator[str]:
        return (f"state {place + 1}" for place in range(self.number))

    def __len__(self) -> int:
        return self.number

    @cached_property
    def _by_state(self) -> dict[str, JointSample]:
        emissions = [table.reshape(-1, *table.shape[2:]) for table in self.sampled.emissions]
        tables = [np.concatenate([table[:, place] for table in emissions], axis=1) for place in range(self.number)]
        return dict(zip(self, map(JointSample, tables), strict=True))

    @cached_property
    def sampled(self) -> Sampled:
        """Run the sweeps."""
        import vestry.hmm as samplers

        reading, options = self.reader, self.options
        rng = options.rng or np.random.default_rng(list(bytes.fromhex(self.release.to_dict()["sha256"])))
        hidden: np.ndarray | None = None
        if options.held_out is not None:
            hidden = np.zeros((len(reading.regions), len(reading.times)), bool)
            hidden.flat[rng.permutation(hidden.size)[: max(1, round(options.held_out * hidden.size))]] = True
        given: dict[str, Any] = {
            "states": self.number,
            "sweeps": options.sweeps,
            "burn_in": options.sweeps // 2 if options.burn_in is None else options.burn_in,
            "rng": rng,
            "alpha": reading.alpha,
            "beta": reading.beta,
            "chains": options.chains,
            "held_out": hidden,
        }
        counts = reading.counts(self.release)
        if self.method == NOISE_AWARE:
            noisy = reading.noisy(self.release)
            draws = samplers.noise_aware_gibbs(noisy.counts, totals=noisy.totals, noise=noisy.noise, **given).states
        else:
            run = samplers.blocked_gibbs if options.sampler == "blocked" else samplers.collapsed_gibbs
            draws = run(counts, **given)
        score = None
        if hidden is not None:
            score = float(samplers.held_out_log_likelihood(draws, counts, hidden).sum(axis=(1, 2)).mean())
        return match_states(draws, score, hidden)

    def states(self) -> States:
        """Return the map of states and the mean tables."""
        draws, reading = self.sampled, self.reader
        shares = np.stack([(draws.paths == place).mean(axis=(0, 1)) for place in range(self.number)], axis=-1)
        tables = [table.mean(axis=(0, 1)) for table in draws.emissions]
        moves = draws.transitions.mean(axis=(0, 1))
        return States(
            regions=reading.regions,
            times=reading.times,
            probabilities=shares,
            emissions=dict(zip(reading.features, tables, strict=True)),
            transitions=moves[:-1],
            start=moves[-1],
            log_likelihood=draws.log_likelihood,
            held_out=draws.held_out,
        )

    def variables(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return each variable as (draws, dimensions), and the coordinates of the dimensions."""
        draws, reading, places = self.sampled, self.reader, list(range(1, self.number + 1))
        named = Names("chain", "draw", "state", "state_before", "state_of_cell", "transition", "start")
        region, time = named(reading.sequence["region"]), named(reading.sequence["time"])
        coords: dict[str, Any] = {
            region: list(reading.regions), time: list(reading.times), "state": places, "state_before": places,
        }  # fmt: skip
        variables: dict[str, Any] = {
            "state_of_cell": (draws.paths + 1, [region, time]),
            "transition": (draws.transitions[..., :-1, :], ["state_before", "state"]),
            "start": (draws.transitions[..., -1, :], ["state"]),
        }
        for feature, names, table in zip(reading.features, reading.levels, draws.emissions, strict=True):
            variable, level = named(f"emission_{feature}"), named(f"{feature}_level")
            coords[level] = list(names)
            variables[variable] = table, ["state", level]
        return variables, coords


def match_states(draws: Any, score: float | None, hidden: np.ndarray | None) -> Sampled:
    """Give each draw's states the same names, by the rule at the top of this file."""
    from scipy.optimize import linear_sum_assignment

    wide = np.concatenate(draws.emissions, axis=-1)  # sweeps, batch, states, levels
    reference = wide[-1, 0]
    order: np.ndarray = np.empty(wide.shape[:3], dtype=int)  # new -> old
    for place in np.ndindex(*wide.shape[:2]):
        distance = ((reference[:, None] - wide[place][None]) ** 2).sum(axis=-1)
        order[place] = linear_sum_assignment(distance)[1]
    first = np.take_along_axis(draws.emissions[0][..., 0], order, axis=-1).mean(axis=(0, 1))
    state_draws = draws.renumbered(order[..., np.argsort(-first, kind="stable")])
    # Chains first, as ArviZ has them.
    tables = tuple(np.swapaxes(table, 0, 1) for table in state_draws.emissions)
    return Sampled(
        np.swapaxes(state_draws.paths, 0, 1), tables, np.swapaxes(state_draws.transitions, 0, 1), score, hidden
    )


def hidden_states_reader(family: Mapping[str, Any], prior: tuple[float, ...]) -> HiddenStates:
    """Read what a release says of its hidden Markov model."""
    if len(prior) != 2 or not all(is_number(each) and each > 0 for each in prior):
        raise InvalidParameter(
            "a hidden Markov prior", prior, "two finite numbers above 0: transitions and emissions", "prior=(1, 1)"
        )
    return HiddenStates(
        states=int(family["states"]),
        alpha=prior[0],
        beta=prior[1],
        sequence=dict(family["sequence"]),
        regions=tuple(family["regions"]),
        times=tuple(family["times"]),
        features=tuple(family["features"]),
        levels=tuple(tuple(names) for names in family["levels"]),
        totals=bool(family["totals"]),
    )
