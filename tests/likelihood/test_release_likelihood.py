"""What `release.likelihood` returns, for one group and for all, and what it refuses."""

from __future__ import annotations

import json

import numpy as np
import pytest
from likelihood.made_releases import counts, levels, rates, release, yes_no

from vestry.errors import InvalidParameter
from vestry.releases import Draws, Release

BY_WARD = {"A": (3, 9), "B": (-1, 4), "C": (20, 2)}
BY_BOTH = {"A, jan": (3, 9), "A, feb": (5, 4), "B, jan": (1, 1), "B, feb": (0, 7)}


def test_all_groups_are_the_groups():
    whole = yes_no(BY_WARD, by="ward").likelihood()
    eta = np.array([-1.0, 0.3, 2.0])
    each = [
        yes_no(BY_WARD, by="ward").likelihood(group).log_likelihood(logits=x)
        for group, x in zip("ABC", eta, strict=True)
    ]
    assert whole.log_likelihood(logits=eta) == pytest.approx(each, abs=1e-7)
    assert whole.batch_shape == (3,)
    assert whole.values.shape == (3, 2)
    assert repr(whole) == "<binomial likelihood: successes, failures, groups=3>"
    assert whole.log_prob(whole.values).shape == (3,)


def test_parameters_may_have_axes_of_their_own():
    eta = np.random.default_rng(1).normal(size=(5, 4, 3))
    whole = yes_no(BY_WARD, by="ward").likelihood()
    found = whole.log_likelihood(logits=eta)
    assert found.shape == (5, 4, 3)
    assert found[2, 1] == pytest.approx(whole.log_likelihood(logits=eta[2, 1]))
    sizes = whole.log_likelihood(logits=eta, total_mean=np.array([5.0, 9.0, 30.0]), total_shape=2.0)
    assert sizes[2, 1, 1] == pytest.approx(
        yes_no(BY_WARD, by="ward").likelihood("B").log_likelihood(logits=eta[2, 1, 1], total_mean=9.0, total_shape=2.0),
        abs=1e-8,
    )


@pytest.mark.parametrize(
    ("made", "given"),
    [
        (lambda v: levels({g: (*x, 1) for g, x in v.items()}, by="ward"), {"probs": np.full((7, 3, 3), 1 / 3)}),
        (lambda v: rates({g: (x[0], 10 * x[1]) for g, x in v.items()}, by="ward"), {"rate": np.full((7, 3), 1.4)}),
        (lambda v: counts({g: x[:1] for g, x in v.items()}, by="ward"), {"rate": np.full((7, 3), 4.0)}),
    ],
    ids=["levels", "rates", "counts"],
)
def test_other_kinds_have_groups_too(made, given):
    whole, ((name, value),) = made(BY_WARD).likelihood(), given.items()
    found = whole.log_likelihood(**given)
    assert found.shape == (7, 3)
    for place, group in enumerate("ABC"):
        one = made(BY_WARD).likelihood(group).log_likelihood(**{name: value[0, place]})
        assert found[0, place] == pytest.approx(one, abs=1e-8)


def test_columns_become_indices():
    found = yes_no(BY_BOTH, by="ward, month").likelihood()
    assert found.labels("ward") == ("A", "B")
    assert found.labels("month") == ("jan", "feb")
    assert found.index("ward").tolist() == [0, 0, 1, 1]
    assert found.index("month").tolist() == [0, 1, 0, 1]
    with pytest.raises(InvalidParameter, match="one of ward, month, not 'sex'; write ward"):
        found.index("sex")
    with pytest.raises(InvalidParameter, match="there is none"):
        yes_no((3, 9)).likelihood().index("sex")


def test_levels_with_commas_are_groups_as_they_are():
    odd = {"A, old, jan": (3, 9), "B, jan": (5, 4)}
    assert yes_no(odd, by="ward, month").likelihood().labels("ward, month") == tuple(odd)


def test_levels_are_named_and_of_two_the_first_is_a_success():
    assert levels((3, 4, 5)).likelihood().names == ("a", "b", "c")
    two = release({"name": "dirichlet-categorical", "categories": 2}, (3, 9), labels=("yes", "no"))
    same = yes_no((3, 9)).likelihood().log_likelihood(probs=0.2)
    assert two.likelihood().log_likelihood(probs=0.2) == pytest.approx(same)


def test_a_table_leaves_out_cells_that_cannot_occur():
    columns = [{"name": "ward", "levels": ["A", "B"]}, {"name": "sex", "levels": ["f", "m"]}]
    family = {"name": "table", "columns": columns, "zeros": [2]}
    found = release(family, (5, 7, 1, 3), prior=(), labels=("A, f", "A, m", "B, m")).likelihood()
    assert found.names == ("A, f", "A, m", "B, m")
    same = levels((5, 7, 3)).likelihood()
    p = np.array([0.2, 0.5, 0.3])
    assert found.log_likelihood(probs=p) == pytest.approx(same.log_likelihood(probs=p))


def outcome_table(classes, values, high=None) -> Release:
    table = {
        "predictors": [{"name": "ward", "levels": ["A", "B"]}, {"name": "sex", "levels": ["f", "m"]}],
        "outcome": "y",
        "classes": [{"name": each, "levels": [each]} for each in classes],
        "high": high,
    }
    name = "logistic" if high is None else "poisson"
    family = {"name": name, "method": "table", "table": table, "predictors": ["ward"]}
    return release(family, values, prior=(0.16,))


def test_a_regressions_table_has_a_likelihood_by_cell():
    found = outcome_table(("no", "yes"), (9, 3, 4, -1, 2, 20, 8, 8)).likelihood()
    assert found.names == ("yes", "no")
    assert found.groups == ("ward=A, sex=f", "ward=A, sex=m", "ward=B, sex=f", "ward=B, sex=m")
    assert found.index("sex").tolist() == [0, 1, 0, 1]
    eta = np.array([-1.0, 0.0, 1.0, 2.0])
    assert found.log_likelihood(logits=eta)[0] == pytest.approx(
        yes_no((3, 9)).likelihood().log_likelihood(logits=-1.0), abs=1e-8
    )
    one = outcome_table(("no", "yes"), (9, 3, 4, -1, 2, 20, 8, 8)).likelihood("ward=B, sex=f")
    assert one.log_likelihood(logits=1.0) == pytest.approx(found.log_likelihood(logits=eta)[2], abs=1e-8)
    several = outcome_table(("a", "b", "c"), tuple(range(12))).likelihood()
    assert several.kind == "multinomial"
    assert several.values[1].tolist() == [3, 4, 5]


def test_a_poisson_regressions_table_has_sums_and_records():
    found = outcome_table((), (50, 4, 30, 9, 0, 0, 10, 2), high=20).likelihood()
    assert found.values[0].tolist() == [4, 5]
    same = rates((4, 50), count_grid=0.1).likelihood().log_likelihood(rate=0.7)
    assert found.log_likelihood(rate=np.full(4, 0.7))[0] == pytest.approx(same, abs=1e-8)


MOMENTS = {
    "name": "linear",
    "method": "moments",
    "columns": {
        "numbers": [{"name": "y", "low": 0.0, "high": 10.0}, {"name": "x", "low": -1.0, "high": 1.0}],
        "levels": [{"name": "ward", "levels": ["A", "B", "C"]}],
    },
    "outcome_column": "y",
    "predictors": ["x", "ward"],
}


def gram_release(count=None, noise="discrete-gaussian") -> tuple[Release, np.ndarray]:
    """Return noisy moments of 40 records, and their true Gram matrix."""
    rng = np.random.default_rng(4)
    ward = rng.integers(0, 3, 40)
    z = np.column_stack([np.ones(40), rng.uniform(-1, 1, (40, 2)), ward == 1, ward == 2])
    gram, half = z.T @ z, 2**19
    from vestry.regression.moments import Moments

    pairs = Moments.from_dict(MOMENTS["columns"]).pairs
    pairs = pairs if count is None else pairs[:-1]
    units = tuple(round(gram[i, j] * half) + 1000 * (place % 3 - 1) for place, (i, j) in enumerate(pairs))
    made = release(
        MOMENTS, units, noise=noise, scale=1500.0, prior=(1.0,), grid=1 / half, count_grid=1 / half, count=count,
        names=[*(f"m{k}" for k in range(len(pairs) - 1)), "count" if count is None else "last"],
    )  # fmt: skip
    return made, gram


@pytest.mark.parametrize("count", [None, 40])
@pytest.mark.parametrize("noise", ["discrete-gaussian", "rounded-gaussian", "discrete-laplace"])
def test_a_gram_matrix_has_the_density_of_its_noise(count, noise):
    made, gram = gram_release(count, noise)
    found = made.likelihood()
    assert found.basis == ("intercept", "y", "x", "ward[B]", "ward[C]")
    assert (found.middles[1], found.reaches[1]) == (5.0, 5.0)
    gaps = [1000 * (place % 3 - 1) for place in range(len(found.names))]
    if noise != "discrete-laplace":  # of so large a scale rounding changes nothing that shows
        exact = sum(-0.5 * (k / 1500) ** 2 - np.log(1500 * np.sqrt(2 * np.pi)) for k in gaps)
    else:
        exact = sum(-abs(k) / 1500 + np.log(np.tanh(1 / 3000)) for k in gaps)
    assert found.log_likelihood(gram=gram) == pytest.approx(exact, abs=0.02)  # the true sums are rounded to the grid
    several = found.log_likelihood(gram=np.stack([gram, 1.01 * gram]))
    assert several[1] < several[0]
    assert np.abs(found.noisy_gram() - gram).max() < 1100 / 2**19
    with pytest.raises(InvalidParameter, match=r"\(5, 5\) in its last axes: intercept, y, x"):
        found.log_likelihood(gram=np.eye(3))


def test_every_release_of_sums_has_the_noise():
    means = release({"name": "normal-mean", "variance": 4.0, "low": 0.0, "high": 8.0}, (50, 9), names=("sum", "count"),
                    prior=(4.0, 1.0), grid=0.5, count_grid=0.25)  # fmt: skip
    found = means.likelihood()
    assert found.values.tolist() == [25.0, 2.25]
    assert found.log_prob([24.0, 2.0]) == pytest.approx(2 * np.log(np.tanh(1 / 4)) - (2 + 1) / 2)
    with pytest.raises(InvalidParameter, match=r"log_prob\(statistic\) is there for every release"):
        found.log_likelihood(rate=1.0)


def test_refusals():
    with pytest.raises(InvalidParameter, match="logits and probs"):
        yes_no((3, 9)).likelihood().log_likelihood()
    with pytest.raises(InvalidParameter, match="both"):
        yes_no((3, 9)).likelihood().log_likelihood(logits=0.0, probs=0.5)
    with pytest.raises(InvalidParameter, match="omitted where the number of records is public"):
        yes_no((3,), count=9).likelihood().log_likelihood(logits=0.0, total_mean=4.0)
    with pytest.raises(InvalidParameter, match="one of A, B, C"):
        yes_no(BY_WARD, by="ward").likelihood("D")
    with pytest.raises(InvalidParameter, match=r"the shape of probabilities.*3 along its last axis \(a, b, c\)"):
        levels((3, 4, 5)).likelihood().log_likelihood(probs=[0.5, 0.5])
    with pytest.raises(InvalidParameter, match="the shape of a statistic"):
        yes_no((3, 9)).likelihood().log_prob(3.0)
    with pytest.raises(InvalidParameter, match="at most 2\\^50"):
        yes_no((2**51, 9)).likelihood()
    with pytest.raises(InvalidParameter, match="such as a release of this total has"):
        levels((9, 9, 9), count=9, scale=0.1).likelihood()


def test_draws_have_no_likelihood():
    made = yes_no((3, 9))
    drawn = Release(made.family, made.prior, {"all": Draws(((0.3,),))}, made.certificate)
    with pytest.raises(InvalidParameter, match="of released draws no likelihood is known"):
        drawn.likelihood()


def test_averages_over_persons_have_no_likelihood():
    family = {"name": "beta-bernoulli", "average": "person", "kind": "numbers", "grouped": False, "dimension": 1,
              "low": 0.0, "high": 1.0}  # fmt: skip
    with pytest.raises(InvalidParameter, match="averages over persons are a normal approximation"):
        release(family, (3, 4, 5), prior=()).likelihood()


def test_groups_that_differ_are_asked_for_one_by_one():
    made = yes_no(BY_WARD, by="ward")
    odd = {**made.contents, "C": yes_no((1, 2), scale=9.0).contents["all"]}
    mixed = Release(made.family, made.prior, odd, made.certificate, "ward")
    with pytest.raises(InvalidParameter, match="groups that are alike"):
        mixed.likelihood()
    assert mixed.likelihood("C").scale == 9.0


def test_rows_of_persons_say_what_is_taken_as_independent():
    assert yes_no((3, 9)).likelihood().note == ""
    assert "takes a person's rows as independent" in yes_no((3, 9), rows=3).likelihood().note


def test_a_file_gives_the_same(tmp_path):
    from vestry import open_release

    made = yes_no(BY_BOTH, by="ward, month")
    (tmp_path / "release.json").write_text(made.text())
    assert json.loads(made.text())["by"] == "ward, month"
    found = open_release(tmp_path / "release.json").likelihood()
    assert found.log_likelihood(logits=np.zeros(4)) == pytest.approx(
        made.likelihood().log_likelihood(logits=np.zeros(4))
    )
