"""What the ranks must have in common before they load: checked, or agreed on. Different machines may be started unlike."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from sgframe.errors import ConfigError
from sgframe.interfaces.backend import ExecutorSpec
from sgframe_torch.parallel.group import Group


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


def _plain(config: Mapping[str, Any]) -> dict[str, Any]:
    """Those entries of ``config`` that say what the model is, as text."""
    return {
        key: str(value) for key, value in config.items() if not key.startswith("_") and key != "transformers_version"
    }
