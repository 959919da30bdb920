"""Memory of an arena: aligned, apart, and given back."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

from sgframe_cpu.arena import Arena


def test_each_piece_begins_with_a_cache_line():
    arena = Arena()
    assert [arena.bytes(size).ctypes.data % 64 for size in (1, 63, 64, 65, 4096)] == [0] * 5


def test_pieces_do_not_overlap():
    arena = Arena()
    pieces = [arena.bytes(1000) for _ in range(20)]
    for number, piece in enumerate(pieces):
        piece[:] = number
    assert all((piece == number).all() for number, piece in enumerate(pieces))


def test_a_piece_may_be_larger_than_a_chunk():
    assert len(Arena().bytes(200 * 2**20)) == 200 * 2**20


def test_a_large_piece_takes_nothing_of_a_chunk():
    arena = Arena()
    first, _, second = arena.bytes(64), arena.bytes(8 * 2**20), arena.bytes(64)
    assert second.ctypes.data == first.ctypes.data + 64


def test_memory_goes_with_the_last_piece_of_its_chunk():
    arena = Arena()
    first, second = arena.bytes(10), arena.bytes(10)
    chunk = weakref.ref(first.base)
    del arena, first
    gc.collect()
    second[:] = 1
    assert chunk() is not None
    del second
    gc.collect()
    assert chunk() is None


def test_memory_that_is_not_there_is_a_memory_error():
    with pytest.raises(MemoryError, match="cannot allocate 4611686018427387904 bytes"):
        Arena().bytes(2**62)


def test_pieces_can_be_written():
    piece = Arena().bytes(16).view(np.uint32)
    piece[:] = 7
    assert piece.tolist() == [7, 7, 7, 7]
