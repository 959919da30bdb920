"""The settings of a server, and where each value came from.

Rising order: defaults, config file, environment, command line. Owns names, types and merging; what a part's own table may
hold is that part's business and checked once it is chosen.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import (
    BaseModel,
    ByteSize,
    ConfigDict,
    Field,
    SecretStr,
    TypeAdapter,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from sgframe.assembly.hints import nearest
from sgframe.assembly.sources import Given, from_command_line, from_environment, from_file
from sgframe.errors import ConfigError

CONFIG_VARIABLE = "SGFRAME_CONFIG"
_BYTES = TypeAdapter(ByteSize)
_ADDRESS = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^\[\]:/\s]+):(?P<port>[0-9]{1,5})")
LEAST_COMPILE_BYTES = 256 * 2**20
MOST_COUNT = 2**31 - 1
"""Of whatever is counted: rows, slots and tokens are numbered in 32 bits."""
MOST_SIZE = 2**63 - 1
"""Bytes, which messages carry in 64 bits."""


class ShadowSettings(BaseModel):
    """A second policy and cache that see the same requests and are only measured; what is left open is as in service."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    policy: str | None = Field(None, min_length=1, description="Policy in shadow; the service's if unset")
    cache: str | None = Field(None, min_length=1, description="Cache in shadow; the service's if unset")
    plugin: dict[str, dict[str, Any]] = Field({}, description="Settings of the parts in shadow, over the service's")


class Settings(BaseModel):
    """Everything that can be set, except the parts' own tables, which stand unchecked in ``plugin``."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)

    model: str = Field(
        "smollm2-135m", min_length=1, description="Model: a folder, a .gguf file, a hub id or a bundled name"
    )
    served_model_name: str | None = Field(
        None, min_length=1, description="Name that clients ask for; the model's if unset"
    )
    backend: str = Field("cpu", description="Device backend that runs the model")
    cache: str = Field("radix", description="Prefix cache")
    policy: str = Field("lpm", description="Order in which waiting requests are taken")
    grammar: str = Field("compressed-fsm", description="What constrains structured output")
    more_grammars: str = Field("", description="Further grammars that a request may name, separated by commas")
    jump_forward: bool = Field(True, description="Write what a grammar forces without asking the model")
    compile_seconds: float = Field(5.0, gt=0, description="Most seconds that a constraint may take to compile")
    compile_memory: str = Field("2GiB", description="Most memory of a process that compiles constraints")
    compile_processes: int = Field(2, ge=1, description="Most processes that compile constraints")
    speculator: str = Field("none", description="What guesses tokens to come, which a step then verifies")
    wide_step: int = Field(
        16, ge=1, description="Tokens that make a step take twice as long as one does; guesses pay in narrower ones"
    )
    transport: str = Field("zmq", description="Channels between the processes")
    source: str = Field("hf", description="Where models are found")
    launcher: str = Field("local", description="What starts the processes, and where")
    replicas: int = Field(
        1, ge=1, description="Copies of the model, each with a scheduler of its own, behind one front"
    )
    dtype: Literal["auto", "bfloat16", "float16", "float32"] = Field(
        "auto", description="Number format of weights and KV"
    )
    context_length: int = Field(
        0, ge=0, description="Most tokens of a request, prompt and output; 0: what the model allows"
    )
    max_running: int = Field(64, ge=1, description="Most requests that run at once")
    max_waiting: int = Field(10000, ge=1, description="Most requests that wait; further ones are refused")
    max_step_tokens: int = Field(512, ge=1, description="Most tokens computed in one step")
    admission: Literal["ratio", "peak"] = Field(
        "ratio", description="Memory kept for outputs: a share that follows experience, or all that max_tokens allows"
    )
    overlap: bool = Field(True, description="Plan the next step while the device computes the last")
    max_leases: int = Field(1024, ge=0, description="Most prefixes that are kept for programs between their calls")
    lease_share: float = Field(0.5, ge=0, le=1, description="Most of the KV slots that are kept for programs")
    lease_seconds: float = Field(600.0, gt=0, description="Seconds for which a prefix is kept for a program")
    kv_slots: int = Field(0, ge=0, description="KV slots, one a token; 0: as many as kv_memory holds")
    kv_memory: str = Field("auto", description="Memory for KV, such as 2GiB; auto: sized by what the device has free")
    tp_size: int = Field(1, ge=1, description="Ranks that share the model by tensor parallelism, a process each")
    nnodes: int = Field(1, ge=1, description="Machines that the ranks stand on, the same number on each")
    node_rank: int = Field(0, ge=0, description="Number of this machine; number 0 serves, the others follow it")
    dist_addr: str | None = Field(
        None, min_length=1, description="host:port at which machine 0 lets the others join; needed with several"
    )
    step_timeout: float = Field(
        300.0, ge=1, description="Seconds that a rank may take for a step before the others give up on it"
    )
    digest_interval: int = Field(
        64, ge=1, description="Steps between two comparisons of what the ranks applied, with several of them"
    )
    host: str = Field("127.0.0.1", min_length=1, description="Address to listen on")
    port: int = Field(30000, ge=0, le=65535, description="Port to listen on; 0: a free one")
    api_key: SecretStr | None = Field(None, min_length=1, description="Key that clients must send as a bearer token")
    debug_tree: Literal["off", "lengths", "text"] = Field(
        "off", description="What GET /debug/tree tells of cached prefixes; text: their beginnings, too"
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field("info", description="Least severity that is logged")
    log_json: bool = Field(False, description="Log one JSON object a line")
    log_interval: float = Field(5.0, gt=0, description="Seconds between the lines on throughput")
    journal: str | None = Field(None, min_length=1, description="New file that records what sgframe replay needs")
    journal_limit: str = Field("1GiB", description="Size at which the journal ends")
    drain_timeout: float = Field(30.0, ge=0, description="Seconds that running requests get to finish at shutdown")
    request_timeout: float = Field(0.0, ge=0, description="Seconds after which a request is ended; 0: never")
    blocked: list[str] = Field(
        [], description="Plugins that are not loaded; file, environment and --plugin no:NAME add up"
    )
    shadow: ShadowSettings | None = Field(None, description="A second policy and cache, run in shadow and measured")
    plugin: dict[str, dict[str, Any]] = Field({}, description="The parts' own settings, a table for each part")

    @field_validator("*")
    @classmethod
    def _check_extremes(cls, value: Any) -> Any:
        if isinstance(value, int) and value > MOST_COUNT:
            raise ValueError(f"must be at most {MOST_COUNT}")
        if isinstance(value, str) and "\0" in value:
            raise ValueError("holds the character 0, which no name or path has")
        return value

    @field_validator("host")
    @classmethod
    def _check_host(cls, value: str) -> str:
        if not _is_name(value):
            raise ValueError("is no address and no name that a machine can have")
        return value

    @field_validator("kv_memory", mode="before")
    @classmethod
    def _check_kv_memory(cls, value: Any) -> Any:
        if value == "auto":
            return value
        return _size(value, or_else="'auto', ", if_nothing="; 'auto' sizes it by what the device has free")

    @field_validator("journal_limit", "compile_memory", mode="before")
    @classmethod
    def _check_size(cls, value: Any) -> Any:
        return _size(value)

    @model_validator(mode="after")
    def _check_compile_memory(self) -> Self:
        if self.compile_bytes < LEAST_COMPILE_BYTES:
            raise ValueError(
                f"compile_memory is {self.compile_memory}: a process that compiles takes {LEAST_COMPILE_BYTES // 2**20} MiB "
                "before it has begun; raise it"
            )
        return self

    @model_validator(mode="after")
    def _check_step(self) -> Self:
        if self.max_step_tokens < self.max_running:
            raise ValueError(
                f"max_step_tokens is {self.max_step_tokens}, less than max_running, {self.max_running}: each running "
                "request needs a token a step; raise the one or lower the other"
            )
        return self

    @model_validator(mode="after")
    def _check_ranks(self) -> Self:
        if self.tp_size % self.nnodes:
            raise ValueError(
                f"tp_size is {self.tp_size}, which nnodes, {self.nnodes}, does not divide: each machine takes as many ranks"
            )
        if self.node_rank >= self.nnodes:
            raise ValueError(
                f"node_rank is {self.node_rank}, but with nnodes {self.nnodes} the machines are 0 … {self.nnodes - 1}"
            )
        if (self.nnodes > 1) != (self.dist_addr is not None):
            raise ValueError(
                f"dist_addr is {self.dist_addr!r} with nnodes {self.nnodes}: several machines need the host:port of "
                "machine 0, a single one needs none"
            )
        address = _ADDRESS.fullmatch(self.dist_addr or "")
        if self.dist_addr is not None and not (address and 0 < int(address["port"]) < 2**16 and _is_name(address[1])):
            raise ValueError(
                f"dist_addr is {self.dist_addr!r}: write host:port, such as 192.0.2.7:29500 or [2001:db8::7]:29500"
            )
        return self

    @model_validator(mode="after")
    def _check_replicas(self) -> Self:
        for name, value in (("nnodes", self.nnodes > 1), ("journal", self.journal)):
            if self.replicas > 1 and value:
                raise ValueError(
                    f"replicas is {self.replicas} and {name} is {getattr(self, name)!r}, which is for one replica only: "
                    "drop one of the two"
                )
        return self

    @property
    def local_ranks(self) -> int:
        """Ranks on this machine."""
        return self.tp_size // self.nnodes

    @property
    def kv_bytes(self) -> int:
        """``kv_memory`` in bytes; 0 for ``auto``."""
        return 0 if self.kv_memory == "auto" else int(_BYTES.validate_python(self.kv_memory))

    @property
    def compile_bytes(self) -> int:
        """``compile_memory`` in bytes."""
        return int(_BYTES.validate_python(self.compile_memory))

    @property
    def grammars(self) -> list[str]:
        """The server's own grammar, and those that requests may name beside it."""
        named = [name.strip() for name in self.more_grammars.split(",")]
        return list(dict.fromkeys([self.grammar, *filter(None, named)]))

    @property
    def journal_bytes(self) -> int:
        """``journal_limit`` in bytes."""
        return int(_BYTES.validate_python(self.journal_limit))


def _is_name(host: str) -> bool:
    """Whether the system's resolver can be asked for ``host``: it is an address, or no label of it is empty or too long."""
    try:
        host.encode("idna")
    except UnicodeError:
        return False
    return True


def _size(value: Any, *, or_else: str = "", if_nothing: str = "") -> str:
    """``value`` as text, if it is a size in bytes."""
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        raise ValueError(f"must be {or_else}a size such as '2GiB', or a number of bytes")
    try:
        size = _BYTES.validate_python(value)
    except ValidationError:
        raise ValueError(f"must be {or_else}a size such as '2GiB' or '500MB', or a number of bytes") from None
    if size <= 0:
        raise ValueError(f"must be more than nothing{if_nothing}")
    if size > MOST_SIZE:
        raise ValueError("is more memory than there is: write a size such as '2GiB'")
    return str(value)


TABLES: frozenset[str] = frozenset({"plugin", "shadow"})
KEYS: frozenset[str] = frozenset(Settings.model_fields) - TABLES
_FROM_TEXT = {
    key: TypeAdapter(field.annotation)
    for key, field in Settings.model_fields.items()
    if field.annotation in (bool, int, float)
}


@dataclass(frozen=True, slots=True)
class Resolved:
    """Settings, and the origin of each by dotted key: ``default``, a file, a variable, an option.

    Every key of Settings has an origin; of the tables ``plugin`` and ``shadow`` those keys that were given
    (``plugin.lpm.max_overtaken``).
    """

    settings: Settings
    origins: dict[str, str]


def read_settings(
    command_line: Mapping[str, Any] | None = None,
    config_file: Path | None = None,
    environ: Mapping[str, str] | None = None,
) -> Resolved:
    """Merge all sources. Raises ConfigError with one line for everything that is wrong in them.

    ``command_line`` maps keys to values or their text; None stands for an option that was not given, ``plugin`` and
    ``shadow`` hold tables. Without ``config_file`` the environment's SGFRAME_CONFIG names the file; without ``environ``
    there is none.
    """
    environ = environ or {}
    file = config_file or (Path(environ[CONFIG_VARIABLE]) if environ.get(CONFIG_VARIABLE) else None)
    given = from_file(file) if file else []
    given += from_environment({name: text for name, text in environ.items() if name != CONFIG_VARIABLE}, KEYS)
    given += from_command_line(command_line or {})
    if problems := _unknown_keys(given):
        raise ConfigError("\n".join(problems))
    values, origins = _merge(given)
    try:
        settings = Settings.model_validate(values)
    except ValidationError as error:
        raise ConfigError("\n".join(describe_errors(error, (), Settings.model_fields, origins))) from None
    return Resolved(settings, dict.fromkeys(KEYS, "default") | origins)


def describe_errors(
    error: ValidationError, prefix: Sequence[str], fields: Mapping[str, FieldInfo], origins: Mapping[str, str]
) -> list[str]:
    """One line a fault: the key, what is wrong, what was found (unless it is a secret), where it stands.

    ``fields`` are those of the model that refused, ``prefix`` is where its table stands.
    """
    lines = []
    for fault in error.errors(include_url=False):
        path = [*prefix, *map(str, fault["loc"])]
        parents = (".".join(path[:length]) for length in range(len(path), 0, -1))
        origin = next((f" ({origins[key]})" for key in parents if key in origins), "")
        about = f"{'.'.join(path)}: " if fault["loc"] else ""  # without: a fault of several settings together
        lines.append(f"{about}{_describe(fault, fields)}{origin}")
    return lines


def _describe(fault: ErrorDetails, fields: Mapping[str, FieldInfo]) -> str:
    text = fault["msg"].removeprefix("Value error, ").removeprefix("Input ")
    if not fault["loc"]:
        return text
    if fault["type"] == "extra_forbidden":
        return f"unknown setting{nearest(str(fault['loc'][-1]), fields)}"
    field = fields.get(str(fault["loc"][0]))
    if fault["type"] == "missing" or (field and "Secret" in str(field.annotation)):
        return text
    advice = "; put it in quotes" if fault["type"] == "string_type" and fault["input"] is not None else ""
    return f"{text}, found {fault['input']!r}{advice}"


def _unknown_keys(given: Sequence[Given]) -> list[str]:
    problems = []
    for (first, *rest), _, origin, _ in given:
        if first not in KEYS | TABLES:
            problems.append(f"unknown setting '{first}' ({origin}){nearest(first, KEYS | TABLES)}")
        elif first == "shadow" and rest and rest[0] not in ShadowSettings.model_fields:
            advice = nearest(rest[0], ShadowSettings.model_fields, "shadow.")
            problems.append(f"unknown setting 'shadow.{rest[0]}' ({origin}){advice}")
    return problems


def _merge(given: Sequence[Given]) -> tuple[dict[str, Any], dict[str, str]]:
    """Later ones win, key by key; tables merge; block lists add up."""
    values: dict[str, Any] = {}
    origins: dict[str, str] = {}
    for path, value, origin, is_text in given:
        key = ".".join(path)
        match path:
            case ("shadow",) | ("plugin", _) | ("shadow", "plugin", _):
                _table(values, path)
                origins.setdefault(key, origin)
            case ("blocked",) if isinstance(value, list) and isinstance(earlier := values.get("blocked", []), list):
                values["blocked"] = [*earlier, *value]
                origins[key] = f"{origins[key]}, {origin}" if key in origins else origin
            case (*table, name):
                _table(values, table)[name] = _native(key, value) if is_text else value
                origins[key] = origin
    return values, origins


def _table(values: dict[str, Any], path: Sequence[str]) -> dict[str, Any]:
    """The table that stands at ``path`` in ``values``, made where there is none."""
    for name in path:
        values = values.setdefault(name, {})
    return values


def _native(key: str, text: str) -> Any:
    """The number or truth value that ``text`` stands for where the key wants one; else the text itself."""
    if key not in _FROM_TEXT:
        return text
    try:
        return _FROM_TEXT[key].validate_python(text)
    except ValidationError:
        return text
