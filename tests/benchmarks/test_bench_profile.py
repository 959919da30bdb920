"""The parts of ``profile_rows.py``: what a thread does is told by its stack, kernels are set against the machine's limits,
and the page about speed names what there is."""

from __future__ import annotations

import re
from pathlib import Path
from unittest.mock import Mock

import profile_rows
import pytest
from drive.limits import Limits
from drive.machine import Machine
from profiles import CannotProfile, stacks
from profiles.kernel_report import KernelProfile, Part, StepProfile
from profiles.picture import Bar, draw
from profiles.replay import Replay
from profiles.report import Profile, RowProfile, bars, table
from profiles.stacks import COMPUTING, MAIN, Kinds, Stack, parse, shares
from profiles.watch import check_py_spy, worker_of
from profiles.work import Shape, Sizes, Work, kind_of, work_of
from tiny_models import CONFIGS, save_model

from sgframe_cpu.launch import Launch

HOUSE = Path(__file__).parents[2]
PAGE = HOUSE / "docs" / "performance.md"
STEP = "WorkerLoop._forward (sgframe/worker/loop.py:67)", "Recording.__call__ (sgframe_cpu/team.py:95)"
WALK = *STEP, "Pool.walk (sgframe_cpu/pool.py:63)"
OPERATOR = "OpOverload.__call__ (torch/_ops.py:875)"
MACHINE = Machine("a processor", 2, 24.0, 0.1)


# ------------------------------------------------------------------------------------------ stacks


def stack(*frames: str, samples: int = 1, thread: str = MAIN) -> Stack:
    return Stack(thread, frames, samples)


def test_a_line_of_py_spy_is_a_thread_its_frames_and_how_often_it_was_seen() -> None:
    line = "thread (17): MainThread;main (child.py:175);dnnl::f<int, long> (libtorch_cpu.so);0x7f01 (?) 12"
    frames = "main (child.py:175)", "dnnl::f<int, long> (libtorch_cpu.so)", "0x7f01 (?)"
    assert list(parse(line)) == [Stack("MainThread", frames, 12)]


def test_what_py_spy_did_not_write_is_refused() -> None:
    with pytest.raises(ValueError, match=r"not a stack as `py-spy record .*: 'main;work 3'"):
        list(parse("main;work 3"))


@pytest.mark.parametrize(
    ("frames", "kind"),
    [
        ((*WALK, "0x7f0a9000 (?)"), stacks.KERNELS),
        ((*STEP, "Kernel.__call__ (sgframe_cpu/launch.py:37)", "0x7f0a9000 (?)", "cosf (libm.so.6)"), stacks.KERNELS),
        ((*WALK, "0x7f0a1000 (?)", "sched_yield (libc.so.6)"), stacks.THREADS),
        ((*WALK, "0x7f0a1040 (?)"), stacks.THREADS),
        ((*WALK, "0x7f0a1100 (?)", "0x7f660001 (libc.so.6)"), stacks.THREADS),
        ((*STEP, OPERATOR, "GOMP_parallel (libgomp.so.1)", "0x7f17 (libgomp.so.1)"), stacks.THREADS),
        ((*STEP, OPERATOR, "0x7f17 (libgomp.so.1)", "syscall (libc.so.6)"), stacks.THREADS),
        ((*STEP, "linear (sgframe_cpu/linear.py:28)", OPERATOR, "0x7f0b5000 (?)"), stacks.ONEDNN),
        (
            (*STEP, "linear (sgframe_cpu/linear.py:28)", OPERATOR, "f (libtorch.so)", "malloc (libc.so.6)"),
            stacks.ONEDNN,
        ),
        ((*STEP, "embedding (torch/nn/functional.py:2615)", "at::empty (libtorch_cpu.so)"), stacks.TORCH),
        ((*STEP, "RowTable.apply (sgframe_torch/rows.py:185)", "at::empty (libtorch_cpu.so)"), stacks.TORCH),
        ((*STEP, "RowTable.apply (sgframe_torch/rows.py:185)", "array_max (numpy/_core/_umath.so)"), stacks.PLANNING),
        ((*STEP, "TorchExecutor.sample (sgframe_torch/executor.py:120)", "empty (abc.py:1)"), stacks.SAMPLING),
        ((*STEP,), stacks.PYTHON),
        (
            ("ZmqChannel.recv (sgframe_zmq/channel.py:98)", "Poller.poll (zmq/poll.py:1)", "poll (libc.so.6)"),
            stacks.SCHEDULER,
        ),
    ],
)
def test_what_a_thread_does_is_told_by_its_stack(frames: tuple[str, ...], kind: str) -> None:
    """Compiled code has no names. Where some of it gives up the processor, the code around is that in which threads wait."""
    yields = stack(*WALK, "0x7f0a1000 (?)", "sched_yield (libc.so.6)")
    assert Kinds([yields]).of(stack(*frames)) == kind


def test_shares_are_those_of_each_threads_own_time_and_of_threads_that_compute() -> None:
    seen = [
        stack(*WALK, "0x7f0a9000 (?)", samples=30),
        stack(*STEP, samples=10),
        stack("serve (threading.py:982)", "0x7f0a9000 (?)", samples=5, thread=COMPUTING),
        stack("Condition.wait (threading.py:327)", samples=40, thread="pulse"),
    ]
    assert shares(seen) == {MAIN: {stacks.KERNELS: 0.75, stacks.PYTHON: 0.25}, COMPUTING: {stacks.KERNELS: 1.0}}


# ------------------------------------------------------------------------------------------ tables and pictures


def profile(name: str, rate: float, share: float) -> Profile:
    threads = {MAIN: {stacks.KERNELS: share, stacks.PYTHON: 1 - share}}
    row = RowProfile(row="b", what="16 at once", concurrency=16, tokens_per_second=rate, threads=threads)
    return Profile(name=name, machine=MACHINE, seconds=10, hertz=100, rows=[row])


def test_shares_become_milliseconds_of_a_step_and_profiles_stand_beside_each_other() -> None:
    assert table([profile("before", 320, 0.2), profile("after", 800, 0.75)], markdown=True) == (
        "16 at once; before: 320 tok/s, 50.0 ms a step; after: 800 tok/s, 20.0 ms a step\n"
        "\n"
        "| ms a step, row b | before, MainThread | after, MainThread |\n"
        "|---|--:|--:|\n"
        "| compiled kernels | 10.00 (20%) | 15.00 (75%) |\n"
        "| Python, the rest | 40.00 (80%) | 5.00 (25%) |"
    )


def test_bars_are_milliseconds_of_a_step() -> None:
    (bar,) = bars([profile("after", 800, 0.75)])
    assert (bar.label, bar.parts) == ("b, after, MainThread", {stacks.KERNELS: 15.0, stacks.PYTHON: 5.0})


def test_a_picture_names_bars_and_parts_and_is_the_same_each_time(tmp_path: Path) -> None:
    for name in ("one.svg", "two.svg"):
        draw([Bar("row a", {"kernels": 2.0}), Bar("row b", {"kernels": 3.0, "waiting": 1.0})], "ms", tmp_path / name)
    text = (tmp_path / "one.svg").read_text()
    assert all(f">{word}</text>" in text for word in ("row a", "row b", "kernels", "waiting", "ms"))
    assert text == (tmp_path / "two.svg").read_text()


def test_a_part_is_measured_by_the_limit_that_it_would_meet_first() -> None:
    limits = Limits(read_bytes_per_second=1e9, gemm_flop_per_second=1e12)
    parts = [Part("attend", 0.004, 2e6, 1e6, 30), Part("linear", 0.005, 1e6, 4e9), Part("add", 0.001, 5e5)]
    found = KernelProfile(machine=MACHINE, threads=1, limits=limits, steps=[StepProfile("row a", parts)])
    assert found.table(markdown=False).splitlines() == [
        "row a     launches      ms  share  GB/s  GFLOP/s  of the limit",
        "attend          30   4.000    40%   0.5      0.2           50%",
        "linear           1   5.000    50%   0.2    800.0           80%",
        "add              1   1.000    10%   0.5",
        "together        32  10.000   100%   0.3    400.1           60%",
    ]
    assert found.bars() == [Bar("row a", {"attend": 4.0, "linear": 5.0, "add": 1.0})]


# ------------------------------------------------------------------------------------------ kernels

SIZES = Sizes(hidden=576, intermediate=1536, heads=9, kv_heads=3, dim=64)


def launch(name: str, *arguments: int) -> Launch:
    kernel = Mock()
    kernel.name = name
    return Launch(kernel, arguments, cell=0)


def test_a_linear_layer_reads_its_weight_once_and_multiplies_each_row_by_it() -> None:
    linear = launch("linear", 0, 0, 0, 0, 0, 576, 960)
    assert kind_of(linear) == "linear 960 × 576"
    work = work_of(linear, SIZES, Shape("b", rows=16, context=164))
    assert work == Work(2 * (576 * 960 + 16 * (576 + 960)), 2 * 16 * 576 * 960)


@pytest.mark.parametrize(
    ("shape", "keys", "pairs"),
    [
        (Shape("decode", rows=16, context=999), 16 * 1000, 16 * 1000),
        (Shape("prompt", rows=1, context=0, new=4), 4, 1 + 2 + 3 + 4),
        (Shape("suffix", rows=2, context=10, new=2), 2 * 12, 2 * (11 + 12)),
    ],
)
def test_attention_reads_all_keys_once_and_multiplies_what_sees_each_other(shape: Shape, keys: int, pairs: int) -> None:
    moved = 2 * keys * 3 * 64 + 2 * shape.tokens * 9 * 64  # keys and values; queries and output
    assert work_of(launch("attend"), SIZES, shape) == Work(2 * moved, 4 * pairs * 9 * 64)


@pytest.mark.slow
@pytest.mark.parametrize("family", ["llama", "qwen3"])
def test_all_kernels_of_a_recorded_step_are_known_and_timed(family: str, tmp_path: Path) -> None:
    shapes = Shape("decode", rows=2, context=20), Shape("prompt", rows=1, context=0, new=30)
    replay = Replay(save_model(CONFIGS[family](), tmp_path), shapes, threads=1)
    for shape in shapes:
        parts = {part.kind: part for part in replay.measure(shape)}
        assert parts["add rms norm"].launches == 5
        assert parts["linear 192 × 64"].operations == 3 * 2 * shape.tokens * 64 * 192
        assert all(part.seconds > 0 for part in parts.values())


# ------------------------------------------------------------------------------------------ the server's worker


def test_without_py_spy_it_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(CannotProfile, match="pip install py-spy"):
        check_py_spy()


def test_the_worker_is_known_by_its_name() -> None:
    front, worker = (
        Mock(**{"cmdline.return_value": ["sgframe::front"]}),
        Mock(**{"cmdline.return_value": ["sgframe::worker-0"]}),
    )
    server = Mock(**{"process.children.return_value": [front, worker]})
    assert worker_of(server) is worker
    server.process.children.return_value = [front]
    with pytest.raises(CannotProfile, match=r"one process sgframe::worker-0 .* found 0 among \['sgframe::front'\]"):
        worker_of(server)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("--threads 2", "--threads does not go without --kernels"),
        ("--kernels --rows a", "--rows does not go with --kernels"),
    ],
)
def test_an_option_that_nobody_reads_is_refused(
    given: str, told: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["profile_rows.py", *given.split()])
    with pytest.raises(SystemExit):
        profile_rows.main()
    assert told in capsys.readouterr().err


# ------------------------------------------------------------------------------------------ the page


def test_what_the_page_names_is_there() -> None:
    text = PAGE.read_text()
    for name in re.findall(r"`([\w/.-]+\.py)`", text):
        assert (HOUSE / name).exists(), name
    for name in re.findall(r"\]\(([\w/.-]+)\)", text):
        assert (PAGE.parent / name).exists(), name
