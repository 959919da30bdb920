"""One model on two machines, which are network namespaces with a cable between them."""

from __future__ import annotations

import itertools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
import tokenizers
import torch
import transformers
from servers import wait_for

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]

PORT = 29511
PROMPT = "Once upon a time"
_runs = itertools.count()


def ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True)


class Network:
    """Two hosts with the addresses .1 and .2, and a cable between them."""

    def __init__(self) -> None:
        run = f"{os.getpid()}-{next(_runs)}"
        self.hosts = [f"sg{run}-a", f"sg{run}-b"]
        self.addresses = ["10.231.7.1", "10.231.7.2"]

    def build(self) -> None:
        for host in self.hosts:
            ip("netns", "add", host)
            ip("-n", host, "link", "set", "lo", "up")
        first, second = self.hosts
        ip("-n", first, "link", "add", "cable", "type", "veth", "peer", "name", "cable", "netns", second)
        for host, address in zip(self.hosts, self.addresses, strict=True):
            ip("-n", host, "address", "add", f"{address}/30", "dev", "cable")
            ip("-n", host, "link", "set", "cable", "up")

    def unplug(self) -> None:
        ip("-n", self.hosts[1], "link", "set", "cable", "down")

    def remove(self) -> None:
        for host in self.hosts:
            subprocess.run(["ip", "netns", "delete", host], check=False, capture_output=True)


class Machine:
    """``sgframe serve`` on one host, whose name is its own too."""

    def __init__(self, host: str, folder: Path, *arguments: str) -> None:
        self.host, self.folder = host, folder
        folder.mkdir()
        serve = [sys.executable, "-m", "sgframe", "serve", "--port", "0", *arguments]
        self._log = (folder / "log").open("wb")
        self.process = subprocess.Popen(
            ["ip", "netns", "exec", host, "unshare", "--uts", "sh", "-c", f'hostname {host}; exec "$@"', "sh", *serve],
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=subprocess.STDOUT,
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join(sys.path),
                "TMPDIR": str(folder),
                "OMP_NUM_THREADS": "1",
                "HF_HUB_OFFLINE": "1",
            },
        )

    @property
    def output(self) -> str:
        return (self.folder / "log").read_text(errors="replace")

    def wait_until_ready(self) -> None:
        wait_for(lambda: "sgframe is ready" in self.output or self.process.poll() is not None, 150)
        assert self.process.poll() is None, self.output

    def worker(self) -> psutil.Process:
        children = psutil.Process(self.process.pid).children()
        return next(child for child in children if "sgframe::worker-" in " ".join(child.cmdline()))

    def complete(self, prompt: str) -> str:
        """The greedy continuation of ``prompt``, asked for on the host itself."""
        match = re.search(r"ready: model (\S+) on (http://\S+)", self.output)
        assert match
        body = json.dumps({"model": match[1], "prompt": prompt, "max_tokens": 24, "temperature": 0})
        script = (
            "import sys, urllib.request as u; r = u.Request(sys.argv[1], sys.argv[2].encode(), "
            "{'Content-Type': 'application/json'}); sys.stdout.write(u.urlopen(r, timeout=60).read().decode())"
        )
        answer = subprocess.run(
            ["ip", "netns", "exec", self.host, sys.executable, "-c", script, f"{match[2]}/v1/completions", body],
            check=False,
            capture_output=True,
            text=True,
        )
        assert answer.returncode == 0, answer.stderr + self.output
        text: str = json.loads(answer.stdout)["choices"][0]["text"]
        return text

    def end(self) -> None:
        self.process.kill()  # its children see that, and end
        self.process.wait()
        self._log.close()


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny random Llama whose tokens are bytes."""
    folder = tmp_path_factory.mktemp("tiny")
    alphabet = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE({letter: i for i, letter in enumerate(alphabet)}, []))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    tokenizer.save(str(folder / "tokenizer.json"))
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=len(alphabet),
        hidden_size=64,
        intermediate_size=96,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=128,
        initializer_range=0.3,
        bos_token_id=None,
        eos_token_id=None,
    )
    transformers.LlamaForCausalLM(config).save_pretrained(folder)
    return folder


@pytest.fixture
def network() -> Iterator[Network]:
    if shutil.which("ip") is None:
        pytest.skip("there is no ip command")
    made = Network()
    try:
        made.build()
    except subprocess.CalledProcessError as error:
        made.remove()
        pytest.skip(f"network namespaces are not permitted here: {error.stderr.strip()}")
    yield made
    made.remove()


@pytest.fixture
def machines(network: Network, model: Path, short_path: Path) -> Iterator[list[Machine]]:
    """The tiny model on both hosts, ready."""
    shared = ["--model", str(model), "--dtype", "float32", "--kv-slots", "512", "--tp-size", "2", "--nnodes", "2"]
    address = ["--dist-addr", f"{network.addresses[0]}:{PORT}"]
    started = [
        Machine(host, short_path / str(rank), *shared, *address, "--node-rank", str(rank))
        for rank, host in enumerate(network.hosts)
    ]
    try:
        started[0].wait_until_ready()
        yield started
    finally:
        for machine in started:
            machine.end()


def expected(model: Path) -> str:
    """What transformers continues the prompt with."""
    tokenizer = tokenizers.Tokenizer.from_file(str(model / "tokenizer.json"))
    ids = tokenizer.encode(PROMPT).ids
    oracle = transformers.AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32)
    output = oracle.generate(torch.tensor([ids]), max_new_tokens=24, do_sample=False)[0, len(ids) :]
    return tokenizer.decode(output.tolist())


def ended(machines: list[Machine], within: float) -> list[int]:
    return [machine.process.wait(within) for machine in machines]


def test_two_machines_say_what_one_does_and_end_together(machines: list[Machine], model: Path) -> None:
    assert machines[0].complete(PROMPT) == expected(model)
    machines[0].process.send_signal(signal.SIGTERM)
    assert ended(machines, within=30) == [0, 0]
    assert [list(machine.folder.glob("sgframe-*")) for machine in machines] == [[], []]


def test_a_machine_whose_rank_is_killed_ends_both_and_is_named(machines: list[Machine]) -> None:
    worker = machines[1].worker()
    worker.kill()
    named = f"rank 1 of 2 (pid {worker.pid} on {machines[1].host}) died"
    wait_for(lambda: named in machines[0].output, 3, named)
    assert 0 not in ended(machines, within=10)


def test_two_machines_whose_cable_is_pulled_name_each_other(machines: list[Machine], network: Network) -> None:
    workers = [machine.worker() for machine in machines]
    network.unplug()
    assert 0 not in ended(machines, within=15)
    for machine, worker, other in zip(machines, workers[::-1], machines[::-1], strict=True):
        rank = machines.index(other)
        assert f"rank {rank} of 2 (pid {worker.pid} on {other.host}) has been silent for 3." in machine.output
