"""The inbox hands out all that has come at once, and its error after everything before it."""

from __future__ import annotations

import asyncio

import pytest

from sgframe.front.inbox import Inbox


async def test_what_came_meanwhile_is_taken_at_once_in_order() -> None:
    inbox: Inbox[int] = Inbox()
    for item in (1, 2, 3):
        inbox.put(item)
    assert await inbox.take() == [1, 2, 3]
    inbox.put(4)
    assert await inbox.take() == [4]


async def test_a_waiting_reader_is_woken_once_for_all_that_is_put_before_it_runs() -> None:
    inbox: Inbox[int] = Inbox()
    reading = asyncio.create_task(inbox.take())
    await asyncio.sleep(0)
    inbox.put(1)
    inbox.put(2)
    assert await reading == [1, 2]


async def test_an_error_comes_after_what_was_put_before_and_ends_the_inbox() -> None:
    inbox: Inbox[int] = Inbox()
    inbox.put(1)
    inbox.fail(ValueError("first"))
    inbox.put(2)
    inbox.fail(ValueError("second"))
    assert await inbox.take() == [1]
    for _ in range(2):
        with pytest.raises(ValueError, match="first"):
            await inbox.take()


async def test_an_error_wakes_a_waiting_reader() -> None:
    inbox: Inbox[int] = Inbox()
    reading = asyncio.create_task(inbox.take())
    await asyncio.sleep(0)
    inbox.fail(ValueError("lost"))
    with pytest.raises(ValueError, match="lost"):
        await reading


async def test_a_cancelled_reader_takes_nothing_with_it() -> None:
    inbox: Inbox[int] = Inbox()
    reading = asyncio.create_task(inbox.take())
    await asyncio.sleep(0)
    inbox.put(1)
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    assert await inbox.take() == [1]
