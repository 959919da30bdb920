"""The contract of the launcher seam as tests: subclass ``LauncherContract`` as ``TestMine`` and give ``make``.

    class TestMyLauncher(LauncherContract):
        def make(self):
            return MyLauncher(MySettings())

It launches engines of the simulated backend; what a launcher runs on must be there already. Needs pytest-asyncio, in the
mode ``auto``.
"""

from __future__ import annotations

import asyncio
import tempfile
from abc import abstractmethod
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from sgframe.assembly.assemble import configure
from sgframe.assembly.providers import Seam
from sgframe.errors import PeerLost
from sgframe.front.letters import scheduler_letter, worker_letters
from sgframe.interfaces.launcher import Crew, Launcher
from sgframe.interfaces.source import ModelSource
from sgframe.letter import Letter
from sgframe.messages import Decoder, GenerateRequest, Loaded, SchedulerMessage, TokenOutputs, encode, ints
from sgframe.pulse import Progress
from sgframe.sampling import TokenSampling
from sgframe.testing.contract import Contract

PATIENCE = 60.0
"""Seconds in which whatever is waited for must happen."""


def letters(replica: int = 0, **settings: object) -> list[Letter]:
    """Of a simulated engine, by default with so few slots that a request of 64 tokens fits."""
    parts = {"model": "simulated", "backend": "simulated", "source": "simulated", "log_level": "error"}
    found = configure({**parts, "kv_slots": 256, "replicas": replica + 1, **settings})
    choices = found.choose()
    source: ModelSource = choices[Seam.SOURCE].build()
    about = found.settings, choices, source.resolve("simulated", lambda what, done, total: None)
    return [scheduler_letter(*about, {}, replica), *worker_letters(*about, replica)]


class Diary:
    """A watcher that writes down the deaths it hears of, and sets ``news`` at each."""

    def __init__(self) -> None:
        self.deaths: dict[str, str] = {}
        self.news = asyncio.Event()

    def on_progress(self, child: str, progress: Progress) -> None: ...

    def on_death(self, child: str, reason: str) -> None:
        self.deaths[child] = reason
        self.news.set()


async def hear(crew: Crew) -> SchedulerMessage:
    """The next message of the crew's scheduler."""
    decode: Decoder[SchedulerMessage] = Decoder(SchedulerMessage)
    return decode(await asyncio.wait_for(crew.channel.recv(), PATIENCE))


async def answer(crew: Crew, number: int) -> list[int]:
    """What a loaded crew answers to the prompt 1 2 3, of which the simulated model makes 1 2 3 again."""
    request = GenerateRequest(number, ints([1, 2, 3]), 3, ints(), TokenSampling(seed=0, temperature=0.0))
    await crew.channel.send(encode(request))
    tokens: list[int] = []
    while True:
        message = await hear(crew)
        for output in message.outputs if isinstance(message, TokenOutputs) else ():
            tokens += output.tokens
            if output.finish is not None:
                return tokens


class LauncherContract(Contract):
    """What every launcher must do. Collected by pytest in a subclass named ``Test…``."""

    @abstractmethod
    def make(self) -> Launcher:
        """The launcher under test."""

    @asynccontextmanager
    async def launched(self, diary: Diary, *crews: list[Letter], kill: bool = False) -> AsyncIterator[list[Crew]]:
        """Crews of these letters; closed at the end, after which none of their children lives."""
        launcher = self.make()
        started = [await launcher.launch(each, diary) for each in crews]
        try:
            yield started
        finally:
            for crew in started:
                await asyncio.wait_for(crew.close(kill=kill), PATIENCE)
            await launcher.close()
        assert all(child.ended.is_set() for crew in started for child in crew.children)

    async def test_a_crew_loads_and_answers(self) -> None:
        async with self.launched(Diary(), letters()) as (crew,):
            assert isinstance(await hear(crew), Loaded)
            assert await answer(crew, 1) == [1, 2, 3]

    async def test_its_children_bear_the_names_of_the_letters_and_say_what_they_do(self) -> None:
        async with self.launched(Diary(), letters()) as (crew,):
            await hear(crew)
            await asyncio.sleep(1.0)  # some beats
            health = {child.name: child.health() for child in crew.children}
        assert list(health) == ["scheduler", "worker-0"]
        assert all(each.alive and each.beat_age < 1 and each.phase != "starting" for each in health.values())

    async def test_two_crews_do_not_meet(self) -> None:
        async with self.launched(Diary(), letters(0, replicas=2), letters(1)) as crews:
            for number, crew in enumerate(crews, 1):
                assert isinstance(await hear(crew), Loaded)
                assert await answer(crew, number) == [1, 2, 3]

    async def test_a_killed_child_is_told_at_once_and_its_crew_ends(self) -> None:
        diary = Diary()
        async with self.launched(diary, letters()) as (crew,):
            await hear(crew)
            crew.children[1].kill()
            await asyncio.wait_for(diary.news.wait(), 2.0)
            while len(diary.deaths) < 2:
                diary.news.clear()
                await asyncio.wait_for(diary.news.wait(), PATIENCE)
            assert "worker-0" in diary.deaths["worker-0"]
            with pytest.raises(PeerLost):
                while True:
                    await hear(crew)

    async def test_what_a_child_dies_of_is_told_in_its_words(self) -> None:
        diary = Diary()
        async with self.launched(diary, letters(dtype="float16"), kill=True) as (crew,):  # which it has not
            while "worker-0" not in diary.deaths:
                diary.news.clear()
                await asyncio.wait_for(diary.news.wait(), PATIENCE)
            worker = crew.children[1]
        assert worker.error == "ModelError"
        assert diary.deaths["worker-0"] == worker.reason

    async def test_a_crew_that_still_loads_is_ended_at_once(self) -> None:
        async with self.launched(Diary(), letters(), kill=True):
            pass

    async def test_no_folder_stays_behind(self) -> None:
        with tempfile.TemporaryDirectory() as alone, pytest.MonkeyPatch.context() as patch:
            patch.setattr(tempfile, "tempdir", alone)  # others may run beside this
            async with self.launched(Diary(), letters()) as (crew,):
                await hear(crew)
            assert not list(Path(alone).glob("sgframe-*"))
