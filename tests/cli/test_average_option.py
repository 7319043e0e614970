"""`--average person`: the noise of one record, whatever `--rows` is."""

from __future__ import annotations

import json

import pytest
from study.fault_study import vestry

from vestry.model.averaging import person_units


@pytest.mark.parametrize("rows", [2, 6, 40])
@pytest.mark.parametrize(("relation", "times"), [("add-remove", 1), ("replace", 2)])
def test_the_scale_is_that_of_one_record(rows, relation, times):
    done = vestry("calibrate", "laplace", "--family", "beta-bernoulli", "--average", "person", "--rows", rows,
                  "--neighbours", relation, "--guarantee", "epsilon=0.5", "--json")  # fmt: skip
    assert json.loads(done.out)["value"] / person_units(rows) == pytest.approx(times / 0.5, rel=1e-9)


def test_what_has_no_average_is_refused():
    done = vestry("calibrate", "laplace", "--family", "gamma-exponential", "--low", 1, "--high", 2, "--average",
                  "person", "--guarantee", "epsilon=1")  # fmt: skip
    assert done.code == 2
    assert "average must be row for laplace and gamma-exponential, not 'person'" in " ".join(done.err.split())
    done = vestry("calibrate", "diffused", "--family", "beta-bernoulli", "--prior", "1,1", "--average", "person",
                  "--guarantee", "epsilon=1,delta=1e-6")  # fmt: skip
    assert "average must be row for diffused and beta-bernoulli" in " ".join(done.err.split())


def test_categories_are_one_record_too():
    done = vestry("audit", "laplace", "--family", "dirichlet-categorical", "--prior", "1,1,1", "--average", "person",
                  "--rows", 3, "--guarantee", "epsilon=1", "--trials", 2000, "--releases", 0, "--json")  # fmt: skip
    assert json.loads(done.out)["value"] == pytest.approx(2 * person_units(3), rel=1e-9)
