"""``sgframe generate``: one prompt, one answer, streamed to standard output."""

from __future__ import annotations

import asyncio
import sys

import click

from sgframe.constraints import Constraint
from sgframe.front.async_engine import AsyncEngine
from sgframe.sampling import SamplingParams
from sgframe_cli.options import CommandLine, settings_options
from sgframe_cli.starting import prepare, start_engine
from sgframe_cli.structured import constraint_options


@click.command()
@click.argument("prompt", required=False)
@settings_options
@click.option(
    "--max-tokens", type=int, default=None, help="Most output tokens; as many as the context holds if not given."
)
@click.option("--temperature", type=float, default=0.0, show_default=True, help="0 always takes the likeliest token.")
@click.option("--top-p", type=float, default=1.0, show_default=True, help="Nucleus sampling.")
@click.option("--seed", type=int, default=None, help="Makes a sampled answer reproducible.")
@click.option("--stop", multiple=True, help="Text that ends the answer. Repeatable.")
@constraint_options
def generate(
    command_line: CommandLine,
    prompt: str | None,
    max_tokens: int | None,
    temperature: float,
    top_p: float,
    seed: int | None,
    stop: tuple[str, ...],
    constraint: Constraint | None,
) -> None:
    """Continue PROMPT once and exit. Without PROMPT, or with -, the prompt is read from standard input."""
    text = sys.stdin.read() if prompt in (None, "-") else prompt
    params = SamplingParams(
        max_tokens=max_tokens, temperature=temperature, top_p=top_p, seed=seed, stop=stop, constraint=constraint
    )
    settings, choices = prepare(command_line, quiet=True)

    async def run() -> None:
        engine = await start_engine(settings, choices)
        try:
            await _print(engine, text or "", params)
        finally:
            await engine.close()

    asyncio.run(run())


async def _print(engine: AsyncEngine, prompt: str, params: SamplingParams) -> None:
    async with await engine.submit(prompt, params) as generation:
        async for delta in generation:
            click.echo(delta.text, nl=False)
            sys.stdout.flush()
    click.echo()
