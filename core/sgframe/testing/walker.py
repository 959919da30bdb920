"""Walks a text through a grammar token by token, as a model would write it. Knows no grammar: it builds the one it is named.

>>> walker = grammar_walker("compressed-fsm", "smollm2-135m")
>>> walker.compile(regex="[a-z]+").accepts("hello")
True
"""

from __future__ import annotations

import json
import os
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, overload

from sgframe.assembly.assemble import Configuration, configure
from sgframe.assembly.choosing import choose
from sgframe.assembly.providers import Seam
from sgframe.constraints import Constraint, Whitespace
from sgframe.errors import RequestError
from sgframe.front.vocabulary import vocabulary_of
from sgframe.interfaces.grammar import CompiledGrammar, Grammar, Matcher, Vocabulary
from sgframe.interfaces.source import ModelSource, Tokenizer

Schema = dict[str, Any] | bool | str
"""A JSON Schema, or its JSON text."""


def grammar_walker(provider: str, model: str, **settings: Any) -> GrammarWalker:
    """The grammar ``provider`` over the vocabulary of ``model``, both found as ``sgframe serve`` finds them.

    ``settings`` are further settings of a server, such as ``plugin={"compressed-fsm": {…}}``. A model that is named like a
    model source comes from it. Raises ConfigError.
    """
    configuration = configure({"grammar": provider, "model": model} | settings, environ=os.environ)
    configuration = _with_own_source(configuration, model)
    choices = choose(configuration.plugins, configuration.settings, configuration.origins, (Seam.SOURCE, Seam.GRAMMAR))
    source: ModelSource = choices[Seam.SOURCE].build()
    checkpoint = source.resolve(model, lambda what, done, total: None)
    tokenizer = source.tokenizer(checkpoint)
    vocabulary = vocabulary_of(tokenizer, checkpoint.vocab_size, checkpoint.eos_ids)
    return GrammarWalker(choices[Seam.GRAMMAR].build(vocabulary=vocabulary), tokenizer, vocabulary)


def _with_own_source(configuration: Configuration, model: str) -> Configuration:
    sources = {offer.name for offer in configuration.plugins.offers(Seam.SOURCE)}
    if model not in sources or configuration.origins.get("source", "default") != "default":
        return configuration
    settings = configuration.settings.model_copy(update={"source": model})
    return Configuration(settings, configuration.origins, configuration.plugins)


@dataclass(frozen=True)
class GrammarWalker:
    """A grammar, and the tokenizer whose texts it is to be walked with."""

    grammar: Grammar
    tokenizer: Tokenizer
    vocabulary: Vocabulary

    @overload
    def compile(
        self, *, json_schema: Schema, whitespace: Whitespace = "fixed", approximate: bool = False
    ) -> WalkableGrammar: ...
    @overload
    def compile(self, *, regex: str) -> WalkableGrammar: ...
    @overload
    def compile(self, *, choices: Sequence[str]) -> WalkableGrammar: ...

    def compile(
        self,
        *,
        json_schema: Schema | None = None,
        regex: str | None = None,
        choices: Sequence[str] | None = None,
        whitespace: Whitespace = "fixed",
        approximate: bool = False,
    ) -> WalkableGrammar:
        """Compile and load exactly one of the three. Raises RequestError as the grammar does."""
        if json_schema is not None:
            text = json_schema if isinstance(json_schema, str) else json.dumps(json_schema)
            return self.compile_constraint(Constraint("json_schema", text, whitespace, approximate))
        if regex is not None:
            return self.compile_constraint(Constraint("regex", regex))
        return self.compile_constraint(Constraint("choice", json.dumps(choices)))

    def compile_constraint(self, constraint: Constraint) -> WalkableGrammar:
        """The same for a constraint of any kind, ``tools`` and ``json_object`` among them."""
        if constraint.kind not in self.grammar.kinds:
            known = ", ".join(sorted(self.grammar.kinds)) or "nothing"
            raise RequestError(f"the grammar does not constrain an output by {constraint.kind}; it knows {known}")
        program = self.grammar.compile(constraint)
        return WalkableGrammar(self.grammar.load(program.data), program.approximations, self.tokenizer, self.vocabulary)


@dataclass(frozen=True)
class WalkableGrammar:
    """A constraint, compiled and loaded. ``approximations`` are the program's."""

    compiled: CompiledGrammar
    approximations: tuple[str, ...]
    tokenizer: Tokenizer
    vocabulary: Vocabulary

    def accepts(self, text: str) -> bool:
        """Whether a model could write ``text`` in its tokenizer's own tokens and stop there.

        Raises AssertionError where the grammar contradicts itself: a token that its mask allows and it does not accept, or
        the other way round.
        """
        matcher = self.matcher()
        return all(self._step(matcher, token) for token in self._tokens(text)) and matcher.may_stop()

    def forced(self, text: str) -> list[bool]:
        """For each token of ``text`` whether jump-forward would write it. Raises ValueError for a text that is not accepted,
        and AssertionError where a forced token is not the tokenizer's own."""
        if not self.accepts(text):
            raise ValueError(f"the grammar does not accept {text!r}")
        matcher, tokens = self.matcher(), self._tokens(text)
        written: list[bool] = []
        while len(written) < len(tokens):
            jump, rest = list(matcher.forced_tokens()), tokens[len(written) :]
            assert jump == rest[: len(jump)], f"forced are {jump}, the tokenizer has {rest[: len(jump)]}, in {text!r}"
            written += [True] * len(jump) or [False]
            for token in jump or rest[:1]:
                matcher.accept(token)
        return written

    def matcher(self) -> Matcher:
        """A fresh matcher in the start state."""
        return self.compiled.matcher()

    def _tokens(self, text: str) -> list[int]:
        return self.tokenizer.encode(text, add_special_tokens=False)

    def _step(self, matcher: Matcher, token: int) -> bool:
        mask = array("I", bytes(4 * self.vocabulary.words))
        matcher.fill_mask(memoryview(mask))
        allowed = bool(mask[token // 32] >> token % 32 & 1)
        accepted = matcher.accept(token)
        assert accepted == allowed, (
            f"token {token} is {'' if allowed else 'not '}in the mask, and accept says {accepted}"
        )
        return accepted
