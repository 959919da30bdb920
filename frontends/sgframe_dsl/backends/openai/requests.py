"""What is asked of a state → path and body of a request. What the protocol cannot say is refused here, before it is sent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from sgframe.constraints import Constraint, read_choices
from sgframe.errors import RequestError
from sgframe.sampling import SamplingParams
from sgframe_dsl.backends.openai.transcript import ASSISTANT, Turn, is_chat, rendering, turns
from sgframe_programs.parts import Part

COMPLETIONS = "/completions"
CHAT = "/chat/completions"

_ALWAYS = ("temperature", "top_p")
"""Sent in any case: some servers have other defaults, from the model's files."""
_UNLESS_DEFAULT = (
    "n",
    "max_tokens",
    "presence_penalty",
    "frequency_penalty",
    "seed",
    # what follows is not OpenAI's, but vLLM's, SGLang's and sgframe's
    "top_k",
    "min_p",
    "repetition_penalty",
    "ignore_eos",
    "skip_special_tokens",
)
_DEFAULTS = SamplingParams()


def generation(parts: Sequence[Part], params: SamplingParams, *, continue_turns: bool) -> tuple[str, dict[str, Any]]:
    """Path and body that let a state with ``parts`` go on. Raises RequestError."""
    fields = _sampling(params) | _constraint(params.constraint)
    if is_chat(parts):
        return CHAT, _messages(turns(parts), continue_turns) | fields | _chat_logprobs(params)
    if params.logprobs is not None:
        fields["logprobs"] = params.logprobs
    return COMPLETIONS, {"prompt": rendering(parts)} | fields | {"max_tokens": _limit(params)}


def _sampling(params: SamplingParams) -> dict[str, Any]:
    fields = {name: getattr(params, name) for name in _ALWAYS}
    fields |= {name: value for name in _UNLESS_DEFAULT if (value := getattr(params, name)) != getattr(_DEFAULTS, name)}
    if params.stop:
        fields["stop"] = list(params.stop)
    if params.stop_token_ids:
        fields["stop_token_ids"] = list(params.stop_token_ids)
    if params.include_stop:
        fields["include_stop_str_in_output"] = True
    if params.logit_bias:
        fields["logit_bias"] = {str(token): bias for token, bias in params.logit_bias.items()}
    return fields


def _constraint(constraint: Constraint | None) -> dict[str, Any]:
    """OpenAI's ``response_format`` where it can say it, else vLLM's ``structured_outputs``; sgframe knows both."""
    match constraint:
        case None:
            return {}
        case Constraint(kind="json_schema", text=text):
            schema = {"name": "answer", "schema": msgspec.json.decode(text), "strict": True}
            fields: dict[str, Any] = {"response_format": {"type": "json_schema", "json_schema": schema}}
        case Constraint(kind="json_object"):
            fields = {"response_format": {"type": "json_object"}}
        case Constraint(kind="regex", text=text):
            fields = {"structured_outputs": {"regex": text}}
        case Constraint(kind="choice", text=text):
            fields = {"structured_outputs": {"choice": read_choices(text)}}
        case _:
            raise RequestError(f"a program cannot ask an OpenAI endpoint for {constraint.kind!r}", param="constraint")
    if constraint.whitespace != "fixed":
        fields["whitespace"] = constraint.whitespace
    if constraint.approximate:
        fields["approximate"] = True
    if constraint.grammar:
        fields["grammar"] = constraint.grammar
    return fields


def _chat_logprobs(params: SamplingParams) -> dict[str, Any]:
    return {} if params.logprobs is None else {"logprobs": True, "top_logprobs": params.logprobs}


def _limit(params: SamplingParams) -> int:
    """A text completion that is not told how long it may be ends after 16 tokens, so it is always told.

    A choice has at most as many tokens as bytes, and one that ends it.
    """
    if params.max_tokens is not None:
        return params.max_tokens
    if params.constraint is not None and params.constraint.kind == "choice":
        return max(len(choice.encode()) for choice in read_choices(params.constraint.text)) + 1
    raise RequestError(
        "max_tokens is missing: OpenAI's /v1/completions would stop after 16 tokens; give it to gen, or to all of them by "
        "run(sampling={'max_tokens': …})",
        param="max_tokens",
    )


def _messages(chat: list[Turn], continue_turns: bool) -> dict[str, Any]:
    """The messages before the assistant's turn, which must be open."""
    last = chat[-1]
    if not last.open or last.role != ASSISTANT:
        where = f"in a turn of {last.role!r}" if last.open else "between turns"
        raise RequestError(
            f"gen stands {where}; OpenAI's chat endpoint writes turns of the assistant only, so put it into sgf.assistant(…)"
        )
    fields: dict[str, Any] = {}
    if not last.content:
        chat = chat[:-1]
    elif continue_turns:
        fields = {"add_generation_prompt": False, "continue_final_message": True}
    else:
        raise RequestError(
            f"the assistant's turn already has {last.content[:60]!r}, and OpenAI's chat endpoint cannot go on within it; "
            "let gen stand first and alone in it, or, if the endpoint knows continue_final_message (vLLM and SGLang do), "
            "say OpenAI(…, continue_turns=True)"
        )
    return {"messages": [{"role": turn.role, "content": turn.content} for turn in chat], **fields}
