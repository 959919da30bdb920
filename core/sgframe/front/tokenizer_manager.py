"""The TokenizerManager: text to ids on the way in, ids to text on the way out, for every open request.

Owns the table of open requests and the channel to the scheduler. The scheduler's ids are its own counter; a client's id is
only a label for the log.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import secrets
from array import array
from collections.abc import Sequence
from functools import partial
from typing import Any, NoReturn, assert_never

from sgframe.capacity import output_limit
from sgframe.constraints import Constraint
from sgframe.errors import ContextLengthExceeded, EngineDead, Overloaded, RequestError, RequestFailed
from sgframe.front.compiler import Compiler
from sgframe.front.generation import Generation, OutputStream
from sgframe.front.scoring import Scored, Scoring, TokenTree
from sgframe.interfaces.source import Tokenizer
from sgframe.interfaces.transport import AsyncChannel
from sgframe.messages import (
    AbortRequest,
    CacheDescribed,
    CacheDescription,
    CacheFlushed,
    Decoder,
    DescribeCache,
    Drain,
    Drained,
    FlushCache,
    FrontMessage,
    GenerateRequest,
    GrammarUse,
    Loaded,
    Namespace,
    ReleaseLeases,
    SchedulerMessage,
    StatsReport,
    TokenOutput,
    TokenOutputs,
    encode,
    ints,
)
from sgframe.sampling import SamplingParams, TokenSampling
from sgframe.statistics import SchedulerStats

log = logging.getLogger(__name__)

SHUTTING_DOWN = "the server is shutting down and takes no new requests"
LONG_TEXT = 20_000
"""Characters from which a prompt is encoded in a thread, and tokens from which a tree is built in one, so that other
requests' streams go on meanwhile."""


class TokenizerManager:
    """Submits requests to the scheduler and hands each what comes back. Lives in one event loop.

    ``draining`` says that no further requests are taken, ``drained`` that those it had are done.
    """

    def __init__(
        self,
        channel: AsyncChannel,
        tokenizer: Tokenizer,
        loaded: Loaded,
        eos_ids: Sequence[int],
        max_open: int,
        compiler: Compiler,
        timeout: float = 0.0,
    ) -> None:
        self.tokenizer = tokenizer
        self.loaded = loaded
        self.stats = SchedulerStats()
        self.drained = asyncio.Event()
        self.draining = False
        self._channel = channel
        self._eos_ids = tuple(eos_ids)
        self._max_open = max_open
        self._compiler = compiler
        self._timeout = timeout
        self._ids = itertools.count(1)
        self._leases = itertools.count(1)
        self._open: dict[int, tuple[Generation | Scoring, int]] = {}
        self._asked: dict[int, asyncio.Future[Any]] = {}
        self._outgoing: asyncio.Queue[FrontMessage] = asyncio.Queue()
        self._decode: Decoder[SchedulerMessage] = Decoder(SchedulerMessage)
        self._dead: EngineDead | None = None

    # -------------------------------------------------------------------------------------------- requests

    async def submit(
        self,
        prompt: str | Sequence[int],
        params: SamplingParams,
        *,
        namespace: Namespace = (),
        priority: int = 0,
        request_id: str = "",
        lease: int = 0,
        lineage: tuple[int, ...] = (),
    ) -> Generation:
        """Queue ``prompt`` and return its generation. What it computes stays leased under ``lease``, a number of
        ``new_lease``; ``lineage`` is its place in a program (see ``scheduler.lineage``).

        Raises RequestError when the request cannot be honoured as it stands, Overloaded when too many are open, EngineDead
        when a process of the engine died.
        """
        params.validate(self.loaded.vocab_size)
        if not isinstance(prompt, str):  # before each of what may be millions of ids is looked at
            output_limit(len(prompt), params.max_tokens, self.loaded.context_length)
        tokens = await self._tokens(prompt)
        max_tokens = output_limit(len(tokens), params.max_tokens, self.loaded.context_length)
        self._check_room(params.n)
        grammar, approximations = await self._compile(params.constraint)
        self._check_room(params.n)
        ids = [next(self._ids) for _ in range(params.n)]
        streams = [OutputStream(index, len(tokens), params, self.tokenizer) for index in range(params.n)]
        generation = Generation(
            request_id or f"#{ids[0]}",
            tuple(tokens),
            streams,
            lambda index, cause: self._abort(ids[index], cause),
            approximations,
        )
        stop_ids = ints(params.stop_token_ids if params.ignore_eos else (*self._eos_ids, *params.stop_token_ids))
        seed = secrets.randbits(63) if params.seed is None else params.seed
        for index, request in enumerate(ids):
            self._open[request] = (generation, index)
            sampling = _token_sampling(params, seed, index)
            self._outgoing.put_nowait(
                GenerateRequest(
                    id=request,
                    tokens=tokens,
                    max_tokens=max_tokens,
                    stop_ids=stop_ids,
                    sampling=sampling,
                    namespace=namespace,
                    priority=priority,
                    grammar=grammar,
                    lease=lease if index == 0 else 0,
                    lineage=lineage,
                )
            )
        self._limit_time(generation)
        return generation

    async def score(
        self,
        prompt: Sequence[int],
        paths: Sequence[Sequence[int]],
        *,
        namespace: Namespace = (),
        request_id: str = "",
        lease: int = 0,
        lineage: tuple[int, ...] = (),
    ) -> Scored:
        """How likely each of ``paths`` follows ``prompt``, as one request; cancelled, it is aborted.

        Raises as ``submit``, RequestFailed when it ended before it was done, and RequestError for an empty path.
        """
        tokens = await self._tokens(prompt)
        vocab_size = self.loaded.vocab_size
        if not paths or not all(paths):
            raise RequestError("each path to score must have at least one token", param="paths")
        self._check_tree(len(tokens), max(map(len, paths)) - 1)
        build = partial(_tree, paths, vocab_size)
        tree = await asyncio.to_thread(build) if sum(map(len, paths)) > LONG_TEXT else build()
        self._check_tree(len(tokens), len(tree.nodes))
        self._check_room(1)
        request = next(self._ids)
        scoring = Scoring(request_id or f"#{request}", tokens, tree, partial(self._abort, request))
        self._open[request] = (scoring, 0)
        sampling = _token_sampling(SamplingParams(), 0, 0)
        self._outgoing.put_nowait(
            GenerateRequest(
                id=request,
                tokens=tokens + tree.nodes,
                max_tokens=0,
                stop_ids=ints(),
                sampling=sampling,
                namespace=namespace,
                tree=tree.tree,
                lease=lease,
                lineage=lineage,
            )
        )
        self._limit_time(scoring)
        try:
            return await scoring.result
        except asyncio.CancelledError:
            scoring.abort("abandoned by its caller")
            raise

    def _check_tree(self, prompt_len: int, nodes: int) -> None:
        if prompt_len + nodes > self.loaded.context_length:
            raise ContextLengthExceeded(
                f"the prompt has {prompt_len} tokens and what is to be scored after it {nodes} more; this server's context "
                f"holds {self.loaded.context_length}: shorten the prompt or score less at once",
                param="paths",
            )

    def _limit_time(self, request: Generation | Scoring) -> None:
        if self._timeout:
            asyncio.get_running_loop().call_later(
                self._timeout, partial(request.abort, f"timeout after {self._timeout:g} s")
            )

    async def prepare(self, constraint: Constraint) -> tuple[str, ...]:
        """Compile ``constraint`` for later requests; returns its approximations. Raises as ``submit`` would."""
        _, approximations = await self._compile(constraint)
        return approximations

    def new_lease(self) -> int:
        """A number for a lease that a request is to leave behind."""
        return next(self._leases)

    def release_leases(self, leases: Sequence[int]) -> None:
        """Let go of these leases, also of those that open requests are yet to leave behind."""
        if self._dead is None and leases:
            self._outgoing.put_nowait(ReleaseLeases(ints(leases)))

    def _check_room(self, outputs: int) -> None:
        """Raises EngineDead or Overloaded when no more requests are taken."""
        if self._dead is not None:
            raise self._dead
        if self.draining:
            raise Overloaded(SHUTTING_DOWN)
        if len(self._open) + outputs > self._max_open:
            raise Overloaded(f"{len(self._open)} requests are open, the limit is {self._max_open}; try again later")

    async def _compile(self, constraint: Constraint | None) -> tuple[GrammarUse | None, tuple[str, ...]]:
        if constraint is None:
            return None, ()
        try:
            async with asyncio.timeout(self._timeout or None):
                return await self._compiler.compile(constraint)
        except TimeoutError:
            raise RequestFailed(f"timeout after {self._timeout:g} s, while the constraint was compiled") from None

    async def _tokens(self, prompt: str | Sequence[int]) -> array[int]:
        if isinstance(prompt, str):
            encode_text = partial(self.tokenizer.encode, prompt)
            tokens = ints(await asyncio.to_thread(encode_text) if len(prompt) > LONG_TEXT else encode_text())
        else:
            tokens = _checked_ids(prompt, self.loaded.vocab_size)
        if not tokens:
            raise RequestError("the prompt is empty: it must have at least one token", param="prompt")
        return tokens

    def _abort(self, request: int, cause: str) -> None:
        if request in self._open:
            self._outgoing.put_nowait(AbortRequest(request, cause))

    async def flush_cache(self) -> int:
        """Forget all cached prefixes that nothing runs on; returns their tokens."""
        tokens: int = await self._ask(FlushCache(next(self._ids)))
        return tokens

    async def describe_cache(self, limit: int, preview: int) -> CacheDescription:
        """The ``limit`` nodes of the prefix cache that saved most, and the first ``preview`` tokens of each."""
        if limit < 1 or preview < 0:
            raise ValueError(f"limit must be at least 1 and preview at least 0, found {limit} and {preview}")
        description: CacheDescription = await self._ask(DescribeCache(next(self._ids), limit, preview))
        return description

    async def _ask(self, question: FlushCache | DescribeCache) -> Any:
        """The scheduler's answer. Raises EngineDead when none will come."""
        if self._dead is not None:
            raise self._dead
        future = self._asked[question.id] = asyncio.get_running_loop().create_future()
        self._outgoing.put_nowait(question)
        return await future

    def _answer(self, question: int, answer: Any) -> None:
        future = self._asked.pop(question)
        if not future.done():  # it is when who asked has gone
            future.set_result(answer)

    def drain(self) -> None:
        """Refuse new requests and let the open ones finish; then ``drained`` is set."""
        if not self.draining:
            self.draining = True
            self._compiler.shut(Overloaded(SHUTTING_DOWN))
            self._outgoing.put_nowait(Drain())

    def abort_all(self, cause: str) -> None:
        for generation, _ in list(self._open.values()):
            generation.abort(cause)

    def fail(self, reason: str) -> None:
        """The engine is dead: everything open ends with that error, and so does everything that comes."""
        if self._dead is not None:
            return
        self._dead = EngineDead(reason)
        self._compiler.shut(self._dead)
        for generation in {id(generation): generation for generation, _ in self._open.values()}.values():
            generation.fail(self._dead)
        self._open.clear()
        for future in self._asked.values():
            if not future.done():
                future.set_exception(self._dead)
        self.drained.set()

    # -------------------------------------------------------------------------------------------- traffic

    async def send_forever(self) -> NoReturn:
        """Put queued messages on the channel, in order. Raises PeerLost."""
        while True:
            await self._channel.send(encode(await self._outgoing.get()))

    async def receive_forever(self) -> NoReturn:
        """Hand what the scheduler says to whom it is for. Raises PeerLost."""
        while True:
            self._take(self._decode(await self._channel.recv()))

    def _take(self, message: SchedulerMessage) -> None:
        match message:
            case TokenOutputs(outputs=outputs):
                for output in outputs:
                    self._hand_out(output)
            case StatsReport(stats=stats):
                self.stats = stats
            case CacheFlushed(id=question, tokens=tokens):
                self._answer(question, tokens)
            case CacheDescribed(id=question, description=description):
                self._answer(question, description)
            case Drained():
                self.drained.set()
            case Loaded():
                raise AssertionError("a model is loaded once")
            case _:
                assert_never(message)

    def _hand_out(self, output: TokenOutput) -> None:
        if output.id not in self._open:
            return
        generation, index = self._open[output.id]
        try:
            done = generation.take(index, output)
        except Exception as error:  # a tokenizer's code: its fault ends this request alone
            log.exception("request %s: its tokens could not be made into text", generation.request_id)
            generation.abort("its text failed")
            generation.fail(RequestFailed(f"the tokens could not be made into text: {error!r}"))
            done = True
        if done:
            del self._open[output.id]


def _token_sampling(params: SamplingParams, seed: int, index: int) -> TokenSampling:
    """What the sampler needs of ``params`` for output ``index``; each output draws from a seed of its own."""
    return TokenSampling(
        seed=(seed + index * 0x9E3779B97F4A7C15 + 2**63) % 2**64 - 2**63,
        temperature=params.temperature,
        top_p=params.top_p,
        top_k=min(params.top_k, 2**31 - 1),
        min_p=params.min_p,
        presence_penalty=params.presence_penalty,
        frequency_penalty=params.frequency_penalty,
        repetition_penalty=params.repetition_penalty,
        logit_bias=params.logit_bias,
        logprobs=-1 if params.logprobs is None else params.logprobs,
        prompt_logprobs=-1 if params.prompt_logprobs is None or index > 0 else params.prompt_logprobs,
    )


def _tree(paths: Sequence[Sequence[int]], vocab_size: int) -> TokenTree:
    return TokenTree([_checked_ids(path, vocab_size) for path in paths])


def _checked_ids(tokens: Sequence[int], vocab_size: int) -> array[int]:
    for token in tokens:
        if not isinstance(token, int) or isinstance(token, bool) or not 0 <= token < vocab_size:
            raise RequestError(
                f"the prompt holds {token!r}, which is no token id: this model's are 0 to {vocab_size - 1}",
                param="prompt",
            )
    return ints(tokens)
