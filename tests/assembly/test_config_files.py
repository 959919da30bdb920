"""Config files: formats, and errors that name the file and the line."""

from __future__ import annotations

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
        ("a.yaml", "# nothing\n", ": is empty; it must hold settings such as 'port'"),
        ("a.json", "", ": is empty; it must hold settings such as 'port'"),
        ("a.yaml", "- port\n", ": must hold settings by name, found list"),
        ("a.json", '"port"', ": must hold settings by name, found str"),
        ("a.yaml", "1: x\n", ": setting names are text, found 1"),
        ("a.yaml", "host: x\nport: 1\nport: 2\n", ":3: 'port' is given twice"),
        ("a.yaml", "plugin:\n  lpm: {a: 1, a: 2}\n", ":2: 'a' is given twice"),
        ("a.json", '{"port": 1, "port": 2}', ": 'port' is given twice"),
        ("a.json", '{\n"port": }', ":2: Expecting value"),
        ("a.yaml", "port: [1\nhost: x\n", ":2: expected ',' or ']', but got ':'"),
        ("a.yaml", "a: 1\n---\na: 2\n", ":2: but found another document"),
        ("a.yaml", "model: !!python/object:os.system x\n", ":1: could not determine a constructor"),
        ("a.toml", "plugin = 3\n", ": plugin must hold a table for each part, found 3"),
        ("a.toml", "[plugin]\nlpm = 3\n", ": plugin.lpm must be a table of settings, found 3"),
    ],
)
def test_an_unfit_file_is_named(tmp_path: Path, name: str, text: str, message: str) -> None:
    file = tmp_path / name
    file.write_text(text)
    assert refused(file).startswith(f"{file}{message}")


def test_broken_toml_names_file_and_line(tmp_path: Path) -> None:
    file = tmp_path / "a.toml"
    file.write_text("port = 1\nhost = \n")
    assert refused(file).startswith(f"{file}: ")
    assert "line 2" in refused(file)


def test_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_bytes(b"port: \xff\xfe")
    assert refused(file).startswith(f"{file}: ")


def test_a_missing_file_and_a_folder_are_named(tmp_path: Path) -> None:
    assert refused(tmp_path / "no.toml") == f"{tmp_path / 'no.toml'}: cannot be read: No such file or directory"
    (tmp_path / "folder.toml").mkdir()
    assert refused(tmp_path / "folder.toml") == f"{tmp_path / 'folder.toml'}: cannot be read: Is a directory"
