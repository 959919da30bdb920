"""What weights of few bits cost in accuracy: ``python benchmarks/accuracy.py --help``."""

from __future__ import annotations

import argparse
import json
import math
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from drive.columns import aligned
from drive.machine import this_machine
from drive.shuffled import shuffle

from sgframe import Engine, SamplingParams

WEIGHTS = ("as-stored", "int8", "int4")
HEADER = ("channels", "weights", "MiB", "perplexity", "ratio", "same likeliest")
DOCS = Path(__file__).parents[1] / "docs"


@dataclass(frozen=True)
class Scored:
    """What the model in ``folder`` made of a text. Of each token but the first of a window: its ``logprobs``, and the
    ``likeliest`` token in its place. ``note`` is what the start said of the weights, which took ``bytes``."""

    logprobs: list[float]
    likeliest: list[int]
    note: str = ""
    bytes: int = 0
    folder: str = ""

    @property
    def perplexity(self) -> float:
        return math.exp(-sum(self.logprobs) / len(self.logprobs))

    def agreement(self, other: Scored) -> float:
        """The share of places where both find the same token likeliest."""
        same = sum(one == two for one, two in zip(self.likeliest, other.likeliest, strict=True))
        return same / len(self.likeliest)


def windows(tokens: Sequence[int], size: int, most: int) -> list[list[int]]:
    """The first ``most`` tokens, cut into windows of ``size``; a rest is left out."""
    usable = min(len(tokens), most) // size * size
    return [list(tokens[start : start + size]) for start in range(0, usable, size)]


def score(model: str, weights: str, text: str, options: argparse.Namespace) -> Scored:
    """Serve ``model`` with such ``weights``, and score the windows of ``text``."""
    chosen = {"plugin": {"cpu": {"weights": weights}}, "dtype": options.dtype, "cache": "none"}
    with Engine(model=model, **chosen) as engine:
        prompts = windows(engine.tokenizer.encode(text), options.window, options.tokens)
        if not prompts:
            raise SystemExit(f"the text is no window of {options.window} tokens long; name a longer one with --text")
        results = engine.generate(prompts, SamplingParams(max_tokens=1, temperature=0.0, prompt_logprobs=1))
        loaded, folder = engine.asynchronous.loaded, engine.asynchronous.checkpoint.folder
    entries = [entry for result in results for entry in result.outputs[0].prompt_logprobs or ()]
    held = [line for line in loaded.ledger if line.name in {"weights", "packed head"}]
    return Scored(
        [entry.logprob for entry in entries],
        [entry.top_ids[0] for entry in entries],
        held[0].note,
        sum(line.bytes for line in held),
        folder,
    )


def line(channels: str, weights: str, scored: Scored, base: Scored) -> list[str]:
    """Of the table, by ``base``."""
    ratio, same = scored.perplexity / base.perplexity, scored.agreement(base)
    return [
        *(channels, weights, f"{scored.bytes / 2**20:.0f}"),
        *(f"{scored.perplexity:.3f}", f"{ratio:.3f}", f"{same:.2%}"),
    ]


def measure(options: argparse.Namespace) -> None:
    text = read(options.text) if options.text else "".join(path.read_text() for path in sorted(DOCS.glob("*.md")))
    base = score(options.model, WEIGHTS[0], text, options)
    lines = [list(HEADER), line("as stored", WEIGHTS[0], base, base)]
    print(f"{this_machine()}\n{len(base.logprobs)} tokens in windows of {options.window}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        models = {"as stored": options.model}
        if options.shuffle:
            shuffle(Path(base.folder), Path(folder))
            models["shuffled"] = folder
        for channels, model in models.items():
            for weights in WEIGHTS[channels == "as stored" :]:
                scored = score(model, weights, text, options)
                print(f"{channels}: {scored.note}", flush=True)
                lines.append(line(channels, weights, scored, base))
    print(aligned(lines))


def read(path: Path) -> str:
    """A text; of a .jsonl file the strings in it, one after the other."""
    text = path.read_text()
    return "\n\n".join(map(json.loads, text.splitlines())) if path.suffix == ".jsonl" else text


def main() -> None:
    parser = argparse.ArgumentParser(
        description="Score a text with a model as it is stored, and with its linear layers rounded to few bits: perplexity, "
        "and how often the likeliest token is the same."
    )
    add = parser.add_argument
    add("--model", default="smollm2-135m", help="as sgframe serve takes it (%(default)s)")
    add("--dtype", default="bfloat16", help="number format of the activations (%(default)s)")
    add("--text", type=Path, help="a text, or a .jsonl file of strings; by default the pages in docs/")
    add("--window", type=int, default=512, help="tokens that are scored together (%(default)s)")
    add("--tokens", type=int, default=16384, help="at most (%(default)s)")
    add(
        "--shuffle",
        action="store_true",
        help="also the same model with its channels in another order: see drive/shuffled.py",
    )
    measure(parser.parse_args())


if __name__ == "__main__":
    main()
