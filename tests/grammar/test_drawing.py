"""Pictures of automata: that everything is in them, readable, and what the command refuses."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import click
import pytest
from click.testing import CliRunner, Result

from sgframe.errors import ConfigError
from sgframe_fsm.automata import drawing_command
from sgframe_fsm.automata.automaton import explore
from sgframe_fsm.automata.drawing.formats import dot, svg
from sgframe_fsm.automata.drawing.labels import LONGEST, text_of
from sgframe_fsm.automata.drawing.picture import RADIUS, Picture, picture_of, stacked
from sgframe_fsm.errors import GrammarTooLarge
from sgframe_fsm.expressions.store import Expr, Store

SVG = "{http://www.w3.org/2000/svg}"


def label_of(data: bytes) -> str:
    return text_of(tuple(1 << byte for byte in data))


def set_label(*ranges: tuple[int, int]) -> str:
    return text_of((sum(1 << byte for first, last in ranges for byte in range(first, last + 1)),))


def test_a_run_is_written_as_text_with_blanks_made_visible() -> None:
    assert label_of('"é": \n'.encode()) == '"é":␣\\n'


def test_bytes_that_are_no_text_are_written_as_numbers() -> None:
    assert label_of(b"a\xff\x00") == "a\\xff\\x00"


def test_a_set_is_written_as_in_a_regular_expression() -> None:
    assert set_label((0x30, 0x39), (0x5F, 0x5F)) == "[0-9_]"
    assert set_label((0, 0x21), (0x23, 0xFF)) == '[^"]'
    assert set_label((0x5B, 0x5D), (0x80, 0xBF)) == "[\\[-\\]\\x80-\\xbf]"


def test_a_long_label_loses_its_middle() -> None:
    text = label_of(b"a" * 50 + b"b" * 50)
    assert (len(text), text[0], text[-1]) == (LONGEST, "a", "b")


def words(store: Store) -> Expr:
    return store.union(map(store.literal, (b"hello", b"help", b"hold")))


def digits_then(store: Store, end: bytes) -> Expr:
    return store.sequence([store.repeat(store.byte_set(0x3FF << 48), 0, None), store.literal(end)])


def picture(build: Expr, store: Store) -> Picture:
    return picture_of(explore(store, build, 1000), "a title")


def test_every_state_and_edge_is_drawn() -> None:
    store = Store()
    drawn = picture(words(store), store)
    assert sorted(circle.name for circle in drawn.circles) == [*"01234567"]
    assert sum(circle.accepting for circle in drawn.circles) == 1
    assert sorted(text.text for text in drawn.texts if not text.title) == [*"dehllloop"]


def test_states_do_not_touch_and_all_lies_inside() -> None:
    store = Store()
    drawn = picture(words(store), store)
    centers = [circle.center for circle in drawn.circles]
    assert all(
        abs(x - other_x) + abs(y - other_y) > 2 * RADIUS
        for x, y in centers
        for other_x, other_y in centers
        if (x, y) != (other_x, other_y)
    )
    assert all(RADIUS <= x <= drawn.width - RADIUS and RADIUS <= y <= drawn.height - RADIUS for x, y in centers)


def test_edges_lead_to_the_right_unless_they_close_a_circle() -> None:
    store = Store()
    drawn = picture(store.repeat(digits_then(store, b"xy"), 1, None), store)
    rightwards = [curve for curve in drawn.curves if curve.points[0][0] < curve.points[-1][0] - 2 * RADIUS]
    assert len(drawn.curves) - len(rightwards) == 4


def test_the_same_automaton_gives_the_same_picture() -> None:
    first, second = Store(), Store()
    assert svg(picture(words(first), first)) == svg(picture(words(second), second))


def test_an_svg_is_well_formed_and_escapes_labels() -> None:
    store = Store()
    root = ElementTree.fromstring(svg(picture(store.literal(b"<&"), store)))
    assert [text.text for text in root.iter(f"{SVG}text")] == ["0", "1", "2", "<", "&", "a title"]
    assert len(list(root.iter(f"{SVG}circle"))) == 4  # three states, the last with a second ring


def test_pictures_are_stacked_one_below_the_other() -> None:
    store = Store()
    one = picture(words(store), store)
    two = stacked([one, one])
    assert (two.width, two.height, len(two.circles)) == (one.width, 2 * one.height, 2 * len(one.circles))


def test_too_many_states_are_refused() -> None:
    store = Store()
    with pytest.raises(GrammarTooLarge, match="201 states cannot be read as a picture; the limit is 150"):
        picture(store.literal(b"a" * 200), store)


def test_dot_names_states_and_quotes_labels() -> None:
    store = Store()
    text = dot([("one", explore(store, store.literal(b'"\\'), 10))])
    assert 's0_0 -> s0_1 [label="\\""];' in text
    assert 's0_1 -> s0_2 [label="\\\\"];' in text
    assert 's0_2 [label="2", shape=doublecircle];' in text


@click.group()
def cli() -> None: ...


drawing_command.add(cli)


def draw(*options: str) -> Result:
    return CliRunner().invoke(cli, ["grammar", "draw", *options])


def test_the_command_draws_before_and_after_compression(tmp_path: Path) -> None:
    file = tmp_path / "words.svg"
    result = draw("--choice", "hello", "--choice", "help", "--choice", "hold", "-o", str(file))
    assert result.stdout == f"{file}: minimised, 8 states; compressed, 4 states\n"
    assert re.findall(r">(el|old|lo|hello)<", file.read_text()) == ["el", "old", "lo"]


@pytest.mark.parametrize(("stage", "states"), [("raw", 4), ("minimised", 3), ("compressed", 3)])
def test_a_stage_can_be_drawn_alone(tmp_path: Path, stage: str, states: int) -> None:
    result = draw("--regex", "x[01]|y0|y1", "--stage", stage, "-o", str(tmp_path / "a.dot"))
    assert result.stdout.endswith(f"{stage}, {states} states\n")


def test_a_schema_is_read_from_a_file_or_as_text(tmp_path: Path) -> None:
    schema = tmp_path / "schema.json"
    schema.write_text('{"type": "boolean"}')
    results = [
        draw("--json-schema", given, "-o", str(tmp_path / "a.svg")).stdout
        for given in (str(schema), schema.read_text())
    ]
    assert results[0] == results[1] == f"{tmp_path / 'a.svg'}: minimised, 8 states; compressed, 2 states\n"


@pytest.mark.slow
def test_a_png_is_drawn_with_matplotlib(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    assert draw("--regex", "ab", "-o", str(tmp_path / "a.png")).exit_code == 0
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--regex", "a", "-o", "a.gif"], "drawn as .svg, .png, .dot, found '.gif'"),
        (["--regex", "a", "-o", "nowhere/a.svg"], "no folder nowhere"),
        (["--json-schema", "nowhere.json"], "nowhere.json cannot be read"),
        (["--json-schema", " "], "--json-schema is empty"),
        (["--regex", "a("], "a group that is not closed"),
        (["--regex", "a{300}"], "cannot be read as a picture"),
    ],
)
def test_what_cannot_be_drawn_is_refused(options: list[str], message: str, tmp_path: Path) -> None:
    output = [] if "-o" in options else ["-o", str(tmp_path / "a.svg"), "--stage", "raw"]
    error = draw(*options, *output).exception
    assert isinstance(error, ConfigError)
    assert message in str(error)


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.svg").mkdir()
    error = draw("--regex", "a", "-o", str(tmp_path / "a.svg")).exception
    assert isinstance(error, ConfigError)
    assert "a.svg cannot be written (Is a directory)" in str(error)


def test_exactly_one_grammar_is_drawn() -> None:
    assert "say one of --regex, --json-schema and --choice" in draw("--regex", "a", "--choice", "b").stderr
