"""The simulated model source: one model, which is no file."""

from __future__ import annotations

from collections.abc import Sequence

from sgframe.errors import ModelError
from sgframe.interfaces.source import CatalogueEntry, Checkpoint, ModelSource, Progress
from sgframe_simulated import SimulatedSourceSettings
from sgframe_simulated.tokenizer import EOS, IM_END, VOCAB_SIZE, ByteTokenizer

NAME = "simulated"


class SimulatedSource(ModelSource):
    """Gives the model ``simulated`` to the backend of the same name."""

    def __init__(self, settings: SimulatedSourceSettings) -> None:
        self._settings = settings

    def catalogue(self) -> Sequence[CatalogueEntry]:
        return [CatalogueEntry(NAME, "No model: bytes in, the same bytes out", "Apache-2.0", 0, cached=True)]

    def resolve(self, name: str, progress: Progress) -> Checkpoint:
        """``folder`` is empty: there are no weights."""
        if name != NAME:
            raise ModelError(
                f"the source 'simulated' has one model, {NAME!r}, and not {name!r}: ask for that one, or choose the "
                "source that has yours, for example --source hf"
            )
        return Checkpoint(
            name=NAME,
            folder="",
            context_length=self._settings.context_length,
            vocab_size=VOCAB_SIZE,
            eos_ids=(EOS, IM_END),
        )

    def tokenizer(self, checkpoint: Checkpoint) -> ByteTokenizer:
        return ByteTokenizer()
