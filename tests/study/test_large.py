"""What is large either works in seconds or is refused by its declaration; files of draws stay small."""

from __future__ import annotations

import json
import time

import pytest
from closed_engines import closed_engines
from study.fault_study import actions, study_in, vestry

from vestry.conjugate.beta_bernoulli import BetaBernoulli
from vestry.conjugate.dirichlet_categorical import DirichletCategorical
from vestry.conjugate.normal_mean import NormalMeanFamily
from vestry.errors import InvalidParameter, StudyFileError
from vestry.hmm.hmm_model import HiddenMarkovModel
from vestry.model.request import MOST_COUNTS, MOST_GROUPS, MOST_LEVELS, MOST_PARAMETERS, check_size
from vestry.naive_bayes.naive_bayes_model import NaiveBayes
from vestry.posterior.arviz_tree import MOST_NUMBERS, _size
from vestry.regression.logistic_model import LogisticRegression
from vestry.schema.domain import Levels
from vestry.study import Study


@pytest.fixture(autouse=True)
def _closed():
    with closed_engines():
        yield


def large(tmp_path, levels: int, *lines: str):
    study = study_in(tmp_path)
    listed = ", ".join(f'"{level}"' for level in range(levels))
    text = study.read_text().replace('ward = { levels = ["A", "B", "C"] }', f"ward = {{ levels = [{listed}] }}")
    head, _, _ = text.partition("[release.")
    study.write_text(head + "[release.large]\n" + "\n".join([*lines, "spend = { epsilon = 0.1 }"]) + "\n")
    return study


@pytest.mark.long
@pytest.mark.parametrize(
    ("levels", "lines", "size"),
    [
        (
            100_001,
            ('model = "dirichlet-categorical"', 'column = "ward"'),
            "(parameters) must be at most 100000, not 100001",
        ),
        (
            10_001,
            ('model = "beta-bernoulli"', 'column = "readmitted"', 'success = "yes"', 'by = "ward"'),
            "(groups x parameters) must be at most 10000, not 10001",
        ),
    ],
)
def test_check_refuses_what_is_too_large(tmp_path, levels, lines, size):
    study = large(tmp_path, levels, *lines)
    for command in (["check", study], ["release", study, "--yes"]):
        done = vestry(*command)
        assert (done.code, done.out) == (2, "")
        assert done.err.startswith("vestry: study.toml, line ")
        assert f"release.large: the size of the model {size}; write fewer levels" in done.err
        assert len(done.err) < 500
    assert actions(tmp_path) == []


def domains(**sizes: int) -> dict[str, Levels]:
    return {name: Levels(*map(str, range(size))) for name, size in sizes.items()}


@pytest.mark.parametrize(
    ("model", "sizes", "most"),
    [
        (DirichletCategorical("a"), {"a": MOST_LEVELS}, True),
        (DirichletCategorical("a"), {"a": MOST_LEVELS + 1}, False),
        (DirichletCategorical("a", prior=(1.0,) * 3), {"a": MOST_PARAMETERS}, True),
        (DirichletCategorical("a", prior=(1.0,) * 3), {"a": MOST_PARAMETERS + 1}, False),
        (DirichletCategorical("a", by="b"), {"a": 50, "b": 50}, True),
        (DirichletCategorical("a", by="b"), {"a": 50, "b": 51}, False),
        (BetaBernoulli("a", success="1", by="b"), {"a": 2, "b": MOST_GROUPS}, True),
        (BetaBernoulli("a", success="1", by="b"), {"a": 2, "b": MOST_GROUPS + 1}, False),
        (BetaBernoulli("a", success="1", by="b", pool=True), {"a": 2, "b": MOST_PARAMETERS}, True),
        (BetaBernoulli("a", success="1", by="b", pool=True), {"a": 2, "b": MOST_PARAMETERS + 1}, False),
        (NaiveBayes(("a", "b"), "c"), {"a": 100, "b": 25, "c": 20}, True),
        (NaiveBayes(("a", "b"), "c"), {"a": 100, "b": 26, "c": 20}, False),
        (LogisticRegression(outcome="c", predictors=("a", "b")), {"a": 2499, "b": 2, "c": 2}, False),
        (LogisticRegression(outcome="c", predictors=("a", "b")), {"a": 2498, "b": 2, "c": 2}, True),
        (LogisticRegression(outcome="c", predictors=("a",)), {"a": 834, "c": 3}, False),
        (HiddenMarkovModel({"region": "a", "time": "b"}, ("c",)), {"a": 50, "b": 50, "c": MOST_COUNTS // 2500}, True),
        (
            HiddenMarkovModel({"region": "a", "time": "b"}, ("c",)),
            {"a": 50, "b": 50, "c": MOST_COUNTS // 2500 + 1},
            False,
        ),
    ],
)
def test_the_size_of_a_model_follows_from_its_declaration(model, sizes, most):
    if most:
        check_size(model, domains(**sizes))
        return
    with pytest.raises(
        InvalidParameter, match=r"^the size of the model \(.*\) must be at most \d+, not \d+; write fewer"
    ):
        check_size(model, domains(**sizes))


def test_a_key_of_fifty_thousand_parts_is_refused_at_once(tmp_path):
    study = study_in(tmp_path)
    study.write_text(study.read_text() + "\n" + ".".join(["a"] * 50_000) + " = 1\n")
    start = time.perf_counter()
    with pytest.raises(
        StudyFileError, match=r"^study.toml, line \d+, the file: a key has more than 16 parts; write it as"
    ):
        Study.open(study)
    assert time.perf_counter() - start < 20  # in quadratic time it is minutes
    study.write_text(study.read_text().partition("\na.a")[0] + "\n# a.b.c.d.e.f.g.h.i.j.k.l.m.n.o.p.q.r\n")
    Study.open(study)


def test_a_mean_of_very_many_coordinates_is_refused():
    done = vestry("calibrate", "laplace", "--family", "normal-mean", "--variance", "1", "--low", "0", "--high", "1",
                  "--n", "100", "--dimension", "100000000", "--guarantee", "epsilon=1")  # fmt: skip
    assert (done.code, done.out) == (2, "")
    assert "dimension must be a whole number from 1 to 10000, not 100000000" in done.err
    assert NormalMeanFamily(1.0, 0.0, 1.0, 10_000).dimension == 10_000


# Files of draws


@pytest.mark.parametrize("numbers", [1, 2, 3, 4, 10, 100, 625, 626, 2500, 10_000, 10_001])
def test_a_file_holds_up_to_ten_thousand_numbers(numbers):
    chains, draws = _size(numbers, MOST_NUMBERS)
    assert chains * draws * numbers <= 10_000
    assert (chains + 1) * (draws + 1) * numbers > 5_000 or (chains, draws) == (4, 1000)
    assert chains <= max(draws, 1)
    assert (draws == 0) == (numbers > 10_000)
    assert _size(numbers, None) == (4, 1000)


@pytest.mark.long
def test_more_draws_are_written_on_demand(tmp_path, monkeypatch):
    import xarray

    monkeypatch.setattr("vestry.study.report_data.page", lambda story, write=None: "<html></html>")
    study = study_in(tmp_path, "readmission", "draws")
    assert vestry("release", study, "--yes").code == 0
    shapes = {}
    for name, command in (("readmission", ["--prior", "2,2"]), ("draws", [])):
        file = tmp_path / f"{name}.nc"
        done = vestry("posterior", tmp_path / name / "release.json", *command, "--draws", file, "--json")
        assert done.code == 0, done.err
        assert json.loads(done.out)["draws_file"] == str(file)
        first = file.read_bytes()
        vestry("posterior", tmp_path / name / "release.json", *command, "--draws", file)
        for path in (file, tmp_path / name / "posterior.nc"):
            with xarray.open_datatree(path, engine="h5netcdf") as tree:
                (values,) = tree["posterior"].data_vars.values()
                shapes[path.relative_to(tmp_path).as_posix()] = values.shape
        assert len(first) == file.stat().st_size
    assert shapes == {
        "readmission.nc": (4, 1000, 3), "readmission/posterior.nc": (4, 833, 3), "draws.nc": (1, 2),
        "draws/posterior.nc": (1, 2),
    }  # fmt: skip
    done = vestry("posterior", tmp_path / "draws" / "release.json", "--draws", tmp_path / "no" / "such" / "x.nc")
    assert done.code == 0


@pytest.mark.long
def test_a_page_tells_of_the_first_rows_of_very_many(monkeypatch):
    from report.example import counts, laplace, release, result

    from vestry.report.page import part

    for room in ("content", "release_section"):
        monkeypatch.setattr(f"vestry.report.{room}.MOST_ESTIMATES", 14)
    names = tuple(f"level {place}" for place in range(16))
    made = release(counts(*range(16), names=names), laplace(), family="dirichlet-categorical", prior=(1.0,) * 16)
    told = part(result("large", "Which?", made, labels=names), 1, 0)
    assert "the first 14 of 16 rows, all of them by vestry posterior" in told.section
    assert "the first 14 of 16 rows, all of them in release.json" in told.proof
    assert "level 13" in told.section
    assert "level 15" not in told.section
    assert "the table has the first 14 of 16" in told.answer
