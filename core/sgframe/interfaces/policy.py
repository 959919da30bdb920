"""The policy seam: in which order waiting requests are taken."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar, Protocol

from sgframe.interfaces.cache import CacheView
from sgframe.messages import Ints, Namespace


class Waiting(Protocol):
    """A policy's read-only view of a waiting request."""

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
    def passed_over(self) -> int:
        """Rounds in which a later arrival was admitted while this one kept waiting."""


class Policy(ABC):
    """Orders the waiting queue. Built as ``target(settings)``; called once a round, before admission.

    An order is a pure function of its arguments: no clock, no randomness, no memory that changes the answer. It must bound
    waiting: state in the class docstring after how many rounds a request can no longer be passed over.
    """

    honours_priority: ClassVar[bool] = False
    """True for a policy that reads ``Waiting.priority``; under any other a request that asks for one is refused."""

    @abstractmethod
    def order(self, waiting: Sequence[Waiting], cache: CacheView) -> Sequence[Waiting]:
        """Return every element of ``waiting`` (in order of arrival) exactly once, the one to admit first at the front."""
