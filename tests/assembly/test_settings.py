"""Where settings come from, which source wins, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from sgframe.assembly.settings import KEYS, Resolved, Settings, read_settings
from sgframe.errors import ConfigError


def write(folder: Path, text: str, name: str = "deploy.toml") -> Path:
    file = folder / name
    file.write_text(text)
    return file


def refused(
    command_line: dict[str, object] | None = None, file: Path | None = None, environ: dict[str, str] | None = None
) -> str:
    with pytest.raises(ConfigError) as caught:
        read_settings(command_line, file, environ)
    return str(caught.value)


def value_and_origin(resolved: Resolved, key: str) -> tuple[object, str]:
    return getattr(resolved.settings, key), resolved.origins[key]


def test_every_setting_has_a_description_and_a_default_that_is_valid() -> None:
    assert all(field.description for field in Settings.model_fields.values())
    assert Settings.model_validate(Settings().model_dump()) == Settings()


def test_without_any_source_every_origin_is_default() -> None:
    resolved = read_settings()
    assert resolved.settings == Settings()
    assert resolved.origins == dict.fromkeys(KEYS, "default")


def test_each_source_beats_the_ones_before_it(tmp_path: Path) -> None:
    file = write(tmp_path, "port = 1\nmax_running = 1\nhost = 'file'\n")
    environ = {"SGFRAME_PORT": "2", "SGFRAME_MAX_RUNNING": "2"}
    resolved = read_settings({"port": "3"}, file, environ)
    assert value_and_origin(resolved, "port") == (3, "command line --port")
    assert value_and_origin(resolved, "max_running") == (2, "environment SGFRAME_MAX_RUNNING")
    assert value_and_origin(resolved, "host") == ("file", str(file))
    assert value_and_origin(resolved, "dtype") == ("auto", "default")


def test_a_flag_beats_the_file_even_when_it_equals_the_default(tmp_path: Path) -> None:
    resolved = read_settings({"port": 30000}, write(tmp_path, "port: 16\n", "deploy.yaml"), {"SGFRAME_PORT": "32"})
    assert value_and_origin(resolved, "port") == (30000, "command line --port")


@pytest.mark.parametrize(
    ("name", "text"), [("a.toml", "log_json = false"), ("a.yaml", "log_json: false"), ("a.json", '{"log_json": false}')]
)
def test_false_in_a_file_is_honoured(tmp_path: Path, name: str, text: str) -> None:
    file = write(tmp_path, text, name)
    assert value_and_origin(read_settings(None, file), "log_json") == (False, str(file))


def test_false_on_the_command_line_beats_true_elsewhere(tmp_path: Path) -> None:
    resolved = read_settings({"log_json": False}, write(tmp_path, "log_json = true"), {"SGFRAME_LOG_JSON": "true"})
    assert resolved.settings.log_json is False


def test_false_in_a_file_beats_a_parts_true_default(tmp_path: Path) -> None:
    resolved = read_settings(None, write(tmp_path, "[plugin.x]\nfast = false\n"))
    assert resolved.settings.plugin == {"x": {"fast": False}}


@pytest.mark.parametrize(("text", "value"), [("true", True), ("0", False), ("off", False), ("Yes", True)])
def test_truth_values_in_the_environment(text: str, value: bool) -> None:
    assert read_settings(environ={"SGFRAME_LOG_JSON": text}).settings.log_json is value


def test_an_empty_variable_counts_as_unset(tmp_path: Path) -> None:
    resolved = read_settings(
        None, write(tmp_path, "port = 1"), {"SGFRAME_PORT": "", "SGFRAME_PORTT": "", "SGFRAME_CONFIG": ""}
    )
    assert resolved.settings.port == 1


def test_an_option_that_was_not_given_is_none_and_sets_nothing() -> None:
    assert read_settings({"port": None}).origins["port"] == "default"


def test_variables_of_others_are_ignored() -> None:
    assert read_settings(environ={"PORT": "1", "XSGFRAME_PORT": "2"}).settings.port == 30000


def test_a_foreign_dotenv_file_is_ignored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, "DB_HOST=db\nSGFRAME_PORT=1\nSGFRAME_NONSENSE=1\n", ".env")
    monkeypatch.chdir(tmp_path)
    assert read_settings(environ={}).settings == Settings()


def test_the_environment_can_name_the_file_and_the_command_line_another(tmp_path: Path) -> None:
    first, second = write(tmp_path, "port = 1", "first.toml"), write(tmp_path, "port = 2", "second.toml")
    environ = {"SGFRAME_CONFIG": str(first)}
    assert read_settings(None, None, environ).settings.port == 1
    assert read_settings(None, second, environ).settings.port == 2


# ------------------------------------------------------------------------------------------------ the parts' tables


def test_parts_tables_merge_key_by_key(tmp_path: Path) -> None:
    file = write(tmp_path, "[plugin.lpm]\na = 1\nb = 1\nc = 1\n")
    resolved = read_settings({"plugin": {"lpm": {"c": 3}}}, file, {"SGFRAME_PLUGIN__LPM__B": "2"})
    assert resolved.settings.plugin == {"lpm": {"a": 1, "b": 2, "c": 3}}
    assert resolved.origins["plugin.lpm.a"] == str(file)
    assert resolved.origins["plugin.lpm.b"] == "environment SGFRAME_PLUGIN__LPM__B"
    assert resolved.origins["plugin.lpm.c"] == "command line --set lpm.c"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2", 2),
        ("0.5", 0.5),
        ("true", True),
        ('"2"', "2"),
        ("main", "main"),
        ("[1, 2]", [1, 2]),
        ("1\nx = 2", "1\nx = 2"),
    ],
)
def test_a_parts_setting_in_the_environment_is_read_as_toml_else_as_text(text: str, value: object) -> None:
    assert read_settings(environ={"SGFRAME_PLUGIN__LPM__K": text}).settings.plugin["lpm"]["k"] == value


def test_an_underscore_in_a_variable_stands_for_the_hyphen_in_a_parts_name() -> None:
    assert read_settings(environ={"SGFRAME_PLUGIN__HASH_CHAIN__PAGE_SIZE": "4"}).settings.plugin == {
        "hash-chain": {"page_size": 4}
    }


def test_block_lists_add_up(tmp_path: Path) -> None:
    file = write(tmp_path, "blocked = ['a']")
    resolved = read_settings({"blocked": ["d"]}, file, {"SGFRAME_BLOCKED": "b, c"})
    assert resolved.settings.blocked == ["a", "b", "c", "d"]
    assert resolved.origins["blocked"] == f"{file}, environment SGFRAME_BLOCKED, command line --plugin"


# ------------------------------------------------------------------------------------------------ misspelt


def test_a_misspelt_key_in_a_file_names_the_file_and_the_nearest(tmp_path: Path) -> None:
    file = write(tmp_path, "max_runing = 3")
    assert refused(file=file) == f"unknown setting 'max_runing' ({file}); did you mean 'max_running'?"


def test_a_misspelt_variable_names_the_nearest() -> None:
    assert refused(environ={"SGFRAME_PORTT": "1"}) == ("unknown variable SGFRAME_PORTT; did you mean 'SGFRAME_PORT'?")


@pytest.mark.parametrize("variable", ["SGFRAME_PLUGIN_LPM_MAX_ROUNDS", "SGFRAME_PLUGIN__LPM_MAX_ROUNDS"])
def test_a_single_underscore_is_answered_with_the_double_one(variable: str) -> None:
    assert refused(environ={variable: "2"}) == (
        f"unknown variable {variable}; a part's setting is written SGFRAME_PLUGIN__LPM__MAX_ROUNDS"
    )


def test_a_variable_after_a_seam_is_answered_with_the_parts_form() -> None:
    assert "SGFRAME_PLUGIN__RADIX__PAGE_SIZE" in refused(environ={"SGFRAME_RADIX__PAGE_SIZE": "2"})
    assert "SGFRAME_PLUGIN__" in refused(environ={"SGFRAME_CACHE_PAGE_SIZE": "2"})
    assert "SGFRAME_PLUGIN__NAME__KEY" in refused(environ={"SGFRAME_PLUGIN": "{}"})


def test_all_misspelt_variables_are_named_at_once() -> None:
    assert refused(environ={"SGFRAME_PORTT": "1", "SGFRAME_HOSST": "x"}).count("unknown variable") == 2


def test_a_misspelt_argument_names_the_nearest() -> None:
    assert refused({"modle": "x"}) == "unknown setting 'modle' (command line --modle); did you mean 'model'?"


# ------------------------------------------------------------------------------------------------ wrong values


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("port: abc", "'abc'"),
        ("port: true", "True"),
        ("port: '30000'", "'30000'"),
        ("port: 1.5", "1.5"),
        ("port: 70000", "70000"),
        ("port: null", "None"),
        ("log_json: 1", "1"),
        ("log_json: 'false'", "'false'"),
        ("log_interval: .inf", "inf"),
        ("drain_timeout: -1", "-1"),
        ("model: ''", "''"),
        ("dtype: int8", "'int8'"),
        ("blocked: lpm", "'lpm'"),
    ],
)
def test_a_wrong_value_names_key_found_and_file(tmp_path: Path, line: str, found: str) -> None:
    file = write(tmp_path, line, "deploy.yaml")
    message = refused(file=file)
    assert message.startswith(line.split(":", maxsplit=1)[0] + ": ")
    assert message.endswith(f", found {found} ({file})")


def test_text_that_reads_as_a_number_must_be_quoted(tmp_path: Path) -> None:
    file = write(tmp_path, "model = 5")
    assert refused(file=file) == f"model: should be a valid string, found 5; put it in quotes ({file})"


def test_a_wrong_value_names_the_variable() -> None:
    message = refused(environ={"SGFRAME_PORT": "abc"})
    assert message == "port: should be a valid integer, found 'abc' (environment SGFRAME_PORT)"


def test_a_wrong_value_names_the_option() -> None:
    message = refused({"port": "-1"})
    assert message == "port: should be greater than or equal to 0, found -1 (command line --port)"


def test_a_whole_number_may_stand_for_seconds(tmp_path: Path) -> None:
    assert read_settings(None, write(tmp_path, "drain_timeout = 5")).settings.drain_timeout == 5.0


def test_the_key_is_never_printed(tmp_path: Path) -> None:
    assert "12345" not in refused(file=write(tmp_path, "api_key = 12345"))
    assert "hunter2" not in repr(read_settings({"api_key": "hunter2"}).settings)


@pytest.mark.parametrize(
    ("text", "size"),
    [("auto", 0), ("2GiB", 2 * 2**30), ("500MB", 500 * 10**6), ("1.5 GiB", 3 * 2**29), ("4096", 4096), (4096, 4096)],
)
def test_memory_sizes(text: object, size: int) -> None:
    assert read_settings({"kv_memory": text}).settings.kv_bytes == size


@pytest.mark.parametrize("key", ["max_running", "kv_slots", "context_length", "compile_processes"])
def test_a_number_that_no_machine_can_count_to_is_refused(key: str) -> None:
    assert read_settings({key: "2147483647", "max_step_tokens": "2147483647"}).settings.max_step_tokens == 2**31 - 1
    message = f"{key}: must be at most 2147483647, found 2147483648 (command line --{key.replace('_', '-')})"
    assert refused({key: "2147483648", "max_step_tokens": "2147483647"}) == message


@pytest.mark.parametrize("key", ["kv_memory", "compile_memory", "journal_limit"])
def test_a_size_that_no_message_can_carry_is_refused(key: str) -> None:
    assert refused({key: "8EiB"}).startswith(f"{key}: is more memory than there is: write a size such as '2GiB'")


@pytest.mark.parametrize("key", ["model", "host", "journal"])
def test_a_text_that_no_path_can_hold_is_refused(tmp_path: Path, key: str) -> None:
    file = write(tmp_path, f'{key} = "a\\u0000b"')
    message = f"{key}: holds the character 0, which no name or path has, found 'a\\x00b' ({file})"
    assert refused(file=file) == message


@pytest.mark.parametrize("host", ["0..0.0.0", f"{'a' * 64}.example.com"])
def test_a_name_that_no_machine_can_have_is_refused(host: str) -> None:
    message = f"host: is no address and no name that a machine can have, found '{host}' (command line --host)"
    assert refused({"host": host}) == message
    several = {"tp_size": 2, "nnodes": 2, "dist_addr": f"{host}:29500"}
    assert refused(several).startswith(f"dist_addr is '{host}:29500': write host:port")


@pytest.mark.parametrize("host", ["0.0.0.0", "::1", "fe80::1%lo", "node-0.example.com", "rechner-ö"])
def test_addresses_and_names_of_machines_are_taken(host: str) -> None:
    assert read_settings({"host": host}).settings.host == host


@pytest.mark.parametrize("text", ["[" * 5000, "9" * 5000], ids=["nested", "long"])
def test_a_parts_setting_that_cannot_be_read_as_toml_is_text(text: str) -> None:
    settings = read_settings(environ={"SGFRAME_PLUGIN__X__NUMBER": text}).settings
    assert settings.plugin == {"x": {"number": text}}


@pytest.mark.parametrize("value", ["lots", "2 XB", "-1", "0", "", True, 1.5, None])
def test_a_wrong_memory_size_says_what_is_right(tmp_path: Path, value: object) -> None:
    with pytest.raises(ValueError, match="kv_memory") as caught:
        Settings.model_validate({"kv_memory": value})
    assert "'auto'" in str(caught.value)


def test_a_step_that_cannot_hold_all_running_requests_is_refused() -> None:
    assert refused({"max_running": 8, "max_step_tokens": 7}) == (
        "max_step_tokens is 7, less than max_running, 8: each running request needs a token a step; raise the one or "
        "lower the other"
    )
