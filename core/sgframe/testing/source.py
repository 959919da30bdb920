"""The contract of the model source seam as tests: subclass ``SourceContract`` as ``TestMine`` and give ``make``.

    class TestMySource(SourceContract):
        model = "a-name-that-it-knows"

        def make(self):
            return MySource(MySettings())

It reads no weights, and knows no model: what it asks of a tokenizer holds for each that can write any text.
"""

from __future__ import annotations

from abc import abstractmethod
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import tokenizers

from sgframe.errors import ModelError, RequestError
from sgframe.interfaces.source import Checkpoint, ModelSource, Tokenizer
from sgframe.testing.contract import Contract

TEXTS = (
    "Hello, world: 12345.67 + 89!",
    "  leads, two  spaces, trails  \n\n\tand a tab",
    "żółw naïve 日本語",
    "🙂👨‍👩‍👧",
    "for i in range(10):\n        print(i ** 2)  # ok",
    "",
)
"""In Unicode's composed form, since some tokenizers compose what they read."""
SPELT = "<s>a</s><|im_start|>b<|im_end|><bos>c<eos>"
"""What may be special tokens, or the text that spells them."""


class SourceContract(Contract):
    """What every model source must do. Collected by pytest in a subclass named ``Test…``."""

    model: str = ""
    """A name that can be resolved here; empty takes the first of the catalogue that is ``cached``."""

    @abstractmethod
    def make(self) -> ModelSource:
        """The source under test."""

    @pytest.fixture
    def checkpoint(self) -> Checkpoint:
        return _resolve(self.make(), self._name())

    @pytest.fixture
    def tokenizer(self, checkpoint: Checkpoint) -> Tokenizer:
        return self.make().tokenizer(checkpoint)

    def _name(self) -> str:
        cached = [entry.name for entry in self.make().catalogue() if entry.cached]
        if not (self.model or cached):
            pytest.fail("no model of the catalogue is on this machine; set `model` to a name that can be resolved here")
        return self.model or cached[0]

    # ----------------------------------------------------------------------------------------------- checkpoints

    def test_the_catalogue_describes_each_model_once(self) -> None:
        entries = self.make().catalogue()
        names = [entry.name for entry in entries]
        assert len(set(names)) == len(names)
        assert all(entry.name and entry.summary and entry.licence for entry in entries)
        assert all(entry.download_bytes >= 0 for entry in entries)

    def test_a_checkpoint_says_what_a_scheduler_must_know(self, checkpoint: Checkpoint) -> None:
        assert checkpoint.name
        assert checkpoint.context_length > 0
        assert checkpoint.vocab_size > 0
        assert all(0 <= token < checkpoint.vocab_size for token in checkpoint.eos_ids)

    def test_a_checkpoint_is_on_disk_unless_it_has_no_files(self, checkpoint: Checkpoint) -> None:
        assert not checkpoint.folder or (Path(checkpoint.folder) / "config.json").is_file()

    def test_a_name_leads_to_the_same_checkpoint_each_time(self, checkpoint: Checkpoint) -> None:
        assert _resolve(self.make(), self._name()) == checkpoint

    def test_an_unknown_name_is_an_error_that_says_it(self) -> None:
        with pytest.raises(ModelError, match="no-such-model"):
            _resolve(self.make(), "no-such-model")

    # ------------------------------------------------------------------------------------------------ tokenizers

    @pytest.mark.parametrize("text", [*TEXTS, SPELT])
    def test_a_text_is_the_bytes_of_its_tokens(self, tokenizer: Tokenizer, text: str) -> None:
        written = b"".join(map(tokenizer.token_bytes, tokenizer.encode(text, add_special_tokens=False)))
        assert (written.removeprefix(b" ") if tokenizer.strips_leading_space else written) == text.encode()

    def test_every_id_of_the_model_stands_for_bytes_or_for_none(
        self, checkpoint: Checkpoint, tokenizer: Tokenizer
    ) -> None:
        found = [tokenizer.token_bytes(token) for token in range(max(checkpoint.vocab_size, tokenizer.vocab_size))]
        assert all(isinstance(data, bytes) for data in found)
        assert not any(found[tokenizer.vocab_size :]), "an id beyond the tokenizer's vocabulary has bytes"

    @pytest.mark.parametrize("text", [*TEXTS, SPELT])
    def test_ids_are_within_the_vocabulary(self, tokenizer: Tokenizer, text: str) -> None:
        assert all(0 <= token < tokenizer.vocab_size for token in tokenizer.encode(text))

    def test_what_comes_around_a_prompt_is_special(self, tokenizer: Tokenizer) -> None:
        plain = tokenizer.encode(TEXTS[0], add_special_tokens=False)
        whole = tokenizer.encode(TEXTS[0])
        starts = [start for start in range(len(whole)) if whole[start : start + len(plain)] == plain]
        assert starts, "with special tokens around it the text itself has other tokens"
        assert all(tokenizer.is_special(token) for token in whole[: starts[0]] + whole[starts[0] + len(plain) :])

    def test_plain_text_has_no_special_tokens(self, tokenizer: Tokenizer) -> None:
        for text in TEXTS:
            assert not any(map(tokenizer.is_special, tokenizer.encode(text, add_special_tokens=False)))

    def test_threads_may_encode_at_once(self, tokenizer: Tokenizer) -> None:
        alone = [tokenizer.encode(text) for text in TEXTS] * 20
        with ThreadPoolExecutor(4) as threads:
            assert list(threads.map(tokenizer.encode, TEXTS * 20)) == alone

    def test_the_serialized_tokenizer_is_the_same_one(self, tokenizer: Tokenizer) -> None:
        if not (text := tokenizer.serialized()):
            pytest.skip("it has no such form")
        again = tokenizers.Tokenizer.from_str(text)
        for text in TEXTS:
            assert again.encode(text, add_special_tokens=False).ids == tokenizer.encode(text, add_special_tokens=False)

    def test_a_chat_template_is_refused_or_shows_what_was_said(self, tokenizer: Tokenizer) -> None:
        said = [{"role": "user", "content": TEXTS[2]}]
        if tokenizer.has_chat_template:
            assert TEXTS[2] in tokenizer.apply_chat_template(said)
        else:
            with pytest.raises(RequestError):
                tokenizer.apply_chat_template(said)


def _resolve(source: ModelSource, name: str) -> Checkpoint:
    return source.resolve(name, lambda what, done, total: None)
