"""Settings for every test: Hypothesis looks at the same cases each time, and a busy machine is no failure.

`make test` looks at a tenth of the examples, `make check` at all of them; `make test-all` explores new cases.
"""

import os
from functools import cache

import typer.main
from hypothesis import HealthCheck, settings
from share import PROFILE, examples

calm = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow, HealthCheck.filter_too_much]}
settings.register_profile("quick", derandomize=True, max_examples=examples(100), **calm)
settings.register_profile("repeat", derandomize=True, **calm)
settings.register_profile("explore", **calm)
settings.load_profile(PROFILE)

# pytest-xdist tells its workers how wide the terminal is; here nothing is printed to one, so no sentence is broken.
os.environ.pop("COLUMNS", None)

# Every call of the command line builds all commands anew, which a process does once. Here one process calls it often.
typer.main.get_command = cache(typer.main.get_command)
