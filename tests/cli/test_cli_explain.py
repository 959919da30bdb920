"""``sgframe explain``: runs a program as Python would, and draws the runs it made."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner, Result

import sgframe_cli.explain
from sgframe_cli.group import main

URL = "http://127.0.0.1:9"
HEAD = """\
import sys
from sgframe_dsl.errors import ProgramError
from sgframe_dsl.runs import finished
from sgframe_dsl.trace import Step, Trace
from sgframe_programs.parts import Cost

def run(name, prompt=10, cached=4):
    finished(Trace(name, [Step("gen", "x", "p.py:1", 0.0, 0.5, "", "<b>", Cost(prompt, cached, 2))], 0.5))
"""


class Backend:
    """Stands for a server or an engine; knows how it was made and whether it was closed."""

    made: list[Backend]

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self.arguments, self.options, self.closed = arguments, options, False
        self.made.append(self)

    def close(self) -> None:
        self.closed = True


@pytest.fixture(autouse=True)
def language(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """What the command sets: ``defaults`` are, one after the other, the backends of programs that name none."""
    Backend.made = []
    language = SimpleNamespace(Server=Backend, defaults=[])
    language.set_default_backend = language.defaults.append
    monkeypatch.setattr(sgframe_cli.explain, "sgf", language)
    monkeypatch.delenv("SGFRAME_API_KEY", raising=False)
    return language


@pytest.fixture
def explain(tmp_path: Path) -> Any:
    """Writes a program and explains it."""

    def explain(body: str, *words: object, url: str | None = URL) -> Result:
        program = tmp_path / "p.py"
        program.write_text(HEAD + body)
        server = [] if url is None else ["--url", url]
        return CliRunner().invoke(main, ["explain", str(program), *server, *map(str, words)])

    return explain


def test_every_run_is_drawn_and_their_sum(explain: Any) -> None:
    result = explain("print('said'); run('one'); run('two', 100, 50)")
    assert result.exit_code == 0
    assert result.stdout == (
        "said\n"
        "one  6 prompt tokens computed, 10 without sharing (1.7×), 2 generated, 1 call, 0.50 s\n"
        "└── gen  x  6 computed + 4 reused → 2  0.50 s  p.py:1\n"
        "    “<b>”\n"
        "two  50 prompt tokens computed, 100 without sharing (2.0×), 2 generated, 1 call, 0.50 s\n"
        "└── gen  x  50 computed + 50 reused → 2  0.50 s  p.py:1\n"
        "    “<b>”\n"
        "2 runs: 56 prompt tokens computed, 110 without sharing (2.0×), 4 generated, 2 calls, 1.00 s\n"
    )


def test_the_limit_bounds_what_is_drawn_and_not_the_sum(explain: Any, tmp_path: Path) -> None:
    result = explain("for n in range(5): run(f'run{n}')", "--limit", 2, "--svg", tmp_path / "p.svg")
    assert "run1  6 prompt" in result.stdout
    assert "run2  6 prompt" not in result.stdout
    assert "5 runs, the first 2 drawn: 30 prompt tokens computed" in result.stdout
    assert "run2" not in (tmp_path / "p.svg").read_text()


def test_the_program_is_main_with_its_own_words_and_neighbours(explain: Any, tmp_path: Path) -> None:
    (tmp_path / "beside_p.py").write_text("VALUE = 'beside'\n")
    argv, path = sys.argv, sys.path[:]
    result = explain(
        "import beside_p\nif __name__ == '__main__': print(sys.argv[1:], beside_p.VALUE); run('r')",
        "--",
        "a",
        "--limit",
    )
    assert result.stdout.startswith("['a', '--limit'] beside\n")
    assert sys.argv is argv
    assert sys.path == path


def test_a_picture_and_a_page(explain: Any, tmp_path: Path) -> None:
    result = explain("run('one')", "--svg", tmp_path / "p.svg", "--html", tmp_path / "p.html")
    assert result.exit_code == 0
    assert (tmp_path / "p.svg").read_text().startswith("<svg ")
    page = (tmp_path / "p.html").read_text()
    assert page.startswith("<!doctype html>")
    assert "&lt;b&gt;" in page


# ------------------------------------------------------------------------------------------ what it runs on


def test_a_server_is_the_default_backend_and_closed_at_the_end(
    explain: Any, language: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    explain("run('r')", "--api-key", "given")
    monkeypatch.setenv("SGFRAME_API_KEY", "of the environment")
    explain("run('r')")
    assert [(server.arguments, server.options) for server in Backend.made] == [
        ((URL,), {"api_key": "given"}),
        ((URL,), {"api_key": "of the environment"}),
    ]
    assert all(server.closed for server in Backend.made)
    assert language.defaults == [Backend.made[0], None, Backend.made[1], None]


def test_without_a_server_it_is_an_engine_of_these_settings(
    explain: Any, language: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sgframe_cli.explain.Engine, "start", Backend)
    result = explain("run('r')", "--backend", "simulated", "--max-running", "3", url=None)
    assert result.exit_code == 0, result.output
    (engine,) = Backend.made
    assert (engine.arguments[0].backend, engine.arguments[0].max_running) == ("simulated", 3)
    assert language.defaults == [engine, None]
    assert engine.closed


def test_runs_that_the_closing_backend_ends_are_drawn(explain: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from sgframe_dsl.runs import finished
    from sgframe_dsl.trace import Trace

    monkeypatch.setattr(Backend, "close", lambda self: finished(Trace("late")))
    assert "late  no calls, 0 ms" in explain("run('r')").stdout


@pytest.mark.parametrize("words", [("--model", "m"), ("--set", "lpm.a=1"), ("--plugin", "lpm"), ("--config", "f.toml")])
def test_settings_of_an_engine_mean_nothing_to_a_server(explain: Any, words: tuple[str, str]) -> None:
    result = explain("run('r')", *words)
    assert result.exit_code == 2
    assert f"{words[0]} means nothing to a server that runs already" in result.stderr


def test_a_key_without_a_server_is_refused(explain: Any) -> None:
    result = explain("run('r')", "--api-key", "k", url=None)
    assert result.exit_code == 2
    assert "name it by --url" in result.stderr


# ------------------------------------------------------------------------------------------ what goes wrong


def test_no_such_program() -> None:
    result = CliRunner().invoke(main, ["explain", "nowhere.py", "--url", URL])
    assert (result.exit_code, result.stderr) == (
        2,
        "Error: nowhere.py: there is no such file; name the Python file of a program\n",
    )
    assert Backend.made == []


def test_nowhere_to_draw_is_said_before_anything_runs(explain: Any, tmp_path: Path) -> None:
    result = explain("print('ran')", "--svg", tmp_path / "no" / "p.svg")
    assert result.exit_code == 2
    assert "there is no folder" in result.stderr
    assert "ran" not in result.stdout


def test_a_file_that_cannot_be_written_is_said_after_the_drawing(explain: Any, tmp_path: Path) -> None:
    result = explain("run('r')", "--html", tmp_path)
    assert result.exit_code == 2
    assert "cannot be written" in result.stderr
    assert "r  6 prompt" in result.stdout


def test_a_program_that_makes_no_run(explain: Any, tmp_path: Path) -> None:
    result = explain("x = 1", "--svg", tmp_path / "p.svg")
    assert result.exit_code == 1
    assert "made no run" in result.stderr
    assert not (tmp_path / "p.svg").exists()


def test_a_program_that_fails_is_drawn_as_far_as_it_came(explain: Any) -> None:
    result = explain("run('before')\nraise ProgramError('no answer', 'p.py:12', 's += gen()')")
    assert result.exit_code == 1
    assert "before  6 prompt" in result.stdout
    assert result.stderr == "Error: p.py:12: s += gen()\n  no answer\n"
    assert Backend.made[0].closed


def test_a_programs_own_error_has_its_own_traceback_only(explain: Any, tmp_path: Path) -> None:
    result = explain("def f(): 1 / 0\nf()")
    assert result.exit_code == 1
    assert result.stderr.startswith(f'Traceback (most recent call last):\n  File "{tmp_path / "p.py"}", line 10')
    assert result.stderr.endswith("ZeroDivisionError: division by zero\n")
    assert "runpy" not in result.stderr
    assert "made no run" not in result.stderr


def test_a_program_that_does_not_parse(explain: Any) -> None:
    result = explain("run(")
    assert result.exit_code == 1
    assert "SyntaxError: '(' was never closed" in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize(
    ("end", "code", "said"),
    [
        ("sys.exit()", 0, ""),
        ("sys.exit(3)", 3, ""),
        ("sys.exit('bad word')", 1, "bad word\n"),
        ("raise KeyboardInterrupt", 130, ""),
    ],
)
def test_a_program_that_ends_itself_is_drawn_and_keeps_its_exit_code(
    explain: Any, end: str, code: int, said: str
) -> None:
    result = explain(f"run('before')\n{end}")
    assert (result.exit_code, result.stderr) == (code, said)
    assert "before  6 prompt" in result.stdout
