"""The case study on event logs and the two experiments on chains, at a reduced size.

What quick runs say of the paper's claims is held in `test_papers.py`. The real log is read if VESTRY_DATA names its
folder.
"""

import datetime
import json
import os
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from reproductions import foulds_ais, foulds_hmm, foulds_mh
from reproductions.event_log import DEATHS, REGIONS, VIOLENCE, data_folder, dense, events, sparse
from scipy import integrate

from vestry.errors import InvalidParameter
from vestry.privacy import accountant
from vestry.privacy.mcmc_cost import barker_update, shared_scan

# --- logs -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "shape", "states", "median"), [(dense, (7, 59), 2, (700, 1300)), (sparse, (7, 72), 3, (30, 90))]
)
def test_simulated_logs_have_the_papers_shape(make, shape, states, median):
    medians = []
    for seed in range(5):
        log = make(np.random.default_rng(seed))
        assert log.entries.shape == log.truth.shape == (len(log.regions), len(log.months)) == shape
        assert log.levels == (12, 100, 2, 2, 2)
        assert [n.shape for n in log.counts] == [(*shape, k) for k in log.levels]
        assert all((n.sum(axis=-1) == log.entries).all() for n in log.counts)
        assert set(np.unique(log.truth)) <= set(range(states))
        assert (np.diff(log.truth, axis=1) == 0).mean() > 0.8
        medians.append(np.median(log.entries))
    assert median[0] < np.median(medians) < median[1]


def written(folder: Path, rows: list[tuple]) -> Path:
    import pyarrow
    import pyarrow.parquet

    names = ["extract", "adm_1", "date_start", "violence_type", *DEATHS]
    columns = dict(zip(names, zip(*rows, strict=True), strict=True))
    pyarrow.parquet.write_table(pyarrow.table({k: list(v) for k, v in columns.items()}), folder / "events.parquet")
    return folder


def test_the_real_log_is_prepared_by_public_rules(tmp_path):
    day = datetime.date(2016, 3, 5)
    rows = [
        ("SYR", "Aleppo Governorate", day, "state-based", 2, 0, 7),
        ("SYR", "Aleppo Governorate", day, "one-sided", 1, 0, 0),
        ("SYR", "Daraa Governorate", datetime.date(2019, 12, 31), "non-state", 0, 1, 0),
        ("SYR", "Tartus Governorate", day, "state-based", 1, 1, 1),  # too few inhabitants
        ("SYR", None, day, "state-based", 1, 1, 1),
        ("SYR", "Homs Governorate", datetime.date(2015, 12, 31), "state-based", 1, 1, 1),
        ("IRQ", "Aleppo Governorate", day, "state-based", 1, 1, 1),
    ]
    log = events(written(tmp_path, rows))
    assert log.entries.shape == (11, 48)
    assert log.entries.sum() == 3
    assert log.levels == (3, 2, 2, 2)
    assert log.months[2] == "2016-03"
    aleppo = [n[REGIONS.index("Aleppo"), 2].tolist() for n in log.counts]
    assert aleppo == [[1, 0, 1], [0, 2], [2, 0], [1, 1]]
    assert log.counts[0][REGIONS.index("Daraa"), 47].tolist() == [0, 1, 0]
    assert VIOLENCE[1] == "non-state"


def test_a_folder_without_the_log_is_refused(tmp_path):
    with pytest.raises(InvalidParameter, match=r"the data must be a folder with events\.parquet"):
        events(tmp_path)


def test_the_folder_is_used_only_if_the_log_is_in_it(tmp_path, monkeypatch):
    monkeypatch.delenv("VESTRY_DATA", raising=False)
    assert data_folder() is None
    monkeypatch.setenv("VESTRY_DATA", str(tmp_path))
    assert data_folder() is None
    (tmp_path / "events.parquet").touch()
    assert data_folder() == tmp_path


# --- the case study ---------------------------------------------------------------------------------------------------


@cache
def small():
    """A record of the case study's form, of two epsilons, one split and few sweeps."""
    rng = np.random.default_rng(1)
    epsilons = (1.0, 5.0)
    numbers = {
        "epsilons": list(epsilons),
        "settings": {"sweeps": 10},
        "ops_costs": [foulds_hmm.chain_cost((12, 100, 2, 2, 2), 10, epsilon, 10) for epsilon in epsilons],
        "studies": [
            foulds_hmm.study(log, rng, epsilons=epsilons, splits=2, sweeps=10) for log in (dense(rng), sparse(rng))
        ],
        "sizes": foulds_hmm.sizes(rng, entries=(100, 300), splits=1, sweeps=6),
        "without_categories": foulds_hmm.fewer_levels(dense(rng, entries=100), splits=2, sweeps=6),
    }
    return {**numbers, "claims": foulds_hmm._claims(numbers)}


@pytest.mark.long
def test_the_planted_states_are_found_through_the_noise():
    study = small()["studies"][0]
    assert study["agreement"]["not private"] > 0.99
    assert study["agreement"]["Laplace"] >= 0.95
    maps = {name: np.array(each) for name, each in study["maps"].items()}
    assert (maps["Laplace"] == maps["planted"]).mean() == study["agreement"]["Laplace"]
    # Tables have the names of the maps' states: the planted states' own shares come back.
    log = dense(np.random.default_rng(1))
    assert (log.truth == maps["planted"]).all()
    for n, table in zip(log.counts, study["tables"]["not private"], strict=True):
        shares = np.stack([n[log.truth == k].sum(axis=0) for k in range(2)])
        assert np.array(table) == pytest.approx(shares / shares.sum(axis=1, keepdims=True), abs=0.01)


@pytest.mark.long
def test_scores_rank_as_they_must():
    for study in small()["studies"]:
        markov, bayes = (
            {name: [each["mean"] for each in found] for name, found in study["scores"][model].items()}
            for model in reversed(foulds_hmm.MODELS)
        )
        assert markov["not private"][1] > bayes["not private"][1]  # states tell more than none
        assert bayes["not private"][1] == pytest.approx(bayes["Laplace"][1], abs=0.02)
        assert markov["Laplace"][1] > markov["Laplace"][0]
        assert bayes[foulds_hmm.METHODS[-1]] == bayes[foulds_hmm.AWARE] == []
        assert all(aware > plain for aware, plain in zip(markov[foulds_hmm.AWARE], markov["Laplace"], strict=True))


@pytest.mark.long
def test_the_case_study_is_drawn_from_plain_json(tmp_path):
    record = json.loads(json.dumps(small(), allow_nan=False))
    foulds_hmm.draw(record, tmp_path / "foulds-hmm.png")
    names = ["foulds-hmm-sizes.png", "foulds-hmm-states.png", "foulds-hmm-tables.png", "foulds-hmm.png"]
    assert sorted(path.name for path in tmp_path.iterdir()) == names
    assert all(5_000 < path.stat().st_size < 150_000 for path in tmp_path.iterdir())


def test_the_noise_has_the_scale_of_two_for_each_feature():
    """Integer Laplace noise of scale 2 F/epsilon: its variance within 6 errors; scales a tenth off are not."""
    log, rng = dense(np.random.default_rng(0)), np.random.default_rng(2)
    noise = foulds_hmm._noise(rng, log, 5.0, (300, 400))
    q = np.exp(-5.0 / 10)
    variance = 2 * q / (1 - q) ** 2
    squares = noise**2
    error = squares.std() / np.sqrt(noise.size)
    assert abs(squares.mean() - variance) < 6 * error
    for factor in (0.9, 1.1):
        assert abs(squares.mean() - factor**2 * variance) > 6 * error


@pytest.mark.long
def test_noise_aware_draws_see_the_same_noisy_counts(monkeypatch):
    """They leave the generator as it was, so that the Laplace method after them draws the same noise."""
    log, rng, seen = sparse(np.random.default_rng(0)), np.random.default_rng(2), []
    noise = foulds_hmm._noise
    monkeypatch.setattr(foulds_hmm, "_noise", lambda *given: seen.append(noise(*given)) or seen[-1])
    nothing = np.zeros((1, *log.entries.shape), bool)
    for method in (foulds_hmm.AWARE, foulds_hmm.LAPLACE):
        draws = foulds_hmm.fit(log, rng, method, 5.0, 3, 2, 1, nothing)
        assert draws.paths.shape == (1, *nothing.shape)
    assert all(np.array_equal(*pair) for pair in zip(seen[:5], seen[5:], strict=True))


def test_what_a_chain_costs():
    levels = (12, 100, 2, 2, 2)
    cost = foulds_hmm.chain_cost(levels, 10, 0.1, 200)
    assert cost["added_up"] == pytest.approx(400 * 0.1)
    # Bounded range: rho = 400 epsilon^2/8; its conversion is far below the sum.
    rho = 400 * 0.01 / 8
    assert cost["by_bounded_range"] <= rho + 2 * np.sqrt(rho * np.log(1e6))
    each = foulds_hmm.update_epsilon(levels, 10, 1.0, 200)
    total = accountant.epsilon(foulds_hmm.chain(levels, 10, each, 200), foulds_hmm.DELTA)
    assert 0.98 < total <= 1.0


@pytest.mark.skipif(data_folder() is None, reason="VESTRY_DATA names no folder with events.parquet")
def test_the_real_log():
    log = events(Path(os.environ["VESTRY_DATA"]))
    assert log.entries.sum() > 10_000
    study = foulds_hmm.study(log, np.random.default_rng(3), epsilons=(1.0,), splits=2, sweeps=10)
    bayes = study["scores"][foulds_hmm.MODELS[0]]
    assert bayes["Laplace"][0]["mean"] == pytest.approx(bayes["not private"][0]["mean"], abs=0.01)


# --- annealing, Metropolis, Barker ------------------------------------------------------------------------------------


@pytest.mark.parametrize("power", [1.0, 0.1])
def test_the_known_posterior(power):
    """The bins' probabilities against integrals of the density, written out."""

    def density(theta):
        return theta ** (power * foulds_ais.SUCCESSES) * (1 - theta) ** (power * (foulds_ais.N - foulds_ais.SUCCESSES))

    pieces = [integrate.quad(density, *pair)[0] for pair in zip(foulds_ais.BINS, foulds_ais.BINS[1:], strict=False)]
    assert foulds_ais.cells(power=power) == pytest.approx(np.array(pieces) / sum(pieces), rel=1e-6, abs=1e-12)


@pytest.mark.long
def test_annealing_paths_cost_what_their_rungs_cost():
    rows = {row["path"]: row for row in foulds_ais._paths(np.random.default_rng(4), 8, 1500)}
    rising = sum(foulds_ais.LAST * (j + 1) / 8 for j in range(8))
    assert rows["steady"]["pure"] == pytest.approx(8 * foulds_ais.LAST)
    assert rows["annealed"]["pure"] == pytest.approx(rising)
    assert rows["importance"]["pure"] == pytest.approx(foulds_ais.PARTICLES * rising + foulds_ais.LAST)
    assert rows["importance"]["to_target"] < rows["annealed"]["to_target"]


def test_chances_of_rejection():
    """At one state the integral against the mean over many proposals; 0.01 is six of its standard errors."""
    power = foulds_ais.LAST / (2 * foulds_ais.SPAN)
    z = np.random.default_rng(5).normal(size=100_000)
    worst = {"Metropolis": 0.0, "Barker": 0.0}
    for state in np.linspace(-6, 6, 49):
        rise = foulds_mh.log_target(state + 0.3 * z, power) - foulds_mh.log_target(np.array(state), power)
        worst["Metropolis"] = max(worst["Metropolis"], float((1 - np.exp(np.minimum(rise, 0))).mean()))
        worst["Barker"] = max(worst["Barker"], float((1 / (1 + np.exp(rise))).mean()))
    found = foulds_mh.rejections(0.3)
    for name, mean in worst.items():
        assert found[name] == pytest.approx(mean, abs=0.01)


@pytest.mark.parametrize("steps", [1, 8, 128])
def test_a_chain_is_as_hot_as_its_price_asks(steps):
    each = foulds_mh.update_epsilon(3.0, steps)
    update = barker_update(foulds_ais.SPAN, temperature=2 * foulds_ais.SPAN / each, neighbours="replace")
    assert 2.95 < accountant.epsilon(shared_scan(update, updates=steps), foulds_ais.DELTA) <= 3.0
    assert foulds_mh.update_epsilon(1e4, steps) == 2 * foulds_ais.SPAN
