"""Ask the questions of uses.toml of public hospital records, and draw the answers beside the exact ones.

    VESTRY_DATA=FOLDER python examples/uses.py OUTPUT      # FOLDER holds diabetes130.parquet

The table is public (Diabetes 130-US Hospitals, UCI, CC BY 4.0), so the exact answers may be shown: a cross is the share
or the value over all patients, where each patient's stays count one in all. Nobody who holds private records can
draw the crosses.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")
import duckdb
import matplotlib.pyplot as plt

from vestry import Study, open_release

BLUE, RED = "#30588c", "#b5432a"


def run_study(folder: Path, data: Path) -> None:
    """Put study and data into a folder, create the ledger, and release everything, as in a terminal."""
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(Path(__file__).with_suffix(".toml"), folder / "study.toml")
    shutil.copy(data, folder / data.name)
    command = shlex.split(Study.open(folder / "study.toml").create_command())
    for words in (command, ["vestry", "release", "study.toml", "--yes"]):
        subprocess.run([Path(sys.executable).with_name(words[0]), *words[1:]], cwd=folder, check=True)


def exact(data: Path, group: str, value: str, where: str = "true") -> list[tuple[str, float]]:
    """Return the mean of a value by group over patients, each patient's stays weighing one together."""
    query = f"""
        with stays as (select *, 1.0 / count(*) over (partition by patient_nbr) as part from '{data}')
        select {group}, sum(part * ({value})) / sum(part) from stays where {where} group by 1 order by 1"""
    return [(str(name), float(found)) for name, found in duckdb.sql(query).fetchall()]


def medications(data: Path) -> list[float]:
    """Return the exact quantiles by gender, each patient's stays weighing one together."""
    query = f"""
        with stays as (select *, 1.0 / count(*) over (partition by patient_nbr) as part from '{data}'),
        summed as (select gender, num_medications as x, sum(sum(part)) over (partition by gender order by
            num_medications) / sum(sum(part)) over (partition by gender) as below from stays group by 1, 2)
        select gender, q, min(x) from summed, unnest([0.1, 0.25, 0.5, 0.75, 0.9]) as _(q)
        where below >= q and gender in ('Female', 'Male') group by 1, 2 order by 1, 2"""
    return [float(found) for *_, found in duckdb.sql(query).fetchall()]


def panel(ax: Any, title: str, frame: Any, marks: list[float], *, xlabel: str) -> None:
    """Draw intervals from top to bottom, with crosses where the exact values are."""
    places = range(len(frame))
    ax.errorbar(
        frame["mean"], places, xerr=[frame["mean"] - frame["low"], frame["high"] - frame["mean"]],
        fmt="o", color=BLUE, markersize=4, capsize=2, label="released, 90 % interval",
    )  # fmt: skip
    if marks:
        ax.plot(marks, places, "x", color=RED, markersize=6, label="exact")
    ax.set_yticks(places, [str(name) for name in frame.index])
    ax.invert_yaxis()
    ax.set_title(title, loc="left", fontsize=10)
    ax.set_xlabel(xlabel)
    ax.spines[["top", "right"]].set_visible(False)


def named(frame: Any, kind: str) -> Any:
    """Return the rows of one kind of parameter, such as odds ratios, by what stands in the brackets."""
    rows = frame.reset_index()
    rows = rows[rows["parameter"].str.startswith(f"{kind}[")]
    return rows.set_index(rows["parameter"].str[len(kind) + 1 : -1])


def draw(folder: Path, data: Path) -> Path:
    """Draw four of the answers."""
    found = {path.parent.name: open_release(path).posterior() for path in sorted(folder.glob("*/release.json"))}
    figure, axes = plt.subplots(2, 2, figsize=(11, 9.5), layout="constrained")
    by_age = found["readmission"].table().conditional("early", "age").xs("true", level="early")
    panel(axes[0, 0], "Readmitted within 30 days, by age: a two-way table", by_age,
          [value for _, value in exact(data, "age", "(readmitted = '<30')::int")], xlabel="share of stays")  # fmt: skip
    panel(axes[0, 1], "Early readmission: logistic regression by table",
          named(found["odds"].summary(), "odds ratio"), [], xlabel="odds ratio")  # fmt: skip
    axes[0, 1].axvline(1, color="0.7", linewidth=0.8)
    tested = found["testing"].summary().reset_index().set_index("group")
    panel(axes[1, 0], "Tested for A1C, by age and sex: twenty proportions", tested,
          [value for _, value in exact(data, "age || ', ' || gender", "(A1Cresult != 'None')::int",
                                       "gender in ('Female', 'Male')")], xlabel="share of stays")  # fmt: skip
    counts = found["medications"].summary().reset_index()
    counts.index = counts["group"] + ", " + counts["parameter"]
    panel(axes[1, 1], "Number of medications: quantiles by sex", counts, medications(data), xlabel="medications")
    axes[0, 0].legend(frameon=False)
    path = folder / "uses.png"
    figure.savefig(path, dpi=90)
    return path


def main() -> None:
    """Release, then draw."""
    if len(sys.argv) != 2 or "VESTRY_DATA" not in os.environ:
        sys.exit("write VESTRY_DATA=FOLDER python examples/uses.py OUTPUT; FOLDER holds diabetes130.parquet")
    folder, data = Path(sys.argv[1]), Path(os.environ["VESTRY_DATA"]) / "diabetes130.parquet"
    if not data.is_file():
        sys.exit(f"there is no diabetes130.parquet in {data.parent}; VESTRY_DATA names its folder")
    run_study(folder, data)
    print(draw(folder, data))


if __name__ == "__main__":
    main()
