"""PyTensor gives NumPy's numbers and their derivatives, and PyMC draws from the library's own posterior.

PyMC needs other versions than the extras do, so it has an environment of its own: `make test-models`.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from likelihood.made_releases import counts, levels, rates, yes_no
from likelihood.test_release_likelihood import gram_release

from vestry.errors import InvalidParameter

WHY = "PyMC is not in this environment: make test-models has it"
pm = pytest.importorskip("pymc", reason=WHY)
pytensor = pytest.importorskip("pytensor", reason=WHY)

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore:PyTensor could not link to a BLAS")]
PAGE = Path(__file__).parents[2] / "docs" / "any-model.md"
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
    "gram": (gram_release()[0], "gram", gram_release()[1]),
}


@pytest.mark.parametrize("case", CASES)
def test_pytensor_gives_the_numbers_of_numpy_and_their_derivatives(case):
    made, name, at = CASES[case]
    likelihood = made.likelihood()
    x = pytensor.tensor.tensor(dtype="float64", shape=at.shape)
    total = likelihood.log_likelihood(**{name: x}).sum()
    plain = pytensor.compile.mode.Mode(linker="py", optimizer=None)  # nothing is compiled for one number
    value, slope = pytensor.function([x], [total, pytensor.grad(total, x)], mode=plain)(at)
    assert value == pytest.approx(likelihood.log_likelihood(**{name: at}).sum(), abs=1e-9)
    step = 1e-7 if case == "gram" else 1e-5
    for place in np.ndindex(at.shape):
        ends = []
        for sign in (1, -1):
            moved = at.copy()
            moved[place] += sign * step
            ends.append(likelihood.log_likelihood(**{name: moved}).sum())
        assert slope[place] == pytest.approx((ends[0] - ends[1]) / (2 * step), rel=2e-4, abs=2e-4)


@pytest.mark.parametrize("scale", [0.3, 1.3, 200.0, 20_000.0])
def test_pytensor_gives_the_law_of_rounded_noise_and_its_slope(scale):
    """Near the middle and far outside, where both values of the distribution function are below 1e-300."""
    likelihood = counts({"A": (3,), "B": (-4,)}, by="ward", noise="rounded-gaussian", scale=scale).likelihood()
    at = np.array([[3.0 + 0.6 * scale], [-4.0 - 45.2 * scale]])
    x = pytensor.tensor.tensor(dtype="float64", shape=at.shape)
    total = likelihood.log_prob(x).sum()
    plain = pytensor.compile.mode.Mode(linker="py", optimizer=None)
    value, slope = pytensor.function([x], [total, pytensor.grad(total, x)], mode=plain)(at)
    assert value == pytest.approx(likelihood.log_prob(at).sum(), rel=1e-9)
    step = 1e-4 * scale
    for place in np.ndindex(at.shape):
        moved = np.zeros(at.shape)
        moved[place] = step
        rise = likelihood.log_prob(at + moved).sum() - likelihood.log_prob(at - moved).sum()
        assert slope[place] == pytest.approx(rise / (2 * step), rel=2e-4)


def test_single_precision_is_refused():
    with pytest.raises(InvalidParameter, match=r"float32.*floatX"):
        yes_no((5,), count=12).likelihood().log_likelihood(logits=pytensor.tensor.scalar(dtype="float32"))


def far(sample: np.ndarray, marginal) -> float:
    """Return how far shares below the posterior's quantiles are from what they should be, in standard errors."""
    import arviz

    found = []
    for level in (0.05, 0.25, 0.5, 0.75, 0.95):
        below = (sample <= float(marginal.quantile(level))).astype(float)
        size = min(float(arviz.ess(below)) * 2 / 3, sample.size)  # two thirds, as it is an estimate
        found.append(abs(below.mean() - level) / np.sqrt(level * (1 - level) / size))
    return max(found)


@pytest.mark.statistical
def test_pymc_draws_from_the_librarys_own_posterior():
    """Six standard errors: fails by chance below once in a million. The posterior of less noise is rejected."""
    values = {"A": (7, 19), "B": (-1, 6)}
    made = yes_no(values, by="ward", scale=3.0, prior=(2.0, 3.0))
    likelihood = made.likelihood()
    with pm.Model():
        p = pm.Beta("p", 2.0, 3.0, shape=2)
        pm.Potential("release", likelihood.log_likelihood(probs=p).sum())
        drawn = pm.sample(
            2500, tune=600, chains=4, cores=1, random_seed=7, target_accept=0.9, progressbar=False,
            compute_convergence_checks=False,
        ).posterior["p"].to_numpy()  # fmt: skip
    other = yes_no(values, by="ward", scale=0.5, prior=(2.0, 3.0))
    own, narrow = (each.posterior().distributions for each in (made, other))
    assert max(far(drawn[..., place], own[ward].marginal(0)) for place, ward in enumerate("AB")) < 6
    assert max(far(drawn[..., place], narrow[ward].marginal(0)) for place, ward in enumerate("AB")) > 6


def test_the_example_of_the_page_runs(tmp_path, monkeypatch):
    (block,) = re.findall(r"^```py\n(import pymc.*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    monkeypatch.chdir(tmp_path)
    wards = {"A": (6, 20), "B": (1, 1), "C": (8, 25), "D": (14, 16)}
    Path("wards.json").write_text(yes_no(wards, by="ward").text())
    ran: dict = {}
    exec(compile(block, "<example>", "exec"), ran)
    assert -1.6 < float(ran["draws"].posterior["mean"].mean()) < -0.2
    assert ran["draws"].posterior["x"].dims == ("chain", "draw", "ward")
