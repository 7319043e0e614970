"""CSV: what a record holds decides what that record reads as, and nothing else."""

import gzip
import random
import re
from pathlib import Path

import numpy as np
import pytest

from vestry.data import csv_reader, csv_tokens
from vestry.data.csv_reader import Dialect, dialect_from, header, read_csv
from vestry.errors import InvalidParameter

# The oracle: one byte after another, and one state.


def oracle_records(text: bytes, separator: bytes) -> list[list[bytes]]:
    """Return the fields of every record; a line with nothing in it has none."""
    records, fields, field, state, place = [], [], b"", "start", 0
    begun = False
    while place < len(text):
        byte = text[place : place + 1]
        place += 1
        if state == "quoted":
            if byte != b'"':
                field += byte
            elif text[place : place + 1] == b'"':
                field += b'"'
                place += 1
            else:
                state = "unquoted"
            continue
        if byte == b"\r" and text[place : place + 1] == b"\n":
            continue
        if byte == b"\n":
            records.append([*fields, field] if begun else [])
            fields, field, state, begun = [], b"", "start", False
            continue
        begun = True
        if byte == separator:
            fields, field, state = [*fields, field], b"", "start"
        elif byte == b'"' and state == "start":
            state = "quoted"
        else:
            field, state = field + byte, "unquoted"
    return [*records, [*fields, field]] if begun else records


def oracle_text(field: bytes, decimal: str) -> str | None:
    text = field.decode("utf-8", "replace")
    if decimal == ",":
        number = text.strip(" \t\n\r\v\f").replace(",", ".")
        if text.count(",") == 1 and "." not in text:
            try:
                float(number)
            except ValueError:
                return text or None
            power = re.split("[eE]", number)[1:] or ["0"]
            if number.isascii() and "_" not in number and len(power[0].lstrip("+-")) <= 4:
                return text.replace(",", ".")
    return text or None


def oracle(text: bytes, columns: list[str] | None = None, separator: str = ",", decimal: str = ".") -> list[dict]:
    if text.startswith(b"\xef\xbb\xbf"):
        text = text[3:]
    records = oracle_records(text, separator.encode())
    while not records[0]:
        records = records[1:]
    names = [name.decode() or f"column{place}" for place, name in enumerate(records[0])]
    wanted = [name for name in names if columns is None or name in columns] or names[:1]
    rows = []
    for record in records[1:]:
        if record or len(names) == 1:
            row = dict.fromkeys(names) | {
                name: oracle_text(field, decimal) for name, field in zip(names, record, strict=False)
            }
            rows.append({name: row[name] for name in wanted})
    return rows


def read(path: Path, columns: list[str] | None = None, dialect: Dialect | None = None) -> list[dict]:
    return [row for batch in read_csv(str(path), columns, dialect) for row in batch.to_pylist()]


def written(path: Path, text: bytes) -> Path:
    path.write_bytes(gzip.compress(text, 1) if path.suffix == ".gz" else text)
    return path


# Files of random pieces, in blocks of a few bytes, so that every piece meets a boundary.

PIECES = [
    b"a", b"b", b"1", b"2,5", b" ", b",", b",", b";", b"\t", b"|", b'"', b'"', b'""', b',"', b'",', b'"\n', b'\n"', b"\r",
    b"\n", b"\n", b"\r\n", b"\r\r\n", b"\n\n", b"\0", b"\xff", b"\xe4\xbd", b"\xa0", b"\xed\xa0\x80", b"\xc0\x80",
    b"\xf4\x90\x80\x80", b"\xf0\x9f\x98", "é".encode(), "\u2028".encode(), b"\x85", b"\x1c", b"\x0b", b"\x0c", b"\x1a",
    b"\xef\xbb\xbf", b"'", b"\\", b"-", b"+,5", b"1,e3", b"NA", b"0123456789" * 3,
]  # fmt: skip
HEADERS = ["x", "x;y", "x;y;z", ";y", '"x";"y"', '"x\r\n";y', '"a""b";y', "\n\nx;y", '"";y']


def random_file(rng: random.Random) -> tuple[bytes, str, str]:
    separator = rng.choice(",,;\t|")
    names = rng.choice(HEADERS).replace(";", separator)
    body = b"".join(rng.choices(PIECES, k=rng.randrange(25)))
    if rng.random() < 0.3:
        body = body.replace(b'"', b"")
    start = rng.choice([b"", b"", b"\xef\xbb\xbf"]) + names.encode() + rng.choice([b"\n", b"\r\n"])
    decimal = rng.choice(".,") if separator != "," else "."
    return start + body, separator, decimal


def compare(folder: Path, monkeypatch: pytest.MonkeyPatch, *, seed: int, files: int) -> None:
    rng = random.Random(seed)
    for _ in range(files):
        text, separator, decimal = random_file(rng)
        path = written(folder / f"a.csv{'.gz' if rng.random() < 0.05 else ''}", text)
        monkeypatch.setattr(csv_reader, "_BLOCK", rng.choice([1, 2, 3, 5, 8, 13, 64, 1 << 21]))
        columns = rng.choice([None, None, ["y"], ["x", "z"], []])
        expected = oracle(text, columns, separator, decimal)
        assert read(path, columns, Dialect(separator, decimal)) == expected, (text, separator, decimal, columns)


def test_random_files_read_as_the_oracle_reads_them(tmp_path, monkeypatch):
    compare(tmp_path, monkeypatch, seed=1, files=6_000)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2, 10))
def test_many_random_files_read_as_the_oracle_reads_them(tmp_path, monkeypatch, seed):
    compare(tmp_path, monkeypatch, seed=seed, files=25_000)
