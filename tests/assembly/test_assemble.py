"""From values and ``--plugin`` words to a configuration, and whether its device is there."""

from __future__ import annotations

from pathlib import Path

import pytest

from sgframe.assembly.assemble import assemble, configure
from sgframe.assembly.choosing import choice_of
from sgframe.assembly.devices import probe_offer, require_usable
from sgframe.assembly.plugins import Plugin, load_plugins
from sgframe.assembly.providers import Seam
from sgframe.errors import BackendUnavailable, ConfigError

SIMULATED = {"backend": "simulated", "source": "simulated"}


def test_a_word_chooses_and_says_so_in_the_origin(tmp_path: Path) -> None:
    file = tmp_path / "a.toml"
    file.write_text("policy = 'lpm'")
    configuration = configure({}, ["fcfs"], file, {"SGFRAME_POLICY": "lpm"})
    assert configuration.settings.policy == "fcfs"
    assert configuration.origins["policy"] == "command line --plugin fcfs"


def test_a_word_beside_an_option_for_the_same_seam_must_agree() -> None:
    assert configure({"policy": "fcfs"}, ["fcfs"]).settings.policy == "fcfs"
    with pytest.raises(ConfigError, match="--policy lpm and --plugin fcfs both fill the policy: drop one"):
        configure({"policy": "lpm"}, ["fcfs"])


def test_no_blocks_a_plugin_beside_those_blocked_elsewhere() -> None:
    configuration = configure({}, ["no:cuda"], None, {"SGFRAME_BLOCKED": "ascend"})
    assert [plugin.name for plugin in configuration.plugins.blocked] == ["ascend", "cuda"]


def test_assemble_gives_settings_and_parts() -> None:
    configuration, choices = assemble(SIMULATED | {"port": 1}, None, {})
    assert configuration.settings.port == 1
    assert choices[Seam.BACKEND].name == "simulated"


# ------------------------------------------------------------------------------------------ settings that nobody reads

LPM = {"plugin": {"lpm": {"max_overtaken": 3}}}
FCFS = SIMULATED | {"policy": "fcfs"}


@pytest.mark.parametrize(
    ("values", "words", "environ", "message"),
    [
        (
            FCFS | LPM,
            (),
            {},
            "plugin.lpm.max_overtaken: nobody reads it (command line --set lpm.max_overtaken); the policy is 'fcfs': say "
            "--policy lpm, or drop it",
        ),
        (
            FCFS,
            (),
            {"SGFRAME_PLUGIN__LPM__MAX_OVERTAKEN": "3"},
            "plugin.lpm.max_overtaken: nobody reads it (environment SGFRAME_PLUGIN__LPM__MAX_OVERTAKEN); the policy is "
            "'fcfs': say --policy lpm, or drop it",
        ),
        (
            FCFS | LPM,
            ["no:lpm"],
            {},
            "plugin.lpm.max_overtaken: nobody reads it (command line --set lpm.max_overtaken); the plugin 'lpm' is blocked: "
            "drop one of the two",
        ),
    ],
)
def test_what_is_said_for_this_start_and_read_by_nobody_is_an_error(
    values: dict, words: list[str], environ: dict[str, str], message: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        configure(values, words, None, environ).choose()
    assert str(caught.value) == message


def test_a_part_in_shadow_reads_its_settings() -> None:
    shadow = configure(FCFS | LPM | {"shadow": {"policy": "lpm"}}).choose().shadow
    assert shadow is not None
    assert shadow.policy.settings == {"max_overtaken": 3}


def test_a_file_may_hold_settings_of_parts_that_are_not_chosen(tmp_path: Path) -> None:
    file = tmp_path / "a.toml"
    file.write_text("policy = 'fcfs'\n[plugin.lpm]\nmax_overtaken = 3")
    assert configure(SIMULATED, (), file).choose()[Seam.POLICY].name == "fcfs"
    with pytest.raises(ConfigError, match="max_overtaken: nobody reads it"):
        configure(SIMULATED | LPM, (), file).choose()


# ------------------------------------------------------------------------------------------ devices

BACKENDS = """
from sgframe.interfaces.backend import Backend, Capabilities
class Absent(Backend):
    def __init__(self, settings): pass
    def executor(self): raise NotImplementedError
    def probe(self): return Capabilities(usable=False, reason="there is no such device")
class Crashing(Absent):
    def probe(self): raise OSError("no driver")
@hookimpl
def sgframe_backends():
    yield Provider("absent", __name__ + ":Absent")
    yield Provider("crashing", __name__ + ":Crashing")
    yield Provider("needy", __name__ + ":Absent", requires=("no_such_module",))
"""


def test_a_backend_that_cannot_run_gives_its_reason_and_those_that_can(make_plugin) -> None:
    plugins = load_plugins(plugins=[make_plugin("foo", BACKENDS), Plugin("simulated", "sgframe_simulated")])
    absent, crashing, needy, simulated = plugins.offers(Seam.BACKEND)
    with pytest.raises(BackendUnavailable) as caught:
        require_usable(plugins, choice_of(absent, {}))
    assert str(caught.value) == (
        "backend 'absent' cannot run here: there is no such device\n"
        "  can run here: simulated; choose one, for example --backend simulated"
    )
    assert require_usable(plugins, choice_of(simulated, {})).usable
    assert probe_offer(crashing).reason.endswith("failed: OSError: no driver")
    assert probe_offer(needy).reason == "needs no_such_module"
