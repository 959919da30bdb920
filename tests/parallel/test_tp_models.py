"""A model whose weights are divided among ranks says what transformers says of the whole one: logits to 1e-4 in float32, and
the same greedy tokens."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch

from sgframe.errors import ModelError
from sgframe_hf import HfSettings
from sgframe_hf.source import HfSource
from sgframe_torch.config import read_config
from sgframe_torch.kv import LayerKV, allocate
from sgframe_torch.models import check_ranks, load_model
from sgframe_torch.ops import DeviceOps
from sgframe_torch.parallel.distributed import join
from sgframe_torch.parallel.group import Group
from sgframe_torch.parallel.pace import Pace
from sgframe_torch.rows import StepInputs

LENGTH = 30
OUTPUT = 6
CHUNKS = [17, 13]
"""How the prompt is cut into steps."""


class PlainOps(DeviceOps):
    """The processor, with nothing but the reference of every operation."""

    device = torch.device("cpu")
    dtypes = ("float32",)

    def available_memory(self) -> int:
        return 2**40

    def kv_budget(self, available: int) -> int:
        return available


@dataclass
class Part:
    """One rank's part of a model."""

    logits: torch.Tensor
    tokens: list[int]
    kv_heads: list[int]
    weight_bytes: int
    progress: list[tuple[str, int, int]]


def one_step(model, kv: list[LayerKV], tokens: list[int], start: int) -> torch.Tensor:
    """Logits after each of ``tokens``, which follow the ``start`` that are computed; their slots run backwards."""
    count, end = len(tokens), start + len(tokens)
    table = torch.arange(len(kv[0].keys)).flip(0).int()[None]
    starts, lengths = np.array([0, count], np.int32), np.array([end], np.int32)
    step = StepInputs(
        tokens=torch.tensor(tokens),
        positions=torch.arange(start, end),
        slots=table[0, start:end].long(),
        rows=torch.zeros(1, dtype=torch.int32),
        query_starts=torch.from_numpy(starts),
        kv_lengths=torch.from_numpy(lengths),
        page_table=table,
        host_starts=starts,
        host_lengths=lengths,
        paged=False,
    )
    return model.logits(model.hidden(step, kv))


@torch.inference_mode()
def run(group: Group, folder: str, prompt: list[int]) -> dict:
    progress: list[tuple[str, int, int]] = []
    ops = PlainOps()
    model = load_model(
        Path(folder), read_config(Path(folder)), torch.float32, ops, group, lambda *call: progress.append(call)
    )
    kv = allocate(model.kv_shapes, LENGTH + OUTPUT, torch.float32, ops.empty)
    tokens, logits, done = list(prompt), [], 0
    for chunk in CHUNKS + [1] * (OUTPUT - 1):
        logits.append(one_step(model, kv, tokens[done : done + chunk], done))
        done += chunk
        if done == len(tokens):
            tokens.append(int(logits[-1][-1].argmax()))
    return {
        "logits": torch.cat(logits),
        "tokens": tokens,
        "kv_heads": [shape.heads for shape in model.kv_shapes],
        "weight_bytes": model.weight_bytes,
        "progress": progress,
    }


def run_rank(ranks, folder: str, prompt: list[int]) -> dict:
    group = join(ranks, "gloo", torch.device("cpu"), Pace())
    try:
        return run(group, folder, prompt)
    finally:
        group.close()


@pytest.fixture(scope="module")
def prompt() -> list[int]:
    return torch.randint(157, (LENGTH,), generator=torch.Generator().manual_seed(1)).tolist()


@pytest.fixture(scope="module")
def theirs(saved, prompt):
    """``theirs(kind)``: transformers' logits after each token of the prompt and its own greedy ones, and these tokens."""

    @cache
    @torch.inference_mode()
    def compute(kind: str) -> tuple[torch.Tensor, list[int]]:
        from transformers import AutoModelForCausalLM

        model = AutoModelForCausalLM.from_pretrained(saved(kind), attn_implementation="eager", dtype=torch.float32)
        tokens = list(prompt)
        for _ in range(OUTPUT):
            logits = model(torch.tensor([tokens]), use_cache=False).logits[0]
            tokens.append(int(logits[-1].argmax()))
        return logits, tokens

    return compute


@pytest.fixture(scope="module")
def divided(ranks, saved, prompt):
    """``divided(kind, size)``: what each of ``size`` ranks makes of the prompt."""
    return cache(lambda kind, size: [Part(**part) for part in ranks(size, run_rank, saved(kind), prompt)])


QUICK = [
    ("llama", 2),
    ("llama", 4),  # 2 KV heads
    ("llama-scaled-rope", 2),  # biases everywhere
    ("qwen3", 2),  # norms of queries and keys
    ("nine-heads", 3),
    ("odd-vocabulary", 4),
    ("odd-tied-vocabulary", 2),
    ("gemma2", 2),
    ("gemma3", 4),
    ("phi3", 2),
]
WIDE = [
    ("llama-scaled-rope", 4),
    ("qwen2", 2),
    ("qwen2", 4),
    ("qwen2-windows", 2),
    ("qwen2-windows", 4),
    ("qwen3", 6),
    ("mistral", 2),
    ("mistral", 4),
    ("odd-vocabulary", 2),
    ("odd-tied-vocabulary", 4),
    ("gemma2", 4),
    ("gemma3", 2),
    ("phi3", 4),
    ("olmo2", 2),
    ("olmo2", 4),
    ("cohere", 2),
    ("granite", 2),
    ("granite", 4),
    ("starcoder2", 2),
    ("starcoder2", 4),
    ("gpt-neox", 2),
    ("gpt-neox", 4),
]


@pytest.mark.parametrize(("kind", "size"), QUICK + [pytest.param(*case, marks=pytest.mark.slow) for case in WIDE])
def test_logits_and_greedy_tokens_are_those_of_the_whole_model(divided, theirs, kind, size):
    logits, tokens = theirs(kind)
    for part in divided(kind, size):
        torch.testing.assert_close(part.logits, logits, atol=1e-4, rtol=0)
        assert part.tokens == tokens


def test_a_rank_has_its_kv_heads(divided):
    assert [part.kv_heads for part in divided("llama", 2)] == [[1, 1, 1]] * 2


def test_more_ranks_than_kv_heads_have_some_of_them_twice(divided):
    assert [part.kv_heads for part in divided("llama", 4)] == [[1, 1, 1]] * 4


@pytest.mark.parametrize("kind", ["llama", "gemma2"])
def test_a_rank_reads_and_holds_its_share_and_tells_how_far_it_is(divided, kind):
    norms = {"llama": 7 * 64, "gemma2": 13 * 64}[kind]
    layer = 64 * (64 + 32 + 32) + 64 * 64 + 3 * 64 * 96  # queries, keys and values; output; MLP
    vocabulary = 160 * 64 * {"llama": 1, "gemma2": 2}[kind]  # with a head of its own
    share = 4 * (norms + (3 * layer + vocabulary) // 2)
    for part in divided(kind, 2):
        assert part.weight_bytes == share
        whats, done, totals = zip(*part.progress, strict=True)
        assert set(whats) == {"weights"}
        assert list(done) == sorted(done)
        assert done[-1] == share
        assert len(set(totals)) == 1
        assert 0 <= totals[0] - share < 8192  # the file's header


# ------------------------------------------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("kind", "size", "reason"),
    [
        ("smollm2", 2, "its 9 attention heads (with 3 KV heads) are not a multiple of 2; choose a tp_size of 1, 3"),
        ("qwen3", 3, "neither of its 2 KV heads and 3 ranks is a multiple of the other; choose a tp_size of 1, 2, 6"),
        ("odd-inner", 4, "its intermediate size, 98, is not a multiple of 4; choose a tp_size of 1, 2"),
        ("gemma2", 3, "its 4 attention heads (with 2 KV heads) are not a multiple of 3; choose a tp_size of 1, 2, 4"),
        ("odd-inner-gemma", 4, "its width of model.layers.0.mlp.gate_proj, 98, is not a multiple of 4; choose a"),
        ("phi3", 3, "its width of model.layers.0.self_attn.o_proj, 64, is not a multiple of 3; choose a tp_size of 1,"),
    ],
)
def test_ranks_that_do_not_divide_a_model_are_refused_with_the_numbers(config, kind, size, reason):
    with pytest.raises(ModelError) as refusal:
        check_ranks(config(kind), size)
    assert str(refusal.value).startswith(f"{size} ranks cannot divide this model: {reason}")


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("qwen3-moe", "its plan divides model.layers.*.mlp.experts.gate_up_proj (packed_colwise), "),
        ("stablelm", "transformers has no tensor parallel plan for it; choose a tp_size of 1, or another model"),
    ],
)
def test_a_plan_that_cannot_be_followed_is_refused_by_name(config, kind, reason):
    with pytest.raises(ModelError) as refusal:
        check_ranks(config(kind), 2)
    model_type = config(kind).model_type
    assert str(refusal.value).startswith(f"a model of type '{model_type}' cannot be divided among ranks: {reason}")


def test_a_quantized_model_is_refused(config):
    quantized = config("llama")
    quantized.quantization_config = {"quant_method": "fp8"}
    with pytest.raises(ModelError, match="sgframe divides only unquantized models"):
        check_ranks(quantized, 2)


@pytest.mark.parametrize("kind", ["smollm2", "qwen3-moe", "stablelm"])
def test_one_rank_can_have_any_model(config, kind):
    check_ranks(config(kind), 1)


# --------------------------------------------------------------------------------------------------- the real thing


@pytest.mark.slow
def test_smollm2_on_three_ranks(ranks):
    from transformers import AutoModelForCausalLM

    folder = HfSource(HfSettings()).resolve("smollm2-135m", lambda what, done, total: None).folder
    prompt = list(range(1000, 1000 + LENGTH))
    model = AutoModelForCausalLM.from_pretrained(folder, attn_implementation="eager", dtype=torch.float32)
    with torch.inference_mode():
        tokens = model.generate(torch.tensor([prompt]), max_new_tokens=OUTPUT, do_sample=False)[0].tolist()
        logits = model(torch.tensor([tokens[:-1]]), use_cache=False).logits[0]
    for part in (Part(**part) for part in ranks(3, run_rank, folder, prompt, patience=300.0)):
        torch.testing.assert_close(part.logits, logits, atol=1e-4, rtol=0)
        assert part.tokens == tokens
