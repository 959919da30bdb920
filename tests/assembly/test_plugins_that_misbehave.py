"""What the code of a plugin may do when plugins are listed: the others are listed all the same, and it is told on."""

from __future__ import annotations

import logging
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from sgframe.assembly import guard
from sgframe.assembly.choosing import choose
from sgframe.assembly.plugins import Plugin, load_plugins
from sgframe.assembly.providers import Seam
from sgframe.assembly.settings import Settings
from sgframe.errors import PluginError

OFFER = "\n@hookimpl\ndef sgframe_policies(): return [Provider('a', 'sgframe_basic.policy:FirstComeFirstServed')]\n"


@pytest.fixture
def reason(policies):
    """Why a plugin is broken, the file's path left out; one beside it must be listed."""

    def reason(plugin: Plugin) -> str:
        found = load_plugins(plugins=[plugin, policies("good", "b")])
        assert [offer.name for offer in found.offers()] == ["b"]
        (broken,) = found.broken
        assert broken.plugin is plugin
        return broken.reason.replace(f"(at {sys.path[0]}/{plugin.module}.py:", "(at line ")

    return reason


@contextmanager
def patience(monkeypatch: pytest.MonkeyPatch, seconds: float) -> Iterator[None]:
    with monkeypatch.context() as patch:
        patch.setattr(guard, "PATIENCE", seconds)
        yield


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("raise ValueError('no such eviction')", "ValueError: no such eviction (at line 4)"),
        ("raise ValueError('two\\nlines')", "ValueError: two lines (at line 4)"),
        ("def f(:", "SyntaxError: invalid syntax"),
        ("import sys; sys.exit(3)", "SystemExit: 3 (at line 4)"),
        ("raise BaseException('mine')", "BaseException: mine (at line 4)"),
        ("def deep(n): deep(n + 1)\ndeep(0)", "RecursionError: maximum recursion depth exceeded (at line 4)"),
        ("Provider('a', 'm:A', colour='red')", "got an unexpected keyword argument 'colour' (at line 4)"),
    ],
)
def test_what_is_raised_at_import_is_told_with_its_line(make_plugin, reason, code: str, said: str) -> None:
    assert said in reason(make_plugin("foo", code + OFFER))


def test_a_long_message_is_cut(make_plugin, reason) -> None:
    assert len(reason(make_plugin("foo", "raise ValueError('word ' * 10_000)"))) < 600


def test_the_line_is_the_plugins_own_even_when_a_library_raises(make_plugin, reason) -> None:
    assert reason(make_plugin("foo", "import json\njson.loads('')")).endswith("(at line 5)")


@pytest.mark.parametrize(
    "code",
    ["import time; time.sleep(60)", "while True: pass", "import threading; threading.Event().wait()"],
)
def test_one_that_hangs_at_import_is_given_up_and_named(make_plugin, reason, monkeypatch, code: str) -> None:
    with patience(monkeypatch, 0.2):
        assert reason(make_plugin("foo", code)).startswith("it was given up after 0.2 s, which it spent (at ")


def test_one_that_hangs_and_catches_what_stops_it_is_given_up(make_plugin, reason, monkeypatch) -> None:
    code = "import time\nfor _ in range(3):\n    try: time.sleep(60)\n    except BaseException: pass"
    with patience(monkeypatch, 0.2):
        assert "no hook" in reason(make_plugin("foo", code))  # it ends in the end


def test_one_that_hangs_in_its_hook_is_given_up(make_plugin, reason, monkeypatch) -> None:
    code = "import time\n@hookimpl\ndef sgframe_caches(): time.sleep(60)"
    with patience(monkeypatch, 0.2):
        assert reason(make_plugin("foo", code)) == "it was given up after 0.2 s, which it spent (at line 6)"


def test_a_timer_that_ran_before_goes_on(policies) -> None:
    handler, timer = signal.getsignal(signal.SIGALRM), signal.getitimer(signal.ITIMER_REAL)
    try:
        mine = signal.signal(signal.SIGALRM, lambda *_: None) and signal.getsignal(signal.SIGALRM)
        signal.setitimer(signal.ITIMER_REAL, 50.0)
        load_plugins(plugins=[policies("foo", "a")])
        assert signal.getsignal(signal.SIGALRM) is mine
        assert 45 < signal.getitimer(signal.ITIMER_REAL)[0] <= 50
    finally:
        signal.signal(signal.SIGALRM, handler)
        signal.setitimer(signal.ITIMER_REAL, *timer)


def test_plugins_can_be_loaded_in_any_thread(policies) -> None:
    found = []
    thread = threading.Thread(target=lambda: found.extend(load_plugins(plugins=[policies("foo", "a")]).offers()))
    thread.start()
    thread.join()
    assert [offer.name for offer in found] == ["a"]


def test_what_one_prints_is_logged_under_its_name_and_not_printed(make_plugin, capsys, caplog) -> None:
    plugin = make_plugin("foo", "print('hello')" + OFFER, "sgframe-foo", "1.0")
    assert [offer.name for offer in load_plugins(plugins=[plugin]).offers()] == ["a"]
    assert capsys.readouterr().out == ""
    assert caplog.record_tuples == [
        (
            "sgframe.assembly.guard",
            logging.WARNING,
            "plugin 'foo' (sgframe-foo 1.0) prints 'hello' while it is listed; a hook module must have no side effects",
        )
    ]


def test_a_thread_that_one_leaves_is_logged_under_its_name(make_plugin, caplog) -> None:
    code = "import threading\nend = threading.Event()\nthreading.Thread(target=end.wait, name='Uploader').start()"
    plugin = make_plugin("foo", code + OFFER, "sgframe-foo", "1.0")
    assert [offer.name for offer in load_plugins(plugins=[plugin]).offers()] == ["a"]
    sys.modules[plugin.module].end.set()
    assert caplog.messages == [
        "plugin 'foo' (sgframe-foo 1.0) starts 'Uploader', a thread without whose end no command ends, while it is listed; "
        "a hook module must have no side effects"
    ]


def test_a_commands_hook_that_exits_ends_nothing(make_plugin) -> None:
    import click

    plugin = make_plugin("foo", "@hookimpl\ndef sgframe_commands(cli): raise SystemExit(3)")
    found = load_plugins(plugins=[plugin])
    found.add_commands(click.Group())
    assert [broken.reason.partition(" (at")[0] for broken in found.broken] == ["sgframe_commands: SystemExit: 3"]


def test_ctrl_c_ends_the_listing(make_plugin) -> None:
    with pytest.raises(KeyboardInterrupt):
        load_plugins(plugins=[make_plugin("foo", "raise KeyboardInterrupt")])


def test_a_part_that_exits_when_it_is_imported_is_named(make_plugin, policies) -> None:
    part = make_plugin("part", "raise SystemExit(3)")
    plugin = make_plugin("foo", f"@hookimpl\ndef sgframe_policies(): return [Provider('a', '{part.module}:A')]")
    choice = choose(load_plugins(plugins=[plugin]), Settings(policy="a"), seams=[Seam.POLICY])[Seam.POLICY]
    with pytest.raises(PluginError, match=r"^policy 'a' .* of plugin 'foo' .* cannot be imported: SystemExit: 3 \(at "):
        choice.load()
