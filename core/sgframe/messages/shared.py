"""What goes all the way between the front and the worker, through the scheduler."""

from __future__ import annotations

import msgspec

from sgframe.messages.wire import Ints, Message

Namespace = tuple[tuple[str, str], ...]
"""Tagged pairs such as ``(("salt", "x"),)``. KV is shared only between equal namespaces; absent differs from empty."""


class Tree(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Continuations of a prompt that are scored together; what some of them have in common is computed once.

    Its nodes are the tokens after the prompt, parents before children: node i follows node ``parents[i]``, or the prompt
    where that is -1. ``tokens[j]`` is a token whose logprob is wanted right after node ``places[j]``, or after the prompt
    where that is -1.
    """

    parents: Ints
    places: Ints
    tokens: Ints


class Logprobs(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Natural-log probability of ``token``, and the likeliest tokens, best first.

    ``forced``: the grammar left no other token and the model was not asked; the probability is 1, and there is no list.
    """

    token: int
    logprob: float
    top_ids: Ints
    top_logprobs: list[float]
    forced: bool = False


class LedgerLine(msgspec.Struct, frozen=True):
    """One line of the memory ledger. ``origin`` says how the figure is known: measured, computed, declared."""

    name: str
    bytes: int
    origin: str
    note: str = ""


class Loaded(Message, frozen=True, tag=True, array_like=True):
    """What a worker announces once its model is in memory; the scheduler hands it on to the front.

    ``context_length`` is in tokens, ``slots`` counts KV slots (one token's keys and values over all layers).
    """

    vocab_size: int
    context_length: int
    slots: int
    page_size: int
    dtype: str
    ledger: list[LedgerLine]
