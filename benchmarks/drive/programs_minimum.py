"""The fewest prompt tokens that calls can be answered with. Knows ids and texts, no tokenizer and no server.

Each distinct prefix is computed once; and the last token of each prompt, whose logits are wanted, even if it was before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

Unit = str | tuple[int, ...]
"""A text that is encoded by itself, or the ids that a model gave."""
Encode = Callable[[str, bool], Sequence[int]]
"""A text, and whether it stands at the very beginning → its ids."""


@dataclass(frozen=True, slots=True)
class Call:
    """One call on a state that held ``units`` and, not encoded yet, ``tail``. Then ``output`` was generated; or ``choices``
    were scored, whose ids after the prompt are ``paths``. The server counted ``prompt_tokens``."""

    units: tuple[Unit, ...]
    tail: str
    prompt_tokens: int
    output: tuple[int, ...] = ()
    choices: tuple[str, ...] = ()
    paths: tuple[tuple[int, ...], ...] = ()

    def prompt(self, encode: Encode) -> list[int]:
        """The prompt's ids. Raises ValueError when they are not as many as the server counted."""
        choice, path = (self.choices[0], self.paths[0]) if self.paths else ("", ())
        ids: list[int] = []
        for unit in (*self.units, self.tail + choice):
            ids += encode(unit, not ids) if isinstance(unit, str) else unit
        prompt = ids[: len(ids) - len(path)]
        if len(prompt) != self.prompt_tokens:
            raise ValueError(
                f"a prompt has {len(prompt)} tokens by its parts and {self.prompt_tokens} by the server, so that nobody can "
                "tell the fewest that would do"
            )
        return prompt


class Minimum:
    """What a server knows at best, after all calls so far.

    What was generated is known but for its last token, which nobody has read; of a choice that is scored, the last token
    needs no reading either.
    """

    def __init__(self, encode: Encode) -> None:
        self._encode = encode
        self._known = PrefixTree()

    def tokens_for(self, calls: Iterable[Call]) -> int:
        """Prompt tokens that ``calls``, in the order of their ends, take at least. Raises ValueError, see Call.prompt."""
        return sum(map(self._take, calls))

    def _take(self, call: Call) -> int:
        prompt, known = call.prompt(self._encode), self._known
        tokens = max(known.add(prompt), 1)
        tokens += sum(known.add([*prompt, *path[:-1]]) for path in call.paths)
        known.add([*prompt, *call.output[:-1]])
        return tokens


class PrefixTree:
    """Sequences of tokens, each prefix kept once."""

    def __init__(self) -> None:
        self._root: dict[int, Any] = {}

    def add(self, tokens: Iterable[int]) -> int:
        """How many of ``tokens`` stand behind what was in the tree before."""
        node, new = self._root, 0
        for token in tokens:
            if token not in node:
                node[token] = {}
                new += 1
            node = node[token]
        return new
