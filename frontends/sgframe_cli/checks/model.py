"""Whether the model is on this machine, whether it would fit, and what a first start has to fetch. Fetches nothing."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import msgspec

from sgframe.assembly.choice import Choices
from sgframe.assembly.devices import probe
from sgframe.assembly.providers import Seam
from sgframe.assembly.settings import Settings
from sgframe.errors import ConfigError
from sgframe.interfaces.source import CatalogueEntry, Checkpoint, ModelSource
from sgframe_cli.checks.finding import Finding, State, sized
from sgframe_cli.checks.places import free_at, home_expanded, model_folder, way_to_name_another

CONVERSION = 6
"""A converted model takes up to so many times its quantized file: 4 bits become 16, beside the file itself."""

HUB_ID = re.compile(r"\w[\w.-]*/[\w.-]+(?<!\.gguf)")


def look_at_model(settings: Settings, choices: Choices) -> Iterator[Finding]:
    """One finding on the model, and for one that is here one on the memory that it takes."""
    source: ModelSource = choices[Seam.SOURCE].build()
    entry = next((entry for entry in source.catalogue() if entry.name == settings.model), None)
    file = home_expanded(settings.model)
    if entry is not None and not entry.cached:
        yield _to_fetch(entry, choices)
    elif entry is None and _is_gguf(file):
        yield Finding(
            "model", settings.model, f"a file of {sized(file.stat().st_size)}, converted when it is first served"
        )
    else:
        yield from _at_hand(settings, choices)


def _is_gguf(file: Path) -> bool:
    """By its first bytes: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md"""
    if not file.is_file():
        return False
    try:
        with file.open("rb") as stream:
            return stream.read(4) == b"GGUF"
    except OSError:
        return False


def _to_fetch(entry: CatalogueEntry, choices: Choices) -> Finding:
    found = f"is not on this machine: a first start fetches {entry.download_bytes / 2**20:.0f} MiB"
    if is_offline(choices):
        remedy = "let it fetch once, or name the folder of a model that is here (--model)"
        return Finding(
            "model", entry.name, "is not on this machine, and its source is set to offline", State.FAULT, remedy
        )
    folder = model_folder(choices)
    needed = entry.download_bytes * CONVERSION
    if free_at(folder) < needed:
        remedy = f"free some space, or {way_to_name_another(choices)} to a folder on a larger disk"
        short = (
            f"{found}, and {sized(needed)} of disk for it may be needed; {sized(free_at(folder))} are free in {folder}"
        )
        return Finding("model", entry.name, short, State.FAULT, remedy)
    return Finding("model", entry.name, found, State.NOTE)


def _at_hand(settings: Settings, choices: Choices) -> Iterator[Finding]:
    """Of what the source finds without a network."""
    choice = choices[Seam.SOURCE]
    if "offline" in type(choice.validated()).model_fields:
        choice = msgspec.structs.replace(choice, settings={**choice.settings, "offline": True})
    source: ModelSource = choice.build()
    try:
        checkpoint = source.resolve(settings.model, lambda what, done, total: None)
    except ConfigError as error:
        yield _absent(settings, choices, error)
        return
    yield Finding("model", settings.model, f"{checkpoint.folder or 'needs no files'}; {_context(settings, checkpoint)}")
    yield from _fit(settings, choices, checkpoint)


def _absent(settings: Settings, choices: Choices, error: ConfigError) -> Finding:
    """A hub id that is not here can still be fetched; nothing else can."""
    if HUB_ID.fullmatch(settings.model) and not is_offline(choices):
        found = "is not on this machine: a first start fetches it, if its source can be reached"
        return Finding("model", settings.model, found, State.NOTE)
    return Finding("model", settings.model, str(error), State.FAULT)


def _context(settings: Settings, checkpoint: Checkpoint) -> str:
    return f"{settings.context_length or checkpoint.context_length} tokens of context"


def _fit(settings: Settings, choices: Choices, checkpoint: Checkpoint) -> Iterator[Finding]:
    """Weights as they are stored; a backend may hold them in fewer bytes, so that they alone are no fault."""
    memory = probe(choices[Seam.BACKEND]).memory_bytes
    if not (memory and checkpoint.folder):
        return
    weights = sum(file.stat().st_size for file in Path(checkpoint.folder).glob("*.safetensors")) // settings.tp_size
    kv = f" and {sized(settings.kv_bytes)} of KV" if settings.kv_bytes else ""
    found = f"{sized(weights)} of weights{kv}; each rank can plan with {sized(memory)}"
    if weights + settings.kv_bytes <= memory:
        yield Finding("model", "weights and KV", found)
        return
    state = State.FAULT if settings.kv_bytes > memory else State.WARNING
    remedy = "lower --kv-memory, share the model (--tp-size), or choose a smaller one"
    yield Finding("model", "weights and KV", found, state, remedy)


def is_offline(choices: Choices) -> bool:
    """Whether the source is told not to fetch."""
    return bool(getattr(choices[Seam.SOURCE].validated(), "offline", False))
