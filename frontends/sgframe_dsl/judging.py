"""Which of several branches is the best: by a vote, by a function of the program, or by the model as a judge."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from sgframe_dsl.callsites import CallSite
from sgframe_dsl.errors import NoSuchVariable, ProgramError
from sgframe_dsl.expressions import Gen
from sgframe_dsl.operations import SayLater, Settle
from sgframe_dsl.state import State
from sgframe_dsl.variables import Outcome, Variable
from sgframe_dsl.waiting import waited

Decide = Callable[[], Awaitable[int]]
"""Tells the place of the best branch."""


@dataclass(frozen=True)
class Judge:
    """See ``judge``."""

    prompt: str
    of: str
    think: Gen | None


By = str | Judge | Callable[[State], float]


def judge(prompt: str, *, of: str, think: Gen | None = None) -> Judge:
    """Let the model pick a branch, for ``branches.select(by=…)``.

    On a branch of its own the model reads ``prompt``, then the texts of variable ``of``, numbered; it writes ``think`` if
    that is given; its choice is the likeliest number. In a chat the question is a turn of the user. Raises TypeError.
    """
    for name, value in (("prompt", prompt), ("of", of)):
        if not isinstance(value, str):
            raise TypeError(f"judge: {name} is a str, found {value!r}")
    if think is not None and not isinstance(think, Gen):
        raise TypeError(f"judge: think is a gen, found {think!r}")
    return Judge(prompt, of, think)


def deciding(site: CallSite, parent: State, branches: Sequence[State], by: By) -> Decide:
    """How ``by`` will decide. Raises NoSuchVariable when no branch has the variable that it is about, TypeError for what
    cannot decide, and whatever a function raises."""
    match by:
        case str():
            return _vote(_having(site, branches, by))
        case Judge():
            return _judged(site, parent, _having(site, branches, by.of), by)
        case _ if callable(by):
            return _scored(branches, by)
    raise TypeError(f"select takes the name of a variable, a function of a branch or a judge, found {by!r}")


def _having(site: CallSite, branches: Sequence[State], name: str) -> dict[int, Variable]:
    """Place of a branch → its variable ``name``, of those that have one."""
    known = {index: branch._names.known[name] for index, branch in enumerate(branches) if name in branch}
    if not known:
        raise NoSuchVariable(f"no branch sets a variable {name!r}", site.line, site.source)
    return known


def _vote(voters: dict[int, Variable]) -> Decide:
    async def decide() -> int:
        polls = {asyncio.ensure_future(waited(voter.future)): index for index, voter in voters.items()}
        votes: dict[int, object] = {}
        unreadable: list[ProgramError] = []
        out = set(polls)
        try:
            while out and _winner(votes, [polls[poll] for poll in out]) is None:
                done, out = await asyncio.wait(out, return_when=asyncio.FIRST_COMPLETED)
                for poll in done:
                    outcome = poll.result()
                    try:
                        votes[polls[poll]] = outcome.value
                    except ProgramError as error:  # no vote: its text was cut off
                        unreadable.append(error)
        finally:
            for poll in polls:
                poll.cancel()
            await asyncio.gather(*polls, return_exceptions=True)  # one error is enough
        winner = _winner(votes, [polls[poll] for poll in out])
        if winner is None:
            raise unreadable[0]
        return winner

    return decide


def _winner(votes: dict[int, object], out: Sequence[int]) -> int | None:
    """The first branch of those with the value that most have; None while one of those that are ``out`` may change that."""
    cast = list(votes.values())
    ranked = sorted(votes, key=lambda branch: (-cast.count(votes[branch]), branch))
    if not ranked:
        return None
    winner = ranked[0]
    second = next((cast.count(votes[branch]) for branch in ranked if votes[branch] != votes[winner]), 0)
    may_change = out and (second + len(out) >= cast.count(votes[winner]) or min(out) < winner)
    return None if may_change else winner


def _scored(branches: Sequence[State], score: Callable[[State], float]) -> Decide:
    scores = [score(branch) for branch in branches]
    for found in scores:
        if not isinstance(found, int | float) or math.isnan(found):
            raise TypeError(f"select: the function gave {found!r} for a branch, not a number to compare")
    best = scores.index(max(scores))

    async def decide() -> int:
        return best

    return decide


def _judged(site: CallSite, parent: State, candidates: dict[int, Variable], judge: Judge) -> Decide:
    _, (bench,) = parent._branch_off(1, "judge")
    in_turns = bench._chat and not bench._role
    if in_turns:
        bench.begin("user")
    bench += f"{judge.prompt}\n"
    bench._chain.put(SayLater(site, lambda: _numbered(list(candidates.values()))))
    if in_turns:
        bench.end()
        bench.begin("assistant")
    if judge.think is not None:
        bench += judge.think + "\n"
    places = {str(number): index for number, index in enumerate(candidates, 1)}
    bench += "The best is ["
    bench.select("choice", list(places))
    verdict, last = bench._names.known["choice"], Settle(site, release=True)
    bench._chain.leave(last, last.done, "the judge has spoken")

    async def decide() -> int:
        return places[(await waited(verdict.future)).text]

    return decide


async def _numbered(candidates: Sequence[Variable]) -> str:
    outcomes = [await waited(candidate.future) for candidate in candidates]
    return "".join(f"[{number}] {_shown(outcome)}\n" for number, outcome in enumerate(outcomes, 1))


def _shown(outcome: Outcome) -> str:
    return outcome.text.strip() or str(outcome.value)
