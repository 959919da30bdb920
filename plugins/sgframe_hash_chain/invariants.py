"""What must hold of the blocks at every moment; run by tests at each step and in service when idle."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from sgframe.messages import Namespace, ints
from sgframe_hash_chain.block import Block, Key
from sgframe_hash_chain.ghosts import Ghosts
from sgframe_hash_chain.watchers import Watchers


def check_blocks(blocks: Mapping[Key, Block], unlocked: Sequence[Block], size: int) -> None:
    """Raise AssertionError with the first fault. ``unlocked`` is the order of eviction, ``size`` the tokens of a
    block. O(tokens)."""
    below: Counter[int] = Counter()
    for key, block in blocks.items():
        _check_block(blocks, key, block, size)
        if block.parent is not None:
            below[block.parent.number] += block.locks
    for block in blocks.values():
        _require(block.locks >= below[block.number], f"{_name(block)} has {block.locks} locks, more lie below it")
    _require(len({block.number for block in blocks.values()}) == len(blocks), "a number stands for two blocks")
    slots = [slot for block in blocks.values() for slot in ints(block.slots)]
    _require(len(set(slots)) == len(slots), "a slot stands in two places")
    _check_eviction_order(blocks, unlocked)


def check_memories(
    blocks: Mapping[Key, Block],
    starts: Mapping[bytes, Collection[Namespace]],
    ghosts: Ghosts,
    watchers: Watchers,
) -> None:
    """Raise AssertionError when what is remembered beside the blocks does not fit them, or is more than it may be."""
    firsts = {(block.key[1], block.namespace) for block in blocks.values() if block.parent is None}
    remembered = {(tokens, namespace) for tokens, namespaces in starts.items() for namespace in namespaces}
    _require(firsts == remembered and all(starts.values()), "the first blocks remembered differ from those there are")
    _require(len(ghosts) <= ghosts.limit, f"{len(ghosts)} ghosts are kept, {ghosts.limit} may be")
    _require(all(ghosts.eviction(key) is None for key in blocks), "a cached block counts as evicted")
    numbers = {block.number for block in blocks.values()}
    places = [place for place in watchers.places() if isinstance(place, int)]
    _require(numbers.issuperset(places), "a stamp waits for what follows a block that is gone")


def _check_block(blocks: Mapping[Key, Block], key: Key, block: Block, size: int) -> None:
    name, parent = _name(block), block.parent
    _require(block.key == key, f"{name} is found by the key of another")
    lengths = len(ints(key[1])), len(ints(block.slots))
    _require(lengths == (size, size), f"{name} holds {lengths[0]} tokens in {lengths[1]} slots, not {size} in {size}")
    if parent is None:
        _require(key[0] == block.namespace, f"{name} is found in another namespace than its own")
        return
    _require(blocks.get(parent.key) is parent, f"{name} follows a block that is gone")
    _require(key[0] == parent.number, f"{name} is found after another block than its predecessor")
    _require(parent.namespace == block.namespace, f"{name} lies in another namespace than its predecessor")


def _check_eviction_order(blocks: Mapping[Key, Block], unlocked: Sequence[Block]) -> None:
    order = {block.number: index for index, block in enumerate(unlocked)}
    _require(
        sorted(order) == sorted(block.number for block in blocks.values() if not block.locks),
        "the order of eviction does not hold exactly the unlocked blocks",
    )
    for block in unlocked:
        _require(
            block.parent is None or order.get(block.parent.number, len(order)) > order[block.number],
            f"{_name(block)} would be evicted after its predecessor",
        )


def _name(block: Block) -> str:
    return f"block {block.number}"


def _require(condition: bool, fault: str) -> None:
    if not condition:
        raise AssertionError(fault)
