"""Grammars behind one face: ours through its seam, each library as its own documentation has it used, on one thread.

All get the same vocabulary, special tokens without bytes, and write JSON with ``", "`` and ``": "``.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from sgframe.constraints import Constraint
from sgframe.interfaces.grammar import CompiledGrammar, Matcher, Vocabulary

OURS = "compressed-fsm"


class Walk(Protocol):
    """One output in the making."""

    def fill(self) -> None:
        """Make the mask of the next token. This is what is timed."""

    def allows(self, token: int) -> bool:
        """Whether ``token`` is in the mask made last."""

    def accept(self, token: int) -> bool:
        """Advance; False where the grammar forbids it."""

    def may_stop(self) -> bool:
        """Whether the output may end here."""

    def forced(self) -> list[int]:
        """The tokens that must come next, empty where the grammar cannot tell. Does not advance."""


class Peer(Protocol):
    """A grammar over one vocabulary. ``compile`` raises what the library raises for a schema that it refuses."""

    def compile(self, schema: str) -> Any:
        """What a process of its own could do."""

    def load(self, compiled: Any) -> Callable[[], Walk]:
        """What is left to do before the first token. Gives a function that starts an output."""


class _Masked:
    """A row of bits that a walk fills."""

    def __init__(self, words: int) -> None:
        self._row = np.zeros(words, dtype=np.int32)

    def allows(self, token: int) -> bool:
        return bool(self._row[token // 32] >> token % 32 & 1)

    def forced(self) -> list[int]:
        return []


# ------------------------------------------------------------------------------------------ ours


class OurWalk:
    def __init__(self, matcher: Matcher, words: int) -> None:
        self._row = memoryview(array("I", bytes(4 * words)))
        self._matcher = matcher
        self.accept = matcher.accept
        self.may_stop = matcher.may_stop

    def fill(self) -> None:
        self._matcher.fill_mask(self._row)

    def allows(self, token: int) -> bool:
        return bool(self._row[token // 32] >> token % 32 & 1)

    def forced(self) -> list[int]:
        return list(self._matcher.forced_tokens())


class OurGrammar:
    def __init__(self, vocabulary: Vocabulary) -> None:
        from sgframe_fsm import CompressedFsmSettings  # noqa: PLC0415  # each peer in a process of its own
        from sgframe_fsm.grammar import CompressedFsm  # noqa: PLC0415

        self._words = vocabulary.words
        self._grammar = CompressedFsm(CompressedFsmSettings(), vocabulary=vocabulary)
        self._grammar.prepare()

    def compile(self, schema: str) -> bytes:
        return self._grammar.compile(Constraint("json_schema", schema)).data

    def load(self, compiled: bytes) -> Callable[[], OurWalk]:
        grammar: CompiledGrammar = self._grammar.load(compiled)
        return lambda: OurWalk(grammar.matcher(), self._words)


# ------------------------------------------------------------------------------------------ xgrammar


class XgrammarWalk(_Masked):
    def __init__(self, matcher: Any, words: int) -> None:
        super().__init__(words)
        self._rows = self._row[None]
        self._matcher = matcher
        self.accept = matcher.accept_token
        self.may_stop = matcher.is_completed

    def fill(self) -> None:
        self._matcher.fill_next_token_bitmask(self._rows)


class Xgrammar:
    """Not in its strict mode, which forbids properties that a schema does not name. Its cache across schemas is on."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        import xgrammar  # noqa: PLC0415

        self._words = vocabulary.words
        self._matcher = xgrammar.GrammarMatcher
        size, stop_ids = len(vocabulary.tokens), list(vocabulary.stop_ids)
        info = xgrammar.TokenizerInfo(
            vocabulary.tokens, xgrammar.VocabType.RAW, vocab_size=size, stop_token_ids=stop_ids
        )
        self._compiler = xgrammar.GrammarCompiler(info, max_threads=1)

    def compile(self, schema: str) -> Any:
        return self._compiler.compile_json_schema(
            schema, any_whitespace=False, separators=(", ", ": "), strict_mode=False
        )

    def load(self, compiled: Any) -> Callable[[], XgrammarWalk]:
        return lambda: XgrammarWalk(self._matcher(compiled), self._words)


# ------------------------------------------------------------------------------------------ llguidance


class LlguidanceWalk(_Masked):
    def __init__(self, matcher: Any, words: int) -> None:
        super().__init__(words)
        self._address, self._bytes = self._row.ctypes.data, self._row.nbytes
        self._matcher = matcher
        self.accept = matcher.consume_token
        self.may_stop = matcher.is_accepting

    def fill(self) -> None:
        self._matcher.unsafe_compute_mask_ptr(self._address, self._bytes)

    def forced(self) -> list[int]:
        return list(self._matcher.compute_ff_tokens())


class Llguidance:
    def __init__(self, vocabulary: Vocabulary) -> None:
        import llguidance  # noqa: PLC0415

        self._words = vocabulary.words
        self._matcher = llguidance.LLMatcher
        self._tokenizer = llguidance.LLTokenizer(
            vocabulary.tokenizer_json, n_vocab=len(vocabulary.tokens), eos_token=list(vocabulary.stop_ids)
        )

    def compile(self, schema: str) -> Any:
        options = {"item_separator": ", ", "key_separator": ": ", "whitespace_flexible": False}
        grammar = self._matcher.grammar_from_json_schema(schema, overrides=options)
        matcher = self._matcher(self._tokenizer, grammar, log_level=0)
        if matcher.is_error():
            raise ValueError(matcher.get_error())
        return matcher

    def load(self, compiled: Any) -> Callable[[], LlguidanceWalk]:
        return lambda: LlguidanceWalk(compiled.deep_copy(), self._words)


# ------------------------------------------------------------------------------------------ outlines-core


class OutlinesWalk(_Masked):
    def __init__(self, guide: Any, words: int) -> None:
        super().__init__(words)
        self._address = self._row.ctypes.data
        self._guide = guide
        self.may_stop = guide.is_finished

    def fill(self) -> None:
        self._guide.write_mask_into(self._address, self._row.size, 4)

    def accept(self, token: int) -> bool:
        try:
            self._guide.advance(token, return_tokens=False)
        except ValueError:
            return False
        return True


class OutlinesCore:
    """Knows one end-of-sequence id: the model's first."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        import outlines_core  # noqa: PLC0415
        from outlines_core.json_schema import build_regex_from_schema  # noqa: PLC0415

        ids: dict[bytes, list[int]] = {}
        for token, data in enumerate(vocabulary.tokens):
            if data:
                ids.setdefault(data, []).append(token)
        self._words = vocabulary.words
        self._regex = build_regex_from_schema
        self._library = outlines_core
        self._vocabulary = outlines_core.Vocabulary(vocabulary.stop_ids[0], ids)

    def compile(self, schema: str) -> Any:
        return self._library.Index(self._regex(schema, whitespace_pattern=" ?"), self._vocabulary)

    def load(self, compiled: Any) -> Callable[[], OutlinesWalk]:
        return lambda: OutlinesWalk(self._library.Guide(compiled), self._words)


PEERS: dict[str, Callable[[Vocabulary], Peer]] = {
    OURS: OurGrammar,
    "llguidance": Llguidance,
    "xgrammar": Xgrammar,
    "outlines-core": OutlinesCore,
}
MODULES = {OURS: "sgframe_fsm", "llguidance": "llguidance", "xgrammar": "xgrammar", "outlines-core": "outlines_core"}
"""What must be installed for each."""


def text_of(value: object) -> str:
    """``value`` as every peer writes it."""
    return json.dumps(value, ensure_ascii=False)
