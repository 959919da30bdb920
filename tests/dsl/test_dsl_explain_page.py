"""Runs as one HTML page: each picture, and a table of its steps."""

from __future__ import annotations

import re
from html import unescape
from html.parser import HTMLParser

from scripted_traces import chains, gen, thinking

from sgframe_dsl.explain import html, svg
from sgframe_dsl.trace import Step, Trace
from sgframe_programs.parts import Cost


def table(*traces: Trace) -> list[list[str]]:
    """The cells of all rows, without headings."""
    rows = re.findall(r"<tr[^>]*>(.*)</tr>", html(*traces))
    found = [re.findall(r"<td[^>]*>(.*?)</td>", row) for row in rows]
    return [[unescape(cell) for cell in row] for row in found if row]


class Tags(HTMLParser):
    """The tags of a page outside its pictures, and how deep it is nested at its end."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.found: set[str] = set()
        self.feed(re.sub(r"<svg.*?</svg>", "", page, flags=re.DOTALL))

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.found.add(tag)
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_table_has_every_step() -> None:
    assert table(thinking()) == [
        [
            *("gen plan", "think.py:9", "Q: why?\\n", "First", ""),
            *("100", "0", "100", "20", "0", "0 ms", "0.50 s"),
        ],
        ["fork ×2", "think.py:12", "", "", "", "", "", "", "", "", "0.50 s", "0.30 s"],
        ["    0 gen thought", "think.py:14", "", "a", "", "130", "120", "10", "10", "4", "0 ms", "0.25 s"],
        ["    1 ✓ gen thought", "think.py:14", "", "b", "", "130", "120", "10", "12", "0", "0 ms", "0.25 s"],
        ["    select good", "think.py:15", "Good?", "yes", "", "150", "140", "13", "0", "0", "0.75 s", "50 ms"],
        ["gen answer", "think.py:20", "So", "42", "", "1,200", "150", "1,050", "8", "0", "0.80 s", "0.45 s"],
    ]


def test_it_says_why_no_more_was_reused_and_what_is_not_told() -> None:
    told, untold = table(
        Trace("p", [gen("x", Cost(50, 40, 9, cache_reason="evicted")), gen("y", Cost(5, None, 1))], 1.0)
    )
    assert told[4:8] == ["evicted", "50", "40", "10"]
    assert untold[4:8] == ["", "5", "?", "?"]


def test_a_failed_step_says_why_instead_of_an_answer() -> None:
    page = html(Trace("p", [Step("gen", "x", "p.py:3", 0.5, error="500 <html>")], 1.0))
    assert '<tr class="fault"><td class="text">gen x</td>' in page
    assert table(Trace("p", [Step("gen", "x", "p.py:3", 0.5, error="500 <html>")], 1.0)) == [
        ["gen x", "p.py:3", "", "failed: 500 <html>", "", "", "", "", "", "", "0.50 s", ""]
    ]


def test_each_run_has_its_picture_and_the_page_has_the_sum() -> None:
    page = html(thinking(), chains(2))
    assert svg(thinking()) in page
    assert svg(chains(2)) in page
    assert "<title>think, chains</title>" in page
    assert (
        "<p>2 runs: 2,184 prompt tokens computed, 3,713 without sharing (1.7×), 150 generated, 7 calls, 2.25 s</p>"
        in page
    )


def test_a_run_without_steps_has_no_table() -> None:
    page = html(Trace("idle", [], 0.0))
    assert "<p>1 run: no calls, 0 ms</p>" in page
    assert "<table>" not in page


def test_any_text_is_only_text_and_the_page_is_well_formed() -> None:
    hostile = "<script>&\"'\x00</table>"
    step = Step("gen", hostile, hostile, 0.0, 1.0, hostile, hostile, Cost(5, 0, 1, cache_reason=hostile))
    tags = Tags(html(Trace(hostile, [step], 1.0)))
    assert tags.open == []
    assert "script" not in tags.found
    assert table(Trace("p", [step], 1.0))[0][0] == "gen <script>&\"'\\x00</table>"


def test_it_needs_nothing_from_elsewhere() -> None:
    assert re.findall(r"https?://[^\"]+|url\(|<script|<link|@import| src=", html(thinking())) == [
        "http://www.w3.org/2000/svg"
    ]
