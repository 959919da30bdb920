"""One GPU as the runtime sees it, on the double of ``torch.cuda``, with Triton's interpreter for its kernels."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
import transformers
from late_cuda import TOTAL, LateCuda
from lent_backend import LentBackend
from plain_ops import PlainOps

from sgframe.errors import BackendUnavailable
from sgframe.interfaces.backend import Executor, ExecutorSpec, Ranks
from sgframe.interfaces.source import Checkpoint
from sgframe.sampling import TokenSampling
from sgframe.testing import BackendContract
from sgframe.testing.driver import GREEDY, Driver
from sgframe_cuda import CudaSettings
from sgframe_cuda.attention import TritonAttention
from sgframe_cuda.executor import CudaExecutor
from sgframe_cuda.memory import RESERVE
from sgframe_cuda.ops import CudaOps, TorchAttention
from sgframe_torch.executor import TorchExecutor
from sgframe_torch.graphs import DecodeGraphs

GIB = 2**30


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> Iterator[LateCuda]:
    late = LateCuda()
    late.patch(monkeypatch)
    monkeypatch.setattr(CudaOps, "capture", lambda ops, run: run)
    with late:
        yield late


def placed(settings: CudaSettings | None = None) -> CudaOps:
    ops = CudaOps(settings or CudaSettings())
    ops.place(Ranks())
    return ops


# ------------------------------------------------------------------------------------------------------- the device


def test_each_rank_takes_the_gpu_of_its_number_on_its_machine(cuda: LateCuda) -> None:
    cuda.devices = 2
    ops = CudaOps(CudaSettings())
    ops.place(Ranks(rank=3, size=4, nodes=2))
    assert ops.device == torch.device("cuda", 1)


def test_a_rank_without_a_gpu_is_told_how_many_there_are(cuda: LateCuda) -> None:
    ops = CudaOps(CudaSettings())
    with pytest.raises(BackendUnavailable, match="rank 1 needs GPU 1 of its machine, but there are 1; lower tp_size"):
        ops.place(Ranks(rank=1, size=2))


def test_a_gpu_that_cannot_be_opened_is_told(cuda: LateCuda, monkeypatch: pytest.MonkeyPatch) -> None:
    def busy(device: torch.device) -> None:
        raise RuntimeError("CUDA error: all CUDA-capable devices are busy or unavailable")

    monkeypatch.setattr(torch.cuda, "set_device", busy)
    with pytest.raises(BackendUnavailable, match=r"cuda:0 cannot be opened: .* busy or unavailable; see in nvidia-smi"):
        placed()


def test_kv_gets_its_share_of_what_is_free_less_a_reserve(cuda: LateCuda) -> None:
    cuda.free = 10 * GIB
    ops = placed(CudaSettings(memory_share=0.5))
    assert ops.available_memory() == 10 * GIB - RESERVE
    assert ops.kv_budget(8 * GIB) == 4 * GIB


def test_a_full_device_has_nothing_left(cuda: LateCuda) -> None:
    cuda.free = RESERVE // 2
    assert placed().available_memory() == 0


@pytest.mark.parametrize(("settings", "rows"), [({}, 256), ({"graph_rows": 8}, 8), ({"graphs": False}, 0)])
def test_as_many_rows_are_recorded_as_the_settings_say(settings: dict[str, Any], rows: int) -> None:
    assert CudaOps(CudaSettings(**settings)).graph_rows == rows


def test_attention_is_what_the_settings_say(cuda: LateCuda) -> None:
    kinds = {"triton": TritonAttention, "torch": TorchAttention}
    assert all(type(placed(CudaSettings(attention=name))._attention) is kind for name, kind in kinds.items())


def test_graphs_share_their_scratch_memory_and_watch_this_thread_only(monkeypatch: pytest.MonkeyPatch) -> None:
    captures: list[dict[str, Any]] = []
    played: list[str] = []

    class Graph:
        def replay(self) -> None:
            played.append("replayed")

    @contextmanager
    def graph(into: Graph, **how: Any) -> Iterator[None]:
        captures.append(how)
        yield

    late = LateCuda()
    late.patch(monkeypatch)
    monkeypatch.setattr(torch.cuda, "CUDAGraph", Graph)
    monkeypatch.setattr(torch.cuda, "graph", graph)
    with late:
        ops = placed()
        replay = ops.capture(lambda: played.append("recorded"))
        ops.capture(lambda: None)
    replay()
    assert played == ["recorded", "replayed"]
    assert captures == [{"pool": (0, 1), "capture_error_mode": "thread_local"}] * 2


# ----------------------------------------------------------------------------------------------------- the executor

PROMPTS = ([3, 1, 4, 1, 5, 9, 2, 6], [2, 7, 1, 8])


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Checkpoint:
    """A tiny random Qwen3, whose query and key heads have norms."""
    config = transformers.Qwen3Config(
        vocab_size=160,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=1,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=16,
        max_position_embeddings=128,
        initializer_range=0.3,
        tie_word_embeddings=True,
    )
    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("qwen3")
    transformers.AutoModelForCausalLM.from_config(config).save_pretrained(folder)
    return Checkpoint("tiny", str(folder), 128, 160, ())


def spec_of(checkpoint: Checkpoint) -> ExecutorSpec:
    return ExecutorSpec(checkpoint, "float32", max_rows=8, max_step_tokens=128, kv_slots=512)


def serve(executor: Executor, spec: ExecutorSpec, steps: int, sampling: TokenSampling = GREEDY) -> list[list[int]]:
    """What two requests get that are computed together: prefills beside each other, then ``steps`` decode steps, each given
    before the tokens of the last are there."""
    driver = Driver(executor, spec)
    rows = [driver.admit(prompt, sampling=sampling) for prompt in PROMPTS]
    driver.step({row: row.pending for row in rows})
    driver.decode_ahead(rows, steps)
    executor.close()
    return [row.output for row in rows]


def test_it_serves_what_the_plain_operations_serve(
    cuda: LateCuda, checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    replays: list[int] = []

    def run(graphs: DecodeGraphs, step: Any, then: Callable[..., Any] = DecodeGraphs.run) -> Any:
        found = then(graphs, step)
        replays.extend([len(step.rows)] if found else [])
        return found

    monkeypatch.setattr(DecodeGraphs, "run", run)
    served = serve(CudaExecutor(CudaSettings(graph_rows=2)), spec_of(checkpoint), 2)
    assert replays == [2, 2]
    assert served == serve(TorchExecutor(PlainOps()), spec_of(checkpoint), 2)


def test_it_draws_what_the_plain_operations_draw(cuda: LateCuda, checkpoint: Checkpoint) -> None:
    sampling = TokenSampling(seed=7, temperature=1.0, top_p=0.9, top_k=20)
    served = serve(CudaExecutor(CudaSettings(graphs=False)), spec_of(checkpoint), 1, sampling)
    assert served == serve(TorchExecutor(PlainOps()), spec_of(checkpoint), 1, sampling)


def test_the_ledger_tells_of_graphs_and_of_what_else_is_on_the_device(cuda: LateCuda, checkpoint: Checkpoint) -> None:
    executor = CudaExecutor(CudaSettings(graph_rows=1))
    lines = {line.name: line.bytes for line in executor.load(spec_of(checkpoint), lambda *_: None).ledger}
    assert lines["graphs"] == 0
    assert lines["outside torch"] == TOTAL - cuda.free
    assert lines["left free"] == cuda.free


@pytest.mark.slow
class TestContract(BackendContract):
    """Everything that an executor must get right."""

    @pytest.fixture(autouse=True)
    def _device(self, cuda: LateCuda) -> None:
        """The double stands in for as long as a test runs."""

    def make(self) -> LentBackend:
        return LentBackend(lambda: CudaExecutor(CudaSettings(graph_rows=2)))
