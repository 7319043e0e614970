"""Settings for every test: Hypothesis looks at the same cases each time, and a busy machine is no failure.

`make test` looks at a fifth of the examples, `make check` at all of them; `make test-all` explores new cases.
"""

from example_count import PROFILE, examples
from hypothesis import HealthCheck, settings

calm = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow, HealthCheck.filter_too_much]}
settings.register_profile("quick", derandomize=True, max_examples=examples(100), **calm)
settings.register_profile("repeat", derandomize=True, **calm)
settings.register_profile("explore", **calm)
settings.load_profile(PROFILE)
