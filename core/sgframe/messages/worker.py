"""What the scheduler and the worker say to each other.

A batch is a *diff*: what a row is (tokens, sampling, cached prefix) is sent once, on admission.
"""

from __future__ import annotations

import msgspec

from sgframe.messages.shared import Loaded, Logprobs, Tree
from sgframe.messages.wire import Ints, Message
from sgframe.sampling import TokenSampling

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


class Guess(msgspec.Struct, frozen=True, array_like=True):
    """``tokens`` may follow the last known token of ``row``; each is true if it is what is sampled there.

    The row computes all of them after its last known token, and is sampled after each as if those before it were known.
    It then goes on with the guesses up to the first that was not sampled, and with the token that was sampled there, or
    after the last: with what it would have come to token by token. What was computed of the other guesses counts as
    never computed; their slots come again.
    """

    row: int
    tokens: Ints


class ScheduleBatch(Message, frozen=True, tag=True, array_like=True):
    """One step's plan, executed exactly as it stands by every rank. Released rows go first, then come those admitted,
    then ``rewrites`` and ``appended``, then the step is computed.

    ``rows[i]`` computes its next ``counts[i]`` tokens; their KV goes to the next ``counts[i]`` entries of ``slots``.
    ``samples[i]`` is 1 when the row's last known token is among them, so that its next token is sampled; the worker
    appends that token to its own copy of the row, so a decode step carries no token ids. ``masked`` says that a Masks
    message follows, which ``sample`` waits for; it follows even if the forward fails.

    A row of ``guesses`` computes its last known token and those: ``counts[i]`` and ``samples[i]`` are one more than the
    guesses. It has no mask, and is in no other batch before its outcome is known. All ``samples`` together are never more
    than the rows there may be.
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
    appended: list[Appended] = msgspec.field(default_factory=list)
    guesses: list[Guess] = msgspec.field(default_factory=list)


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
    """What step ``step`` sampled: ``tokens[i]`` for ``rows[i]``, in the order of the batch; of a row with guesses all the
    tokens that it goes on with, one after the other.

    A token of -1 means that the row's logits were not finite; that request alone ends with an error. ``logprobs[i]`` is
    None for rows that asked for none; the list is empty when no row asked.
    """

    step: int
    rows: Ints
    tokens: Ints
    logprobs: list[Logprobs | None] = msgspec.field(default_factory=list)
    prompt_logprobs: list[PromptLogprobs] = msgspec.field(default_factory=list)
    scores: list[TreeScores] = msgspec.field(default_factory=list)


class StepFailed(Message, frozen=True, tag=True, array_like=True):
    """Step ``step`` raised; the requests in it cannot go on, the worker can."""

    step: int
    reason: str


PlanMessage = ScheduleBatch | Masks
WorkerMessage = StepOutput | StepFailed | Loaded
