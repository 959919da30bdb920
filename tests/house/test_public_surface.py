"""What others build on changes by a rule: CHANGELOG.md says so, and what would break plugins raises API_VERSION."""

from __future__ import annotations

from pathlib import Path

import public_surface
import pytest
from public_surface import CHANGELOG, SNAPSHOT, Surface, changes, problems, surface

OLD = """
plugin API 3

[hooks]
sgframe_caches() -> Iterable[Provider]
sgframe_stores() -> Iterable[Provider] [deprecated]

[contracts]
sgframe.interfaces.policy.Policy(ABC)
sgframe.interfaces.policy.Policy.order(self, waiting: Waiting) -> Waiting [abstractmethod]
sgframe.interfaces.policy.Policy.victim(self, running: Running) -> Running
sgframe.interfaces.policy.Waiting(Protocol)
sgframe.interfaces.policy.Waiting.id(self) -> int [property]
sgframe.interfaces.backend.Capabilities()
sgframe.interfaces.backend.Capabilities.usable: bool

[settings]
port: int = 30000

[commands]
sgframe plugins [settings]
sgframe plugins --json
"""
SAID = "# Changelog\n\n## 0.2.0\n\nWith plugin API {api}.\n\n- {line}\n\n## 0.1.0\n\nWith plugin API 3, and `Everything`.\n"


def due(before: str, after: str, line: str = "", api: int = 3) -> str:
    """What the rule asks for when the line ``before`` becomes ``after`` and CHANGELOG.md says ``line``."""
    assert before in OLD
    text = OLD.replace(f"{before}\n", f"{after}\n" if after else "").replace("API 3", f"API {api}")
    return "\n".join(problems(Surface.parse(OLD), Surface.parse(text), SAID.format(api=api, line=line)))


PORT = "port: int = 30000"
ORDER = "sgframe.interfaces.policy.Policy.order(self, waiting: Waiting) -> Waiting [abstractmethod]"
VICTIM = "sgframe.interfaces.policy.Policy.victim(self, running: Running) -> Running"
CACHES = "sgframe_caches() -> Iterable[Provider]"
STORES = "sgframe_stores() -> Iterable[Provider] [deprecated]"
ID = "sgframe.interfaces.policy.Waiting.id(self) -> int [property]"
USABLE = "sgframe.interfaces.backend.Capabilities.usable: bool"
JSON = "sgframe plugins --json"


@pytest.fixture(scope="module")
def now() -> Surface:
    return surface()


def test_nothing_has_changed_but_by_the_rule(now: Surface) -> None:
    asked_for = problems(Surface.parse(SNAPSHOT.read_text()), now, CHANGELOG.read_text())
    assert not asked_for, "\n".join(
        [
            "What others build on has changed since the last release; docs/plugins.md, 'Versions', has the rule.",
            *asked_for,
            "All changes: python tests/support/public_surface.py",
        ]
    )


# ------------------------------------------------------------------------------------------------ what is taken down


@pytest.mark.parametrize(
    ("section", "line"),
    [
        ("hooks", "sgframe_commands(cli: click.Group) -> None"),
        ("contracts", "sgframe.interfaces.policy.Policy.honours_priority: ClassVar[bool] = False"),
        ("contracts", "sgframe.interfaces.transport.AsyncChannel.recv(self) -> bytes [abstractmethod, async]"),
        ("contracts", "sgframe.messages.worker.Guess.tokens: Ints"),
        ("contracts", "sgframe.sampling.TokenSampling.top_p: float = 1.0"),
        ("contracts", "sgframe.assembly.providers.Provider.requires: tuple[str, ...] = ()"),
        ("exports", "sgframe.hookimpl"),
        ("exports", "sgframe.Engine.flush_cache(self) -> int"),
        ("exports", "sgframe.SamplingParams.top_p: float = 1.0"),
        ("testing", "sgframe.testing.check_plugin"),
        ("settings", "port: int = 30000"),
        ("settings", "shadow.policy: str | None = None"),
        ("parts", "cache hash-chain"),
        ("parts", "plugin.lpm.max_overtaken: int = 16384"),
        ("commands", "sgframe config show [settings]"),
        ("commands", "sgframe plugins --json"),
        ("commands", "sgframe replay <FILE>"),
    ],
)
def test_the_surface_has_all_that_others_build_on(now: Surface, section: str, line: str) -> None:
    assert line in now.lines[section].values()


def test_what_is_written_is_read_back(now: Surface) -> None:
    assert Surface.parse(str(now)) == now
    assert changes(Surface.parse(str(now)), now) == []


# ------------------------------------------------------------------------------------------------ the rule


def test_what_did_not_change_asks_for_nothing() -> None:
    assert due(PORT, PORT) == ""


@pytest.mark.parametrize(
    ("before", "after", "name"),
    [
        (PORT, f"{PORT}\nuds: str = ''", "uds"),
        (PORT, "port: int = 8000", "port"),
        (PORT, "", "port"),
        (JSON, f"{JSON}\nsgframe plugins --explain", "sgframe plugins --explain"),
        (JSON, "", "sgframe plugins --json"),
        (VICTIM, f"{VICTIM}\nsgframe.interfaces.policy.Policy.pause(self) -> bool", "Policy.pause"),
        (ID, f"{ID}\nsgframe.interfaces.policy.Waiting.age(self) -> int [property]", "Waiting.age"),
        (USABLE, f"{USABLE}\nsgframe.interfaces.backend.Capabilities.ranks: int = 1", "Capabilities.ranks"),
        (CACHES, f"{CACHES}\nsgframe_observers() -> Iterable[Provider]", "sgframe_observers"),
    ],
)
def test_whatever_changes_is_to_be_told(before: str, after: str, name: str) -> None:
    assert due(before, after).endswith(f"\n  Say so in the top section of CHANGELOG.md, with `{name}` in it")
    assert due(before, after, f"There is `{name}` now.") == ""


@pytest.mark.parametrize("line", ["There is uds.", "There is `uds-folder`.", "There is `Everything`.", "`port`"])
def test_another_name_or_section_does_not_tell_it(line: str) -> None:
    assert "with `uds` in it" in due(PORT, f"{PORT}\nuds: str = ''", line)


def test_with_a_class_its_members_are_told_and_with_a_command_its_options() -> None:
    new = "sgframe.interfaces.policy.Seer(ABC)\nsgframe.interfaces.policy.Seer.see(self) -> None [abstractmethod]"
    assert due(USABLE, f"{USABLE}\n{new}", "A seam: `Seer`.") == ""
    assert due(JSON, f"{JSON}\nsgframe doctor\nsgframe doctor --json", "`sgframe doctor` is new.") == ""


@pytest.mark.parametrize(
    ("before", "after", "name"),
    [
        (ORDER, "", "Policy.order"),
        (ORDER, ORDER.replace("waiting: Waiting", "waiting: Waiting, cache: CacheView"), "Policy.order"),
        (VICTIM, VICTIM.replace("-> Running", "-> int"), "Policy.victim"),
        (USABLE, USABLE.replace("bool", "str"), "Capabilities.usable"),
        (ID, "", "Waiting.id"),
        (CACHES, CACHES.replace("()", "(settings)"), "sgframe_caches"),
        (CACHES, f"{CACHES} [deprecated]", "sgframe_caches"),
        (STORES, "", "sgframe_stores"),
    ],
)
def test_what_plugins_were_built_against_does_not_change_without_a_new_number(
    before: str, after: str, name: str
) -> None:
    said = due(before, after, f"`{name}` is another.")
    assert said.endswith(
        "\n  Plugins were built against this: raise API_VERSION in core/sgframe/assembly/providers.py to 4, and see that "
        "plugins of API 3 still work"
    )
    assert due(before, after, f"`{name}` is another.", api=4) == ""


def test_two_changes_ask_for_one_new_number() -> None:
    said = due(f"{ORDER}\n{VICTIM}", "", "`Policy.order` and `Policy.victim` are gone.")
    assert said.count("raise API_VERSION") == 1


@pytest.mark.parametrize(
    ("before", "after", "name"),
    [
        (VICTIM, f"{VICTIM}\nsgframe.interfaces.policy.Policy.pause(self) -> bool [abstractmethod]", "Policy.pause"),
        (VICTIM, f"{VICTIM} [abstractmethod]", "Policy.victim"),
        (ID, f"{ID}\nsgframe.interfaces.policy.Waiting.close(self) -> None", "Waiting.close"),
        (USABLE, f"{USABLE}\nsgframe.interfaces.backend.Capabilities.ranks: int", "Capabilities.ranks"),
    ],
)
@pytest.mark.parametrize("api", [3, 4])
def test_whatever_the_number_older_parts_must_not_lack_anything(before: str, after: str, name: str, api: int) -> None:
    said = due(before, after, f"`{name}` is new.", api)
    assert "Parts that were built before lack it: give it a default that keeps the old behaviour" in said


def test_a_hook_is_kept_under_its_old_name_for_one_number() -> None:
    said = due(CACHES, "sgframe_kv_caches() -> Iterable[Provider]", "`sgframe_kv_caches` for `sgframe_caches`", api=4)
    assert said == (
        f"  - {CACHES}\n  Plugins of the last API implement it: keep it, with "
        "hookspec(warn_on_impl=DeprecationWarning(...)), until API_VERSION is raised once more"
    )


@pytest.mark.parametrize("api", [2, 5])
def test_the_number_grows_by_one(api: int) -> None:
    assert due(PORT, PORT, api=api) == f"API_VERSION is {api}, but was 3 at the last release: raise it by one"


def test_the_changelog_states_the_number() -> None:
    said = problems(
        Surface.parse(OLD), Surface.parse(OLD), "# Changelog\n\n## 0.2.0\n\nNothing.\n\n## 0.1.0\n\nplugin API 3\n"
    )
    assert said == ["CHANGELOG.md: the top section must say 'plugin API 3'"]


# ------------------------------------------------------------------------------------------------ the command


@pytest.fixture
def house(now: Surface, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a surface without the setting ``port``, and a changelog that says nothing of it."""
    (tmp_path / "surface.txt").write_text(str(now).replace("port: int = 30000\n", ""))
    (tmp_path / "CHANGELOG.md").write_text(f"## 0.2.0\n\nplugin API {now.api}\n")
    monkeypatch.setattr(public_surface, "SNAPSHOT", tmp_path / "surface.txt")
    monkeypatch.setattr(public_surface, "CHANGELOG", tmp_path / "CHANGELOG.md")
    return tmp_path


def test_the_surface_is_not_written_while_something_is_due(house: Path, capsys) -> None:
    assert public_surface.main("--write") == 1
    assert "Say so in the top section of CHANGELOG.md, with `port` in it" in capsys.readouterr().out
    assert "port: int" not in (house / "surface.txt").read_text()


def test_the_surface_is_written_once_the_rule_is_followed(now: Surface, house: Path) -> None:
    (house / "CHANGELOG.md").write_text(f"## 0.2.0\n\nplugin API {now.api}\n\n- The setting `port`.\n")
    assert public_surface.main("--write") == 0
    assert (house / "surface.txt").read_text() == str(now)
