"""Offers the grammar ``compressed-fsm``, and the subcommand that draws its automata."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field, PositiveInt

from sgframe import PluginSettings, Provider, hookimpl

if TYPE_CHECKING:
    import click


class CompressedFsmSettings(PluginSettings):
    """The table ``[plugin.compressed-fsm]``."""

    mask_cache: PositiveInt = Field(
        default=128,
        description="MiB of token masks to keep, over all grammars; at the bound the longest unasked for are dropped",
    )
    row_table: PositiveInt = Field(
        default=64,
        description="MiB of automaton rows to keep, over all grammars; at the bound all are dropped and made again",
    )
    state_memory: PositiveInt = Field(
        default=256,
        description="MiB of states to keep, roughly, over all grammars; at the bound those of the grammars longest unused "
        "are dropped and made again",
    )
    max_states: PositiveInt = Field(
        default=30_000,
        description="A grammar that has come to more states than these (about 400 bytes each) starts afresh, and its "
        "requests move over",
    )
    kernels: Literal["auto", "numba", "numpy"] = Field(
        default="auto",
        description="What walks the vocabulary: numba, or numpy, which needs no compiler and is slower; "
        "auto takes numba where it can be imported and the vocabulary is worth it",
    )


@hookimpl
def sgframe_grammars() -> list[Provider]:
    return [
        Provider(
            name="compressed-fsm",
            target="sgframe_fsm.grammar:CompressedFsm",
            summary="regex, JSON Schema, choices and tools as a lazy automaton over bytes, with jump-forward",
            settings=CompressedFsmSettings,
        )
    ]


@hookimpl
def sgframe_commands(cli: click.Group) -> None:
    from sgframe_fsm.automata import drawing_command  # noqa: PLC0415  # drawing is for those who ask for it

    drawing_command.add(cli)
