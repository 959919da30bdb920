"""Choosing is strict: one part a seam, or an error that names sources and remedy."""

from __future__ import annotations

import json
import pickle
from importlib.util import find_spec

import msgspec
import pytest

from sgframe.assembly.choice import Choice
from sgframe.assembly.choosing import choose, pick
from sgframe.assembly.plugins import BUILTIN, Plugin, Plugins, load_plugins
from sgframe.assembly.providers import PluginSettings, Seam
from sgframe.assembly.settings import Settings
from sgframe.errors import ModelError, PluginError

BASE = [Plugin(name, BUILTIN[name]) for name in ("basic", "local", "simulated")]
PARTS = {"cache": "none", "policy": "fcfs", "grammar": "none", "speculator": "none", "transport": "inproc"}
PARTS |= {"source": "simulated", "backend": "simulated", "launcher": "local"}


def load(*plugins: Plugin, blocked: tuple[str, ...] = ()) -> Plugins:
    return load_plugins(blocked, [*BASE, *plugins])


def settings(**given: object) -> Settings:
    return Settings.model_validate(PARTS | given)


def refused(plugins: Plugins, origins: dict[str, str] | None = None, **given: object) -> str:
    with pytest.raises(PluginError) as caught:
        choose(plugins, settings(**given), origins)
    return str(caught.value)


LPM = """
class LpmSettings(PluginSettings):
    max_rounds: NonNegativeInt = 16
    name: str = ""

@hookimpl
def sgframe_policies():
    return [Provider("lpm", "sgframe_basic.policy:FirstComeFirstServed", settings=LpmSettings)]
"""


def test_every_seam_gets_the_part_that_the_settings_name() -> None:
    choices = choose(load(), settings())
    assert {seam.value: choice.name for seam, choice in choices.items()} == PARTS


def test_a_choice_is_plain_data(make_plugin) -> None:
    plugins = load(make_plugin("lpm", LPM, "sgframe-lpm", "2.0"))
    choice = choose(plugins, settings(policy="lpm", plugin={"lpm": {"max_rounds": 2}}))[Seam.POLICY]
    assert json.loads(msgspec.json.encode(choice)) == {
        "seam": "policy",
        "name": "lpm",
        "target": "sgframe_basic.policy:FirstComeFirstServed",
        "settings": {"max_rounds": 2},
        "settings_model": "hooks_of_sgframe_lpm:LpmSettings",
        "plugin": "plugin 'lpm' (sgframe-lpm 2.0)",
    }
    assert msgspec.json.decode(msgspec.json.encode(choice), type=Choice) == choice
    assert pickle.loads(pickle.dumps(choice)) == choice
    assert choice.validated().model_dump() == {"max_rounds": 2, "name": ""}


# ------------------------------------------------------------------------------------------------ names


def test_an_unknown_name_is_answered_with_the_nearest_and_what_is_on_offer() -> None:
    assert refused(load(), {"policy": "deploy.toml"}, policy="fcfss") == (
        "no plugin offers the policy 'fcfss' (deploy.toml); did you mean 'fcfs'?\n  on offer: fcfs"
    )


def test_an_unknown_name_may_belong_to_a_broken_or_blocked_plugin(make_plugin) -> None:
    bad = make_plugin("bad", "import no_such_module", "sgframe-bad", "0.3")
    message = refused(load(bad, make_plugin("lpm", LPM), blocked=("lpm",)), policy="lpm")
    assert message.splitlines()[2:] == [
        "  plugin 'bad' (sgframe-bad 0.3) failed: ModuleNotFoundError: No module named 'no_such_module' "
        f"(at {find_spec(bad.module).origin}:4); upgrade or uninstall sgframe-bad, or leave it out by --plugin no:bad",
        "  plugin 'lpm' (built in) is blocked",
    ]


def test_a_broken_plugin_that_nobody_asked_for_stops_nothing(make_plugin) -> None:
    assert choose(load(make_plugin("bad", "import no_such_module")), settings())


def test_two_plugins_with_one_name_are_both_named_with_the_remedy(policies) -> None:
    plugins = load(policies("lpm", "lpm"), policies("foo", "lpm", distribution="sgframe-foo"))
    assert refused(plugins, policy="lpm") == (
        "policy 'lpm' is offered more than once:\n"
        "  policy 'lpm' of plugin 'foo' (sgframe-foo 1.0)\n"
        "  policy 'lpm' of plugin 'lpm' (built in)\n"
        "  block all but one: --plugin no:foo or --plugin no:lpm"
    )


def test_blocking_one_of_two_settles_it(policies) -> None:
    plugins = [policies("lpm", "lpm"), policies("foo", "lpm", distribution="sgframe-foo")]
    for blocked, kept in (("foo", "built in"), ("lpm", "sgframe-foo 1.0")):
        choice = choose(load(*plugins, blocked=(blocked,)), settings(policy="lpm"))[Seam.POLICY]
        assert kept in choice.plugin


def test_plugins_that_share_even_their_name_are_blocked_by_distribution(policies) -> None:
    plugins = load(policies("x", "lpm", distribution="sgframe-a"), policies("x", "lpm", distribution="sgframe-b"))
    assert refused(plugins, policy="lpm").endswith("block all but one: --plugin no:sgframe-a or --plugin no:sgframe-b")


def test_one_plugin_with_one_name_twice_is_told_so(policies) -> None:
    assert "different names" in refused(load(policies("foo", "a", "a")), policy="a")


def test_a_conflict_that_nobody_chose_stops_nothing(policies) -> None:
    assert choose(load(policies("a", "lpm"), policies("b", "lpm")), settings())


def test_a_missing_module_stops_the_choice(policies) -> None:
    needy = policies("foo", "a", distribution="sgframe-foo", extra=", requires=('no_such_module',)")
    assert refused(load(needy), policy="a") == (
        "policy 'a' of plugin 'foo' (sgframe-foo 1.0) cannot be chosen: it needs no_such_module, which is not installed "
        "here; install it, or choose another"
    )


def test_blocking_a_plugin_that_is_not_there_is_an_error() -> None:
    assert refused(load(blocked=("simulatd",))) == (
        "cannot block 'simulatd': no plugin has that name; did you mean 'simulated'?"
    )
    assert refused(load(blocked=("fcfs",))) == (
        "cannot block 'fcfs': no plugin has that name; the policy 'fcfs' comes from plugin 'basic' (built in)"
    )


def test_everything_that_is_wrong_is_said_at_once() -> None:
    message = refused(load(), policy="no-policy", cache="no-cache", plugin={"nope": {}})
    assert all(word in message for word in ("'no-policy'", "'no-cache'", "plugin.nope"))


# ------------------------------------------------------------------------------------------------ tables


def test_a_wrong_setting_names_key_and_origin(make_plugin) -> None:
    table = {"max_round": 1, "max_rounds": -1, "name": 5}
    origins = {"plugin.lpm.max_round": "deploy.toml", "plugin.lpm.max_rounds": "environment X"}
    message = refused(load(make_plugin("lpm", LPM)), origins, policy="lpm", plugin={"lpm": table})
    assert message.splitlines() == [
        "wrong settings for policy 'lpm' of plugin 'lpm' (built in):",
        "  plugin.lpm.max_rounds: should be greater than or equal to 0, found -1 (environment X)",
        "  plugin.lpm.name: should be a valid string, found 5; put it in quotes",
        "  plugin.lpm.max_round: unknown setting; did you mean 'max_rounds'? (deploy.toml)",
    ]


def test_a_validator_that_breaks_is_named_with_its_line(make_plugin) -> None:
    broken = """
    name: str = ""

    @field_validator("max_rounds")
    @classmethod
    def _check(cls, value):
        return {}[value]
"""
    code = LPM.replace('\n    name: str = ""\n', broken)
    plugins = load(make_plugin("lpm", "from pydantic import field_validator\n" + code))
    message = refused(plugins, policy="lpm", plugin={"lpm": {"max_rounds": 3}})
    assert message.startswith(
        "the settings of policy 'lpm' of plugin 'lpm' (built in) could not be checked: KeyError: 3 (at "
    )


def test_a_parts_secret_is_not_printed_when_it_is_wrong(make_plugin) -> None:
    code = LPM.replace("name: str", "name: SecretStr").replace('""', 'SecretStr("")')
    plugins = load(make_plugin("lpm", "from pydantic import SecretStr\n" + code))
    assert "12345" not in refused(plugins, policy="lpm", plugin={"lpm": {"name": 12345}})


@pytest.mark.parametrize("value", [True, "5", 5.5, None])
def test_a_parts_numbers_are_not_guessed(make_plugin, value: object) -> None:
    assert "max_rounds" in refused(load(make_plugin("lpm", LPM)), policy="lpm", plugin={"lpm": {"max_rounds": value}})


def test_a_table_that_nobody_offers_is_an_error_with_the_nearest(make_plugin) -> None:
    message = refused(load(make_plugin("lpm", LPM)), {"plugin.lmp": "deploy.toml"}, plugin={"lmp": {}})
    assert message == "plugin.lmp: no plugin offers a part 'lmp' (deploy.toml); did you mean 'lpm'?"


def test_a_table_that_nobody_offers_and_that_is_like_none_may_be_for_a_plugin_to_come(make_plugin) -> None:
    message = refused(load(make_plugin("lpm", LPM)), {"plugin.quux": "deploy.toml"}, plugin={"quux": {}})
    assert message == (
        "plugin.quux: no plugin offers a part 'quux' (deploy.toml); drop the table, or install the plugin that reads it"
    )


def test_a_table_of_a_part_that_is_not_chosen_or_blocked_is_allowed(make_plugin) -> None:
    tables = {"lpm": {"whatever": 1}}
    assert choose(load(make_plugin("lpm", LPM)), settings(plugin=tables))
    assert choose(load(make_plugin("lpm", LPM), blocked=("lpm",)), settings(plugin=tables))


def test_two_chosen_parts_of_one_name_share_a_table(make_plugin) -> None:
    code = """
    class CacheSettings(PluginSettings):
        size: int = 1
    class PolicySettings(PluginSettings):
        rounds: int = 1
    @hookimpl
    def sgframe_caches():
        return [Provider("x", "sgframe_basic.cache:NoCache", settings=CacheSettings)]
    @hookimpl
    def sgframe_policies():
        return [Provider("x", "sgframe_basic.policy:FirstComeFirstServed", settings=PolicySettings)]
    """
    plugins = load(make_plugin("foo", code))
    choices = choose(plugins, settings(cache="x", policy="x", plugin={"x": {"size": 2, "rounds": 3}}))
    assert choices[Seam.CACHE].settings == {"size": 2}
    assert choices[Seam.POLICY].settings == {"rounds": 3}
    assert refused(plugins, cache="x", policy="x", plugin={"x": {"sise": 2}}).count("unknown setting") == 2


# ------------------------------------------------------------------------------------------------ --plugin NAME


def test_a_word_fills_the_seam_that_offers_it(policies) -> None:
    assert pick(load(policies("foo", "lpm")), ["lpm", "inproc", "lpm"]) == {
        Seam.POLICY: "lpm",
        Seam.TRANSPORT: "inproc",
    }


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["none"],
            "--plugin none could fill more than one seam: say --cache none or --grammar none or --speculator none",
        ),
        (["fcfs", "lpm"], "--plugin fcfs and --plugin lpm both fill the policy: drop one"),
        (["lpn"], "no plugin offers 'lpn'; did you mean 'lpm'?"),
        (["foo"], "--plugin foo: the plugin 'foo' offers no part of that name; choose from --policy lpm"),
    ],
)
def test_a_word_that_cannot_be_honoured_is_an_error(policies, words: list[str], message: str) -> None:
    with pytest.raises(PluginError) as caught:
        pick(load(policies("foo", "lpm")), words)
    assert str(caught.value) == message


def test_two_plugins_with_one_word_still_tell_its_seam(policies) -> None:
    assert pick(load(policies("a", "lpm"), policies("b", "lpm")), ["lpm"]) == {Seam.POLICY: "lpm"}


# ------------------------------------------------------------------------------------------------ building


def choice(target: str, seam: Seam = Seam.POLICY) -> Choice:
    model = f"{PluginSettings.__module__}:{PluginSettings.__qualname__}"
    return Choice(seam, "x", target, {}, model, "plugin 'foo' (sgframe-foo 1.0)")


def test_a_choice_builds_its_part_with_settings_and_context(tmp_path) -> None:
    transport = choice("sgframe_basic.inproc:InprocTransport", Seam.TRANSPORT).build(folder=tmp_path)
    assert type(transport).__name__ == "InprocTransport"


@pytest.mark.parametrize(
    ("target", "context", "message"),
    [
        ("no_such_module:X", {}, "cannot be imported: ModuleNotFoundError: No module named 'no_such_module'"),
        ("sgframe_basic.policy:Nope", {}, "cannot be imported: AttributeError"),
        ("json:JSONDecoder", {}, "is not a sgframe.interfaces.policy.Policy"),
        ("sgframe_basic.cache:NoCache", {}, "is not a sgframe.interfaces.policy.Policy"),
        ("sgframe_basic.policy:FirstComeFirstServed", {"nonsense": 1}, "cannot be built: TypeError"),
        ("sgframe.interfaces.policy:Policy", {}, "does not implement order"),
    ],
)
def test_whatever_goes_wrong_names_seam_part_target_and_plugin(target: str, context: dict, message: str) -> None:
    with pytest.raises(PluginError) as caught:
        choice(target).build(**context)
    assert str(caught.value).startswith(f"policy 'x' ({target}) of plugin 'foo' (sgframe-foo 1.0) {message}")


def test_an_error_that_a_part_raises_on_purpose_passes_as_it_is(make_plugin) -> None:
    code = """
    from sgframe.errors import ModelError
    from sgframe_basic.policy import FirstComeFirstServed
    class Picky(FirstComeFirstServed):
        def __init__(self, settings):
            raise ModelError("no such model")
    """
    module = make_plugin("foo", code).module
    with pytest.raises(ModelError, match="no such model"):
        choice(f"{module}:Picky").build()
