"""Studies, ledgers, releases and certificates of 0.1.0: they open, say the same, and cost nothing.

The files were made by 0.1.0 itself, and so was what is expected of them: `version_0_1_0/make.py`. Draws of hidden
states are seeded by the release; everything else that is compared is computed without any. 0.1.0 took the noisy counts
of hidden states as exact, so there its numbers are those of `--plug-in`.
"""

from __future__ import annotations

import hashlib
import json
import tarfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from closed_engines import closed_engines
from share import cases
from study.fault_study import vestry

from vestry import BetaBernoulli, Event, GammaPoisson, Guarantee, Ledger, Study, release
from vestry.errors import ConversionError, DeclarationMismatch
from vestry.privacy import accountant

DATA = Path(__file__).parent / "version_0_1_0"
EXPECTED: dict[str, Any] = json.loads((DATA / "expected.json").read_text())["studies"]


@dataclass(frozen=True)
class Old:
    """A study's folder as 0.1.0 left it, and what 0.1.0 said of it."""

    folder: Path
    expected: dict[str, Any]

    @property
    def file(self) -> Path:
        return self.folder / "study.toml"

    @property
    def ledger(self) -> Ledger:
        return Ledger.open(self.folder / "patients.ledger")

    def record(self, name: str, file: str) -> dict[str, Any]:
        return json.loads((self.folder / name / file).read_text())

    def lines(self) -> list[str]:
        """What was written into the ledger since."""
        entries = list(self.ledger.entries())
        assert [entry.hash for entry in entries][: len(self.expected["entries"])] == self.expected["entries"]
        return [entry.action for entry in entries[len(self.expected["entries"]) :]]


@pytest.fixture(params=cases(EXPECTED, quick=["add-remove"]))
def old(request, tmp_path, monkeypatch) -> Old:
    with tarfile.open(DATA / f"{request.param}.tar.gz") as archive:
        archive.extractall(tmp_path, filter="data")
    # The page of all of them takes a minute, and has tests of its own.
    monkeypatch.setattr("vestry.study.report_data.page", lambda story, write=None: "<html></html>")
    with closed_engines():
        yield Old(tmp_path, EXPECTED[request.param])


@pytest.mark.long
def test_an_old_key_has_a_notice_with_the_new_one(old):
    done = vestry("check", old.file)
    assert done.code == 0
    assert f"n was renamed: write expected_rows = {Study.open(old.file).config.expected_rows}." in done.err


def said(*arguments: object) -> dict[str, Any]:
    done = vestry(*arguments, "--json")
    assert done.code == 0, done.err
    return json.loads(done.out)


def leaves(record: Any, path: str = "") -> dict[str, Any]:
    """Return every number and word of a record by its place."""
    if isinstance(record, dict):
        kept = {key: each for key, each in record.items() if key not in ("interval_method", "note")}  # 0.1.0 was silent
        return {place: leaf for key, each in kept.items() for place, leaf in leaves(each, f"{path}/{key}").items()}
    if isinstance(record, list):
        return {place: leaf for key, each in enumerate(record) for place, leaf in leaves(each, f"{path}/{key}").items()}
    return {path: record}


def assert_same(found: Any, expected: Any) -> None:
    """Compare two records: words exactly, numbers to 1e-9."""
    ours, theirs = leaves(found), leaves(expected)
    numbers = {place: leaf for place, leaf in theirs.items() if isinstance(leaf, float)}
    assert {place: ours.get(place) for place in numbers} == pytest.approx(numbers, rel=1e-9, abs=1e-12)
    assert {**ours, **numbers} == theirs


def test_the_ledger_opens_and_says_the_same(old):
    file = old.folder / "patients.ledger"
    assert file.read_bytes()[18:20] == b"\2\2"  # a write-ahead log, as 0.1.0 has
    ledger, expected = old.ledger, old.expected
    assert ledger.verify(head=expected["head"]).entries == len(expected["entries"])
    assert ledger.head() == expected["head"]
    assert ledger.row_key() == expected["row_key"]
    assert old.lines() == []
    state = ledger.state()
    assert state.spent.to_dict() == expected["spent"]
    assert all(amount in expected["left"] for amount in state.filter.remaining(state.spent).values())
    assert not ledger.first_charge_chooses


@pytest.mark.long
def test_releasing_again_is_free_and_says_the_same(old):
    files = {path: path.read_bytes() for path in old.folder.glob("[a-z]*/*.json")}
    found = said("release", old.file, *old.expected["names"])  # without --yes: nothing is spent
    assert {each["done"] for each in found["releases"]} == {"released before, free"}
    assert found["head"] == old.expected["head"]
    assert old.lines() == []
    assert {path: path.read_bytes() for path in old.folder.glob("[a-z]*/*.json")} == files
    own = {each["release"]: each["record"] for each in old.expected["posteriors"] if not each["options"]}
    summaries = {each["name"]: each["summary"] for each in found["releases"]}
    assert summaries.keys() == own.keys()
    for name, record in own.items():
        if "states" in record:
            assert len(summaries[name]) == len(record["rows"])
            assert_same(said("posterior", old.folder / name / "release.json", "--plug-in"), renamed(record))
        else:
            assert_same(summaries[name], told(record["rows"]))


def told(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows of `vestry posterior` as `vestry release` tells them: released draws one by one."""
    if "values" not in rows[0]:
        return rows
    groups = dict.fromkeys(row.get("group", "all") for row in rows)
    columns = {group: [row["values"] for row in rows if row.get("group", "all") == group] for group in groups}
    return [{"group": group, "draw": list(draw)} for group in groups for draw in zip(*columns[group], strict=True)]


@pytest.mark.long
def test_other_posteriors_are_the_same(old):
    for each in old.expected["posteriors"]:
        if each["options"]:
            options = ["--prob" if option == "--level" else option for option in each["options"]]
            options += ["--plug-in"] if "states" in each["record"] else []
            found = read_again(old.folder / each["release"] / "release.json", *options)
            assert_same(found, renamed(each["record"]))


@pytest.mark.long
def test_a_release_that_was_kept_from_python_opens(old):
    assert_same(read_again(old.folder / "python.json"), renamed(old.expected["python"]))


def read_again(*arguments: object) -> dict[str, Any]:
    """Return what is said of a posterior, but for what an interval takes as independent, which was not said then."""
    found = said("posterior", *arguments)
    found.pop("note", None)
    return found


def renamed(record: dict[str, Any]) -> dict[str, Any]:
    """Return what 0.1.0 printed, by the names of today."""
    return {"prob" if key == "level" else key: value for key, value in record.items()}


def test_certificates_hold(old):
    """The file is the one that was certified, the ledger knows it, and its event costs what it did."""
    known = {entry.target: entry.facts["release_sha256"] for entry in old.ledger.entries() if entry.action == "release"}
    for name in old.expected["names"]:
        facts, made = old.record(name, "certificate.json"), old.record(name, "release.json")
        content = (old.folder / name / "release.json").read_bytes()
        assert facts["release_sha256"] == known[facts["entry"]] == hashlib.sha256(content).hexdigest()
        assert facts["certificate"] == made["certificate"]
        assert_same(price(made["certificate"]), old.expected["prices"][name])


def price(certificate: dict[str, Any]) -> dict[str, Any] | None:
    numbers = dict(certificate["guarantee"])
    guarantee = Guarantee.parse(numbers, neighbours=numbers.pop("neighbours"))
    try:
        return accountant.price(Event.from_dict(certificate["event"]), guarantee).to_dict()
    except ConversionError:
        return None


@pytest.mark.long
def test_a_charge_that_was_not_opened_is_resumed(old):
    found = said("release", old.file, "waiting")
    assert [each["done"] for each in found["releases"]] == ["resumed, at no new cost"]
    assert old.lines() == ["open", "release"]
    assert old.ledger.state().spent.to_dict() == old.expected["spent"]


@pytest.mark.long
def test_a_release_that_was_saved_and_not_told_is_found(old):
    (saved,) = (old.folder / "saved").glob("release-*.json")
    found = said("release", old.file, "saved")
    assert [each["done"] for each in found["releases"]] == ["released before, free"]
    assert old.lines() == ["release"]
    assert (old.folder / "saved" / "release.json").read_bytes() == saved.read_bytes()
    assert old.ledger.state().spent.to_dict() == old.expected["spent"]


def test_a_question_that_was_asked_from_python_is_known(old):
    table, ledger = Study.open(old.file).table, old.ledger
    falls = GammaPoisson("falls", by="site", prior=(1.0, 2.0))
    with pytest.raises(DeclarationMismatch, match=rf"released before, by entry {len(old.expected['entries']) - 3}"):
        release(falls, table, guarantee="epsilon=0.5", ledger=ledger)
    readmission = BetaBernoulli("readmitted", success="yes", by="ward")
    with pytest.raises(DeclarationMismatch, match=r"released before, by entry \d+"):  # the study file asked it
        release(readmission, table, guarantee="epsilon=0.5", ledger=ledger)
    assert old.lines() == []
