"""The posterior of a release: what it offers, what it refuses, and its limits."""

from __future__ import annotations

import json
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from share import examples

from vestry.conjugate import beta_bernoulli, dirichlet_posterior, normal_posterior
from vestry.conjugate.conjugate_model import ConjugateReader
from vestry.errors import InvalidParameter, VestryError
from vestry.posterior import Posterior
from vestry.posterior.discrete_noise import DiscreteGaussian, Laplace, RoundedGaussian
from vestry.posterior.mixture import BetaMixture, DirichletMixture, NormalMixture
from vestry.releases import Certificate, Draws, NoisyStatistics, Release, open_release

CERTIFICATE = Certificate(
    guarantee={"kind": "pure", "epsilon": 0.5, "neighbours": "replace"},
    event={"kind": "discrete-laplace", "count": 1},
    mechanism="laplace",
    parameter="scale",
    value=2.0,
    theorem="[DworkMNS06, Prop. 1]",
    unit="row",
    population={"neighbours": "replace", "rows": 1, "count": 50},
)
NORMAL = {"name": "normal-mean", "variance": 4.0, "low": -10.0, "high": 30.0, "dimension": 1}


def counts(*values, count=None, noise="discrete-laplace", scale=2.0):
    return NoisyStatistics(tuple(f"count {i}" for i in range(len(values))), values, noise, scale, count=count)


def sums(*values, count=None, noise="discrete-laplace", scale=500.0, grid=0.01, count_grid=0.01):
    return NoisyStatistics(tuple(f"sum {i}" for i in range(len(values))), values, noise, scale, grid, count, count_grid)


def released(contents, *, family="beta-bernoulli", prior=(1, 1), by=None):
    if not isinstance(contents, dict):
        contents = {"all": contents}
    family = family if isinstance(family, dict) else {"name": family}
    if family["name"] == "dirichlet-categorical":
        family = {**family, "categories": len(prior)}
    return Release(family, prior, contents, CERTIFICATE, by)


def rng(seed=1):
    return np.random.default_rng(seed)


CASES = {
    "beta": released(counts(31, count=50)),
    "beta, Gaussian": released(counts(31, count=50, noise="discrete-gaussian")),
    "beta, private": released(counts(31, 18)),
    "beta, grouped": released({"A": counts(31, 18), "B": counts(-3, 60)}, by="ward"),
    "dirichlet": released(counts(20, 25, 9, count=50), family="dirichlet-categorical", prior=(1, 2, 1)),
    "dirichlet, private": released(counts(20, 25, 9), family="dirichlet-categorical", prior=(1, 2, 1)),
    "dirichlet, two": released(counts(31, count=50), family="dirichlet-categorical"),
    "dirichlet, two private": released(counts(31, 18), family="dirichlet-categorical"),
    "normal": released(sums(2100, count=50), family=NORMAL, prior=(5, 9)),
    "normal, private": released(sums(2100, 5100), family=NORMAL, prior=(5, 9)),
    "normal, plane": released(sums(2100, -40, count=50), family={**NORMAL, "dimension": 2}, prior=(5, 9)),
    "normal, plane, private, Gaussian": released(
        sums(2100, -40, 5100, noise="discrete-gaussian"), family={**NORMAL, "dimension": 2}, prior=(5, 9)
    ),
}
each_case = pytest.mark.parametrize("release", CASES.values(), ids=CASES)
METHODS = {"noise-aware": "noise summed out", "plug-in": "plug-in: not calibrated"}
each_way = pytest.mark.parametrize("way", ["noise-aware", "plug-in"])


@each_case
@each_way
def test_every_answer_agrees_with_the_draws(release, way):
    """Summary, interval and draws describe one law. Six standard errors of 20,000 draws."""
    posterior = Posterior.from_release(release, method=way)
    assert posterior.label == way
    assert posterior.certificate is release.certificate
    frame = posterior.summary(0.8)
    assert [*frame.columns] == ["mean", "sd", "low", "high"]
    assert frame.columns.name == posterior.interval_method == METHODS[way]
    assert [*frame.index] == [(group, name) for group in release.contents for name in posterior.parameters]
    assert posterior.interval(0.8).equals(frame[["low", "high"]])
    records = frame.reset_index().to_dict("records")
    assert posterior.rows(0.8) == [{**row, "interval_method": METHODS[way]} for row in records]
    draws = posterior.sample(20_000, rng())
    for group in release.contents:
        assert draws[group].shape == (20_000, len(posterior.parameters))
        for index, parameter in enumerate(posterior.parameters):
            row, values = frame.loc[group, parameter], draws[group][:, index]
            assert row["mean"] == pytest.approx(values.mean(), abs=6 * row["sd"] / 141)
            assert row["sd"] == pytest.approx(values.std(), rel=0.06)
            inside = ((values >= row["low"]) & (values <= row["high"])).mean()
            assert inside == pytest.approx(0.8, abs=6 * 0.4 / 141)


def test_frames_are_indexed_by_group_and_parameter():
    """Equal-tailed: the plug-in posterior of 31 of 50 with a flat prior is Beta(32, 20)."""
    posterior = Posterior.from_release(CASES["beta"], method="plug-in")
    assert posterior.summary().index.names == ["group", "parameter"]
    low, high = posterior.interval(0.5).loc["all", "probability"]
    assert stats.beta(32, 20).cdf([low, high]) == pytest.approx([0.25, 0.75], rel=1e-9)
    grouped = Posterior.from_release(CASES["beta, grouped"])
    assert grouped.contrast("A", "B").index.names == ["contrast", "parameter"]
    assert grouped.summary().loc["A"].equals(grouped.summary().xs("A"))


@pytest.mark.parametrize("family", [NORMAL, {"name": "normal-inverse-gamma", "low": -10.0, "high": 30.0}])
@each_way
def test_a_mean_stays_inside_its_interval(family, way):
    """60 records whose noisy sum is that of a mean of 32, beyond the upper end: what is beyond is clipped to it."""
    prior = (5, 9) if family is NORMAL else (5, 1, 2, 9)
    values = [60 * 2200] if family is NORMAL else [60 * 2200, 60 * 2000]  # from the middle, in units of 0.01
    release = released(sums(*values, count=60), family=family, prior=prior)
    posterior = Posterior.from_release(release, method=way)
    row = posterior.summary(0.9).iloc[0]
    assert row["low"] <= row["mean"] <= row["high"] == 30.0
    assert posterior.sample(500, rng())["all"][:, 0].max() <= 30.0
    raw = posterior.distributions["all"].base.marginal(0)
    assert raw.quantile(0.95) > 30.0
    assert row["low"] == pytest.approx(min(30.0, raw.quantile(0.05)), rel=1e-12)
    marginal = posterior.distributions["all"].marginal(0)
    at = np.array([-11.0, 29.9, 30.0, 31.0])
    assert marginal.cdf(at).tolist() == pytest.approx([0.0, float(raw.cdf(29.9)), 1.0, 1.0])


class FewEvents(ConjugateReader):
    def remark(self, distribution, index):
        return "few events" if distribution.marginal(index).mean() < 0.5 else ""


def test_an_interval_that_is_not_calibrated_says_so_in_its_row():
    read = Posterior.from_release(CASES["beta, grouped"])
    found = replace(read, reader=FewEvents(read.reader.family, read.reader.prior)).summary()
    assert found["note"].fillna("").tolist() == ["", "few events"]


def test_rows_of_persons_that_are_taken_as_independent_are_not_calibrated():
    release = CASES["beta"]
    several = replace(release.certificate, population={**release.certificate.population, "rows": 3})
    found = Posterior.from_release(replace(release, certificate=several))
    assert found.interval_method == "noise summed out, rows as independent: not calibrated"


@each_case
def test_a_release_read_back_gives_the_same_posterior(release):
    again = Release.from_dict(json.loads(release.text()))
    assert Posterior.from_release(again).summary().equals(Posterior.from_release(release).summary())


@each_case
def test_draws_follow_from_the_generator_alone(release):
    posterior = Posterior.from_release(release)
    first, again, other = (posterior.sample(5, rng(seed)) for seed in (3, 3, 4))
    for group in release.contents:
        assert np.array_equal(first[group], again[group])
        assert not np.array_equal(first[group], other[group])


def test_another_prior_is_free():
    release = CASES["beta"]
    own, other = Posterior.from_release(release), Posterior.from_release(release, prior=(20, 2))
    assert own.rows()[0]["mean"] < other.rows()[0]["mean"]
    assert Posterior.from_release(release, prior=(1, 1)).rows() == own.rows()


def test_repr_is_short():
    assert repr(Posterior.from_release(CASES["beta"])) == "<noise-aware posterior: probability>"
    assert repr(Posterior.from_release(CASES["beta, grouped"], method="plug-in")) == (
        "<plug-in posterior: probability in 2 groups by ward>"
    )
    assert repr(Posterior.from_release(CASES["dirichlet"])) == "<noise-aware posterior: probability (3)>"


# Refusals


@pytest.mark.parametrize(
    ("release", "options", "match"),
    [
        (
            released(counts(1, count=5), family="gamma-normal"),
            {},
            "family must be one of beta-bernoulli, .*not 'gamma-",
        ),
        (CASES["beta"], {"method": "exact"}, "method must be one of noise-aware, plug-in, not 'exact'"),
        (CASES["beta"], {"prior": (1,)}, "the prior of beta-bernoulli must be alpha and beta"),
        (CASES["beta"], {"prior": (0, 1)}, "alpha must be a number above 0"),
        (
            CASES["dirichlet"],
            {"prior": (1, 1, -1)},
            "alpha must be a number above 0",
        ),
        (CASES["dirichlet"], {"prior": (1, 1, 1, 1)}, "must be one alpha for each of 3 categories"),
        (CASES["normal"], {"prior": (0, 0)}, "the prior's variance must be a number above 0"),
        (CASES["normal"], {"prior": (0, float("inf"))}, "the prior's variance must be a number above 0"),
        (released(counts(1, 2, 3)), {}, "the number of noisy statistics must be 2, not 3"),
        (released(counts(1, 2, count=5)), {}, "the number of noisy statistics must be 1, not 2"),
        (released(counts(1, 2, count=5)), {"method": "plug-in"}, "the number of noisy statistics must be 1, not 2"),
        (released(sums(1, count=None), family=NORMAL), {}, "the number of noisy statistics must be 2, not 1"),
        (released(counts(2**60, 3)), {}, "a noisy count must be from"),
        (
            released(counts(1, 2**60, 3), family="dirichlet-categorical", prior=(1, 1, 1)),
            {},
            "a noisy count must be from",
        ),
        (released(counts(1, count=5, noise="uniform")), {}, "noise must be one of discrete-laplace, discrete-gaussian"),
        (released(counts(1, count=5, scale=0.0)), {}, "scale must be a number above 0 and finite"),
    ],
)
def test_what_cannot_be_read_is_refused(release, options, match):
    with pytest.raises(InvalidParameter, match=match):
        Posterior.from_release(release, **options)


@pytest.mark.parametrize("prob", [0, 1, -0.5, 90, float("nan"), "0.9", True, None])
def test_prob_must_be_a_probability(prob):
    posterior = Posterior.from_release(CASES["beta, grouped"])
    for ask in (
        lambda: posterior.interval(prob),
        lambda: posterior.summary(prob=prob),
        lambda: posterior.contrast("A", "B", prob, rng=rng()),
        lambda: posterior.plot(prob=prob),
    ):
        with pytest.raises(InvalidParameter, match=r"prob must be a number above 0 and below 1, .* write .* prob=0\.9"):
            ask()


def test_probabilities_of_quantiles_are_checked():
    with pytest.raises(InvalidParameter, match="a quantile's probability must be between 0 and 1"):
        BetaMixture(np.ones(1), np.ones(1), np.ones(1)).quantile([0.5, 1.0])


@pytest.mark.parametrize("bad", [1, "seed", np.random.RandomState(1)], ids=str)
def test_a_generator_is_numpys(bad):
    posterior = Posterior.from_release(CASES["beta, grouped"])
    for ask in (
        lambda: posterior.sample(3, bad),
        lambda: posterior.predict(10, bad),
        lambda: posterior.contrast("A", "B", rng=bad),
        lambda: posterior.to_arviz(bad),
    ):
        with pytest.raises(InvalidParameter, match="rng must be a numpy generator"):
            ask()


def test_without_a_generator_a_fresh_one_draws():
    posterior = Posterior.from_release(CASES["beta, grouped"])
    assert not np.array_equal(posterior.sample(5)["A"], posterior.sample(5)["A"])
    assert posterior.predict(100, draws=7)["B"].shape == (7, 1)
    assert posterior.contrast("A", "B").loc["A - B", "probability"]["mean"] > 0


@pytest.mark.parametrize("draws", [0, -1, 2.5, "10", True])
def test_a_number_of_draws_is_whole(draws):
    posterior = Posterior.from_release(CASES["beta, grouped"])
    for ask in (lambda: posterior.sample(draws), lambda: posterior.contrast("A", "B", draws=draws)):
        with pytest.raises(InvalidParameter, match="draws must be a whole number of at least 1"):
            ask()


# Contrast and prediction


def test_contrast_is_the_difference_of_independent_groups():
    posterior = Posterior.from_release(CASES["beta, grouped"])
    row = posterior.contrast("A", "B", 0.8, rng=rng(), draws=40_000).loc["A - B", "probability"]
    a, b = posterior.rows()
    assert row["mean"] == pytest.approx(a["mean"] - b["mean"], abs=6 * row["sd"] / 200)
    assert row["sd"] == pytest.approx(np.hypot(a["sd"], b["sd"]), rel=0.04)
    assert row["low"] < row["mean"] < row["high"]
    assert row["prob_positive"] > 0.99
    back = posterior.contrast("B", "A", rng=rng(), draws=40_000).loc["B - A", "probability"]
    assert back["mean"] == pytest.approx(-row["mean"], abs=12 * row["sd"] / 200)
    assert back["prob_positive"] < 0.01


@pytest.mark.parametrize(
    ("case", "groups", "match"),
    [
        ("beta", ("all", "all"), "a contrast must be between two groups, not 'a release without groups'"),
        ("beta, grouped", ("A", "C"), "a group must be one of A, B, not 'C'"),
        ("beta, grouped", ("A", "A"), "a contrast must be between two groups, not 'A and itself'"),
    ],
)
def test_contrast_needs_two_groups(case, groups, match):
    with pytest.raises(InvalidParameter, match=match):
        Posterior.from_release(CASES[case]).contrast(*groups, rng=rng())


@each_case
def test_predictions_have_the_predictive_moments(release):
    """E[y] is the posterior mean's, Var[y] that of one record's law plus the posterior's. Six standard errors."""
    posterior = Posterior.from_release(release)
    size, draws = 30, 20_000
    predicted = posterior.predict(size, rng(), draws=draws)
    for row in posterior.rows():
        values = predicted[row["group"]][:, posterior.parameters.index(row["parameter"])]
        if release.family["name"] == "normal-mean":
            mean, variance = row["mean"], row["sd"] ** 2 + 4.0 / size
        else:
            p, spread = row["mean"], row["sd"] ** 2
            mean, variance = size * p, size * (p * (1 - p) - spread) + size**2 * spread
        assert values.mean() == pytest.approx(mean, abs=6 * np.sqrt(variance / draws))
        assert values.var() == pytest.approx(variance, rel=0.08)
    if release.family["name"] == "dirichlet-categorical":
        assert np.all(predicted["all"].sum(axis=1) == size)


@pytest.mark.parametrize("size", [0, -1, 2.5, "10", True])
def test_a_prediction_needs_a_number_of_records(size):
    with pytest.raises(InvalidParameter, match="size must be a whole number of at least 1"):
        Posterior.from_release(CASES["beta"]).predict(size, rng())


# Limits


@each_case
def test_without_noise_it_is_the_conjugate_posterior(release):
    """At a vanishing scale the noise-aware posterior is the plug-in one, if the statistics are valid."""
    valid = {
        "beta, grouped": {"A": (31, 18), "B": (3, 60)},
        "dirichlet": {"all": (20, 21, 9)},
    }.get(next(name for name, each in CASES.items() if each is release), {})
    contents = {
        group: NoisyStatistics(
            each.names, valid.get(group, each.values), each.noise, 1e-3, each.grid, each.count, each.count_grid
        )
        for group, each in release.contents.items()
    }
    exact = Release(release.family, release.prior, contents, CERTIFICATE, release.by)
    aware = Posterior.from_release(exact).rows()
    plain = Posterior.from_release(exact, method="plug-in").rows()
    for a, b in zip(aware, plain, strict=True):
        assert [a[key] for key in ("mean", "sd", "low", "high")] == pytest.approx(
            [b[key] for key in ("mean", "sd", "low", "high")], rel=1e-7
        )


@pytest.mark.parametrize("case", ["beta", "dirichlet", "normal", "normal, plane"])
def test_with_noise_without_end_it_is_the_prior(case):
    release = CASES[case]
    each = release.contents["all"]
    drowned = NoisyStatistics(each.names, each.values, each.noise, 1e9, each.grid, each.count)
    rows = Posterior.from_release(Release(release.family, release.prior, {"all": drowned}, CERTIFICATE)).rows()
    if release.family["name"] == "normal-mean":
        prior = NormalMixture(np.ones(1), np.array([5.0]), np.array([9.0]))
    else:
        prior = DirichletMixture(np.ones(1), np.array([release.prior], float)).marginal(0)
    assert rows[0]["mean"] == pytest.approx(prior.mean(), rel=1e-4)
    assert [rows[0]["low"], rows[0]["high"]] == pytest.approx(prior.interval(0.9), abs=1e-4)


def test_intervals_are_wider_than_the_plug_in_ones():
    for release in CASES.values():
        aware = Posterior.from_release(release).rows()
        plain = Posterior.from_release(release, method="plug-in").rows()
        assert all(a["sd"] > b["sd"] for a, b in zip(aware, plain, strict=True) if a["group"] != "B")


def test_successes_and_failures_mirror_each_other():
    x = np.linspace(0.05, 0.95, 7)
    for law in (Laplace(3), DiscreteGaussian(3), RoundedGaussian(3)):
        one = beta_bernoulli.public_count(-4, count=30, alpha=0.5, beta=4, noise=law)
        two = beta_bernoulli.public_count(34, count=30, alpha=4, beta=0.5, noise=law)
        assert one.cdf(x) == pytest.approx(1 - two.cdf(1 - x), abs=1e-12)
        one = beta_bernoulli.private_count(-4, 9, alpha=0.5, beta=4, noise=law)
        two = beta_bernoulli.private_count(9, -4, alpha=4, beta=0.5, noise=law)
        assert one.cdf(x) == pytest.approx(1 - two.cdf(1 - x), abs=1e-9)


def test_two_categories_are_a_proportion():
    for name, pair in (("beta", "dirichlet, two"), ("beta, private", "dirichlet, two private")):
        proportion = Posterior.from_release(CASES[name]).rows()[0]
        first, second = Posterior.from_release(CASES[pair]).rows()
        assert first["mean"] == pytest.approx(proportion["mean"], rel=1e-12)
        assert first["high"] == pytest.approx(proportion["high"], rel=1e-12)
        assert second["low"] == pytest.approx(1 - proportion["high"], rel=1e-9)


@settings(max_examples=examples(60), deadline=None)
@given(
    z=st.integers(-(2**62), 2**62) | st.integers(-100, 1100),
    n=st.integers(1, 1000) | st.integers(1, 10**12),
    alpha=st.floats(1e-2, 1e4),
    beta_=st.floats(1e-2, 1e4),
    scale=st.floats(1e-2, 1e3),
    law=st.sampled_from([Laplace, DiscreteGaussian, RoundedGaussian]),
)
@pytest.mark.long
def test_any_noisy_count_has_a_posterior(z, n, alpha, beta_, scale, law):
    found = beta_bernoulli.public_count(z, count=n, alpha=alpha, beta=beta_, noise=law(scale))
    assert found.weights.sum() == pytest.approx(1, abs=1e-12)
    assert np.all((found.alphas >= alpha) & (found.betas >= beta_))
    assert 0 < found.mean() < 1
    low, high = found.interval(0.9)
    assert 0 <= low < high <= 1
    if low > 1e-200:
        ends = np.array([low, high])
        assert np.all(found.cdf(ends * (1 - 1e-9)) <= [0.05 + 1e-9, 0.95 + 1e-9])
        assert np.all(found.cdf(ends * (1 + 1e-9)) >= [0.05 - 1e-9, 0.95 - 1e-9])


@settings(max_examples=examples(30), deadline=None)
@given(
    far=st.lists(st.floats(-1e4, 1e4) | st.floats(-3, 3), min_size=2, max_size=5),
    n=st.integers(1, 300),
    alpha=st.floats(0.05, 100),
    scale=st.floats(0.05, 100),
    law=st.sampled_from([Laplace, DiscreteGaussian, RoundedGaussian]),
)
@pytest.mark.long
def test_any_noisy_counts_have_a_posterior_given_their_sum(far, n, alpha, scale, law):
    z = np.array([round(each * scale) + (n if each > 0 else 0) for each in far], float)
    alphas = np.full(len(z), alpha)
    found = dirichlet_posterior.public_count(z, count=n, alphas=alphas, noise=law(scale))
    means = [found.marginal(i).mean() for i in range(len(z))]
    assert sum(means) == pytest.approx(1, abs=1e-8)
    assert np.all(np.isfinite(found.draw(rng(), 20)))


@pytest.mark.parametrize("values", [(-(2**62), 2**62, 5), (0, 0, 0), (-50, -60, -70)], ids=str)
@pytest.mark.long
def test_far_statistics_have_a_posterior(values):
    for noise in (Laplace(3.0), DiscreteGaussian(3.0), RoundedGaussian(3.0)):
        found = dirichlet_posterior.private_count(
            np.clip(np.array(values, float), -1e6, 1e6), alphas=np.ones(3), noise=noise
        )
        assert found.mean().sum() == pytest.approx(1)
        model = normal_posterior.NormalModel(1.0, 0.0, 1.0)
        law = normal_posterior.public_count(np.array(values, float), count=9, model=model, noise=noise, grid=0.01)
        assert all(np.isfinite(law.marginal(i).interval(0.9)).all() for i in range(3))


@pytest.mark.parametrize("n", [10**6, 10**9])
def test_a_large_count_needs_little_memory(n):
    tracemalloc.start()
    for scale in (10.0, 1e4):
        beta_bernoulli.public_count(n // 3, count=n, alpha=1, beta=1, noise=Laplace(scale)).interval(0.9)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 100e6


@pytest.mark.long
def test_a_private_count_needs_bounded_memory():
    tracemalloc.start()
    beta_bernoulli.private_count(30, 70, alpha=1, beta=1, noise=Laplace(1000)).interval(0.9)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 200e6


# The plug-in posterior


@pytest.mark.parametrize(
    ("release", "alphas", "betas"),
    [
        (released(counts(31, count=50)), [32], [20]),
        (released(counts(-4, count=50)), [1], [51]),
        (released(counts(70, count=50)), [51], [1]),
        (released(counts(-4, 9)), [1], [10]),
        (
            released(counts(20, 25, 9, count=50), family="dirichlet-categorical", prior=(1, 2, 1)),
            [59 / 3, 77 / 3, 26 / 3],
            None,
        ),
        (released(counts(60, -8, 10, count=50), family="dirichlet-categorical", prior=(1, 1, 1)), [51, 1, 1], None),
        (released(counts(60, -8, 10), family="dirichlet-categorical", prior=(1, 1, 1)), [61, 1, 11], None),
    ],
)
def test_plug_in_takes_the_nearest_valid_counts(release, alphas, betas):
    law = Posterior.from_release(release, method="plug-in").distributions["all"]
    assert np.ravel(law.alphas) == pytest.approx(alphas)
    if betas is not None:
        assert law.betas == pytest.approx(betas)


@pytest.mark.parametrize(
    ("statistics", "mean", "variance"),
    [
        # Sums are counted from the middle, 10: 21 over 50 records is a mean of 10.42. Prior N(5, 9), variance 4.
        (sums(2100, count=50), (5 / 9 + 50 * 10.42 / 4) / (1 / 9 + 50 / 4), 1 / (1 / 9 + 50 / 4)),
        (sums(2100, 5000), (5 / 9 + 50 * 10.42 / 4) / (1 / 9 + 50 / 4), 1 / (1 / 9 + 50 / 4)),
        (sums(10**9, count=50), (5 / 9 + 50 * 30 / 4) / (1 / 9 + 50 / 4), 1 / (1 / 9 + 50 / 4)),
        (sums(2100, -5), 5, 9),
    ],
)
def test_plug_in_normal(statistics, mean, variance):
    release = released(statistics, family=NORMAL, prior=(5, 9))
    law = Posterior.from_release(release, method="plug-in").distributions["all"].marginal(0)
    assert law.mean() == pytest.approx(mean)
    assert law.variance() == pytest.approx(variance)


# Released draws

DRAWN = released({"A": Draws(((0.2,), (0.3,), (0.25,))), "B": Draws(((0.6,), (0.7,), (0.65,)))}, by="ward")


def test_released_draws_are_given_as_they_are():
    posterior = Posterior.from_release(DRAWN)
    assert posterior.label == "released draws"
    assert posterior.sample()["A"].tolist() == [[0.2], [0.3], [0.25]]
    assert posterior.sample(2)["B"].tolist() == [[0.6], [0.7]]
    assert posterior.predict(10**6, rng())["A"].ravel() == pytest.approx([2e5, 3e5, 2.5e5], rel=0.02)


@pytest.mark.parametrize(
    "ask",
    [
        lambda posterior: posterior.interval(),
        lambda posterior: posterior.interval(0.5),
        lambda posterior: posterior.summary(),
    ],
)
def test_released_draws_have_no_interval(ask):
    with pytest.raises(
        VestryError, match=r"no interval from 3 released draws, which are all that was released.*noisy stat"
    ):
        ask(Posterior.from_release(DRAWN))


@pytest.mark.parametrize(
    "ask",
    [
        lambda posterior: posterior.sample(4, rng()),
        lambda posterior: posterior.predict(5, rng(), draws=4),
        lambda posterior: posterior.contrast("A", "B", rng=rng()),
    ],
)
def test_no_more_draws_than_were_released(ask):
    with pytest.raises(VestryError, match="draws cannot be had: 3 released draws are all there is"):
        ask(Posterior.from_release(DRAWN))


def coefficients(method, *draws):
    family = {"name": "linear", "method": method, "features": ["age", "intercept"], "classes": [],
              "scales": [None, None], "outcome": None, "intercept": True}  # fmt: skip
    return released(Draws(draws), family=family)


ONE_DRAW = released(Draws(((0.2,),)))


@pytest.mark.parametrize(
    ("release", "no_interval", "no_more"),
    [
        (
            ONE_DRAW,
            "no interval from one released draw, which is all that was released, and more would cost more; release no",
            "9 draws cannot be had: one released draw is all there is; ask for no more, or release noisy statistics",
        ),
        (
            coefficients("posterior", (1.0, 2.0), (1.5, 2.5)),
            r"from 2 released draws, which are all .* cost more; read the coefficients themselves, by sample\(\)\.$",
            r"9 draws cannot be had: 2 released draws are all there is; ask for no more\.$",
        ),
        (
            coefficients("output", (1.0, 2.0)),
            r"from one noisy estimate, which is all .* cost more; read the coefficients themselves, by sample\(\)\.$",
            r"9 draws cannot be had: one noisy estimate is all there is; ask for no more\.$",
        ),
    ],
    ids=["one draw", "draws of a regression", "an estimate"],
)
def test_what_was_released_is_called_by_its_name(release, no_interval, no_more):
    posterior = Posterior.from_release(release)
    with pytest.raises(VestryError, match=no_interval):
        posterior.summary()
    with pytest.raises(VestryError, match=no_more):
        posterior.sample(9)


def test_a_regression_is_not_told_to_release_statistics():
    with pytest.raises(InvalidParameter, match=r"write no prior and no plug-in\.$"):
        Posterior.from_release(coefficients("output", (1.0, 2.0)), prior=(1, 1))


def test_what_was_opened_is_a_release_too(tmp_path):
    (tmp_path / "release.json").write_text(DRAWN.text())
    opened = open_release(tmp_path / "release.json")
    assert Posterior.from_release(opened).sample()["A"].tolist() == [[0.2], [0.3], [0.25]]


@pytest.mark.parametrize(
    "given", ["release.json", Posterior.from_release(ONE_DRAW), None], ids=["path", "posterior", "nothing"]
)
def test_what_is_no_release_is_refused(given):
    with pytest.raises(InvalidParameter, match=r"release must be a release, not '\w+'; write .*vestry\.open_release\("):
        Posterior.from_release(given)


@pytest.mark.parametrize("options", [{"prior": (2, 2)}, {"method": "plug-in"}], ids=str)
def test_released_draws_have_no_other_posterior(options):
    with pytest.raises(InvalidParameter, match="a posterior of released draws must be the one that was drawn from"):
        Posterior.from_release(DRAWN, **options)


# ArviZ


@pytest.mark.parametrize(
    ("case", "name", "dims"),
    [
        ("beta", "probability", ("chain", "draw")),
        ("beta, grouped", "probability", ("chain", "draw", "group")),
        ("dirichlet", "probability", ("chain", "draw", "probability_index")),
        ("normal, plane", "mean", ("chain", "draw", "mean_index")),
    ],
)
def test_to_arviz(case, name, dims):
    pytest.importorskip("arviz_base")
    posterior = Posterior.from_release(CASES[case])
    tree = posterior.to_arviz(rng(), chains=2, draws=500)
    assert set(tree.children) == {"posterior"}
    assert tree["posterior"][name].dims == dims
    assert tree["posterior"].sizes["chain"] == 2
    assert tree["posterior"].sizes["draw"] == 500
    first = next(iter(posterior.sample(1000, rng()).values()))
    assert np.asarray(tree["posterior"][name]).reshape(1000, -1)[:, 0] == pytest.approx(first[:, 0])
    assert tree.attrs["posterior"] == "noise-aware"
    assert tree.attrs["interval_method"] == "noise summed out"
    assert json.loads(tree.attrs["certificate"])["theorem"] == CERTIFICATE.theorem


def test_released_draws_to_arviz():
    pytest.importorskip("arviz_base")
    tree = Posterior.from_release(DRAWN).to_arviz()
    assert tree["posterior"]["probability"].values.tolist() == [[[0.2, 0.6], [0.3, 0.7], [0.25, 0.65]]]
    assert tree.attrs["posterior"] == "released draws"
    assert tree.attrs["interval_method"] == "no interval: released draws"
