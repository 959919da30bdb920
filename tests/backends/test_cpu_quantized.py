"""Linear layers of few bits: what weights become, that the kernel computes with exactly that, and a model served so."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from pydantic import ValidationError

from sgframe.errors import ModelError
from sgframe.sampling import TokenSampling
from sgframe_cpu import CpuSettings
from sgframe_cpu.linear_kernels import ROW_GROUP
from sgframe_cpu.quantized import INT4, INT8, QuantizedLinear, pack, quantize
from sgframe_cpu.quantized_tiles import MOST_ROWS
from sgframe_cpu.quantizer import Quantizer
from sgframe_cpu.team import Team

FORMS = pytest.mark.parametrize("form", [INT8, INT4], ids=lambda form: form.name)
DTYPES = pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=str)
BFLOAT16_STEP = 2**-8


def random(*shape, dtype=torch.float32):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape))).to(dtype)


# ------------------------------------------------------------------------------------------- what weights become


def test_int8_reaches_from_the_largest_of_a_row_to_its_opposite():
    quantized = quantize(torch.tensor([[0.5, -0.25, 0.0, 63.5], [-127.0, 1.0, 1.4, 1.6]]), INT8)
    assert quantized.scales.flatten().tolist() == [0.5, 1.0]
    assert quantized.numbers.flatten(1).tolist() == [[1, 0, 0, 127], [-127, 1, 1, 2]]


def test_int4_reaches_from_the_least_of_a_group_to_its_largest():
    group = torch.arange(32) % 16 / 2 - 3
    quantized = quantize(torch.stack([torch.cat([group, 4 * group])]), INT4)
    assert quantized.offsets.flatten().tolist() == [-3, -12]
    assert quantized.scales.flatten().tolist() == [0.5, 2]
    assert quantized.numbers.flatten().tolist() == [*range(16)] * 4


@FORMS
def test_a_weight_differs_by_half_a_step_at_most(form):
    weight = random(40, 96)
    groups = weight.unflatten(1, (form.groups(96), -1))
    reach = 2 * groups.abs().amax(2) if form is INT8 else groups.amax(2) - groups.amin(2)
    step = reach / {"int8": 254, "int4": 15}[form.name]
    differences = (quantize(weight, form).weight() - weight).abs().unflatten(1, (form.groups(96), -1)).amax(2)
    assert (differences <= step * (0.5 + 16 * BFLOAT16_STEP)).all()  # scale and offset are rounded themselves
    assert differences.max() > step.min() * 0.4


@FORMS
@pytest.mark.parametrize("value", [0.0, -1.5, 3.0])
def test_weights_that_are_all_the_same_stay_as_they_are(form, value):
    weight = torch.full((2, 32), value)
    torch.testing.assert_close(quantize(weight, form).weight(), weight, atol=0, rtol=2**-8)


def test_int8_is_packed_in_columns_after_its_scale():
    weight = torch.arange(16.0)[:, None] * torch.tensor([[1.0, -1.0, 0.0, 0.0]])
    weight[:, 3] = 127
    vectors = pack(quantize(weight, INT8), INT8)
    assert vectors.shape == (1, 2, 16)
    assert hex(vectors[0, 0, 0]) == "0x3f80"  # scale 1, offset 0
    numbers = vectors[0, 1].view(np.int8).reshape(4, 16)
    assert numbers[:, :3].tolist() == [[0, 1, 2], [0, -1, -2], [0, 0, 0], [127, 127, 127]]


def test_int4_is_packed_in_words_of_even_and_odd_elements():
    weight = torch.arange(32.0).repeat(16, 1) % 8
    weight[:, 8], weight[:, 9] = 15, 0
    vectors = pack(quantize(weight, INT4), INT4)
    assert vectors.shape == (1, 5, 16)
    assert [hex(word) for word in vectors[0, :3, 7]] == ["0x3f80", "0x75316420", "0x7530642f"]


# ----------------------------------------------------------------------------------- the kernel, and its reference


def assert_exact(form, dtype, tokens, inner, columns, bias=False, threads=1):
    """The layer gives what its own weights give in float64, but for rounding; results are about 1."""
    weight, x = (random(columns, inner) / inner**0.5).to(dtype), random(tokens, inner, dtype=dtype)
    offset = random(columns, dtype=dtype) if bias else None
    expected = x.double() @ quantize(weight, form).weight().double().T + (offset.double() if bias else 0)
    ours = QuantizedLinear(weight, offset, Team(threads), form)(x)
    if dtype == torch.float32:
        torch.testing.assert_close(ours.double(), expected, atol=5e-5, rtol=0)
    else:
        torch.testing.assert_close(ours.double(), expected, atol=1e-3, rtol=BFLOAT16_STEP)


@FORMS
@DTYPES
def test_every_count_of_rows(form, dtype):
    for tokens in [*range(1, 2 * MOST_ROWS + 1), ROW_GROUP + 5]:
        assert_exact(form, dtype, tokens, 96, 32)


@FORMS
@DTYPES
@pytest.mark.parametrize("columns", [1, 15, 17, 103])
def test_columns_that_fill_no_block(form, dtype, columns):
    assert_exact(form, dtype, 18, 32, columns, bias=True)


@FORMS
@DTYPES
def test_every_inner_size(form, dtype):
    for inner in (form.multiple, 3 * form.multiple, 37 * form.multiple):
        assert_exact(form, dtype, 5, inner, 16)


@FORMS
def test_threads_share_the_blocks(form):
    assert_exact(form, torch.bfloat16, 300, 64, 40 * 16 + 3, threads=3)


@FORMS
def test_a_large_layer_is_quantized_slice_by_slice(form):
    assert_exact(form, torch.bfloat16, 2, 32, 2 * 1024 + 5)


@FORMS
def test_leading_dimensions_are_kept(form):
    layer, x = QuantizedLinear(random(5, 32), None, Team(1), form), random(2, 3, 32)
    torch.testing.assert_close(layer(x), layer(x.flatten(0, 1)).unflatten(0, (2, 3)), atol=0, rtol=0)


@FORMS
def test_a_recording_runs_for_any_number_of_tokens(form):
    team = Team(2)
    layer, fixed = QuantizedLinear(random(48, 64), None, team, form), torch.zeros(40, 64)
    with team.record(40) as recording:
        result = layer(fixed)
    for tokens in (40, 1, 17):
        fixed[:tokens] = random(tokens, 64)
        recording(tokens)
        torch.testing.assert_close(result[:tokens], layer(fixed[:tokens]), atol=0, rtol=0)


@FORMS
def test_a_number_that_is_not_finite_comes_through(form):
    x = torch.ones(3, 32).bfloat16()
    x[0, 1], x[1, 2] = torch.nan, torch.inf
    result = QuantizedLinear(torch.ones(3, 32).bfloat16(), None, Team(1), form)(x)
    assert not result[:2].isfinite().any()
    assert result[2].tolist() == [32, 32, 32]


# ------------------------------------------------------------------------------------------------- a model's layers


def test_the_difference_is_that_of_the_weights():
    weight = random(37, 64)
    difference = (quantize(weight, INT4).weight() - weight).square().sum() / weight.square().sum()
    assert QuantizedLinear(weight, None, Team(1), INT4).difference == pytest.approx(float(difference.sqrt()))


def test_the_note_names_the_layer_that_differs_most():
    quantizer = Quantizer("int4", Team(1))
    quantizer.linear(torch.zeros(16, 32), None, head=False)
    quantizer.linear(random(48, 64), None, head=False)
    assert quantizer.note().startswith("int4: weights differ by 5.")  # 7.5 % and none
    assert "of 2 linear layers; most in number 2, 48 × 64: 7." in quantizer.note()


def test_a_head_is_int8_in_any_case():
    quantizer = Quantizer("int4", Team(1))
    assert quantizer.linear(random(16, 64), None, head=True).difference < 0.01
    assert quantizer.packed_bytes(torch.empty(16, 64), head=True) == 64 + 16 * 64
    assert quantizer.packed_bytes(torch.empty(16, 64), head=False) == 2 * 64 + 16 * 64 // 2


@pytest.mark.parametrize(("name", "inner", "remedy"), [("int4", 40, "int8 or as-stored"), ("int8", 30, "as-stored")])
def test_an_inner_size_that_has_no_whole_groups_is_refused(name, inner, remedy):
    quantizer = Quantizer(name, Team(1))
    with pytest.raises(ModelError, match=rf"one is 8 × {inner}; set cpu.weights to {remedy}$"):
        quantizer.linear(torch.empty(8, inner), None, head=False)
    assert quantizer.packed_bytes(torch.empty(8, inner), head=False) == 0


@pytest.mark.parametrize("wrong", [{"weights": "int3"}, {"weights": "int8", "kernels": "torch"}], ids=str)
def test_settings_that_cannot_be_are_refused(wrong):
    with pytest.raises(ValidationError, match="int8"):
        CpuSettings(**wrong)


# ------------------------------------------------------------------------------------------------- a model, served

PROMPT = [3, 141, 59, 26, 53, 58, 97, 93, 23, 84, 62, 64, 33, 83]


@pytest.fixture
def quantized_oracle(oracle):
    """``quantized_oracle(kind, form)``: transformers' model with the weights that ours holds, in float32."""

    def make(kind, form):
        model = copy.deepcopy(oracle(kind))
        head = model.lm_head
        for module in model.modules():
            if isinstance(module, torch.nn.Linear):
                held = quantize(module.weight, INT8 if module is head else form).weight()
                module.weight = torch.nn.Parameter(held, requires_grad=False)
        return model

    return make


@pytest.mark.parametrize("kind", ["llama", "llama-scaled-rope", "gemma2"])
@FORMS
def test_a_served_model_has_the_logits_of_the_weights_that_it_holds(scheduler, quantized_oracle, kind, form):
    rows = scheduler(kind, CpuSettings(weights=form.name))
    rows.admit(0, PROMPT, sampling=TokenSampling(seed=0, temperature=0.0, prompt_logprobs=1))
    rows.run({0: len(PROMPT) + 4}, chunk=6)
    tokens = torch.tensor([list(rows.tokens[0])])
    expected = quantized_oracle(kind, form)(tokens).logits[0].log_softmax(-1)
    ours = [entry.logprob for output in rows.outputs for span in output.prompt_logprobs for entry in span.entries]
    theirs = expected[range(len(PROMPT) - 1), PROMPT[1:]].tolist()
    assert ours == pytest.approx(theirs, abs=1e-3)
    assert tokens[0, len(PROMPT) :].tolist() == expected[len(PROMPT) - 1 : -1].argmax(-1).tolist()


def test_int8_is_near_the_model_as_stored(scheduler, oracle):
    rows = scheduler("llama", CpuSettings(weights="int8"))
    rows.admit(0, PROMPT, sampling=TokenSampling(seed=0, temperature=0.0, prompt_logprobs=1))
    rows.run({0: len(PROMPT) + 1})
    ours = [entry.logprob for output in rows.outputs for span in output.prompt_logprobs for entry in span.entries]
    theirs = oracle("llama")(torch.tensor([PROMPT])).logits[0].log_softmax(-1)[range(len(PROMPT) - 1), PROMPT[1:]]
    assert ours == pytest.approx(theirs.tolist(), abs=0.5)  # logprobs from -3 to -13


@pytest.mark.parametrize(("kind", "norms"), [("llama", 7), ("gemma2", 13)])
def test_the_ledger_has_the_bytes_that_are_held_and_tells_the_difference(scheduler, kind, norms):
    (weights, *others) = scheduler(kind, CpuSettings(weights="int4")).loaded.ledger
    group_bytes = 4 + 16  # scale and offset, 32 numbers
    layer = (128 * 2 + 64 * 2 + 192 * 2 + 64 * 3) * group_bytes  # qkv, output, gate and up, down
    head = 160 * (4 + 64)
    assert weights.bytes + others[0].bytes * (kind == "llama") == 4 * 64 * (norms + 160) + 3 * layer + head
    assert (others[0].name == "packed head") == (kind == "llama")
    assert "int4: weights differ by 7." in weights.note
