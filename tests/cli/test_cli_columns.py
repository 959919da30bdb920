"""Tables of text in the terminal."""

from __future__ import annotations

from sgframe_cli.columns import columns


def test_each_column_is_as_wide_as_its_longest_cell() -> None:
    assert columns([("A", "LONG", "LAST"), ("abc", "d", "")]) == "A    LONG  LAST\nabc  d"


def test_what_would_break_the_table_or_be_obeyed_by_the_terminal_is_a_blank() -> None:
    assert columns([("two\nlines", "\x1b[31mred", "tab\there")]) == "two lines   [31mred  tab here"
