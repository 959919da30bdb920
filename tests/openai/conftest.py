"""An engine whose front is the real one and whose scheduler is a script; and the HTTP application around it."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import httpx
import pytest

from sgframe.assembly.choice import Choice
from sgframe.assembly.providers import Seam
from sgframe.assembly.settings import Settings
from sgframe.constraints import Constraint
from sgframe.errors import RequestError, SgframeError
from sgframe.front.compiler import CompilerStats
from sgframe.front.tokenizer_manager import TokenizerManager
from sgframe.interfaces.cache import Node, Snapshot
from sgframe.interfaces.launcher import ProcessHealth
from sgframe.interfaces.source import Checkpoint
from sgframe.interfaces.transport import AsyncChannel
from sgframe.messages import (
    AbortRequest,
    CacheFlushed,
    CacheReport,
    Decoder,
    DescribeCache,
    Finish,
    FlushCache,
    FrontMessage,
    GenerateRequest,
    GrammarUse,
    LedgerLine,
    Loaded,
    Logprobs,
    TokenOutput,
    TokenOutputs,
    encode,
    ints,
)
from sgframe.scheduler.description import describe
from sgframe_openai.app import create_app
from sgframe_openai.server import HttpServer
from sgframe_simulated.tokenizer import EOS, ByteTokenizer

VOCAB_SIZE = 49152
CONTEXT = 4000


class WordTokenizer(ByteTokenizer):
    """Bytes and special tokens as ByteTokenizer has them; further ids are words. Its template refuses a late system."""

    @property
    def vocab_size(self) -> int:
        return VOCAB_SIZE

    def token_bytes(self, token: int) -> bytes:
        return super().token_bytes(token) if token < 260 else f" w{token}".encode()

    def is_special(self, token: int) -> bool:
        return 256 <= token < 260

    def apply_chat_template(self, messages: Sequence[Any], **options: Any) -> str:  # type: ignore[override]
        if any(message["role"] == "system" for message in messages[1:]):
            raise RequestError("the chat template refuses: System message must be at the beginning", param="messages")
        if options.pop("shout", False):
            messages = [{**message, "content": message["content"].upper()} for message in messages]
        return super().apply_chat_template(messages, **options)


class FakeCompiler:
    """Honours the constraints of ``kinds`` and remembers them, whatever they say. ``approximations`` are what it admits."""

    def __init__(self) -> None:
        self.kinds: set[str] = set()
        self.approximations: tuple[str, ...] = ()
        self.refusal: RequestError | None = None
        self.asked: list[Constraint] = []

    async def compile(self, constraint: Constraint) -> tuple[GrammarUse, tuple[str, ...]]:
        if self.refusal is not None:
            raise self.refusal
        if constraint.grammar not in ("", "fake"):
            raise RequestError(f"no grammar {constraint.grammar!r} is offered here", param="grammar")
        if constraint.kind not in self.kinds:
            raise RequestError(f"the output cannot be constrained by {constraint.kind}")
        self.asked.append(constraint)
        return GrammarUse("fake", b"key", constraint.kind.encode()), self.approximations

    def shut(self, reason: SgframeError) -> None:
        """Has nothing under way."""


class Script(AsyncChannel):
    """The scheduler's end. Request k says ``says[k]`` (cyclic), or what ``obeys`` has for its grammar's kind, a token every
    ``pause`` seconds, each with the logprob -1 / (k + 1), and in its first output ``reports[k]`` if there is one. The first
    ``forced`` tokens are told to be a grammar's. The cache holds ``nodes``. ``requests`` are those received, ``aborts`` the
    causes, ``running`` what is not done."""

    def __init__(self) -> None:
        self.says: list[bytes] = [b"Hello world"]
        self.pause = 0.0
        self.cached = 0
        self.reports: list[CacheReport] = []
        self.nodes: list[Node] = []
        self.fails_at = -1
        self.forced = 0
        self.obeys: dict[str, bytes] = {}
        self.requests: list[GenerateRequest] = []
        self.aborts: list[str] = []
        self.running: dict[int, asyncio.Task[None]] = {}
        self._decode: Decoder[FrontMessage] = Decoder(FrontMessage)
        self._inbox: asyncio.Queue[bytes] = asyncio.Queue()

    async def send(self, frame: bytes) -> None:
        match self._decode(frame):
            case GenerateRequest() as request:
                self.running[request.id] = asyncio.create_task(self._answer(request, len(self.requests)))
                self.requests.append(request)
            case AbortRequest(id=request_id, cause=cause) if request_id in self.running:
                self.running.pop(request_id).cancel()
                self.aborts.append(cause)
                self._put(TokenOutput(request_id, ints(), 0, finish=Finish("abort", detail=cause)))
            case FlushCache(id=request_id):
                self._inbox.put_nowait(encode(CacheFlushed(request_id, 7)))
            case DescribeCache() as question:
                self._inbox.put_nowait(encode(describe(question, Snapshot(tuple(self.nodes)))))

    async def recv(self) -> bytes:
        return await self._inbox.get()

    def close(self) -> None:
        for task in self.running.values():
            task.cancel()

    async def _answer(self, request: GenerateRequest, ordinal: int) -> None:
        eos = [EOS] if EOS in request.stop_ids else []
        said = self.says[ordinal % len(self.says)]
        if request.grammar is not None:
            said = self.obeys.get(request.grammar.data.decode(), said)
        script = itertools.cycle([*said, *eos])
        prompt_logprobs = None
        if (k := request.sampling.prompt_logprobs) >= 0:
            prompt_logprobs = [_logprobs(token, -2.0, k) for token in request.tokens[1:]]
        report = self.reports[ordinal] if ordinal < len(self.reports) else None
        if request.max_tokens == 0:
            self._put(TokenOutput(request.id, ints(), self.cached, None, prompt_logprobs, Finish("length")))
        for i in range(request.max_tokens):
            await asyncio.sleep(self.pause)
            token = next(script)
            finish = Finish("length") if i + 1 == request.max_tokens else None
            if token in request.stop_ids:
                finish = Finish("stop", matched=token)
            if i == self.fails_at:
                finish = Finish("error", detail="the logits were not finite")
            logprobs = None
            if (k := request.sampling.logprobs) >= 0:
                logprobs = [_logprobs(token, -1.0 / (ordinal + 1), k)]
                if i < self.forced:
                    logprobs = [Logprobs(token, 0.0, ints(), [], forced=True)]
            self._put(
                TokenOutput(
                    *(request.id, ints([token]), self.cached, logprobs, prompt_logprobs, finish, report),
                    forced=int(i < self.forced),
                )
            )
            prompt_logprobs = report = None
            if finish is not None:
                break
        self.running.pop(request.id)

    def _put(self, output: TokenOutput) -> None:
        self._inbox.put_nowait(encode(TokenOutputs([output])))


def _logprobs(token: int, logprob: float, k: int) -> Logprobs:
    """The token is the likeliest; the next ids follow, each by 1 less likely."""
    return Logprobs(token, logprob, ints(range(token, token + k)), [logprob - i for i in range(k)])


class FakeEngine:
    """What the front-end sees of an AsyncEngine."""

    def __init__(self, **settings: Any) -> None:
        self.settings = Settings(**{"model": "some/folder", "served_model_name": "m", "port": 0, **settings})
        self.checkpoint = Checkpoint("folder", "/nowhere", CONTEXT, VOCAB_SIZE, (EOS,))
        self.loaded = Loaded(VOCAB_SIZE, CONTEXT, 4096, 1, "float32", [LedgerLine("weights", 12, "measured")])
        self.choices = {seam: Choice(seam, "none", "a:B", {}, "a:C", "p") for seam in Seam}
        self.processes = {name: ProcessHealth(True, 0.1, "serving", 0.0) for name in ("scheduler", "worker-0")}
        self.tokenizer = WordTokenizer()
        self.script = Script()
        self.dead: str | None = None
        self.compiler = FakeCompiler()
        self.manager = TokenizerManager(
            *(self.script, self.tokenizer, self.loaded, (EOS,)),
            max_open=3000,
            compiler=self.compiler,  # type: ignore[arg-type]
        )
        self.submit = self.manager.submit
        self.flush_cache = self.manager.flush_cache
        self.describe_cache = self.manager.describe_cache
        self._traffic = [
            asyncio.create_task(work) for work in (self.manager.send_forever(), self.manager.receive_forever())
        ]

    def compiler_stats(self) -> CompilerStats:
        return CompilerStats(compiled=3, remembered=2, seconds=0.5)

    def replica_states(self) -> dict[str, int]:
        return {"serving": 3, "lost": 1}

    def stats(self) -> Any:
        return self.manager.stats

    def health(self) -> dict[str, ProcessHealth]:
        return self.processes

    def die(self, reason: str) -> None:
        self.dead = reason
        self.manager.fail(reason)

    def close(self) -> None:
        for task in self._traffic:
            task.cancel()
        self.script.close()


@pytest.fixture
async def make_engine() -> AsyncIterator[Callable[..., FakeEngine]]:
    """Makes engines with given settings."""
    engines: list[FakeEngine] = []

    def make(**settings: Any) -> FakeEngine:
        engines.append(FakeEngine(**settings))
        return engines[-1]

    yield make
    for engine in engines:
        engine.close()


@pytest.fixture
async def engine(make_engine: Callable[..., FakeEngine]) -> FakeEngine:
    return make_engine()


@pytest.fixture
def script(engine: FakeEngine) -> Script:
    return engine.script


@pytest.fixture
async def client(engine: FakeEngine) -> AsyncIterator[httpx.AsyncClient]:
    """Talks to the application without a socket; a stream arrives whole."""
    transport = httpx.ASGITransport(create_app(engine))  # type: ignore[arg-type]
    async with httpx.AsyncClient(transport=transport, base_url="http://test") as http:
        yield http


@pytest.fixture
async def url(engine: FakeEngine) -> AsyncIterator[str]:
    """A real server around the engine."""
    server = HttpServer(engine)  # type: ignore[arg-type]
    host, port = await server.start()
    yield f"http://{host}:{port}"
    await server.stop(1)
