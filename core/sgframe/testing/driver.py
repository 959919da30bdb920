"""A driver that feeds an executor without a scheduler. Knows no device and no cache."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import compress

from sgframe.interfaces.backend import Executor, ExecutorSpec, Pending
from sgframe.messages import (
    Appended,
    Guess,
    Ints,
    Loaded,
    Logprobs,
    Masks,
    NewRow,
    Rewrite,
    ScheduleBatch,
    StepOutput,
    Tree,
    ints,
)
from sgframe.sampling import TokenSampling

GREEDY = TokenSampling(seed=0, temperature=0.0)
UNKNOWN = -2
"""Stands for a token that the executor has not told yet."""


@dataclass(slots=True, eq=False)
class DriverRow:
    """One request as the driver sees it. The first ``borrowed`` of its ``slots`` are somebody else's; ``spare`` are those
    of its last page that hold no token yet. Whether it ``samples`` once all that it knows is computed, a batch says."""

    row: int
    tokens: Ints
    prompt_len: int
    sampling: TokenSampling
    slots: Ints
    borrowed: int
    samples: bool
    tree: Tree | None = None
    spare: Ints = field(default_factory=ints)
    logprobs: list[Logprobs | None] = field(default_factory=list)
    prompt_logprobs: dict[int, Logprobs] = field(default_factory=dict)
    scores: dict[int, float] = field(default_factory=dict)

    @property
    def output(self) -> list[int]:
        """The tokens sampled so far, and those given at the start as earlier output; of a tree, its nodes."""
        return list(self.tokens[self.prompt_len :])

    @property
    def pending(self) -> int:
        """Known tokens that are not computed yet."""
        return len(self.tokens) - len(self.slots)


class Driver:
    """Turns calls into ScheduleBatch messages, and keeps account of rows and slots like a scheduler would.

    ``admit``, ``release``, ``rewrite`` and ``append`` are told to the executor by the next ``step``. What rows borrow,
    keep or rewrite are whole pages; ``aligned`` says how many tokens those are. What goes beyond the spec is not sent.
    """

    def __init__(self, executor: Executor, spec: ExecutorSpec) -> None:
        self.executor = executor
        self.spec = spec
        self.loaded: Loaded = executor.load(spec, lambda what, done, total: None)
        self.free_slots = ints(range(self.loaded.slots))
        self._free_rows = list(range(spec.max_rows))
        self._released = ints()
        self._admitted: list[NewRow] = []
        self._rewrites: list[Rewrite] = []
        self._appended: list[Appended] = []
        self._step = 0
        self._late: tuple[Pending, list[DriverRow], list[DriverRow]] | None = None

    def prompt(self, length: int, salt: int = 0) -> list[int]:
        """``length`` token ids that look like noise; another ``salt`` gives others from the first on."""
        return [(1 + (i + 1) * (salt + 1) * 7919 + i * i * 31) % self.loaded.vocab_size for i in range(length)]

    def mask(self, *tokens: int) -> bytes:
        """A row's words in Masks, of which only ``tokens`` are allowed."""
        return sum(1 << token for token in tokens).to_bytes(4 * -(-self.loaded.vocab_size // 32), "little")

    def aligned(self, tokens: int) -> int:
        """``tokens``, or so many more as it takes to fill a page."""
        return -(-tokens // self.loaded.page_size) * self.loaded.page_size

    def admit(
        self,
        prompt: Sequence[int],
        sampling: TokenSampling = GREEDY,
        *,
        output: Sequence[int] = (),
        cached: Sequence[int] = (),
        logprobs_from: int = 1,
        tree: Tree | None = None,
        samples: bool = True,
    ) -> DriverRow:
        """Give ``prompt``, and ``output`` if it resumes, a row; ``cached`` slots hold the KV of its first tokens.

        With a ``tree`` the ``output`` are its nodes, and nothing is sampled; nor is it where ``samples`` is False.
        """
        row = DriverRow(
            row=self._free_rows.pop(0),
            tokens=ints([*prompt, *output]),
            prompt_len=len(prompt),
            sampling=sampling,
            slots=ints(cached),
            borrowed=len(cached),
            samples=samples and tree is None,
            tree=tree,
        )
        self._admitted.append(
            NewRow(row.row, row.tokens[:], row.prompt_len, row.slots[:], sampling, logprobs_from, tree)
        )
        return row

    def release(self, row: DriverRow, keep: int = 0) -> Ints:
        """End ``row``. Its first ``keep`` slots are returned and stay out, for another row to borrow."""
        self._released.append(row.row)
        self._free_rows.insert(0, row.row)
        self.free_slots = row.slots[max(keep, row.borrowed) :] + row.spare + self.free_slots
        return row.slots[:keep]

    def rewrite(self, row: DriverRow, start: int, slots: Sequence[int]) -> None:
        """Have ``row`` read tokens ``start`` … from ``slots``, which it borrows; its own for them are free."""
        span = slice(start, start + len(slots))
        self.free_slots = row.slots[span] + self.free_slots
        row.slots[span] = ints(slots)
        row.borrowed = span.stop
        self._rewrites.append(Rewrite(row.row, start, ints(slots)))

    def append(self, row: DriverRow, tokens: Sequence[int]) -> None:
        """Have ``row`` go on with ``tokens``, which no sample gave."""
        row.tokens.extend(tokens)
        self._appended.append(Appended(row.row, ints(tokens)))

    def step(
        self,
        work: Mapping[DriverRow, int],
        masks: Mapping[DriverRow, bytes] | None = None,
        guesses: Mapping[DriverRow, Sequence[int]] | None = None,
    ) -> StepOutput:
        """Compute the next ``work[row]`` tokens of each row, and sample those whose last known token is among them; and of
        a row with ``guesses`` those as well."""
        self.step_ahead(work, masks, guesses)
        return self.catch_up()

    def step_ahead(
        self,
        work: Mapping[DriverRow, int],
        masks: Mapping[DriverRow, bytes] | None = None,
        guesses: Mapping[DriverRow, Sequence[int]] | None = None,
    ) -> None:
        """As ``step``, but the executor is not asked for the result before the next step has begun, or ``catch_up`` is
        called. Until then rows know their tokens as UNKNOWN; those with guesses may be in no step."""
        batch = self._plan(work, guesses or {}, masked=masks is not None)
        self.executor.forward(batch)
        if self._late is not None:
            self.catch_up()
        pending = self.executor.sample(
            None if masks is None else Masks(batch.step, ints(row.row for row in masks), b"".join(masks.values()))
        )
        self._late = pending, list(work), list(guesses or ())
        for row in compress(work, batch.samples):
            row.tokens.append(UNKNOWN)

    def catch_up(self) -> StepOutput:
        """Ask for the result of the step before."""
        assert self._late is not None, "no step is on its way"
        (pending, rows, guessed), self._late = self._late, None
        output = pending.result()
        self._take_in(output, {row.row: row for row in rows})
        for row in guessed:
            computed = len(row.tokens) - 1
            row.slots, row.spare = row.slots[:computed], row.slots[computed:] + row.spare
        return output

    def _take_in(self, output: StepOutput, rows: Mapping[int, DriverRow]) -> None:
        for number, token in zip(output.rows, output.tokens, strict=True):
            known = rows[number].tokens
            if UNKNOWN in known:
                known[known.index(UNKNOWN)] = token
            else:  # a guess before it was right
                known.append(token)
        for number, entry in zip(output.rows, output.logprobs, strict=False):
            rows[number].logprobs.append(entry)
        for found in output.prompt_logprobs:
            for place, entry in enumerate(found.entries, found.start):
                assert place not in rows[found.row].prompt_logprobs, f"the logprobs of prompt token {place} came twice"
                rows[found.row].prompt_logprobs[place] = entry
        for given in output.scores:
            rows[given.row].scores.update(zip(given.asked, given.logprobs, strict=True))

    def _plan(
        self, work: Mapping[DriverRow, int], guesses: Mapping[DriverRow, Sequence[int]], *, masked: bool
    ) -> ScheduleBatch:
        counts = {row: count + len(guesses.get(row, ())) for row, count in work.items()}
        total, most = sum(counts.values()), self.spec.max_step_tokens
        assert total <= most, f"{total} tokens are to be computed in a step, the spec allows {most}"
        due = [int(count == row.pending and row.samples) + len(guesses.get(row, ())) for row, count in work.items()]
        assert sum(due) <= self.spec.max_rows, f"{sum(due)} tokens are to be sampled, for {self.spec.max_rows} rows"
        taken = {row: self._take_slots(row, count) for row, count in counts.items()}
        for row, slots in taken.items():
            row.slots.extend(slots)
        batch = ScheduleBatch(
            step=self._step,
            released=self._released,
            admitted=self._admitted,
            rewrites=self._rewrites,
            rows=ints(row.row for row in work),
            counts=ints(counts.values()),
            slots=ints(slot for slots in taken.values() for slot in slots),
            samples=ints(due),
            masked=masked,
            appended=self._appended,
            guesses=[Guess(row.row, ints(tokens)) for row, tokens in guesses.items()],
        )
        self._step += 1
        self._released, self._admitted, self._rewrites, self._appended = ints(), [], [], []
        return batch

    def _take_slots(self, row: DriverRow, count: int) -> Ints:
        wanted = self.aligned(max(0, count - len(row.spare)))
        assert wanted <= len(self.free_slots), f"{wanted} slots wanted, {len(self.free_slots)} free"
        row.spare, self.free_slots = row.spare + self.free_slots[:wanted], self.free_slots[wanted:]
        taken, row.spare = row.spare[:count], row.spare[count:]
        return taken

    def prefill(self, row: DriverRow, pieces: int = 1) -> None:
        """Compute all that ``row`` knows in ``pieces`` steps of nearly equal size, and sample its next token."""
        total = row.pending
        for piece in range(pieces):
            self.step({row: total * (piece + 1) // pieces - total * piece // pieces})

    def decode(self, rows: Sequence[DriverRow], steps: int) -> None:
        """Compute all that ``rows`` know, together, ``steps`` times."""
        for _ in range(steps):
            self.step({row: row.pending for row in rows})

    def decode_ahead(self, rows: Sequence[DriverRow], steps: int) -> None:
        """As ``decode``, but the executor is given each step before it is asked for the result of the last."""
        for _ in range(steps):
            self.step_ahead({row: row.pending for row in rows})
        self.catch_up()

    def generate(self, prompt: Sequence[int], count: int, sampling: TokenSampling = GREEDY) -> list[int]:
        """The ``count`` tokens that follow ``prompt``, computed alone and from nothing."""
        row = self.admit(prompt, sampling)
        self.decode([row], count)
        self.release(row)
        return row.output
