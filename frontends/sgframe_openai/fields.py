"""Which top-level fields a body may have.

A field is honoured, changes nothing about the answer (``HARMLESS``), or is refused: some with a reason (``REFUSED``, and
only for values that would change the answer), the rest as unknown, with the nearest known name. ``null`` means absent.
"""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any

import msgspec

from sgframe.errors import RequestError

HARMLESS = frozenset(
    {
        "metadata",
        "prompt_cache_key",
        "prompt_cache_retention",
        "safety_identifier",
        "service_tier",
        "store",
        "user",
    }
)
"""Fields about accounting or storage at the sender's provider."""

_NO_GRAMMARS = "is not offered: say what the output must match by response_format, regex or choice"
_TOOLS = "is an older form that is not offered; send tools and tool_choice"
_NOT_OFFERED = "is not offered by this server"

REFUSED: dict[str, tuple[tuple[Any, ...], str]] = {
    "add_generation_prompt": ((True,), "must be true: a new turn of the assistant is always opened"),
    "audio": ((), _NOT_OFFERED),
    "best_of": ((1,), "belongs to /v1/completions"),
    "continue_final_message": ((False,), _NOT_OFFERED),
    "ebnf": ((), _NO_GRAMMARS),
    "echo": ((False,), "belongs to /v1/completions"),
    "function_call": (("none",), _TOOLS),
    "functions": (([],), _TOOLS),
    "guided_grammar": ((), _NO_GRAMMARS),
    "length_penalty": ((1,), _NOT_OFFERED),
    "logits_processors": (([],), _NOT_OFFERED),
    "min_tokens": ((0,), _NOT_OFFERED),
    "modalities": ((["text"],), 'can only be ["text"]: this server writes text'),
    "prediction": ((), _NOT_OFFERED),
    "reasoning_effort": ((), _NOT_OFFERED),
    "structural_tag": ((), _NO_GRAMMARS),
    "suffix": (("",), "is not offered: this server only continues a prompt"),
    "use_beam_search": ((False,), _NOT_OFFERED),
    "verbosity": ((), _NOT_OFFERED),
    "web_search_options": ((), _NOT_OFFERED),
}
"""Field → values that change nothing and pass, and why any other is refused. A schema that honours the field wins."""


def admit(raw: dict[str, Any], schema: type[msgspec.Struct]) -> dict[str, Any]:
    """The fields of ``raw`` that ``schema`` reads. Raises RequestError for a field that cannot be honoured."""
    known = schema.__struct_encode_fields__
    kept = {}
    for name, value in raw.items():
        if value is None or name in HARMLESS:
            continue
        if name in known:
            kept[name] = value
        elif name not in REFUSED:
            raise RequestError(_unknown(name, known), param=name, code="unknown_parameter")
        elif value not in REFUSED[name][0]:
            raise RequestError(f"{name} {REFUSED[name][1]}", param=name, code="unsupported_parameter")
    return kept


def _unknown(name: str, known: Sequence[str]) -> str:
    nearest = get_close_matches(name[:100], known, n=1)
    return f"unknown field {name!r}" + (f"; did you mean {nearest[0]!r}?" if nearest else "")
