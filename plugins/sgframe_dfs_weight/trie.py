"""A compressed trie (Morrison 1968, PATRICIA) of the cached prefixes of waiting requests. Knows no cache and no ages."""

from __future__ import annotations

from collections.abc import Sequence

from sgframe.interfaces.policy import Waiting
from sgframe.messages import Ints, Namespace, ints
from sgframe.prefixes import common_length

Key = tuple[Namespace, int]
"""Where a branch leaves its parent: prefixes of different namespaces share nothing."""


class Branch:
    """The requests whose prefixes go through ``tokens``; ``members`` are the ids of those whose prefix ends with them.

    All but the root have members or at least two children. ``weight`` counts the requests here and below, ``first`` is the
    smallest of their ids, and ``ranked`` are the children, heaviest first, ties by ``first``. These hold while ``weight`` is
    not 0; where it is 0, it is 0 all the way up.
    """

    __slots__ = ("children", "first", "key", "members", "parent", "ranked", "tokens", "weight")

    def __init__(self, parent: Branch | None, key: Key, tokens: Ints) -> None:
        self.parent = parent
        self.key = key
        self.tokens = tokens
        self.children: dict[Key, Branch] = {}
        self.members: set[int] = set()
        self.weight = 0
        self.first = 0
        self.ranked: list[Branch] = []

    def split(self, length: int) -> Branch:
        """Put a new branch with the first ``length`` tokens above this one, which keeps the others."""
        assert self.parent is not None
        upper = self.parent.children[self.key] = Branch(self.parent, self.key, self.tokens[:length])
        self._hang(upper, self.tokens[length:])
        return upper

    def join(self) -> None:
        """Take the place of the parent, whose only child this is."""
        assert self.parent is not None and self.parent.parent is not None
        self._hang(self.parent.parent, self.parent.tokens + self.tokens)

    def _hang(self, parent: Branch, tokens: Ints) -> None:
        self.parent, self.tokens = parent, tokens
        self.key = self.key[0], tokens[0]
        parent.children[self.key] = self

    def weigh(self) -> None:
        """Set what hangs on the weight; the children's own was set before."""
        children = self.children.values()
        self.weight = len(self.members) + sum([child.weight for child in children])
        self.first = min([*self.members, *[child.first for child in children]], default=0)
        self.ranked = sorted(children, key=lambda child: (-child.weight, child.first))


class PrefixTrie:
    """Holds each request at the end of its cached prefix; moving one costs its prefix's length, the others nothing."""

    def __init__(self) -> None:
        self.root = Branch(None, ((), 0), ints())
        self._places: dict[int, tuple[int, Branch]] = {}
        self._walk: list[int] = []

    def hold(self, waiting: Sequence[Waiting], lengths: Sequence[int]) -> None:
        """Hold exactly ``waiting``, each with so many of its leading tokens as ``lengths`` says."""
        for id in self._places.keys() - {request.id for request in waiting}:
            self._remove(id)
        for request, length in zip(waiting, lengths, strict=True):
            place = self._places.get(request.id)
            if place is None or place[0] != length:
                if place is not None:
                    self._remove(request.id)
                self._add(request, length)

    def walk(self) -> list[int]:
        """All ids, depth first, the heaviest branch first; a branch's own members, by arrival, come after its children."""
        if not self.root.weight:
            self._weigh_changed()
            self._walk = self._depth_first()
        return self._walk

    def _add(self, request: Waiting, length: int) -> None:
        branch, start = self.root, 0
        branch.weight = 0
        while start < length:
            key = request.namespace, request.tokens[start]
            child = branch.children.get(key)
            if child is None:
                child = branch.children[key] = Branch(branch, key, request.tokens[start:length])
            else:
                edge = len(child.tokens)
                common = common_length(child.tokens, request.tokens[start : min(start + edge, length)])
                child = child.split(common) if common < edge else child
            branch, start = child, start + len(child.tokens)
            branch.weight = 0
        branch.members.add(request.id)
        self._places[request.id] = length, branch

    def _remove(self, id: int) -> None:
        _, branch = self._places.pop(id)
        branch.members.remove(id)
        changed: Branch | None = branch
        while changed and changed.weight:
            changed.weight = 0
            changed = changed.parent
        if branch.parent and not branch.members and not branch.children:
            del branch.parent.children[branch.key]
            branch = branch.parent
        if branch.parent and not branch.members and len(branch.children) == 1:
            (child,) = branch.children.values()
            child.join()

    def _weigh_changed(self) -> None:
        changed = [self.root]
        for branch in changed:  # grows as it goes: parents before children
            changed += [child for child in branch.children.values() if not child.weight]
        for branch in reversed(changed):
            branch.weigh()

    def _depth_first(self) -> list[int]:
        backwards: list[int] = []
        stack = [self.root]
        while stack:
            branch = stack.pop()
            backwards += sorted(branch.members, reverse=True)
            stack += branch.ranked  # the lightest is the next to go
        return backwards[::-1]
