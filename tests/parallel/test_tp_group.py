"""How ranks meet, and what their group carries between them."""

from __future__ import annotations

import os
import signal
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import torch
from torch.distributed import FileStore
from transformers import LlamaConfig

from sgframe.errors import ConfigError, RankLost
from sgframe.interfaces.backend import ExecutorSpec, Ranks
from sgframe.interfaces.source import Checkpoint
from sgframe_torch.parallel import meeting
from sgframe_torch.parallel.agreement import checksum, require_same
from sgframe_torch.parallel.distributed import FRAME, join
from sgframe_torch.parallel.meeting import choose_interface, split_address
from sgframe_torch.parallel.pace import Pace
from sgframe_torch.parallel.roll import call_roll, place

CPU = torch.device("cpu")
FRAMES = [b"", b"a plan", bytes(FRAME - 8), bytes(range(256)) * 200]


def collectives(ranks):
    group = join(ranks, "gloo", CPU, Pace())
    own = torch.tensor([[1.0, 2.0], [3.0, 4.0]]) + 10 * ranks.rank
    results = group.all_reduce(own.clone()), group.all_gather(own), group.broadcast(own.clone())
    group.close()
    return [each.tolist() for each in results]


def test_tensors_are_summed_laid_side_by_side_and_broadcast(ranks):
    assert (
        ranks(3, collectives)
        == [
            [
                [[33, 36], [39, 42]],
                [[1, 2, 11, 12, 21, 22], [3, 4, 13, 14, 23, 24]],
                [[1, 2], [3, 4]],
            ]
        ]
        * 3
    )


def half_precision(ranks):
    group = join(ranks, "gloo", CPU, Pace())
    one = torch.ones(1, 4, dtype=torch.bfloat16)
    results = group.all_reduce(one.clone()), group.all_gather(one)
    group.close()
    return [(each.dtype, each.tolist()) for each in results]


def test_bfloat16_travels_too(ranks):
    assert ranks(2, half_precision) == [[(torch.bfloat16, [[2.0] * 4]), (torch.bfloat16, [[1.0] * 8])]] * 2


def told(ranks, frames):
    group = join(ranks, "gloo", CPU, Pace())
    if ranks.rank == 0:
        for frame in frames:
            group.tell(frame)
    heard = frames if ranks.rank == 0 else [group.hear() for _ in frames]
    group.close()
    return heard


def test_frames_of_any_length_are_heard_in_order(ranks):
    assert ranks(3, told, FRAMES) == [FRAMES] * 3


def exchanged(ranks, word):
    group = join(ranks, "gloo", CPU, Pace())
    frames = group.exchange(word * ranks.rank)
    group.close()
    return frames


@pytest.mark.parametrize("word", [b"rank", b""])
def test_frames_are_exchanged_by_rank(ranks, word):
    assert ranks(3, exchanged, word) == [[b"", word, word + word]] * 3


def paced(ranks):
    pace = Pace()
    group = join(ranks, "gloo", CPU, pace)
    before = pace.entered
    group.all_reduce(torch.ones(1))
    group.all_gather(torch.ones(1, 2))
    group.broadcast(torch.ones(1))
    group.close()
    return pace.entered - before


def test_every_collective_is_counted(ranks):
    assert ranks(2, paced) == [3, 3]


def idle(ranks):
    group = join(ranks, "gloo", CPU, Pace(), patience=1.0)
    if ranks.rank == 0:
        time.sleep(1.5)
        group.tell(b"work")
    heard = b"work" if ranks.rank == 0 else group.hear()
    group.close()
    return heard


def test_an_idle_rank_waits_longer_than_the_ranks_may_take_to_meet(ranks):
    assert ranks(2, idle) == [b"work"] * 2


def deserted(ranks):
    group = join(ranks, "gloo", CPU, Pace())
    if ranks.rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    try:
        group.all_reduce(torch.ones(1))
    finally:
        group.close()


def test_the_death_of_a_rank_ends_the_collective_of_the_others(ranks):
    survivor, _ = ranks.outcomes(2, deserted)
    assert isinstance(survivor, RankLost)
    assert str(survivor).startswith("rank 0 of 2 lost another rank in its collective number 2: ")


# ------------------------------------------------------------------------------------------------- how they meet


def beside_the_device(ranks):
    join(ranks, "nccl", CPU, Pace())


def test_a_collective_that_cannot_serve_the_device_is_named(ranks):
    outcomes = ranks.outcomes(2, beside_the_device)
    for rank, outcome in enumerate(outcomes):
        told = f"rank {rank} of 2 met the others, but cannot talk to them by nccl on cpu: "
        assert message(outcome).startswith(told)


def late(ranks, who, address=""):
    if ranks.rank not in who:
        join(replace(ranks, nodes=ranks.size if address else 1, address=address), "gloo", CPU, Pace(), patience=1.0)


def message(outcome: BaseException) -> str:
    assert isinstance(outcome, ConfigError)
    return str(outcome)


def test_a_rank_that_does_not_join_is_named(ranks):
    outcomes = ranks.outcomes(4, late, [1, 3])
    assert message(outcomes[0]) == "ranks 1, 3 of 4 did not join within 1 s; see their log for why"


def test_a_node_that_does_not_join_is_named(ranks):
    outcomes = ranks.outcomes(2, late, [1], f"127.0.0.1:{free_port()}")
    assert message(outcomes[0]).startswith("rank 1 of 2 did not join within 1 s; start their nodes too")


def test_an_address_where_nobody_listens(ranks):
    address = f"127.0.0.1:{free_port()}"
    outcomes = ranks.outcomes(2, late, [0], address)
    assert message(outcomes[1]).startswith(f"rank 1 of 2 could not reach rank 0 at {address} within 1 s (")


def test_an_address_that_is_not_found_is_said_at_once(monkeypatch):
    def resolve(host, *_, **__):
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    with pytest.raises(ConfigError, match=r"rank 1 of 2 cannot find 'gpu-o', .* Name or service not known; give the"):
        join(Ranks(1, 2, 2, "gpu-o:29500"), "gloo", CPU, Pace())


def test_an_address_where_somebody_else_listens(monkeypatch):
    monkeypatch.setattr(meeting, "STORE_TIMEOUT", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as stranger:
        address = f"127.0.0.1:{stranger.getsockname()[1]}"
        with pytest.raises(ConfigError, match=f"rank 1 of 2 reaches {address}, but not rank 0 there") as refusal:
            join(Ranks(1, 2, 2, address), "gloo", CPU, Pace(), patience=1.0)
    assert "\n" not in message(refusal.value)


def called(ranks, *, store, patience=5.0):
    """What the roll call says to one of ``ranks``, which meet in a file; None once all are there."""
    try:
        call_roll(FileStore(str(store), 8), ranks, patience)
    except ConfigError as error:
        return str(error)


def roll(store, *several):
    with ThreadPoolExecutor(len(several)) as pool:
        return list(pool.map(partial(called, store=store), several))


@pytest.mark.parametrize(
    ("other", "found"),
    [
        (
            Ranks(1, 2, digest_interval=8),
            "rank 1 was started otherwise than rank 0: digest_interval is 8 there and 64 on",
        ),
        (
            Ranks(1, 2, step_timeout=0.5),
            "rank 1 was started otherwise than rank 0: step_timeout is 0.5 there and 300 on",
        ),
        (Ranks(3, 4), "rank 3 was started otherwise than rank 0: tp_size is 4 there and 2 on"),
        (Ranks(1, 2, nodes=2), "rank 1 was started otherwise than rank 0: nnodes is 2 there and 1 on"),
    ],
)
def test_ranks_that_were_started_unlike_are_all_refused_at_once(tmp_path, other, found):
    first, second = roll(tmp_path / "store", Ranks(0, 2), other)
    assert first == second == f"{found} rank 0. Start all machines with the same settings"


def test_a_rank_that_is_taken_is_refused_and_the_others_go_on(tmp_path):
    outcomes = roll(tmp_path / "store", Ranks(0, 2), Ranks(1, 2), Ranks(1, 2))
    assert outcomes[0] is None
    assert sorted(map(str, outcomes[1:])) == [
        "None",
        f"rank 1 of 2 is there already ({place()}); give each machine a node_rank of its own, and if that process has "
        "ended, start all of them anew",
    ]


class OneOfTwo:
    """A group of which rank 1 has said ``other``, or what rank 0 says."""

    size = 2

    def __init__(self, other=None):
        self.said, self._other = b"", other

    def exchange(self, frame):
        self.said = frame
        return [frame, self._other or frame]


def checkpoint(folder, content):
    folder.mkdir()
    (folder / "model.safetensors").write_bytes(content)
    return ExecutorSpec(Checkpoint(folder.name, str(folder), 128, 160, ()), "float32", 8, 64)


@pytest.mark.parametrize("at", [0, 1_000_000, 2_999_999])
def test_another_model_of_the_same_config_is_refused(tmp_path, at):
    there = bytearray(3_000_000)
    there[at] = 1
    other = OneOfTwo()
    require_same(other, LlamaConfig(), checkpoint(tmp_path / "there", bytes(there)), "float32")
    here = checkpoint(tmp_path / "here", bytes(3_000_000))
    with pytest.raises(
        ConfigError, match=r"rank 1 was .* otherwise than rank 0: the checksum of its weights is '\w{16}'"
    ):
        require_same(OneOfTwo(other.said), LlamaConfig(), here, "float32")


def test_a_model_with_the_same_content_in_another_folder_is_the_same(tmp_path):
    folders = [tmp_path / name for name in ("a", "b")]
    assert len({checksum(Path(checkpoint(folder, b"weights").checkpoint.folder)) for folder in folders}) == 1


def test_a_port_in_use():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(ConfigError, match=f"rank 0 cannot listen at {address} .* in use; give an address of this"):
            join(Ranks(0, 2, 2, address), "gloo", CPU, Pace(), patience=1.0)


def test_an_address_of_another_machine():
    with pytest.raises(
        ConfigError, match=r"rank 0 cannot listen at 192.0.2.1:29500 .* give an address of this machine"
    ):
        join(Ranks(0, 2, 2, "192.0.2.1:29500"), "gloo", CPU, Pace(), patience=1.0)


@pytest.mark.parametrize("address", ["10.0.0.1", "10.0.0.1:", ":29500", "10.0.0.1:http", "10.0.0.1:99999", "a..b:1"])
def test_an_address_that_is_none(address):
    with pytest.raises(ConfigError, match=r"give host:port, such as 10.0.0.1:29500"):
        split_address(address)


def test_an_ipv6_address_stands_in_brackets():
    assert split_address("[fd00::1]:29500") == ("fd00::1", 29500)


def several_nodes(ranks, address):
    return collectives(replace(ranks, nodes=ranks.size, address=address))


def test_ranks_of_several_nodes_meet_at_the_address(ranks):
    assert ranks(2, several_nodes, f"127.0.0.1:{free_port()}")[1][0] == [[12, 14], [16, 18]]


def test_the_interface_that_leads_to_rank_0_is_chosen(monkeypatch):
    for library in ("GLOO", "NCCL", "HCCL"):
        monkeypatch.setenv(f"{library}_SOCKET_IFNAME", "")
        monkeypatch.delenv(f"{library}_SOCKET_IFNAME")
    choose_interface(Ranks(0, 2, 2, "127.0.0.1:29500"))
    assert os.environ["GLOO_SOCKET_IFNAME"] == "lo"
    assert os.environ["NCCL_SOCKET_IFNAME"] == os.environ["HCCL_SOCKET_IFNAME"] == "=lo"


def test_an_interface_that_the_environment_names_stays(monkeypatch):
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "eth7")
    choose_interface(Ranks(0, 2))
    assert os.environ["GLOO_SOCKET_IFNAME"] == "eth7"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
