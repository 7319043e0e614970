"""Stan's functions give NumPy's numbers, and Stan draws from the library's own posterior.

PyStan brings a compiler of Stan; it is in the environment of `make test-models`, and compiles for a minute or two. What
needs no Stan is tried everywhere.
"""

from __future__ import annotations

import json
import math
import re
from pathlib import Path

import numpy as np
import pytest
from likelihood.made_releases import counts, levels, rates, release, yes_no
from likelihood.test_release_likelihood import gram_release

from vestry.errors import InvalidParameter

# Warnings of what PyStan is made of.
FOREIGN = pytest.mark.filterwarnings("ignore")
PAGE = Path(__file__).parents[2] / "docs" / "any-model.md"
WARDS = {"A": (3, 9), "B": (-4, 2), "C": (40, 12)}
BOTH = {"A": (7, 19), "B": (-1, 6)}


def sums(noise: str):
    family = {"name": "normal-mean", "variance": 4.0, "low": 0.0, "high": 10.0, "dimension": 1}
    return release(
        family, (40, 9), names=("sum", "count"), noise=noise, scale=3.0, grid=0.5, prior=(5.0, 1.0)
    ).likelihood()


# The likelihood, what Stan is given of x, and what NumPy is given of it.
LEVELS = levels({"A": (3, 9, 0), "B": (-2, 7, 30)}, by="ward").likelihood()
TWO = "{x[1:3], x[4:6]}"
CASES = {
    "binomial": (yes_no(WARDS, by="ward").likelihood(), ("x[1:3]",), lambda x: {"logits": x[:3]}),
    "one_group": (yes_no((3, 9)).likelihood(), ("x[1:1]",), lambda x: {"logits": x[0]}),
    "binomial_total": (
        yes_no(WARDS, by="ward").likelihood(),
        ("x[1:3]", "exp(x[4] + 3)", "exp(x[5])"),
        lambda x: {"logits": x[:3], "total_mean": math.exp(x[3] + 3), "total_shape": math.exp(x[4])},
    ),
    "binomial_public": (yes_no((5,), count=12).likelihood(), ("x[1:1]",), lambda x: {"logits": x[0]}),
    "multinomial": (LEVELS, (TWO,), lambda x: {"logits": x[:6].reshape(2, 3)}),
    "multinomial_total": (
        LEVELS,
        (TWO, "exp(x[7] + 3)", "exp(x[8])"),
        lambda x: {"logits": x[:6].reshape(2, 3), "total_mean": math.exp(x[6] + 3), "total_shape": math.exp(x[7])},
    ),
    "multinomial_public": (levels((3, 9, 0), count=14).likelihood(), ("{x[1:3]}",), lambda x: {"logits": x[:3]}),
    "counts": (counts({"A": (3,), "B": (-4,)}, by="ward").likelihood(), ("x[1:2]",), lambda x: {"log_rate": x[:2]}),
    "rates": (rates({"A": (13, 90), "B": (3, -5)}, by="ward").likelihood(), ("x[1:2]",), lambda x: {"log_rate": x[:2]}),
    "rates_public": (rates((13,), count=9).likelihood(), ("x[1:1]",), lambda x: {"log_rate": x[0]}),
    "gram": (gram_release()[0].likelihood(), ("{exp(x[1]) * base}",), lambda x: {"gram": math.exp(x[0]) * BASE}),
    "gram_laplace": (
        gram_release(40, "discrete-laplace")[0].likelihood(),
        ("{exp(x[1]) * base}",),
        lambda x: {"gram": math.exp(x[0]) * BASE},
    ),
    "sums_laplace": (sums("discrete-laplace"), ("{x[1:2]}",), lambda x: x[:2]),
    "sums_gaussian": (sums("discrete-gaussian"), ("{x[1:2]}",), lambda x: x[:2]),
    "sums_rounded": (sums("rounded-gaussian"), ("{x[1:2]}",), lambda x: x[:2]),
    "sums_cube": (sums("discrete-cube"), ("{x[1:2]}",), lambda x: x[:2]),
}
BASE = gram_release()[1]
PRIOR = yes_no(BOTH, by="ward", scale=3.0, prior=(2.0, 3.0))


def whole_program() -> tuple[str, dict]:
    """Return one program of all cases, and of a posterior: one is compiled sooner than many."""
    made = {name: likelihood.to_stan(name) for name, (likelihood, *_) in CASES.items()} | {
        "posterior": PRIOR.likelihood().to_stan("posterior")
    }
    given = {name: each for name, (_, each, _) in CASES.items()} | {"posterior": ("x[1:2]",)}
    parts = [
        f"if (which == {place}) target += {each.log_likelihood(*given[name])};"
        for place, (name, each) in enumerate(made.items())
    ]
    declared = "\n".join(each.declarations for each in made.values())
    last = len(made) - 1
    text = f"""
    functions {{
    {made["binomial"].functions}
    }}
    data {{
      int which; int size; matrix[size, size] base;
      {declared}
    }}
    parameters {{ vector[8] x; }}
    model {{
      {" ".join(parts)}
      if (which == {last}) {{
        target += 2 * sum(log_inv_logit(x[1:2])) + 3 * sum(log1m_inv_logit(x[1:2])); // Beta(2, 3), of logits
        x[3:8] ~ std_normal();
      }}
    }}
    """
    data = {"which": 0, "size": len(BASE), "base": BASE.tolist()}
    for each in made.values():
        data |= each.data
    return text, data


def test_declarations_are_the_data_and_json_holds_them():
    for name, (likelihood, given, _) in CASES.items():
        made = likelihood.to_stan("ward")
        declared = re.findall(r"(\w+);$", made.declarations, re.MULTILINE)
        assert declared == list(made.data), name
        assert json.loads(json.dumps(made.data, allow_nan=False)) == made.data
        assert f"real {made.log_likelihood(*given).partition('(')[0]}(" in made.functions
        assert set(made.arguments) <= set(made.data)
    assert "ward_groups" in repr(made)


def test_refusals():
    likelihood = yes_no((5,), count=12).likelihood()
    with pytest.raises(InvalidParameter, match="name must be small letters"):
        likelihood.to_stan("My release")
    with pytest.raises(InvalidParameter, match="the number of parameters must be one, not 3"):
        likelihood.to_stan().log_likelihood("x", "mean", "shape")


def stan_of():
    return pytest.importorskip("stan", reason="PyStan is not in this environment: make test-models has it")


@pytest.fixture(scope="module")
def build():
    stan, (text, data) = stan_of(), whole_program()

    def built(which: int):
        try:
            return stan.build(text, data={**data, "which": which}, random_seed=7)
        except TimeoutError:  # PyStan waits five minutes for the compiler, whose result is kept
            return stan.build(text, data={**data, "which": which}, random_seed=7)

    return built


@pytest.mark.slow
@FOREIGN
def test_stan_gives_the_numbers_of_numpy(build):
    rng = np.random.default_rng(3)
    for place, (name, (likelihood, _, of)) in enumerate(CASES.items()):
        model = build(place)
        for x in rng.normal(0, 1, (5, 8)) * (0.05 if "gram" in name else 1):
            given = of(x)
            found = likelihood.log_likelihood(**given) if isinstance(given, dict) else likelihood.log_prob(given)
            assert model.log_prob(x.tolist()) == pytest.approx(float(np.sum(found)), rel=1e-12, abs=1e-9), name
            slope = model.grad_log_prob(x.tolist())
            assert np.isfinite(slope).all()


@pytest.mark.slow
@FOREIGN
@pytest.mark.statistical
def test_stan_draws_from_the_librarys_own_posterior(build):
    """Six standard errors: fails by chance below once in a million. The posterior of less noise is rejected."""
    fit = build(len(CASES)).sample(num_chains=4, num_warmup=600, num_samples=2500)
    drawn = 1 / (1 + np.exp(-fit["x"][:2].reshape(2, 2500, 4).transpose(0, 2, 1)))
    narrow = yes_no(BOTH, by="ward", scale=0.5, prior=(2.0, 3.0))
    for made, agree in ((PRIOR, True), (narrow, False)):
        own = made.posterior().distributions
        worst = max(far(drawn[place], own[ward].marginal(0)) for place, ward in enumerate("AB"))
        assert (worst < 6) == agree, worst


def far(sample: np.ndarray, marginal) -> float:
    """Return how far shares below the posterior's quantiles are from what they should be, in standard errors."""
    arviz = pytest.importorskip("arviz", reason="ArviZ is not in this environment: make test-models has it")
    found = []
    for level in (0.05, 0.25, 0.5, 0.75, 0.95):
        below = (sample <= float(marginal.quantile(level))).astype(float)
        size = min(float(arviz.ess(below)) * 2 / 3, sample.size)
        found.append(abs(below.mean() - level) / np.sqrt(level * (1 - level) / size))
    return max(found)


@pytest.mark.slow
@FOREIGN
def test_the_example_of_the_page_runs(tmp_path, monkeypatch):
    stan_of()
    (block,) = re.findall(r"^```py\n(import stan.*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    monkeypatch.chdir(tmp_path)
    wards = {"A": (6, 20), "B": (1, 1), "C": (8, 25), "D": (14, 16)}
    Path("wards.json").write_text(yes_no(wards, by="ward").text())
    ran: dict = {}
    exec(compile(block, "<example>", "exec"), ran)
    assert -1.6 < float(ran["draws"]["mean"].mean()) < -0.2
