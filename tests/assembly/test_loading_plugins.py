"""Finding, blocking and loading plugins: listing never fails."""

from __future__ import annotations

import sys
from importlib.util import find_spec

import pytest

from sgframe.assembly.plugins import BUILTIN, Plugin, installed, load_plugins
from sgframe.assembly.providers import Seam


def broken_reason(plugin: Plugin) -> str:
    found = load_plugins(plugins=[plugin])
    assert found.offers() == []
    assert found.loaded == []
    (broken,) = found.broken
    assert broken.plugin is plugin
    return broken.reason


def file_of(plugin: Plugin) -> str:
    file = find_spec(plugin.module).origin
    assert file
    return file


def test_a_plugin_offers_parts_for_several_seams(make_plugin) -> None:
    plugin = make_plugin(
        "foo",
        """
        @hookimpl
        def sgframe_policies():
            return [Provider("b", "m:B"), Provider("a", "m:A")]

        @hookimpl
        def sgframe_caches():
            yield Provider("c", "m:C", "a cache")
        """,
    )
    found = load_plugins(plugins=[plugin])
    assert [(offer.seam, offer.name) for offer in found.offers()] == [
        (Seam.CACHE, "c"),
        (Seam.POLICY, "a"),
        (Seam.POLICY, "b"),
    ]
    assert [offer.name for offer in found.offers(Seam.POLICY)] == ["a", "b"]
    assert found.loaded == [plugin]


@pytest.mark.parametrize(
    ("hook", "seam"),
    [
        ("sgframe_caches", Seam.CACHE),
        ("sgframe_policies", Seam.POLICY),
        ("sgframe_grammars", Seam.GRAMMAR),
        ("sgframe_speculators", Seam.SPECULATOR),
        ("sgframe_transports", Seam.TRANSPORT),
        ("sgframe_model_sources", Seam.SOURCE),
        ("sgframe_backends", Seam.BACKEND),
        ("sgframe_launchers", Seam.LAUNCHER),
    ],
)
def test_each_hook_fills_its_seam(make_plugin, hook: str, seam: Seam) -> None:
    plugin = make_plugin("foo", f"@hookimpl\ndef {hook}(): return [Provider('x', 'm:X')]")
    assert [offer.seam for offer in load_plugins(plugins=[plugin]).offers()] == [seam]


def test_listing_imports_no_target(make_plugin) -> None:
    plugin = make_plugin("foo", "@hookimpl\ndef sgframe_caches(): return [Provider('c', 'there_is_no_such_module:C')]")
    assert [offer.obstacle for offer in load_plugins(plugins=[plugin]).offers()] == [""]


def test_a_plugin_that_cannot_be_imported_harms_nobody(make_plugin, policies) -> None:
    bad = make_plugin("bad", "import there_is_no_such_module", "sgframe-bad", "0.3")
    found = load_plugins(plugins=[bad, policies("good", "a")])
    assert [offer.name for offer in found.offers()] == ["a"]
    assert [str(broken) for broken in found.broken] == [
        "plugin 'bad' (sgframe-bad 0.3) failed: ModuleNotFoundError: No module named 'there_is_no_such_module' "
        f"(at {file_of(bad)}:4); upgrade or uninstall sgframe-bad, or leave it out by --plugin no:bad"
    ]


def test_a_hook_that_raises_makes_its_plugin_broken(make_plugin) -> None:
    plugin = make_plugin("foo", "@hookimpl\ndef sgframe_caches(): return 1 / 0")
    assert broken_reason(plugin) == f"ZeroDivisionError: division by zero (at {file_of(plugin)}:5)"


def test_a_misspelt_hook_is_named_with_the_nearest(make_plugin) -> None:
    reason = broken_reason(make_plugin("foo", "@hookimpl\ndef sgframe_polices(): return []"))
    assert reason == "there is no hook 'sgframe_polices' in plugin API 1; did you mean 'sgframe_policies'?"


def test_a_hook_without_its_mark_is_named(make_plugin) -> None:
    reason = broken_reason(make_plugin("foo", "def sgframe_policies(): return []"))
    assert reason == "put @hookimpl on sgframe_policies"


def test_a_module_without_hooks_is_no_plugin(make_plugin) -> None:
    assert broken_reason(make_plugin("foo", "")) == "it implements no hook of sgframe"


def test_a_hook_with_an_argument_that_is_not_in_its_spec_is_refused(make_plugin) -> None:
    reason = broken_reason(make_plugin("foo", "@hookimpl\ndef sgframe_caches(engine): return []"))
    assert "engine" in reason


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ("['lpm']", "sgframe_caches must give Provider records, found 'lpm'"),
        ("[Provider('My_Cache', 'm:C')]", "the name 'My_Cache' must be lower case letters, digits and hyphens"),
        ("[Provider('c', 'm.C')]", "the target of 'c' must be 'module:Class', found 'm.C'"),
        ("[Provider('c', 'm:C', settings=dict)]", "the settings of 'c' must subclass PluginSettings"),
        ("[Provider('c', 'm:C', settings=Loose)]", "the settings of 'c' must refuse unknown keys"),
        ("[Provider('c', 'm:C', requires='torch')]", "requires must be a tuple of module names, found 'torch'"),
        ("[Provider('c', 'm:C', requires=('a b',))]", "requires must be a tuple of module names, found ('a b',)"),
        ("[Provider('c', 'm:C', api='1')]", "the API number of 'c' must be an integer, found '1'"),
        ("[Provider('c', 'm:C', summary=None)]", "summary and extra of 'c' must be text, found (None, '')"),
        ("[Provider(7, 'm:C')]", "the name 7 must be lower case letters, digits and hyphens"),
        ("[Provider('c', None)]", "the target of 'c' must be 'module:Class', found None"),
        ("None", "sgframe_caches must give Provider records in a list, found None"),
        ("'lpm'", "sgframe_caches must give Provider records in a list, found 'lpm'"),
        ("7", "sgframe_caches must give Provider records in a list, found 7"),
    ],
)
def test_a_provider_that_cannot_be_right_is_refused(make_plugin, answer: str, reason: str) -> None:
    code = f"class Loose(PluginSettings, extra='ignore'): pass\n@hookimpl\ndef sgframe_caches(): return {answer}"
    assert broken_reason(make_plugin("foo", code)).endswith(reason)


def test_a_blocked_plugin_is_not_imported(make_plugin) -> None:
    plugin = make_plugin("foo", "raise SystemExit('imported')")
    found = load_plugins(["foo"], [plugin])
    assert (found.blocked, found.broken, found.unmatched) == ([plugin], [], ())
    assert plugin.module not in sys.modules


def test_a_distributions_name_blocks_what_came_in_it(policies) -> None:
    mine, theirs = policies("lpm", "a"), policies("lpm", "b", distribution="sgframe-foo")
    assert load_plugins(["sgframe-foo"], [mine, theirs]).blocked == [theirs]
    assert load_plugins(["lpm"], [mine, theirs]).blocked == [mine, theirs]


def test_an_empty_word_blocks_nothing(policies) -> None:
    assert load_plugins([""], [policies("foo", "a")]).unmatched == ("",)


def test_a_word_that_blocks_nothing_is_kept(policies) -> None:
    assert load_plugins(["foo", "fo"], [policies("foo", "a")]).unmatched == ("fo",)


def test_a_missing_module_is_an_obstacle(policies) -> None:
    plugin = policies("foo", "a", extra=", requires=('json', 'no_such_module', 'no_such_package.part')")
    (offer,) = load_plugins(plugins=[plugin]).offers()
    assert offer.obstacle == "needs no_such_module, no_such_package.part"


def test_all_built_in_plugins_load_and_come_in_a_fixed_order() -> None:
    found = load_plugins()
    assert [str(broken) for broken in found.broken if broken.plugin.source == "built in"] == []
    assert {plugin.name for plugin in found.loaded if plugin.source == "built in"} == set(BUILTIN)
    assert installed() == sorted(installed(), key=lambda plugin: (plugin.name, plugin.distribution))


def test_a_commands_hook_gets_the_group(make_plugin) -> None:
    import click

    group = click.Group()
    code = "import click\n@hookimpl\ndef sgframe_commands(cli): cli.add_command(click.Command('hello'))"
    load_plugins(plugins=[make_plugin("foo", code)]).add_commands(group)
    assert list(group.commands) == ["hello"]


def test_a_commands_hook_that_raises_makes_its_plugin_broken(make_plugin) -> None:
    import click

    found = load_plugins(plugins=[make_plugin("foo", "@hookimpl\ndef sgframe_commands(cli): cli.nonsense()")])
    found.add_commands(click.Group())
    assert [broken.plugin.name for broken in found.broken] == ["foo"]
