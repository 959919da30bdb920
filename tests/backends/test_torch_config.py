"""What the models are told of a checkpoint is what transformers reads from its config.json, whoever parses it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from transformers import AutoConfig, LlamaConfig

from sgframe.errors import ModelError
from sgframe_torch.config import PlainLlama, read_config


@pytest.fixture
def written(tmp_path: Path) -> Any:
    """Writes a Llama's config.json as transformers does, then changes or drops (None) fields; gives its folder."""

    def write(**changes: Any) -> Path:
        LlamaConfig(
            hidden_size=96, num_attention_heads=3, num_key_value_heads=1, tie_word_embeddings=True
        ).save_pretrained(tmp_path)
        fields = json.loads((tmp_path / "config.json").read_text()) | changes
        kept = {name: value for name, value in fields.items() if value is not None}
        (tmp_path / "config.json").write_text(json.dumps(kept))
        return tmp_path

    return write


def test_a_plain_llama_has_the_values_that_transformers_reads(written: Any) -> None:
    folder = written()
    config, oracle = read_config(folder), AutoConfig.from_pretrained(folder).to_dict()
    assert isinstance(config, PlainLlama)
    known = {name: value for name, value in config.to_dict().items() if value is not None}
    assert known == {name: oracle[name] for name in known}
    assert (config.head_dim, config.tie_word_embeddings) == (32, True)


@pytest.mark.parametrize(
    "changes",
    [
        {"head_dim": None},
        {"rope_parameters": {"rope_type": "linear", "factor": 2.0, "rope_theta": 1e4}},
        {"sliding_window": 64},
        {"hidden_act": "gelu"},
        {"rope_parameters": None, "rope_theta": 5e5},
    ],
)
def test_what_is_left_out_or_special_is_parsed_by_transformers(written: Any, changes: dict[str, Any]) -> None:
    folder = written(**changes)
    config, oracle = read_config(folder), AutoConfig.from_pretrained(folder)
    assert not isinstance(config, PlainLlama)
    assert config.to_dict() == oracle.to_dict()


def test_a_folder_without_a_config_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"cannot read the config\.json in"):
        read_config(tmp_path)


@pytest.mark.slow
def test_the_runtime_is_imported_without_transformers() -> None:
    code = "import sys, sgframe_torch.executor; print('transformers' in sys.modules)"
    path = ":".join(filter(None, sys.path))
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env={"PYTHONPATH": path}
    )
    assert ran.stdout == "False\n"
