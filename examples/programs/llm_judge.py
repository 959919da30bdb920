"""LLM judge: an essay judged on several dimensions at once, then in all (Saha et al., 2024, Branch-Solve-Merge).

The branches share the essay; ``join`` gathers what they found into lists.
"""

from __future__ import annotations

from harness import rows, run_example

import sgframe_dsl as sgf

DIMENSIONS = ("clarity", "originality", "evidence", "style")
POINTS = tuple(map(str, range(11)))
GRADES = tuple("ABCDF")


@sgf.function
def judge(s: sgf.State, essay: str) -> None:
    s += sgf.system("You judge essays, briefly and fairly.")
    s += sgf.user(f"This is an essay:\n\n{essay}")
    branches = s.fork(len(DIMENSIONS))
    for branch, dimension in zip(branches, DIMENSIONS, strict=True):
        branch += sgf.user(f"Judge its {dimension} in one sentence.")
        branch += sgf.assistant(sgf.gen("judgement", stop="\n"))
        branch += sgf.user("Its points for that, from 0 to 10?")
        branch += sgf.assistant(sgf.gen("points", choices=POINTS))
    branches.join()
    judgements = zip(DIMENSIONS, s["points"], s["judgement"], strict=True)
    s += sgf.user("\n".join(f"{name} ({points}/10): {text}" for name, points, text in judgements) + "\nSum it up.")
    s += sgf.assistant(sgf.gen("summary", stop="\n"))
    s += sgf.user("What grade does it get?") + sgf.assistant(sgf.select("grade", choices=GRADES))


def main(items: int = 10, concurrency: int = 8, max_tokens: int = 48) -> list[str]:
    states = judge.run_batch(
        rows("essays.jsonl")[:items], concurrency=concurrency, sampling={"temperature": 0, "max_tokens": max_tokens}
    )
    for state in states:
        print(f"{state['grade']}, points {state['points']}: {state['summary']}")
    return [state["grade"] for state in states]


if __name__ == "__main__":
    run_example(main)
