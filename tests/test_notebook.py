"""What a notebook shows of ledgers, certificates and releases: little, escaped, and no secret."""

import re

import pytest

from vestry import Ledger
from vestry.ledger.privacy_filter import PrivacyFilter
from vestry.notebook import html_table
from vestry.privacy.guarantee import Guarantee
from vestry.privacy.pricing import event_of_guarantee
from vestry.releases import Certificate, NoisyStatistics, Release

CERTIFICATE = Certificate(
    guarantee={"epsilon": 0.5, "delta": 1e-6, "neighbours": "add-remove"},
    event={"kind": "discrete-laplace", "count": 1},
    mechanism="laplace",
    parameter="scale",
    value=4.0,
    theorem="[DworkMNS06, Prop. 1]",
    unit="row",
    population={"neighbours": "add-remove"},
    versions={"vestry": "0.1.0"},
)
RELEASE = Release(
    {"name": "beta-bernoulli"},
    (1.0, 1.0),
    {ward: NoisyStatistics(("yes", "no"), (123456, -3), "discrete-laplace", 4.0) for ward in ("A", "<B>")},
    CERTIFICATE,
    by="ward",
)


def rows_of(html: str) -> dict[str, str]:
    return dict(re.findall("<tr><th>(.*?)</th><td>(.*?)</td></tr>", html))


def test_every_text_is_escaped():
    shown = html_table("a <b>", {"<script>": 'x & "y" \x1b[2J'})
    assert shown == (
        "<table><caption>a &lt;b&gt;</caption><tr><th>&lt;script&gt;</th>"
        "<td>x &amp; &quot;y&quot; \\x1b[2J</td></tr></table>"
    )


def test_a_certificate_shows_guarantee_mechanism_and_theorem():
    assert repr(CERTIFICATE) == "Certificate('epsilon=0.5,delta=1e-6', mechanism='laplace')"
    assert rows_of(CERTIFICATE._repr_html_()) == {
        "guarantee": "epsilon=0.5,delta=1e-6",
        "neighbours": "add-remove",
        "unit": "row",
        "mechanism": "laplace (scale=4)",
        "theorem": "[DworkMNS06, Prop. 1]",
    }


def test_a_certificate_shows_what_no_theorem_covers_and_takes_any_guarantee():
    odd = Certificate({"epsilon": "<x>"}, {}, "chain", "steps", 10.0, "none", "row", {}, ("The chain had converged.",))
    assert repr(odd) == "Certificate('epsilon=<x>', mechanism='chain')"
    rows = rows_of(odd._repr_html_())
    assert (rows["guarantee"], rows["neighbours"]) == ("epsilon=&lt;x&gt;", "not stated")
    assert rows["assumptions"] == "The chain had converged."


def test_a_release_shows_what_was_released_and_none_of_its_numbers():
    assert repr(RELEASE) == f"Release('beta-bernoulli', groups=2, certificate={CERTIFICATE!r})"
    html = RELEASE._repr_html_()
    rows = rows_of(html)
    assert rows["released"] == "noisy statistics"
    assert rows["groups"] == "A, &lt;B&gt; (by ward)"
    assert rows["theorem"] == "[DworkMNS06, Prop. 1]"
    assert "123456" not in html + repr(RELEASE)


def test_a_ledger_shows_what_is_spent_and_what_remains(tmp_path):
    ledger = Ledger.create(
        tmp_path / "a&b.ledger", dataset="<i>p</i>", unit="row", neighbours="replace", budget="epsilon=1"
    )
    assert repr(ledger) == f"Ledger({str(tmp_path / 'a&b.ledger')!r})"
    assert rows_of(ledger._repr_html_())["spent"] == "nothing"
    ledger.charge("epsilon=0.3", purpose="one")
    html = ledger._repr_html_()
    assert "a&amp;b.ledger" in html
    assert ledger.row_key() not in html
    assert rows_of(html) == {
        "dataset": "&lt;i&gt;p&lt;/i&gt;",
        "unit": "row",
        "neighbours": "replace",
        "budget": "epsilon=1",
        "spent": "epsilon=0.3",
        "remains": "epsilon=0.7",
        "entries": "2",
    }
    ledger.backup(tmp_path / "copy.ledger")
    assert Ledger.open(tmp_path / "copy.ledger")._repr_html_().startswith("<table><caption>Copy of a ledger ")


@pytest.mark.parametrize(
    ("budget", "charges", "words"),
    [
        ("epsilon=1", ["epsilon=0.1"] * 3, "epsilon=0.3"),
        ("rho=1", ["rho=0.1", "rho=0.0000001"], "rho=0.100001"),  # six digits, rounded up
        ("mu=1", ["mu=0.5"], "mu=0.5"),
        ("mu=1", ["mu=0.5", "mu=0.5"], "mu=0.707107"),
        ("order=8,epsilon=1", ["order=8,epsilon=0.2"], "order=8,epsilon=0.2"),
        ("epsilon=1,delta=1e-6", ["rho=0.005"], "rho=0.005"),
        ("epsilon=1,delta=1e-6", ["mu=0.1"], "rho=0.005, or mu=0.1"),
        (
            "epsilon=1,delta=1e-6",
            ["epsilon=0.1,delta=1e-8"],
            "epsilon=0.1, or rho=0.005, or mu=0.12531 (and delta=1e-8 in charges with their own)",
        ),
    ],
)
def test_what_is_spent_is_rounded_up(budget, charges, words):
    limits = PrivacyFilter.of(Guarantee.parse(budget))
    spent = limits.nothing
    for each in charges:
        spent = spent.plus(limits.price(event_of_guarantee(Guarantee.parse(each))))
    assert limits.amounts_spent(spent) == words
