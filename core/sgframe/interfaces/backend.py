"""The backend seam: a kind of device, and the executor that runs a model on it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from sgframe.interfaces.source import Checkpoint
from sgframe.messages import Loaded, Masks, ScheduleBatch, StepOutput

LEAST_SAMPLES = 16
"""A step may sample at so many positions, if its rows have guesses, even where fewer rows may run."""


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a backend can do on this machine.

    ``reason`` is empty when it is usable, else one sentence: what is missing and what to do. ``dtypes`` are in order of
    preference; ``memory_bytes`` is what one rank may plan with; ``max_ranks`` bounds how many ranks may share a model on
    this machine; ``joins`` says whether its executors can be some of several ranks at all. ``verifies`` says whether they
    heed the ``guesses`` of a batch; if not, none are sent.
    """

    usable: bool
    reason: str = ""
    device: str = ""
    memory_bytes: int = 0
    page_size: int = 1
    dtypes: tuple[str, ...] = ()
    max_ranks: int = 1
    joins: bool = False
    verifies: bool = False


@dataclass(frozen=True, slots=True)
class ExecutorSpec:
    """What an executor is to load. 0 or "auto" leaves a choice to the executor, which announces it in Loaded.

    Attributes:
        checkpoint: the model on disk.
        dtype: ``auto``, ``bfloat16``, ``float16`` or ``float32``.
        max_rows: most requests that run at once (rows of the row table).
        max_step_tokens: most tokens computed in one step.
        context_length: most tokens of one request, prompt and output; 0 takes the model's.
        kv_slots: KV slots in tokens; 0 sizes them by ``kv_bytes``.
        kv_bytes: memory for KV; 0 lets the executor choose from what the device has free.
    """

    checkpoint: Checkpoint
    dtype: str
    max_rows: int
    max_step_tokens: int
    context_length: int = 0
    kv_slots: int = 0
    kv_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Ranks:
    """The processes that share one model by tensor parallelism, and which of them this is.

    Attributes:
        rank: this process's number; rank 0 alone talks to the scheduler.
        size: how many there are.
        nodes: how many machines they stand on, the same number on each: the first ``size / nodes`` on node 0, and so on.
        address: ``host:port`` at which rank 0 lets the others join, when there are several nodes; else empty.
        folder: a private folder of this machine's ranks.
        step_timeout: seconds that a rank may take for a step before the others give up on it.
        digest_interval: steps between two comparisons of what the ranks applied.
    """

    rank: int = 0
    size: int = 1
    nodes: int = 1
    address: str = ""
    folder: str = ""
    step_timeout: float = 300.0
    digest_interval: int = 64

    @property
    def local_size(self) -> int:
        """Ranks on this machine."""
        return self.size // self.nodes

    @property
    def local_rank(self) -> int:
        """This process's number among those on its machine."""
        return self.rank % self.local_size

    @property
    def node(self) -> int:
        """The number of this machine."""
        return self.rank // self.local_size


class Pending(Protocol):
    """What a step is about to give."""

    def done(self) -> bool:
        """Whether ``result`` would return at once."""

    def result(self) -> StepOutput:
        """Wait for it. Raises what went wrong on the device."""


@dataclass(frozen=True, slots=True)
class Ready:
    """A Pending that waits for nothing: the output of a device that has computed by the time it returns."""

    output: StepOutput

    def done(self) -> bool:
        return True

    def result(self) -> StepOutput:
        return self.output


class Executor(ABC):
    """Runs a model for one rank: the row table, the paged KV, forward and sample. Used by one thread.

    Slots are numbered 0 … ``Loaded.slots`` - 1. Calls come as load, then (forward, sample)*, then close. The next forward
    may come before the result of a sample is asked for: it goes on with what was sampled, known or not. The next sample
    comes after that result. With several ranks ``join`` comes first, and in all but rank 0 ``follow`` stands in place of
    forward and sample.
    """

    def join(self, ranks: Ranks, give_up: Callable[[str], None]) -> None:
        """Become one of several ranks. Only called where ``Capabilities.joins``.

        ``give_up(reason)`` ends this process with ``reason``, from any thread: when another rank is gone or stands still,
        or has not executed what this one did. Raises ConfigError when the others cannot be reached.
        """
        raise NotImplementedError(f"{type(self).__name__} runs on one rank only")

    def follow(self) -> None:
        """Execute, after load, what rank 0 executes; return when it has closed."""
        raise NotImplementedError(f"{type(self).__name__} runs on one rank only")

    def fatal(self, error: Exception) -> bool:
        """Whether after ``error``, which forward, sample or a result raised, this executor is of no more use: then its
        process ends. Else the requests of that step fail, and the next one is tried."""
        return False

    @abstractmethod
    def load(self, spec: ExecutorSpec, progress: Callable[[str, int, int], None]) -> Loaded:
        """Load the weights and allocate the KV. Raises ModelError when it does not fit, with the arithmetic."""

    @abstractmethod
    def forward(self, batch: ScheduleBatch) -> None:
        """Apply the batch to the row table and start computing it; may return before the device is done.

        Each layer writes the KV of all tokens before any of them attends: a row may start from slots that another row of
        the same batch fills.

        Of a row with a tree each node attends to the prompt, its ancestors and itself, and its position is the prompt's
        length plus the number of its ancestors. Its KV goes to slots like that of any token, in the order of the row,
        and the batch may cut the row anywhere.
        """

    @abstractmethod
    def sample(self, masks: Masks | None) -> Pending:
        """Sample the rows that asked for it from the last forward's logits; may return before the device is done.

        Of a row with guesses (see ``Guess``) each position is sampled with its own seed and the tokens before it, so that
        those it goes on with are the ones that it would have come to without.

        A row whose logits are not finite gets -1. The next batch may be planned already: it goes on with that row, with
        whatever token, and nobody reads what comes of it. Rows with a tree are not sampled: what the tree asks for right
        after a token comes in the output of the step that computed this token, and is NaN where logits are not finite.
        """

    @abstractmethod
    def close(self) -> None:
        """Give back memory and device. A second close does nothing."""


class Backend(ABC):
    """A kind of device. Built as ``target(settings)``; importing its module must not import torch."""

    @abstractmethod
    def __init__(self, settings: Any) -> None: ...

    @abstractmethod
    def probe(self) -> Capabilities:
        """Look at this machine without loading torch, a driver context or a model; quick."""

    @abstractmethod
    def executor(self) -> Executor:
        """A fresh executor for this process's rank."""
