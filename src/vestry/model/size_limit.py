"""How many numbers a release may have: what is larger is refused by its declaration, before anything is charged."""

from __future__ import annotations

from collections.abc import Mapping

from vestry.errors import InvalidParameter
from vestry.model.columns import groups_of
from vestry.model.request import Model
from vestry.schema.domain import Domain, Levels

# Parameters that are estimated one by one, each with its interval: at a few milliseconds each.
MOST_PARAMETERS = 2_500
# Counts from which states are sampled.
MOST_COUNTS = 250_000


def check_size(model: Model, domains: Mapping[str, Domain]) -> None:
    """Refuse a model of more parameters than can be read in seconds and in little memory."""
    if any(column not in domains for column in model.columns):
        return  # the model itself refuses what is not declared, and says what is
    groups = len(groups_of(domains, model.by))
    numbers = [_numbers(domains[column]) for column in model.columns if column != model.by]
    size, most, what = groups * sum(numbers), MOST_PARAMETERS, "groups x parameters" if groups > 1 else "parameters"
    if model.name == "beta-bernoulli":
        size = groups
    elif model.name in ("logistic", "linear"):  # the last column is the outcome; of several classes, each has all
        size = sum(numbers[:-1]) * (numbers[-1] if numbers[-1] > 2 else 1)
    elif model.name == "hmm":  # the first column is the time; the others are counted in each cell
        size, most, what = groups * numbers[0] * sum(numbers[1:]), MOST_COUNTS, "regions x times x levels"
    if size > most:
        raise InvalidParameter(
            f"the size of the model ({what})", size, f"at most {most}", "fewer levels, some of them joined into one"
        )


def _numbers(domain: Domain) -> int:
    """Return how many parameters a column has: one a level, or one."""
    return len(domain.names) if isinstance(domain, Levels) else 1
