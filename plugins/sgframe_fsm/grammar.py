"""The grammar ``compressed-fsm``: constraints become expressions over bytes, expressions become masks and forced tokens.

The process that compiles needs tables only for what has to be tried, and no kernels; the one that matches needs no regexes
and no schemas: each imports its half when it is first asked.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

from sgframe.constraints import Constraint
from sgframe.errors import RequestError
from sgframe.interfaces.grammar import CompiledGrammar, Grammar, Program, Vocabulary
from sgframe_fsm import CompressedFsmSettings
from sgframe_fsm.errors import GrammarTooLarge
from sgframe_fsm.tokens.spelling import Unspelled, alphabet, texts

if TYPE_CHECKING:
    from sgframe_fsm.tokens.loading import Loader
    from sgframe_fsm.tokens.trying import Trial


class CompressedFsm(Grammar):
    """See Grammar, and the settings."""

    kinds: ClassVar[frozenset[str]] = frozenset({"regex", "json_schema", "json_object", "choice", "tools"})

    def __init__(self, settings: CompressedFsmSettings, *, vocabulary: Vocabulary) -> None:
        self._settings = settings
        self._vocabulary = vocabulary

    def compile(self, constraint: Constraint) -> Program:
        """See Grammar. What the vocabulary has no tokens for is left out; where nothing remains, that is an error too."""
        from sgframe_fsm.compiling import compile_constraint, risky_parts  # noqa: PLC0415
        from sgframe_fsm.expressions.programs import dump  # noqa: PLC0415

        try:
            store, root, approximations = compile_constraint(constraint, self._alphabet)
        except GrammarTooLarge:
            raise
        except RequestError:
            compile_constraint(constraint)  # raises the same, unless it is the vocabulary's fault
            raise Unspelled(self._alphabet) from None
        if store.is_empty(root):
            raise Unspelled(self._alphabet)
        for part, what in risky_parts(store, root, constraint):
            self._trial.run(dump(store, part), what)
        return Program(dump(store, root), approximations)

    def prepare(self) -> None:
        """Builds the vocabulary's trie, loads the kernels and works out the mask that most JSON needs."""
        self._loader.warm_up()

    def load(self, data: bytes) -> CompiledGrammar:
        """See Grammar."""
        return self._loader.load(data)

    @cached_property
    def _alphabet(self) -> int:
        return alphabet(texts(self._vocabulary))

    @cached_property
    def _trial(self) -> Trial:
        from sgframe_fsm.tokens.trying import Trial  # noqa: PLC0415

        return Trial(texts(self._vocabulary))

    @cached_property
    def _loader(self) -> Loader:
        from sgframe_fsm.tokens.loading import Loader  # noqa: PLC0415

        return Loader(self._settings, self._vocabulary)
