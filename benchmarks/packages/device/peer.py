"""The large model served by us and by the continuous batching of transformers: same weights, prompts and device."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import transformers
from transformers.generation.continuous_batching.utils import WorkloadHints

from device.rows import Report, Row, compared
from device.served import prompts, serve, start
from device.target import Load, Target

SEEDS = (100, 101)
"""Those of the prompts that are not measured, and of those that are."""
NO_TOKEN = -1
Generate = Callable[[Sequence[list[int]]], list[list[int]]]
"""What is written after each of some texts."""


def run(target: Target, report: Report) -> None:
    """One side after the other; each first serves as many prompts of the same size as it is then measured with."""
    name, load = max(target.sizes.loads.items(), key=lambda item: item[1].requests)
    warm_up, measured = (prompts(target, load, seed) for seed in SEEDS)
    with start(target) as engine:
        serve(engine, warm_up, load.output)
        ours = rate(load, lambda: [answer.tokens for answer in serve(engine, measured, load.output)])
    report(Row(f"ours, {name}", value=ours, unit="tokens/s"))
    with continuous_batching(target, load) as (generate, attention):
        generate(warm_up)
        theirs = rate(load, lambda: generate(measured))
    what = f"continuous batching of transformers {transformers.__version__}, attention {attention}"
    report(Row(f"transformers, {name}", value=theirs, unit="tokens/s", note=what))
    report(compared(f"ours by theirs, {name}", ours, "tokens/s", theirs, "transformers", note=f"theirs by {attention}"))


def rate(load: Load, run: Callable[[], Sequence[Sequence[int]]]) -> float:
    """Tokens a second. Raises ValueError when fewer come than should."""
    started = time.perf_counter()
    texts = run()
    seconds = time.perf_counter() - started
    counts = [len(text) for text in texts]
    if counts != [load.output] * load.requests:
        raise ValueError(
            f"{sum(counts)} tokens came in {len(counts)} texts, {load.output} should in each of {load.requests}"
        )
    return sum(counts) / seconds


@contextmanager
def continuous_batching(target: Target, load: Load) -> Iterator[tuple[Generate, str]]:
    """The peer, as its documentation has it, told of the load; it chooses graphs, batches and memory itself. Nothing of a
    prompt is kept, since ours has not seen the prompts either. Gives what generates, and the attention that it chose."""
    load_model: Any = transformers.AutoModelForCausalLM.from_pretrained
    model = load_model(target.large_model, dtype="bfloat16", device_map=target.device)
    small: dict[str, Any] = (
        {"num_blocks": 64, "block_size": 16, "max_batch_tokens": 256} if target.dry else {}
    )  # else it takes most of the host's memory
    with model.continuous_batching_context_manager(
        generation_config=transformers.GenerationConfig(
            max_new_tokens=load.output, do_sample=False, eos_token_id=NO_TOKEN, pad_token_id=0
        ),
        continuous_batching_config=transformers.ContinuousBatchingConfig(allow_block_sharing=False, **small),
        workload_hints=WorkloadHints(load.prompt, load.output, load.requests),
    ) as manager:
        yield partial(_generate, manager), model.config._attn_implementation


def _generate(manager: Any, texts: Sequence[list[int]]) -> list[list[int]]:
    ids = manager.add_requests(inputs=texts)
    found: dict[str, list[int]] = {}
    while len(found) < len(texts):
        output = manager.get_result(timeout=1)
        if output is not None and output.is_finished():
            found[output.request_id] = output.generated_tokens
        elif output is None and not manager.is_running():
            raise RuntimeError("its generation thread ended early")
    return [found[request] for request in ids]
