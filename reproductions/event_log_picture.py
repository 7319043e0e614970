"""Pictures of the case study: scores, how large cells must be, maps of states, emission tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from reproductions.experiment import Numbers, picture
from vestry.display.plotting import COLOURS, DASHES, GREY

RELEASED = "OPS, the one draw released"
UNKNOWN = "The real log's states are not known:\nbelow, agreement with the map\nthat is made without privacy."
# By the place of a method: not private, noise-aware, and the rest.
MARKS = (None, "D", "o", "s", "^", "x")
LINES = (DASHES[0], (0, (9, 2)), *DASHES[1:])


def draw(numbers: Numbers, path: Path) -> None:
    """Draw the scores; maps, tables and sizes go to files beside it, NAME-states.png and so on."""
    _draw_scores(numbers, path)
    _draw_sizes(numbers["sizes"], path.with_name(f"{path.stem}-sizes.png"))
    _draw_maps(numbers["studies"], path.with_name(f"{path.stem}-states.png"))
    _draw_tables(numbers["studies"][-1], path.with_name(f"{path.stem}-tables.png"))


def _draw_scores(numbers: Numbers, path: Path) -> None:
    studies = numbers["studies"]
    with picture(len(studies), path=path, width=3.7, height=6.0, heights=(1.0, 1.25)) as (fig, axes):
        for place, panel in enumerate(axes):
            each = studies[place % len(studies)]
            model = list(each["scores"])[place // len(studies)]
            for index, (method, points) in enumerate(each["scores"][model].items()):
                if points:
                    exact = "OPS" in method and "paid" not in method
                    label = f"{method} (below: as if converged)" if exact else method
                    style = {"color": (GREY, *COLOURS)[index], "linestyle": LINES[index], "marker": MARKS[index]}
                    means = [value["mean"] for value in points]
                    panel.plot(numbers["epsilons"], means, markersize=5, label=label, **style)
            panel.set(xscale="log", xlabel="epsilon")
            panel.set_title(f"{model}\n{each['log']}, {each['entries']:,} entries")
        for panel in axes[:: len(studies)]:
            panel.set_ylabel("held-out log-likelihood per entry")
        named = axes[len(studies)].get_legend_handles_labels()
        fig.legend(*named, fontsize=8, ncols=3, loc="outside lower center", handlelength=3.5)


def _draw_sizes(scan: Numbers, path: Path) -> None:
    with picture(1, path=path, width=5.6, height=3.4) as (_, (panel,)):
        for index, (method, points) in enumerate(scan["below_not_private"].items(), start=2):
            gaps = [max(-value["mean"], 1e-5) for value in points]
            style = {"color": COLOURS[index - 1], "linestyle": LINES[index], "marker": MARKS[index]}
            panel.plot(scan["entries"], gaps, markersize=5, label=method, **style)
        panel.set(xscale="log", yscale="log", xlabel="entries a cell", ylabel="log-likelihood lost per entry")
        panel.set_title("hidden Markov model at epsilon 1, dense log")
        panel.legend(fontsize=8, handlelength=3.5)


def _draw_maps(studies: list[Numbers], path: Path) -> None:
    rows = ("planted", "not private", "Laplace", "OPS, M = 100", RELEASED)
    with picture(len(studies), path=path, width=4.0, height=7.0, heights=(1.0,) * len(rows)) as (_, axes):
        for place, panel in enumerate(axes):
            name, each = rows[place // len(studies)], studies[place % len(studies)]
            panel.grid(visible=False)
            if name not in each["maps"]:
                panel.set_axis_off()
                panel.text(0, 0.3, UNKNOWN, fontsize=8)
                panel.set_title(each["log"], fontsize=8, loc="left")
                continue
            shades = {"cmap": "Greys", "vmin": -0.25, "vmax": each["shown"] - 0.6, "aspect": "auto"}
            panel.imshow(each["maps"][name], interpolation="nearest", **shades)
            named = len(each["regions"][0]) < 9 and "region" not in each["regions"][0]
            panel.set_yticks(range(len(each["regions"])), each["regions"] if named else [], fontsize=5)
            ticks = [i for i, month in enumerate(each["months"]) if month.endswith("-01")]
            panel.set_xticks(ticks, [each["months"][i][:4] for i in ticks], fontsize=7)
            right = each["agreement"].get(name)
            title = name if right is None else f"{name}: {100 * right:.0f} %"
            panel.set_title(f"{each['log']}\n{title}" if place < len(studies) else title, fontsize=8, loc="left")


def _draw_tables(study: Numbers, path: Path) -> None:
    names = list(study["features"])
    many = [i for i, name in enumerate(names) if len(study["features"][name]) > 2]
    rows, across = study["shown"], len(many) + 1
    with picture(across, path=path, width=3.4, height=2.0 * rows, heights=(1.0,) * rows) as (fig, axes):
        for state in range(rows):
            laplace, plain = (
                [np.array(table)[state] for table in study["tables"][method]] for method in ("Laplace", "not private")
            )
            panels = axes[across * state : across * (state + 1)]
            for panel, i in zip(panels, many, strict=False):
                top = np.argsort(-plain[i], kind="stable")[:10]
                _bars(panel, [study["features"][names[i]][j] for j in top], laplace[i][top], plain[i][top])
                panel.set_title(f"state {state + 1}: {names[i]}", fontsize=9, loc="left")
            two = [i for i in range(len(names)) if i not in many]
            _bars(panels[-1], [names[i] for i in two], *([table[i][1] for i in two] for table in (laplace, plain)))
            panels[-1].set_title(f"state {state + 1}: share of entries with", fontsize=9, loc="left")
        fig.legend(*axes[0].get_legend_handles_labels(), fontsize=8, ncols=2, loc="outside lower center")


def _bars(panel: Any, names: list[str], laplace: Any, plain: Any) -> None:
    place = np.arange(len(names))
    panel.barh(place - 0.2, laplace, height=0.4, color=COLOURS[0], label="Laplace, epsilon 5")
    panel.barh(place + 0.2, plain, height=0.4, color="white", edgecolor="black", label="not private")
    panel.set_yticks(place, names, fontsize=7)
    panel.invert_yaxis()
    panel.set_xlim(left=0)
