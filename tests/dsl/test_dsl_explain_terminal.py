"""A run in the terminal: a tree of its steps, each with what it computed, reused and gave."""

from __future__ import annotations

import pytest
from rich.console import Console
from scripted_traces import chains, gen, thinking

from sgframe_dsl.explain import render
from sgframe_dsl.trace import Step, Trace
from sgframe_programs.parts import Cost


def printed(trace: object, width: int = 200) -> str:
    console = Console(width=width, color_system=None)
    with console.capture() as captured:
        console.print(trace)
    return "\n".join(line.rstrip() for line in captured.get().splitlines())


def drawn(*steps: Step) -> str:
    return printed(render(Trace("p", [*steps], 1.0))).partition("\n")[2]


def test_a_run_is_a_tree_of_its_steps() -> None:
    assert printed(render(thinking())) == (
        """\
think  1,183 prompt tokens computed, 1,713 without sharing (1.4×), 50 generated, 5 calls, 1.25 s
├── gen  plan  100 computed + 0 reused → 20  0.50 s  think.py:9
│   “Q: why?\\n” → “First”
├── fork  ×2  think.py:12
│   ├── branch 0
│   │   └── gen  thought  10 computed + 120 reused → 10 (4 forced)  0.25 s  think.py:14
│   │       “a”
│   └── branch 1  ✓ chosen
│       ├── gen  thought  10 computed + 120 reused → 12  0.25 s  think.py:14
│       │   “b”
│       └── select  good  10 computed + 140 reused + 3 scored  50 ms  think.py:15
│           “Good?” → “yes”
└── gen  answer  1,050 computed + 150 reused → 8  0.45 s  think.py:20
    “So” → “42”"""
    )


def test_the_trace_prints_itself() -> None:
    assert printed(thinking()) == printed(render(thinking()))


def test_a_run_without_calls_is_its_name() -> None:
    assert printed(render(Trace("idle", [], 0.004))) == "idle  no calls, 4 ms"


def test_what_failed_says_why_on_one_line() -> None:
    step = gen("x", None, error="http://h: 500\n  <html>\x1b[31m", line="p.py:3")
    assert drawn(step) == "└── gen  x  failed: http://h: 500 <html>\\x1b[31m  p.py:3"


def test_what_was_cut_short_is_not_finished() -> None:
    assert drawn(Step("gen", "x", "p.py:3", 0.5)) == "└── gen  x  not finished  p.py:3"


def test_a_branch_that_asks_nothing_is_shown() -> None:
    fork = Step("fork", "judge", "p.py:3", 0.0, 0.1, branches=[[]])
    assert drawn(fork) == "└── fork  ×1 judge  p.py:3\n    └── branch 0  asked nothing"


def test_a_backend_that_tells_no_reuse_is_not_said_to_have_computed_anything() -> None:
    text = printed(render(Trace("p", [gen("x", Cost(70, None, 5))], 1.0)))
    assert text == (
        "p  70 prompt tokens, of which the backend does not tell what it reused, 5 generated, 1 call, 1.00 s\n"
        "└── gen  x  70 prompt → 5  0.25 s  p.py:1"
    )


@pytest.mark.parametrize("answer", ["\x1b[2J", "a\r\nb", "\u202e"])
def test_a_model_cannot_command_the_terminal(answer: str) -> None:
    text = drawn(gen("x", Cost(1, 0, 1), answer))
    assert answer not in text
    assert repr(answer)[1:-1] in text


def test_markup_in_an_answer_is_text() -> None:
    assert "“[bold]x[/bold]”" in drawn(gen("x", Cost(1, 0, 1), "[bold]x[/bold]"))


def test_a_long_line_loses_its_end() -> None:
    lines = printed(render(Trace("p", [gen("x", Cost(1, 0, 1), "word " * 40)], 1.0)), width=60).splitlines()
    assert [len(line) for line in lines] == [60, 53, 60]
    assert lines[2].endswith("…")


def test_sixty_branches_are_sixty_branches() -> None:
    text = printed(render(chains(60)))
    assert text.startswith(
        "chains  1,059 prompt tokens computed, 60,000 without sharing (56.7×), 3,000 generated, 60 calls"
    )
    assert text.count("1 computed + 999 reused → 50") == 59
