"""From a name to a checkpoint: folders, what they lack, and names that lead nowhere."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors

from sgframe.errors import ModelError, RequestError
from sgframe.interfaces.source import Checkpoint
from sgframe_hf import HfSettings
from sgframe_hf.catalogue import BUNDLED
from sgframe_hf.checkpoint import ModelConfig
from sgframe_hf.source import HfSource

CONFIG = {"model_type": "llama", "vocab_size": 320, "max_position_embeddings": 2048, "eos_token_id": 256}
NAMES = {"bos_token": "<s>", "eos_token": {"content": "</s>"}}


def quiet(what: str, done: int, total: int) -> None:
    pass


def write(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value))


def tiny_tokenizer() -> Tokenizer:
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE(vocab={character: i for i, character in enumerate(alphabet)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken("<s>"), AddedToken("</s>")])  # 256, 257
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 256)])
    tokenizer.enable_truncation(4)
    return tokenizer


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "model"
    folder.mkdir()
    write(folder / "config.json", CONFIG)
    write(folder / "tokenizer_config.json", NAMES)
    (folder / "model.safetensors").write_bytes(b"\0" * 8)
    tiny_tokenizer().save(str(folder / "tokenizer.json"))
    return folder


@pytest.fixture
def source(tmp_path: Path) -> HfSource:
    return HfSource(HfSettings(cache_folder=str(tmp_path / "cache"), offline=True))


def test_a_folder_is_served_where_it_lies(folder: Path, source: HfSource) -> None:
    assert source.resolve(str(folder), quiet) == Checkpoint(
        name=str(folder), folder=str(folder), context_length=2048, vocab_size=320, eos_ids=(256, 257)
    )


def test_generation_config_rules_over_config_for_end_ids(folder: Path, source: HfSource) -> None:
    write(folder / "generation_config.json", {"eos_token_id": [7, 257]})
    assert source.resolve(str(folder), quiet).eos_ids == (7, 257)


@pytest.mark.parametrize(
    ("removed", "lacks"),
    [
        ("config.json", "config.json"),
        ("model.safetensors", "weights (*.safetensors)"),
        ("tokenizer.json", "a tokenizer (tokenizer.json)"),
    ],
)
def test_a_folder_says_what_it_lacks(folder: Path, source: HfSource, removed: str, lacks: str) -> None:
    (folder / removed).unlink()
    with pytest.raises(ModelError) as caught:
        source.resolve(str(folder), quiet)
    assert str(caught.value) == f"{folder} is not a complete model folder, it lacks {lacks}"


def test_missing_shards_are_named(folder: Path, source: HfSource) -> None:
    write(folder / "model.safetensors.index.json", {"weight_map": {"a": "model.safetensors", "b": "m-2.safetensors"}})
    with pytest.raises(ModelError, match=r"lacks m-2\.safetensors$"):
        source.resolve(str(folder), quiet)


def test_a_git_lfs_pointer_is_not_taken_for_weights(folder: Path, source: HfSource) -> None:
    (folder / "model.safetensors").write_text("version https://git-lfs.github.com/spec/v1\n")
    with pytest.raises(ModelError, match="git lfs pull"):
        source.resolve(str(folder), quiet)


def test_a_folder_of_ggufs_points_to_the_file(tmp_path: Path, source: HfSource) -> None:
    (tmp_path / "q4.gguf").write_bytes(b"GGUF")
    with pytest.raises(ModelError, match=r"it holds q4\.gguf: pass the path of that file"):
        source.resolve(str(tmp_path), quiet)


def test_a_broken_config_is_named(folder: Path, source: HfSource) -> None:
    (folder / "config.json").write_text("{x")
    with pytest.raises(ModelError, match=r"config\.json cannot be read as JSON"):
        source.resolve(str(folder), quiet)


def test_a_file_that_is_no_gguf_is_refused(folder: Path, source: HfSource) -> None:
    with pytest.raises(ModelError, match="is a file but no GGUF"):
        source.resolve(str(folder / "config.json"), quiet)


def test_a_misspelt_name_is_answered_with_the_nearest(source: HfSource) -> None:
    with pytest.raises(ModelError, match=r"no model 'smolm2-135m'.*did you mean 'smollm2-135m'\?"):
        source.resolve("smolm2-135m", quiet)


@pytest.mark.parametrize("name", ["models/none.gguf", "~nobody_here/model"])
def test_a_path_that_is_not_there_is_not_looked_up_on_the_hub(source: HfSource, name: str) -> None:
    with pytest.raises(ModelError, match=r"no folder or \.gguf file at"):
        source.resolve(name, quiet)


def test_offline_nothing_is_fetched(source: HfSource) -> None:
    with pytest.raises(ModelError, match="smollm2-135m is not on this machine and the hf source is set to offline"):
        source.resolve("smollm2-135m", quiet)


def test_the_catalogue_tells_what_is_cached(tmp_path: Path, source: HfSource) -> None:
    (tmp_path / "cache" / "models" / "smollm2-135m-1").mkdir(parents=True)
    assert [(e.name, e.download_bytes, e.cached) for e in source.catalogue()] == [
        ("smollm2-135m", 92_871_040, True),
        ("gemma3-270m", 238_203_400, False),
    ]
    assert BUNDLED["smollm2-135m"].licence == "Apache-2.0"
    assert "Gemma Terms" in BUNDLED["gemma3-270m"].licence


@pytest.mark.parametrize(
    ("config", "length"),
    [
        ({"max_position_embeddings": 4096}, 4096),
        ({"n_positions": 1024}, 1024),
        ({"text_config": {"max_position_embeddings": 131072}}, 131072),
        ({"max_position_embeddings": 8192, "rope_parameters": {"rope_type": "llama3", "factor": 8.0}}, 8192),
        ({"max_position_embeddings": 4096, "rope_scaling": {"type": "linear", "factor": 2.0}}, 4096),
        (
            {
                "max_position_embeddings": 32768,
                "rope_scaling": {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768},
            },
            131072,
        ),
        (
            {
                "max_position_embeddings": 163840,
                "rope_scaling": {"type": "yarn", "factor": 40, "original_max_position_embeddings": 4096},
            },
            163840,
        ),
    ],
)
def test_the_context_length_is_what_the_configuration_declares(
    tmp_path: Path, config: dict[str, Any], length: int
) -> None:
    write(tmp_path / "config.json", config)
    assert ModelConfig(tmp_path).context_length() == length


@pytest.mark.parametrize("config", [{}, {"max_position_embeddings": "long"}, {"max_position_embeddings": 0}])
def test_a_configuration_without_a_context_length_is_refused(tmp_path: Path, config: dict[str, Any]) -> None:
    write(tmp_path / "config.json", config)
    with pytest.raises(ModelError, match="max_position_embeddings"):
        ModelConfig(tmp_path).context_length()


def test_special_tokens_surround_a_prompt_only_when_asked(folder: Path, source: HfSource) -> None:
    tokenizer = source.tokenizer(source.resolve(str(folder), quiet))
    assert tokenizer.encode("a")[0] == 256
    assert 256 not in tokenizer.encode("a", add_special_tokens=False)


def test_a_text_is_never_truncated(folder: Path, source: HfSource) -> None:
    tokenizer = source.tokenizer(source.resolve(str(folder), quiet))
    assert len(tokenizer.encode("x" * 1000, add_special_tokens=False)) == 1000


@pytest.mark.parametrize(
    ("flags", "around"),
    [
        ({"add_bos_token": False}, ([], [])),
        ({"add_bos_token": True}, ([256], [])),
        ({"add_bos_token": True, "add_eos_token": True}, ([256], [257])),
    ],
)
def test_the_configuration_rules_over_which_tokens_surround_a_prompt(
    folder: Path, source: HfSource, flags: dict[str, bool], around: tuple[list[int], list[int]]
) -> None:
    write(folder / "tokenizer_config.json", {**NAMES, **flags})
    tokenizer = source.tokenizer(source.resolve(str(folder), quiet))
    assert tokenizer.encode("ab") == [*around[0], *tokenizer.encode("ab", add_special_tokens=False), *around[1]]


def test_special_tokens_are_those_the_tokenizer_marks(folder: Path, source: HfSource) -> None:
    tokenizer = source.tokenizer(source.resolve(str(folder), quiet))
    assert [token for token in range(tokenizer.vocab_size) if tokenizer.is_special(token)] == [256, 257]


def test_ids_beyond_the_tokenizer_have_no_bytes(folder: Path, source: HfSource) -> None:
    tokenizer = source.tokenizer(source.resolve(str(folder), quiet))
    assert (tokenizer.vocab_size, tokenizer.token_bytes(319), tokenizer.token_bytes(-1)) == (258, b"", b"")


@pytest.mark.parametrize("text", ["\ud800", "ok \udfff"])
def test_a_lone_surrogate_is_the_requests_error(folder: Path, source: HfSource, text: str) -> None:
    tokenizer = source.tokenizer(source.resolve(str(folder), quiet))
    with pytest.raises(RequestError, match="lone surrogate"):
        tokenizer.encode(text)


def test_a_damaged_tokenizer_is_named(folder: Path, source: HfSource) -> None:
    write(folder / "tokenizer.json", {"version": "1.0"})
    with pytest.raises(ModelError, match=r"tokenizer\.json cannot be read as a tokenizer"):
        source.resolve(str(folder), quiet)


def run_python(script: str, **environment: str) -> str:
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **environment}
    return subprocess.run([sys.executable, "-c", script], env=env, capture_output=True, text=True, check=True).stdout


def test_serving_a_tokenizer_loads_neither_torch_nor_transformers(folder: Path) -> None:
    script = (
        "import sys; from sgframe_hf import HfSettings; from sgframe_hf.source import HfSource\n"
        f"source = HfSource(HfSettings()); model = source.resolve({str(folder)!r}, lambda *a: None)\n"
        "tokenizer = source.tokenizer(model); tokenizer.token_bytes(tokenizer.encode('text')[1])\n"
        "print([m for m in ('torch', 'transformers', 'gguf', 'huggingface_hub') if m in sys.modules])\n"
    )
    assert run_python(script) == "[]\n"


@pytest.mark.timeout(300)
def test_a_tokenizer_in_an_older_form_is_converted_once(folder: Path, tmp_path: Path) -> None:
    vocabulary = json.loads((folder / "tokenizer.json").read_text())["model"]["vocab"]
    (folder / "tokenizer.json").unlink()
    write(folder / "vocab.json", {**vocabulary, "ab": 256, "<|endoftext|>": 257})
    (folder / "merges.txt").write_text("#version: 0.2\na b\n")
    write(folder / "config.json", {**CONFIG, "model_type": "gpt2"})
    write(folder / "tokenizer_config.json", {"tokenizer_class": "GPT2Tokenizer", "eos_token": "<|endoftext|>"})
    settings = HfSettings(cache_folder=str(tmp_path / "cache"), offline=True)
    source = HfSource(settings)
    tokenizer = source.tokenizer(source.resolve(str(folder), quiet))
    assert tokenizer.encode("abc") == [256, vocabulary["c"]]
    seen: list[str] = []
    HfSource(settings).resolve(str(folder), lambda what, done, total: seen.append(what))
    assert seen == []
