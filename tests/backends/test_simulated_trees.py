"""Token trees on the simulated backend: scores by formula, each node's slots checked, wrong trees refused."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pytest

from sgframe.interfaces.backend import ExecutorSpec
from sgframe.interfaces.source import Checkpoint
from sgframe.messages import NewRow, ScheduleBatch, Tree, ints
from sgframe.testing.driver import GREEDY, Driver
from sgframe_simulated import SimulatedSettings
from sgframe_simulated.executor import SimulatedExecutor
from sgframe_simulated.memory import SlotFault
from sgframe_simulated.model import logprob, prefix_hashes
from sgframe_simulated.rows import PlanFault

PROMPT = [5, 6, 7, 8]
SPEC = ExecutorSpec(Checkpoint("any", "", 512, 1000, ()), "auto", max_rows=8, max_step_tokens=512)


def driver(**settings: Any) -> Driver:
    return Driver(SimulatedExecutor(SimulatedSettings(slots=512, **settings)), SPEC)


def test_a_score_is_what_the_formula_says() -> None:
    drive = driver()
    row = drive.admit([5], output=[6, 7], tree=Tree(ints([-1, -1]), ints([-1, 1, 1]), ints([9, 9, 8])))
    drive.step({row: 3})
    after_5, after_5_7 = prefix_hashes([5])[-1], prefix_hashes([5, 7])[-1]
    assert row.scores == {0: logprob(after_5, 9), 1: logprob(after_5_7, 9), 2: logprob(after_5_7, 8)}
    assert len(set(row.scores.values())) == 3
    assert all(-16 <= score < 0 for score in row.scores.values())


def test_a_node_of_a_sibling_s_path_is_caught() -> None:
    drive = driver()
    whole = drive.admit(PROMPT, output=[1, 2], tree=Tree(ints([-1, 0]), ints(), ints()))
    drive.step({whole: 6})
    row = drive.admit(PROMPT, output=[1, 2, 3], tree=Tree(ints([-1, -1, 1]), ints(), ints()), cached=whole.slots)
    with pytest.raises(
        SlotFault, match=r"row 1 reads position 5 from slot 5: expected .* found .* position 5 in step 0"
    ):
        drive.step({row: 1})


def test_scores_after_a_prompt_with_the_nan_token_are_nan() -> None:
    drive = driver(nan_token=9)
    row = drive.admit([1, 9, 2], tree=Tree(ints(), ints([-1]), ints([4])))
    drive.step({row: 3})
    assert math.isnan(row.scores[0])


def tree_row(parents: Sequence[int] = (-1, 0), places: Sequence[int] = (1,)) -> NewRow:
    return NewRow(0, ints(PROMPT), 2, ints(), GREEDY, tree=Tree(ints(parents), ints(places), ints([7])))


def compute(new: NewRow, samples: int = 0) -> None:
    batch = ScheduleBatch(0, ints(), [new], [], ints([0]), ints([4]), ints(range(4)), ints([samples]))
    driver().executor.forward(batch)


@pytest.mark.parametrize(
    ("tree", "fault"),
    [
        ({"parents": [-1]}, r"row 0 has 2 nodes and the parents \[-1\]"),
        ({"parents": [-1, 1]}, r"row 0 has 2 nodes and the parents \[-1, 1\]"),
        ({"places": [2]}, r"row 0 has 2 nodes and asks for 1 tokens at the places \[2\]"),
        ({"places": []}, r"row 0 has 2 nodes and asks for 1 tokens at the places \[\]"),
    ],
)
def test_a_tree_of_the_wrong_shape_is_refused(tree: dict[str, list[int]], fault: str) -> None:
    with pytest.raises(PlanFault, match=fault):
        compute(tree_row(**tree))


def test_a_tree_is_not_to_be_sampled() -> None:
    compute(tree_row())
    with pytest.raises(PlanFault, match="step 0: row 0 is to be sampled, but it is a tree"):
        compute(tree_row(), samples=1)
