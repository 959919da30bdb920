"""What waits for a client: its order and its bounds."""

from __future__ import annotations

import asyncio

import pytest

from sgframe_programs import outbox as module
from sgframe_programs.outbox import Outbox


async def test_frames_leave_in_the_order_in_which_they_were_put() -> None:
    sent: list[bytes] = []

    async def send(frame: bytes) -> None:
        await asyncio.sleep(0)
        sent.append(frame)

    outbox = Outbox(send)
    frames = [bytes([number]) for number in range(50)]
    for frame in frames:
        outbox.put(frame)
    while len(sent) < 50:
        await asyncio.sleep(0)
    assert sent == frames
    outbox.sending.cancel()


async def never(frame: bytes) -> None:
    await asyncio.Event().wait()


async def test_a_client_that_reads_nothing_is_given_up_when_too_much_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_UNREAD", 10_000)
    outbox = Outbox(never)
    for _ in range(1000):
        outbox.put(bytes(100))
    with pytest.raises(asyncio.CancelledError):
        await outbox.sending
    assert outbox._unread <= 10_000


async def test_what_was_read_makes_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_UNREAD", 200)

    async def send(frame: bytes) -> None: ...

    outbox = Outbox(send)
    for _ in range(100):
        outbox.put(bytes(100))
        await asyncio.sleep(0.0001)
    assert not outbox.sending.done()
    outbox.sending.cancel()


async def test_a_client_that_reads_nothing_for_long_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "UNREAD_TIME", 0.01)
    outbox = Outbox(never)
    outbox.put(b"x")
    with pytest.raises(TimeoutError):
        await outbox.sending
