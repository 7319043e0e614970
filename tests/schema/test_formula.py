"""The language of derived columns: precedence, kinds, and a sentence for whatever cannot be read."""

import re
from random import Random

import pytest
from data.formula_oracle import number, truth, written
from hypothesis import given, settings
from hypothesis import strategies as st

from vestry.errors import FormulaError, InvalidParameter, VestryError
from vestry.schema.derivation import check_derived, derivation, readings
from vestry.schema.domain import Interval, Levels, domain_from, sources_of
from vestry.schema.formula import walk
from vestry.schema.formula_parser import parse


def test_precedence_is_that_of_sql():
    same = {
        "a or b and not c = 1 + 2 * -d": "a or (b and (not (c = (1 + (2 * (-d))))))",
        "a - b - c > d / e / f": "((a - b) - c) > ((d / e) / f)",
        "not a in (1, -2) and b": "(not (a in (1, -2))) and b",
        "not not a": "not (not a)",
        "a = 1 or b = 2 or c = 3": "((a = 1) or (b = 2)) or (c = 3)",
    }
    for bare, bracketed in same.items():
        assert evened(parse(bare).root) == evened(parse(bracketed).root)
    assert parse("a - (b - c) > 0").root != parse("a - b - c > 0").root
    assert parse("(a or b) and c").root != parse("a or b and c").root


def evened(part):
    """Return the tree as nested lists, an `or` within an `or` taken up into it."""
    inner = [evened(each) for each in part.parts]
    if type(part).__name__ == "Junction":
        inner = [x for each in inner for x in (each[2] if each[0] == "Junction" and each[1] == part.word else [each])]
        return ["Junction", part.word, inner]
    own = [getattr(part, name, None) for name in ("sign", "column", "value", "function")]
    return [type(part).__name__, own, inner]


def test_words_have_any_case_and_blanks_do_not_count():
    assert parse('  A  AND not "b c"<=2').text == parse('A and NOT "b c" <= 2').text == 'A and not "b c" <= 2'
    assert parse("year > 2 and date = 1").columns == ("year", "date")
    assert parse("ward = 'it''s' and \"x\"\"y\"").columns == ("ward", 'x"y')


FAULTS = {
    "num >> 0": "at character 6 of from there must be a value, not '>'; write a column, a number",
    "num == 0": "at character 5 .* write =",
    "num <> 0": "at character 5 .* write !=",
    "a && b": "at character 3 .* write and",
    "a not in (1)": r"at character 3 .* write not ward in \('A', 'B'\)",
    "1 < a < 3": "at character 7 .* write the two comparisons with and between them",
    "(a > 1": r"at character 7 .* must be \) here, not 'the end'; write the bracket that closes the one at character 1",
    "a > 1)": "at character 6 .* and, or, a comparison or a sign of arithmetic",
    "sqrt(a) > 1": "at character 1 .* one of year, month, days",
    "year(a, b) > 1": r"at character 1 .* one date, not 'year'; write year\(visit\)",
    "days(a) > 1": r"two dates, not 'days'; write days\(visit, birth\)",
    "ward = 'A": "at character 8 .* the closing quotation mark of the text",
    'ward = "A': "the closing quotation mark of the column's name",
    "sex.male = 1": 'write a column whose name has a point in double quotes, "odd.name"',
    "1abc > 2": "at character 1 .* a number or a name, not '1abc'",
    "a in ()": "at character 7 .* a value",
    "a in (b)": "at character 7 .* a number, a text, a date or a truth value, not 'b'",
    "a in 3": r"at character 6 .* write a list of numbers or texts",
    "": "one line of text of 1 to 1000 characters",
    "a\n> 1": "one line of text",
    "a > 1" + " " * 1000: "one line of text",
    "1 > 0": "an expression that names a column",
    "a > 1e31": r"at character 5 .* 0, or from 1e-30 to 1e\+30 in size, not '1e31'; write another unit",
    "d > date '2024-02-30'": "at character 10 .* a date that exists",
    "a +": "at character 4 .* a value, not 'the end'",
    "(" * 40 + "a": "at character 34 .* at most 32 brackets",
    " + ".join(["a"] * 70): "at most 64 signs of arithmetic",
}


@pytest.mark.parametrize("text", FAULTS)
def test_a_fault_names_its_place_and_what_to_write(text):
    with pytest.raises(FormulaError, match=FAULTS[text]):
        parse(text)


DOMAINS = {
    "n": Interval(0, 1),
    "day": domain_from({"interval": ["2020-01-01", "2021-01-01"]}),
    "ward": Levels("A", "B"),
    "old": Levels(False, True, derived="n > 1"),
}
KINDS = {
    "ward < 'B'": "at character 6 .* = or != beside a text",
    "n = 'A' and ward = 1 or n = 'x' = true": "at character",
    "ward = 'A' + 1": "at character 8 .* a number",
    "n + 'A' > 2": "at character 5 .* write a number in place of this text",
    "x = y": r"at character 3 .* declare one of them under \[columns\]",
    "ward = x": "a column whose kind is known",
    "day + 1 > 2": r"at character 1 .* a number, and a date is declared, not 'day'; write days\(visit, birth\)",
    "year(n) > 2": "at character 6 .* a date, and a number is declared",
    "year(x + 1) > 2": "at character 8 .* a date",
    "x > 1 and x + 1": "at character 13 .* a truth value in place of this number",
    "true < (x > 1)": "= or != beside a truth value",
    "'a' = 'a' and x > 1": "a column beside texts in quotes",
    "old and x > 1": "at character 1 .* a column of the table, not a derived one",
    "d > 1": "a column of the table, not a derived one",
    "x in (1, 'a')": "at character 10 .* a number, as on the other side",
    "*".join(["x"] * 11) + " > 1": "less multiplied and divided",
    "x = ''": "a level must be of 1 to 100 characters",
}


@pytest.mark.parametrize("text", KINDS)
def test_kinds_are_known_before_any_value(text):
    with pytest.raises(VestryError, match=KINDS[text]):
        check_derived("d", {**DOMAINS, "d": Levels(False, True, derived=text)}, None)


def test_what_is_declared_must_be_what_an_expression_gives():
    fits = {"x > 1": {}, "x + 1": {"interval": [0, 9]}, "month(x)": {"levels": [1, 2]}, "x": {"levels": ["a", "b"]}}
    for text, record in fits.items():
        assert domain_from({"from": text, **record}).to_dict()["from"] == parse(text).text
    assert domain_from({"from": "x > 1"}) == Levels(False, True, derived="x > 1")
    with pytest.raises(InvalidParameter, match=r"a column must be levels .* write"):
        domain_from({"from": "x + 1"})
    binned = domain_from({"from": "x + 1", "interval": [0, 9], "bins": [0, 5, 9], "missing": "level"})
    check_derived("d", {"d": binned}, None)
    assert domain_from(binned.to_dict()) == binned
    beside = {"d": Levels(False, True, derived="x = y"), "y": Interval(0, 9).bins(0, 5, 9)}
    assert readings("d", beside)[0][1] == "number"
    wrong = {"x > 1": Levels("no", "yes"), "x + 1": Levels("a", "b"), "x + 2": DOMAINS["day"], "x > 2": DOMAINS["n"]}
    for text, domain in wrong.items():
        record = {**domain.to_dict(), "from": text}
        with pytest.raises(InvalidParameter, match="the column d must be"):
            check_derived("d", {"d": domain_from(record)}, None)
    with pytest.raises(InvalidParameter, match="the person must be a column of the table"):
        check_derived("d", {"d": Levels(False, True, derived="x > 1")}, "d")
    with pytest.raises(FormulaError, match="not 'int'"):
        domain_from({"from": 3})


def test_declarations_that_change_a_reading_are_part_of_it():
    plain = {"d": Levels(False, True, derived="year(day) = 2020 or ward = 'A'")}
    iso = {**plain, "day": DOMAINS["day"], "ward": DOMAINS["ward"]}
    formatted = domain_from({"interval": ["2020-01-01", "2021-01-01"], "format": "%d.%m.%Y"})
    assert readings("d", plain) == readings("d", iso) == [["day", "date", None, False], ["ward", "text", None, False]]
    assert readings("d", {**iso, "day": formatted})[0] == ["day", "date", "%d.%m.%Y", False]
    assert readings("d", {**iso, "ward": Levels("A", "B", exact=True)})[1] == ["ward", "text", None, True]
    both = {"d": Levels(False, True, derived="x = y")}
    assert readings("d", {**both, "x": DOMAINS["n"]})[0][1] == "number"
    assert readings("d", {**both, "y": DOMAINS["day"]})[0][1] == "date"
    assert sources_of({**iso, "b": Interval(0, 1)}) == {"day": iso["day"], "ward": iso["ward"], "b": Interval(0, 1)}


PIECES = [
    "a",
    '"b c"',
    "'x'",
    "1",
    "0.5",
    "1e9",
    "date '2024-01-31'",
    "year(",
    "days(",
    "(",
    ")",
    ",",
    "and",
    "or",
    "not",
]
PIECES += [
    "in",
    "=",
    "!=",
    "<",
    "<=",
    "+",
    "-",
    "*",
    "/",
    "true",
    " ",
    "'",
    '"',
    "==",
    "%",
    "é",
    "\u2028",
    "\x00",
    ";",
    "--",
]


def gets_a_sentence(text: str) -> None:
    """An expression is read and bound, or refused in one sentence that says what to write."""
    try:
        domains = {
            "d": domain_from({"from": text, **({} if parse(text).root.kind == "truth value" else {"interval": [0, 1]})})
        }
        assert all(part.kind for part in walk(derivation("d", domains))) or parse(text).root.kind is None
    except VestryError as error:
        sentence = str(error)
        assert re.search("; (write|declare)", sentence), sentence
        assert sentence.endswith(".")
        assert "\n" not in sentence
        assert len(sentence) < 400


def fuzzed(seed: int) -> str:
    """Return pieces in a row, or an expression that is right with one piece too many or one too few."""
    rng = Random(seed)
    if rng.random() < 0.5:
        return rng.choice(["", " "]).join(rng.choices(PIECES, k=rng.randrange(1, 12)))
    text = written(rng.choice([number, truth])(rng, 2), rng)
    start = rng.randrange(len(text) + 1)
    return text[:start] + rng.choice(["", *PIECES]) + text[start + rng.choice([0, 0, 1, 4]) :]


@given(text=st.one_of(st.text(max_size=30), st.integers(0, 2**32).map(fuzzed)))
@pytest.mark.long
def test_any_text_gets_a_sentence(text):
    gets_a_sentence(text)


@pytest.mark.slow
def test_ten_thousand_texts_get_a_sentence():
    settings(max_examples=10_000)(
        given(text=st.one_of(st.text(), st.integers(0, 2**32).map(fuzzed)))(gets_a_sentence)
    )()
