"""Releases made by hand, for tests of likelihoods."""

from __future__ import annotations

from vestry.releases import Certificate, NoisyStatistics, Release


def certificate(**population) -> Certificate:
    return Certificate({"epsilon": 0.5}, {"kind": "pure", "count": 1}, "laplace", "scale", 2.0, "", "row", population)


def release(
    family: dict | str, values: dict | tuple, *, names=None, noise="discrete-laplace", scale=2.0, by=None, labels=(),
    prior=(1.0, 1.0), rows=1, **rest,
) -> Release:  # fmt: skip
    """Return a release of these noisy integers, by group or of one."""
    groups = values if isinstance(values, dict) else {"all": values}
    described = {"name": family} if isinstance(family, str) else family
    contents = {}
    for group, own in groups.items():
        called = names or tuple(f"number {place}" for place in range(len(own)))
        contents[group] = NoisyStatistics(tuple(called), tuple(own), noise, scale, **rest)
    return Release(described, tuple(prior), contents, certificate(rows=rows), by, tuple(labels))


def yes_no(values, **rest) -> Release:
    """Return successes, and failures where the count is private."""
    names = ("successes",) if rest.get("count") is not None else ("successes", "failures")
    return release("beta-bernoulli", values, names=names, **rest)


def rates(values, *, high=20, count_grid=0.1, **rest) -> Release:
    """Return a sum of counts, and the number of records in tenths where it is private."""
    if rest.get("count") is not None:
        return release({"name": "gamma-poisson", "high": high}, values, names=("sum",), **rest)
    names = ("sum", "count")
    return release({"name": "gamma-poisson", "high": high}, values, names=names, count_grid=count_grid, **rest)


def levels(values, **rest) -> Release:
    """Return counts of levels."""
    size = len(next(iter(values.values())) if isinstance(values, dict) else values)
    family = {"name": "dirichlet-categorical", "categories": size}
    return release(family, values, prior=(1.0,) * size, labels=tuple("abcdefghij"[:size]), **rest)


def counts(values, **rest) -> Release:
    """Return numbers of records."""
    return release({"name": "count", "of": "records"}, values, names=("records",), prior=(), **rest)
