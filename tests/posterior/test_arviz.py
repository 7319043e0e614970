"""ArviZ summarises and plots draws of posteriors by the names of groups, levels and coefficients.

ArviZ 0.23, the last one for Python 3.11, comes with PyMC, in an environment of its own: `make test-models`.
"""

from __future__ import annotations

import numpy as np
import pytest
from likelihood.made_releases import levels, release, yes_no

from vestry.posterior.arviz_tree import draw_file

arviz = pytest.importorskip("arviz", reason="ArviZ is not in this environment: make test-models has it")
pytestmark = pytest.mark.slow


def regression():
    """Return a linear regression by moments: y = 0.5 a + noise, 2,000 records."""
    n, half = 2000, 2**19
    numbers = [{"name": each, "low": -1.0, "high": 1.0} for each in ("y", "a")]
    family = {
        "name": "linear", "method": "moments", "columns": {"numbers": numbers, "levels": []}, "outcome_column": "y",
        "predictors": ["a"],
    }  # fmt: skip
    sums = (0.0, 0.0, 0.09 * n, 0.08 * n, 0.16 * n)  # y, a, yy, ya, aa
    noisy = tuple(round(each * half) for each in sums)
    return release(family, noisy, noise="discrete-gaussian", scale=6.0 * half, prior=(1.0,), grid=1 / half, count=n)


def table():
    columns = [{"name": "sex", "levels": ["f", "m"]}, {"name": "ill", "levels": ["no", "yes"]}]
    family = {"name": "table", "columns": columns, "zeros": []}
    return release(family, (30, 12, 25, 18), names=("",) * 4, prior=(1.0,), labels=CELLS)


CELLS = ("f, no", "f, yes", "m, no", "m, yes")
# What ArviZ calls a parameter, and where it is in the library's own summary.
RELEASES = {
    "groups": (
        lambda: yes_no({"A": (3, 9), "B": (40, 12)}, by="ward"),
        {f"probability[{ward}]": (ward, "probability") for ward in "AB"},
    ),
    "groups of levels": (
        lambda: levels({"A": (3, 9), "B": (40, 12)}, by="ward"),
        {f"probability[{ward}, {level}]": (ward, f"probability[{level}]") for ward in "AB" for level in "ab"},
    ),
    "regression": (
        regression,
        {f"coefficient[{each}]": ("all", f"coefficient[{each}]") for each in ("a", "intercept")}
        | {"residual_sd": ("all", "residual sd"), "r_squared": ("all", "R squared")},
    ),
    "table": (table, {f"probability[{cell}]": ("all", f"probability[{cell}]") for cell in CELLS}),
}


@pytest.mark.statistical
@pytest.mark.parametrize("case", RELEASES)
def test_arviz_shows_the_names_and_the_numbers(case, tmp_path):
    """2,000 draws or more: a mean is seven standard errors away less than once in a million."""
    made, names = RELEASES[case]
    posterior = made().posterior()
    (tmp_path / "posterior.nc").write_bytes(draw_file(posterior, "07" * 32, most=None))
    tree = posterior.to_arviz(np.random.default_rng(1), draws=500)
    own = posterior.summary()
    for given in (arviz.InferenceData.from_datatree(tree), arviz.from_netcdf(tmp_path / "posterior.nc")):
        found = arviz.summary(given, round_to="none")
        assert set(found.index) == set(names)
        for name, place in names.items():
            mean, sd = own.loc[place, ["mean", "sd"]]
            assert found.loc[name, "mean"] == pytest.approx(mean, abs=7 * sd / np.sqrt(2000)), name
        (axes,) = arviz.plot_forest(given, combined=True)
        shown = [each.get_text() for each in axes.get_yticklabels()]
        assert len(shown) == len(names)
        assert all(any(each.endswith(text) for each in names) for text in shown), shown
        axes.figure.clf()
