"""The grammar seam: which tokens an output may continue with."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import msgspec

from sgframe.messages import Ints


class Constraint(msgspec.Struct, frozen=True):
    """What an output must match: ``kind`` is ``regex``, ``json_schema``, ``choice`` or ``json_object``."""

    kind: str
    text: str


class Matcher(ABC):
    """The state of one request inside its grammar. Raises only for its own request's sake."""

    @abstractmethod
    def fill_mask(self, words: memoryview) -> None:
        """Write one bit a token, 1 for allowed, little-endian in uint32 ``words``. At least one bit is set."""

    @abstractmethod
    def accept(self, token: int) -> bool:
        """Advance by ``token``; False, with the state unchanged, when the grammar forbids it."""

    @abstractmethod
    def forced_tokens(self) -> Ints:
        """Tokens that every allowed continuation starts with and that stay right whatever follows; may be empty."""

    @abstractmethod
    def is_terminated(self) -> bool:
        """Whether only an end-of-sequence token may follow."""

    @abstractmethod
    def rollback(self, count: int) -> None:
        """Undo the last ``count`` accepted tokens."""

    @abstractmethod
    def copy(self) -> Matcher:
        """An independent matcher in the same state."""


class CompiledGrammar(ABC):
    """A constraint compiled for one vocabulary; immutable and shared by requests."""

    @abstractmethod
    def matcher(self) -> Matcher:
        """A fresh matcher in the start state."""


class Grammar(ABC):
    """Compiles constraints. Built as ``target(settings)``."""

    kinds: frozenset[str] = frozenset()
    """The constraint kinds it honours (see Constraint). Asking for any other is refused at the door."""

    @abstractmethod
    def compile(self, constraint: Constraint, vocabulary: Sequence[bytes], stop_ids: Ints) -> CompiledGrammar:
        """Compile, or raise RequestError with the reason. ``vocabulary[i]`` are the bytes of token i, empty if special."""
