"""A release from Python: kept in a file that is made before the charge; the ledger by its address."""

from __future__ import annotations

import pytest

import vestry
from vestry.errors import BudgetExceeded, InvalidParameter

MODEL = vestry.BetaBernoulli("answer", success="yes")


@pytest.fixture
def table(tmp_path):
    (tmp_path / "answers.csv").write_text("answer\n" + "yes\nno\nno\n" * 100)
    return vestry.Table(
        str(tmp_path / "answers.csv"), {"answer": vestry.Levels("no", "yes")}, unit="row", neighbours="add-remove"
    )


@pytest.fixture
def ledger(tmp_path):
    terms = {"dataset": "d", "unit": "row", "neighbours": "add-remove", "budget": "epsilon=1"}
    return vestry.Ledger.create(str(tmp_path / "d.ledger"), **terms).address


def test_a_release_is_kept_and_read_again(tmp_path, table, ledger):
    path = tmp_path / "release.json"
    made = vestry.release(MODEL, table, guarantee="epsilon=1", ledger=ledger, path=path)
    again = vestry.open_release(path).posterior()
    assert again.interval(0.9).equals(made.interval(0.9))
    ((_, done),) = vestry.Ledger.open(ledger).charges()
    assert "release" in done


@pytest.mark.parametrize("name", ["taken.json", "no-folder/release.json"])
def test_a_file_that_cannot_be_made_costs_nothing(tmp_path, table, ledger, name):
    (tmp_path / "taken.json").write_text("mine")
    with pytest.raises(InvalidParameter, match="path must be a new file that can be written"):
        vestry.release(MODEL, table, guarantee="epsilon=1", ledger=ledger, path=tmp_path / name)
    assert not list(vestry.Ledger.open(ledger).charges())
    assert (tmp_path / "taken.json").read_text() == "mine"


def test_a_refused_charge_leaves_no_file(tmp_path, table, ledger):
    with pytest.raises(BudgetExceeded, match="remains"):
        vestry.release(MODEL, table, guarantee="epsilon=2", ledger=ledger, path=tmp_path / "release.json")
    assert not (tmp_path / "release.json").exists()


def test_a_misspelt_column_is_told_the_nearest(table, ledger):
    with pytest.raises(InvalidParameter, match=r"one that is declared \(answer\), not 'anser'; write answer"):
        vestry.release(vestry.BetaBernoulli("anser", success="yes"), table, guarantee="epsilon=1", ledger=ledger)


@pytest.mark.parametrize("ledger", [None, 5])
def test_no_ledger_is_told(table, ledger):
    with pytest.raises(InvalidParameter, match=r"ledger must be the dataset's ledger, or where it is, not"):
        vestry.release(MODEL, table, guarantee="epsilon=1", ledger=ledger)


def test_without_a_generator_a_fresh_one_draws(table, ledger):
    posterior = vestry.release(MODEL, table, guarantee="epsilon=1", ledger=ledger)
    assert posterior.predict(10, draws=3)["all"].shape == (3, 1)
