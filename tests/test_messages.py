"""No message shows what an argument holds: every public entry point is given a table in place of each argument.

An error may be any, since what is no number is no number; but neither it, nor an error behind it, nor a warning holds a
value of the table. Only text, numbers and paths are quoted, for they are what a caller has written.
"""

from __future__ import annotations

import inspect
import os
import traceback
import warnings
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from closed_engines import closed_engines

import vestry
from vestry import estimators, events
from vestry.errors import InvalidParameter, show
from vestry.registry import MODELS
from vestry.schema.domain import domain_from

SECRET = "hunter2"
NUMBER = -987654.0625
MARKS = (SECRET, "987654")


class Quoting:
    """Says what it holds, however it is asked."""

    def __repr__(self) -> str:
        return SECRET

    __str__ = __repr__

    def __format__(self, format_spec: str) -> str:
        return SECRET


class ArrayLike(Quoting):
    """An object that NumPy takes for an array."""

    def __array__(self, *_: object, **__: object) -> np.ndarray:
        return np.array([SECRET] * 3)


def tables() -> dict[str, Any]:
    """Return everything that may hold records, by name."""
    texts = pd.Series([SECRET] * 3, name="ward")
    numbers = pd.Series([NUMBER, NUMBER * 2, NUMBER * 3], name="stay")
    frame = pd.DataFrame({"ward": texts, "stay": numbers})
    return {
        "texts": texts,
        "numbers": numbers,
        "one": numbers[:1],
        "frame": frame,
        "index": pd.Index(texts),
        "array": texts.to_numpy(),
        "array of numbers": numbers.to_numpy(),
        "list of a series": [texts],
        "tuple of a frame": (frame,),
        "dictionary of a series": {"ward": texts},
        "dictionary deep inside": {"a": ({"b": numbers},)},
        "key": {(Quoting(),): 1},
        "set": {SECRET, SECRET + "a"},
        "values": {"a": SECRET}.values(),
        "rows": [[SECRET, NUMBER]],
        "long list": [SECRET] * 20,
        "object": Quoting(),
        "array-like": ArrayLike(),
        "bytes": SECRET.encode(),
        "date": pd.Timestamp("2019-02-03"),
    }


TABLES = tables()


# What an argument of this name may be, so that the others are looked at.
RIGHT: dict[str, Any] = {
    "address": "new.ledger",
    "alpha": 2.0,
    "assume_converged": True,
    "budget": "epsilon=1",
    "by": "ward",
    "chains": 2,
    "choices": "A",
    "column": "ward",
    "columns": {"ward": vestry.Levels("A", "B")},
    "copy": "copy.ledger",
    "count": 10,
    "data": "data.csv",
    "dataset": "d",
    "definition": None,
    "delta": 1e-6,
    "delta_prime": 1e-7,
    "draws": 10,
    "epsilon": 0.5,
    "epsilons": [1.0, 2.0],
    "event": events.zcdp(rho=0.1),
    "features": ["ward"],
    "grid": 10,
    "group": "A",
    "guarantee": "epsilon=0.1",
    "high": 9.0,
    "kind": "zcdp",
    "ledger": None,
    "like": vestry.ZCDP(0.1),
    "lost": None,
    "low": 0.0,
    "margin": 5,
    "mechanism": "laplace",
    "method": "noise-aware",
    "model": vestry.BetaBernoulli("ward", success="A"),
    "mu": 0.5,
    "n": 100,
    "name": "d",
    "neighbours": "add-remove",
    "order": 2.0,
    "orders": [2.0, 3.0],
    "path": "release.json",
    "prior": (1.0, 1.0),
    "prob": 0.9,
    "profile": lambda x: 0.1,
    "purpose": "test",
    "reason": "test",
    "releases": (),
    "rho": 0.5,
    "scale": 2.0,
    "sensitivity": 1.0,
    "spend": "epsilon=0.1",
    "states": 2,
    "success": "A",
    "table": None,
    "target": "ward",
    "terms": (("ward", 1.0),),
    "title": "t",
    "unit": "row",
    "values": 1,
    "variance": 1.0,
    "who": "me",
    "x": 0.5,
}


@pytest.fixture
def things(tmp_path, monkeypatch) -> Iterator[dict[str, Any]]:
    """Objects whose methods are public."""
    monkeypatch.chdir(tmp_path)
    Path("data.csv").write_text("ward\nA\nB\n")
    with closed_engines():
        terms = {"dataset": "d", "unit": "row", "neighbours": "add-remove", "budget": "epsilon=9,delta=1e-5"}
        ledger = vestry.Ledger.create("d.ledger", **terms)
        ledger.backup("copy.ledger")
        table = vestry.Table("data.csv", {"ward": vestry.Levels("A", "B")}, unit="row", neighbours="add-remove")
        model = vestry.BetaBernoulli("ward", success="A")
        posterior = vestry.release(model, table, guarantee="epsilon=1", ledger=ledger, path="release.json")
        yield {
            "Ledger": ledger,
            "Table": table,
            "Posterior": posterior,
            "Release": vestry.open_release("release.json"),
            "Guarantee": vestry.PureDP(1.0),
            "Event": events.zcdp(rho=0.1),
        }


def entry_points(things: dict[str, Any]) -> Iterator[tuple[str, Callable[..., Any]]]:
    """Yield every public function, class and method."""
    for name in vestry.__all__:
        value = getattr(vestry, name)
        if isinstance(value, type) and issubclass(value, Exception):
            continue
        if isinstance(value, type):
            yield name, value
            yield from methods(name, value, classmethods=True)
        elif callable(value):
            yield name, value
    for name, value in vars(events).items():
        if inspect.isfunction(value) and value.__module__ == events.__name__ and not name.startswith("_"):
            yield f"events.{name}", value
    for name in MODELS:
        yield name, MODELS[name]
    yield "domain_from", domain_from
    for name in estimators.__all__:
        value = getattr(estimators, name)
        if isinstance(value, type):
            yield f"estimators.{name}", fitting(value)
    for name, thing in things.items():
        yield from methods(name.lower(), thing, classmethods=False)


def fitting(estimator: type) -> Callable[..., Any]:
    """Return what makes an estimator and fits it to a few records."""
    features = np.arange(40.0).reshape(20, 2) % 3
    classes = np.arange(20) % 2

    def fit(**given: Any) -> Any:
        return estimator(**{"guarantee": "epsilon=1", **given}).fit(features, classes)

    fit.__signature__ = inspect.signature(estimator)  # type: ignore[attr-defined]
    return fit


def methods(owner: str, thing: Any, *, classmethods: bool) -> Iterator[tuple[str, Callable[..., Any]]]:
    for name, _ in inspect.getmembers_static(thing):
        if name.startswith("_"):
            continue
        method = getattr(thing, name, None)
        if inspect.ismethod(method) and inspect.isclass(method.__self__) == classmethods:
            yield f"{owner}.{name}", method


def calls(function: Callable[..., Any], things: dict[str, Any]) -> Iterator[tuple[str, list[Any], dict[str, Any]]]:
    """Yield calls in which one argument is a table, and the others are right as far as their names tell."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return
    right = {**RIGHT, "ledger": things["Ledger"], "table": things["Table"], "posterior": things["Posterior"]}
    for wrong in parameters:
        for name, value in TABLES.items():
            arguments: list[Any] = []
            named: dict[str, Any] = {}
            for parameter in parameters:
                given = value if parameter is wrong else right.get(parameter.name, inspect.Parameter.empty)
                is_left_out = given is inspect.Parameter.empty or (
                    parameter is not wrong and parameter.default is not inspect.Parameter.empty
                )
                if parameter.kind is parameter.VAR_POSITIONAL:
                    arguments += [] if is_left_out else [given, given]
                elif parameter.kind is parameter.VAR_KEYWORD or is_left_out:
                    continue
                elif parameter.kind is parameter.KEYWORD_ONLY or len(arguments) < parameters.index(parameter):
                    named[parameter.name] = given
                else:
                    arguments.append(given)
            yield f"{wrong.name} = {name}", arguments, named


def said(error: BaseException | None) -> str:
    """Return all that an error tells, and those behind it; the lines of the program hold no value."""
    if error is None:
        return ""
    return "".join(traceback.format_exception(error))


@pytest.mark.long
@pytest.mark.property
def test_no_entry_point_quotes_a_table(things, capfd):
    leaks = []
    count = 0
    for name, function in entry_points(things):
        for words, arguments, named in calls(function, things):
            count += 1
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                try:
                    function(*arguments, **named)
                except Exception as error:
                    text = said(error)
                else:
                    text = ""
            printed = capfd.readouterr()
            text += " ".join(str(warning.message) for warning in caught) + printed.out + printed.err
            if any(mark in text for mark in MARKS):
                last = text.strip().splitlines()[-1]
                leaks.append(f"{name}({words}): {last[:150]}")
    assert not leaks, "\n".join(leaks)
    assert count > 1000


# The one function


@pytest.mark.parametrize("name", TABLES)
def test_a_table_is_shown_by_its_type(name):
    with pytest.raises(InvalidParameter, match="x must be a number") as error:
        raise InvalidParameter("x", TABLES[name], "a number", "x=1")
    assert not any(mark in str(error.value) for mark in (*MARKS, "2019"))


def test_what_a_caller_wrote_is_shown():
    shown = {
        "ward": "'ward'", 1: "1", 1.5: "1.5", None: "None", Fraction(1, 3): "Fraction(1, 3)",
        ("a", 1): "('a', 1)", ("a",): "('a',)",
    }  # fmt: skip
    for value, text in shown.items():
        assert show(value) == text
    assert show(True) == "True"
    assert show(["a", None, {"b": 2}]) == "['a', None, {'b': 2}]"
    assert show(Path("/a") / "b") == "'/a/b'"
    assert show("a" * 100) == "'" + "a" * 76 + "..."
    assert show("/" + "a" * 200) == "'/" + "a" * 200 + "'"
    assert show(10**5000) == "a very large number"


def test_an_object_is_not_asked_what_it_holds():
    class Evil(str):
        __slots__ = ()

        def __repr__(self) -> str:
            raise AssertionError("asked")

    assert show(Evil("ward")) == "'ward'"
    assert show(Quoting()) == "a Quoting"
    assert show([Quoting()]) == "[a Quoting]"
    assert show({"a": Quoting()}) == "{'a': a Quoting}"
    assert os.fspath(Path("a")) == "a"
