"""Stories for the page's tests: four releases, and a table of awkward ones. Made by hand, from no data."""

from __future__ import annotations

from vestry.posterior import Posterior
from vestry.privacy.pricing import event
from vestry.releases import Certificate, Draws, NoisyStatistics, Release
from vestry.report.content import ReportContent, Result

VERSIONS = {"python": "3.11.2", "vestry": "0.1.0", "opendp": "0.16.0"}
LAPLACE = "Integer noise P(k) ~ exp(-|k|/scale) on integers of l1 sensitivity D is (D/scale)-DP [DworkMNS06, Prop. 1]."
GAUSSIAN = (
    "Integer noise P(k) ~ exp(-k^2/(2 scale^2)) on integers of l2 sensitivity D is D^2/(2 scale^2)-zCDP"
    " [CanonneKS20, Thm 14]; it is not mu-GDP."
)
DIFFUSED = (
    "A draw from a conjugate posterior: the divergence of two members of the family, at its supremum over the"
    " neighbouring posteriors that the declaration allows [GeumlekSC17, sec. 3]."
)
CANARY = "<script>alert('x')</script>"
LONG = "intensive care, including coronary care and high dependency"
NORMAL = {"name": "normal-mean", "variance": 90.0, "low": 0.0, "high": 60.0, "dimension": 1}


def certificate(guarantee, ran, *, mechanism="laplace", parameter="scale", value=1.0, theorem=LAPLACE, **rest):
    neighbours = guarantee.setdefault("neighbours", "add-remove")
    return Certificate(
        guarantee=guarantee,
        event=ran if isinstance(ran, dict) else ran.under(neighbours).to_dict(),
        mechanism=mechanism,
        parameter=parameter,
        value=value,
        theorem=theorem,
        unit=rest.pop("unit", "row"),
        population={"neighbours": neighbours, "rows": 1, "count": "private"},
        versions=VERSIONS,
        **rest,
    )


def laplace(epsilon=0.3, **rest):
    ran = event("discrete-laplace", sensitivity=1, scale=1 / epsilon)
    return certificate({"epsilon": epsilon}, ran, value=1 / epsilon, **rest)


def gaussian(rho=0.02, **rest):
    scale = (1 / (2 * rho)) ** 0.5
    ran = event("discrete-gaussian", sensitivity=1, scale=scale)
    return certificate({"rho": rho}, ran, mechanism="gaussian", value=scale, theorem=GAUSSIAN, **rest)


def diffused(draws=5):
    ran = event("conjugate-draw", betas=(6.0, 112.0, 0.4), gammas=(), count=draws)
    return certificate(
        {"epsilon": 1.0, "delta": 1e-5},
        ran,
        mechanism="diffused",
        parameter="likelihood_power",
        value=0.4,
        theorem=DIFFUSED,
    )


def counts(*values, names=None, scale=1 / 0.3, noise="discrete-laplace", count=None):
    if names is None:
        names = ("successes", "failures")[: len(values)] if len(values) < 3 else None
    names = names or tuple(f"category {place}" for place in range(len(values)))
    return NoisyStatistics(names, values, noise, scale, count=count)


def sums(*values, count=None, scale=8e5, dimension=1, noise="discrete-laplace"):
    names = ("sum",) if dimension == 1 else tuple(f"sum {place}" for place in range(dimension))
    names = names if count is not None else (*names, "count")
    return NoisyStatistics(names, values, noise, scale, 60 / 2**20, count, 2**-19)


def release(contents, claim, *, family="beta-bernoulli", prior=(1.0, 1.0), by=None):
    contents = contents if isinstance(contents, dict) else {"all": contents}
    return Release(family if isinstance(family, dict) else {"name": family}, prior, contents, claim, by)


def result(name, question, made, *, entry=1, spent="epsilon=0.3", remaining="epsilon=0.7", labels=(), posterior=None):
    posterior = posterior or Posterior.from_release(made)
    return Result(name, question, made, entry, spent, remaining, labels, posterior)


WARDS = {"surgery": (61, 423), "medicine": (118, 371), "maternity": (14, 288), "intensive care": (37, 52)}
readmitted = release({ward: counts(*pair) for ward, pair in WARDS.items()}, laplace(), by="ward")
admission = release(
    counts(412, 633, 288, 51, scale=5.0, noise="discrete-gaussian"),
    gaussian(),
    family="dirichlet-categorical",
    prior=(1.0,) * 4,
)
stay = release(sums(-21_100_000, 752_000_000, scale=2**20 / 0.2), laplace(0.2), family=NORMAL, prior=(10.0, 100.0))
drawn = release(
    Draws(((0.1721,), (0.2034,), (0.1466,), (0.1893,), (0.1659,))),
    diffused(),
    family="beta-bernoulli",
    prior=(6.0, 12.0),
)

FOUR = ReportContent(
    title="Readmissions and length of stay, 2024",
    dataset="patients",
    unit="row",
    neighbours="add-remove",
    budget="epsilon=2,delta=1e-5",
    remaining="epsilon=0.3, or rho=0.11 (with delta up to 4e-6 in charges that bring their own)",
    columns={
        "readmitted": {"levels": ["no", "yes"]},
        "ward": {"levels": [*WARDS], "missing": "level"},
        "admission": {"levels": ["planned", "emergency", "transfer", "other"], "missing": {"value": "other"}},
        "stay": {"interval": [0, 60], "missing": "drop"},
    },
    public=(
        "The names of the columns, and what they were declared to contain.",
        "That these releases were made, with their parameters.",
        "Not the number of patients: it is protected like everything else.",
    ),
    source='[study]\ntitle = "Readmissions and length of stay, 2024"\n\n'
    '[table]\nsource = "patients.parquet"\nunit = "row"\n'
    'neighbours = "add-remove"\nledger = "patients.ledger"\n\n[columns]\nreadmitted = { levels = ["no", "yes"] }\n'
    'ward = { levels = ["surgery", "medicine", "maternity", "intensive care"], missing = "level" }\n',
    ledger="patients.ledger",
    head="9f2c" * 16,
    results=(
        result(
            "readmitted",
            "The probability that readmitted is yes, by ward",
            readmitted,
            entry=2,
            remaining="epsilon=1.7",
        ),
        result(
            "admission",
            "The probability of each kind of admission",
            admission,
            entry=3,
            spent="rho=0.02",
            remaining="epsilon=1.5, or rho=0.2",
            labels=("planned", "emergency", "transfer", "other"),
        ),
        result("stay", "The mean stay in days", stay, entry=4, spent="epsilon=0.2", remaining="epsilon=1.3"),
        result(
            "draws",
            "Five draws of the probability of an infection",
            drawn,
            entry=5,
            spent="epsilon=1,delta=1e-5",
            remaining="epsilon=0.3, or rho=0.11 (with delta up to 4e-6 in charges that bring their own)",
        ),
    ),
)

_rest = {
    "columns": {f'say "{CANARY}"': {"levels": [CANARY, "a & b", "it's"], "missing": {"value": CANARY}}},
    "public": (CANARY,),
    "source": f'# {CANARY}\ntitle = "x & y"\n',
    "ledger": f"{CANARY} 'odd'.ledger",
    "head": "0" * 64,
}


def story(*results, **changes):
    """Return a story of these results, its other text full of characters that HTML takes for its own."""
    given = {
        "title": f"Study {CANARY}",
        "dataset": CANARY,
        "unit": "row",
        "neighbours": "add-remove",
        "budget": "epsilon=1",
        "remaining": "epsilon=0.7",
        "results": results,
    }
    return ReportContent(**{**given, **_rest, **changes})


many = {f"{LONG} {place:02d}": counts(20 + 3 * place, 400 - 20 * place) for place in range(12)}
thirty = tuple(40 + (place * 37) % 53 for place in range(29))

# One release of each awkward kind.
AWKWARD = {
    "markup in names": result(
        f"r&d {CANARY}",
        f"Is it <b>bold</b>? {CANARY}",
        release(
            {CANARY: counts(9, 40), "q\"uo'te & $\\x_1$": counts(12, 30), "漢字": counts(2, 9)},
            laplace(),
            by="<i>w</i>",
        ),
        spent="epsilon=0.3",
        remaining=CANARY,
    ),
    "twelve long groups": result("many", "By ward", release(many, laplace(), by="ward")),
    "thirty categories": result(
        "thirty",
        "Of each kind",
        release(counts(*thirty, -3, scale=5.0), laplace(0.2), family="dirichlet-categorical", prior=(1.0,) * 30),
    ),
    "categories by group": result(
        "both",
        "By ward and kind",
        release(
            {"a": counts(9, 20, -4), "b": counts(-1, 0, 3)},
            laplace(),
            family="dirichlet-categorical",
            prior=(1.0, 1.0, 1.0),
            by="ward",
        ),
        labels=("x", "y", LONG),
    ),
    "negative counts": result("negative", "Rare", release(counts(-7, -2), laplace(), prior=(0.5, 0.5))),
    "public count": result(
        "public",
        "Of a known number",
        release(counts(24, count=100, scale=10.0), laplace(0.1, unit="person=patient_id,rows=3")),
    ),
    "two categories": result(
        "two", "One of two", release(counts(24, count=100), laplace(), family="dirichlet-categorical")
    ),
    "normal by group": result(
        "stays",
        "Mean stay by ward",
        release(
            {"a": sums(900_000, count=90), "b": sums(-80_000, count=50)},
            laplace(),
            family=NORMAL,
            prior=(9.0, 25.0),
            by="ward",
        ),
    ),
    "normal plane": result(
        "plane",
        "Two means",
        release(
            sums(900_000, 10_000, count=90, dimension=2),
            gaussian(),
            family={**NORMAL, "dimension": 2},
            prior=(9.0, 25.0),
        ),
    ),
    "one draw": result(
        "one", "A draw", release(Draws(((0.25,),)), diffused(1), prior=(6.0, 12.0)), spent="epsilon=1,delta=1e-5"
    ),
    "draws of categories by group": result(
        "some",
        "Draws",
        release(
            {"a": Draws(((0.2, 0.3, 0.5),) * 60), CANARY: Draws(((0.1, 0.1, 0.8),) * 60)},
            diffused(60),
            family="dirichlet-categorical",
            prior=(6.0, 6.0, 6.0),
            by="ward",
        ),
        labels=("x", "y", CANARY),
    ),
    "unknown law": result(
        "unknown",
        "By a later version",
        release(
            counts(9, 40),
            certificate({"epsilon": 0.5}, {"kind": "not-yet-known", "count": 1}, assumptions=(f"Converged {CANARY}",)),
        ),
    ),
    "mu": result(
        "mu", "In mu", release(counts(9, 40), certificate({"mu": 0.4}, event("gdp", mu=0.4), mechanism="gaussian"))
    ),
    "one Renyi order": result(
        "order",
        "At an order",
        release(
            counts(9, 40), certificate({"order": 4.0, "epsilon": 0.1}, event("renyi", orders=(4.0,), epsilons=(0.1,)))
        ),
    ),
    "no noise to speak of": result("faint", "Large", release(counts(200_000, 300_000), laplace(2.0))),
}
AWKWARD["plug-in"] = result(
    "plug", "As in the papers", readmitted, posterior=Posterior.from_release(readmitted, method="plug-in")
)


def coefficients(method="posterior", draws=3):
    """Return a release of a regression with one predictor."""
    family = {"name": "logistic", "method": method, "features": ("age", "intercept"), "classes": (),
              "scales": ((50.0, 50.0), None), "outcome": None, "intercept": True}  # fmt: skip
    values = tuple((1.2 + place / 10, -0.4) for place in range(draws))
    return Release(family, (1.0,), {"all": Draws(values)}, diffused(draws), None, ("age", "intercept"))


def hidden(columns=18, regions=("north", "south", "coast")):
    """Return a release of two hidden states, planted so clearly that no cell is unsure; they change every six times."""
    times = tuple(f"2024-{place + 1:02d}" for place in range(columns))
    family = {"name": "hmm", "states": 2, "cell": "private", "sequence": {"region": "region", "time": "month"},
              "regions": regions, "times": times, "features": ("type", "hurt"), "totals": False,
              "levels": (("find", "patrol", "attack"), ("none", "some"))}  # fmt: skip
    kinds = (60, 30, 10, 90, 10), (10, 40, 50, 55, 45)
    contents = {
        region: counts(*(value for column in range(columns) for value in kinds[(column // 6 + row) % 2]))
        for row, region in enumerate(regions)
    }
    names = ("type: find", "type: patrol", "type: attack", "hurt: none", "hurt: some")
    return Release(family, (1.0, 1.0), contents, laplace(), None, names)
