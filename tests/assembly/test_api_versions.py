"""A plugin for this plugin API or the one before works; any other is listed with the reason and refused when chosen."""

from __future__ import annotations

import sys
from types import ModuleType

import pytest

from sgframe.assembly import choosing, hooks, hookspecs, plugins
from sgframe.assembly.choosing import choose
from sgframe.assembly.plugins import Plugin, load_plugins
from sgframe.assembly.providers import API_VERSION, Provider, Seam
from sgframe.assembly.settings import Settings
from sgframe.errors import PluginError
from sgframe.interfaces.policy import Policy
from sgframe.testing.queue import FixedCache


class OldestFirst(Policy):
    """All that the contract asked for when its plugin was written."""

    def __init__(self, settings) -> None:
        self.settings = settings

    def order(self, waiting, cache):
        return waiting


@pytest.fixture(autouse=True)
def importable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, __name__, sys.modules[__name__])


def plugin(make_plugin, api: int | None, hook: str = "sgframe_policies", name: str = "oldest") -> Plugin:
    stated = "" if api is None else f", api={api}"
    code = f"@hookimpl\ndef {hook}(): return [Provider('oldest', '{__name__}:OldestFirst'{stated})]\n"
    return make_plugin(name, code, f"sgframe-{name}", "1.0")


@pytest.fixture
def next_version(monkeypatch: pytest.MonkeyPatch) -> int:
    """sgframe as it will be once the number has been raised."""
    version = API_VERSION + 1
    for module in (choosing, hooks):
        monkeypatch.setattr(module, "API_VERSION", version)
    monkeypatch.setattr(plugins, "ACCEPTED_API", (API_VERSION, version))
    return version


def built(*found: Plugin) -> Policy:
    return choose(load_plugins(plugins=found), Settings(policy="oldest"), seams=[Seam.POLICY])[Seam.POLICY].build()


def refused(*found: Plugin) -> str:
    with pytest.raises(PluginError) as caught:
        built(*found)
    return str(caught.value)


# ------------------------------------------------------------------------------------------------ which are accepted


@pytest.mark.parametrize("api", [API_VERSION - 1, API_VERSION])
def test_a_plugin_for_this_number_or_the_one_before_is_built(make_plugin, api: int) -> None:
    assert built(plugin(make_plugin, api)).order([1, 2], FixedCache()) == [1, 2]


def test_a_newer_plugin_is_listed_and_refused_with_the_reason(make_plugin) -> None:
    newer = plugin(make_plugin, API_VERSION + 1)
    assert [offer.obstacle for offer in load_plugins(plugins=[newer]).offers()] == [
        f"speaks plugin API {API_VERSION + 1}, accepted are {API_VERSION - 1} and {API_VERSION}"
    ]
    assert refused(newer) == (
        "policy 'oldest' of plugin 'oldest' (sgframe-oldest 1.0) cannot be chosen: "
        f"it speaks plugin API {API_VERSION + 1}, accepted are {API_VERSION - 1} and {API_VERSION}; "
        "upgrade sgframe, or install an older sgframe-oldest"
    )


def test_one_older_than_the_one_before_is_refused_with_the_reason(make_plugin, next_version: int) -> None:
    assert refused(plugin(make_plugin, API_VERSION - 1)) == (
        "policy 'oldest' of plugin 'oldest' (sgframe-oldest 1.0) cannot be chosen: "
        f"it speaks plugin API {API_VERSION - 1}, accepted are {API_VERSION} and {next_version}; "
        "upgrade sgframe-oldest"
    )


def test_a_plugin_that_states_no_number_is_for_the_first_whatever_is_installed() -> None:
    assert Provider("a", "m:A").api == 1


# ------------------------------------------------------------------------------------------------ what it lacks


def test_an_older_plugin_gets_the_defaults_of_methods_and_attributes_it_lacks(
    make_plugin, next_version: int, monkeypatch
) -> None:
    monkeypatch.setattr(Policy, "patience", lambda self, request: 7, raising=False)
    monkeypatch.setattr(Policy, "reads_patience", False, raising=False)
    policy = built(plugin(make_plugin, API_VERSION))
    assert (policy.patience(None), policy.reads_patience) == (7, False)


@pytest.mark.parametrize(
    ("contract", "optional"),
    [
        ("backend.Backend", set()),
        ("backend.Executor", {"join", "follow", "fatal"}),
        ("cache.Cache", {"keeps"}),
        ("grammar.CompiledGrammar", set()),
        ("grammar.Grammar", {"kinds", "prepare"}),
        ("grammar.Matcher", set()),
        ("policy.Policy", {"honours_priority", "victim"}),
        ("source.ModelSource", set()),
        ("source.Tokenizer", {"serialized"}),
        ("speculator.Speculator", {"guesses"}),
        ("transport.AsyncChannel", set()),
        ("transport.Channel", set()),
        ("transport.Transport", {"in_process"}),
    ],
)
def test_what_a_part_may_leave_out_has_a_default(contract: str, optional: set[str]) -> None:
    module, name = contract.split(".")
    abc = getattr(__import__(f"sgframe.interfaces.{module}", fromlist=[name]), name)
    minimal = type("Minimal", (abc,), {method: lambda self, *_: None for method in abc.__abstractmethods__})
    assert minimal() is not None
    assert {member for member in vars(abc) if not member.startswith("_")} - abc.__abstractmethods__ == optional


# ------------------------------------------------------------------------------------------------ renamed hooks


@pytest.fixture
def renamed(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if ``sgframe_policies`` were now called ``sgframe_orders``."""
    specs = ModuleType("hookspecs_of_the_next_version")
    specs.__dict__.update({name: spec for name, spec in vars(hookspecs).items() if name.startswith("sgframe_")})

    def sgframe_orders():
        """Offer scheduling policies."""

    def sgframe_policies():
        """Called sgframe_orders now."""

    specs.sgframe_orders = hookspecs.hookspec(sgframe_orders)
    warning = DeprecationWarning("sgframe_policies is called sgframe_orders since plugin API 2")
    specs.sgframe_policies = hookspecs.hookspec(warn_on_impl=warning)(sgframe_policies)
    monkeypatch.setattr(hooks, "hookspecs", specs)
    monkeypatch.setattr(hooks, "HOOKS", {"sgframe_orders": Seam.POLICY} | hooks.HOOKS)


def test_a_hook_is_called_by_its_old_name_too_and_its_author_is_warned(make_plugin, next_version, renamed) -> None:
    with pytest.warns(DeprecationWarning, match="sgframe_policies is called sgframe_orders since plugin API 2"):
        assert isinstance(built(plugin(make_plugin, API_VERSION)), OldestFirst)


def test_a_hook_is_called_by_its_new_name(make_plugin, next_version, renamed) -> None:
    assert isinstance(built(plugin(make_plugin, next_version, "sgframe_orders")), OldestFirst)


@pytest.mark.filterwarnings("ignore:sgframe_policies is called:DeprecationWarning")
def test_a_plugin_for_both_numbers_offers_its_part_once(make_plugin, next_version, renamed) -> None:
    both = plugin(make_plugin, API_VERSION, "sgframe_policies").module
    code = f"from {both} import sgframe_policies\n@hookimpl\ndef sgframe_orders(): return sgframe_policies()"
    assert isinstance(built(make_plugin("both", code)), OldestFirst)


def test_a_plugin_for_the_new_name_alone_is_told_that_the_hook_is_unknown_to_an_old_sgframe(make_plugin) -> None:
    found = load_plugins(plugins=[plugin(make_plugin, API_VERSION + 1, "sgframe_orders")])
    assert [broken.reason for broken in found.broken] == [
        f"there is no hook 'sgframe_orders' in plugin API {API_VERSION}; did you mean 'sgframe_policies'?"
    ]
