"""Requests of one program: the branches of a fork together, forks depth first, and nobody else pushed far back."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st
from scheduler_bench import Bench

from sgframe.messages import GenerateRequest, ints
from sgframe.sampling import TokenSampling
from sgframe.scheduler.lineage import gathered
from sgframe.scheduler.request import Request
from sgframe_priority import PrioritySettings
from sgframe_priority.policy import MostUrgentFirst


def request(number: int, lineage: tuple[int, ...] = ()) -> Request:
    message = GenerateRequest(number, ints([1]), 1, ints(), TokenSampling(seed=0), lineage=lineage)
    return Request.of(message, 64)


def order(*lineages: tuple[int, ...]) -> list[tuple[int, ...]]:
    return [one.lineage for one in gathered([request(number, lineage) for number, lineage in enumerate(lineages)])]


def test_branches_of_a_fork_stand_together_where_the_first_of_them_stood() -> None:
    assert order((1, 0, 0), (2, 0, 0), (1, 0, 1), (2, 0, 1)) == [(1, 0, 0), (1, 0, 1), (2, 0, 0), (2, 0, 1)]


def test_forks_of_a_program_are_taken_depth_first() -> None:
    assert order((1, 1, 0), (1, 0, 1), (1, 0, 0, 0, 1), (1, 0, 0, 0, 0)) == [
        (1, 0, 0, 0, 0),
        (1, 0, 0, 0, 1),
        (1, 0, 1),
        (1, 1, 0),
    ]


def test_a_subtree_that_was_begun_goes_before_the_branch_beside_it() -> None:
    assert order((1, 0, 2), (1, 0, 1, 0, 0), (1, 0, 1, 0, 1)) == [(1, 0, 1, 0, 0), (1, 0, 1, 0, 1), (1, 0, 2)]


def test_requests_without_a_program_keep_their_places() -> None:
    assert order((), (1, 0, 0), (), (1, 0, 1)) == [(), (1, 0, 0), (1, 0, 1), ()]


LINEAGES = st.lists(
    st.one_of(st.just(()), st.tuples(st.integers(1, 3), st.integers(0, 2), st.integers(0, 3))), max_size=24
)


@given(LINEAGES)
def test_everybody_is_taken_once_and_overtaken_by_less_than_a_fork_of_each_program(
    lineages: list[tuple[int, ...]],
) -> None:
    requests = [request(number, lineage) for number, lineage in enumerate(lineages)]
    result = list(gathered(requests))
    assert sorted(one.id for one in result) == list(range(len(requests)))
    widest = {program: _widest(lineages, program) for program in (1, 2, 3)}
    for one in requests:
        for program, width in widest.items():
            if not one.lineage:
                assert _ahead(result, one, program) - _ahead(requests, one, program) < max(width, 1)


def _ahead(order: Sequence[Request], one: Request, program: int) -> int:
    return sum(each.lineage[:1] == (program,) for each in order[: order.index(one)])


def _widest(lineages: Sequence[tuple[int, ...]], program: int) -> int:
    forks = [lineage[:-1] for lineage in lineages if lineage and lineage[0] == program]
    return max(map(forks.count, forks), default=0)


def test_a_policy_that_preempts_is_not_overruled() -> None:
    bench = Bench(max_running=1, slots=256, policy=MostUrgentFirst(PrioritySettings()))
    bench.add(1, [7], max_tokens=2, lineage=(1, 0, 0))
    bench.step()
    bench.add(2, [8], max_tokens=2, lineage=(1, 0, 1), priority=1)
    bench.run(most_steps=20)
    assert [output.id for output in bench.taken if output.finish] == [2, 1]


def test_branches_are_admitted_in_one_step() -> None:
    bench = Bench(max_running=2, slots=256)
    for number, lineage in ((3, (1, 0, 0)), (4, ()), (5, (1, 0, 1))):
        bench.add(number, [number], max_tokens=2, lineage=lineage)
    batch = bench.step()
    assert batch is not None
    assert [list(row.tokens) for row in batch.admitted] == [[3], [5]]
