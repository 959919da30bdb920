"""``Branches``: the states that a fork made, and how they come together again."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any, overload

from sgframe_dsl.callsites import CallSite, here
from sgframe_dsl.judging import By, deciding
from sgframe_dsl.operations import Adopt, Concatenate, Fork, Gather, Settle
from sgframe_dsl.state import State
from sgframe_dsl.variables import Variable, chosen, gathered


class Branches(Sequence[State]):
    """States that go on from one point, each by itself. ``branches["a"]`` is the list of their values of ``a``."""

    def __init__(self, parent: State, fork: Fork, states: list[State]) -> None:
        self.parent = parent
        self._states = states
        self._fork = fork
        self._before = dict(parent._names.known)
        self._writes = parent._writes
        self._adopted: Adopt | None = None

    @overload
    def __getitem__(self, key: int) -> State: ...
    @overload
    def __getitem__(self, key: slice) -> list[State]: ...
    @overload
    def __getitem__(self, key: str) -> list[Any]: ...

    def __getitem__(self, key: int | slice | str) -> State | list[State] | list[Any]:
        """A branch, several, or the values of a variable in all."""
        if isinstance(key, str):
            return [state[key] for state in self._states]
        return self._states[key]

    def __setitem__(self, index: int, state: State) -> None:
        """What Python does last in ``branches[0] += …``. Raises TypeError for a state other than the branch itself."""
        if state is not self._states[index]:
            raise TypeError("a branch cannot be replaced by another state")

    def __len__(self) -> int:
        return len(self._states)

    def __iter__(self) -> Iterator[State]:
        return iter(self._states)

    def join(self, how: str = "gather") -> State:
        """The branches end; returns the parent.

        Each variable that a branch has set is, in the parent, the list of what the branches have, None where one lacks it.
        ``how="concat"`` adds to the parent what the branches said since the fork, in order and token by token. Returns at
        once: reading waits. Raises ValueError for other words, and when a branch has another turn open than the parent.
        """
        site = here()
        if how not in ("gather", "concat"):
            raise ValueError(f"join takes 'gather' or 'concat', found {how!r}")
        self._check_open(site)
        if how == "concat":
            self._check_roles(self.parent._role)
        self._leave(site, "joined", release=how == "gather")
        self.parent._chain.put(Gather(site) if how == "gather" else Concatenate(site, self._fork.begins))
        for name, of_each in self._set_by_branches():
            self.parent._names.set(name).follow(gathered(of_each))
        self.parent._writes += 1
        return self.parent

    def select(self, by: By) -> State:
        """The parent goes on where the best branch stands, with its text and variables; the others are ended at once.

        ``by`` is the name of a variable, and the first of those wins that have the value most branches have
        (self-consistency, Wang et al. 2022); or a function of a branch, and the first with the highest value wins; or a
        ``judge``. Returns the parent, at once unless a function has to be called; ``chosen`` is the winner. Raises
        ValueError when the parent was added to after the fork, or the branches have different turns open.
        """
        site = here()
        self._check_selectable(site)
        return self._adopt(site, deciding(site, self.parent, self._states, by))

    async def aselect(self, by: By) -> State:
        """As ``select``, without blocking the event loop: it awaits all of the branches before it calls a function."""
        site = here()
        self._check_selectable(site)
        if callable(by):
            for state in self._states:
                await state.atext()
        return self._adopt(site, deciding(site, self.parent, self._states, by))

    @property
    def chosen(self) -> int:
        """The place of the branch that was selected; waits for it. Raises ValueError when there was no ``select``."""
        if self._adopted is None:
            raise ValueError("there was no select among these branches")
        return self.parent._wait(self._adopted.chosen)

    def _adopt(self, site: CallSite, decide: Callable[[], Awaitable[int]]) -> State:
        self._leave(site, "selected from", release=False)
        self._adopted = adopt = Adopt(site, self._fork, decide)
        self.parent._chain.put(adopt)
        for name, of_each in self._set_by_branches():
            missing = site.error(f"the branch that was selected sets no variable {name!r}")
            self.parent._names.set(name).follow(chosen(adopt.chosen, of_each, missing))
        self.parent._role = self._states[0]._role
        self.parent._chat = any(state._chat for state in self._states)
        self.parent._writes += 1
        return self.parent

    def _leave(self, site: CallSite, fate: str, release: bool) -> None:
        because = f"the branches were {fate}: go on with the state that they were forked from"
        for state in self._states:
            settle = Settle(site, release)
            state._chain.leave(settle, settle.done, because)

    def _set_by_branches(self) -> Iterator[tuple[str, list[Variable | None]]]:
        """The variables that a branch set after the fork, each with what it is in the branches."""
        known = [state._names.known for state in self._states]
        for name in dict.fromkeys(name for names in known for name in names):
            of_each = [names.get(name) for names in known]
            if any(variable is not self._before.get(name) for variable in of_each):
                yield name, of_each

    def _check_open(self, site: CallSite) -> None:
        for state in self._states:
            state._chain.check_open(site)

    def _check_selectable(self, site: CallSite) -> None:
        self._check_open(site)
        if self.parent._writes != self._writes:
            raise ValueError("the state was added to after the fork; select would lose that")
        self._check_roles(self._states[0]._role)

    def _check_roles(self, role: str) -> None:
        for index, state in enumerate(self._states):
            if state._role != role:
                found, wanted = (f"the turn of {one!r}" if one else "no turn" for one in (state._role, role))
                raise ValueError(f"branch {index} has {found} open where {wanted} should be; end() what is open")
