"""A backend from outside, without torch: installed as a package, listed, tested by its own tests, and served."""

from __future__ import annotations

import json
import os
import re
import string
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import openai
import pytest
import torch
import transformers
from pages import HOUSE, environment, run
from servers import Server, served
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from sgframe.interfaces.backend import ExecutorSpec
from sgframe.interfaces.source import Checkpoint
from sgframe.testing.driver import Driver
from sgframe_cpu import CpuSettings
from sgframe_cpu.executor import CpuExecutor

EXAMPLE = HOUSE / "examples" / "plugins" / "sgframe-numpy"
LETTERS = string.ascii_letters + string.digits
CONTEXT = 256
PROMPTS = ["Once upon a time there was", "Once upon a time", "a b c", "Z"]
ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder into which pip has installed the example package."""
    folder = tmp_path_factory.mktemp("site")
    options = ["--quiet", "--no-deps", "--no-build-isolation", "--no-index", "--disable-pip-version-check"]
    subprocess.run([sys.executable, "-m", "pip", "install", *options, "--target", folder, EXAMPLE], check=True)
    return folder


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny random Llama in bfloat16 that reads and writes single letters, on disk."""
    folder = tmp_path_factory.mktemp("tiny-llama")
    letters = Tokenizer(models.BPE(vocab={letter: i for i, letter in enumerate(LETTERS + "Ġ")}, merges=[]))
    letters.pre_tokenizer, letters.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    letters.add_special_tokens([AddedToken("</s>")])
    letters.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text('{"eos_token": "</s>"}')
    config = transformers.LlamaConfig(
        vocab_size=letters.get_vocab_size(),
        hidden_size=64,
        intermediate_size=96,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=24,
        max_position_embeddings=CONTEXT,
        initializer_range=0.3,
        rope_theta=1000.0,
        eos_token_id=letters.token_to_id("</s>"),
    )
    torch.manual_seed(0)
    transformers.LlamaForCausalLM(config).bfloat16().save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def cpu_text(model: Path) -> dict[str, str]:
    """What the cpu backend writes in float32 after each prompt: 40 tokens, the likeliest each time."""
    letters = Tokenizer.from_file(str(model / "tokenizer.json"))
    checkpoint = Checkpoint("tiny", str(model), CONTEXT, letters.get_vocab_size(), ())
    executor = CpuExecutor(CpuSettings(threads=1, kernels="torch"))
    driver = Driver(executor, ExecutorSpec(checkpoint, "float32", max_rows=4, max_step_tokens=128, kv_slots=512))
    return {
        prompt: letters.decode(driver.generate(letters.encode(prompt).ids, 40), skip_special_tokens=False)
        for prompt in PROMPTS
    }


@pytest.fixture(scope="module")
def server(installed: Path, model: Path) -> Iterator[Server]:
    with served(
        "--backend", "numpy", "--model", str(model), environ={**environment(installed), **ONE_THREAD}
    ) as server:
        yield server


@pytest.fixture(scope="module")
def client(server: Server) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", timeout=60, max_retries=0)


def test_it_is_listed_and_can_run_here(installed: Path) -> None:
    printed = run(
        sys.executable, "-m", "sgframe", "plugins", "--json", folder=installed, environ=environment(installed)
    )
    (row,) = (row for row in json.loads(printed) if row["plugin"] == "numpy")
    assert (row["seam"], row["name"], row["source"], row["state"]) == ("backend", "numpy", "sgframe-numpy 0.1.0", "ok")


def test_its_own_tests_and_with_them_the_whole_kit_pass(installed: Path) -> None:
    options = ["-q", "-p", "no:cacheprovider", "--import-mode=importlib", "--rootdir", str(EXAMPLE), "-c", os.devnull]
    environ = {**environment(installed), **ONE_THREAD}
    printed = run(sys.executable, "-m", "pytest", *options, EXAMPLE / "tests", folder=installed, environ=environ)
    assert re.search(r"^[0-9]+ passed", printed, re.MULTILINE)
    assert "skipped" not in printed


def test_the_served_text_is_that_of_the_cpu_backend(client: openai.OpenAI, cpu_text: dict[str, str]) -> None:
    name = client.models.list().data[0].id
    for _ in range(2):  # the second time all prompts are cached
        answer = client.completions.create(
            model=name,
            prompt=PROMPTS,
            max_tokens=40,
            temperature=0,
            extra_body={"ignore_eos": True, "skip_special_tokens": False},
        )
        assert dict(zip(PROMPTS, (choice.text for choice in answer.choices), strict=True)) == cpu_text
    assert answer.usage and answer.usage.prompt_tokens_details
    assert answer.usage.prompt_tokens_details.cached_tokens == sum(len(prompt) - 1 for prompt in PROMPTS)


def test_a_served_answer_obeys_its_grammar(client: openai.OpenAI) -> None:
    name = client.models.list().data[0].id
    answer = client.completions.create(
        model=name, prompt="a", max_tokens=20, seed=3, extra_body={"regex": "[a-f]{4} [0-9]{2}"}
    )
    assert re.fullmatch("[a-f]{4} [0-9]{2}", answer.choices[0].text)


def test_the_worker_has_no_torch_in_its_memory(server: Server) -> None:
    maps = Path(f"/proc/{server.children()['worker-0'].pid}/maps").read_text()
    assert "numpy" in maps
    assert "libtorch" not in maps
