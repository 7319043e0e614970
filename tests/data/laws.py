"""The law: what a record adds follows from its own values, and the other records' from theirs."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from data.columns import KINDS, WHO, Cells, Column, Declared, column, split, tally, who, who_declared
from data.writers import Writer, Written

from vestry.data import Table
from vestry.schema.private import reveal

ROWS = 8


@dataclass
class Score:
    """How many pairs were looked at, and how many the writer itself refused or wrote in another way."""

    pairs: int = 0
    refused: int = 0
    rewritten: int = 0
    failures: list[str] = field(default_factory=list)

    def add(self, other: Score) -> None:
        self.pairs += other.pairs
        self.refused += other.refused
        self.rewritten += other.rewritten
        self.failures += other.failures


def drawn(rng: Random, kinds: list[str], width: int) -> dict[str, Column]:
    """Draw columns; the first one is text, and is the folder's where there are folders."""
    names = {"folder": "text"} | {f"c{at}": rng.choice(kinds) for at in range(width - 1)}
    return {name: column(rng, kind, ROWS) for name, kind in names.items()}


def contributions(written: Written, declared: dict[str, Declared], *, counted: bool = True) -> dict:
    """Return what every record adds under every column through the real query, and the public count."""
    domains = {name: each.domain for name, each in declared.items()} | {WHO: who_declared(ROWS).domain}
    table = Table(written.data(), domains, neighbours="replace", max_rows=1000, **written.options)
    found = split(reveal(table.collect(tally(declared), row_key="k")), declared, ROWS)
    if counted:
        again = Table(written.data(), domains, neighbours="replace", max_rows=1000, **written.options)
        assert again.count() == ROWS, f"{again.count()} records are counted"
    return found


def trial(writer: Writer, folder: Path, rng: Random, kinds: list[str] | None = None, *, width: int = 30,
          changes: int = 3, counted: bool = True) -> Score:  # fmt: skip
    """Write a table, change one record a column several times, and compare what the others add."""
    score = Score()
    columns = drawn(rng, kinds or list(KINDS), width)
    declared = {name: each.declared for name, each in columns.items()}
    first = written_in(writer, folder / "before", {name: each.before for name, each in columns.items()}, rng)
    before = contributions(first, declared, counted=counted)
    for time in range(changes):
        if time:
            columns = {name: changed_again(each, rng) for name, each in columns.items()}
        order = rng.sample(range(ROWS), ROWS)
        cells = {name: each.after.ordered(order) for name, each in columns.items()}
        second = written_in(writer, folder / f"after{time}", cells, rng, order)
        after = contributions(second, declared, counted=counted)
        seen = {name: [values[order.index(at)] for at in range(ROWS)] for name, values in second.seen.items()}
        score.add(compared(columns, (before, after), (first.seen, seen)))
        score.refused += len(second.refused)
    return score


def changed_again(given: Column, rng: Random) -> Column:
    """Change another record of the same column."""
    other = column(rng, given.before.kind, ROWS).after
    at = other.changed
    values = given.before.values
    after = Cells(given.before.kind, (*values[:at], other.values[at], *values[at + 1 :]), at)
    return Column(given.declared, given.before, after)


def written_in(writer: Writer, folder: Path, cells: dict[str, Cells], rng: Random, order=None) -> Written:
    folder.mkdir(parents=True)
    names = who(ROWS)
    # A column that nobody declared holds trouble as well.
    return writer(folder, {WHO: names.ordered(order) if order else names, **cells, "remark": cells["folder"]}, rng)


def compared(columns: dict[str, Column], found: tuple[dict, dict], seen: tuple[dict, dict]) -> Score:
    """Compare each record but the changed one; one that the writer wrote with another meaning is counted."""
    score = Score()
    before, after = found
    assert before[None, ""] == after[None, ""] == (0,), "a record was forged"
    for name, each in columns.items():
        score.pairs += 1
        for at in range(ROWS):
            if at == each.after.changed:
                continue
            given = [side[name][at] for side in seen]
            if each.declared.code(given[0]) != each.declared.code(given[1]):
                score.rewritten += 1
                continue
            if before[f"r{at}", name] != after[f"r{at}", name]:
                score.failures.append(
                    f"{name} ({each.before.kind}, {each.declared}): {shown(given)} adds {before[f'r{at}', name]}, and "
                    f"{after[f'r{at}', name]} once another record is {shown(each.after.values[each.after.changed])}"
                )
                break
    return score


def shown(value: object) -> str:
    try:
        return repr(value)[:80]
    except ValueError:
        return "an integer of thousands of digits"
