"""The roll call of the ranks in the store that they meet at: each place is taken once, by somebody who was started alike.

Knows nothing of how they reach the store.
"""

from __future__ import annotations

import os
import secrets
import socket
import time

import msgspec
from torch._C._distributed_c10d import Store

from sgframe.errors import ConfigError
from sgframe.interfaces.backend import Ranks

POLL_INTERVAL = 0.05
"""Seconds between two looks at who is there: a wait of the store's own would fail with pages of frames."""

_REFUSED = "refused"


class Claim(msgspec.Struct, frozen=True):
    """Who has taken a rank, and with which settings; ``mark`` tells it from all others."""

    place: str
    settings: dict[str, float]
    mark: str


def place() -> str:
    """Where to find this process, for people."""
    return f"pid {os.getpid()} on {socket.gethostname()}"


def call_roll(store: Store, ranks: Ranks, patience: float) -> None:
    """Wait until every rank is here, at most ``patience`` seconds.

    Raises ConfigError for a rank that another process has taken, naming that one; on all ranks when one was started with
    other settings than rank 0; and when some have not come, naming those.
    """
    until = time.monotonic() + patience
    mine = _claim(store, ranks)
    _wait(store, [_claimed(0)], ranks, patience, until)
    first = msgspec.json.decode(store.get(_claimed(0)), type=Claim)
    if first.settings != mine.settings:
        refusal = _unlike(ranks.rank, mine.settings, first.settings)
        store.set(_REFUSED, refusal)
        raise ConfigError(refusal)
    store.set(_here(ranks.rank), "")
    _wait(store, [_here(rank) for rank in range(ranks.size)], ranks, patience, until)


def _claim(store: Store, ranks: Ranks) -> Claim:
    """Take this rank's place. Raises ConfigError if it is taken."""
    settings = {
        "tp_size": ranks.size,
        "nnodes": ranks.nodes,
        "step_timeout": ranks.step_timeout,
        "digest_interval": ranks.digest_interval,
    }
    mine = Claim(place(), settings, secrets.token_hex(8))
    taken = store.compare_set(_claimed(ranks.rank), "", msgspec.json.encode(mine).decode())
    holder = msgspec.json.decode(taken, type=Claim)
    if holder != mine:
        raise ConfigError(
            f"rank {ranks.rank} of {ranks.size} is there already ({holder.place}); give each machine a node_rank of its "
            "own, and if that process has ended, start all of them anew"
        )
    return mine


def _wait(store: Store, keys: list[str], ranks: Ranks, patience: float, until: float) -> None:
    """Return once all ``keys`` are set. Raises ConfigError when a rank is refused, or at ``until``."""
    while not store.check(keys):
        if store.check([_REFUSED]):
            raise ConfigError(store.get(_REFUSED).decode())
        if time.monotonic() > until:
            raise ConfigError(_absent(store, ranks, patience))
        time.sleep(POLL_INTERVAL)


def _unlike(rank: int, mine: dict[str, float], first: dict[str, float]) -> str:
    found = "; ".join(
        f"{name} is {value:g} there and {first[name]:g} on rank 0"
        for name, value in mine.items()
        if value != first[name]
    )
    return f"rank {rank} was started otherwise than rank 0: {found}. Start all machines with the same settings"


def _absent(store: Store, ranks: Ranks, patience: float) -> str:
    """Who has not come or, when all have, that they came too late."""
    absent = [rank for rank in range(ranks.size) if not store.check([_claimed(rank)])]
    if not absent:
        return f"the {ranks.size} ranks took longer than {patience:g} s to join; start them closer to each other"
    names = f"{'rank' if len(absent) == 1 else 'ranks'} {', '.join(map(str, absent))}"
    where = "see their log for why" if ranks.nodes == 1 else "start their nodes too, or see their log for why"
    return f"{names} of {ranks.size} did not join within {patience:g} s; {where}"


def _claimed(rank: int) -> str:
    return f"claim/{rank}"


def _here(rank: int) -> str:
    return f"here/{rank}"
