"""Grammars in the step loop: what they force is written at once, what they forbid never comes, and nobody else notices."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scheduler_bench import VOCAB, Bench, NoReserve, next_token
from scripted_grammar import Script, allowed, guides, use

from sgframe.messages import Finish, GrammarUse
from sgframe.sampling import TokenSampling
from sgframe.scheduler.estimator import PeakEstimator

ANY = range(VOCAB)
PROMPT = [3, 1, 4]


def expected(prompt, script: Script, ends=(), max_tokens=99, stop_ids=()) -> tuple[list[int], Finish]:
    """The output that the bench's worker gives under the script, one token at a time."""
    tokens = list(prompt)
    for position in range(max_tokens):
        choice = allowed(script, ends, position, stop_ids)
        token = next_token(tokens)
        token = next(t % VOCAB for t in range(token, token + VOCAB) if t % VOCAB in choice)
        tokens.append(token)
        if token in stop_ids:
            return tokens[len(prompt) :], Finish("stop", matched=token)
        if position + 1 == len(script):
            return tokens[len(prompt) :], Finish("stop")
    return tokens[len(prompt) :], Finish("length")


def run(script: Script, ends=(), *, overlap=False, jumps=True, **options) -> Bench:
    bench = Bench(guides=guides(VOCAB, jumps=jumps), overlap=overlap)
    bench.add(1, PROMPT, options.pop("max_tokens", 20), grammar=use(script, ends), **options)
    bench.run()
    return bench


MIXED: Script = [ANY, [7], [8], [9], ANY, [1, 2], [5]]


@pytest.mark.parametrize("overlap", [False, True])
@pytest.mark.parametrize("jumps", [False, True])
def test_every_token_is_one_that_the_grammar_allows(overlap: bool, jumps: bool) -> None:
    bench = run(MIXED, overlap=overlap, jumps=jumps)
    assert (bench.outputs[1], bench.finished[1]) == expected(PROMPT, MIXED)


@pytest.mark.parametrize(("jumps", "steps"), [(False, 7), (True, 3)])
def test_what_is_forced_takes_no_step(jumps: bool, steps: int) -> None:
    assert run(MIXED, jumps=jumps).scheduler.counters.steps == steps


@pytest.mark.parametrize("overlap", [False, True])
def test_without_jumps_the_model_writes_the_very_tokens_that_would_have_been_written_for_it(overlap: bool) -> None:
    script: Script = [ANY, [-1, 7, *range(8, 40)], [-1, 9, *range(8, 40)], ANY]
    assert run(script, overlap=overlap, jumps=False).outputs == run(script, overlap=overlap).outputs
    assert run(script, jumps=False).outputs[1][1:3] == [7, 9]


def test_forced_tokens_are_computed_with_the_step_that_follows() -> None:
    bench = Bench(guides=guides(VOCAB))
    bench.add(1, PROMPT, 20, grammar=use(MIXED))
    assert list(bench.step().counts) == [3]
    second = bench.step()
    assert list(second.counts) == [4]
    assert [list(addition.tokens) for addition in second.appended] == [[7, 8, 9]]


def test_what_is_already_being_sampled_is_known_before_it_comes() -> None:
    bench = Bench(guides=guides(VOCAB), overlap=True)
    bench.add(1, PROMPT, 20, grammar=use(MIXED))
    bench.step()
    assert list(bench.step().counts) == [1]
    assert bench.outputs[1][1:] == [7, 8, 9], "published before the step that samples the 7 is done"
    third = bench.step()
    assert list(third.counts) == [3]
    assert [list(addition.tokens) for addition in third.appended] == [[8, 9]]
    bench.run()
    assert bench.outputs[1] == expected(PROMPT, MIXED)[0]


def test_an_output_may_begin_with_what_is_forced() -> None:
    bench = Bench(guides=guides(VOCAB))
    bench.add(1, PROMPT, 20, grammar=use([[7], [8], ANY]))
    batch = bench.step()
    assert (list(batch.admitted[0].tokens), list(batch.counts)) == ([*PROMPT, 7, 8], [5])
    assert bench.taken[0].forced == 2
    assert bench.taken[0].cache is not None, "the first piece tells of the cache"


def test_an_output_that_is_forced_from_end_to_end_needs_no_step() -> None:
    bench = run([[7], [8], [9]])
    assert (bench.outputs[1], bench.finished[1]) == ([7, 8, 9], Finish("stop"))
    assert bench.scheduler.counters.steps == 0


def test_no_jump_goes_beyond_max_tokens() -> None:
    bench = run([ANY, *[[7]] * 30, ANY], max_tokens=5)
    assert bench.outputs[1][1:] == [7] * 4
    assert bench.finished[1] == Finish("length")


def test_an_end_that_falls_on_max_tokens_is_a_stop() -> None:
    assert run(MIXED, max_tokens=len(MIXED)).finished[1] == Finish("stop")


def test_a_stop_id_comes_only_where_the_grammar_may_end() -> None:
    stops = list(range(0, VOCAB, 2))
    script: Script = [ANY] * 6
    for overlap in (False, True):
        bench = run(script, [4], overlap=overlap, stop_ids=stops)
        assert (bench.outputs[1], bench.finished[1]) == expected(PROMPT, script, [4], stop_ids=stops)
        assert not set(bench.outputs[1][:4]) & set(stops)


def test_a_stop_id_is_never_forced() -> None:
    script: Script = [ANY, [7], [7], ANY]
    bench = Bench(guides=guides(VOCAB))
    bench.add(1, PROMPT, 20, grammar=use(script), stop_ids=[7])
    bench.run()
    assert bench.finished[1] == Finish(
        "error", detail="the grammar allows nothing here but stop tokens, [7], before the output is whole"
    )


def test_log_probabilities_of_forced_tokens_are_marked() -> None:
    for overlap in (False, True):
        bench = run(MIXED, overlap=overlap, sampling=TokenSampling(seed=0, logprobs=0))
        entries = [entry for output in bench.taken for entry in output.logprobs or ()]
        assert [entry.token for entry in entries] == bench.outputs[1]
        assert [entry.forced for entry in entries] == [False, True, True, True, False, False, True]
        assert [entry.logprob for entry in entries] == [-1.0, 0.0, 0.0, 0.0, -1.0, -1.0, 0.0]


def test_prompt_logprobs_come_before_anything_is_forced() -> None:
    bench = run([[7], [8], ANY], sampling=TokenSampling(seed=0, prompt_logprobs=0))
    assert [entry.token for entry in bench.taken[0].prompt_logprobs] == PROMPT[1:]
    assert bench.outputs[1] == expected(PROMPT, [[7], [8], ANY])[0]


def test_forced_tokens_are_counted() -> None:
    bench = run(MIXED)
    assert sum(output.forced for output in bench.taken) == 4
    assert (bench.scheduler.stats().forced_tokens, bench.scheduler.stats().generated_tokens) == (4, 7)


@pytest.mark.parametrize("overlap", [False, True])
@pytest.mark.parametrize("at", [0, 2, 5])
def test_a_matcher_that_fails_ends_its_request_alone(at: int, overlap: bool) -> None:
    script = [[*ANY]] * at + [["raise"]] + [[*ANY]] * 9
    bench = Bench(guides=guides(VOCAB), overlap=overlap)
    bench.add(1, PROMPT, 9, grammar=use(script))
    bench.add(2, PROMPT, 9)
    bench.run()
    assert bench.finished[1] == Finish("error", detail="the grammar failed: RuntimeError('the script says so')")
    assert len(bench.outputs[1]) == at
    assert bench.finished[2] == Finish("length")


def test_a_program_that_cannot_be_loaded_ends_its_request_alone() -> None:
    bench = run([["unloadable"]])
    assert bench.finished[1].reason == "error"
    assert "cannot load what it compiled" in bench.finished[1].detail


def test_a_token_that_the_mask_forbids_ends_the_request() -> None:
    bench = Bench(guides=guides(VOCAB))
    bench.add(1, PROMPT, 9, grammar=use([[7, 8], ANY]))
    batch = bench.scheduler.plan(1)
    masks = bench.scheduler.masks()
    output = bench.worker.execute(batch, masks)
    output.tokens[0] = 9
    bench.scheduler.apply(output)
    bench.collect()
    assert bench.finished[1] == Finish("error", detail="the grammar refused token 9, which its mask did not allow")


def test_masks_are_asked_for_once_and_for_constrained_rows_alone() -> None:
    bench = Bench(guides=guides(VOCAB))
    bench.add(1, PROMPT, 9)
    assert not bench.scheduler.plan(1).masked
    assert bench.scheduler.masks() is None
    bench = Bench(guides=guides(VOCAB))
    bench.add(1, PROMPT, 9)
    bench.add(2, PROMPT, 9, grammar=use(MIXED))
    batch = bench.scheduler.plan(1)
    assert batch.masked
    assert list(bench.scheduler.masks().rows) == [1]
    assert bench.scheduler.masks() is None


def test_a_failed_step_still_gets_its_masks_from_the_next_one_on() -> None:
    bench = Bench(guides=guides(VOCAB))
    bench.add(1, PROMPT, 9, grammar=use(MIXED))
    bench.scheduler.plan(1)
    bench.scheduler.masks()
    bench.add(2, PROMPT, 9, grammar=use(MIXED))
    second = bench.scheduler.plan(2)
    assert bench.scheduler.masks() is None, "they depend on what the first step gives"
    bench.scheduler.fail("RuntimeError: device lost")
    masks = bench.scheduler.masks()
    assert (masks.step, list(masks.rows)) == (second.step, []), "its rows start again"


def test_a_program_is_loaded_once() -> None:
    made = guides(VOCAB)
    assert made._load(use(MIXED)) is made._load(use(MIXED))
    assert made._load(GrammarUse("scripted", b"another", use(MIXED).data)) is not made._load(use(MIXED))


SINGLE = st.lists(st.integers(0, VOCAB - 1), min_size=1, max_size=1)
SETS = st.just([-1, 7, 8]) | st.just([*ANY]) | SINGLE | st.just([4, 5, 6])
SCRIPTS = st.lists(SETS, min_size=1, max_size=14)
REQUESTS = st.lists(
    st.tuples(st.integers(0, 3), st.none() | SCRIPTS, st.integers(0, 14), st.booleans(), st.integers(1, 9)),
    min_size=1,
    max_size=7,
)


@settings(max_examples=200, deadline=None)
@given(
    requests=REQUESTS,
    ends=st.lists(st.integers(1, 14), max_size=3),
    slots=st.integers(24, 48),
    max_step_tokens=st.integers(5, 16),
    page_size=st.sampled_from([1, 2, 4]),
    estimator=st.sampled_from([NoReserve, PeakEstimator]),
    overlap=st.booleans(),
    jumps=st.booleans(),
    aborted=st.dictionaries(st.integers(1, 14), st.integers(1, 7), max_size=2),
)
def test_jumps_change_no_output_whatever_happens_around_them(
    requests, ends, slots, max_step_tokens, page_size, estimator, overlap, jumps, aborted
) -> None:
    bench = Bench(
        slots,
        4,
        max_step_tokens,
        estimator=estimator(page_size),
        page_size=page_size,
        overlap=overlap,
        guides=guides(VOCAB, jumps=jumps),
    )
    due = {}
    for id, (pause, script, max_tokens, logprobs, length) in enumerate(requests, 1):
        prompt = [id % 2] * length
        sampling = TokenSampling(seed=0, logprobs=0 if logprobs else -1)
        grammar = None if script is None else use(script, ends)
        due[id] = expected(prompt, script or [ANY] * 99, ends if script else (), max_tokens)
        bench.add(id, prompt, max_tokens, sampling=sampling, grammar=grammar)
        for _ in range(pause):
            _step(bench, aborted)
    for _ in range(1000):
        if _step(bench, aborted) is None and bench.scheduler.idle:
            break
    assert bench.scheduler.idle
    for id, (tokens, finish) in due.items():
        if bench.finished[id].reason == "abort":
            assert bench.outputs[id] == tokens[: len(bench.outputs[id])]
        else:
            assert (bench.outputs[id], bench.finished[id]) == (tokens, finish)
    bench.scheduler.flush()
    assert bench.scheduler.memory.pool.free == slots // page_size * page_size


def _step(bench: Bench, aborted: dict[int, int]) -> object:
    if (id := aborted.get(bench.scheduler.counters.steps)) is not None:
        bench.scheduler.abort(id, "test")
    return bench.step()
