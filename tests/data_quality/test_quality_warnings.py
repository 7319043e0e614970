"""Declarations that do not fit are said in words: in terminal, JSON and report, and beside what rests on them."""

from __future__ import annotations

import json

import numpy as np
import pytest
from seeded_noise import SeededNoise
from typer.testing import CliRunner

import vestry
from vestry.cli import app
from vestry.conjugate.simulation import noisy_statistics
from vestry.data import Table
from vestry.data_quality.quality_model import Quality
from vestry.data_quality.quality_posterior import quality_reader
from vestry.data_quality.quality_warnings import finding
from vestry.errors import StudyFileError
from vestry.model.request import Request
from vestry.pipeline import schema_of
from vestry.privacy.guarantee import Guarantee
from vestry.privacy.neighbours import Neighbours, Unit
from vestry.schema.domain import Interval, Levels
from vestry.schema.private import reveal
from vestry.schema.statistics import CONDITIONS
from vestry.schema.table_schema import TableSchema
from vestry.study import Study

N = 1000
GARBAGE = ("smoker", "weight", "city", "month")
COLUMNS = {
    "smoker": vestry.Levels("no", "yes"),
    "weight": vestry.Interval(30, 200, missing="drop"),
    "city": vestry.Levels("café", "thé"),
    "month": vestry.Levels("2024-01", "2024-02", missing="level"),
    **{f"good{place}": vestry.Levels("a", "b") for place in range(6)},
}
SAID = {
    "smoker": ["of 100 values of smoker match no declared level", 'count as "no"', 'is "no" written "No"?'],
    "weight": ["of 100 values of weight are not numbers", "their records are dropped", "written with a comma"],
    "city": ["of 100 values of city match no declared level", "in Latin-1 and not in UTF-8?"],
    "month": ["of 100 values of month match no declared level", "are they full dates"],
}


def rows(n=N):
    """Return a CSV file in Latin-1 with capital letters, decimal commas, accents and full dates, and good columns."""
    rng = np.random.default_rng(1)
    lines = [",".join(COLUMNS)]
    for place in range(n):
        smoker, city = rng.choice(["No", "Yes"]), rng.choice(["café", "thé"])
        lines.append(
            f'{smoker},"{50 + place % 90},5",{city},2024-0{1 + place % 2}-{1 + place % 28:02},' + "a,b,a,b,a,b"
        )
    return ("\n".join(lines) + "\n").encode("latin-1")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("garbage")
    (made / "records.csv").write_bytes(rows())
    return made


def noisy_release(folder, relation, spend):
    """Return what a release of ten columns is made of: the reader, the true counts and the mechanism."""
    table = Table(folder / "records.csv", COLUMNS, neighbours=relation)
    prepared = Request(Quality(tuple(COLUMNS)), Guarantee.parse(spend), "laplace").prepare(schema_of(table), N)
    counts = np.array(reveal(prepared.collect(table, row_key="k")))
    return quality_reader(prepared.described, prepared.numbers), counts, prepared.mechanism


@pytest.mark.parametrize("column", GARBAGE)
def test_garbage_is_found_at_a_tenth_of_epsilon_among_ten_columns(folder, column):
    """Also where the noise hides it, three scales more values that fit and three fewer that do not: 1 in 1,600.

    The noise is put in by hand, so the test has no chance of its own.
    """
    reader, counts, mechanism = noisy_release(folder, "add-remove", "epsilon=0.1")
    assert mechanism.scale == pytest.approx(100, rel=1e-6)
    names, away = mechanism.layout.names, round(3 * mechanism.scale)
    counts[names.index(f"{column}=fits")] += away
    counts[names.index(f"{column}=unmatched")] -= away
    shares = reader.noise_aware(mechanism.statistics(tuple(counts.tolist())))
    found = {each.column: each for each in reader.findings({"all": shares})}
    assert set(found) == set(GARBAGE)
    for words in SAID[column]:
        assert words in found[column].sentence
    assert found[column].condition == "unmatched"
    assert found[column].share > 0.5


def test_columns_that_fit_are_not_warned_of(folder):
    """Three noise scales too many in each of the good columns are not taken for bad values."""
    reader, counts, mechanism = noisy_release(folder, "add-remove", "epsilon=0.1")
    for place in range(6):
        counts[mechanism.layout.names.index(f"good{place}=unmatched")] += round(3 * mechanism.scale)
    shares = reader.noise_aware(mechanism.statistics(tuple(counts.tolist())))
    assert {each.column for each in reader.findings({"all": shares})} == set(GARBAGE)


class Certain:
    """A share that is known."""

    def __init__(self, share):
        self.share = share

    def mean(self):
        return self.share

    def cdf(self, x):
        return float(x >= self.share)

    def interval(self, prob):
        return self.share, self.share


NUMBERS, DATES = {"interval": [0, 60]}, {"interval": ["2024-01-01", "2024-12-31"]}


@pytest.mark.parametrize(
    ("domain", "condition", "words"),
    [
        ({"levels": ["no", "yes"]}, "unmatched", 'count as "no" (90 % credible interval 40 to 40): is "no" written'),
        ({"levels": ["NO", "Yes"]}, "unmatched", 'is "NO" written "no"?'),
        ({"levels": ["no"], "missing": {"value": "yes"}}, "unmatched", 'count as "yes"'),
        ({"levels": [0, 1]}, "unmatched", "is 0 written another way, for example with a zero before it?"),
        ({"levels": [False, True]}, "missing", "are missing, and count as false"),
        ({"levels": ["2024-01-01", "2024-01-02"]}, "unmatched", "written otherwise than 2024-01-01, or with a time"),
        ({"levels": ["2023", "2024"]}, "unmatched", 'are they full dates, such as 2023-01-31, where "2023" is'),
        (NUMBERS, "unmatched", "are not numbers, and count as 0"),
        (NUMBERS, "clipped", "lie outside 0 to 60 and are clipped"),
        ({**NUMBERS, "missing": "drop"}, "missing", "are missing, and their records are dropped"),
        (DATES, "unmatched", 'are not dates as declared, and count as "2024-01-01"'),
        (DATES, "clipped", "lie outside 2024-01-01 to 2024-12-31 and are clipped"),
    ],
)  # fmt: skip
def test_words(domain, condition, words):
    found = finding("ward", domain, condition, Certain(0.4))
    assert found.sentence.startswith("About 40 of 100 values of ward ")
    assert words in found.sentence
    assert found.sentence.endswith(("?", "."))


def test_a_small_share_is_not_warned_of():
    assert finding("ward", NUMBERS, "missing", Certain(0.04)) is None


STUDY = """
[study]
name = "garbage"
data = "records.csv"
unit = "row"
neighbours = "add-remove"
budget = { epsilon = 2.0 }
ledger = "records.ledger"

[columns]
smoker = { levels = ["no", "yes"] }
weight = { interval = [30, 200], missing = "drop" }
good0 = { levels = ["a", "b"] }

[release.quality]
model = "quality"
spend = { epsilon = 0.1 }

[release.smoking]
model = "beta-bernoulli"
column = "smoker"
success = "yes"
spend = { epsilon = 0.5 }

[release.good]
model = "beta-bernoulli"
column = "good0"
success = "a"
spend = { epsilon = 0.5 }
"""


@pytest.fixture
def study(tmp_path):
    """Make the study of three columns: noise of scale 30, so that chance plays no part."""
    (tmp_path / "records.csv").write_bytes(rows())
    (tmp_path / "study.toml").write_text(STUDY)
    vestry.Ledger.create(
        str(tmp_path / "records.ledger"), dataset="d", unit="row", neighbours="add-remove", budget="epsilon=2"
    )
    return tmp_path / "study.toml"


def test_a_study_file_means_every_declared_column(study):
    request = Study.open(study).config.release("quality").request
    assert request.model.columns == ("smoker", "weight", "good0")
    study.write_text(STUDY.replace('model = "quality"', 'model = "quality"\ncolumns = ["smoker"]'))
    assert Study.open(study).config.release("quality").request.model.columns == ("smoker",)


@pytest.mark.parametrize(
    ("keys", "fault"),
    [
        ('columns = ["smokers"]', "a column must be one that is declared"),
        ("columns = []", "columns must be a list of declared columns"),
        ('columns = ["smoker", "smoker"]', "columns must be each column once"),
        ("prior = 0", "prior must be"),
        ('by = "smoker"', "by"),
        ('mechanism = "diffused"', "mechanism must be one of auto, laplace, gaussian"),
    ],
)
def test_faults_point_at_their_line(study, keys, fault):
    study.write_text(STUDY.replace('model = "quality"', f'model = "quality"\n{keys}'))
    with pytest.raises(StudyFileError, match=fault):
        Study.open(study)


@pytest.mark.long
def test_warnings_stand_beside_what_rests_on_the_column(study):
    opened = Study.open(study)
    outcomes = opened.release(noise=SeededNoise(1))
    assert [each.name for each in outcomes] == ["quality", "smoking", "good"]
    page = (study.parent / "report.html").read_text()
    beside = {part.split("</h3>")[0]: part for part in page.split('<section id="release-')[1:]}
    sections = {
        name: next(text for head, text in beside.items() if head.endswith(name)) for name in ("smoking", "good")
    }
    assert "Warning. About" in sections["smoking"]
    assert "values of smoker match no declared level" in sections["smoking"]
    assert "Warning" not in sections["good"]
    assert "values of weight are not numbers" in page
    assert "No,Yes" not in page  # no value of the data


@pytest.mark.long
def test_the_terminal_and_json_warn(study):
    opened = Study.open(study)
    opened.release(noise=SeededNoise(1))
    run = CliRunner().invoke(app, ["release", str(study), "--yes"])
    assert run.exit_code == 0
    assert run.output.count("warning: About") == 3  # two beside quality, one beside smoking
    record = json.loads(CliRunner().invoke(app, ["release", str(study), "--yes", "--json"]).stdout)
    warned = {each["name"]: each.get("warnings", []) for each in record["releases"]}
    assert [len(warned[name]) for name in ("quality", "smoking", "good")] == [2, 1, 0]
    assert warned["smoking"][0].endswith("(see quality)")
    file = study.parent / "quality" / "release.json"
    found = json.loads(CliRunner().invoke(app, ["posterior", str(file), "--json"]).stdout)
    assert len(found["warnings"]) == 2


@pytest.mark.long
def test_a_finding_counts_while_the_column_is_declared_so(study):
    Study.open(study).release(noise=SeededNoise(1))
    mended = STUDY.replace('smoker = { levels = ["no", "yes"] }', 'smoker = { levels = ["No", "Yes"] }')
    study.write_text(mended.replace('success = "yes"', 'success = "Yes"'))
    runner, _ = Study.open(study).runner()
    assert runner.warnings([])["smoking"] == ()


def test_a_plan_says_how_wide_the_shares_will_be(study):
    forecast = Study.open(study).forecasts("quality")[0]
    assert forecast.mechanism == "laplace"
    assert 0 < forecast.width < 0.3
    assert forecast.exact_width == 0
    assert not forecast.swamped


HALF = [("laplace", "add-remove", 40), ("laplace", "replace", 40), ("gaussian", "add-remove", 40)]


def of_two_columns(mechanism: str, relation: str):
    """Return a model, its schema and what a release of 1,000 records would be."""
    schema = TableSchema({"yes": Levels("no", "yes"), "days": Interval(0, 60)}, Unit(), Neighbours.parse(relation))
    model, spend = (
        Quality(tuple(schema.domains)),
        "epsilon=0.2,delta=1e-6" if mechanism == "gaussian" else "epsilon=0.2",
    )
    made = Request(model, Guarantee.parse(spend, neighbours=relation), mechanism).prepare(schema, 1000)
    return model, schema, made


def test_on_a_cube_nine_tenths_of_its_edge_are_planned():
    """The half edge m has a mean of (d + 1) scales for d counts, and a count is uniform within it."""
    model, schema, made = of_two_columns("cube", "replace")
    mean = (len(made.mechanism.layout.names) + 1) * made.mechanism.scale
    planned, _, _ = model.forecast(made, schema, 1000, np.random.default_rng(7))
    assert planned == pytest.approx(0.9 * 2 * mean / 1000, rel=0.15)


@pytest.mark.long
@pytest.mark.parametrize(("mechanism", "relation", "releases"), HALF)
def test_a_plan_knows_the_width_of_a_share_of_one_half(mechanism, relation, releases):
    """Of simulated releases in whose columns half of the values are missing: the mean within 15 %."""
    (model, schema, made), rng = of_two_columns(mechanism, relation), np.random.default_rng(7)
    planned, exact, _ = model.forecast(made, schema, 1000, rng)
    reader = quality_reader(made.described, made.numbers)
    counts = [500 if term.condition in CONDITIONS[:2] else 0 for term in made.tally.terms]
    shares = [place for place, (_, condition) in enumerate(reader.conditions) if condition == CONDITIONS[1]]
    found = [reader.noise_aware(noisy_statistics(made.mechanism, counts, rng)) for _ in range(releases)]
    widths = [np.ptp(each.marginal(place).interval(0.9)) for each in found for place in shares]
    assert planned == pytest.approx(np.mean(widths), rel=0.15)
    assert exact == 0


@pytest.mark.parametrize(
    ("spend", "columns", "cautions"),
    [("epsilon=0.1", 10, True), ("epsilon=0.1", 7, False), ("epsilon=0.1,delta=1e-6", 10, False)],
)
def test_a_plan_says_where_noise_may_hide_a_column(spend, columns, cautions):
    schema = TableSchema({f"c{i}": Levels("no", "yes") for i in range(columns)}, Unit(), Neighbours.REPLACE)
    model = Quality(tuple(schema.domains))
    mechanism = "gaussian" if "delta" in spend else "laplace"
    prepared = Request(model, Guarantee.parse(spend, neighbours=schema.neighbours), mechanism).prepare(schema, 1000)
    assert ("add a delta" in model.caution(prepared, schema, 1000)) == cautions
