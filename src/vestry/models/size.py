"""How many numbers a release may have: what is larger is refused by its declaration, before anything is charged."""

from __future__ import annotations

from collections.abc import Mapping

from vestry.errors import InvalidParameter
from vestry.models.model import groups_of
from vestry.models.request import Model
from vestry.statistics.domain import Domain, Levels

# Parameters that are estimated one by one, each with its interval: at a few milliseconds each.
MOST_PARAMETERS = 2_500
# Counts from which states are sampled.
MOST_COUNTS = 250_000


def check_size(model: Model, domains: Mapping[str, Domain]) -> None:
    """Refuse a model of more parameters than can be read in seconds and in little memory."""
    groups, own = len(groups_of(domains, model.by)), [column for column in model.columns if column != model.by]
    numbers = [len(domain.names) if isinstance(domain := domains[column], Levels) else 1 for column in own]
    if model.name == "hmm":
        # The first column is the time; the others are counted in each cell.
        size, most, what = groups * numbers[0] * sum(numbers[1:]), MOST_COUNTS, "regions x times x levels"
    else:
        each = 1 if model.name == "beta-bernoulli" else sum(numbers)
        size, most, what = groups * each, MOST_PARAMETERS, "groups x parameters" if groups > 1 else "parameters"
    if size > most:
        raise InvalidParameter(
            f"the size of the model ({what})", size, f"at most {most}", "fewer levels, some of them joined into one"
        )
