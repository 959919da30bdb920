"""Reads a checkpoint's safetensors, tensor by tensor, in the order a model asks: never two copies of the model."""

from __future__ import annotations

import json
from collections.abc import Callable
from math import prod
from pathlib import Path
from types import TracebackType
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from sgframe.errors import ModelError

INDEX = "model.safetensors.index.json"


class Weights:
    """The tensors of the checkpoint in ``folder``, cast to ``dtype`` and copied to ``device`` when asked for.

    The files are memory-mapped; ``progress`` is called as Progress is, in bytes read. Raises ModelError.
    """

    def __init__(
        self, folder: Path, dtype: torch.dtype, device: torch.device, progress: Callable[[str, int, int], None]
    ) -> None:
        self._folder, self._dtype, self._device, self._progress = folder, dtype, device, progress
        self._files = {name: _open(folder / name) for name in weight_files(folder)}
        self._where = {key: file for file in self._files.values() for key in file.keys()}  # noqa: SIM118 (not a dict)
        self._total = sum((folder / name).stat().st_size for name in self._files)
        self._read_bytes = 0
        self.loaded_bytes = 0

    def __enter__(self) -> Weights:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._where.clear()
        self._files.clear()

    def __contains__(self, name: str) -> bool:
        return name in self._where

    def __getitem__(self, name: str) -> Tensor:
        return self.joined(name)

    def joined(self, *names: str) -> Tensor:
        """The tensors ``names`` laid one below the other along their first dimension."""
        shapes = [self._file(name).get_slice(name).get_shape() for name in names]
        joined = torch.empty(sum(s[0] for s in shapes), *shapes[0][1:], dtype=self._dtype, device=self._device)
        for part, name in zip(joined.split([shape[0] for shape in shapes]), names, strict=True):
            source = self._file(name).get_tensor(name)
            part.copy_(source)
            self._read_bytes += source.nbytes
            self._progress("weights", self._read_bytes, self._total)
        self.loaded_bytes += joined.nbytes
        return joined

    def _file(self, name: str) -> Any:
        if name not in self._where:
            raise ModelError(f"{self._folder} has no weight {name!r}; is its config.json that of another model?")
        return self._where[name]


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


def stored_bytes(folder: Path, dtype: torch.dtype) -> int:
    """Bytes of all tensors of the checkpoint once they are cast to ``dtype``; reads only the files' headers."""
    total = 0
    for name in weight_files(folder):
        file = _open(folder / name)
        total += sum(prod(file.get_slice(key).get_shape()) for key in file.keys())  # noqa: SIM118 (not a dict)
    return total * dtype.itemsize
