"""Progress where there is no terminal: a line in the log now and then."""

from __future__ import annotations

import logging

import pytest

from sgframe_cli.progress import ProgressDisplay

MIB = 2**20


def test_a_line_for_each_quarter(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    with ProgressDisplay() as progress:
        for done in range(41):
            progress("weights", done * MIB, 40 * MIB)
    assert caplog.messages == [f"weights: {done} of 40 MiB" for done in (0, 10, 20, 30, 40)]


def test_work_of_unknown_size_is_named_once_without_a_size(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    with ProgressDisplay() as progress:
        for _ in range(3):
            progress("converting", 0, 0)
    assert caplog.messages == ["converting"]
