"""In float32, greedy text equals transformers' own, token for token, however the computation is cut and wherever KV lies."""

from __future__ import annotations

from functools import cache

import pytest
import torch

from sgframe.testing.trees import SHAPES, PathTree
from sgframe_cpu import CpuSettings

KINDS = ["llama", "llama-scaled-rope", "qwen2", "qwen2-windows", "qwen3", "mistral", "gemma2", "gemma3"]
PROMPT = 21
OUTPUT = 14


def prompt(seed: int = 1, length: int = PROMPT) -> list[int]:
    return torch.randint(160, (length,), generator=torch.Generator().manual_seed(seed)).tolist()


@pytest.fixture(scope="module", params=KINDS)
def kind(request):
    return request.param


@pytest.fixture(scope="module")
def expected(oracle, kind):
    """``expected(tokens)``: the tokens followed by OUTPUT greedy ones."""

    @cache
    def generate(tokens: tuple[int, ...]) -> list[int]:
        ids = torch.tensor([tokens])
        options = {"max_new_tokens": OUTPUT, "do_sample": False, "eos_token_id": None, "pad_token_id": 0}
        return oracle(kind).generate(ids, attention_mask=torch.ones_like(ids), **options)[0].tolist()

    return lambda tokens: generate(tuple(tokens))


def test_logits_of_every_position_agree(scheduler, oracle, kind):
    rows = scheduler(kind)
    running = rows.executor._running
    rows.admit(3, prompt(length=40))
    with torch.inference_mode():
        step = running.rows.apply(rows.batch({3: 40}))
        rows.executor._ops.begin(step.inputs)
        logits = running.model.logits(running.model.hidden(step.inputs, running.kv))
        theirs = oracle(kind)(torch.tensor([prompt(length=40)])).logits[0]
    torch.testing.assert_close(logits, theirs, atol=1e-4, rtol=0)


def test_cold(scheduler, expected, kind):
    rows = scheduler(kind)
    rows.admit(0, prompt())
    rows.run({0: PROMPT + OUTPUT})
    assert rows.tokens[0].tolist() == expected(prompt())


@pytest.mark.parametrize("pieces", [2, 7, PROMPT])
def test_prefill_in_pieces(scheduler, expected, kind, pieces):
    rows = scheduler(kind)
    rows.admit(0, prompt())
    rows.run({0: PROMPT + OUTPUT}, chunk=-(-PROMPT // pieces))
    assert rows.tokens[0].tolist() == expected(prompt())


def test_warm_prefix_in_the_slots_of_an_earlier_row(scheduler, expected, kind):
    rows = scheduler(kind)
    rows.admit(0, prompt())
    rows.run({0: PROMPT + 4})
    cached = rows.release(0)[:15]
    rows.admit(5, prompt()[:15] + prompt(2, 6), prefix=cached)
    rows.run({5: PROMPT + OUTPUT})
    assert rows.tokens[5].tolist() == expected(prompt()[:15] + prompt(2, 6))


def test_prefix_shared_by_two_rows_that_run_together(scheduler, expected, kind):
    rows = scheduler(kind)
    rows.admit(0, prompt())
    rows.step({0: PROMPT})
    rows.admit(1, prompt()[:12] + prompt(2, 9), prefix=rows.slots[0][:12])
    rows.run({0: PROMPT + OUTPUT, 1: PROMPT + OUTPUT})
    assert rows.tokens[0].tolist() == expected(prompt())
    assert rows.tokens[1].tolist() == expected(prompt()[:12] + prompt(2, 9))


def test_rows_that_prefill_and_decode_in_one_batch(scheduler, expected, kind):
    rows = scheduler(kind)
    prompts = {row: prompt(row, 5 + 9 * row) for row in range(4)}
    rows.admit(2, prompts[2])
    rows.step({2: len(prompts[2])})
    rows.admit(0, prompts[0])
    rows.admit(3, prompts[3])
    rows.step({3: 11, 2: 1, 0: len(prompts[0])})
    rows.admit(1, prompts[1])
    rows.run({row: len(tokens) + OUTPUT for row, tokens in prompts.items()}, chunk=8)
    for row, tokens in prompts.items():
        assert rows.tokens[row].tolist() == expected(tokens)


def test_retraction_and_return_with_output(scheduler, expected, kind):
    rows = scheduler(kind)
    rows.admit(0, prompt())
    rows.admit(1, prompt(2))
    rows.run({0: PROMPT + 7, 1: PROMPT + 7})
    known = rows.tokens[0].tolist()
    rows.free[:0] = rows.release(0)
    rows.run({1: PROMPT + 10})
    rows.admit(0, known, prompt_len=PROMPT)
    rows.run({0: PROMPT + OUTPUT, 1: PROMPT + OUTPUT})
    assert rows.tokens[0].tolist() == expected(prompt())
    assert rows.tokens[1].tolist() == expected(prompt(2))


def test_row_rewritten_to_equal_slots(scheduler, expected, kind):
    rows = scheduler(kind)
    rows.admit(0, prompt())
    rows.admit(1, prompt())
    rows.step({0: PROMPT, 1: PROMPT})
    own = rows.slots[1][3:15]
    rows.rewrite(1, 3, rows.slots[0][3:15])
    rows.free += own  # handed out again and overwritten
    rows.run({0: PROMPT + OUTPUT, 1: PROMPT + OUTPUT})
    assert rows.tokens[1].tolist() == expected(prompt())


def test_torch_attention_gives_the_same(scheduler, expected, kind):
    rows = scheduler(kind, CpuSettings(kernels="torch"))
    rows.admit(0, prompt())
    rows.run({0: PROMPT + OUTPUT}, chunk=8)
    assert rows.tokens[0].tolist() == expected(prompt())


def test_scores_of_a_tree(scheduler, oracle, kind):
    paths = PathTree(SHAPES["deep"], level_order=True)
    rows = scheduler(kind)
    rows.admit(0, prompt() + paths.nodes, prompt_len=PROMPT, tree=paths.tree)
    rows.step({0: 60})
    rows.step({0: rows.left(0)})
    given = [each for output in rows.outputs for each in output.scores]
    ours = {asked: score for each in given for asked, score in zip(each.asked, each.logprobs, strict=True)}
    theirs = {}
    for path in paths.paths:
        logprobs = oracle(kind)(torch.tensor([[*prompt(), *path]])).logits[0].log_softmax(-1)
        theirs |= {path[: depth + 1]: logprobs[PROMPT - 1 + depth, token].item() for depth, token in enumerate(path)}
    assert ours == pytest.approx({asked: theirs[prefix] for asked, prefix in enumerate(paths.prefixes)}, abs=1e-3)
