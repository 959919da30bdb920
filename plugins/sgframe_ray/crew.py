"""A replica whose processes stand behind Ray actors, as the front sees it: its channel, its children, its end.

Knows how to speak with actors, not where they stand.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Sequence
from typing import Any

import ray
from ray.exceptions import RayError

from sgframe.errors import PeerLost
from sgframe.interfaces.launcher import KILL_AFTER, Child, Crew, Watcher
from sgframe.interfaces.transport import AsyncChannel
from sgframe_ray.post import Ended, Frame, News, Said, decode_news

SILENT_AFTER = 10.0
"""Seconds without any news, where there should be some four times a second, after which an actor's machine counts as lost.
Ray itself may take longer to notice."""


class RayChannel(AsyncChannel):
    """To the scheduler, by way of the actor ``post``. What comes while a call is under way goes with the next."""

    def __init__(self, post: Any) -> None:
        self._post = post
        self._arrived: deque[bytes] = deque()
        self._outgoing: list[bytes] = []
        self._news = asyncio.Event()
        self._lost: PeerLost | None = None
        self._sending: asyncio.Task[None] | None = None

    async def send(self, frame: bytes) -> None:
        if self._lost is not None:
            raise self._lost
        self._outgoing.append(frame)
        if self._sending is None or self._sending.done():
            self._sending = asyncio.create_task(self._send_all())

    async def recv(self) -> bytes:
        while not self._arrived:
            if self._lost is not None:
                raise self._lost
            self._news.clear()
            await self._news.wait()
        return self._arrived.popleft()

    def close(self) -> None:
        self._arrived.clear()
        self.lose("this end of the channel is closed")

    def take(self, frame: bytes) -> None:
        self._arrived.append(frame)
        self._news.set()

    def lose(self, reason: str) -> None:
        self._lost = self._lost or PeerLost(reason)
        self._news.set()

    async def _send_all(self) -> None:
        while self._outgoing and self._lost is None:
            frames, self._outgoing = self._outgoing, []
            try:
                await self._post.send.remote(frames)
            except RayError as error:
                self.lose(f"the scheduler's actor is gone: {_first_line(error)}")


class RayCrew(Crew):
    """``names`` are the children of each actor of ``posts``, the scheduler the first of all; ``group`` is given back."""

    def __init__(self, posts: Sequence[Any], names: Sequence[Sequence[str]], group: Any, watcher: Watcher) -> None:
        self._posts = posts
        self._group = group
        self.channel: RayChannel = RayChannel(posts[0])
        self.children: list[Child] = []
        self._listening = []
        for post, there in zip(posts, names, strict=True):
            children = {name: Child(name, watcher, _killer(post, name)) for name in there}
            self.children += children.values()
            self._listening.append(asyncio.create_task(self._listen(post, children)))

    async def close(self, *, kill: bool = False) -> None:
        self.channel.close()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(2 * KILL_AFTER):
                await asyncio.gather(*(_close(post, kill) for post in self._posts))
                await asyncio.gather(*(child.ended.wait() for child in self.children))
        for task in self._listening:
            task.cancel()
        for post in self._posts:
            ray.kill(post)
        ray.util.remove_placement_group(self._group)
        for child in self.children:
            child.hear_end(None, "did not say that it ended")

    async def _listen(self, post: Any, children: dict[str, Child]) -> None:
        """Hand out an actor's news, until none of its children lives."""
        how = ""
        try:
            while not all(child.ended.is_set() for child in children.values()):
                for news in decode_news(await asyncio.wait_for(post.news.remote(), SILENT_AFTER)):
                    self._take(news, children)
        except RayError as error:
            how = f"is gone with its actor: {_first_line(error)}"
        except TimeoutError:
            how = f"has been silent for {SILENT_AFTER:g} s: its machine is down, or the network is lost"
        for child in children.values():
            child.hear_end(None, how)
        if self.children[0].ended.is_set():
            self.channel.lose("the scheduler is gone")

    def _take(self, news: News, children: dict[str, Child]) -> None:
        match news:
            case Frame(data=data):
                self.channel.take(data)
            case Said(child=name, message=message):
                children[name].hear(message)
            case Ended(child=name, code=code):
                children[name].hear_end(code)
                if children[name] is self.children[0]:
                    self.channel.lose("the scheduler is gone")


def _killer(post: Any, name: str) -> Any:
    return lambda: post.kill.remote(name)


async def _close(post: Any, kill: bool) -> None:
    with contextlib.suppress(RayError):  # it is gone already
        await post.close.remote(kill=kill)


def _first_line(error: RayError) -> str:
    return str(error).strip().partition("\n")[0]
