"""Who hears of runs that ended."""

from __future__ import annotations

import pytest

from sgframe_dsl.runs import finished, listening
from sgframe_dsl.trace import Trace


def test_a_listener_hears_the_runs_that_end_while_it_listens() -> None:
    heard: list[Trace] = []
    first, second = Trace("first"), Trace("second")
    finished(Trace("before"))
    with listening(heard.append):
        finished(first)
        finished(second)
    finished(Trace("after"))
    assert heard == [first, second]


def test_listeners_do_not_disturb_each_other() -> None:
    outer: list[Trace] = []
    inner: list[Trace] = []
    with listening(outer.append):
        with listening(inner.append):
            finished(Trace("both"))
        finished(Trace("one"))
    assert [len(outer), len(inner)] == [2, 1]


def test_a_listener_goes_also_when_what_it_listened_to_fails() -> None:
    heard: list[Trace] = []
    with pytest.raises(ZeroDivisionError), listening(heard.append):
        raise ZeroDivisionError
    finished(Trace("after"))
    assert heard == []
