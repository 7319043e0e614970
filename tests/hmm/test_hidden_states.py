"""Hidden states: from a table to a map of states, and what is free once the counts are released."""

from __future__ import annotations

import html
import json
import math
import sys
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from report.page_reader import faults, read
from seeded_noise import SeededNoise

import vestry
import vestry.hmm
from vestry.errors import InvalidParameter, LedgerStateError, MissingExtra, VestryError
from vestry.hmm.hidden_states import match_states
from vestry.hmm.hmm_model import HiddenMarkovModel
from vestry.model.request import Request
from vestry.pipeline import charge_for, run, schema_of
from vestry.posterior import Posterior
from vestry.privacy.guarantee import Guarantee
from vestry.releases import Release, open_release
from vestry.report.content import ReportContent, Result
from vestry.report.page import page
from vestry.schema.domain import Interval, Levels

REGIONS, MONTHS = ("north", "south", "east", "west", "coast"), tuple(f"2024-{m:02d}" for m in range(1, 13))
COLUMNS = {
    "region": Levels(*REGIONS),
    "month": Levels(*MONTHS, missing="drop"),
    "type": Levels("attack", "find", "other"),
    "civil": Levels("none", "some"),
    "force": Levels("none", "some"),
}
FEATURES = ("type", "civil", "force")
PLANTED = {"type": [(0.6, 0.3, 0.1), (0.15, 0.25, 0.6)], "civil": [(0.5, 0.5), (0.85, 0.15)], "force": [(0.8, 0.2)] * 2}
SEQUENCE = {"region": "region", "time": "month"}
METHODS = ("noise-aware", "plug-in")
MODEL = HiddenMarkovModel(SEQUENCE, FEATURES, cell="public")


def planted(each: float = 40.0, seed: int = 7) -> tuple[pd.DataFrame, np.ndarray]:
    """Make entries from two states that last about ten months; one month has none."""
    rng = np.random.default_rng(seed)
    states, rows = np.zeros((len(REGIONS), len(MONTHS)), int), []
    for r, region in enumerate(REGIONS):
        state = r % 2
        for t, month in enumerate(MONTHS):
            state = state if rng.random() < 0.9 else 1 - state
            states[r, t] = state
            size = 0 if (r, t) == (1, 4) else rng.poisson(each)
            drawn = {f: rng.choice(COLUMNS[f].names, p=p[state], size=size) for f, p in PLANTED.items()}
            rows.append(pd.DataFrame({"region": [region] * size, "month": [month] * size, **drawn}))
    return pd.concat(rows).astype("object"), states


def made(model=MODEL, spend="epsilon=5", *, frame=None, neighbours="replace", mechanism="laplace", tmp_path) -> Release:
    """Release through a ledger, with noise that repeats."""
    table = vestry.Table(planted()[0] if frame is None else frame, COLUMNS, unit="row", neighbours=neighbours)
    ledger = vestry.Ledger.create(
        tmp_path / "a.ledger", dataset="a", unit="row", neighbours=neighbours, budget="epsilon=99,delta=1e-5"
    )
    request = Request(model, Guarantee.parse(spend, neighbours=neighbours), mechanism)
    ready = request.prepare(schema_of(table), None)
    return run(ready, table, charge_for(ready.mechanism, ledger, "a test"), noise=SeededNoise(3))


@pytest.fixture(scope="module")
def release(tmp_path_factory):
    return made(tmp_path=tmp_path_factory.mktemp("hmm"))


@pytest.fixture(scope="module")
def sampled(release):
    pytest.importorskip("numba")
    return Posterior.from_release(release)


@pytest.mark.long
def test_noise_beyond_the_sums_has_the_plug_in_posterior(tmp_path):
    pytest.importorskip("numba")
    found = Posterior.from_release(made(spend="epsilon=1e-7", tmp_path=tmp_path), sweeps=20)
    assert found.label == "plug-in"
    assert found.states().probabilities.shape == (len(REGIONS), len(MONTHS), 2)


@pytest.mark.long
def test_two_planted_states_come_back(sampled):
    """Laplace noise at epsilon = 5 and 40 entries a cell: at least 95 % of the cells."""
    found, truth = sampled.states(), planted()[1]
    seen = np.ones(truth.shape, bool)
    seen[1, 4] = False  # no entry tells of it
    assert (found.most_probable - 1 == truth)[seen].mean() >= 0.95
    assert found.probabilities.sum(axis=-1) == pytest.approx(1)
    assert found.emissions["type"] == pytest.approx(np.array(PLANTED["type"]), abs=0.08)
    assert found.transitions.sum(axis=1) == pytest.approx(1)
    assert found.start.sum() == pytest.approx(1)
    assert found.emissions["type"][0, 0] > found.emissions["type"][1, 0], "numbered by the first feature's first level"


@pytest.mark.long
def test_the_same_release_gives_the_same_states(release, sampled):
    again = Posterior.from_release(Release.from_dict(json.loads(release.text()))).states()
    assert np.array_equal(again.probabilities, sampled.states().probabilities)
    other = Posterior.from_release(release, rng=np.random.default_rng(1)).states()
    assert not np.array_equal(other.probabilities, again.probabilities)
    assert (other.most_probable == again.most_probable).mean() > 0.95


@pytest.mark.long
def test_other_states_priors_and_sweeps_are_free(release, sampled):
    found = Posterior.from_release(release, prior=(0.5, 2.0), states=3, sweeps=30, burn_in=10, chains=2)
    assert list(found.distributions) == ["state 1", "state 2", "state 3"]
    tree = found.to_arviz()["posterior"].dataset
    assert dict(tree.sizes) == {"chain": 2, "draw": 20, "region": 5, "month": 12, "state": 3, "state_before": 3,
                                "type_level": 3, "civil_level": 2, "force_level": 2}  # fmt: skip
    assert tree["state_of_cell"].dims == ("chain", "draw", "region", "month")
    assert tree["transition"].dims == ("chain", "draw", "state_before", "state")
    assert tree["emission_civil"].dims == ("chain", "draw", "state", "civil_level")
    assert list(tree["month"].values) == list(MONTHS)
    assert tree["emission_type"].sum("type_level").values == pytest.approx(1)


@pytest.mark.parametrize("sampler", ["blocked", "collapsed"])
@pytest.mark.long
def test_the_papers_posterior_takes_noisy_counts_as_exact(release, sampled, sampler):
    found = Posterior.from_release(release, method="plug-in", sampler=sampler, sweeps=60)
    assert found.label == found.to_arviz().attrs["posterior"] == "plug-in"
    assert (found.states().most_probable == sampled.states().most_probable).mean() > 0.95
    assert "as if they were exact" in page(story(result(release, found)))


def test_the_summary_has_every_level_of_every_state(sampled):
    rows = sampled.rows()
    assert len(rows) == 2 * 7
    assert rows[0]["group"] == "state 1"
    assert rows[0]["parameter"] == "probability[type: attack]"
    assert rows[0]["low"] < rows[0]["mean"] < rows[0]["high"]
    assert sampled.label == "noise-aware"
    assert sampled.predict(10, np.random.default_rng(1), draws=5)["state 1"].sum(axis=1) == pytest.approx(30)


def test_a_notebook_shows_states_that_were_sampled(release, sampled):
    assert Posterior.from_release(release)._repr_html_() is None, "to look at it does not start the sampler"
    sampled.states()
    assert "state 2" in sampled._repr_html_()


def test_cells_are_held_out_and_predicted(release, sampled):
    """Two states predict held-out cells better than ten entries' worth; a flat model is the yardstick."""
    found = Posterior.from_release(release, held_out=0.1, sweeps=60).states()
    assert found.held_out.sum() == 6
    counts = sampled.reader.counts(release)
    flat = sum(float(table[found.held_out].sum()) * -math.log(table.shape[-1]) for table in counts)
    assert flat < found.log_likelihood < 0
    assert sampled.states().log_likelihood is None


@pytest.mark.parametrize(("cell", "width"), [("public", 1 + 3 + 1 + 1), ("private", 3 + 2 + 2)])
def test_counts_are_read_back(cell, width, tmp_path):
    """With next to no noise they are those of the table; of two levels the second is what is left of the total."""
    frame, _ = planted(each=3)
    found = made(replace(MODEL, cell=cell), "epsilon=90", frame=frame, tmp_path=tmp_path)
    assert len(found.contents["north"].values) == width * len(MONTHS)
    reader = Posterior.from_release(found).reader
    counts, noisy = reader.counts(found), reader.noisy(found)
    assert [part.shape[-1] for part in noisy.counts] == ([3, 1, 1] if cell == "public" else [3, 2, 2])
    assert (noisy.totals is None) is (cell == "private")
    assert (np.maximum(noisy.counts[0], 0) == counts[0]).all()
    released = [part.ravel() for part in (noisy.totals[..., None], *noisy.counts)] if cell == "public" else noisy.counts
    assert sum(part.sum() for part in released) == sum(sum(each.values) for each in found.contents.values())
    wanted = np.zeros((5, 12, 2))
    for (region, month, level), group in frame.groupby(["region", "month", "civil"]):
        wanted[REGIONS.index(region), MONTHS.index(month), ("none", "some").index(level)] = len(group)
    assert np.abs(counts[1] - wanted).max() <= 1
    assert (counts[1] == wanted).mean() > 0.9
    claim = found.certificate.theorem
    assert ("is declared public and is not hidden" in claim) is (cell == "public")
    assert found.family["totals"] is (cell == "public")


def test_regions_have_one_noise(release):
    other = replace(release.contents["south"], scale=2.0)
    mixed = replace(release, contents={**release.contents, "south": other})
    with pytest.raises(InvalidParameter, match="the noise of the regions must be the same in each"):
        Posterior.from_release(mixed).reader.noisy(mixed)


def test_more_noise_makes_states_less_sure(tmp_path):
    """At epsilon .5 few cells are sure; noisy counts taken as exact are sure of most."""
    pytest.importorskip("numba")
    found = made(spend="epsilon=0.5", frame=planted(20)[0], tmp_path=tmp_path)
    aware, plain = (found.posterior(method=method).states().probabilities.max(axis=-1) for method in METHODS)
    assert aware.mean() < plain.mean() - 0.05


def test_nothing_after_the_counts_depends_on_the_entries(tmp_path):
    """Two tables, one with fifty times the entries: as many numbers, and the posterior needs the file alone."""
    small, large = (
        made(frame=planted(each)[0], tmp_path=tmp_path / name)
        for each, name in ((2, "small"), (100, "large"))
        if (tmp_path / name).mkdir() is None
    )
    assert [len(x.values) for x in small.contents.values()] == [len(x.values) for x in large.contents.values()]
    (tmp_path / "release.json").write_text(large.text())
    for path in (*tmp_path.glob("*/*.ledger*"),):
        path.unlink()
    pytest.importorskip("numba")
    found = open_release(tmp_path / "release.json")
    assert Posterior.from_release(found, sweeps=4).states().probabilities.shape == (5, 12, 2)


def test_one_charge_pays_for_one_noise(tmp_path):
    """The twin that adds noise for each sweep under one charge is stopped."""
    table = vestry.Table(planted(2)[0], COLUMNS, unit="row", neighbours="replace")
    ledger = vestry.Ledger.create(
        tmp_path / "a.ledger", dataset="a", unit="row", neighbours="replace", budget="epsilon=9"
    )
    request = Request(MODEL, Guarantee.parse("epsilon=5", neighbours="replace"), "laplace")
    ready = request.prepare(schema_of(table), None)
    opened = charge_for(ready.mechanism, ledger, "a test").open()
    private = ready.collect(table, row_key="key")
    ready.mechanism.release(private, opened, SeededNoise(1))
    with pytest.raises(LedgerStateError, match="was drawn already"):
        ready.mechanism.release(private, opened, SeededNoise(1))


KERNELS = ("gibbs", "gibbs_kernels", "latent_counts", "latent_counts_kernels", "predictive", "relabel", "state_model")
SAMPLERS = tuple(f"vestry.hmm.{name}" for name in KERNELS)


@pytest.fixture
def bare(monkeypatch):
    """Hide the extra that compiles the samplers."""
    for name in [name for name in sys.modules if name in SAMPLERS]:
        monkeypatch.delitem(sys.modules, name)
        monkeypatch.delattr(vestry.hmm, name.rpartition(".")[2])
    for name in ("numba", "jax"):
        monkeypatch.setitem(sys.modules, name, None)


def story(*results):
    terms = ("Incidents", "incidents", "row", "replace", "epsilon=9", "epsilon=4")
    return ReportContent(*terms, {}, (), "", "a.ledger", "0" * 64, results)


def result(release, posterior):
    return Result("incidents", "States?", release, 1, "epsilon=5", "epsilon=4", release.labels, posterior)


@pytest.mark.long
def test_without_the_extra_all_but_the_sweeps_works(bare, tmp_path):
    found = made(frame=planted(2)[0], tmp_path=tmp_path)
    posterior = Posterior.from_release(found)
    assert repr(posterior) == "<noise-aware posterior: probability (7) in 2 groups by state>"
    for ask in (posterior.states, posterior.summary, posterior.to_arviz):
        with pytest.raises(MissingExtra, match=r"pip install 'vestry\[glm\]'"):
            ask()
    written = page(story(result(found, posterior)))
    assert "pip install 'vestry[glm]'" in html.unescape(written)
    assert faults(read(written)) == []


@pytest.mark.long
def test_the_page_shows_the_map_and_the_states(release, sampled):
    root = read(page(story(result(release, sampled))))
    assert faults(root) == []
    alternatives = [svg.attributes["aria-label"] for svg in root.all("svg")]
    first = sampled.states().most_probable[0, 0]
    assert alternatives[0].startswith(
        f"Map of the most probable state of each region over time. north: state {first} ("
    )
    assert alternatives[1].startswith("Bars of the probability of each level by state. Most probable in state 1: type")
    texts = [text.text() for text in root.all("text")]
    assert {*REGIONS, "state 1", "state 2", "attack", "civil"} <= set(texts)
    captions = [each.text() for each in root.all("caption")]
    assert any(each.startswith("The most probable state of each region") for each in captions)
    assert any(each.startswith("The probability of each state at a month") for each in captions)
    body = " ".join(root.all("body")[0].text().split())
    assert "it sums over what they may have been" in body
    assert "credible intervals (Markov chain, noise summed out: not calibrated)" in body
    assert "is declared public and is not hidden" in body
    assert "Not protected: the region and the month of each row" in body


def test_states_are_matched_before_they_are_numbered():
    """Draws whose states are shuffled at random come back as one."""
    from vestry.hmm import StateDraws

    rng = np.random.default_rng(2)
    tables = np.array([[0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [0.2, 0.2, 0.6]])
    moves = rng.dirichlet(np.ones(3), size=4)
    paths = rng.integers(3, size=(2, 5))
    orders = [[rng.permutation(3) for _ in range(3)] for _ in range(6)]
    shuffled = StateDraws(
        emissions=(np.array([[tables[o] for o in row] for row in orders]),),
        transitions=np.array([[moves[np.append(o, 3)][:, o] for o in row] for row in orders]),
        paths=np.array([[np.argsort(o)[paths] for o in row] for row in orders]),
    )
    found = match_states(shuffled, None, None)
    rank = np.argsort(-tables[:, 0], kind="stable")
    assert found.emissions[0].shape == (3, 6, 3, 3)
    assert (found.emissions[0] == tables[rank]).all()
    assert (found.transitions == moves[np.append(rank, 3)][:, rank]).all()
    assert (found.paths == np.argsort(rank)[paths]).all()


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"states": 1}, "states must be a whole number of at least 2, not 1"),
        ({"states": 61}, "states must be from 2 to 60, the number of cells, not 61"),
        ({"states": True}, "states must be a whole number"),
        ({"sweeps": 0}, "sweeps must be a whole number of at least 1, not 0"),
        ({"sweeps": 10, "burn_in": 10}, "burn_in must be below the number of sweeps"),
        ({"chains": 0}, "chains must be a whole number of at least 1"),
        ({"held_out": 1.0}, "held_out must be a number above 0 and below 1"),
        ({"sampler": "exact"}, "sampler must be one of blocked, collapsed"),
        ({"sampler": "collapsed"}, 'sampler must be blocked where the noise is summed out.* or method="plug-in"'),
        ({"rng": 3}, "rng must be a numpy generator"),
        ({"stats": 3}, "an option must be one of states, sweeps, burn_in, chains, sampler, held_out, rng, not 'stats'"),
        ({"prior": (1.0,)}, "a hidden Markov prior must be two finite numbers above 0"),
    ],
)
def test_bad_options_are_refused(options, sentence, release):
    with pytest.raises(InvalidParameter, match=sentence):
        Posterior.from_release(release, **options)


def test_questions_of_other_models_are_refused(release):
    posterior = Posterior.from_release(release)
    with pytest.raises(InvalidParameter, match="classify must be asked of naive Bayes"):
        posterior.classify({})
    with pytest.raises(VestryError, match="states are sampled from all regions together"):
        posterior.reader.plug_in(release.contents["north"])


def test_bad_models_are_refused():
    for model, sentence in (
        (HiddenMarkovModel({"region": "region"}, FEATURES), "sequence must be a region and a time"),
        (HiddenMarkovModel(SEQUENCE, ("type", "hour")), "features must be columns of levels, not 'hour'"),
        (HiddenMarkovModel(SEQUENCE, ("type", "region")), "features must be each column once"),
        (HiddenMarkovModel(SEQUENCE, FEATURES, states=61), "states must be from 2 to 60"),
        (HiddenMarkovModel(SEQUENCE, FEATURES, cell="open"), "cell must be"),
    ):
        with pytest.raises(InvalidParameter, match=sentence):
            model.check({**COLUMNS, "hour": Interval(0, 24)})


CAREFUL = " and may be too careful: not calibrated"


@pytest.mark.parametrize(("states", "sure", "count", "more"), [(2, 0.8, 1, ""), (3, 0.95, 0, ""), (3, 0.8, 1, CAREFUL)])
def test_unsure_cells_of_three_states_say_that_they_are_too_careful(states, sure, count, more):
    from types import SimpleNamespace

    from vestry.report.hmm_section import unsure

    rest = [(1 - sure) / (states - 1)] * (states - 1)
    assert (
        unsure(SimpleNamespace(probabilities=np.array([[[sure, *rest]]])))
        == f"{count} of 1 cells are unsure (below 90 %){more}"
    )
