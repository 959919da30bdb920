"""Turns written step by step are what the model's template writes at once."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from chat_templates import ALWAYS_PROMPTING, CHATML, GEMMA, LLAMA_3, MISTRAL, PROMPTLESS, THINKING, TemplateTokenizer

from sgframe.errors import RequestError
from sgframe_programs.content import Content, Given
from sgframe_programs.encoding import Encoder
from sgframe_programs.parts import Begin, End, Text
from sgframe_simulated.tokenizer import BOS, ByteTokenizer

Talk = list[tuple[str, str]]
TALK: Talk = [("user", "Is 1 < 2?"), ("assistant", "Yes."), ("user", "Is 2 < 1?"), ("assistant", "No.")]
SYSTEM = ("system", "Be terse.")
PLAIN = [CHATML, LLAMA_3, MISTRAL, GEMMA, PROMPTLESS]


def content_of(template: str) -> Content:
    tokenizer = TemplateTokenizer(template)
    return Content(tokenizer, Encoder(tokenizer))


def say(content: Content, turns: Iterable[tuple[str, str]]) -> str:
    """The texts that the turns add."""
    parts = [part for role, text in turns for part in (Begin(role), Text(text), End())]
    return "".join(map(content.add, parts))


def at_once(template: str, talk: Talk, *, prompt: bool = False) -> str:
    messages = [{"role": role, "content": text} for role, text in talk]
    return TemplateTokenizer(template).apply_chat_template(messages, add_generation_prompt=prompt)


@pytest.mark.parametrize("length", [1, 2, 3, 4])
@pytest.mark.parametrize("template", PLAIN)
def test_turns_one_by_one_are_the_turns_at_once(template: str, length: int) -> None:
    content = content_of(template)
    told = say(content, TALK[:length])
    assert content.text == told == at_once(template, TALK[:length])


@pytest.mark.parametrize("length", [1, 2, 4])
@pytest.mark.parametrize("template", [CHATML, LLAMA_3, PROMPTLESS])
def test_a_system_turn_stands_first(template: str, length: int) -> None:
    content = content_of(template)
    assert say(content, [SYSTEM, *TALK[:length]]) == content.text == at_once(template, [SYSTEM, *TALK[:length]])


@pytest.mark.parametrize("template", [CHATML, LLAMA_3, MISTRAL, GEMMA, THINKING])
def test_the_assistants_turn_begins_as_the_template_prompts_for_it(template: str) -> None:
    content = content_of(template)
    say(content, TALK[:3])
    content.add(Begin("assistant"))
    assert content.text == at_once(template, TALK[:3], prompt=True)


def test_a_template_without_a_prompt_for_it_begins_the_assistants_turn_like_any() -> None:
    content = content_of(PROMPTLESS)
    say(content, TALK[:1])
    assert content.add(Begin("assistant")) == "<|im_start|>assistant\n"


def test_an_answer_with_the_space_that_the_template_would_put_stays_as_it_is() -> None:
    content = content_of(MISTRAL)
    say(content, [("user", "q"), ("assistant", " a")])
    assert content.add(Begin("user")) == "[INST] "
    assert content.text == "<|bos|>[INST] q[/INST] a<|eos|>[INST] "


async def test_a_choice_stands_as_it_was_scored() -> None:
    content = content_of(MISTRAL)
    say(content, [("user", "q")])
    content.add(Begin("assistant"))
    junction = await content.junction(["Yes", "No"])
    content.choose("Yes", [*junction.shared, *junction.paths[0]])
    content.add(End())
    await content.settle()
    assert content.text == "<|bos|>[INST] q[/INST]Yes<|eos|>"
    assert list(content.ids) == TemplateTokenizer(MISTRAL).encode(content.text, add_special_tokens=False)


def test_a_content_stands_as_written_where_the_template_would_strip_it() -> None:
    content = content_of(LLAMA_3)
    say(content, [("user", " q\n"), ("assistant", " a")])
    content.add(Begin("user"))
    assert content.text == (
        "<|bos|><|start|>user<|end|>\n\n q\n<|eot|><|start|>assistant<|end|>\n\n a<|eot|><|start|>user<|end|>\n\n"
    )


def test_a_system_turn_that_waits_for_the_users_is_written_with_it() -> None:
    content = content_of(MISTRAL)
    assert say(content, [SYSTEM]) == ""
    assert content.add(Begin("user")) == "<|bos|>[INST] Be terse.\n\n"


async def test_nothing_is_generated_in_a_turn_that_is_not_written() -> None:
    content = content_of(MISTRAL)
    content.add(Begin("system"))
    with pytest.raises(RequestError, match="only when another begins"):
        await content.settle()


async def test_a_template_that_moves_the_system_turn_has_the_turns_written_anew() -> None:
    content = content_of(MISTRAL)
    say(content, [SYSTEM, *TALK[:2]])
    await content.settle()
    told = say(content, TALK[2:3])
    await content.settle()
    assert content.text == at_once(MISTRAL, [SYSTEM, *TALK[:3]])
    assert told == "[INST] Be terse.\n\nIs 2 < 1?[/INST]"
    assert list(content.ids) == TemplateTokenizer(MISTRAL).encode(content.text, add_special_tokens=False)


async def test_reasoning_that_the_template_drops_is_dropped_with_its_ids() -> None:
    content = content_of(THINKING)
    say(content, TALK[:1])
    content.add(Begin("assistant"))
    await content.settle()
    before, answer = len(content.ids), "<think>hm</think>\nYes."
    content.give(Given(answer, tuple(answer.encode()), ""))
    content.add(End())
    say(content, TALK[2:3])
    assert content.text == at_once(THINKING, TALK[:3])
    assert len(content.ids) == before  # all before the answer stay
    await content.settle()
    assert list(content.ids) == TemplateTokenizer(THINKING).encode(content.text, add_special_tokens=False)


def test_an_answer_without_reasoning_stays() -> None:
    content = content_of(THINKING)
    told = say(content, TALK[:3])
    assert content.text == told == at_once(THINKING, TALK[:3])


async def test_a_template_that_always_prompts_ends_a_turn_when_it_knows_what_follows() -> None:
    content = content_of(ALWAYS_PROMPTING)
    assert say(content, TALK[:1]) == "<|im_start|>user\nIs 1 < 2?"
    assert content.add(Begin("user")) == "<|im_end|>\n<|im_start|>user\n"
    content.add(End())
    with pytest.raises(RequestError, match="begin the one to generate in"):
        await content.settle()
    assert content.add(Begin("assistant")) == "<|im_end|>\n<|im_start|>assistant\n"


@pytest.mark.parametrize("template", PLAIN)
@pytest.mark.parametrize("before", ["", "Once upon a time. "])
async def test_one_bos(template: str, before: str) -> None:
    content = content_of(template)
    content.add(Text(before))
    say(content, TALK)
    await content.settle()
    say(content, TALK)
    await content.settle()
    expected = 1 if before or "bos_token" in template else 0
    assert list(content.ids).count(BOS) == expected
    assert expected == 0 or content.ids[0] == BOS


def test_a_fork_within_a_turn_goes_on_in_it() -> None:
    content = content_of(CHATML)
    say(content, TALK[:1])
    content.add(Begin("assistant"))
    content.add(Text("Ye"))
    fork = content.fork()
    assert [fork.add(part) for part in (Text("s."), End())] == ["s.", "<|im_end|>\n"]
    assert content.text.endswith("Ye")
    assert fork.text == at_once(CHATML, TALK[:2])


def test_what_a_template_refuses_is_told_in_its_own_words() -> None:
    content = content_of(GEMMA)
    with pytest.raises(RequestError, match="System role not supported"):
        content.add(Begin("system"))


def test_a_model_without_a_template_knows_no_turns() -> None:
    class Plain(ByteTokenizer):
        has_chat_template = False

    with pytest.raises(RequestError, match="no chat template, so it knows no turns; write plain text"):
        Content(Plain(), Encoder(Plain())).add(Begin("user"))


@pytest.mark.parametrize(
    ("parts", "reason"),
    [
        ((Begin("user"), Begin("user")), "a turn of 'user' begins within that of 'user'"),
        ((End(),), "none is open"),
        ((Begin("user"), End(), End()), "none is open"),
    ],
)
def test_turns_begin_and_end_in_turn(parts: tuple[Begin | End, ...], reason: str) -> None:
    content = content_of(CHATML)
    with pytest.raises(RequestError, match=reason):
        for part in parts:
            content.add(part)


def test_text_between_turns_stands_there() -> None:
    content = content_of(CHATML)
    say(content, TALK[:1])
    assert content.add(Text("\n--\n")) == "\n--\n"
    assert content.add(Begin("assistant")) == "<|im_start|>assistant\n"
    assert content.text.endswith("<|im_end|>\n\n--\n<|im_start|>assistant\n")


def test_text_between_turns_that_must_be_written_anew_is_refused() -> None:
    content = content_of(MISTRAL)
    say(content, [SYSTEM, *TALK[:2]])
    content.add(Text("\n--\n"))
    with pytest.raises(RequestError, match="put that text into a turn"):
        content.add(Begin("user"))
