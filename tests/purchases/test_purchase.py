"""Noisy statistics: one charge each, the same again for free, and nothing lost by a crash."""

import json
import threading
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from vestry import events
from vestry.data import Table
from vestry.errors import BudgetExceeded, GuaranteeUnreachable, InvalidParameter, LedgerStateError, MissingRelease
from vestry.ledger import Charge, Ledger, OpenCharge
from vestry.posterior.discrete_noise import Laplace
from vestry.privacy.guarantee import Guarantee
from vestry.purchases.bought import Bought
from vestry.purchases.purchase import PurchaseRequest, buy
from vestry.purchases.statistic_noise import calibrated
from vestry.purchases.store import PurchaseStore
from vestry.schema.domain import Interval, Levels
from vestry.statistics.axis import LevelAxis, MomentAxis
from vestry.statistics.bounded_sums import BoundedSums
from vestry.statistics.cell_counts import CellCounts

COLUMNS = {"ward": Levels("A", "B", "C"), "ill": Levels("no", "yes"), "stay": Interval(0, 10)}
FRAME = pd.DataFrame(
    {
        "ward": ["A", "B", "A", "C", None, "A", "D"],
        "ill": ["no", "yes", "no", "yes", "no", None, "yes"],
        "stay": [0.0, 5.0, 10.0, 2.5, 2.5, 12.0, None],
    }
)


class NoNoise:
    """No noise at all: what a release says about the exact integers."""

    def discrete_laplace(self, values, *, scale):
        return list(values)

    rounded_gaussian = discrete_laplace


@dataclass
class Shop:
    table: Table
    ledger: Ledger
    folder: Path

    def ask(self, statistic, spend="epsilon=1", **words):
        guarantee = Guarantee.parse(spend, neighbours=self.table.neighbours)
        return buy(PurchaseRequest(statistic, guarantee, **words), self.table, self.ledger, noise=NoNoise())

    @property
    def spent(self):
        return self.ledger.state().spent.totals[0] / 1e12

    @property
    def files(self):
        return sorted(path.name for path in self.folder.glob("[0-9]*"))


@pytest.fixture(params=["add-remove", "replace"])
def shop(tmp_path, request):
    address = tmp_path / "visits.ledger"
    neighbours = request.param
    ledger = Ledger.create(str(address), dataset="visits", budget="epsilon=5", unit="row", neighbours=neighbours)
    return Shop(Table(FRAME, COLUMNS, neighbours=neighbours), ledger, Path(f"{address}.releases"))


def wards(shop):
    return CellCounts.of(LevelAxis.of_levels(shop.table.declared, "ward"))


def by_ill(shop):
    schema = shop.table.declared
    return CellCounts.of(LevelAxis.of_levels(schema, "ill"), LevelAxis.of_levels(schema, "ward"))


def test_a_statistic_is_paid_for_once(shop):
    first = shop.ask(wards(shop))
    second = shop.ask(wards(shop))
    assert (first.is_new, second.is_new) == (True, False)
    assert second.bought == first.bought
    assert shop.spent == 1
    assert shop.files == ["000001.json"]
    expected = (3, 1, 1, 1, 1) if shop.table.neighbours.value == "add-remove" else (5, 1, 1)
    assert first.bought.values == expected


def test_less_precision_is_free_and_more_is_bought(shop):
    shop.ask(wards(shop))
    assert not shop.ask(wards(shop), "epsilon=0.1").is_new
    better = shop.ask(wards(shop), "epsilon=2")
    assert better.is_new
    assert shop.spent == 3
    assert shop.ask(wards(shop), "epsilon=1").bought == better.bought


def test_again_buys_another_and_the_most_precise_answers(shop):
    first = shop.ask(wards(shop), "epsilon=2")
    second = shop.ask(wards(shop), "epsilon=1", again=True)
    assert second.is_new
    assert shop.ask(wards(shop), "epsilon=0.5").bought == first.bought


def test_a_named_mechanism_must_be_the_same(shop):
    shop.ask(wards(shop))
    with pytest.raises(GuaranteeUnreachable, match="epsilon=1"):
        shop.ask(wards(shop), mechanism="gaussian")
    assert not shop.ask(wards(shop), mechanism="laplace").is_new


def test_what_overspends_is_refused_and_nothing_is_written(shop):
    shop.ask(wards(shop), "epsilon=4")
    with pytest.raises(BudgetExceeded, match="1"):
        shop.ask(by_ill(shop), "epsilon=2")
    assert shop.files == ["000001.json"]
    assert shop.spent == 4


def test_a_charge_that_was_never_opened_is_run_by_the_event_in_its_entry(shop):
    statistic = wards(shop)
    guarantee = Guarantee.parse("epsilon=1", neighbours=shop.table.neighbours)
    noise = calibrated(statistic, shop.table.declared.population, guarantee)
    identity = statistic.identity().sha256
    charge = shop.ledger.charge(noise.charge, purpose="by hand", definition=identity)
    receipt = shop.ask(statistic, "epsilon=0.7")
    assert receipt.bought.charge == charge.sequence
    assert receipt.bought.scale == noise.scale
    assert shop.spent == 1


def test_an_open_charge_with_too_much_noise_stays_open(shop):
    statistic = wards(shop)
    guarantee = Guarantee.parse("epsilon=0.5", neighbours=shop.table.neighbours)
    noise = calibrated(statistic, shop.table.declared.population, guarantee)
    identity = statistic.identity().sha256
    charge = shop.ledger.charge(noise.charge, purpose="by hand", definition=identity)
    assert shop.ask(statistic, "epsilon=1").bought.charge != charge.sequence
    assert shop.spent == 1.5


@pytest.mark.parametrize("sensitivity", [1, 5])
def test_a_charge_for_another_sensitivity_is_not_run(shop, sensitivity):
    statistic = BoundedSums(MomentAxis.of_column(shop.table.declared, "stay"))
    cheap = events.discrete_laplace(sensitivity=sensitivity, scale=1e6)
    identity = statistic.identity().sha256
    charge = shop.ledger.charge(cheap, purpose="too little", definition=identity)
    receipt = shop.ask(statistic, "epsilon=0.5")
    assert receipt.bought.charge != charge.sequence
    assert shop.spent > 0.5


def test_a_file_of_somebody_else_does_not_hold_up_the_others(shop):
    shop.ask(wards(shop))
    (shop.folder / "000009.new").write_bytes(b"\xff no release")
    assert not shop.ask(wards(shop)).is_new
    assert (shop.folder / "000009.new").exists()


class PowerCut(BaseException):
    pass


def cut(*_, **__):
    raise PowerCut


def test_a_crash_before_the_ledger_knows_the_release_loses_nothing(shop, monkeypatch):
    with monkeypatch.context() as during:
        during.setattr(OpenCharge, "released", cut)
        with pytest.raises(PowerCut):
            shop.ask(wards(shop))
    assert shop.files == ["000001.new"]
    receipt = shop.ask(wards(shop))
    assert not receipt.is_new
    assert shop.files == ["000001.json"]
    assert shop.spent == 1


def test_a_crash_before_the_renaming_loses_nothing(shop, monkeypatch):
    with monkeypatch.context() as during:
        during.setattr(PurchaseStore, "finish", cut)
        with pytest.raises(PowerCut):
            shop.ask(wards(shop))
    assert shop.files == ["000001.new"]
    assert not shop.ask(wards(shop)).is_new
    assert shop.files == ["000001.json"]


def test_a_crash_after_opening_never_draws_twice(shop, monkeypatch):
    with monkeypatch.context() as during:
        during.setattr(PurchaseStore, "write_unfinished", cut)
        with pytest.raises(PowerCut):
            shop.ask(wards(shop))
    receipt = shop.ask(wards(shop))
    assert receipt.is_new
    assert receipt.bought.charge != 1
    assert shop.spent == 2


def test_a_crash_while_records_are_read_is_resumed_free(shop, monkeypatch):
    with monkeypatch.context() as during:
        during.setattr(Table, "evaluate", cut)
        with pytest.raises(PowerCut):
            shop.ask(wards(shop))
    receipt = shop.ask(wards(shop))
    assert receipt.bought.charge == 1
    assert shop.spent == 1


def test_a_folder_without_room_is_found_before_the_charge(shop, monkeypatch):
    monkeypatch.setattr("vestry.purchases.store.write_new", lambda path, pieces: refuse())
    with pytest.raises(InvalidParameter, match="a folder that can be written"):
        shop.ask(wards(shop))
    assert shop.spent == 0


def refuse():
    raise OSError(28, "No space left on device")


def test_a_release_that_is_missing_or_changed_is_an_error_and_charges_nothing(shop):
    shop.ask(wards(shop))
    path = shop.folder / "000001.json"
    text = path.read_text()
    path.write_text(text.replace(" 1,", " 2,", 1))
    with pytest.raises(InvalidParameter, match="the one that the ledger knows"):
        shop.ask(wards(shop))
    path.unlink()
    with pytest.raises(MissingRelease, match=r"charge 1 .* is missing; copy it there"):
        shop.ask(wards(shop))
    assert shop.spent == 1


def test_two_threads_that_ask_the_same_make_one_charge(shop):
    receipts = []

    def ask():
        receipts.append(shop.ask(wards(shop)))

    threads = [threading.Thread(target=ask) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(receipt.is_new for receipt in receipts) == [False, False, True]
    assert shop.spent == 1


def bought_examples(shop):
    schema = shop.table.declared
    statistics = [*CellCounts.examples(schema), *BoundedSums.examples(schema)]
    return [shop.ask(statistic, "epsilon=0.01").bought for statistic in (statistics[0], statistics[4], statistics[-1])]


def test_every_statistic_is_read_back_as_it_was(shop):
    for bought in bought_examples(shop):
        assert Bought.from_text(bought.text()) == bought
        assert bought.noisy.names == bought.statistic.names


@pytest.mark.parametrize("wrong", [None, "x", [], {}, 1.5, True, 2**70])
def test_files_with_parts_of_other_types_are_refused(shop, wrong):
    text = shop.ask(wards(shop)).bought.text()
    document = json.loads(text)
    for key in document:
        fits = {"total": wrong is None, "scale": isinstance(wrong, float), "charged_at": isinstance(wrong, str)}
        is_large = wrong == 2**70 and key in ("scale", "grid", "charge", "total")
        if not fits.get(key) and not is_large:
            with pytest.raises(InvalidParameter, match="must be"):
                Bought.from_text(json.dumps({**document, key: wrong}))
        others = {name: value for name, value in document.items() if name != key}
        with pytest.raises(InvalidParameter, match="vestry-statistic-1"):
            Bought.from_text(json.dumps(others))


def test_sums_of_released_cells_have_the_convolved_noise(shop):
    if shop.table.neighbours.value == "replace":
        pytest.skip("under replace what is left out is not counted, and a margin is another statistic")
    bought = shop.ask(by_ill(shop)).bought
    noisy = bought.noisy
    margin = noisy.sum_by(bought.statistic.derive(wards(shop)))
    assert margin.only.values.tolist() == [3, 1, 1, 1, 1]
    assert margin.only.laws[0].parts == ((Laplace(bought.scale), 4),)  # no, yes, missing, other
    assert margin.largest_deviation == pytest.approx(2 * noisy.largest_deviation)
    joined = noisy.join(noisy)
    assert joined.largest_deviation == pytest.approx(noisy.largest_deviation / np.sqrt(2))
    with pytest.raises(InvalidParameter, match="releases of one statistic"):
        noisy.join(margin)


def test_the_guarantee_decides_the_noise(shop):
    schema = shop.table.declared
    sums = BoundedSums(MomentAxis.of_column(schema, "stay"))
    for spend, name in (("epsilon=1", "laplace"), ("mu=0.5", "gaussian"), ("rho=0.1", "gaussian")):
        guarantee = Guarantee.parse(spend, neighbours=shop.table.neighbours)
        assert calibrated(sums, schema.population, guarantee).name == name


def test_a_charge_is_not_taken_twice_by_hand(shop):
    bought = shop.ask(wards(shop)).bought
    entry = shop.ledger.journal().line(bought.charge)
    with pytest.raises(LedgerStateError, match="has its open already"):
        Charge(shop.ledger, entry).open()
