"""Public records in the prior, and statistical queries: each against what it must equal."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest
from scipy.special import betaln
from seeded_noise import SeededNoise

from vestry.conjugate.beta_bernoulli import Beta, BetaBernoulliFamily
from vestry.conjugate.gamma_poisson import GammaPoissonFamily
from vestry.conjugate.statistical_query import StatisticalQuery
from vestry.data import Table
from vestry.errors import InvalidParameter
from vestry.mechanisms.posterior_sample import concentrated, diffused, direct, public_data
from vestry.model.request import Request
from vestry.pipeline import schema_of
from vestry.privacy import accountant
from vestry.privacy.guarantee import Guarantee
from vestry.privacy.neighbours import Adjacency
from vestry.schema.domain import Interval
from vestry.schema.private import Private, reveal

FAMILY, HUNDRED = BetaBernoulliFamily(), Adjacency("replace", 1, 100)
RECORDS = [1] * 7 + [0] * 5


def wanted(text: str = "epsilon=1,delta=1e-5") -> Guarantee:
    return Guarantee.parse(text)


class Leave:
    def take(self) -> None:
        """Let the draw through."""


# --- public records ---------------------------------------------------------------------------------------------------


def test_public_records_are_a_larger_prior_for_a_diffused_draw():
    """Neither tempered by r nor hidden: exactly the prior Beta(2 + 7, 3 + 5)."""
    public = public_data(FAMILY, RECORDS)
    with_public = diffused(FAMILY, FAMILY.prior((2, 3)), HUNDRED, wanted(), public=public)
    larger = diffused(FAMILY, FAMILY.prior((9, 8)), HUNDRED, wanted())
    assert with_public.value == larger.value
    assert with_public.event == larger.event
    assert with_public.prior == Beta(9, 8)
    assert with_public.value > diffused(FAMILY, FAMILY.prior((2, 3)), HUNDRED, wanted()).value


def test_a_concentrated_draw_scales_the_prior_and_not_the_public_records():
    public = public_data(FAMILY, RECORDS)
    made = concentrated(FAMILY, FAMILY.prior((2, 3)), HUNDRED, wanted(), public=public)
    m = made.prior_scale
    assert m < 1
    member = FAMILY.update(made.prior, [38.0], 100, prior_scale=m)
    assert (member.alpha, member.beta) == pytest.approx((2 / m + 7 + 38, 3 / m + 5 + 62), rel=1e-12)
    # Public records already hide something, so less of the prior is needed.
    assert m > concentrated(FAMILY, FAMILY.prior((2, 3)), HUNDRED, wanted()).prior_scale


def test_public_records_may_make_a_direct_draw_possible():
    family, prior = GammaPoissonFamily(3), GammaPoissonFamily(3).prior((2, 1))
    many = public_data(family, [3] * 4000)
    made = direct(family, prior, HUNDRED, wanted(), public=many)
    assert accountant.delta(made.event, 1.0) <= 1e-5
    with pytest.raises(ValueError, match="by a direct draw cannot be reached"):
        direct(family, prior, HUNDRED, wanted())
    with pytest.raises(InvalidParameter, match="public records must be at least one"):
        public_data(family, [])


# --- statistical queries ----------------------------------------------------------------------------------------------

DOMAINS = {"phi": Interval(0, 1)}


def table(values) -> Table:
    return Table(pd.DataFrame({"phi": values}), DOMAINS, neighbours="replace")


def asked(mechanism="diffused", spend="epsilon=1,delta=1e-5", **more) -> Request:
    return Request(StatisticalQuery("phi", prior=(6, 12)), wanted(spend), mechanism, draws=1, **more)


def test_a_query_is_summed_in_fractions_and_drawn_from_its_beta():
    made = table([0.25, 0.5, 1.0, 2.0, -1.0, 0.125])
    prepared = asked().prepare(schema_of(made), 6)
    sums = reveal(made.collect(prepared.tally, row_key="key"))
    assert sums == (round((0.25 + 0.5 + 1 + 1 + 0 + 0.125) * 2**20), 6)
    draws = [
        prepared.mechanism.release(Private(sums), Leave(), SeededNoise(seed))[0].values[0][0] for seed in range(400)
    ]
    r = prepared.mechanism.likelihood_power
    member = Beta(6 + r * 2.875, 12 + r * (6 - 2.875))
    error = np.sqrt(member.variance()[0] / len(draws))
    assert abs(np.mean(draws) - member.mean()[0]) < 6 * error


def test_a_query_by_ops_is_summed_in_fractions_too():
    prepared = asked("ops", "epsilon=1", truncation=0.2).prepare(schema_of(table([0.5])), 1000)
    drawn = prepared.mechanism.release(Private((500 * 2**20, 1000)), Leave(), SeededNoise(1))[0].values[0][0]
    assert 0.3 < drawn < 0.7


@pytest.mark.parametrize("power", [0.3, 1.0])
def test_real_valued_sums_cost_no_more_than_the_boundary_pairs(power):
    """Brute force over sums in sixteenths: Renyi divergence of order 1.5, every pair that one record can make."""
    a, b, n, order = 2.0, 3.0, 6, 1.5
    event = FAMILY.worst_draw(FAMILY.prior((a, b)), Adjacency("replace", 1, n), likelihood_power=power)
    claimed, true = accountant.renyi(event, order), 0.0
    for others, one, other in itertools.product(
        np.arange(0, n - 1 + 1e-9, 0.25), np.arange(0, 1.01, 1 / 16), (0.0, 1.0)
    ):
        p, q = ((a + power * (others + x), b + power * (n - others - x)) for x in (one, other))
        for left, right in ((p, q), (q, p)):
            between = [order * x + (1 - order) * y for x, y in zip(left, right, strict=True)]
            true = max(true, (betaln(*between) - order * betaln(*left)) / (order - 1) + betaln(*right))
    assert true == pytest.approx(claimed, rel=1e-9)


def test_a_query_has_no_noisy_statistics():
    with pytest.raises(InvalidParameter, match="one that releases draws for a statistical query"):
        Request(StatisticalQuery("phi"), wanted("epsilon=1"), "laplace").prepare(schema_of(table([0.5])), 10)
    wide = Table(pd.DataFrame({"phi": [0.5]}), {"phi": Interval(0, 2)}, neighbours="replace")
    with pytest.raises(InvalidParameter, match=r"the interval of phi must be \[0, 1\]"):
        asked().prepare(schema_of(wide), 10)
