"""Models made on the spot, from a seed: random weights, a tokenizer of single bytes, in Hugging Face layout."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import tokenizers
import torch
import transformers
from safetensors.torch import save_file
from torch import Tensor

from device.rows import Report, Row
from device.target import ModelShape, Target
from sgframe.interfaces.source import Checkpoint
from sgframe_torch.weights import INDEX

SHARD_BYTES = 2 * 2**30
BYTES = 256
END = "<|end|>"


def run(target: Target, report: Report) -> None:
    """Make the large model, which later sections load."""
    folder = target.large_model
    folder.mkdir()
    made = make_checkpoint(llama(target.sizes.model), folder, torch.bfloat16, torch.device(target.device), std=0.02)
    size = sum(path.stat().st_size for path in Path(made.folder).glob("*.safetensors"))
    report(Row("weights of the large model", value=size / 2**30, unit="GiB", note=f"in {folder.parent}"))


def llama(shape: ModelShape) -> Any:
    """The config of a Llama of ``shape``, with a head of its own."""
    return transformers.LlamaConfig(
        vocab_size=shape.vocab,
        hidden_size=shape.hidden,
        intermediate_size=shape.intermediate,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads.query,
        num_key_value_heads=shape.heads.kv,
        head_dim=shape.heads.key_dim,
        max_position_embeddings=shape.context,
        bos_token_id=None,
        eos_token_id=BYTES,
        tie_word_embeddings=False,
    )


def make_checkpoint(
    config: Any, folder: Path, dtype: torch.dtype, device: torch.device, std: float, seed: int = 0
) -> Checkpoint:
    """Save a model of ``config``. Matrices are normal with ``std``; norms lie around 1, other vectors around 0."""
    with torch.device("meta"):
        model = transformers.AutoModelForCausalLM.from_config(config)
    shapes = {name: tuple(parameter.shape) for name, parameter in model.named_parameters()}
    random = torch.Generator(device).manual_seed(seed)
    index: dict[str, str] = {}
    for number, names in enumerate(_shards(shapes, dtype.itemsize)):
        file = f"model-{number:05}.safetensors"
        save_file({name: _weight(name, shapes[name], std, random).to(dtype).cpu() for name in names}, folder / file)
        index |= dict.fromkeys(names, file)
    (folder / INDEX).write_text(json.dumps({"metadata": {}, "weight_map": index}))
    config.architectures = [type(model).__name__]
    config.dtype = dtype
    config.save_pretrained(folder)
    _save_tokenizer(folder)
    return Checkpoint(folder.name, str(folder), config.max_position_embeddings, config.vocab_size, ())


def _shards(shapes: Mapping[str, tuple[int, ...]], itemsize: int) -> Iterator[list[str]]:
    """The names, cut into lists of about SHARD_BYTES."""
    shard: list[str] = []
    held = 0
    for name, shape in shapes.items():
        shard.append(name)
        held += torch.Size(shape).numel() * itemsize
        if held >= SHARD_BYTES:
            yield shard
            shard, held = [], 0
    if shard:
        yield shard


def _weight(name: str, shape: tuple[int, ...], std: float, random: torch.Generator) -> Tensor:
    values = torch.empty(shape, device=random.device)
    return values.normal_(1.0 if len(shape) == 1 and "norm" in name else 0.0, std, generator=random)


def _save_tokenizer(folder: Path) -> None:
    """A token for each byte, in the spelling of byte-level BPE, and one that ends a text."""
    alphabet = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE({letter: i for i, letter in enumerate(alphabet)}, []))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    tokenizer.add_special_tokens([END])
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps({"eos_token": END}))
