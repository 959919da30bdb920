"""The order among requests of one program: the branches of a fork together, and forks depth first.

A lineage is the path from a program's root to a request's branch: the program's number, then for each fork on the way the
fork's number within its state and the branch's. Requests of the same fork differ in the last number only. Ordered so, a
program's branches run side by side on the prefix that they share, and a subtree is done before the next is begun.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from sgframe.scheduler.request import Request


def gathered(ordered: Sequence[Request]) -> Iterator[Request]:
    """``ordered``, as a policy has it, with the requests of each program gathered by fork.

    Where the policy has a request of a program, the program's next fork stands, depth first, unless more of the program
    stand before it already than the policy has. So beyond what the policy allows, a request of no program is overtaken by
    fewer of each than the branches of its widest fork.
    """
    programs: dict[int, list[Request]] = {}
    for request in ordered:
        if request.lineage:
            programs.setdefault(request.lineage[0], []).append(request)
    forks = {
        program: [list(branches) for _, branches in groupby(sorted(members, key=_lineage), key=_fork)]
        for program, members in programs.items()
    }
    ahead = dict.fromkeys(programs, 0)
    for request in ordered:
        if not request.lineage:
            yield request
            continue
        program = request.lineage[0]
        if not ahead[program]:
            branches = forks[program].pop(0)
            ahead[program] = len(branches)
            yield from branches
        ahead[program] -= 1


def _lineage(request: Request) -> tuple[tuple[int, ...], int]:
    return request.lineage, request.id


def _fork(request: Request) -> tuple[int, ...]:
    return request.lineage[:-1]
