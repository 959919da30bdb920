"""A replica that is lost while others go on is started again, as often as it takes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence

import pytest

from sgframe.errors import ConfigError, ModelError, PeerLost
from sgframe.front import replicas
from sgframe.front.replicas import Replicas
from sgframe.interfaces.launcher import Child, Crew, Launcher, Watcher
from sgframe.interfaces.transport import AsyncChannel
from sgframe.letter import Letter
from sgframe.messages import Loaded, encode
from sgframe.pulse import LastWords
from sgframe.testing.launcher import letters


class Channel(AsyncChannel):
    """Announces a model of so much ``context``; ``got`` is what was sent."""

    def __init__(self, context: int) -> None:
        self.got: list[bytes] = []
        self.lost = False
        self._says: asyncio.Queue[bytes] = asyncio.Queue()
        self._says.put_nowait(encode(Loaded(8, context, 200, 1, "float32", [])))

    async def send(self, frame: bytes) -> None:
        if self.lost:
            raise PeerLost("gone")
        self.got.append(frame)

    async def recv(self) -> bytes:
        if self.lost:
            raise PeerLost("gone")
        return await self._says.get()

    def close(self) -> None: ...


class ScriptedCrew(Crew):
    def __init__(self, letters: Sequence[Letter], watcher: Watcher, context: int) -> None:
        self.channel = Channel(context)
        self.children = [Child(letter.name, watcher, kill=lambda: None) for letter in letters]
        self.closed = False
        self.close_fault: Exception | None = None
        self.may_close = asyncio.Event()
        self.may_close.set()

    def die(self) -> None:
        self.children[1].hear_end(-9)

    async def close(self, *, kill: bool = False) -> None:
        if self.close_fault is not None:
            raise self.close_fault
        await self.may_close.wait()
        self.closed = True


class ScriptedLauncher(Launcher):
    """``crews`` by replica, the latest last. ``fails`` is raised so often, one by one."""

    def __init__(self, settings: None = None) -> None:
        self.crews: dict[int, list[ScriptedCrew]] = {}
        self.fails: list[Exception] = []
        self.context = 100

    async def launch(self, letters: Sequence[Letter], watcher: Watcher) -> Crew:
        if self.fails:
            raise self.fails.pop(0)
        crew = ScriptedCrew(letters, watcher, self.context)
        self.crews.setdefault(letters[0].replica, []).append(crew)
        return crew


class House:
    """``count`` replicas that serve. ``pauses`` are those before each start; nobody waits for them."""

    def __init__(self, count: int) -> None:
        self.launcher = ScriptedLauncher()
        self.dead: list[str] = []
        self.pauses: list[float] = []
        self.replicas = Replicas(
            self.launcher,
            count,
            lambda number: letters(number, replicas=count, transport="zmq"),
            lambda what, done, total: None,
            self.dead.append,
        )

    async def open(self) -> None:
        await self.replicas.launch()
        await self.replicas.load(b"hello")
        self.replicas.serve()

    def crew(self, number: int) -> ScriptedCrew:
        return self.launcher.crews[number][-1]

    def serving(self) -> set[str]:
        return {name.partition("@")[2] for name in self.replicas.health()}


@pytest.fixture
async def house(monkeypatch: pytest.MonkeyPatch):
    house = House(2)
    sleep = asyncio.sleep

    async def no_sleep(seconds: float) -> None:
        if seconds:
            house.pauses.append(seconds)
        await sleep(0)

    await house.open()
    monkeypatch.setattr(replicas.asyncio, "sleep", no_sleep)
    yield house
    await house.replicas.close()


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(5):
        while not condition():
            await asyncio.sleep(0)


async def test_it_is_left_out_while_it_is_gone_and_then_greeted_like_the_first(house: House) -> None:
    first = house.crew(1)
    first.die()
    assert house.serving() == {"0"}
    await until(lambda: house.serving() == {"0", "1"})
    assert first.closed
    assert house.crew(1) is not first
    assert house.crew(1).channel.got == [b"hello"]
    assert house.dead == []


async def test_each_loss_makes_the_pause_longer_up_to_a_minute(house: House) -> None:
    for _ in range(8):
        house.crew(1).die()
        await until(lambda: house.serving() == {"0", "1"})
    assert house.pauses == [1, 2, 4, 8, 16, 32, 60, 60]


async def test_after_a_minute_of_service_the_pause_is_short_again(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replicas, "LONGEST_PAUSE", 0.05)
    monkeypatch.setattr(replicas, "FIRST_PAUSE", 0.01)
    for quick in (True, True, False):
        if not quick:
            await asyncio.wait([asyncio.create_task(asyncio.Event().wait())], timeout=0.06)
        house.crew(1).die()
        await until(lambda: house.serving() == {"0", "1"})
    assert house.pauses == [0.01, 0.02, 0.01]


async def test_a_start_that_fails_is_told_and_tried_again(house: House, caplog: pytest.LogCaptureFixture) -> None:
    house.launcher.fails = [ConfigError("no room in the cluster"), RuntimeError("broken")]
    house.crew(0).die()
    await until(lambda: house.serving() == {"0", "1"})
    assert [record.message for record in caplog.records if record.levelno >= logging.WARNING] == [
        "replica 0 is lost, 1 go on: the worker-0@0 process was killed by SIGKILL",
        "replica 0 could not be started again: no room in the cluster",
        "replica 0 could not be started again: broken",
        "replica 0 serves again",
    ]
    assert house.pauses == [1, 2, 4]


async def test_one_that_has_less_room_than_clients_were_told_is_not_admitted(
    house: House, caplog: pytest.LogCaptureFixture
) -> None:
    house.launcher.context = 99
    house.crew(1).die()
    await until(lambda: "could not be started again" in caplog.text)
    assert "there is memory for 99 tokens of context, and the engine serves 100" in caplog.text
    assert house.serving() == {"0"}
    house.launcher.context = 100
    await until(lambda: house.serving() == {"0", "1"})
    assert [crew.closed for crew in house.launcher.crews[1]][:2] == [True, True]


async def test_with_the_last_the_engine_is_dead(house: House) -> None:
    house.launcher.fails = [ConfigError("no")] * 1000
    house.crew(1).die()
    await until(lambda: house.serving() == {"0"})
    house.crew(0).die()
    assert house.dead == ["the worker-0@0 process was killed by SIGKILL"]
    assert house.serving() == {"0", "1"}, "all are shown, dead"


async def test_closing_ends_one_that_is_on_its_way(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    async def never(self: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(replicas.Replica, "load", never)
    house.crew(1).die()
    await until(lambda: len(house.launcher.crews[1]) == 2)
    await house.replicas.close()
    assert house.crew(1).closed


async def test_closing_waits_for_one_that_was_lost_and_is_still_being_ended(house: House) -> None:
    lost = house.crew(1)
    lost.may_close.clear()
    lost.die()
    await asyncio.sleep(0)
    closing = asyncio.create_task(house.replicas.close())
    await until(lambda: house.crew(0).closed)
    for _ in range(10):
        await asyncio.sleep(0)
    assert not closing.done()
    lost.may_close.set()
    await closing
    assert lost.closed


async def test_closing_waits_for_one_whose_start_failed_and_is_still_being_ended(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(self: object) -> None:
        house.crew(1).may_close.clear()
        raise ConfigError("no")

    monkeypatch.setattr(replicas.Replica, "load", fail)
    house.crew(1).die()
    await until(lambda: not house.crew(1).may_close.is_set())
    await asyncio.sleep(0)
    closing = asyncio.create_task(house.replicas.close())
    await until(lambda: house.crew(0).closed)
    for _ in range(10):
        await asyncio.sleep(0)
    assert not closing.done()
    house.crew(1).may_close.set()
    await closing
    assert house.crew(1).closed


async def test_one_that_cannot_be_ended_in_order_is_told_and_replaced_all_the_same(
    house: House, caplog: pytest.LogCaptureFixture
) -> None:
    house.crew(1).close_fault = RuntimeError("the cluster does not answer")
    house.crew(1).die()
    await until(lambda: house.serving() == {"0", "1"})
    assert "replica 1 could not be ended in order" in caplog.text


async def test_one_that_died_before_it_was_greeted_is_told_in_its_own_words() -> None:
    house = House(1)
    await house.replicas.launch()
    crew = house.crew(0)
    crew.children[1].hear(LastWords("ModelError", "there is no such model"))
    crew.children[1].hear_end(1)
    crew.channel.lost = True
    with pytest.raises(ModelError, match="there is no such model"):
        await house.replicas.load(b"hello")
    await house.replicas.close()


async def test_a_death_during_the_launch_is_told_in_its_own_words(monkeypatch: pytest.MonkeyPatch) -> None:
    house = House(1)
    launch = house.launcher.launch

    async def slow_launch(letters: Sequence[Letter], watcher: Watcher) -> Crew:
        crew = await launch(letters, watcher)
        crew.children[1].hear(LastWords("ModelError", "there is no such model"))
        crew.children[1].hear_end(1)
        crew.channel.lost = True
        return crew

    monkeypatch.setattr(house.launcher, "launch", slow_launch)
    await house.replicas.launch()
    with pytest.raises(ModelError, match="there is no such model"):
        await house.replicas.load(b"")
    await house.replicas.close()


async def test_a_start_ends_with_the_first_that_fails_however_long_others_take(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    house = House(2)
    await house.replicas.launch()

    async def never() -> bytes:
        await asyncio.Event().wait()
        return b""

    for number in range(2):
        monkeypatch.setattr(house.crew(number).channel, "recv", never)
    house.crew(1).children[1].hear(LastWords("ModelError", "there is no such device"))
    house.crew(1).children[1].hear_end(1)
    with pytest.raises(ModelError, match="there is no such device"):
        await asyncio.wait_for(house.replicas.load(b"hello"), 5)
    await house.replicas.close()
