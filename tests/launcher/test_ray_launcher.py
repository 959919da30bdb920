"""The launcher ``ray`` on a cluster of two nodes, both on this machine."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import httpx
import msgspec
import psutil
import pytest
import torch_service
from replica_loss import answers_while_killing, assert_only_begun_answers_fail
from servers import SIMULATED, Server, served, wait_for
from tiny_models import CONFIGS, save_model

ray = pytest.importorskip("ray")
from ray.cluster_utils import Cluster  # noqa: E402

from sgframe import Engine, SamplingParams  # noqa: E402
from sgframe.assembly.assemble import configure  # noqa: E402
from sgframe.errors import BackendUnavailable, ConfigError, PeerLost  # noqa: E402
from sgframe.interfaces.launcher import Launcher  # noqa: E402
from sgframe.interfaces.source import Checkpoint  # noqa: E402
from sgframe.messages import Loaded  # noqa: E402
from sgframe.testing import LauncherContract, check_plugin  # noqa: E402
from sgframe.testing.launcher import Diary, answer, hear, letters  # noqa: E402
from sgframe_local import LocalSettings  # noqa: E402
from sgframe_local.launcher import LocalLauncher  # noqa: E402
from sgframe_ray import RaySettings  # noqa: E402
from sgframe_ray import crew as crew_module  # noqa: E402
from sgframe_ray.launcher import RayLauncher  # noqa: E402
from sgframe_simulator.trace_files import load_trace  # noqa: E402

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join(filter(None, sys.path)))
        patch.setenv("RAY_DEDUP_LOGS", "0")
        cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 2, "include_dashboard": False})
        cluster.add_node(num_cpus=2)
        cluster.wait_for_nodes()
        patch.setenv("RAY_ADDRESS", cluster.address)
        yield cluster
        cluster.shutdown()


def test_the_plugin_is_sound() -> None:
    assert check_plugin("sgframe_ray") == []


def test_what_ray_would_import_beside_another_thread_is_there_with_the_launcher() -> None:
    """The HTTP server is imported in a thread meanwhile; two threads that import pydantic.v1 and a part of it fail."""
    code = "import sys, sgframe_ray.launcher; sys.exit('pydantic.v1.fields' not in sys.modules)"
    subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}, check=True
    )


@pytest.mark.usefixtures("cluster")
class TestRay(LauncherContract):
    def make(self) -> RayLauncher:
        return RayLauncher(RaySettings())


def performing() -> dict[str, psutil.Process]:
    """The engines' processes under the cluster's, by their name in ``ps``."""
    found = {}
    for child in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):
            title = " ".join(child.cmdline())
            if title.startswith("sgframe::") and "front" not in title:
                found[title.split("::")[1].split()[0]] = child
    return found


async def greedy(launcher: Launcher, checkpoint: Checkpoint, ranks: int) -> list[int]:
    """What a model on so many ranks says to 1 2 3."""
    written = letters(backend="cpu", tp_size=ranks, transport="zmq", plugin={"cpu": {"threads": 1}})
    spec = torch_service.spec(checkpoint)
    crew = await launcher.launch([msgspec.structs.replace(each, executor=spec) for each in written], Diary())
    try:
        assert isinstance(await hear(crew), Loaded)
        return await answer(crew, 1)
    finally:
        await crew.close()
        await launcher.close()


async def test_ranks_on_two_nodes_meet_and_say_what_one_says(cluster: Cluster, tmp_path: Path) -> None:
    checkpoint = save_model(CONFIGS["llama"](), tmp_path, "llama")
    alone = await greedy(LocalLauncher(LocalSettings()), checkpoint, 1)
    assert await greedy(RayLauncher(RaySettings(placement="STRICT_SPREAD")), checkpoint, 2) == alone


async def test_without_room_for_it_the_start_ends_with_the_numbers(cluster: Cluster) -> None:
    launcher = RayLauncher(RaySettings(gpus=1, patience=1.0))
    with pytest.raises(
        ConfigError, match=r"no room for a replica for 1 s: it needs 1 times \{'CPU': 1.0, 'GPU': 1.0\}"
    ):
        await launcher.launch(letters(), Diary())
    await launcher.close()


async def test_a_device_that_is_not_there_is_refused_where_it_is_missing(cluster: Cluster) -> None:
    launcher = RayLauncher(RaySettings())
    with pytest.raises(BackendUnavailable, match="backend 'ascend' cannot run on"):
        await launcher.launch(letters(backend="ascend"), Diary())
    await launcher.close()


async def test_an_actor_that_dies_takes_its_processes_along_and_is_told(cluster: Cluster) -> None:
    launcher, diary = RayLauncher(RaySettings()), Diary()
    crew = await launcher.launch(letters(), diary)
    await hear(crew)
    processes = [*performing().values()]
    assert len(processes) == 2
    ray.kill(crew._posts[0])
    while len(diary.deaths) < 2:
        diary.news.clear()
        await asyncio.wait_for(diary.news.wait(), 10)
    assert all("is gone with its actor" in reason for reason in diary.deaths.values())
    assert psutil.wait_procs(processes, 10)[1] == []
    await crew.close()
    await launcher.close()


async def test_an_actor_that_stands_still_counts_as_lost(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crew_module, "SILENT_AFTER", 1.5)
    monkeypatch.setattr(crew_module, "KILL_AFTER", 0.5)
    launcher, diary = RayLauncher(RaySettings()), Diary()
    crew = await launcher.launch(letters(), diary)
    await hear(crew)
    actor = performing()["scheduler"].parent()
    assert actor is not None
    actor.suspend()
    await asyncio.wait_for(diary.news.wait(), 10)
    assert diary.deaths["scheduler"] == (
        "the scheduler process has been silent for 1.5 s: its machine is down, or the network is lost"
    )
    with pytest.raises(PeerLost):
        await hear(crew)
    await crew.close()
    await launcher.close()
    wait_for(lambda: not performing(), 10, "the end of its processes")


@pytest.fixture
def server(cluster: Cluster) -> Iterator[Server]:
    arguments = ("--launcher", "ray", "--replicas", "2", "--max-running", "2", "--set", "ray.cpus=2")
    with served(*SIMULATED, *arguments, "--set", "simulated.step_seconds=0.05") as server:
        yield server


def test_a_killed_replicas_requests_move_to_the_other_node(server: Server) -> None:
    answers = answers_while_killing(performing()["worker-0@1"].kill, server)
    assert_only_begun_answers_fail(answers, begun=2)
    wait_for(lambda: "replica 1 serves again" in server.output, 30, "its return")
    assert len(httpx.get(f"{server.url}/health").json()["processes"]) == 5
    assert server.stop() == 0


def test_when_the_front_is_killed_nothing_stays_behind(server: Server) -> None:
    assert performing().keys() - {"compiling"} == {"scheduler@0", "worker-0@0", "scheduler@1", "worker-0@1"}
    server.process.kill()
    wait_for(lambda: not performing(), 20, "the end of its processes")


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"transport": "inproc"}, "transport 'inproc' keeps all in one process, but launcher 'ray'"),
        ({"nnodes": 2, "tp_size": 2, "dist_addr": "a:1"}, "nnodes is 2, but launcher 'ray' chooses the machines"),
    ],
)
def test_what_does_not_go_with_ray_is_refused(more: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        configure({"launcher": "ray", **more}).choose()


TRACE = load_trace(Path(__file__).parents[1] / "data" / "traces" / "agent_sessions_small.jsonl.xz").first(250)
SMALLER = 8
"""So many times shorter than recorded are the prompts that are replayed, and as many tokens fewer are cached."""
USERS = 8


def hit_rate(launcher: str, replicas: int) -> float:
    """Percent of the trace's prompt tokens that a service of simulated devices found cached."""
    parts = {"model": "simulated", "backend": "simulated", "source": "simulated", "launcher": launcher}
    simulated = {"vocab_size": 2**17, "slots": 512_000 // SMALLER // replicas, "context_length": 16384}
    with Engine(**parts, replicas=replicas, plugin={"simulated": simulated}) as engine:
        prompts = (list(TRACE.prompt(request)[::SMALLER]) for request in range(len(TRACE)))
        with ThreadPoolExecutor(USERS) as users:
            results = list(users.map(lambda prompt: engine.generate(prompt, SamplingParams(max_tokens=4)), prompts))
    asked = sum(len(result.prompt_tokens) for result in results)
    return 100 * sum(result.outputs[0].usage.cached_tokens for result in results) / asked


def test_agent_sessions_find_on_two_nodes_what_they_would_in_one_big_cache(cluster: Cluster) -> None:
    one, two = hit_rate("local", 1), hit_rate("ray", 2)
    print(f"\nhit rate in percent: one big cache {one:.2f}, two nodes {two:.2f}")
    assert two > 0.95 * one
