"""What docs/programs.md tells the reader to write, run from top to bottom on a simulated model: that says nothing sensible,
but what a program makes of it is as the page says."""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner
from pages import HOUSE, blocks, commands, table

import sgframe_dsl as sgf
from sgframe import Engine
from sgframe.assembly.settings import Settings
from sgframe_cli.group import main

PAGE = "docs/programs.md"
TEXT = (HOUSE / PAGE).read_text()
PICTURE = HOUSE / "docs" / "tree-of-thought.svg"


class Ran(NamedTuple):
    """What a block of code printed, and the page's names after it."""

    printed: str
    names: dict[str, Any]


class Page(dict[str, Ran]):
    """The blocks of code, to be found by a part of their text."""

    def __missing__(self, part: str) -> Ran:
        (text,) = (text for text in self if part in text)
        return self[text]


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    folder, ran = tmp_path_factory.mktemp("page"), Page()
    names: dict[str, Any] = {"__name__": "__main__"}
    with Engine(model="simulated", backend="simulated", source="simulated", transport="inproc") as engine:
        for number, (_, text) in enumerate(blocks(PAGE, "python")):
            file = folder / f"block{number}.py"  # errors quote their line
            file.write_text(text)
            output = io.StringIO()
            with contextlib.redirect_stdout(output), contextlib.redirect_stderr(io.StringIO()):
                exec(compile(text, file, "exec"), names)
            ran[text] = Ran(output.getvalue(), dict(names))
            sgf.set_default_backend(engine)  # the page names a server first, which is reached only by a run
        yield ran
        sgf.set_default_backend(None)


# ------------------------------------------------------------------------------------------ code of the page


def test_a_program_writes_its_text_and_keeps_its_variables(page: Page) -> None:
    printed, names = page["def capital"]
    state = names["state"]
    assert state.text() == f"The capital of France is{state['city']}. People of France speak{state['language']}"
    assert printed == f"{state['city']} {state['language']}\n{state.text()}\n"


def test_a_batch_a_stream_and_a_partial_program_say_the_same(page: Page) -> None:
    city = page["def capital"].names["state"]["city"]
    text = f"The capital of Italy is{city}. People of Italy speak{city}"
    assert page["capital.run_batch("].printed == f"{city}\n" * 3 + f"{text}{city}\n"


def test_values_are_what_their_text_stands_for(page: Page) -> None:
    _, names = page["def forms"]
    state = names["state"]
    assert isinstance(state["age"], int)
    assert re.fullmatch("[0-9]{5}", state["code"])
    assert state["stage"] in ("a child", "grown up", "old")
    assert isinstance(state["person"], names["Person"])
    assert len(state["ways"]) == 3


def test_select_goes_on_with_the_choice_of_the_best_score(page: Page) -> None:
    state = page["def mood"].names["state"]
    scores = state.meta("mood").scores
    assert list(scores) == [" happy", " unhappy", " hard to tell"]
    assert state["mood"] == max(scores, key=scores.__getitem__)


def test_a_chat_has_its_turns(page: Page) -> None:
    turns = [message["role"] for message in page["def tutor"].names["state"].messages()]
    assert turns == ["system", "user", "assistant", "user", "assistant"]


def test_joined_branches_stand_behind_each_other(page: Page) -> None:
    state = page["def advise"].names["state"]
    friend, doctor, cat = state["tip"]
    said = f"\na friend:{friend}\na doctor:{doctor}\na cat:{cat}\nThe best of them:{state['best']}"
    assert state.text() == f"Three tips on sleeping, by{said}"


def test_best_of_n_asks_for_n_answers_and_one_judgement(page: Page) -> None:
    state = page["def best_of"].names["best_of"].run("How?", n=4)
    steps = [(step.kind, step.name) for step in state.trace().walk()]
    assert steps.count(("gen", "answer")) == 4
    assert steps.count(("select", "choice")) == 1


def test_tree_of_thought_goes_on_from_the_most_promising_step(page: Page) -> None:
    state = page["def tree_of_thought"].names["tree_of_thought"].run("Plan.", depth=2, breadth=3)
    forks = [step for step in state.trace().steps if step.kind == "fork"]
    assert [len(fork.branches) for fork in forks] == [3, 3]
    assert all(fork.chosen in range(3) for fork in forks)


def test_best_of_n_and_tree_of_thought_take_some_twenty_lines() -> None:
    for name in ("best_of", "tree_of_thought"):
        (block,) = (text for _, text in blocks(PAGE, "python") if f"def {name}(" in text)
        assert len(list(filter(None, block.splitlines()))) <= 20, name


def test_a_trace_counts_fewer_tokens_computed_than_without_sharing(page: Page) -> None:
    calls, unshared, computed, _ = map(int, page["trace.calls"].printed.split())
    assert calls == 4, "advise, the last that was kept"
    assert computed < unshared


def test_an_error_names_the_line_that_asked(page: Page) -> None:
    first, cause = page["def broken"].printed.splitlines()
    assert re.fullmatch(r'block\d+\.py:3 s \+= "A number: " \+ sgf\.gen\("number", regex="\[0-9"\)', first)
    assert "a class that is not closed" in cause


# ------------------------------------------------------------------------------------------ what else the page says


def test_the_settings_of_leases_have_the_defaults_of_the_table() -> None:
    for name, default, _ in table(PAGE, "| setting | default | |"):
        assert f"{getattr(Settings(), name.strip('`')):g}" == default


def test_the_picture_is_what_the_command_draws_of_the_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of each run anew: the answers differ, the steps do not. When drawing has changed, run the command again."""
    monkeypatch.chdir(tmp_path)
    (block,) = (text for _, text in blocks(PAGE, "python") if text.startswith("# tree_of_thought.py\n"))
    Path("tree_of_thought.py").write_text(block)
    (command,) = (line for line in commands(PAGE) if line.startswith("sgframe explain "))
    simulated = ("--model", "simulated", "--backend", "simulated", "--source", "simulated", "--transport", "inproc")
    done = CliRunner().invoke(main, [*command.split()[1:], *simulated])
    assert done.exit_code == 0, done.output
    assert "](tree-of-thought.svg)" in TEXT
    assert names(Path("tree-of-thought.svg")) == names(PICTURE) == ["thought", "good"] * 6 + ["answer"]


def names(picture: Path) -> list[str]:
    """Of the variables that a picture shows, from top to bottom."""
    texts = [element.text or "" for element in ElementTree.parse(picture).iter()]
    return [text.strip() for text in texts if text.strip() in ("thought", "good", "answer")]
