"""What the ranks must have in common before they load: checked, or agreed on. Different machines may be started unlike."""

from __future__ import annotations

import os
from collections.abc import Mapping
from hashlib import blake2b
from pathlib import Path
from typing import Any

import msgspec

from sgframe.errors import ConfigError, ModelError
from sgframe.interfaces.backend import ExecutorSpec
from sgframe_torch.parallel.group import Group
from sgframe_torch.weights import weight_files

SAMPLES = 64
"""Places of a file that its checksum reads, evenly spread: few enough for any model, close enough to meet every layer."""
SAMPLE = 1 << 14
"""Bytes read at each of them."""


def smallest(group: Group, value: int) -> int:
    """The least of all ranks' ``value``; returns once every rank has come so far."""
    return min(msgspec.msgpack.decode(each, type=int) for each in group.exchange(msgspec.msgpack.encode(value)))


def require_same(group: Group, config: Any, spec: ExecutorSpec, dtype: str) -> None:
    """Raises ConfigError, naming what differs, where another rank is to load another model than rank 0, or otherwise.

    ``config`` is the checkpoint's parsed config.json, ``dtype`` what ``auto`` has become.
    """
    if group.size == 1:
        return
    mine = _plain(config.to_dict()) | {
        "the checksum of its weights": checksum(Path(spec.checkpoint.folder)),
        "dtype": dtype,
        "max_running": spec.max_rows,
        "max_step_tokens": spec.max_step_tokens,
        "context_length": spec.context_length,
        "kv_slots": spec.kv_slots,
        "kv_memory": spec.kv_bytes,
    }
    first, *others = (msgspec.msgpack.decode(each) for each in group.exchange(msgspec.msgpack.encode(mine)))
    for rank, other in enumerate(others, 1):
        different = [key for key in first | other if first.get(key) != other.get(key)]
        if different:
            found = "; ".join(
                f"{key} is {other.get(key)!r} there and {first.get(key)!r} on rank 0" for key in different
            )
            raise ConfigError(
                f"rank {rank} was started otherwise than rank 0: {found}. Start all machines with the same model and "
                "settings"
            )


def checksum(folder: Path) -> str:
    """BLAKE2b (RFC 7693) over the names and sizes of the checkpoint's files and samples of what is in them.

    A file of up to 1 MiB is read whole; of a larger one the beginning and the end are always among the samples. Raises
    ModelError for a file that cannot be read.
    """
    total = blake2b(digest_size=8)
    for name in weight_files(folder):
        total.update(name.encode())
        try:
            _sample(folder / name, total)
        except OSError as error:
            raise ModelError(f"cannot read {folder / name}: {error.strerror}; fetch the model again") from error
    return total.hexdigest()


def _sample(path: Path, total: blake2b) -> None:
    """Add to ``total`` how long the file is and what stands at places all over it."""
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        total.update(size.to_bytes(8, "little"))
        for number in range(SAMPLES):
            file.seek(max(0, size - SAMPLE) * number // (SAMPLES - 1))
            total.update(file.read(SAMPLE))


def _plain(config: Mapping[str, Any]) -> dict[str, Any]:
    """Those entries of ``config`` that say what the model is, as text."""
    return {
        key: str(value) for key, value in config.items() if not key.startswith("_") and key != "transformers_version"
    }
