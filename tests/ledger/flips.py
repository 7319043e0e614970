"""Flips single bits of a ledger's file and uses what is left, in warm forked workers. A script: one JSON out.

    python flips.py FILE FOLDER BITS WORKERS SEED     (BITS: how many, drawn without repetition; 0: all of them)

The criterion: refused in one sentence of ours, or every line and the head as before, and no later charge, opening or
release differs.
"""

from __future__ import annotations

import json
import os
import random
import sys
from pathlib import Path

from vestry.errors import LedgerStateError, VestryError
from vestry.ledger import Ledger
from vestry.ledger import ledger as journal_module

NOW = "2026-01-01T00:00:00.000+00:00"


def said(path: Path) -> dict:
    """Everything a ledger says, and what it answers to a charge, an opening and a second opening."""
    found: dict[str, object] = {}
    try:
        ledger = Ledger.open(path)
        verified = ledger.verify()
        found["lines"] = [list(vars(entry).values()) for entry in ledger.entries()]
        found["head"], found["key"] = verified.head, ledger.row_key()
    except VestryError as error:
        return {"refused": str(error)}
    charges = {entry.sequence: followed for entry, followed in ledger.charges()}
    for name, use in {
        "charge": lambda: ledger.charge("epsilon=0.001", purpose="later", who="Di").entry.hash,
        "open": lambda: ledger.resume(next(n for n, done in charges.items() if not done)).open() and "opened",
        "again": lambda: [opened_again(ledger, n) for n in (1, max(charges, default=4) - 3)],
        "after": lambda: ledger.verify().head,
    }.items():
        try:
            found[name] = use()
        except VestryError as error:
            found[name] = {"refused": str(error)}
    return found


def opened_again(ledger: Ledger, number: int) -> str:
    try:
        ledger.resume(number).open()
    except LedgerStateError:
        return "refused"
    return "opened"


def fault(found: dict, good: dict) -> str | None:
    """Say what is not as it must be."""
    for name, value in found.items():
        message = value if name == "refused" else value.get("refused") if isinstance(value, dict) else None
        if message is None and value != good[name]:
            return f"{name} differs"
        if message is not None and "\n" in message:
            return f"{name}: not one sentence"
    return None


def working(content: bytes, bits: list[int], folder: Path, number: int, good: dict) -> dict:
    """Try every bit in turn; count what was refused and name what went wrong."""
    path = folder / f"{number}.ledger"
    counts: dict[str, object] = {"tried": 0, "refused": 0, "harmless": 0, "faults": []}
    for bit in bits:
        flipped = bytearray(content)
        flipped[bit // 8] ^= 1 << bit % 8
        for leftover in folder.glob(f"{number}.ledger*"):
            leftover.unlink()
        path.write_bytes(flipped)
        try:
            found = said(path)
            wrong = fault(found, good)
        except BaseException as error:
            found, wrong = {}, repr(error)
        counts["tried"] += 1
        counts["refused" if "refused" in found else "harmless"] += 1
        if wrong is not None:
            counts["faults"].append([bit, wrong])
    return counts


def main(file: str, folder: str, bits: str, workers: str, seed: str) -> None:
    journal_module._now = lambda: NOW
    content, count = Path(file).read_bytes(), int(workers)
    chosen = range(8 * len(content))
    if int(bits):
        chosen = sorted(random.Random(int(seed)).sample(chosen, int(bits)))
    reference = Path(folder) / "good.ledger"
    reference.write_bytes(content)
    good = said(reference)
    pipes = []
    for number in range(count):
        reader, writer = os.pipe()
        if os.fork() == 0:
            os.close(reader)
            with os.fdopen(writer, "w") as pipe:
                json.dump(working(content, list(chosen)[number::count], Path(folder), number, good), pipe)
            os._exit(0)
        os.close(writer)
        pipes.append(reader)
    results = []
    for reader in pipes:
        with os.fdopen(reader) as pipe:
            results.append(json.load(pipe))
        os.wait()
    total = {name: sum(result[name] for result in results) for name in ("tried", "refused", "harmless")}
    faults = [each for result in results for each in result["faults"]]
    sys.stdout.write(json.dumps({**total, "faults": faults, "good": {key: good[key] for key in ("open", "again")}}))


if __name__ == "__main__":
    main(*sys.argv[1:])
