"""The row table: each running request's tokens, page table and progress. Applies the diffs of a batch."""

from __future__ import annotations

from dataclasses import dataclass

from sgframe.errors import SgframeError
from sgframe.messages import Ints, NewRow, Rewrite, ScheduleBatch, Tree, ints
from sgframe.sampling import TokenSampling
from sgframe_simulated.memory import SlotMemory
from sgframe_simulated.model import EMPTY_PREFIX, prefix_hashes, tree_hashes


class PlanFault(SgframeError):
    """A batch that cannot be executed as it stands. The scheduler is at fault."""


@dataclass(slots=True, eq=False)
class Row:
    """One request. ``slots[i]`` and ``hashes[i]`` are the slot and the true prefix hash of computed token i; the prefix
    of a ``tree``'s node is its path.

    ``verified`` counts the leading slots that were found right and that nobody can have changed since.
    """

    row: int
    tokens: Ints
    prompt_len: int
    sampling: TokenSampling
    logprobs_from: int
    tree: Tree | None
    slots: Ints
    hashes: list[int]
    verified: int = 0

    @property
    def computed(self) -> int:
        return len(self.slots)

    def compute(self, slots: Ints, memory: SlotMemory, step: int, guesses: Ints) -> None:
        """Compute the next ``len(slots)`` tokens, known ones and then ``guesses``, their KV going to ``slots``."""
        start, stop = self.computed, self.computed + len(slots)
        tokens = self.tokens + guesses if guesses else self.tokens
        if stop > len(tokens):
            raise PlanFault(
                f"step {step}: row {self.row} is to compute tokens {start} to {stop - 1}, but knows {len(tokens)}"
            )
        hashes = self._hashes(tokens, stop)
        memory.write(slots, hashes, self.row, start, step)
        self.slots.extend(slots)
        self.hashes += hashes

    def find_cached(self, slots: Ints) -> None:
        """Start from ``slots``, which hold the KV of the first tokens."""
        self.hashes = self._hashes(self.tokens, len(slots))
        self.slots = slots[:]

    def take_back(self, memory: SlotMemory) -> None:
        """Only what comes before the last known token counts as computed."""
        computed = len(self.tokens) - 1
        memory.remove_readers(self.slots[computed:])
        del self.slots[computed:], self.hashes[computed:]
        self.verified = min(self.verified, computed)

    def _hashes(self, tokens: Ints, stop: int) -> list[int]:
        """Those of ``tokens`` before ``stop`` that are not computed yet."""
        start = self.computed
        if self.tree is not None:
            return tree_hashes(tokens, self.prompt_len, self.tree.parents)[start:stop]
        return prefix_hashes(tokens[start:stop], self.hashes[-1] if start else EMPTY_PREFIX)

    def verify(self, memory: SlotMemory, step: int) -> None:
        """Read the KV that attention reads. Raises SlotFault."""
        for position in range(self.verified, self.computed):
            memory.read(self.slots[position], self.hashes[position], self.row, position, step)
        self.verified = self.computed


class RowTable:
    """All rows, by number."""

    def __init__(self, max_rows: int, memory: SlotMemory) -> None:
        self._max_rows = max_rows
        self._memory = memory
        self._rows: dict[int, Row] = {}
        self._admitted: list[Ints] = []
        """The slots from which rows start that this step admits."""

    @property
    def size(self) -> int:
        """Most rows."""
        return self._max_rows

    def __getitem__(self, number: int) -> Row:
        try:
            return self._rows[number]
        except KeyError:
            raise PlanFault(f"row {number} is not in the table; it holds rows {sorted(self._rows)}") from None

    def apply(self, batch: ScheduleBatch) -> None:
        """Release, admit, rewrite and append, in this order."""
        for number in batch.released:
            self._memory.remove_readers(self[number].slots)
            del self._rows[number]
        for new in batch.admitted:
            self._admit(new)
        self._admitted = [new.slots for new in batch.admitted]
        for rewrite in batch.rewrites:
            self._rewrite(rewrite)
        for addition in batch.appended:
            self[addition.row].tokens.extend(addition.tokens)

    def begin_reading(self) -> None:
        """Rows that this step admitted read their slots from now on, when all is written: some of them by this step."""
        for slots in self._admitted:
            self._memory.add_readers(slots)

    def _admit(self, new: NewRow) -> None:
        if new.row in self._rows or not 0 <= new.row < self._max_rows:
            raise PlanFault(f"row {new.row} cannot be admitted: it is taken, or not one of 0 to {self._max_rows - 1}")
        if len(new.slots) >= len(new.tokens):
            raise PlanFault(f"row {new.row} has {len(new.tokens)} tokens and {len(new.slots)} cached: none to compute")
        if new.tree is not None:
            _check_tree(new.row, new.tree, len(new.tokens) - new.prompt_len)
        row = self._rows[new.row] = Row(
            row=new.row,
            tokens=new.tokens[:],
            prompt_len=new.prompt_len,
            sampling=new.sampling,
            logprobs_from=new.logprobs_from,
            tree=new.tree,
            slots=ints(),
            hashes=[],
        )
        row.find_cached(new.slots)

    def _rewrite(self, rewrite: Rewrite) -> None:
        row = self[rewrite.row]
        span = slice(rewrite.start, rewrite.start + len(rewrite.slots))
        if span.stop > row.computed:
            raise PlanFault(f"row {row.row} has computed {row.computed} tokens; slots up to {span.stop} are rewritten")
        self._memory.remove_readers(row.slots[span])
        self._memory.add_readers(rewrite.slots)
        row.slots[span] = rewrite.slots
        row.verified = min(row.verified, rewrite.start)

    def distrust(self) -> None:
        """Have every row check all its slots when it next computes."""
        for row in self._rows.values():
            row.verified = 0


def _check_tree(row: int, tree: Tree, nodes: int) -> None:
    if len(tree.parents) != nodes or not all(-1 <= parent < node for node, parent in enumerate(tree.parents)):
        raise PlanFault(
            f"row {row} has {nodes} nodes and the parents {list(tree.parents)}: each node has one, -1 or a node before it"
        )
    if len(tree.places) != len(tree.tokens) or not all(-1 <= place < nodes for place in tree.places):
        raise PlanFault(
            f"row {row} has {nodes} nodes and asks for {len(tree.tokens)} tokens at the places {list(tree.places)}: each "
            "token has one, -1 or a node"
        )
