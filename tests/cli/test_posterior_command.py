"""`vestry posterior`: what it prints for each kind of release."""

from __future__ import annotations

import json

import pytest
from report.example import AWKWARD, drawn, hidden, readmitted, release

from vestry.cli.output import short
from vestry.releases import Draws

STATES = [
    "north  111111222222111111",
    "south  222222111111222222",
    "coast  111111222222111111",
]


@pytest.fixture
def shown(vestry, tmp_path):
    """Print a release's posterior, and fail if that is refused."""

    def run(made, *options):
        (tmp_path / "release.json").write_text(made.text())
        done = vestry("posterior", tmp_path / "release.json", *options)
        assert (done.code, done.err) == (0, "")
        return done.out.splitlines()

    return run


def in_line(lines):
    """Tell whether every line of a table ends where its head ends."""
    return len({len(line) for line in lines}) == 1 and not {line[lines[0].index("parameter") - 1] for line in lines} - {
        " "
    }


def test_columns_are_as_wide_as_their_names(shown):
    head, _, *lines = shown(AWKWARD["twelve long groups"].release)
    assert head == "90 % credible intervals (noise summed out):"
    assert lines[0].split() == ["group", "parameter", "mean", "sd", "low", "high"]
    assert len(lines) == 13
    assert in_line(lines)


def test_a_plug_in_posterior_is_called_so(shown):
    head, _, _, *rows = shown(readmitted, "--plug-in", "--prob", "0.5")
    assert head == "50 % credible intervals (plug-in: not calibrated):"
    assert all(row.endswith("  not calibrated") for row in rows)


@pytest.mark.long
def test_several_releases_are_read_as_one_if_it_is_said_of_whom(vestry, tmp_path):
    """Two of the same people say more than one, and of other people more than that; what cannot be known is asked."""
    files = [tmp_path / f"{name}.json" for name in ("spring", "autumn")]
    for file in files:
        file.write_text(readmitted.text())
    same, other = (vestry("posterior", *files, "--json", f"--{whom}-people") for whom in ("same", "other"))
    alone = json.loads(vestry("posterior", files[0], "--json").out)["rows"]
    widths = [[row["high"] - row["low"] for row in json.loads(each.out)["rows"]] for each in (other, same)]
    for narrow, wider, row in zip(*widths, alone, strict=True):
        assert narrow < wider < row["high"] - row["low"]
    told = vestry("posterior", *files, "--other-people", "--draws", tmp_path / "draws.nc")
    assert told.out.splitlines()[0] == "2 releases, of other people each."
    assert (tmp_path / "draws.nc").exists()
    for options, sentence in (
        ([], "--same-people or --other-people must be said: releases do not tell"),
        (["--same-people", "--plug-in"], "an option must be omitted for several releases, not '--plug-in'"),
        (["--same-people", "--pool"], "not '--pool'"),
        (["--same-people", "--states", "2"], "not '--states'"),
    ):
        refused = vestry("posterior", *files, *options)
        assert refused.code == 2
        assert sentence in refused.err
    assert "said of several releases" in vestry("posterior", files[0], "--same-people").err


@pytest.mark.long
def test_hidden_states_have_a_map(shown):
    pytest.importorskip("numba")
    lines = shown(hidden())
    assert lines[0] == "90 % credible intervals (Markov chain, noise summed out: not calibrated):"
    table, told = lines[2:13], lines[14:]
    assert all(row.endswith("  not calibrated") for row in table[1:])
    assert in_line([row.removesuffix("  not calibrated") for row in table])
    assert table[1].startswith("state 1  probability[type: find]")
    assert told[0] == "The most probable state of each cell; 0 of 54 cells are unsure (below 90 %)."
    assert told[2:] == ["       2024-01 to 2024-18", *STATES]
    assert max(map(len, told)) <= 80


@pytest.mark.long
def test_a_long_map_is_folded(shown):
    pytest.importorskip("numba")
    lines = shown(hidden(100), "--sweeps", "40")
    assert max(map(len, lines[14:])) <= 80
    assert [line.strip() for line in lines if " to 2024" in line] == ["2024-01 to 2024-73", "2024-74 to 2024-100"]
    north = "".join(line.split()[1] for line in lines if line.startswith("north"))
    assert north == ("111111222222" * 9)[:100]


@pytest.mark.long
def test_the_record_has_the_map(shown):
    pytest.importorskip("numba")
    found = json.loads("".join(shown(hidden(), "--json")))
    assert found["posterior"] == "noise-aware"
    assert ["".join(map(str, row)) for row in found["states"].values()] == [line[7:] for line in STATES]


@pytest.mark.parametrize(
    ("made", "said", "row"),
    [
        (drawn, "no interval: 5 draws are all that was released:", ["0.1721", "0.2034", "0.1466", "0.1893", "0.1659"]),
        (release(Draws(((0.25,),)), drawn.certificate), "no interval: one draw is all that was released:", ["0.25"]),
        (
            release(Draws(((0.25,),) * 7), drawn.certificate),
            "no interval: 7 draws are all that was released; the first 5:",
            ["0.25"] * 5,
        ),
    ],
    ids=["five", "one", "seven"],
)
def test_released_draws_are_shown_as_they_are(shown, made, said, row):
    lines = shown(made)
    assert lines[0] == said
    assert in_line(lines[1:])
    assert lines[2].split() == ["all", "probability", *row]
    values = json.loads("".join(shown(made, "--json")))["rows"][0]["values"]
    assert values == [draw[0] for draw in made.contents["all"].values]


def test_large_numbers_are_written_whole():
    assert [short(x) for x in (38_034.4, -12_345.6, 9_999.4, 0.000123456, 1e15, 0.0)] == [
        "38034", "-12346", "9999", "0.0001235", "1e+15", "0",
    ]  # fmt: skip
    assert short(99_999.4, 5) == "99999"
    assert short(38_034.4, 5) == "38034"
