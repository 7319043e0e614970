"""The published schema of a release names exactly the fields that are written."""

import json
from dataclasses import fields
from pathlib import Path

import pytest

from vestry.releases import Certificate, Draws, NoisyStatistics, Release

SCHEMA = json.loads((Path(__file__).parents[1] / "docs" / "release.schema.json").read_text())
GROUP = SCHEMA["properties"]["contents"]["additionalProperties"]["properties"]


@pytest.mark.parametrize(
    ("part", "kind"),
    [
        (SCHEMA["properties"]["certificate"], Certificate),
        (GROUP["noisy-statistics"], NoisyStatistics),
        (GROUP["draws"], Draws),
    ],
)
def test_schema_names_every_field(part, kind):
    names = {field.name for field in fields(kind)}
    assert set(part["properties"]) == set(part["required"]) == names


def test_schema_names_every_key_of_a_release():
    claim = Certificate({"epsilon": 1.0}, {"kind": "pure", "count": 1}, "laplace", "scale", 1.0, "", "row", {})
    noisy = NoisyStatistics(("successes",), (3,), "discrete-laplace", 1.0, count=9)
    written = json.loads(Release({"name": "beta-bernoulli"}, (1.0, 1.0), {"all": noisy}, claim).text())
    assert set(written) == set(SCHEMA["required"]) == set(SCHEMA["properties"])
    assert written["schema"] == SCHEMA["properties"]["schema"]["const"]
    assert set(written["contents"]["all"]) <= set(GROUP)
