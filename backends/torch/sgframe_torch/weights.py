"""Reads a checkpoint's safetensors, tensor by tensor, in the order a model asks: never two copies of the model, nor of the
rank's share of it."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from math import prod
from pathlib import Path
from types import TracebackType
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from sgframe.errors import ModelError
from sgframe_torch.parallel.shards import Cut

INDEX = "model.safetensors.index.json"


CutOf = Callable[[str, Sequence[int]], Cut | None]
"""The part of a tensor, by its name and shape, that is to be read; None for all of it."""


def whole(name: str, shape: Sequence[int]) -> Cut | None:
    """Reads everything."""
    return None


class Weights:
    """The tensors of the checkpoint in ``folder``, or what ``cut`` leaves of them, cast to ``dtype`` and copied to
    ``device`` when asked for.

    The files are memory-mapped, and only what is asked for is read; ``progress`` is called as Progress is, in bytes read,
    of those that there are after the cuts. Raises ModelError.
    """

    def __init__(
        self,
        folder: Path,
        dtype: torch.dtype,
        device: torch.device,
        progress: Callable[[str, int, int], None],
        cut: CutOf = whole,
    ) -> None:
        self._folder, self._dtype, self._device, self._progress = folder, dtype, device, progress
        files = {name: _open(folder / name) for name in weight_files(folder)}
        self._parts = {key: _Part(file, key, cut) for file in files.values() for key in file.keys()}  # noqa: SIM118
        self._total = sum((folder / name).stat().st_size for name in files)
        self._total -= sum(part.left_out_bytes for part in self._parts.values())
        self._read_bytes = 0
        self.held_bytes = 0
        """Of the tensors that were asked for, or of what they were replaced by."""

    def __enter__(self) -> Weights:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._parts.clear()

    def __contains__(self, name: str) -> bool:
        """Whether there is such a tensor, and a part of it to read."""
        return name in self._parts and 0 not in self._parts[name].shape

    def __getitem__(self, name: str) -> Tensor:
        return self.joined(name)

    def joined(self, *names: str) -> Tensor:
        """The tensors ``names`` laid one below the other along their first dimension."""
        parts = [self._part(name) for name in names]
        shapes = [part.shape for part in parts]
        if len(parts) == 1:
            joined = torch.empty(shapes[0], dtype=self._dtype, device=self._device)
            pieces: Sequence[Tensor] = [joined]
        else:
            rows = [shape[0] for shape in shapes]
            joined = torch.empty(sum(rows), *shapes[0][1:], dtype=self._dtype, device=self._device)
            pieces = joined.split(rows)
        for piece, part in zip(pieces, parts, strict=True):
            self._read_bytes += part.read(piece)
            self._progress("weights", self._read_bytes, self._total)
        self.held_bytes += joined.nbytes
        return joined

    def replace(self, tensor: Tensor, packed_bytes: int) -> None:
        """Count ``tensor`` by what a device makes of it: so many bytes, or 0 if it keeps it as it is."""
        if packed_bytes:
            self.held_bytes += packed_bytes - tensor.nbytes

    def _part(self, name: str) -> _Part:
        if name not in self._parts:
            raise ModelError(f"{self._folder} has no weight {name!r}; is its config.json that of another model?")
        return self._parts[name]


class _Part:
    """What is to be read of the tensor ``name`` of a file: a tensor of ``shape``."""

    def __init__(self, file: Any, name: str, cut: CutOf) -> None:
        self._file, self._name = file, name
        full = file.get_slice(name).get_shape()
        self._cut = cut(name, full)
        self.shape = list(full)
        self.left_out_bytes = 0
        if self._cut is not None:
            dim, start, stop = self._cut
            self.shape[dim] = stop - start
            self._present = max(0, min(stop, full[dim]) - start)
            left_out = full[dim] - self._present
            self.left_out_bytes = prod(full) // full[dim] * left_out * file.get_slice(name)[:0].itemsize

    def read(self, into: Tensor) -> int:
        """Copy it to ``into``, and return how many bytes were read."""
        if self._cut is None:
            source = self._file.get_tensor(self._name)
            into.copy_(source)
            return int(source.nbytes)
        dim, start, stop = self._cut
        stored = self._file.get_slice(self._name)
        end = start + self._present
        source = stored[start:end] if dim == 0 else stored[:, start:end]
        into.narrow(dim, 0, self._present).copy_(source)
        into.narrow(dim, self._present, stop - end).zero_()
        return int(source.nbytes)


def _open(path: Path) -> Any:
    try:
        return safe_open(path, framework="pt")
    except (OSError, SafetensorError) as error:
        raise ModelError(f"cannot read the weights in {path}: {error}; fetch the model again") from error


def weight_files(folder: Path) -> list[str]:
    """The names of the safetensors files in ``folder``, by its index where it has one. Raises ModelError if none."""
    if (folder / INDEX).exists():
        return sorted(set(json.loads((folder / INDEX).read_text())["weight_map"].values()))
    names = sorted(path.name for path in folder.glob("*.safetensors"))
    if not names:
        raise ModelError(f"{folder} has no .safetensors file; convert the checkpoint to safetensors first")
    return names


def tensor_names(folder: Path) -> set[str]:
    """The names of all tensors of the checkpoint. Raises ModelError."""
    return {key for name in weight_files(folder) for key in _open(folder / name).keys()}  # noqa: SIM118 (not a dict)


def tensor_shapes(folder: Path) -> list[list[int]]:
    """The shapes of all tensors of the checkpoint; reads only the files' headers. Raises ModelError."""
    files = [_open(folder / name) for name in weight_files(folder)]
    return [file.get_slice(key).get_shape() for file in files for key in file.keys()]  # noqa: SIM118 (not a dict)
