"""How many numbers a release may have: what is larger is refused by its declaration, before anything is charged."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from vestry.errors import InvalidParameter
from vestry.model.columns import groups_of
from vestry.schema.domain import Domain, Levels

# Parameters that are estimated one by one, each with its interval: at a few milliseconds each.
MOST_PARAMETERS = 2_500
# Counts from which states are sampled.
MOST_COUNTS = 250_000


class Size(NamedTuple):
    """How many numbers a release of a model has, how many it may have, and of what they are the product."""

    number: int
    most: int
    what: str


def check_size(model: Any, domains: Mapping[str, Domain]) -> None:
    """Refuse a model of more parameters than can be read in seconds and in little memory."""
    if any(column not in domains for column in model.columns):
        return  # the model itself refuses what is not declared, and says what is
    size: Size = model.size(domains)
    if size.number > size.most:
        instead = "fewer levels, some of them joined into one"
        raise InvalidParameter(f"the size of the model ({size.what})", size.number, f"at most {size.most}", instead)


def size_by_group(model: Any, domains: Mapping[str, Domain]) -> Size:
    """Return the size of a model with a parameter for each level of its columns, or one for an interval, by group."""
    groups = len(groups_of(domains, model.by))
    number = groups * sum(parameters_of(domains[column]) for column in model.columns if column != model.by)
    return Size(number, MOST_PARAMETERS, "groups x parameters" if groups > 1 else "parameters")


def parameters_of(domain: Domain) -> int:
    """Return how many parameters a column has: one per level, or one."""
    return len(domain.names) if isinstance(domain, Levels) else 1
