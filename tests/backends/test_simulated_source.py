"""The simulated model source: a whole server's text without torch, transformers or files."""

from __future__ import annotations

from typing import Any

import pytest

from sgframe.errors import ModelError, RequestError
from sgframe.interfaces.source import Checkpoint
from sgframe_simulated import SimulatedSourceSettings
from sgframe_simulated.source import SimulatedSource
from sgframe_simulated.tokenizer import BOS, EOS, IM_END, IM_START, ByteTokenizer

tokenizer = ByteTokenizer()


def test_its_one_model_is_no_file() -> None:
    source = SimulatedSource(SimulatedSourceSettings(context_length=100))
    assert source.resolve("simulated", lambda what, done, total: None) == Checkpoint(
        "simulated", "", 100, 260, (257, 259)
    )
    assert [(entry.name, entry.download_bytes, entry.cached) for entry in source.catalogue()] == [
        ("simulated", 0, True)
    ]


def test_another_name_is_an_error_that_says_what_to_do() -> None:
    with pytest.raises(ModelError, match=r"one model, 'simulated', and not 'llama': .* --source hf"):
        SimulatedSource(SimulatedSourceSettings()).resolve("llama", lambda what, done, total: None)


def test_a_token_is_a_byte() -> None:
    ids = tokenizer.encode("aé€😀", add_special_tokens=False)
    assert ids == [0x61, 0xC3, 0xA9, 0xE2, 0x82, 0xAC, 0xF0, 0x9F, 0x98, 0x80]
    assert b"".join(map(tokenizer.token_bytes, ids)).decode() == "aé€😀"


def test_a_plain_prompt_starts_with_bos() -> None:
    assert tokenizer.encode("a") == [BOS, 97]
    assert tokenizer.encode("") == [BOS]


def test_special_tokens_are_found_in_the_text() -> None:
    assert tokenizer.encode("<|im_start|>a<|b<|im_end|><|eos|>", add_special_tokens=False) == [
        IM_START,
        *b"a<|b",
        IM_END,
        EOS,
    ]


def test_special_tokens_are_known_as_such_and_give_their_names() -> None:
    assert [tokenizer.is_special(token) for token in (0, 255, 256, 259)] == [False, False, True, True]
    assert tokenizer.token_bytes(IM_END) == b"<|im_end|>"
    assert tokenizer.vocab_size == 260


def test_the_chat_template_is_chatml() -> None:
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": "s"},
        {"role": "user", "content": [{"type": "text", "text": "hé"}]},
    ]
    assert tokenizer.apply_chat_template(messages) == (
        "<|im_start|>system\ns<|im_end|>\n<|im_start|>user\nhé<|im_end|>\n<|im_start|>assistant\n"
    )


def test_the_chat_template_shows_tools_and_their_calls() -> None:
    called = {"role": "assistant", "content": None, "tool_calls": [{"id": "1"}]}
    assert tokenizer.apply_chat_template([called], tools=[{"type": "function"}]) == (
        '<|im_start|>system\n[{"type": "function"}]<|im_end|>\n'
        '<|im_start|>assistant\n[{"id": "1"}]<|im_end|>\n<|im_start|>assistant\n'
    )


def test_the_chat_template_refuses_images() -> None:
    with pytest.raises(RequestError, match="reads text only, found a content part of type 'image_url'"):
        tokenizer.apply_chat_template([{"role": "user", "content": [{"type": "image_url"}]}])


def test_an_id_beyond_the_vocabulary_stands_for_no_bytes() -> None:
    assert tokenizer.token_bytes(260) == b""


def test_a_lone_surrogate_is_refused_with_its_place() -> None:
    with pytest.raises(RequestError, match="lone surrogate at character 2"):
        tokenizer.encode("ab\ud800")
