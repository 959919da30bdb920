"""What a program can ask of a state, each as an operation of its chain."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Future

from sgframe.sampling import SamplingParams
from sgframe_dsl import meta, waiting
from sgframe_dsl.callsites import CallSite
from sgframe_dsl.chain import Chain, Operation
from sgframe_dsl.expressions import Gen, Select
from sgframe_dsl.trace import Step
from sgframe_dsl.transcript import Transcript
from sgframe_dsl.variables import Outcome, Variable
from sgframe_programs.parts import Branch, Generated, Output, Part, Text

LONGEST_EXCERPT = 80


class Say(Operation):
    """Add text, and the beginnings and ends of turns."""

    can_wait = True

    def __init__(self, site: CallSite, parts: Sequence[Part]) -> None:
        super().__init__(site)
        self._parts = parts

    async def work(self, chain: Chain) -> None:
        chain.parts += self._parts


class SayLater(Operation):
    """Add a text that is known only when the time has come."""

    can_wait = True

    def __init__(self, site: CallSite, text: Callable[[], Awaitable[str]]) -> None:
        super().__init__(site)
        self._text = text

    async def work(self, chain: Chain) -> None:
        chain.parts.append(Text(await self._text()))


class Generate(Operation):
    """Let the model go on."""

    def __init__(self, site: CallSite, gen: Gen, params: SamplingParams, variable: Variable) -> None:
        super().__init__(site)
        self.constraint = params.constraint
        self._gen = gen
        self._params = params
        self._variable = variable

    async def work(self, chain: Chain) -> None:
        with chain.step("gen", self._gen.name or "", self.site, prompt=_end_of(chain.parts)) as step:
            if chain.run.streaming:
                await chain.flush()  # the text before the answer is to be heard before it
            handle, parts = await chain.opened(), chain.parts
            on_text = self._hear(chain) if chain.run.streaming else None
            generated = await chain.run.backend.generate(handle, parts, self._params, on_text)
            text = generated.outputs[0].text
            step.cost, step.answer = generated.cost, _beginning_of(text)
        chain.parts = []
        chain.transcript.add(parts, generated.rendered)
        chain.transcript.answer(text)
        self._variable.resolve(Outcome(text, meta.of_gen(generated), lambda: self._read(generated)))

    def fail(self, error: BaseException) -> None:
        self._variable.fail(error)

    def _hear(self, chain: Chain) -> Callable[[str], None]:
        def hear(piece: str) -> None:
            chain.transcript.hear(piece)
            self._variable.hear(piece)

        return hear

    def _read(self, generated: Generated) -> object:
        values = [self._value(output) for output in generated.outputs]
        return values if self._gen.n > 1 else values[0]

    def _value(self, output: Output) -> object:
        try:
            return self._gen.shape.read(output.text)
        except ValueError as error:
            cut = "; max_tokens cut it off" if output.finish_reason == "length" else ""
            message = f"variable {self._gen.name!r} is no {self._gen.shape.name}: {output.text!r}{cut}"
            raise self.site.error(message) from error


class Choose(Operation):
    """Go on with the likeliest choice."""

    def __init__(self, site: CallSite, select: Select, variable: Variable) -> None:
        super().__init__(site)
        self._select = select
        self._variable = variable

    async def work(self, chain: Chain) -> None:
        name, choices, method = self._select.name, self._select.choices, self._select.method
        with chain.step("select", name, self.site, prompt=_end_of(chain.parts)) as step:
            if chain.run.streaming:
                await chain.flush()
            handle, parts = await chain.opened(), chain.parts
            selected = await chain.run.backend.select(handle, parts, choices, method)
            text = choices[selected.index]
            step.cost, step.answer = selected.cost, _beginning_of(text)
        chain.parts = []
        chain.transcript.add(parts, selected.rendered)
        chain.transcript.answer(text)
        self._variable.resolve(Outcome(text, meta.of_select(choices, selected), lambda: text))

    def fail(self, error: BaseException) -> None:
        self._variable.fail(error)


class Fork(Operation):
    """Let branches begin where the state stands."""

    def __init__(self, site: CallSite, purpose: str, branches: Sequence[Chain]) -> None:
        super().__init__(site)
        self.begins = branches
        self.step: Step
        self._purpose = purpose

    async def work(self, chain: Chain) -> None:
        with chain.step("fork", self._purpose, self.site, self.begins) as self.step:
            await chain.flush()
            handles = await chain.run.backend.fork(await chain.opened(), len(self.begins))
        for branch, handle in zip(self.begins, handles, strict=True):
            branch.begin(handle, Transcript(chain.transcript))


class Settle(Operation):
    """Come to where all that was added stands on the backend, and resolve ``done``; then let go of the state if told so."""

    def __init__(self, site: CallSite, release: bool = False) -> None:
        super().__init__(site)
        self.done: Future[None] = waiting.pending()
        self._release = release

    async def work(self, chain: Chain) -> None:
        await chain.flush()
        if self._release:
            await chain.release()
        waiting.resolve(self.done, None)

    def fail(self, error: BaseException) -> None:
        waiting.fail(self.done, error)


class Gather(Operation):
    """Mark where branches were joined: their variables are gathered without the state's doing."""

    can_wait = True

    async def work(self, chain: Chain) -> None:
        with chain.step("join", "", self.site):
            pass


class Concatenate(Operation):
    """Add what branches said by themselves, when they have settled, and let go of them."""

    def __init__(self, site: CallSite, branches: Sequence[Chain]) -> None:
        super().__init__(site)
        self._branches = branches

    async def work(self, chain: Chain) -> None:
        with chain.step("join", "concat", self.site):
            for branch in self._branches:
                await branch.settled()
            said = [branch.transcript.since_fork()[0] for branch in self._branches]
            grown = [self._grown(*each) for each in zip(self._branches, said, strict=True)]
            rendered = await chain.run.backend.extend(
                await chain.opened(), [*chain.parts, *itertools.chain.from_iterable(grown)]
            )
            chain.transcript.add([*chain.parts, *itertools.chain.from_iterable(said)], rendered)
            chain.parts = []
            for branch in self._branches:
                await branch.release()

    def _grown(self, branch: Chain, said: Sequence[Part]) -> Sequence[Part]:
        """Its tokens; or what it said, where the state it has now was forked later, from one that is gone."""
        return said if branch.has_adopted or branch.handle is None else [Branch(branch.handle)]


class Adopt(Operation):
    """Go on where the branch stands that ``decide`` tells, and let go of the others."""

    def __init__(self, site: CallSite, fork: Fork, decide: Callable[[], Awaitable[int]]) -> None:
        super().__init__(site)
        self.chosen: Future[int] = waiting.pending()
        self._fork = fork
        self._decide = decide

    async def work(self, chain: Chain) -> None:
        index = await self._decide()
        winner = self._fork.begins[index]
        lost = self.site.error(f"branch {index} was selected and the others were ended")
        losers = [each for each in list(chain.run.live) if self._loses(each, winner)]
        await asyncio.gather(*(loser.drop(lost) for loser in losers))
        await winner.settled()
        await self._become(chain, winner)
        self._fork.step.chosen = index
        waiting.resolve(self.chosen, index)

    def fail(self, error: BaseException) -> None:
        waiting.fail(self.chosen, error)

    def _loses(self, chain: Chain, winner: Chain) -> bool:
        return any(
            chain is branch or chain.descends_from(branch) for branch in self._fork.begins if branch is not winner
        )

    async def _become(self, chain: Chain, winner: Chain) -> None:
        if chain.handle is not None:
            await chain.run.backend.discard([chain.handle])
        chain.handle, winner.handle, chain.has_adopted = winner.handle, None, True
        said, text = winner.transcript.since_fork()
        chain.transcript.add(said, text)
        await winner.release()


def _end_of(parts: Sequence[Part]) -> str:
    text = "".join(part.text for part in parts if isinstance(part, Text))
    return text if len(text) <= LONGEST_EXCERPT else "…" + text[1 - LONGEST_EXCERPT :]


def _beginning_of(text: str) -> str:
    return text if len(text) <= LONGEST_EXCERPT else text[: LONGEST_EXCERPT - 1] + "…"
