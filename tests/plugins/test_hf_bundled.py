"""The bundled models as fetched and converted: tokenizers, templates and configuration are those of the originals."""

import json
from pathlib import Path
from typing import Any

import pytest
import transformers
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors import safe_open
from tokenizers import Tokenizer

from sgframe.errors import RequestError
from sgframe.interfaces.source import Checkpoint
from sgframe_hf import HfSettings
from sgframe_hf.source import HfSource
from sgframe_hf.tokenizer import HfTokenizer

RECORDED = Path(__file__).parents[1] / "data" / "client_requests" / "lm-eval_hs_local_tokenized_True.jsonl"
TEXTS = [
    "Hello world, it's 12345.67 + 89!",
    "  leading, double  and trailing spaces  \n\n\tx",
    "日本語 中文 żółw naïve 🙂👨‍👩‍👧",
    "for i in range(10):\n        print(i ** 2)  # ok",
    "<|im_start|>user\nHi<|im_end|> <bos> <start_of_turn>",
    "",
]

pytestmark = pytest.mark.timeout(900)  # the first use fetches and converts

Model = tuple[Checkpoint, HfTokenizer]


def resolve(name: str) -> Model:
    source = HfSource(HfSettings())
    checkpoint = source.resolve(name, lambda what, done, total: None)
    return checkpoint, source.tokenizer(checkpoint)


@pytest.fixture(scope="module")
def smollm() -> Model:
    return resolve("smollm2-135m")


@pytest.fixture(scope="module")
def gemma() -> Model:
    return resolve("gemma3-270m")


@pytest.fixture(scope="module", params=["smollm2-135m", "gemma3-270m"])
def model(request: pytest.FixtureRequest) -> Model:
    return resolve(request.param)


@pytest.fixture(scope="module")
def decoder(model: Model) -> Tokenizer:
    return Tokenizer.from_file(str(Path(model[0].folder) / "tokenizer.json"))


def test_smollm_is_a_chat_model_with_two_ends(smollm: Model) -> None:
    checkpoint, tokenizer = smollm
    assert (checkpoint.context_length, checkpoint.vocab_size) == (8192, 49152)
    assert [tokenizer.token_bytes(token) for token in checkpoint.eos_ids] == [b"<|im_end|>", b"<|endoftext|>"]
    assert tokenizer.has_chat_template


def test_gemma_is_a_base_model_whose_prompts_begin_with_bos(gemma: Model) -> None:
    checkpoint, tokenizer = gemma
    assert (checkpoint.context_length, checkpoint.vocab_size) == (32768, 262144)
    assert tokenizer.encode("The capital of France is") == [2, 818, 5279, 529, 7001, 563]
    with pytest.raises(RequestError, match="no chat template"):
        tokenizer.apply_chat_template([{"role": "user", "content": "Hi"}])


def test_gemma_has_a_sliding_window_in_five_of_six_layers(gemma: Model) -> None:
    config = json.loads((Path(gemma[0].folder) / "config.json").read_text())
    assert config["sliding_window"] == 512
    assert config["layer_types"] == (["sliding_attention"] * 5 + ["full_attention"]) * 3


def test_quantised_weights_become_bfloat16(smollm: Model) -> None:
    with safe_open(Path(smollm[0].folder) / "model.safetensors", "np") as weights:
        assert {weights.get_slice(name).get_dtype() for name in weights.keys()} == {"BF16"}  # noqa: SIM118


@pytest.mark.parametrize(("name", "notice"), [("smollm2-135m", "LICENSE"), ("gemma3-270m", "GEMMA_TERMS.html")])
def test_the_licence_lies_beside_the_weights(name: str, notice: str) -> None:
    assert (Path(resolve(name)[0].folder) / notice).stat().st_size > 10_000


def test_smollm_splits_numbers_into_digits(smollm: Model) -> None:
    tokens = smollm[1].encode("in 2024²")
    assert [smollm[1].token_bytes(token) for token in tokens] == [b"in", b" ", b"2", b"0", b"2", b"4", "²".encode()]


def test_smollm_tokenizes_as_the_original_did_for_a_recorded_client(smollm: Model) -> None:
    bodies = [json.loads(line)["body"] for line in RECORDED.read_text().splitlines()]
    prompts = [prompt for body in bodies for prompt in body["prompt"]]
    assert len(prompts) == 12
    for prompt in prompts:
        text = b"".join(map(smollm[1].token_bytes, prompt)).decode()
        assert smollm[1].encode(text, add_special_tokens=False) == prompt


def test_ids_are_those_of_transformers(model: Model) -> None:
    reference = transformers.AutoTokenizer.from_pretrained(model[0].folder)
    for text in TEXTS:
        assert model[1].encode(text) == reference(text).input_ids
        assert model[1].encode(text, add_special_tokens=False) == reference(text, add_special_tokens=False).input_ids


def test_special_tokens_are_those_of_transformers(model: Model) -> None:
    reference = transformers.AutoTokenizer.from_pretrained(model[0].folder)
    shown = [token for token in range(model[1].vocab_size) if not model[1].is_special(token)]
    assert not set(reference.all_special_ids) & set(shown)
    assert len(shown) == {49152: 49152 - 17, 262144: 262144 - 6249}[model[1].vocab_size]


@settings(deadline=None)
@given(text=st.one_of(st.text(), st.sampled_from(TEXTS)))
def test_the_joined_bytes_of_tokens_are_the_decoded_text(model: Model, decoder: Tokenizer, text: str) -> None:
    tokens = model[1].encode(text, add_special_tokens=False)
    joined = b"".join(map(model[1].token_bytes, tokens)).decode("utf-8", "replace")
    assert joined == decoder.decode(tokens, skip_special_tokens=False)


@pytest.mark.parametrize("text", TEXTS)
def test_ordinary_text_survives_the_way_there_and_back(model: Model, text: str) -> None:
    assert b"".join(map(model[1].token_bytes, model[1].encode(text, add_special_tokens=False))).decode() == text


@pytest.mark.parametrize(
    "messages",
    [
        [{"role": "user", "content": "Hi <b>&</b>"}],
        [{"role": "system", "content": "S"}, {"role": "user", "content": "U"}, {"role": "assistant", "content": "A"}],
    ],
)
def test_smollms_chat_template_renders_as_in_transformers(smollm: Model, messages: list[dict[str, Any]]) -> None:
    reference = transformers.AutoTokenizer.from_pretrained(smollm[0].folder)
    expected = reference.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
    assert smollm[1].apply_chat_template(messages) == expected
