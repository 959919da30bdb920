"""Chat answers in OpenAI's shape, whole and streamed: text, and calls of tools."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from typing import Any

from sgframe.front.outputs import Delta
from sgframe.interfaces.source import Tokenizer
from sgframe_openai.answer import Writer
from sgframe_openai.generation import Batch, Output
from sgframe_openai.logprobs import chat_logprobs
from sgframe_openai.tool_calls import CallPiece, Piece, ToolCallReader


class ChatWriter(Writer):
    """A stream opens each choice with the role and ends it with the finish reason, in chunks without text.

    ``with_tools``: calls may stand in the text, and become ``tool_calls``.
    """

    kind = "chat.completion"
    chunk_kind = "chat.completion.chunk"

    def __init__(self, head: dict[str, Any], tokenizer: Tokenizer, *, with_tools: bool) -> None:
        super().__init__(head)
        self._tokenizer = tokenizer
        self._with_tools = with_tools
        self._streams: dict[int, _Reader] = {}  # of the choices that have begun

    def chunks(self, batch: Batch, prompt: int, delta: Delta) -> Iterable[dict[str, Any]]:
        if delta.index not in self._streams:
            self._streams[delta.index] = self._reader()
            yield _chunk(delta.index, {"role": "assistant", "content": None if self._with_tools else ""})
        reader = self._streams[delta.index]
        fields = list(map(_delta, reader.read(delta)))
        logprobs = None if delta.logprobs is None else chat_logprobs(self._tokenizer, delta.logprobs)
        if delta.logprobs and not fields:
            fields = [{"content": ""}]
        for field in fields:
            yield _chunk(delta.index, field, logprobs)
            logprobs = None
        if delta.finish_reason:
            end = {"finish_reason": reader.finish_reason(delta), "matched_stop": delta.stop_match}
            yield {**_chunk(delta.index, {}), **end}

    def choices(self, batch: Batch, outputs: list[list[Output]]) -> list[dict[str, Any]]:
        return [self._choice(index, output) for index, output in enumerate(outputs[0])]

    def _choice(self, index: int, output: Output) -> dict[str, Any]:
        reader = self._reader()
        return {
            "index": index,
            "message": _message(reader.read(output)),
            "logprobs": None if output.logprobs is None else chat_logprobs(self._tokenizer, output.logprobs),
            "finish_reason": reader.finish_reason(output),
            "matched_stop": output.stop_match,
        }

    def _reader(self) -> _Reader:
        return _CallReader() if self._with_tools else _Reader()


class _Reader:
    """What the pieces of one output say: text alone."""

    def read(self, piece: Delta | Output) -> list[Piece]:
        return [piece.text] if piece.text else []

    def finish_reason(self, last: Delta | Output) -> str | None:
        return last.finish_reason


class _CallReader(_Reader):
    """The same with calls in the text."""

    def __init__(self) -> None:
        self._calls = ToolCallReader()

    def read(self, piece: Delta | Output) -> list[Piece]:
        pieces = self._calls.feed(piece.text)
        return pieces + self._calls.finish() if piece.finish_reason else pieces

    def finish_reason(self, last: Delta | Output) -> str | None:
        """``tool_calls`` after whole calls; one that was cut off ends as any output that is."""
        called = self._calls.calls > 0 and not self._calls.inside
        return "tool_calls" if called and last.finish_reason == "stop" else last.finish_reason


def _message(pieces: list[Piece]) -> dict[str, Any]:
    text = "".join(piece for piece in pieces if isinstance(piece, str))
    calls: list[dict[str, Any]] = []
    for piece in pieces:
        if isinstance(piece, CallPiece) and piece.name is not None:
            calls.append(_opened(piece.name))
        elif isinstance(piece, CallPiece):
            calls[-1]["function"]["arguments"] += piece.arguments
    message = {"role": "assistant", "content": text if text or not calls else None, "refusal": None}
    return {**message, "tool_calls": calls} if calls else message


def _delta(piece: Piece) -> dict[str, Any]:
    if isinstance(piece, str):
        return {"content": piece}
    call = {"function": {"arguments": piece.arguments}} if piece.name is None else _opened(piece.name)
    return {"tool_calls": [{"index": piece.index, **call}]}


def _opened(name: str) -> dict[str, Any]:
    """A call before its arguments."""
    return {"id": f"call_{uuid.uuid4().hex[:24]}", "type": "function", "function": {"name": name, "arguments": ""}}


def _chunk(index: int, delta: dict[str, Any], logprobs: dict[str, Any] | None = None) -> dict[str, Any]:
    return {"index": index, "delta": delta, "logprobs": logprobs, "finish_reason": None}
