"""A step as one program computes what the model's own code computes, for any number of tokens."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from sgframe_cpu import CpuSettings
from sgframe_cpu.executor import NumbaCpuOps
from sgframe_torch.rows import StepInputs

MOST = 48


@pytest.fixture(params=[1, 2], ids=["one thread", "two threads"])
def ops(request):
    return NumbaCpuOps(CpuSettings(threads=request.param))


@pytest.fixture
def hidden(ops):
    """A model without attention: embedding, a norm, a gated layer, and a sum."""
    torch.manual_seed(0)
    embedding, norm = torch.randn(100, 32), torch.randn(32)
    up, down = ops.linear(torch.randn(2 * 64, 32)), ops.linear(torch.randn(32, 64))

    def compute(step):
        residual = ops.embed(step.tokens, embedding)
        x = down(ops.silu_mul(up(ops.rms_norm(residual, norm, 1e-6))))
        return ops.add(x, residual)

    return compute


def step_of(tokens):
    empty, none = torch.empty(0, dtype=torch.int32), np.empty(0, np.int32)
    tokens = torch.tensor(tokens)
    return StepInputs(tokens, torch.arange(len(tokens)), tokens, empty, empty, empty, empty, none, none)


def test_the_results_are_the_same_bit_by_bit(ops, hidden):
    program = ops.recorded(hidden, step_of([0]), MOST)
    for count in (1, 7, MOST, 2):
        step = step_of([(3 * i + count) % 100 for i in range(count)])
        torch.testing.assert_close(program(step), hidden(step), atol=0, rtol=0)


def test_a_larger_step_is_computed_without_the_program(ops, hidden):
    program = ops.recorded(hidden, step_of([0]), MOST)
    step = step_of(list(range(MOST + 1)))
    torch.testing.assert_close(program(step), hidden(step), atol=0, rtol=0)


def test_the_next_step_overwrites_what_the_last_gave(ops, hidden):
    program = ops.recorded(hidden, step_of([0]), MOST)
    first = program(step_of([1]))
    again = first.clone()
    program(step_of([2]))
    assert not torch.equal(first, again)


@pytest.fixture
def head(ops):
    torch.manual_seed(1)
    norm, output = torch.randn(32), ops.linear(torch.randn(100, 32))
    return lambda states: output(ops.rms_norm(states, norm, 1e-6))


def test_logits_are_the_same_bit_by_bit(ops, head):
    program = ops.recorded_head(head, torch.zeros(1, 32), MOST)
    for count in (1, 7, MOST, 2):
        states = torch.randn(count, 32)
        torch.testing.assert_close(program(states), head(states), atol=0, rtol=0)


def test_more_logits_are_computed_without_the_program(ops, head):
    program, states = ops.recorded_head(head, torch.zeros(1, 32), MOST), torch.randn(MOST + 1, 32)
    torch.testing.assert_close(program(states), head(states), atol=0, rtol=0)


def test_a_recorded_step_leaves_no_work_to_the_threads_of_torch(ops, hidden):
    torch.set_num_threads(2)
    ops.recorded(hidden, step_of([0]), MOST)
    assert torch.get_num_threads() == 1


def test_a_model_with_a_layer_that_has_no_kernel_is_not_recorded(ops):
    embedding = torch.randn(100, 33, dtype=torch.bfloat16)
    layer = ops.linear(torch.randn(8, 33, dtype=torch.bfloat16))  # rows of a half word

    def hidden(step):
        return layer(ops.embed(step.tokens, embedding))

    program = ops.recorded(hidden, step_of([0]), MOST)
    for tokens in ([1], [2, 3]):
        torch.testing.assert_close(program(step_of(tokens)), hidden(step_of(tokens)), atol=0, rtol=0)
