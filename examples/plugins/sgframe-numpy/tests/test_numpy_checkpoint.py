"""What is read of a checkpoint, what is refused, and what is said when it does not fit."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file
from sgframe_numpy import executor as executor_module
from sgframe_numpy.checkpoint import read_config, read_weights, stored_tensors
from sgframe_numpy.executor import NumpyExecutor

from sgframe.errors import ModelError
from sgframe.interfaces.backend import ExecutorSpec
from sgframe.interfaces.source import Checkpoint
from sgframe.messages import Loaded


def quiet(what: str, done: int, total: int) -> None:
    pass


def load(checkpoint: Checkpoint, **spec: Any) -> Loaded:
    defaults = {"dtype": "auto", "max_rows": 4, "max_step_tokens": 64}
    return NumpyExecutor().load(ExecutorSpec(checkpoint, **defaults | spec), quiet)


# ------------------------------------------------------------------------------------------------------ weights


def test_bfloat16_and_float16_are_widened_and_progress_counts_bytes(tmp_path: Path) -> None:
    header = (
        b'{"__metadata__": {"format": "pt"}, "bf": {"dtype": "BF16", "shape": [1, 2], "data_offsets": [0, 4]}, '
        b'"half": {"dtype": "F16", "shape": [2], "data_offsets": [4, 8]}}'
    )
    data = b"\xc0\x3f\x10\xc0" + np.array([0.5, -3], "<f2").tobytes()
    (tmp_path / "model.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + data)
    told: list[tuple[str, int, int]] = []
    weights = read_weights(stored_tensors(tmp_path), lambda *progress: told.append(progress))
    assert weights["bf"].tolist() == [[1.5, -2.25]]
    assert weights["half"].tolist() == [0.5, -3.0]
    assert {array.dtype.name for array in weights.values()} == {"float32"}
    assert told == [("weights", 4, 8), ("weights", 8, 8)]


def test_several_files_are_one_checkpoint(tmp_path: Path, weights: dict[str, np.ndarray]) -> None:
    for name, array in weights.items():
        save_file({name: array}, tmp_path / f"{name}.safetensors")
    found = read_weights(stored_tensors(tmp_path), quiet)
    assert {name: array.tolist() for name, array in found.items()} == {n: w.tolist() for n, w in weights.items()}


@pytest.mark.parametrize("size", [0, 4, 100, 5000])
def test_a_file_that_is_cut_off_is_named(tmp_path: Path, folder: Path, size: int) -> None:
    (tmp_path / "model.safetensors").write_bytes((folder / "model.safetensors").read_bytes()[:size])
    with pytest.raises(ModelError, match=r"cannot read the weights in .*model\.safetensors: .*must be whole"):
        stored_tensors(tmp_path)


def test_a_folder_without_weights_is_told(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"has no \.safetensors file"):
        stored_tensors(tmp_path)


# ------------------------------------------------------------------------------------------------------- config


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"model_type": "gemma3_text"}, "'gemma3_text'"),
        ({"hidden_act": "gelu"}, "'gelu'"),
        ({"attention_bias": True}, "its linear layers have biases"),
        ({"rope_scaling": {"rope_type": "linear", "factor": 2.0}}, "rotary embedding is scaled: .*'linear'"),
        ({"rope_parameters": {"rope_type": "llama3", "rope_theta": 1e4}}, "rotary embedding is scaled: .*'llama3'"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_what_is_no_plain_llama_is_refused(tmp_path: Path, folder: Path, changes: dict[str, Any], said: str) -> None:
    config = json.loads((folder / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | changes))
    with pytest.raises(ModelError, match=f"{said}.*choose --backend cpu"):
        read_config(tmp_path)


@pytest.mark.parametrize("written", [{"rope_theta": 5e5}, {"rope_parameters": {"rope_theta": 5e5}}], ids=str)
def test_the_base_of_the_rotary_embedding_is_read_where_it_stands(
    tmp_path: Path, folder: Path, written: dict[str, Any]
) -> None:
    config = json.loads((folder / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | written))
    assert read_config(tmp_path).theta == 5e5


def test_weights_of_another_model_are_told(tmp_path: Path, folder: Path, checkpoint: Checkpoint) -> None:
    config = json.loads((folder / "config.json").read_text())
    shutil.copy(folder / "model.safetensors", tmp_path)
    (tmp_path / "config.json").write_text(json.dumps(config | {"num_hidden_layers": 3}))
    with pytest.raises(ModelError, match=r"no weight 'model\.layers\.2\."):
        load(replace(checkpoint, folder=str(tmp_path)))


# -------------------------------------------------------------------------------------------------- what fits


def test_memory_is_announced_line_by_line(checkpoint: Checkpoint, weights: dict[str, np.ndarray]) -> None:
    loaded = load(checkpoint, kv_bytes=100 * 384)  # 2 layers × 2 KV heads × 12 × (key and value) × 4 bytes
    lines = {line.name: line.bytes for line in loaded.ledger}
    assert loaded.slots == 100
    assert lines["KV slots"] == 100 * 384
    assert lines["weights"] == sum(array.nbytes for array in weights.values())


def test_by_itself_it_takes_what_all_rows_can_fill(checkpoint: Checkpoint) -> None:
    assert load(checkpoint).slots == 4 * 128
    assert load(checkpoint, context_length=50).slots == 4 * 50


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({"kv_slots": 8000}, "8000 slots × 384 bytes are asked for, and 2 MiB are left"),
        ({"kv_bytes": 383}, "0 slots × 384 bytes are asked for"),
        ({"max_step_tokens": 8192}, "0 slots × 384 bytes are asked for, and -"),
    ],
    ids=str,
)
def test_what_does_not_fit_is_told_with_the_numbers(
    checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch, spec: dict[str, Any], said: str
) -> None:
    monkeypatch.setattr(executor_module, "available_memory", lambda: 4 * 2**20)
    with pytest.raises(ModelError, match=said):
        load(checkpoint, **spec)


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({"dtype": "bfloat16"}, "no dtype 'bfloat16'; choose auto or float32"),
        ({"context_length": 129}, "context_length is 129, but tiny-llama was made for at most 128 tokens"),
    ],
)
def test_what_it_cannot_do_is_refused(checkpoint: Checkpoint, spec: dict[str, Any], said: str) -> None:
    with pytest.raises(ModelError, match=said):
        load(checkpoint, **spec)
