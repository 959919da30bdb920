"""``sgframe chat``: a conversation in the terminal that shows what each turn reused and how fast it came."""

from __future__ import annotations

import asyncio
import sys
import time
from dataclasses import dataclass, field

import click

from sgframe.errors import RequestError
from sgframe.front.async_engine import AsyncEngine
from sgframe.front.outputs import Usage
from sgframe.sampling import SamplingParams
from sgframe_cli.options import CommandLine, settings_options
from sgframe_cli.starting import prepare, start_engine

HELP = "/reset starts afresh, /quit or Ctrl-D ends"


@click.command()
@settings_options
@click.option("--system", default=None, help="Instruction that stands before the conversation.")
@click.option("--max-tokens", type=int, default=512, show_default=True, help="Most tokens of an answer.")
@click.option("--temperature", type=float, default=0.7, show_default=True, help="0 always takes the likeliest token.")
def chat(command_line: CommandLine, system: str | None, max_tokens: int, temperature: float) -> None:
    """Chat with a model in the terminal. After each answer: tokens reused from the cache, and tokens a second."""
    settings, choices = prepare(command_line, quiet=True)
    params = SamplingParams(max_tokens=max_tokens, temperature=temperature)

    async def run() -> None:
        engine = await start_engine(settings, choices)
        try:
            await _converse(Conversation(engine, params, system))
        finally:
            await engine.close()

    asyncio.run(run())


@dataclass
class Conversation:
    """The messages so far, and the engine that answers them."""

    engine: AsyncEngine
    params: SamplingParams
    system: str | None
    messages: list[dict[str, str]] = field(default_factory=list)

    async def answer(self, text: str) -> str:
        """Print the answer to ``text`` as it comes; return the line about its cost. A refused turn is forgotten."""
        opening = [{"role": "system", "content": self.system}] if self.system else []
        turn = [*self.messages, {"role": "user", "content": text}]
        prompt = self.engine.tokenizer.apply_chat_template([*opening, *turn])
        tokens = self.engine.tokenizer.encode(prompt, add_special_tokens=False)
        started = time.monotonic()
        first = None
        pieces: list[str] = []
        usage = Usage(len(tokens), 0, 0)
        async with await self.engine.submit(tokens, self.params) as generation:
            async for delta in generation:
                first = first or time.monotonic()
                click.echo(delta.text, nl=False)
                sys.stdout.flush()
                pieces.append(delta.text)
                usage = delta.usage
        click.echo()
        self.messages = [*turn, {"role": "assistant", "content": "".join(pieces)}]
        return cost_line(usage, (first or started) - started, time.monotonic() - (first or started))


def cost_line(usage: Usage, first_token: float, rest: float) -> str:
    """``first_token`` and ``rest`` in seconds: until the first token, and from there to the end."""
    rate = (usage.completion_tokens - 1) / rest if rest > 0 and usage.completion_tokens > 1 else 0.0
    return (
        f"[{usage.prompt_tokens} tokens in, {usage.cached_tokens} reused; {usage.completion_tokens} out, "
        f"first after {first_token:.2f} s, then {rate:.1f} tokens/s]"
    )


async def _converse(conversation: Conversation) -> None:
    click.echo(f"{conversation.engine.checkpoint.name} ({HELP})")
    while True:
        try:
            line = await asyncio.to_thread(input, "> ")
        except (EOFError, KeyboardInterrupt):
            click.echo()
            return
        match line.strip():
            case "":
                continue
            case "/quit":
                return
            case "/reset":
                conversation.messages = []
                continue
        try:
            cost = await conversation.answer(line)
        except RequestError as error:
            click.echo(f"refused: {error}", err=True)
        else:
            click.secho(cost, dim=True)
