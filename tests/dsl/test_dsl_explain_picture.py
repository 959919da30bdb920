"""A run as SVG: bars of tokens, one row a step, branches below their fork."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest
from scripted_traces import chains, gen, thinking

from sgframe_dsl.explain import svg
from sgframe_dsl.trace import Step, Trace
from sgframe_programs.parts import Cost

SVG = "{http://www.w3.org/2000/svg}"
BARS = {"computed", "reused", "sent", "scored", "generated", "forced"}
SCALE = 440 / 1208
"""Pixels a token where the longest bar of ``thinking()`` fills the room for bars."""


def parsed(*traces: Trace) -> ElementTree.Element:
    return ElementTree.fromstring(svg(*traces))


def rows(picture: ElementTree.Element) -> list[ElementTree.Element]:
    return picture.findall(f"{SVG}g")


def texts(element: ElementTree.Element) -> list[str]:
    return ["".join(text.itertext()) for text in element.iter(f"{SVG}text")]


def bars(row: ElementTree.Element) -> list[tuple[str, float, float]]:
    """(kind, where it begins right of the first token, its width) in pixels."""
    found = [rect for rect in row.iter(f"{SVG}rect") if rect.get("class") in BARS]
    return [(rect.attrib["class"], float(rect.attrib["x"]) - 360, float(rect.attrib["width"])) for rect in found]


def near(kind: str, first: int, count: int) -> tuple[str, object, object]:
    """A bar of ``count`` tokens from token ``first`` on."""
    return kind, pytest.approx(first * SCALE, abs=0.1), pytest.approx(count * SCALE, abs=0.1)


def test_each_step_is_a_row_with_its_numbers() -> None:
    assert [texts(row) for row in rows(parsed(thinking()))] == [
        ["gen plan “First”", "100", "0", "20", "0.50 s"],
        ["fork ×2"],
        ["0", "gen thought “a”", "10", "120", "10", "0.25 s"],
        ["1", "gen thought “b”", "10", "120", "12", "0.25 s"],
        ["select good “yes”", "13", "140", "0", "50 ms"],
        ["gen answer “42”", "1,050", "150", "8", "0.45 s"],
    ]


def test_bars_stand_where_their_tokens_do() -> None:
    plan, _, losing, _, select, answer = (bars(row) for row in rows(parsed(thinking())))
    assert plan == [near("computed", 0, 100), near("generated", 100, 20)]
    assert losing[:3] == [near("reused", 0, 120), near("computed", 120, 10), near("generated", 130, 6)]
    assert losing[3][0] == "forced"
    assert [kind for kind, _, _ in select] == ["reused", "computed", "scored"]
    assert answer == [near("reused", 0, 150), near("computed", 150, 1050), near("generated", 1200, 8)]


def test_a_single_token_can_be_seen() -> None:
    (row,) = rows(parsed(Trace("p", [gen("x", Cost(100_000, 99_999, 1))], 1.0)))
    assert [width for _, _, width in bars(row)][1:] == [1.5, 1.5]


def test_branches_hang_where_their_fork_stands() -> None:
    picture = parsed(thinking())
    (line,) = [path for path in picture.iter(f"{SVG}path") if path.get("class") == "guide dashed"]
    x, top, bottom = map(float, re.fullmatch(r"M([\d.]+) (\d+)V(\d+)", line.attrib["d"]).groups())
    assert x == pytest.approx(360 + 120 * SCALE, abs=0.1)
    assert bottom - top == 3 * 20 + 10  # to the end of the third row below the fork


def test_a_shared_text_that_no_step_tells_of_is_known_by_its_reuse() -> None:
    picture = parsed(chains(3))
    (line,) = [path for path in picture.iter(f"{SVG}path") if path.get("class") == "guide dashed"]
    assert line.attrib["d"].startswith(f"M{360 + 440 * 999 / 1050:.1f} ")


def test_the_winner_is_marked_and_the_others_are_dim() -> None:
    _, _, losing, winning, select, _ = rows(parsed(thinking()))
    assert [row.get("class") for row in (losing, winning, select)] == ["lost", "row", "row"]
    assert [circle.get("class") for circle in losing.iter(f"{SVG}circle")] == ["badge"]
    assert [circle.get("class") for circle in winning.iter(f"{SVG}circle")] == ["chosen"]


def test_what_a_branch_forks_is_lost_with_it() -> None:
    inner = Step("fork", "", "p.py:2", 0.0, 1.0, branches=[[gen("x", Cost(9, 0, 1))]], chosen=0)
    outer = Step("fork", "", "p.py:1", 0.0, 1.0, branches=[[inner], []], chosen=1)
    assert [row.get("class") for row in rows(parsed(Trace("p", [outer], 1.0)))] == ["row", "lost", "lost", "row"]


def test_the_legend_names_what_is_there() -> None:
    assert texts(parsed(chains(2)))[:3] == ["computed", "reused", "generated"]
    assert texts(parsed(Trace("p", [gen("x", Cost(5, None, 1))], 1.0)))[:2] == ["sent, reuse not told", "generated"]


def test_reuse_that_is_not_told_is_not_drawn() -> None:
    (row,) = rows(parsed(Trace("p", [gen("x", Cost(5, None, 1))], 1.0)))
    assert texts(row)[1:4] == ["?", "?", "1"]
    assert [kind for kind, _, _ in bars(row)] == ["sent", "generated"]


def test_a_failed_step_says_why() -> None:
    steps = [gen("a", Cost(10, 0, 1)), gen("b", None, error="500 <html>")]
    failed = rows(parsed(Trace("p", steps, 1.0)))[1]
    assert texts(failed) == ["gen b", "failed: 500 <html>"]
    assert bars(failed) == []


def test_an_answer_that_could_not_be_read_says_why_beside_its_cost() -> None:
    (row,) = rows(parsed(Trace("p", [gen("n", Cost(10, 0, 1), "4", error="cut off")], 1.0)))
    assert texts(row) == ["gen n failed: cut off", "10", "0", "1", "0.25 s"]


HOSTILE = "<&\">'\x00\x1b\ud800\ufffe</svg>"


def test_any_text_is_only_text() -> None:
    step = Step("gen", HOSTILE, HOSTILE, 0.0, 1.0, HOSTILE, HOSTILE, Cost(5, 0, 1, cache_reason=HOSTILE))
    picture = parsed(Trace(HOSTILE, [step, gen("x", None, error=HOSTILE)], 1.0))
    assert {element.tag for element in picture.iter()} == {
        SVG + tag for tag in ("svg", "style", "rect", "text", "tspan", "path", "g", "title")
    }
    assert "<&\">'\\x00\\x1b\\ud800\\ufffe</svg>" in texts(picture)


def test_a_row_tells_all_of_its_step_to_the_pointer() -> None:
    step = Step("gen", "x", "p.py:7", 0.0, 1.0, "Q", "A" * 100, Cost(50, 40, 9, cache_reason="evicted"))
    (row,) = rows(parsed(Trace("p", [step], 1.0)))
    tip = "gen x\np.py:7\n10 computed + 40 reused → 9\nevicted\n“Q” → “" + "A" * 100 + "”"
    assert [title.text for title in row.iter(f"{SVG}title")] == [tip]
    assert texts(row)[0].endswith("…")


def test_sixty_branches_stand_below_each_other() -> None:
    picture = parsed(chains(60))
    assert [texts(row)[0] for row in rows(picture)[1:]] == [str(number) for number in range(60)]
    tops = [float(row.find(f"{SVG}circle").attrib["cy"]) for row in rows(picture)[1:]]
    assert tops == [tops[0] + 20 * number for number in range(60)]
    assert int(picture.attrib["height"]) > tops[-1] + 10


def test_forks_in_forks_stay_in_the_room_for_names() -> None:
    steps = [gen("deepest", Cost(9, 0, 1), "x" * 99)]
    for _ in range(20):
        steps = [Step("fork", "", "p.py:1", 0.0, 1.0, branches=[steps])]
    *_, last = rows(parsed(Trace("p", steps, 1.0)))
    name = list(last.iter(f"{SVG}text"))[1]
    assert float(name.attrib["x"]) + 6.7 * len("".join(name.itertext())) < 360


def test_runs_stand_below_each_other_at_one_scale() -> None:
    picture = parsed(thinking(), Trace("q", [gen("x", Cost(604, 0, 0))], 1.0))
    assert bars(rows(picture)[-1]) == [("computed", 0.0, pytest.approx(220, abs=0.1))]
    assert [text for text in texts(picture) if text in ("think", "q")] == ["think", "q"]


def test_nothing_is_a_picture_too() -> None:
    assert texts(parsed(Trace("idle", [], 0.0))) == ["idle", "no calls, 0 ms"]
    assert texts(parsed()) == []


def test_it_needs_nothing_from_elsewhere_and_fits_dark_paper() -> None:
    text = svg(thinking())
    assert "prefers-color-scheme:dark" in text
    assert re.findall(r"https?://[^\"]+|url\(|<script|@import", text) == ["http://www.w3.org/2000/svg"]


def test_a_notebook_shows_it() -> None:
    assert thinking()._repr_html_() == svg(thinking())
