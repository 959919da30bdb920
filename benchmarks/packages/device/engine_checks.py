"""A tiny model through the engine, all its processes included, against transformers: cold, cached, constrained."""

from __future__ import annotations

import json
from collections.abc import Sequence

import torch

from device.checkpoints import BYTES, llama, make_checkpoint
from device.oracle import Peer, parting
from device.rows import Report, checked
from device.target import DRY, Target
from sgframe import Engine, SamplingParams
from sgframe.constraints import Constraint

LENGTHS, OUTPUT = (3, 40, 90, 90, 90, 150), 40
CHOICES = ["yes", "no", "maybe"]


def run(target: Target, report: Report) -> None:
    folder = target.folder / "engine"
    folder.mkdir()
    make_checkpoint(llama(DRY.model), folder, torch.float32, torch.device("cpu"), std=0.2)
    peer = Peer(str(folder), torch.float32, target.device)
    prompts = _prompts()
    expected = [peer.generate(prompt, OUTPUT) for prompt in prompts]
    with Engine(model=str(folder), backend=target.device, dtype="float32", kv_slots=4096) as engine:
        cold, _ = generate(engine, prompts)
        warm, cached = generate(engine, prompts)
        few = min(cached[-3:])
        report(checked("greedy text of six requests at once", parting(cold, expected)))
        report(checked("the same, prompts cached", parting(warm, expected)))
        report(checked("cached tokens", "" if few >= LENGTHS[2] - 1 else f"{few} of {LENGTHS[2]} were found cached"))
        constraint = Constraint("choice", json.dumps(CHOICES))
        texts = {
            engine.generate("Is it?", SamplingParams(temperature=2.0, seed=seed, constraint=constraint)).text
            for seed in range(8)
        }
        report(checked("constrained texts", "" if texts <= set(CHOICES) else f"{sorted(texts)} came of {CHOICES}"))


def generate(engine: Engine, prompts: Sequence[list[int]]) -> tuple[list[list[int]], list[int]]:
    """The texts after all ``prompts``, asked for at once, and how many tokens of each prompt were cached."""
    results = engine.generate(prompts, SamplingParams(max_tokens=OUTPUT, temperature=0, ignore_eos=True))
    outputs = [result.outputs[0] for result in results]
    return [list(output.tokens) for output in outputs], [output.usage.cached_tokens for output in outputs]


def _prompts() -> list[list[int]]:
    """Bytes at random. Three begin with the same 60 tokens."""
    random = torch.Generator().manual_seed(3)
    prompts: list[list[int]] = [torch.randint(BYTES, (length,), generator=random).tolist() for length in LENGTHS]
    common = prompts[2][:60]
    return [*prompts[:3], *(common + prompt[60:] for prompt in prompts[3:5]), *prompts[5:]]
