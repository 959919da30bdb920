"""The process that compiles kernels beside the one that loads the model."""

from __future__ import annotations

import numpy as np
import pytest

from sgframe_cpu import compiling


def test_there_is_none_where_the_cache_has_the_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiling, "is_cached", lambda function, signature: True)
    assert compiling.start_helper() is None


def test_it_ends_when_the_other_process_is_gone() -> None:
    helper = compiling.Helper()
    assert helper._process.stdin is not None
    helper._process.stdin.close()  # as the system does for who dies
    assert helper._process.wait(60) == 0


def test_telling_or_ending_one_that_is_dead_does_nothing() -> None:
    helper = compiling.Helper()
    helper._process.kill()
    helper._process.wait()
    helper.tell(np.uint16, 64)
    helper.end()
    helper.end()
    helper.tell(np.uint16, 64)
