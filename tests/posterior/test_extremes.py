"""Numbers of any size end in a posterior or in one sentence, and a bug ends in its own error."""

import warnings

import numpy as np
import pytest
from test_release_mutations import FAMILIES, hashed, record_of

from vestry.conjugate.conjugate_model import ConjugateReader
from vestry.errors import ExtremeNumbers, VestryError
from vestry.posterior.reader import refuse_extremes
from vestry.releases import Release

SENTENCE = "no posterior can be computed from these numbers"
EXTREMES = (1e-320, 1e-300, 1e-8, 1e8, 1e18, 1e30, 1e300)
LARGE = 2**62


def release_of(record):
    return Release.from_dict(hashed(record))


def overflow():
    return 10.0**400


def undefined():
    return np.log(np.array([-1.0]))


def division():
    return 1 / 0


def singular():
    return np.linalg.inv(np.zeros((2, 2)))


@pytest.mark.parametrize(
    ("action", "cause"),
    [
        (overflow, OverflowError),
        (undefined, FloatingPointError),
        (division, ZeroDivisionError),
        (singular, np.linalg.LinAlgError),
    ],
)
def test_what_arithmetic_raises_becomes_a_sentence_that_keeps_its_cause(action, cause):
    with pytest.raises(ExtremeNumbers, match=SENTENCE) as caught, refuse_extremes():
        action()
    assert isinstance(caught.value.__cause__, cause)


@pytest.mark.parametrize("bug", [ValueError, IndexError, TypeError, KeyError, AssertionError])
def test_a_bug_of_a_reading_is_not_called_extreme(bug, monkeypatch):
    """Planted where a posterior is computed: the error that it raises arrives as it is."""

    def planted(self, statistics):
        raise bug("shapes (2,) and (3,) differ")

    monkeypatch.setattr(ConjugateReader, "noise_aware", planted)
    with pytest.raises(bug, match="shapes"):
        release_of(record_of("beta-bernoulli")).posterior()


def test_a_warning_of_a_bug_is_seen():
    with pytest.warns(DeprecationWarning, match="an old call"), refuse_extremes():
        warnings.warn("an old call", DeprecationWarning, stacklevel=1)


def summary(record):
    return release_of(record).posterior().summary()


def plug_in_summary(record):
    return release_of(record).posterior(method="plug-in").summary()


def extremes(name):
    """Yield a release of a family with one number of its prior, or all of its noisy numbers, at an extreme."""
    record = record_of(name)
    for index in range(len(record["prior"])):
        for number in EXTREMES:
            changed = record_of(name)
            changed["prior"][index] = number
            yield changed
    for number in (-LARGE, 0, LARGE):
        changed = record_of(name)
        for content in changed["contents"].values():
            statistics = content.get("noisy-statistics")
            if statistics is not None:
                statistics["values"] = [number] * len(statistics["values"])
        yield changed


# Posteriors of these are sampled, or take long.
SAMPLED = ("hmm", "logistic table", "poisson table", "table")


@pytest.mark.parametrize("name", [name for name in FAMILIES if name not in SAMPLED])
def test_extreme_numbers_give_a_posterior_or_a_sentence(name):
    """No other error, and no warning: both fail a test."""
    for record in extremes(name):
        for read in (summary, plug_in_summary):
            try:
                numbers = read(record).select_dtypes("number").to_numpy()
            except VestryError:
                continue
            assert np.isfinite(numbers).all()
