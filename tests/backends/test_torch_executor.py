"""The executor: sampling, logprobs, masks, failures, and what it refuses to load."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import pytest
import torch
import transformers

from sgframe.errors import ModelError
from sgframe.messages import Masks, ints
from sgframe.sampling import TokenSampling
from sgframe_cpu import CpuSettings
from sgframe_torch.sampler import Sampler

CONTEXT = 128
PROMPT = [5, 9, 77, 13, 120, 44, 3]


def test_announces_what_was_loaded(scheduler):
    loaded = scheduler("llama").loaded
    assert (loaded.vocab_size, loaded.context_length, loaded.page_size) == (160, CONTEXT, 1)
    assert (loaded.slots, loaded.dtype) == (512, "float32")


def test_ledger_counts_weights_and_kv_to_the_byte(scheduler, checkpoint):
    lines = {line.name: line.bytes for line in scheduler("qwen3").loaded.ledger}
    model = transformers.AutoModelForCausalLM.from_pretrained(checkpoint("qwen3").folder)
    assert lines["weights"] == 4 * model.num_parameters()
    assert lines["KV slots"] == 512 * 3 * 2 * 2 * 16 * 4  # slots, layers, K and V, heads, head size, float32


def test_progress_grows_by_the_bytes_read(start, checkpoint):
    calls = []
    start(checkpoint("llama"), progress=lambda *call: calls.append(call))
    whats, done, totals = zip(*calls, strict=True)
    size = Path(checkpoint("llama").folder, "model.safetensors").stat().st_size
    assert set(whats) == {"weights"}
    assert set(totals) == {size}
    assert list(done) == sorted(done)
    assert 0 <= size - done[-1] < 8192  # the header


def test_prompt_logprobs_equal_the_oracle_whatever_the_chunks(scheduler, oracle):
    rows = scheduler("llama")
    rows.admit(0, PROMPT, sampling=TokenSampling(seed=0, temperature=0.0, prompt_logprobs=2))
    rows.run({0: len(PROMPT) + 1}, chunk=3)
    spans = [span for output in rows.outputs for span in output.prompt_logprobs]
    entries = [entry for span in spans for entry in span.entries]
    theirs = oracle("llama")(torch.tensor([PROMPT])).logits[0].log_softmax(-1)
    assert [span.start for span in spans] == [1, 4]
    assert [entry.token for entry in entries] == PROMPT[1:]
    for position, entry in enumerate(entries):
        assert math.isclose(entry.logprob, theirs[position, entry.token], abs_tol=1e-3)
        assert entry.top_ids.tolist() == theirs[position].topk(2).indices.tolist()


def test_prompt_longer_than_a_slice_has_every_logprob(scheduler):
    rows = scheduler("llama")
    rows.admit(0, list(range(100)), sampling=TokenSampling(seed=0, temperature=0.0, prompt_logprobs=0))
    [span] = rows.step({0: 100}).prompt_logprobs
    assert [entry.token for entry in span.entries] == list(range(1, 100))


def test_output_names_only_sampled_rows(scheduler):
    rows = scheduler("llama")
    rows.admit(0, PROMPT)
    rows.admit(1, PROMPT)
    output = rows.step({0: 3, 1: len(PROMPT)})
    assert output.rows.tolist() == [1]
    assert len(output.tokens) == 1


@pytest.mark.parametrize("kind", ["llama", "gemma3"])
def test_batch_without_rows_only_releases(scheduler, kind):
    rows = scheduler(kind)
    rows.admit(0, PROMPT)
    rows.step({0: len(PROMPT)})
    rows.release(0)
    output = rows.step({})
    assert output.rows.tolist() == output.tokens.tolist() == []


def masks_for(rows: list[int], allowed: list[int]) -> Masks:
    words = np.zeros((len(rows), 5), np.uint32)
    for word, token in enumerate(allowed):
        words[word, token // 32] = 1 << (token % 32)
    return Masks(0, ints(rows), words.tobytes())


def test_masked_rows_may_choose_only_what_the_mask_allows(scheduler):
    rows = scheduler("llama")
    for row in range(3):
        rows.admit(row, PROMPT)
    batch = rows.batch({row: len(PROMPT) for row in range(3)})
    rows.executor.forward(batch)
    output = rows.executor.sample(masks_for([2, 0], [150, 31])).result()
    free = scheduler("llama")
    free.admit(0, PROMPT)
    assert output.tokens.tolist() == [31, free.step({0: len(PROMPT)}).tokens[0], 150]


def test_masked_batch_is_never_sampled_without_its_masks(scheduler):
    rows = scheduler("llama")
    rows.admit(0, PROMPT)
    batch = rows.batch({0: len(PROMPT)})
    rows.executor.forward(msgspec.structs.replace(batch, masked=True))
    with pytest.raises(ValueError, match="needs its grammar masks"):
        rows.executor.sample(None)


def test_same_seed_gives_the_same_text_alone_and_among_others(scheduler):
    sampling = TokenSampling(seed=7, temperature=1.0)
    alone, among = scheduler("llama"), scheduler("llama")
    alone.admit(0, PROMPT, sampling=sampling)
    alone.run({0: len(PROMPT) + 8})
    for row in range(4):
        among.admit(row, PROMPT if row == 2 else PROMPT[row:], sampling=sampling)
    among.run(dict.fromkeys(range(4), 15), chunk=2)
    assert among.tokens[2] == alone.tokens[0]


def test_model_that_raises_leaves_other_rows_as_they_were(scheduler, monkeypatch):
    rows = scheduler("llama")
    rows.admit(0, PROMPT)
    rows.run({0: len(PROMPT) + 3})
    rows.admit(1, PROMPT)
    doomed = rows.batch({0: 1, 1: 4})
    failing = replace(rows.executor._running, hidden=lambda _: 1 / 0)
    with monkeypatch.context() as patch:
        patch.setattr(rows.executor, "_running", failing)
        with pytest.raises(ZeroDivisionError):
            rows.executor.forward(doomed)
    rows.slots[0].pop()
    rows.release(1)
    rows.run({0: len(PROMPT) + 6})
    whole = scheduler("llama")
    whole.admit(0, PROMPT)
    whole.run({0: len(PROMPT) + 6})
    assert rows.tokens[0] == whole.tokens[0]


@pytest.mark.parametrize("kernels", ["numba", "torch"])
def test_hidden_state_that_is_not_finite_ends_in_minus_one(start, save, kernels):
    rows = start(save(transformers.LlamaConfig(**TINY)), CpuSettings(kernels=kernels))
    with torch.inference_mode():
        rows.executor._running.model._embedding[PROMPT[2]] = math.nan
    rows.admit(0, PROMPT)
    assert rows.step({0: len(PROMPT)}).tokens.tolist() == [-1]
    assert rows.step({0: 1}).tokens.tolist() == [-1]  # planned before the first was known


TINY = {
    "vocab_size": 160,
    "hidden_size": 32,
    "intermediate_size": 32,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "head_dim": 16,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
}


def test_closed_executor_can_be_closed_again(start, checkpoint):
    executor = start(checkpoint("llama")).executor
    executor.close()
    executor.close()


# ------------------------------------------------------------------------------------------------------ sizing


def test_kv_bytes_are_never_exceeded(start, checkpoint):
    per_slot = 3 * 2 * 2 * 16 * 4
    assert start(checkpoint("llama"), kv_slots=0, kv_bytes=300 * per_slot + 1).loaded.slots == 300


def test_never_more_slots_than_all_rows_can_fill(start, checkpoint):
    assert start(checkpoint("llama"), kv_slots=10**6, max_rows=3).loaded.slots == 3 * CONTEXT


def test_sized_by_itself_it_holds_at_least_one_context(start, checkpoint):
    assert start(checkpoint("llama"), kv_slots=0, max_rows=1).loaded.slots == CONTEXT


def test_kv_bytes_below_one_token_are_refused(start, checkpoint):
    with pytest.raises(ModelError, match="one token takes 768 bytes"):
        start(checkpoint("llama"), kv_slots=0, kv_bytes=767)


def test_a_row_whose_draw_failed_goes_on_with_some_token_in_a_step_that_was_given_already(
    start, checkpoint, monkeypatch
):
    rows = start(checkpoint("llama"))
    expected = start(checkpoint("llama"))
    for each in (rows, expected):
        each.admit(0, [1, 2, 3])
        each.admit(1, [4, 5, 6])
        each.step({0: 3, 1: 3})
    with monkeypatch.context() as patch, pytest.raises(ZeroDivisionError):
        patch.setattr(Sampler, "choose", lambda *_: 1 // 0)
        rows.executor.forward(rows.batch({0: 1}))
        rows.executor.sample(None)
    rows.tokens[0].append(0)
    rows.executor.forward(rows.batch({0: 1, 1: 1}))
    output = rows.executor.sample(None).result()
    assert output.tokens[1] == expected.step({1: 1}).tokens[0]


# ---------------------------------------------------------------------------------------------------- refusals


def test_dtype_the_device_lacks_is_refused(start, checkpoint):
    with pytest.raises(ModelError, match=r"float16.*bfloat16"):
        start(checkpoint("llama"), dtype="float16")


def test_context_beyond_the_model_is_refused_with_both_numbers(start, checkpoint):
    with pytest.raises(ModelError, match=f"{CONTEXT + 1}.*{CONTEXT}"):
        start(checkpoint("llama"), context_length=CONTEXT + 1)


def test_folder_without_weights_is_refused(start, checkpoint, tmp_path):
    (tmp_path / "config.json").write_bytes(Path(checkpoint("llama").folder, "config.json").read_bytes())
    with pytest.raises(ModelError, match=r"no \.safetensors file"):
        start(replace(checkpoint("llama"), folder=str(tmp_path)))


def test_folder_without_config_is_refused(start, checkpoint, tmp_path):
    with pytest.raises(ModelError, match=r"config\.json"):
        start(replace(checkpoint("llama"), folder=str(tmp_path)))


def test_damaged_weights_are_refused(start, checkpoint, tmp_path):
    (tmp_path / "config.json").write_bytes(Path(checkpoint("llama").folder, "config.json").read_bytes())
    (tmp_path / "model.safetensors").write_bytes(b"\xff" * 100)
    with pytest.raises(ModelError, match="cannot read the weights"):
        start(replace(checkpoint("llama"), folder=str(tmp_path)))


def test_missing_weight_is_named(start, checkpoint, tmp_path):
    config = json.loads(Path(checkpoint("llama").folder, "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | {"num_hidden_layers": 4}))
    (tmp_path / "model.safetensors").write_bytes(Path(checkpoint("llama").folder, "model.safetensors").read_bytes())
    with pytest.raises(ModelError, match=r"model\.layers\.3\.input_layernorm\.weight"):
        start(replace(checkpoint("llama"), folder=str(tmp_path)))


def test_rope_that_depends_on_the_length_is_refused_beyond_its_start(start, save):
    rope = {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 10000.0, "original_max_position_embeddings": 32}
    checkpoint = save(transformers.LlamaConfig(**TINY, rope_parameters=rope))
    with pytest.raises(ModelError, match="set context_length to 32 or less"):
        start(checkpoint)
    assert start(checkpoint, context_length=32).loaded.context_length == 32


def test_state_outside_attention_is_refused(start, save):
    config = transformers.Lfm2Config(**TINY | {"num_hidden_layers": 2}, layer_types=["conv", "full_attention"])
    with pytest.raises(ModelError, match=r"'lfm2' cannot be served.*conv"):
        start(save(config))


def test_attention_sinks_are_refused(start, save):
    config = transformers.GptOssConfig(**TINY, num_local_experts=2, num_experts_per_tok=1)
    with pytest.raises(ModelError, match="'gpt_oss' cannot be served"):
        start(save(config))
