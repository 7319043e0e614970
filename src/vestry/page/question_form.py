"""The form of one question, made from what its model declares of itself; from its fields to a release's lines.

A field is one key of a study file. Which keys there are, which of them name columns and which may be omitted the
model's own class says, so that a new model has its form at once.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from typing import Any

from vestry.errors import InvalidParameter, VestryError
from vestry.registry import MODELS

# In plain words, the commonest first: what is asked, and what it needs.
QUESTIONS = {
    "beta-bernoulli": ("What share has a property?", "For example: of the patients of each ward, how many come back."),
    "dirichlet-categorical": ("What share has each level?", "For example: how patients divide among diagnoses."),
    "normal-inverse-gamma": ("What is the mean of a number?", "And its spread. For example: of lengths of stay."),
    "count": ("How many records or persons are there?", "In all, or in each group."),
    "table": ("How do two or three columns go together?", "A table of counts, with its margins and associations."),
    "quality": ("Do values fit what is declared?", "Ask this first: it finds wrong levels, ends, missing values."),
}  # fmt: skip
MORE_QUESTIONS = {
    "histogram": ("How are the values of a number spread?", "A histogram over bins, with a band."),
    "quantile": ("What is the median of a number?", "Or other quantiles, from counts of bins."),
    "levels": ("Which values of a text column occur?", "For levels that nobody has listed. It shows texts of records."),
    "gamma-poisson": ("What is the mean of a count?", "For example: visits per patient."),
    "gamma-exponential": ("What is the rate of waiting times?", "For example: days until the next visit."),
    "normal-mean": ("What is the mean of a number, if its spread is known?", "The spread then needs no noise."),
    "statistical-query": ("What is the mean of shares?", "Of a column from 0 to 1, as draws of a posterior."),
    "linear": ("How does a number depend on other columns?", "Linear regression."),
    "logistic": ("How does a yes or no depend on other columns?", "Logistic regression."),
    "poisson": ("How does a count depend on other columns?", "Poisson regression."),
    "naive-bayes": ("Which class does a record belong to?", "A naive Bayes classifier, or a density."),
    "hmm": ("Which hidden states does a log go through?", "A hidden Markov model over regions and times."),
}
# What a question is called as long as nobody has named it.
NAMES = {
    "beta-bernoulli": "share",
    "dirichlet-categorical": "shares",
    "normal-inverse-gamma": "mean",
    "normal-mean": "mean",
    "gamma-poisson": "mean-count",
    "gamma-exponential": "rate",
}
# Of each prior: which numbers it is.
PRIORS = {
    "beta-bernoulli": "As many yes and as many no as if they had been seen before. Empty means 1, 1.",
    "dirichlet-categorical": "A number for each level, as if so many had been seen before. Empty means the default.",
    "normal-mean": "The mean that you expect, and how far off it may be, squared. If you know nothing, the middle of"
    " the range and its length squared: 30, 3600 for 0 to 60.",
    "normal-inverse-gamma": "The mean that you expect, 1, 2, and the square of the spread that you expect. If you know"
    " nothing, take the middle of the range and the square of a sixth of it: 30, 1, 2, 100 for 0 to 60.",
    "gamma-poisson": "Events, and the records in which they would have been seen before. Empty means the default.",
    "gamma-exponential": "Waits, and their sum, as if they had been seen before. Empty means the default.",
}
# Of each key: its label, and what to write.
HELP = {
    "column": ("Column", "The column that is asked about."),
    "success": ("Level that counts", "The level of this column whose share is asked for."),
    "by": ("In groups by", "Ask separately for each level of this column. Without groups, choose nothing."),
    "prior": ("Prior", "What is believed beforehand, as numbers with commas between them. Empty means the default."),
    "pool": ("Groups learn from each other", "Small groups then lean on the others when the release is read."),
    "variance": ("Variance", "The known variance of the column: the square of its standard deviation."),
    "outcome": ("Outcome", "The column that is explained."),
    "predictors": ("Predictors", "The columns that explain it."),
    "intercept": ("With an intercept", "A constant beside the predictors."),
    "method": ("Method", "How it is fitted. Empty means the default."),
    "prior_precision": ("Prior precision", "One over the prior variance of the coefficients. Empty means the default."),
    "regularisation": ("Regularisation", "The weight of the penalty. Empty means the default."),
    "radius": ("Radius", "How long the vector of coefficients may be at most. Empty means the default."),
    "interactions": ("Interactions", "Products of predictors, each written a:b, with commas between them."),
    "loss": ("Loss", "How errors are weighed. Empty means the default."),
    "residual_sd": ("Residual sd", "For draws: the standard deviation of residuals. Empty means that it is not known."),
    "threshold": ("Threshold", "Where the loss goes over to its linear part. Empty means the default."),
    "features": ("Features", "The columns of levels that are looked at."),
    "target": ("Classes", "The column of levels that holds the classes. Choose nothing for a density."),
    "sequence": ("Where and when", "The columns that say the region and the time of an entry."),
    "states": ("Number of states", "How many hidden states there are."),
    "cell": ("Region and time are", "Whether an entry's region and time are protected too."),
    "columns": ("Columns", "The columns that are looked at together."),
    "zeros": ("Impossible combinations", "One per line, levels with commas between them."),
    "of": ("What is counted", "Records, or persons."),
    "bins": ("Bins", "How many of equal width, or their edges with commas between them. Empty: those of the column."),
    "quantiles": ("Quantiles", "Numbers between 0 and 1, with commas between them. Empty means the median, 0.5."),
    "least": ("At least", "Values that fewer hold are never shown. Empty means 1."),
    "per_person": ("Values per person", "How many different values of each person count. Empty means as many as rows."),
    "formula": ("Formula", "Instead of outcome and predictors, for example: stay ~ age + ward."),
}
CHOICES = {
    "cell": ("private", "public"),
    "of": ("records", "persons"),
    "loss": ("huber", "pseudo-huber"),
    "method": ("posterior", "objective", "output", "moments", "table"),
}
# Keys of every release beside its model's own.
COMMON = ("mechanism", "draws", "truncation", "average", "want", "purpose")
COMMON_HELP = {
    "mechanism": ("Mechanism", "auto chooses the one with the least noise. Empty means auto."),
    "draws": ("Posterior draws", "Release so many draws of the posterior instead of noisy sums."),
    "truncation": ("Truncation", "For draws by ops: how far parameters stay from their ends, for example 0.05."),
    "average": ("Average over", "Rows or persons, where persons have several rows."),
    "want": ("Wanted width", "The width of the 90 % interval that you would like; plans go by it."),
    "purpose": ("Purpose", "Why it is asked; the ledger writes it down."),
}
SPEND = ("epsilon", "delta", "rho", "mu", "order")
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_\-]{0,63}")
_PREFIX = "key-"


@dataclass(frozen=True)
class Field:
    """One field of a form.

    Attributes
    ----------
    key, kind
        The key of the study file, and how it is asked: column, columns, groups, level, pair, flag, number, numbers,
        choice, lines or text.
    label, help
        What it is called, and what to write.
    required
        Whether the model has no default for it.
    """

    key: str
    kind: str
    label: str
    help: str
    required: bool

    @property
    def name(self) -> str:
        """What it is called in the form."""
        return _PREFIX + self.key


def fields_of(model: str) -> list[Field]:
    """Return the fields of a model's own keys, those that it needs first."""
    if model not in MODELS:
        raise InvalidParameter("a model", model, "one of " + ", ".join(MODELS), "one of them")
    form_fields, by_formula = [], hasattr(MODELS[model], "formula_keys")
    for each in fields(MODELS[model]):
        columns = each.name in MODELS[model].column_keys
        required = each.default is MISSING and each.default_factory is MISSING
        label, words = HELP.get(each.name, (each.name.replace("_", " ").capitalize(), "See the documentation."))
        words = PRIORS.get(model, words) if each.name == "prior" else words
        kind = _kind(each.name, str(each.type), names_columns=columns)
        form_fields.append(Field(each.name, kind, label, words, required and not by_formula))
    if by_formula:
        form_fields.append(Field("formula", "text", *HELP["formula"], required=False))
    return sorted(form_fields, key=lambda each: not (each.required or each.key in ("outcome", "predictors", "by")))


def common_fields() -> list[Field]:
    """Return the fields that every question has."""
    kinds = {"draws": "number", "truncation": "number", "want": "number"}
    return [Field(key, kinds.get(key, "text"), *COMMON_HELP[key], required=False) for key in COMMON]


def _kind(key: str, written: str, *, names_columns: bool) -> str:
    if key == "sequence":
        return "pair"
    if key in ("by", "success"):
        return "groups" if key == "by" else "level"
    if names_columns:
        return "columns" if "tuple" in written and not written.startswith("str |") else "column"
    if key in CHOICES:
        return "choice"
    if written == "bool":
        return "flag"
    if key == "zeros":
        return "lines"
    if "tuple[float" in written:
        return "numbers"
    if "tuple[str" in written:
        return "words"
    return "number" if "float" in written or written in ("int", "int | None") else "text"


def values_of(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a release's lines say, as the form shows it."""
    shown: dict[str, Any] = {}
    for key, value in record.items():
        if key == "want":
            shown[key] = _text(value.get("width", "")) if isinstance(value, Mapping) else ""
        elif key == "zeros" and isinstance(value, list):
            shown[key] = "\n".join(", ".join(map(_text, each)) for each in value if isinstance(each, list))
        elif isinstance(value, Mapping) or (isinstance(value, bool) and key != "success"):
            shown[key] = value
        else:
            shown[key] = [_text(each) for each in value] if isinstance(value, list) else _text(value)
    return shown


def release_from(
    model: str, form: Sequence[tuple[str, str]], columns: Mapping[str, Any], before: Mapping[str, Any]
) -> dict[str, Any]:
    """Return a release's lines from the fields of its form; what the form does not ask stays as it was."""
    own = fields_of(model)
    form_keys = {each.key for each in (*own, *common_fields())} | {"model", "spend"}
    for each in own:
        if each.required and _value(each, form) is None:
            raise VestryError(f"{each.label} is needed. {each.help}")
    record: dict[str, Any] = {"model": model}
    for each in own:
        value = _value(each, form)
        if value is not None:
            record[each.key] = _in_order(value, before.get(each.key))
    if "success" in record:
        record["success"] = _as_declared(record, columns)
    if "by" in record and len(record["by"]) == 1:
        record["by"] = record["by"][0]
    if "bins" in record and len(record["bins"]) == 1:
        record["bins"] = record["bins"][0]
    record["spend"] = spend_from(form)
    for each in common_fields():
        value = _value(each, form)
        if value is not None:
            record[each.key] = {"width": value} if each.key == "want" else value
    return record | {key: value for key, value in before.items() if key not in form_keys}


def spend_from(form: Sequence[tuple[str, str]], prefix: str = "") -> dict[str, Any]:
    """Return a guarantee from its fields; whether they belong together the study file's reader says."""
    spend = {}
    for key in SPEND:
        text = _first(form, prefix + key)
        if text:
            spend[key] = number(key, text)
    if not spend:
        raise InvalidParameter("epsilon", "nothing", "a number above 0", "for example 0.3")
    return spend


def number(name: str, text: str) -> int | float:
    """Read a number that a person wrote."""
    try:
        value = float(text)
        if not math.isfinite(value):
            raise ValueError
    except ValueError:
        raise InvalidParameter(name, text, "a number, with a point for decimals", "for example 0.3") from None
    return int(text) if re.fullmatch(r"[+-]?\d{1,18}", text) else value


def _value(field: Field, form: Sequence[tuple[str, str]]) -> Any:
    """Return what a field says; None if it says nothing."""
    given = [value.strip() for name, value in form if name == field.name and value.strip()]
    if field.kind == "pair":
        pair = {part: _first(form, f"{field.name}-{part}") for part in ("region", "time")}
        return {key: value for key, value in pair.items() if value} or None
    if field.kind == "flag":
        usual = field.key == "intercept"
        return None if bool(given) == usual else bool(given)
    if not given:
        return None
    if field.kind in ("columns", "groups"):
        return given
    text = given[0]
    if field.kind == "number":
        return number(field.label, text)
    if field.kind == "numbers":
        return [number(f"each number of {field.label}", part.strip()) for part in text.split(",")]
    if field.kind == "words":
        return [part.strip() for part in text.split(",") if part.strip()]
    if field.kind == "lines":
        return [[part.strip() for part in line.split(",")] for line in text.splitlines() if line.strip()]
    return text


def _in_order(value: Any, before: Any) -> Any:
    """Return chosen names in the order that the file has them, if they are the same: boxes have the columns' order."""
    same = isinstance(value, list) and isinstance(before, list) and all(isinstance(each, str) for each in before)
    return before if same and sorted(map(str, value)) == sorted(before) else value


def _as_declared(record: Mapping[str, Any], columns: Mapping[str, Any]) -> Any:
    """Return a level as its column declares it: a number or a truth value where levels are such."""
    column = record.get("column", record.get("outcome"))
    declared = columns.get(column, {}) if isinstance(column, str) else {}
    levels = declared.get("levels", []) if isinstance(declared, Mapping) else []
    same = [each for each in levels if _text(each) == record["success"]] if isinstance(levels, list) else []
    return same[0] if same else record["success"]


def _first(form: Sequence[tuple[str, str]], name: str) -> str:
    return next((value.strip() for key, value in form if key == name), "")


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)
