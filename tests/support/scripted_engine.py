"""An engine for programs that answers by script: token ids for ``submit``, probabilities by text for ``score``."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from sgframe.constraints import Constraint
from sgframe.errors import SgframeError
from sgframe.front.generation import Generation, OutputStream
from sgframe.front.outputs import Usage
from sgframe.front.scoring import Scored
from sgframe.interfaces.source import Checkpoint, Tokenizer
from sgframe.messages import Finish, Loaded, Namespace, TokenOutput, ints
from sgframe.sampling import SamplingParams
from sgframe_simulated.tokenizer import EOS, ByteTokenizer

Logprob = Callable[[bytes, int], float]
"""``logprob(text before, token)``."""


@dataclass
class Asked:
    """One request. ``lineage`` and ``lease`` are those it came with."""

    prompt: tuple[int, ...]
    lineage: tuple[int, ...]
    lease: int
    namespace: Namespace = ()
    paths: list[list[int]] = field(default_factory=list)


class ScriptedEngine:
    """Generates ``answers[k]`` for request k (the last one for all further ones), and ends it by ``finish``.

    ``asked`` are all requests, ``released`` the leases let go of, ``aborts`` the causes. While ``hold`` is clear, requests
    wait; ``fails`` is raised instead of an answer.
    """

    def __init__(self, *answers: Sequence[int], tokenizer: Tokenizer | None = None) -> None:
        self.tokenizer = tokenizer or ByteTokenizer()
        self.loaded = Loaded(self.tokenizer.vocab_size, 4096, 4096, 1, "float32", [])
        self.checkpoint = Checkpoint("scripted", "", 4096, self.tokenizer.vocab_size, (EOS,))
        self.answers = list(answers) or [()]
        self.finish = Finish("length")
        self.logprob: Logprob = lambda before, token: -1.0
        self.asked: list[Asked] = []
        self.released: list[int] = []
        self.aborts: list[str] = []
        self.hold = asyncio.Event()
        self.hold.set()
        self.fails: SgframeError | None = None
        self._leases = 0

    @property
    def leases(self) -> list[int]:
        """Those that were made and not let go of."""
        return [lease for lease in range(1, self._leases + 1) if lease not in self.released]

    def new_lease(self) -> int:
        self._leases += 1
        return self._leases

    def release_leases(self, leases: Sequence[int]) -> None:
        assert not set(leases) & set(self.released), "a lease is let go of once"
        self.released += leases

    async def submit(
        self,
        prompt: Sequence[int],
        params: SamplingParams,
        *,
        namespace: Namespace = (),
        lineage: tuple[int, ...] = (),
        lease: int = 0,
    ) -> Generation:
        self.asked.append(Asked(tuple(prompt), lineage, lease, namespace))
        if self.fails is not None:
            raise self.fails
        streams = [OutputStream(index, len(prompt), params, self.tokenizer) for index in range(params.n)]
        generation = Generation("r", tuple(prompt), streams, lambda index, cause: self.aborts.append(cause))
        answer = self.answers[min(len(self.asked), len(self.answers)) - 1]
        asyncio.get_running_loop().create_task(self._answer(generation, params.n, answer))
        return generation

    async def _answer(self, generation: Generation, n: int, answer: Sequence[int]) -> None:
        await self.hold.wait()
        for index in range(n):
            for token in answer[:-1]:
                if generation.take(index, TokenOutput(index, ints([token]), 0)):
                    break
            else:
                generation.take(index, TokenOutput(index, ints(list(answer[-1:])), 0, finish=self.finish))

    async def score(
        self,
        prompt: Sequence[int],
        paths: Sequence[Sequence[int]],
        *,
        namespace: Namespace = (),
        lineage: tuple[int, ...] = (),
        lease: int = 0,
    ) -> Scored:
        self.asked.append(Asked(tuple(prompt), lineage, lease, namespace, list(map(list, paths))))
        await self.hold.wait()
        if self.fails is not None:
            raise self.fails
        rows = []
        for path in paths:
            before = [self._text([*prompt, *path[:depth]]) for depth in range(len(path))]
            rows.append(tuple(self.logprob(text, token) for text, token in zip(before, path, strict=True)))
        return Scored(tuple(rows), Usage(len(prompt), 0, 0), 0)

    def _text(self, ids: Sequence[int]) -> bytes:
        return b"".join(self.tokenizer.token_bytes(token) for token in ids if not self.tokenizer.is_special(token))

    async def prepare(self, constraint: Constraint) -> tuple[str, ...]:
        if self.fails is not None:
            raise self.fails
        return ()
