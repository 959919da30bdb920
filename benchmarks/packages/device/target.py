"""What a run is about: the device, and how large everything is. A dry run has everything, but small, on the processor."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Heads:
    """Query heads, KV heads, and the sizes of a key and of a value."""

    query: int
    kv: int
    key_dim: int
    value_dim: int

    def __str__(self) -> str:
        dims = f"{self.key_dim}" if self.key_dim == self.value_dim else f"{self.key_dim}/{self.value_dim}"
        return f"{self.query}/{self.kv} heads of {dims}"


@dataclass(frozen=True, slots=True)
class ModelShape:
    """The sizes of a Llama."""

    hidden: int
    intermediate: int
    layers: int
    heads: Heads
    vocab: int
    context: int


@dataclass(frozen=True, slots=True)
class Load:
    """Requests at once, tokens of each prompt, and tokens of each output."""

    requests: int
    prompt: int
    output: int


@dataclass(frozen=True, slots=True)
class Sizes:
    """How large everything is.

    Attributes:
        copied: bytes of the copy that is measured.
        side: rows and columns of the matrices whose product is measured.
        seconds: about how long one kernel is timed.
        decode, long, prefill, extend: rows, tokens of each that are cached, tokens of each that are computed.
        tokens: of a step, for the small kernels.
        sampled: rows that are sampled at once.
        model: the large model; kernels are timed at its shape.
        start: tokens of a row when steps of the large model are timed.
        decode_steps: those that are timed.
        loads: what the large model serves, by name.
    """

    copied: int
    side: int
    seconds: float
    decode: tuple[int, int, int]
    long: tuple[int, int, int]
    prefill: tuple[int, int, int]
    extend: tuple[int, int, int]
    tokens: int
    sampled: int
    model: ModelShape
    start: int
    decode_steps: int
    loads: dict[str, Load] = field(default_factory=dict)


FULL = Sizes(
    copied=2 * 2**30,
    side=8192,
    seconds=0.3,
    decode=(64, 4095, 1),
    long=(1, 32767, 1),
    prefill=(1, 0, 8192),
    extend=(4, 4096, 1024),
    tokens=4096,
    sampled=64,
    model=ModelShape(4096, 14336, 32, Heads(32, 8, 128, 128), 128256, 8192),
    start=64,
    decode_steps=128,
    loads={"one request": Load(1, 1024, 128), "64 requests": Load(64, 256, 128)},
)
DRY = Sizes(
    copied=2**24,
    side=256,
    seconds=0.0,
    decode=(2, 15, 1),
    long=(1, 63, 1),
    prefill=(1, 0, 8),
    extend=(1, 16, 8),
    tokens=4,
    sampled=2,
    model=ModelShape(64, 96, 1, Heads(4, 2, 16, 16), 320, 256),
    start=4,
    decode_steps=1,
    loads={"one request": Load(1, 16, 8), "4 requests": Load(4, 16, 8)},
)
PROCESSOR = replace(
    DRY,
    copied=2**28,
    side=1024,
    seconds=0.3,
    decode=(8, 2047, 1),
    long=(1, 8191, 1),
    prefill=(1, 0, 512),
    extend=(4, 512, 64),
    tokens=512,
    sampled=16,
    model=ModelShape(576, 1536, 30, Heads(9, 3, 64, 64), 49152, 8192),
)
"""What one can wait for on a few cores: the shape of SmolLM2-135M."""


@dataclass(frozen=True, slots=True)
class Target:
    """``folder`` is where the sections leave what others read: the limits, the large model."""

    device: str
    folder: Path

    @property
    def dry(self) -> bool:
        return self.device == "cpu"

    @property
    def sizes(self) -> Sizes:
        return DRY if self.dry else FULL

    @property
    def limits_file(self) -> Path:
        return self.folder / "limits.json"

    @property
    def large_model(self) -> Path:
        return self.folder / "large"
