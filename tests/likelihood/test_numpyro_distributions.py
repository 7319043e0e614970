"""JAX gives NumPy's numbers and their derivatives; NumPyro's distributions refuse what is not theirs."""

from __future__ import annotations

import numpy as np
import pytest
from likelihood.made_releases import counts, levels, rates, yes_no
from likelihood.test_release_likelihood import gram_release
from share import cases

from vestry.errors import InvalidParameter

jax = pytest.importorskip("jax")
numpyro = pytest.importorskip("numpyro")

from vestry.likelihood import NoisyBinomial, NoisyGram, NoisyMultinomial, NoisyPoisson  # noqa: E402

WARDS = {"A": (3, 9), "B": (-4, 2), "C": (40, 12)}
SOFT = np.array([0.3, -1.2, 0.8])
CASES = {
    "binomial": (yes_no(WARDS, by="ward"), "logits", SOFT),
    "binomial, by probability": (yes_no(WARDS, by="ward"), "probs", np.array([0.2, 0.01, 0.7])),
    "binomial, public": (yes_no((5,), count=12), "logits", np.array(0.4)),
    "multinomial": (levels({"A": (3, 9, 0), "B": (-2, 7, 30)}, by="ward"), "logits", np.stack([SOFT, -SOFT])),
    "multinomial, public": (levels((3, 9, 0), count=14), "logits", SOFT),
    "counts": (counts({"A": (3,), "B": (-4,)}, by="ward"), "log_rate", np.array([1.0, 0.2])),
    "rates": (rates({"A": (13, 90), "B": (3, -5)}, by="ward"), "rate", np.array([1.3, 0.4])),
    "rates, public": (rates((13,), count=9), "rate", np.array(1.2)),
    "gram": (gram_release()[0], "gram", gram_release()[1]),
    "gram, public": (gram_release(40, "discrete-laplace")[0], "gram", 1.01 * gram_release()[1]),
}


@pytest.fixture(autouse=True)
def doubles():
    with jax.enable_x64(True):
        yield


@pytest.mark.parametrize("case", cases(CASES, quick=["counts"]))
def test_jax_gives_the_numbers_of_numpy_and_their_derivatives(case):
    made, name, at = CASES[case]
    likelihood = made.likelihood()
    both = jax.jit(jax.value_and_grad(lambda x: likelihood.log_likelihood(**{name: x}).sum()))
    value, slope = both(jax.numpy.asarray(at))
    assert value == pytest.approx(likelihood.log_likelihood(**{name: at}).sum(), abs=1e-9)
    step = 1e-7 if "gram" in case else 1e-5
    for place in np.ndindex(at.shape):
        moved = []
        for sign in (1, -1):
            x = at.copy()
            x[place] += sign * step
            moved.append(likelihood.log_likelihood(**{name: x}).sum())
        assert slope[place] == pytest.approx((moved[0] - moved[1]) / (2 * step), rel=2e-4, abs=2e-4)


@pytest.mark.long
def test_derivatives_of_a_totals_distribution():
    likelihood = yes_no(WARDS, by="ward").likelihood()

    def value(x):
        return likelihood.log_likelihood(logits=x[:3], total_mean=x[3], total_shape=x[4]).sum()

    at = np.array([*SOFT, 20.0, 1.5])
    slope = jax.grad(value)(jax.numpy.asarray(at))
    steps = 1e-5 * np.eye(5)
    differences = [(value(at + each) - value(at - each)) / 2e-5 for each in steps]
    assert np.asarray(slope) == pytest.approx(differences, rel=1e-5, abs=1e-6)


@pytest.mark.parametrize("far", [-60.0, 60.0])
@pytest.mark.parametrize(
    "case",
    cases(["binomial", "binomial, public", "multinomial", "multinomial, public", "counts"], quick=["binomial, public"]),
)
def test_derivatives_are_finite_far_away(case, far):
    made, name, at = CASES[case]
    likelihood = made.likelihood()
    start = jax.numpy.asarray(at * far / 10 if name == "log_rate" else at * far)
    value, slope = jax.jit(jax.value_and_grad(lambda x: likelihood.log_likelihood(**{name: x}).sum()))(start)
    assert np.isfinite(value)
    assert np.isfinite(slope).all()


@pytest.mark.long
def test_a_likelihood_is_an_argument_of_compiled_functions():
    traced = []

    @jax.jit
    def value(likelihood, x):
        traced.append(1)
        return NoisyBinomial(likelihood, x).log_prob(likelihood.values)

    first = yes_no({"A": (3, 9), "B": (4, 4)}, by="ward").likelihood()
    second = yes_no({"A": (2, 9), "B": (5, 4)}, by="ward").likelihood()
    eta = jax.numpy.array([0.1, -0.4])
    for each in (first, second):
        assert np.asarray(value(each, eta)) == pytest.approx(each.log_likelihood(logits=np.asarray(eta)))
    if jax.tree.map(np.shape, first) == jax.tree.map(np.shape, second):
        assert len(traced) == 1


@pytest.mark.long
def test_distributions_have_shapes_and_the_log_probability():
    likelihood = yes_no(WARDS, by="ward").likelihood()
    found = NoisyBinomial(likelihood, SOFT)
    assert (found.batch_shape, found.event_shape) == ((3,), (2,))
    assert np.asarray(found.log_prob(likelihood.values)) == pytest.approx(likelihood.log_likelihood(logits=SOFT))
    assert NoisyBinomial(likelihood, probs=np.full((5, 3), 0.4)).batch_shape == (5, 3)
    assert NoisyMultinomial(levels((3, 9, 0)).likelihood(), SOFT).batch_shape == ()
    assert NoisyPoisson(counts((3,)).likelihood(), 4.0).batch_shape == ()
    made, gram = gram_release()
    assert NoisyGram(made.likelihood(), gram).batch_shape == ()


def test_refusals():
    likelihood = yes_no(WARDS, by="ward").likelihood()
    with pytest.raises(InvalidParameter, match="one of poisson numbers, not 'binomial'"):
        NoisyPoisson(likelihood, 3.0)
    with pytest.raises(InvalidParameter, match="a likelihood must be one of binomial numbers"):
        NoisyBinomial(yes_no(WARDS, by="ward"), SOFT)
    with pytest.raises(InvalidParameter, match=r"write obs=likelihood\.values"):
        NoisyBinomial(likelihood, SOFT).log_prob(likelihood.values + 1)
    with pytest.raises(InvalidParameter, match=r"write obs=likelihood\.values"):
        NoisyBinomial(likelihood, SOFT).sample(jax.random.PRNGKey(0))


def test_single_precision_is_refused():
    likelihood = yes_no(WARDS, by="ward").likelihood()
    with (
        jax.enable_x64(False),
        pytest.raises(InvalidParameter, match=r"float32.*numpyro\.enable_x64\(\)"),
    ):
        likelihood.log_likelihood(logits=jax.numpy.zeros(3))
