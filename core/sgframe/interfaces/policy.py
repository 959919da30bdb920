"""The policy seam: in which order waiting requests are taken, and who gives way."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar, Protocol

from sgframe.interfaces.cache import CacheView
from sgframe.messages import Ints, Namespace


class Waiting(Protocol):
    """A policy's read-only view of a request."""

    @property
    def id(self) -> int:
        """Unique, and growing with arrival."""

    @property
    def tokens(self) -> Ints:
        """All known tokens: the prompt and, after a retraction, the output so far."""

    @property
    def namespace(self) -> Namespace:
        """Where its prefixes are shared."""

    @property
    def priority(self) -> int:
        """As the client asked; larger is more urgent."""

    @property
    def overtaken(self) -> int:
        """Tokens, computed or generated, that later arrivals were given while this one waited. It never falls."""


class Running(Waiting, Protocol):
    """A policy's read-only view of a request that runs."""

    @property
    def computed(self) -> int:
        """Known tokens that are computed."""


class Policy(ABC):
    """Orders the waiting queue. Built as ``target(settings)``; called before admission, when there is room.

    An order is a pure function of its arguments: no clock, no randomness, no memory that changes the answer. It must bound
    waiting: state in the class docstring from how many tokens of ``Waiting.overtaken`` on nobody who arrived later goes
    first any more.
    """

    honours_priority: ClassVar[bool] = False
    """True for a policy that reads ``Waiting.priority``; under any other a request that asks for one is refused."""

    @abstractmethod
    def order(self, waiting: Sequence[Waiting], cache: CacheView) -> Sequence[Waiting]:
        """Return every element of ``waiting`` (in order of arrival) exactly once, the one to admit first at the front."""

    def victim(self, waiting: Waiting, running: Sequence[Running]) -> Running | None:
        """Who of ``running`` (in order of admission) is to give way to ``waiting``, which does not fit; None: it waits.

        The victim is retracted: it waits again with all its tokens and resumes later. Never name one that may in turn
        displace ``waiting``, and nobody for ever: work must go on.
        """
        return None
