"""What the front and the scheduler say to each other."""

from __future__ import annotations

import msgspec

from sgframe.messages.shared import Loaded, Logprobs, Namespace, Tree
from sgframe.messages.wire import Ints, Message
from sgframe.sampling import TokenSampling
from sgframe.statistics import SchedulerStats

# ------------------------------------------------------------------------------------------ front → scheduler


class GrammarUse(msgspec.Struct, frozen=True, array_like=True):
    """The program that an output is to follow, of the grammar ``name``. Equal ``key``, equal program."""

    name: str
    key: bytes
    data: bytes


class GenerateRequest(Message, frozen=True, tag=True, array_like=True):
    """Generate from ``tokens``. ``id`` is the front's own and never a client's. ``stop_ids`` end the output.

    With a ``tree`` nothing is generated: the last tokens are its nodes, the others the prompt. ``lease`` (not 0) names
    the lease that is to keep what the request computed; ``lineage`` is its place among those of its program, see
    ``scheduler.lineage``.
    """

    id: int
    tokens: Ints
    max_tokens: int
    stop_ids: Ints
    sampling: TokenSampling
    namespace: Namespace = ()
    priority: int = 0
    grammar: GrammarUse | None = None
    tree: Tree | None = None
    lease: int = 0
    lineage: tuple[int, ...] = ()

    @property
    def prompt(self) -> Ints:
        """``tokens`` without the nodes of a tree."""
        return self.tokens[: len(self.tokens) - len(self.tree.parents)] if self.tree else self.tokens


class ReleaseLeases(Message, frozen=True, tag=True, array_like=True):
    """What these leases keep may be forgotten from now on, and so may what they were yet to keep."""

    leases: Ints


class UseVocabulary(Message, frozen=True, tag=True, array_like=True):
    """The model's tokens, for the grammars; see ``interfaces.grammar.Vocabulary``. Sent once, before anything else,
    unless no grammar honours anything."""

    tokens: list[bytes]
    stop_ids: tuple[int, ...]
    tokenizer_json: str


class AbortRequest(Message, frozen=True, tag=True, array_like=True):
    """End a request; unknown ids are ignored. ``cause`` is logged: ``stop``, ``disconnect``, ``timeout`` …"""

    id: int
    cause: str


class FlushCache(Message, frozen=True, tag=True, array_like=True):
    """Forget every cached prefix that no running request holds. Answered by CacheFlushed."""

    id: int


class DescribeCache(Message, frozen=True, tag=True, array_like=True):
    """Tell of the ``limit`` nodes of the prefix cache that saved most, the first ``preview`` tokens of each. Answered
    by CacheDescribed."""

    id: int
    limit: int
    preview: int


class Drain(Message, frozen=True, tag=True, array_like=True):
    """Answer Drained once nothing runs or waits any more. The front sends no requests after it."""


# ------------------------------------------------------------------------------------------ scheduler → front


class Finish(msgspec.Struct, frozen=True, array_like=True):
    """Why a request ended: ``stop`` (``matched`` is the token id), ``length``, ``abort`` or ``error`` (see ``detail``)."""

    reason: str
    matched: int | None = None
    detail: str = ""


class CacheReport(msgspec.Struct, frozen=True, array_like=True):
    """How many tokens of a request were found cached when it was first admitted, and why not more.

    ``reason``: ``never_seen``, ``evicted`` (``evicted_by`` is the strategy or ``flush``, ``evicted_ago`` in seconds),
    ``page_floor``, ``namespace`` (more of it is cached, but for others only), ``last_token`` (all were there, but the
    last is computed for its logits) or ``prompt_logprobs`` (what was asked for must be computed). What another request
    was just computing counts as cached.
    """

    matched: int
    reason: str
    evicted_by: str = ""
    evicted_ago: float = 0.0


class TokenOutput(msgspec.Struct, frozen=True, array_like=True):
    """New tokens of one request. ``cached_tokens`` counts prompt tokens whose KV was reused; ``cache`` says more, in
    the request's first output. ``forced`` of the tokens were written by the grammar. ``scores`` are the logprobs that a
    tree asked for."""

    id: int
    tokens: Ints
    cached_tokens: int
    logprobs: list[Logprobs] | None = None
    prompt_logprobs: list[Logprobs] | None = None  # for prompt tokens 1 …; sent once, when complete
    finish: Finish | None = None
    cache: CacheReport | None = None
    forced: int = 0
    scores: list[float] | None = None


class TokenOutputs(Message, frozen=True, tag=True, array_like=True):
    """All that one step gave the front."""

    outputs: list[TokenOutput]


class StatsReport(Message, frozen=True, tag=True, array_like=True):
    """Sent a few times a second while something changes, and once when all is quiet again."""

    stats: SchedulerStats


class CacheFlushed(Message, frozen=True, tag=True, array_like=True):
    id: int
    tokens: int


class CachedNode(msgspec.Struct, frozen=True, array_like=True):
    """One node of the prefix cache: its edge has ``length`` tokens after ``parent``'s path (-1 at the top), of which
    ``tokens`` are the first.

    ``locks`` are leases that lock it, ``hits`` leases that found it cached, ``age`` is in seconds since it was last
    leased. ``reused`` counts tokens that did not have to be computed again thanks to it and those below it: the sum of
    hits × length.
    """

    id: int
    parent: int
    length: int
    tokens: Ints
    reused: int
    locks: int
    hits: int
    age: float
    namespace: Namespace


class CacheDescription(msgspec.Struct, frozen=True, array_like=True):
    """The prefix cache at a step border: the totals, and the nodes that saved most, ``reused`` falling, so that parents
    stand before their children. Those left out saved less."""

    total_nodes: int
    total_tokens: int
    nodes: list[CachedNode]


class CacheDescribed(Message, frozen=True, tag=True, array_like=True):
    id: int
    description: CacheDescription


class Drained(Message, frozen=True, tag=True, array_like=True):
    """Nothing runs or waits any more."""


FrontMessage = GenerateRequest | AbortRequest | ReleaseLeases | FlushCache | DescribeCache | Drain | UseVocabulary
SchedulerMessage = TokenOutputs | StatsReport | CacheFlushed | CacheDescribed | Drained | Loaded
