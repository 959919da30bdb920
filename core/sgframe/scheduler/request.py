"""A request in the scheduler: known tokens, how many of them are computed, and what it holds."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import nan

from sgframe.interfaces.cache import Lease
from sgframe.messages import CacheReport, GenerateRequest, Ints, Logprobs, Namespace, Tree, ints
from sgframe.sampling import TokenSampling
from sgframe.scheduler.guides import Guide
from sgframe.scheduler.trust import Trust


@dataclass(slots=True, eq=False)
class Request:
    """One model of progress: a step computes some of the tokens that are known and not computed yet.

    Of its tokens, ``computed`` are done and ``scheduled`` are done or in flight; beyond the known ones, ``promised``
    are being sampled by batches in flight. ``slots[i]`` is where the KV of token i lies, in whole pages, so some may be
    spare. The first ``len(lease)`` belong to the cache, the others to this request. ``row`` is -1 while it waits;
    ``stint`` counts its admissions, so that a late result of an earlier one is told apart.

    ``given`` counts all tokens it was scheduled, again after a retraction; ``charged`` of them are in others'
    ``overtaken``.

    The front was told of the first ``published`` tokens; the worker knows the first ``told``, once it has sampled what
    it was told to. While guesses are being verified, what is ``scheduled`` counts those, too; ``trust`` says how the last
    ones fared. With a ``guide`` some tokens are known before they are sampled; ``foreseen``: the next sample to
    come back is one of those.

    With a ``tree`` the last tokens are its nodes, none is sampled, and ``scores`` fill with what it asks for.
    What it computed stays under ``program_lease`` when it has ended, if that is not 0.
    """

    id: int
    tokens: Ints
    prompt_len: int
    max_tokens: int
    stop_ids: frozenset[int]
    sampling: TokenSampling
    namespace: Namespace
    priority: int
    goal: int
    computed: int = 0
    scheduled: int = 0
    promised: int = 0
    slots: Ints = field(default_factory=ints)
    lease: Lease | None = None
    matched: int = 0
    row: int = -1
    stint: int = 0
    cached_tokens: int = -1
    cache_report: CacheReport | None = None
    overtaken: int = 0
    given: int = 0
    charged: int = 0
    abort_cause: str = ""
    published: int = 0
    told: int = 0
    guide: Guide | None = None
    foreseen: bool = False
    trust: Trust | None = None
    prompt_logprobs: list[Logprobs] = field(default_factory=list)
    tree: Tree | None = None
    scores: list[float] = field(default_factory=list)
    program_lease: int = 0
    lineage: tuple[int, ...] = ()

    @classmethod
    def of(cls, message: GenerateRequest, slots: int) -> Request:
        """``slots``: what the pool has in all; the output ends where it would outgrow that."""
        prompt_len, tree = len(message.tokens), message.tree
        max_tokens = min(message.max_tokens, slots - prompt_len + 1)
        return cls(
            id=message.id,
            tokens=message.tokens[:],
            prompt_len=prompt_len,
            max_tokens=max_tokens,
            stop_ids=frozenset(message.stop_ids),
            sampling=message.sampling,
            namespace=message.namespace,
            priority=message.priority,
            published=prompt_len,
            goal=prompt_len + max(max_tokens - 1, 0),  # the KV of the last output token is never needed
            tree=tree,
            scores=[nan] * len(tree.places) if tree else [],
            program_lease=message.lease,
            lineage=message.lineage,
        )

    @property
    def pending(self) -> int:
        """Tokens, known or promised, that are not scheduled yet."""
        known = len(self.tokens) + self.promised
        return (known if known < self.goal else self.goal) - self.scheduled

    @property
    def output_len(self) -> int:
        return len(self.tokens) - self.prompt_len

    @property
    def remaining(self) -> int:
        """Output tokens it may still have, beyond those promised."""
        return self.max_tokens - self.output_len - self.promised

    @property
    def logprobs_from(self) -> int:
        """The first prompt token whose logprob is still wanted; ``prompt_len`` when none is."""
        return 1 + len(self.prompt_logprobs) if self.sampling.prompt_logprobs >= 0 else self.prompt_len

    @property
    def match_limit(self) -> int:
        """How many leading tokens may come from the cache: the last known one is computed for its logits, and a wanted
        prompt logprob needs the position before its token computed."""
        wanted = self.logprobs_from
        return wanted - 1 if wanted < self.prompt_len else self.shareable - 1

    @property
    def shareable(self) -> int:
        """How many leading tokens follow each other: not the nodes of a tree, which nobody else has in that order."""
        return len(self.tokens) - len(self.tree.parents) if self.tree else len(self.tokens)
