"""``sgframe explain`` from the command line to the tree, on the simulated backend: it repeats its prompt, byte by byte."""

from __future__ import annotations

import re
from pathlib import Path

from click.testing import CliRunner
from servers import SIMULATED

from sgframe_cli.group import main

PROGRAM = """\
import sys
import sgframe_dsl as sgf

@sgf.function
def think(s, question):
    s += question + sgf.gen("plan", max_tokens=6)
    for number, branch in enumerate(s.fork(2)):
        branch += f"{number} so" + sgf.gen("thought", max_tokens=4)
        branch["thought"]  # one after the other: what the second can reuse is certain

think.run(sys.argv[1])
"""


def test_a_fork_is_drawn_with_what_its_branches_reused(tmp_path: Path) -> None:
    program = tmp_path / "think.py"
    program.write_text(PROGRAM)
    result = CliRunner().invoke(main, ["explain", str(program), *SIMULATED, "--", "question"], catch_exceptions=False)
    assert (result.exit_code, result.stderr) == (0, "")
    assert re.sub(r"[\d.]+ m?s\b", "TIME", result.stdout) == (
        """\
think  18 prompt tokens computed, 47 without sharing (2.6×), 14 generated, 3 calls, TIME
├── gen  plan  9 computed + 0 reused → 6  TIME  think.py:6
│   “question” → “quest”
└── fork  ×2  think.py:7
    ├── branch 0
    │   └── gen  thought  5 computed + 14 reused → 4  TIME  think.py:8
    │       “0 so” → “que”
    └── branch 1
        └── gen  thought  4 computed + 15 reused → 4  TIME  think.py:8
            “1 so” → “que”
"""
    )
