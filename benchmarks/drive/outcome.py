"""What one run of a row on one server came to, and what a row is. Knows no server and no particular row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from drive.client import Endpoint
from drive.prompts import PromptMaker


@dataclass(frozen=True, slots=True)
class Target:
    """A server that is up, as rows see it. ``seed`` is the run's, the same on all servers; ``ours`` speaks the language of
    programs."""

    endpoint: Endpoint
    maker: PromptMaker
    seed: str
    ours: bool


@dataclass(frozen=True, slots=True)
class Outcome:
    """``value`` is the row's figure; ``first_tokens`` the seconds to each request's first token, none where it is not
    known. ``valid`` counts the answers that match the row's schema, if it has one."""

    value: float
    output_tokens: int
    prompt_tokens: int = 0
    first_tokens: tuple[float, ...] = ()
    valid: int | None = None


class Workload(Protocol):
    """A row. ``requests`` and ``output_tokens`` are what it asks for in a run; with ``texts_only`` prompts are no ids."""

    @property
    def name(self) -> str: ...

    @property
    def what(self) -> str: ...

    @property
    def unit(self) -> str: ...

    @property
    def requests(self) -> int: ...

    @property
    def output_tokens(self) -> int: ...

    @property
    def longest(self) -> int:
        """Tokens of its longest request, prompt and answer."""

    @property
    def concurrency(self) -> int: ...

    @property
    def texts_only(self) -> bool: ...

    def scaled(self, factor: float) -> Workload:
        """The same, its sizes times ``factor``."""

    def run(self, target: Target) -> Outcome:
        """Once. Raises what a server that fails does: RequestFailed, OSError, httpx.HTTPError."""
