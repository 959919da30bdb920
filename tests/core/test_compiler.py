"""Constraints are compiled apart: whatever one of them does to its process, the others are answered."""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import psutil
import pytest

from sgframe.assembly.choice import Choice
from sgframe.assembly.providers import Seam
from sgframe.compiling import Task
from sgframe.constraints import Constraint
from sgframe.errors import EngineDead, Overloaded, RequestError, RequestFailed
from sgframe.front.compiler import Compiler
from sgframe.interfaces.grammar import Vocabulary

MiB = 2**20


def choice(name: str) -> Choice:
    settings = "sgframe.assembly.providers:PluginSettings"
    return Choice(Seam.GRAMMAR, "troubled", f"troubled_grammar:{name}", {}, settings, "the tests")


@asynccontextmanager
async def running(
    grammar: str = "TroubledGrammar", seconds: float = 5.0, processes: int = 2
) -> AsyncIterator[Compiler]:
    task = Task({"troubled": choice(grammar)}, Vocabulary([b"a"], ()), memory=1024 * MiB)
    compiler = Compiler(task, "troubled", processes=processes, seconds=seconds)
    try:
        yield compiler
    finally:
        await compiler.close()
    assert not [child for child in psutil.Process().children() if "sgframe" in child.name()]


async def compiled(compiler: Compiler, text: str, **options: object) -> bytes:
    use, _ = await compiler.compile(Constraint("regex", text, **options))  # type: ignore[arg-type]
    return use.data


async def gone(pid: int) -> None:
    for _ in range(500):
        if not psutil.pid_exists(pid):
            return
        await asyncio.sleep(0.01)
    raise AssertionError(f"process {pid} is still there")


async def test_a_constraint_becomes_a_program_of_the_server_s_grammar() -> None:
    async with running() as compiler:
        use, approximations = await compiler.compile(Constraint("regex", "fine"))
        assert (use.name, use.data, approximations) == ("troubled", b"fine", ())
        _, approximations = await compiler.compile(Constraint("regex", "fine", approximate=True))
        assert approximations == ("roughly",)


async def test_many_who_ask_for_the_same_wait_for_one_compilation(tmp_path: Path) -> None:
    log = tmp_path / "log"
    async with running() as compiler:
        texts = await asyncio.gather(*(compiled(compiler, f"sleep 0.1@{log}") for _ in range(5)))
        assert texts == [b"sleep 0.1"] * 5
        await compiled(compiler, f"sleep 0.1@{log}")
    assert len(log.read_text().splitlines()) == 1


async def test_a_refusal_is_remembered(tmp_path: Path) -> None:
    log = tmp_path / "log"
    async with running() as compiler:
        for _ in range(3):
            with pytest.raises(RequestError, match="not this one") as caught:
                await compiled(compiler, f"refuse@{log}")
            assert caught.value.code == "unsupported_schema"
    assert len(log.read_text().splitlines()) == 1


async def test_one_that_takes_too_long_is_killed_and_refused_again_at_once(tmp_path: Path) -> None:
    log = tmp_path / "log"
    async with running(seconds=0.3) as compiler:
        await compiled(compiler, "fine")
        with pytest.raises(RequestError, match=r"takes longer than 0.3 s: simplify it") as caught:
            await compiled(compiler, f"spin@{log}")
        assert caught.value.code == "grammar_too_large"
        pid = int(log.read_text().split()[-1])
        assert not psutil.pid_exists(pid)
        started = time.monotonic()
        with pytest.raises(RequestError, match="takes longer"):
            await compiled(compiler, f"spin@{log}")
        assert time.monotonic() - started < 0.2


async def test_others_do_not_wait_for_it() -> None:
    async with running(seconds=20) as compiler:
        compiler.start()
        await compiled(compiler, "fine")
        slow = asyncio.create_task(compiled(compiler, "spin"))
        await asyncio.sleep(0.05)
        assert await asyncio.wait_for(compiled(compiler, "quick"), 10) == b"quick"
        assert not slow.done()
    assert slow.cancelled() or slow.exception() is not None


async def test_one_that_wants_too_much_memory_is_refused() -> None:
    async with running() as compiler:
        with pytest.raises(RequestError, match="more memory than allowed"):
            await compiled(compiler, f"eat {2048 * MiB}")
        assert await compiled(compiler, "fine") == b"fine"


async def test_one_that_kills_its_process_is_refused_and_the_next_gets_another() -> None:
    async with running() as compiler:
        with pytest.raises(RequestError, match="kills its process"):
            await compiled(compiler, "die")
        assert await compiled(compiler, "fine") == b"fine"


async def test_nesting_without_end_is_refused() -> None:
    async with running() as compiler:
        with pytest.raises(RequestError, match="nested too deeply"):
            await compiled(compiler, "recurse")


async def test_one_that_died_while_it_had_nothing_to_do_is_replaced(tmp_path: Path) -> None:
    log = tmp_path / "log"
    async with running() as compiler:
        await compiled(compiler, f"fine@{log}")
        psutil.Process(int(log.read_text().split()[-1])).kill()
        assert await compiled(compiler, "quick") == b"quick"


async def test_what_nobody_waits_for_any_more_is_given_up(tmp_path: Path) -> None:
    log = tmp_path / "log"
    async with running(seconds=60) as compiler:
        waiter = asyncio.create_task(compiled(compiler, f"spin@{log}"))
        while not (log.exists() and log.read_text()):
            await asyncio.sleep(0.01)
        waiter.cancel()
        await gone(int(log.read_text().split()[-1]))
        while compiler.stats.pending:  # its end is heard of a moment later
            await asyncio.sleep(0.01)


async def test_small_constraints_go_first(tmp_path: Path) -> None:
    log = tmp_path / "log"
    async with running(processes=1) as compiler:
        long = " " * 1000
        deeds = ["sleep 0.01", f"sleep 0.02{long}{long}", f"sleep 0.03{long}", "fine"]
        await asyncio.gather(*(compiled(compiler, f"{deed}@{log}") for deed in deeds))
    assert [line.split()[:-1] for line in log.read_text().splitlines()] == [
        ["sleep", "0.01"],
        ["fine"],
        ["sleep", "0.03"],
        ["sleep", "0.02"],
    ]


async def test_more_than_can_wait_are_turned_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sgframe.front.compiler.MOST_PENDING", 2)
    async with running() as compiler:
        waiting = [asyncio.create_task(compiled(compiler, f"sleep 0.1 {n}")) for n in range(2)]
        await asyncio.sleep(0)
        with pytest.raises(Overloaded, match="2 constraints are being compiled"):
            await compiled(compiler, "fine")
        for each in waiting:
            each.cancel()


async def test_whoever_waits_when_the_engine_dies_hears_of_it() -> None:
    async with running(seconds=60) as compiler:
        waiting = asyncio.create_task(compiled(compiler, "spin"))
        await asyncio.sleep(0.01)
        compiler.shut(EngineDead("the worker was killed"))
        with pytest.raises(EngineDead, match="the worker was killed"):
            await waiting
        with pytest.raises(EngineDead):
            await compiled(compiler, "fine")


async def test_what_became_of_constraints_is_counted() -> None:
    async with running() as compiler:
        for text in ("fine", "refuse", "fail", "fine"):
            with contextlib.suppress(RequestError, RequestFailed):
                await compiled(compiler, text)
        stats = compiler.stats
        assert (stats.compiled, stats.refused, stats.failed, stats.remembered, stats.pending) == (1, 1, 1, 1, 0)
        assert stats.seconds > 0


async def test_a_fault_of_the_grammar_is_the_server_s() -> None:
    async with running() as compiler:
        with pytest.raises(RequestFailed, match=r"troubled failed.*a fault of its own"):
            await compiled(compiler, "fail")


@pytest.mark.parametrize(("deed", "found"), [("return text", "Program of str"), ("return nothing", "NoneType")])
async def test_a_grammar_that_returns_no_program_is_told_so(deed: str, found: str) -> None:
    async with running() as compiler:
        with pytest.raises(RequestFailed, match=f"compile must return a Program of bytes, found {found}"):
            await compiled(compiler, deed)


async def test_a_grammar_that_cannot_be_built_says_so() -> None:
    async with running("UnbuildableGrammar") as compiler:
        with pytest.raises(RequestFailed, match="could not start"):
            await compiled(compiler, "fine")


async def test_a_kind_that_the_grammar_lacks_is_refused_by_name() -> None:
    async with running() as compiler:
        with pytest.raises(RequestError, match=r"troubled cannot constrain an output by json_schema; it knows regex"):
            await compiler.compile(Constraint("json_schema", "{}"))


async def test_a_grammar_that_is_not_offered_is_refused_by_name() -> None:
    async with running() as compiler:
        with pytest.raises(RequestError, match="no grammar 'other' is offered here; this server has troubled"):
            await compiled(compiler, "fine", grammar="other")


async def test_one_who_leaves_does_not_spoil_it_for_the_others() -> None:
    async with running() as compiler:
        await compiled(compiler, "fine")
        first = asyncio.create_task(compiled(compiler, "sleep 0.3"))
        await asyncio.sleep(0.05)
        second = asyncio.create_task(compiled(compiler, "sleep 0.3"))
        await asyncio.sleep(0.05)
        first.cancel()
        assert await second == b"sleep 0.3"


async def test_what_was_asked_for_longest_ago_is_forgotten_first(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("sgframe.front.compiler.REMEMBERED_BYTES", 1700)
    log = tmp_path / "log"
    async with running() as compiler:
        for text in ("a", "b", "c", "a", "d", "a", "b"):  # three entries fit
            await compiled(compiler, f"{text}@{log}")
    assert [line.split()[0] for line in log.read_text().splitlines()] == ["a", "b", "c", "d", "b"]


def test_the_process_ends_with_its_parent_in_the_middle_of_a_compilation(tmp_path: Path) -> None:
    log = tmp_path / "log"
    script = f"""
import asyncio
from test_compiler import choice
from sgframe.compiling import Task
from sgframe.constraints import Constraint
from sgframe.front.compiler import Compiler
from sgframe.interfaces.grammar import Vocabulary
compiler = Compiler(Task({{"troubled": choice("TroubledGrammar")}}, Vocabulary([b"a"], ()), 2**30), "troubled",
                    processes=1, seconds=60)
asyncio.run(compiler.compile(Constraint("regex", "spin@{log}")))
"""
    path = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    with subprocess.Popen([sys.executable, "-c", script], env={**os.environ, "PYTHONPATH": path}) as parent:
        while not (log.exists() and log.read_text()):
            time.sleep(0.05)
        parent.kill()
    pid = int(log.read_text().split()[-1])
    asyncio.run(gone(pid))
