"""What admission expects running requests to want."""

from __future__ import annotations

import pytest
from scheduler_bench import Bench, expected_output

from sgframe.messages import GenerateRequest, ints
from sgframe.sampling import TokenSampling
from sgframe.scheduler.estimator import PeakEstimator, RatioEstimator
from sgframe.scheduler.request import Request


def request(prompt: int, max_tokens: int, generated: int = 0, matched: int = 0) -> Request:
    """One whose prompt and output so far are computed but for the last token; ``matched`` came from the cache."""
    made = Request.of(GenerateRequest(0, ints([1] * prompt), max_tokens, ints(), TokenSampling(seed=0)), slots=10_000)
    made.tokens.extend([2] * generated)
    made.matched = matched
    made.row = 0 if generated else -1
    made.scheduled = prompt + generated - 1 if generated else matched
    return made


def test_a_share_of_the_output_is_expected_besides_the_known_tokens() -> None:
    assert RatioEstimator().demand([request(10, 100), request(20, 50, generated=10)]) == 10 + 1 + int(0.4 * (100 + 40))


def test_what_is_cached_is_not_wanted_again() -> None:
    assert RatioEstimator().demand([request(10, 0, matched=8)]) == 2


def test_the_share_falls_step_by_step_to_a_tenth() -> None:
    estimator = RatioEstimator()
    estimator.stepped()
    assert estimator.ratio == pytest.approx(0.3995)
    for _ in range(1000):
        estimator.stepped()
    assert estimator.ratio == 0.1


def test_a_retraction_raises_the_share_to_what_was_needed() -> None:
    estimator = RatioEstimator()
    estimator.retracted([request(5, 100, generated=40), request(5, 100, generated=60)])
    assert estimator.ratio == pytest.approx((40 + 20 + 60 + 20) / 200)


def test_an_output_without_a_limit_does_not_keep_all_others_out() -> None:
    assert RatioEstimator().demand([request(10, 9_000)]) == 10 + int(0.4 * 2048)


def test_the_peak_of_one_request_is_its_whole_length() -> None:
    assert PeakEstimator().demand([request(10, 20)]) == 29  # the last output token needs no slot


def test_the_peak_lies_where_the_first_of_two_ends() -> None:
    short, long = request(10, 5, generated=1), request(10, 30, generated=1)
    assert PeakEstimator().demand([short, long]) == 29 - 10 - 0
    assert (
        PeakEstimator().demand([request(100, 5, generated=1), long]) == 2 * 4 + 1
    )  # its 100 slots come back, a step late


def test_what_was_found_cached_does_not_come_back() -> None:
    leaning = request(100, 5, generated=1, matched=100)
    assert PeakEstimator().demand([leaning, request(10, 30, generated=1)]) == 29


def test_pages_are_counted_whole() -> None:
    assert RatioEstimator(16).demand([request(16, 0)] * 3) == 3 * (16 + 15)
    assert PeakEstimator(16).demand([request(16, 0)]) == 16 + 15


@pytest.mark.parametrize("overlap", [False, True])
@pytest.mark.parametrize("page_size", [1, 4])
def test_by_the_peak_nobody_is_retracted(page_size: int, overlap: bool) -> None:
    bench = Bench(48, 8, 64, estimator=PeakEstimator(page_size), page_size=page_size, overlap=overlap)
    prompts = {id: [id, *[3] * (id % 5)] for id in range(1, 20)}
    for id, prompt in prompts.items():
        bench.add(id, prompt, max_tokens=6 + id % 7)
    bench.run()
    assert bench.scheduler.counters.retractions == 0
    assert bench.outputs == {id: expected_output(prompt, 6 + id % 7) for id, prompt in prompts.items()}


def test_after_a_burst_that_ran_out_of_memory_rows_fill_again() -> None:
    estimator = RatioEstimator()
    bench = Bench(64, 8, 64, estimator=estimator)
    for id in range(1, 9):
        bench.add(id, [id] * 3, max_tokens=20)
    bench.run()
    assert bench.scheduler.counters.retractions > 0
    assert estimator.ratio > 0.4
    for _ in range(2000):
        estimator.stepped()
    for id in range(11, 19):
        bench.add(id, [id] * 3, max_tokens=20)
    bench.step()
    assert len(bench.scheduler.running) == 8
