"""What states ask of the engine: to generate, and to choose. Each call leaves its state on a lease of its own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from sgframe.errors import RequestError, RequestFailed
from sgframe.front.async_engine import AsyncEngine
from sgframe.front.generation import Generation
from sgframe.front.outputs import Delta, Usage, collect
from sgframe.front.outputs import Output as EngineOutput
from sgframe.front.scoring import Scored
from sgframe.messages import Namespace
from sgframe.sampling import SamplingParams
from sgframe_programs.content import Given
from sgframe_programs.parts import Cost, Generated, Method, Output, Selected
from sgframe_programs.prefixes import Prefix
from sgframe_programs.scoring import best, scores
from sgframe_programs.state import State
from sgframe_programs.tail import Kept, keep


class Calls:
    """On one engine, in one namespace. Raises what the engine raises; the state's content may have grown by then."""

    def __init__(self, engine: AsyncEngine, namespace: Namespace, start: tuple[int, ...]) -> None:
        self._engine = engine
        self._namespace = namespace
        self._nothing = start or engine.checkpoint.eos_ids[:1]
        """What stands before a text that follows nothing."""

    async def generate(
        self, state: State, params: SamplingParams, on_text: Callable[[str], None] | None, rendered: str
    ) -> Generated:
        """Outputs after what ``state`` holds; it goes on with the first, whose pieces ``on_text`` hears."""
        if params.prompt_logprobs is not None:
            raise RequestError("a program's calls give no prompt_logprobs; leave it out", param="prompt_logprobs")
        content = state.content
        await content.settle()
        with self._lease(state) as lease:
            submitted = self._engine.submit(
                content.ids, params, namespace=self._namespace, lineage=state.lineage, lease=lease
            )
            async with await submitted as generation:
                outputs = await collect(_heard(generation, on_text))
            tokenizer = self._engine.tokenizer
            kept = [keep(tokenizer, output.tokens, output.text, output.stop_match, params) for output in outputs]
            first = outputs[0]
            content.give(Given(first.text, first.tokens[: kept[0].whole], kept[0].tail))
        told = [_output(output, part) for output, part in zip(outputs, kept, strict=True)]
        return Generated(told, _cost(outputs), rendered, generation.approximations)

    async def select(self, state: State, choices: Sequence[str], method: Method, rendered: str) -> Selected:
        """The choice that scores highest after what ``state`` holds; it goes on with that one."""
        junction = await state.content.junction(choices)
        with self._lease(state) as lease:
            asked = [self._score(state, junction.shared, junction.paths, lease)]
            if method == "unconditional_normalized":
                asked.append(self._score(state, self._nothing, junction.paths))
            given, *alone = await _all(asked)
            unconditional = alone[0].logprobs if alone else ()
            values = scores(method, junction.paths, given.logprobs, unconditional)
            index = best(values)
            state.content.choose(choices[index], (*junction.shared, *junction.paths[index]))
        return Selected(
            index,
            values,
            tokens=junction.paths,
            logprobs=list(map(list, given.logprobs)),
            cost=_select_cost(given, alone),
            rendered=rendered,
            unconditional=list(map(list, unconditional)) if alone else None,
        )

    async def _score(
        self, state: State, prompt: Sequence[int], paths: Sequence[Sequence[int]], lease: int = 0
    ) -> Scored:
        return await self._engine.score(prompt, paths, namespace=self._namespace, lineage=state.lineage, lease=lease)

    @contextmanager
    def _lease(self, state: State) -> Iterator[int]:
        """A new lease, on which ``state`` stands if the block succeeds."""
        prefix = Prefix(self._engine)
        try:
            yield prefix.lease
        except BaseException:
            prefix.let_go()
            raise
        state.move_to(prefix)


async def _heard(generation: Generation, on_text: Callable[[str], None] | None) -> AsyncIterator[Delta]:
    async for delta in generation:
        if delta.finish_reason == "abort":
            raise RequestFailed(f"the generation was ended: {delta.abort_cause}")
        if on_text is not None and delta.index == 0 and delta.text:
            on_text(delta.text)
        yield delta


async def _all(calls: Iterable[Coroutine[Any, Any, Scored]]) -> list[Scored]:
    """What they give, run side by side; the first error, once all have ended."""
    results = await asyncio.gather(*calls, return_exceptions=True)
    scored = [result for result in results if isinstance(result, Scored)]
    if len(scored) < len(results):
        raise next(result for result in results if isinstance(result, BaseException))
    return scored


def _output(output: EngineOutput, kept: Kept) -> Output:
    logprobs = None if output.logprobs is None else list(output.logprobs[: kept.touched])
    tokens = list(output.tokens[: kept.touched])
    return Output(output.text, tokens, output.finish_reason, output.stop_match, logprobs)


def _cost(outputs: Sequence[EngineOutput]) -> Cost:
    """The prompt is counted once, as the first output met it."""
    first = outputs[0].usage
    return Cost(
        first.prompt_tokens,
        first.cached_tokens,
        output_tokens=sum(output.usage.completion_tokens for output in outputs),
        forced_tokens=sum(output.usage.forced_tokens for output in outputs),
        cache_reason=_reason(first),
    )


def _select_cost(given: Scored, alone: Sequence[Scored]) -> Cost:
    """What was computed to score the choices after nothing stands beyond the prompt, too."""
    usage = given.usage
    beside = sum(scored.usage.prompt_tokens - scored.usage.cached_tokens + scored.computed for scored in alone)
    return Cost(
        usage.prompt_tokens,
        usage.cached_tokens,
        scored_tokens=given.computed + beside,
        cache_reason=_reason(usage),
    )


def _reason(usage: Usage) -> str:
    """That another namespace holds a prompt would tell one client of another's: it has never been seen, then."""
    if usage.cache is None:
        return ""
    return "never_seen" if usage.cache.reason == "namespace" else usage.cache.reason
