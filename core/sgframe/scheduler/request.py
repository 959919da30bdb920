"""A request in the scheduler: known tokens, how many of them are computed, and what it holds."""

from __future__ import annotations

from dataclasses import dataclass, field

from sgframe.interfaces.cache import Lease
from sgframe.messages import GenerateRequest, Ints, Logprobs, Namespace, ints
from sgframe.sampling import TokenSampling


@dataclass(slots=True, eq=False)
class Request:
    """One model of progress: a step computes some of the tokens that are known and not computed yet.

    ``slots[i]`` is where the KV of token i lies, for every computed or scheduled token. The first ``len(lease)`` slots
    belong to the cache, the others to this request. ``row`` is -1 while it waits.
    """

    id: int
    tokens: Ints
    prompt_len: int
    max_tokens: int
    stop_ids: frozenset[int]
    sampling: TokenSampling
    namespace: Namespace
    priority: int
    computed: int = 0
    slots: Ints = field(default_factory=ints)
    lease: Lease | None = None
    row: int = -1
    cached_tokens: int = -1
    passed_over: int = 0
    abort_cause: str = ""
    prompt_logprobs: list[Logprobs] = field(default_factory=list)

    @classmethod
    def of(cls, message: GenerateRequest) -> Request:
        return cls(
            id=message.id,
            tokens=message.tokens[:],
            prompt_len=len(message.tokens),
            max_tokens=message.max_tokens,
            stop_ids=frozenset(message.stop_ids),
            sampling=message.sampling,
            namespace=message.namespace,
            priority=message.priority,
        )

    @property
    def pending(self) -> int:
        """Known tokens that are not computed yet."""
        return len(self.tokens) - self.computed

    @property
    def output_len(self) -> int:
        return len(self.tokens) - self.prompt_len

    @property
    def remaining(self) -> int:
        """Output tokens it may still have."""
        return self.max_tokens - self.output_len

    @property
    def logprobs_from(self) -> int:
        """The first prompt token whose logprob is still wanted; ``prompt_len`` when none is."""
        return 1 + len(self.prompt_logprobs) if self.sampling.prompt_logprobs >= 0 else self.prompt_len

    @property
    def match_limit(self) -> int:
        """How many leading tokens may come from the cache: the last known one is computed for its logits, and a wanted
        prompt logprob needs the position before its token computed."""
        wanted = self.logprobs_from
        return wanted - 1 if wanted < self.prompt_len else len(self.tokens) - 1
