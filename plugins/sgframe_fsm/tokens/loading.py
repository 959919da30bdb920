"""The half of the grammar that matches: one vocabulary's tables, and the programs loaded over them."""

from __future__ import annotations

from sgframe.interfaces.grammar import Vocabulary
from sgframe_fsm import CompressedFsmSettings
from sgframe_fsm.expressions.store import Store
from sgframe_fsm.leaves.strings import StringSpec, string_expression
from sgframe_fsm.tokens.jumping import Canonical
from sgframe_fsm.tokens.keeping import Shelf
from sgframe_fsm.tokens.masks import Masks
from sgframe_fsm.tokens.matching import LoadedGrammar
from sgframe_fsm.tokens.spelling import texts
from sgframe_fsm.tokens.tables import Tables

_MIB = 2**20


class Loader:
    """Built once a process."""

    def __init__(self, settings: CompressedFsmSettings, vocabulary: Vocabulary) -> None:
        tokens = texts(vocabulary)
        self._tables = Tables(
            tokens,
            kernels=settings.kernels,
            row_bytes=settings.row_table * _MIB,
            mask_bytes=settings.mask_cache * _MIB,
        )
        self._canonical = Canonical(tokens, vocabulary.tokenizer_json)
        self._shelf = Shelf(settings.state_memory * _MIB)
        self._max_states = settings.max_states

    def warm_up(self) -> None:
        """Works out the mask inside a JSON string, the longest there is; any grammar that has strings finds it."""
        store = Store()
        string = string_expression(store, StringSpec())
        Masks(store, self._tables).mask(store.derivative(string, ord('"')))

    def load(self, data: bytes) -> LoadedGrammar:
        return LoadedGrammar(data, self._tables, self._canonical, self._shelf, self._max_states)
