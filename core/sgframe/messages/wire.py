"""The base of every message and how it goes over a wire: msgspec structs in msgpack, never pickle.

Integer sequences (token ids, KV slots) travel as int32 arrays: ``array("i")`` in memory, raw little-endian bytes on the
wire. Knows no message.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import msgspec

T = TypeVar("T")

if TYPE_CHECKING:
    Ints = array[int]  # array("i"): token ids or KV slots
else:
    Ints = array  # what msgspec hands to the hooks below


class Message(msgspec.Struct, frozen=True, tag=True, array_like=True, gc=False):
    """Base of everything that crosses a process border."""


def ints(values: Any = ()) -> Ints:
    """An int32 array of ``values``."""
    return array("i", values)


def _to_wire(value: Any) -> bytes:
    if isinstance(value, array):
        return value.tobytes()
    raise TypeError(f"{type(value).__name__} cannot be sent")


def _from_wire(kind: type, value: Any) -> Any:
    if kind is array:
        return array("i", value)
    raise TypeError(f"{kind.__name__} cannot be received")


_encoder = msgspec.msgpack.Encoder(enc_hook=_to_wire)
encode = _encoder.encode


class Decoder(Generic[T]):
    """Decodes frames into the messages of one union, e.g. ``Decoder(FrontMessage)``."""

    def __init__(self, union: Any) -> None:
        self._decode = msgspec.msgpack.Decoder(union, dec_hook=_from_wire).decode

    def __call__(self, frame: bytes) -> T:
        return self._decode(frame)  # type: ignore[no-any-return]
