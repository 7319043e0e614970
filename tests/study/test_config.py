"""A broken study file is refused with its name, the right line, the key and what to write; no other error escapes."""

# ruff: noqa: E501 - a table reads best with one case a line

from __future__ import annotations

import json
import math
import re
import sys
import tomllib
from dataclasses import MISSING, fields
from pathlib import Path

import pytest
from closed_engines import closed_engines
from hypothesis import given
from hypothesis import strategies as st

from vestry.cli import main
from vestry.errors import InvalidParameter, StudyFileError, VestryError
from vestry.mechanisms.release import PARAMETERS
from vestry.model.request import AUTO
from vestry.registry import MODELS
from vestry.study import Study, config
from vestry.study.config import KEYS
from vestry.study.example_study import EXAMPLE as STUDY
from vestry.study.toml_table import GUARANTEE, LineIndex

ROOT = Path(__file__).parents[2]
GOOD = """\
[study]
name = "readmissions"
data = "patients.csv"
unit = "row"
neighbours = "add-remove"
budget = { epsilon = 1.0, delta = 1e-6 }
ledger = "patients.ledger"
expected_rows = 2000
max_rows = 1000000

[columns]
readmitted = { levels = ["no", "yes"] }
ward = { levels = ["A", "B", "C"], missing = "drop" }
stay = { interval = [0, 60], missing = { value = 0 } }
age = { interval = [0, 100] }
visits = { count = 20 }
consent = { levels = [true, false], missing = { value = false } }

[release.readmission]
model = "beta-bernoulli"
column = "readmitted"
success = "yes"
by = "ward"
prior = [1, 1]
spend = { epsilon = 0.3 }
mechanism = "laplace"
purpose = "quarterly report"

[release.wards]
model = "dirichlet-categorical"
column = "ward"
prior = [2, 2, 2]
spend = { rho = 0.01 }

[release.stay]
model = "normal-mean"
column = ["stay"]
variance = 50
prior = [10, 100]
spend = { mu = 0.2 }

[release.drawn]
model = "beta-bernoulli"
column = "consent"
success = true
spend = { epsilon = 0.1, delta = 1e-7 }
mechanism = "ops"
draws = 1
truncation = 0.05
"""
BUDGET = "budget = { epsilon = 1.0, delta = 1e-6 }"
FIRST, STAY, DRAWN = "release.readmission", "release.stay", "release.drawn"

# What is written, what instead, the words of the line that is named, its key, and the sentence.
# fmt: off
BROKEN = [
    # Sections.
    ("[study]", "[stduy]", "[stduy]", "stduy", "this key is not known; write study."),
    ("[columns]", "[colums]", "[colums]", "colums", "this key is not known; write columns."),
    ("[columns]", "[columns]\n[more]", "[more]", "more", "write one of study, columns, release."),
    (GOOD[:GOOD.index("[columns]")], "", "[columns]", "study", "this section is missing; write [study] with name, data"),
    (GOOD[GOOD.index("[columns]"):GOOD.index("[release.r")], "", "[study]", "columns", "this section is missing; write [columns]"),
    (GOOD[GOOD.index("[release.r"):], "", "[study]", "release", "this section is missing; write [release.NAME]"),
    (GOOD[GOOD.index("[release.r"):], "[release]", "[release]", "release", "there is no release; write [release.NAME]"),
    (GOOD[GOOD.index("[columns]"):GOOD.index("[release.r")], "[columns]\n", "[columns]", "columns", "no column is declared; write for"),
    ("[release.readmission]", "[[release]]\n[x]", None, "x", "this key is not known"),
    (GOOD[GOOD.index("[release.r"):], "[[release]]\nmodel = 1", "[[release]]", "release", "release must be a table, not [{'model': 1}]; write"),
    ("[study]", "columns = 3\n[study]", None, "the file", "this key is written twice; write it once."),
    (GOOD[GOOD.index("[release.r"):], "[release]\nx = 3", "x = 3", "release.x", "a release must be a table, not 3; write [release.x]"),
    # Keys of [study].
    ('name = "readmissions"\n', "", "[study]", "study.name", 'this key is missing; write name = "readmissions".'),
    ('unit = "row"\n', "", "[study]", "study.unit", 'this key is missing; write unit = "row", or unit = { person'),
    ('neighbours = "add-remove"\n', "", "[study]", "study.neighbours", "this key is missing; write neighbours = \"add-remove\""),
    (BUDGET + "\n", "", "[study]", "study.budget", "this key is missing; write budget = { epsilon = 1.0"),
    ("ledger =", "leger =", "leger =", "study.leger", "this key is not known; write ledger."),
    ("expected_rows = 2000", "size = 2000", "size = 2000", "study.size", "write one of name, data, unit, neighbours, budget, ledger, csv, dataset, expected_rows"),
    ('name = "readmissions"', "name = 7", "name = 7", "study.name", 'name must be one line of text of 1 to 1000 characters, not 7; write name = "readmissions".'),
    ('name = "readmissions"', 'name = "  "', "name =", "study.name", "name must be one line of text"),
    ('name = "readmissions"', 'name = """a\nb"""', "name =", "study.name", "name must be one line of text"),
    ('data = "patients.csv"', "data = [1]", "data =", "study.data", 'write data = "patients.parquet".'),
    ('data = "patients.csv"', 'data = "a.txt"', "data =", "study.data", "data must be a folder, or a file called .parquet, .csv"),
    ('data = "patients.csv"', 'data = "a\\u0000.csv"', "data =", "study.data", "data must be one line of text"),
    ('data = "patients.csv"', 'data = "mysql://h/d"', "data =", "study.data", "data must be one of the kinds that Vestry reads, not 'mysql://...'"),
    ('data = "patients.csv"', 'data = "postgresql://me:hunter2@h/d/t"', "data =", "study.data", 'data must be free of secrets, not \'one with a password in it\'; write data = "postgresql://USER:${VESTRY_PASSWORD}@HOST/DATABASE/TABLE"'),
    ('data = "patients.csv"', 'data = "postgresql://me:12/hunter2@h/d/t"', "data =", "study.data", "data must be free of secrets"),
    ('data = "patients.csv"', 'data = "postgresql://h/d/t?user=me&password=hunter2"', "data =", "study.data", "data must be free of secrets"),
    ('"patients.ledger"', '"postgresql://me:hunter2@h/d"', "ledger =", "study.ledger", "ledger must be free of secrets, not 'one with a password in it'; write ledger ="),
    ('"patients.ledger"', "false", "ledger =", "study.ledger", 'write ledger = "patients.ledger".'),
    ("expected_rows = 2000", "expected_rows = 0", "expected_rows = 0", "study.expected_rows", "expected_rows must be a whole number from 1 to 1000000, not 0; write expected_rows = 1000."),
    ("expected_rows = 2000", "expected_rows = true", "expected_rows = true", "study.expected_rows", "expected_rows must be a whole number"),
    ("expected_rows = 2000", "expected_rows = 2e3", "expected_rows = 2e3", "study.expected_rows", "not 2000.0; write expected_rows = 1000."),
    ("expected_rows = 2000", "expected_rows = 2000000", "expected_rows = 2000000", "study.expected_rows", "from 1 to 1000000, not 2000000"),
    ("max_rows = 1000000", "max_rows = 0", "max_rows =", "study.max_rows", "max_rows must be a whole number from 1 to 4611686018427387903, not 0"),
    ("max_rows = 1000000", "max_rows = 4611686018427387904", "max_rows =", "study.max_rows", "write max_rows = 1000000000."),
    # Neighbours and unit.
    ('"add-remove"', '"add"', "neighbours =", "study.neighbours", 'neighbours must be one of replace, add-remove, not \'add\'; write replace or add-remove.'),
    ('"add-remove"', "[]", "neighbours =", "study.neighbours", "not []"),
    ('unit = "row"', 'unit = "person"', "unit =", "study.unit", 'unit must be "row", or a person and rows, not \'person\'; write unit = "row", or unit = { person = "patient_id", rows = 3 }.'),
    ('unit = "row"', "unit = 1", "unit =", "study.unit", "unit must be"),
    ('unit = "row"', "unit = {}", "unit =", "study.unit", "unit must be"),
    ('unit = "row"', 'unit = { person = "id" }', "unit =", "study.unit", "unit must be \"row\", or a person and rows"),
    ('unit = "row"', 'unit = { persn = "id", rows = 1 }', "unit =", "study.unit.persn", "this key is not known; write person."),
    ('unit = "row"', 'unit = { person = "id", rows = 0 }', "unit =", "study.unit.rows", "rows must be a whole number of at least 1, not 0; write unit = { person"),
    ('unit = "row"', 'unit = { person = "id", rows = -1 }', "unit =", "study.unit.rows", "not -1"),
    ('unit = "row"', 'unit = { person = "id", rows = 1.5 }', "unit =", "study.unit.rows", "not 1.5"),
    ('unit = "row"', 'unit = { person = "id", rows = true }', "unit =", "study.unit.rows", "not True"),
    ('unit = "row"', 'unit = { person = "id", rows = 1000000000 }', "unit =", "study.unit.rows", "rows must be at most 999999999"),
    ('unit = "row"', 'unit = { person = "a,b", rows = 1 }', "unit =", "study.unit.person", "the name of a column, without , or ="),
    ('unit = "row"', "unit = { person = 3, rows = 1 }", "unit =", "study.unit.person", "not 3; write unit = { person"),
    # Budget and spend.
    (BUDGET, 'budget = "epsilon=1"', "budget =", "study.budget", "budget must be a table, not 'epsilon=1'; write budget = { epsilon = 1.0"),
    (BUDGET, "budget = 1", "budget =", "study.budget", "budget must be a table, not 1"),
    (BUDGET, "budget = {}", "budget =", "study.budget", "budget must be a known combination of keys, not {}; write budget = { epsilon"),
    (BUDGET, "budget = { epsilon = 0, delta = 1e-6 }", "budget =", "study.budget.epsilon", "epsilon must be a number above 0 and finite, not 0; write for example epsilon=1."),
    (BUDGET, "budget = { epsilon = -1 }", "budget =", "study.budget.epsilon", "not -1"),
    (BUDGET, "budget = { epsilon = nan }", "budget =", "study.budget.epsilon", "not nan"),
    (BUDGET, "budget = { epsilon = inf }", "budget =", "study.budget.epsilon", "not inf"),
    (BUDGET, f"budget = {{ epsilon = {'9' * 400} }}", "budget =", "study.budget.epsilon", "above 0 and finite"),
    (BUDGET, 'budget = { epsilon = "1" }', "budget =", "study.budget.epsilon", "epsilon must be a number above 0 and finite, not '1'"),
    (BUDGET, "budget = { epsilon = true }", "budget =", "study.budget.epsilon", "epsilon must be a number above 0 and finite, not True"),
    (BUDGET, "budget = { epsilon = 1, delta = 0 }", "budget =", "study.budget.delta", "delta must be a number above 0 and below 1, not 0; write for example delta=1e-6"),
    (BUDGET, "budget = { epsilon = 1, delta = 1 }", "budget =", "study.budget.delta", "not 1;"),
    (BUDGET, "budget = { epsilon = 1, delta = 2 }", "budget =", "study.budget.delta", "not 2;"),
    (BUDGET, "budget = { epsilom = 1 }", "budget =", "study.budget.epsilom", "this key is not known; write epsilon."),
    (BUDGET, "budget = { epsilon = 1, rho = 1 }", "budget =", "study.budget", "a known combination of keys, not {'epsilon': 1, 'rho': 1}; write budget = { epsilon = 0.3 }, or"),
    ("spend = { rho = 0.01 }", "spend = { order = 10 }", "spend = { order", "release.wards.spend", "or { order = 10, epsilon = 0.1 }, or"),
    ("spend = { rho = 0.01 }", "spend = { order = 1, epsilon = 1 }", "spend = { order", "release.wards.spend.order", "order must be a number above 1 and finite, not 1"),
    ("spend = { rho = 0.01 }", "spend = 0.01", "spend = 0.01", "release.wards.spend", "spend must be a table, not 0.01; write spend = { epsilon = 0.3 }."),
    ("spend = { rho = 0.01 }\n", "", "[release.wards]", "release.wards.spend", "this key is missing; write spend = { epsilon = 0.3 }."),
    # Columns.
    ('readmitted = { levels = ["no", "yes"] }', 'readmitted = "no"', "readmitted =", "columns.readmitted", "a column must be a table, not 'no'; write readmitted = { levels = [\"no\", \"yes\"] }."),
    ('{ levels = ["no", "yes"] }', "{}", "readmitted =", "columns.readmitted", "a column must be levels (with exact), interval (of dates with format) or count (both with bins), and missing, not 'nothing'"),
    ('{ levels = ["no", "yes"] }', '{ levles = ["no", "yes"] }', "readmitted =", "columns.readmitted.levles", "this key is not known; write levels."),
    ('{ levels = ["no", "yes"] }', '{ levels = ["no", "yes"], interval = [0, 1] }', "readmitted =", "columns.readmitted", "not 'interval, levels'"),
    ('["no", "yes"]', '["no"]', "readmitted =", "columns.readmitted.levels", "levels must be two or more, all text, all whole numbers, all true and false or all dates, not ('no',); write for example \"no\", \"yes\"."),
    ('["no", "yes"]', '["no", "no"]', "readmitted =", "columns.readmitted.levels", "levels must be different from each other"),
    ('["no", "yes"]', '["no", 1]', "readmitted =", "columns.readmitted.levels", "all text, all whole numbers"),
    ('["no", "yes"]', "[0.5, 1.5]", "readmitted =", "columns.readmitted.levels", "all text, all whole numbers"),
    ('["no", "yes"]', '[["no"], ["yes"]]', "readmitted =", "columns.readmitted.levels", "all text, all whole numbers"),
    ('["no", "yes"]', f"[0, {2**60}]", "readmitted =", "columns.readmitted", "a level of readmitted must be at most 2^53 in size if it is a whole number"),
    ('["no", "yes"]', '"no, yes"', "readmitted =", "columns.readmitted.levels", 'levels must be a list, not \'no, yes\'; write levels = ["no", "yes"].'),
    ('["A", "B", "C"], missing = "drop"', '["A", "missing"], missing = "level"', "ward = {", "columns.ward.levels", 'without "missing" if missing is a level'),
    ('missing = "drop"', 'missing = "ignore"', "ward = {", "columns.ward.missing", 'missing must be "never", "drop", "level" or { value = ... }, not \'ignore\'; write missing = "drop".'),
    ('missing = "drop"', 'missing = { level = "A" }', "ward = {", "columns.ward.missing", "or { value = ... }"),
    ('missing = "drop"', 'missing = { value = "D" }', "ward = {", "columns.ward.missing", "missing must be one of the levels, not 'D'; write { value = \"A\" }."),
    ("missing = { value = false }", "missing = { value = 0 }", "consent =", "columns.consent.missing", "missing must be one of the levels, not 0; write { value = true }."),
    ("missing = { value = 0 }", 'missing = "level"', "stay = {", "columns.stay.missing", 'missing must be "never", "drop" or { value'),
    ("missing = { value = 0 }", "missing = { value = 61 }", "stay = {", "columns.stay.missing", "missing must be inside the interval, not 61.0; write { value = 0 }."),
    ("missing = { value = 0 }", "missing = { value = nan }", "stay = {", "columns.stay.missing", "missing must be a finite number, not nan; write { value = 0 }."),
    ("[0, 60]", "[60, 0]", "stay = {", "columns.stay.interval", "interval must be a low end below the high end, not [60.0, 0.0]; write for example [0, 60]."),
    ("[0, 60]", "[60, 60]", "stay = {", "columns.stay.interval", "a low end below the high end"),
    ("[0, 60]", "[0, inf]", "stay = {", "columns.stay.interval", "interval must be a low and a high end, both finite numbers or both dates, not [0, inf]; write interval = [0, 60] or [2020-01-01, 2024-12-31]."),
    ("[0, 60]", f"[0, {'9' * 400}]", "stay = {", "columns.stay.interval", "both finite numbers"),
    ("[0, 60]", "[0, 1e40]", "stay = {", "columns.stay", "the interval of stay must be within 1e+30 of 0"),
    ("[0, 60]", "[0, 60, 90]", "stay = {", "columns.stay.interval", "a low and a high end"),
    ("[0, 60]", '["0", "60"]', "stay = {", "columns.stay.interval", "both finite numbers"),
    ("count = 20", "count = 0", "visits =", "columns.visits.count", "count must be a whole number of at least 1, not 0; write the largest count"),
    ("count = 20", "count = 2.5", "visits =", "columns.visits.count", "not 2.5"),
    # Releases: names and models.
    ("[release.readmission]", '[release."a/b"]', '"a/b"', "release.a/b", "a release's name must be at most 64 letters, digits, - and _, not 'a/b'; write for example [release.readmission]."),
    ("[release.readmission]", '[release.".."]', '".."', "release...", "a release's name must be"),
    ("[release.readmission]", '[release.""]', '""', "release.", "a release's name must be"),
    ("[release.readmission]", f"[release.{'a' * 65}]", "aaa", f"release.{'a' * 65}", "at most 64 letters"),
    ('model = "beta-bernoulli"\ncolumn = "readmitted"', 'column = "readmitted"', "[release.readmission]", f"{FIRST}.model", 'this key is missing; write model = "beta-bernoulli", or another of'),
    ('model = "normal-mean"', 'model = "normal-maen"', "normal-maen", f"{STAY}.model", "not 'normal-maen'; write model = \"normal-mean\"."),
    ('model = "normal-mean"', "model = []", "model = []", f"{STAY}.model", 'not []; write model = "beta-bernoulli".'),
    ("prior = [1, 1]", "pryor = [1, 1]", "pryor", f"{FIRST}.pryor", "this key is not known; write prior."),
    ("prior = [1, 1]", "variance = 1", "variance = 1\n", f"{FIRST}.variance", "this key is not known; write one of model, spend, mechanism"),
    ('column = "readmitted"\n', "", "[release.readmission]", f"{FIRST}.column", 'this key is missing; write column = "readmitted".'),
    ('success = "yes"\n', "", "[release.readmission]", f"{FIRST}.success", 'this key is missing; write success = "yes".'),
    ("variance = 50\n", "", "[release.stay]", f"{STAY}.variance", "this key is missing; write variance = 100."),
    # Releases: columns.
    ('column = "readmitted"', 'column = "readmited"', "readmited", f"{FIRST}.column", "a column must be one that is declared (readmitted, ward, stay, age, visits, consent), not 'readmited'; write \"readmitted\"."),
    ('column = "readmitted"', 'column = "weight"', "weight", f"{FIRST}.column", 'write weight = { levels = ["no", "yes"] } under [columns].'),
    ('column = "readmitted"', "column = 3", "column = 3", f"{FIRST}.column", "a column must be the name of one that is declared, not 3; write \"readmitted\"."),
    ('column = "readmitted"', 'column = ["readmitted"]', "column = [\"readmitted\"]", f"{FIRST}.column", "column must be one column for beta-bernoulli, not ['readmitted']; write column = \"readmitted\"."),
    ('column = "readmitted"', 'column = "stay"', 'column = "stay"', f"{FIRST}.column", 'the column stay must be levels, not \'an interval\'; write stay = { levels = ["a", "b"] }.'),
    ('column = ["stay"]', 'column = "ward"', 'column = "ward"\nvariance', f"{STAY}.column", "the column ward must be an interval, not 'levels'; write ward = { interval = [0, 60] }."),
    ('column = ["stay"]', "column = []", "column = []", f"{STAY}.column", "column must be one column, or several, each once, not []"),
    ('column = ["stay"]', 'column = ["stay", "stay"]', 'column = ["stay', f"{STAY}.column", "each once"),
    ('column = ["stay"]', 'column = [["stay"]]', "column = [[", f"{STAY}.column", "a column must be the name of one that is declared, not ['stay']"),
    ('column = ["stay"]', 'column = ["stay", "age"]', 'column = ["stay"', f"{STAY}.column", "column must be columns of one interval, here [0.0, 60.0], not 'age from 0.0 to 100.0'; write one interval, or a release for each column."),
    ('by = "ward"', 'by = "wrad"', "wrad", f"{FIRST}.by", 'write "ward".'),
    ('by = "ward"', "by = []", "by = []", f"{FIRST}.by", "not []"),
    ('by = "ward"', 'by = "stay"', 'by = "stay"', f"{FIRST}.by", "the column stay must be levels"),
    ('by = "ward"', 'by = "readmitted"', "by =", f"{FIRST}.by", "by must be another column than the model's, not 'readmitted'"),
    ('success = "yes"', 'success = "maybe"', "maybe", f"{FIRST}.success", 'success must be one of the levels ("no", "yes"), not \'maybe\'; write success = "yes".'),
    ('success = "yes"', "success = true", "success = true\nby", f"{FIRST}.success", "success must be one of the levels"),
    ("success = true", "success = 1", "success = 1", f"{DRAWN}.success", "success must be one of the levels (true, false), not 1; write success = false."),
    # Releases: priors and variance.
    ("prior = [1, 1]", "prior = [1]", "prior = [1]", f"{FIRST}.prior", "the prior of beta-bernoulli must be alpha and beta, not (1.0,); write prior = [1, 1]."),
    ("prior = [1, 1]", "prior = [1, 0]", "prior =", f"{FIRST}.prior", "beta must be a number above 0 and finite, not 0.0"),
    ("prior = [1, 1]", "prior = [-1, 1]", "prior =", f"{FIRST}.prior", "alpha must be a number above 0 and finite, not -1.0"),
    ("prior = [1, 1]", 'prior = ["1", 1]', "prior =", f"{FIRST}.prior", "each number of prior must be a finite number, not '1'; write prior = [1, 1]."),
    ("prior = [1, 1]", 'prior = "flat"', "prior =", f"{FIRST}.prior", "prior must be a list of numbers, not 'flat'; write prior = [1, 1]."),
    ("prior = [1, 1]", "prior = [1e31, 1]", "prior =", f"{FIRST}.prior", "each number of prior must be 0, or from 1e-30 to 1e+30 in size, not 1e+31; write prior = [1, 1]."),
    ("variance = 50", "variance = 1e-31", "variance =", f"{STAY}.variance", "variance must be 0, or from 1e-30 to 1e+30 in size, not 1e-31; write variance = 100."),
    ("prior = [1, 1]", "prior = [nan, 1]", "prior =", f"{FIRST}.prior", "a finite number, not nan"),
    ("prior = [1, 1]", f"prior = [{'9' * 400}, 1]", "prior =", f"{FIRST}.prior", "a finite number"),
    ("prior = [2, 2, 2]", "prior = [2, 2]", "prior = [2, 2]", "release.wards.prior", "one alpha for each of 3 categories, not (2.0, 2.0); write prior = [1, 1, 1]."),
    ("prior = [10, 100]", "prior = [10, 0]", "prior = [10", f"{STAY}.prior", "a number above 0"),
    ("prior = [10, 100]", "prior = [1, 2, 3]", "prior = [1, 2", f"{STAY}.prior", "a mean and a variance"),
    ("variance = 50", "variance = 0", "variance = 0", f"{STAY}.variance", "variance must be a number above 0 and finite, not 0.0"),
    ("variance = 50", 'variance = "50"', "variance =", f"{STAY}.variance", "variance must be a number above 0 and finite, not '50'; write"),
    ("variance = 50", f"variance = {'9' * 400}", "variance =", f"{STAY}.variance", "variance must be a finite number"),
    # Releases: mechanisms.
    ('mechanism = "laplace"', 'mechanism = "laplase"', "laplase", f"{FIRST}.mechanism", "mechanism must be one of auto, laplace, gaussian, discrete-gaussian, direct, diffused, concentrated, ops, not 'laplase'; write"),
    ('mechanism = "laplace"', "mechanism = {}", "mechanism = {}", f"{FIRST}.mechanism", "mechanism must be one of"),
    ('mechanism = "laplace"', 'mechanism = "laplace"\ndraws = 5', "draws = 5", f"{FIRST}.draws", "draws must be omitted for laplace, not 5"),
    ('mechanism = "laplace"', 'mechanism = "diffused"', "diffused", f"{FIRST}.mechanism", "draws must be given for diffused, not None; write draws = 1."),
    ('mechanism = "laplace"', "draws = 0", "draws = 0", f"{FIRST}.draws", "draws must be a whole number from 1 to 1000000, not 0; write draws = 1."),
    ('mechanism = "laplace"', "draws = 1.0", "draws = 1.0", f"{FIRST}.draws", "not 1.0"),
    ('mechanism = "laplace"', "truncation = 0.1", "truncation = 0.1", f"{FIRST}.truncation", "truncation must be omitted where there are no draws, not 0.1; write draws = 1 beside it."),
    ("truncation = 0.05\n", "", 'mechanism = "ops"', f"{DRAWN}.mechanism", "truncation must be given for ops, not None; write truncation = 0.05."),
    ("truncation = 0.05", 'truncation = "low"', "truncation =", f"{DRAWN}.truncation", "truncation must be a finite number, not 'low'; write truncation = 0.05."),
    ('mechanism = "ops"', 'mechanism = "direct"', "truncation =", f"{DRAWN}.truncation", 'truncation must be omitted except for ops, not 0.05; write mechanism = "ops".'),
    ('purpose = "quarterly report"', "purpose = 4", "purpose =", f"{FIRST}.purpose", 'write purpose = "quarterly report".'),
    ('purpose = "quarterly report"', 'purpose = ""', "purpose =", f"{FIRST}.purpose", "purpose must be one line of text"),
    # Not TOML.
    ('name = "readmissions"', 'name = "readmissions', "name =", "the file", "a text is not closed on its line; write the closing quotation mark."),
    ('unit = "row"', 'unit = "row"\nunit = "row"', None, "the file", "this key is written twice; write it once."),
    ("[release.wards]", "[release.readmission]", None, FIRST, "[release.readmission] is written twice; write it once."),
    ("expected_rows = 2000", "expected_rows 2000", "expected_rows 2000", "the file", "a key is not followed by =; write for example expected_rows = 2000"),
    ("expected_rows = 2000", "expected_rows = two", "expected_rows = two", "the file", "this value cannot be read; write text in quotation marks, for example name ="),
    ('data = "patients.csv"', 'data = "data\\patients.csv"', "data =", "the file", "a text has a backslash; write / in a path, or two backslashes for one."),
    ("expected_rows = 2000", "expected_rows = 2,000", "expected_rows = 2,", "the file", "there is more than one value on this line; write a number without commas, for example expected_rows = 2000"),
    ("stay = {", "stay days = {", "stay days", "the file", "and a key with spaces in quotation marks."),
    ('data = "patients.csv"', 'data = ""', "data =", "study.data", "data must be one line of text of 1 to 1000 characters, not ''; write"),
    ('by = "ward"', 'by = ["ward", "ward"]', "by =", "release.readmission.by", "by must be a column, or a list of columns, each once, not ['ward', 'ward']; write by ="),
    ('by = "ward"', 'by = ["ward", "readmitted"]', "by =", "release.readmission.by", "by must be another column than the model's, not 'readmitted'"),
    ('by = "ward"', 'by = ["ward", "stay"]', "by =", "release.readmission.by", "the column stay must be levels"),
    ('mechanism = "laplace"', "draws = 3", "[release.readmission]", "release.readmission", "truncation must be given for draws that keep a pure epsilon"),
    ("expected_rows = 2000", "expected_rows = " + "9" * 5000, "[study]", "the file", "nested too deeply, or a number is too long"),
    ("expected_rows = 2000", "expected_rows = " + "[" * 50000, "[study]", "the file", "nested too deeply, or a number is too long"),
    ("truncation = 0.05", "truncation = [0.05", "truncation =", "the file", "an array is not closed; write ]."),
    (GOOD, "", None, "study", "this section is missing; write [study] with name"),
    # What calibration alone can see.
    ("truncation = 0.05", "truncation = 0.6", "truncation =", f"{DRAWN}.truncation", "truncation must be"),
    ("truncation = 0.05", "truncation = -1", "truncation =", f"{DRAWN}.truncation", "truncation must be"),
    ("spend = { epsilon = 0.3 }\nmechanism = \"laplace\"", "spend = { epsilon = 0.3 }\nmechanism = \"gaussian\"", "spend = { epsilon = 0.3", f"{FIRST}.spend", "cannot be reached"),
]
# fmt: on
# The lines of the few whose words are no help: they are on two lines, or the file is empty.
LINES = {
    "[[release]]\n[x]": 20,
    "columns = 3\n[study]": 12,
    'unit = "row"\nunit = "row"': 5,
    "[release.readmission]": 29,
}


def line_of(broken: str, words: str | None, instead: str) -> int:
    if words is None:
        return LINES.get(instead, 1)
    assert broken.count(words) >= 1
    return broken[: broken.index(words)].count("\n") + 1


@pytest.fixture
def command(monkeypatch, capsys):
    """Run `vestry ARGUMENTS` in this process; return its exit code and what it printed."""

    def run(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["vestry", *map(str, arguments)])
        capsys.readouterr()
        with closed_engines(), pytest.raises(SystemExit, match=r"^\d+$") as ended:
            main()
        printed = capsys.readouterr()
        return int(ended.value.code or 0), printed.out, printed.err

    return run


def checked(path: Path) -> None:
    with closed_engines():
        Study.open(path).check()


def test_the_good_file_is_good(tmp_path, command):
    path = tmp_path / "study.toml"
    path.write_text(GOOD)
    checked(path)
    code, out, _ = command("check", path)
    assert (code, out[:35]) == (0, "study.toml is valid: 4 releases, bu")


@pytest.mark.parametrize(("old", "new", "words", "key", "sentence"), BROKEN, ids=[f"{i}-{b[3][:40]}" for i, b in enumerate(BROKEN)])  # fmt: skip
def test_a_broken_file_is_refused(old, new, words, key, sentence, tmp_path, command):
    assert old in GOOD
    broken = GOOD.replace(old, new, 1)
    path = tmp_path / "study.toml"
    path.write_text(broken)
    line = line_of(broken, words, new)
    with pytest.raises(StudyFileError, match=re.escape(sentence)) as caught:
        checked(path)
    fault = caught.value
    assert (fault.path, fault.line, fault.key, fault.exit_code) == ("study.toml", line, key, 2)
    assert str(fault) == f"study.toml, line {line}, {key}: {fault.reason}"
    assert "hunter2" not in str(fault)
    code, out, err = command("check", path)
    assert (code, out) == (2, "")
    assert re.fullmatch(r"vestry: study\.toml, line \d+, [^\n]+\.\n", err)
    assert len(err) < 700
    assert [each.name for each in tmp_path.iterdir()] == ["study.toml"]
    assert path.read_text() == broken


def test_a_file_that_cannot_be_read_is_refused(tmp_path, command):
    (tmp_path / "latin.toml").write_bytes('[study]\nname = "é"'.encode("latin-1"))
    cases = {"latin.toml": "text in UTF-8", ".": "readable (Is a directory)", "none.toml": "readable (No such file"}
    for name, sentence in cases.items():
        with pytest.raises(InvalidParameter, match=re.escape(f"a study file must be {sentence}")):
            Study.open(tmp_path / name)
        code, out, err = command("check", tmp_path / name)
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert sentence in err
    with pytest.raises(InvalidParameter, match="a study file must be a path"):
        Study.open("a\0b")
    assert [each.name for each in tmp_path.iterdir()] == ["latin.toml"]


def test_windows_files_are_read(tmp_path):
    path = tmp_path / "study.toml"
    path.write_bytes(b"\xef\xbb\xbf" + GOOD.replace("\n", "\r\n").encode())
    assert Study.open(path).config.name == "readmissions"
    path.write_bytes(GOOD.replace("expected_rows = 2000", "expected_rows = 0").replace("\n", "\r\n").encode())
    with pytest.raises(StudyFileError, match=r"study\.toml, line 8, study\.expected_rows: "):
        Study.open(path)


def test_a_password_from_the_environment_is_no_secret(tmp_path):
    path = tmp_path / "study.toml"
    for address in ("postgresql://me:${VESTRY_WORD}@h/d/t", "postgresql://me@h:5432/d/t", "postgresql://h/d/t?password=${VESTRY_X}"):  # fmt: skip
        path.write_text(GOOD.replace("patients.csv", address))
        assert Study.open(path).config.data == address


# Every way to write a key. The comment at the end of a line says which keys stand there first.
WRITTEN = '''\
# study.name = "not a key"
[study] # [columns]                                      #: study
"name" = "a = b # no comment" # n = 3                    #: study.name
'data' = 'patients.csv'                                  #: study.data
budget.epsilon = 1.0                                     #: study.budget study.budget.epsilon
budget . "delta" = 1e-6                                  #: study.budget.delta
unit = { person = "id", rows = 3 } # { rows = 4 }        #: study.unit study.unit.person study.unit.rows
ledger = """
expected_rows = 5
[columns]
\\"""[x]"""                                               # still the ledger's text
expected_rows = 2000                                     #: study.expected_rows
note = \'\'\'
max_rows = 7 \'\' \'\'\'\'\'
max_rows = 9                                             #: study.max_rows

  [ columns ]                                            #: columns
ward = { levels = [ "A", "]", "}", # , x = 3             #: columns.ward columns.ward.levels
  "B = 3",
  """C
  D""", ], missing = { value = "A" } }                   #: columns.ward.missing columns.ward.missing.value
"stay.days" = { interval = [0, 60] }                     #: columns.stay.days columns.stay.days.interval
"a\\u0062" = { count = 3 }                                #: columns.ab columns.ab.count

[columns.age]                                            #: columns.age
interval = [                                             #: columns.age.interval
  0,
  60.5,
]
missing = "drop"                                         #: columns.age.missing

[release]                                                #: release
x.model = "beta-bernoulli"                               #: release.x release.x.model
x.spend = { epsilon = 0.3 }                              #: release.x.spend release.x.spend.epsilon
y = { model = "normal-mean", prior = [{a = 1}, {b = 2}], by = "ward" } #: release.y release.y.model release.y.prior release.y.prior.a release.y.prior.b release.y.by
[release."z"]                                            #: release.z
model = "beta-bernoulli"                                 #: release.z.model
when = 2026-01-01 10:00:00                               #: release.z.when
[[extra]]                                                #: extra
x = 1                                                    #: extra.x
[[extra]]
x = 1
'''


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_every_way_to_write_a_key_is_found(end):
    text = WRITTEN.replace("\\\n", "\n").replace("\n", end)
    expected = {
        key: number for number, line in enumerate(WRITTEN.split("\n"), 1) for key in line.partition("#:")[2].split()
    }
    found = LineIndex.of("study.toml", text).lines
    expected["study.note"], expected["study.ledger"] = 13, 8
    assert found == expected


def paths(record, holder=""):
    """Yield every key of a parsed file, with dots."""
    for name, value in record.items() if isinstance(record, dict) else ():
        yield holder + name
        yield from paths(value, f"{holder}{name}.")


def test_the_line_finder_knows_every_key_that_tomllib_reads():
    for text in (GOOD, STUDY):
        assert set(LineIndex.of("x", text).lines) == set(paths(tomllib.loads(text)))
    read = set(paths(tomllib.loads(WRITTEN.replace(", # , x = 3", ", ").replace("y = {", "y = {"))))
    assert {
        key for key in LineIndex.of("x", WRITTEN).lines if not key.startswith(("extra.", "release.y.prior."))
    } == read


numbers = st.one_of(
    st.integers(-3, 3), st.integers(), st.sampled_from([2**53 + 1, 2**63, 10**30, -(10**400)]), st.floats(),
    st.floats(0, 1), st.sampled_from([5e-324, 1e-300, 1e300, 1e30]),
).map(lambda x: repr(x) if isinstance(x, int) else f"{x!r}")  # fmt: skip
words = st.sampled_from(["", "row", "A", "no", "stay", "ward", "auto", "ops", "direct", "drop", "level", "x/y", "a\0"])
texts = st.one_of(words, st.text(max_size=8)).filter(lambda x: not any("\ud800" <= c <= "\udfff" for c in x))
names = st.sampled_from(["epsilon", "delta", "order", "rho", "mu", "value", "levels", "interval", "count", "missing", "person", "rows", "model"])  # fmt: skip
literals = st.recursive(
    st.one_of(numbers, st.booleans().map(lambda x: str(x).lower()), texts.map(json.dumps), st.just("2026-01-01")),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4).map(lambda x: f"[{', '.join(x)}]"),
        st.dictionaries(names, inner, max_size=3).map(
            lambda x: "{" + ", ".join(f"{k} = {v}" for k, v in x.items()) + "}"
        ),
    ),
    max_leaves=5,
)
PLACES = [match.span(1) for match in re.finditer(r"= (.*)$", GOOD, re.MULTILINE)]


def survives(text: str, folder: Path) -> bool:
    """Tell whether a file is good; whatever is raised must be one of ours, and point into the file."""
    path = folder / "study.toml"
    path.write_bytes(text.encode())
    refused: VestryError | None = None
    try:
        checked(path)
    except VestryError as error:
        refused = error
    if isinstance(refused, StudyFileError):
        assert 1 <= refused.line <= re.sub("\r\n?", "\n", text).count("\n") + 1
        assert refused.reason.endswith(".")
    return refused is None


@given(change=st.lists(st.tuples(st.sampled_from(PLACES), literals), min_size=1, max_size=2, unique_by=lambda x: x[0]))
def test_any_value_in_any_place_gives_our_errors_alone(change, tmp_path_factory):
    text = GOOD
    for (start, end), literal in sorted(change, reverse=True):
        text = text[:start] + literal + text[end:]
    survives(text, tmp_path_factory.mktemp("fuzz"))


@given(data=st.data())
def test_any_edit_gives_our_errors_alone(data, tmp_path_factory):
    text = GOOD
    for _ in range(data.draw(st.integers(1, 3))):
        start = data.draw(st.integers(0, len(text)))
        end = min(len(text), start + data.draw(st.sampled_from([0, 0, 1, 5, 40])))
        piece = data.draw(st.sampled_from(["", "[", "]", "{", "}", '"', "'", "=", ".", ",", "\n", "#", "\r", "0", "x", "[a]\n", '"""', "\x00"]))  # fmt: skip
        text = text[:start] + piece + text[end:]
    survives(text, tmp_path_factory.mktemp("fuzz"))


def test_numbers_that_cannot_be_computed_with_are_a_fault():
    places = LineIndex.of("study.toml", GOOD)
    with (
        pytest.raises(
            StudyFileError, match=r"line 25, release\.readmission\.spend: its numbers are too large or too small"
        ),
        places.at("release.readmission.spend"),
    ):
        math.exp(1e9)


SCHEMA = json.loads((ROOT / "docs" / "study.schema.json").read_text())
KINDS = {"object": dict, "array": list, "string": str, "integer": int, "number": (int, float), "boolean": bool}


def of_kind(kind: str, value: object) -> bool:
    return isinstance(value, KINDS[kind]) and (kind == "boolean" or not isinstance(value, bool))


def same(one: object, other: object) -> bool:
    return type(one) is type(other) and one == other


# Every keyword that the schema uses, and whether a value meets it.
RULES = {
    "$ref": lambda rule, value, _: valid(SCHEMA["$defs"][rule.removeprefix("#/$defs/")], value),
    "type": lambda rule, value, _: any(of_kind(kind, value) for kind in ([rule] if isinstance(rule, str) else rule)),
    "const": lambda rule, value, _: same(rule, value),
    "enum": lambda rule, value, _: any(same(each, value) for each in rule),
    "oneOf": lambda rule, value, _: sum(valid(each, value) for each in rule) == 1,
    "required": lambda rule, value, _: not isinstance(value, dict) or set(rule) <= set(value),
    "properties": lambda rule, value, _: not isinstance(value, dict) or all(valid(rule[k], v) for k, v in value.items() if k in rule),
    "additionalProperties": lambda rule, value, schema: not isinstance(value, dict) or all(rule is not False and valid(rule, v) for k, v in value.items() if k not in schema.get("properties", {})),
    "propertyNames": lambda rule, value, _: not isinstance(value, dict) or all(valid(rule, key) for key in value),
    "minProperties": lambda rule, value, _: not isinstance(value, dict) or len(value) >= rule,
    "items": lambda rule, value, _: not isinstance(value, list) or all(valid(rule, each) for each in value),
    "minItems": lambda rule, value, _: not isinstance(value, list) or len(value) >= rule,
    "maxItems": lambda rule, value, _: not isinstance(value, list) or len(value) <= rule,
    "uniqueItems": lambda rule, value, _: not isinstance(value, list) or len(set(map(json.dumps, value))) == len(value),
    "pattern": lambda rule, value, _: not isinstance(value, str) or re.search(rule, value) is not None,
    "minLength": lambda rule, value, _: not isinstance(value, str) or len(value) >= rule,
    "maxLength": lambda rule, value, _: not isinstance(value, str) or len(value) <= rule,
    "minimum": lambda rule, value, _: not of_kind("number", value) or value >= rule,
    "maximum": lambda rule, value, _: not of_kind("number", value) or value <= rule,
    "exclusiveMinimum": lambda rule, value, _: not of_kind("number", value) or value > rule,
    "exclusiveMaximum": lambda rule, value, _: not of_kind("number", value) or value < rule,
}  # fmt: skip
SILENT = {"format", "$schema", "$defs", "title", "description", "default"}


def valid(schema: dict, value: object) -> bool:
    return all(RULES[key](rule, value, schema) for key, rule in schema.items() if key not in SILENT)


def test_good_files_are_valid_by_the_schema():
    assert valid(SCHEMA, tomllib.loads(GOOD))
    assert valid(SCHEMA, tomllib.loads(STUDY))


# What a schema must see; the rest may depend on another key or on arithmetic.
SHAPE = re.compile(
    r"this (?:key|section) is (?:missing|not known)|must be a table|known combination|must be two or more"
)


def test_broken_files_are_invalid_by_the_schema():
    found = 0
    for old, new, _, key, sentence in BROKEN:
        try:
            invalid = not valid(SCHEMA, tomllib.loads(GOOD.replace(old, new, 1)))
        except (ValueError, RecursionError):
            continue
        assert invalid or not SHAPE.search(sentence), (key, sentence)
        found += invalid
    assert found > 80


def test_the_schema_has_every_key_and_no_other():
    def keys(part: dict) -> set[str]:
        return set(part["properties"])

    definitions = SCHEMA["$defs"]
    assert keys(SCHEMA) == set(SCHEMA["required"]) == set(config.SECTIONS)
    study = SCHEMA["properties"]["study"]
    assert set(study["required"]) == set(config.REQUIRED)
    assert keys(study) == {*config.REQUIRED, *config.OPTIONAL}
    assert keys(study["properties"]["unit"]["oneOf"][1]) == set(config.PERSON)
    assert set().union(*map(keys, definitions["guarantee"]["oneOf"])) == set(GUARANTEE)
    assert set().union(*map(keys, definitions["column"]["oneOf"])) == set(config.COLUMN)
    listed = SCHEMA["properties"]["release"]["additionalProperties"]["oneOf"]
    assert [each["$ref"].removeprefix("#/$defs/") for each in listed] == list(MODELS)
    for name, model in MODELS.items():
        part, own = definitions[name], fields(model)
        formula = {"formula"} if hasattr(model, "formula_keys") else set()
        assert keys(part) == {*KEYS, *(field.name for field in own), *formula}
        needed = {"model", "spend", *(field.name for field in own if field.default is MISSING)}
        ways = part.get("oneOf", [{"required": []}])
        assert {*part["required"], *ways[0]["required"]} == needed
        assert [set(each["required"]) for each in ways[1:]] == ([formula] if formula else [])
        defaults = {field.name: field.default for field in own if field.name == "prior"}
        if not defaults:
            continue
        written = defaults["prior"] if isinstance(defaults["prior"], tuple) else None
        assert part["properties"]["prior"].get("default") == (None if written is None else list(written))
    assert definitions["mechanism"]["enum"] == [AUTO, *PARAMETERS]
    assert definitions["mechanism"]["default"] == AUTO
    assert study["properties"]["max_rows"]["default"] == config.DEFAULT_MAX_ROWS


PAGE = (ROOT / "docs" / "study.md").read_text()
FILES = [block for block in re.findall(r"^```toml\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE) if "[study]" in block]


@pytest.mark.parametrize("block", FILES)
def test_study_files_of_the_page_are_sound(block, tmp_path):
    (tmp_path / "study.toml").write_text(block)
    checked(tmp_path / "study.toml")
    assert valid(SCHEMA, tomllib.loads(block))


def test_the_page_names_every_key_model_and_mechanism():
    assert len(FILES) >= 2
    own = {field.name for model in MODELS.values() for field in fields(model)}
    known = {*config.REQUIRED, *config.OPTIONAL, *config.COLUMN, *KEYS, *own,
             *MODELS, AUTO, *PARAMETERS, "1e12", "never"}  # fmt: skip
    assert {word for word in known if f"`{word}`" not in PAGE and f'`"{word}"`' not in PAGE} == set()


COUNTS = """\
[study]
name = "incidents"
data = "incidents.csv"
unit = "row"
neighbours = "replace"
budget = { epsilon = 9 }
ledger = "incidents.ledger"
expected_rows = 200000

[columns]
region = { levels = ["north", "south"] }
month = { levels = ["2024-01", "2024-02", "2024-03"], missing = "drop" }
type = { levels = ["attack", "find", "other"] }
casualties = { levels = ["none", "some"] }
hour = { interval = [0, 24] }
week = { levels = [1, 2, 3], missing = "level" }

[release.states]
model = "hmm"
sequence = { region = "region", time = "month" }
cell = "public"
features = ["type", "casualties"]
states = 2
prior = [1, 1]
mechanism = "laplace"
spend = { epsilon = 5 }

[release.kinds]
model = "naive-bayes"
target = "type"
features = ["casualties", "region"]
prior = 1
spend = { epsilon = 1 }

[release.tables]
model = "naive-bayes"
features = ["type", "casualties"]
mechanism = "ops"
draws = 2
truncation = 0.01
spend = { epsilon = 1 }
"""
STATES, KINDS_OF, TABLES = "release.states", "release.kinds", "release.tables"
SEQUENCE = 'sequence = { region = "region", time = "month" }'
# fmt: off
BROKEN_COUNTS = [
    (SEQUENCE, "", "[release.states]", f"{STATES}.sequence", 'this key is missing; write sequence = { region = "region", time = "month" }.'),
    (SEQUENCE, 'sequence = { region = "region" }', "sequence =", f"{STATES}.sequence", "sequence must be a region and a time, not {'region': 'region'}; write sequence = {"),
    (SEQUENCE, 'sequence = { time = "month" }', "sequence =", f"{STATES}.sequence", "sequence must be a region and a time"),
    (SEQUENCE, 'sequence = { region = "region", time = "month", day = "week" }', "sequence =", f"{STATES}.sequence", "a region and a time"),
    (SEQUENCE, 'sequence = "month"', "sequence =", f"{STATES}.sequence", "sequence must be a region and a time, not 'month'"),
    (SEQUENCE, 'sequence = ["region", "month"]', "sequence =", f"{STATES}.sequence", "sequence must be a region and a time"),
    (SEQUENCE, 'sequence = { region = "country", time = "month" }', "sequence =", f"{STATES}.sequence", "a column must be one that is declared (region, month,"),
    (SEQUENCE, 'sequence = { region = "region", time = 3 }', "sequence =", f"{STATES}.sequence", "a column must be the name of one that is declared, not 3"),
    (SEQUENCE, 'sequence = { region = "region", time = "hour" }', "sequence =", f"{STATES}.sequence", "sequence must be columns of levels, not 'hour'"),
    (SEQUENCE, 'sequence = { region = "region", time = "week" }', "sequence =", f"{STATES}.sequence", 'sequence must be a time that has a place in the order, not missing = "level", not \'week\'; write missing = "drop".'),
    (SEQUENCE, 'sequence = { region = "region", time = "region" }', "features =", f"{STATES}.features", "features must be each column once"),
    ('cell = "public"', 'cell = "known"', "cell =", f"{STATES}.cell", 'cell must be one of public, private, not \'known\'; write cell = "private".'),
    ('cell = "public"', "cell = true", "cell =", f"{STATES}.cell", 'cell must be one of public, private, not True'),
    ('features = ["type", "casualties"]', "", "[release.states]", f"{STATES}.features", 'this key is missing; write features = ["type", "outcome"].'),
    ('features = ["type", "casualties"]', 'features = []', "features = []", f"{STATES}.features", "features must be a list of columns of levels, not ()"),
    ('features = ["type", "casualties"]', 'features = "type"', "features =", f"{STATES}.features", "features must be a list of columns of levels, not 'type'"),
    ('features = ["type", "casualties"]', 'features = ["type", "hour"]', "features =", f"{STATES}.features", "features must be columns of levels, not 'hour'; write hour = { levels ="),
    ('features = ["type", "casualties"]', 'features = ["type", "tpye"]', "features =", f"{STATES}.features", "a column must be one that is declared"),
    ('features = ["type", "casualties"]', 'features = ["type", "type"]', "features =", f"{STATES}.features", "features must be each column once"),
    ('features = ["type", "casualties"]', 'features = ["type", "month"]', "features =", f"{STATES}.features", "features must be each column once"),
    ('features = ["type", "casualties"]', 'features = [["type"]]', "features =", f"{STATES}.features", "a column must be the name of one that is declared"),
    ("states = 2", "states = 1", "states = 1", f"{STATES}.states", "states must be from 2 to 6, the number of cells, not 1; write states = 2."),
    ("states = 2", "states = 7", "states = 7", f"{STATES}.states", "states must be from 2 to 6, the number of cells, not 7"),
    ("states = 2", "states = 2.0", "states = 2.0", f"{STATES}.states", "not 2.0"),
    ("states = 2", "states = true", "states = true", f"{STATES}.states", "not True"),
    ("states = 2", "state = 2", "state = 2", f"{STATES}.state", "this key is not known; write states."),
    ("prior = [1, 1]", "prior = [1]", "prior = [1]", f"{STATES}.prior", "prior must be two numbers: transitions and emissions, not (1,); write prior = [1, 1]."),
    ("prior = [1, 1]", "prior = [1, 0]", "prior = [1, 0]", f"{STATES}.prior", "prior must be a number at least 1e-30 and at most 1e+30, not 0"),
    ("prior = [1, 1]", "prior = [1, nan]", "prior = [1, nan]", f"{STATES}.prior", "not nan"),
    ("prior = [1, 1]", "prior = 1", "prior = 1", f"{STATES}.prior", "two numbers"),
    ('mechanism = "laplace"', 'mechanism = "ops"', 'mechanism = "ops"', f"{STATES}.mechanism", "mechanism must be one of auto, laplace, gaussian, discrete-gaussian, not 'ops'"),
    ('mechanism = "laplace"', 'mechanism = "gaussian"', "spend = { epsilon = 5", f"{STATES}.spend", "cannot be reached"),
    ('mechanism = "laplace"', "draws = 3", "draws = 3", f"{STATES}.draws", "draws must be omitted"),
    ('target = "type"', 'target = "kind"', "target =", f"{KINDS_OF}.target", "a column must be one that is declared"),
    ('target = "type"', 'target = "hour"', "target =", f"{KINDS_OF}.target", "target must be columns of levels, not 'hour'"),
    ('target = "type"', 'target = "region"', "target =", f"{KINDS_OF}.target", "target must be no feature, not 'region'; write another column."),
    ('target = "type"', 'target = ["type"]', "target =", f"{KINDS_OF}.target", "target must be"),
    ("prior = 1\n", "prior = 0\n", "prior = 0", f"{KINDS_OF}.prior", "prior must be a number at least 1e-30 and at most 1e+30, not 0; write prior = 1."),
    ("prior = 1\n", "prior = [1, 1]\n", 'prior = [1, 1]\nspend', f"{KINDS_OF}.prior", "prior must be a number"),
    ("prior = 1\n", 'mechanism = "diffused"\ndraws = 1\n', 'mechanism = "diffused"', f"{KINDS_OF}.mechanism", "mechanism must be laplace, gaussian, discrete-gaussian, ops for naive-bayes, not 'diffused'"),
    ("truncation = 0.01", "truncation = 0.34", "truncation = 0.34", f"{TABLES}.truncation", "truncation must be above 0 and below 1/3, one over the most levels, not 0.34"),
    ("truncation = 0.01", "truncation = 0", "truncation = 0", f"{TABLES}.truncation", "truncation must be above 0 and below 1/3"),
    ("truncation = 0.01\n", "", 'mechanism = "ops"', f"{TABLES}.mechanism", "truncation must be given for ops"),
]
# fmt: on


def test_the_good_file_of_counts_is_good(tmp_path, command):
    path = tmp_path / "study.toml"
    path.write_text(COUNTS)
    assert valid(SCHEMA, tomllib.loads(COUNTS))
    code, out, _ = command("check", path)
    assert code == 0
    assert re.search(r"states +epsilon=5 +laplace +scale 0\.6\n", out)  # (2 + 1)/5: a feature of two levels costs 1
    assert re.search(r"kinds +epsilon=1 +laplace +scale 4\n", out)  # 2 F, and nothing for the classes


@pytest.mark.parametrize(("old", "new", "words", "key", "sentence"), BROKEN_COUNTS, ids=[f"{i}-{b[3]}" for i, b in enumerate(BROKEN_COUNTS)])  # fmt: skip
def test_a_broken_file_of_counts_is_refused(old, new, words, key, sentence, tmp_path):
    assert old in COUNTS
    broken = COUNTS.replace(old, new, 1)
    (tmp_path / "study.toml").write_text(broken)
    with pytest.raises(StudyFileError, match=re.escape(sentence)) as caught:
        checked(tmp_path / "study.toml")
    assert (caught.value.line, caught.value.key) == (line_of(broken, words, new), key)
    if SHAPE.search(sentence):
        assert not valid(SCHEMA, tomllib.loads(broken))


COUNT_PLACES = [match.span(1) for match in re.finditer(r"= (.*)$", COUNTS, re.MULTILINE) if match.start() > COUNTS.index("[columns]")]  # fmt: skip


@given(change=st.lists(st.tuples(st.sampled_from(COUNT_PLACES), literals), min_size=1, max_size=2, unique_by=lambda x: x[0]))  # fmt: skip
def test_any_value_in_a_file_of_counts_gives_our_errors_alone(change, tmp_path_factory):
    text = COUNTS
    for (start, end), literal in sorted(change, reverse=True):
        text = text[:start] + literal + text[end:]
    survives(text, tmp_path_factory.mktemp("fuzz"))


@pytest.mark.parametrize(("n", "epsilon", "swamped"), [(200_000, "5", False), (200_000, "0.002", True), (60, "0.5", True)])  # fmt: skip
def test_a_plan_says_when_noise_drowns_the_cells(n, epsilon, swamped, tmp_path, command):
    (tmp_path / "study.toml").write_text(COUNTS.replace("expected_rows = 200000", f"expected_rows = {n}").replace("epsilon = 5", f"epsilon = {epsilon}"))  # fmt: skip
    code, out, _ = command("plan", tmp_path / "study.toml", "states")
    assert code == 0
    assert ("privacy more than doubles the width" in out) is swamped
