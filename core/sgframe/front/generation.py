"""One generation in the front: n outputs of one prompt, token ids in, pieces of text out."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable
from types import TracebackType

from sgframe.errors import RequestFailed
from sgframe.front.inbox import Inbox
from sgframe.front.outputs import Delta, Usage
from sgframe.front.text import TextStream
from sgframe.interfaces.source import Tokenizer
from sgframe.messages import CacheReport, TokenOutput
from sgframe.sampling import SamplingParams

log = logging.getLogger(__name__)


class OutputStream:
    """Turns the token ids of one output into Deltas: bytes, text, stop strings, counts."""

    def __init__(self, index: int, prompt_len: int, params: SamplingParams, tokenizer: Tokenizer) -> None:
        self.index = index
        self.finished = False
        self._prompt_len = prompt_len
        self._params = params
        self._tokenizer = tokenizer
        self._text = TextStream(params.stop, include_stop=params.include_stop)
        self._count = 0
        self._forced = 0
        self._cache: CacheReport | None = None

    def take(self, output: TokenOutput) -> Delta:
        """The piece that ``output`` adds. ``finished`` tells whether it is the last one."""
        finish = output.finish
        tokens, logprobs = tuple(output.tokens), output.logprobs
        self._cache = self._cache or output.cache
        ending = finish is not None and finish.matched is not None and not self._params.include_stop
        text, read = self._read(tokens[:-1] if ending else tokens)
        if self._text.matched is not None:  # what came with it, forced or guessed, does not count
            tokens, logprobs = tokens[:read], None if logprobs is None else logprobs[:read]
        if finish is not None:
            text += self._text.finish()
        matched = self._text.matched
        self._count += len(tokens)
        self._forced += min(output.forced, len(tokens))
        self.finished = finish is not None or matched is not None
        return Delta(
            index=self.index,
            text=text,
            tokens=tokens,
            usage=Usage(self._prompt_len, self._count, output.cached_tokens, self._cache, self._forced),
            logprobs=None if logprobs is None else tuple(logprobs),
            prompt_logprobs=None if output.prompt_logprobs is None else tuple(output.prompt_logprobs),
            finish_reason="stop" if matched is not None else finish.reason if finish is not None else None,
            stop_match=matched if matched is not None else finish.matched if finish is not None else None,
            abort_cause=finish.detail if matched is None and finish is not None else "",
        )

    def _read(self, tokens: tuple[int, ...]) -> tuple[str, int]:
        """The text of ``tokens`` up to the one that completes a stop string, and how many those are."""
        if not self._params.stop or len(tokens) < 2:
            return self._text.feed(b"".join(map(self._bytes, tokens))), len(tokens)
        text = ""
        for count, token in enumerate(tokens, 1):
            text += self._text.feed(self._bytes(token))
            if self._text.matched is not None:
                return text, count
        return text, len(tokens)

    def _bytes(self, token: int) -> bytes:
        if self._params.skip_special_tokens and self._tokenizer.is_special(token):
            return b""
        return self._tokenizer.token_bytes(token)


class Generation:
    """Async iterator over the Deltas of all outputs, merged as they come; leaving its context aborts what still runs.

    ``abort_output`` sends an abort for one output by its position; ``approximations`` say where the outputs may deviate from
    their constraint. Raises RequestFailed or EngineDead while iterated.
    """

    def __init__(
        self,
        request_id: str,
        prompt_tokens: tuple[int, ...],
        streams: list[OutputStream],
        abort_output: Callable[[int, str], None],
        approximations: tuple[str, ...] = (),
    ) -> None:
        self.request_id = request_id
        self.prompt_tokens = prompt_tokens
        self.approximations = approximations
        self._streams = streams
        self._abort_output = abort_output
        self._inbox: Inbox[Delta] = Inbox()
        self._taken: deque[Delta] = deque()
        self._unread = len(streams)
        self._started = time.monotonic()
        self._first: float | None = None

    # ---------------------------------------------------------------------------------------- from the manager

    def take(self, index: int, output: TokenOutput) -> bool:
        """Feed one output; True when that output needs nothing more. Its slots may still have to be freed by an abort."""
        stream = self._streams[index]
        if self._first is None:
            self._first = time.monotonic()
        if output.finish is not None and output.finish.reason == "error":
            stream.finished = True
            self._log_end(index, f"error: {output.finish.detail}", None)
            self._inbox.fail(RequestFailed(output.finish.detail))
            return True
        delta = stream.take(output)
        self._inbox.put(delta)
        if stream.finished:
            if output.finish is None:
                self._abort_output(index, "stop string")
            self._log_end(index, _cause(delta, output), delta.usage)
        return stream.finished

    def fail(self, error: Exception) -> None:
        """End everything that is open with ``error``."""
        for index, stream in enumerate(self._streams):
            if not stream.finished:
                stream.finished = True
                self._log_end(index, f"error: {error}", None)
        self._inbox.fail(error)

    # ---------------------------------------------------------------------------------------- for the caller

    def abort(self, cause: str) -> None:
        """Ask for the end of all open outputs; each then ends with finish_reason ``abort``."""
        for index, stream in enumerate(self._streams):
            if not stream.finished:
                self._abort_output(index, cause)

    async def pieces(self) -> list[Delta]:
        """The pieces that have come since the last call, at least one; none once every output has ended."""
        if self._unread == 0:
            return []
        try:
            pieces = await self._inbox.take()
        except Exception:
            self._unread = 0
            self.abort("another output failed")
            raise
        self._unread -= sum(piece.finish_reason is not None for piece in pieces)
        return pieces

    def __aiter__(self) -> Generation:
        return self

    async def __anext__(self) -> Delta:
        self._taken.extend(() if self._taken else await self.pieces())
        if not self._taken:
            raise StopAsyncIteration
        return self._taken.popleft()

    async def __aenter__(self) -> Generation:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.abort("abandoned by its caller")

    def _log_end(self, index: int, cause: str, usage: Usage | None) -> None:
        now = time.monotonic()
        name = f"{self.request_id}[{index}]" if len(self._streams) > 1 else self.request_id
        counts = (
            "" if usage is None else f", {usage.completion_tokens} out, {usage.cached_tokens} cached{_why(usage.cache)}"
        )
        ttft = "" if self._first is None else f", first token {self._first - self._started:.3f} s"
        log.info(
            "request %s ended: %s; %d in%s%s, total %.3f s",
            name,
            cause,
            len(self.prompt_tokens),
            counts,
            ttft,
            now - self._started,
        )


def _why(cache: CacheReport | None) -> str:
    """Why no more of the prompt was cached, for the log."""
    if cache is None:
        return ""
    evicted = f" by {cache.evicted_by} {cache.evicted_ago:.1f} s ago" if cache.reason == "evicted" else ""
    return f" ({cache.reason}{evicted})"


def _cause(delta: Delta, output: TokenOutput) -> str:
    """What ended an output, for the log: the reason, and the string, token or words behind it."""
    if delta.stop_match is not None:
        return f"stop at {delta.stop_match!r}"
    detail = output.finish.detail if output.finish is not None else ""
    return f"{delta.finish_reason} ({detail})" if detail else f"{delta.finish_reason}"
