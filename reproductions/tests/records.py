"""The records of reduced runs, each made once for all tests."""

from functools import cache

import pytest
from reproductions import EXPERIMENTS

LONG = {"foulds-hmm", "foulds-ais", "foulds-mh"}
EACH = [pytest.param(name, marks=pytest.mark.long) if name in LONG else name for name in EXPERIMENTS]


@cache
def quick(name: str) -> dict:
    return EXPERIMENTS[name].record(quick=True)
