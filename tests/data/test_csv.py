"""CSV: what a record holds decides what that record reads as, and nothing else."""

import csv
import gzip
import io
import random
import re
from pathlib import Path

import numpy as np
import pytest

from vestry.data import csv_reader
from vestry.data.csv_reader import header, read_csv
from vestry.data.source import Dialect, dialect_from
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


def read_bytes(monkeypatch: pytest.MonkeyPatch, text: bytes, *given) -> list[dict]:
    """Read a file that is never written: thousands of small ones would wait for the disk."""
    monkeypatch.setattr(csv_reader, "_open", lambda path: io.BytesIO(text))
    return read(Path("a.csv"), *given)


# Files of random pieces, in blocks of a few bytes, so that every piece meets a boundary.

PIECES = [
    b"a", b"b", b"1", b"2,5", b" ", b",", b",", b";", b"\t", b"|", b'"', b'"', b'""', b',"', b'",', b'"\n', b'\n"',
    b"\r", b"\n", b"\n", b"\r\n", b"\r\r\n", b"\n\n", b"\0", b"\xff", b"\xe4\xbd", b"\xa0", b"\xed\xa0\x80",
    b"\xc0\x80", b"\xf4\x90\x80\x80", b"\xf0\x9f\x98", "é".encode(), "\u2028".encode(), b"\x85", b"\x1c", b"\x0b",
    b"\x0c", b"\x1a", b"\xef\xbb\xbf", b"'", b"\\", b"-", b"+,5", b"1,e3", b"NA", b"0123456789" * 3,
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


def compare(monkeypatch: pytest.MonkeyPatch, *, seed: int, files: int) -> None:
    rng = random.Random(seed)
    for _ in range(files):
        text, separator, decimal = random_file(rng)
        monkeypatch.setattr(csv_reader, "_BLOCK", rng.choice([1, 3, 8, 13, 21, 64, 1 << 21]))
        columns = rng.choice([None, None, ["y"], ["x", "z"], []])
        expected = oracle(text, columns, separator, decimal)
        found = read_bytes(monkeypatch, text, columns, Dialect(separator, decimal))
        assert found == expected, (text, separator, decimal, columns)


@pytest.mark.long
def test_random_files_read_as_the_oracle_reads_them(monkeypatch):
    compare(monkeypatch, seed=1, files=3_000)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2, 10))
def test_many_random_files_read_as_the_oracle_reads_them(monkeypatch, seed):
    compare(monkeypatch, seed=seed, files=12_500)


@pytest.mark.slow
def test_a_file_of_many_blocks_reads_as_the_oracle_reads_it(monkeypatch):
    rng = random.Random(10)
    text = b"x,y\n" + b"".join(random_record(rng) for _ in range(30_000))
    assert len(text) > 3 * csv_reader._BLOCK
    assert read_bytes(monkeypatch, text) == oracle(text)


def test_the_oracle_reads_as_python_does_where_no_cr_stands():
    rng = random.Random(5)
    for _ in range(2_000):
        text = b"".join(rng.choices([piece.replace(b"\r", b"") for piece in PIECES], k=rng.randrange(25)))
        lines = io.StringIO(text.decode("latin-1"), newline="\n")
        expected = [[field.encode("latin-1") for field in fields] for fields in csv.reader(lines)]
        assert oracle_records(text, b",") == expected, text


# One record, one reading: a record is changed, and the others read as before.

ODD = [
    b"", b" ", b"a", b"\r", b"\r\r", b"x\ry", b"\0", b"\xff\xfe", b"\xe4\xbd", b'5" pipe', b'a""b', b"a" * 3_000,
    b"1e999", b"\x1a", b"\x85", "\u2028\u2029".encode(), b"'", b"\\", b"=1+1", b"-", b"9" * 500,
]  # fmt: skip
NEEDS_QUOTES = [b"a,b", b"a\nb", b"a\r\nb", b'"', b'""', b'a\n"b",1\n', b"\n\n\n", b'",', b"x\r"]


def by_a_writer(field: bytes) -> bytes:
    return b'"' + field.replace(b'"', b'""') + b'"'


def random_record(rng: random.Random) -> bytes:
    """Return a record as it stands in a file, its line end included; it may have any number of fields."""
    fields = [
        rng.choice(ODD) if rng.random() < 0.5 else by_a_writer(rng.choice(ODD + NEEDS_QUOTES))
        for _ in range(rng.choice([1, 2, 2, 2, 3, 5]))
    ]
    line = b",".join(fields)
    return (b'""' if line in (b"", b"\r") else line) + rng.choice([b"\n", b"\r\n"])


def check_one_record(monkeypatch: pytest.MonkeyPatch, *, seed: int, pairs: int) -> None:
    rng = random.Random(seed)
    for _ in range(pairs):
        names = rng.choice([b"x\n", b"x,y\n"])
        records = [random_record(rng) for _ in range(rng.randrange(1, 7))]
        place = rng.randrange(len(records))
        changed = [*records[:place], random_record(rng), *records[place + 1 :]]
        found = []
        for each in (records, changed):
            monkeypatch.setattr(csv_reader, "_BLOCK", rng.choice([1, 7, 20, 64, 1 << 21]))
            found.append(read_bytes(monkeypatch, names + b"".join(each)))
            assert len(found[-1]) == len(records), "the number of records"
            del found[-1][place]
        assert found[0] == found[1], "another record"


@pytest.mark.long
def test_a_changed_record_changes_no_other(monkeypatch):
    check_one_record(monkeypatch, seed=1, pairs=600)


@pytest.mark.slow
def test_a_changed_record_changes_no_other_many_times(monkeypatch):
    check_one_record(monkeypatch, seed=2, pairs=30_000)


# Broken twins: each law that is broken is seen.


def tokenise_where(change):
    whole = csv_reader.tokenise

    def twin(run, separator, *, ended):
        run, ended = change(run.copy(), ended)
        return whole(run, separator, ended=ended)

    return twin


def with_byte(old: int, new: int):
    return lambda run, ended: (np.where(run == old, new, run).astype(np.uint8), ended)


def columns_where(**changed):
    whole = csv_reader._columns
    return lambda tokens, wanted, alone: whole(tokens, wanted, alone=changed["alone"])


def without_returns(run, at, lines):
    return csv_reader_fields(np.where(run == csv_reader.CR, 32, run).astype(np.uint8), at, lines)


csv_reader_fields = csv_reader._fields
TWINS = {
    "a bare CR ends a record": (csv_reader, "tokenise", tokenise_where(with_byte(13, 10))),
    "a block ends a record": (csv_reader, "tokenise", tokenise_where(lambda run, ended: (run, True))),
    "NUL is a separator": (csv_reader, "tokenise", tokenise_where(with_byte(0, ord(",")))),
    "bytes that are not UTF-8 stay": (csv_reader, "_replaced", lambda array: array),
    "no quotes": (csv_reader, "tokenise", tokenise_where(with_byte(34, 39))),
    "every quote is structural": (csv_reader, "_walk", lambda begins, touches: np.ones(len(begins), np.bool_)),
    "a quote that begins a field is the only one": (csv_reader, "_walk", lambda begins, touches: begins),
    "a doubled quote is none": (csv_reader, "_shifted", lambda flags, first: np.full_like(flags, first)),
    "CR LF leaves a CR": (csv_reader, "_fields", without_returns),
    "a blank line is a record": (csv_reader, "_columns", columns_where(alone=True)),
    "a blank line is never a record": (csv_reader, "_columns", columns_where(alone=False)),
    "a byte-order mark belongs to the name": (csv_reader, "_UTF8", b"none"),
    "a decimal comma is any comma": (csv_reader, "_DECIMAL_COMMA", "(),()()()()"),
    "no decimal comma": (csv_reader, "_with_points", lambda array: array),
}  # fmt: skip


@pytest.mark.parametrize("twin", TWINS)
def test_a_broken_twin_is_seen(monkeypatch, twin):
    monkeypatch.setattr(*TWINS[twin])
    with pytest.raises((AssertionError, UnicodeDecodeError, InvalidParameter), match=r"assert|utf-8|data|first line"):
        compare(monkeypatch, seed=3, files=600)


@pytest.mark.parametrize("twin", ["a bare CR ends a record", "a block ends a record", "every quote is structural"])
def test_a_twin_that_lets_a_record_reach_another_is_seen(monkeypatch, twin):
    monkeypatch.setattr(*TWINS[twin])
    with pytest.raises(AssertionError, match=r"the number of records|another record"):
        check_one_record(monkeypatch, seed=3, pairs=300)


# By hand


def rows_of(path: Path, text: bytes, **given) -> list[tuple]:
    return [tuple(row.values()) for row in read(written(path, text), **given)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"x,y\na\rb,1\n", [("a\rb", "1")]),
        (b"x,y\na,b\r", [("a", "b\r")]),
        (b'x,y\n"a\r",b\r\r\n', [("a\r", "b\r")]),
        (b'x,y\n"a\nb,1\n","c""d"\n', [("a\nb,1\n", 'c"d')]),
        (b'x,y\n"a"b"c",5" pipe\n', [('ab"c"', '5" pipe')]),
        (b"x,y\n\n\r\n1\n1,2,3\n,\n", [("1", None), ("1", "2"), (None, None)]),
        (b"x\n\n1\n\r\n", [(None,), ("1",), (None,)]),
        (b'x,y\n""\n', [(None, None)]),
        (b"x,y\n\0,\xff\xe4\xbd\n", [("\0", "\ufffd\ufffd")]),
        (b'x,y\na,1\n"b,1\nc,1\n', [("a", "1"), ("b,1\nc,1\n", None)]),
        (b"x,y", []),
        (b"x,y\n", []),
    ],
)
def test_by_hand(tmp_path, text, expected):
    assert rows_of(tmp_path / "a.csv", text) == expected


def test_names(tmp_path):
    path = written(tmp_path / "a.csv", b'\xef\xbb\xbf\n"a\rb",,"c ""d"""\r\n1,2,3\n')
    assert header(str(path), Dialect()) == ["a\rb", "column1", 'c "d"']
    assert read(path, ["column1", 'c "d"']) == [{"column1": "2", 'c "d"': "3"}]
    assert read(path, ["other"]) == [{"a\rb": "1"}]


@pytest.mark.parametrize("name", ["a.tsv", "a.tsv.gz", "a.TSV"])
def test_tabs_by_name_unless_declared(tmp_path, name):
    path = written(tmp_path / name, b"x\ty,z\n1\t2\n") if name != "a.tsv.gz" else tmp_path / name
    if name == "a.tsv.gz":
        path.write_bytes(gzip.compress(b"x\ty,z\n1") + gzip.compress(b"\t2\n"))
    assert read(path) == [{"x": "1", "y,z": "2"}]
    assert read(path, None, Dialect(",")) == [{"x\ty": "1\t2", "z": None}]
    assert rows_of(tmp_path / "a.tsv", b"x\ty\n1,5\t2\n", dialect=Dialect(decimal=",")) == [("1.5", "2")]


@pytest.mark.parametrize(
    ("field", "expected"),
    [
        ("1,5", "1.5"), ("-1,50", "-1.50"), ("+,5", "+.5"), ("5,", "5."), (" 1,5 ", " 1.5 "), ("1,5e-3", "1.5e-3"),
        ("1.5", "1.5"), ("1.234,5", "1.234,5"), ("1,234,5", "1,234,5"), (",", ","), ("a,b", "a,b"), ("1,5x", "1,5x"),
        ("1,5e12345", "1,5e12345"), ("1,٥", "1,٥"), ("", None),
    ],
)  # fmt: skip
def test_a_decimal_comma_is_read_by_its_own_field_alone(tmp_path, field, expected):
    text = f"x;y\n{field};1\n3,5;2\n".encode()
    found = rows_of(tmp_path / "a.csv", text, dialect=Dialect(";", ","))
    assert found == [(expected, "1"), ("3.5", "2")]


def test_a_record_longer_than_a_block(tmp_path):
    long = b"long " * 1_000_000
    text = b'x,y\na,1\n"' + long + b'\n",2\n' + long + b",3\nb,4\n"
    assert rows_of(tmp_path / "a.csv", text) == [
        ("a", "1"), (long.decode() + "\n", "2"), (long.decode(), "3"), ("b", "4")
    ]  # fmt: skip


def test_a_run_too_long_for_arrow_has_the_same_fields_and_a_field_too_long_is_missing(monkeypatch):
    monkeypatch.setattr(csv_reader, "_LONGEST_RUN", 3)
    monkeypatch.setattr(csv_reader, "_BLOCK", 1)
    compare(monkeypatch, seed=4, files=200)
    monkeypatch.setattr(csv_reader, "_LONGEST_FIELD", 5)
    found = read_bytes(monkeypatch, b"x,y\n123456,\xff\n12345\n")
    assert found == [{"x": None, "y": "\ufffd"}, {"x": "12345", "y": None}]


def test_batches_are_whole_records_of_at_most_a_block(tmp_path, monkeypatch):
    monkeypatch.setattr(csv_reader, "_BLOCK", 16)
    path = written(tmp_path / "a.csv", b"x,y\n" + b"a,1\n" * 100)
    assert [batch.num_rows for batch in read_csv(str(path), None)] == [4] * 25


@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz"])
def test_files_read_as_the_oracle_reads_them(tmp_path, monkeypatch, name):
    rng = random.Random(6)
    monkeypatch.setattr(csv_reader, "_BLOCK", 13)
    for _ in range(20):
        text, separator, _ = random_file(rng)
        assert read(written(tmp_path / name, text), None, Dialect(separator)) == oracle(text, separator=separator)


# What is refused, by declarations and the first record alone


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"x,y\r1,2\r", r"lines end in LF or CR LF \(its first line ends in a lone CR\)"),
        (b"x,y\r1,2\n", "lone CR"),
        (b'"x\r",y\r1,"2"\n', "lone CR"),
        (b"x,y\r\r\n1,2\n", "lone CR"),
        (b"\xff\xfex\0,\0", r"can be read as csv \(this one begins as UTF-16 does\)"),
        (b"\xfe\xff\0x\0,", "UTF-16"),
        (b"x,\xff\n1,2\n", "text in UTF-8 below a line of names"),
        (b"", "below a line of names"),
        (b"\xef\xbb\xbf\n\r\n", "below a line of names"),
        (b"x,X\n1,2\n", "a different name for each column"),
        (b"column1,\n1,2\n", "a different name for each column"),
    ],
)
def test_what_a_first_line_is_refused_for(tmp_path, text, message):
    path = written(tmp_path / "a.csv", text)
    for action in (lambda: header(str(path), Dialect()), lambda: read_csv(str(path), None)):
        with pytest.raises(InvalidParameter, match=message) as caught:
            action()
        assert caught.value.__context__ is None


@pytest.mark.parametrize("packed", [b"x,y\n1,2\n", gzip.compress(b"x,y\n1,2\n", mtime=0)[:12], b""])
def test_a_packed_file_that_is_broken_is_refused_and_not_quoted(tmp_path, packed):
    (tmp_path / "a.csv.gz").write_bytes(packed)
    with pytest.raises(InvalidParameter, match="a file that can be read as csv, not") as caught:
        header(str(tmp_path / "a.csv.gz"), Dialect())
    assert caught.value.__context__ is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"x,y\r" + b"1,2\r" * 2_000_000, "lone CR"),
        (b"x," + b"1,2," * 2_000_000, "below a line of names"),
        (b'"x,y\n' + b"1,2\n" * 2_000_000, "below a line of names"),
        (b"\n" * 200_000 + b"x,y\n", "below a line of names"),
    ],
    ids=["returns", "no line end", "open quote", "blank"],
)
def test_a_first_line_without_end_is_refused_without_reading_the_file(monkeypatch, text, message):
    monkeypatch.setattr(csv_reader, "_LONGEST_HEADER", 1 << 17)
    lengths = []
    whole = csv_reader.tokenise
    monkeypatch.setattr(csv_reader, "tokenise", lambda run, *a, **k: lengths.append(len(run)) or whole(run, *a, **k))
    with pytest.raises(InvalidParameter, match=message):
        read_bytes(monkeypatch, text)
    assert max(lengths) < 1 << 19


@pytest.mark.parametrize(
    ("name", "text", "dialect", "message"),
    [
        ("a.csv", b"x;y\n", None, r'by commas \(its first line has semicolons and no comma\).*separator = ";"'),
        ("a.csv", b"x\ty\n", None, r'has tabs and no comma\).*csv = \{ separator = "\\t" \}'),
        ("a.csv", b"x,y\n", Dialect(";"), r'by semicolons \(its first line has commas and no semicolon\)'),
        ("a.tsv", b"x|y\n", None, r'by tabs \(its first line has bars and no tab\)'),
        ("a.csv", b"x,y\n", Dialect("~"), "separated by '~' marks "),
    ],
)  # fmt: skip
def test_another_separator_is_recognised_when_no_column_is_found(tmp_path, name, text, dialect, message):
    path = written(tmp_path / name, text)
    with pytest.raises(InvalidParameter, match=message):
        read_csv(str(path), ["x"], dialect)
    assert read_csv(str(path), None, dialect).schema.names == [text.decode().strip()]


@pytest.mark.parametrize("mark", [*"\"' \r\naZ09-+._", "", ";;", "é", 3, b";", True])
def test_what_cannot_separate(mark):
    with pytest.raises(InvalidParameter, match=r"csv\.separator must be one ASCII character that is not a quote"):
        dialect_from({"separator": mark})


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"decimal": ";"}, 'csv.decimal must be "." or ","'),
        ({"separator": ",", "decimal": ","}, "another character than csv.decimal"),
        ({"seperator": ";"}, "a key of csv must be one of separator, decimal, not 'seperator'"),
        (";", "csv must be a table of separator and decimal"),
    ],
)
def test_a_dialect_that_is_refused(given, message):
    with pytest.raises(InvalidParameter, match=message):
        dialect_from(given)


def test_a_decimal_comma_needs_another_separator(tmp_path):
    path = written(tmp_path / "a.csv", b"x,y\n")
    with pytest.raises(InvalidParameter, match=r"another character than csv\.decimal"):
        read_csv(str(path), None, dialect_from({"decimal": ","}))


def test_declared_dialects():
    assert dialect_from(None) == dialect_from({}) == Dialect()
    assert dialect_from({"separator": ";", "decimal": ","}) == Dialect(";", ",")
    for mark in ";|\t~^:\x01\x1f":
        assert Dialect(mark).separator == mark
