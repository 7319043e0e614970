"""Hidden states on a page: the map of regions over time, what each state is like, and how sure that is."""

from __future__ import annotations

import math
from itertools import groupby
from typing import Any

import numpy as np

from vestry.display.formatting import Digits, number, roughly, whole
from vestry.display.plotting import COLOURS, INK, PAPER, WIDTH, figure
from vestry.display.templates import Album, Content, beside, paragraph, register, table
from vestry.errors import MissingExtra
from vestry.hmm.hidden_states import HiddenStates, States
from vestry.posterior.discrete_noise import law_of
from vestry.posterior.reader import NOISE_AWARE, PLUG_IN
from vestry.releases import NoisyStatistics
from vestry.report.content import Result

# How each state is filled, so that they differ without colour: solid, empty, then hatches from dense to thin.
_HATCHES = ("////", "....", "xxxx", "||||", "----", "oo", "++")
FILLS: tuple[tuple[str, str | None], ...] = ((INK, None), (PAPER, None), *((PAPER, each) for each in _HATCHES))
# A cell is marked as unsure below this probability of its state.
SURE = 0.9
# What is said of the counts, by the posterior's label.
_COUNTS = {
    NOISE_AWARE: "The model does not know the true counts: it sums over what they may have been, given the noisy ones.",
    PLUG_IN: "The noisy counts, none taken below 0, were put into the model as if they were exact: probabilities are"
    " too sure, and intervals too short. For comparison only.",
}
# Up to so many states cells were right as often as they were sure.
_MEASURED = 2
# Letters of runs that an alternative text tells.
_MOST_DESCRIBED = 900
# Inches: the widest map, a cell of it while there is room, a letter of a name, and what stands around names.
_WIDEST, _CELL, _LETTER, _AROUND = 9.6, 0.2, 0.08, 0.4


def headline(result: Result) -> str:
    """Say in one line what came out."""
    try:
        states = result.posterior.states()
    except MissingExtra:
        return f"noisy counts of {_cells(result)} cells; states are not sampled here"
    shares = [(states.most_probable == place + 1).mean() for place in range(states.probabilities.shape[-1])]
    described = ", ".join(f"state {place + 1} in {_share(share)}" for place, share in enumerate(shares))
    return f"{described} of {_cells(result)} cells"


def parts(result: Result, album: Album) -> list[Content]:
    """Write the map, the states and the noise."""
    parts: list[Content] = []
    try:
        states = result.posterior.states()
    except MissingExtra as error:
        parts.append(paragraph(f"The noisy counts are released, and all else follows from them. {error}."))
        return [*parts, *_noise_parts(result)]
    reading: Any = result.posterior.reader
    ends = result.posterior.interval(0.9)[["low", "high"]].to_numpy()
    region, time = reading.sequence["region"], reading.sequence["time"]
    runs = {name: _runs(states, row) for row, name in enumerate(states.regions)}
    parts += [
        paragraph(
            f"{_COUNTS[result.posterior.label]} States have no names of their own; they are numbered by decreasing"
            f" probability of {reading.features[0]}: {reading.levels[0][0]}."
        ),
        album.figure(
            state_map(states, region=region, time=time),
            alternative=_describe_map(runs),
            caption=f"The most probable state of each {region} (down) at each {time} (across). A dot marks a cell whose"
            f" state has a probability below {_share(SURE)}.",
        ),
        register(f"The most probable state of each {region}, and how long it lasts; {unsure(states)}",
              (region, "states"), [(name, "; ".join(each)) for name, each in runs.items()]),
        beside(
            album.figure(
                emission_bars(states, reading, ends.reshape(len(states.start), -1, 2)),
                alternative=_describe_bars(states, reading),
                caption="Probability of each level in each state, one panel per feature. Bars end at the mean; short"
                f" lines are 90 % credible intervals ({result.posterior.interval_method}).",
            ),
            _emissions(result),
        ),
        _moves(states, time),
        *_noise_parts(result),
    ]  # fmt: skip
    return parts


def state_map(states: States, *, region: str, time: str) -> Any:
    """Draw the most probable state of each cell: regions down, times across; as wide as the times need."""
    state_count, most = states.probabilities.shape[-1], states.most_probable
    rows, columns = most.shape
    names = _AROUND + _LETTER * max(map(len, states.regions))
    width = min(max(WIDTH, names + _CELL * columns), _WIDEST)
    with figure(1, path=None, width=width, height=0.95 + 0.3 * rows) as (fig, (axes,)):
        _legend(axes, state_count)
        for row, column in np.ndindex(rows, columns):
            axes.bar(column, 0.86, width=0.9, bottom=rows - 1 - row - 0.43, **_fill(int(most[row, column]) - 1))
        unsure = np.argwhere(states.probabilities.max(axis=-1) < SURE)
        axes.plot(unsure[:, 1], rows - 1 - unsure[:, 0], "o", markersize=4, markerfacecolor=PAPER,
                  markeredgecolor=COLOURS[1], linestyle="none")  # fmt: skip
        label = _LETTER * (max(map(len, states.times)) + 2)
        step = math.ceil(columns * label / max(width - names, 1.0))
        places = list(range(0, columns, max(1, step)))
        axes.set_xticks(places, [states.times[place] for place in places], fontsize=9, parse_math=False)
        axes.set_yticks(range(rows), list(reversed(states.regions)), fontsize=9, parse_math=False)
        axes.set(xlim=(-0.6, columns - 0.4), ylim=(-0.6, rows - 0.4), xlabel=time, ylabel=region)
        axes.grid(visible=False)
        axes.spines[:].set_visible(False)
        axes.tick_params(length=0)
        fig.legend(loc="outside upper left", ncols=min(state_count, 4))
    return fig


def emission_bars(states: States, reading: HiddenStates, ends: np.ndarray) -> Any:
    """Draw the probability of each level in each state, one panel per feature, with 90 % credible intervals `ends`."""
    state_count = states.probabilities.shape[-1]
    heights = tuple(0.42 + 0.17 * (state_count + 0.8) * len(names) for names in reading.levels)
    with figure(1, path=None, width=WIDTH, height=sum(heights) + 0.6, heights=heights) as (fig, panels):
        _legend(panels[0], state_count)
        start = 0
        for axes, feature, names in zip(panels, reading.features, reading.levels, strict=True):
            means = states.emissions[feature]
            for state in range(state_count):
                places = [-(level * (state_count + 0.8) + state) for level in range(len(names))]
                axes.barh(places, means[state], height=0.86, **_fill(state))
                for level, place in enumerate(places):
                    axes.plot(ends[state, start + level], [place, place], color=PAPER, linewidth=3.4)
                    axes.plot(ends[state, start + level], [place, place], color=COLOURS[1], linewidth=1.6)
            middles = [-(level * (state_count + 0.8) + (state_count - 1) / 2) for level in range(len(names))]
            axes.set_yticks(middles, list(names), fontsize=9, parse_math=False)
            axes.set_xlim(0, 1)
            axes.set_title(feature, parse_math=False)
            axes.grid(axis="y", visible=False)
            axes.tick_params(axis="y", length=0)
            start += len(names)
        panels[-1].set_xlabel("probability")
        fig.legend(loc="outside upper right", ncols=min(state_count, 4))
    return fig


def _legend(axes: Any, states: int) -> None:
    """Name the fills; the bars themselves lie outside every panel."""
    for state in range(states):
        axes.bar(-99, 0, label=f"state {state + 1}", **_fill(state))


def _fill(state: int) -> dict[str, Any]:
    colour, hatch = FILLS[state % len(FILLS)]
    return {"facecolor": colour, "hatch": hatch, "edgecolor": INK, "linewidth": 0.7}


def _runs(states: States, row: int) -> list[str]:
    """Return a region's states as runs: state 1 (M00 to M07)."""
    described, place = [], 0
    for state, same in groupby(states.most_probable[row]):
        size = len(list(same))
        ends = states.times[place], states.times[place + size - 1]
        described.append(f"state {state} ({ends[0] if size == 1 else f'{ends[0]} to {ends[1]}'})")
        place += size
    return described


def _describe_map(runs: dict[str, list[str]]) -> str:
    text = "Map of the most probable state of each region over time. "
    text += " ".join(f"{name}: {', '.join(each)}." for name, each in runs.items())
    return text if len(text) <= _MOST_DESCRIBED else text[:_MOST_DESCRIBED].rpartition(", ")[0] + "; the table has all."


def _describe_bars(states: States, reading: HiddenStates) -> str:
    described = []
    for state in range(states.probabilities.shape[-1]):
        named = [
            f"{feature} {names[int(states.emissions[feature][state].argmax())]}"
            f" ({states.emissions[feature][state].max():.2f})"
            for feature, names in zip(reading.features, reading.levels, strict=True)
        ]
        described.append(f"state {state + 1}: {', '.join(named)}")
    return "Bars of the probability of each level by state. Most probable in " + "; in ".join(described) + "."


def _emissions(result: Result) -> Any:
    rows = []
    for name, distribution in result.posterior.distributions.items():
        for place, label in enumerate(result.labels or result.release.labels):
            marginal = distribution.marginal(place)
            digits = Digits(float(np.sqrt(marginal.variance())), percent=True)
            rows.append((name, label, digits(marginal.mean()), digits.interval(*marginal.interval(0.9))))
    method = result.posterior.interval_method
    caption = f"The probability of each level in each state, with credible intervals ({method})"
    return table(caption, ("state", "level", "mean", "90 %"), rows, names=2)


def _moves(states: States, time: str) -> Any:
    state_count = states.transitions.shape[0]
    rows = [(f"state {place + 1}", *(roughly(float(x)) for x in row)) for place, row in enumerate(states.transitions)]
    rows.append((f"first {time}", *(roughly(float(x)) for x in states.start)))
    return table(
        f"The probability of each state at a {time}, given the state before it",
        ("before", *(f"state {place + 1}" for place in range(state_count))),
        rows,
    )


def _noise_parts(result: Result) -> list[Content]:
    contents = [each for each in result.release.contents.values() if isinstance(each, NoisyStatistics)]
    values = np.array([value for each in contents for value in each.values])
    noise = law_of(contents[0])
    sd = noise.deviation
    median = number(float(np.median(values)))
    return [
        paragraph(
            f"{noise.words} noise of scale {number(noise.scale)} was added to each of {whole(len(values))} counts: a"
            f" standard deviation of {number(sd)}. Half of the noisy counts are above {median}, and"
            f" {_share((values < 2 * sd).mean())} are below twice that deviation, where a count says little by itself."
            " A negative count comes from the noise; it is not a mistake. All of them are in release.json."
        ),
    ]


def unsure(states: States) -> str:
    """Say how many cells have no state that is sure; of three states those were right more often than they say."""
    largest = states.probabilities.max(axis=-1)
    count, state_count = int((largest < SURE).sum()), states.probabilities.shape[-1]
    careful = " and may be too careful: not calibrated" if count and state_count > _MEASURED else ""
    return f"{count} of {largest.size} cells are unsure (below {_share(SURE)}){careful}"


def _share(part: float) -> str:
    return f"{100 * part:.0f} %"


def _cells(result: Result) -> str:
    reading: Any = result.posterior.reader
    return whole(len(reading.regions) * len(reading.times))
