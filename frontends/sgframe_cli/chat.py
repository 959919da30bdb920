"""``sgframe chat``: a conversation in the terminal that shows what each turn reused and how fast it came."""

from __future__ import annotations

import contextlib
import sys
import time
from importlib import import_module

import click

from sgframe.errors import ModelError, RequestError
from sgframe.front.engine import Engine
from sgframe.front.outputs import Usage
from sgframe.sampling import SamplingParams
from sgframe_cli.options import CommandLine, settings_options
from sgframe_cli.progress import ProgressDisplay
from sgframe_cli.starting import prepare

HELP = "/reset starts afresh; /quit or Ctrl-D ends; Ctrl-C breaks off an answer"


@click.command()
@settings_options
@click.option("--system", default=None, help="Instruction that stands before the conversation.")
@click.option("--max-tokens", type=int, default=512, show_default=True, help="Most tokens of an answer.")
@click.option("--temperature", type=float, default=0.7, show_default=True, help="0 always takes the likeliest token.")
def chat(command_line: CommandLine, system: str | None, max_tokens: int, temperature: float) -> None:
    """Chat with a model in the terminal. After each answer: tokens reused from the cache, and tokens a second."""
    settings, choices = prepare(command_line, quiet=True)
    with ProgressDisplay() as progress:
        engine = Engine.start(settings, choices, progress)
    with engine:
        if not engine.tokenizer.has_chat_template:
            raise ModelError(f"{settings.model} is a base model without a chat template; use sgframe generate")
        click.echo(f"{settings.model} ({HELP})")
        _converse(Conversation(engine, SamplingParams(max_tokens=max_tokens, temperature=temperature), system))


class Conversation:
    """The messages so far, and the engine that answers them."""

    def __init__(self, engine: Engine, params: SamplingParams, system: str | None = None) -> None:
        self._engine = engine
        self._params = params
        self._opening = [{"role": "system", "content": system}] if system else []
        self.messages: list[dict[str, str]] = []

    def reset(self) -> None:
        self.messages = []

    def answer(self, text: str) -> str:
        """Print the answer to ``text`` as it comes; return the line about its cost.

        An answer that Ctrl-C breaks off counts as far as it came. Raises RequestError, and forgets the turn, when the
        engine refuses it.
        """
        turn = [*self.messages, {"role": "user", "content": text}]
        tokenizer = self._engine.tokenizer
        prompt = tokenizer.encode(tokenizer.apply_chat_template([*self._opening, *turn]), add_special_tokens=False)
        started = time.monotonic()
        first = 0.0
        said = ""
        usage = Usage(len(prompt), 0, 0)
        try:
            for delta in self._engine.stream(prompt, self._params):
                first = first or time.monotonic()
                said += delta.text
                usage = delta.usage
                click.echo(delta.text, nl=False)
                sys.stdout.flush()
        except KeyboardInterrupt:
            click.echo(" [broken off]", nl=False)
        click.echo()
        self.messages = [*turn, {"role": "assistant", "content": said}]
        first = first or time.monotonic()
        return cost_line(usage, first - started, time.monotonic() - first)


def cost_line(usage: Usage, first_token: float, rest: float) -> str:
    """``first_token`` and ``rest`` in seconds: until the first token, and from there to the end."""
    rate = (usage.completion_tokens - 1) / rest if rest > 0 and usage.completion_tokens > 1 else 0.0
    return (
        f"[{usage.prompt_tokens} tokens in, {usage.cached_tokens} reused; {usage.completion_tokens} out, "
        f"first after {first_token:.2f} s, then {rate:.1f} tokens/s]"
    )


def _converse(conversation: Conversation) -> None:
    """Read a line, answer it, until the end of the input."""
    with contextlib.suppress(ImportError):
        import_module("readline")  # gives ``input`` line editing and history where Python has it
    while True:
        try:
            line = input("> ").strip()
        except (EOFError, KeyboardInterrupt):
            click.echo()
            return
        if line == "/quit":
            return
        if line == "/reset":
            conversation.reset()
        elif line:
            try:
                click.secho(conversation.answer(line), dim=True)
            except RequestError as error:
                click.echo(f"refused: {error}", err=True)
