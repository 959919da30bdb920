"""/v1/completions: plain prompts, as text or token ids, answered in OpenAI's legacy shape."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import reduce
from math import inf
from statistics import fmean
from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from sgframe.front.outputs import Delta
from sgframe.interfaces.source import Tokenizer
from sgframe.messages import Logprobs
from sgframe_openai.answer import EventStream, Writer, whole
from sgframe_openai.body import read_body
from sgframe_openai.gate import request_id_of
from sgframe_openai.generation import Batch, Output, attended
from sgframe_openai.logprobs import TextLogprobs, joined
from sgframe_openai.openapi import documented
from sgframe_openai.schema_completions import CompletionBody, Prompt
from sgframe_openai.service import service_of
from sgframe_openai.text import detokenize

router = APIRouter()


@router.post("/v1/completions", openapi_extra=documented(CompletionBody))
async def completions(request: Request) -> Response:
    """Continue prompts."""
    service = service_of(request)
    body = await read_body(request, CompletionBody)
    service.check_model(body.model)
    body.check()
    prompts = body.prompts()
    submitting = service.submit(prompts, body.sampling(), body, request_id_of(request))
    batch = await attended(request.receive, submitting)
    writer = CompletionWriter(service.head("cmpl"), service.engine.tokenizer, body, prompts)
    if body.stream:
        return EventStream(batch, writer, body.options)
    return await whole(request.receive, batch, body.candidates, writer)


class CompletionWriter(Writer):
    """Choices are numbered prompt by prompt: ``n`` for the first prompt, then ``n`` for the second …"""

    kind = chunk_kind = "text_completion"

    def __init__(
        self, head: dict[str, Any], tokenizer: Tokenizer, body: CompletionBody, prompts: Sequence[Prompt]
    ) -> None:
        super().__init__(head)
        self._tokenizer = tokenizer
        self._body = body
        self._constrained = body.demand() is not None
        self._prompts = prompts
        self._logprobs: dict[int, TextLogprobs] = {}  # of the choices that have begun
        self._prompt_logprobs: dict[int, Sequence[Logprobs]] = {}
        self._held: defaultdict[int, list[Delta]] = defaultdict(list)

    def chunks(self, batch: Batch, prompt: int, delta: Delta) -> Iterable[dict[str, Any]]:
        """Logprobs of the prompt come with its first output only; until then the others' echo has to wait."""
        self._learn_prompt_logprobs(prompt, delta)
        held = self._held[prompt]
        held.append(delta)
        if self._wants_prompt_logprobs and prompt not in self._prompt_logprobs:
            return
        for piece in held:
            choice = self._choice(batch, prompt, prompt * self._body.n + piece.index, piece)
            if choice["text"] or choice["finish_reason"] or piece.logprobs:
                yield choice
        held.clear()

    def choices(self, batch: Batch, outputs: list[list[Output]]) -> list[dict[str, Any]]:
        n = self._body.n
        for prompt, candidates in enumerate(outputs):
            self._learn_prompt_logprobs(prompt, candidates[0])
        if self._body.candidates > n:
            outputs = [sorted(candidates, key=_mean_logprob, reverse=True)[:n] for candidates in outputs]
        return [
            self._choice(batch, prompt, prompt * n + i, output)
            for prompt, best in enumerate(outputs)
            for i, output in enumerate(best)
        ]

    @property
    def _wants_prompt_logprobs(self) -> bool:
        return self._body.echo and self._body.logprobs is not None

    def _learn_prompt_logprobs(self, prompt: int, piece: Delta | Output) -> None:
        if piece.prompt_logprobs is not None:
            self._prompt_logprobs[prompt] = piece.prompt_logprobs

    def _choice(self, batch: Batch, prompt: int, index: int, piece: Delta | Output) -> dict[str, Any]:
        """``piece`` of choice ``index``; the first piece of a choice has the echo in front."""
        text, lists = piece.text, []
        begins = index not in self._logprobs
        if begins:
            self._logprobs[index] = TextLogprobs(
                self._tokenizer,
                skip_special_tokens=self._body.skip_special_tokens,
                constrained=self._constrained,
            )
        logprobs = self._logprobs[index]
        if begins and self._body.echo:
            echo = self._prompt_text(prompt)
            text = echo + text
            if self._wants_prompt_logprobs:
                tokens = batch.generations[prompt].prompt_tokens
                lists.append(logprobs.prompt(tokens, echo, self._prompt_logprobs[prompt]))
        if self._body.logprobs is not None:
            lists.append(logprobs.output(piece.logprobs or ()))
        return {
            "index": index,
            "text": text,
            "logprobs": reduce(joined, lists) if lists else None,
            "finish_reason": piece.finish_reason,
            "matched_stop": piece.stop_match,
        }

    def _prompt_text(self, prompt: int) -> str:
        sent = self._prompts[prompt]
        if isinstance(sent, str):
            return sent
        return detokenize(self._tokenizer, sent, skip_special_tokens=self._body.skip_special_tokens)


def _mean_logprob(output: Output) -> float:
    """OpenAI's measure of the best output: log probability per token."""
    return fmean(entry.logprob for entry in output.logprobs) if output.logprobs else -inf
