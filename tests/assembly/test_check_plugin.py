"""``check_plugin``: every built-in plugin passes, and one with a fault fails with the message that names it."""

from __future__ import annotations

from pathlib import Path

import pytest

from sgframe.assembly.plugins import BUILTIN
from sgframe.testing import check_plugin


@pytest.mark.parametrize("module", BUILTIN.values())
def test_every_built_in_plugin_passes(module: str) -> None:
    assert set(check_plugin(module)) <= {"llguidance", "xgrammar"}  # which need not be installed


def test_a_part_whose_modules_are_missing_is_named_and_not_looked_at(policies) -> None:
    assert check_plugin(policies("foo", "a", extra=", requires=('no_such_module',)").module) == ["a"]


FCFS = "sgframe_basic.policy:FirstComeFirstServed"


def offering(
    target: str = FCFS, settings: str = "PluginSettings", *, before: str = "", name: str = "a", api: int = 1
) -> str:
    """A hook module that offers one policy."""
    provider = f"Provider({name!r}, {target!r}, settings={settings}, api={api})"
    return f"{before}\n@hookimpl\ndef sgframe_policies():\n    return [{provider}]\n"


WANTING = """
from sgframe.interfaces.policy import Policy

class Wanting(Policy):
    def __init__(self, settings, model): pass
    def order(self, waiting, cache): return waiting
"""
FAULTS = {
    "imports zmq": (
        offering(before="import zmq"),
        "importing hooks_of_foo also imports zmq; keep that behind the target",
    ),
    "imports torch": (
        offering(
            before="import sys\nif 'pytest' not in sys.modules:\n    sys.modules['torch'] = sys.modules['triton'] = sys"
        ),
        "importing hooks_of_foo also imports torch, triton; keep that behind the target",
    ),
    "prints at import": (
        offering(before="print('hello')"),
        "importing hooks_of_foo prints 'hello'; leave out whatever does",
    ),
    "starts a thread at import": (
        offering(
            before="import threading, time\nthreading.Thread(target=time.sleep, args=(0.2,), name='Uploader').start()"
        ),
        "importing hooks_of_foo starts Uploader, and no command of sgframe ends before it does; keep that behind the target",
    ),
    "exits at import": ("raise SystemExit(3)", "hooks_of_foo cannot be imported: SystemExit: 3 (at {file}:4)"),
    "raises in a hook": (
        "@hookimpl\ndef sgframe_policies():\n    raise ValueError('no such order')",
        "ValueError: no such order (at {file}:6)",
    ),
    "cannot be imported": (
        "import no_such_module",
        "hooks_of_foo cannot be imported: ModuleNotFoundError: No module named 'no_such_module' (at {file}:4)",
    ),
    "misspells a hook": (
        "@hookimpl\ndef sgframe_polices():\n    return []",
        "there is no hook 'sgframe_polices' in plugin API 1; did you mean 'sgframe_policies'?",
    ),
    "forgets the decorator": ("def sgframe_policies():\n    return []", "put @hookimpl on sgframe_policies"),
    "offers nothing": ("value = 1", "it implements no hook of sgframe"),
    "returns no providers": (
        "@hookimpl\ndef sgframe_policies():\n    return ['a']",
        "sgframe_policies must give Provider records, found 'a'",
    ),
    "has a name in capitals": (
        offering(name="A"),
        "sgframe_policies: the name 'A' must be lower case letters, digits and hyphens",
    ),
    "has a target that is no target": (
        offering("sgframe_basic.policy"),
        "sgframe_policies: the target of 'a' must be 'module:Class', found 'sgframe_basic.policy'",
    ),
    "offers a name twice": (
        f"@hookimpl\ndef sgframe_policies():\n    return [Provider('a', {FCFS!r}), Provider('a', {FCFS!r}, 'again')]",
        "hooks_of_foo offers the policy 'a' 2 times; give them different names",
    ),
    "has settings that are no model": (
        offering(settings="dict"),
        "sgframe_policies: the settings of 'a' must subclass PluginSettings",
    ),
    "has loose settings": (
        offering(before="class Loose(PluginSettings, extra='ignore'): pass", settings="Loose"),
        "sgframe_policies: the settings of 'a' must refuse unknown keys",
    ),
    "has a setting under an alias": (
        offering(before="class Odd(PluginSettings):\n    most: int = Field(1, alias='maxTokens')", settings="Odd"),
        "sgframe_policies: the settings of 'a' must be called as their fields; drop the alias of most",
    ),
    "has loose settings within its settings": (
        offering(
            before="class Inner(BaseModel):\n    size: int = 1\nclass Odd(PluginSettings):\n    inner: list[Inner] = []",
            settings="Odd",
        ),
        "hooks_of_foo:Odd drops unknown keys within Inner; subclass PluginSettings there, too",
    ),
    "has settings that are nowhere": (
        offering(before="Mine = create_model('Other', __base__=PluginSettings)", settings="Mine"),
        "hooks_of_foo:Other is not the settings model of 'a'; give the model that name there",
    ),
    "has settings inside a function": (
        offering(before="def make():\n    class Local(PluginSettings): pass\n    return Local", settings="make()"),
        "hooks_of_foo:make.<locals>.Local cannot be imported by name; define it at the top of its module",
    ),
    "has settings whose name is taken": (
        offering(before="class Mine(PluginSettings): pass\nKept = Mine\nMine = PluginSettings", settings="Kept"),
        "hooks_of_foo:Mine is not the settings model of 'a'; give the model that name there",
    ),
    "has a summary of two lines": (
        f"@hookimpl\ndef sgframe_policies():\n    return [Provider('a', {FCFS!r}, 'one\\ntwo')]",
        "the summary of 'a' must be one line of plain text",
    ),
    "has a default that raises": (
        offering(
            before="class Odd(PluginSettings):\n    most: int = Field(default_factory=lambda: 1 // 0)", settings="Odd"
        ),
        "the defaults of hooks_of_foo:Odd break its own rules: ZeroDivisionError: integer division or modulo by zero "
        "(at {file}:5)",
    ),
    "is of an API that is to come": (
        offering(api=9),
        "policy 'a' of plugin 'hooks_of_foo' (not installed) speaks plugin API 9, accepted are 0 and 1",
    ),
    "has a target that is not there": (
        offering("no_such_module:A"),
        "policy 'a' (no_such_module:A) of plugin 'hooks_of_foo' (not installed) cannot be imported: "
        "ModuleNotFoundError: No module named 'no_such_module'",
    ),
    "has a target of another seam": (
        offering("sgframe_basic.cache:NoCache"),
        "policy 'a' (sgframe_basic.cache:NoCache) of plugin 'hooks_of_foo' (not installed) is not a "
        "sgframe.interfaces.policy.Policy",
    ),
    "leaves a method out": (
        offering("sgframe.interfaces.policy:Policy"),
        "policy 'a' (sgframe.interfaces.policy:Policy) of plugin 'hooks_of_foo' (not installed) does not implement order",
    ),
    "wants more than a part is given": (
        offering("hooks_of_foo:Wanting", before=WANTING),
        "policy 'a' (hooks_of_foo:Wanting) of plugin 'hooks_of_foo' (not installed) cannot be built as target(settings): "
        "missing a required argument: 'model'",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_plugin_at_fault_is_told_what_is_wrong(make_plugin, tmp_path: Path, fault: str) -> None:
    code, message = FAULTS[fault]
    with pytest.raises(AssertionError) as caught:
        check_plugin(make_plugin("foo", code).module)
    assert str(caught.value) == message.replace("{file}", str(tmp_path / "hooks_of_foo.py"))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ("call: type(print) | None = None", "hooks_of_foo:Odd has what no config file can hold: "),
        (
            "most: NonNegativeInt = -1",
            "the defaults of hooks_of_foo:Odd break its own rules: 1 validation error for Odd",
        ),
    ],
)
def test_settings_at_fault_are_told_in_the_words_of_pydantic(make_plugin, settings: str, message: str) -> None:
    before = f"class Odd(PluginSettings, arbitrary_types_allowed=True):\n    {settings}"
    with pytest.raises(AssertionError) as caught:
        check_plugin(make_plugin("foo", offering(before=before, settings="Odd")).module)
    assert str(caught.value).startswith(message)


def test_what_a_settings_model_computes_is_no_setting(make_plugin) -> None:
    before = """
class Fine(PluginSettings):
    most: int = 3
    @computed_field
    @property
    def twice(self) -> int:
        return 2 * self.most
"""
    assert check_plugin(make_plugin("foo", offering(before=before, settings="Fine")).module) == []


def test_an_installed_plugin_is_named_with_its_distribution(make_plugin, monkeypatch: pytest.MonkeyPatch) -> None:
    foo = make_plugin("foo", offering(api=9), "sgframe-foo", "1.0")
    monkeypatch.setattr("sgframe.testing.plugin.installed", lambda: [foo])
    with pytest.raises(AssertionError, match=r"^policy 'a' of plugin 'foo' \(sgframe-foo 1.0\) speaks plugin API 9"):
        check_plugin(foo.module)


def test_a_backend_that_loads_its_device_library_at_once_is_told(make_plugin) -> None:
    code = """
    from sgframe.interfaces.backend import Backend
    import zmq

    class Heavy(Backend):
        def __init__(self, settings): pass
        def probe(self): pass
        def executor(self): pass
    """
    make_plugin("heavy", code)
    offer = "@hookimpl\ndef sgframe_backends():\n    return [Provider('heavy', 'hooks_of_heavy:Heavy')]"
    with pytest.raises(AssertionError) as caught:
        check_plugin(make_plugin("foo", offer).module)
    assert str(caught.value) == "importing hooks_of_heavy also imports zmq; keep that in the module of the executor"
