"""What moves between host and device while the device computes.

The current stream computes. An upload is a blocking copy on a stream of its own: torch_npu lets such a copy wait for its
stream alone, where nothing else ever is. A download stays on the computing stream and goes to page-locked memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType

import numpy as np
import torch
from torch import Tensor

from sgframe_torch.packing import pack, unpack

_ALIGNMENT = 512
"""Bytes. The beginning of each array in an upload of several is a multiple of it, as that of a tensor of its own is."""


class Coming:
    """See Download: ``host`` is filled once ``arrived``, an event of torch_npu, has come to pass on the device."""

    def __init__(self, host: Tensor, arrived: object) -> None:
        self._host, self._arrived = host, arrived

    def done(self) -> bool:
        return bool(self._arrived.query())  # type: ignore[attr-defined]

    def wait(self) -> np.ndarray:
        self._arrived.synchronize()  # type: ignore[attr-defined]
        return self._host.numpy()


class Streams:
    """The streams of ``device``, for the thread that launches its work; ``npu`` is the module torch_npu."""

    def __init__(self, npu: ModuleType, device: torch.device) -> None:
        self._npu, self._device = npu.npu, device
        self._aside = self._npu.Stream(device)

    def upload(self, values: Sequence[np.ndarray]) -> list[Tensor]:
        """``values`` on the device, by one copy, which has been made when this returns.

        Not an asynchronous copy: kernels that were launched after one have been seen to read what was there before.
        """
        packed = pack(values, _ALIGNMENT)
        with self._npu.stream(self._aside):
            there = packed.to(self._device)
        # Its memory is the copying stream's, which must not give it to the next copy before it is read.
        there.record_stream(self._npu.current_stream(self._device))
        return unpack(there, values, _ALIGNMENT)

    def download(self, tensor: Tensor) -> Coming:
        """Copy ``tensor`` to the host once what was launched before is done."""
        host = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=self._device.type != "cpu")
        host.copy_(tensor, non_blocking=True)
        arrived = self._npu.Event()
        arrived.record()
        return Coming(host, arrived)
