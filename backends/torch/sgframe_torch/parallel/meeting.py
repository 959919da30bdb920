"""Where the ranks meet: the store that all of them reach, and the network interface they talk over.

Knows nothing of what they do together.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from concurrent.futures import Future
from datetime import timedelta
from pathlib import Path

import psutil  # type: ignore[import-untyped]
from torch._C._distributed_c10d import FileStore, Store, TCPStore

from sgframe.errors import ConfigError
from sgframe.interfaces.backend import Ranks
from sgframe_torch.parallel.roll import call_roll

PROBE_INTERVAL = 0.2
"""Seconds between two tries to reach rank 0."""
PROBE_TIMEOUT = 5.0
"""Seconds that one try may take."""
STORE_TIMEOUT = 10.0
"""Seconds in which rank 0's store answers, once its machine does."""


def meet(ranks: Ranks, patience: float) -> Store:
    """A store that all ranks of ``ranks`` are at, waiting at most ``patience`` seconds for them. Raises ConfigError."""
    choose_interface(ranks)
    try:
        store = _open(ranks, patience)
        call_roll(store, ranks, patience)
    except (RuntimeError, OSError) as error:
        raise ConfigError(
            f"rank {ranks.rank} of {ranks.size} lost rank 0 while the ranks were joining ({_first_line(error)}); see its "
            "log for why"
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
    _knock(ranks, host, port, patience)
    opened: Future[Store] = Future()
    threading.Thread(target=_open_there, args=(opened, host, port, ranks.size), name="store", daemon=True).start()
    try:
        return opened.result(STORE_TIMEOUT)
    except (RuntimeError, TimeoutError) as error:
        raise ConfigError(
            f"rank {ranks.rank} of {ranks.size} reaches {ranks.address}, but not rank 0 there "
            f"({_first_line(error) or 'no answer'}); give every node the address of node 0, with a port that is free there"
        ) from error


def _open_there(opened: Future[Store], host: str, port: int, size: int) -> None:
    """In a thread of its own: no timeout of the store's ends its wait for one that listens and says nothing."""
    try:
        opened.set_result(TCPStore(host, port, size, False, timedelta(seconds=STORE_TIMEOUT), wait_for_workers=False))
    except RuntimeError as error:
        opened.set_exception(error)


def _knock(ranks: Ranks, host: str, port: int, patience: float) -> None:
    """Wait until somebody listens at ``host`` and ``port``. Raises ConfigError, at once for a host that there is not."""
    who, until = f"rank {ranks.rank} of {ranks.size}", time.monotonic() + patience
    while True:
        left = until - time.monotonic()
        try:
            socket.create_connection((host, port), timeout=min(max(left, PROBE_INTERVAL), PROBE_TIMEOUT)).close()
            return
        except socket.gaierror as error:
            raise ConfigError(
                f"{who} cannot find {host!r}, where it is to meet rank 0: {error.strerror}; give the address of node 0 "
                "as this machine knows it"
            ) from error
        except OSError as error:
            if left <= 0:
                raise ConfigError(
                    f"{who} could not reach rank 0 at {ranks.address} within {patience:g} s ({error}); start node 0 too, "
                    "give every node the same address, and let its port through the firewall"
                ) from error
        time.sleep(PROBE_INTERVAL)


def _first_line(error: Exception) -> str:
    """What torch's ``error`` says, without the frames of its C++."""
    return str(error).partition("\n")[0]


def split_address(address: str) -> tuple[str, int]:
    """Host and port of ``host:port``; an IPv6 host stands in brackets. Raises ConfigError."""
    host, _, port = address.rpartition(":")
    if not _can_be_a_name(host) or not port.isdecimal() or not 0 < int(port) < 2**16:
        raise ConfigError(f"the ranks cannot meet at {address!r}; give host:port, such as 10.0.0.1:29500")
    return host.strip("[]"), int(port)


def _can_be_a_name(host: str) -> bool:
    try:
        return bool(host.encode("idna"))  # as the socket module will
    except UnicodeError:
        return False


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
