"""What was charged, opened or released before is told by lines whose chain was walked, with the index and without."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from vestry.conjugate.beta_bernoulli import BetaBernoulli
from vestry.data import Table
from vestry.errors import DeclarationMismatch, LedgerCorrupt
from vestry.ledger import Ledger
from vestry.pipeline import release
from vestry.schema.domain import Levels

QUICK = 20
FULL = 200
MODEL = BetaBernoulli("readmitted", success="yes", by="ward")


@pytest.fixture
def table(tmp_path) -> Table:
    people = tmp_path / "people.csv"
    people.write_text("readmitted,ward\n" + "yes,A\nno,B\nno,C\n" * 20)
    columns = {"readmitted": Levels("no", "yes"), "ward": Levels("A", "B", "C")}
    return Table(people, columns, neighbours="add-remove")


@pytest.fixture
def released(make, table) -> Path:
    """A ledger in which the question was charged, opened and released, with other charges before and after."""
    ledger = make(budget="epsilon=5,delta=1e-6")
    ledger.charge("epsilon=0.1", purpose="before")
    release(MODEL, table, guarantee="epsilon=0.3", ledger=ledger)
    ledger.charge("epsilon=0.1", purpose="after").open()
    return Path(ledger.address)


def definition_of(path: Path) -> str:
    (definition,) = [entry.facts["definition"] for entry in Ledger.open(path).entries() if "definition" in entry.body]
    return definition


def flipped_definitions(path: Path, folder: Path, count: int):
    """Yield copies of a ledger's file, each with one flipped bit in the definition of the charge."""
    content = path.read_bytes()
    definition = definition_of(path).encode()
    start = content.index(b'"definition":"' + definition) + len(b'"definition":"')
    bits = range(8 * start, 8 * (start + len(definition)))
    chooser = random.Random(20261119)
    for number in range(count):
        bit = chooser.choice(bits)
        flipped = bytearray(content)
        flipped[bit // 8] ^= 1 << bit % 8
        copy = folder / f"flipped-{number}.ledger"
        copy.write_bytes(flipped)
        yield copy


def assert_nothing_is_paid_again(path: Path, table: Table) -> None:
    before = path.read_bytes()
    with pytest.raises(LedgerCorrupt, match=r"^the ledger does not verify") as refused:
        release(MODEL, table, guarantee="epsilon=0.3", ledger=str(path))
    assert "\n" not in str(refused.value)
    assert path.read_bytes() == before


@pytest.mark.parametrize("count", [QUICK, pytest.param(FULL, marks=pytest.mark.long)])
def test_a_flipped_definition_is_refused_and_never_paid_for_again(released, table, tmp_path, count):
    with pytest.raises(DeclarationMismatch, match=r"released before, by entry 2"):
        release(MODEL, table, guarantee="epsilon=0.3", ledger=str(released))
    for copy in flipped_definitions(released, tmp_path, count):
        assert_nothing_is_paid_again(copy, table)
