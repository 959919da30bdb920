"""The one arithmetic of what fits: used at the door to refuse, and by the scheduler to admit.

A request of P prompt tokens and M output tokens holds at most P + M - 1 KV slots (the last token's KV is never computed),
and a server's context is never longer than its KV pool: so whatever passes ``output_limit`` can run alone.
"""

from __future__ import annotations

from sgframe.errors import ContextLengthExceeded


def output_limit(prompt_len: int, max_tokens: int | None, context_length: int) -> int:
    """The number of output tokens a request may have; ``max_tokens`` None means as many as the context holds.

    Raises:
        ContextLengthExceeded: prompt and output together are longer than the context; the message has all numbers.
    """
    room = context_length - prompt_len
    if max_tokens is not None and max_tokens <= room:
        return max_tokens
    if max_tokens is None and room > 0:
        return room
    if room < 0 or max_tokens is None:
        raise ContextLengthExceeded(
            f"the prompt has {prompt_len} tokens; this server's context holds {context_length}, output included: "
            "shorten the prompt",
            param="prompt",
        )
    raise ContextLengthExceeded(
        f"the prompt has {prompt_len} tokens and max_tokens is {max_tokens}, together {prompt_len + max_tokens}; this "
        f"server's context holds {context_length}: ask for at most {room} output tokens or shorten the prompt",
        param="max_tokens",
    )
