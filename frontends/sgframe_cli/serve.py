"""``sgframe serve``: the engine behind its HTTP server, from start to drained end."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import resource
import signal
import sys
from importlib import import_module
from typing import Any

import click
from setproctitle import setproctitle

from sgframe.assembly.choice import Choices
from sgframe.assembly.settings import Settings
from sgframe.front.async_engine import AsyncEngine
from sgframe.front.folders import remove_private_folders
from sgframe.front.node import Node
from sgframe.front.threads import in_thread
from sgframe.settling import settle
from sgframe_cli.options import CommandLine, settings_options
from sgframe_cli.progress import ProgressDisplay
from sgframe_cli.starting import prepare, start_engine
from sgframe_openai.listener import bind

log = logging.getLogger(__name__)

DIED = 1
"""Exit code when a process of the engine died."""
DEATH_NOTICE = 1.0
"""Seconds for which a server whose engine died still answers: 503, which clients and load balancers understand."""
CLOSE_GRACE = 2.0
"""Seconds that open responses get to tell their clients of a death."""
MAX_FILES = 65536
"""Open files that a server allows itself where the system does; each connection is one."""


@click.command()
@settings_options
@click.option("--dry-run", is_flag=True, help="Do all that comes before the model, say what would be started, and end.")
def serve(command_line: CommandLine, dry_run: bool) -> None:
    """Serve a model over HTTP, by an API that OpenAI's clients speak.

    SIGINT or SIGTERM drains: new requests are refused, open ones finish. A second one ends at once.
    """
    settings, choices = prepare(command_line)
    if dry_run:
        from sgframe_cli.dry_run import rehearse  # noqa: PLC0415 (brings in the scheduler, which else runs elsewhere)

        click.echo(rehearse(settings, choices))
        return
    setproctitle("sgframe::front")
    _raise_file_limit()
    sys.exit(asyncio.run(_follow(settings, choices) if settings.node_rank else _serve(settings, choices)))


def _raise_file_limit() -> None:
    """The usual soft limit of 1024 is there for programs that use select(2)."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, MAX_FILES)), hard))


class _Stop:
    """The signal that asked for the end, once there is one."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.exit_code = 0
        loop = asyncio.get_running_loop()
        for signum in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(signum, self._on_signal, signum)

    def _on_signal(self, signum: int) -> None:
        name = signal.Signals(signum).name
        if self.asked.is_set():
            log.warning("second signal, %s: ending at once", name)
            remove_private_folders()
            os._exit(128 + signum)  # the children's lifelines end with this process, and they clean up
        log.info("%s: shutting down", name)
        self.exit_code = 128 + signum
        self.asked.set()


async def _serve(settings: Settings, choices: Choices) -> int:
    """Returns the exit code: 0 after a drained end, 128 + signal when stopped during the start, DIED after a death."""
    stop = _Stop()
    listener = bind(settings.host, settings.port)  # before the model loads: a taken port should not cost that wait
    starting = asyncio.create_task(start_engine(settings, choices))
    http = asyncio.create_task(in_thread(lambda: import_module("sgframe_openai.server")))
    await _first_of(starting, asyncio.create_task(stop.asked.wait()))
    if not starting.done():
        starting.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await starting
        return stop.exit_code
    engine = await starting
    try:
        server = (await http).HttpServer(engine, listener)
        await server.start()
        settle()
        _announce(engine, *listener.getsockname()[:2])
        await _first_of(asyncio.create_task(stop.asked.wait()), asyncio.create_task(engine.died.wait()))
        if engine.dead is None:
            await engine.drain()
        else:
            await asyncio.sleep(DEATH_NOTICE)
        await server.stop(CLOSE_GRACE)
        return 0 if engine.dead is None else DIED
    finally:
        await engine.close()


async def _follow(settings: Settings, choices: Choices) -> int:
    """A machine that serves nobody. Returns the exit code: 0 when machine 0 closed, 128 + signal when stopped here."""
    stop = _Stop()
    with ProgressDisplay() as progress:
        running = asyncio.create_task(Node(settings, choices, progress).run())
        log.info("machine %d of %d follows the one at %s", settings.node_rank, settings.nnodes, settings.dist_addr)
        await _first_of(running, asyncio.create_task(stop.asked.wait()))
    if not running.done():
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running
        return stop.exit_code
    await running
    return 0


async def _first_of(*tasks: asyncio.Task[Any]) -> None:
    """Wait until one of ``tasks`` is done."""
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)


def _announce(engine: AsyncEngine, host: str, port: int) -> None:
    """The ready line, and a request to paste into a shell."""
    url = f"http://{f'[{host}]' if ':' in host else host}:{port}"
    name = engine.settings.served_model_name or engine.checkpoint.name
    key = "" if engine.settings.api_key is None else " -H 'Authorization: Bearer YOUR_KEY'"
    path, ask = (
        ("chat/completions", {"messages": [{"role": "user", "content": "What is the capital of France?"}]})
        if engine.tokenizer.has_chat_template
        else ("completions", {"prompt": "The capital of France is"})
    )
    body = json.dumps({"model": name, **ask, "max_tokens": 32, "temperature": 0})
    _say(f"sgframe is ready: model {name} on {url}")
    _say(f"curl {url}/v1/{path}{key} -H 'Content-Type: application/json' -d '{body}'")


def _say(line: str) -> None:
    """To standard output, or to the log when nobody reads that any more: a server goes on without its readers."""
    try:
        click.echo(line)
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what is buffered must go somewhere at the end
        log.info("%s", line)
