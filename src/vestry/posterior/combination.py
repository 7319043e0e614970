"""One posterior of one quantity from several releases. It reads releases alone, so it costs nothing.

Whether releases are of the same people nobody can see from them, and it must be said. Of the same people, each release
shows the same true numbers through its own noise: noises are multiplied. Of other people, who share nobody, each
release says something of its own about one parameter: likelihoods are multiplied, or numbers added up, with one prior
(`vestry.posterior.joined_noise`, `vestry.posterior.tabulated`). Where some people are in both, neither holds.
"""

from __future__ import annotations

from typing import Any

from vestry.errors import InvalidParameter
from vestry.posterior.noisy_data import statistics_of
from vestry.posterior.posterior import Posterior
from vestry.posterior.reader import NOISE_AWARE, reader_of, refuse_extremes
from vestry.releases import Certificate, NoisyStatistics, Release

_SAID = "same_people=True for several releases from one table, same_people=False for tables that share nobody"


def combine(*releases: Any, same_people: bool | None = None, prior: tuple[float, ...] | str | None = None) -> Posterior:
    """Return one posterior of one quantity from several releases; nothing is spent.

    Parameters
    ----------
    releases
        Two or more releases of noisy statistics by one model: the same groups, levels and units. That they answer the
        same question of the same column is for you to know.
    same_people
        Whether they are of the same people, that is of the same records: releases do not tell. True: the same true
        numbers, each with its own noise. False: tables that have nobody in common; a count is then that of all
        together.
    prior
        Another prior than that of the releases, which must agree if it is omitted.
    """
    for each in releases:
        if not isinstance(each, Release):
            instead = 'for example vestry.open_release("release.json")'
            raise InvalidParameter("a release", type(each).__name__, "a release", instead)
    if len(releases) < 2:
        raise InvalidParameter("combine", f"{len(releases)} releases", "two releases or more", "release.posterior()")
    if not isinstance(same_people, bool):
        allowed = "said: releases do not tell whether they are of the same people"
        raise InvalidParameter("same_people", same_people, allowed, _SAID)
    contents = [statistics_of(each) for each in releases]
    _check_alike(releases, contents)
    if prior is None and len({each.prior for each in releases}) > 1:
        given = " and ".join(str(list(each.prior)) for each in releases)
        raise InvalidParameter("the priors of the releases", given, "equal, or another one said", "prior=(1, 1)")
    numbers = releases[0].prior if prior is None else () if isinstance(prior, str) else prior
    reader = reader_of(releases[0].family, numbers)
    with refuse_extremes():
        distributions = {
            group: reader.combined([each[group] for each in contents], same_people=same_people) for group in contents[0]
        }
    first = releases[0]
    return Posterior(distributions, NOISE_AWARE, reader, _certificate(releases, same_people), first.by, first.labels)


def _check_alike(releases: tuple[Release, ...], contents: list[dict[str, NoisyStatistics]]) -> None:
    """Refuse releases that are not of one quantity, as far as they say what they are of."""
    first = releases[0]
    facts: dict[str, list[Any]] = {
        "the models of the releases": [dict(each.family) for each in releases],
        "the groups of the releases": [(each.by, sorted(each.contents)) for each in releases],
        "the parameters of the releases": [each.labels for each in releases],
        "the numbers of the releases": [
            sorted((group, each.names, each.grid, each.count_grid, each.count is None) for group, each in one.items())
            for one in contents
        ],
    }
    for name, values in facts.items():
        if any(each != values[0] for each in values):
            given = "others in each" if name.startswith("the numbers") else " and ".join(map(_short, values))
            raise InvalidParameter(name, given, "the same in all of them", "releases of one quantity")
    if first.family.get("average") is not None:
        allowed = "asked of rows, or of persons with one row each"
        raise InvalidParameter("combine", "averages over persons", allowed, "each release by itself")


def _short(fact: Any) -> str:
    text = str(fact)
    return text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."


_SHOWN = 80


def _certificate(releases: tuple[Release, ...], same_people: bool) -> Certificate:
    """Say that each release keeps its own guarantee, and that reading them together costs nothing."""
    whom = "the same people" if same_people else "other people each"
    rows = [each.certificate.population.get("rows", 1) for each in releases]
    return Certificate(
        guarantee={},
        event={"kind": "post-processing", "count": 1},
        mechanism="several releases",
        parameter="releases",
        value=float(len(releases)),
        theorem=f"Post-processing of {len(releases)} releases, of {whom}; each has its own certificate.",
        unit=releases[0].certificate.unit,
        population={"rows": max(rows, key=lambda each: each if isinstance(each, int) else 1)},
    )
