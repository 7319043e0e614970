"""What is kept beside releases: deleted, damaged, swapped or left from before, it changes no number and no promise."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from closed_engines import closed_engines
from share import cases
from study.fault_study import actions, ledger_of, study_in, vestry

from vestry.posterior import Posterior
from vestry.report.page import Part, Result
from vestry.study.storage import Cache

NAMES = ("readmission", "wards")
CACHED = [
    "page.json",
    "section-readmission.json",
    "section-wards.json",
    "summary-readmission.json",
    "summary-wards.json",
]


@pytest.fixture(autouse=True)
def _closed():
    with closed_engines():
        yield


@pytest.fixture(scope="module", autouse=True)
def _quick_page():
    """The page's parts without their pictures, which take a second each; every number of the posterior is told."""

    def told(result: Result, place: int, figures: int) -> Part:
        rows = [(row["mean"], row["low"], row["high"]) for row in result.posterior.rows()]
        described = f'<section id="release-{place}">90\u00a0%: {rows}, {result.spent}</section>'
        return Part(f"{rows[0]}", described, "", figures + 1, None, [[str(rows)]])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("vestry.study.report_data.part", told)
        yield


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """A study with two releases and its page, made once."""
    folder = tmp_path_factory.mktemp("kept")
    with closed_engines():
        path = study_in(folder, *NAMES)
        assert vestry("release", path, "--yes").code == 0
    return path


def everything(study: Path) -> dict[str, object]:
    """What a release again says and leaves: numbers, promises, the page, and the draws."""
    import xarray

    folder = study.parent
    done = vestry("release", study, "--json")
    assert done.code == 0, done.err
    draws = {}
    for name in NAMES:
        with xarray.open_datatree(folder / name / "posterior.nc", engine="h5netcdf") as tree:
            (values,) = tree["posterior"].data_vars.values()
            draws[name] = values.to_numpy().tolist()
    files = [f"{name}/{file}" for name in NAMES for file in ("release.json", "certificate.json")]
    texts = {file: (folder / file).read_bytes() for file in (*files, "report.html", "report.csv")}
    return {"out": done.out, "draws": draws, **texts, "head": ledger_of(folder).head()}


@pytest.fixture(scope="module")
def right(study):
    with closed_engines():
        return everything(study)


@pytest.mark.long
def test_what_is_kept(study, right):
    assert sorted(path.name for path in (study.parent / ".vestry").iterdir()) == CACHED
    assert actions(study.parent) == ["charge"] * 2 + ["open", "release"] * 2
    assert right["report.html"].count("90\u00a0%: [(0.".encode()) == 2


def test_what_exists_is_neither_computed_nor_drawn_again(study, right, monkeypatch):
    def computed(*given, **named):
        raise AssertionError("it was kept")

    for name in ("vestry.study.report_data.page", "vestry.posterior.arviz_tree.draw_file"):
        monkeypatch.setattr(name, computed)
    monkeypatch.setattr(Posterior, "from_release", computed)
    monkeypatch.setattr("vestry.study.release_costs.calibrate", computed)  # nor calibrated
    assert json.loads(vestry("release", study, "--json").out) == json.loads(right["out"])


def damage(path: Path, how: str) -> None:
    content = path.read_bytes()
    if how == "deleted":
        path.unlink()
    elif how == "empty":
        path.write_bytes(b"")
    elif how == "cut":
        path.write_bytes(content[: len(content) // 2])
    elif how == "flipped":  # a digit, so that it stays JSON
        place = next(i for i in range(len(content) // 2, len(content)) if content[i : i + 1].isdigit())
        path.write_bytes(
            content[:place] + (b"7" if content[place : place + 1] != b"7" else b"3") + content[place + 1 :]
        )
    elif how == "no object":
        path.write_bytes(b"[1, 2]")
    elif how == "nested":
        path.write_bytes(b"[" * 100_000)


@pytest.mark.parametrize(
    "how", cases(["deleted", "empty", "cut", "flipped", "no object", "nested"], quick=["cut", "flipped"])
)
@pytest.mark.parametrize("name", ["page.json", "section-wards.json", "summary-wards.json"])
@pytest.mark.long
def test_a_kept_file_that_is_damaged_changes_nothing(study, right, name, how):
    damage(study.parent / ".vestry" / name, how)
    if name.startswith("section"):  # it is looked at when the page is written again
        (study.parent / ".vestry" / "page.json").unlink()
    assert everything(study) == right


@pytest.mark.parametrize("how", ["deleted", "cut", "flipped"])
@pytest.mark.parametrize("name", ["report.html", "wards/posterior.nc"])
def test_what_follows_from_a_release_is_made_again(study, right, name, how):
    damage(study.parent / name, how)
    assert everything(study) == right


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (".vestry/summary-readmission.json", ".vestry/summary-wards.json"),
        (".vestry/section-readmission.json", ".vestry/section-wards.json"),
        (".vestry/page.json", ".vestry/summary-wards.json"),
        ("readmission/posterior.nc", "wards/posterior.nc"),
        ("report.html", "wards/posterior.nc"),
    ],
)
@pytest.mark.long
def test_kept_files_that_are_swapped_change_nothing(study, right, one, other):
    first, second = study.parent / one, study.parent / other
    contents = first.read_bytes(), second.read_bytes()
    first.write_bytes(contents[1])
    second.write_bytes(contents[0])
    if "section" in one:
        (study.parent / ".vestry" / "page.json").unlink()
    assert everything(study) == right


def test_another_version_reads_nothing_of_what_was_kept(tmp_path, monkeypatch):
    cache, facts = Cache(tmp_path), {"release": "a"}
    cache.write("summary-x", facts, {"rows": [1.5]})
    assert cache.read("summary-x", facts) == {"rows": [1.5]}
    assert cache.read("summary-x", {"release": "b"}) is None
    monkeypatch.setattr("vestry.study.storage._written_by", lambda: "another")
    assert cache.read("summary-x", facts) is None


def test_no_room_for_what_is_kept_is_no_fault(tmp_path):
    (tmp_path / ".vestry").write_text("a file where the folder would be")
    Cache(tmp_path).write("summary-x", {}, {"rows": []})
    assert Cache(tmp_path).read("summary-x", {}) is None


@pytest.mark.long
def test_a_new_release_leaves_the_parts_of_the_page_that_were_written(tmp_path, monkeypatch):
    path = study_in(tmp_path, *NAMES)
    written: list[str] = []

    def part(result, place: int, figures: int) -> Part:
        written.append(result.name)
        return Part("an answer", f'<section id="release-{place}"></section>', "", figures + 1, None, [])

    monkeypatch.setattr("vestry.study.report_data.part", part)
    assert vestry("release", path, "readmission", "--yes").code == 0
    assert vestry("release", path, "--yes").code == 0
    assert written == ["readmission", "wards"]
    assert (tmp_path / "report.html").read_text().count('<section id="release-') == 2
