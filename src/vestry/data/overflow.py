"""How large a sum can become. It is settled from declarations alone, before any record is read."""

from __future__ import annotations

import math
from collections.abc import Mapping

from vestry.errors import InvalidParameter
from vestry.schema.domain import Domain, Interval, Levels
from vestry.schema.statistics import Count, Product, Sum, SumQuery

LIMIT = 2**62
# How many records there may be, where nobody says.
LARGEST = 10**12

# Between these no step of a sum or product over- or underflows in a double. PostgreSQL would raise where others give
# infinity or zero.
_GREATEST_END = 1e30
_GRIDS = (1e-30, 1e60)
_LEAST_ORIGIN = 1e-80

# A number nearer to 0 than this is taken as 0. Under the limits above it changes no sum: it is lost in x - origin, and
# where the origin is 0 its term is below 1e-39 before the 1/2 is added.
NEGLIGIBLE = 1e-100

_EXACT = 2**53


def check_bound(tally: SumQuery, domains: Mapping[str, Domain], largest: int) -> None:
    """Refuse numbers that 64-bit sums and doubles cannot hold exactly.

    Parameters
    ----------
    tally
        What is summed.
    domains
        What the columns may contain.
    largest
        How many records there are at most.
    """
    for column in tally.columns:
        _check_domain(column, domains[column])
    for term in tally.terms:
        if isinstance(term, Count):
            if isinstance(term.units, bool) or not isinstance(term.units, int) or not 0 < term.units * largest < LIMIT:
                most = (LIMIT - 1) // largest
                raise InvalidParameter("units", term.units, f"a whole number from 1 to {most}", f"units={most}")
        elif isinstance(term, (Sum, Product)):
            _check_grid(term, domains, largest)


def _check_domain(column: str, domain: Domain) -> None:
    if isinstance(domain, Interval) and max(abs(domain.low), abs(domain.high)) > _GREATEST_END:
        raise InvalidParameter(
            f"the interval of {column}", [domain.low, domain.high], f"within {_GREATEST_END:g} of 0", "a narrower one"
        )
    if isinstance(domain, Levels):
        for value in domain.values:
            if isinstance(value, int) and abs(value) > _EXACT:
                raise InvalidParameter(
                    f"a level of {column}", value, "at most 2^53 in size if it is a whole number", f'"{value}" as text'
                )


def _check_grid(term: Sum | Product, domains: Mapping[str, Domain], largest: int) -> None:
    columns, origins = sides(term)
    for origin in origins:
        if not (origin == 0 or _LEAST_ORIGIN <= abs(origin) <= _GREATEST_END):
            raise InvalidParameter("origin", origin, f"0 or from {_LEAST_ORIGIN:g} to {_GREATEST_END:g} in size", "0")
    if not _GRIDS[0] <= term.grid <= _GRIDS[1]:
        raise InvalidParameter("grid", term.grid, f"from {_GRIDS[0]:g} to {_GRIDS[1]:g}", "grid=0.001")
    span = 1.0
    for column, origin in zip(columns, origins, strict=True):
        domain = domains[column]
        assert isinstance(domain, Interval)  # noqa: S101 - tally.check has seen to it
        span *= max(abs(domain.low - origin), abs(domain.high - origin))
    greatest = math.floor(span / term.grid + 0.5) + 1
    if greatest * largest >= LIMIT:
        # Half the limit, so that neither rounding nor the 1/2 of the grid matters.
        enough = 2.0 ** math.ceil(math.log2(max(span, _GRIDS[0]) * largest / (LIMIT // 4)))
        raise InvalidParameter(
            "grid", term.grid, f"coarse enough for {largest:g} records to sum below 2^62", f"grid={enough!r} or more"
        )


def sides(term: Sum | Product) -> tuple[tuple[str, ...], tuple[float, ...]]:
    """Return the columns that a term multiplies, and their origins."""
    if isinstance(term, Sum):
        return (term.column,), (term.origin,)
    return term.columns, term.origins
