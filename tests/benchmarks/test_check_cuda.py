"""The check of the cuda backend: its sections, its table, and what it judges by. What it finds on a GPU, no test says."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path

import pages
import pytest
import torch
from check_cuda import SECTIONS, _command, _environment, _with_bases
from device import machine, room, sections
from device.cases import make_step
from device.contract import Recorder
from device.deviation import deviation
from device.environment import ROOTS, SCRIPTS, _StandIn, search_path
from device.gaps import idle_seconds
from device.oracle import parting
from device.rows import FAILED, MEASURED, MISSED, NOT_RUN, OK, Row, RowFile, bounded, checked, compared
from device.sections import Outcome, Section, run_stages
from device.table import summary, table
from device.target import Target

PROGRAM = Path(__file__).parents[2] / "benchmarks" / "check_cuda.py"
ONE_ROW = """
import json, sys
print(json.dumps({"what": "it", "verdict": "ok"}), file=open(sys.argv[1], "a"))
"""
PROGRAMS = {
    "good": ONE_ROW,
    "late": ONE_ROW + "import time; time.sleep(60)",
    "lost": """
import faulthandler, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
print(child.pid, file=open(sys.argv[1] + ".pid", "w"))
faulthandler.dump_traceback_later(0.2)
time.sleep(60)
""",
    "wrong": ONE_ROW + "raise ValueError('of the section')",
    "crashed": ONE_ROW + "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)",
    "silent": "",
}
MEETING = (
    ONE_ROW
    + """
import os, time
open(sys.argv[2], "w").close()
while not os.path.exists(sys.argv[3]):
    time.sleep(0.01)
"""
)
"""Ends once both have begun."""


def has_ended(process: int) -> bool:
    """Whether it is gone within a few seconds: one that was killed may take a moment."""
    state = Path(f"/proc/{process}/stat")
    until = time.monotonic() + 5
    while state.exists() and state.read_text().split()[2] != "Z" and time.monotonic() < until:
        time.sleep(0.01)
    return not state.exists() or state.read_text().split()[2] == "Z"


def run(folder: Path, *these: Section, budget: float = 30.0) -> dict[str, Outcome]:
    def command(section: Section, rows: Path, seconds: float) -> Sequence[str]:
        return sys.executable, "-c", PROGRAMS[section.target], str(rows)

    stages = [[section] for section in these]
    return {each.name: each for each in run_stages(stages, command, os.environ, folder, budget, lambda _: None)}


class TestSections:
    """What becomes of a section's rows and of those after it."""

    def test_each_gives_its_rows(self, tmp_path: Path) -> None:
        outcomes = run(tmp_path, Section("one", "good", 30), Section("two", "good", 30))
        assert [outcome.rows for outcome in outcomes.values()] == [[Row("it", OK)]] * 2
        assert all(outcome.held for outcome in outcomes.values())

    def test_one_that_hangs_is_stopped_and_keeps_what_it_found(self, tmp_path: Path) -> None:
        outcomes = run(tmp_path, Section("first", "late", 0.7), Section("next", "good", 30))
        assert outcomes["first"].rows == [Row("it", OK), Row("the section", FAILED, note="stopped after 1 s")]
        assert not outcomes["first"].held
        assert outcomes["next"].held

    def test_one_that_hangs_says_where_and_takes_its_children_along(self, tmp_path: Path) -> None:
        (row,) = run(tmp_path, Section("first", "lost", 1.0))["first"].rows
        assert row.note == 'stopped after 1 s: File "<string>", line 6 in <module>'
        assert has_ended(int((tmp_path / "first.jsonl.pid").read_text()))

    def test_one_that_raises_tells_its_error(self, tmp_path: Path) -> None:
        outcomes = run(tmp_path, Section("first", "wrong", 30), Section("next", "good", 30))
        assert outcomes["first"].rows[1].note == "ended with code 1: ValueError: of the section"
        assert outcomes["next"].held

    def test_one_that_crashes_tells_its_signal(self, tmp_path: Path) -> None:
        assert run(tmp_path, Section("first", "crashed", 30))["first"].rows[1].note.startswith("killed by SIGSEGV")

    def test_one_without_a_row_has_failed(self, tmp_path: Path) -> None:
        assert run(tmp_path, Section("first", "silent", 30))["first"].rows[0].verdict == FAILED

    def test_rows_of_an_earlier_run_do_not_count(self, tmp_path: Path) -> None:
        run(tmp_path, Section("one", "good", 30))
        assert run(tmp_path, Section("one", "good", 30))["one"].rows == [Row("it", OK)]

    def test_what_stands_on_a_failure_is_not_begun(self, tmp_path: Path) -> None:
        outcomes = run(tmp_path, Section("first", "wrong", 30), Section("next", "good", 30, after=("first",)))
        assert outcomes["next"].rows == [Row("all of it", NOT_RUN, note="makes no sense without 'first'")]

    def test_what_needs_a_package_that_is_absent_is_not_begun(self, tmp_path: Path) -> None:
        outcomes = run(tmp_path, Section("one", "good", 30, needs=("json", "no_such_package")))
        assert outcomes["one"].rows == [Row("all of it", NOT_RUN, note="needs no_such_package, not installed here")]

    def test_the_budget_bounds_them_all(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sections, "LEAST_SECONDS", 0.2)
        outcomes = run(tmp_path, Section("first", "late", 60), Section("next", "good", 60), budget=0.7)
        assert outcomes["first"].rows[1].note == "stopped after 1 s"
        assert outcomes["next"].rows[0].note == "no time was left for it"
        assert not outcomes["next"].held


class TestStages:
    """Sections side by side."""

    def test_a_stage_takes_as_long_as_its_longest(self, tmp_path: Path) -> None:
        def command(section: Section, rows: Path, seconds: float) -> Sequence[str]:
            return (
                sys.executable,
                "-c",
                MEETING,
                str(rows),
                str(tmp_path / section.name),
                str(tmp_path / section.target),
            )

        stage = [Section("one", "two", 20), Section("two", "one", 20)]
        heard: list[str] = []
        outcomes = run_stages([stage], command, os.environ, tmp_path, 60.0, lambda outcome: heard.append(outcome.name))
        assert [outcome.name for outcome in outcomes] == ["one", "two"]
        assert sorted(heard) == ["one", "two"]
        assert all(outcome.held for outcome in outcomes)

    def test_what_is_interrupted_leaves_nothing_running(self, tmp_path: Path) -> None:
        def command(section: Section, rows: Path, seconds: float) -> Sequence[str]:
            return sys.executable, "-c", PROGRAMS[section.target], str(rows)

        def interrupt(outcome: Outcome) -> None:
            raise KeyboardInterrupt

        stage = [Section("first", "lost", 60), Section("next", "late", 0.7)]
        with pytest.raises(KeyboardInterrupt):
            run_stages([stage], command, os.environ, tmp_path, 60.0, interrupt)
        assert has_ended(int((tmp_path / "first.jsonl.pid").read_text()))


class TestTable:
    """The last thing that is printed."""

    OUTCOMES = (
        Outcome(
            "speed",
            [
                compared("decode", 3440.0, "GB/s", 4300.0, "copy bandwidth", least=0.8, note="250 µs"),
                compared("prefill", 300.0, "TFLOP/s", 790.0, "matmul rate", least=0.5),
                bounded("idle", 61.0, "µs a step", 50.0),
            ],
            seconds=12.4,
        ),
        Outcome("checks", [checked("norm", ""), checked("mask", "3 came"), Row("all of it", NOT_RUN, note="no time")]),
    )

    def test_columns_line_up(self) -> None:
        assert table(self.OUTCOMES).splitlines() == [
            "             value unit       ratio of              aim",
            "speed, 12 s",
            "  decode     3,440 GB/s        0.80 copy bandwidth  ≥ 80%  ok       250 µs",
            "  prefill      300 TFLOP/s     0.38 matmul rate     ≥ 50%  missed",
            "  idle          61 µs a step                        ≤ 50   missed",
            "checks, 0 s",
            "  norm                                                     ok",
            "  mask                                                     FAILED   3 came",
            "  all of it                                                not run  no time",
            "2 ok, 1 FAILED, 1 not run, 2 missed the aim",
        ]

    def test_a_missed_aim_is_no_failure(self) -> None:
        assert [outcome.held for outcome in self.OUTCOMES] == [True, False]

    def test_figures_without_an_aim_are_neither_good_nor_bad(self) -> None:
        row = compared("decode", 3.0, "GB/s", 4.0, "copy bandwidth")
        assert (row.verdict, row.ratio) == (MEASURED, 0.75)
        assert summary([row]) == "1 without an aim"

    @pytest.mark.parametrize(("value", "verdict"), [(50.0, OK), (50.1, MISSED)])
    def test_what_is_bounded_may_reach_the_bound(self, value: float, verdict: str) -> None:
        assert bounded("idle", value, "µs", 50.0).verdict == verdict

    def test_a_line_that_was_cut_off_is_left_out(self, tmp_path: Path) -> None:
        rows = RowFile(tmp_path / "rows")
        rows.add(Row("it", OK))
        with (tmp_path / "rows").open("a") as file:
            file.write('{"what": "half')
        assert rows.read() == [Row("it", OK)]


class TestJudging:
    """What the checks go by."""

    def test_a_kernel_may_err_by_its_number_format(self) -> None:
        expected = torch.tensor([[4.0, 0.01]])
        assert deviation(expected + 1e-5, expected) == ""
        assert deviation(expected + torch.tensor([1e-3, 0.0]), expected) == "4.001 came, 4 should"
        assert deviation((expected + 0.1).bfloat16(), expected.bfloat16()) == ""

    def test_no_number_is_never_right(self) -> None:
        expected = torch.ones(2, 3)
        assert deviation(expected * torch.nan, expected) == "nan came, 1 should"

    def test_shape_and_format_count(self) -> None:
        assert deviation(torch.ones(2), torch.ones(3)) == "torch.float32 (2,) came, torch.float32 (3,) should"
        assert deviation(torch.ones(2).half(), torch.ones(2)).startswith("torch.float16")

    def test_texts_part_where_they_differ(self) -> None:
        assert parting([[1, 2], [3, 4, 5]], [[1, 2], [3, 4, 5]]) == ""
        assert parting([[1, 2], [3, 4, 5]], [[1, 2], [3, 9, 5]]) == (
            "prompt 1 parts at token 1: [4, 5] came, [9, 5] should"
        )
        assert parting([[1]], [[1, 2]]) == "prompt 0 parts at token 1: [] came, [2] should"

    def test_a_device_is_idle_between_its_pieces_of_work(self) -> None:
        busy = [(0.0, 1.0), (5.0, 6.0), (0.5, 2.0), (6.000001, 7.0)]
        assert idle_seconds(busy, steps=4) == pytest.approx(3.0 / 3)  # a quarter of the time and its step are left out

    def test_what_it_does_in_the_first_quarter_does_not_count(self) -> None:
        assert idle_seconds([(0.0, 0.5), (1.5, 7.0), (7.5, 8.0)], steps=4) == pytest.approx(0.5 / 3)

    def test_a_step_of_the_grid_has_whole_pages_in_disorder(self) -> None:
        step = make_step((3, 1, 5), (0, 9, 4), page_size=4, device=torch.device("cpu"))
        assert step.host_lengths.tolist() == step.kv_lengths.tolist() == [3, 10, 9]
        assert step.query_starts.tolist() == [0, 3, 4, 9]
        assert step.positions.tolist() == [0, 1, 2, 9, 4, 5, 6, 7, 8]
        lines = [
            step.page_table[row, :length].tolist()
            for row, length in zip(step.rows, step.host_lengths.tolist(), strict=True)
        ]
        assert [line[start] for line, start in zip(lines, (0, 9, 4), strict=True)] == step.slots[[0, 3, 4]].tolist()
        assert all(slot % 4 == position % 4 for line in lines for position, slot in enumerate(line))
        assert len({slot for line in lines for slot in line}) == 22

    def test_a_package_that_is_absent_lets_modules_define_what_they_like(self) -> None:
        package = _StandIn("package")

        class Record(package.Struct, frozen=True):  # type: ignore[misc, name-defined, call-arg]
            number: int = package.field(default=3)

        @package.hook  # type: ignore[untyped-decorator]
        def nothing() -> None: ...

        assert package.codec.Encoder(hook=None).encode(Record()) is not None
        assert not hasattr(package, "__path__")


def test_a_section_brings_those_that_it_stands_on() -> None:
    assert _with_bases(["serving"]) == {"large model", "serving"}
    assert _with_bases([]) == {section.name for section in SECTIONS}


def test_only_what_is_taken_by_the_devices_limits_stands_on_them() -> None:
    assert [section.name for section in SECTIONS if "device" in section.after] == ["kernel speed", "tiles", "decode"]


def test_nothing_is_taken_for_a_package_that_stands_beside_the_scripts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(SCRIPTS))
    look = "import device.child, importlib.util; print(importlib.util.find_spec('kernels'))"
    command = [*_command(SECTIONS[0], SCRIPTS, 1.0, "cpu", SCRIPTS)[:2], "-c", look]
    done = subprocess.run(command, cwd=SCRIPTS, env=_environment("cpu"), capture_output=True, text=True, check=True)
    assert done.stdout == "None\n"


def test_the_scripts_folder_is_known_by_any_of_its_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(SCRIPTS)
    entries = ["", "/elsewhere", str(SCRIPTS), str(SCRIPTS / "drive" / "..")]
    assert search_path(entries)[len(ROOTS) :] == ["/elsewhere"]


class TestRoom:
    """Where the files go."""

    @pytest.fixture
    def machine(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[int, int], None]:
        """``machine(memory, shared)`` has so many GiB of memory available and so many free for files in it; on disk 30."""
        monkeypatch.setattr(room, "IN_MEMORY", tmp_path)
        monkeypatch.setattr(room, "MEMORY_FACTS", tmp_path / "meminfo")
        monkeypatch.setattr(tempfile, "gettempdir", lambda: "/")

        def become(memory: int, shared: int) -> None:
            facts = f"MemTotal: {2**30} kB\nMemFree: 1 kB\nMemAvailable: {memory * 2**20} kB\n"
            (tmp_path / "meminfo").write_text(facts)
            monkeypatch.setattr(room, "_free", lambda path: (shared if path == tmp_path else 30) * 2**30)

        return become

    def test_in_memory_if_there_is_room(self, machine: Callable[[int, int], None], tmp_path: Path) -> None:
        machine(100, 50)
        assert room.choose_folder("cuda") == tmp_path
        assert room.choose_folder("cpu") == Path("/")

    @pytest.mark.parametrize(("memory", "shared"), [(20, 50), (100, 20)])
    def test_on_disk_if_not(self, machine: Callable[[int, int], None], memory: int, shared: int) -> None:
        machine(memory, shared)
        assert room.choose_folder("cuda") == Path("/")

    def test_it_says_what_is_free(self, machine: Callable[[int, int], None], tmp_path: Path) -> None:
        machine(100, 20)
        free = f"{tmp_path} 20 GiB free, / 30 GiB free, memory 100 GiB available"
        assert room.describe_room(Path("/"), "cuda") == f"{free}; files go to /"
        assert room.describe_room(tmp_path, "cpu") == f"{free}; files go to {tmp_path}"
        assert room.describe_room(tmp_path, "cuda") == (
            f"{free}; files go to {tmp_path}, but 24 GiB are wanted there: see --folder"
        )


def test_the_page_lists_every_section_with_its_limit() -> None:
    rows = pages.table("docs/cuda.md", "| section | limit | what it shows |")
    assert [row[:2] for row in rows] == [[section.name, f"{section.limit} s"] for section in SECTIONS]


def test_it_finds_what_pytest_finds() -> None:
    tools = tomllib.loads((PROGRAM.parents[1] / "pyproject.toml").read_text())["tool"]
    assert set(tools["pytest"]["ini_options"]["pythonpath"]) == set(ROOTS) - {"benchmarks/packages"}


def test_every_failing_test_of_the_kit_is_told() -> None:
    recorder = Recorder()
    for when in ("setup", "call", "teardown"):
        recorder.pytest_runtest_logreport(
            pytest.TestReport("kit.py::T::test_good", ("", 1, ""), {}, "passed", None, when)
        )
    trace = ">       assert 1 == 2\nE       assert 1 == 2\n\nkit.py:3: AssertionError"
    recorder.pytest_runtest_logreport(
        pytest.TestReport("kit.py::T::test_bad", ("", 1, ""), {}, "failed", trace, "call")
    )
    assert (recorder.passed, recorder.faults) == (1, {"test_bad": "assert 1 == 2"})


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_gpu_that_is_not_there_is_a_failure(tmp_path: Path) -> None:
    rows: list[Row] = []
    machine.run(Target("cuda", tmp_path), rows.append)
    assert [row.verdict for row in rows] == [FAILED]
    assert rows[0].note.endswith("finds none; see nvidia-smi")


@pytest.mark.slow
@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_every_section_says_why_it_failed() -> None:
    done = check("--only", "attention", "--only", "kernel speed")
    assert done.returncode == 1
    assert "finds none; see nvidia-smi" in done.stdout
    assert "makes no sense without 'device'" in done.stdout
    assert done.stdout.endswith("2 FAILED, 1 not run\n")


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_dry_run_goes_through_every_section() -> None:
    done = check("--device", "cpu", "--budget", "800")
    assert done.returncode == 0, done.stdout + done.stderr
    last = done.stdout.rpartition("A DRY RUN")[2]
    assert all(f"\n{section.name}, " in last for section in SECTIONS)


def check(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(PROGRAM), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=880, check=False)
