"""What moves between host and device while the device computes.

The current stream computes. Uploads run ahead of it on a stream of their own, from page-locked memory: the next step's
inputs arrive while this step is still computed.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from sgframe_torch.packing import pack, unpack

_ALIGNMENT = 16
"""Bytes. The beginning of each array in an upload of several is a multiple of it, as device kernels like it."""


class Coming:
    """See Download: ``host`` is filled once ``arrived`` has come to pass on the device."""

    def __init__(self, host: Tensor, arrived: torch.cuda.Event) -> None:
        self._host, self._arrived = host, arrived

    def done(self) -> bool:
        return bool(self._arrived.query())

    def wait(self) -> np.ndarray:
        self._arrived.synchronize()
        return self._host.numpy()


class Streams:
    """The streams of ``device``, for the thread that launches its work.

    Page-locked memory is torch's: its allocator keeps what it has once got, and hands out a piece again only when the
    copies that were started from it are done. That makes it the ring of staging buffers.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._ahead = torch.cuda.Stream(device)

    def upload(self, values: Sequence[np.ndarray]) -> list[Tensor]:
        """``values`` on the device, by one copy; what is launched next waits for it. ``values`` are free afterwards."""
        staging = pack(values, _ALIGNMENT, pin_memory=True)
        computing = torch.cuda.current_stream(self._device)
        with torch.cuda.stream(self._ahead):
            arrived = staging.to(self._device, non_blocking=True)
        computing.wait_stream(self._ahead)
        # Its memory is the copying stream's, which must not give it to the next copy before it is read.
        arrived.record_stream(computing)
        return unpack(arrived, values, _ALIGNMENT)

    def download(self, tensor: Tensor) -> Coming:
        """Copy ``tensor`` to the host once what was launched before is done.

        This stays on the computing stream, where it takes a few microseconds: on the other stream the uploads of the next
        step would have to wait for it.
        """
        host = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
        host.copy_(tensor, non_blocking=True)
        arrived = torch.cuda.Event()
        arrived.record(torch.cuda.current_stream(self._device))
        return Coming(host, arrived)
