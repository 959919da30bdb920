"""Chat templates render as in transformers, and what a template refuses is the request's error."""

from typing import Any

import pytest
from transformers.utils.chat_template_utils import render_jinja_template

from sgframe.errors import ModelError, RequestError
from sgframe_hf.chat_template import ChatTemplate, template_sources

TALK = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Is 1 < 2 & 3 > 2? “é” 🙂"},
    {"role": "assistant", "content": "yes", "tool_calls": [{"function": {"name": "f", "arguments": {"a": "<é>"}}}]},
    {"role": "tool", "content": '{"x": 1}'},
]
TOOLS = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object", "title": "<b>é</b>"}}}]
CHATML = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
TEMPLATES = {
    "chatml": CHATML,
    "tools as json": "{{ bos_token }}{% if tools %}{{ tools | tojson }}{{ tools | tojson(indent=2) }}{% endif %}",
    "tool calls": "{% for m in messages %}{% if m.tool_calls %}{{ m.tool_calls[0].function | tojson }}{% endif %}"
    "{% endfor %}",
    "blocks on lines of their own": "{% for m in messages %}\n    {% if m.role == 'user' %}\n  {{ m.content }}\n"
    "    {% endif %}\n{% endfor %}\nend",
    "loop controls": "{% for m in messages %}{% if m.role == 'user' %}{% continue %}{% endif %}{{ m.role }}"
    "{% if loop.index == 3 %}{% break %}{% endif %}{% endfor %}",
    "generation tag": "{% for m in messages %}{% generation %}{{ m.content }}{% endgeneration %}{% endfor %}",
    "namespace": "{% set ns = namespace(n=0) %}{% for m in messages %}{% set ns.n = ns.n + 1 %}{% endfor %}{{ ns.n }}",
    "macro": "{% macro show(m) %}[{{ m.role | upper }}]{% endmacro %}{% for m in messages %}{{ show(m) }}{% endfor %}",
    "unset variables": "{{ nothing }}{{ 'd' if documents else 'none' }}{% if enable_thinking is defined %}t{% endif %}",
}


def template(source: str) -> ChatTemplate:
    return ChatTemplate({"default": source}, {"bos_token": "<s>", "eos_token": "</s>"})


@pytest.mark.parametrize("tools", [None, TOOLS])
@pytest.mark.parametrize("source", TEMPLATES.values(), ids=TEMPLATES)
def test_a_template_renders_as_in_transformers(source: str, tools: list[dict[str, Any]] | None) -> None:
    expected, _ = render_jinja_template(
        [TALK], tools=tools, chat_template=source, add_generation_prompt=True, bos_token="<s>", eos_token="</s>"
    )
    assert template(source).render(TALK, tools, {}) == expected[0]


def test_chatml_ends_with_the_assistants_turn() -> None:
    text = template(CHATML).render([{"role": "user", "content": "Hi"}], None, {})
    assert text == "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"


def test_options_are_variables_of_the_template() -> None:
    text = template("{{ enable_thinking }} {{ add_generation_prompt }}").render(
        TALK, None, {"enable_thinking": False, "add_generation_prompt": False}
    )
    assert text == "False False"


def test_strftime_now_formats_the_present_moment() -> None:
    assert template("{{ strftime_now('%Y') | length }}").render(TALK, None, {}) == "4"


@pytest.mark.parametrize("message", [{"role": "assistant", "content": None}, {"role": "assistant"}])
def test_a_message_without_content_has_an_empty_one(message: dict[str, Any]) -> None:
    assert template(CHATML).render([message], None, {"add_generation_prompt": False}) == (
        "<|im_start|>assistant\n<|im_end|>\n"
    )


def test_tools_choose_the_template_made_for_them() -> None:
    both = ChatTemplate({"default": "plain", "tool_use": "tools"}, {})
    assert (both.render(TALK, None, {}), both.render(TALK, TOOLS, {})) == ("plain", "tools")


def test_what_a_template_refuses_is_told_in_its_own_words() -> None:
    source = "{{ raise_exception('Conversation roles must alternate user/assistant') }}"
    with pytest.raises(RequestError, match=r"^Conversation roles must alternate user/assistant$") as caught:
        template(source).render(TALK, None, {})
    assert caught.value.param == "messages"


@pytest.mark.parametrize(
    "source",
    [
        "{{ messages[0].content + 1 }}",
        "{{ messages[0].nothing.more }}",
        "{{ ''.__class__.__mro__ }}",
        "{{ messages.append(1) }}",
        "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
        "{{ 1 / 0 }}",
    ],
    ids=["type error", "undefined", "sandbox", "immutable", "recursion", "arithmetic"],
)
def test_a_template_that_fails_is_the_requests_error(source: str) -> None:
    with pytest.raises(RequestError) as caught:
        template(source).render(TALK, None, {})
    assert caught.value.param == "messages"


def test_no_messages_are_refused() -> None:
    with pytest.raises(RequestError, match="messages is empty"):
        template(CHATML).render([], None, {})


def test_a_model_without_template_is_called_a_base_model() -> None:
    none = ChatTemplate({}, {})
    assert not none
    with pytest.raises(RequestError, match=r"base model.*/v1/completions"):
        none.render(TALK, None, {})


def test_a_template_that_is_not_jinja_is_named_with_its_line() -> None:
    with pytest.raises(ModelError, match="'default', line 2"):
        ChatTemplate({"default": "ok\n{% for %}"}, {})


def test_template_files_win_over_the_configuration(tmp_path: Any) -> None:
    assert template_sources(tmp_path, {}) == {}
    assert template_sources(tmp_path, {"chat_template": "A"}) == {"default": "A"}
    named = {"chat_template": [{"name": "default", "template": "A"}, {"name": "tool_use", "template": "B"}]}
    assert template_sources(tmp_path, named) == {"default": "A", "tool_use": "B"}
    (tmp_path / "chat_template.jinja").write_text("C")
    (tmp_path / "additional_chat_templates").mkdir()
    (tmp_path / "additional_chat_templates" / "rag.jinja").write_text("D")
    assert template_sources(tmp_path, named) == {"default": "C", "rag": "D"}
