"""Copies between host and device, on a device that does them as late as it may."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch
from late_cuda import LateCuda

from sgframe_cuda.streams import Streams


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> Iterator[LateCuda]:
    late = LateCuda()
    late.patch(monkeypatch)
    with late:
        yield late


@pytest.fixture
def streams(cuda: LateCuda) -> Streams:
    return Streams(torch.device("cuda", 0))


@pytest.mark.parametrize(
    "values",
    [
        np.array([3, 1, 2], np.int64),
        np.array([-1, 7], np.int32),
        np.array([0.5, 0.25, 0.125], np.float32),
        np.array([[1, 2, 3], [4, 5, 6]], np.int32).T,
        np.array([], np.int64),
    ],
)
def test_what_is_uploaded_arrives(streams: Streams, values: np.ndarray) -> None:
    (arrived,) = streams.upload([values])
    assert arrived.numpy().dtype == values.dtype
    assert np.array_equal(arrived.numpy(), values)


def test_arrays_of_several_kinds_travel_in_one_copy(streams: Streams, cuda: LateCuda) -> None:
    tokens, lengths, chance = np.arange(3), np.array([5, 6, 7], np.int32), np.array([0.5, 0.75])
    arrived = streams.upload([tokens, lengths, chance])
    assert [each.tolist() for each in arrived] == [[0, 1, 2], [5, 6, 7], [0.5, 0.75]]
    assert all(each.data_ptr() % 16 == 0 for each in arrived)
    assert len(cuda.uploads) == 1


def test_an_array_may_be_changed_once_it_is_uploaded(streams: Streams) -> None:
    values = np.array([1, 2, 3])
    (arrived,) = streams.upload([values])
    values[:] = 9
    assert arrived.tolist() == [1, 2, 3]


def test_uploads_do_not_wait_for_what_is_computed_but_what_is_computed_next_waits_for_them(
    streams: Streams, cuda: LateCuda
) -> None:
    streams.upload([np.arange(3)])
    (ahead,) = cuda.computing.waited_for
    assert cuda.uploads == [ahead]
    assert ahead is not cuda.computing
    assert ahead.waited_for == []


def test_the_allocator_is_told_that_uploaded_memory_is_read_by_the_computing_stream(
    streams: Streams, cuda: LateCuda
) -> None:
    streams.upload([np.arange(3)])
    assert cuda.shared == [cuda.computing]


def test_a_download_is_done_when_it_has_been_waited_for(streams: Streams) -> None:
    coming = streams.download(torch.tensor([4, 5]))
    assert not coming.done()
    assert coming.wait().tolist() == [4, 5]
    assert coming.done()


def test_a_download_gives_what_stood_there_when_it_was_asked_for(streams: Streams) -> None:
    tokens = torch.tensor([4, 5])
    coming = streams.download(tokens)
    tokens.fill_(0)
    assert coming.wait().tolist() == [4, 5]


def test_downloads_have_memory_of_their_own(streams: Streams) -> None:
    first, second = streams.download(torch.tensor([1])), streams.download(torch.tensor([2]))
    assert (first.wait().tolist(), second.wait().tolist()) == ([1], [2])
