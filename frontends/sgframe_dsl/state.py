"""``State``: what a program writes to. Text and calls queue up and return at once; see ``reading`` for what waits."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from sgframe_dsl import expressions
from sgframe_dsl.callsites import CallSite, here
from sgframe_dsl.chain import Chain
from sgframe_dsl.expressions import Expression, Gen, Select, check_role, pieces
from sgframe_dsl.operations import Choose, Fork, Generate, Say
from sgframe_dsl.options import sampling_params
from sgframe_dsl.reading import Readable
from sgframe_dsl.running import Run
from sgframe_dsl.variables import Names
from sgframe_programs.parts import Begin, End, Method, Part

if TYPE_CHECKING:
    from sgframe_dsl.branches import Branches


class State(Readable):
    """A program's text and variables, or those of a branch. Any thread may write; what several add comes in some order, each
    addition in one piece."""

    def __init__(self, run: Run, chain: Chain, names: Names, parent: State | None = None) -> None:
        super().__init__(run, chain, names)
        self._role: str = parent._role if parent else ""
        self._chat: bool = parent._chat if parent else False
        self._writes = 0
        self._writing = threading.Lock()

    def __iadd__(self, addition: str | Expression | Callable[[Self], Any]) -> Self:
        """Add text, an expression, or what a program (see ``Function.bind``) does."""
        if isinstance(addition, str | Expression):
            self._write(list(pieces(addition)))
        elif callable(addition):
            if inspect.iscoroutine(result := addition(self)):
                result.close()
                raise TypeError("an async program is added by: await s.call(program)")
        else:
            raise TypeError(f"a state takes text, expressions and programs, found {addition!r}")
        return self

    def select(self, name: str, choices: Sequence[str], method: Method = "token_length_normalized") -> Self:
        """``s += sgf.select(name, choices, method)``."""
        self._write([expressions.select(name, choices, method)])
        return self

    def call(self, program: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Let another program go on with this state. Returns what its function does; to be awaited if that is async."""
        return program(self, *args, **kwargs)

    def fork(self, count: int) -> Branches:
        """``count`` branches, each of which goes on from here by itself. They see the variables as they are now."""
        from sgframe_dsl.branches import Branches  # noqa: PLC0415  # branches are states

        if not isinstance(count, int) or isinstance(count, bool):
            raise TypeError(f"fork takes a number of branches, found {count!r}")
        if count < 1:
            raise ValueError(f"fork makes at least one branch, found {count}")
        return Branches(self, *self._branch_off(count, ""))

    def copy(self) -> State:
        """One branch, which is not to be joined."""
        return self._branch_off(1, "copy")[1][0]

    def begin(self, role: str) -> None:
        """A chat turn of ``role`` begins; ``end`` ends it."""
        check_role(role)
        self._write([Begin(role)])

    def end(self) -> None:
        """The open chat turn ends."""
        self._write([End()])

    def role(self, name: str) -> Turning:
        """``with s.role(name): …`` is a chat turn of role ``name``."""
        check_role(name)
        return Turning(self, name)

    def system(self) -> Turning:
        """``with s.system(): …`` is a chat turn of the system."""
        return Turning(self, "system")

    def user(self) -> Turning:
        """``with s.user(): …`` is a chat turn of the user."""
        return Turning(self, "user")

    def assistant(self) -> Turning:
        """``with s.assistant(): …`` is a chat turn of the assistant."""
        return Turning(self, "assistant")

    def _branch_off(self, count: int, purpose: str) -> tuple[Fork, list[State]]:
        site = here()
        self._chain.check_open(site)
        chains = [Chain(self._run, site, self._chain) for _ in range(count)]
        fork = Fork(site, purpose, chains)
        self._chain.put(fork)
        return fork, [State(self._run, chain, Names(self._names.known), self) for chain in chains]

    def _write(self, items: Sequence[Part | Gen | Select]) -> None:
        site = here()
        with self._writing:
            role = self._role_after(items)
            for item in items:
                self._put(item, site)
            self._writes += len(items)
            self._role = role

    def _put(self, item: Part | Gen | Select, site: CallSite) -> None:
        match item:
            case Gen():
                self._generate(item, site)
            case Select():
                self._chain.put(Choose(site, item, self._names.set(item.name)))
            case _:
                self._chain.put(Say(site, [item]))

    def _generate(self, gen: Gen, site: CallSite) -> None:
        options = {**self._run.sampling, **gen.options}
        params = sampling_params("gen()", options, gen.n, gen.shape.constraint)
        self._chain.put(Generate(site, gen, params, self._names.set(gen.name)))

    def _role_after(self, items: Sequence[Part | Gen | Select]) -> str:
        """The role whose turn is open after ``items``. Raises ValueError for a turn in a turn, or an end of none."""
        role = self._role
        for item in items:
            match item:
                case Begin(name):
                    if role:
                        raise ValueError(
                            f"a turn of {name!r} begins in one of {role!r}; roles do not nest: end() that first"
                        )
                    role, self._chat = name, True
                case End():
                    if not role:
                        raise ValueError("end() without a turn that is open")
                    role = ""
        return role


class Turning:
    """A chat turn, for as long as the ``with`` lasts."""

    def __init__(self, state: State, role: str) -> None:
        self._state = state
        self._role = role

    def __enter__(self) -> State:
        self._state.begin(self._role)
        return self._state

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._state.end()
