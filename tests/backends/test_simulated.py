"""The simulated backend: its answers are known by formula, and it catches every wrong slot."""

from __future__ import annotations

import subprocess
import sys
import time
from typing import Any

import pytest

from sgframe.errors import ModelError
from sgframe.interfaces.backend import ExecutorSpec
from sgframe.interfaces.source import Checkpoint
from sgframe.messages import Ints, NewRow, ScheduleBatch, ints
from sgframe.sampling import TokenSampling
from sgframe.testing import check_plugin
from sgframe.testing.driver import GREEDY, Driver
from sgframe_simulated import SimulatedSettings
from sgframe_simulated.backend import SimulatedBackend
from sgframe_simulated.executor import SimulatedExecutor, SimulatedFailure
from sgframe_simulated.memory import SlotFault
from sgframe_simulated.model import expected_tokens
from sgframe_simulated.rows import PlanFault

VOCAB = 1000
PROMPT = [5, 6, 7, 8]
SPEC = ExecutorSpec(
    checkpoint=Checkpoint("any", "", 512, VOCAB, ()), dtype="auto", max_rows=64, max_step_tokens=512, kv_slots=0
)


def executor(**settings: Any) -> SimulatedExecutor:
    return SimulatedBackend(SimulatedSettings(**settings)).executor()


def driver(**settings: Any) -> Driver:
    return Driver(executor(**{"mode": "hash", "slots": 512} | settings), SPEC)


def poison(drive: Driver, slots: Ints) -> None:
    assert isinstance(drive.executor, SimulatedExecutor)
    drive.executor.poison(slots)


def test_the_hook_module_is_sound() -> None:
    assert check_plugin("sgframe_simulated") == []


def test_it_loads_neither_torch_nor_numpy() -> None:
    code = (
        "import sys, sgframe_simulated.backend, sgframe_simulated.source\n"
        "print(sorted({'torch', 'numpy', 'transformers', 'tokenizers'} & set(sys.modules)))"
    )
    run = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": ":".join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.stdout.strip() == "[]", run.stderr


# ----------------------------------------------------------------------------------------------------- formula


def test_echo_repeats_the_prompt() -> None:
    assert driver(mode="echo").generate(PROMPT, 10) == [5, 6, 7, 8, 5, 6, 7, 8, 5, 6]
    assert expected_tokens(PROMPT, 6, "echo", VOCAB) == [5, 6, 7, 8, 5, 6]


def test_hash_is_what_the_formula_says() -> None:
    answer = driver().generate(PROMPT, 20)
    assert answer == expected_tokens(PROMPT, 20, "hash", VOCAB)
    assert len(set(answer)) > 15
    assert all(0 <= token < VOCAB for token in answer)


def test_hash_depends_on_every_token_of_the_prompt() -> None:
    answers = [expected_tokens(prompt, 8, "hash", VOCAB) for prompt in (PROMPT, [4, 6, 7, 8], [5, 7, 6, 8], PROMPT[1:])]
    assert len(set(map(tuple, answers))) == 4


def test_a_resumed_row_goes_on_by_the_same_formula() -> None:
    drive = driver(mode="echo")
    row = drive.admit(PROMPT, output=[5, 6, 7])
    drive.decode([row], 3)
    assert row.output == [5, 6, 7, 8, 5, 6]


def test_sampling_parameters_change_nothing() -> None:
    wild = TokenSampling(seed=9, temperature=2.0, top_k=3, logit_bias={1: 100.0}, repetition_penalty=2.0)
    assert driver().generate(PROMPT, 5, wild) == expected_tokens(PROMPT, 5, "hash", VOCAB)


# ------------------------------------------------------------------------------------------------- wrong slots


def test_a_prefix_of_another_prompt_is_caught() -> None:
    drive = driver()
    first = drive.admit(PROMPT)
    drive.prefill(first)
    row = drive.admit([5, 6, 9, 8, 1], cached=first.slots[:3])
    with pytest.raises(
        SlotFault, match=r"row 1 reads position 2 from slot 2: expected .* found .* position 2 in step 0"
    ):
        drive.prefill(row)


def test_a_slot_of_another_position_is_caught() -> None:
    drive = driver()
    first = drive.admit([5, 5, 5, 5])
    drive.prefill(first)
    row = drive.admit([5, 5, 5, 5, 5], cached=[0, 1, 1])
    with pytest.raises(SlotFault, match="row 1 reads position 2 from slot 1"):
        drive.prefill(row)


def test_a_slot_never_written_is_caught() -> None:
    drive = driver()
    with pytest.raises(
        SlotFault, match=r"row 0 reads position 0 from slot 400: .* found nothing, it was never written"
    ):
        drive.prefill(drive.admit(PROMPT, cached=[400, 401]))


def test_an_early_slot_of_a_long_prefix_is_checked_too() -> None:
    drive = driver()
    first, other = drive.admit(list(range(50))), drive.admit([1, 2, 3])
    drive.decode([first, other], 1)
    slots = first.slots[:49]
    slots[4] = other.slots[0]
    with pytest.raises(SlotFault, match="row 2 reads position 4 from slot 50"):
        drive.prefill(drive.admit(list(range(50)), cached=slots))


def test_a_freed_slot_that_a_row_still_reads_is_caught() -> None:
    drive = driver()
    row = drive.admit(PROMPT)
    drive.prefill(row)
    poison(drive, row.slots[1:2])
    with pytest.raises(SlotFault, match=r"row 0 reads position 1 from slot 1: .* found poison, it was freed"):
        drive.decode([row], 1)


def test_a_freed_slot_may_be_written_again() -> None:
    drive = driver()
    row = drive.admit(PROMPT)
    drive.prefill(row)
    poison(drive, drive.release(row, keep=4))
    drive.free_slots = row.slots + drive.free_slots
    assert drive.generate(PROMPT, 4) == expected_tokens(PROMPT, 4, "hash", VOCAB)


def test_overwriting_what_a_row_reads_is_caught_at_the_write() -> None:
    drive = driver()
    row = drive.admit(PROMPT)
    drive.prefill(row)
    drive.free_slots = ints([2]) + drive.free_slots
    with pytest.raises(SlotFault, match=r"step 1: row 1 writes position 0 to slot 2, which 1 row\(s\) still read"):
        drive.prefill(drive.admit([9]))


def test_a_slot_given_twice_in_one_step_is_caught() -> None:
    drive = driver()
    drive.free_slots = ints([7, 7])
    with pytest.raises(SlotFault, match="row 0 reads position 0 from slot 7"):
        drive.prefill(drive.admit([1, 2]))


def test_a_slot_given_twice_is_free_again_once_its_row_is_released() -> None:
    drive = driver()
    drive.free_slots = ints([7, 7])
    row = drive.admit([1, 2])
    with pytest.raises(SlotFault):
        drive.prefill(row)
    drive.release(row)
    drive.free_slots = ints([7, 8])
    assert drive.generate([3], 2) == expected_tokens([3], 2, "hash", VOCAB)


def test_a_rewrite_to_a_wrong_copy_is_caught() -> None:
    drive = driver()
    other, row = drive.admit([9, 9, 9, 9]), drive.admit(PROMPT)
    drive.decode([other, row], 1)
    drive.rewrite(row, 1, other.slots[1:3])
    with pytest.raises(SlotFault, match="row 1 reads position 1 from slot 1"):
        drive.decode([row], 1)


@pytest.mark.parametrize("slot", [-1, 512])
def test_a_slot_that_does_not_exist_is_caught(slot: int) -> None:
    drive = driver()
    drive.free_slots = ints([slot])
    with pytest.raises(SlotFault, match="there are slots 0 to 511"):
        drive.prefill(drive.admit([1]))


def test_a_fault_harms_only_the_rows_of_its_step() -> None:
    drive = driver()
    good, bad = drive.admit(PROMPT), drive.admit([1, 2, 3], cached=[500])
    with pytest.raises(SlotFault):
        drive.step({bad: 2})
    drive.release(bad)
    drive.decode([good], 3)
    assert good.output == expected_tokens(PROMPT, 3, "hash", VOCAB)


# ------------------------------------------------------------------------------------------------- wrong plans


def plan(**fields: Any) -> ScheduleBatch:
    lists = dict.fromkeys(("released", "rows", "counts", "slots", "samples"), ints())
    everything: dict[str, Any] = {"step": 0, "admitted": [], "rewrites": []} | lists | fields
    return ScheduleBatch(**everything)


def loaded_executor() -> SimulatedExecutor:
    ready = executor(slots=512)
    ready.load(SPEC, lambda what, done, total: None)
    return ready


def new_row(row: int = 0, tokens: Any = PROMPT, slots: Any = ()) -> NewRow:
    return NewRow(row, ints(tokens), len(tokens), ints(slots), GREEDY)


@pytest.mark.parametrize(
    ("fields", "fault"),
    [
        ({"released": ints([3])}, "row 3 is not in the table"),
        ({"rows": ints([3]), "counts": ints([1]), "slots": ints([0])}, "row 3 is not in the table"),
        ({"admitted": [new_row(), new_row()]}, "row 0 cannot be admitted"),
        ({"admitted": [new_row(64)]}, "row 64 cannot be admitted: .* 0 to 63"),
        ({"admitted": [new_row(slots=[0, 1, 2, 3])]}, "row 0 has 4 tokens and 4 cached: none to compute"),
        (
            {"admitted": [new_row()], "rows": ints([0]), "counts": ints([5]), "slots": ints(range(5))},
            "row 0 is to compute tokens 0 to 4, but knows 4",
        ),
    ],
)
def test_a_plan_that_cannot_be_executed_is_refused(fields: dict[str, Any], fault: str) -> None:
    with pytest.raises(PlanFault, match=fault):
        loaded_executor().forward(plan(**fields))


# ---------------------------------------------------------------------------------------------------- settings


def test_a_slot_count_comes_from_the_spec_or_the_settings() -> None:
    def load(**changes: int) -> int:
        spec = ExecutorSpec(SPEC.checkpoint, "auto", 8, 64, **changes)
        return executor(slots=300).load(spec, lambda what, done, total: None).slots

    assert (load(), load(kv_slots=40), load(kv_bytes=3200)) == (300, 40, 100)


def test_vocabulary_and_context_come_from_the_checkpoint_unless_set() -> None:
    def load(**settings: int) -> tuple[int, int]:
        loaded = executor(**settings).load(SPEC, lambda what, done, total: None)
        return loaded.vocab_size, loaded.context_length

    assert load() == (1000, 512)
    assert load(vocab_size=50, context_length=99) == (50, 99)
    assert load(slots=20) == (1000, 20)  # no request can be longer than all slots


def test_an_unknown_vocabulary_is_an_error() -> None:
    with pytest.raises(ModelError, match="set vocab_size and context_length"):
        executor().load(ExecutorSpec(Checkpoint("x", "", 0, 0, ()), "auto", 8, 64), lambda what, done, total: None)


def test_another_dtype_is_an_error() -> None:
    with pytest.raises(ModelError, match="no dtype bfloat16"):
        executor().load(ExecutorSpec(SPEC.checkpoint, "bfloat16", 8, 64), lambda what, done, total: None)


def test_the_chosen_step_fails_and_the_next_goes_on() -> None:
    drive = driver(fail_at_step=1)
    row = drive.admit(PROMPT)
    drive.prefill(row)
    with pytest.raises(SimulatedFailure, match="step 1 fails"):
        drive.decode([row], 1)
    drive.release(row)
    assert drive.generate(PROMPT, 3) == expected_tokens(PROMPT, 3, "hash", VOCAB)


def test_a_prompt_with_the_nan_token_alone_gets_minus_one() -> None:
    drive = driver(nan_token=9)
    asking = TokenSampling(seed=0, logprobs=1)
    rows = [drive.admit(PROMPT, asking), drive.admit([1, 9, 2], asking)]
    output = drive.step({rows[0]: 4, rows[1]: 3})
    assert list(output.tokens) == [*expected_tokens(PROMPT, 1, "hash", VOCAB), -1]
    assert [entry is None for entry in output.logprobs] == [False, True]


def test_logprobs_are_fixed_figures() -> None:
    drive = driver(mode="echo")
    row = drive.admit([998, 1], TokenSampling(seed=0, logprobs=3, prompt_logprobs=0))
    drive.prefill(row)
    (entry,) = row.logprobs
    assert entry is not None
    assert (entry.token, entry.logprob) == (998, -1.0)
    assert (list(entry.top_ids), entry.top_logprobs) == ([998, 999, 0], [-1.0, -2.0, -3.0])
    assert [(e.token, e.logprob, list(e.top_ids)) for e in row.prompt_logprobs.values()] == [(1, -1.0, [])]


def test_a_mask_moves_to_the_next_allowed_id() -> None:
    drive = driver(mode="echo")

    def masked(prompt: list[int], *allowed: int) -> int:
        row = drive.admit(prompt)
        mask = sum(1 << token for token in allowed).to_bytes(128, "little")
        (token,) = drive.step({row: len(prompt)}, {row: mask}).tokens
        return token

    assert masked([50, 60], 50, 51) == 50
    assert masked([50, 60], 3, 70, 80) == 70
    assert masked([50, 60], 3, 4) == 3
    assert masked([50, 60]) == -1


def test_a_step_takes_the_time_it_is_said_to() -> None:
    drive = driver(step_seconds=0.01, prefill_seconds_per_token=0.002, decode_seconds_per_row=0.005)
    rows = [drive.admit(PROMPT), drive.admit([1])]
    started = time.perf_counter()
    drive.step({rows[0]: 4, rows[1]: 1})
    assert time.perf_counter() - started >= 0.01 + 4 * 0.002 + 0.005


def test_it_is_usable_everywhere() -> None:
    found = SimulatedBackend(SimulatedSettings(slots=10, page_size=4)).probe()
    assert (found.usable, found.reason, found.page_size, found.dtypes) == (True, "", 4, ("float32",))
