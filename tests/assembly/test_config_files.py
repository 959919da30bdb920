"""Config files: formats, and errors that name the file and the line."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sgframe.assembly.settings import read_settings
from sgframe.errors import ConfigError


def refused(file: Path) -> str:
    with pytest.raises(ConfigError) as caught:
        read_settings(None, file)
    return str(caught.value)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.toml", "port = 1\n[plugin.lpm]\nmax_rounds = 2\n"),
        ("a.yaml", "port: 1\nplugin:\n  lpm:\n    max_rounds: 2\n"),
        ("a.yml", "{port: 1, plugin: {lpm: {max_rounds: 2}}}"),
        ("a.json", '{"port": 1, "plugin": {"lpm": {"max_rounds": 2}}}'),
        ("a.JSON", '\ufeff{"port": 1, "plugin": {"lpm": {"max_rounds": 2}}}'),
    ],
)
def test_the_suffix_tells_the_format(tmp_path: Path, name: str, text: str) -> None:
    file = tmp_path / name
    file.write_text(text, encoding="utf-8")
    settings = read_settings(None, file).settings
    assert (settings.port, settings.plugin) == (1, {"lpm": {"max_rounds": 2}})


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.ini", "x", ": the suffix '.ini' is not one of .toml, .yaml, .yml, .json"),
        ("a", "x", ": the suffix '' is not one of .toml, .yaml, .yml, .json"),
        ("a.toml", " \n", ": is empty; it must hold settings such as 'port'"),
        ("a.toml", "# port = 1\n", ": is empty; it must hold settings such as 'port'"),
        ("a.yaml", "# nothing\n", ": is empty; it must hold settings such as 'port'"),
        ("a.yaml", "---\n", ": is empty; it must hold settings such as 'port'"),
        ("a.json", "", ": is empty; it must hold settings such as 'port'"),
        ("a.json", "null", ": is empty; it must hold settings such as 'port'"),
        ("a.json", "{}", ": is empty; it must hold settings such as 'port'"),
        ("a.yaml", "- port\n", ": must hold settings by name, found list"),
        ("a.json", "[]", ": must hold settings by name, found list"),
        ("a.json", '"port"', ": must hold settings by name, found str"),
        ("a.toml", "plugin = 3\n", ": plugin must hold a table for each part, found 3"),
        ("a.toml", "[plugin]\nlpm = 3\n", ": plugin.lpm must be a table of settings, found 3"),
    ],
)
def test_a_file_that_holds_no_settings_is_named(tmp_path: Path, name: str, text: str, message: str) -> None:
    file = tmp_path / name
    file.write_text(text)
    assert refused(file) == f"{file}{message}"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("host: x\nport: 1\nport: 2\n", "3: 'port' is given twice"),
        ("plugin:\n  lpm: {a: 1, a: 2}\n", "2: 'a' is given twice"),
        ("port: [1\nhost: x\n", "2: expected ',' or ']', but got ':'"),
        ("plugin:\n\tlpm: {}\n", "2: is indented by a tab: use spaces"),
        ("a: 1\n---\na: 2\n", "2: holds more than one document: drop what follows '---'"),
        ("1: x\n", "1: names are text, and '1' is not: put it in quotes"),
        ("plugin:\n  no: {}\n", "2: names are text, and 'no' is not: put it in quotes"),
        ("? [a]\n: x\n", "1: names are text, and a list or table is not: put it in quotes"),
        ("port: 1\npolicy: no\n", "2: 'no' is false to some readers of YAML only: write false, or 'no' in quotes"),
        ("overlap: On\n", "1: 'On' is true to some readers of YAML only: write true, or 'On' in quotes"),
        ("blocked: [off]\n", "1: 'off' is false to some readers of YAML only: write false, or 'off' in quotes"),
        ("port: 8:20\n", "1: '8:20' is 500 to some readers of YAML only: write 500, or '8:20' in quotes"),
        (
            "step_timeout: 1:30.5\n",
            "1: '1:30.5' is 90.5 to some readers of YAML only: write 90.5, or '1:30.5' in quotes",
        ),
        ("port: 010\n", "1: '010' is 8 to some readers of YAML only: write 8, or '010' in quotes"),
        ("plugin: &all\n  lpm: *all\n", "1: contains itself"),
        ("port: *port\n", "1: found undefined alias 'port'"),
        ("host: x\nport: \x00", "2: holds the character 0x0000: is this a text?"),
        ("model: 2026-99-99\n", "1: month must be in 1..12"),
        ("host: x\nport: !!int many\n", "2: invalid literal for int() with base 10: 'many'"),
        ("overlap: !!bool maybe\n", "1: 'maybe' is no bool, as its tag says"),
        ("model: !!timestamp today\n", "1: 'today' is no timestamp, as its tag says"),
        ("port: 1e3\n", "1: '1e3' is 1000 to some readers of YAML only: write 1000, or '1e3' in quotes"),
        ("model: 0.5E1\n", "1: '0.5E1' is 5 to some readers of YAML only: write 5, or '0.5E1' in quotes"),
        ("api_key: 0899\n", "1: '0899' is 899 to some readers of YAML only: write 899, or '0899' in quotes"),
        ("port: 0o17\n", "1: '0o17' is 15 to some readers of YAML only: write 15, or '0o17' in quotes"),
        ("port: 8_000\n", "1: '8_000' is 8000 to some readers of YAML only: write 8000, or '8_000' in quotes"),
        ("port: 0b11\n", "1: '0b11' is 3 to some readers of YAML only: write 3, or '0b11' in quotes"),
        (
            "plugin:\n  a: {<<: [{b: 1}, {b: 2}]}\n",
            "2: 'b' is in more than one of the tables that are merged: drop all but one",
        ),
    ],
)
def test_a_trap_of_yaml_is_named_with_its_line(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "a.yaml"
    file.write_text(text)
    assert refused(file) == f"{file}:{message}"


def test_yaml_makes_no_objects(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text("model: !!python/object:os.system x\n")
    assert refused(file).startswith(f"{file}:1: could not determine a constructor for the tag")


def test_what_yaml_readers_agree_on_is_taken(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text(
        "policy: 'no'\noverlap: False\nport: 0\nstep_timeout: 2.5\nplugin: {a: &a {b: 1}, c: {<<: *a, d: 2}}\n"
    )
    settings = read_settings(None, file).settings
    assert (settings.policy, settings.overlap, settings.port, settings.step_timeout) == ("no", False, 0, 2.5)
    assert settings.plugin == {"a": {"b": 1}, "c": {"b": 1, "d": 2}}


def test_a_table_that_overrides_what_it_merges_can_be_merged_itself(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text(
        "shadow: {plugin: {a: &a {one: 1}, c: &c {<<: *a, one: 2}}}\n"
        "plugin: {c: {<<: *c}, d: {<<: [*a, {two: 3}], one: 4}}\n"
    )
    settings = read_settings(None, file).settings
    assert settings.plugin == {"c": {"one": 2}, "d": {"one": 4, "two": 3}}
    assert settings.shadow is not None
    assert settings.shadow.plugin == {"a": {"one": 1}, "c": {"one": 2}}


@pytest.mark.parametrize("alias", ["[{}]", "{{<<: [{}]}}"], ids=["lists", "merges"])
def test_a_few_aliases_that_stand_for_very_much_are_refused(tmp_path: Path, alias: str) -> None:
    file = tmp_path / "a.yaml"
    lines = [f"  a{i}: &a{i} " + alias.format(", ".join([f"*a{i - 1}"] * 9)) for i in range(1, 40)]
    file.write_text("\n".join(["plugin:", "  a0: &a0 {x: 1}", *lines]))
    message = "stands for more than 10000 values, aliases counted: is this a config file?"
    assert refused(file).endswith(message)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("port = 1\nhost = \n", "2: Invalid value"),
        ("port = 1\nport = 2\n", "2: a name is given twice"),
        ("[plugin.lpm]\n[plugin.lpm]\n", "2: Cannot declare ('plugin', 'lpm') twice"),
        ("port = 1\nhost = 'x", ' Expected "\'" (at end of document)'),
    ],
)
def test_broken_toml_is_named_with_its_line(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "a.toml"
    file.write_text(text)
    assert refused(file) == f"{file}:{message}"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{\n"port": }', "2: Expecting value"),
        ('{"port": 1, "port": 2}', " 'port' is given twice"),
        ('{"plugin": {"lpm": {"a": 1, "a": 2}}}', " 'a' is given twice"),
    ],
)
def test_broken_json_is_named(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "a.json"
    file.write_text(text)
    assert refused(file) == f"{file}:{message}"


@pytest.mark.parametrize("suffix", ["toml", "yaml", "json"])
def test_bytes_that_are_no_text_are_named_with_their_line(tmp_path: Path, suffix: str) -> None:
    file = tmp_path / f"a.{suffix}"
    file.write_bytes(b"port\n\xff\xfe")
    assert refused(file) == f"{file}:2: is not UTF-8 text (invalid start byte); save it as UTF-8"


@pytest.mark.parametrize("suffix", ["toml", "yaml", "json"])
def test_a_byte_order_mark_is_no_part_of_the_text(tmp_path: Path, suffix: str) -> None:
    file = tmp_path / f"a.{suffix}"
    file.write_text({"toml": "port = 1", "yaml": "port: 1", "json": '{"port": 1}'}[suffix], encoding="utf-8-sig")
    assert read_settings(None, file).settings.port == 1


@pytest.mark.parametrize("suffix", ["toml", "yaml", "json"])
def test_an_enormous_file_is_not_read(tmp_path: Path, suffix: str) -> None:
    file = tmp_path / f"a.{suffix}"
    with file.open("wb") as stream:
        stream.truncate(2**40)
    assert refused(file) == f"{file}: is larger than 256 KiB; is this the config file?"


@pytest.mark.parametrize(("suffix", "text"), [("toml", "port = {}"), ("yaml", "port: {}"), ("json", '{{"port": {}}}')])
def test_a_number_that_is_too_long_is_refused(tmp_path: Path, suffix: str, text: str) -> None:
    file = tmp_path / f"a.{suffix}"
    file.write_text(text.format("9" * 5000))
    assert refused(file).startswith((f"{file}: Exceeds the limit", f"{file}:1: Exceeds the limit"))


@pytest.mark.parametrize(
    ("suffix", "text"), [("toml", "a = " + "[" * 9000), ("yaml", "[" * 600), ("json", "[" * 90_000)]
)
def test_what_is_nested_very_deeply_is_refused(tmp_path: Path, suffix: str, text: str) -> None:
    file = tmp_path / f"a.{suffix}"
    file.write_text(text)
    assert refused(file) == f"{file}: is nested too deeply to be a config file"


def test_a_file_that_is_none_is_named(tmp_path: Path) -> None:
    assert refused(tmp_path / "no.toml") == f"{tmp_path / 'no.toml'}: cannot be read: No such file or directory"
    (tmp_path / "folder.toml").mkdir()
    assert refused(tmp_path / "folder.toml") == f"{tmp_path / 'folder.toml'}: is a folder; name a file"
    os.mkfifo(tmp_path / "pipe.toml")
    assert refused(tmp_path / "pipe.toml") == f"{tmp_path / 'pipe.toml'}: is no regular file; name a file"
