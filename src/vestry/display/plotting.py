"""Pictures of privacy curves and of posteriors.

One look for every plot, readable in black and white. Rows of a picture are named from the top, each with its
interval, its mean and its density.
"""

from __future__ import annotations

import base64
import html
import io
import math
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from vestry.display.formatting import SUPERSCRIPT, Digits, number, percent_up
from vestry.errors import InvalidParameter, VestryError, printable
from vestry.files import write_over
from vestry.numerics import Array
from vestry.posterior import Posterior, ReleasedDraws
from vestry.posterior.mixture import Marginal, PosteriorDistribution, tail_of
from vestry.posterior.posterior import NOTHING
from vestry.posterior.reader import DRAWS
from vestry.privacy import accountant
from vestry.privacy.event import Event
from vestry.validation import require_path

Target = Path | io.BytesIO
# Inches: a picture that a telephone shows whole.
WIDTH = 4.8


def privacy_curve(event: Event, *, title: str, path: Path | None = None) -> Any:
    """Draw an event's Renyi curve and its profile, and return the figure."""
    with figure(2, path=path, title=title) as (fig, (left, right)):
        renyi_panel(left, event)
        profile_panel(right, event)
    return fig


def renyi_panel(axes: Any, event: Event) -> None:
    """Draw the Renyi divergence against the order, as far as it is finite."""
    orders = 1 + np.geomspace(0.01, 200, 160)
    values = np.array([accountant.curve(event)(float(order)) for order in orders])
    finite = np.isfinite(values)
    axes.plot(orders[finite], values[finite], color=INK)
    if not finite.all():
        limit = orders[~finite].min()
        axes.axvline(limit, color=INK, linestyle=":", linewidth=1)
        axes.annotate("infinite beyond", (limit, 0.04), xycoords=("data", "axes fraction"), ha="right", va="bottom",
                      rotation=90, fontsize=8, xytext=(-3, 0), textcoords="offset points")  # fmt: skip
    axes.set(xscale="log", xlabel="order", ylabel="Renyi divergence")
    powers(axes.xaxis)
    if finite.any():  # an axis of powers needs something to show
        axes.set(yscale="log")
        powers(axes.yaxis)


def profile_panel(axes: Any, event: Event) -> None:
    """Draw delta against epsilon."""
    top = accountant.epsilon(event, 1e-9)
    epsilons = np.linspace(0, top if top < math.inf else 10.0, 120)
    deltas = np.array([accountant.delta(event, float(x)) for x in epsilons])
    axes.plot(epsilons[deltas > 0], deltas[deltas > 0], color=INK)
    axes.set(yscale="log", xlabel="epsilon", ylabel="delta", ylim=(1e-10, 2))
    powers(axes.yaxis)


@dataclass(frozen=True)
class WidthCurve:
    """How the expected width of an interval falls as more is spent.

    Attributes
    ----------
    names
        What is spent, and what the width is of.
    present, width, exact
        The present spend, its width, and the width without privacy; None where there is none.
    points
        Spends with their widths.
    guesses
        How often a guess about one unit can be right, at even odds, at each spend.
    """

    names: tuple[str, str]
    present: float
    width: float | None
    exact: float | None
    points: tuple[tuple[float, float], ...]
    guesses: tuple[float, ...]


def width_curves(curves: Sequence[WidthCurve], *, path: Path) -> Any:
    """Draw the width of each release against what it spends, with the present choice and the best guess marked."""
    heights = (1.0,) * len(curves)
    with figure(1, path=path, width=6.0, height=3.4 * len(curves), heights=heights) as (fig, panels):
        for axes, curve in zip(panels, curves, strict=True):
            _width_panel(axes, curve)
    return fig


def _width_panel(axes: Any, curve: WidthCurve) -> None:
    spends, widths = zip(*curve.points, strict=True)
    axes.plot(spends, widths, color=INK, label="with privacy")
    if curve.exact:
        axes.axhline(curve.exact, label="without", **line(1))
    if curve.width:
        axes.plot([curve.present], [curve.width], "o", color=INK, label="present choice")
    axes.set(xscale="log", ylabel="expected 90 % width", ylim=(0, 1.05 * max(widths)))
    axes.set_xlabel(printable(curve.names[0]), parse_math=False)
    axes.set_title(printable(curve.names[1]), parse_math=False)
    powers(axes.xaxis)
    above = axes.twiny()
    above.set(xscale="log", xlim=axes.get_xlim(), xlabel="a guess at even odds is right at most")
    shown = range(0, len(spends), max(1, len(spends) // 5))
    above.set_xticks([spends[each] for each in shown], [percent_up(curve.guesses[each]) for each in shown])
    above.minorticks_off()
    above.grid(visible=False)
    axes.legend()


def plot(posterior: Posterior, ax: Any = None, *, prob: float = 0.9, path: Target | None = None) -> Any:
    """Draw the posterior density of each parameter, groups side by side, with its credible interval; return the axes.

    Released draws have no density: they are shown as the points that they are.

    Parameters
    ----------
    posterior
        What is drawn.
    ax
        Axes of Matplotlib to draw into; if None, those of a new figure, which a notebook shows.
    prob
        The probability of the credible intervals.
    path
        A file to save a new figure to, instead of showing it.
    """
    tail_of(prob)
    if not posterior.distributions:
        raise VestryError(NOTHING)
    what = "" if posterior.label == DRAWS else f"{100 * prob:g} % credible intervals: "
    title = f"{what}{posterior.interval_method}"
    if ax is not None:
        _draw_rows(_checked_axes(ax), posterior, prob)
        ax.set_title(title)
        return ax
    height = 1.2 + 0.9 * min(max(2, len(posterior.distributions)), _MOST)
    with figure(1, path=path, width=6.4, height=height, title=title, shown=path is None) as (_, (axes,)):
        _draw_rows(axes, posterior, prob)
    return axes


def _checked_axes(ax: Any) -> Any:
    from matplotlib.axes import Axes

    if not isinstance(ax, Axes):
        raise InvalidParameter("ax", type(ax).__name__, "axes of Matplotlib", "ax=matplotlib.pyplot.gca()")
    return ax


def _draw_rows(axes: Any, posterior: Posterior, prob: float) -> None:
    groups = posterior.distributions
    rows = [(group, index) for group in groups for index in range(groups[group].dimension)][:_MOST]
    for height, (group, index) in enumerate(reversed(rows)):
        _row(axes, groups[group], index, height, prob)
    bare = (posterior.labels if posterior.reader.parameter == "coefficient" else ()) or posterior.parameters
    names = [name_of(group, bare[index], posterior) for group, index in rows]
    name_rows(axes, names, posterior.reader.parameter, below=0.4, above=0.95)


def posterior_html(posterior: Posterior) -> str:
    """Return what a notebook shows: one line, the summary or the released draws, and the plot."""
    return printable(_posterior_html(posterior))


def _posterior_html(posterior: Posterior) -> str:
    from pandas import DataFrame

    if not posterior.distributions:
        return f"<div><p>{html.escape(repr(posterior))}</p><p>{html.escape(NOTHING)}</p></div>"
    picture = io.BytesIO()
    plot(posterior, path=picture)
    encoded = base64.b64encode(picture.getvalue()).decode()
    rows = _draw_cells(posterior) if posterior.label == DRAWS else map(_summary_cells, posterior.rows())
    table = DataFrame(rows).fillna("").set_index(["group", "parameter"]).to_html(max_rows=_MOST)
    note = f"<p>{html.escape(posterior.note)}</p>" if posterior.note else ""
    return (
        f"<div><p>{html.escape(repr(posterior))}</p>{note}{table}"
        f'<img alt="posterior" width="640" src="data:image/png;base64,{encoded}"></div>'
    )


def _summary_cells(row: dict[str, Any]) -> dict[str, str]:
    """Write a row of a summary to the digits that its spread supports."""
    digits = Digits(row["sd"])
    return {**row, **{key: digits(row[key]) for key in ("mean", "sd", "low", "high")}}


def _draw_cells(posterior: Posterior) -> Iterator[dict[str, str]]:
    """Write the first released draws, a column each."""
    for group, draws in posterior.sample().items():
        for parameter, values in zip(posterior.parameters, draws[:_MOST_DRAWS].T, strict=True):
            cells = {f"draw {place}": number(value) for place, value in enumerate(values, 1)}
            yield {"group": group, "parameter": parameter, **cells}


def _row(axes: Any, distribution: PosteriorDistribution | ReleasedDraws, index: int, height: int, prob: float) -> None:
    if isinstance(distribution, ReleasedDraws):
        dots(axes, height, distribution.values[:, index])
        return
    marginal = distribution.marginal(index)
    low, high = marginal.quantile([0.0005, 0.9995])
    x = np.linspace(low, high, 301)
    densities = density(marginal, x)
    y = height + 0.75 * densities / densities.max()
    low, high = marginal.interval(prob)
    inside = (x >= low) & (x <= high)
    axes.fill_between(x, height, y, color=INK, alpha=0.12, linewidth=0)
    axes.fill_between(x[inside], height, y[inside], color=INK, alpha=0.25, linewidth=0)
    axes.plot(x, y, color=INK, linewidth=1.4)
    whisker(axes, height, marginal.mean(), (low, high))


# Rows beyond this many are left to the table, and draws to the release.
_MOST, _MOST_DRAWS = 24, 5

DASHES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)))
INK = "#1b3a57"
PAPER, GRID = "#ffffff", "#e4e4e4"
GREY = "#777777"  # of what is there for comparison
# A page shows them as the variables --ink-1 and so on of `report/page.css`, which are darker, and others at night.
COLOURS = ("#1b3a57", "#b3541e", "#4c7a5a", "#7b4b8a", "#8a7a2f")


def line(place: int) -> dict[str, Any]:
    """Return the look of one of several lines: its colour, and dashes that tell it apart in black and white."""
    return {"color": COLOURS[place], "linestyle": DASHES[place]}


@contextmanager
def figure(
    columns: int,
    *,
    path: Target | None,
    width: float = 4.6,
    height: float = 3.4,
    heights: tuple[float, ...] = (1.0,),
    title: str | None = None,
    shown: bool = False,
) -> Iterator[tuple[Any, Any]]:
    """Yield a figure and its axes in the house style, and save it if a path is given.

    Parameters
    ----------
    columns
        How many panels stand side by side, each `width` inches wide.
    path
        The file to save to.
    width, height
        Of one panel, and of the whole, in inches.
    heights
        The relative heights of rows of panels; one row by default. The axes are in reading order.
    title
        What stands above all panels.
    shown
        Whether a notebook or `matplotlib.pyplot.show` shows it.
    """
    import matplotlib

    with matplotlib.rc_context(
        {
            "font.size": 10,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.grid": True,
            "grid.color": GRID,
            "axes.axisbelow": True,
            "lines.linewidth": 1.8,
            "axes.titlelocation": "left",
            "axes.titlesize": 10,
            "legend.frameon": False,
            "legend.fontsize": 9,
            "figure.dpi": 150,
        }
    ):
        fig = _new_figure(shown)(figsize=(width * columns, height), layout="constrained")
        yield fig, fig.subplots(len(heights), columns, squeeze=False, height_ratios=heights).ravel()
        if title is not None:
            fig.suptitle(title, x=0.01, ha="left", fontsize=11)
        if isinstance(path, io.BytesIO):
            fig.savefig(path)
        elif path is not None:
            _save(fig, require_path("path", path, 'for example path="curve.png"'))


def _save(fig: Any, path: Path) -> None:
    """Write a picture, whole, in the form that its name ends with."""
    kind = path.suffix.removeprefix(".") or "png"
    target = path.with_suffix(f".{kind}")
    picture = io.BytesIO()
    try:
        fig.savefig(picture, format=kind)
        write_over(target, [picture.getbuffer()])
    except OSError as error:
        raise _unwritable(target, str(error.strerror)) from None
    except ValueError:
        raise _unwritable(target, "unknown kind of file") from None


def _unwritable(path: Path, reason: str) -> InvalidParameter:
    return InvalidParameter("the plot's file", path, f"one that can be written ({reason})", "curve.png")


def _new_figure(shown: bool) -> Any:
    if shown:
        from matplotlib.pyplot import figure as shown_figure

        return shown_figure
    from matplotlib.figure import Figure

    return Figure


def powers(axis: Any) -> None:
    """Name the powers of ten in letters that any font has; within one decade, some of what lies between them too."""
    axis.set_major_formatter(lambda value, _: _power(value))
    axis.set_tick_params(which="minor", labelsize=8)
    axis.set_minor_formatter(lambda value, _: f"{value:.3g}" if _is_named(value, axis) else "")


def _is_named(value: float, axis: Any) -> bool:
    """Tell whether what lies between powers has room for its name: 2, 3 and 5 within a decade, all within less."""
    low, high = sorted(axis.get_view_interval())
    return bool(high < 3 * low or (high < 10 * low and f"{value:e}"[0] in "235"))


def _power(value: float) -> str:
    if value <= 0:
        return ""
    if 1e-3 <= value <= 1e3:
        return f"{value:g}"
    return "10" + str(round(math.log10(value))).translate(SUPERSCRIPT)


# Letters on a line of a row's name; steps of the axis, whose numbers may have seven letters.
_LETTERS, _MOST_STEPS = 22, 5


def name_rows(
    axes: Any,
    names: list[str],
    what: str,
    *,
    below: float = 0.6,
    above: float = 0.6,
    percent: bool = False,
    sign: str = " %",
) -> None:
    """Name the rows, from the top, and the axis below them; names are text and never mathematics."""
    if percent:
        axes.xaxis.set_major_formatter(lambda value, _: f"{100 * value:.6g}{sign}".replace("-", "−"))
    axes.set_yticks(range(len(names)), [_folded(name) for name in reversed(names)], fontsize=9, parse_math=False)
    axes.set_ylim(-below, len(names) - 1 + above)
    axes.set_xlabel(printable(what), parse_math=False)
    axes.locator_params(axis="x", nbins=_MOST_STEPS)
    axes.grid(axis="y", visible=False)
    axes.spines["left"].set_visible(False)
    axes.tick_params(axis="y", length=0)


def height_of(names: list[str]) -> float:
    """Return the inches that rows need, by the lines of the longest name."""
    lines = max(_folded(name).count("\n") for name in names)
    return (0.26 + 0.13 * lines) * max(2, len(names))


def whisker(
    axes: Any,
    height: float,
    mean: float,
    wide: tuple[float, float],
    half: tuple[float, float] | None = None,
    *,
    label: str | None = None,
) -> None:
    """Draw an interval, a narrower one if there is one, and the mean."""
    axes.plot(wide, [height, height], color=INK, linewidth=1.4, solid_capstyle="butt", label=label)
    if half is not None:
        axes.plot(half, [height, height], color=INK, linewidth=4.2, solid_capstyle="butt")
    axes.plot([mean], [height], "o", color=PAPER, markeredgecolor=INK, markersize=5, zorder=3)


def dots(axes: Any, height: float, values: Array) -> None:
    """Draw released draws as the points that they are."""
    axes.plot(values, np.full(len(values), height), "o", color=INK, markersize=6, alpha=0.75)


def density(marginal: Marginal, x: Array) -> Array:
    """Return the density, cut where it is infinite: at the end of a Beta distribution with a parameter below 1."""
    with np.errstate(over="ignore", divide="ignore"):
        densities = np.exp(marginal.log_density(x))
    finite = densities[np.isfinite(densities)]
    return np.asarray(np.minimum(densities, finite.max() if finite.size else 1.0))


def _folded(name: str) -> str:
    """Break a name into at most three lines; what is too long loses its middle, since names differ at their ends."""
    lines = textwrap.wrap(printable(name), _LETTERS)
    return "\n".join(lines if len(lines) <= 3 else [lines[0], "…", lines[-1]])


def name_of(group: str, label: str, posterior: Posterior) -> str:
    """Return what a row is called: by its group, by its parameter, or by both."""
    if posterior.by is None:
        return label
    return group if posterior.reader.dimension == 1 else f"{group}: {label}"
