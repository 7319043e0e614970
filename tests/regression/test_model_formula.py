"""Formulas of regressions: what they mean, and a sentence for everything else."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from regression.test_regression_model import ledger, study
from share import examples

from vestry import LinearRegression, LogisticRegression, Study
from vestry.errors import InvalidParameter, StudyFileError, VestryError
from vestry.regression.model_formula import parse_formula
from vestry.regression.poisson_model import PoissonRegression

MEANT = {
    "stay ~ age": ("stay", None, (("age",),)),
    "readmitted[yes] ~ age + ward + age:ward": ("readmitted", "yes", (("age",), ("ward",), ("age", "ward"))),
    "y ~ a*b": ("y", None, (("a",), ("b",), ("a", "b"))),
    "y ~ (a + b)*c": ("y", None, (("a",), ("b",), ("c",), ("a", "c"), ("b", "c"))),
    "y ~ a:b:c": ("y", None, (("a", "b", "c"),)),
    "`length of stay`[>= 30 days] ~ `age at visit` + c.d": (
        "length of stay",
        ">= 30 days",
        (("age at visit",), ("c.d",)),
    ),
    "y ~ a + a": ("y", None, (("a",),)),
}


@pytest.mark.parametrize("text", MEANT)
def test_what_a_formula_means(text):
    found = parse_formula(text)
    assert (found.outcome, found.success, found.terms) == MEANT[text]


REFUSED = {
    "stay": "an outcome, ~ and predictors",
    "a ~ b ~ c": "an outcome, ~ and predictors",
    "~ a": "a column before ~",
    "y ~": "predictors other than the outcome",
    "y ~ y + a": "predictors other than the outcome",
    "y ~ a +": "columns with [+] between them",
    "y ~ (a": "columns with [+] between them",
    "y ~ 1 + a": "without numbers",
    "y ~ log(a)": r"no 'log[(]a[)]'; a derived column may compute it",
    "y ~ a - b": "no '-'",
    "y ~ a^2": "no '\\^'",
    "y ~ a / b": "no '/'",
    "y ~ a | b": "no '[|]'",
    "y ~ .": "no '[.]'",
    "y ~ {__import__('os').system('true')}": "no .__import__",
    "y ~ ward[B]": "no 'ward",
}


@pytest.mark.parametrize("text", REFUSED)
def test_everything_else_gets_a_sentence(text):
    with pytest.raises(InvalidParameter, match=f"formula must be .*{REFUSED[text]}.*; write formula = "):
        parse_formula(text)


@settings(max_examples=examples(200), deadline=None)
@given(st.text("ab~+*:()[]`^-/|.1 '\"{}\\\n\x00é,%", max_size=14))
def test_no_text_is_evaluated_or_gives_another_error(text):
    try:
        found = parse_formula(text)
    except VestryError:
        return
    assert found.terms


def test_models_of_formulas():
    assert LinearRegression.from_formula("stay ~ age + ward", prior_precision=2.0) == LinearRegression(
        outcome="stay", predictors=("age", "ward"), prior_precision=2.0
    )
    made = LogisticRegression.from_formula("readmitted[yes] ~ age")
    assert made == LogisticRegression(outcome="readmitted", predictors=("age",), success="yes")
    with pytest.raises(InvalidParameter, match="an outcome without a level for linear"):
        LinearRegression.from_formula("stay[3] ~ age")
    with pytest.raises(InvalidParameter, match=r'derived column for the product, age_ward = { from = "age [*] ward"'):
        LinearRegression.from_formula("stay ~ age:ward")
    product = LogisticRegression.from_formula("readmitted[yes] ~ age*ward", method="table")
    assert (product.predictors, product.interactions) == (("age", "ward"), ("age:ward",))
    assert PoissonRegression.from_formula("visits ~ a*b").interactions == ("a:b",)
    with pytest.raises(InvalidParameter, match=r"names the columns of age:ward by themselves, too.*write age[*]ward"):
        LogisticRegression.from_formula("readmitted[yes] ~ age + age:ward")


def test_no_interactions_are_as_before():
    plain = LogisticRegression(outcome="y", predictors=("a", "b"), success="yes", method="table")
    assert "interactions" not in plain.to_dict()
    assert replace(plain, interactions=("a:b",)).to_dict()["interactions"] == ["a:b"]


SPEND = "spend = { epsilon = 1, delta = 1e-6 }\n"


def asked(folder, keys):
    folder.mkdir()
    path = study(folder, keys + SPEND, "replace")
    ledger(folder, "replace")
    (release,) = Study.open(path).config.releases
    return release.request.model


def test_a_study_reads_formulas(tmp_path):
    words = 'model = "linear"\nformula = "stay ~ age + ward"\n'
    keys = 'model = "linear"\noutcome = "stay"\npredictors = ["age", "ward"]\n'
    assert asked(tmp_path / "a", words) == asked(tmp_path / "b", keys)
    with pytest.raises(StudyFileError, match="outcome must be omitted beside a formula"):
        asked(tmp_path / "c", keys + 'formula = "stay ~ age"\n')
    with pytest.raises(StudyFileError, match="formula must be columns joined by"):
        asked(tmp_path / "d", 'model = "linear"\nformula = "stay ~ exp(age)"\n')
    with pytest.raises(StudyFileError, match="a column must be one that is declared"):
        asked(tmp_path / "e", 'model = "linear"\nformula = "stay ~ height"\n')
    with pytest.raises(StudyFileError, match="interactions must be omitted except for the method table"):
        asked(tmp_path / "f", 'model = "logistic"\nformula = "readmitted[yes] ~ age*ward"\n')
