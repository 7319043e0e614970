"""From a charge to a release: what is drawn was paid for, and what is written says what was promised."""

from __future__ import annotations

import copy
import hashlib
import json
import pickle
from dataclasses import replace

import numpy as np
import pytest
from closed_engines import closed_engines
from seeded_noise import SeededNoise

from vestry.conjugate.beta_bernoulli import BetaBernoulliFamily
from vestry.conjugate.dirichlet_categorical import DirichletCategoricalFamily
from vestry.errors import DeclarationMismatch, InvalidParameter, LedgerStateError, PrivateValue
from vestry.ledger import Ledger
from vestry.mechanisms import additive_noise, posterior_sample, truncated_posterior
from vestry.mechanisms.release import ADDITIVE, certify, publish
from vestry.privacy import accountant
from vestry.privacy.event import Event
from vestry.privacy.guarantee import Guarantee
from vestry.privacy.neighbours import Adjacency
from vestry.releases import Draws, NoisyStatistics, Release, open_release
from vestry.schema.private import Private

BETA, NUMBERS = BetaBernoulliFamily(), (6.0, 12.0)
PUBLIC = Adjacency("replace", 1, 100)
THREE = DirichletCategoricalFamily(3)


def noisy(noise: str, guarantee: str):
    return additive_noise.calibrate_noise(noise, BETA.layout(PUBLIC), PUBLIC, Guarantee.parse(guarantee))


def drawn(name: str, guarantee: str, draws: int = 1):
    made = getattr(posterior_sample, name)
    return made(BETA, BETA.prior(NUMBERS), PUBLIC, Guarantee.parse(guarantee), draws=draws)


# name: mechanism, private integers, family, prior
MECHANISMS = {
    "laplace": (lambda: noisy(additive_noise.LAPLACE, "epsilon=0.5"), (38,), BETA, NUMBERS),
    "gaussian": (lambda: noisy(additive_noise.ROUNDED_GAUSSIAN, "mu=0.4"), (38,), BETA, NUMBERS),
    "discrete-gaussian": (lambda: noisy(additive_noise.GAUSSIAN, "rho=0.1"), (38,), BETA, NUMBERS),
    "direct": (lambda: drawn("direct", "order=2,epsilon=0.3"), (38, 100), BETA, NUMBERS),
    "diffused": (lambda: drawn("diffused", "epsilon=1,delta=1e-5"), (38, 100), BETA, NUMBERS),
    "concentrated": (lambda: drawn("concentrated", "order=2,epsilon=0.1", 3), (38, 100), BETA, NUMBERS),
    "ops": (
        lambda: truncated_posterior.ops(
            THREE, THREE.prior((1, 2, 3)), PUBLIC, Guarantee.parse("epsilon=1"), truncation=0.1, draws=2
        ),
        (20, 30, 50, 100),
        THREE,
        (1.0, 2.0, 3.0),
    ),
}
each_mechanism = pytest.mark.parametrize("name", MECHANISMS)


@pytest.fixture
def ledger(tmp_path):
    with closed_engines():
        terms = {"dataset": "patients", "unit": "row", "neighbours": "replace"}
        yield Ledger.create(tmp_path / "a.ledger", **terms, budget="epsilon=5,delta=1e-3")


def published(name: str, ledger: Ledger, noise=None) -> Release:
    make, values, family, prior = MECHANISMS[name]
    made = make()
    charge = ledger.charge(made.charge, purpose="test")
    return publish(made, Private(values), charge, family=family.to_dict(), prior=prior, noise=noise or SeededNoise(1))


# --- publish ----------------------------------------------------------------------------------------------------------


@each_mechanism
def test_the_ledger_keeps_the_hash_of_what_was_released(name, ledger):
    release = published(name, ledger)
    *_, charged, opened, last = ledger.entries()
    assert (charged.action, opened.action, last.action) == ("charge", "open", "release")
    assert last.facts["release_sha256"] == hashlib.sha256(release.text().encode()).hexdigest()
    if name != "diffused":  # charged at the (epsilon, delta) that was asked for
        assert charged.facts["event"] == release.certificate.event
    assert ledger.verify().entries == 4


@each_mechanism
def test_the_systems_noise_is_the_default(name, ledger):
    make, values, family, prior = MECHANISMS[name]
    made = make()
    charge = ledger.charge(made.charge, purpose="test")
    content = publish(made, Private(values), charge, family=family.to_dict(), prior=prior).contents["all"]
    assert isinstance(content, NoisyStatistics if name in ADDITIVE else Draws)


@each_mechanism
def test_the_certificate_computes_its_claim_again(name, ledger):
    """From the file alone: its event, priced in the currency of its guarantee, is the guarantee."""
    text = published(name, ledger).text()
    claim = json.loads(text)["certificate"]
    ran = Event.from_dict(claim["event"])
    guarantee = {key: value for key, value in claim["guarantee"].items() if key != "neighbours"}
    wanted = Guarantee.parse(guarantee, neighbours=claim["guarantee"]["neighbours"])
    assert accountant.meets(ran, wanted)
    priced = accountant.price(ran, wanted)
    assert priced.neighbours is wanted.neighbours
    if claim["value"] != 1:
        assert priced.value == pytest.approx(wanted.value, rel=1e-6)
    assert claim["mechanism"] == name
    assert claim["population"] == {"neighbours": "replace", "rows": 1, "count": 100, "groups": 1}
    assert claim["unit"] == "row"
    assert claim["theorem"]
    assert claim["assumptions"] == []
    assert set(claim["versions"]) == {"python", "vestry", "opendp"}


def test_the_certificate_states_a_private_count():
    adjacency = Adjacency("add-remove", 3)
    made = additive_noise.calibrate_noise(
        additive_noise.LAPLACE, BETA.layout(adjacency), adjacency, Guarantee.parse("rho=1")
    )
    found = certify(made, unit="person=id,rows=3")
    assert found.population == {"neighbours": "add-remove", "rows": 3, "count": "private", "groups": 1}
    assert found.unit == "person=id,rows=3"
    assert found.guarantee == {"rho": 1.0, "neighbours": "add-remove"}


def test_a_charge_for_another_event_is_refused_and_stays_unopened(ledger):
    made, other = noisy(additive_noise.LAPLACE, "epsilon=0.5"), noisy(additive_noise.LAPLACE, "epsilon=0.1")
    charge = ledger.charge(other.charge, purpose="test")
    with pytest.raises(DeclarationMismatch, match="charge the mechanism's own event"):
        publish(made, Private([38]), charge, family=BETA.to_dict(), prior=NUMBERS, noise=SeededNoise(1))
    with pytest.raises(DeclarationMismatch, match="the event asked for is discrete-laplace, but it is pure here"):
        publish(made, Private([38]), ledger.charge("epsilon=0.5", purpose="x"), family=BETA.to_dict(), prior=NUMBERS)
    assert [entry.action for entry in ledger.entries()] == ["create", "charge", "charge"]
    assert publish(other, Private([38]), charge, family=BETA.to_dict(), prior=NUMBERS, noise=SeededNoise(1))


def test_a_mechanism_for_fewer_rows_than_the_ledgers_unit_is_refused(tmp_path):
    """A ledger that protects persons of three rows cannot pay for noise that hides one row."""
    with closed_engines():
        terms = {"dataset": "visits", "unit": "person=id,rows=3", "neighbours": "replace"}
        ledger = Ledger.create(tmp_path / "b.ledger", **terms, budget="epsilon=5")
        made = noisy(additive_noise.LAPLACE, "epsilon=0.5")
        charge = ledger.charge(made.charge, purpose="test")
        with pytest.raises(DeclarationMismatch, match=r"rows|unit"):
            publish(made, Private([38]), charge, family=BETA.to_dict(), prior=NUMBERS, noise=SeededNoise(1))


@each_mechanism
def test_a_leave_taken_twice_is_refused(name, ledger):
    make, values, family, prior = MECHANISMS[name]
    made = make()
    charge = ledger.charge(made.charge, purpose="test")
    opened = charge.open()
    made.release(Private(values), opened, SeededNoise(1))
    with pytest.raises(LedgerStateError, match="was drawn already; charge again to draw again"):
        made.release(Private(values), opened, SeededNoise(1))
    with pytest.raises(LedgerStateError, match="has its open already; charge again to draw again"):
        publish(made, Private(values), charge, family=family.to_dict(), prior=prior, noise=SeededNoise(1))


class WatchfulNoise(SeededNoise):
    """Looks into the ledger whenever noise is drawn."""

    def __init__(self, ledger: Ledger) -> None:
        super().__init__(1)
        self.ledger, self.seen = Ledger.open(ledger.address), []

    def _look(self) -> None:
        self.seen.append([entry.action for entry in self.ledger.entries()][-1])

    def discrete_laplace(self, values, *, scale):
        self._look()
        return super().discrete_laplace(values, scale=scale)

    def rounded_gaussian(self, values, *, scale):
        self._look()
        return super().rounded_gaussian(values, scale=scale)

    def discrete_gaussian(self, values, *, scale):
        self._look()
        return super().discrete_gaussian(values, scale=scale)

    def stream(self):
        self._look()
        return super().stream()


@each_mechanism
def test_nothing_is_drawn_before_the_opening_is_committed(name, ledger):
    noise = WatchfulNoise(ledger)
    published(name, ledger, noise)
    assert noise.seen == ["open"]


class BrokenNoise(SeededNoise):
    def discrete_laplace(self, values, *, scale):
        raise RuntimeError("no noise")


def test_noise_that_fails_leaves_the_charge_opened_and_nothing_released(ledger):
    with pytest.raises(RuntimeError, match="no noise"):
        published("laplace", ledger, BrokenNoise(1))
    assert [entry.action for entry in ledger.entries()] == ["create", "charge", "open"]


@pytest.mark.parametrize("values", [(), (1, 2), (1, 2, 3)])
def test_the_wrong_number_of_statistics_is_refused(values, ledger):
    made = noisy(additive_noise.LAPLACE, "epsilon=0.5")
    opened = ledger.charge(made.charge, purpose="test").open()
    with pytest.raises(DeclarationMismatch, match=r"the number of statistics asked for is \d, but it is 1 here"):
        made.release(Private(values), opened, SeededNoise(1))


@pytest.mark.parametrize("draws", [0, -1, 1.0, True, "2"])
@pytest.mark.parametrize("name", ["direct", "diffused", "concentrated", "ops"])
def test_draws_must_be_a_whole_number(name, draws):
    make = truncated_posterior.ops if name == "ops" else getattr(posterior_sample, name)
    more = {"truncation": 0.1} if name == "ops" else {}
    asked, prior = Guarantee.parse("order=2,epsilon=0.3"), BETA.prior(NUMBERS)
    with pytest.raises(InvalidParameter, match="draws must be a whole number of at least 1"):
        make(BETA, prior, PUBLIC, asked, draws=draws, **more)


@pytest.mark.parametrize("truncation", [0.0, -0.1, 1 / 3, 0.5, float("nan"), 1, True, None])
def test_truncation_out_of_range_is_refused(truncation):
    with pytest.raises(InvalidParameter, match=r"truncation must be a number above 0 and below 0\.333333"):
        truncated_posterior.ops(
            THREE, THREE.prior((1, 1, 1)), PUBLIC, Guarantee.parse("epsilon=1"), truncation=truncation
        )


@pytest.mark.parametrize("temperature", [0.99, 0.0, -1.0, float("nan"), float("inf")])
def test_a_temperature_below_one_is_refused(temperature):
    with pytest.raises(InvalidParameter, match="temperature must be a number at least 1"):
        truncated_posterior.event_of(BETA, PUBLIC, 0.1, temperature, 1)


def test_a_guarantee_for_another_relation_is_refused():
    asked = Guarantee.parse("epsilon=1", neighbours="add-remove")
    with pytest.raises(DeclarationMismatch, match="neighbours relation asked for is add-remove, but it is replace"):
        additive_noise.calibrate_noise(additive_noise.LAPLACE, BETA.layout(PUBLIC), PUBLIC, asked)
    with pytest.raises(DeclarationMismatch, match="neighbours relation asked for is add-remove, but it is replace"):
        truncated_posterior.ops(BETA, BETA.prior(NUMBERS), PUBLIC, asked, truncation=0.1)
    with pytest.raises(DeclarationMismatch, match="neighbours relation asked for is add-remove, but it is replace"):
        posterior_sample.diffused(BETA, BETA.prior(NUMBERS), PUBLIC, asked)


@pytest.mark.parametrize(
    ("arguments", "fragment"),
    [
        (("replace", 0), "rows must be a whole number of at least 1"),
        (("replace", 1.0), "rows must be a whole number"),
        (("replace", True), "rows must be a whole number"),
        (("replace", 1, 0), "count must be a whole number"),
        (("replace", 1, -5), "count must be a whole number"),
        (("replace", 1, 2.5), "count must be a whole number"),
        (("replace", 3, 2), "rows must be at most the count, 2"),
        (("add-remove", 1, 100), "count must be private under add-remove"),
        (("swap", 1), "neighbours must be one of"),
    ],
)
def test_a_population_that_cannot_be_is_refused(arguments, fragment):
    with pytest.raises(InvalidParameter, match=fragment):
        Adjacency(*arguments)


# --- Private ----------------------------------------------------------------------------------------------------------

SECRET = 31415926
USES = {
    "format": lambda x: f"{x:d}",
    "format without a rule": lambda x: f"{x}",
    "equal": lambda x: x == SECRET,
    "equal to itself": lambda x: x == x,
    "unequal": lambda x: x != SECRET,
    "less": lambda x: x < SECRET,
    "at most": lambda x: x <= SECRET,
    "more": lambda x: x > SECRET,
    "at least": lambda x: x >= SECRET,
    "hash": hash,
    "a key": lambda x: {x: 1},
    "iterate": list,
    "unpack": lambda x: (*x,),
    "length": len,
    "index": lambda x: x[0],
    "contains": lambda x: SECRET in x,
    "truth": bool,
    "int": int,
    "float": float,
    "as an index": lambda x: [1, 2, 3][x],
    "pickle": pickle.dumps,
    "copy": copy.copy,
    "deep copy": copy.deepcopy,
    "array": np.asarray,
    "array of floats": lambda x: np.array(x, dtype=float),
    "state": lambda x: x.__getstate__(),
}


@pytest.mark.parametrize("use", USES)
def test_a_private_value_cannot_be_used(use):
    with pytest.raises(PrivateValue, match="a private value cannot be shown, compared, copied or converted") as caught:
        USES[use](Private([SECRET, 7]))
    assert str(SECRET) not in str(caught.value)


def test_a_private_value_does_not_show():
    value = Private([SECRET])
    shown = [repr(value), str(value), repr([value]), repr({"a": value})]
    assert not any(str(SECRET) in text for text in shown)
    with pytest.raises(AttributeError, match="no attribute '__dict__'"):
        _ = value.__dict__
    with pytest.raises(TypeError, match="not JSON serializable"):
        json.dumps(value)


def test_a_private_value_is_never_rounded():
    """A sum that is no whole number must not be cut to one: neighbours could then differ by more than was declared."""
    with pytest.raises((InvalidParameter, TypeError, ValueError), match=r"whole|integer"):
        Private([0.95])


# --- release files ----------------------------------------------------------------------------------------------------


@each_mechanism
def test_a_release_reads_back_the_same(name, ledger, tmp_path):
    release = published(name, ledger)
    assert Release.from_dict(release.to_dict()) == release
    path = tmp_path / "a.json"
    path.write_text(release.text(), encoding="utf-8")
    read = open_release(path)
    assert read == release == open_release(str(path))
    assert read.text() == release.text()


@pytest.fixture
def record(ledger) -> dict:
    return json.loads(published("laplace", ledger).text())


CHANGES = {
    "a value": lambda r: r["contents"]["all"]["noisy-statistics"]["values"].__setitem__(0, 12345),
    "the scale": lambda r: r["contents"]["all"]["noisy-statistics"].update(scale=0.1),
    "the prior": lambda r: r["prior"].__setitem__(0, 1.0),
    "the guarantee": lambda r: r["certificate"]["guarantee"].update(epsilon=0.01),
    "the hash": lambda r: r.update(sha256="0" * 64),
    "no hash": lambda r: r.pop("sha256"),
    "one more key": lambda r: r.update(more=1),
    "no certificate": lambda r: r.pop("certificate"),
    "a number that is none": lambda r: r["prior"].__setitem__(0, float("nan")),
    "an infinite number": lambda r: r["prior"].__setitem__(0, float("inf")),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_release_is_refused(change, record, tmp_path):
    CHANGES[change](record)
    path = tmp_path / "a.json"
    path.write_text(json.dumps(record))
    with pytest.raises(InvalidParameter, match="a release must be as it was written"):
        open_release(path)


@pytest.mark.parametrize("schema", [None, "vestry-release-0", "vestry-release-2", 1])
def test_another_schema_is_refused(schema, record):
    with pytest.raises(InvalidParameter, match="a release's schema must be vestry-release-1"):
        Release.from_dict({**record, "schema": schema})


LACKING = {
    "family": lambda r: r.pop("family"),
    "contents": lambda r: r.pop("contents"),
    "contents of another kind": lambda r: r.update(contents=[]),
    "content without a kind": lambda r: r["contents"].update(all={}),
    "statistics without a scale": lambda r: r["contents"]["all"]["noisy-statistics"].pop("scale"),
    "certificate of more": lambda r: r["certificate"].update(more=1),
    "prior that is a number": lambda r: r.update(prior=3),
    "draws that are words": lambda r: r["contents"].update(all={"draws": {"values": [["x"]]}}),
}


@pytest.mark.parametrize("case", LACKING)
def test_a_part_that_is_missing_is_refused_even_with_a_hash_that_fits(case, record):
    LACKING[case](record)
    record.pop("sha256")
    text = json.dumps(record, sort_keys=True, separators=(",", ":"))
    record["sha256"] = hashlib.sha256(text.encode()).hexdigest()
    with pytest.raises(InvalidParameter, match="in a file that vestry has written"):
        Release.from_dict(record)


def test_files_that_are_no_release_are_refused(tmp_path, record):
    path = tmp_path / "a.json"
    with pytest.raises(InvalidParameter, match=r"must be readable \(No such file or directory\)"):
        open_release(path)
    with pytest.raises(InvalidParameter, match=r"must be readable \(Is a directory\)"):
        open_release(tmp_path)
    text = json.dumps(record)
    for cut in (0, 1, len(text) // 2, len(text) - 1):
        path.write_text(text[:cut])
        with pytest.raises(InvalidParameter, match="a release file must be JSON"):
            open_release(path)
    path.write_bytes(b"\xff\xfe\x00{}")
    with pytest.raises(InvalidParameter, match="a release file must be JSON"):
        open_release(path)
    for other in ("[]", "1", '"x"', "null"):
        path.write_text(other)
        with pytest.raises(InvalidParameter, match="a release file must be a JSON object"):
            open_release(path)


def test_a_number_that_json_lacks_is_not_written(ledger):
    release = replace(published("diffused", ledger), contents={"all": Draws(((float("nan"),),))})
    with pytest.raises(ValueError, match="not JSON compliant"):
        release.text()
