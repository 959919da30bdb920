"""Scoring: how likely the model finds given continuations of a prompt. The continuations go as one tree of tokens."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sgframe.errors import RequestFailed
from sgframe.front.outputs import Usage
from sgframe.messages import Ints, TokenOutput, Tree, ints

log = logging.getLogger(__name__)

AFTER_PROMPT = -1
"""The place of what follows the prompt directly."""


@dataclass(frozen=True, slots=True)
class Scored:
    """``logprobs[i][j]``: natural-log probability of token j of path i, after the prompt and the tokens of the path before
    it; the model's own, before temperature and filters. ``computed`` tokens were computed beyond the prompt: each common
    beginning of paths once, and no path's last token unless another path goes on from it."""

    logprobs: tuple[tuple[float, ...], ...]
    usage: Usage
    computed: int


class TokenTree:
    """Paths put together where they are equal. ``nodes`` are the tokens to compute, for ``tree``."""

    def __init__(self, paths: Sequence[Sequence[int]]) -> None:
        asked: dict[tuple[int, int], int] = {}
        """(place, token) → its position in what is asked for."""
        inner: dict[tuple[int, int], int] = {}
        """(place, token) → the node that it is."""
        self.nodes = ints()
        parents = ints()
        self._routes: list[list[int]] = []
        for path in paths:
            place, route = AFTER_PROMPT, []
            for position, token in enumerate(path):
                step = (place, token)
                route.append(asked.setdefault(step, len(asked)))
                if position < len(path) - 1:
                    if step not in inner:
                        inner[step] = len(self.nodes)
                        self.nodes.append(token)
                        parents.append(place)
                    place = inner[step]
            self._routes.append(route)
        self.tree = Tree(parents, ints(place for place, _ in asked), ints(token for _, token in asked))

    def by_path(self, scores: Sequence[float]) -> tuple[tuple[float, ...], ...]:
        """``scores`` of what the tree asks for, given to each path's tokens."""
        return tuple(tuple(scores[asked] for asked in route) for route in self._routes)


class Scoring:
    """One open request for scores, as the manager's table has it: its only output resolves ``result``."""

    def __init__(self, request_id: str, prompt: Ints, tree: TokenTree, abort: Callable[[str], None]) -> None:
        self.request_id = request_id
        self.result: asyncio.Future[Scored] = asyncio.get_running_loop().create_future()
        self._prompt_len = len(prompt)
        self._tree = tree
        self._abort = abort

    def take(self, index: int, output: TokenOutput) -> bool:
        """The scores, or why there are none."""
        finish = output.finish
        assert finish is not None, "a tree has one output, and that is its last"
        if output.scores is None or finish.reason != "length":
            self.fail(RequestFailed(finish.detail or f"the request ended without scores: {finish.reason}"))
            return True
        usage = Usage(self._prompt_len, 0, output.cached_tokens, output.cache)
        log.info("request %s scored: %d in, %d cached", self.request_id, self._prompt_len, output.cached_tokens)
        if not self.result.done():
            self.result.set_result(Scored(self._tree.by_path(output.scores), usage, len(self._tree.nodes)))
        return True

    def abort(self, cause: str) -> None:
        """Ask for its end, which ``take`` hears of."""
        self._abort(cause)

    def fail(self, error: Exception) -> None:
        """End it with ``error``."""
        if not self.result.done():
            self.result.set_exception(error)
