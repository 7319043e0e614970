"""NUTS over NumPyro's distributions draws from the library's own posteriors.

False alarms: a share of draws is held to six of its standard errors, with the effective number of draws that NumPyro
estimates (two thirds of it, as it is an estimate): below 1e-7 for a comparison, below 1e-6 for the file. The same draws
are rejected against the posterior of less noise.
"""

from __future__ import annotations

import numpy as np
import pytest
from likelihood.made_releases import levels, rates, release, yes_no

jax = pytest.importorskip("jax")
numpyro = pytest.importorskip("numpyro")

import numpyro.distributions as dist  # noqa: E402
from numpyro.diagnostics import effective_sample_size  # noqa: E402
from numpyro.infer import MCMC, NUTS  # noqa: E402

from vestry.likelihood import NoisyBinomial, NoisyGram, NoisyMultinomial, NoisyPoisson  # noqa: E402

pytestmark = pytest.mark.statistical
LEVELS = np.array([0.05, 0.25, 0.5, 0.75, 0.95])


def draws(model, *arguments, samples: int = 2500, **names) -> dict[str, np.ndarray]:
    """Return draws by name, chain and place, of four chains side by side."""
    with jax.enable_x64(True):
        chains = MCMC(
            NUTS(model, target_accept_prob=0.9), num_warmup=600, num_samples=samples, num_chains=4,
            chain_method="vectorized", progress_bar=False,
        )  # fmt: skip
        chains.run(jax.random.PRNGKey(7), *arguments)
        return {name: np.asarray(each) for name, each in chains.get_samples(group_by_chain=True).items()}


def far(sample: np.ndarray, marginal) -> np.ndarray:
    """Return how far shares below the posterior's quantiles are from what they should be, in standard errors."""
    below = sample[..., None] <= np.array([float(marginal.quantile(level)) for level in LEVELS])
    size = np.array([effective_sample_size(below[..., place].astype(float)) for place in range(LEVELS.size)]) * 2 / 3
    return np.abs(below.mean(axis=(0, 1)) - LEVELS) / np.sqrt(LEVELS * (1 - LEVELS) / np.minimum(size, sample.size))


def binomial(likelihood):
    p = numpyro.sample("p", dist.Beta(2.0, 3.0))
    numpyro.sample("release", NoisyBinomial(likelihood, probs=p), obs=likelihood.values)


LAPLACE, GAUSSIAN = "discrete-laplace", "discrete-gaussian"
PROPORTIONS = [(each, noise) for each in ((7, 19, None), (-1, 6, None), (7, 25)) for noise in (LAPLACE, GAUSSIAN)]


@pytest.mark.parametrize(
    ("values", "noise"),
    [
        pytest.param(*each, marks=pytest.mark.long if each == ((-1, 6, None), LAPLACE) else pytest.mark.slow)
        for each in PROPORTIONS
    ],
)
def test_a_proportion(values, noise):
    *noisy, count = values
    how = {"count": count, "noise": noise, "prior": (2.0, 3.0)}
    made = yes_no(tuple(noisy), scale=3.0, **how)
    drawn = draws(binomial, made.likelihood())["p"]
    assert far(drawn, made.posterior().distributions["all"].marginal(0)).max() < 6
    other = yes_no(tuple(noisy), scale=0.5, **how)
    assert far(drawn, other.posterior().distributions["all"].marginal(0)).max() > 6


@pytest.mark.slow
@pytest.mark.parametrize("how", [{"values": (30, 100)}, {"values": (30,), "count": 12}])
def test_a_rate(how):
    def model(likelihood):
        rate = numpyro.sample("rate", dist.Gamma(2.0, 1.0))
        numpyro.sample("release", NoisyPoisson(likelihood, rate), obs=likelihood.values)

    made = rates(how["values"], count=how.get("count"), scale=6.0, prior=(2.0, 1.0))
    drawn = draws(model, made.likelihood())["rate"]
    assert far(drawn, made.posterior().distributions["all"].marginal(0)).max() < 6
    other = rates(how["values"], count=how.get("count"), scale=1.0, prior=(2.0, 1.0))
    assert far(drawn, other.posterior().distributions["all"].marginal(0)).max() > 6


@pytest.mark.slow
@pytest.mark.parametrize("count", [None, 30])
def test_levels(count):
    def model(likelihood):
        p = numpyro.sample("p", dist.Dirichlet(np.ones(3)))
        numpyro.sample("release", NoisyMultinomial(likelihood, probs=p), obs=likelihood.values)

    made = levels((16, 2, 9), count=count, scale=2.0)
    drawn, own = draws(model, made.likelihood())["p"], made.posterior().distributions["all"]
    # With a private count the library's posterior is a sample of counts, good to about .004 of a probability.
    allowed = 6 if count is not None else 6 + 0.004 / np.sqrt(0.05 * 0.95 / 6000)
    for place in range(3):
        assert far(drawn[..., place], own.marginal(place)).max() < allowed
    narrow = levels((16, 2, 9), count=count, scale=0.4).posterior().distributions["all"]
    assert max(far(drawn[..., place], narrow.marginal(place)).max() for place in range(3)) > allowed


def regression(likelihood, n, features, outcome):
    """The model of the library: normal errors, any predictors; see `vestry.regression.released_gram`."""
    d = len(features)
    share = numpyro.sample("share", dist.Uniform(0, 1).expand([d - 1]).to_event(1))
    factor = numpyro.sample("factor", dist.LKJCholesky(d, 1.0))
    theta = numpyro.sample("theta", dist.Normal(0, 1).expand([d]).to_event(1))
    sd = numpyro.sample("sd", dist.Uniform(0, 1))
    e = numpyro.sample("e", dist.Normal(0, 1).expand([d]).to_event(1))
    g = numpyro.sample("g", dist.Normal(0, 1))  # residuals' sum of squares, chi2 by its normal limit
    lower = jax.numpy.sqrt(jax.numpy.concatenate([jax.numpy.ones(1), share]))[:, None] * factor
    c = lower.T @ theta + sd / jax.numpy.sqrt(n) * e
    rest = sd**2 * (n - d) * (1 + jax.numpy.sqrt(2 / (n - d)) * g)
    size = len(likelihood.basis)
    gram = jax.numpy.zeros((size, size)).at[np.ix_(features, features)].set(n * lower @ lower.T)
    cross = n * lower @ c
    gram = gram.at[np.array(features), outcome].set(cross).at[outcome, np.array(features)].set(cross)
    gram = gram.at[outcome, outcome].set(n * c @ c + rest)
    numpyro.sample("release", NoisyGram(likelihood, gram), obs=likelihood.values)


@pytest.mark.slow
def test_a_linear_regression():
    """Its own posterior is a first-order one (kappa below .3): ends of intervals are compared to a tenth of a width."""
    rng, n, half = np.random.default_rng(3), 2000, 2**19
    x = rng.normal(0, 0.4, (n, 2)).clip(-1, 1)
    y = (0.2 + x @ [0.5, -0.3] + rng.normal(0, 0.2, n)).clip(-1, 1)
    columns = {"numbers": [{"name": each, "low": -1.0, "high": 1.0} for each in ("y", "a", "b")], "levels": []}
    family = {
        "name": "linear",
        "method": "moments",
        "columns": columns,
        "outcome_column": "y",
        "predictors": ["a", "b"],
    }
    z = np.column_stack([np.ones(n), y, x])
    pairs = [(0, 1), (0, 2), (0, 3), (1, 1), (1, 2), (1, 3), (2, 2), (2, 3), (3, 3)]
    scale = 6.0 * half
    noisy = [round((z.T @ z)[i, j] * half + rng.normal(0, scale)) for i, j in pairs]
    made = release(family, tuple(noisy), noise="discrete-gaussian", scale=scale, prior=(1.0,), grid=1 / half, count=n)
    likelihood = made.likelihood()
    drawn = draws(lambda like: regression(like, n, [0, 2, 3], 1), likelihood, samples=1500)["theta"]
    own = made.posterior().interval(0.9)
    for place, name in ((1, "a"), (2, "b"), (0, "intercept")):
        low, high = own.loc[("all", f"coefficient[{name}]")]
        ends = np.quantile(drawn[..., place], [0.05, 0.95])
        assert ends == pytest.approx([low, high], abs=0.1 * (high - low)), name
    plug = made.posterior(method="plug-in").interval(0.9).loc[("all", "coefficient[a]")]
    assert np.ptp(np.quantile(drawn[..., 1], [0.05, 0.95])) > 1.2 * (plug["high"] - plug["low"])
