"""Noise on a statistic: calibrated to a guarantee, or as an entry of the ledger says."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from vestry.errors import GuaranteeUnreachable, InvalidParameter, VestryError
from vestry.mechanisms.additive_noise import MECHANISM_OF, NOISE_OF, Additive, calibrate_noise
from vestry.mechanisms.statistic_family import Layout
from vestry.noise_inversion.noise_sum import NoiseSum
from vestry.privacy.guarantee import Guarantee
from vestry.privacy.neighbours import Adjacency
from vestry.schema.table_schema import Population
from vestry.statistics.statistic import Statistic
from vestry.validation import require_choice

AUTO = "auto"
# What `auto` compares: noise that each integer has for itself.
_COMPARED = ("laplace", "gaussian")


def calibrated(statistic: Statistic, population: Population, guarantee: Guarantee, mechanism: str = AUTO) -> Additive:
    """Return the noise that meets the guarantee; of several the one with the least standard deviation."""
    require_choice("mechanism", mechanism, (AUTO, *_COMPARED, "discrete-gaussian"), 'mechanism="auto"')
    names = _COMPARED if mechanism == AUTO else (mechanism,)
    allowed = list(_allowed(statistic, population, guarantee, names))
    if not allowed:
        raise GuaranteeUnreachable(f"{guarantee} by {' or '.join(names)} noise", "a spend with an epsilon")
    return min(allowed, key=lambda noise: noise.deviation)


def of_event(statistic: Statistic, population: Population, event: Mapping[str, Any], guarantee: Guarantee) -> Additive:
    """Return the noise that an entry of the ledger describes, with the scale that was paid for."""
    kind = str(event["kind"])
    if kind not in MECHANISM_OF:
        raise InvalidParameter("the event of a charge", kind, "noise on integers", "another purchase")
    layout, adjacency = _layout(statistic, population)
    scale = float(event["parameters"]["scale"])
    return Additive(kind, scale, layout, adjacency, guarantee)


def law_of(noise: Additive) -> NoiseSum:
    """Return the law of the noise on one integer."""
    return NoiseSum.of_one(noise.noise, noise.scale)


def _allowed(
    statistic: Statistic, population: Population, guarantee: Guarantee, names: tuple[str, ...]
) -> Iterator[Additive]:
    layout, adjacency = _layout(statistic, population)
    for name in names:
        try:
            yield calibrate_noise(NOISE_OF[name], layout, adjacency, guarantee)
        except VestryError:
            # A pure epsilon is never kept by Gaussian noise, for example.
            if len(names) == 1:
                raise


def _layout(statistic: Statistic, population: Population) -> tuple[Layout, Adjacency]:
    sensitivity = statistic.layout(population)
    size = len(statistic.names)
    names = ("",) * size
    layout = Layout(names, sensitivity.l1, sensitivity.l2_squared**0.5, largest=sensitivity.largest)
    return layout, Adjacency(population.neighbours, population.unit.rows)
