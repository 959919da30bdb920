"""The grammar seam: which tokens an output may continue with.

A constraint is compiled in a process of its own, which may be killed; what comes out is a Program, plain bytes. The
scheduler loads the program and asks one matcher a request.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import msgspec

from sgframe.constraints import Constraint
from sgframe.messages import Ints


class Vocabulary(msgspec.Struct, frozen=True, array_like=True):
    """A model's tokens, for grammars.

    Attributes:
        tokens: the bytes of token i; empty for special and unused ids, which never match any text. One entry for each
            of the model's ids.
        stop_ids: the model's end-of-sequence ids.
        tokenizer_json: the tokenizer in the ``tokenizers`` library's own format, as ``Tokenizer.from_str`` reads it;
            empty when it has none. Its encoding is the canonical one.
    """

    tokens: list[bytes]
    stop_ids: tuple[int, ...]
    tokenizer_json: str = ""

    @property
    def words(self) -> int:
        """32-bit words of a mask."""
        return -(-len(self.tokens) // 32)

    def resized(self, size: int) -> Vocabulary:
        """The same for a model of ``size`` ids: what it lacks goes, what the tokenizer lacks has no bytes."""
        tokens = self.tokens[:size] + [b""] * (size - len(self.tokens))
        return Vocabulary(tokens, self.stop_ids, self.tokenizer_json)


class Program(msgspec.Struct, frozen=True, array_like=True):
    """A compiled constraint. ``data`` is for the grammar that made it; ``approximations`` says, one sentence each,
    where it allows more than the constraint does."""

    data: bytes
    approximations: tuple[str, ...] = ()


class Matcher(ABC):
    """The state of one request inside its grammar. What it raises ends that request alone.

    Stop ids are not its business: it never allows one, and says by ``may_stop`` when the output may end.
    """

    @abstractmethod
    def fill_mask(self, words: memoryview) -> None:
        """Write one bit a token, 1 for allowed: token t is bit t % 32 of ``words[t // 32]`` (format ``I``, whole row).

        No token is allowed when ``is_terminated``; else at least one is, or ``may_stop``.
        """

    @abstractmethod
    def accept(self, token: int) -> bool:
        """Advance by ``token``; False, with the state unchanged, when the grammar forbids it. Stop ids are never passed."""

    @abstractmethod
    def forced_tokens(self) -> Ints:
        """Tokens that every output has next and that stay right whatever follows: the tokenizer would write these same
        ones, whatever comes after. Does not advance. May be empty, and is where the output may stop."""

    @abstractmethod
    def may_stop(self) -> bool:
        """Whether what was accepted so far is a whole output."""

    @abstractmethod
    def is_terminated(self) -> bool:
        """Whether the output must stop here: it is whole, and no token may follow."""

    @abstractmethod
    def rollback(self, count: int) -> None:
        """Undo the last ``count`` accepted tokens. Raises ValueError when there are not as many."""

    @abstractmethod
    def copy(self) -> Matcher:
        """An independent matcher in the same state."""


class CompiledGrammar(ABC):
    """A program made ready for one vocabulary; shared by requests."""

    @abstractmethod
    def matcher(self) -> Matcher:
        """A fresh matcher in the start state."""


class Grammar(ABC):
    """Compiles constraints and loads what was compiled. Built as ``target(settings, vocabulary=Vocabulary)``.

    The same class is built in each process that compiles and in the one that matches; what only one of them needs is
    made when first needed, or in ``prepare``.
    """

    kinds: ClassVar[frozenset[str]] = frozenset()
    """The constraint kinds it honours (see Constraint). Asking for any other is refused at the door."""

    @abstractmethod
    def __init__(self, settings: Any, *, vocabulary: Vocabulary) -> None: ...

    @abstractmethod
    def compile(self, constraint: Constraint) -> Program:
        """Compile, or raise RequestError with the reason: where (a JSON pointer and the keyword for a schema), what was
        found and what to do. Never compiles to anything that allows more, unless ``constraint.approximate``.

        Runs in a process of its own, which is killed when it takes too long or too much memory.
        """

    def prepare(self) -> None:  # noqa: B027  # most have nothing to prepare
        """Called once, at the start, in the process that matches: do now what the first request would have to wait for."""

    @abstractmethod
    def load(self, data: bytes) -> CompiledGrammar:
        """Make a program's data ready. Requests of others wait meanwhile, so this must be quick."""
