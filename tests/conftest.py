"""Settings for every test: Hypothesis looks at the same cases each time, and a busy machine is no failure.

`make test-all` explores new cases.
"""

import os

from hypothesis import HealthCheck, settings

calm = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow, HealthCheck.filter_too_much]}
settings.register_profile("repeat", derandomize=True, **calm)
settings.register_profile("explore", **calm)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeat"))
