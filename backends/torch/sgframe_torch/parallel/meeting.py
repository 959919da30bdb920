"""Where the ranks meet: the store that all of them reach, the roll call in it, and the network interface they talk over.

Knows nothing of what they do together.
"""

from __future__ import annotations

import os
import socket
from datetime import timedelta
from pathlib import Path

import psutil  # type: ignore[import-untyped]
from torch._C._distributed_c10d import FileStore, Store, TCPStore

from sgframe.errors import ConfigError
from sgframe.interfaces.backend import Ranks


def meet(ranks: Ranks, patience: float) -> Store:
    """A store that all ranks of ``ranks`` are at, waiting at most ``patience`` seconds for them. Raises ConfigError."""
    choose_interface(ranks)
    try:
        store = _open(ranks, patience)
        _call_roll(store, ranks, patience)
    except (RuntimeError, OSError) as error:
        raise ConfigError(
            f"rank {ranks.rank} of {ranks.size} lost rank 0 while the ranks were joining ({error}); see its log for why"
        ) from error
    return store


def _open(ranks: Ranks, patience: float) -> Store:
    if ranks.nodes == 1:
        store = FileStore(str(Path(ranks.folder) / "store"), ranks.size)
        store.set_timeout(timedelta(seconds=patience))
        return store
    if ranks.rank == 0:
        return _serve(ranks, patience)
    return _reach(ranks, patience)


def _serve(ranks: Ranks, patience: float) -> Store:
    """Rank 0's store, which listens at ``ranks.address`` and nowhere else."""
    host, port = split_address(ranks.address)
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        listener = socket.create_server((host, port), family=family)
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror
        raise ConfigError(
            f"rank 0 cannot listen at {ranks.address} for the other ranks: {reason}; give an address of "
            f"this machine that the others reach, and a port that is free"
        ) from error
    limit = timedelta(seconds=patience)
    return TCPStore(host, port, ranks.size, True, limit, wait_for_workers=False, master_listen_fd=listener.detach())


def _reach(ranks: Ranks, patience: float) -> Store:
    host, port = split_address(ranks.address)
    try:
        return TCPStore(host, port, ranks.size, False, timedelta(seconds=patience), wait_for_workers=False)
    except RuntimeError as error:
        raise ConfigError(
            f"rank {ranks.rank} of {ranks.size} could not reach rank 0 at {ranks.address} within {patience:g} s "
            f"({error}); start node 0 too, give every node the same address, and let its port through the firewall"
        ) from error


def _call_roll(store: Store, ranks: Ranks, patience: float) -> None:
    """Wait until every rank has said that it is here. Raises ConfigError, naming those that have not."""
    keys = [f"here/{rank}" for rank in range(ranks.size)]
    store.set(keys[ranks.rank], "")
    try:
        store.wait(keys, timedelta(seconds=patience))
    except RuntimeError as error:
        absent = [rank for rank, key in enumerate(keys) if not store.check([key])]
        if not absent:
            return
        names = f"{'rank' if len(absent) == 1 else 'ranks'} {', '.join(map(str, absent))}"
        where = "see their log for why" if ranks.nodes == 1 else "start their nodes too, or see their log for why"
        raise ConfigError(f"{names} of {ranks.size} did not join within {patience:g} s; {where}") from error


def split_address(address: str) -> tuple[str, int]:
    """Host and port of ``host:port``; an IPv6 host stands in brackets. Raises ConfigError."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 2**16:
        raise ConfigError(f"the ranks cannot meet at {address!r}; give host:port, such as 10.0.0.1:29500")
    return host.strip("[]"), int(port)


def choose_interface(ranks: Ranks) -> None:
    """Have the libraries talk over the interface that leads to rank 0, unless the environment names one already.

    By themselves they take whatever the host's own name resolves to, which need not lead to the other ranks. On one
    machine only gloo, which knows no other way than the network, is told.
    """
    host, port = split_address(ranks.address) if ranks.nodes > 1 else ("127.0.0.1", 1)
    name = _interface(host, port)
    if not name:
        return
    os.environ.setdefault("GLOO_SOCKET_IFNAME", name)
    if ranks.nodes > 1:
        os.environ.setdefault("NCCL_SOCKET_IFNAME", f"={name}")
        os.environ.setdefault("HCCL_SOCKET_IFNAME", f"={name}")


def _interface(host: str, port: int) -> str:
    """The name of this machine's interface whose address it would talk to ``host`` from; empty if there is none."""
    try:
        family, kind, *_, target = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind) as probe:
            probe.connect(target)  # sends nothing, but picks the route
            own = probe.getsockname()[0]
    except OSError:
        return ""  # whoever connects will say what is wrong with the address
    for name, addresses in psutil.net_if_addrs().items():
        if any(address.address.partition("%")[0] == own for address in addresses):
            return str(name)
    return ""
