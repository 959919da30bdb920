"""What a program's client and its server say to each other: msgspec structs in msgpack, one in each WebSocket frame.

The client says Hello and waits for Welcome; from then on neither waits for the other. The client numbers its states and its
calls; messages are taken in the order in which they were sent, calls are answered in any. Owns the format, not the socket.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from sgframe.constraints import Constraint
from sgframe.errors import ContextLengthExceeded, EngineDead, Overloaded, RequestError, RequestFailed, SgframeError
from sgframe.messages import Decoder, encode
from sgframe.sampling import SamplingParams
from sgframe_programs.parts import Generated, Method, Part, Selected

PATH = "/v1/programs"
PROTOCOL = 1
"""Raised with every change that an older client or server would misread. Hello, Welcome and Refused keep their shape."""
MAX_FRAME = 32 * 1024 * 1024
"""Bytes of the largest message, either way."""
MAX_CALLS = 1024
"""Calls that a client has open at once; further ones wait with it. The server refuses at twice as many, since one that was
cancelled may take a moment to end."""
MAX_REASON = 1000
"""Characters of an error's message; a client's own text may stand in it and be megabytes long."""


class Message(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """Base of what is sent; the class name comes first."""


# ------------------------------------------------------------------------------------------ client → server


class Hello(Message, frozen=True, tag=True, array_like=True):
    """The first message. Prefixes are reused only among programs of one ``salt``."""

    version: int
    salt: str | None = None


class Open(Message, frozen=True, tag=True, array_like=True):
    """``state`` is a new state with nothing in it."""

    state: int


class Fork(Message, frozen=True, tag=True, array_like=True):
    """``into`` are new states that stand where ``state`` does."""

    state: int
    into: list[int]


class Discard(Message, frozen=True, tag=True, array_like=True):
    """Let go of ``states`` and end what runs on them."""

    states: list[int]


class Cancel(Message, frozen=True, tag=True, array_like=True):
    """Nobody waits for ``call`` any more. It may have been answered meanwhile."""

    call: int


class Extend(Message, frozen=True, tag=True, array_like=True):
    """Answered by Extended. This and the next three are calls: the server answers each once, if only with Failed."""

    call: int
    state: int
    parts: list[Part]


class Generate(Message, frozen=True, tag=True, array_like=True):
    """Answered by GenerateAnswer, after a Piece for each piece of text where ``stream`` asks for them."""

    call: int
    state: int
    parts: list[Part]
    params: SamplingParams
    stream: bool = False


class Select(Message, frozen=True, tag=True, array_like=True):
    """Answered by SelectAnswer."""

    call: int
    state: int
    parts: list[Part]
    choices: list[str]
    method: Method


class Prepare(Message, frozen=True, tag=True, array_like=True):
    """Compile ``constraint``. Answered by Prepared."""

    call: int
    constraint: Constraint


# ------------------------------------------------------------------------------------------ server → client


class Fault(msgspec.Struct, frozen=True, array_like=True):
    """An error: the name of its class, see ``sgframe.errors``, and what it says."""

    kind: str
    message: str
    param: str | None = None
    code: str | None = None


class Welcome(Message, frozen=True, tag=True, array_like=True):
    """The answer to Hello: the server's protocol, the name of its model and its context in tokens."""

    version: int
    model: str
    context_length: int


class Refused(Message, frozen=True, tag=True, array_like=True):
    """The other answer to Hello; the connection ends."""

    reason: str


class NotOpened(Message, frozen=True, tag=True, array_like=True):
    """Why Open or Fork gave no ``states``. What is called on them fails."""

    states: list[int]
    fault: Fault


class Failed(Message, frozen=True, tag=True, array_like=True):
    """The call ended with an error."""

    call: int
    fault: Fault


class Piece(Message, frozen=True, tag=True, array_like=True):
    """Some text of a Generate that is under way."""

    call: int
    text: str


class Extended(Message, frozen=True, tag=True, array_like=True):
    """``value`` is the text of the parts as the model will see it."""

    call: int
    value: str


class GenerateAnswer(Message, frozen=True, tag=True, array_like=True):
    call: int
    value: Generated


class SelectAnswer(Message, frozen=True, tag=True, array_like=True):
    call: int
    value: Selected


class Prepared(Message, frozen=True, tag=True, array_like=True):
    call: int
    value: None = None


Call = Extend | Generate | Select | Prepare
ClientMessage = Hello | Open | Fork | Discard | Cancel | Call
Answer = Failed | Extended | GenerateAnswer | SelectAnswer | Prepared
ServerMessage = Welcome | Refused | NotOpened | Piece | Answer

_CLASSES: dict[str, type[SgframeError]] = {
    kind.__name__: kind for kind in (ContextLengthExceeded, EngineDead, Overloaded, RequestError, RequestFailed)
}
_read_client: Decoder[ClientMessage] = Decoder(ClientMessage)
_read_server: Decoder[ServerMessage] = Decoder(ServerMessage)


class Unreadable(ValueError):
    """A frame is no message. ``call`` is the number of the call that it was meant to be, if so much can be read."""

    def __init__(self, reason: str, call: int | None = None) -> None:
        super().__init__(reason)
        self.call = call


def write(message: ClientMessage | ServerMessage) -> bytes:
    """The frame of ``message``. Raises RequestError for what cannot be sent."""
    try:
        frame = encode(message)
    except UnicodeEncodeError as error:
        raise RequestError(
            f"a text is no UTF-8: it holds {error.object[error.start]!r}, half of a surrogate pair"
        ) from None
    except (OverflowError, TypeError) as error:
        raise RequestError(f"a value cannot be sent: {error}") from None
    if len(frame) > MAX_FRAME:
        raise RequestError(
            f"a {type(message).__name__} of {len(frame)} bytes is too large, the limit is {MAX_FRAME}; ask for less at once"
        )
    return frame


def read_client(frame: bytes) -> ClientMessage:
    """The message of a client. Raises Unreadable."""
    try:
        return _read_client(frame)
    except (ValueError, RecursionError) as error:
        raise Unreadable(str(error), _call_in(frame)) from None


def read_server(frame: bytes) -> ServerMessage:
    """The message of a server. Raises Unreadable."""
    try:
        return _read_server(frame)
    except (ValueError, RecursionError) as error:
        raise Unreadable(str(error)) from None


class _Beginning(msgspec.Struct, frozen=True, array_like=True):
    """Of any call. What follows is skipped: made into objects it may take a hundred times the frame's room."""

    kind: Literal["Extend", "Generate", "Select", "Prepare"]
    call: int


def _call_in(frame: bytes) -> int | None:
    try:
        return msgspec.msgpack.decode(frame, type=_Beginning).call
    except (ValueError, RecursionError):
        return None


def fault_of(error: SgframeError) -> Fault:
    """``error`` as it is sent: by the nearest class that the client knows."""
    kind = next((kind.__name__ for kind in type(error).__mro__ if kind.__name__ in _CLASSES), RequestFailed.__name__)
    message = str(error).encode("utf-8", "replace").decode()
    if len(message) > MAX_REASON:
        message = message[:MAX_REASON] + " …"
    if isinstance(error, RequestError):
        return Fault(kind, message, error.param, error.code)
    return Fault(kind, message)


def error_of(fault: Fault) -> SgframeError:
    """The error that the other side met, as an object of the same class."""
    kind = _CLASSES.get(fault.kind, RequestFailed)
    if kind is RequestError:
        return RequestError(fault.message, param=fault.param, code=fault.code)
    if kind is ContextLengthExceeded:
        return ContextLengthExceeded(fault.message, param=fault.param)
    return kind(fault.message)
