"""No noisy average over persons is refuted at its worst-case neighbours, and one of half the noise is.

False alarms: at most 1e-6 a test.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from seeded_noise import SeededNoise
from share import cases

from vestry.audit import audit_shipped
from vestry.conjugate.beta_bernoulli import BetaBernoulli
from vestry.conjugate.dirichlet_categorical import DirichletCategorical
from vestry.conjugate.normal_mean import NormalMean
from vestry.model.request import Request
from vestry.persons.person_average import PersonAverage
from vestry.privacy.guarantee import Guarantee
from vestry.privacy.neighbours import Neighbours, Unit
from vestry.schema.domain import Interval, Levels
from vestry.schema.table_schema import TableSchema

pytestmark = pytest.mark.statistical

DOMAINS = {"yes": Levels("n", "y"), "ward": Levels("A", "B", "C"), "x": Interval(0, 10), "y": Interval(0, 10)}
MODELS = {
    "proportion": BetaBernoulli("yes", success="y"),
    "proportion by ward": BetaBernoulli("yes", success="y", by="ward"),
    "categories by yes": DirichletCategorical("ward", by="yes"),
    "two means": NormalMean(("x", "y"), variance=4.0, prior=(5, 9)),
}


def mechanism(name: str, relation: Neighbours):
    model = PersonAverage(MODELS[name])
    schema = TableSchema(DOMAINS, Unit("id", 3), relation)
    guarantee = Guarantee.parse("epsilon=1", neighbours=relation)
    return Request(model, guarantee, "laplace").prepare(schema, None).mechanism, model.parts(DOMAINS)


@pytest.mark.parametrize("relation", Neighbours, ids=str)
@pytest.mark.parametrize("name", cases(MODELS, quick=[]))
def test_the_noise_is_not_refuted_and_half_of_it_is(name, relation):
    made, parts = mechanism(name, relation)
    how = {"noise": SeededNoise(5), "trials": 40_000, "releases": 0}
    assert not audit_shipped(made, parts, **how).refuted
    twin = replace(made, scale=made.scale / 2)
    assert audit_shipped(twin, parts, claim=(made.event, made.guarantee), **how).refuted
