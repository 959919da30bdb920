"""``sgframe generate`` and ``sgframe chat``, on the simulated backend, which repeats its prompt."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

from sgframe.front.outputs import Usage
from sgframe_cli.chat import cost_line

SIMULATED = ["--backend", "simulated", "--source", "simulated", "--model", "simulated"]


def sgframe(*arguments: str, text: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "sgframe", *arguments],
        check=False,
        input=text,
        capture_output=True,
        text=True,
        timeout=60,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )


def test_generate_continues_the_prompt_and_prints_nothing_else() -> None:
    done = sgframe("generate", "abc", *SIMULATED, "--max-tokens", "8")
    assert (done.stdout, done.stderr, done.returncode) == ("abcabc\n", "", 0)


def test_generate_reads_standard_input() -> None:
    assert sgframe("generate", *SIMULATED, "--max-tokens", "4", text="xyz").stdout == "xyz\n"
    assert sgframe("generate", "-", *SIMULATED, "--max-tokens", "4", text="xyz").stdout == "xyz\n"


def test_generate_stops_at_a_string() -> None:
    assert sgframe("generate", "hello", *SIMULATED, "--stop", "lo").stdout == "hel\n"


def test_generate_answers_by_a_constraint() -> None:
    done = sgframe("generate", "abc", *SIMULATED, "--grammar", "compressed-fsm", "--regex", "x[ab]{3}y")
    assert re.fullmatch(r"x[ab]{3}y\n", done.stdout)


@pytest.mark.parametrize(
    ("option", "value", "words"),
    [
        ("--temperature", "-1", "temperature must be"),
        ("--max-tokens", "9999", "9999"),
        ("--top-p", "0", "top_p must be"),
    ],
)
def test_generate_refuses_what_cannot_be_honoured(option: str, value: str, words: str) -> None:
    done = sgframe("generate", "abc", *SIMULATED, option, value)
    assert done.returncode != 0
    assert words in done.stderr
    assert "Traceback" not in done.stderr


def test_chat_answers_each_line_and_tells_what_it_reused() -> None:
    done = sgframe("chat", *SIMULATED, "--max-tokens", "8", text="hello\nagain\n/reset\nhello\n/quit\nnever\n")
    costs = re.findall(
        r"\[(\d+) tokens in, (\d+) reused; (\d+) out, first after \d+\.\d\d s, then [\d.]+ tokens/s\]", done.stdout
    )
    assert len(costs) == 3
    assert int(costs[0][1]) == 0
    assert int(costs[1][1]) >= int(costs[0][0])  # the second turn starts from the whole first one
    assert int(costs[2][1]) == int(costs[2][0]) - 1  # after a reset the same prompt again
    assert done.returncode == 0


def test_chat_goes_on_after_a_refused_turn() -> None:
    done = sgframe("chat", *SIMULATED, "--max-tokens", "4000", text="hello\n" + "x" * 5000 + "\n/quit\n")
    assert "refused" in done.stderr
    assert done.returncode == 0


def test_the_cost_line() -> None:
    line = cost_line(Usage(30, 11, 20), first_token=0.5, rest=2.0)
    assert line == "[30 tokens in, 20 reused; 11 out, first after 0.50 s, then 5.0 tokens/s]"
