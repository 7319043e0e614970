"""How long a plan takes for one point: one model with one mechanism at one spend."""

import statistics
import time

LIMIT_MS = 50.0
COLUMNS = {
    "yes": {"levels": ["n", "y"]},
    "ward": {"levels": ["A", "B", "C", "D"]},
    "kind": {"levels": [f"k{place}" for place in range(30)]},
    "month": {"levels": [f"m{place}" for place in range(12)]},
    "days": {"interval": [0, 60]},
    "wait": {"interval": [0.1, 60]},
    "age": {"interval": [0, 100]},
    "visits": {"count": 20},
}
MODELS = {
    "beta-bernoulli": {"column": "yes", "success": "y", "by": "ward"},
    "dirichlet-categorical": {"column": "ward", "prior": (1.0,) * 4},
    "normal-mean": {"column": "days", "variance": 50.0, "prior": (10.0, 100.0)},
    "normal-inverse-gamma": {"column": "days", "prior": (10.0, 1.0, 5.0, 200.0)},
    "gamma-poisson": {"column": "visits", "prior": (2.0, 1.0)},
    "gamma-exponential": {"column": "wait", "prior": (2.0, 20.0)},
    "naive-bayes": {"target": "yes", "features": ("ward", "kind")},
    "hmm": {"sequence": {"region": "ward", "time": "month"}, "features": ("yes",), "states": 2},
    "linear": {"outcome": "days", "predictors": ("age", "wait"), "method": "moments"},
    "logistic": {"outcome": "yes", "success": "y", "predictors": ("ward", "month")},
    "quality": {"columns": ("yes", "days")},
    "count": {"by": "ward"},
    "levels": {"column": "kind"},
    "table": {"columns": ("ward", "kind")},
    "poisson": {"outcome": "visits", "predictors": ("ward", "month")},
}
# The same models, asked otherwise.
OTHERS = (
    ("dirichlet-categorical", {"column": "kind"}),
    ("logistic", {"outcome": "ward", "predictors": ("yes", "month"), "method": "table"}),
    ("linear", {"outcome": "days", "predictors": ("age", "ward"), "by": "yes"}),
)
SPENDS = ("epsilon=0.5", "epsilon=0.5,delta=1e-6", "rho=0.02")


def run(quick: bool = False) -> list[dict]:
    asked = [*MODELS.items(), *OTHERS]
    times = [point for name, keys in asked for point in points(name, keys, 1 if quick else 3)]
    median, most = statistics.median(times) * 1e3, max(times) * 1e3
    peer = f"{LIMIT_MS:g} ms; the longest {most:.0f} ms"
    return [{"name": f"plan, one point: median of {len(times)}", "value": median, "unit": "ms",
             "ratio": median / LIMIT_MS, "limit": 1.0, "peer": peer}]  # fmt: skip


def points(name: str, keys: dict, rounds: int) -> list[float]:
    """Time each mechanism that a model may take at each spend, after a first look that loads what it needs."""
    from vestry.model.request import Request
    from vestry.planning import compare_mechanisms
    from vestry.privacy.guarantee import Guarantee
    from vestry.privacy.neighbours import Neighbours, Unit
    from vestry.registry import MODELS as KNOWN
    from vestry.schema.domain import domain_from
    from vestry.schema.table_schema import TableSchema

    schema = TableSchema(
        {key: domain_from(each) for key, each in COLUMNS.items()}, Unit(), Neighbours.ADD_REMOVE, 10**6
    )
    times = []
    for spend in SPENDS:
        asked = Request(KNOWN[name](**keys), Guarantee.parse(spend, neighbours="add-remove"))
        compare_mechanisms(asked, schema, expected_rows=5000)
        for _ in range(rounds):
            start = time.perf_counter()
            found = compare_mechanisms(asked, schema, expected_rows=5000)
            times.append((time.perf_counter() - start) / len(found))
    return times
