"""What the front learns of the prefix cache: the report about each request, and the nodes it holds."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator

import pytest

from sgframe.compiling import Task
from sgframe.errors import EngineDead
from sgframe.front.compiler import Compiler
from sgframe.front.outputs import Output, collect
from sgframe.front.tokenizer_manager import TokenizerManager
from sgframe.interfaces.grammar import Vocabulary
from sgframe.interfaces.transport import AsyncChannel
from sgframe.messages import (
    CacheDescribed,
    CacheDescription,
    CachedNode,
    CacheReport,
    Decoder,
    DescribeCache,
    Finish,
    FrontMessage,
    GenerateRequest,
    Loaded,
    SchedulerMessage,
    TokenOutput,
    TokenOutputs,
    encode,
    ints,
)
from sgframe.sampling import SamplingParams
from sgframe_simulated.tokenizer import ByteTokenizer

EVICTED = CacheReport(2, "evicted", "lru", 12.5)
FLOOR = CacheReport(0, "page_floor")
NODES = [
    CachedNode(1, -1, 3, ints([*b"abc"]), 14, 1, 4, 0.5, ()),
    CachedNode(2, 1, 2, ints([*b"de"]), 2, 0, 1, 7.0, (("salt", "x"),)),
]
WHOLE = CacheDescription(2, 5, NODES)

NO_COMPILER = Compiler(Task({}, Vocabulary([], ()), 0), "none", processes=1, seconds=1.0)


class Scheduler(AsyncChannel):
    """Answers request k in two pieces, the first with ``reports[k]``; describes WHOLE unless it is ``silent``, and keeps the
    ``questions``."""

    def __init__(self) -> None:
        self.reports: list[CacheReport] = []
        self.silent = False
        self.questions: list[DescribeCache] = []
        self.asked = asyncio.Event()
        self._decode: Decoder[FrontMessage] = Decoder(FrontMessage)
        self._inbox: asyncio.Queue[bytes] = asyncio.Queue()

    async def send(self, frame: bytes) -> None:
        match self._decode(frame):
            case GenerateRequest(id=request):
                self._say(TokenOutputs([TokenOutput(request, ints([120]), 3, cache=self.reports.pop(0))]))
                self._say(TokenOutputs([TokenOutput(request, ints([121]), 3, finish=Finish("length"))]))
            case DescribeCache() as question:
                self.questions.append(question)
                self.asked.set()
                if not self.silent:
                    self._say(CacheDescribed(question.id, WHOLE))

    def _say(self, message: SchedulerMessage) -> None:
        self._inbox.put_nowait(encode(message))

    async def recv(self) -> bytes:
        return await self._inbox.get()

    def close(self) -> None:
        pass


@pytest.fixture
def scheduler() -> Scheduler:
    return Scheduler()


@pytest.fixture
async def manager(scheduler: Scheduler) -> AsyncIterator[TokenizerManager]:
    manager = TokenizerManager(scheduler, ByteTokenizer(), Loaded(260, 100, 100, 1, "float32", []), (), 9, NO_COMPILER)
    traffic = [asyncio.create_task(work) for work in (manager.send_forever(), manager.receive_forever())]
    yield manager
    for task in traffic:
        task.cancel()


async def generate(manager: TokenizerManager, n: int = 1) -> tuple[Output, ...]:
    async with await manager.submit("abc", SamplingParams(max_tokens=2, n=n)) as generation:
        return await collect(generation)


async def test_the_first_piece_s_report_stays_with_the_output(manager: TokenizerManager, scheduler: Scheduler) -> None:
    scheduler.reports = [EVICTED]
    (output,) = await generate(manager)
    assert output.usage.cache == EVICTED
    assert (output.usage.cached_tokens, output.usage.completion_tokens) == (3, 2)


async def test_each_output_has_a_report_of_its_own(manager: TokenizerManager, scheduler: Scheduler) -> None:
    scheduler.reports = [EVICTED, FLOOR]
    assert [output.usage.cache for output in await generate(manager, n=2)] == [EVICTED, FLOOR]


@pytest.mark.parametrize(
    ("report", "words"),
    [(EVICTED, "3 cached (evicted by lru 12.5 s ago)"), (FLOOR, "3 cached (page_floor)")],
)
async def test_the_log_says_why_no_more_was_cached(
    manager: TokenizerManager,
    scheduler: Scheduler,
    caplog: pytest.LogCaptureFixture,
    report: CacheReport,
    words: str,
) -> None:
    caplog.set_level(logging.INFO)
    scheduler.reports = [report]
    await generate(manager)
    assert f"ended: length; 4 in, 2 out, {words}, first token" in caplog.text


async def test_the_cache_is_described_as_far_as_it_is_wanted(manager: TokenizerManager, scheduler: Scheduler) -> None:
    assert await manager.describe_cache(limit=7, preview=3) == WHOLE
    (question,) = scheduler.questions
    assert (question.limit, question.preview) == (7, 3)


@pytest.mark.parametrize(("limit", "preview"), [(0, 3), (-1, 3), (7, -1)])
async def test_a_description_of_nothing_is_refused(manager: TokenizerManager, limit: int, preview: int) -> None:
    with pytest.raises(ValueError, match=f"found {limit} and {preview}"):
        await manager.describe_cache(limit, preview)


async def test_a_description_whose_asker_has_gone_is_dropped(manager: TokenizerManager, scheduler: Scheduler) -> None:
    gone = asyncio.create_task(manager.describe_cache(7, 3))
    await asyncio.sleep(0)
    gone.cancel()
    assert await manager.describe_cache(7, 3) == WHOLE


async def test_a_description_that_will_not_come_ends_with_the_engine(
    manager: TokenizerManager, scheduler: Scheduler
) -> None:
    scheduler.silent = True
    waiting = asyncio.create_task(manager.describe_cache(7, 3))
    await scheduler.asked.wait()
    manager.fail("the scheduler was killed")
    with pytest.raises(EngineDead, match="the scheduler was killed"):
        await waiting
    with pytest.raises(EngineDead, match="the scheduler was killed"):
        await manager.describe_cache(7, 3)
