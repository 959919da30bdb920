"""The model source ``hf`` under the contract of its seam, on a folder with a tokenizer of bytes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors

from sgframe.testing import SourceContract
from sgframe_hf import HfSettings
from sgframe_hf.source import HfSource


def byte_tokenizer() -> Tokenizer:
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE(vocab={character: i for i, character in enumerate(alphabet)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken("<s>"), AddedToken("</s>")])  # 256, 257
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 256)])
    return tokenizer


class TestAFolder(SourceContract):
    template = ""

    @pytest.fixture(autouse=True)
    def _model(self, tmp_path: Path) -> None:
        self.model = str(tmp_path)
        named = {"bos_token": "<s>", "eos_token": "</s>"} | ({"chat_template": self.template} if self.template else {})
        config = {"model_type": "llama", "vocab_size": 320, "max_position_embeddings": 2048, "eos_token_id": 257}
        (tmp_path / "config.json").write_text(json.dumps(config))
        (tmp_path / "tokenizer_config.json").write_text(json.dumps(named))
        (tmp_path / "model.safetensors").write_bytes(b"\0" * 8)
        byte_tokenizer().save(str(tmp_path / "tokenizer.json"))

    def make(self) -> HfSource:
        return HfSource(HfSettings(offline=True))


class TestAChatModel(TestAFolder):
    template = "{% for message in messages %}<s>{{ message.content }}</s>{% endfor %}"
