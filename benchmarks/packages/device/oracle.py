"""Models through the executor against transformers on the same device: greedy text, and the logprobs of prompts."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
import transformers

from device.checkpoints import make_checkpoint
from device.executors import make_executor
from device.rows import Report, Row, checked
from device.target import Target
from sgframe.interfaces.backend import ExecutorSpec
from sgframe.interfaces.source import Checkpoint
from sgframe.sampling import TokenSampling
from sgframe.testing.driver import Driver, DriverRow

PROMPTS, OUTPUT = (2, 21, 60, 97), 24
DRY_PROMPTS, DRY_OUTPUT = (2, 9), 2
LOGPROB_TOLERANCE = 1e-3
BFLOAT16_SHARE = 3.0
"""How much farther from float32 the logprobs in bfloat16 may be, on average, than those of transformers in bfloat16: both
err at random, and what is wrong errs far more."""
COMMON: dict[str, Any] = {
    "vocab_size": 320,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_attention_heads": 4,
    "head_dim": 16,
    "num_key_value_heads": 2,
    "max_position_embeddings": 256,
    "eos_token_id": None,
    "bos_token_id": None,
}
LAYERS, DRY_LAYERS = 4, 1
KINDS: dict[str, Callable[..., Any]] = {
    "llama": partial(transformers.LlamaConfig, **COMMON, tie_word_embeddings=True),
    "qwen3": partial(transformers.Qwen3Config, **COMMON | {"num_attention_heads": 6}),
    "mistral, window of 7": partial(transformers.MistralConfig, **COMMON, sliding_window=7),
}


def run(target: Target, report: Report) -> None:
    for kind, config in KINDS.items():
        folder = target.folder / kind.partition(",")[0]
        folder.mkdir()
        layers = DRY_LAYERS if target.dry else LAYERS
        checkpoint = make_checkpoint(
            config(num_hidden_layers=layers), folder, torch.float32, torch.device("cpu"), std=0.2
        )
        for row in compare(target, kind, checkpoint):
            report(row)


def compare(target: Target, kind: str, checkpoint: Checkpoint) -> list[Row]:
    """The rows of one model."""
    lengths, output = (DRY_PROMPTS, DRY_OUTPUT) if target.dry else (PROMPTS, OUTPUT)
    random = torch.Generator().manual_seed(1)
    prompts = [torch.randint(COMMON["vocab_size"], (length,), generator=random).tolist() for length in lengths]
    exact, coarse = (Peer(checkpoint.folder, dtype, target.device) for dtype in (torch.float32, torch.bfloat16))
    texts, logprobs = ours(target, checkpoint, "float32", prompts, output)
    expected = [exact.generate(prompt, output) for prompt in prompts]
    reference = torch.cat([exact.logprobs(prompt) for prompt in prompts])
    distance = float((logprobs - reference).abs().max())
    rows = [
        checked(
            f"{kind}, float32: greedy text", parting(texts, expected), f"{len(prompts)} prompts, {output} tokens each"
        ),
        checked(
            f"{kind}, float32: logprobs",
            "" if distance <= LOGPROB_TOLERANCE else f"{distance:.2g} apart, more than {LOGPROB_TOLERANCE:g}",
            f"at most {distance:.1g} apart",
        ),
    ]
    _, logprobs = ours(target, checkpoint, "bfloat16", prompts, 1)
    mine = float((logprobs - reference).abs().mean())
    theirs = float((torch.cat([coarse.logprobs(prompt) for prompt in prompts]) - reference).abs().mean())
    figures = f"{mine:.3g} from float32 on average, transformers {theirs:.3g}"
    fault = "" if mine <= BFLOAT16_SHARE * theirs else f"{figures}: more than {BFLOAT16_SHARE:g} times as far"
    return [*rows, checked(f"{kind}, bfloat16: logprobs", fault, figures)]


def ours(
    target: Target, checkpoint: Checkpoint, dtype: str, prompts: list[list[int]], output: int
) -> tuple[list[list[int]], torch.Tensor]:
    """What the executor writes after each prompt, all in one batch, and the logprobs of the prompts' tokens."""
    executor = make_executor(target.device)
    try:
        driver = Driver(executor, ExecutorSpec(checkpoint, dtype, max_rows=8, max_step_tokens=256, kv_slots=1024))
        sampling = TokenSampling(seed=0, temperature=0.0, prompt_logprobs=0)
        rows = [driver.admit(prompt, sampling) for prompt in prompts]
        driver.step({row: row.pending for row in rows})
        driver.decode_ahead(rows, output - 1) if output > 1 else None
        return [row.output for row in rows], torch.cat([_logprobs(row) for row in rows])
    finally:
        executor.close()


class Peer:
    """The same model in transformers' own hands."""

    def __init__(self, folder: str, dtype: torch.dtype, device: str) -> None:
        load: Any = transformers.AutoModelForCausalLM.from_pretrained
        self._model: Any = load(Path(folder), dtype=dtype, attn_implementation="eager").to(device)
        self._model.requires_grad_(False)
        self._device = device

    def generate(self, prompt: list[int], count: int) -> list[int]:
        ids = torch.tensor([prompt], device=self._device)
        options = {"max_new_tokens": count, "do_sample": False, "eos_token_id": None, "pad_token_id": 0}
        made = self._model.generate(ids, attention_mask=torch.ones_like(ids), **options)
        return list(made[0, len(prompt) :].tolist())

    def logprobs(self, prompt: list[int]) -> torch.Tensor:
        """Those of all tokens of ``prompt`` but the first."""
        ids = torch.tensor([prompt], device=self._device)
        scores: torch.Tensor = self._model(ids).logits[0, :-1].float().log_softmax(-1)
        return scores.gather(1, ids[0, 1:, None])[:, 0].cpu()


def _logprobs(row: DriverRow) -> torch.Tensor:
    return torch.tensor([entry.logprob for entry in row.prompt_logprobs.values()])


def parting(found: list[list[int]], expected: list[list[int]]) -> str:
    """Where the first texts that differ part; empty if all are the same."""
    for prompt, (one, other) in enumerate(zip(found, expected, strict=True)):
        if one != other:
            at = next(
                (i for i, pair in enumerate(zip(one, other, strict=False)) if pair[0] != pair[1]),
                min(len(one), len(other)),
            )
            return f"prompt {prompt} parts at token {at}: {one[at : at + 3]} came, {other[at : at + 3]} should"
    return ""
