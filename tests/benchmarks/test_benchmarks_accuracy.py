"""The accuracy of rounded weights: what is computed from scores, and that a shuffled model is the same model."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path

import accuracy
import pytest
import torch
import transformers
from accuracy import Scored, line, read, windows
from drive.shuffled import shuffle


def test_perplexity_is_that_of_the_mean_logprob() -> None:
    assert Scored([-1.0, -3.0], [5, 6]).perplexity == pytest.approx(7.389, abs=1e-3)


def test_agreement_is_the_share_of_equal_likeliest_tokens() -> None:
    assert Scored([], [5, 6, 7, 8]).agreement(Scored([], [5, 0, 7, 8])) == 0.75


def test_windows_are_whole_and_not_more_than_asked_for() -> None:
    assert windows(range(10), 3, 100) == [[0, 1, 2], [3, 4, 5], [6, 7, 8]]
    assert windows(range(10), 3, 7) == [[0, 1, 2], [3, 4, 5]]
    assert windows(range(2), 3, 7) == []


def test_a_line_tells_size_perplexity_and_agreement() -> None:
    base, other = Scored([-1.0, -1.0], [5, 6]), Scored([-1.1, -1.1], [5, 7], bytes=3 * 2**20)
    assert line("as stored", "int8", other, base) == ["as stored", "int8", "3", "3.004", "1.105", "50.00%"]


def test_a_text_may_be_lines_of_strings(tmp_path: Path) -> None:
    (tmp_path / "texts.jsonl").write_text('"one"\n"two"\n')
    assert read(tmp_path / "texts.jsonl") == "one\n\ntwo"


def test_the_table_has_each_kind_of_weights_by_those_as_stored(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(
        accuracy, "score", lambda model, weights, text, options: Scored([-1.0], [len(weights)], weights)
    )
    accuracy.measure(argparse.Namespace(model="m", text=None, shuffle=False, window=2, tokens=2))
    table = capsys.readouterr().out.splitlines()[-3:]
    assert [row.split()[2] for row in table] == ["as-stored", "int8", "int4"]
    assert [row.split()[-1] for row in table] == ["100.00%", "0.00%", "0.00%"]


_SIZES = {
    "vocab_size": 96,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
}
CONFIGS = {
    "llama": lambda: transformers.LlamaConfig(
        **_SIZES, num_key_value_heads=2, tie_word_embeddings=True, attention_bias=True, mlp_bias=True
    ),
    "qwen3": lambda: transformers.Qwen3Config(**_SIZES, num_key_value_heads=2, head_dim=16),
}


@pytest.mark.parametrize("make", CONFIGS.values(), ids=CONFIGS)
def test_a_shuffled_model_computes_the_same(make: Callable[[], transformers.PretrainedConfig], tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = transformers.AutoModelForCausalLM.from_config(make())
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    model.save_pretrained(tmp_path / "stored")
    shuffle(tmp_path / "stored", tmp_path / "shuffled")
    shuffled = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "shuffled")
    tokens = torch.tensor([[3, 14, 15, 92, 65, 35]])
    torch.testing.assert_close(shuffled(tokens).logits, model(tokens).logits, atol=1e-4, rtol=0)
    for ours, theirs in zip(shuffled.parameters(), model.parameters(), strict=True):
        assert ours.ndim == 1 or not torch.equal(ours, theirs)


def test_a_family_that_is_not_known_is_not_shuffled(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "gemma2"}))
    with pytest.raises(ValueError, match=r"can shuffle llama, mistral, qwen2, qwen3; .* has a 'gemma2'"):
        shuffle(tmp_path, tmp_path / "shuffled")
