"""``check_plugin``: what the built-in plugins pass, and what it finds."""

from __future__ import annotations

import pytest

from sgframe.assembly.plugins import BUILTIN
from sgframe.testing.plugin import check_plugin


@pytest.mark.parametrize("module", BUILTIN.values())
def test_every_built_in_plugin_passes(module: str) -> None:
    assert set(check_plugin(module)) <= {"ascend"}  # its modules exist on Ascend machines only


def test_a_part_whose_modules_are_missing_is_named_and_not_looked_at(policies) -> None:
    assert check_plugin(policies("foo", "a", extra=", requires=('no_such_module',)").module) == ["a"]


OFFER = "@hookimpl\ndef sgframe_policies(): return [Provider('a', {target!r}, settings={settings})]\n"


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("import zmq\n@hookimpl\ndef sgframe_caches(): return []", "also imports zmq"),
        ("import no_such_module", "cannot be imported"),
        ("@hookimpl\ndef sgframe_cache(): return []", "there is no hook 'sgframe_cache'"),
        ("@hookimpl\ndef sgframe_caches(): return [Provider('A', 'm:A')]", "lower case"),
        (OFFER.format(target="no_such_module:A", settings="PluginSettings"), "No module named 'no_such_module'"),
        (OFFER.format(target="json:dumps", settings="PluginSettings"), "is not a sgframe.interfaces.policy.Policy"),
        (OFFER.format(target="sgframe.interfaces.policy:Policy", settings="PluginSettings"), "not implement order"),
        (
            "class Loose(PluginSettings, extra='ignore'): pass\n"
            + OFFER.format(target="sgframe_basic.policy:FirstComeFirstServed", settings="Loose"),
            "must refuse unknown keys",
        ),
        (
            "def make():\n    class Local(PluginSettings): pass\n    return Local\n"
            + OFFER.format(target="sgframe_basic.policy:FirstComeFirstServed", settings="make()"),
            "define it at the top of its module",
        ),
        (
            "@hookimpl\ndef sgframe_policies(): return [Provider('a', 'sgframe_basic.policy:X', api=9)]",
            "speaks plugin API 9",
        ),
    ],
)
def test_what_is_wrong_is_said(make_plugin, code: str, message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        check_plugin(make_plugin("foo", code).module)
