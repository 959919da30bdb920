"""What the processes say to each other: msgspec structs in msgpack, never pickle.

Integer sequences (token ids, KV slots) travel as int32 arrays: ``array("i")`` in memory, raw little-endian bytes on the
wire. Front ↔ scheduler speak ``FrontMessage`` and ``SchedulerMessage``; scheduler ↔ worker ``PlanMessage`` and
``WorkerMessage``. A batch is a *diff*: what a row is (tokens, sampling, cached prefix) is sent once, on admission.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import msgspec

from sgframe.sampling import TokenSampling
from sgframe.statistics import SchedulerStats

T = TypeVar("T")

if TYPE_CHECKING:
    Ints = array[int]  # array("i"): token ids or KV slots
else:
    Ints = array  # what msgspec hands to the hooks below
Namespace = tuple[tuple[str, str], ...]
"""Tagged pairs such as ``(("salt", "x"),)``. KV is shared only between equal namespaces; absent differs from empty."""


class Message(msgspec.Struct, frozen=True, tag=True, array_like=True, gc=False):
    """Base of everything that crosses a process border."""


# ------------------------------------------------------------------------------------------ front → scheduler


class GrammarUse(msgspec.Struct, frozen=True, array_like=True):
    """The program that an output is to follow, of the grammar ``name``. Equal ``key``, equal program."""

    name: str
    key: bytes
    data: bytes


class Tree(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Continuations of a prompt that are scored together; what some of them have in common is computed once.

    Its nodes are the tokens after the prompt, parents before children: node i follows node ``parents[i]``, or the prompt
    where that is -1. ``tokens[j]`` is a token whose logprob is wanted right after node ``places[j]``, or after the prompt
    where that is -1.
    """

    parents: Ints
    places: Ints
    tokens: Ints


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


class Logprobs(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Natural-log probability of ``token``, and the likeliest tokens, best first.

    ``forced``: the grammar left no other token and the model was not asked; the probability is 1, and there is no list.
    """

    token: int
    logprob: float
    top_ids: Ints
    top_logprobs: list[float]
    forced: bool = False


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


# ------------------------------------------------------------------------------------------ scheduler → worker


class NewRow(msgspec.Struct, frozen=True, array_like=True):
    """A request takes ``row`` of the worker's row table.

    ``tokens`` are all known tokens (after a retraction this includes earlier output), of which the first
    ``prompt_len`` are the prompt. ``slots`` hold the KV of the first ``len(slots)`` tokens, found in the cache.
    ``logprobs_from``: the first prompt position whose logprobs are still wanted (see TokenSampling.prompt_logprobs).
    With a ``tree`` the tokens after the prompt are its nodes; none is sampled.
    """

    row: int
    tokens: Ints
    prompt_len: int
    slots: Ints
    sampling: TokenSampling
    logprobs_from: int = 1
    tree: Tree | None = None


class Rewrite(msgspec.Struct, frozen=True, array_like=True):
    """From now on the KV of tokens ``start …`` of ``row`` lies in ``slots`` (the cache had an equal copy)."""

    row: int
    start: int
    slots: Ints


class Appended(msgspec.Struct, frozen=True, array_like=True):
    """``row`` goes on with ``tokens``, which no sample gave: its grammar leaves nothing else."""

    row: int
    tokens: Ints


class ScheduleBatch(Message, frozen=True, tag=True, array_like=True):
    """One step's plan, executed exactly as it stands by every rank. Released rows go first, then come those admitted,
    then ``rewrites`` and ``appended``, then the step is computed.

    ``rows[i]`` computes its next ``counts[i]`` tokens; their KV goes to the next ``counts[i]`` entries of ``slots``.
    ``samples[i]`` is 1 when the row's last known token is among them, so that its next token is sampled; the worker
    appends that token to its own copy of the row, so a decode step carries no token ids. ``masked`` says that a Masks
    message follows, which ``sample`` waits for; it follows even if the forward fails.
    """

    step: int
    released: Ints
    admitted: list[NewRow]
    rewrites: list[Rewrite]
    rows: Ints
    counts: Ints
    slots: Ints
    samples: Ints
    masked: bool = False
    appended: list[Appended] = []


class Masks(Message, frozen=True, tag=True, array_like=True):
    """Grammar masks of step ``step``: for each of ``rows`` a bit a token, packed little-endian in uint32 words; tokens
    beyond those may not be taken. Other rows may take any token."""

    step: int
    rows: Ints
    words: bytes


# ------------------------------------------------------------------------------------------ worker → scheduler


class PromptLogprobs(msgspec.Struct, frozen=True, array_like=True):
    """Logprobs of the prompt tokens ``start …`` of ``row``, computed by this step."""

    row: int
    start: int
    entries: list[Logprobs]


class TreeScores(msgspec.Struct, frozen=True, array_like=True):
    """Logprobs of the model itself that this step gave for the tree of ``row``: ``logprobs[i]`` for its token ``asked[i]``
    (an index into ``Tree.tokens``). A tree cut over several steps gives some in each."""

    row: int
    asked: Ints
    logprobs: list[float]


class StepOutput(Message, frozen=True, tag=True, array_like=True):
    """What step ``step`` sampled: ``tokens[i]`` for ``rows[i]``, in the order of the batch.

    A token of -1 means that the row's logits were not finite; that request alone ends with an error. ``logprobs[i]`` is
    None for rows that asked for none; the list is empty when no row asked.
    """

    step: int
    rows: Ints
    tokens: Ints
    logprobs: list[Logprobs | None] = []
    prompt_logprobs: list[PromptLogprobs] = []
    scores: list[TreeScores] = []


class StepFailed(Message, frozen=True, tag=True, array_like=True):
    """Step ``step`` raised; the requests in it cannot go on, the worker can."""

    step: int
    reason: str


FrontMessage = GenerateRequest | AbortRequest | ReleaseLeases | FlushCache | DescribeCache | Drain | UseVocabulary
SchedulerMessage = TokenOutputs | StatsReport | CacheFlushed | CacheDescribed | Drained | Loaded
PlanMessage = ScheduleBatch | Masks
WorkerMessage = StepOutput | StepFailed | Loaded


def ints(values: Any = ()) -> Ints:
    """An int32 array of ``values``."""
    return array("i", values)


def _to_wire(value: Any) -> bytes:
    if isinstance(value, array):
        return value.tobytes()
    raise TypeError(f"{type(value).__name__} cannot be sent")


def _from_wire(kind: type, value: Any) -> Any:
    if kind is array:
        return array("i", value)
    raise TypeError(f"{kind.__name__} cannot be received")


_encoder = msgspec.msgpack.Encoder(enc_hook=_to_wire)
encode = _encoder.encode


class Decoder(Generic[T]):
    """Decodes frames into the messages of one union, e.g. ``Decoder(FrontMessage)``."""

    def __init__(self, union: Any) -> None:
        self._decode = msgspec.msgpack.Decoder(union, dec_hook=_from_wire).decode

    def __call__(self, frame: bytes) -> T:
        return self._decode(frame)  # type: ignore[no-any-return]
