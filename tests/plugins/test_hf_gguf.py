"""A GGUF file becomes a Hugging Face folder: the same weights, and the tokenizer that the file describes."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gguf import GGUFWriter, TokenType
from safetensors.numpy import load_file
from tokenizers import Tokenizer, pre_tokenizers

from sgframe.errors import ModelError
from sgframe_hf import HfSettings
from sgframe_hf.gguf_facts import GgufFacts
from sgframe_hf.source import HfSource

HIDDEN, HEADS, INNER, LAYERS = 64, 2, 96, 1
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
TOKENS = [*SPECIAL, *sorted(pre_tokenizers.ByteLevel.alphabet()), "12", "ab"]
END_OF_TEXT, IM_END = 0, 2


def quiet(what: str, done: int, total: int) -> None:
    pass


def weights(dtype: Any = np.float32) -> dict[str, np.ndarray]:
    random = np.random.default_rng(0)
    shapes: dict[str, tuple[int, ...]] = {"token_embd.weight": (len(TOKENS), HIDDEN), "output_norm.weight": (HIDDEN,)}
    for name in ("attn_q", "attn_k", "attn_v", "attn_output"):
        shapes[f"blk.0.{name}.weight"] = (HIDDEN, HIDDEN)
    shapes |= {"blk.0.ffn_gate.weight": (INNER, HIDDEN), "blk.0.ffn_up.weight": (INNER, HIDDEN)}
    shapes |= {"blk.0.ffn_down.weight": (HIDDEN, INNER)}
    shapes |= {"blk.0.attn_norm.weight": (HIDDEN,), "blk.0.ffn_norm.weight": (HIDDEN,)}
    values = {name: random.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
    return {name: value.astype(dtype) if value.ndim > 1 else value for name, value in values.items()}


def write_gguf(
    path: Path,
    *,
    pre: str = "smollm",
    tensors: dict[str, np.ndarray] | None = None,
    scaling: str | None = None,
    split: int = 1,
) -> Path:
    writer = GGUFWriter(path, "llama")
    writer.add_context_length(512)
    writer.add_embedding_length(HIDDEN)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(INNER)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(10000.0)
    writer.add_rope_dimension_count(HIDDEN // HEADS)
    writer.add_vocab_size(len(TOKENS))
    if scaling:
        writer.add_string("llama.rope.scaling.type", scaling)
    if split > 1:
        writer.add_uint16("split.count", split)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(pre)
    writer.add_token_list(TOKENS)
    writer.add_token_types([TokenType.CONTROL] * len(SPECIAL) + [TokenType.NORMAL] * (len(TOKENS) - len(SPECIAL)))
    writer.add_token_merges(["1 2", "a b"])
    writer.add_eos_token_id(IM_END)
    writer.add_bos_token_id(1)
    writer.add_chat_template("{{ messages[0].content }}")
    for name, value in (weights() if tensors is None else tensors).items():
        writer.add_tensor(name, value)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> HfSettings:
    return HfSettings(cache_folder=str(tmp_path_factory.mktemp("cache")), offline=True)


@pytest.fixture(scope="module")
def gguf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_gguf(tmp_path_factory.mktemp("gguf") / "tiny.gguf")


@pytest.fixture(scope="module")
def folder(gguf: Path, settings: HfSettings) -> Path:
    return Path(HfSource(settings).resolve(str(gguf), quiet).folder)


pytestmark = pytest.mark.timeout(300)


def test_a_checkpoint_says_what_the_file_says(gguf: Path, settings: HfSettings, folder: Path) -> None:
    checkpoint = HfSource(settings).resolve(str(gguf), quiet)
    assert (checkpoint.context_length, checkpoint.vocab_size) == (512, len(TOKENS))


def test_a_chat_model_ends_at_its_turn_and_at_the_end_of_text(gguf: Path, settings: HfSettings, folder: Path) -> None:
    assert HfSource(settings).resolve(str(gguf), quiet).eos_ids == (IM_END, END_OF_TEXT)


def test_float32_weights_arrive_unchanged_and_tied_ones_once(folder: Path) -> None:
    written = load_file(folder / "model.safetensors")
    np.testing.assert_array_equal(written["model.embed_tokens.weight"], weights()["token_embd.weight"])
    np.testing.assert_array_equal(written["model.layers.0.mlp.down_proj.weight"], weights()["blk.0.ffn_down.weight"])
    assert "lm_head.weight" not in written


def test_the_pre_tokenizer_of_the_file_splits_digits(folder: Path) -> None:
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    assert tokenizer.encode("ab12").tokens == ["ab", "1", "2"]


def test_the_chat_template_comes_along(gguf: Path, settings: HfSettings, folder: Path) -> None:
    source = HfSource(settings)
    tokenizer = source.tokenizer(source.resolve(str(gguf), quiet))
    assert tokenizer.apply_chat_template([{"role": "user", "content": "Hi"}]) == "Hi"


def test_a_file_is_converted_once(gguf: Path, settings: HfSettings, folder: Path) -> None:
    seen: list[str] = []
    HfSource(settings).resolve(str(gguf), lambda what, done, total: seen.append(what))
    assert seen == []


def test_a_file_of_half_precision_is_not_taken_for_float32(tmp_path: Path) -> None:
    half = GgufFacts(write_gguf(tmp_path / "half.gguf", tensors=weights(np.float16)))
    assert not half.float32


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "cut.gguf"
    path.write_bytes(write_gguf(tmp_path / "whole.gguf").read_bytes()[:300])
    with pytest.raises(ModelError, match=r"cut\.gguf is not a readable GGUF file"):
        GgufFacts(path)


def test_what_the_converter_refuses_reaches_the_caller(tmp_path: Path, settings: HfSettings) -> None:
    path = write_gguf(tmp_path / "odd.gguf", pre="chameleon")
    with pytest.raises(ModelError, match=r"^converting odd\.gguf failed: the GGUF splits text by .*'chameleon'"):
        HfSource(settings).resolve(str(path), quiet)


def test_one_part_of_a_split_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="llama-gguf-split --merge"):
        GgufFacts(write_gguf(tmp_path / "part.gguf", split=2))


def test_rope_scaling_that_would_be_lost_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="rotary positions by 'yarn'"):
        GgufFacts(write_gguf(tmp_path / "yarn.gguf", scaling="yarn")).rope_parameters(10000.0)


def test_no_rope_scaling_stays_none(gguf: Path) -> None:
    assert GgufFacts(gguf).rope_parameters(10000.0) is None


def test_llama3_rope_scaling_is_recovered_from_its_divisors(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    scaling = {"rope_type": "llama3", "rope_theta": 500000.0, "factor": 32.0, "low_freq_factor": 1.0}
    scaling |= {"high_freq_factor": 4.0, "original_max_position_embeddings": 8192}
    config = transformers.LlamaConfig(hidden_size=128, num_attention_heads=2, rope_parameters=scaling)
    scaled, _ = ROPE_INIT_FUNCTIONS["llama3"](config, torch.device("cpu"))
    plain = 1.0 / 500000.0 ** (np.arange(0, 64, 2) / 64)
    divisors = (plain / scaled.numpy()).astype(np.float32)
    path = write_gguf(tmp_path / "llama3.gguf", tensors={**weights(), "rope_freqs.weight": divisors})
    assert GgufFacts(path).rope_parameters(500000.0) == scaling


def test_a_table_of_divisors_that_is_not_llama3s_is_refused(tmp_path: Path) -> None:
    divisors = np.linspace(1, 5, 16, dtype=np.float32)
    path = write_gguf(tmp_path / "other.gguf", tensors={**weights(), "rope_freqs.weight": divisors})
    with pytest.raises(ModelError, match=r"not Llama 3\.1's"):
        GgufFacts(path).rope_parameters(500000.0)


def test_a_sentencepiece_file_without_space_prefix_gets_none(gguf: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    facts = GgufFacts(gguf)
    said = {"tokenizer.ggml.model": "llama", "tokenizer.ggml.add_space_prefix": False}
    monkeypatch.setattr(facts, "_value", said.get)
    strip = {"type": "Strip", "content": " ", "start": 1, "stop": 0}
    document: dict[str, Any] = {
        "pre_tokenizer": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": False},
        "decoder": {"type": "Sequence", "decoders": [{"type": "Fuse"}, strip]},
    }
    facts.correct_tokenizer(document, frozenset())
    assert document["pre_tokenizer"]["prepend_scheme"] == "never"
    assert json.dumps(strip) not in json.dumps(document)
