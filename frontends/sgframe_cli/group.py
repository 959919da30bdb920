"""The command group: which subcommands there are, where each lies, and how errors reach the terminal.

Imports neither the plugin system nor a frontend nor anything heavy; a subcommand's module is imported when it is called.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping
from importlib import import_module
from typing import Any, NamedTuple

import click

from sgframe import __version__
from sgframe.errors import ConfigError, SgframeError


class Subcommand(NamedTuple):
    """Where a built-in subcommand lies, ``"module:command"``, and its line in ``--help``."""

    target: str
    summary: str


SUBCOMMANDS: Mapping[str, Subcommand] = {
    "serve": Subcommand("sgframe_cli.serve:serve", "Serve a model over HTTP."),
    "chat": Subcommand("sgframe_cli.chat:chat", "Chat with a model in the terminal."),
    "generate": Subcommand("sgframe_cli.generate:generate", "Continue a prompt once."),
    "explain": Subcommand("sgframe_cli.explain:explain", "Run a program and draw what it computed and what it reused."),
    "tree": Subcommand("sgframe_cli.tree:tree", "Show the hot prefixes of a running server."),
    "simulate": Subcommand(
        "sgframe_cli.simulate:simulate", "Try policies and caches on a recorded trace, without a device."
    ),
    "replay": Subcommand("sgframe_cli.replay:replay", "Make the decisions of a recorded scheduler again."),
    "models": Subcommand("sgframe_cli.models:models", "List the models known by short names."),
    "plugins": Subcommand("sgframe_cli.plugins:plugins", "List the parts on offer and the plugins they come from."),
    "doctor": Subcommand("sgframe_cli.doctor:doctor", "Say what would make serving fail here, and what to do."),
    "new-plugin": Subcommand("sgframe_cli.new_plugin:new_plugin", "Write a package with a part of your own."),
    "config": Subcommand("sgframe_cli.config:config", "Show or check the settings, or print their JSON schema."),
}


NO_PYDANTIC_PLUGINS = ("PYDANTIC_DISABLE_PLUGINS", "__all__")
"""Else pydantic looks through all that is installed for plugins of its own, which takes time, and one distribution that is
damaged, of whomever, ends every command with a traceback."""


NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""A disk, a quota or a limit of file sizes is exhausted."""


class UserError(click.ClickException):
    """What the user can mend ends the command with exit code 2, as click's own usage errors do."""

    exit_code = 2


def failure(error: SgframeError) -> click.ClickException:
    """The error as click prints it: ``Error: ...`` on stderr, and no traceback."""
    return UserError(str(error)) if isinstance(error, ConfigError) else click.ClickException(str(error))


class LazyGroup(click.Group):
    """Finds built-in subcommands in the table; asks the plugins only for a name that is not there."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(SUBCOMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in SUBCOMMANDS:
            return self._from_plugins(ctx, cmd_name)
        module, _, name = SUBCOMMANDS[cmd_name].target.partition(":")
        command: click.Command = getattr(import_module(module), name)
        return command

    def _from_plugins(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in self.commands:
            from sgframe.assembly.assemble import configure  # noqa: PLC0415 - slow, and not needed by --help

            try:
                plugins = configure(environ=os.environ).plugins
                plugins.add_commands(self)
            except SgframeError as error:
                raise failure(error) from error
            if plugins.broken and name not in self.commands:
                failures = "\n".join(map(str, plugins.broken))
                raise click.UsageError(f"No such command '{name}'; a plugin that failed may have it:\n{failures}", ctx)
        return super().get_command(ctx, name)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, subcommand.summary) for name, subcommand in SUBCOMMANDS.items()])

    def invoke(self, ctx: click.Context) -> Any:
        os.environ.setdefault(*NO_PYDANTIC_PLUGINS)
        try:
            return super().invoke(ctx)
        except SgframeError as error:
            raise failure(error) from error
        except OSError as error:
            if error.errno not in NO_ROOM:
                raise
            where = error.filename or "the output"
            raise click.ClickException(f"{where} cannot be written: {error.strerror}; make room for it") from error


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120})
@click.version_option(__version__, prog_name="sgframe")
def main() -> None:
    """Serve large language models; every shared prefix is computed once, and every part is a plugin.

    Plugins may add subcommands; those are found when they are called and not listed here.
    """
